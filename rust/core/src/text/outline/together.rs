//! Which units stay together in a passage.
//!
//! A node that only announces what follows is never the end of a passage: a heading, a question, the sentence that
//! introduces a list, table or code, a caption, a term, the parent of nested items. If both fit, all that is announced
//! stays with it; otherwise it is begun. Items, tables and code stay whole if they fit; longer ones are split: tables
//! and code by lines (code at blank lines, if there are any), items by sentences.

mod announcements;

use std::ops::Range;

use super::cards::cards;
use super::code::Code;
use super::environments::environments;
use super::interruptions::interrupted;
use super::pairs::pairs;
use super::replies::replies;
use super::series::series;
use super::signs::{is_signature, is_source, starts_quotation};
use super::view::View;
use super::{Name, Outline};
use crate::error::Result;
use crate::runtime::call::{Check, Checkpoints};
use crate::text::page::{BlockKind, ByteSpan};
use crate::text::pieces::marks::is_separator_row;
use crate::text::pieces::records::turn_label;

/// Characters of consecutive headings that stay with the text after them: a menu of headings is not one group.
const MAX_HEADING_CHARS: usize = 200;

/// Characters of an answer up to the next question.
const MAX_ANSWER_CHARS: usize = 1500;

/// Bytes of the first line of a record that names the others.
const LONGEST_NAME: usize = 200;

/// For each unit, whether it stays with the one before it; and the names of those that others announce.
pub(crate) fn joins(
    text: &str,
    spans: &[ByteSpan],
    outline: &Outline,
    has_markup: bool,
    check: &Check,
) -> Result<(Vec<bool>, Vec<Name>)> {
    let view = View::new(text, spans, outline, check)?;
    let mut groups = Groups {
        are_captions_below: view.are_captions_below(),
        view,
        joins: vec![false; spans.len()],
        ends: vec![0; spans.len()],
        announced: vec![false; spans.len()],
        names: Vec::new(),
        last_question: spans.len(),
        has_markup,
        check,
    };
    groups.join_leaves()?;
    let view = &groups.view;
    let cards = if has_markup { Vec::new() } else { cards(view, check)? };
    let pairs = pairs(view);
    let name = |pair: &Range<usize>| Name { units: pair.start..pair.start + 1, scope: pair.start + 1..pair.end };
    let names: Vec<Name> = pairs.iter().map(name).collect();
    for run in pairs.into_iter().chain(cards).chain(replies(view)).chain(environments(view)).chain(series(view)) {
        groups.join(run);
    }
    groups.names.extend(names);
    groups.join_announced()?;
    for sentence in interrupted(&groups.view, check)? {
        groups.join(sentence);
    }
    Ok((groups.joins, groups.names))
}

struct Groups<'page> {
    view: View<'page>,
    joins: Vec<bool>,
    /// The end of each unit's group, as far as it is known from the right.
    ends: Vec<usize>,
    /// Whether the unit before announces this one.
    announced: Vec<bool>,
    /// What announces, and what it announces.
    names: Vec<Name>,
    /// The first of the questions found, from the right.
    last_question: usize,
    has_markup: bool,
    /// Whether captions stand below tables.
    are_captions_below: bool,
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
    /// Joins the parts of a table, block of code, item or record that fits, and those of a heading.
    fn join_leaves(&mut self) -> Result<()> {
        let mut checkpoints = Checkpoints::new(self.check);
        let mut start = 0;
        while start < self.view.spans.len() {
            checkpoints.reach(self.view.spans[start].start)?;
            let leaf = self.view.leaf(start).units.clone();
            let header = self.view.outline.header_end(start);
            let fits = self.view.fits(leaf.clone()) && !self.view.is_looked_up(start);
            let code = Code::new(self.view.text, self.view.spans);
            match self.view.outline.kind(start) {
                BlockKind::Prose | BlockKind::Caption | BlockKind::Source | BlockKind::Rule => {}
                BlockKind::Heading | BlockKind::Term => self.join(leaf.clone()),
                BlockKind::Code if fits => match code.elements(&leaf) {
                    elements if elements.is_empty() => self.join(leaf.clone()),
                    elements => {
                        let is_inside = |element: &&Range<usize>| self.view.unit(element.start).starts_with(['-', '{']);
                        if elements[0].len() == 1
                            && let Some(last) = elements.iter().rfind(is_inside)
                        {
                            self.names.push(Name { units: elements[0].clone(), scope: elements[0].end..last.end });
                        }
                        for element in elements {
                            self.join(element);
                        }
                    }
                },
                _ if fits => self.join(leaf.clone()),
                // The name of the speaker alone.
                BlockKind::Turn if turn_label(self.view.unit(start)) == Some(self.view.unit(start).len()) => {
                    self.join(leaf.start..leaf.end.min(leaf.start + 2));
                }
                BlockKind::Item | BlockKind::Turn | BlockKind::Captions => {}
                BlockKind::Record => {
                    let end = (leaf.start + 1..leaf.end).find(|end| !self.view.fits(leaf.start..*end + 1));
                    let end = end.unwrap_or(leaf.end);
                    self.join(leaf.start..end);
                    // The first line names the others: a step, an error.
                    if self.view.gap(leaf.start + 1).contains('\n') && self.view.spans[leaf.start].len() <= LONGEST_NAME
                    {
                        self.names.push(Name { units: leaf.start..leaf.start + 1, scope: end..leaf.end });
                    }
                }
                BlockKind::Row if self.view.is_option(start) => {}
                BlockKind::HeaderRow | BlockKind::Row => {
                    let first_row =
                        (header.max(leaf.start + 1)..leaf.end).find(|unit| !is_separator_row(self.view.unit(*unit)));
                    self.join(leaf.start..first_row.map_or(leaf.end, |unit| unit + 1));
                    self.join_named_rows(header..leaf.end);
                }
                BlockKind::Code => {
                    for part in code.parts(&leaf, |part| self.view.fits(part.clone()), self.check)? {
                        self.join(part);
                    }
                }
            }
            start = leaf.end;
        }
        Ok(())
    }

    /// Joins the rows that name those below them to the first of these: `Drinks` above `Tea  $2`.
    fn join_named_rows(&mut self, rows: Range<usize>) {
        let is_spanned = |row: usize| row < rows.end && self.view.unit(row).starts_with('\t');
        // The first cell of a row may go on in those below it.
        for row in rows.clone().filter(|row| !is_spanned(*row) && is_spanned(row + 1)) {
            let end = (row + 1..rows.end).find(|row| !is_spanned(*row)).unwrap_or(rows.end);
            self.names.push(Name { units: row..row + 1, scope: row + 1..end });
        }
        let is_name = |row: &usize| {
            row + 1 < rows.end && self.view.cells(*row) == 1 && self.view.cells(row + 1) > 1 && !is_spanned(*row)
        };
        let names: Vec<usize> = rows.clone().filter(is_name).collect();
        let ends = names.iter().skip(1).copied().chain([rows.end]);
        for (name, end) in names.iter().zip(ends) {
            self.names.push(Name { units: *name..name + 1, scope: name + 1..end });
            self.joins[name + 1] = true;
        }
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
        let length = self.view.text.len();
        let mut heading_chars = 0;
        for next in (0..self.view.spans.len()).rev() {
            checkpoints.reach(length - self.view.spans[next].start)?;
            self.ends[next] = self.group_end(next + 1);
            let Some(unit) = next.checked_sub(1) else { break };
            let is_heading = self.view.ends_heading(unit);
            if self.view.outline.kind(next) != BlockKind::Heading {
                heading_chars = 0;
            }
            heading_chars += if is_heading { self.view.chars[next].0 - self.view.chars[unit].0 } else { 0 };
            if self.joins[next] {
                continue;
            }
            if is_heading {
                let is_menu = self.view.outline.kind(next) == BlockKind::Heading && heading_chars > MAX_HEADING_CHARS;
                if is_menu {
                    heading_chars = 0;
                } else if self.view.is_title_of_list(unit, next) || self.view.is_term(unit, next) {
                    let end = self.view.list_end(self.view.outline.outermost(next));
                    self.join_to(unit, next, &Announced { start: unit, end, is_answer: false });
                } else {
                    self.joins[next] = true;
                    self.announced[next] = true;
                }
            } else if self.continues(unit, next) {
                self.joins[next] = self.view.fits(unit..self.ends[next]);
                let quotation = self.view.paragraphs[unit];
                let begins = self.view.unit(quotation);
                let is_quoted = begins.starts_with('>')
                    || starts_quotation(begins)
                    || is_signature(self.view.unit(next))
                    || self.view.outline.kind(next) == BlockKind::Source
                    || is_source(self.view.unit(next), true);
                if self.joins[next] && is_quoted && self.view.fits(quotation..next) {
                    self.join(quotation..next);
                }
                // A caption is about all of its table.
                let table = self.view.leaf(unit).units.start;
                if self.view.outline.kind(unit) == BlockKind::Row && self.view.fits(table..next + 1) {
                    self.join(table..next);
                }
            } else if let Some(announced) = self.announces(unit, next) {
                self.join_to(unit, next, &announced);
            } else if let Some(title) = self.title(unit, next) {
                self.join(title.units.start..next + 1);
                self.names.push(title);
                self.announced[next] = true;
            }
        }
        Ok(())
    }

    /// The title of the page or of a thread that ends before `next`.
    fn title(&self, unit: usize, next: usize) -> Option<Name> {
        if !self.has_markup && self.view.is_page_title(unit, next) {
            return Some(Name { units: 0..next, scope: next..self.joins.len() });
        }
        self.view.thread_end(unit, next).map(|end| Name { units: unit..next, scope: next..end })
    }

    fn join_to(&mut self, unit: usize, next: usize, announced: &Announced) {
        let end = if announced.is_answer { self.answer_end(next, announced.end) } else { announced.end };
        if announced.is_answer {
            self.last_question = announced.start;
        }
        let is_turn = self.view.outline.kind(next) == BlockKind::Turn;
        // In a chat, the turn after the answer is about something else.
        let scope = next..if is_turn { self.view.leaf(next).units.end.max(announced.end) } else { end };
        self.names.push(Name { units: announced.start..next, scope });
        self.announced[next] = true;
        self.joins[next] = true;
        self.join(announced.start..next);
        // All of an answer, if it fits.
        let most = if is_turn { announced.end } else { end };
        let is_whole = |end: &usize| {
            let end = self.group_end(*end);
            self.view.fits(unit..end) || self.view.is_one_sentence(unit, next..end)
        };
        let are_options = self.view.is_option(next) && self.view.is_looked_up(next);
        let whole = [most, announced.end].into_iter().find(is_whole).filter(|_| !are_options);
        if let Some(end) = whole {
            let mut inside = next;
            while inside < end {
                self.joins[inside] = true;
                inside = self.ends[inside];
            }
            self.ends[next] = self.group_end(end);
            return;
        }
        let is_text = matches!(self.view.outline.kind(next), BlockKind::Prose | BlockKind::Item | BlockKind::Turn);
        let second = next + 1;
        if is_text && second < self.ends[next] && !self.announced[second] && !self.view.fits(unit..self.ends[next]) {
            self.joins[second] = false;
            self.ends[next] = second;
        }
    }

    /// The end of the answer that starts with this unit: the next question, if it is near and in the same section, or the
    /// end of the paragraph.
    fn answer_end(&self, next: usize, begun: usize) -> usize {
        let is_near = |unit: &usize| self.view.chars[*unit].1 - self.view.chars[next].0 <= MAX_ANSWER_CHARS;
        let is_part = |unit: &usize| {
            *unit < self.last_question && is_near(unit) && self.view.outline.kind(*unit) != BlockKind::Heading
        };
        let end = next + (next..self.view.spans.len()).take_while(is_part).count();
        let is_one_paragraph = |unit: &usize| *unit < end && self.view.paragraphs[*unit] <= next;
        let paragraph_end = next + (next..self.view.spans.len()).take_while(is_one_paragraph).count();
        let end = if end == self.last_question && end < self.view.spans.len() { end } else { paragraph_end };
        end.max(begun)
    }
}

#[cfg(test)]
mod tests;
