//! Relevance: the cosine and the words of a unit in one number.
//!
//! Cosines and BM25 scores have different scales, which vary with the model and the query. Both become z-scores over
//! all windows of the page: `z = (value - mean) / deviation`. A window's relevance is `(1 - lexical_weight) *
//! z(cosine) + lexical_weight * z(BM25)`. A sentence's takes the best windows around it, and adds coverage:
//!
//! ```text
//! semantic  = best z(cosine) of the windows around it
//! lexical   = 2/3 of their best z(BM25) + 8 coverage(sentence) + 2 coverage(paragraph) + 2 added by the nearest name
//! relevance = ((1 - lexical_weight) * semantic + lexical_weight * lexical) / 1.4
//! ```
//!
//! Coverage is the share of the query in a range (see [`crate::ranking::terms::QueryPostings::coverage`]). What
//! names the sentence's subject, such as the headings above it, adds what it covers and the sentence does not: the
//! innermost name alone here, all of them and as much as the sentence itself in the order of passages. Relevance
//! compares the windows of one page; [`super::probability`] tells how good they are.
//! docs/decisions/0001-passages-and-relevance.md has the trials of the constants.

use std::collections::VecDeque;
use std::ops::Range;

use crate::error::{Error, Result};

/// The weight of words against the cosine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LexicalWeight {
    /// One half, raised for scripts that the model's tokenizer does not know, and lowered if hardly any word of the
    /// query is on any page.
    Auto,
    /// From 0, the cosine alone, to 1, words alone.
    Weight(f32),
}

/// Mean and standard deviation of a kind of score over the windows of a request.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    mean: f64,
    spread: f64,
}

/// Assumed values, weighted as `PRIOR_WINDOWS` windows: a page of one sentence has no deviation of its own.
#[derive(Clone, Copy, Debug)]
pub struct Prior {
    pub(super) mean: f64,
    pub(super) spread: f64,
}

const PRIOR_WINDOWS: f64 = 4.0;

/// Typical cosines of small English models between questions and sentences.
pub const COSINE: Prior = Prior { mean: 0.15, spread: 0.15 };
/// Most windows share no word with the query.
pub const BM25: Prior = Prior { mean: 0.0, spread: 1.0 };

impl Scale {
    /// Estimates mean and deviation.
    pub fn of<'values>(values: impl Iterator<Item = &'values f32>, prior: Prior) -> Self {
        Self::with_squares(&values.copied().collect::<Vec<f32>>(), 0.0, prior)
    }

    /// Estimates them from values of which some are expected ones: `squares` is the sum of their variances.
    #[expect(clippy::cast_precision_loss, reason = "a number of windows")]
    pub fn with_squares(values: &[f32], squares: f64, prior: Prior) -> Self {
        let windows = values.len() as f64 + PRIOR_WINDOWS;
        let sum: f64 = values.iter().map(|value| f64::from(*value)).sum();
        let mean = (sum + PRIOR_WINDOWS * prior.mean) / windows;
        let squares = squares + values.iter().map(|value| (f64::from(*value) - mean).powi(2)).sum::<f64>();
        let prior_squares = PRIOR_WINDOWS * (prior.spread.powi(2) + (prior.mean - mean).powi(2));
        Self { mean, spread: ((squares + prior_squares) / windows).sqrt() }
    }

    /// The value with this z-score.
    pub fn at(self, z: f64) -> f64 {
        self.mean + z * self.spread
    }

    pub fn all(self, values: &[f32]) -> Vec<f32> {
        values.iter().map(|value| self.z(f64::from(*value))).collect()
    }

    #[expect(clippy::cast_possible_truncation, reason = "values are single precision to begin with")]
    pub fn z(self, value: f64) -> f32 {
        ((value - self.mean) / self.spread) as f32
    }
}

/// Weight of BM25 in a sentence's lexical score: a sentence is too short for BM25, so this is its windows'.
const BM25_WEIGHT: f32 = 2.0 / 3.0;
/// Weight of a sentence's coverage, in deviations: half of the query in one sentence is as rare as z = 4.
const SENTENCE_WEIGHT: f32 = 8.0;
/// Weight of its paragraph's coverage. A paragraph names its subject once, and the answer follows.
const PARAGRAPH_WEIGHT: f32 = 2.0;
/// Weight of what its innermost name covers (a heading, a question, a parent item) and the sentence does not. In the order
/// of passages all its names count as the sentence's own words do; in the relevance by which they grow that makes them
/// longer.
const NAME_WEIGHT: f32 = 2.0;
/// The relevance of the best sentences spreads wider than that of the best windows, by this factor.
pub const UNIT_SPREAD: f32 = 1.4;
/// From this coverage of the best sentence on, words get their full weight.
const TRUSTED_COVERAGE: f32 = 0.3;
/// The same in the order of passages. In the relevance by which they grow, less weight of words makes them longer.
const TRUSTED_IN_ORDER: f32 = 0.45;
/// Weight of a unit's own cosine, if units are encoded.
const UNIT_COSINE_WEIGHT: f32 = 1.0 / 3.0;

/// For each unit the largest value of the windows around it; `none` for a unit in no window. Windows are in the order of
/// their starts and ends. The time does not grow with their length.
pub fn best_around(units: usize, windows: &[Range<usize>], values: &[f32], none: f32) -> Vec<f32> {
    // Windows around the unit that may be the best of it or of a later one: their values fall.
    let mut open: VecDeque<(usize, f32)> = VecDeque::new();
    let mut windows = windows.iter().zip(values).peekable();
    let best = |unit: usize| {
        while let Some((window, value)) = windows.next_if(|(window, _)| window.start <= unit) {
            if !value.is_nan() {
                while open.back().is_some_and(|(_, last)| last <= value) {
                    open.pop_back();
                }
                open.push_back((window.end, *value));
            }
        }
        while open.front().is_some_and(|(end, _)| *end <= unit) {
            open.pop_front();
        }
        open.front().map(|(_, value)| *value).filter(|value| value.is_finite()).unwrap_or(none)
    };
    (0..units).map(best).collect()
}

/// The semantic score of units: the best of the windows around each, joined with its own if that is not NaN.
pub fn semantic(around: Vec<f32>, own: &[f32]) -> Vec<f32> {
    if own.is_empty() {
        return around;
    }
    let joined = |(around, own): (&f32, &f32)| {
        if own.is_nan() { *around } else { around + UNIT_COSINE_WEIGHT * (own - around) }
    };
    around.iter().zip(own).map(joined).collect()
}

/// The lexical score of units, from z-scores of BM25 and coverages.
pub fn lexical(bm25: &[f32], sentence: &[f32], paragraph: &[f32], name: &[f32]) -> Vec<f32> {
    let coverage = sentence.iter().zip(paragraph).zip(name);
    let score = |(bm25, ((sentence, paragraph), name)): (&f32, ((&f32, &f32), &f32))| {
        BM25_WEIGHT * bm25 + SENTENCE_WEIGHT * sentence + PARAGRAPH_WEIGHT * paragraph + NAME_WEIGHT * name
    };
    bm25.iter().zip(coverage).map(score).collect()
}

/// What a unit's names add to its lexical score in the order of passages, in addition to their part in [`lexical`].
pub fn credit_of_names(any: f32, nearest: f32) -> f32 {
    SENTENCE_WEIGHT * any - NAME_WEIGHT * nearest
}

/// The weighted sum of semantic and lexical scores.
pub fn join(semantic: f32, lexical: f32, lexical_weight: f32) -> f32 {
    (1.0 - lexical_weight) * semantic + lexical_weight * lexical
}

impl LexicalWeight {
    /// Checks a weight; `None` is [`LexicalWeight::Auto`].
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::error::ErrorKind::InvalidArgument) for a weight outside 0 to 1.
    pub fn new(weight: Option<f64>) -> Result<Self> {
        match weight {
            None => Ok(Self::Auto),
            #[expect(clippy::cast_possible_truncation, reason = "a weight needs no more than single precision")]
            Some(weight) if (0.0..=1.0).contains(&weight) => Ok(Self::Weight(weight as f32)),
            Some(weight) => Err(Error::of_field(
                "lexical_weight",
                format!(
                    "lexical_weight must be \"auto\" or a number from 0.0 (meaning alone) to 1.0 (words alone), not {weight}"
                ),
            )),
        }
    }

    /// The weight for titles. Most are names, which a model knows equally well in any script.
    pub fn title_weight(self) -> f32 {
        self.weight(0.0, 1.0)
    }

    /// Whether pages need an index of their terms.
    pub(crate) fn uses_terms(self) -> bool {
        self != Self::Weight(0.0)
    }

    /// The weight for a page of which the model knows the script, or does not (see [`unknown_script`]), and a query of
    /// which the best sentence of all pages has this coverage.
    ///
    /// If the script is known, and hardly any word of the query is on any page (a paraphrase, another language, typos),
    /// then the words that match are worth little.
    pub fn weight(self, unknown: f32, coverage: f32) -> f32 {
        self.weight_of_trusted(unknown, coverage / TRUSTED_COVERAGE)
    }

    /// The weight in the order of passages.
    pub(crate) fn weight_in_order(self, unknown: f32, coverage: f32) -> f32 {
        self.weight_of_trusted(unknown, coverage / TRUSTED_IN_ORDER)
    }

    fn weight_of_trusted(self, unknown: f32, trusted: f32) -> f32 {
        match self {
            Self::Weight(weight) => weight,
            Self::Auto => (0.5 + 0.3 * unknown) * (1.0 - (1.0 - trusted.clamp(0.5, 1.0)) * (1.0 - unknown)),
        }
    }

    /// The weight in a probability: with [`Self::Auto`] ½, and up to 1 for scripts that the model does not know.
    pub(crate) fn share_of_words(self, unknown: f32) -> f32 {
        match self {
            Self::Weight(weight) => weight,
            Self::Auto => 0.5 + 0.5 * unknown,
        }
    }
}

/// From 0, for a script that a model knows, to 1: by the characters per token of a page, and [`Joining::multilingual`].
///
/// A tokenizer that knows a script makes tokens of three to five characters. In other scripts it makes one token for
/// nearly each letter (or unknown ones), and the cosine of a model of one language is worth little.
///
/// [`Joining::multilingual`]: super::cosine_scale::Joining::multilingual
pub(crate) fn unknown_script(characters_per_token: f32, multilingual: f32) -> f32 {
    ((2.2 - characters_per_token) / 0.8).clamp(0.0, 1.0) * (1.0 - multilingual)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn z_scores_of_many_values_have_mean_zero_and_deviation_one() {
        let values: Vec<f32> = (0_u16..1000).map(|value| f32::from(value) / 10.0).collect();
        let scale = Scale::of(values.iter(), COSINE);
        let z = scale.all(&values);
        let mean = z.iter().sum::<f32>() / 1000.0;
        let spread = (z.iter().map(|value| value * value).sum::<f32>() / 1000.0).sqrt();
        assert!(mean.abs() < 0.02 && (spread - 1.0).abs() < 0.02, "{mean} {spread}");
    }

    #[test]
    fn a_unit_scores_as_the_best_window_around_it() {
        assert_eq!(best_around(4, &[0..2, 1..3], &[1.0, 4.0], -1.0), [1.0, 4.0, 4.0, -1.0]);
        assert_eq!(semantic(vec![3.0, 0.0], &[]), [3.0, 0.0]);
        assert_eq!(semantic(vec![3.0, 0.0], &[0.0, 3.0]), [2.0, 1.0]);
        assert_eq!(lexical(&[3.0], &[0.5], &[1.0], &[0.25]), [8.5]);
        assert!((join(2.0, 5.0, 0.25) - 2.75).abs() < 1e-6);
        assert_eq!((credit_of_names(0.5, 0.0), credit_of_names(0.5, 0.5)), (4.0, 3.0));
    }

    #[test]
    fn lexical_weight_rises_in_unknown_scripts_and_falls_without_matches() {
        let weight = |characters_per_token: f32, multilingual: f32, coverage: f32| {
            LexicalWeight::Auto.weight(unknown_script(characters_per_token, multilingual), coverage)
        };
        assert!((weight(4.0, 0.0, 1.0) - 0.5).abs() < 1e-6);
        assert!((weight(1.1, 0.0, 1.0) - 0.8).abs() < 1e-6);
        assert!((weight(1.1, 0.0, 0.0) - 0.8).abs() < 1e-6);
        assert!((weight(1.1, 1.0, 1.0) - 0.5).abs() < 1e-6, "a model of many languages");
        assert!((weight(4.0, 0.0, 0.15) - 0.25).abs() < 1e-6);
        assert!((weight(4.0, 0.0, 0.0) - 0.25).abs() < 1e-6);
        let in_order = |coverage: f32| LexicalWeight::Auto.weight_in_order(0.0, coverage);
        assert_eq!((in_order(0.2), in_order(0.3) < 0.4, in_order(0.5)), (0.25, true, 0.5));
        assert!((LexicalWeight::Weight(0.25).weight(1.0, 0.0) - 0.25).abs() < 1e-6);
    }
}
