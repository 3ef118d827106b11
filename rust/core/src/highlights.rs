//! Highlights: the best pieces of a page that do not overlap, within the caller's bounds.

mod passages;

use std::collections::BTreeMap;

use crate::error::{Error, ErrorKind, Result};
use crate::page::{ByteSpan, Page};
use crate::scores::relevance::relevance;

pub use passages::{Passage, choose_passages};

/// How many highlights of a page are returned where the caller says neither a count nor a budget.
pub const DEFAULT_TOP_K: usize = 3;

/// How a page's highlights are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Order {
    /// The best first.
    #[default]
    Score,
    /// As they stand in the page.
    Position,
}

/// What a page's highlights are bound by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    top_k: usize,
    max_chars: usize,
    min_score: f32,
    order: Order,
}

/// A piece that was chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chosen {
    /// Which of the pieces.
    pub piece: usize,
    /// How well it answers.
    pub relevance: f32,
}

impl Order {
    /// The order of this name.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] naming those there are.
    pub fn parse(name: &str) -> Result<Self> {
        match name {
            "score" => Ok(Self::Score),
            "position" => Ok(Self::Position),
            _ => Err(Error::new(
                ErrorKind::InvalidArgument,
                format!("order must be \"score\" or \"position\", not {name:?}"),
            )),
        }
    }
}

impl Bounds {
    /// Checks the bounds. Without a count, a budget in characters decides alone; without both, [`DEFAULT_TOP_K`] does.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] naming the value.
    pub fn new(top_k: Option<i64>, max_chars: Option<i64>, min_score: Option<f64>, order: Order) -> Result<Self> {
        let at_least_one = |name: &str, value: i64| {
            usize::try_from(value).ok().filter(|value| *value > 0).ok_or_else(|| {
                Error::new(ErrorKind::InvalidArgument, format!("{name} must be at least 1, not {value}"))
            })
        };
        let top_k_default = if max_chars.is_some() { usize::MAX } else { DEFAULT_TOP_K };
        let min_score = min_score.unwrap_or(f64::NEG_INFINITY);
        if min_score.is_nan() {
            return Err(Error::new(ErrorKind::InvalidArgument, "min_score must be a number, not NaN"));
        }
        Ok(Self {
            top_k: top_k.map_or(Ok(top_k_default), |value| at_least_one("top_k", value))?,
            max_chars: max_chars.map_or(Ok(usize::MAX), |value| at_least_one("max_chars", value))?,
            #[expect(clippy::cast_possible_truncation, reason = "scores are single precision; a bound needs no more")]
            min_score: min_score as f32,
            order,
        })
    }

    /// What `min_score` asks of a piece's relevance.
    fn min_relevance(&self) -> f32 {
        match self.min_score {
            all if all <= 0.0 => f32::NEG_INFINITY,
            none if none >= 1.0 => f32::INFINITY,
            least => relevance(least),
        }
    }
}

/// The best pieces of a page: each overlaps none better than itself; ties go to the one that stands first.
#[must_use]
pub fn choose(page: &Page, pieces: &[ByteSpan], relevance: &[f32], bounds: &Bounds) -> Vec<Chosen> {
    let mut best: Vec<usize> = (0..pieces.len()).filter(|piece| relevance[*piece] >= bounds.min_relevance()).collect();
    best.sort_by(|a, b| relevance[*b].total_cmp(&relevance[*a]).then(a.cmp(b)));
    let mut taken: BTreeMap<usize, usize> = BTreeMap::new();
    let mut chosen = Vec::new();
    let mut left = bounds.max_chars;
    for piece in best {
        if chosen.len() == bounds.top_k || left == 0 {
            break;
        }
        let span = pieces[piece];
        // What is taken does not overlap itself, so only the last one that starts before this one's end can be in the way.
        if taken.range(..span.end).next_back().is_some_and(|(_, end)| *end > span.start) {
            continue;
        }
        let length = if bounds.max_chars == usize::MAX { 0 } else { page.chars(span).len() };
        if length > left {
            continue;
        }
        left -= length;
        taken.insert(span.start, span.end);
        chosen.push(Chosen { piece, relevance: relevance[piece] });
    }
    if bounds.order == Order::Position {
        chosen.sort_by_key(|chosen| pieces[chosen.piece].start);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn windows(count: usize, length: usize) -> Vec<ByteSpan> {
        (0..count).map(|start| ByteSpan { start, end: start + length }).collect()
    }

    proptest! {
        #[test]
        fn highlights_are_the_greedy_best_without_overlaps(
            scores in proptest::collection::vec(-4..4_i8, 1..40), length in 1..5_usize, top_k in 1..6_i64, max_chars in 1..20_i64
        ) {
            let scores: Vec<f32> = scores.into_iter().map(|score| f32::from(score) / 4.0).collect();
            let text = "x".repeat(scores.len() + length);
            let pieces = windows(scores.len(), length);
            let bounds = Bounds::new(Some(top_k), Some(max_chars), None, Order::Score).unwrap();
            let chosen = choose(&Page::new(&text), &pieces, &scores, &bounds);

            // The plain way: look at every pair.
            let mut order: Vec<usize> = (0..pieces.len()).collect();
            order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]).then(a.cmp(b)));
            let mut expected: Vec<Chosen> = Vec::new();
            for piece in order {
                let free = expected.iter().all(|taken| !pieces[taken.piece].overlaps(pieces[piece]));
                let used: usize = expected.len() * length;
                let room = used + length <= usize::try_from(max_chars).unwrap();
                if free && room && expected.len() < usize::try_from(top_k).unwrap() {
                    expected.push(Chosen { piece, relevance: scores[piece] });
                }
            }
            prop_assert_eq!(chosen, expected);
        }
    }

    #[test]
    fn without_bounds_three_come_back_and_with_a_budget_as_many_as_fit() {
        let text = "x".repeat(20);
        let (page, pieces) = (Page::new(&text), windows(20, 1));
        let scores: Vec<f32> = (0_u8..20).map(f32::from).collect();
        let count = |bounds: Result<Bounds>| choose(&page, &pieces, &scores, &bounds.unwrap()).len();
        assert_eq!(count(Bounds::new(None, None, None, Order::Score)), DEFAULT_TOP_K);
        assert_eq!(count(Bounds::new(None, Some(7), None, Order::Score)), 7);
        assert_eq!(count(Bounds::new(Some(9), None, Some(1.0), Order::Score)), 0);
        assert_eq!(count(Bounds::new(Some(30), None, Some(0.5), Order::Score)), 18);
    }
}
