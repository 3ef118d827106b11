//! The language of a text, as far as its words need it: for their stems, and for which of them are stop words.

use std::collections::HashMap;
use std::sync::LazyLock;

use frostem::Algorithm;

use super::characters::{Class, class};
use super::normal::{fold, hash, lower};
use super::stop_words::STOP_WORDS;

/// A language whose words can be brought to their stems, or whose stop words are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names are those of the languages")]
pub enum Language {
    /// Unknown, or one that needs none of this, such as Chinese: words stay as they are.
    #[default]
    None,
    Arabic,
    Armenian,
    Catalan,
    Czech,
    Danish,
    Dutch,
    English,
    Finnish,
    French,
    German,
    Greek,
    Hindi,
    Hungarian,
    Indonesian,
    Italian,
    Norwegian,
    Persian,
    Polish,
    Portuguese,
    Romanian,
    Russian,
    Spanish,
    Swedish,
    Tamil,
    Turkish,
    Ukrainian,
    /// Has stop words, and no stems: its words never change.
    Vietnamese,
}

impl Language {
    /// Snowball's algorithm for the stems of the language.
    pub(super) const fn algorithm(self) -> Option<Algorithm> {
        Some(match self {
            Self::None | Self::Vietnamese => return None,
            Self::Arabic => Algorithm::Arabic,
            Self::Armenian => Algorithm::Armenian,
            Self::Catalan => Algorithm::Catalan,
            Self::Czech => Algorithm::Czech,
            Self::Danish => Algorithm::Danish,
            Self::Dutch => Algorithm::Dutch,
            Self::English => Algorithm::English,
            Self::Finnish => Algorithm::Finnish,
            Self::French => Algorithm::French,
            Self::German => Algorithm::German,
            Self::Greek => Algorithm::Greek,
            Self::Hindi => Algorithm::Hindi,
            Self::Hungarian => Algorithm::Hungarian,
            Self::Indonesian => Algorithm::Indonesian,
            Self::Italian => Algorithm::Italian,
            Self::Norwegian => Algorithm::Norwegian,
            Self::Persian => Algorithm::Persian,
            Self::Polish => Algorithm::Polish,
            Self::Portuguese => Algorithm::Portuguese,
            Self::Romanian => Algorithm::Romanian,
            Self::Russian => Algorithm::Russian,
            Self::Spanish => Algorithm::Spanish,
            Self::Swedish => Algorithm::Swedish,
            Self::Tamil => Algorithm::Tamil,
            Self::Turkish => Algorithm::Turkish,
            Self::Ukrainian => Algorithm::Ukrainian,
        })
    }

    /// Whether words that differ in their accents alone are most often different words.
    pub(super) const fn accents_tell(self) -> bool {
        matches!(self, Self::Vietnamese)
    }

    const fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// Which languages have a stop word, one bit for each, by the hash of the word.
struct Tables {
    /// Words as they are written, in small letters: these tell languages apart.
    written: HashMap<u64, u32>,
    /// Words without accents: a query may be typed that way.
    folded: HashMap<u64, u32>,
}

static TABLES: LazyLock<Tables> = LazyLock::new(|| {
    let mut tables = Tables { written: HashMap::new(), folded: HashMap::new() };
    for &(language, words) in STOP_WORDS {
        for word in words.split(' ') {
            *tables.written.entry(hash(word.as_bytes())).or_default() |= language.bit();
            let mut folded = String::new();
            fold(word, &mut folded);
            *tables.folded.entry(hash(folded.as_bytes())).or_default() |= language.bit();
        }
    }
    tables
});

/// Bytes that are read at the start of a text to guess its language, and again in its middle.
const SAMPLE: usize = 3072;

/// How many characters a word has in scripts that put no spaces between words, about.
const CHARACTERS_A_WORD: usize = 2;

/// The language of a text, guessed from its stop words in at most six kilobytes of it.
///
/// [`Language::None`] where too few words are stop words of any language: Chinese, Thai, code, a list of names.
/// The query is read in the language of its page, so that its words meet the page's.
#[must_use]
pub fn guess_language(text: &str) -> Language {
    let mut hits = [0_usize; 32];
    let mut words = 0;
    let mut count = |sample: &str| {
        let unspaced = for_words(sample, |word| {
            words += 1;
            let mut languages = TABLES.written.get(&hash(word.as_bytes())).copied().unwrap_or(0);
            while languages != 0 {
                hits[languages.trailing_zeros() as usize] += 1;
                languages &= languages - 1;
            }
        });
        words += unspaced / CHARACTERS_A_WORD;
    };
    let boundary = |from: usize| (from..=text.len()).find(|&at| text.is_char_boundary(at)).unwrap_or(text.len());
    if text.len() <= 2 * SAMPLE {
        count(text);
    } else {
        let middle = boundary(text.len() / 2);
        count(&text[..boundary(SAMPLE)]);
        count(&text[middle..boundary(middle + SAMPLE)]);
    }
    let (mut best, mut most) = (Language::None, 0);
    for &(language, _) in STOP_WORDS {
        let found = hits[language as usize];
        if found > most {
            (best, most) = (language, found);
        }
    }
    // Real text has 15 to 50 stop words of its tables in a hundred words; other languages share a few by chance.
    if most >= 2 && most * 100 >= words * 7 { best } else { Language::None }
}

/// Whether a word, written in any way, is a stop word of a language.
pub(super) fn is_stop_word(word: &str, language: Language) -> bool {
    let (mut lowered, mut folded) = (String::new(), String::new());
    lower(word, language, &mut lowered);
    fold(&lowered, &mut folded);
    TABLES.folded.get(&hash(folded.as_bytes())).is_some_and(|languages| languages & language.bit() != 0)
}

/// Calls `found` with every run of letters, in small letters; returns how many characters are of scripts that put no
/// spaces between words.
fn for_words(text: &str, mut found: impl FnMut(&str)) -> usize {
    let mut unspaced = 0;
    let mut lowered = String::new();
    let between_words = |c: char| {
        let class = class(c);
        unspaced += usize::from(class.is_east_asian() || class == Class::SoutheastAsian);
        !matches!(class, Class::Letter | Class::Capital)
    };
    for word in text.split(between_words).filter(|word| !word.is_empty()) {
        if word.bytes().all(|byte| byte.is_ascii_lowercase()) {
            found(word);
        } else {
            lowered.clear();
            lower(word, Language::None, &mut lowered);
            found(&lowered);
        }
    }
    unspaced
}
