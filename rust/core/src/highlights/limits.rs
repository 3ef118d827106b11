//! Options, order and deduplication of highlights, checked once.

use pullquote_wire::options::Options;
pub use pullquote_wire::options::{DedupeOption, MinScore, Order};

use crate::error::{Error, Result};
use crate::ranking::probability::{ANSWERED, logit};

/// Highlights of a page if the caller sets neither `top_k` nor a budget.
pub const DEFAULT_TOP_K: usize = 3;

/// A short sentence.
const SHORT_PASSAGE: Budget = Budget { chars: 100, tokens: 25 };

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

/// Upper bounds on the length of passages; `usize::MAX` is unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Characters, from a passage's start to its end.
    pub chars: usize,
    /// Tokens of the model, without special tokens.
    pub tokens: usize,
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
    /// `None` if the caller leaves it out.
    min_score: Option<f32>,
    /// Whether it is the caller's own number.
    is_number: bool,
    pub(super) purpose: Purpose,
}

/// What passages are chosen for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Answer,
    /// To be scored again, so that each has the whole budget: as passages, or as the groups that a budget is filled with.
    Candidates {
        are_groups: bool,
    },
}

impl Dedupe {
    /// `Auto` is the page, and the answer where its pages share a limit.
    pub fn new(option: DedupeOption, limits: &Options) -> Self {
        match option {
            DedupeOption::Auto
                if limits.max_total_chars.or(limits.max_total_tokens).or(limits.max_total_highlights).is_some() =>
            {
                Self::Answer
            }
            DedupeOption::Auto | DedupeOption::Page => Self::Page,
            DedupeOption::Answer => Self::Answer,
            DedupeOption::None => Self::None,
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
    pub fn new(limits: &Options, order: Order, dedupe: Dedupe) -> Result<Self> {
        let at_least_one = |name: &str, value: Option<i64>| match value.map(|value| (value, usize::try_from(value))) {
            None => Ok(usize::MAX),
            Some((_, Ok(count))) if count > 0 => Ok(count),
            Some((value, _)) => Err(Error::of_field(name, format!("{name} must be at least 1, not {value}"))),
        };
        let page = Budget {
            chars: at_least_one("max_chars", limits.max_chars)?,
            tokens: at_least_one("max_tokens", limits.max_tokens)?,
        };
        let answer = Budget {
            chars: at_least_one("max_total_chars", limits.max_total_chars)?,
            tokens: at_least_one("max_total_tokens", limits.max_total_tokens)?,
        };
        let min_score = limits.min_score.map(|least| match least {
            MinScore::Auto => ANSWERED.into(),
            MinScore::Score(score) => score,
        });
        if let Some(least) = min_score.filter(|least| !(0.0..=1.0).contains(least)) {
            let message = format!("min_score must be from 0 to 1, as scores are, not {least}");
            return Err(Error::of_field("min_score", message));
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
            min_score: min_score.map(|least| least as f32),
            is_number: matches!(limits.min_score, Some(MinScore::Score(_))),
            order,
            dedupe,
            purpose: Purpose::Answer,
        })
    }

    /// The bounds of the best passages to choose these from, at most `count`.
    pub fn candidates(&self, count: usize) -> Self {
        let purpose = Purpose::Candidates { are_groups: self.max_passages().is_none() };
        Self { purpose, top_k: usize::MAX, total: count, order: Order::Score, min_score: None, ..*self }
    }

    /// The bounds of passages of which a pruner has said that they answer.
    pub fn of_kept(&self) -> Self {
        Self { min_score: Some(f32::MIN_POSITIVE), ..*self }
    }

    /// The number that the caller passed as `min_score`.
    pub fn own_min_score(&self) -> Option<f32> {
        self.min_score.filter(|_| self.is_number)
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

    /// Whether a page's passages depend on those of other pages: they share a limit, or repeats are dropped over all pages.
    pub fn are_shared(&self) -> bool {
        self.answer != Budget::NONE || self.total != usize::MAX || self.dedupe == Dedupe::Answer
    }

    /// Whether pages that do not answer get nothing of a budget that all pages share, if another one answers. The
    /// caller's own `min_score` says instead what a budget may hold.
    pub(super) fn is_for_answers(&self) -> bool {
        self.answer != Budget::NONE && self.min_score.is_none() && self.purpose == Purpose::Answer
    }

    /// Whether there is a limit in characters or tokens.
    pub fn has_budget(&self) -> bool {
        self.page != Budget::NONE || self.answer != Budget::NONE
    }

    /// Whether there is a limit in tokens.
    pub const fn counts_tokens(&self) -> bool {
        self.page.tokens != usize::MAX || self.answer.tokens != usize::MAX
    }

    /// Shrinks limits in tokens by the largest share of expected to counted tokens.
    pub(super) fn scale_tokens(&mut self, expected_and_counted: impl Iterator<Item = (usize, usize)>) {
        let shares = expected_and_counted.map(|(expected, counted)| (expected.max(1) as u128, counted.max(1) as u128));
        let (expected, counted) =
            shares.fold((1, 1), |least, share| if share.0 * least.1 < least.0 * share.1 { share } else { least });
        for tokens in [&mut self.page.tokens, &mut self.answer.tokens] {
            if *tokens != usize::MAX {
                let shrunk = (*tokens as u128).saturating_mul(expected) / counted;
                *tokens = usize::try_from(shrunk).unwrap_or(*tokens).max(1);
            }
        }
    }

    /// The logit of `min_score`; infinite for scores that all or none reach.
    pub fn min_logit(&self) -> f32 {
        match self.min_score.unwrap_or(0.0) {
            all if all <= 0.0 => f32::NEG_INFINITY,
            none if none >= 1.0 => f32::INFINITY,
            least => logit(least),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn top_k_has_a_default_only_without_a_budget() {
        let bounds = |limits: Options| Bounds::new(&limits, Order::Score, Dedupe::None).unwrap();
        assert_eq!(bounds(Options::default()).top_k, DEFAULT_TOP_K);
        assert_eq!(bounds(Options { max_chars: Some(7), ..Options::default() }).top_k, usize::MAX);
        assert_eq!(bounds(Options { max_total_tokens: Some(7), ..Options::default() }).top_k, usize::MAX);
        assert_eq!(bounds(Options { max_tokens: Some(7), top_k: Some(2), ..Options::default() }).top_k, 2);
    }

    #[test]
    fn shared_passages_are_those_of_the_tightest_shared_limit() {
        let passages = |limits: Options| Bounds::new(&limits, Order::Score, Dedupe::None).unwrap().shared_passages();
        let none = Options::default();
        assert_eq!(passages(none), None);
        assert_eq!(passages(Options { top_k: Some(2), max_chars: Some(9), ..none }), None);
        let chars = Options { max_total_chars: Some(1001), ..none };
        assert_eq!(passages(chars), Some(11));
        assert_eq!(passages(Options { max_total_tokens: Some(50), ..chars }), Some(2));
        assert_eq!(passages(Options { max_total_highlights: Some(5), ..chars }), Some(5));
    }

    #[test]
    fn invalid_limits_name_the_option_and_its_value() {
        let none = Options::default();
        for (limits, name, value) in [
            (Options { top_k: Some(0), ..none }, "top_k", "0"),
            (Options { max_chars: Some(-3), ..none }, "max_chars", "-3"),
            (Options { max_total_tokens: Some(0), ..none }, "max_total_tokens", "0"),
            (Options { min_score: Some(MinScore::Score(f64::NAN)), ..none }, "min_score", "NaN"),
        ] {
            let error = Bounds::new(&limits, Order::Score, Dedupe::None).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(error.message().starts_with(name) && error.message().ends_with(value), "{error}");
        }
    }

    #[test]
    fn dedupe_auto_spans_the_answer_if_its_pages_share_a_budget() {
        let shared = Options { max_total_chars: Some(100), ..Options::default() };
        assert_eq!(Dedupe::new(DedupeOption::Auto, &shared), Dedupe::Answer);
        assert_eq!(Dedupe::new(DedupeOption::Auto, &Options::default()), Dedupe::Page);
        assert_eq!(Dedupe::new(DedupeOption::None, &shared), Dedupe::None);
    }
}
