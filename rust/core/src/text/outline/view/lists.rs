//! Lists and fields: where they end, and what stands above them.

use std::ops::Range;

use super::super::signs::{is_field, is_open, is_symbol};
use super::super::{Node, NodeKind, has_blank_line};
use super::{MAX_TAGS, MAX_TITLE_LINES, View};
use crate::text::page::{BlockKind, marked_level};
use crate::text::pieces::list_marks::{Mark, System};
use crate::text::pieces::long;

/// Sentences of a field.
const MAX_FIELD: usize = 6;

/// Units of a list below the head of a page.
const MAX_ITEMS: usize = 100;

/// Pages of a list.
const MAX_PAGES: usize = 8;

impl View<'_> {
    /// Whether a title introduces a list: it has no marks and stands right above it, or nothing else is below it.
    pub(in crate::text::outline) fn is_title_of_list(&self, unit: usize, next: usize) -> bool {
        let list = self.outline.outermost(next);
        let of_list = |unit: usize| self.outline.node(self.leaf(unit).parent).parent;
        let is_flat = || list.units.clone().all(|unit| of_list(unit) == of_list(next));
        let is_all =
            || self.outline.node(list.parent).units.end == self.list_end(list) || self.fits(unit..self.list_end(list));
        self.outline.has_items(next)
            && !self.is_dialogue(next)
            && matches!(list.kind, NodeKind::List(_))
            && !self.has_posts(list.units.clone())
            && (is_all() && is_flat() || !has_blank_line(self.gap(next)) && marked_level(self.unit(unit)) == 0)
    }

    /// Whether items of a list have a line of their own above their text, as who wrote it.
    fn has_posts(&self, list: Range<usize>) -> bool {
        let is_head = |unit: &usize| {
            let (own, next) = (&self.leaf(*unit).units, unit + 1);
            own.start == *unit && own.contains(&next) && has_blank_line(self.gap(next)) && is_open(self.unit(*unit))
        };
        list.filter(is_head).count() > 1
    }

    /// The first of the short lines that end with a unit, if they are a paragraph: a post, its employer and its time, above
    /// what was done there.
    pub(in crate::text::outline) fn head_start(&self, unit: usize) -> usize {
        let is_line = |line: usize| {
            self.is_short_line(line)
                && !self.unit(line).contains('\n')
                && (line == self.paragraphs[unit] || self.gap(line).contains('\n'))
        };
        let lines = self.paragraphs[unit]..unit + 1;
        if lines.len() <= MAX_TITLE_LINES && lines.clone().all(is_line) { lines.start } else { unit }
    }

    /// Whether a unit is the line that names the fields below it: `【Uses】…`, `Phone: …`.
    pub(in crate::text::outline) fn heads_fields(&self, unit: usize, next: usize) -> bool {
        let is_labelled = |text: &str| text.starts_with('【') || is_field(text);
        let begins_line = |line: &usize| self.gap(*line).contains('\n');
        let is_field =
            |line: usize| begins_line(&line) && self.paragraphs[line] == unit && is_labelled(self.unit(line));
        let below = || (next + 1..self.spans.len()).take(MAX_FIELD).find(begins_line);
        self.paragraphs[unit] == unit
            && self.is_short_line(unit)
            && !is_labelled(self.unit(unit))
            && is_field(next)
            && below().is_some_and(is_field)
    }

    /// The end of the paragraph whose first line names the others: `Lundy, Irish Sea` above sentences in lines of their own.
    pub(in crate::text::outline) fn headed_end(&self, unit: usize, next: usize) -> Option<usize> {
        let begins = self.paragraphs[unit] == unit
            && self.gap(next).contains('\n')
            && self.is_short_line(unit)
            && !self.unit(unit).starts_with(|c: char| c.is_lowercase() || is_symbol(c));
        if !begins {
            return None;
        }
        let is_part = |line: &usize| self.paragraphs[*line] == unit && self.outline.kind(*line) == BlockKind::Prose;
        let end = next + (next..self.spans.len()).take_while(is_part).count();
        (end > next + 1).then_some(end)
    }

    /// The end of a list, which may go on below the foot and head of a page.
    pub(in crate::text::outline) fn list_end(&self, list: &Node) -> usize {
        let mark = |unit: usize| Mark::at_start(self.unit(unit)).filter(|_| self.outline.kind(unit) == BlockKind::Item);
        let mut part = list.units.clone();
        for _ in 0..MAX_PAGES {
            let below = part.end..self.spans.len().min(part.end + MAX_TAGS);
            let Some(item) = below.clone().find(|unit| self.outline.kind(*unit) == BlockKind::Item) else { break };
            let has_page_end = (below.start..item).any(|unit| self.outline.kind(unit) == BlockKind::Rule);
            let marks = part.clone().rev().find_map(mark).zip(mark(item));
            // Bullets do not count: nothing else may stand between them.
            let goes_on = |(one, next): (Mark, Mark)| {
                let is_next = || match one.style.system {
                    System::Bullet => (below.start..item).all(|unit| self.outline.kind(unit) == BlockKind::Rule),
                    _ => next.number.follows(one.number),
                };
                one.style == next.style && is_next()
            };
            if !has_page_end || !marks.is_some_and(goes_on) {
                break;
            }
            let style = |unit: usize| mark(unit).map(|mark| mark.style);
            let is_part = |unit: &usize| {
                self.outline.kind(*unit) == BlockKind::Item && style(self.leaf(*unit).units.start) == style(item)
            };
            part = item..item + (item..self.spans.len()).take(MAX_ITEMS).take_while(is_part).count();
        }
        part.end
    }

    /// Whether a unit is a clause that another one follows: `the key;`, `the key; and`.
    pub(in crate::text::outline) fn is_clause(&self, unit: usize) -> bool {
        let text = self.unit(unit).trim_end_matches(|c: char| c.is_alphabetic()).trim_end();
        text.ends_with([';', '；', ',', '，'])
    }

    /// Whether the items of a list are clauses of the sentence that `unit` begins, which is whole up to the longest sentence:
    /// `(a) the key; and`.
    pub(in crate::text::outline) fn is_one_sentence(&self, unit: usize, items: Range<usize>) -> bool {
        self.chars[items.end - 1].1 - self.chars[unit].0 <= long::MAX_CHARS
            && items.len() > 1
            && (items.start..items.end - 1).all(|item| self.is_clause(item))
    }

    /// Whether a title with a line of its own begins the item that starts here: a section, not a part of a list.
    pub(in crate::text::outline) fn is_titled(&self, unit: usize) -> bool {
        let leaf = self.leaf(unit);
        let is_numbered = || Mark::at_start(self.unit(unit)).is_some_and(|mark| mark.style.system != System::Bullet);
        let has_text = leaf.units.end > unit + 1 && self.gap(unit + 1).contains('\n')
            || self.outline.node(leaf.parent).units.end > leaf.units.end && is_numbered();
        has_text && is_open(self.unit(unit))
    }

    /// Whether the list that starts here is what people say after dashes: one of its items asks.
    pub(in crate::text::outline) fn is_dialogue(&self, unit: usize) -> bool {
        let list = self.outline.outermost(unit).units.clone();
        self.unit(unit).starts_with(['–', '—']) && list.into_iter().any(|unit| self.is_lone_question(unit))
    }
}
