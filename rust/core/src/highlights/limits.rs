//! Limits, order and deduplication of highlights, checked once.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::ranking::probability::{ANSWERED, logit};

/// Highlights of a page if the caller sets neither `top_k` nor a budget.
pub const DEFAULT_TOP_K: usize = 3;

/// A short sentence.
const SHORT_PASSAGE: Budget = Budget { chars: 100, tokens: 25 };

/// The order of a page's highlights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Order {
    /// The best first.
    #[default]
    Score,
    /// As in the page.
    Position,
}

/// Where a passage is dropped that nearly repeats a better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dedupe {
    /// Nowhere.
    None,
    /// If the better one is on the same page.
    Page,
    /// If the better one is anywhere in the answer.
    Answer,
}

/// A [`Dedupe`] as a caller names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum DedupeOption {
    #[default]
    Auto,
    Page,
    Answer,
    None,
}

/// Upper bounds on the length of passages; `usize::MAX` is unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Characters, from a passage's start to its end.
    pub chars: usize,
    /// Tokens of the model, without special tokens.
    pub tokens: usize,
}

/// Unchecked limits; `None` is unlimited.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    pub top_k: Option<i64>,
    pub max_chars: Option<i64>,
    pub max_tokens: Option<i64>,
    pub max_total_chars: Option<i64>,
    pub max_total_tokens: Option<i64>,
    pub max_total_highlights: Option<i64>,
    pub min_score: Option<MinScore>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MinScore {
    /// [`ANSWERED`].
    Auto,
    Score(f64),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    pub(super) top_k: usize,
    pub(super) page: Budget,
    pub(super) answer: Budget,
    /// Highlights of the answer.
    pub(super) total: usize,
    pub(super) dedupe: Dedupe,
    pub(super) order: Order,
    min_score: f32,
}

impl DedupeOption {
    /// `Auto` is the page, and the answer where its pages share a limit.
    pub fn resolve(self, limits: &Limits) -> Dedupe {
        match self {
            Self::Auto
                if limits.max_total_chars.or(limits.max_total_tokens).or(limits.max_total_highlights).is_some() =>
            {
                Dedupe::Answer
            }
            Self::Auto | Self::Page => Dedupe::Page,
            Self::Answer => Dedupe::Answer,
            Self::None => Dedupe::None,
        }
    }
}

impl Budget {
    pub const NONE: Self = Self { chars: usize::MAX, tokens: usize::MAX };

    /// Whether passages of this length fit in.
    pub(super) const fn fits(self, length: Self) -> bool {
        length.chars <= self.chars && length.tokens <= self.tokens
    }

    pub(super) fn spend(&mut self, length: Self) {
        for (remaining, length) in [(&mut self.chars, length.chars), (&mut self.tokens, length.tokens)] {
            if *remaining != usize::MAX {
                *remaining -= length;
            }
        }
    }

    pub(super) const fn minus(self, other: Self) -> Self {
        Self { chars: self.chars - other.chars, tokens: self.tokens - other.tokens }
    }
}

impl Bounds {
    /// Checks limits. [`DEFAULT_TOP_K`] applies only without another limit.
    pub fn new(limits: &Limits, order: Order, dedupe: Dedupe) -> Result<Self> {
        let at_least_one = |name: &str, value: Option<i64>| match value.map(|value| (value, usize::try_from(value))) {
            None => Ok(usize::MAX),
            Some((_, Ok(count))) if count > 0 => Ok(count),
            Some((value, _)) => invalid(format!("{name} must be at least 1, not {value}")),
        };
        let page = Budget {
            chars: at_least_one("max_chars", limits.max_chars)?,
            tokens: at_least_one("max_tokens", limits.max_tokens)?,
        };
        let answer = Budget {
            chars: at_least_one("max_total_chars", limits.max_total_chars)?,
            tokens: at_least_one("max_total_tokens", limits.max_total_tokens)?,
        };
        let min_score = match limits.min_score {
            None => 0.0,
            Some(MinScore::Auto) => ANSWERED.into(),
            Some(MinScore::Score(score)) => score,
        };
        if !(0.0..=1.0).contains(&min_score) {
            return invalid(format!("min_score must be from 0 to 1, as scores are, not {min_score}"));
        }
        let total = at_least_one("max_total_highlights", limits.max_total_highlights)?;
        let without_count =
            limits.top_k.is_none() && total == usize::MAX && page == Budget::NONE && answer == Budget::NONE;
        Ok(Self {
            top_k: if without_count { DEFAULT_TOP_K } else { at_least_one("top_k", limits.top_k)? },
            page,
            answer,
            total,
            #[expect(clippy::cast_possible_truncation, reason = "scores are single precision; a bound needs no more")]
            min_score: min_score as f32,
            order,
            dedupe,
        })
    }

    /// Passages of a page; `None` if only a budget limits them.
    pub fn max_passages(&self) -> Option<usize> {
        Some(self.top_k.min(self.total)).filter(|count| *count != usize::MAX)
    }

    /// The budget of one page's passages: the page's own or the answer's, whichever is smaller.
    pub fn page_budget(&self) -> Budget {
        Budget { chars: self.page.chars.min(self.answer.chars), tokens: self.page.tokens.min(self.answer.tokens) }
    }

    /// About the most passages that the limits shared by pages have room for; `None` without such a limit.
    pub fn shared_passages(&self) -> Option<usize> {
        let in_chars = Some(self.answer.chars).filter(|chars| *chars != usize::MAX);
        let in_tokens = Some(self.answer.tokens).filter(|tokens| *tokens != usize::MAX);
        let total = Some(self.total).filter(|total| *total != usize::MAX);
        let fit = [
            in_chars.map(|chars| chars.div_ceil(SHORT_PASSAGE.chars)),
            in_tokens.map(|tokens| tokens.div_ceil(SHORT_PASSAGE.tokens)),
            total,
        ];
        fit.into_iter().flatten().min()
    }

    /// Whether there is a limit in tokens.
    pub const fn counts_tokens(&self) -> bool {
        self.page.tokens != usize::MAX || self.answer.tokens != usize::MAX
    }

    /// The logit of `min_score`; infinite for scores that all or none reach.
    pub fn min_logit(&self) -> f32 {
        match self.min_score {
            all if all <= 0.0 => f32::NEG_INFINITY,
            none if none >= 1.0 => f32::INFINITY,
            least => logit(least),
        }
    }
}

fn invalid<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::InvalidArgument, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn top_k_has_a_default_only_without_a_budget() {
        let bounds = |limits: Limits| Bounds::new(&limits, Order::Score, Dedupe::None).unwrap();
        assert_eq!(bounds(Limits::default()).top_k, DEFAULT_TOP_K);
        assert_eq!(bounds(Limits { max_chars: Some(7), ..Limits::default() }).top_k, usize::MAX);
        assert_eq!(bounds(Limits { max_total_tokens: Some(7), ..Limits::default() }).top_k, usize::MAX);
        assert_eq!(bounds(Limits { max_tokens: Some(7), top_k: Some(2), ..Limits::default() }).top_k, 2);
    }

    #[test]
    fn shared_passages_are_those_of_the_tightest_shared_limit() {
        let passages = |limits: Limits| Bounds::new(&limits, Order::Score, Dedupe::None).unwrap().shared_passages();
        let none = Limits::default();
        assert_eq!(passages(none), None);
        assert_eq!(passages(Limits { top_k: Some(2), max_chars: Some(9), ..none }), None);
        let chars = Limits { max_total_chars: Some(1001), ..none };
        assert_eq!(passages(chars), Some(11));
        assert_eq!(passages(Limits { max_total_tokens: Some(50), ..chars }), Some(2));
        assert_eq!(passages(Limits { max_total_highlights: Some(5), ..chars }), Some(5));
    }

    #[test]
    fn invalid_limits_name_the_option_and_its_value() {
        let none = Limits::default();
        for (limits, name, value) in [
            (Limits { top_k: Some(0), ..none }, "top_k", "0"),
            (Limits { max_chars: Some(-3), ..none }, "max_chars", "-3"),
            (Limits { max_total_tokens: Some(0), ..none }, "max_total_tokens", "0"),
            (Limits { min_score: Some(MinScore::Score(f64::NAN)), ..none }, "min_score", "NaN"),
        ] {
            let error = Bounds::new(&limits, Order::Score, Dedupe::None).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(error.message().starts_with(name) && error.message().ends_with(value), "{error}");
        }
    }

    #[test]
    fn dedupe_auto_spans_the_answer_if_its_pages_share_a_budget() {
        let shared = Limits { max_total_chars: Some(100), ..Limits::default() };
        assert_eq!(DedupeOption::Auto.resolve(&shared), Dedupe::Answer);
        assert_eq!(DedupeOption::Auto.resolve(&Limits::default()), Dedupe::Page);
        assert_eq!(DedupeOption::None.resolve(&shared), Dedupe::None);
    }
}
