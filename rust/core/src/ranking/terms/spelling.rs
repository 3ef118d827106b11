//! Misspelled words of a query: the word of the page that was meant.

use std::collections::HashMap;

use strsim::osa_distance;

use super::normalizer::lower;
use super::{Language, PageTerms, QueryTerm, Term, TermRole, scan};
use crate::error::Result;
use crate::runtime::call::{Check, Checkpoints};

/// Weight of a word of the page that is only close to one of the query.
const CORRECTED_WEIGHT: f32 = 0.9;

/// Letters of the shortest word that is corrected, and of the shortest one with two errors.
const MIN_LETTERS: usize = 5;
const MIN_LETTERS_FOR_TWO: usize = 8;

/// Bytes of the longest word that is corrected.
const MAX_BYTES: usize = 256;

/// Words of a query that are corrected, because each is compared with all of the page.
const MAX_CORRECTED: usize = 32;

/// A comparison counts as this many bytes of text between two checks.
const BYTES_PER_WORD: usize = 16;

/// Replaces the terms that the page lacks, and the model's vocabulary too, by the page's closest ones.
pub(crate) fn correct_spelling(
    terms: &mut [QueryTerm],
    page_terms: &PageTerms,
    text: &str,
    language: Language,
    check: &Check,
) -> Result<()> {
    let missing = page_terms.find(terms).missing();
    let is_misspelled =
        |(term, missing): &(&mut QueryTerm, bool)| *missing && term.rarity >= 1.0 && may_be_misspelled(&term.text);
    let misspelled: Vec<&mut QueryTerm> =
        terms.iter_mut().zip(missing).filter(is_misspelled).map(|(term, _)| term).take(MAX_CORRECTED).collect();
    if misspelled.is_empty() {
        return Ok(());
    }
    let words: Vec<&str> = misspelled.iter().map(|term| term.text.as_str()).collect();
    let closest = closest_terms(&words, text, language, check)?;
    for (term, closest) in misspelled.into_iter().zip(closest) {
        if let Some(closest) = closest {
            (term.term, term.weight) = (closest, CORRECTED_WEIGHT * term.weight);
        }
    }
    Ok(())
}

/// For each word the term of the closest word of a text, by letters left out, added, replaced or swapped; `None` if
/// none is close and has its first letter. Of equally close words, the most frequent.
///
/// Takes time linear in the text, plus a comparison of each word with each distinct word of nearly its length.
fn closest_terms(words: &[&str], text: &str, language: Language, check: &Check) -> Result<Vec<Option<Term>>> {
    let lowered = |word: &str| {
        let mut out = String::new();
        lower(word, language, &mut out);
        out
    };
    let words: Vec<String> = words.iter().map(|word| lowered(word)).collect();
    let lengths: Vec<usize> = words.iter().map(|word| word.chars().count()).collect();
    let mut known: HashMap<&str, (Term, usize)> = HashMap::new();
    scan(text, language, check, &mut |term, span, role| {
        if role == TermRole::Whole {
            known.entry(span.of(text)).or_insert((term, 0)).1 += 1;
        }
    })?;
    let mut checkpoints = Checkpoints::new(check);
    let mut best = vec![None; words.len()];
    for (index, (word, (term, count))) in known.into_iter().enumerate() {
        checkpoints.reach(index * BYTES_PER_WORD * words.len())?;
        let (length, mut lower) = (word.chars().count(), None);
        for (number, (query, &letters)) in words.iter().zip(&lengths).enumerate() {
            let allowed = if letters >= MIN_LETTERS_FOR_TWO { 2 } else { 1 };
            if letters < MIN_LETTERS || letters.abs_diff(length) > allowed {
                continue;
            }
            let lower = lower.get_or_insert_with(|| lowered(word));
            // Errors rarely change the first letter; another one makes another name.
            if lower.chars().next() != query.chars().next() {
                continue;
            }
            let distance = osa_distance(query, lower);
            let rank = (std::cmp::Reverse(distance), count, term);
            if distance <= allowed && best[number].is_none_or(|best| rank > best) {
                best[number] = Some(rank);
            }
        }
    }
    Ok(best.into_iter().map(|best| best.map(|(_, _, term)| term)).collect())
}

/// Whether a word may be a misspelled one: long enough, and of letters only.
fn may_be_misspelled(word: &str) -> bool {
    word.len() <= MAX_BYTES && word.chars().count() >= MIN_LETTERS && word.chars().all(char::is_alphabetic)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranking::terms::terms;
    use crate::runtime::call::unstopped;

    #[test]
    fn misspelled_words_meet_the_closest_of_the_page() {
        let text = "The default port is 26379. A defect is not a default. Recovered files.";
        let term = |word: &str| Some(terms(word, Language::English)[0].term);
        let closest = |word: &str| closest_terms(&[word], text, Language::English, &unstopped).unwrap()[0];
        assert_eq!(closest("deafult"), term("default"));
        assert_eq!(closest("Defualt"), term("default"));
        assert_eq!(closest("recoverd"), term("recovered"));
        assert_eq!(closest("prot"), None, "too short");
        assert_eq!(closest("museum"), None);
    }
}
