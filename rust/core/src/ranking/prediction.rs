//! Prediction: the cosines of a page's windows before any is encoded, from their words.
//!
//! Cosines correlate with BM25. The line was fitted on `MiniLM`'s cosines of 888 questions with the windows of their
//! pages; other models' cosines are brought to its scale ([`CosineScale`]). A page's own level is corrected from a
//! sample of its windows. `bench/notes/encoding_less.md` has the trial.

use super::cosine_scale::CosineScale;
use super::parsed_page::{ParsedPage, PreparedPage};
use super::query_match::{Matching, Query, QueryMatch};
use crate::error::Result;
use crate::runtime::call::{Call, Check};
use crate::runtime::text_pool::{self, TextPool};

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

/// The predicted cosines of a page's windows.
pub(crate) struct Prediction<'page> {
    pub(crate) matched: QueryMatch<'page>,
    /// For each window.
    pub(crate) cosines: Vec<f32>,
    /// For each window, the mean of static vectors' cosines; empty without such vectors.
    pub(crate) static_means: Vec<f32>,
    /// The standard deviation of cosines around these that the first selection assumes.
    pub(crate) deviation: f64,
}

/// Matches each query with its pages, and predicts their cosines: from words, and from static vectors if there are any.
///
/// # Errors
/// Those of [`Call::check`].
pub(crate) fn predict<'page>(
    queries: &[Query],
    pages: &'page [PreparedPage<'page>],
    matching: &Matching,
    pool: &TextPool,
    call: &Call,
) -> Result<Vec<Vec<Prediction<'page>>>> {
    let pairs = queries.iter().flat_map(|query| query.pages.clone().map(move |page| (query, page)));
    let pairs: Vec<(&Query, usize)> = pairs.collect();
    let bytes = pairs.iter().map(|(_, page)| pages[*page].text.text().len()).sum();
    let predictions = pool.run(call, bytes, |check| {
        text_pool::map(&pairs, |(query, page)| Prediction::new(query, *page, &pages[*page], matching, check))
    })?;
    let mut predictions = predictions.into_iter();
    Ok(queries.iter().map(|query| predictions.by_ref().take(query.pages.len()).collect()).collect())
}

impl<'page> Prediction<'page> {
    fn new(
        query: &Query,
        index: usize,
        page: &'page PreparedPage<'page>,
        matching: &Matching,
        check: &Check,
    ) -> Result<Self> {
        let matched = QueryMatch::new(query, index, page, matching, check)?;
        let ParsedPage { tokens, windows, .. } = &*page.parsed;
        let means = matching.static_vectors.zip(tokens.as_ref());
        let means = means.map(|(vectors, tokens)| vectors.means(&query.vector, tokens, windows, check)).transpose()?;
        Ok(Self::of_match(matched, means.unwrap_or_default()))
    }

    fn of_match(matched: QueryMatch<'page>, static_means: Vec<f32>) -> Self {
        let windows = matched.page.parsed.windows.len();
        let cosines = predicted_cosines(&matched.bm25_z, &static_means, windows, matched.calibration.model);
        Self { matched, cosines, static_means, deviation: 0.0 }
    }

    /// Of a page on the shortlist: only words predict, as in a call without the other pages.
    pub(crate) fn of_listed(matched: QueryMatch<'page>) -> Self {
        let deviation = deviation(matched.calibration.model);
        Self { deviation, ..Self::of_match(matched, Vec::new()) }
    }

    /// The page's index in the call.
    pub(crate) fn page(&self) -> usize {
        self.matched.index
    }
}

/// The standard deviation of a model's cosines around their prediction.
pub(crate) fn deviation(model: CosineScale) -> f64 {
    DEVIATION * f64::from(model.slope())
}

/// The predicted cosine of each of `windows` windows, from z-scores of their BM25, which are empty where words do not
/// count, and from the means of static vectors' cosines, which are empty without such vectors.
fn predicted_cosines(bm25: &[f32], means: &[f32], windows: usize, model: CosineScale) -> Vec<f32> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predictions_rise_with_words_and_then_no_more() {
        assert_eq!(predicted_cosines(&[0.0, 2.0, 9.0], &[], 3, CosineScale::MINILM), [0.18, 0.32, 0.6]);
    }
}
