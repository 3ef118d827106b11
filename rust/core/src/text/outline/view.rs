//! The units of a page as the rules of [`super::together`] read them: their words, what stands between them, and where they
//! stand in the outline.

mod lists;

use std::ops::Range;

use super::code::is_comment;
use super::signs::{answers, introduces, is_answer, is_name, is_open, is_question, is_quotation, starts_quotation};
use super::{MIN_NAMED_ROWS, Node, Outline, has_blank_line};
use crate::error::Result;
use crate::runtime::call::{Check, Checkpoints};
use crate::text::page::{BlockKind, ByteSpan, marked_level};
use crate::text::pieces::list_marks::Mark;
use crate::text::pieces::records::{is_person, is_prompted, turn_label};
use crate::text::pieces::table_captions::is_caption;

/// Words and bytes of a reply that means nothing without what it replies to.
const MAX_REPLY_WORDS: usize = 2;
const LONGEST_REPLY: usize = 24;

/// Characters that stay together: about two passages of three sentences.
const MAX_GROUP_CHARS: usize = 600;

/// Sentences of a question with a label, less one.
const MAX_QUESTION: usize = 5;

/// Sentences before the question of its line, of the answer above it, and characters of that line.
const MAX_BEFORE_QUESTION: usize = 2;
const MAX_ANSWER: usize = 8;
const MAX_QUESTION_CHARS: usize = 160;

/// Tags between a heading and what it announces: without a bound, each unit of a page of tags looks at all above it.
const MAX_TAGS: usize = 8;

/// Bytes of the head of a page, or of a line of its title.
pub(super) const LONGEST_HEAD: usize = 80;

/// Bytes of the title of a thread.
const LONGEST_THREAD: usize = 200;

/// Lines of the title of a page.
const MAX_TITLE_LINES: usize = 3;

/// Entries of a menu above a page, and words of each.
const MIN_MENU: usize = 3;
const MAX_MENU_WORDS: usize = 3;

pub(super) struct View<'page> {
    pub(super) text: &'page str,
    pub(super) spans: &'page [ByteSpan],
    pub(super) outline: &'page Outline,
    /// For each unit the characters before its start and before its end.
    pub(super) chars: Vec<(usize, usize)>,
    /// For each unit the first one of its paragraph: of units without a blank line between them.
    pub(super) paragraphs: Vec<usize>,
}

impl<'page> View<'page> {
    pub(super) fn new(
        text: &'page str,
        spans: &'page [ByteSpan],
        outline: &'page Outline,
        check: &Check,
    ) -> Result<Self> {
        let chars = characters(text, spans, check)?;
        Ok(Self { text, spans, outline, chars, paragraphs: paragraphs(text, spans) })
    }

    /// Whether captions stand below tables: more of them have a table above them than below.
    pub(super) fn are_captions_below(&self) -> bool {
        let captions = || (0..self.spans.len()).filter(|unit| self.is_caption(*unit));
        let below = captions().filter(|unit| *unit > 0 && self.is_row(unit - 1)).count();
        below > captions().filter(|unit| self.is_row(unit + 1)).count()
    }

    /// Whether a unit is part of a table; false after the last unit.
    pub(super) fn is_row(&self, unit: usize) -> bool {
        unit < self.spans.len() && matches!(self.outline.kind(unit), BlockKind::Row | BlockKind::HeaderRow)
    }

    /// Whether a unit is the caption of a table.
    pub(super) fn is_caption(&self, unit: usize) -> bool {
        match self.outline.kind(unit) {
            BlockKind::Caption => true,
            BlockKind::Prose => is_caption(self.unit(unit)),
            _ => false,
        }
    }

    pub(super) fn unit(&self, unit: usize) -> &'page str {
        self.spans[unit].of(self.text)
    }

    pub(super) fn leaf(&self, unit: usize) -> &'page Node {
        self.outline.node(self.outline.leaf(unit))
    }

    /// The white space before a unit that is not the first.
    pub(super) fn gap(&self, unit: usize) -> &'page str {
        &self.text[self.spans[unit - 1].end..self.spans[unit].start]
    }

    pub(super) fn fits(&self, run: Range<usize>) -> bool {
        self.chars[run.end - 1].1 - self.chars[run.start].0 <= MAX_GROUP_CHARS
    }

    /// The units of each paragraph.
    pub(super) fn paragraph_runs(&self) -> impl Iterator<Item = Range<usize>> {
        self.paragraphs.chunk_by(PartialEq::eq).map(|units| units[0]..units[0] + units.len())
    }

    /// Whether the first paragraph ends here, and is nothing but lines that are no sentences: what the page is called.
    pub(super) fn is_page_title(&self, unit: usize, next: usize) -> bool {
        let is_line = |unit: usize| self.is_short_line(unit) && !starts_quotation(self.unit(unit));
        let is_all = self.paragraphs[next] == next || self.outline.kind(next) == BlockKind::Heading;
        // The first of several cards, or what a colon introduces.
        let is_card = || {
            let is_part = |line: &usize| self.paragraphs[*line] == next && is_line(*line);
            next > 1 && (next..self.spans.len()).take(MAX_TITLE_LINES).take_while(is_part).count() > 1
        };
        let is_number = |c: char| c.is_ascii_digit() || c.is_whitespace();
        unit < MAX_TITLE_LINES
            && self.paragraphs[unit] == 0
            && is_all
            && (0..next).all(|line| is_line(line) && !introduces(self.unit(line)))
            && !self.unit(0).starts_with(['<', '!', '[', '_'])
            && !self.unit(0).trim_matches('*').chars().all(is_number)
            && !(1..next).any(|line| is_street(self.unit(line)))
            && (self.outline.kind(next) != BlockKind::Heading || marked_level(self.unit(next)) == 0)
            && !is_card()
            && !self.begins_menu()
    }

    /// Whether the page begins with lines of a menu, each of which is a paragraph.
    fn begins_menu(&self) -> bool {
        let is_entry = |unit: usize| {
            self.paragraphs[unit] == unit
                && self.is_short_line(unit)
                && self.unit(unit).split(' ').count() <= MAX_MENU_WORDS
                && has_blank_line(self.gap(unit + 1))
        };
        self.spans.len() > MIN_MENU && (0..MIN_MENU).all(is_entry)
    }

    /// The end of the conversation that starts with a unit, if the one before it is its title: a paragraph in one line that is no
    /// sentence, or a question.
    pub(super) fn thread_end(&self, unit: usize, next: usize) -> Option<usize> {
        let is_said = |unit: &usize| matches!(self.outline.kind(*unit), BlockKind::Turn | BlockKind::Rule);
        let is_title =
            |text: &str| text.len() <= LONGEST_THREAD && !text.contains('\n') && (is_open(text) || is_question(text));
        (self.outline.kind(next) == BlockKind::Turn
            && self.outline.kind(unit) == BlockKind::Prose
            && self.paragraphs[unit] == unit
            && self.paragraphs[next] == next
            && is_title(self.unit(unit)))
        .then(|| next + (next..self.spans.len()).take_while(is_said).count())
    }

    /// Whether a unit is short prose that no mark ends.
    pub(super) fn is_short_line(&self, unit: usize) -> bool {
        self.outline.kind(unit) == BlockKind::Prose
            && self.spans[unit].len() <= LONGEST_HEAD
            && is_open(self.unit(unit))
    }

    /// Whether a heading is the term of the paragraph right below, which stands deeper: an option of a manual page.
    pub(super) fn is_term(&self, unit: usize, next: usize) -> bool {
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

    /// The end of the parts of code that end with or after a unit, as long as they fit with the one that introduces them.
    pub(super) fn code_end(&self, unit: usize, mut end: usize) -> usize {
        while end < self.spans.len() && self.outline.kind(end) == BlockKind::Code {
            let next = self.leaf(end).units.end;
            // A comment names a part of its own.
            if !self.fits(unit..next) || is_comment(self.unit(end)) {
                break;
            }
            end = next;
        }
        end
    }

    /// Whether two items are no items of one list: `Q1.`, `A1.`, or what two people say after dashes.
    pub(super) fn differ(&self, unit: usize, next: usize) -> bool {
        let [one, other] = [unit, next].map(|unit| Mark::at_start(self.unit(unit)).map(|mark| mark.style));
        let are_said = || self.unit(next).starts_with(['-', '–', '—']) && !self.is_question(next);
        (one != other || are_said()) && self.is_lone_question(unit)
    }

    /// Whether a unit begins a table of which people want one row.
    pub(super) fn is_looked_up(&self, unit: usize) -> bool {
        let (rows, header) = (&self.leaf(unit).units, self.outline.header_end(unit));
        self.is_row(unit) && (header > rows.start || self.is_option(unit)) && rows.end - header >= MIN_NAMED_ROWS
    }

    /// The cells of a row that have text.
    pub(super) fn cells(&self, row: usize) -> usize {
        self.unit(row).split(['\t', '|']).filter(|cell| cell.contains(char::is_alphanumeric)).count()
    }

    /// Whether a row explains an option of a program: `-k, --keep   keep the original files`.
    pub(super) fn is_option(&self, unit: usize) -> bool {
        let mut words = self.unit(unit).split_whitespace();
        let name = words.next().map(|word| word.trim_start_matches('-'));
        self.unit(unit).starts_with('-') && name.is_some_and(|name| name.starts_with(char::is_alphanumeric))
    }

    /// Where the question starts that ends with `unit`, if its label and that of `next` say so: `Q:`, `A:`.
    pub(super) fn question_start(&self, unit: usize, next: usize) -> Option<usize> {
        let asks = |unit: &usize| answers(self.unit(*unit), self.unit(next));
        let is_answer = self.gap(next).contains('\n') && is_answer(self.unit(next));
        (unit.saturating_sub(MAX_QUESTION)..=unit).rev().filter(|_| is_answer).find(asks)
    }

    /// The speaker of the turn that begins with a unit: the words of its label without numbers.
    pub(super) fn speaker(&self, unit: usize) -> Option<Vec<&str>> {
        let is_first = self.outline.kind(unit) == BlockKind::Turn && self.leaf(unit).units.start == unit;
        let label = turn_label(self.unit(unit)).filter(|_| is_first)?;
        let words = self.unit(unit)[..label].split(|c: char| !c.is_alphanumeric());
        let is_name = |word: &&str| !word.is_empty() && !word.contains(char::is_numeric);
        Some(words.filter(is_name).collect()).filter(|words: &Vec<&str>| !words.is_empty())
    }

    /// Whether a turn says so little that it means nothing without the one before: `Ann: Yes.`
    pub(super) fn is_short_reply(&self, unit: usize) -> bool {
        let is_all = self.leaf(unit).units == (unit..unit + 1) && !self.unit(unit).contains(['?', '？', '>']);
        let said = turn_label(self.unit(unit)).map(|label| &self.unit(unit)[label..]).filter(|_| is_all);
        said.is_some_and(|said| {
            let words = said.split_whitespace().filter(|word| word.contains(char::is_alphanumeric));
            said.len() <= LONGEST_REPLY && words.count() <= MAX_REPLY_WORDS
        })
    }

    pub(super) fn kind_after(&self, unit: usize) -> Option<BlockKind> {
        (unit + 1 < self.spans.len()).then(|| self.outline.kind(unit + 1))
    }

    /// Whether a unit is a question with a line of its own, or at the end of a turn.
    pub(super) fn is_lone_question(&self, unit: usize) -> bool {
        let is_turn = self.outline.kind(unit) == BlockKind::Turn;
        if is_turn && self.leaf(unit).units.end == unit + 1 {
            let turn = self.leaf(unit).units.clone();
            let is_prompt = || {
                self.kind_after(unit) == Some(BlockKind::Turn)
                    && is_prompted(self.unit(turn.start), self.unit(unit + 1))
            };
            // In chats, a sentence may begin in lower case.
            let asks = |unit: usize| self.is_question(unit) || self.unit(unit).contains("? ");
            // A deeper quotation is older.
            let is_older = unit + 1 < self.spans.len()
                && self.unit(unit + 1).starts_with('>')
                && !self.unit(turn.start).starts_with('>');
            return turn.len() <= MAX_QUESTION && !is_older && (turn.clone().any(asks) || is_prompt());
        }
        let is_last = unit + 1 == self.spans.len() || self.gap(unit + 1).contains('\n');
        is_last && self.is_question(unit) && self.question_line(unit).is_some()
    }

    /// The start of the line that ends with a question, if it has nothing else; or little, where it begins a paragraph below a
    /// question and its answer: `You played in Nancy. Why did you leave?`
    pub(super) fn question_line(&self, unit: usize) -> Option<usize> {
        let begins_line = |unit: &usize| *unit == 0 || self.gap(*unit).contains('\n');
        let start = (unit.saturating_sub(MAX_BEFORE_QUESTION)..=unit).rev().find(begins_line)?;
        let is_short = || self.chars[unit].1 - self.chars[start].0 <= MAX_QUESTION_CHARS;
        let is_line = |unit: usize| begins_line(&unit) && begins_line(&(unit + 1)) && self.is_question(unit);
        let ends_line = || unit + 1 < self.spans.len() && !has_blank_line(self.gap(unit + 1));
        let is_below = || ends_line() || (start.saturating_sub(MAX_ANSWER)..start).any(is_line);
        (start == unit || self.leaf(start).units.start == start && is_short() && is_below()).then_some(start)
    }

    pub(super) fn is_question(&self, unit: usize) -> bool {
        is_question(self.unit(unit))
    }

    /// Whether the paragraph that ends with a unit is nothing but a quotation, and `next` alone in the next one.
    pub(super) fn is_quoted(&self, unit: usize, next: usize) -> bool {
        let (start, end) = (self.unit(self.paragraphs[unit]), self.unit(unit));
        let is_block = |unit: &str| unit.starts_with('>');
        let is_whole = starts_quotation(start) && is_quotation(end) || is_block(start) && !is_block(self.unit(next));
        let is_alone = next + 1 == self.spans.len() || has_blank_line(self.gap(next + 1));
        let source = self.unit(next);
        is_whole && is_alone && (source.contains(", ") || source.contains(' ') && is_person(source))
    }

    /// Whether prose goes on in the line of this question.
    pub(super) fn is_answered_in_line(&self, unit: usize) -> bool {
        let has_more = unit + 1 < self.leaf(unit).units.end && !self.gap(unit + 1).contains('\n');
        self.outline.kind(unit) == BlockKind::Prose && has_more && self.is_question(unit)
    }

    /// Whether a unit is the name of what the rest of its leaf describes, or a question that it answers: so is the first one
    /// of a leaf next to it.
    pub(super) fn names_leaf(&self, unit: usize) -> bool {
        let is_named = |unit: usize| {
            let units = &self.leaf(unit).units;
            let asks = || self.is_answered_in_line(unit) && !self.is_question(units.end - 1);
            units.len() > 1 && (is_name(self.unit(unit)) || asks())
        };
        let after = self.leaf(unit).units.end;
        is_named(unit)
            && (unit > 0 && is_named(self.leaf(unit - 1).units.start) || after < self.spans.len() && is_named(after))
    }

    /// Whether a heading ends with this unit: it is one, or a tag in Markdown right below one.
    pub(super) fn ends_heading(&self, unit: usize) -> bool {
        let is_tag =
            |unit: &usize| self.outline.kind(*unit) == BlockKind::Rule && self.unit(*unit).starts_with(['<', '[']);
        let above = (unit.saturating_sub(MAX_TAGS)..=unit).rev().find(|unit| !is_tag(unit));
        above.is_some_and(|above| self.outline.kind(above) == BlockKind::Heading)
    }
}

/// Whether a line is the second one of an address: `12 Main Street`.
fn is_street(line: &str) -> bool {
    line.split_once(' ').is_some_and(|(number, street)| {
        number.bytes().all(|byte| byte.is_ascii_digit()) && street.starts_with(char::is_uppercase)
    })
}

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

fn paragraphs(text: &str, spans: &[ByteSpan]) -> Vec<usize> {
    let mut first = 0;
    let starts = |unit: usize| unit > 0 && has_blank_line(&text[spans[unit - 1].end..spans[unit].start]);
    let of_unit = |unit: usize| {
        first = if starts(unit) { unit } else { first };
        first
    };
    (0..spans.len()).map(of_unit).collect()
}
