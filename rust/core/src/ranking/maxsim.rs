//! `MaxSim`, the score of late interaction: for each token of the query the best cosine with any token of a text, and the
//! mean of these. (pylate's score is their sum.)
//!
//! A text's token vectors are kept in bytes with a scale for each token, a quarter of their size: cosines differ by a
//! few thousandths. The tokens of one unit of a window, with the special tokens around it, give that unit's score from
//! the same vectors. [`maxsim`] and [`mean_maxsim`] are the plain formula, for texts that are scored once.

use crate::tokens::TokenPlace;

/// A query's values in 16 bits have this length: sums of products with bytes stay within 32 bits.
const QUERY_LENGTH: f32 = 8192.0;
const BYTE: f32 = 127.0;

/// The sum over the query's tokens of the best dot product with any of a text's; 0 without tokens.
pub fn maxsim(query: &[f32], text: &[f32], width: usize) -> f32 {
    let best = |token: &[f32]| {
        let dot = |other: &[f32]| token.iter().zip(other).map(|(x, y)| x * y).sum::<f32>();
        text.chunks_exact(width).map(dot).reduce(f32::max).unwrap_or(0.0)
    };
    query.chunks_exact(width).map(best).sum()
}

/// The mean over the query's tokens, on the scale of cosines.
#[expect(clippy::cast_precision_loss, reason = "a number of tokens")]
pub fn mean_maxsim(query: &[f32], text: &[f32], width: usize) -> f32 {
    maxsim(query, text, width) / (query.len() / width).max(1) as f32
}

/// The vectors of a query's tokens.
#[derive(Clone, Debug)]
pub(crate) struct QueryTokens {
    /// `[tokens, width]`
    values: Vec<i16>,
    width: usize,
}

/// The vectors of a window's tokens that have one.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct WindowTokens {
    /// `[tokens, width]`
    values: Vec<i8>,
    /// For each token, what its values are multiplied by.
    scales: Vec<f32>,
    /// For each token, its unit, counted from the window's first; [`EVERY_UNIT`] for special ones.
    units: Vec<u16>,
}

const EVERY_UNIT: u16 = u16::MAX;

/// The scores of a window and of its units.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MaxSimScores {
    pub(crate) window: f32,
    /// Of as many units as were asked for; NaN for those without a token of their own.
    pub(crate) units: Vec<f32>,
}

impl QueryTokens {
    /// From concatenated vectors of length 1.
    pub(crate) fn new(vectors: &[f32], width: usize) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "at most the length of a vector")]
        let round = |value: &f32| (value * QUERY_LENGTH).round().clamp(-QUERY_LENGTH, QUERY_LENGTH) as i16;
        Self { values: vectors.iter().map(round).collect(), width }
    }

    /// The scores of a window of `units` units.
    pub(crate) fn scores(&self, window: &WindowTokens, units: usize) -> MaxSimScores {
        let mut sums = vec![0.0; units];
        let mut sum = 0.0;
        // For each unit, and at the end for special tokens.
        let mut best = vec![f32::NEG_INFINITY; units + 1];
        for query in self.values.chunks_exact(self.width) {
            best.fill(f32::NEG_INFINITY);
            let tokens = window.values.chunks_exact(self.width).zip(&window.scales).zip(&window.units);
            for ((token, scale), unit) in tokens {
                #[expect(clippy::cast_precision_loss, reason = "rounded to bytes before")]
                let cosine = dot(query, token) as f32 * scale;
                let best = &mut best[usize::from(*unit).min(units)];
                *best = best.max(cosine);
            }
            let special = best[units];
            sum += finite(best.iter().copied().fold(f32::NEG_INFINITY, f32::max));
            sums.iter_mut().zip(&best).for_each(|(sum, best)| *sum += finite(best.max(special)));
        }
        #[expect(clippy::cast_precision_loss, reason = "a number of tokens")]
        let count = (self.values.len() / self.width.max(1)).max(1) as f32;
        let mut scores = MaxSimScores { window: sum / count, units: sums.iter().map(|sum| sum / count).collect() };
        for (unit, score) in scores.units.iter_mut().enumerate() {
            if !window.units.iter().any(|of| usize::from(*of) == unit) {
                *score = f32::NAN;
            }
        }
        scores
    }
}

const fn finite(best: f32) -> f32 {
    if best.is_finite() { best } else { 0.0 }
}

fn dot(query: &[i16], token: &[i8]) -> i32 {
    query.iter().zip(token).map(|(x, y)| i32::from(*x) * i32::from(*y)).sum()
}

impl WindowTokens {
    /// From the vectors of all tokens of a row, and their places.
    pub(crate) fn new(vectors: &[f32], width: usize, places: &[TokenPlace]) -> Self {
        let mut tokens = Self::default();
        for (vector, place) in vectors.chunks_exact(width).zip(places) {
            let unit = match place {
                TokenPlace::Skipped => continue,
                TokenPlace::Special => EVERY_UNIT,
                TokenPlace::Unit(unit) => *unit,
            };
            let largest = vector.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
            let scale = if largest > 0.0 { BYTE / largest } else { 0.0 };
            #[expect(clippy::cast_possible_truncation, reason = "at most 127")]
            tokens.values.extend(vector.iter().map(|value| (value * scale).round() as i8));
            tokens.scales.push(largest / BYTE / QUERY_LENGTH);
            tokens.units.push(unit);
        }
        tokens
    }

    /// The size in memory.
    pub(crate) const fn bytes(&self) -> usize {
        size_of::<Self>() + self.values.len() + Self::bytes_beside_values(self.scales.len())
    }

    /// The size in memory of this number of tokens.
    pub(crate) const fn bytes_of(tokens: usize, width: usize) -> usize {
        tokens * width + Self::bytes_beside_values(tokens)
    }

    const fn bytes_beside_values(tokens: usize) -> usize {
        tokens * (size_of::<f32>() + size_of::<u16>())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::encoder::cosine::normalize;

    /// Vectors of length 1, and for each of the text's its place.
    fn texts() -> impl Strategy<Value = (usize, Vec<f32>, Vec<f32>, Vec<TokenPlace>)> {
        (1..70_usize, 1..9_usize, 1..30_usize).prop_flat_map(|(width, query, text)| {
            let vectors = |tokens: usize| {
                proptest::collection::vec(-1.0..1.0_f32, tokens * width).prop_map(move |mut values| {
                    normalize(&mut values, width);
                    values
                })
            };
            let place = (0..5_u16).prop_map(|number| match number {
                3 => TokenPlace::Special,
                4 => TokenPlace::Skipped,
                unit => TokenPlace::Unit(unit),
            });
            (Just(width), vectors(query), vectors(text), proptest::collection::vec(place, text))
        })
    }

    proptest! {
        #[test]
        fn bytes_score_windows_and_units_as_the_plain_formula((width, query, text, places) in texts()) {
            let of = |is_there: &dyn Fn(&TokenPlace) -> bool| -> f32 {
                let tokens = text.chunks_exact(width).zip(&places).filter(|(_, place)| is_there(place));
                let tokens: Vec<f32> = tokens.flat_map(|(token, _)| token.iter().copied()).collect();
                mean_maxsim(&query, &tokens, width)
            };
            let window = WindowTokens::new(&text, width, &places);
            let scores = QueryTokens::new(&query, width).scores(&window, 3);
            // Half a step of 127 in each value of a vector, in the worst case all in one direction.
            prop_assert!((scores.window - of(&|place| *place != TokenPlace::Skipped)).abs() < 0.02);
            for unit in 0..3_u16 {
                let score = scores.units[usize::from(unit)];
                if places.contains(&TokenPlace::Unit(unit)) {
                    let expected = of(&|place| [TokenPlace::Unit(unit), TokenPlace::Special].contains(place));
                    prop_assert!((score - expected).abs() < 0.02 && score <= scores.window + 1e-6);
                } else {
                    prop_assert!(score.is_nan());
                }
            }
        }
    }

    #[test]
    fn maxsim_sums_the_best_of_each_query_token() {
        let (query, text) = ([1.0, 0.0, 0.0, 1.0], [0.6, 0.8, -1.0, 0.0, 0.8, 0.6]);
        assert!((maxsim(&query, &text, 2) - 1.6).abs() < 1e-6);
        assert!(maxsim(&query, &[], 2).abs() < 1e-6 && maxsim(&[], &text, 2).abs() < 1e-6);
    }

    #[test]
    fn tokens_take_a_quarter_of_their_floats_and_six_bytes() {
        let window = WindowTokens::new(&[0.5; 96 * 10], 96, &[TokenPlace::Special; 10]);
        assert_eq!(window.bytes(), size_of::<WindowTokens>() + 10 * (96 + 6));
        assert_eq!(WindowTokens::bytes_of(10, 96), 10 * (96 + 6));
    }
}
