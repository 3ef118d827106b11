//! Prediction: the cosines of a page's windows before any is encoded, from their words.
//!
//! Cosines correlate with BM25. The line was fitted on `MiniLM`'s cosines of 888 questions with the windows of their
//! pages; other models' cosines are brought to its scale ([`CosineScale`]). A page's own level is corrected from a
//! sample of its windows. `bench/notes/encoding_less.md` has the trial.

use super::probability::CosineScale;
use super::query_match::PageMatch;

/// The cosine of a window without the query's words, on `MiniLM`'s scale.
const WITHOUT_WORDS: f32 = 0.18;
/// What one deviation of BM25 adds.
const OF_BM25: f32 = 0.07;
/// More of BM25 adds nothing.
const MAX_BM25: f32 = 6.0;
/// The same with static vectors: without words and with a mean of 0, what 1 of the mean adds, and what a deviation of
/// BM25 adds. Fitted on the differences between the windows of 400 questions' English pages, where the residual is
/// 0.086.
const WITHOUT_MEAN: f32 = -0.11;
const OF_MEAN: f32 = 4.2;
const OF_BM25_WITH_MEAN: f32 = 0.047;
/// No prediction is higher.
const MAX_PREDICTED: f32 = 0.9;
/// The standard deviation of cosines around their prediction.
const DEVIATION: f64 = 0.10;
/// The sample counts against this number of windows that are as predicted.
const PRIOR_OFFSET: f64 = 0.5;
/// [`DEVIATION`] counts as much as this number of windows.
const PRIOR_DEVIATION: f64 = 4.0;

/// How a page's cosines differ from their prediction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Correction {
    /// Added to every prediction.
    pub(crate) offset: f64,
    /// The standard deviation of a cosine around its corrected prediction.
    pub(crate) deviation: f64,
}

/// The predicted cosines of a page's windows.
pub(crate) struct Prediction<'page> {
    pub(crate) matched: PageMatch<'page>,
    /// For each window.
    pub(crate) cosines: Vec<f32>,
    /// For each window, the mean of static vectors' cosines; empty without such vectors.
    pub(crate) static_means: Vec<f32>,
    /// The standard deviation of cosines around these that the first selection assumes.
    pub(crate) deviation: f64,
}

impl<'page> Prediction<'page> {
    /// From words, and from the means of static vectors' cosines if there are any.
    pub(crate) fn new(matched: PageMatch<'page>, static_means: Vec<f32>) -> Self {
        let words = &matched.words;
        let windows = words.page.parsed.windows.len();
        let cosines = predict(&matched.bm25, &static_means, windows, words.calibration.model);
        Self { matched, cosines, static_means, deviation: 0.0 }
    }

    /// The page's index in the call.
    pub(crate) fn page(&self) -> usize {
        self.matched.words.index
    }

    /// Of a page on the shortlist: only words predict, as in a call without the other pages.
    pub(crate) fn of_listed(matched: PageMatch<'page>) -> Self {
        let deviation = Correction::of(&[], matched.words.calibration.model).deviation;
        Self { deviation, ..Self::new(matched, Vec::new()) }
    }
}

/// The predicted cosine of each of `windows` windows, from z-scores of their BM25, which are empty where words do not
/// count, and from the means of static vectors' cosines, which are empty without such vectors.
fn predict(bm25: &[f32], means: &[f32], windows: usize, model: CosineScale) -> Vec<f32> {
    let predict = |window: usize| {
        let z = bm25.get(window).copied().unwrap_or(0.0).min(MAX_BM25);
        model.of_minilm(match means.get(window) {
            None => WITHOUT_WORDS + OF_BM25 * z,
            Some(mean) => {
                let line = WITHOUT_MEAN + OF_MEAN * model.to_minilm(*mean) + OF_BM25_WITH_MEAN * z;
                line.min(MAX_PREDICTED)
            }
        })
    };
    (0..windows).map(predict).collect()
}

impl Correction {
    /// From the cosines of sampled windows and their predictions.
    pub(crate) fn of(sample: &[(f32, f32)], model: CosineScale) -> Self {
        let residuals = || sample.iter().map(|(cosine, predicted)| f64::from(*cosine) - f64::from(*predicted));
        #[expect(clippy::cast_precision_loss, reason = "a few windows")]
        let count = sample.len() as f64;
        let sum: f64 = residuals().sum();
        let mean = sum / count.max(1.0);
        let squares: f64 = residuals().map(|residual| (residual - mean).powi(2)).sum();
        let prior = PRIOR_DEVIATION * (DEVIATION * f64::from(model.slope())).powi(2);
        Self { offset: sum / (count + PRIOR_OFFSET), deviation: ((prior + squares) / (PRIOR_DEVIATION + count)).sqrt() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predictions_rise_with_words_and_then_no_more() {
        assert_eq!(predict(&[0.0, 2.0, 9.0], &[], 3, CosineScale::MINILM), [0.18, 0.32, 0.6]);
    }

    #[test]
    fn a_sample_corrects_level_and_deviation() {
        let none = Correction::of(&[], CosineScale::MINILM);
        assert_eq!(none, Correction { offset: 0.0, deviation: 0.1 });
        let higher: Vec<(f32, f32)> = (0..100).map(|_| (0.5, 0.2)).collect();
        let Correction { offset, deviation } = Correction::of(&higher, CosineScale::MINILM);
        assert!((offset - 0.3).abs() < 0.01 && deviation < 0.03, "{offset} {deviation}");
    }
}
