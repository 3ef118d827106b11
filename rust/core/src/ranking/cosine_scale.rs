//! The scale of a model's cosines, on which all of ranking counts as if they were `MiniLM`'s.
//!
//! Two lines bring a model's cosines there. That of its windows has the level and the spread of the cosines between a
//! question and the windows of a page: predictions and z-scores depend on them. That of evidence has the meaning of the
//! best cosine of a page: how much likelier an answer it makes. A model whose best cosines tell answers from other
//! sentences better than `MiniLM`'s has a steeper line. Two weights join cosines with words: how much coverage counts, and
//! how much cosines count in languages of which the tokenizer makes many tokens. All four are measured on the pages of
//! `data/labelled_pages.jsonl` (see [`super::labelled_pages`]); for a host's or a function's vectors, which may cost their
//! owner something, the lines are measured by [`PAIRS`].

use super::relevance::{COSINE, Prior};
use crate::encoder::cosine::cosines;
use crate::encoder::model::Model;

/// The scale of a model's cosines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CosineScale {
    windows: Line,
    evidence: Line,
    joining: Joining,
}

/// How a model's cosines join with words.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Joining {
    /// What coverage weighs in a score, relative to its weight with `MiniLM`'s cosines.
    pub(crate) coverage: f32,
    /// From 0 for a model of one language to 1: then few characters per token make a language no less known. A tokenizer of
    /// many languages has short tokens in Chinese and Korean, whose texts its model still understands.
    pub(crate) multilingual: f32,
}

/// A line to `MiniLM`'s scale: `to + (cosine − from) · gain`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Line {
    pub(crate) from: f32,
    pub(crate) to: f32,
    pub(crate) gain: f32,
}

/// `MiniLM`'s cosine between unrelated texts, and the difference to that of a question and its answer.
const UNRELATED: f32 = 0.008;
const ANSWER: f32 = 0.78;
/// `MiniLM`'s cosines of the questions with all windows of their page: the mean, and the deviation within a page.
const WINDOWS: (f32, f32) = (0.43, 0.139);
/// Questions and short answers about unrelated subjects: enough for the two ends of a line, and little to encode.
pub(crate) const PAIRS: [(&str, &str); 8] = [
    ("When does the museum open?", "The museum opens at nine every morning."),
    ("Who painted the ceiling of the chapel?", "The ceiling of the chapel was painted by an Italian artist."),
    ("How do I install the program?", "Run the installer and follow the steps to install the program."),
    ("What causes volcanoes to erupt?", "Volcanoes erupt because pressure builds up in the magma below."),
    ("How many players are on a football team?", "A football team has eleven players on the field."),
    ("What is the boiling point of water?", "Water boils at one hundred degrees at sea level."),
    ("Which bank lends money to small farms?", "The cooperative bank lends money to small farms."),
    ("Why did the king lose the war?", "The king lost the war because his army ran out of food."),
];
/// Cosines of a model that spread less are the same for all texts.
const LEAST_SPREAD: f32 = 1e-3;
/// A difference of cosines below this one tells nothing.
const LEAST_DIFFERENCE: f32 = 0.05;

impl Joining {
    const MINILM: Self = Self { coverage: 1.0, multilingual: 0.0 };
}

impl Line {
    const IDENTITY: Self = Self { from: UNRELATED, to: UNRELATED, gain: 1.0 };

    fn at(self, cosine: f32) -> f32 {
        self.to + (cosine - self.from) * self.gain
    }
}

impl CosineScale {
    /// `MiniLM`'s own.
    pub const MINILM: Self = Self { windows: Line::IDENTITY, evidence: Line::IDENTITY, joining: Joining::MINILM };

    /// From a model's `config.json`: `"pullquote": {"cosines": [unrelated, answer]}`.
    pub(crate) fn of_model(model: &Model) -> Option<Self> {
        let cosines = &model.config["pullquote"]["cosines"];
        #[expect(clippy::cast_possible_truncation, reason = "cosines are single precision")]
        let cosine = |index: usize| cosines[index].as_f64().map(|cosine| cosine as f32);
        Some(Self::of_ends(cosine(0)?, cosine(1)?))
    }

    /// From the vectors of the questions and of the answers of [`PAIRS`].
    pub(crate) fn of_pairs(questions: &[Vec<f32>], answers: &[Vec<f32>]) -> Self {
        let all = answers.concat();
        let (mut related, mut unrelated) = (0.0, 0.0);
        for (number, question) in questions.iter().enumerate() {
            for (other, cosine) in cosines(question, &all).into_iter().enumerate() {
                *if number == other { &mut related } else { &mut unrelated } += cosine;
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "eight")]
        let pairs = questions.len() as f32;
        Self::of_ends(unrelated / (pairs * (pairs - 1.0)), related / pairs)
    }

    /// From the cosine of unrelated texts and that of a question and its answer. A model that cannot tell them apart keeps
    /// its own.
    fn of_ends(unrelated: f32, answer: f32) -> Self {
        if answer - unrelated < LEAST_DIFFERENCE {
            return Self::MINILM;
        }
        let line = Line { from: unrelated, to: UNRELATED, gain: (ANSWER - UNRELATED) / (answer - unrelated) };
        Self { windows: line, evidence: line, joining: Joining::MINILM }
    }

    /// From the cosines of each question with the windows of its page: the first step of a measurement, where the best
    /// cosine means what its place among the others means for `MiniLM`.
    #[expect(clippy::cast_precision_loss, reason = "a number of windows")]
    pub(crate) fn of_windows(pages: &[&[f32]]) -> Self {
        let count = pages.iter().map(|page| page.len()).sum::<usize>().max(1) as f32;
        let mean = pages.iter().copied().flatten().sum::<f32>() / count;
        let squares = pages.iter().map(|page| {
            let mean = page.iter().sum::<f32>() / page.len().max(1) as f32;
            page.iter().map(|cosine| (cosine - mean).powi(2)).sum::<f32>()
        });
        let freedom = (count - pages.len() as f32).max(1.0);
        let spread = (squares.sum::<f32>() / freedom).sqrt();
        let gain = if spread < LEAST_SPREAD { 1.0 } else { WINDOWS.1 / spread };
        let line = Line { from: mean, to: WINDOWS.0, gain };
        Self { windows: line, evidence: line, joining: Joining::MINILM }
    }

    pub(crate) const fn with_evidence(self, evidence: Line) -> Self {
        Self { evidence, ..self }
    }

    pub(crate) const fn with_joining(self, joining: Joining) -> Self {
        Self { joining, ..self }
    }

    pub(crate) const fn joining(self) -> Joining {
        self.joining
    }

    /// Eight numbers, as the cache keeps them.
    pub(crate) const fn numbers(self) -> [f32; 8] {
        let Self { windows, evidence, joining } = self;
        let Joining { coverage, multilingual } = joining;
        [windows.from, windows.to, windows.gain, evidence.from, evidence.to, evidence.gain, coverage, multilingual]
    }

    /// `None` for numbers that no measurement gives.
    pub(crate) fn from_numbers(numbers: [f32; 8]) -> Option<Self> {
        let line = |first: usize| Line { from: numbers[first], to: numbers[first + 1], gain: numbers[first + 2] };
        let joining = Joining { coverage: numbers[6], multilingual: numbers[7] };
        let scale = Self { windows: line(0), evidence: line(3), joining };
        let is_measured = scale.windows.gain > 0.0
            && scale.evidence.gain >= 0.0
            && joining.coverage >= 0.0
            && (0.0..=1.0).contains(&joining.multilingual);
        (numbers.iter().all(|number| number.is_finite()) && is_measured).then_some(scale)
    }

    /// What the best cosine around a seed says of it, as a cosine of `MiniLM`.
    pub(super) fn evidence(self, cosine: f32) -> f32 {
        self.evidence.at(cosine)
    }

    /// The cosine of `MiniLM` with the same place among those of a page's windows.
    pub(super) fn to_minilm(self, cosine: f32) -> f32 {
        self.windows.at(cosine)
    }

    /// This model's equivalent of a window's cosine of `MiniLM`.
    pub(crate) fn of_minilm(self, cosine: f32) -> f32 {
        self.windows.from + (cosine - self.windows.to) / self.windows.gain
    }

    /// The difference of this model's cosines of windows for a difference of 1 on `MiniLM`'s scale.
    pub(crate) fn slope(self) -> f32 {
        1.0 / self.windows.gain
    }

    /// What is assumed of a page's cosines before any is known.
    pub(crate) fn prior(self) -> Prior {
        let Line { from, to, .. } = self.windows;
        let (slope, from, to) = (f64::from(self.slope()), f64::from(from), f64::from(to));
        Prior { mean: COSINE.mean * slope + (from - to * slope), spread: COSINE.spread * slope }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_of_minilm_changes_nothing() {
        let scale = CosineScale::MINILM;
        let Prior { mean, spread } = scale.prior();
        assert_eq!((mean.to_bits(), spread.to_bits()), (COSINE.mean.to_bits(), COSINE.spread.to_bits()));
        assert!((scale.evidence(0.4) - 0.4).abs() < 1e-6 && (scale.of_minilm(0.18) - 0.18).abs() < 1e-6);
    }

    #[test]
    fn two_ends_make_a_line_unless_they_meet() {
        let scale = CosineScale::of_ends(0.7, 0.9);
        assert!(
            (scale.evidence(0.7) - UNRELATED).abs() < 1e-5 && (scale.to_minilm(0.9) - ANSWER).abs() < 1e-5,
            "{scale:?}"
        );
        assert_eq!(CosineScale::of_ends(0.9, 0.9), CosineScale::MINILM);
        let orthogonal: Vec<Vec<f32>> =
            (0..8).map(|one| (0..8).map(|other| f32::from(u8::from(one == other))).collect()).collect();
        assert_eq!(CosineScale::of_pairs(&orthogonal, &orthogonal), CosineScale::of_ends(0.0, 1.0));
    }

    #[test]
    fn a_narrow_scale_is_stretched_and_a_constant_one_only_moved() {
        let scale = CosineScale::of_windows(&[&[0.80, 0.82, 0.84], &[0.82, 0.80, 0.84]]);
        let (mean, spread) = WINDOWS;
        assert!((scale.to_minilm(0.82) - mean).abs() < 1e-5, "{scale:?}");
        assert!((scale.to_minilm(0.84) - mean - spread).abs() < 1e-4, "{scale:?}");
        assert!((scale.of_minilm(scale.to_minilm(0.9)) - 0.9).abs() < 1e-5);
        let constant = CosineScale::of_windows(&[&[0.5, 0.5], &[0.5]]);
        assert!((constant.to_minilm(0.6) - mean - 0.1).abs() < 1e-5, "{constant:?}");
        assert_eq!(CosineScale::of_windows(&[]).slope().to_bits(), 1.0_f32.to_bits());
    }

    #[test]
    fn kept_numbers_are_read_if_a_measurement_can_give_them() {
        let scale = CosineScale::of_windows(&[&[0.1, 0.3]])
            .with_evidence(Line { from: 0.2, to: 0.1, gain: 0.0 })
            .with_joining(Joining { coverage: 0.6, multilingual: 0.5 });
        assert_eq!(CosineScale::from_numbers(scale.numbers()), Some(scale));
        for wrong in [
            [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0],
            [0.0, f32::NAN, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0],
            [0.0, 0.0, 1.0, 0.0, 0.0, -1.0, 1.0, 0.0],
            [0.0, 0.0, 1.0, 0.0, 0.0, 1.0, -0.1, 0.0],
            [0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 1.0, 1.1],
        ] {
            assert_eq!(CosineScale::from_numbers(wrong), None, "{wrong:?}");
        }
    }
}
