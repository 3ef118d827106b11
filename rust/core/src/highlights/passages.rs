//! Passages: runs of units that are as short as they can be and as long as they must be, over all pages of an answer.
//!
//! All units of all pages are walked once, the most relevant first: so a budget that pages share goes where the relevance
//! is. With a count, a passage is the run around its seed that has most relevance above a bar; with a budget alone, the best
//! that fits is taken and neighbours join. Windows are taken as they are. What stays together is taken whole, and what
//! repeats a better passage is left out.

use std::collections::BTreeMap;
use std::ops::Range;

use super::bounds::{Bounds, Budget, Dedupe, Order};
use super::repeats::Read;
use crate::error::Result;
use crate::ranking::terms::Language;
use crate::text::page::Page;
use crate::text::pieces::Units;

/// How relevant the ends of a passage are at least, as a part of its best unit's relevance. It trades length for hits: here
/// passages are as long as windows of three sentences.
const BAR: f32 = 0.7;

/// What passages are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seeds<'page> {
    /// Windows as they were cut: each is a passage, and no two overlap.
    Windows(&'page [Range<usize>]),
    /// Units, from which passages grow to at most so many where nothing longer stays together.
    Units(usize),
}

/// A page of which every seed was judged.
#[derive(Clone, Copy, Debug)]
pub struct RankedPage<'page> {
    /// Its text.
    pub page: &'page Page<'page>,
    /// Its units.
    pub units: &'page Units,
    /// What passages are made of.
    pub seeds: Seeds<'page>,
    /// How relevant each seed is.
    pub relevance: &'page [f32],
    /// What the page as a whole adds to that.
    pub title: f32,
    /// Tokens before each unit, and in the whole page; empty where tokens are not bounded.
    pub tokens_before: &'page [usize],
    /// Whose words they are.
    pub language: Language,
}

/// A run of units, and the relevance of its best one.
#[derive(Clone, Debug, PartialEq)]
pub struct Passage {
    /// Which units of the page.
    pub units: Range<usize>,
    /// Which of the page's seeds it is there for: the best one.
    pub seed: usize,
    /// How relevant that one is.
    pub relevance: f32,
}

/// The best passages of each page, in the order that the bounds ask for; ties go to what stands first.
#[must_use]
pub fn choose_passages(pages: &[RankedPage], bounds: &Bounds) -> Vec<Vec<Passage>> {
    let least = bounds.min_relevance();
    let mut order: Vec<(f32, usize, usize)> = Vec::new();
    for (number, page) in pages.iter().enumerate() {
        let seeds = page.relevance.iter().enumerate().map(|(seed, relevance)| (relevance + page.title, number, seed));
        order.extend(seeds.filter(|(relevance, ..)| *relevance >= least));
    }
    order.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    let mut left = bounds.answer;
    let mut read = Read::default();
    let mut taken: Vec<PageSelection> = pages.iter().map(|judged| PageSelection::new(*judged, bounds)).collect();
    for (_, page, seed) in order {
        if left.chars == 0 || left.tokens == 0 {
            break;
        }
        let read = if bounds.dedupe == Dedupe::Answer { Some(&mut read) } else { None };
        taken[page].take(seed, bounds, &mut left, read);
    }
    taken.into_iter().map(|taken| taken.passages(bounds.order)).collect()
}

/// A run that grows to one side.
#[derive(Clone)]
struct Side {
    run: Range<usize>,
    /// The relevance above the bar of all that was added.
    gain: f32,
    /// Whether what was added last reaches the bar.
    reaches: bool,
}

/// Leaves out the least relevant passages until exactly counted tokens are within the bounds: runs of units may have a few
/// more than was reckoned with.
///
/// # Errors
/// What `count` says.
pub fn keep_tokens(
    bounds: &Bounds,
    pages: &mut [Vec<Passage>],
    count: impl Fn(usize, &Range<usize>) -> Result<usize>,
) -> Result<()> {
    let mut all = Vec::new();
    for (page, passages) in pages.iter().enumerate() {
        for passage in passages {
            all.push((passage.relevance, page, passage.units.start, count(page, &passage.units)?));
        }
    }
    // The best first: what does not fit behind those goes.
    all.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    let mut left = vec![bounds.page.tokens; pages.len()];
    let mut left_of_all = bounds.answer.tokens;
    for (_, page, start, tokens) in all {
        if tokens > left[page] || tokens > left_of_all {
            pages[page].retain(|passage| passage.units.start != start);
            continue;
        }
        left[page] -= tokens;
        left_of_all -= tokens;
    }
    Ok(())
}

/// What a page has given so far.
struct PageSelection<'page> {
    judged: RankedPage<'page>,
    /// For each unit, which group it is in; empty where windows are taken as they are.
    group_of: Vec<u32>,
    /// Each run's first unit, the one behind its last, and its best seed.
    runs: BTreeMap<usize, (usize, usize)>,
    left: Budget,
    read: Read,
}

impl<'page> PageSelection<'page> {
    fn new(judged: RankedPage<'page>, bounds: &Bounds) -> Self {
        let mut group_of = Vec::new();
        if matches!(judged.seeds, Seeds::Units(_)) {
            for (number, group) in (0_u32..).zip(&judged.units.groups) {
                group_of.resize(group.end, number);
            }
        }
        Self { judged, group_of, runs: BTreeMap::new(), left: bounds.page, read: Read::default() }
    }

    /// Takes the passage of a seed, where it is free, fits and is new.
    fn take(&mut self, seed: usize, bounds: &Bounds, shared: &mut Budget, read: Option<&mut Read>) {
        if self.runs.len() >= bounds.top_k || self.left.chars == 0 {
            return;
        }
        let left = Budget { chars: self.left.chars.min(shared.chars), tokens: self.left.tokens.min(shared.tokens) };
        let most = bounds.most();
        let joins = bounds.top_k == usize::MAX && matches!(self.judged.seeds, Seeds::Units(_));
        let run = match self.judged.seeds {
            Seeds::Windows(windows) => windows[seed].clone(),
            Seeds::Units(_) if joins => self.whole(seed, most),
            Seeds::Units(longest) => self.grown(seed, longest, left, most),
        };
        if run.clone().any(|unit| self.has(unit)) {
            return;
        }
        let (joined, had) = if joins { self.joined(&run) } else { (run.clone(), Budget { chars: 0, tokens: 0 }) };
        let cost = self.cost(&joined).beyond(had);
        if !left.holds(cost) {
            return;
        }
        if bounds.dedupe != Dedupe::None {
            let text = self.judged.units.span(&run).of(self.judged.page.text());
            if read.unwrap_or(&mut self.read).repeats(text, self.judged.language) {
                return;
            }
        }
        self.left.spend(cost);
        shared.spend(cost);
        let mut best = seed;
        while let Some((&start, &(end, other))) = self.runs.range(joined.clone()).next() {
            debug_assert!(end <= joined.end, "what is joined holds what it joins");
            best = if self.is_better(other, best) { other } else { best };
            self.runs.remove(&start);
        }
        self.runs.insert(joined.start, (joined.end, best));
    }

    fn is_better(&self, seed: usize, other: usize) -> bool {
        let relevance = |seed: usize| self.judged.relevance[seed];
        relevance(seed).total_cmp(&relevance(other)).then(other.cmp(&seed)).is_gt()
    }

    fn has(&self, unit: usize) -> bool {
        self.runs.range(..=unit).next_back().is_some_and(|(_, (end, _))| *end > unit)
    }

    /// From the first unit's start to the last one's end.
    fn cost(&self, run: &Range<usize>) -> Budget {
        let before = |unit: usize| self.judged.tokens_before.get(unit).copied().unwrap_or(0);
        Budget {
            chars: self.judged.page.chars(self.judged.units.span(run)).len(),
            tokens: before(run.end) - before(run.start),
        }
    }

    /// What stays together with a unit; the unit alone where that is more than any passage may be.
    fn whole(&self, unit: usize, most: Budget) -> Range<usize> {
        let group = &self.judged.units.groups[self.group_of[unit] as usize];
        if most.holds(self.cost(group)) { group.clone() } else { unit..unit + 1 }
    }

    /// The run around a seed whose other units have most relevance above the bar, and whose ends reach it; the seed alone, or
    /// what stays together with it, where no run gains anything. At most so many units, but for what stays together.
    fn grown(&self, seed: usize, longest: usize, left: Budget, most: Budget) -> Range<usize> {
        let whole = self.whole(seed, most);
        let bar = BAR * self.judged.relevance[seed];
        let mut best = (0.0, whole.clone());
        if bar <= 0.0 {
            return whole;
        }
        let mut before = Side { run: whole.clone(), gain: 0.0, reaches: true };
        loop {
            let mut both = Some(before.clone()).filter(|before| before.reaches);
            while let Some(side) = both {
                if side.reaches && side.gain > best.0 {
                    best = (side.gain, side.run.clone());
                }
                both = self.wider(&side, side.run.end, bar, longest, left, most);
            }
            let next = before.run.start.checked_sub(1);
            let Some(wider) = next.and_then(|unit| self.wider(&before, unit, bar, longest, left, most)) else { break };
            before = wider;
        }
        best.1
    }

    /// A run with what stays together with a unit beside it; none where that is taken, or would be too much.
    fn wider(&self, side: &Side, unit: usize, bar: f32, longest: usize, left: Budget, most: Budget) -> Option<Side> {
        if unit >= self.group_of.len() {
            return None;
        }
        let more = self.whole(unit, most);
        let run = side.run.start.min(more.start)..side.run.end.max(more.end);
        if run.len() > longest || more.clone().any(|unit| self.has(unit)) || !left.holds(self.cost(&run)) {
            return None;
        }
        let relevance = &self.judged.relevance[more];
        let gain = side.gain + relevance.iter().map(|relevance| relevance - bar).sum::<f32>();
        Some(Side { run, gain, reaches: relevance.iter().any(|relevance| *relevance >= bar) })
    }

    /// A run with the neighbours that it touches, and what those had cost.
    fn joined(&self, run: &Range<usize>) -> (Range<usize>, Budget) {
        let before = self.runs.range(..run.start).next_back().map(|(start, (end, _))| *start..*end);
        let before = before.filter(|before| before.end == run.start);
        let behind = self.runs.get(&run.end).map(|(end, _)| run.end..*end);
        let mut had = Budget { chars: 0, tokens: 0 };
        for neighbour in before.iter().chain(&behind) {
            let cost = self.cost(neighbour);
            had = Budget { chars: had.chars + cost.chars, tokens: had.tokens + cost.tokens };
        }
        (before.map_or(run.start, |before| before.start)..behind.map_or(run.end, |behind| behind.end), had)
    }

    fn passages(self, order: Order) -> Vec<Passage> {
        let relevance = |seed: usize| self.judged.relevance[seed] + self.judged.title;
        let passage = |(start, (end, seed)): (usize, (usize, usize))| Passage {
            units: start..end,
            seed,
            relevance: relevance(seed),
        };
        let mut passages: Vec<Passage> = self.runs.into_iter().map(passage).collect();
        if order == Order::Score {
            passages.sort_by(|a, b| b.relevance.total_cmp(&a.relevance).then(a.seed.cmp(&b.seed)));
        }
        passages
    }
}
