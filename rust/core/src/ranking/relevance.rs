//! Relevance: meaning and words in one number.
//!
//! Cosines and BM25 have different scales, which differ again from model to model and from query to query. Both are put on
//! one by the mean and the spread over all windows of the request: `z = (value - mean) / spread`. A window's relevance is
//! `(1 - lexical_weight) * z(cosine) + lexical_weight * z(BM25)`. A sentence's is the same of the best windows around it, and words say more:
//!
//! ```text
//! meaning   = best z(cosine) of the windows around it
//! words     = 2/3 of the best z(BM25) of them + 8 coverage(sentence) + 2 coverage(paragraph)
//! relevance = ((1 - lexical_weight) * meaning + lexical_weight * words) / 1.4
//! ```
//!
//! where coverage is the share of the query that is found there (see [`crate::ranking::terms::Found::coverage`]). A score is relevance
//! brought between 0 and 1: `1 / (1 + exp(2 - relevance))`. docs/decisions/0001-passages-and-relevance.md has the trials behind the numbers.

use std::ops::Range;

use crate::error::{Error, ErrorKind, Result};

/// How much words count against meaning.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LexicalWeight {
    /// By the page and the query: half, more the less the model's tokenizer knows the page's script, and less where hardly a
    /// word of the query is on any page.
    Auto,
    /// From 0, the cosine alone, to 1, the words alone.
    Weight(f32),
}

/// The mean and the spread of a kind of value over the pieces of a request.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    mean: f64,
    spread: f64,
}

/// What is assumed before a value was seen, as if so many pieces had had it: a page of one sentence has no spread of its own.
#[derive(Clone, Copy, Debug)]
pub struct Prior {
    mean: f64,
    spread: f64,
}

const PRIOR_PIECES: f64 = 4.0;

/// Cosines of sentences with questions, as small English models have them.
pub const COSINE: Prior = Prior { mean: 0.15, spread: 0.15 };
/// BM25 of pieces that mostly share no word with the query.
pub const BM25: Prior = Prior { mean: 0.0, spread: 1.0 };

impl Scale {
    /// The scale of these values.
    #[must_use]
    pub fn of<'values>(values: impl Iterator<Item = &'values f32> + Clone, prior: Prior) -> Self {
        Self::weighted(values.map(|value| (*value, 1.0)), prior)
    }

    /// The scale of values of which each stands for so many.
    #[must_use]
    pub fn weighted(values: impl Iterator<Item = (f32, f64)> + Clone, prior: Prior) -> Self {
        let (count, sum) = values
            .clone()
            .fold((0.0, 0.0), |(count, sum), (value, weight)| (count + weight, sum + weight * f64::from(value)));
        let pieces = count + PRIOR_PIECES;
        let mean = (sum + PRIOR_PIECES * prior.mean) / pieces;
        let squares: f64 = values.map(|(value, weight)| weight * (f64::from(value) - mean).powi(2)).sum();
        let prior_squares = PRIOR_PIECES * (prior.spread.powi(2) + (prior.mean - mean).powi(2));
        Self { mean, spread: ((squares + prior_squares) / pieces).sqrt() }
    }

    /// The value that lies so many spreads above the mean.
    #[must_use]
    pub fn at(self, spreads: f64) -> f64 {
        self.mean + spreads * self.spread
    }

    /// Values on the scale: how many spreads each lies above the mean.
    #[must_use]
    pub fn all(self, values: &[f32]) -> Vec<f32> {
        values.iter().map(|value| self.z(f64::from(*value))).collect()
    }

    /// How many spreads a value lies above the mean.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "values are single precision to begin with")]
    pub fn z(self, value: f64) -> f32 {
        ((value - self.mean) / self.spread) as f32
    }
}

/// What windows around a unit say in words, against what it says itself: it is too small for BM25.
const AROUND: f32 = 2.0 / 3.0;
/// What a sentence is worth that holds all of the query, in spreads: half of it is as rare as four spreads are.
const SENTENCE: f32 = 8.0;
/// What its paragraph is worth: the subject is named once, and the answer follows.
const PARAGRAPH: f32 = 2.0;
/// How much wider the relevance of the best sentences spreads than that of the best windows.
pub const SPREAD: f32 = 1.4;
/// How much of a query the best sentence covers at least where its words are to be trusted.
const FOUND: f32 = 0.3;
/// The part of its meaning that a unit says itself where units were encoded too.
const OWN: f32 = 1.0 / 3.0;

/// For each unit the largest value of the windows around it; `none` where there is no window.
#[must_use]
pub fn best_around(units: usize, windows: &[Range<usize>], values: &[f32], none: f32) -> Vec<f32> {
    let mut best = vec![f32::NEG_INFINITY; units];
    for (window, value) in windows.iter().zip(values) {
        for around in &mut best[window.clone()] {
            *around = around.max(*value);
        }
    }
    best.iter_mut().filter(|best| !best.is_finite()).for_each(|best| *best = none);
    best
}

/// What units mean to a query: what the best windows around them do, and in part what they do themselves where that is known.
#[must_use]
pub fn meaning(around: &[f32], own: &[f32]) -> Vec<f32> {
    if own.is_empty() {
        return around.to_vec();
    }
    around.iter().zip(own).map(|(around, own)| around + OWN * (own - around)).collect()
}

/// What units say in words: BM25 of the windows around them, on its scale, and how much of the query they and their paragraphs
/// cover.
#[must_use]
pub fn words(around: &[f32], sentence: &[f32], paragraph: &[f32]) -> Vec<f32> {
    let covered = sentence.iter().zip(paragraph);
    let each = around.iter().zip(covered);
    each.map(|(around, (sentence, paragraph))| AROUND * around + SENTENCE * sentence + PARAGRAPH * paragraph).collect()
}

/// The relevance of units, on the scale of that of windows.
#[must_use]
pub fn of_units(joined: &[f32]) -> Vec<f32> {
    joined.iter().map(|relevance| relevance / SPREAD).collect()
}

/// Joins the two kinds, each on its scale.
#[must_use]
pub fn join(meaning: &[f32], words: &[f32], lexical_weight: f32) -> Vec<f32> {
    meaning
        .iter()
        .zip(words)
        .map(|(meaning, words)| (1.0 - lexical_weight) * meaning + lexical_weight * words)
        .collect()
}

/// Relevance as a score from 0 to 1.
#[must_use]
pub fn score(relevance: f32) -> f32 {
    1.0 / (1.0 + (2.0 - relevance).exp())
}

/// The relevance of a score: the inverse of [`score`]; infinite at 0 and 1.
#[must_use]
pub fn relevance(score: f32) -> f32 {
    2.0 - (1.0 / score - 1.0).ln()
}

impl LexicalWeight {
    /// Checks a weight; none is [`LexicalWeight::Auto`].
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for one outside 0 to 1.
    pub fn new(weight: Option<f64>) -> Result<Self> {
        match weight {
            None => Ok(Self::Auto),
            #[expect(clippy::cast_possible_truncation, reason = "a weight needs no more than single precision")]
            Some(weight) if (0.0..=1.0).contains(&weight) => Ok(Self::Weight(weight as f32)),
            Some(weight) => Err(Error::new(
                ErrorKind::InvalidArgument,
                format!(
                    "lexical_weight must be \"auto\" or a number from 0.0 (meaning alone) to 1.0 (words alone), not {weight}"
                ),
            )),
        }
    }

    /// The weight for titles: most are names, which a model knows as well or as badly in any script.
    #[must_use]
    pub fn weight_of_names(self) -> f32 {
        self.weight(f32::INFINITY, 1.0)
    }

    /// Whether the words of a page have to be read.
    pub(crate) fn may_count(self) -> bool {
        self != Self::Weight(0.0)
    }

    /// The weight for a page of which the tokenizer made tokens of so many characters, and for a query of which the best
    /// sentence of all pages covers so much.
    ///
    /// Where the tokenizer knows the script a token has three to five characters; where it does not, nearly every letter is its
    /// own token (or unknown), and the vectors say little. Where it does, and hardly a word of the query is on any page (a
    /// paraphrase, another language, typos), the words that are there say little.
    #[must_use]
    pub fn weight(self, characters_per_token: f32, covered: f32) -> f32 {
        match self {
            Self::Weight(weight) => weight,
            Self::Auto => {
                let unknown = ((2.2 - characters_per_token) / 0.8).clamp(0.0, 1.0);
                let found = (covered / FOUND).clamp(0.5, 1.0);
                (0.5 + 0.3 * unknown) * (1.0 - (1.0 - found) * (1.0 - unknown))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_score_and_its_relevance_are_each_others_inverse() {
        for value in [-3.0_f32, 0.0, 2.0, 4.5] {
            assert!((relevance(score(value)) - value).abs() < 1e-4);
        }
        assert!((score(2.0) - 0.5).abs() < 1e-6);
    }

    #[test]
    fn a_scale_has_mean_zero_and_spread_one_where_there_are_many_values() {
        let values: Vec<f32> = (0_u16..1000).map(|value| f32::from(value) / 10.0).collect();
        let scale = Scale::of(values.iter(), COSINE);
        let z = scale.all(&values);
        let mean = z.iter().sum::<f32>() / 1000.0;
        let spread = (z.iter().map(|value| value * value).sum::<f32>() / 1000.0).sqrt();
        assert!(mean.abs() < 0.02 && (spread - 1.0).abs() < 0.02, "{mean} {spread}");
    }

    #[test]
    fn a_unit_is_worth_what_the_best_window_around_it_is() {
        assert_eq!(best_around(4, &[0..2, 1..3], &[1.0, 4.0], -1.0), [1.0, 4.0, 4.0, -1.0]);
        assert_eq!(meaning(&[3.0, 0.0], &[]), [3.0, 0.0]);
        assert_eq!(meaning(&[3.0, 0.0], &[0.0, 3.0]), [2.0, 1.0]);
        assert_eq!(words(&[3.0], &[0.5], &[1.0]), [8.0]);
        assert_eq!(of_units(&join(&[2.0], &[5.0], 0.5)), [2.5]);
    }

    #[test]
    fn words_count_more_where_the_script_is_not_known_and_less_where_they_are_not_there() {
        assert!((LexicalWeight::Auto.weight(4.0, 1.0) - 0.5).abs() < 1e-6);
        assert!((LexicalWeight::Auto.weight(1.1, 1.0) - 0.8).abs() < 1e-6);
        assert!((LexicalWeight::Auto.weight(1.1, 0.0) - 0.8).abs() < 1e-6);
        assert!((LexicalWeight::Auto.weight(4.0, 0.15) - 0.25).abs() < 1e-6);
        assert!((LexicalWeight::Auto.weight(4.0, 0.0) - 0.25).abs() < 1e-6);
        assert!((LexicalWeight::Weight(0.25).weight(1.1, 0.0) - 0.25).abs() < 1e-6);
    }
}
