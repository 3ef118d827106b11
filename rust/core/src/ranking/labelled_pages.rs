//! Pages with questions that they answer and questions that they do not, on which a new model measures what its cosines
//! mean ([`super::cosine_scale`]).
//!
//! A model's line of evidence and the weight of coverage are fitted as the constants of [`super::probability`] were: by a
//! logistic regression of whether a page's first passage answers, with all else that is in the logit as it is.
//! `data/labelled_pages.md` has the sources.

use std::ops::Range;

use serde::Deserialize;

use super::cosine_scale::Line;
use crate::runtime::call::to_the_end;
use crate::text::page::ByteSpan;
use crate::text::pieces::sentences;
use crate::tokens::Role;

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
    /// What a cosine of `MiniLM` adds to its logit, what coverage adds with `MiniLM`, and all else in that.
    pub(crate) per_cosine: f32,
    pub(crate) covered: f32,
    pub(crate) rest: f32,
    pub(crate) is_answer: bool,
    /// Whether the page is the question's own, and leaves it open.
    pub(crate) is_left_open: bool,
    /// [`super::probability::Calibration::native`]
    pub(crate) native: f32,
}

/// The first pages; later ones have the same languages again.
pub(crate) fn labelled_pages(count: usize) -> Vec<LabelledPage> {
    let read = |line| serde_json::from_str(line).expect("a test reads every line");
    FILE.lines().take(count).map(read).collect()
}

/// Questions and passages of three sentences, about this number of each from all languages, on which an encoder measures its
/// number types.
pub fn sample_texts(count: usize) -> [(Role, Vec<String>); 2] {
    let pages = labelled_pages(usize::MAX);
    let passages = |page: &LabelledPage| {
        let sentences = to_the_end(|check| sentences(&page.text, check));
        let passage = |some: &[ByteSpan]| page.text[some[0].start..some[some.len() - 1].end].to_owned();
        sentences.chunks(3).map(passage).collect::<Vec<String>>()
    };
    let questions = pages.iter().flat_map(|page| &page.questions).map(|question| question.q.clone());
    let both = [(Role::Query, questions.collect()), (Role::Passage, pages.iter().flat_map(passages).collect())];
    both.map(|(role, texts): (Role, Vec<String>)| {
        let step = (texts.len() / count.max(1)).max(1);
        (role, texts.into_iter().step_by(step).collect())
    })
}

impl LabelledQuestion {
    /// Whether its own page does not answer it.
    pub(crate) fn is_left_open(&self) -> bool {
        self.answers.is_empty()
    }

    pub(crate) fn is_answered_in(&self, span: &Range<usize>) -> bool {
        self.answers.iter().any(|(start, end)| *start < span.end && span.start < *end)
    }
}

/// A deviation of the best cosines, their mean, and coverage: what each says before anything is measured. `MiniLM`'s values.
const TYPICAL: [f64; 3] = [0.15, 0.4, 1.0];
/// The weight of [`TYPICAL`]: that of a few passages.
const TYPICAL_WEIGHT: f64 = 10.0;
/// The weight of a question that its own page leaves open. Such questions are the hardest, and a high score for one misleads:
/// with this weight, fewer than a tenth of the labelled ones get more than 0.5 with a real e5.
const UNANSWERED_WEIGHT: f64 = 1.4;
/// How much steeper logits are on pages as they come than on these, which were made to be hard: by 1.3 to 1.6 the default
/// model's constants, fitted on many pages, are steeper than what these pages make of its cosines.
const HARDNESS: f64 = 1.4;
/// So that a model without a language of its own is fitted, too.
const LEAST_WEIGHT: f64 = 1e-3;
const STEPS: usize = 40;
const LONGEST_STEP: f64 = 0.2;
const CLOSE: f64 = 1e-7;

/// What makes the logits of first passages the likeliest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fit {
    pub(crate) evidence: Line,
    /// Of [`super::cosine_scale::Joining`].
    pub(crate) coverage: f32,
    /// The less, the likelier, in all languages alike.
    pub(crate) loss: f64,
}

impl FirstPassage {
    fn weight(&self) -> f64 {
        if self.is_left_open { UNANSWERED_WEIGHT } else { 1.0 }
    }

    /// In the fit. In a language that the model hardly knows, cosines say little of those in its own.
    fn weight_of_language(&self) -> f64 {
        f64::from(self.native).max(LEAST_WEIGHT)
    }
}

/// Fits the line of evidence and the weight of coverage.
pub(crate) fn fit(passages: &[FirstPassage]) -> Fit {
    let mean_of = |value: &dyn Fn(f64) -> f64| {
        let all = passages.iter().map(FirstPassage::weight_of_language).sum::<f64>().max(LEAST_WEIGHT);
        passages.iter().map(|one| one.weight_of_language() * value(f64::from(one.cosine))).sum::<f64>() / all
    };
    let mean = mean_of(&|cosine| cosine);
    let deviation = mean_of(&|cosine| (cosine - mean).powi(2)).sqrt().max(1e-4);
    let features = |one: &FirstPassage| {
        let factor = f64::from(one.per_cosine);
        [factor * (f64::from(one.cosine) - mean) / deviation, factor, f64::from(one.covered)]
    };
    let rows: Vec<([f64; 3], &FirstPassage)> = passages.iter().map(|one| (features(one), one)).collect();
    let logit = |values: &[f64; 3], (features, one): &([f64; 3], &FirstPassage)| {
        (dot(features, values) + f64::from(one.rest)) / HARDNESS
    };
    let mut values = TYPICAL;
    for _ in 0..STEPS {
        // Newton's method: the gradient and the matrix of second derivatives of the loss.
        let mut gradient = [0, 1, 2].map(|of| TYPICAL_WEIGHT * (values[of] - TYPICAL[of]));
        let mut curvature = [0, 1, 2].map(|of| [0, 1, 2].map(|by| if of == by { TYPICAL_WEIGHT } else { 0.0 }));
        for row in &rows {
            let (features, one) = row;
            let probability = sigmoid(logit(&values, row));
            let weight = one.weight() * one.weight_of_language();
            let error = weight / HARDNESS * (probability - f64::from(u8::from(one.is_answer)));
            let bend = weight / HARDNESS.powi(2) * probability * (1.0 - probability);
            for of in 0..3 {
                gradient[of] += error * features[of];
                for by in 0..3 {
                    curvature[of][by] += bend * features[of] * features[by];
                }
            }
        }
        // A short step, so that one from a flat part of the loss does not leave its valley.
        let step = solve(curvature, gradient).map(|step| step.clamp(-LONGEST_STEP, LONGEST_STEP));
        values.iter_mut().zip(step).for_each(|(value, step)| *value -= step);
        if step.iter().all(|step| step.abs() < CLOSE) {
            break;
        }
    }
    let prior = |of: usize| TYPICAL_WEIGHT / 2.0 * (values[of] - TYPICAL[of]).powi(2);
    let loss = |row: &([f64; 3], &FirstPassage)| {
        let (logit, one) = (logit(&values, row), row.1);
        -one.weight() * sigmoid(if one.is_answer { logit } else { -logit }).max(f64::MIN_POSITIVE).ln()
    };
    let loss = rows.iter().map(loss).sum::<f64>() + (0..3).map(prior).sum::<f64>();
    let [slope, level, coverage] = values;
    // A lower cosine is never better evidence, nor are fewer words.
    #[expect(clippy::cast_possible_truncation, reason = "cosines are single precision")]
    let fit = Fit {
        evidence: Line { from: mean as f32, to: level as f32, gain: (slope.max(0.0) / deviation) as f32 },
        coverage: coverage.max(0.0) as f32,
        loss,
    };
    fit
}

fn sigmoid(logit: f64) -> f64 {
    1.0 / (1.0 + (-logit).exp())
}

fn dot(one: &[f64; 3], other: &[f64; 3]) -> f64 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

/// The solution of a system of equations with a positive definite matrix, by elimination.
fn solve(mut matrix: [[f64; 3]; 3], mut values: [f64; 3]) -> [f64; 3] {
    for column in 0..3 {
        for row in column + 1..3 {
            let factor = matrix[row][column] / matrix[column][column];
            let above = matrix[column];
            matrix[row].iter_mut().zip(above).for_each(|(value, above)| *value -= factor * above);
            values[row] -= factor * values[column];
        }
    }
    for row in (0..3).rev() {
        let known: f64 = (row + 1..3).map(|of| matrix[row][of] * values[of]).sum();
        values[row] = (values[row] - known) / matrix[row][row];
    }
    values
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn passage(cosine: f32, is_answer: bool) -> FirstPassage {
        FirstPassage { cosine, per_cosine: 6.0, covered: 0.0, rest: -2.4, is_answer, is_left_open: false, native: 1.0 }
    }

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
        assert!(languages.values().all(|pages| *pages > 1) && languages.len() > 16, "{languages:?}");
    }

    #[test]
    fn the_line_of_evidence_is_that_of_the_model_that_made_the_answers() {
        // A cosine of 0.8 plus a tenth of a deviation for each step answers as often as its logit says, in which coverage
        // weighs a half of what it does with `MiniLM`.
        let (from, gain, weight) = (0.8_f32, 5.0_f32, 0.5_f32);
        let mut passages = Vec::new();
        for step in 0..200_u16 {
            let cosine = 0.75 + f32::from(step) * 0.0005;
            for covered in [0.0, 1.5, 3.0] {
                let logit = 6.0 * (0.4 + (cosine - from) * gain) + weight * covered - 2.4;
                let probability = sigmoid(f64::from(logit) / HARDNESS);
                for place in 0..10_u8 {
                    let is_answer = (f64::from(place) + 0.5) / 10.0 < probability;
                    passages.push(FirstPassage { cosine, covered, is_answer, ..passage(0.0, false) });
                }
            }
        }
        let Fit { evidence: line, coverage, .. } = fit(&passages);
        let at = |cosine: f32| line.to + (cosine - line.from) * line.gain;
        for cosine in [0.76, 0.8, 0.84] {
            assert!((at(cosine) - 0.4 - (cosine - from) * gain).abs() < 0.02, "{cosine} {line:?}");
        }
        assert!((coverage - weight).abs() < 0.02, "{coverage}");
    }

    #[test]
    fn cosines_that_tell_nothing_are_no_evidence() {
        let falling: Vec<FirstPassage> =
            (0..100_u8).map(|step| passage(0.5 + f32::from(step) * 0.001, step < 50)).collect();
        assert_eq!(fit(&falling).evidence.gain.to_bits(), 0.0_f32.to_bits());
        assert!(fit(&[]).evidence.gain.is_finite() && fit(&[passage(0.5, true); 50]).evidence.to.is_finite());
    }

    #[test]
    fn languages_that_the_model_does_not_know_change_no_line() {
        let own: Vec<FirstPassage> =
            (0..200_u8).map(|step| passage(0.3 + f32::from(step) * 0.002, step > 120)).collect();
        let foreign = |step: u8| FirstPassage { native: 0.0, ..passage(0.2 + f32::from(step) * 0.002, step < 80) };
        let both: Vec<FirstPassage> = own.iter().copied().chain((0..200).map(foreign)).collect();
        let (alone, mixed) = (fit(&own).evidence, fit(&both).evidence);
        assert!(alone.gain > 0.1 && (mixed.gain / alone.gain - 1.0).abs() < 0.05, "{alone:?} {mixed:?}");
    }

    #[test]
    fn questions_left_open_count_more_than_others() {
        let mixed = |is_left_open| -> Vec<FirstPassage> {
            let one = |step: u8| passage(0.5 + f32::from(step) * 0.001, step.is_multiple_of(3));
            let open = |one: FirstPassage| FirstPassage { is_left_open: is_left_open && !one.is_answer, ..one };
            (0..200_u8).map(one).map(open).collect()
        };
        assert!(fit(&mixed(true)).evidence.to < fit(&mixed(false)).evidence.to - 0.01);
    }
}
