//! Pages with questions that they answer and questions that they do not, on which a new model measures what its cosines
//! mean ([`super::cosine_scale`]).
//!
//! A model's line of evidence is fitted as the constants of [`super::probability`] were: by a logistic regression of
//! whether a page's first passage answers, from the cosine, with all else that is in the logit as it is.
//! `data/labelled_pages.md` has the sources.

use std::ops::Range;

use serde::Deserialize;

use super::cosine_scale::Line;

const FILE: &str = include_str!("../../data/labelled_pages.jsonl");

/// A page and its questions.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct LabelledPage {
    pub(crate) language: String,
    pub(crate) text: String,
    pub(crate) questions: Vec<LabelledQuestion>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct LabelledQuestion {
    pub(crate) q: String,
    /// In bytes; empty if the page does not answer it.
    answers: Vec<(usize, usize)>,
}

/// The first passage of a page for a question.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FirstPassage {
    pub(crate) cosine: f32,
    /// What a cosine of `MiniLM` adds to its logit, and all else in that.
    pub(crate) per_cosine: f32,
    pub(crate) rest: f32,
    pub(crate) is_answer: bool,
}

/// The first pages; later ones have the same languages again.
pub(crate) fn labelled_pages(count: usize) -> Vec<LabelledPage> {
    let read = |line| serde_json::from_str(line).expect("a test reads every line");
    FILE.lines().take(count).map(read).collect()
}

impl LabelledQuestion {
    pub(crate) fn is_answered_in(&self, span: &Range<usize>) -> bool {
        self.answers.iter().any(|(start, end)| *start < span.end && span.start < *end)
    }
}

/// What a deviation of the best cosines says, and what their mean says, before anything is measured: `MiniLM`'s values.
const TYPICAL: (f64, f64) = (0.15, 0.4);
/// The weight of [`TYPICAL`]: that of a few passages.
const TYPICAL_WEIGHT: f64 = 10.0;
const STEPS: usize = 30;
const CLOSE: f64 = 1e-7;

/// The line of evidence with which the logits of first passages are the likeliest.
pub(crate) fn fit(passages: &[FirstPassage]) -> Line {
    #[expect(clippy::cast_precision_loss, reason = "hundreds")]
    let count = passages.len().max(1) as f64;
    let mean = passages.iter().map(|one| f64::from(one.cosine)).sum::<f64>() / count;
    let squares: f64 = passages.iter().map(|one| (f64::from(one.cosine) - mean).powi(2)).sum();
    let deviation = (squares / count).sqrt().max(1e-4);
    let z = |one: &FirstPassage| (f64::from(one.cosine) - mean) / deviation;
    let (mut slope, mut level) = TYPICAL;
    for _ in 0..STEPS {
        // Newton's method: the gradient and the matrix of second derivatives of the loss.
        let (mut by_slope, mut by_level) = (TYPICAL_WEIGHT * (slope - TYPICAL.0), TYPICAL_WEIGHT * (level - TYPICAL.1));
        let (mut both_slopes, mut mixed, mut both_levels) = (TYPICAL_WEIGHT, 0.0, TYPICAL_WEIGHT);
        for one in passages {
            let (z, factor) = (z(one), f64::from(one.per_cosine));
            let logit = factor * (slope * z + level) + f64::from(one.rest);
            let probability = 1.0 / (1.0 + (-logit).exp());
            let (error, curvature) =
                (probability - f64::from(u8::from(one.is_answer)), probability * (1.0 - probability));
            by_slope += factor * error * z;
            by_level += factor * error;
            both_slopes += factor * factor * curvature * z * z;
            mixed += factor * factor * curvature * z;
            both_levels += factor * factor * curvature;
        }
        let determinant = both_slopes * both_levels - mixed * mixed;
        // Half a deviation a step, so that a step from a flat part of the loss does not leave its valley.
        let limited = |step: f64| step.clamp(-0.2, 0.2);
        let slope_step = limited((both_levels * by_slope - mixed * by_level) / determinant);
        let level_step = limited((both_slopes * by_level - mixed * by_slope) / determinant);
        slope -= slope_step;
        level -= level_step;
        if slope_step.abs().max(level_step.abs()) < CLOSE {
            break;
        }
    }
    // A lower cosine is never better evidence.
    #[expect(clippy::cast_possible_truncation, reason = "cosines are single precision")]
    let line = Line { from: mean as f32, to: level as f32, gain: (slope.max(0.0) / deviation) as f32 };
    line
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn every_page_has_both_kinds_of_questions() {
        let pages = labelled_pages(usize::MAX);
        let mut languages: HashMap<&str, usize> = HashMap::new();
        for page in &pages {
            *languages.entry(&page.language).or_default() += 1;
            assert!(page.text.len() > 500, "{}", page.text);
            let unanswered = page.questions.iter().filter(|question| question.answers.is_empty()).count();
            assert!(unanswered > 0 && unanswered < page.questions.len(), "{}", page.text);
            for (start, end) in page.questions.iter().flat_map(|question| &question.answers) {
                assert!(page.text.get(*start..*end).is_some_and(|answer| !answer.trim().is_empty()), "{}", page.text);
            }
        }
        assert!(languages.values().all(|pages| *pages > 1) && languages.len() > 7, "{languages:?}");
    }

    #[test]
    fn the_line_of_evidence_is_that_of_the_model_that_made_the_answers() {
        // A cosine of 0.8 plus a tenth of a deviation for each step answers as often as its logit says.
        let (from, gain) = (0.8_f32, 5.0_f32);
        let mut passages = Vec::new();
        for step in 0..200_u16 {
            let cosine = 0.75 + f32::from(step) * 0.0005;
            let logit = 6.0 * (0.4 + (cosine - from) * gain) - 2.4;
            let probability = 1.0 / (1.0 + (-logit).exp());
            for place in 0..10_u8 {
                let is_answer = (f32::from(place) + 0.5) / 10.0 < probability;
                passages.push(FirstPassage { cosine, per_cosine: 6.0, rest: -2.4, is_answer });
            }
        }
        let line = fit(&passages);
        let at = |cosine: f32| line.to + (cosine - line.from) * line.gain;
        for cosine in [0.76, 0.8, 0.84] {
            assert!((at(cosine) - 0.4 - (cosine - from) * gain).abs() < 0.02, "{cosine} {line:?}");
        }
    }

    #[test]
    fn cosines_that_tell_nothing_are_no_evidence() {
        let passage = |cosine, is_answer| FirstPassage { cosine, per_cosine: 6.0, rest: -2.0, is_answer };
        let falling: Vec<FirstPassage> =
            (0..100_u8).map(|step| passage(0.5 + f32::from(step) * 0.001, step < 50)).collect();
        assert_eq!(fit(&falling).gain.to_bits(), 0.0_f32.to_bits());
        assert!(fit(&[]).gain.is_finite() && fit(&[passage(0.5, true); 50]).to.is_finite());
    }
}
