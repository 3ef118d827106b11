//! Probability: how likely it is that a passage answers the query, which is its score.
//!
//! Relevance compares the windows of one call, and so depends on all of its pages. A probability depends on the query,
//! the passage and the language of its page, so that scores of different pages and calls compare. It comes from the
//! cosine as it is, and from the share of the query's words in the passage, each weighed by how rare it is in the
//! language.
//!
//! Three logistic regressions were fitted on pages that answer a question, on other pages, and on the same pages
//! without the answer: for cosine and words together, and for each alone. The lexical weight interpolates between them.
//! On a page of a few sentences without any word of the query, the cosine counts alone: such a page has no other place
//! for the answer, so that its words are no evidence.
//!
//! Cosines are on `MiniLM`'s scale; those of other models are brought to it ([`CosineScale`]). `bench/calibration.py`
//! measures and fits all of this.

use super::cosine_scale::CosineScale;
use super::relevance::{LexicalWeight, unknown_script};

/// The least score that `min_score="auto"` keeps: 95 % of the first passages that answer have more.
pub const ANSWERED: f32 = 0.2;

/// A logistic regression of evidence: the weights of a logit, for cosines on `MiniLM`'s scale.
struct Regression {
    cosine: f32,
    coverage: f32,
    /// Of [`Calibration::foreign`]: an equal cosine means more where all are lower.
    foreign: f32,
    constant: f32,
}

const COSINE_ALONE: Regression = Regression { cosine: 7.3, coverage: 0.0, foreign: 0.0, constant: -4.7 };
const BOTH: Regression = Regression { cosine: 6.1, coverage: 3.2, foreign: 0.6, constant: -5.4 };
const WORDS_ALONE: Regression = Regression { cosine: 0.0, coverage: 7.0, foreign: 0.0, constant: -3.6 };
/// With the mean cosine of static vectors in place of the cosine.
const STATIC_VECTORS: Regression = Regression { cosine: 5.1, coverage: 7.8, foreign: 0.0, constant: -5.3 };

/// With this number of characters per token, the tokenizer was made for the language. It is foreign with 1.4 fewer.
const NATIVE_CHARACTERS_PER_TOKEN: f32 = 3.6;
const FEWER_IF_FOREIGN: f32 = 1.4;

/// Pages of fewer units are short; those of at most [`ALL_SHORT`] fully so.
const SHORT_PAGE: f32 = 9.0;
const ALL_SHORT: f32 = 5.0;

/// How foreign short English pages are at most, and French, German and Spanish ones at least (0.39 and 0.60 of 46).
const MOST_NATIVE: f32 = 0.4;
const LEAST_FOREIGN: f32 = 0.65;

/// The first passage is the best of all its page's, and so less likely the answer if they are many. The logit's slope
/// over their logarithm, fitted on 1,899 first passages of English pages of one to nine sentences.
const FEW_RIVALS: f32 = 0.46;

/// Weight of a seed's logit against its relevance in the order of passages. Where it is 0.5, first passages of short
/// questions are right more often, and those of longer ones as often.
const ORDER_WEIGHT: f32 = 0.5;

/// Weight of the cosine in the order of passages, in addition to that in the logit, where the query has few words:
/// coverage has few values then, and cannot tell passages apart. Weights of 8 to 18 find as much. For longer queries it
/// loses hits.
const MEANING_WEIGHT: f32 = 12.0;

/// Queries of at most the first number of words get the full weight, and those of at least the second none.
const FEW_WORDS: (f32, f32) = (2.0, 4.0);

/// How much less likely a sentence without a number answers "when" or "how many": measured on 47 such questions, the
/// answer has a number nine times of ten, other passages six times.
const LACKS_NUMBER: f32 = 1.0;

/// The inputs of a seed's probability.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Evidence {
    /// The best cosine of the windows around the seed.
    pub(crate) cosine: f32,
    /// The share of the query in the seed: see [`super::terms::QueryPostings::language_coverage`].
    pub(crate) coverage: f32,
    /// Whether the query asks for a number or a date, and the seed has none.
    pub(crate) lacks_number: bool,
}

/// The weights of evidence on a page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Calibration {
    /// 0 for the cosine alone, ½ for both, 1 for words alone.
    words: f32,
    /// From 0 for the language that the model was made for to 1 for others in its script: their cosines are lower.
    foreign: f32,
    /// From 1 for languages that the model's tokenizer was made for to 0, whatever the model understands.
    pub(crate) native: f32,
    /// From 0, for queries of enough words, to 1.
    few_words: f32,
    /// From 0 to 1 for short pages that have no word of the query: how much the cosine alone counts if it says more.
    meaning_alone: f32,
    /// Added to that logit: see [`FEW_RIVALS`].
    few_rivals: f32,
    pub(crate) model: CosineScale,
}

impl Regression {
    fn logit(&self, cosine: f32, coverage: f32, foreign: f32) -> f32 {
        self.cosine * cosine + self.coverage * coverage + self.foreign * foreign + self.constant
    }
}

impl Calibration {
    /// For a page with this number of characters per token, and a query of this number of words that are no stop words.
    /// The former shows how well the model's tokenizer knows the page's language.
    #[expect(clippy::cast_precision_loss, reason = "a number of words")]
    pub(crate) fn new(
        lexical_weight: LexicalWeight,
        characters_per_token: f32,
        words: usize,
        model: CosineScale,
    ) -> Self {
        let (few, enough) = FEW_WORDS;
        let multilingual = model.joining().multilingual;
        let foreign = ((NATIVE_CHARACTERS_PER_TOKEN - characters_per_token) / FEWER_IF_FOREIGN).clamp(0.0, 1.0);
        Self {
            words: lexical_weight.share_of_words(unknown_script(characters_per_token, multilingual)),
            foreign: foreign * (1.0 - multilingual),
            native: native(foreign),
            few_words: ((enough - words as f32) / (enough - few)).clamp(0.0, 1.0),
            meaning_alone: 0.0,
            few_rivals: 0.0,
            model,
        }
    }

    /// The same for a page of this number of units that has no word of the query.
    ///
    /// Only in the language of the model: in others, the cosine of a question with an answer in other words is that with
    /// any sentence of the language.
    #[expect(clippy::cast_precision_loss, reason = "only a few units matter")]
    pub(crate) fn without_words(self, units: usize) -> Self {
        let units = units.max(1) as f32;
        let is_short = ((SHORT_PAGE - units) / (SHORT_PAGE - ALL_SHORT)).clamp(0.0, 1.0);
        Self {
            meaning_alone: is_short * native(self.foreign) * (2.0 - 2.0 * self.words).min(1.0),
            few_rivals: FEW_RIVALS * (SHORT_PAGE / units).ln().max(0.0),
            ..self
        }
    }

    /// The logit of the probability.
    pub(crate) fn logit(self, Evidence { cosine, coverage, lacks_number }: Evidence) -> f32 {
        self.logit_of_evidence(self.model.evidence(cosine), coverage, lacks_number)
    }

    /// The same with a cosine that is on `MiniLM`'s scale.
    pub(crate) fn logit_of_evidence(self, cosine: f32, coverage: f32, lacks_number: bool) -> f32 {
        let [meaning, both, words] =
            [COSINE_ALONE, BOTH, WORDS_ALONE].map(|regression| regression.logit(cosine, coverage, self.foreign));
        let both = both + (self.model.joining().coverage - 1.0) * BOTH.coverage * coverage;
        let logit = if self.words <= 0.5 {
            meaning + 2.0 * self.words * (both - meaning)
        } else {
            both + (2.0 * self.words - 1.0) * (words - both)
        };
        let logit = logit + self.meaning_alone * (meaning + self.few_rivals - logit).max(0.0);
        if lacks_number { logit - LACKS_NUMBER } else { logit }
    }

    /// What coverage adds to a logit that counts cosines too, with `MiniLM`'s weight.
    pub(crate) fn covered(self, coverage: f32) -> f32 {
        2.0 * self.words.min(1.0 - self.words) * BOTH.coverage * coverage
    }

    /// The logit where cosines are only predicted ([`super::Effort::Instant`]), from the mean cosine of the words
    /// around the seed instead: predictions depend on the other windows of the page.
    pub(crate) fn predicted_logit(self, mean: f32, coverage: f32, lacks_number: bool) -> f32 {
        let logit = STATIC_VECTORS.logit(self.model.to_minilm(mean), coverage, self.foreign);
        if lacks_number { logit - LACKS_NUMBER } else { logit }
    }

    /// The value by which a page's passages are ordered.
    pub(crate) fn order(self, relevance: f32, logit: f32, cosine: f32) -> f32 {
        let meaning = MEANING_WEIGHT * self.few_words * (2.0 - 2.0 * self.words).min(1.0);
        relevance + (1.0 - self.foreign) * (ORDER_WEIGHT * logit + meaning * self.model.evidence(cosine))
    }
}

/// From 1 for languages that are hardly foreign to 0.
fn native(foreign: f32) -> f32 {
    ((LEAST_FOREIGN - foreign) / (LEAST_FOREIGN - MOST_NATIVE)).clamp(0.0, 1.0)
}

/// The probability of a logit.
pub fn score(logit: f32) -> f32 {
    1.0 / (1.0 + (-logit).exp())
}

/// The inverse of [`score`]; infinite at 0 and 1.
pub fn logit(score: f32) -> f32 {
    -(1.0 / score - 1.0).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cosine_counts_alone_on_short_pages_without_words_of_the_query() {
        let weight = |weight| LexicalWeight::new(weight).expect("a weight");
        let of = |characters_per_token: f32, lexical_weight: Option<f64>| {
            Calibration::new(weight(lexical_weight), characters_per_token, 3, CosineScale::MINILM)
        };
        let probability = |calibration: Calibration| {
            score(calibration.logit(Evidence { cosine: 0.45, coverage: 0.0, lacks_number: false }))
        };
        let page = |units| probability(of(4.2, None).without_words(units));
        let long = probability(of(4.2, None));
        assert!(page(1) > page(2) && page(2) > page(5) && page(5) > page(8) && page(8) > long, "{long}");
        assert!(page(4) >= ANSWERED && long < ANSWERED / 2.0, "{} {long}", page(4));
        for units in [9, 10, 1000] {
            assert!((page(units) - long).abs() < 1e-6, "{units} units");
        }
        let foreign = probability(of(2.4, None));
        assert!((probability(of(2.4, None).without_words(1)) - foreign).abs() < 1e-6, "another language");
        let words_alone = probability(of(4.2, Some(1.0)));
        assert!((probability(of(4.2, Some(1.0)).without_words(1)) - words_alone).abs() < 1e-6, "words alone");
    }

    #[test]
    fn meaning_counts_more_in_the_order_of_queries_with_few_words() {
        let order = |words: usize, weight: Option<f64>, cosine: f32| {
            let weight = LexicalWeight::new(weight).expect("a weight");
            Calibration::new(weight, 4.0, words, CosineScale::MINILM).order(1.0, 2.0, cosine)
        };
        let gain = |words, weight| order(words, weight, 0.5) - order(words, weight, 0.25);
        for (words, expected) in [(1, 3.0), (2, 3.0), (3, 1.5), (4, 0.0), (9, 0.0)] {
            assert!((gain(words, None) - expected).abs() < 1e-5, "{words} words");
        }
        assert!(gain(1, Some(1.0)).abs() < 1e-5, "words alone");
    }
}
