//! The normal form of a word: lower case, stemmed, without accents; and its term.

use std::hash::Hasher;

use frostem::Stemmer;
use rustc_hash::FxHasher;
use unicode_normalization::char::{compose, decompose_compatible};

use super::characters::digit_value;
use super::irregular::base;
use super::suffixes::bengali_stem;
use super::{Language, Term};

/// Longer words get no stem: no language has them. In bytes.
const LONGEST_WORD: usize = 64;

/// Enough for the vocabulary of a page.
const CACHE_SLOTS: usize = 2048;

/// Turns words into terms.
///
/// Words repeat, so terms are cached by the hash of the word's bytes: most words cost one hash and one lookup. The
/// cache is direct-mapped: a word replaces the one in its slot.
pub(super) struct Normalizer {
    language: Language,
    stemmer: Option<Stemmer>,
    cache: Vec<(u64, Term)>,
    /// Reused for the current word in lower case.
    lowered: String,
    /// Reused for the current word without accents.
    folded: String,
}

impl Normalizer {
    pub(super) fn new(language: Language) -> Self {
        let stemmer = language.algorithm().map(Stemmer::new);
        let cache = vec![(0, Term(0)); CACHE_SLOTS];
        Self { language, stemmer, cache, lowered: String::new(), folded: String::new() }
    }

    /// The term of a word, or part of a word, that consists of letters.
    pub(super) fn word(&mut self, word: &str) -> Term {
        let key = hash(word.as_bytes());
        #[expect(clippy::cast_possible_truncation, reason = "the low bits choose the slot")]
        let slot = key as usize % CACHE_SLOTS;
        if self.cache[slot].0 == key {
            return self.cache[slot].1;
        }
        self.lowered.clear();
        lower(word, self.language, &mut self.lowered);
        let term = self.finish(true);
        self.cache[slot] = (key, term);
        term
    }

    /// The term of the word without its accents, if that differs from [`Self::word`]'s.
    pub(super) fn unaccented(&mut self, word: &str) -> Option<Term> {
        if !self.language.accents_distinguish_words() || word.is_ascii() {
            return None;
        }
        self.lowered.clear();
        self.folded.clear();
        lower(word, self.language, &mut self.lowered);
        fold(&self.lowered, &mut self.folded);
        (self.folded != self.lowered).then(|| Term(hash(self.folded.as_bytes())))
    }

    /// An empty buffer for a lower-case word that the caller composes from parts.
    pub(super) fn begin(&mut self) -> (&mut String, Language) {
        self.lowered.clear();
        (&mut self.lowered, self.language)
    }

    /// The term of the word in the buffer of [`Self::begin`]; only words of letters are stemmed.
    pub(super) fn finish(&mut self, all_letters: bool) -> Term {
        if all_letters
            && self.language == Language::English
            && let Some(base) = base(&self.lowered)
        {
            base.clone_into(&mut self.lowered);
        }
        let algorithm = self.stemmer.filter(|_| all_letters && self.lowered.len() <= LONGEST_WORD);
        let stem = algorithm.map(|algorithm| algorithm.stem(&self.lowered));
        let word = stem.as_deref().unwrap_or(&self.lowered);
        if word.is_ascii() || self.language.accents_distinguish_words() {
            return Term(hash(word.as_bytes()));
        }
        self.folded.clear();
        fold(word, &mut self.folded);
        Term(hash(bengali_stem(&self.folded).as_bytes()))
    }
}

/// Stable within one build of this library.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(bytes);
    hasher.finish()
}

/// Appends a word in lower case, composed, with ASCII digits, and without invisible characters.
pub(super) fn lower(word: &str, language: Language, out: &mut String) {
    let start = out.len();
    if word.is_ascii() && !(language == Language::Turkish && word.contains('I')) {
        out.push_str(word);
        out[start..].make_ascii_lowercase();
        return;
    }
    for c in word.chars() {
        match c {
            'I' if language == Language::Turkish => out.push('ı'),
            'İ' => out.push('i'),
            '\u{ad}' | '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' => {}
            // Stemmers expect accented letters as one character; a page may encode them as two.
            '\u{300}'..='\u{36f}' => {
                let composed = out[start..].chars().next_back().and_then(|before| compose(before, c));
                if composed.is_some() {
                    out.pop();
                }
                out.push(composed.unwrap_or(c));
            }
            '\u{ff01}'..='\u{ff5e}' | '\u{1d400}'..='\u{1d7ff}' | '\u{fb00}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}' => {
                decompose_compatible(c, |plain| out.extend(plain.to_lowercase()));
            }
            _ => match digit_value(c) {
                Some(value) => out.push(char::from(b'0' + value)),
                None => out.extend(c.to_lowercase()),
            },
        }
    }
}

/// Appends a word without accents and vowel points, and with one spelling of letters that writers use interchangeably.
pub(super) fn fold(word: &str, out: &mut String) {
    for c in word.chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            decompose_compatible(c, |part| fold_character(part, out));
        }
    }
}

fn fold_character(c: char, out: &mut String) {
    match c {
        // Accents; Hebrew points; Arabic vowel signs and tatweel; the nukta of Hindi, Bengali and Punjabi.
        '\u{300}'..='\u{36f}'
        | '\u{591}'..='\u{5c7}'
        | '\u{640}'
        | '\u{64b}'..='\u{65f}'
        | '\u{670}'
        | '\u{93c}'
        | '\u{9bc}'
        | '\u{a3c}' => {}
        'ß' => out.push_str("ss"),
        'æ' => out.push_str("ae"),
        'œ' => out.push_str("oe"),
        'þ' => out.push_str("th"),
        'ø' => out.push('o'),
        'ð' | 'đ' => out.push('d'),
        'ł' => out.push('l'),
        'ħ' => out.push('h'),
        'ı' => out.push('i'),
        'ς' => out.push('σ'),
        // Arabic: teh marbuta, both forms of the final yeh, Persian kaf and yeh, and Urdu heh.
        'ة' | 'ہ' | 'ۃ' | 'ە' => out.push('ه'),
        'ى' | 'ی' => out.push('ي'),
        'ک' => out.push('ك'),
        _ => out.push(c),
    }
}
