//! Passages: runs of sentences that are as short as they can be and as long as they must be.
//!
//! The best sentence is the seed. With a count, a passage grows from its seed to the better neighbour while that is nearly
//! as relevant; with a budget, the best sentences that fit are taken, and neighbours join.

use std::collections::BTreeMap;
use std::ops::Range;

use super::{Bounds, Order};
use crate::page::{ByteSpan, Page};

/// How relevant a neighbour must be, as a part of its seed's relevance, for a passage to take it in. Chosen by trial: lower
/// values find the answer a little more often in passages that are much longer.
const NEIGHBOUR: f32 = 0.6;

/// A run of units, and the relevance of its best one.
#[derive(Clone, Debug, PartialEq)]
pub struct Passage {
    /// Which units of the page.
    pub units: Range<usize>,
    /// The relevance of the best of them.
    pub relevance: f32,
}

/// The best passages of a page, of at most `longest` units each where they grow; ties go to the one that stands first.
#[must_use]
pub fn choose_passages(
    page: &Page,
    units: &[ByteSpan],
    relevance: &[f32],
    longest: usize,
    bounds: &Bounds,
) -> Vec<Passage> {
    let mut order: Vec<usize> = (0..units.len()).filter(|unit| relevance[*unit] >= bounds.min_relevance()).collect();
    order.sort_by(|a, b| relevance[*b].total_cmp(&relevance[*a]).then(a.cmp(b)));
    let mut taken = Taken { page, units, relevance, runs: BTreeMap::new(), left: bounds.max_chars };
    let mut passages = if bounds.top_k == usize::MAX {
        for unit in order {
            taken.join(unit);
        }
        taken.joined()
    } else {
        let mut passages = Vec::new();
        for seed in order {
            if passages.len() == bounds.top_k {
                break;
            }
            passages.extend(taken.grow(seed, longest));
        }
        passages
    };
    if bounds.order == Order::Position {
        passages.sort_by_key(|passage| passage.units.start);
    }
    passages
}

/// The units that passages have, and the budget that is left.
struct Taken<'page> {
    page: &'page Page<'page>,
    units: &'page [ByteSpan],
    relevance: &'page [f32],
    /// Each run's first unit, and the one behind its last.
    runs: BTreeMap<usize, usize>,
    left: usize,
}

impl Taken<'_> {
    fn has(&self, unit: usize) -> bool {
        self.runs.range(..=unit).next_back().is_some_and(|(_, end)| *end > unit)
    }

    /// Characters from the first unit's start to the last one's end.
    fn chars(&self, units: &Range<usize>) -> usize {
        self.page.chars(ByteSpan { start: self.units[units.start].start, end: self.units[units.end - 1].end }).len()
    }

    /// A passage around a seed; none where the seed is taken already, or is more than the budget has left.
    fn grow(&mut self, seed: usize, longest: usize) -> Option<Passage> {
        let mut units = seed..seed + 1;
        if self.has(seed) || self.chars(&units) > self.left {
            return None;
        }
        let least = NEIGHBOUR * self.relevance[seed];
        while units.len() < longest {
            let free = |unit: &usize| *unit < self.units.len() && !self.has(*unit);
            let before = units.start.checked_sub(1).filter(free);
            let behind = Some(units.end).filter(free);
            let value = |unit: Option<usize>| unit.map_or(f32::NEG_INFINITY, |unit| self.relevance[unit]);
            let best = value(before).max(value(behind));
            if best <= 0.0 || best < least {
                break;
            }
            let grown =
                if value(before) >= value(behind) { units.start - 1..units.end } else { units.start..units.end + 1 };
            if self.chars(&grown) > self.left {
                break;
            }
            units = grown;
        }
        self.left -= if self.left == usize::MAX { 0 } else { self.chars(&units) };
        self.runs.insert(units.start, units.end);
        Some(Passage { units, relevance: self.relevance[seed] })
    }

    /// Takes a unit if the budget has room for it and for what lies between it and its neighbours.
    fn join(&mut self, unit: usize) {
        let before = self.runs.range(..unit).next_back().map(|(start, end)| *start..*end).filter(|run| run.end == unit);
        let behind = self.runs.get(&(unit + 1)).map(|end| unit + 1..*end);
        let joined = before.as_ref().map_or(unit, |run| run.start)..behind.as_ref().map_or(unit + 1, |run| run.end);
        let had: usize = before.iter().chain(&behind).map(|run| self.chars(run)).sum();
        let cost = self.chars(&joined) - had;
        if cost > self.left {
            return;
        }
        self.left -= cost;
        if let Some(run) = behind {
            self.runs.remove(&run.start);
        }
        self.runs.insert(joined.start, joined.end);
    }

    /// The runs, the most relevant first.
    fn joined(&self) -> Vec<Passage> {
        let passage = |(start, end): (&usize, &usize)| {
            let relevance = self.relevance[*start..*end].iter().copied().fold(f32::NEG_INFINITY, f32::max);
            Passage { units: *start..*end, relevance }
        };
        let mut passages: Vec<Passage> = self.runs.iter().map(passage).collect();
        passages.sort_by(|a, b| b.relevance.total_cmp(&a.relevance).then(a.units.start.cmp(&b.units.start)));
        passages
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Sentences of ten characters with a space between.
    fn sentences(count: usize) -> (String, Vec<ByteSpan>) {
        let text = "x".repeat(11 * count);
        (text, (0..count).map(|unit| ByteSpan { start: 11 * unit, end: 11 * unit + 10 }).collect())
    }

    fn chosen(relevance: &[f32], longest: usize, top_k: Option<i64>, max_chars: Option<i64>) -> Vec<(usize, usize)> {
        let (text, units) = sentences(relevance.len());
        let bounds = Bounds::new(top_k, max_chars, None, Order::Score).unwrap();
        let passages = choose_passages(&Page::new(&text), &units, relevance, longest, &bounds);
        passages.into_iter().map(|passage| (passage.units.start, passage.units.end)).collect()
    }

    #[test]
    fn a_passage_grows_to_neighbours_that_are_nearly_as_relevant() {
        assert_eq!(chosen(&[0.1, 3.0, 2.0, 1.9, 0.0], 3, Some(1), None), [(1, 4)]);
        assert_eq!(chosen(&[0.1, 3.0, 2.0, 1.9, 0.0], 2, Some(1), None), [(1, 3)]);
        assert_eq!(chosen(&[1.0, 3.0, 1.0], 3, Some(3), None), [(1, 2), (0, 1), (2, 3)]);
        assert_eq!(chosen(&[2.0, 3.0, 2.5, 2.4], 3, Some(2), None), [(1, 4), (0, 1)]);
    }

    #[test]
    fn a_budget_takes_the_best_that_fit_and_joins_neighbours() {
        assert_eq!(chosen(&[1.0, 3.0, 2.0, 0.5], 1, None, Some(21)), [(1, 3)]);
        // Ten characters each, and one between neighbours.
        assert_eq!(chosen(&[1.0, 3.0, 2.0, 0.5], 1, None, Some(20)), [(1, 2), (3, 4)]);
        assert_eq!(chosen(&[1.0, 3.0], 3, None, Some(9)), []);
        assert_eq!(chosen(&[1.0, 3.0, 2.9, 2.8], 3, Some(1), Some(25)), [(1, 3)]);
    }

    proptest! {
        #[test]
        fn passages_keep_their_bounds(
            relevance in proptest::collection::vec(-2.0..4.0_f32, 0..40), longest in 1..5_usize,
            top_k in proptest::option::of(1..6_i64), max_chars in proptest::option::of(1..200_i64)
        ) {
            let found = chosen(&relevance, longest, top_k, max_chars);
            let mut sorted = found.clone();
            sorted.sort_unstable();
            prop_assert!(sorted.windows(2).all(|pair| pair[0].1 <= pair[1].0));
            let chars: usize = found.iter().map(|(start, end)| 11 * (end - start) - 1).sum();
            prop_assert!(max_chars.is_none_or(|most| chars <= usize::try_from(most).unwrap()));
            if top_k.is_some() || max_chars.is_none() {
                prop_assert!(found.len() <= usize::try_from(top_k.unwrap_or(3)).unwrap());
                prop_assert!(found.iter().all(|(start, end)| end - start <= longest));
            }
        }
    }
}
