//! Which units stay together in a passage.
//!
//! A node that only announces what follows is never the end of a passage: a heading, a question, the sentence that
//! introduces a list, table or code, a caption, a term, the parent of nested items. If both fit, all that is announced
//! stays with it; otherwise it is begun. Items, tables and code stay whole if they fit; longer ones are split: tables
//! and code by lines (code at blank lines, if there are any), items by sentences.

use std::ops::Range;

use super::{Name, NodeKind, Outline, has_blank_line, span};
use crate::error::Result;
use crate::runtime::call::{Check, Checkpoints};
use crate::text::page::{BlockKind, ByteSpan, marked_level};
use crate::text::pieces::list_marks::Mark;
use crate::text::pieces::marks::{is_closing, is_emphasis, is_separator_row, is_terminal};
use crate::text::pieces::table_captions::is_caption;

/// Characters that stay together: about two passages of three sentences.
const MAX_GROUP_CHARS: usize = 600;

/// Characters of consecutive headings that stay with the text after them: a menu of headings is not one group.
const MAX_HEADING_CHARS: usize = 200;

/// Bytes of an answer that stands alone.
const SHORTEST_ANSWER: usize = 25;

/// Bytes of the line that names the source of a quotation.
const LONGEST_SOURCE: usize = 100;

/// Words before a question and before its answer.
const QUESTION_LABELS: [(&str, &str); 13] = [
    ("Q", "A"),
    ("Question", "Answer"),
    ("QUESTION", "ANSWER"),
    ("F", "A"),
    ("Frage", "Antwort"),
    ("Q", "R"),
    ("Question", "Réponse"),
    ("P", "R"),
    ("Pregunta", "Respuesta"),
    ("D", "R"),
    ("Domanda", "Risposta"),
    ("В", "О"),
    ("问", "答"),
];

/// Sentences of a question with a label, less one.
const MAX_QUESTION: usize = 5;

/// Characters of an answer up to the next question.
const MAX_ANSWER_CHARS: usize = 1500;

/// Units of headers, footers and times that may interrupt a sentence.
const MAX_INTERRUPTION: usize = 6;

/// For each unit, whether it stays with the one before it; and the names of those that others announce.
pub(crate) fn joins(
    text: &str,
    spans: &[ByteSpan],
    outline: &Outline,
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
                BlockKind::Code => self.join_code(&leaf)?,
            }
            start = leaf.end;
        }
        Ok(())
    }

    /// Joins the parts of code: what a blank line or a line of the outermost depth begins, the largest that fit. Fences
    /// stay with the first and the last line.
    fn join_code(&mut self, leaf: &Range<usize>) -> Result<()> {
        self.join(leaf.start..leaf.end.min(leaf.start + 2));
        self.join(leaf.start.max(leaf.end.saturating_sub(2))..leaf.end);
        let depths: Vec<usize> = leaf.clone().map(|unit| self.code_depth(unit)).collect();
        let mut open = vec![leaf.clone()];
        let mut checkpoints = Checkpoints::new(self.check);
        let mut read = 0;
        while let Some(part) = open.pop() {
            if part.len() < 2 || self.fits(part.clone()) {
                self.join(part);
                continue;
            }
            read += self.spans[part.end - 1].end - self.spans[part.start].start;
            checkpoints.reach(read)?;
            let starts = self.code_parts(&part, &depths[part.start - leaf.start..part.end - leaf.start]);
            let ends = starts.iter().copied().chain([part.end]);
            let parts = [part.start].into_iter().chain(starts.iter().copied()).zip(ends).map(|(start, end)| start..end);
            // A part that nothing divides is lines.
            open.extend(parts.filter(|_| !starts.is_empty()));
        }
        Ok(())
    }

    /// The starts of the parts of code after the first one.
    fn code_parts(&self, part: &Range<usize>, depths: &[usize]) -> Vec<usize> {
        // In C, the brace of a function has its own line.
        let is_body = |unit: usize| {
            self.unit(unit) == "{" && self.unit(unit - 1).ends_with(|c: char| c == ')' || c.is_alphanumeric())
        };
        let is_closing = |unit: usize| self.unit(unit).starts_with(['}', ')', ']', '`', '~']) || is_body(unit);
        let inner = || part.clone().skip(1).zip(&depths[1..]);
        let Some(outermost) = inner().filter(|(unit, _)| !is_closing(*unit)).map(|(_, depth)| *depth).min() else {
            return Vec::new();
        };
        let begins = |unit: usize| !is_closing(unit) && !is_comment(self.unit(unit - 1));
        let outer = || inner().filter(|(unit, depth)| **depth == outermost && begins(*unit)).map(|(unit, _)| unit);
        let after_blank: Vec<usize> = outer().filter(|unit| has_blank_line(self.gap(*unit))).collect();
        let is_one_level = depths[0] >= outermost;
        match after_blank {
            starts if !starts.is_empty() => starts,
            // The first line of a function and its first statement stay together.
            _ => outer().skip(usize::from(!is_one_level)).collect(),
        }
    }

    /// How deep a line of code stands: its column after the first, and 0 for the name of a section.
    fn code_depth(&self, unit: usize) -> usize {
        let text = self.unit(unit);
        let before = &self.text[..self.spans[unit].start];
        let column = before.len() - before.trim_end_matches([' ', '\t']).len();
        let is_section = text.starts_with('[')
            && text.ends_with(']')
            && text[1..].starts_with(|c: char| c.is_alphabetic() || c == '[');
        if is_section { 0 } else { column + 1 }
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
                } else if self.is_title_of_list(unit, next) {
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
        // A sentence alone before two items or more.
        let is_lead_in = self.paragraphs[unit] == unit && self.outline.has_items(next);
        let target = self.outline.outermost(next);
        let is_inside = self.outline.leaf(unit) == self.outline.leaf(next);
        let is_in_item = kind == BlockKind::Item && parent.units.end > next;
        match (next_kind, target.kind) {
            _ if is_inside => {}
            (BlockKind::Code, _) if kind != BlockKind::Item || is_in_item => return whole(target.units.end),
            (BlockKind::Row, _) if kind == BlockKind::Caption || is_caption(text) || is_open(text) => {
                return whole(target.units.end);
            }
            (_, NodeKind::List(_)) if is_in_item => return whole(target.units.end),
            (_, NodeKind::List(_))
                if kind != BlockKind::Item && (is_lead_in || is_open(text) || self.is_lone_question(unit)) =>
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
        let answer = label(self.unit(next)).filter(|_| self.gap(next).contains('\n'))?;
        let asks = |unit: &usize| {
            label(self.unit(*unit)).is_some_and(|question| QUESTION_LABELS.contains(&(question, answer)))
        };
        (unit.saturating_sub(MAX_QUESTION)..=unit).rev().find(asks)
    }

    fn kind_after(&self, unit: usize) -> Option<BlockKind> {
        (unit + 1 < self.spans.len()).then(|| self.outline.kind(unit + 1))
    }

    /// Whether a unit is a question with a line of its own, or at the end of a turn.
    fn is_lone_question(&self, unit: usize) -> bool {
        let is_turn = self.outline.kind(unit) == BlockKind::Turn;
        if is_turn && self.outline.node(self.outline.leaf(unit)).units.end == unit + 1 {
            return self.is_question(unit);
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
            let is_answered = || self.is_question(unit) && self.unit(rest).starts_with(['-', '–']);
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

/// Whether a unit means little without what follows: it ends with a colon, or it is bold as a title is.
fn introduces(unit: &str) -> bool {
    let bold = unit.strip_prefix("**").and_then(|unit| unit.strip_suffix("**"));
    let is_title = bold.is_some_and(|title| !title.contains("**"));
    without_closing(unit).ends_with([':', '：']) || is_title
}

/// Whether this ends with a closing quotation mark.
fn is_quotation(unit: &str) -> bool {
    unit.ends_with(['"', '”', '“', '»', '’', '」', '›'])
}

/// Whether a line names the source of the quotation above it: `— Ann Lee`. Other dashes do that only after what is known
/// to be a quotation.
fn is_source(line: &str, is_quotation: bool) -> bool {
    let line = line.trim_start_matches(['>', ' ']);
    let name = line.strip_prefix(['—', '―']).or_else(|| {
        let rest = line.trim_start_matches(['-', '–', '~']);
        (is_quotation && rest.len() < line.len()).then_some(rest)
    });
    let begins = |name: &str| name.trim_start().trim_start_matches(is_emphasis).starts_with(char::is_uppercase);
    line.len() <= LONGEST_SOURCE && name.is_some_and(begins)
}

/// Whether a line without a dash may name the source of a quotation: `Ann Lee, director`.
fn is_attribution(line: &str) -> bool {
    line.len() <= LONGEST_SOURCE
        && line.starts_with(char::is_uppercase)
        && is_open(line)
        && !line.ends_with([':', ';', ','])
}

/// The word or letter before a colon, full stop or number at the start of a question or an answer, without emphasis.
fn label(unit: &str) -> Option<&str> {
    let text = unit.trim_start_matches(|c: char| is_emphasis(c) || matches!(c, '>' | ' ' | '-' | '•'));
    let end = text.find(|c: char| !c.is_alphabetic())?;
    let rest = text[end..].trim_start_matches(|c: char| c.is_ascii_digit() || is_emphasis(c) || c == ' ');
    (end > 0 && rest.starts_with(['.', ':', ')', '：'])).then_some(&text[..end])
}

/// Whether this line of code is a comment or a decorator, which belongs to the line below.
fn is_comment(line: &str) -> bool {
    ["//", "/*", "* ", "*/", "#", "-- ", ";", "@"].iter().any(|mark| line.starts_with(mark))
}

/// Whether no mark ends a sentence here.
fn is_open(unit: &str) -> bool {
    !without_closing(unit).ends_with(is_terminal)
}

fn is_question(text: &str) -> bool {
    without_closing(text).ends_with(['?', '？', '؟'])
}

/// Without closing quotes, brackets, emphasis, and the end tags that Markdown may have.
fn without_closing(text: &str) -> &str {
    let mut text = text;
    loop {
        text = text.trim_end_matches(|c| is_closing(c) || is_emphasis(c));
        let Some((before, name)) = text.strip_suffix('>').and_then(|tag| tag.rsplit_once("</")) else { return text };
        if !name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return text;
        }
        text = before.trim_end();
    }
}

/// What follows the number at the start of a paragraph: `12. `, `(12) `.
fn numbered(text: &str) -> Option<&str> {
    let number = text.strip_prefix('(').unwrap_or(text);
    let rest = number.trim_start_matches(|c: char| c.is_ascii_digit());
    let rest = rest.strip_prefix(['.', ')']).filter(|_| rest.len() < number.len())?;
    rest.starts_with(' ').then(|| rest.trim_start())
}

/// Whether this is a short paragraph with a number, as questions of a list of questions have.
fn is_numbered_title(paragraph: &str) -> bool {
    paragraph.len() <= MAX_HEADING_CHARS && numbered(paragraph).is_some_and(|title| !title.is_empty())
}

#[cfg(test)]
mod tests {
    use crate::text::pieces::Units;

    fn groups(text: &str) -> Vec<&str> {
        let units = Units::sentences(text, None, &[], &crate::runtime::call::unstopped).unwrap();
        units.groups.iter().map(|group| units.span(group).of(text)).collect()
    }

    #[test]
    fn headings_items_tables_and_code_stay_together() {
        let cases: [(&str, &[&str]); 8] = [
            ("# One\n\nFirst. Second.", &["# One\n\nFirst.", "Second."]),
            ("# One\n## Two\nFirst. Second.", &["# One\n## Two\nFirst.", "Second."]),
            ("Intro.\n- A thing. And more.\n- Another.", &["Intro.\n- A thing. And more.\n- Another."]),
            ("| a | b |\n|---|---|\n| 1 | 2 |\n\nText.", &["| a | b |\n|---|---|\n| 1 | 2 |", "Text."]),
            ("Run:\n\n```\nls\n\nps\n```\n\nDone.", &["Run:\n\n```\nls\n\nps\n```", "Done."]),
            (
                "It runs. It locks nothing. (But ALTER does.) More.",
                &["It runs.", "It locks nothing. (But ALTER does.)", "More."],
            ),
            (
                "To build, run\n\n```\nmake\n```\n\nfrom here. Done.",
                &["To build, run\n\n```\nmake\n```\n\nfrom here.", "Done."],
            ),
            ("EXIT STATUS\n   It is 0. Errors are 1.\n", &["EXIT STATUS\n   It is 0.", "Errors are 1."]),
        ];
        for (text, expected) in cases {
            assert_eq!(groups(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_line_with_a_colon_groups_with_the_text_after_it() {
        let cases: [(&str, &[&str]); 10] = [
            ("We need:\n- Apples\n- Pears\n\nDone.", &["We need:\n- Apples\n- Pears", "Done."]),
            (
                "Nothing here. It appears::\n\nMy name is one\nTwo is my name\n\nDone.",
                &["Nothing here.", "It appears::\n\nMy name is one\nTwo is my name", "Done."],
            ),
            ("Note:", &["Note:"]),
            (
                "**Which potatoes.** Old ones. New ones are wet.",
                &["**Which potatoes.** Old ones.", "New ones are wet."],
            ),
            ("7. Is it free?\n\nYes, it is. More. And more.", &["7. Is it free?\n\nYes, it is. More.", "And more."]),
            ("Who knows? Nobody does.", &["Who knows?", "Nobody does."]),
            (
                "Text.\n\n(12) It got no smaller. Is this a bug?\n\nNo, this is how it works. More.",
                &["Text.", "(12) It got no smaller. Is this a bug?\n\nNo, this is how it works.", "More."],
            ),
            ("8. It is slow\n\nIndexes make it fast. More.", &["8. It is slow\n\nIndexes make it fast.", "More."]),
            ("1. One thing.\n\n2. Another.", &["1. One thing.", "2. Another."]),
            ("One: two.\n\nThree.", &["One: two.", "Three."]),
        ];
        for (text, expected) in cases {
            assert_eq!(groups(text), expected, "{text:?}");
        }
        let list = format!("We need:\n{}", "- One thing of about fifty characters for this list.\n".repeat(30));
        assert_eq!(groups(&list).len(), 30, "the first item comes along");
    }

    #[test]
    fn what_announces_is_never_the_end() {
        let cases: [(&str, &[&str]); 9] = [
            (
                "Is it dry?\nYes, in most of the cases seen. More.\n\nIs it old?\nNo, it is not.",
                &["Is it dry?\nYes, in most of the cases seen.", "More.", "Is it old?\nNo, it is not."],
            ),
            (
                "Q: Is it dry?\nA: Yes, it is.\nQ: Is it old?\nA: No, never.",
                &["Q: Is it dry?\nA: Yes, it is.", "Q: Is it old?\nA: No, never."],
            ),
            ("Is it dry?\nIs it old?\n\nText.", &["Is it dry?", "Is it old?\n\nText."]),
            (
                "- One plan\n  - Price: 2\n  - Users: 3\n- Two plan\n  - Price: 4",
                &["- One plan\n  - Price: 2\n  - Users: 3", "- Two plan\n  - Price: 4"],
            ),
            (
                "You may leave if\n\n- you are done\n- it is late\n\nText.",
                &["You may leave if\n\n- you are done\n- it is late", "Text."],
            ),
            (
                "Text. Use this command.\n\n```\nls\n```\n\nMore.",
                &["Text.", "Use this command.\n\n```\nls\n```", "More."],
            ),
            (
                "Table 1: Prices.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nText.",
                &["Table 1: Prices.\n\n| a | b |\n|---|---|\n| 1 | 2 |", "Text."],
            ),
            ("All is well. It ends.\n— Ann Lee\n\nText.", &["All is well.", "It ends.\n— Ann Lee", "Text."]),
            (
                "The cost of it was\n\n7\n\nfive million. Then more.",
                &["The cost of it was\n\n7\n\nfive million.", "Then more."],
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(groups(text), expected, "{text:?}");
        }
    }

    #[test]
    fn terms_stay_with_their_definitions() {
        use crate::text::formats::{Document, Format};
        let source = "<dl><dt>One<dt>Uno<dd><p>First. More.<p>Again.<dd>Other.<dt>Two<dd>Second.</dl><p>Text.";
        let page = Document::read(source, Format::Html, &crate::runtime::call::unstopped).unwrap();
        let units = Units::sentences(page.text(), page.blocks(), &[], &crate::runtime::call::unstopped).unwrap();
        let groups: Vec<&str> = units.groups.iter().map(|group| units.span(group).of(page.text())).collect();
        assert_eq!(groups, ["One\nUno\n\nFirst. More.\n\nAgain.\n\nOther.", "Two\nSecond.", "Text."]);
    }

    #[test]
    fn long_tables_code_and_items_are_split() {
        let rows = "| 12345 | 67890 |\n".repeat(60);
        let table = format!("| a | b |\n|---|---|\n{rows}");
        let parts = groups(&table);
        assert_eq!((parts[0], parts.len()), ("| a | b |\n|---|---|\n| 12345 | 67890 |", 60));
        let part = "let total = one + two;\n".repeat(10);
        let code = format!("```\n{part}\n{part}\n{part}\n{part}```");
        let parts = groups(&code);
        assert_eq!(parts.len(), 4);
        assert!(parts[0].starts_with("```\nlet") && parts[3].ends_with("two;\n```"), "{parts:?}");
        let item = format!("- {}", "This is one more sentence of it. ".repeat(30));
        assert_eq!(groups(&item).len(), 30);
        assert_eq!(groups(&format!("```\n{}\n```", "x".repeat(5000))).len(), 5);
        assert!(groups(&"# A menu entry\n".repeat(1000)).len() > 50);
    }
}
