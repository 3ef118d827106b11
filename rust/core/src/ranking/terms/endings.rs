//! Endings of words in languages that Snowball has no stemmer for: Korean's particles, Bengali's cases.
//!
//! Both hang on nouns without a space, and a query for the noun shall meet them. A few letters too many do no harm where
//! they are taken off the query's word as well as the page's.

/// What hangs on Bengali nouns, the longer before what it ends with; in the form that `fold` leaves.
const CASES: &[&str] = &[
    "গুল\u{9c7}\u{9be}ক\u{9c7}",
    "গুল\u{9c7}\u{9be}র",
    "গুলির",
    "গুল\u{9c7}\u{9be}",
    "গুলি",
    "দের",
    "টির",
    "টার",
    "ের",
    "কে",
    "তে",
    "রা",
    "টি",
    "টা",
    "ে",
    "য",
    "র",
];

/// A Bengali word keeps this many bytes: two letters.
const KEPT: usize = 6;

/// A word without the endings of Bengali; a word of another script as it is.
pub(super) fn bengali_stem(word: &str) -> &str {
    let mut stem = word;
    if word.starts_with(|c| matches!(c, '\u{980}'..='\u{9ff}')) {
        while let Some(shorter) =
            CASES.iter().find_map(|case| stem.strip_suffix(case)).filter(|kept| kept.len() >= KEPT)
        {
            stem = shorter;
        }
    }
    stem
}

/// How many bytes of a Korean word stand before its particle; nothing where it has none.
pub(super) fn korean_noun(word: &str) -> Option<usize> {
    let starts = word.char_indices().rev().take(3).map(|(at, _)| at);
    starts.filter(|&at| at > 0 && is_particle(&word[at..])).last()
}

/// Whether this hangs on Korean nouns.
fn is_particle(ending: &str) -> bool {
    matches!(
        ending,
        "은" | "는"
            | "이"
            | "가"
            | "을"
            | "를"
            | "의"
            | "에"
            | "에서"
            | "에는"
            | "에도"
            | "에서는"
            | "에게"
            | "께"
            | "께서"
            | "한테"
            | "로"
            | "으로"
            | "로서"
            | "으로서"
            | "와"
            | "과"
            | "랑"
            | "이랑"
            | "도"
            | "만"
            | "까지"
            | "부터"
            | "보다"
            | "처럼"
            | "마다"
            | "이나"
            | "라도"
            | "이라도"
            | "이다"
            | "이며"
            | "이고"
            | "인"
            | "입니다"
    )
}
