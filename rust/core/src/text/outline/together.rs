//! Which units stay together in a passage.
//!
//! A node that only announces what follows is never the end of a passage: a heading, a question, the sentence that
//! introduces a list, table or code, a caption, a term, the parent of nested items. If both fit, all that is announced
//! stays with it; otherwise it is begun. Items, tables and code stay whole if they fit; longer ones are split: tables
//! and code by lines (code at blank lines, if there are any), items by sentences.

use std::ops::Range;

use super::code::Code;
use super::signs::{
    answers, introduces, is_attribution, is_field, is_label, is_numbered_title, is_open, is_question, is_quotation,
    is_source, is_symbol, numbered,
};
use super::{Name, NodeKind, Outline, has_blank_line, span};
use crate::error::Result;
use crate::runtime::call::{Check, Checkpoints};
use crate::text::page::{BlockKind, ByteSpan, marked_level};
use crate::text::pieces::list_marks::Mark;
use crate::text::pieces::marks::is_separator_row;
use crate::text::pieces::records::{is_prompted, turn_label};
use crate::text::pieces::table_captions::is_caption;

/// Characters that stay together: about two passages of three sentences.
const MAX_GROUP_CHARS: usize = 600;

/// Characters of consecutive headings that stay with the text after them: a menu of headings is not one group.
const MAX_HEADING_CHARS: usize = 200;

/// Bytes of an answer that stands alone.
const SHORTEST_ANSWER: usize = 25;

/// Sentences of a question with a label, less one.
const MAX_QUESTION: usize = 5;

/// Characters of an answer up to the next question.
const MAX_ANSWER_CHARS: usize = 1500;

/// Lines that are no sentences, and stay together.
const MIN_LINES: usize = 3;

/// Units of headers, footers and times that may interrupt a sentence.
const MAX_INTERRUPTION: usize = 6;

/// For each unit, whether it stays with the one before it; and the names of those that others announce.
pub(crate) fn joins(
    text: &str,
    spans: &[ByteSpan],
    outline: &Outline,
    has_markup: bool,
    check: &Check,
) -> Result<(Vec<bool>, Vec<Name>)> {
    let mut groups = Groups {
        text,
        spans,
        outline,
        joins: vec![false; spans.len()],
        ends: vec![0; spans.len()],
        announced: vec![false; spans.len()],
        names: Vec::new(),
        last_question: spans.len(),
        chars: characters(text, spans, check)?,
        paragraphs: paragraphs(text, spans),
        check,
    };
    groups.join_leaves()?;
    if !has_markup {
        groups.join_lines()?;
    }
    groups.join_announced()?;
    groups.join_interrupted()?;
    Ok((groups.joins, groups.names))
}

/// For each unit the characters before its start and before its end.
fn characters(text: &str, spans: &[ByteSpan], check: &Check) -> Result<Vec<(usize, usize)>> {
    let mut checkpoints = Checkpoints::new(check);
    let (mut at, mut count) = (0, 0);
    let of_unit = |unit: &ByteSpan| {
        checkpoints.reach(unit.start)?;
        count += bytecount::num_chars(&text.as_bytes()[at..unit.start]);
        let start = count;
        count += bytecount::num_chars(unit.of(text).as_bytes());
        at = unit.end;
        Ok((start, count))
    };
    spans.iter().map(of_unit).collect()
}

/// For each unit the first one of its paragraph: of units without a blank line between them.
fn paragraphs(text: &str, spans: &[ByteSpan]) -> Vec<usize> {
    let mut first = 0;
    let starts = |unit: usize| unit > 0 && has_blank_line(&text[spans[unit - 1].end..spans[unit].start]);
    let of_unit = |unit: usize| {
        first = if starts(unit) { unit } else { first };
        first
    };
    (0..spans.len()).map(of_unit).collect()
}

struct Groups<'page> {
    text: &'page str,
    spans: &'page [ByteSpan],
    outline: &'page Outline,
    joins: Vec<bool>,
    /// The end of each unit's group, as far as it is known from the right.
    ends: Vec<usize>,
    /// Whether the unit before announces this one.
    announced: Vec<bool>,
    /// What announces, and what it announces.
    names: Vec<Name>,
    /// The first of the questions found, from the right.
    last_question: usize,
    chars: Vec<(usize, usize)>,
    paragraphs: Vec<usize>,
    check: &'page Check<'page>,
}

/// What a run of units announces.
struct Announced {
    /// The first unit of the run, which is one paragraph at most.
    start: usize,
    /// All of it ends here.
    end: usize,
    /// Whether it is an answer, which may be longer.
    is_answer: bool,
}

impl Groups<'_> {
    fn unit(&self, unit: usize) -> &str {
        self.spans[unit].of(self.text)
    }

    /// The white space before a unit that is not the first.
    fn gap(&self, unit: usize) -> &str {
        &self.text[self.spans[unit - 1].end..self.spans[unit].start]
    }

    fn fits(&self, run: Range<usize>) -> bool {
        self.chars[run.end - 1].1 - self.chars[run.start].0 <= MAX_GROUP_CHARS
    }

    /// Joins the parts of a table, block of code, item or record that fits, and those of a heading.
    fn join_leaves(&mut self) -> Result<()> {
        let mut checkpoints = Checkpoints::new(self.check);
        let mut start = 0;
        while start < self.spans.len() {
            checkpoints.reach(self.spans[start].start)?;
            let leaf = self.outline.node(self.outline.leaf(start)).units.clone();
            let header = self.outline.header_end(start);
            let fits = self.fits(leaf.clone());
            match self.outline.kind(start) {
                BlockKind::Prose | BlockKind::Caption | BlockKind::Source | BlockKind::Rule => {}
                BlockKind::Heading | BlockKind::Term => self.join(leaf.clone()),
                _ if fits => self.join(leaf.clone()),
                // The name of the speaker alone.
                BlockKind::Turn if turn_label(self.unit(start)) == Some(self.unit(start).len()) => {
                    self.join(leaf.start..leaf.end.min(leaf.start + 2));
                }
                BlockKind::Item | BlockKind::Turn | BlockKind::Captions => {}
                BlockKind::Record => {
                    let end = (leaf.start + 1..leaf.end).find(|end| !self.fits(leaf.start..*end + 1));
                    self.join(leaf.start..end.unwrap_or(leaf.end));
                }
                BlockKind::HeaderRow | BlockKind::Row => {
                    let first_row =
                        (header.max(leaf.start + 1)..leaf.end).find(|unit| !is_separator_row(self.unit(*unit)));
                    self.join(leaf.start..first_row.map_or(leaf.end, |unit| unit + 1));
                }
                BlockKind::Code => {
                    for part in
                        Code::new(self.text, self.spans).parts(&leaf, |part| self.fits(part.clone()), self.check)?
                    {
                        self.join(part);
                    }
                }
            }
            start = leaf.end;
        }
        Ok(())
    }

    /// Joins the lines of a short paragraph that are no sentences: an address, ingredients, a stanza.
    fn join_lines(&mut self) -> Result<()> {
        let mut checkpoints = Checkpoints::new(self.check);
        let mut start = 0;
        while start < self.spans.len() {
            checkpoints.reach(self.spans[start].start)?;
            let is_line = |unit: usize| {
                self.outline.kind(unit) == BlockKind::Prose
                    && !self.unit(unit).starts_with(is_symbol)
                    && (unit == start || self.paragraphs[unit] < unit && self.gap(unit).contains('\n'))
            };
            let goes_on = |end: &usize| is_line(*end) && (*end == start || is_open(self.unit(*end - 1)));
            let end = start + (start..self.spans.len()).take_while(goes_on).count();
            let is_whole = end == self.spans.len() || self.paragraphs[end] == end;
            if end - start >= MIN_LINES && is_whole && self.fits(start..end) {
                self.join(start..end);
            }
            start = end.max(start + 1);
        }
        Ok(())
    }

    fn join(&mut self, run: Range<usize>) {
        self.joins[run].iter_mut().skip(1).for_each(|joins| *joins = true);
    }

    /// The end of the group of the unit before `end`.
    fn group_end(&self, mut end: usize) -> usize {
        while end < self.joins.len() && self.joins[end] {
            end = self.ends[end];
        }
        end
    }

    /// Joins what announces to what it announces, the last one of the page first: what is announced may announce too.
    fn join_announced(&mut self) -> Result<()> {
        let mut checkpoints = Checkpoints::new(self.check);
        let length = self.text.len();
        let mut heading_chars = 0;
        for next in (0..self.spans.len()).rev() {
            checkpoints.reach(length - self.spans[next].start)?;
            self.ends[next] = self.group_end(next + 1);
            let Some(unit) = next.checked_sub(1) else { break };
            let is_heading = self.outline.kind(unit) == BlockKind::Heading;
            if self.outline.kind(next) != BlockKind::Heading {
                heading_chars = 0;
            }
            heading_chars += if is_heading { self.chars[next].0 - self.chars[unit].0 } else { 0 };
            if self.joins[next] {
                continue;
            }
            if is_heading {
                let is_menu = self.outline.kind(next) == BlockKind::Heading && heading_chars > MAX_HEADING_CHARS;
                if is_menu {
                    heading_chars = 0;
                } else if self.is_title_of_list(unit, next) || self.is_term(unit, next) {
                    let end = self.outline.outermost(next).units.end;
                    self.join_to(unit, next, &Announced { start: unit, end, is_answer: false });
                } else {
                    self.joins[next] = true;
                    self.announced[next] = true;
                }
            } else if self.continues(unit, next) {
                self.joins[next] = self.fits(unit..self.ends[next]);
            } else if let Some(announced) = self.announces(unit, next) {
                self.join_to(unit, next, &announced);
            }
        }
        Ok(())
    }

    fn join_to(&mut self, unit: usize, next: usize, announced: &Announced) {
        let end = if announced.is_answer { self.answer_end(next, announced.end) } else { announced.end };
        if announced.is_answer {
            self.last_question = announced.start;
        }
        self.names.push(Name { units: announced.start..next, scope: next..end });
        self.announced[next] = true;
        self.joins[next] = true;
        self.join(announced.start..next);
        if self.fits(unit..self.group_end(announced.end)) {
            let mut inside = next;
            while inside < announced.end {
                self.joins[inside] = true;
                inside = self.ends[inside];
            }
            self.ends[next] = self.group_end(announced.end);
            return;
        }
        let is_text = matches!(self.outline.kind(next), BlockKind::Prose | BlockKind::Item | BlockKind::Turn);
        let second = next + 1;
        if is_text && second < self.ends[next] && !self.announced[second] && !self.fits(unit..self.ends[next]) {
            self.joins[second] = false;
            self.ends[next] = second;
        }
    }

    /// Whether a title without marks stands right above a list: it may as well introduce it.
    fn is_title_of_list(&self, unit: usize, next: usize) -> bool {
        !has_blank_line(self.gap(next))
            && self.outline.has_items(next)
            && marked_level(self.unit(unit)) == 0
            && matches!(self.outline.outermost(next).kind, NodeKind::List(_))
    }

    /// Whether a heading is the term of the paragraph right below, which stands deeper: an option of a manual page.
    fn is_term(&self, unit: usize, next: usize) -> bool {
        let depth = |unit: usize| {
            let before = &self.text[..self.spans[unit].start];
            before.len() - before.trim_end_matches([' ', '\t']).len()
        };
        // `EXIT STATUS` names a section.
        let names_section = || self.unit(unit).chars().all(|c| c.is_uppercase() || c == ' ');
        !has_blank_line(self.gap(next))
            && self.outline.kind(next) == BlockKind::Prose
            && depth(next) > depth(unit)
            && !names_section()
    }

    /// The end of the answer that starts with this unit: the next question, if it is near and in the same section, or the
    /// end of the paragraph.
    fn answer_end(&self, next: usize, begun: usize) -> usize {
        let is_near = |unit: &usize| self.chars[*unit].1 - self.chars[next].0 <= MAX_ANSWER_CHARS;
        let is_part = |unit: &usize| {
            *unit < self.last_question && is_near(unit) && self.outline.kind(*unit) != BlockKind::Heading
        };
        let end = next + (next..self.spans.len()).take_while(is_part).count();
        let is_one_paragraph = |unit: &usize| *unit < end && self.paragraphs[*unit] <= next;
        let paragraph_end = next + (next..self.spans.len()).take_while(is_one_paragraph).count();
        let end = if end == self.last_question && end < self.spans.len() { end } else { paragraph_end };
        end.max(begun)
    }

    /// Whether a unit means little without the one before it: it is in parentheses, it continues a sentence after code,
    /// or it names the source of a quotation or the subject of the table above it.
    fn continues(&self, unit: usize, next: usize) -> bool {
        let (before, kind) = (self.outline.kind(unit), self.outline.kind(next));
        let text = self.unit(next);
        let is_new = has_blank_line(self.gap(next));
        let is_source = |unit: usize, next: usize| {
            let is_quotation = is_quotation(self.unit(unit)) || self.unit(next).starts_with('>');
            // The dash alone looks like the mark of an item.
            self.gap(next).contains('\n') && !self.outline.has_items(next) && is_source(self.unit(next), is_quotation)
        };
        match (before, kind) {
            (BlockKind::Prose, BlockKind::Prose | BlockKind::Item) if is_source(unit, next) => true,
            // The empty line of a quote.
            (BlockKind::Prose, BlockKind::Rule) => self.joins.get(next + 1) == Some(&true),
            (BlockKind::Rule, BlockKind::Prose | BlockKind::Item) => self.unit(unit) == ">" && is_source(unit, next),
            (BlockKind::Prose, BlockKind::Prose) if !is_new && is_attribution(text) => {
                self.gap(next).contains('\n') && is_quotation(self.unit(unit))
            }
            (BlockKind::Prose | BlockKind::Item, _) if kind == before && !is_new => {
                text.starts_with('(') && text.trim_end_matches(['.', '!', '?', '。']).ends_with(')')
            }
            (BlockKind::Code, BlockKind::Prose) => text.starts_with(char::is_lowercase),
            (BlockKind::Row, BlockKind::Caption) | (_, BlockKind::Source) => true,
            (BlockKind::Row, BlockKind::Prose) => is_caption(text) && self.kind_after(next) != Some(BlockKind::Row),
            _ => false,
        }
    }

    /// What the text up to this unit announces, if `next` is it or its start.
    fn announces(&self, unit: usize, next: usize) -> Option<Announced> {
        let (kind, next_kind) = (self.outline.kind(unit), self.outline.kind(next));
        if matches!(kind, BlockKind::Code | BlockKind::Row | BlockKind::HeaderRow | BlockKind::Record | BlockKind::Rule)
        {
            return None;
        }
        let parent = self.outline.node(self.outline.node(self.outline.leaf(unit)).parent);
        let whole = |end: usize| Some(Announced { start: unit, end, is_answer: false });
        if kind == BlockKind::Term {
            return if parent.units.end > next { whole(parent.units.end) } else { None };
        }
        if matches!(next_kind, BlockKind::Heading | BlockKind::Term | BlockKind::Rule) {
            return None;
        }
        let text = self.unit(unit);
        let is_new = has_blank_line(self.gap(next));
        // A sentence alone before two items or more.
        let is_lead_in = self.paragraphs[unit] == unit && self.outline.has_items(next);
        let target = self.outline.outermost(next);
        let is_inside = self.outline.leaf(unit) == self.outline.leaf(next);
        let leaf = self.outline.node(self.outline.leaf(unit)).units.clone();
        let labels = |unit: &str, next: &str| is_label(unit) && next.contains(char::is_lowercase);
        if is_inside && leaf.start == unit && (is_caption(text) || labels(text, self.unit(next))) {
            return whole(leaf.end);
        }
        let is_in_item = kind == BlockKind::Item && parent.units.end > next;
        match (next_kind, target.kind) {
            _ if is_inside => {}
            (BlockKind::Code, _) if kind != BlockKind::Item || is_in_item => {
                return whole(self.code_end(unit, target.units.end));
            }
            (BlockKind::Row, _) if kind == BlockKind::Caption || is_caption(text) || is_open(text) => {
                return whole(target.units.end);
            }
            (_, NodeKind::List(_)) if is_in_item => return whole(target.units.end),
            (_, NodeKind::List(_))
                if kind != BlockKind::Item
                    && (is_lead_in || self.is_lone_question(unit) || is_open(text) && !(is_new && is_field(text))) =>
            {
                return whole(target.units.end);
            }
            _ if self.question_start(unit, next).is_some() => {}
            // The next item of the same list.
            (BlockKind::Item, _) if kind == BlockKind::Item && !is_in_item && !self.differ(unit, next) => return None,
            _ => {}
        }
        let start = self.paragraphs[unit];
        let ends_paragraph = self.paragraphs[next] == next;
        let is_entry = ends_paragraph
            && is_numbered_title(span(self.spans, &(start..next)).of(self.text))
            && numbered(self.unit(next)).is_none();
        let is_question = self.is_lone_question(unit) && !self.is_question(next);
        let start = match self.question_start(unit, next) {
            Some(start) => start,
            None if is_entry => start,
            None if is_question => unit,
            None if introduces(text) => return whole(self.introduced_end(next)),
            None => return None,
        };
        let end = self.ends[next];
        // "No." alone is half of an answer.
        let is_short = self.is_question(unit)
            && end < self.spans.len()
            && span(self.spans, &(next..end)).len() < SHORTEST_ANSWER
            && !matches!(self.outline.kind(end), BlockKind::Heading | BlockKind::Rule)
            && !self.is_question(end);
        Some(Announced { start, end: if is_short { self.ends[end] } else { end }, is_answer: true })
    }

    /// The end of the parts of code that end with or after a unit, as long as they fit with the one that introduces them.
    fn code_end(&self, unit: usize, mut end: usize) -> usize {
        while end < self.spans.len() && self.outline.kind(end) == BlockKind::Code {
            let next = self.outline.node(self.outline.leaf(end)).units.end;
            if !self.fits(unit..next) {
                break;
            }
            end = next;
        }
        end
    }

    /// The end of what a colon introduces: a list, a block of code, one sentence, or lines without a blank one between
    /// them, as of a verse.
    fn introduced_end(&self, next: usize) -> usize {
        let target = self.outline.outermost(next);
        if !matches!(target.kind, NodeKind::Leaf(BlockKind::Prose)) {
            return target.units.end;
        }
        let is_line = |unit: usize| self.gap(unit).contains('\n') && self.paragraphs[unit] < unit;
        let mut end = self.ends[next];
        while end < self.spans.len() && is_line(end) && self.outline.kind(end) == BlockKind::Prose {
            if !self.fits(next..self.ends[end]) {
                return self.ends[next];
            }
            end = self.ends[end];
        }
        end
    }

    /// Whether the marks of two items are of different lists: `Q1.`, `A1.`
    fn differ(&self, unit: usize, next: usize) -> bool {
        let [one, other] = [unit, next].map(|unit| Mark::at_start(self.unit(unit)).map(|mark| mark.style));
        one != other && self.is_lone_question(unit)
    }

    /// Where the question starts that ends with `unit`, if its label and that of `next` say so: `Q:`, `A:`.
    fn question_start(&self, unit: usize, next: usize) -> Option<usize> {
        let asks = |unit: &usize| answers(self.unit(*unit), self.unit(next));
        (unit.saturating_sub(MAX_QUESTION)..=unit).rev().filter(|_| self.gap(next).contains('\n')).find(asks)
    }

    fn kind_after(&self, unit: usize) -> Option<BlockKind> {
        (unit + 1 < self.spans.len()).then(|| self.outline.kind(unit + 1))
    }

    /// Whether a unit is a question with a line of its own, or at the end of a turn.
    fn is_lone_question(&self, unit: usize) -> bool {
        let is_turn = self.outline.kind(unit) == BlockKind::Turn;
        if is_turn && self.outline.node(self.outline.leaf(unit)).units.end == unit + 1 {
            let turn = self.outline.node(self.outline.leaf(unit)).units.clone();
            let is_prompt = || {
                self.kind_after(unit) == Some(BlockKind::Turn)
                    && is_prompted(self.unit(turn.start), self.unit(unit + 1))
            };
            return turn.len() <= MAX_QUESTION && (turn.clone().any(|unit| self.is_question(unit)) || is_prompt());
        }
        let is_first = unit == 0 || self.gap(unit).contains('\n');
        let is_last = unit + 1 == self.spans.len() || self.gap(unit + 1).contains('\n');
        is_first && is_last && self.is_question(unit)
    }

    fn is_question(&self, unit: usize) -> bool {
        is_question(self.unit(unit))
    }

    /// Joins the parts of a sentence that headers, footers and page numbers interrupt, or the times of subtitles.
    fn join_interrupted(&mut self) -> Result<()> {
        let mut checkpoints = Checkpoints::new(self.check);
        let is_furniture = |unit: &usize| self.outline.kind(*unit) == BlockKind::Rule;
        let mut unit = 0;
        while unit < self.spans.len() {
            checkpoints.reach(self.spans[unit].start)?;
            let rest = unit + 1 + (unit + 1..self.spans.len()).take_while(is_furniture).count();
            let are = |kind| [unit, rest].iter().all(|end| self.outline.kind(*end) == kind);
            let goes_on = || is_open(self.unit(unit)) && self.unit(rest).starts_with(char::is_lowercase);
            // Of two people, the second one answers.
            let is_answered = || {
                let answer = self.unit(rest);
                self.is_question(unit) && (answer.starts_with(['-', '–']) || turn_label(answer).is_some())
            };
            let is_cut = (2..=MAX_INTERRUPTION + 1).contains(&(rest - unit))
                && rest < self.spans.len()
                && (are(BlockKind::Prose) && goes_on() || are(BlockKind::Captions) && is_answered());
            if is_cut && self.fits(unit..rest + 1) {
                self.joins[unit + 1..=rest].fill(true);
            }
            unit = rest;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
