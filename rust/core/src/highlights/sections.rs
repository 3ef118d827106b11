//! The groups and sections of a page, as passages grow in them.

use std::collections::HashMap;
use std::ops::Range;

use super::ranked_page::{RankedPage, Seeds};
use crate::text::outline::is_question;

/// A passage of a heading grows around the best unit of its section, if that has at least this share of the heading's
/// relevance, or is that much more relevant than the first one: the heading's also comes from its words, which the unit
/// that answers does not repeat.
const MIN_SHARE_OF_HEADING: f32 = 0.4;
const MIN_LEAD_OF_BEST: f32 = 0.1;

/// The groups and sections of a page, whose borders no passage crosses. Empty for [`Seeds::Windows`].
#[derive(Default)]
pub(super) struct Sections {
    /// The group of each unit.
    pub(super) group_of: Vec<u32>,
    /// The number of each unit's section.
    of_units: Vec<u32>,
    /// For each unit, the end of the question that it asks or answers; 0 for none.
    questions: Vec<usize>,
    /// Headings before each unit, and in the whole page.
    headings_before: Vec<u32>,
    /// By the first unit of a heading: the most relevant unit that is no heading and has none nearer, and of all those in
    /// the heading's section.
    best: HashMap<usize, (Option<usize>, usize)>,
    /// By the first unit of a heading that has only other headings right below it: the end of all that they have.
    subsections: HashMap<usize, usize>,
    /// The units of each section.
    ranges: Vec<Range<usize>>,
}

impl Sections {
    pub(super) fn new(page: &RankedPage) -> Self {
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
        let mut subsections: HashMap<usize, usize> = HashMap::new();
        for unit in (0..of_units.len()).filter(|unit| is_heading[*unit] == 0) {
            let headings = units.names.above(unit).filter(|name| is_heading[name.start] == 1);
            for (place, heading) in headings.enumerate() {
                // Text below a box has a section of its own.
                if place == 0 && of_units[unit] != of_units[heading.start] {
                    break;
                }
                let (own, all) = best.entry(heading.start).or_insert((None, unit));
                if place == 0 && own.is_none_or(|own| more_relevant(unit, own)) {
                    *own = Some(unit);
                }
                *all = if more_relevant(unit, *all) { unit } else { *all };
                subsections.insert(heading.start, unit + 1);
            }
        }
        subsections.retain(|heading, _| best.get(heading).is_some_and(|(own, _)| own.is_none()));
        let questions = questions(page);
        let mut before = 0;
        let headings_before = is_heading.into_iter().map(|heading| {
            before += heading;
            before - heading
        });
        let headings_before = headings_before.collect();
        Self { group_of, of_units, questions, headings_before, best, subsections, ranges: sections }
    }

    pub(super) fn are_one(&self, unit: usize, other: usize) -> bool {
        self.of_units[unit] == self.of_units[other]
    }

    /// Whether two units are about the same question of the page, or about none.
    pub(super) fn answer_the_same(&self, unit: usize, other: usize) -> bool {
        self.questions[unit] == self.questions[other]
    }

    pub(super) fn is_heading(&self, unit: usize) -> bool {
        self.headings_before[unit + 1] > self.headings_before[unit]
    }

    /// The number of units that are no headings.
    pub(super) fn content(&self, units: &Range<usize>) -> usize {
        units.len() - (self.headings_before[units.end] - self.headings_before[units.start]) as usize
    }

    /// The units that are no headings.
    pub(super) fn content_of(&self, units: &Range<usize>) -> impl Iterator<Item = usize> {
        units.clone().filter(|unit| !self.is_heading(*unit))
    }

    /// The unit around which the passage of a seed grows: for a heading the most relevant unit below it, if that stands out.
    pub(super) fn content_seed(&self, seed: usize, relevance: &[f32]) -> usize {
        // A heading without a unit below it is not here, so a page of headings is not read to its end for each of them.
        let Some((own, all)) = self.best.get(&seed) else { return seed };
        let Some(first) = (seed..self.of_units.len()).find(|unit| !self.is_heading(*unit)) else { return seed };
        let best = own.unwrap_or(*all);
        let answers = own.is_none()
            || relevance[best] >= MIN_SHARE_OF_HEADING * relevance[seed]
            || relevance[best] - relevance[first] >= MIN_LEAD_OF_BEST * relevance[seed];
        if answers { best } else { seed }
    }

    /// The headings and text below a heading that has no text of its own.
    pub(super) fn subsections(&self, heading: usize) -> Option<Range<usize>> {
        self.subsections.get(&heading).map(|end| heading..*end)
    }

    /// Whether there are several sections, and this one has a heading.
    pub(super) fn is_titled(&self, section: &Range<usize>) -> bool {
        self.ranges.len() > 1 && self.is_heading(section.start)
    }

    /// The section of a unit.
    pub(super) fn range(&self, unit: usize) -> &Range<usize> {
        &self.ranges[self.of_units[unit] as usize]
    }
}

/// For each unit, the end of the question that it asks or answers; 0 for none.
fn questions(RankedPage { page, units, .. }: &RankedPage) -> Vec<usize> {
    let nearest = units.names.nearest(|name| is_question(units.spans[name.end - 1].of(page.text())));
    let mut questions = vec![0; units.spans.len()];
    for unit in 0..questions.len() {
        let Some(place) = units.names.innermost(unit).and_then(|name| nearest[name]) else { continue };
        let question = units.names.units(place);
        questions[unit] = question.end;
        if questions[question.start] != question.end {
            questions[question.clone()].fill(question.end);
        }
    }
    questions
}
