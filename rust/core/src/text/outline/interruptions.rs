//! Sentences that the end of a page interrupts with headers, footers and page numbers, or subtitles with their times.

use std::ops::Range;

use super::signs::{is_open, voice};
use super::view::{LONGEST_HEAD, View};
use crate::error::Result;
use crate::runtime::call::{Check, Checkpoints};
use crate::text::page::BlockKind;
use crate::text::pieces::marks::{is_southeast_asian, is_unspaced};
use crate::text::pieces::records::turn_label;
use crate::text::pieces::table_captions::is_caption;

/// Units of headers, footers and times that may interrupt a sentence.
const MAX_INTERRUPTION: usize = 10;

/// Sentences of the notes at the foot of a page.
const MAX_NOTES: usize = 6;

/// Units from the part of a sentence above the end of a page to the rest of it.
const MAX_PAGE_END: usize = 3;

/// Sentences of a caption.
const MAX_CAPTION: usize = 3;

/// Bytes of a part of a sentence that a noun may continue on the next page.
const SHORTEST_BEGINNING: usize = 25;

/// The runs of the parts of a sentence and what interrupts it, if they fit.
pub(super) fn interrupted(view: &View<'_>, check: &Check) -> Result<Vec<Range<usize>>> {
    let mut checkpoints = Checkpoints::new(check);
    let mut found = Vec::new();
    let mut unit = 0;
    while unit < view.spans.len() {
        checkpoints.reach(view.spans[unit].start)?;
        let rest = view.after_interruption(unit);
        let is_cut = (2..=MAX_INTERRUPTION + 1).contains(&(rest - unit))
            && rest < view.spans.len()
            && match (view.outline.kind(unit), view.outline.kind(rest)) {
                (BlockKind::Prose, BlockKind::Prose) => view.goes_on(unit, rest),
                // The rest of an item looks like a paragraph.
                (BlockKind::Item, BlockKind::Prose) => {
                    !view.unit(rest).starts_with(char::is_uppercase) && view.goes_on(unit, rest)
                }
                (BlockKind::Captions, BlockKind::Captions) => is_answered(view, unit, rest),
                _ => false,
            };
        // Only a form feed.
        let is_split = || {
            unit + 1 < view.spans.len()
                && [unit, unit + 1].into_iter().all(|unit| view.outline.kind(unit) == BlockKind::Prose)
                && view.gap(unit + 1).contains('\x0c')
                && view.goes_on(unit, unit + 1)
        };
        if is_cut && view.fits(unit..rest + 1) {
            found.push(unit..rest + 1);
        } else if is_split() && view.fits(unit..unit + 2) {
            found.push(unit..unit + 2);
        }
        unit = if is_cut { rest } else { view.after_rules(unit + 1) };
    }
    Ok(found)
}

/// Whether the second of two people answers the first.
fn is_answered(view: &View<'_>, unit: usize, rest: usize) -> bool {
    let (question, answer) = (view.unit(unit), view.unit(rest));
    let is_other = || voice(answer).is_some_and(|other| voice(question) != Some(other));
    view.is_question(unit) && (answer.starts_with(['-', '–']) || turn_label(answer).is_some() || is_other())
}

impl View<'_> {
    /// The first unit from here that is no rule.
    fn after_rules(&self, unit: usize) -> usize {
        let is_rule = |unit: &usize| self.outline.kind(*unit) == BlockKind::Rule;
        unit + (unit..self.spans.len()).take_while(is_rule).count()
    }

    /// The unit after the headers, footers, page numbers and notes below a unit: the first one that is none.
    fn after_interruption(&self, unit: usize) -> usize {
        let rest = self.after_rules(unit + 1);
        if rest == unit + 1 {
            let numbered = self.after_rules(rest + 1);
            // A head without a number is a paragraph.
            let begins = |unit: usize| self.paragraphs[unit] == unit;
            let is_lone =
                || rest + 1 < self.spans.len() && begins(rest) && begins(rest + 1) && is_open(self.unit(unit));
            let is_end = (numbered > rest + 1 || is_lone()) && self.is_head(unit, rest, numbered);
            return if is_end { numbered } else { self.after_figure(unit, rest).max(self.after_notes(unit, rest)) };
        }
        let rest = self.below_head(unit, rest);
        // Notes stand between the rule above them and the page's number.
        let is_page_end = |unit: usize| self.outline.kind(unit) == BlockKind::Rule;
        let is_note = |unit: &usize| !is_page_end(*unit) && self.outline.kind(*unit) != BlockKind::Heading;
        let notes = (rest..self.spans.len()).take(MAX_NOTES + 1).take_while(is_note).count();
        let is_interrupted = (1..=MAX_NOTES).contains(&notes) && is_open(self.unit(unit));
        let end = self.below_head(unit, self.after_rules(rest + notes));
        let may_go_on = || end > rest + notes && end < self.spans.len() && self.goes_on(unit, end);
        if is_interrupted && !self.goes_on(unit, rest) && may_go_on() { end } else { rest }
    }

    /// The unit below a figure at the end of a page, if a sentence goes on there in lower case.
    fn after_figure(&self, unit: usize, caption: usize) -> usize {
        let is_figure = caption < self.spans.len() && is_caption(self.unit(caption)) && is_open(self.unit(unit));
        let end = (caption + 1..self.spans.len()).take(MAX_CAPTION);
        let end = end.map(|end| (end, self.after_rules(end))).find(|(end, rest)| rest > end);
        let goes_on = |rest: &usize| *rest < self.spans.len() && self.unit(*rest).starts_with(char::is_lowercase);
        end.map(|(_, rest)| rest).filter(|rest| is_figure && goes_on(rest)).unwrap_or(caption)
    }

    /// The unit below a paragraph of notes at the end of a page without a number, if a sentence goes on there in lower case.
    fn after_notes(&self, unit: usize, notes: usize) -> usize {
        let begins = |unit: usize| unit < self.spans.len() && self.paragraphs[unit] == unit;
        let are_notes = begins(notes)
            && self.unit(notes).starts_with(|c: char| c.is_numeric() || matches!(c, '*' | '†' | '['))
            && is_open(self.unit(unit));
        let end = (notes + 1..=notes + MAX_NOTES).find(|end| begins(*end));
        end.filter(|end| are_notes && self.unit(*end).starts_with(char::is_lowercase)).unwrap_or(notes)
    }

    /// Whether the end of a page interrupts the sentence that ends here.
    pub(super) fn is_rest(&self, unit: usize) -> bool {
        let is_beginning = |start: usize| self.after_interruption(start) == unit && self.goes_on(start, unit);
        (unit.saturating_sub(MAX_PAGE_END)..unit.saturating_sub(1)).any(is_beginning)
    }

    /// The unit below the head of a page that stands here once.
    fn below_head(&self, unit: usize, head: usize) -> usize {
        if self.is_head(unit, head, head + 1) { head + 1 } else { head }
    }

    /// Whether a unit is the head of a page that interrupts a sentence, which goes on in lower case.
    fn is_head(&self, unit: usize, head: usize, rest: usize) -> bool {
        rest < self.spans.len()
            && self.spans[head].len() <= LONGEST_HEAD
            && is_open(self.unit(head))
            && !self.unit(head).starts_with(char::is_lowercase)
            && goes_on_in_lower_case(self.unit(rest))
            && is_open(self.unit(unit))
    }

    /// Whether a sentence goes on after an interruption: the rest starts in lower case, or the words of a header or footer
    /// stand before it, and no mark ends its long beginning: a German noun or a number may follow, or Chinese.
    fn goes_on(&self, unit: usize, rest: usize) -> bool {
        let text = self.unit(unit);
        if !is_open(text) || self.unit(rest).starts_with(char::is_lowercase) {
            return is_open(text);
        }
        let is_footer = |unit: usize| {
            let text = self.unit(unit);
            !text.starts_with(['<', '[']) && text.contains(char::is_alphanumeric)
        };
        // Without capitals and spaces, but with marks between sentences.
        let is_han_or_kana = |c: char| is_unspaced(c) && !is_southeast_asian(c);
        let is_cut = if text.ends_with(is_han_or_kana) {
            self.unit(rest).starts_with(is_han_or_kana)
        } else {
            text.len() >= SHORTEST_BEGINNING
                && text.rsplit(' ').next().is_some_and(|last| last.chars().all(char::is_lowercase))
        };
        is_cut
            && (self.unit(rest).starts_with(char::is_alphabetic) || goes_on_in_lower_case(self.unit(rest)))
            && (unit + 1..rest).any(is_footer)
    }
}

/// Whether a text begins in lower case, also after a number: `10 und 18 Uhr`.
pub(crate) fn goes_on_in_lower_case(text: &str) -> bool {
    let word = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let word = if word.len() < text.len() { word.strip_prefix(' ').unwrap_or_default() } else { text };
    word.starts_with(char::is_lowercase)
}
