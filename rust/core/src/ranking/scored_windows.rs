//! Scored windows: the cosines of a page's selected windows with a query. This holds numbers of
//! scored windows only. Other windows count as predicted, with a correction from the sampled windows.

use super::prediction::{Correction, Prediction};
use super::selection::{CosineSample, Selection, WindowSelection};

pub(crate) struct ScoredWindows<'query> {
    pub(crate) prediction: &'query Prediction<'query>,
    pub(crate) selection: Selection,
    /// Of the selected windows, in order.
    cosines: Vec<f32>,
    /// Of each unit alone; empty unless units are encoded.
    pub(crate) unit_cosines: Vec<f32>,
    /// How the page's cosines differ from their prediction.
    pub(crate) correction: Correction,
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
        let cosines = match &selection.windows {
            WindowSelection::All => windows.to_vec(),
            WindowSelection::Only(selected) => selected.iter().map(|window| windows[*window]).collect(),
        };
        let others = selection.sample.as_ref().map_or(&[][..], |sample| &sample.others);
        let pairs: Vec<(f32, f32)> =
            others.iter().map(|window| (windows[*window], prediction.cosines[*window])).collect();
        let correction = Correction::of(&pairs, prediction.matched.words.calibration.model);
        Self { prediction, selection, cosines, unit_cosines: units.to_vec(), correction }
    }

    /// A window's score.
    fn cosine(&self, window: usize) -> Option<f32> {
        let position = match &self.selection.windows {
            WindowSelection::All => window,
            WindowSelection::Only(selected) => selected.binary_search(&window).ok()?,
        };
        self.cosines.get(position).copied()
    }

    /// For each seed, whether any window around it has a score.
    pub(crate) fn scored_seeds(&self) -> Vec<bool> {
        let words = &self.prediction.matched.words;
        let mut is_scored = vec![false; words.seed_count()];
        // Windows are sorted, so all before the end of the last one is done.
        let mut done = 0;
        for window in self.selection.windows.rows(self.prediction.cosines.len()) {
            let seeds = words.seeds_in(window);
            is_scored[seeds.start.max(done)..seeds.end].fill(true);
            done = seeds.end;
        }
        is_scored
    }

    /// The cosine of each window: its score, or as predicted.
    pub(crate) fn estimates(&self) -> Vec<f32> {
        let WindowSelection::Only(selected) = &self.selection.windows else { return self.cosines.clone() };
        let mut cosines = self.above_prediction(0.0);
        for (window, cosine) in selected.iter().zip(&self.cosines) {
            cosines[*window] = *cosine;
        }
        cosines
    }

    /// The cosines of all windows that count for the scale of cosines, and the sum of the variances of predicted ones.
    pub(crate) fn estimates_for_scale(&self) -> (Vec<f32>, f64) {
        let Some(CosineSample { best, others }) = &self.selection.sample else { return (self.cosines.clone(), 0.0) };
        let mut cosines = self.above_prediction(0.0);
        for window in best.iter().chain(others) {
            if let Some(cosine) = self.cosine(*window) {
                cosines[*window] = cosine;
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "a number of windows")]
        let predicted = cosines.len().saturating_sub(best.len() + others.len()) as f64;
        (cosines, predicted * self.correction.deviation.powi(2))
    }

    /// The cosine of each window if it lies this number of standard deviations above its prediction.
    pub(crate) fn above_prediction(&self, deviations: f64) -> Vec<f32> {
        let Correction { offset, deviation } = self.correction;
        #[expect(clippy::cast_possible_truncation, reason = "cosines are single precision")]
        let (offset, above) = (offset as f32, (deviations * deviation) as f32);
        self.prediction.cosines.iter().map(|predicted| predicted + offset + above).collect()
    }

    /// The best cosine and the best BM25 of the windows around a seed. The cosine includes the unit's own, if it is
    /// encoded.
    pub(crate) fn best_scores(&self, seed: usize) -> (f32, f32) {
        let words = &self.prediction.matched.words;
        let around = words.windows_around(seed);
        let own = self.unit_cosines.get(seed).copied();
        let cosine = around.clone().filter_map(|window| self.cosine(window)).chain(own).reduce(f32::max);
        let bm25 = words.bm25.get(around).unwrap_or_default().iter().copied().reduce(f32::max);
        (cosine.unwrap_or(0.0), bm25.unwrap_or(0.0))
    }
}
