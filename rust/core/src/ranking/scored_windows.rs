//! Scored windows: the cosines of a page's windows with a query. Those that were not selected count as predicted, with a
//! correction from the sampled windows.

use super::cosine_scale::CosineScale;
use super::prediction::{Prediction, deviation};
use super::query_match::QueryMatch;
use super::relevance::Scale;
use super::selection::{CosineSample, Selection, WindowSelection};

/// The sample counts against this number of windows that are as predicted.
const PRIOR_OFFSET: f64 = 0.5;
/// The deviation of predictions counts as much as this number of windows.
const PRIOR_DEVIATION: f64 = 4.0;

pub(crate) struct ScoredWindows<'query> {
    pub(crate) prediction: &'query Prediction<'query>,
    pub(crate) selection: Selection,
    /// Of each window: its score, or as predicted.
    pub(crate) estimates: Vec<f32>,
    /// Of each unit alone, NaN for those without a score; empty unless units have some.
    pub(crate) unit_cosines: Vec<f32>,
    /// How the page's cosines differ from their prediction.
    pub(crate) correction: Correction,
    /// The scale of the page's cosines.
    pub(crate) scale: Scale,
    /// Whether any window around each seed has a score.
    pub(crate) is_scored: Vec<bool>,
}

/// How a page's cosines differ from their prediction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Correction {
    /// Added to every prediction.
    pub(crate) offset: f64,
    /// The standard deviation of a cosine around its corrected prediction.
    pub(crate) deviation: f64,
}

/// Takes the cosines of all windows as predicted.
pub(crate) fn accept_predictions<'query>(
    predictions: &'query [Vec<Prediction<'query>>],
) -> Vec<Vec<ScoredWindows<'query>>> {
    let accept = |prediction: &'query Prediction<'query>| {
        let sample = Some(CosineSample::default());
        let selection = Selection { windows: WindowSelection::All, sample, is_preview: false };
        ScoredWindows::new(prediction, selection, &prediction.cosines)
    };
    predictions.iter().map(|pages| pages.iter().map(accept).collect()).collect()
}

impl<'query> ScoredWindows<'query> {
    /// From the cosines of a page's rows (windows, then units if they are encoded). Reads those of selected rows only.
    pub(crate) fn new(prediction: &'query Prediction<'query>, selection: Selection, rows: &[f32]) -> Self {
        let (windows, units) = rows.split_at(prediction.cosines.len());
        let others = selection.sample.as_ref().map_or(&[][..], |sample| &sample.others);
        let pairs: Vec<(f32, f32)> =
            others.iter().map(|window| (windows[*window], prediction.cosines[*window])).collect();
        let correction = Correction::of(&pairs, prediction.matched.calibration.model);
        let as_scored = |selected: &mut dyn Iterator<Item = &usize>| {
            let mut cosines = correction.above(&prediction.cosines, 0.0);
            selected.for_each(|window| cosines[*window] = windows[*window]);
            cosines
        };
        let estimates = match &selection.windows {
            WindowSelection::All => windows.to_vec(),
            WindowSelection::Only(selected) => as_scored(&mut selected.iter()),
        };
        let prior = prediction.matched.calibration.model.prior();
        let scale = match &selection.sample {
            None => Scale::with_squares(windows, 0.0, prior),
            Some(CosineSample { best, others }) => {
                let of_sample = as_scored(&mut best.iter().chain(others));
                #[expect(clippy::cast_precision_loss, reason = "a number of windows")]
                let predicted = windows.len().saturating_sub(best.len() + others.len()) as f64;
                Scale::with_squares(&of_sample, predicted * correction.deviation.powi(2), prior)
            }
        };
        let is_scored = scored_seeds(&prediction.matched, &selection.windows);
        Self { prediction, selection, estimates, unit_cosines: units.to_vec(), correction, scale, is_scored }
    }

    /// The cosine of each window if it lies this number of standard deviations above its prediction.
    pub(crate) fn above_prediction(&self, deviations: f64) -> Vec<f32> {
        self.correction.above(&self.prediction.cosines, deviations)
    }

    /// The best cosine and the best BM25 of the windows around a seed. The cosine includes the unit's own, if it is
    /// encoded, and leaves out predicted ones.
    pub(crate) fn best_scores(&self, seed: usize) -> (f32, f32) {
        let matched = &self.prediction.matched;
        let around = matched.windows_around(seed);
        let scored = around.clone().filter(|window| self.selection.windows.contains(*window));
        let own = self.unit_cosines.get(seed).copied().filter(|own| !own.is_nan());
        let cosine = scored.filter_map(|window| self.estimates.get(window).copied()).chain(own).reduce(f32::max);
        let bm25 = matched.bm25.get(around).unwrap_or_default().iter().copied().reduce(f32::max);
        (cosine.unwrap_or(0.0), bm25.unwrap_or(0.0))
    }
}

/// For each seed, whether any window around it has a score.
fn scored_seeds(matched: &QueryMatch, selected: &WindowSelection) -> Vec<bool> {
    let mut is_scored = vec![false; matched.seed_count()];
    // Windows are sorted, so all before the end of the last one is done.
    let mut done = 0;
    for window in selected.rows(matched.page.parsed.windows.len()) {
        let seeds = matched.seeds_in(window);
        is_scored[seeds.start.max(done)..seeds.end].fill(true);
        done = seeds.end;
    }
    is_scored
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
        let prior = PRIOR_DEVIATION * deviation(model).powi(2);
        Self { offset: sum / (count + PRIOR_OFFSET), deviation: ((prior + squares) / (PRIOR_DEVIATION + count)).sqrt() }
    }

    /// The cosines of windows that lie this number of standard deviations above their prediction.
    fn above(self, predicted: &[f32], deviations: f64) -> Vec<f32> {
        #[expect(clippy::cast_possible_truncation, reason = "cosines are single precision")]
        let (offset, above) = (self.offset as f32, (deviations * self.deviation) as f32);
        predicted.iter().map(|predicted| predicted + offset + above).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_corrects_level_and_deviation() {
        let none = Correction::of(&[], CosineScale::MINILM);
        assert_eq!(none, Correction { offset: 0.0, deviation: 0.1 });
        let higher: Vec<(f32, f32)> = (0..100).map(|_| (0.5, 0.2)).collect();
        let Correction { offset, deviation } = Correction::of(&higher, CosineScale::MINILM);
        assert!((offset - 0.3).abs() < 0.01 && deviation < 0.03, "{offset} {deviation}");
    }
}
