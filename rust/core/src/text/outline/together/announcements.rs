//! What announces, and what means little without the unit before it.

use super::super::signs::{
    ends_proof, introduces, is_attribution, is_field, is_label, is_numbered_title, is_open, is_quotation, is_signature,
    is_source, is_value, numbered, starts_quotation,
};
use super::super::{NodeKind, has_blank_line, span};
use super::{Announced, Groups};
use crate::text::page::BlockKind;
use crate::text::pieces::table_captions::{is_caption, is_figure, is_note};

/// Bytes of an answer that stands alone.
const SHORTEST_ANSWER: usize = 25;

impl Groups<'_> {
    /// Whether a unit means little without the one before it: it is in parentheses, it continues a sentence after code,
    /// or it names the source of a quotation or the subject of the table above it.
    pub(super) fn continues(&self, unit: usize, next: usize) -> bool {
        let (before, kind) = (self.view.outline.kind(unit), self.view.outline.kind(next));
        let text = self.view.unit(next);
        let is_new = has_blank_line(self.view.gap(next));
        let is_source = |unit: usize, next: usize| {
            let is_quotation = is_quotation(self.view.unit(unit)) || self.view.unit(next).starts_with('>');
            // The dash alone looks like the mark of an item.
            self.view.gap(next).contains('\n')
                && !self.view.outline.has_items(next)
                && is_source(self.view.unit(next), is_quotation)
        };
        match (before, kind) {
            (BlockKind::Prose, BlockKind::Prose | BlockKind::Item) if is_source(unit, next) => true,
            (BlockKind::Prose, BlockKind::Prose) if is_signature(text) => {
                self.view.gap(next).contains('\n') && !is_new && !is_open(self.view.unit(unit))
            }
            // The empty line of a quote.
            (BlockKind::Prose, BlockKind::Rule) => self.joins.get(next + 1) == Some(&true),
            (BlockKind::Rule, BlockKind::Prose | BlockKind::Item) => {
                self.view.unit(unit) == ">" && is_source(unit, next)
            }
            (BlockKind::Prose, BlockKind::Prose) if self.view.gap(next).contains('\n') && is_attribution(text) => {
                is_quotation(self.view.unit(unit)) && !is_new || is_new && self.view.is_quoted(unit, next)
            }
            // `Sundays` above `09:00   11:30`.
            (BlockKind::Prose, BlockKind::Prose) if !is_new && self.view.gap(next).contains('\n') && is_value(text) => {
                is_open(self.view.unit(unit)) && self.view.unit(unit).contains(char::is_alphabetic)
            }
            (BlockKind::Prose | BlockKind::Item, _) if kind == before && !is_new => {
                text.starts_with('(') && text.trim_end_matches(['.', '!', '?', '。']).ends_with(')')
            }
            (BlockKind::Prose, BlockKind::Prose) if ends_proof(text) => true,
            (BlockKind::Turn, BlockKind::Turn) => self.view.is_short_reply(next),
            (BlockKind::Code, BlockKind::Prose) => text.starts_with(char::is_lowercase),
            // In reStructuredText, the mark of the code below.
            (BlockKind::Prose, BlockKind::Prose) if text == "::" => true,
            (_, BlockKind::Source) => true,
            (BlockKind::Row, BlockKind::Caption | BlockKind::Prose) if self.view.is_caption(next) => {
                (self.are_captions_below || !self.view.is_row(next + 1))
                    && !(is_figure(text) && self.has_caption_above(unit))
            }
            (BlockKind::Row, BlockKind::Prose) if is_note(text) => true,
            // `* Without fishing boats.`
            (BlockKind::Row, BlockKind::Item) => text.starts_with('*') && !self.view.outline.has_items(next),
            _ => false,
        }
    }

    /// Whether a caption stands above the table of this unit.
    fn has_caption_above(&self, unit: usize) -> bool {
        let table = self.view.leaf(unit).units.start;
        table.checked_sub(1).is_some_and(|above| self.view.is_caption(above))
    }

    /// What the text up to this unit announces, if `next` is it or its start.
    pub(super) fn announces(&self, unit: usize, next: usize) -> Option<Announced> {
        let (kind, next_kind) = (self.view.outline.kind(unit), self.view.outline.kind(next));
        if kind == BlockKind::Record && self.view.unit(next).starts_with("@@ -") {
            let start = self.view.leaf(unit).units.start;
            let is_file = self.view.unit(start).starts_with("diff --git ");
            return is_file.then(|| Announced { start, end: self.view.leaf(next).units.end, is_answer: false });
        }
        if matches!(kind, BlockKind::Code | BlockKind::Row | BlockKind::HeaderRow | BlockKind::Record | BlockKind::Rule)
        {
            return None;
        }
        let parent = self.view.outline.node(self.view.leaf(unit).parent);
        let whole = |end: usize| Some(Announced { start: unit, end, is_answer: false });
        if kind == BlockKind::Term {
            return if parent.units.end > next { whole(parent.units.end) } else { None };
        }
        if matches!(next_kind, BlockKind::Heading | BlockKind::Term | BlockKind::Rule) {
            return None;
        }
        let text = self.view.unit(unit);
        let is_new = has_blank_line(self.view.gap(next));
        // A sentence alone or right above two items or more, and not the rest of one that a page's end interrupts.
        let is_lead_in = (self.view.paragraphs[unit] == unit || !is_new)
            && self.view.outline.has_items(next)
            && !text.starts_with(char::is_lowercase)
            && !self.view.is_rest(unit);
        let target = self.view.outline.outermost(next);
        let is_inside = self.view.outline.leaf(unit) == self.view.outline.leaf(next);
        let leaf = self.view.leaf(unit).units.clone();
        let labels = |unit: &str, next: &str| is_label(unit) && next.contains(char::is_lowercase);
        let labels =
            |unit: usize, next: usize| labels(self.view.unit(unit), self.view.unit(next)) || self.view.names_leaf(unit);
        if is_inside && leaf.start == unit && (is_caption(text) || labels(unit, next)) {
            return whole(leaf.end);
        }
        if self.view.heads_fields(unit, next) {
            return whole(next + 1);
        }
        if let Some(end) = self.view.headed_end(unit, next) {
            return whole(end);
        }
        let is_in_item = kind == BlockKind::Item && parent.units.end > next;
        match (next_kind, target.kind) {
            _ if is_inside => {}
            (BlockKind::Code, _) if kind != BlockKind::Item || is_in_item => {
                return whole(self.view.code_end(unit, target.units.end));
            }
            (BlockKind::Row, _) if self.view.is_caption(unit) && self.are_captions_below => return None,
            (BlockKind::Row, _)
                if self.view.is_caption(unit)
                    || is_open(text) && (!is_new || self.view.paragraphs[unit] == unit || introduces(text)) =>
            {
                return whole(target.units.end);
            }
            (_, NodeKind::List(_)) if is_in_item => return whole(self.view.list_end(target)),
            (_, NodeKind::List(_))
                if kind != BlockKind::Item
                    && !self.view.is_dialogue(next)
                    && (!self.view.is_titled(next) || introduces(text))
                    && (is_lead_in
                        || self.view.is_lone_question(unit)
                        || is_open(text) && !(is_new && is_field(text))) =>
            {
                let start = if is_new { unit } else { self.view.head_start(unit) };
                return Some(Announced { start, end: self.view.list_end(target), is_answer: false });
            }
            _ if self.view.question_start(unit, next).is_some() => {}
            // The next item of the same list.
            (BlockKind::Item, _) if kind == BlockKind::Item && !is_in_item && !self.view.differ(unit, next) => {
                return None;
            }
            _ => {}
        }
        let start = self.view.paragraphs[unit];
        let ends_paragraph = self.view.paragraphs[next] == next;
        // Not the last item of a list.
        let is_listed = || {
            let is_numbered = |unit: usize| numbered(self.view.unit(unit)).is_some();
            (start + 1..next).any(is_numbered)
                || start.checked_sub(1).is_some_and(|above| is_numbered(self.view.paragraphs[above]))
        };
        let is_entry = ends_paragraph
            && !is_listed()
            && is_numbered_title(span(self.view.spans, &(start..next)).of(self.view.text))
            && numbered(self.view.unit(next)).is_none();
        let is_question = self.asks(unit, next);
        let start = match self.view.question_start(unit, next) {
            Some(start) => start,
            None if is_entry => start,
            None if is_question => self.view.question_line(unit).unwrap_or(unit),
            None if introduces(text) => return whole(self.introduced_end(next)),
            None => return None,
        };
        let end = self.ends[next];
        // "No." alone is half of an answer.
        let is_short = self.view.is_question(unit)
            && end < self.view.spans.len()
            && span(self.view.spans, &(next..end)).len() < SHORTEST_ANSWER
            && !matches!(self.view.outline.kind(end), BlockKind::Heading | BlockKind::Rule)
            && !self.view.is_question(end);
        let end = if is_short { self.ends[end] } else { end };
        Some(Announced { start, end: self.speaker_end(unit, next, end), is_answer: true })
    }

    /// Whether a unit is a question that the next one answers.
    fn asks(&self, unit: usize, next: usize) -> bool {
        // In a mail, what is quoted below was said before.
        let is_quoted = self.view.unit(next).starts_with('>') && !self.view.unit(unit).starts_with('>');
        // The text below a list of questions answers none of them.
        let is_item = |unit: usize| self.view.outline.kind(unit) == BlockKind::Item;
        let is_of_list =
            unit > 0 && is_item(unit) && !is_item(next) && is_item(unit - 1) && self.view.is_question(unit - 1);
        self.view.is_lone_question(unit) && !self.view.is_question(next) && !is_quoted && !is_of_list
    }

    /// The end of what the speaker of `next` says without a word of others, as far as it fits with the question before it.
    fn speaker_end(&self, unit: usize, next: usize, mut end: usize) -> usize {
        let Some(speaker) = self.view.speaker(next) else { return end };
        while end < self.view.spans.len()
            && self.view.speaker(end).is_some_and(|other| other == speaker)
            && self.view.fits(unit..self.ends[end])
        {
            end = self.ends[end];
        }
        end
    }

    /// The end of what a colon introduces: a list, a block of code, one sentence, or lines without a blank one between
    /// them, as of a verse.
    fn introduced_end(&self, next: usize) -> usize {
        let target = self.view.outline.outermost(next);
        if !matches!(target.kind, NodeKind::Leaf(BlockKind::Prose)) {
            return target.units.end;
        }
        // All of a quotation.
        let quotation = self.view.leaf(next).units.clone();
        if starts_quotation(self.view.unit(next))
            && quotation.start == next
            && is_quotation(self.view.unit(quotation.end - 1))
        {
            return quotation.end;
        }
        // A line of the same paragraph, or the next clause of the sentence.
        let goes_on = |unit: usize| {
            self.view.gap(unit).contains('\n') && self.view.paragraphs[unit] < unit && !introduces(self.view.unit(unit))
                || self.view.is_clause(unit - 1)
        };
        let mut end = self.ends[next];
        while end < self.view.spans.len() && goes_on(end) && self.view.outline.kind(end) == BlockKind::Prose {
            if !self.view.fits(next..self.ends[end]) {
                return self.ends[next];
            }
            end = self.ends[end];
        }
        end
    }
}
