//! Relevance: meaning and words in one number.
//!
//! Cosines and BM25 have different scales, which differ again from model to model and from query to query. Both are put on
//! one by the mean and the spread over all pieces of the request: `z = (value - mean) / spread`. Relevance is
//! `(1 - lexical) * z(cosine) + lexical * z(BM25)`; where sentences are ranked, the `z` of each is a third the sentence's own and
//! two thirds that of the best window around it. A score is relevance brought between 0 and 1: `1 / (1 + exp(2 - relevance))`.

use std::ops::Range;

use crate::error::{Error, ErrorKind, Result};

/// How much words count against meaning.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Lexical {
    /// By the page: half, and more the less the model's tokenizer knows the page's script.
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
        let (count, sum) =
            values.clone().fold((0.0, 0.0), |(count, sum), value| (count + 1.0, sum + f64::from(*value)));
        let pieces = count + PRIOR_PIECES;
        let mean = (sum + PRIOR_PIECES * prior.mean) / pieces;
        let squares: f64 = values.map(|value| (f64::from(*value) - mean).powi(2)).sum();
        let prior_squares = PRIOR_PIECES * (prior.spread.powi(2) + (prior.mean - mean).powi(2));
        Self { mean, spread: ((squares + prior_squares) / pieces).sqrt() }
    }

    /// Values on the scale: how many spreads each lies above the mean.
    #[must_use]
    pub fn all(self, values: &[f32]) -> Vec<f32> {
        values.iter().map(|value| self.z(*value)).collect()
    }

    #[expect(clippy::cast_possible_truncation, reason = "values are single precision to begin with")]
    fn z(self, value: f32) -> f32 {
        ((f64::from(value) - self.mean) / self.spread) as f32
    }
}

/// A kind of evidence for a query on a page: for each window, and for each unit where units were looked at too.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// For each window.
    pub windows: Vec<f32>,
    /// For each unit; empty where only windows count.
    pub units: Vec<f32>,
}

impl Evidence {
    /// On its scale: for each window, or for each unit a third its own and two thirds the best window's around it.
    #[must_use]
    pub fn scaled(&self, ranges: &[Range<usize>], windows: Scale, units: Scale) -> Vec<f32> {
        if self.units.is_empty() {
            return windows.all(&self.windows);
        }
        let mut best = vec![f32::NEG_INFINITY; self.units.len()];
        for (range, value) in ranges.iter().zip(&self.windows) {
            for around in &mut best[range.clone()] {
                *around = around.max(windows.z(*value));
            }
        }
        let mix = |(own, around): (&f32, &f32)| {
            let own = units.z(*own);
            // A unit in no window (a step over the length) has only itself.
            if around.is_finite() { (own + 2.0 * around) / 3.0 } else { own }
        };
        self.units.iter().zip(&best).map(mix).collect()
    }

    /// The largest value of the units and windows that lie within a run of units; 0 where there is no evidence of this kind.
    #[must_use]
    pub fn within(&self, run: &Range<usize>, ranges: &[Range<usize>]) -> f32 {
        if self.windows.is_empty() {
            return 0.0;
        }
        let first = ranges.partition_point(|range| range.start < run.start);
        let inside = ranges[first..].iter().take_while(|range| range.start < run.end).zip(&self.windows[first..]);
        let windows = inside.filter(|(range, _)| range.end <= run.end).map(|(_, value)| *value);
        let units = self.units.get(run.clone()).unwrap_or_default().iter().copied();
        windows.chain(units).fold(f32::NEG_INFINITY, f32::max)
    }
}

/// Joins the two kinds, each on its scale.
#[must_use]
pub fn join(meaning: &[f32], words: &[f32], lexical: f32) -> Vec<f32> {
    meaning.iter().zip(words).map(|(meaning, words)| (1.0 - lexical) * meaning + lexical * words).collect()
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

impl Lexical {
    /// Checks a weight; none is [`Lexical::Auto`].
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
                    "lexical must be \"auto\" or a number from 0.0 (meaning alone) to 1.0 (words alone), not {weight}"
                ),
            )),
        }
    }

    /// The weight for titles: most are names, which a model knows as well or as badly in any script.
    #[must_use]
    pub fn weight_of_names(self) -> f32 {
        self.weight(f32::INFINITY)
    }

    /// Whether the words of a page have to be read.
    pub(crate) fn may_count(self) -> bool {
        self != Self::Weight(0.0)
    }

    /// The weight for a page of which the tokenizer made tokens of so many characters.
    ///
    /// Where it knows the script a token has three to five characters; where it does not, nearly every letter is its own
    /// token (or unknown), and the vectors say little.
    #[must_use]
    pub fn weight(self, characters_per_token: f32) -> f32 {
        match self {
            Self::Weight(weight) => weight,
            Self::Auto => 0.5 + 0.3 * ((2.2 - characters_per_token) / 0.8).clamp(0.0, 1.0),
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
        let z: Vec<f32> = values.iter().map(|value| scale.z(*value)).collect();
        let mean = z.iter().sum::<f32>() / 1000.0;
        let spread = (z.iter().map(|value| value * value).sum::<f32>() / 1000.0).sqrt();
        assert!(mean.abs() < 0.02 && (spread - 1.0).abs() < 0.02, "{mean} {spread}");
    }

    #[test]
    fn a_unit_takes_part_in_the_best_window_around_it() {
        let plain = Scale { mean: 0.0, spread: 1.0 };
        let evidence = Evidence { windows: vec![1.0, 4.0], units: vec![0.0, 3.0, 0.0] };
        let ranges = [0..2, 1..3];
        assert_eq!(evidence.scaled(&ranges, plain, plain), [2.0 / 3.0, 11.0 / 3.0, 8.0 / 3.0]);
        assert!((evidence.within(&(1..3), &ranges) - 4.0).abs() < 1e-6);
        assert!((evidence.within(&(0..1), &ranges) - 0.0).abs() < 1e-6);
    }

    #[test]
    fn words_count_more_where_the_tokenizer_does_not_know_the_script() {
        assert!((Lexical::Auto.weight(4.0) - 0.5).abs() < 1e-6);
        assert!((Lexical::Auto.weight(1.1) - 0.8).abs() < 1e-6);
        assert!((Lexical::Weight(0.25).weight(1.1) - 0.25).abs() < 1e-6);
    }
}
