//! What a run of units gains or loses at its ends: the rest of a short paragraph, an answer, furniture.

use std::ops::Range;

use super::super::limits::Budget;
use super::super::ranked_page::Seeds;
use super::PageSelection;
use crate::text::outline::is_question;

impl PageSelection<'_> {
    /// The run with all of the short paragraph at its end, and what that announces, as far as this is less than another window.
    pub(super) fn with_paragraph(&self, run: Range<usize>, max_units: usize, remaining: Budget) -> Range<usize> {
        let paragraphs = &self.ranked.units.short_paragraphs;
        let paragraph = paragraphs.get(paragraphs.partition_point(|paragraph| paragraph.end < run.end));
        let Some(paragraph) = paragraph.filter(|paragraph| paragraph.start < run.end) else { return run };
        let most = self.sections.content(&run) + max_units - 1;
        let is_less = |longer: Range<usize>| self.sections.content(&longer) <= most;
        let run =
            if is_less(run.start..paragraph.end) { self.with_group(run, paragraph.end - 1, remaining) } else { run };
        let is_rest = paragraph.start < run.start && is_less(paragraph.start..run.end);
        if is_rest { self.with_group(run, paragraph.start, remaining) } else { run }
    }

    /// The run with the sentence after it, if it ends with a question whose paragraph goes on.
    pub(super) fn with_answer(&self, run: Range<usize>, remaining: Budget) -> Range<usize> {
        let Seeds::Units(2..) = self.ranked.seeds else { return run };
        let units = &self.ranked.units;
        let paragraph = units.paragraphs.partition_point(|paragraph| paragraph.end < run.end);
        let is_inside = units.paragraphs.get(paragraph).is_some_and(|paragraph| run.end < paragraph.end);
        if !is_inside || !is_question(units.spans[run.end - 1].of(self.ranked.page.text())) {
            return run;
        }
        let answer = run.end;
        self.with_group(run, answer, remaining)
    }

    /// The run without the page numbers, headers and footers of pages at its ends.
    pub(super) fn without_furniture(&self, mut run: Range<usize>, seed: usize) -> Range<usize> {
        let units = &self.ranked.units;
        let is_row = |unit: usize| units.next_table(unit).is_some_and(|table| table.start <= unit);
        let is_furniture = |unit: usize| {
            units.boilerplate.binary_search(&unit).is_ok()
                && !is_row(unit)
                && units.spans[unit].of(self.ranked.page.text()).contains(char::is_alphanumeric)
        };
        while run.len() > 1 && run.end - 1 != seed && is_furniture(run.end - 1) {
            run.end -= 1;
        }
        while run.len() > 1 && run.start != seed && is_furniture(run.start) {
            run.start += 1;
        }
        run
    }

    /// The run with a unit's group and all between them, if they are one section and there is room.
    fn with_group(&self, run: Range<usize>, unit: usize, remaining: Budget) -> Range<usize> {
        let group = &self.ranked.units.groups[self.sections.group_of[unit] as usize];
        let longer = run.start.min(group.start)..run.end.max(group.end);
        let is_one = self.sections.are_one(longer.start, longer.end - 1);
        if is_one && self.has_room(&longer, usize::MAX, remaining) { longer } else { run }
    }
}
