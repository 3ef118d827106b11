//! The language of a text, guessed from its stop words.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::Language;
use super::characters::{CharClass, class};
use super::normalizer::{fold, hash, lower};
use super::stop_words::STOP_WORDS;

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
