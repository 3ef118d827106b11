//! Finds passages that nearly repeat a better one, such as navigation, licences and copies.
//!
//! A passage is the set of its shingles: runs of three words. It is a duplicate if nearly all of them are in earlier
//! passages. Another number or name in a short sentence changes more shingles than that.

use std::hash::{Hash, Hasher};

use rustc_hash::{FxHashSet, FxHasher};

use crate::ranking::terms::{Language, Term, terms};

const SHINGLE_WORDS: usize = 3;

/// Share of its shingles that a duplicate has from earlier passages, in tenths.
const MIN_SEEN_TENTHS: usize = 8;

/// Hashes of the shingles of selected passages.
#[derive(Debug, Default)]
pub(super) struct SeenShingles(FxHashSet<u64>);

impl SeenShingles {
    /// Whether a passage repeats earlier ones. If not, its shingles are added.
    pub(super) fn is_duplicate(&mut self, text: &str, language: Language) -> bool {
        let shingles = shingles(text, language);
        let seen = shingles.iter().filter(|shingle| self.0.contains(shingle)).count();
        let is_duplicate = 10 * seen >= MIN_SEEN_TENTHS * shingles.len();
        if !is_duplicate {
            self.0.extend(shingles);
        }
        is_duplicate
    }
}

/// The text itself is the only shingle if it has no words, so the set is never empty.
fn shingles(text: &str, language: Language) -> FxHashSet<u64> {
    let words: Vec<Term> = terms(text, language).into_iter().map(|word| word.term).collect();
    if words.is_empty() {
        return FxHashSet::from_iter([hashed(text)]);
    }
    words.windows(SHINGLE_WORDS.min(words.len())).map(hashed).collect()
}

fn hashed(value: impl Hash) -> u64 {
    let mut hasher = FxHasher::default();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_duplicates_are_found_and_changed_facts_are_not() {
        let mut seen = SeenShingles::default();
        let mut is_duplicate = |text: &str| seen.is_duplicate(text, Language::English);
        assert!(!is_duplicate("The museum opens at nine every morning, and closes at five."));
        assert!(is_duplicate("The Museum opens at nine every morning and closes at five"));
        assert!(is_duplicate("opens at nine every morning"), "a part of it");
        assert!(!is_duplicate("The museum opens at ten every Sunday, and closes at four."));
        assert!(!is_duplicate("Home"));
        assert!(is_duplicate("HOME!"));
        assert!(!is_duplicate("---"));
        assert!(is_duplicate("---"));
        assert!(!is_duplicate("***"));
        assert!(!is_duplicate("我来到北京清华大学"));
        assert!(is_duplicate("我来到北京清华大学。"));
    }
}
