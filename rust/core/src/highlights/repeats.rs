//! Repeats: passages that say again what a better one said, word for word or nearly so.
//!
//! A passage is the set of its runs of three words. It repeats others where nearly all of these were read before; what
//! changes a number or a name in a short sentence changes more runs than that. Navigation, licences and copies go.

use std::hash::{Hash, Hasher};

use rustc_hash::{FxHashSet, FxHasher};

use crate::ranking::terms::{Language, Term, terms};

/// Words in a run.
const RUN: usize = 3;

/// How many of its runs, in tenths, a repeat has from what was read before.
const TENTHS_KNOWN: usize = 8;

/// What was read so far.
#[derive(Debug, Default)]
pub(super) struct Read {
    runs: FxHashSet<u64>,
}

impl Read {
    /// Reads a passage, unless it repeats what was read; says whether it did.
    pub(super) fn repeats(&mut self, text: &str, language: Language) -> bool {
        let runs = runs(text, language);
        let known = runs.iter().filter(|run| self.runs.contains(run)).count();
        let repeats = 10 * known >= TENTHS_KNOWN * runs.len();
        if !repeats {
            self.runs.extend(runs);
        }
        repeats
    }
}

/// The different runs of a text's words; of its characters, where it has no words. Never empty.
fn runs(text: &str, language: Language) -> FxHashSet<u64> {
    let words: Vec<Term> = terms(text, language).into_iter().map(|found| found.term).collect();
    if words.is_empty() {
        return FxHashSet::from_iter([hashed(text)]);
    }
    words.windows(RUN.min(words.len())).map(hashed).collect()
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
    fn what_was_read_is_known_again_and_what_is_new_is_not() {
        let mut read = Read::default();
        let mut repeats = |text: &str| read.repeats(text, Language::English);
        assert!(!repeats("The museum opens at nine every morning, and closes at five."));
        assert!(repeats("The Museum opens at nine every morning and closes at five"));
        assert!(repeats("opens at nine every morning"), "a part of it");
        assert!(!repeats("The museum opens at ten every Sunday, and closes at four."));
        assert!(!repeats("Home"));
        assert!(repeats("HOME!"));
        assert!(!repeats("---"));
        assert!(repeats("---"));
        assert!(!repeats("***"));
        assert!(!repeats("我来到北京清华大学"));
        assert!(repeats("我来到北京清华大学。"));
    }
}
