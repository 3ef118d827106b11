//! Chooses passages: runs of units over all pages of an answer.
//!
//! All units of all pages are visited once, the one that most probably answers the query first, so that a budget shared
//! by pages goes to the best of all, and to no page that does not answer if another one does. With `top_k`, a passage
//! is the run around its seed with the most relevance above a threshold. With only a budget, the best units that fit
//! are taken, and neighbours join. Windows are taken as they are. Units of a group (a table row, a list item with its
//! introduction) stay together, and near-duplicates of better passages are dropped.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use super::dedupe::SeenShingles;
use super::limits::{Bounds, Budget, Dedupe, Order, Purpose};
use crate::error::Result;
use crate::ranking::probability::{ANSWERED, logit};
use crate::ranking::ranked_seeds::RankedSeeds;
use crate::ranking::terms::Language;
use crate::runtime::call::{Check, Checkpoints};
use crate::text::page::PageText;
use crate::text::pieces::Units;

/// The ends of a passage have at least this share of its best unit's relevance. It trades length for hits: at 0.7,
/// passages are as long as windows of three sentences.
const MIN_SHARE_OF_SEED: f32 = 0.7;

/// A passage of a heading grows around the best unit of its section, if that has at least this share of the heading's
/// relevance, or is that much more relevant than the first one: the heading's also comes from its words, which the unit
/// that answers does not repeat.
const MIN_SHARE_OF_HEADING: f32 = 0.4;
const MIN_LEAD_OF_BEST: f32 = 0.1;

/// Characters of a section that is the passage of its heading as a whole.
const MAX_SECTION_CHARS: usize = 600;

/// Bytes of passages that are compared with better ones to find duplicates, as a multiple of the page's text, and for
/// any page.
const COMPARED_PER_PAGE: usize = 16;
const MIN_COMPARED: usize = 1 << 20;

/// A seed counts as this many bytes of text between two checks.
const BYTES_PER_SEED: usize = 4096;
/// So does a run that a seed tries.
const BYTES_PER_STEP: usize = 64;

/// How often passages are chosen again because they have more tokens than their units.
const MAX_TIGHTENINGS: usize = 3;

/// Runs around a seed that are tried, the nearest first: all those of up to 250 units.
const MAX_STEPS: usize = 1 << 15;

/// Runs around all seeds of a page that are tried, for each unit, and for any page; then seeds stay alone. On a page of
/// headings that repeat, every seed tries the most.
const STEPS_PER_UNIT: usize = 64;
const MIN_STEPS: usize = 1 << 20;

/// Of a page that repeats one line, every line is a twin of the first.
const MAX_TWINS: usize = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seeds<'page> {
    /// Each window is a passage; no two overlap.
    Windows(&'page [Range<usize>]),
    /// Passages grow from units to at most this number of units, unless a group is longer.
    Units(usize),
}

/// A page and its ranked seeds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RankedPage<'page> {
    /// The text that units are spans of.
    pub page: &'page PageText<'page>,
    /// Ranges below are ranges of these.
    pub units: &'page Units,
    pub seeds: Seeds<'page>,
    pub scores: &'page RankedSeeds,
    /// Added to every seed's logit where pages compete for a budget.
    pub title: f32,
    /// Tokens before each unit, and in the whole page; empty without a token limit.
    pub tokens_before: &'page [usize],
    /// For the words that find duplicates.
    pub language: Language,
}

/// A run of units of a page.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Passage {
    /// First to last.
    pub units: Range<usize>,
    pub seed: usize,
    pub logit: f32,
    /// Passages that were left out because they nearly repeat this one.
    pub twins: Vec<Run>,
}

/// Units of one of the pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub page: usize,
    pub units: Range<usize>,
}

/// A page and the first unit of a passage there.
type Place = (usize, usize);

/// What becomes of a seed.
enum Choice {
    Selected,
    /// It would be this run, which nearly repeats the passage at this place.
    Repeats(Place, Range<usize>),
    /// It overlaps a passage, or does not fit.
    Dropped,
}

/// Chooses the best passages of each page, in the order that the bounds say. Ties go to the earlier page and seed.
///
/// # Errors
/// Those of `check`.
pub(crate) fn choose_passages(pages: &[RankedPage], bounds: &Bounds, check: &Check) -> Result<Vec<Vec<Passage>>> {
    choose_in_sections(pages, &sections(pages, check)?, bounds, check)
}

fn sections(pages: &[RankedPage], check: &Check) -> Result<Vec<Sections>> {
    let of_page = |page| {
        check()?;
        Ok(Sections::new(page))
    };
    pages.iter().map(of_page).collect()
}

/// As [`choose_passages`], with the sections of each page.
fn choose_in_sections(
    pages: &[RankedPage],
    sections: &[Sections],
    bounds: &Bounds,
    check: &Check,
) -> Result<Vec<Vec<Passage>>> {
    let min_logit = bounds.min_logit();
    let mut order: Vec<(f32, usize, usize)> = Vec::new();
    let answers = |page: &RankedPage| page.scores.logits.iter().any(|seed| *seed >= logit(ANSWERED));
    let only_answers = bounds.is_for_answers() && pages.iter().any(answers);
    for (number, page) in pages.iter().enumerate().filter(|(_, page)| !only_answers || answers(page)) {
        let seeds = page.scores.logits.iter().enumerate().filter(|(_, logit)| **logit >= min_logit);
        order.extend(seeds.map(|(seed, logit)| (logit + page.title, number, seed)));
    }
    let by_order = |page: usize, a: usize, b: usize| {
        let order = &pages[page].scores.order;
        order[b].total_cmp(&order[a]).then(a.cmp(&b))
    };
    order.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)).then_with(|| by_order(a.1, a.2, b.2)));
    let (mut remaining, mut count) = (bounds.answer, bounds.total);
    let mut seen = SeenShingles::default();
    let numbered = pages.iter().zip(sections).enumerate();
    let mut selections: Vec<PageSelection> =
        numbered.map(|(number, (page, sections))| PageSelection::new(number, *page, sections, bounds)).collect();
    let mut repeats: Vec<(Place, Run)> = Vec::new();
    let (mut checkpoints, mut steps) = (Checkpoints::new(check), 0);
    for (number, (_, page, seed)) in order.into_iter().enumerate() {
        checkpoints.reach(number * BYTES_PER_SEED + steps * BYTES_PER_STEP)?;
        if remaining.chars == 0 || remaining.tokens == 0 || count == 0 {
            break;
        }
        let seen = if bounds.dedupe == Dedupe::Answer { Some(&mut seen) } else { None };
        let steps_before = selections[page].steps;
        let choice = selections[page].select(seed, bounds, &mut remaining, seen);
        steps += steps_before - selections[page].steps;
        match choice {
            Choice::Selected => count -= usize::from(bounds.max_passages().is_some()),
            Choice::Repeats(place, units) => repeats.push((place, Run { page, units })),
            Choice::Dropped => {}
        }
    }
    // Neighbours of a repeat may have taken it in later.
    repeats.retain(|(_, run)| !selections[run.page].overlaps(&run.units));
    let mut chosen: Vec<Vec<Passage>> =
        selections.into_iter().map(|selection| selection.passages(bounds.order)).collect();
    for ((page, unit), run) in repeats {
        let Some(passage) = chosen[page].iter_mut().find(|passage| passage.units.contains(&unit)) else { continue };
        let is_known =
            |twin: &Run| twin.page == run.page && twin.units.start < run.units.end && run.units.start < twin.units.end;
        if passage.twins.len() < MAX_TWINS && !passage.twins.iter().any(is_known) {
            passage.twins.push(run);
        }
    }
    Ok(chosen)
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

/// As [`choose_passages`], with limits in tokens that hold for the passages' exact counts.
///
/// Passages are chosen by sums over units, and a run may have more tokens than its units. Then they are chosen again
/// within a budget that is smaller by that share; at last, the worst that do not fit are dropped.
///
/// # Errors
/// Those of `check` and `count`.
pub(crate) fn choose_counted_passages(
    pages: &[RankedPage],
    bounds: &Bounds,
    check: &Check,
    count: impl Fn(&str) -> Result<usize>,
) -> Result<Vec<Vec<Passage>>> {
    let mut tightened = *bounds;
    let mut tries = 0;
    let sections = sections(pages, check)?;
    loop {
        let mut chosen = choose_in_sections(pages, &sections, &tightened, check)?;
        let counted = count_passages(pages, &chosen, check, &count)?;
        let dropped = drop_above_limits(bounds, &mut chosen, &counted);
        tries += 1;
        if !dropped || tries > MAX_TIGHTENINGS {
            return Ok(chosen);
        }
        tightened.scale_tokens(counted.iter().map(|passage| (passage.summed, passage.tokens)));
    }
}

/// A passage with its tokens.
struct CountedPassage {
    logit: f32,
    page: usize,
    /// Its first unit.
    start: usize,
    tokens: usize,
    /// The sum over its units.
    summed: usize,
}

fn count_passages(
    pages: &[RankedPage],
    chosen: &[Vec<Passage>],
    check: &Check,
    count: impl Fn(&str) -> Result<usize>,
) -> Result<Vec<CountedPassage>> {
    let mut counted = Vec::new();
    for (number, (page, passages)) in pages.iter().zip(chosen).enumerate() {
        for Passage { units, logit, .. } in passages {
            check()?;
            let tokens = count(page.units.span(units).of(page.page.text()))?;
            let summed = page.tokens_before[units.end] - page.tokens_before[units.start];
            counted.push(CountedPassage { logit: *logit, page: number, start: units.start, tokens, summed });
        }
    }
    // The best first, so that the limits drop the others.
    counted.sort_by(|a, b| b.logit.total_cmp(&a.logit).then((a.page, a.start).cmp(&(b.page, b.start))));
    Ok(counted)
}

/// Drops the worst passages until the others are within the limits. Returns whether any was dropped.
fn drop_above_limits(bounds: &Bounds, pages: &mut [Vec<Passage>], counted: &[CountedPassage]) -> bool {
    let mut page_tokens = vec![bounds.page.tokens; pages.len()];
    let mut answer_tokens = bounds.answer.tokens;
    let mut has_dropped = false;
    for CountedPassage { page, start, tokens, .. } in counted {
        if *tokens > page_tokens[*page] || *tokens > answer_tokens {
            pages[*page].retain(|passage| passage.units.start != *start);
            has_dropped = true;
            continue;
        }
        page_tokens[*page] -= tokens;
        answer_tokens -= tokens;
    }
    has_dropped
}

/// The groups and sections of a page, whose borders no passage crosses. Empty for [`Seeds::Windows`].
#[derive(Default)]
struct Sections {
    /// The group of each unit.
    group_of: Vec<u32>,
    /// The number of each unit's section.
    of_units: Vec<u32>,
    /// Headings before each unit, and in the whole page.
    headings_before: Vec<u32>,
    /// By the first unit of a heading: the most relevant unit that is no heading and has none nearer, and of all those in
    /// the heading's section.
    best: HashMap<usize, (Option<usize>, usize)>,
    /// The units of each section.
    ranges: Vec<Range<usize>>,
}

impl Sections {
    fn new(page: &RankedPage) -> Self {
        let RankedPage { units, scores, .. } = page;
        if matches!(page.seeds, Seeds::Windows(_)) {
            return Self::default();
        }
        let mut group_of = Vec::new();
        for (number, group) in (0_u32..).zip(&units.groups) {
            group_of.resize(group.end, number);
        }
        let mut is_heading = vec![0; units.spans.len() + 1];
        for heading in &units.headings {
            is_heading[heading.clone()].fill(1);
        }
        let sections = units.sections();
        let numbered = (0_u32..).zip(&sections);
        let of_units: Vec<u32> =
            numbered.flat_map(|(number, section)| std::iter::repeat_n(number, section.len())).collect();
        let more_relevant = |unit: usize, other: usize| scores.relevance[unit] > scores.relevance[other];
        let mut best: HashMap<usize, (Option<usize>, usize)> = HashMap::new();
        for unit in (0..of_units.len()).filter(|unit| is_heading[*unit] == 0) {
            let headings = units.names.above(unit).filter(|name| is_heading[name.start] == 1);
            for (place, heading) in headings.enumerate() {
                let (own, all) = best.entry(heading.start).or_insert((None, unit));
                if place == 0 && own.is_none_or(|own| more_relevant(unit, own)) {
                    *own = Some(unit);
                }
                *all = if more_relevant(unit, *all) { unit } else { *all };
            }
        }
        let mut before = 0;
        let headings_before = is_heading.into_iter().map(|heading| {
            before += heading;
            before - heading
        });
        Self { group_of, of_units, headings_before: headings_before.collect(), best, ranges: sections }
    }

    fn are_one(&self, unit: usize, other: usize) -> bool {
        self.of_units[unit] == self.of_units[other]
    }

    fn is_heading(&self, unit: usize) -> bool {
        self.headings_before[unit + 1] > self.headings_before[unit]
    }

    /// The number of units that are no headings.
    fn content(&self, units: &Range<usize>) -> usize {
        units.len() - (self.headings_before[units.end] - self.headings_before[units.start]) as usize
    }

    /// The units that are no headings.
    fn content_of(&self, units: &Range<usize>) -> impl Iterator<Item = usize> {
        units.clone().filter(|unit| !self.is_heading(*unit))
    }

    /// The unit around which the passage of a seed grows: for a heading the most relevant unit below it, if that stands out.
    fn content_seed(&self, seed: usize, relevance: &[f32]) -> usize {
        let first = (seed..self.of_units.len()).find(|unit| !self.is_heading(*unit));
        let (Some((own, all)), Some(first)) = (self.best.get(&seed), first) else { return seed };
        let best = own.unwrap_or(*all);
        let answers = own.is_none()
            || relevance[best] >= MIN_SHARE_OF_HEADING * relevance[seed]
            || relevance[best] - relevance[first] >= MIN_LEAD_OF_BEST * relevance[seed];
        if answers { best } else { seed }
    }

    /// The section of a unit.
    fn range(&self, unit: usize) -> &Range<usize> {
        &self.ranges[self.of_units[unit] as usize]
    }
}

/// The passages selected on a page so far.
struct PageSelection<'page> {
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
    steps: usize,
}

impl<'page> PageSelection<'page> {
    fn new(number: usize, ranked: RankedPage<'page>, sections: &'page Sections, bounds: &Bounds) -> Self {
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
    fn select(
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
        let joins = bounds.max_passages().is_none() && matches!(self.ranked.seeds, Seeds::Units(_));
        let run = match self.ranked.seeds {
            Seeds::Windows(windows) => windows[seed].clone(),
            Seeds::Units(_) if joins || bounds.purpose == (Purpose::Candidates { are_groups: true }) => {
                self.group(seed, max_group)
            }
            Seeds::Units(max_units) => {
                let start = self.sections.content_seed(seed, &self.ranked.scores.relevance);
                if self.sections.is_heading(seed) {
                    self.of_heading(seed, start, max_units, remaining, max_group)
                } else {
                    self.expand(start, max_units, remaining, max_group)
                }
            }
        };
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
    fn overlaps(&self, units: &Range<usize>) -> bool {
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
        if self.length(&section).chars <= MAX_SECTION_CHARS && self.has_room(&section, max_units, remaining) {
            return section;
        }
        let run = self.expand(start, max_units, remaining, max_group);
        let whole = seed.min(run.start)..run.end;
        let is_one = self.sections.are_one(whole.start, whole.end - 1);
        if is_one && self.has_room(&whole, max_units, remaining) { whole } else { run }
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
        let threshold = MIN_SHARE_OF_SEED * self.ranked.scores.relevance[seed];
        let mut best = (0.0, group.clone());
        if threshold <= 0.0 {
            return group;
        }
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
                both = self.extend(&run, run.units.end, threshold, max_units, remaining, max_group);
            }
            let Some(unit) = left.units.start.checked_sub(1) else { break };
            let Some(longer) = self.extend(&left, unit, threshold, max_units, remaining, max_group) else { break };
            left = longer;
        }
        self.steps = self.steps.saturating_sub(steps);
        best.1
    }

    /// Adds the group of an adjacent unit; `None` if that is already selected, or would exceed a limit.
    fn extend(
        &self,
        run: &GrowingRun,
        unit: usize,
        threshold: f32,
        max_units: usize,
        remaining: Budget,
        max_group: Budget,
    ) -> Option<GrowingRun> {
        if unit >= self.sections.group_of.len() {
            return None;
        }
        let added = self.group(unit, max_group);
        let units = run.units.start.min(added.start)..run.units.end.max(added.end);
        let is_selected = self.overlaps(&added);
        let leaves_section = !self.sections.are_one(units.start, units.end - 1);
        if self.sections.content(&units) > max_units
            || is_selected
            || leaves_section
            || !remaining.fits(self.length(&units))
        {
            return None;
        }
        let relevance = &self.ranked.scores.relevance[added.clone()];
        let content = self.sections.content_of(&added);
        let gain = run.gain + content.map(|unit| self.ranked.scores.relevance[unit] - threshold).sum::<f32>();
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

    fn passages(self, order: Order) -> Vec<Passage> {
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
