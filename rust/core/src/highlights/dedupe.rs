//! Finds passages that nearly repeat a better one, such as navigation, licences and copies.
//!
//! A passage is the set of its shingles: runs of three words. It is a duplicate if nearly all of them are in earlier
//! passages. Another number or name in a short sentence changes more shingles than that.

use std::hash::{Hash, Hasher};

use rustc_hash::{FxHashMap, FxHashSet, FxHasher};

use crate::ranking::terms::{Language, Term, terms};

const SHINGLE_WORDS: usize = 3;

/// Share of its shingles that a duplicate has from earlier passages, in tenths.
const MIN_SEEN_TENTHS: usize = 8;

/// Hashes of the shingles of selected passages, each with the first passage that has it.
#[derive(Debug)]
pub(super) struct SeenShingles<Passage>(FxHashMap<u64, Passage>);

impl<Passage> Default for SeenShingles<Passage> {
    fn default() -> Self {
        Self(FxHashMap::default())
    }
}

impl<Passage: Copy + Ord> SeenShingles<Passage> {
    /// The earlier passage that has the most of a passage's shingles, if it repeats earlier ones. If not, its shingles
    /// are added.
    pub(super) fn repeated(&mut self, passage: Passage, text: &str, language: Language) -> Option<Passage> {
        let shingles = shingles(text, language);
        let mut seen: Vec<Passage> = shingles.iter().filter_map(|shingle| self.0.get(shingle).copied()).collect();
        if 10 * seen.len() < MIN_SEEN_TENTHS * shingles.len() {
            for shingle in shingles {
                self.0.entry(shingle).or_insert(passage);
            }
            return None;
        }
        seen.sort_unstable();
        // Of equals the first.
        seen.chunk_by(|a, b| a == b).rev().max_by_key(|same| same.len()).map(|same| same[0])
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
        let mut number = 0;
        let mut is_duplicate = |text: &str| {
            number += 1;
            seen.repeated(number, text, Language::English).is_some()
        };
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

    #[test]
    fn repeated_is_the_passage_with_most_in_common() {
        let mut seen = SeenShingles::default();
        let mut repeated = |passage: usize, text: &str| seen.repeated(passage, text, Language::English);
        assert_eq!(repeated(1, "The moon is very far away from here."), None);
        assert_eq!(repeated(2, "Bread is baked from flour and from water and salt."), None);
        assert_eq!(repeated(3, "Bread is baked from flour and from water and salt. The moon is very."), Some(2));
        assert_eq!(repeated(4, "the moon is very far away"), Some(1));
    }
}
