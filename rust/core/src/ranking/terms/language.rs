//! The language of a text, for stemming and stop words.

use std::collections::HashMap;
use std::sync::LazyLock;

use frostem::Algorithm;

use super::characters::{CharClass, class};
use super::normalizer::{fold, hash, lower};
use super::stop_words::STOP_WORDS;

/// A language with a stemmer or a list of stop words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Language {
    /// Unknown, or one that needs neither, such as Chinese: words stay as they are.
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
    /// Has stop words and no stemmer, because its words never change.
    Vietnamese,
}

impl Language {
    /// Snowball's stemmer of the language.
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

    /// Whether words that differ only in accents are mostly different words.
    pub(super) const fn accents_distinguish_words(self) -> bool {
        matches!(self, Self::Vietnamese)
    }

    const fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// The languages that have a stop word, one bit each, by the hash of the word.
struct Tables {
    /// Lower-case words with their accents, for guessing the language.
    written: HashMap<u64, u32>,
    /// Words without accents, for queries typed without them.
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

/// Bytes sampled at the start of a text, and again from its middle, to guess its language.
const SAMPLE_BYTES: usize = 3072;

/// Average word length in scripts without spaces.
const CHARACTERS_PER_WORD: usize = 2;

/// Guesses the language of a text from its stop words, in at most six kilobytes of it.
///
/// Returns [`Language::None`] if few words are stop words of any language: Chinese, Thai, code, a list of names.
/// Queries take the language of their page, so that their words match the page's.
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
        words += unspaced / CHARACTERS_PER_WORD;
    };
    let boundary = |from: usize| (from..=text.len()).find(|&at| text.is_char_boundary(at)).unwrap_or(text.len());
    if text.len() <= 2 * SAMPLE_BYTES {
        count(text);
    } else {
        let middle = boundary(text.len() / 2);
        count(&text[..boundary(SAMPLE_BYTES)]);
        count(&text[middle..boundary(middle + SAMPLE_BYTES)]);
    }
    let (mut best, mut most) = (Language::None, 0);
    for &(language, _) in STOP_WORDS {
        let count = hits[language as usize];
        if count > most {
            (best, most) = (language, count);
        }
    }
    // 15 to 50 % of the words of real text are stop words of its language. Other languages share a few by chance.
    if most >= 2 && most * 100 >= words * 7 { best } else { Language::None }
}

/// Whether a word is a stop word of a language, in any case and with or without accents.
pub(super) fn is_stop_word(word: &str, language: Language) -> bool {
    let (mut lowered, mut folded) = (String::new(), String::new());
    lower(word, language, &mut lowered);
    fold(&lowered, &mut folded);
    TABLES.folded.get(&hash(folded.as_bytes())).is_some_and(|languages| languages & language.bit() != 0)
}

/// Calls `each` with every run of letters, in lower case. Returns the number of characters in scripts without spaces.
fn for_words(text: &str, mut each: impl FnMut(&str)) -> usize {
    let mut unspaced = 0;
    let mut lowered = String::new();
    let between_words = |c: char| {
        let class = class(c);
        unspaced += usize::from(class.is_east_asian() || class == CharClass::SoutheastAsian);
        !matches!(class, CharClass::Letter | CharClass::Capital)
    };
    for word in text.split(between_words).filter(|word| !word.is_empty()) {
        if word.bytes().all(|byte| byte.is_ascii_lowercase()) {
            each(word);
        } else {
            lowered.clear();
            lower(word, Language::None, &mut lowered);
            each(&lowered);
        }
    }
    unspaced
}
