//! A fair priority queue: the most urgent item first, and among equals the one that has waited longest.
//!
//! Every [`FAIR_EVERY`]th turn goes to the item that has waited longest of all, whatever its priority, so that none
//! starves.

use std::collections::{BTreeMap, VecDeque};

/// One turn in this number ignores priorities.
pub const FAIR_EVERY: u64 = 8;

/// Lower priorities are more urgent, as in vLLM.
#[derive(Debug)]
pub struct FairQueue<T> {
    /// For each priority its items and their arrival numbers, the earliest first. No deque is empty.
    waiting: BTreeMap<i32, VecDeque<(u64, T)>>,
    /// Counts pushes and rotations; serves as the clock.
    arrivals: u64,
    turns: u64,
    /// The priority of the longest waiting item, in turns that ignore priorities.
    fair_priority: Option<i32>,
}

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), arrivals: 0, turns: 0, fair_priority: None }
    }
}

impl<T> FairQueue<T> {
    /// Adds an item after all of the same priority.
    pub fn push(&mut self, priority: i32, item: T) {
        self.arrivals += 1;
        self.waiting.entry(priority).or_default().push_back((self.arrivals, item));
    }

    /// Starts a turn and fixes its priority: until the next turn, items of that priority come first, then all others,
    /// the most urgent first.
    pub fn begin_turn(&mut self) {
        self.turns += 1;
        self.fair_priority = if self.turns.is_multiple_of(FAIR_EVERY) {
            let oldest = |(priority, queue): (&i32, &VecDeque<(u64, T)>)| Some((queue.front()?.0, *priority));
            self.waiting.iter().filter_map(oldest).min().map(|(_, priority)| priority)
        } else {
            None
        };
    }

    fn priority(&self) -> Option<i32> {
        let most_urgent = || self.waiting.keys().next().copied();
        self.fair_priority.filter(|priority| self.waiting.contains_key(priority)).or_else(most_urgent)
    }

    /// The next item of this turn.
    pub fn front(&self) -> Option<&T> {
        self.waiting.get(&self.priority()?)?.front().map(|(_, item)| item)
    }

    pub fn pop(&mut self) -> Option<T> {
        let priority = self.priority()?;
        let queue = self.waiting.get_mut(&priority)?;
        let item = queue.pop_front();
        if queue.is_empty() {
            self.waiting.remove(&priority);
        }
        item.map(|(_, item)| item)
    }

    /// Moves [`Self::front`] after all others of its priority.
    pub fn rotate(&mut self) {
        let Some(queue) = self.priority().and_then(|priority| self.waiting.get_mut(&priority)) else { return };
        if let Some((_, item)) = queue.pop_front() {
            self.arrivals += 1;
            queue.push_back((self.arrivals, item));
        }
    }

    pub fn len(&self) -> usize {
        self.waiting.values().map(VecDeque::len).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Removes the items for which `keep` is false.
    pub fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        self.waiting.retain(|_, queue| {
            queue.retain(|(_, item)| keep(item));
            !queue.is_empty()
        });
    }

    /// Removes all items. Turns keep their count.
    pub fn clear(&mut self) {
        self.waiting.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The items of the next turns, each rotated after its turn.
    fn order(queue: &mut FairQueue<&'static str>, count: usize) -> Vec<&'static str> {
        let mut turn = || {
            queue.begin_turn();
            let item = queue.front().copied();
            queue.rotate();
            item
        };
        (0..count).filter_map(|_| turn()).collect()
    }

    #[test]
    fn urgent_items_come_first_and_none_starves() {
        let mut queue = FairQueue::default();
        for (priority, item) in [(0, "a"), (5, "late"), (0, "b"), (i32::MAX, "last"), (-1, "urgent")] {
            queue.push(priority, item);
        }
        let served = order(&mut queue, 32);
        assert_eq!(served[..7], ["urgent"; 7]);
        assert_eq!([served[7], served[15], served[23], served[31]], ["a", "late", "b", "last"]);
        assert_eq!(served.iter().filter(|item| **item == "urgent").count(), 28);
        queue.begin_turn();
        assert_eq!(queue.pop(), Some("urgent"));
        assert_eq!(order(&mut queue, 4), ["a", "b", "a", "b"]);
    }

    #[test]
    fn after_the_fair_priority_the_most_urgent_follow() {
        let mut queue = FairQueue::default();
        for (priority, item) in [(2, "c"), (0, "a"), (1, "b")] {
            queue.push(priority, item);
        }
        queue.turns = FAIR_EVERY - 1;
        queue.begin_turn();
        assert_eq!([queue.pop(), queue.pop(), queue.pop(), queue.pop()], [Some("c"), Some("a"), Some("b"), None]);
        queue.rotate();
        assert_eq!(queue.front(), None);
    }

    proptest! {
        #[test]
        fn every_item_is_popped_once(priorities in prop::collection::vec(-3_i32..3, 0..60)) {
            let mut queue = FairQueue::default();
            for (item, priority) in priorities.iter().enumerate() {
                queue.push(*priority, item);
            }
            let mut popped: Vec<usize> = std::iter::from_fn(|| { queue.begin_turn(); queue.pop() }).collect();
            popped.sort_unstable();
            prop_assert_eq!(popped, (0..priorities.len()).collect::<Vec<_>>());
        }
    }
}
