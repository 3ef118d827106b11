//! Chooses passages: runs of units over all pages of an answer.
//!
//! All units of all pages are visited once, the one that most probably answers the query first, so that a budget shared
//! by pages goes to the best of all, and to no page that does not answer if another one does. With `top_k`, a passage
//! is the run around its seed with the most relevance above a threshold. With only a budget, the best units that fit
//! are taken, and neighbours join. Windows are taken as they are. Units of a group (a table row, a list item with its
//! introduction) stay together, and near-duplicates of better passages are dropped.

use std::collections::BTreeMap;

use super::dedupe::SeenShingles;
use super::limits::{Bounds, Dedupe};
use super::page_selection::{Choice, PageSelection, Place};
use super::ranked_page::{Passage, RankedPage, Run};
use super::sections::Sections;
use crate::error::Result;
use crate::ranking::probability::{ANSWERED, logit};
use crate::runtime::call::{Check, Checkpoints};

/// A seed counts as this many bytes of text between two checks.
const BYTES_PER_SEED: usize = 4096;
/// So does a run that a seed tries.
const BYTES_PER_STEP: usize = 64;

/// How often passages are chosen again because they have more tokens than their units.
const MAX_TIGHTENINGS: usize = 3;

/// Of a page that repeats one line, every line is a twin of the first.
const MAX_TWINS: usize = 100;

/// Repeats of a place that are remembered: neighbours may take some of them in.
const MAX_REPEATS: usize = 4 * MAX_TWINS;

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
    // Pages and seeds have numbers of 32 bits here: a page of short lines has a seed for every two bytes.
    let mut order: Vec<(f32, u32, u32)> = Vec::new();
    let answers = |page: &RankedPage| page.scores.logits.iter().any(|seed| *seed >= logit(ANSWERED));
    let only_answers = bounds.is_for_answers() && pages.iter().any(answers);
    for (number, page) in (0..).zip(pages).filter(|(_, page)| !only_answers || answers(page)) {
        let seeds = || (0..).zip(&page.scores.logits).filter(|(_, logit)| **logit >= min_logit);
        order.reserve(seeds().count());
        order.extend(seeds().map(|(seed, logit)| (logit + page.title, number, seed)));
    }
    let by_order = |page: u32, a: u32, b: u32| {
        let order = &pages[page as usize].scores.order;
        order[b as usize].total_cmp(&order[a as usize]).then(a.cmp(&b))
    };
    order.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)).then_with(|| by_order(a.1, a.2, b.2)));
    let (mut remaining, mut count) = (bounds.answer, bounds.total);
    let mut seen = SeenShingles::default();
    let numbered = pages.iter().zip(sections).enumerate();
    let mut selections: Vec<PageSelection> =
        numbered.map(|(number, (page, sections))| PageSelection::new(number, *page, sections, bounds)).collect();
    let mut repeats: Vec<(Place, Run)> = Vec::new();
    let mut repeats_of: BTreeMap<Place, usize> = BTreeMap::new();
    let (mut checkpoints, mut steps) = (Checkpoints::new(check), 0);
    for (number, (_, page, seed)) in order.into_iter().enumerate() {
        checkpoints.reach(number * BYTES_PER_SEED + steps * BYTES_PER_STEP)?;
        if remaining.chars == 0 || remaining.tokens == 0 || count == 0 {
            break;
        }
        let page = page as usize;
        let seen = if bounds.dedupe == Dedupe::Answer { Some(&mut seen) } else { None };
        let steps_before = selections[page].steps;
        let choice = selections[page].select(seed as usize, bounds, &mut remaining, seen);
        steps += steps_before - selections[page].steps;
        match choice {
            Choice::Selected => count -= usize::from(bounds.max_passages().is_some()),
            Choice::Repeats(place, units) => {
                let count = repeats_of.entry(place).or_default();
                *count += 1;
                if *count <= MAX_REPEATS {
                    repeats.push((place, Run { page, units }));
                }
            }
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
