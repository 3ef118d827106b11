//! Suffixes in languages without a Snowball stemmer: Korean particles and Bengali cases.
//!
//! Both are written on nouns without a space, and a query for the noun must match them. Stripping too much does little
//! harm, because the query's words and the page's lose the same letters.

/// Suffixes of Bengali nouns, each before its own suffixes, in the form that `fold` produces.
const BENGALI_CASES: &[&str] = &[
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

/// Two letters: shorter stems are too ambiguous.
const MIN_STEM_BYTES: usize = 6;

/// Strips Bengali case suffixes; returns words of other scripts unchanged.
pub(super) fn bengali_stem(word: &str) -> &str {
    let mut stem = word;
    if word.starts_with(|c| matches!(c, '\u{980}'..='\u{9ff}')) {
        while let Some(shorter) =
            BENGALI_CASES.iter().find_map(|case| stem.strip_suffix(case)).filter(|stem| stem.len() >= MIN_STEM_BYTES)
        {
            stem = shorter;
        }
    }
    stem
}

/// The length in bytes of a Korean noun before its particle; `None` without a particle.
pub(super) fn korean_noun(word: &str) -> Option<usize> {
    let starts = word.char_indices().rev().take(3).map(|(at, _)| at);
    starts.filter(|&at| at > 0 && is_particle(&word[at..])).last()
}

fn is_particle(suffix: &str) -> bool {
    matches!(
        suffix,
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
