//! The passages of one page: each grows from its seed, within the seed's section, as long as its ends are relevant.

mod ends;

use std::collections::BTreeMap;
use std::ops::Range;

use super::dedupe::SeenShingles;
use super::limits::{Bounds, Budget, Dedupe, Order, Purpose};
use super::ranked_page::{Passage, RankedPage, Seeds};
use super::sections::Sections;
use crate::text::pieces::is_reference;

/// The ends of a passage have at least this share of its best unit's relevance. It trades length for hits: at 0.7,
/// passages are as long as windows of three sentences.
const MIN_SHARE_OF_SEED: f32 = 0.7;

/// The same where a unit is about something else than the seed: rows that are looked up, references, the answer to
/// another question.
const MIN_SHARE_OF_ENTRY: f32 = 0.9;

/// Characters of a section that is the passage of its heading as a whole.
const MAX_SECTION_CHARS: usize = 600;

/// Characters of a section that is one passage whichever of its units is found.
const MAX_CARD_CHARS: usize = 400;

/// Bytes of passages that are compared with better ones to find duplicates, as a multiple of the page's text, and for
/// any page.
const COMPARED_PER_PAGE: usize = 16;
const MIN_COMPARED: usize = 1 << 20;

/// Runs around a seed that are tried, the nearest first: all those of up to 250 units.
const MAX_STEPS: usize = 1 << 15;

/// Runs around all seeds of a page that are tried, for each unit, and for any page; then seeds stay alone. On a page of
/// headings that repeat, every seed tries the most.
const STEPS_PER_UNIT: usize = 64;
const MIN_STEPS: usize = 1 << 20;

/// A page and the first unit of a passage there.
pub(super) type Place = (usize, usize);

/// What becomes of a seed.
pub(super) enum Choice {
    Selected,
    /// It would be this run, which nearly repeats the passage at this place.
    Repeats(Place, Range<usize>),
    /// It overlaps a passage, or does not fit.
    Dropped,
}

/// A run while it grows to one side.
#[derive(Clone)]
struct GrowingRun {
    units: Range<usize>,
    /// The sum of the added units' relevance above the threshold.
    gain: f32,
    /// Whether the group added last has a unit at the threshold.
    reaches_threshold: bool,
}

/// How a run grows around a seed.
struct Growth {
    seed: usize,
    /// Whether each unit around it is an entry of its own.
    are_entries: bool,
    max_units: usize,
    remaining: Budget,
    max_group: Budget,
}

/// The passages selected on a page so far.
pub(super) struct PageSelection<'page> {
    /// The page's place among all.
    number: usize,
    ranked: RankedPage<'page>,
    sections: &'page Sections,
    /// By a run's first unit: its end and its best seed.
    runs: BTreeMap<usize, (usize, usize)>,
    remaining: Budget,
    seen: SeenShingles<Place>,
    /// Bytes of further passages that may be compared with the selected ones. On a page that repeats itself, every seed
    /// may have a long passage that is a duplicate.
    comparable: usize,
    /// Runs that may still be tried.
    pub(super) steps: usize,
}

impl<'page> PageSelection<'page> {
    pub(super) fn new(number: usize, ranked: RankedPage<'page>, sections: &'page Sections, bounds: &Bounds) -> Self {
        let steps = MIN_STEPS + STEPS_PER_UNIT.saturating_mul(sections.group_of.len());
        let comparable = MIN_COMPARED + COMPARED_PER_PAGE.saturating_mul(ranked.page.text().len());
        Self {
            number,
            ranked,
            sections,
            runs: BTreeMap::new(),
            remaining: bounds.page,
            seen: SeenShingles::default(),
            comparable,
            steps,
        }
    }

    /// Selects a seed's passage if it overlaps no other, fits, and repeats none.
    pub(super) fn select(
        &mut self,
        seed: usize,
        bounds: &Bounds,
        shared: &mut Budget,
        shingles: Option<&mut SeenShingles<Place>>,
    ) -> Choice {
        if self.runs.len() >= bounds.top_k || self.remaining.chars == 0 {
            return Choice::Dropped;
        }
        let remaining =
            Budget { chars: self.remaining.chars.min(shared.chars), tokens: self.remaining.tokens.min(shared.tokens) };
        let max_group = bounds.page_budget();
        let joins = bounds.max_passages().is_none() && !matches!(self.ranked.seeds, Seeds::Windows(_));
        let run = match self.ranked.seeds {
            Seeds::Windows(windows) => windows[seed].clone(),
            // A run is walked once, not from each of its units.
            Seeds::Kept if self.overlaps(&(seed..seed + 1)) => return Choice::Dropped,
            Seeds::Units(_) | Seeds::Kept if joins || bounds.purpose == (Purpose::Candidates { are_groups: true }) => {
                self.group(seed, max_group)
            }
            Seeds::Units(max_units) => {
                let start = self.sections.content_seed(seed, &self.ranked.scores.relevance);
                if self.sections.is_heading(seed) {
                    self.of_heading(seed, start, max_units, remaining, max_group)
                } else if self.is_short(self.sections.range(start))
                    && self.has_room_for_section(self.sections.range(start), max_units, remaining)
                {
                    self.sections.range(start).clone()
                } else {
                    let run = self.expand(start, max_units, remaining, max_group);
                    self.with_paragraph(run, max_units, remaining)
                }
            }
            Seeds::Kept => self.kept_run(seed, remaining, max_group),
        };
        let run = if joins { run } else { self.without_furniture(self.with_answer(run, remaining), seed) };
        if self.overlaps(&run) {
            return Choice::Dropped;
        }
        let nothing = Budget { chars: 0, tokens: 0 };
        let (joined, spent) = if joins { self.with_neighbours(&run) } else { (run.clone(), nothing) };
        let added = self.length(&joined).minus(spent);
        if !remaining.fits(added) {
            return Choice::Dropped;
        }
        if bounds.dedupe != Dedupe::None {
            let text = self.ranked.units.span(&run).of(self.ranked.page.text());
            let Some(comparable) = self.comparable.checked_sub(text.len()) else { return Choice::Dropped };
            self.comparable = comparable;
            let place = (self.number, run.start);
            if let Some(other) = shingles.unwrap_or(&mut self.seen).repeated(place, text, self.ranked.language) {
                return Choice::Repeats(other, run);
            }
        }
        if bounds.purpose == Purpose::Answer {
            self.remaining.spend(added);
            shared.spend(added);
        }
        let mut best = seed;
        while let Some((&start, &(end, other))) = self.runs.range(joined.clone()).next() {
            debug_assert!(end <= joined.end, "a joined run contains its neighbours");
            best = if self.is_better(other, best) { other } else { best };
            self.runs.remove(&start);
        }
        self.runs.insert(joined.start, (joined.end, best));
        Choice::Selected
    }

    fn is_better(&self, seed: usize, other: usize) -> bool {
        let order = &self.ranked.scores.order;
        order[seed].total_cmp(&order[other]).then(other.cmp(&seed)).is_gt()
    }

    /// Whether any of these units is selected.
    pub(super) fn overlaps(&self, units: &Range<usize>) -> bool {
        self.runs.range(..units.end).next_back().is_some_and(|(_, (end, _))| *end > units.start)
    }

    /// From the first unit's start to the last one's end.
    fn length(&self, run: &Range<usize>) -> Budget {
        let before = |unit: usize| self.ranked.tokens_before.get(unit).copied().unwrap_or(0);
        Budget {
            chars: self.ranked.page.chars(self.ranked.units.span(run)).len(),
            tokens: before(run.end) - before(run.start),
        }
    }

    /// The passage of a heading: the section of `start`, if that is short; else the run around it, with the heading if
    /// that is near.
    fn of_heading(
        &mut self,
        seed: usize,
        start: usize,
        max_units: usize,
        remaining: Budget,
        max_group: Budget,
    ) -> Range<usize> {
        let section = self.sections.range(start).clone();
        if let Some(all) = self.sections.subsections(seed)
            && self.length(&all).chars <= MAX_SECTION_CHARS
            && self.has_room(&all, max_units, remaining)
        {
            return all;
        }
        if self.length(&section).chars <= MAX_SECTION_CHARS && self.has_room_for_section(&section, max_units, remaining)
        {
            return section;
        }
        let run = self.expand(start, max_units, remaining, max_group);
        let whole = seed.min(run.start)..run.end;
        let is_one = self.sections.are_one(whole.start, whole.end - 1);
        if is_one && self.has_room(&whole, max_units, remaining) { whole } else { run }
    }

    /// Whether a section with a heading says so little that it is one passage: a card. A table says something else than the
    /// text above it.
    fn is_short(&self, section: &Range<usize>) -> bool {
        let has_table = self.ranked.units.next_table(section.start).is_some_and(|table| table.start < section.end);
        self.sections.is_titled(section) && self.length(section).chars <= MAX_CARD_CHARS && !has_table
    }

    /// Whether there is room for all of a section, which may have half as many units again as another passage, and is about one
    /// thing. Units between two pages do not count.
    fn has_room_for_section(&self, section: &Range<usize>, max_units: usize, remaining: Budget) -> bool {
        let units = self.ranked.units;
        let is_text = |unit: &usize| units.boilerplate.binary_search(unit).is_err();
        self.sections.content_of(section).filter(is_text).count() <= max_units + max_units / 2
            && self.has_room(section, usize::MAX, remaining)
            && units.labels_in(section) < 2
    }

    /// Whether a run within the limits overlaps no passage.
    fn has_room(&self, run: &Range<usize>, max_units: usize, remaining: Budget) -> bool {
        self.sections.content(run) <= max_units && remaining.fits(self.length(run)) && !self.overlaps(run)
    }

    /// The unit's group; the unit alone if the group is longer than `max`.
    fn group(&self, unit: usize, max: Budget) -> Range<usize> {
        let group = &self.ranked.units.groups[self.sections.group_of[unit] as usize];
        if max.fits(self.length(group)) { group.clone() } else { unit..unit + 1 }
    }

    /// The run around a seed whose other units have the most relevance above the threshold, and whose ends reach it.
    /// The seed's group alone if no run gains anything. At most `max_units`, except for a longer group.
    fn expand(&mut self, seed: usize, max_units: usize, remaining: Budget, max_group: Budget) -> Range<usize> {
        let group = self.group(seed, max_group);
        let relevance = self.ranked.scores.relevance[seed];
        if relevance <= 0.0 {
            return group;
        }
        // A row says something else than the text around its table.
        let table = self.ranked.units.looked_up(seed);
        let are_entries = table.is_some() || is_reference(self.ranked.units.spans[seed].of(self.ranked.page.text()));
        let growth = Growth { seed, are_entries, max_units, remaining, max_group };
        let mut best = (0.0, group.clone());
        let within = table.unwrap_or(0..self.sections.group_of.len());
        let is_inside = |run: &GrowingRun| within.start <= run.units.start && run.units.end <= within.end;
        let mut left = GrowingRun { units: group, gain: 0.0, reaches_threshold: true };
        let (most, mut steps) = (MAX_STEPS.min(self.steps), 0);
        while steps < most {
            steps += 1;
            let mut both = Some(left.clone()).filter(|left| left.reaches_threshold);
            while let Some(run) = both {
                steps += 1;
                if run.reaches_threshold && run.gain > best.0 {
                    best = (run.gain, run.units.clone());
                }
                both = self.extend(&run, run.units.end, &growth).filter(is_inside);
            }
            let Some(unit) = left.units.start.checked_sub(1) else { break };
            let Some(longer) = self.extend(&left, unit, &growth).filter(is_inside) else { break };
            left = longer;
        }
        self.steps = self.steps.saturating_sub(steps);
        best.1
    }

    /// The run of units around a seed that are kept, within one section and the budget.
    fn kept_run(&self, seed: usize, remaining: Budget, max_group: Budget) -> Range<usize> {
        let mut run = self.group(seed, max_group);
        let joined = |run: &Range<usize>, unit: usize| {
            let is_kept = self.ranked.scores.logits.get(unit).is_some_and(|logit| logit.is_finite());
            let added = if is_kept { self.group(unit, max_group) } else { return None };
            let joined = run.start.min(added.start)..run.end.max(added.end);
            let is_one = self.sections.are_one(joined.start, joined.end - 1);
            (is_one && !self.overlaps(&added) && remaining.fits(self.length(&joined))).then_some(joined)
        };
        while let Some(longer) = joined(&run, run.end) {
            run = longer;
        }
        while let Some(longer) = run.start.checked_sub(1).and_then(|unit| joined(&run, unit)) {
            run = longer;
        }
        run
    }

    /// Adds the group of an adjacent unit; `None` if that is already selected, or would exceed a limit.
    fn extend(&self, run: &GrowingRun, unit: usize, growth: &Growth) -> Option<GrowingRun> {
        if unit >= self.sections.group_of.len() {
            return None;
        }
        let added = self.group(unit, growth.max_group);
        let units = run.units.start.min(added.start)..run.units.end.max(added.end);
        let is_selected = self.overlaps(&added);
        let leaves_section = !self.sections.are_one(units.start, units.end - 1);
        if self.sections.content(&units) > growth.max_units
            || is_selected
            || leaves_section
            || !growth.remaining.fits(self.length(&units))
        {
            return None;
        }
        let relevance = &self.ranked.scores.relevance;
        let is_entry = growth.are_entries || !self.sections.answer_the_same(growth.seed, unit);
        let threshold = relevance[growth.seed] * if is_entry { MIN_SHARE_OF_ENTRY } else { MIN_SHARE_OF_SEED };
        let content = self.sections.content_of(&added);
        let gain = run.gain + content.map(|unit| relevance[unit] - threshold).sum::<f32>();
        let relevance = &relevance[added];
        Some(GrowingRun { units, gain, reaches_threshold: relevance.iter().any(|relevance| *relevance >= threshold) })
    }

    /// Joins a run with the selected runs that it touches. Returns it with the length of those.
    fn with_neighbours(&self, run: &Range<usize>) -> (Range<usize>, Budget) {
        let before = self.runs.range(..run.start).next_back().map(|(start, (end, _))| *start..*end);
        let is_one = |left: usize| self.sections.are_one(left, left + 1);
        let before = before.filter(|before| before.end == run.start && is_one(before.end - 1));
        let after = self.runs.get(&run.end).filter(|_| is_one(run.end - 1)).map(|(end, _)| run.end..*end);
        let mut spent = Budget { chars: 0, tokens: 0 };
        for neighbour in before.iter().chain(&after) {
            let length = self.length(neighbour);
            spent = Budget { chars: spent.chars + length.chars, tokens: spent.tokens + length.tokens };
        }
        (before.map_or(run.start, |before| before.start)..after.map_or(run.end, |after| after.end), spent)
    }

    pub(super) fn passages(self, order: Order) -> Vec<Passage> {
        let passage = |(start, (end, seed)): (usize, (usize, usize))| Passage {
            units: start..end,
            seed,
            logit: self.ranked.scores.logits[seed],
            twins: Vec::new(),
        };
        let mut passages: Vec<Passage> = self.runs.into_iter().map(passage).collect();
        if order == Order::Score {
            let order = &self.ranked.scores.order;
            passages.sort_by(|a, b| order[b.seed].total_cmp(&order[a.seed]).then(a.seed.cmp(&b.seed)));
        }
        passages
    }
}
