//! Turns: whose it is next, the most urgent first and among equals who has waited longest.
//!
//! One turn of [`FAIR_EVERY`] is for whoever has waited longest of all, however little urgent, so that none waits for ever.

use std::collections::{BTreeMap, VecDeque};

/// One turn of so many goes by waiting alone.
pub const FAIR_EVERY: u64 = 8;

/// All who wait. A lower priority is more urgent, as in vLLM.
#[derive(Debug)]
pub struct FairQueue<Who> {
    /// For each priority who waits, with the moment since which, the earliest first. None is empty.
    waiting: BTreeMap<i32, VecDeque<(u64, Who)>>,
    /// Counts who has come, those who came back included: the clock of waiting.
    arrivals: u64,
    /// Turns that have begun.
    begun: u64,
    /// Whose priority the turn is that has begun.
    current: Option<i32>,
}

impl<Who> Default for FairQueue<Who> {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), arrivals: 0, begun: 0, current: None }
    }
}

impl<Who> FairQueue<Who> {
    /// Lets somebody wait, behind all of the same priority.
    pub fn push(&mut self, priority: i32, who: Who) {
        self.arrivals += 1;
        self.waiting.entry(priority).or_default().push_back((self.arrivals, who));
    }

    /// Begins a turn: decides whose priority it is. Until the next one begins, those of this priority come first and then all
    /// others, the most urgent first.
    pub fn begin(&mut self) {
        self.begun += 1;
        self.current = if self.begun.is_multiple_of(FAIR_EVERY) {
            let waits_since = |(priority, queue): (&i32, &VecDeque<(u64, Who)>)| Some((queue.front()?.0, *priority));
            self.waiting.iter().filter_map(waits_since).min().map(|(_, priority)| priority)
        } else {
            None
        };
    }

    fn priority(&self) -> Option<i32> {
        let most_urgent = || self.waiting.keys().next().copied();
        self.current.filter(|priority| self.waiting.contains_key(priority)).or_else(most_urgent)
    }

    /// Whose turn it is.
    #[must_use]
    pub fn front(&self) -> Option<&Who> {
        self.waiting.get(&self.priority()?)?.front().map(|(_, who)| who)
    }

    /// Whose turn it is; waits no more.
    pub fn pop(&mut self) -> Option<Who> {
        let priority = self.priority()?;
        let queue = self.waiting.get_mut(&priority)?;
        let who = queue.pop_front();
        if queue.is_empty() {
            self.waiting.remove(&priority);
        }
        who.map(|(_, who)| who)
    }

    /// Whose turn it is has had it, and waits again behind all of the same priority.
    pub fn rotate(&mut self) {
        let Some(queue) = self.priority().and_then(|priority| self.waiting.get_mut(&priority)) else { return };
        if let Some((_, who)) = queue.pop_front() {
            self.arrivals += 1;
            queue.push_back((self.arrivals, who));
        }
    }

    /// How many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.values().map(VecDeque::len).sum()
    }

    /// Whether nobody waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Lets go of those who do not want to wait any more.
    pub fn retain(&mut self, wants: impl Fn(&Who) -> bool) {
        self.waiting.retain(|_, queue| {
            queue.retain(|(_, who)| wants(who));
            !queue.is_empty()
        });
    }

    /// Nobody waits any more.
    pub fn clear(&mut self) {
        self.waiting.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Who has each of the next turns, where everybody comes back.
    fn order(turns: &mut FairQueue<&'static str>, count: usize) -> Vec<&'static str> {
        let mut turn = || {
            turns.begin();
            let who = turns.front().copied();
            turns.rotate();
            who
        };
        (0..count).filter_map(|_| turn()).collect()
    }

    #[test]
    fn the_urgent_come_first_and_none_waits_for_ever() {
        let mut turns = FairQueue::default();
        for (priority, who) in [(0, "a"), (5, "late"), (0, "b"), (i32::MAX, "last"), (-1, "urgent")] {
            turns.push(priority, who);
        }
        let had = order(&mut turns, 32);
        assert_eq!(had[..7], ["urgent"; 7]);
        assert_eq!([had[7], had[15], had[23], had[31]], ["a", "late", "b", "last"]);
        assert_eq!(had.iter().filter(|who| **who == "urgent").count(), 28);
        turns.begin();
        assert_eq!(turns.pop(), Some("urgent"));
        assert_eq!(order(&mut turns, 4), ["a", "b", "a", "b"]);
    }

    #[test]
    fn what_fills_up_a_turn_is_the_most_urgent_of_the_others() {
        let mut turns = FairQueue::default();
        for (priority, who) in [(2, "c"), (0, "a"), (1, "b")] {
            turns.push(priority, who);
        }
        turns.begun = FAIR_EVERY - 1;
        turns.begin();
        assert_eq!([turns.pop(), turns.pop(), turns.pop(), turns.pop()], [Some("c"), Some("a"), Some("b"), None]);
        turns.rotate();
        assert_eq!(turns.front(), None);
    }

    proptest! {
        #[test]
        fn everybody_who_comes_has_a_turn_once(priorities in prop::collection::vec(-3_i32..3, 0..60)) {
            let mut turns = FairQueue::default();
            for (who, priority) in priorities.iter().enumerate() {
                turns.push(*priority, who);
            }
            let mut had: Vec<usize> = std::iter::from_fn(|| { turns.begin(); turns.pop() }).collect();
            had.sort_unstable();
            prop_assert_eq!(had, (0..priorities.len()).collect::<Vec<_>>());
        }
    }
}
