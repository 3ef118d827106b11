//! Columns of text: lists that programs print, price lists, paths with what was found there. Lines of equal shape are
//! rows, whatever their width; the line above that only names the columns is their header.

use std::ops::Range;

use super::run::{Lines, MAX_SEPARATORS_IN_PROSE, Marks, Run};
use super::traces::is_frame;
use crate::text::page::BlockKind;
use crate::text::pieces::lines::{LineShape, indent};
use crate::text::pieces::list_marks::Mark;
use crate::text::pieces::marks::is_separator_row;
use crate::text::pieces::wrapping::{NARROWEST_PARAGRAPH, ends_sentence, has_room, width};

/// Lines of equal shape that make a list without a header.
const MIN_ROWS: usize = 3;

/// Characters of a gap that even two rows show to be one of columns.
const MIN_WIDE_GAP: usize = 3;

/// Words at the start of two lines that are compared.
const COMPARED_WORDS: usize = 6;

/// Words of a cell that two columns may have next to a longer one: else they are two columns of prose.
const MAX_LABEL_WORDS: usize = 4;

/// Lines of the longest block that is read as two columns of prose.
const MAX_LINES_OF_PROSE: usize = 40;

/// Bytes at the start of lines in which a tool says the same of several things, and of the longest such line.
const MIN_PREFIX: usize = 4;
const LONGEST_MESSAGE: usize = 200;

/// Characters of the longest name of a column, and of a word in it that is abbreviated: `Nr.`
const LONGEST_NAME: usize = 30;
const LONGEST_ABBREVIATION: usize = 6;

pub(super) fn run(lines: &Lines<'_>, at: usize) -> Result<Run, usize> {
    run_with(lines, at, lines.marks).or_else(|read| prose(lines, at).ok_or(read))
}

/// Two columns of prose, printed line by line. What both say at the same height is one unit: cut at the ends of
/// sentences, it would join the start of one column with the end of the other.
fn prose(lines: &Lines<'_>, at: usize) -> Option<Run> {
    if !lines.marks.has_gap() {
        return None;
    }
    let line = lines.get(at)?;
    let first = Shape::of(line);
    let column = first.cells.get(1).filter(|_| first.cells.len() == 2 && first.has_wide_gap())?.columns.start;
    let has_column = |line: &str| {
        let mut before = line.chars().skip(column - 2);
        before.next() == Some(' ') && before.next() == Some(' ') && before.next().is_some_and(|c| c != ' ')
    };
    let (mut end, mut rows, mut full) = (at, 0, 0);
    while let Some(line) = lines.get(end).filter(|line| !line.is_empty() && end < at + MAX_LINES_OF_PROSE) {
        let is_row = has_column(line);
        if !is_row && width(line) >= column {
            return None;
        }
        rows += usize::from(is_row);
        full += usize::from(is_row && line.split_whitespace().count() > 2 * MAX_LABEL_WORDS);
        end += 1;
    }
    let block = || lines.block(at..end, BlockKind::Record, false);
    (rows >= MIN_ROWS && full * 2 > rows).then(|| Run { blocks: vec![block()], end })
}

/// Whether all lines from this one up to `end` are a table or list.
pub(super) fn are_columns(lines: &Lines<'_>, at: usize, end: usize) -> bool {
    let marks = lines.get(at).map(Marks::of).unwrap_or_default();
    run_with(lines, at, marks).is_ok_and(|run| run.end >= end)
}

fn run_with(lines: &Lines<'_>, at: usize, marks: Marks) -> Result<Run, usize> {
    let line = lines.get(at).ok_or(at + 1)?;
    let first = Shape::of_row(line, marks)
        .or_else(|| {
            let repeats =
                lines.shape(at) != LineShape::Item && repeats_words(line, lines.get(at + 1).unwrap_or_default());
            repeats.then(|| Shape::of(line))
        })
        .ok_or(at + 1)?;
    // Names may stand in two lines.
    let below = (at + 1..at + 3).take_while(|line| !lines.is_blank(*line)).find(|line| is_rule(lines, *line));
    let rows = below.map_or(at + 1, |rule| rule + 1);
    let header = first.is_header(lines, rows, below.is_some());
    let begin = if header { rows } else { at };
    let mut last = lines.get(begin).map(Shape::of).ok_or(at + 1)?;
    let (mut starts, mut end) = (vec![begin], begin + 1);
    while let Some(next) = lines.get(end).map(Shape::of) {
        if last.is_like(&next) {
            starts.push(end);
            last = next;
        } else if !last.is_continued_by(&next) {
            break;
        }
        end += 1;
    }
    let is_list = starts.len() >= MIN_ROWS || starts.len() + 1 >= MIN_ROWS && first.has_wide_gap();
    if !header && !is_list {
        return Err(at + 1);
    }
    if !header && is_paragraph(lines, at..end) {
        return Err(end);
    }
    let mut blocks = Vec::new();
    if header {
        blocks.push(lines.block(at..below.unwrap_or(at + 1), BlockKind::HeaderRow, false));
        blocks.extend(below.map(|rule| lines.block(rule..rule + 1, BlockKind::Row, true)));
    }
    for (place, start) in starts.iter().enumerate() {
        let stop = starts.get(place + 1).copied().unwrap_or(end);
        blocks.push(lines.block(*start..stop, BlockKind::Row, header || place > 0));
    }
    Ok(Run { blocks, end })
}

/// Whether rows are lines of a wrapped paragraph that happen to be alike: each is full, and a sentence goes on above or
/// below, or ends in the last one.
fn is_paragraph(lines: &Lines<'_>, rows: Range<usize>) -> bool {
    let is_text = |line: usize| !lines.is_blank(line) && matches!(lines.shape(line), LineShape::Text | LineShape::Item);
    let begin = rows.start - usize::from(rows.start.checked_sub(1).is_some_and(is_text));
    let end = rows.end + usize::from(is_text(rows.end));
    let texts = || (begin..end).filter_map(|line| lines.get(line));
    let widest = texts().map(width).max().unwrap_or(0);
    let are_cells = texts().any(|line| cells(line, 0).len() > 1 || is_path(first_word(line)));
    let goes_on = begin < rows.start || end > rows.end || lines.get(end - 1).is_some_and(ends_sentence);
    goes_on
        && !are_cells
        && widest >= NARROWEST_PARAGRAPH
        && texts().zip(texts().skip(1)).all(|(line, next)| !has_room(line, next, widest))
}

fn is_rule(lines: &Lines<'_>, line: usize) -> bool {
    lines.get(line).is_some_and(|rule| rule.contains("--") | rule.contains("==") && is_separator_row(rule))
}

/// What lines of one list have in common.
struct Shape<'text> {
    text: &'text str,
    indent: usize,
    /// The parts between wide gaps: two spaces, a tab, a leader of dots.
    cells: Vec<Cell>,
    /// For each of the first words, whether it is a number.
    numbers: Vec<bool>,
    ends_with_number: bool,
    /// Whether the first word is a path, an address or another name that programs write.
    has_path: bool,
    tabs: usize,
    commas: usize,
    semicolons: usize,
}

struct Cell {
    bytes: Range<usize>,
    /// Characters, so that cells stand below each other in any script.
    columns: Range<usize>,
}

impl<'text> Shape<'text> {
    /// The shape of a line that may be a row; `None` for most lines of prose.
    fn of_row(text: &'text str, marks: Marks) -> Option<Self> {
        let is_row = marks.has_gap()
            || marks.has_digit() && ends_with_number(text)
            || is_path(first_word(text))
            || is_frame(text.trim_start())
            || marks.has_tight_separator()
            || marks.has_digit()
                && text.split_whitespace().take(COMPARED_WORDS).filter(|word| is_number(word)).nth(1).is_some();
        is_row.then(|| Self::of(text))
    }

    fn of(text: &'text str) -> Self {
        let words = text.split_whitespace();
        let depth = indent(text);
        // The gap after the mark of an item is none of columns.
        let mark = Mark::at_start(&text[depth..]).filter(|mark| mark.is_sure);
        let start = depth + mark.map_or(0, |mark| mark.end);
        Self {
            text,
            indent: depth,
            cells: cells(text, start),
            numbers: words.take(COMPARED_WORDS).map(is_number).collect(),
            ends_with_number: ends_with_number(text),
            has_path: is_path(first_word(text)) || is_frame(text.trim_start()),
            tabs: bytecount::count(text[start..].trim().as_bytes(), b'\t'),
            commas: separators(text, b','),
            semicolons: separators(text, b';'),
        }
    }

    fn is_like(&self, other: &Self) -> bool {
        let is_equal = |count: usize, other: usize, above: usize| count > above && count == other;
        let words = self.numbers.len().min(other.numbers.len());
        let has_numbers = self.numbers[..words].iter().filter(|number| **number).count() > 1;
        is_equal(self.tabs, other.tabs, 0)
            || is_equal(self.commas, other.commas, MAX_SEPARATORS_IN_PROSE)
            || is_equal(self.semicolons, other.semicolons, MAX_SEPARATORS_IN_PROSE)
            || self.is_aligned(other)
            || words > 2 && has_numbers && self.numbers[..words] == other.numbers[..words]
            || self.ends_with_number
                && other.ends_with_number
                && self.indent == other.indent
                && begins_entry(self.text)
                && begins_entry(other.text)
            || self.has_path && other.has_path && self.indent == other.indent
            || repeats_words(self.text, other.text)
    }

    /// Whether more than two spaces are between its columns, as no prose has.
    fn has_wide_gap(&self) -> bool {
        self.cells.windows(2).any(|pair| pair[1].columns.start - pair[0].columns.end > MIN_WIDE_GAP) && self.tabs == 0
    }

    /// Whether both have columns at the same places.
    fn is_aligned(&self, other: &Self) -> bool {
        let (cells, others) = (&self.cells, &other.cells);
        let fewer = cells.len().min(others.len());
        if fewer < 2 {
            return false;
        }
        // In justified prose, the last words end at the same place.
        let is_word = |cell: &Cell| !self.text[cell.bytes.clone()].contains(' ');
        let is_shared = |cell: &&Cell| {
            let (columns, is_word) = (&cell.columns, is_word(cell));
            let stands_below =
                |other: &Range<usize>| other.start == columns.start || other.end == columns.end && is_word;
            others[1..].iter().any(|other| stands_below(&other.columns))
        };
        let shared = cells[1..].iter().filter(is_shared).count();
        let is_label = |shape: &Self| {
            shape.cells.iter().any(|cell| shape.text[cell.bytes.clone()].split(' ').count() <= MAX_LABEL_WORDS)
        };
        // Justified prose has gaps of two spaces, at random places.
        let is_wide = |shape: &Self| {
            shape.cells.windows(2).any(|pair| pair[1].columns.start - pair[0].columns.end > 2) || shape.tabs > 0
        };
        let is_like = if is_wide(self) && is_wide(other) {
            shared * 2 >= fewer - 1 && shared > 0 || fewer > 2 && cells.len() == others.len()
        } else {
            shared >= fewer - 1
        };
        is_like && (fewer > 2 || is_label(self) && is_label(other))
    }

    /// Whether another line has only a part of this one's last columns.
    fn is_continued_by(&self, next: &Self) -> bool {
        self.cells.len() > 1
            && next.indent > self.indent
            && self.cells[1..].iter().any(|cell| cell.columns.start == next.indent)
    }

    /// Whether this names the columns of the rows that start with a line.
    fn is_header(&self, lines: &Lines<'_>, rows: usize, has_rule: bool) -> bool {
        let cells = self.cells.iter().map(|cell| &self.text[cell.bytes.clone()]);
        let are_names = cells.clone().all(|name| {
            name.chars().count() <= LONGEST_NAME
                && (!name.ends_with(['.', ',', ':', ';', '!', '?'])
                    || name.ends_with('.') && name.rsplit(' ').next().map_or(0, width) <= LONGEST_ABBREVIATION)
        });
        let words = self.text.split_whitespace();
        let has_number = words.clone().any(is_number);
        let is_upper = |word: &str| word.chars().any(char::is_alphabetic) && !word.chars().any(char::is_lowercase);
        let are_capitals = words.clone().count() > 1
            && words.clone().all(|word| is_upper(word) || !word.contains(char::is_alphabetic));
        if !are_names || has_number || words.clone().count() < 2 {
            return false;
        }
        let Some(row) = lines.get(rows).map(Shape::of) else { return false };
        let has_digits = row.text.bytes().any(|byte| byte.is_ascii_digit());
        let is_above = self.is_aligned(&row) || self.tabs > 0 && self.tabs == row.tabs;
        let next = lines.get(rows + 1).map(Shape::of);
        let are_rows = next.as_ref().is_some_and(|next| row.is_like(next));
        let is_columnar = row.cells.len() > 1 || row.numbers.iter().any(|number| *number);
        has_rule && is_above
            || are_capitals && is_columnar && (are_rows || next.is_none_or(|next| next.text.is_empty()) && is_above)
            || is_above && are_rows && has_digits
    }
}

fn first_word(text: &str) -> &str {
    text.split_whitespace().next().unwrap_or_default()
}

/// The parts of a line between wide gaps, from a byte on.
fn cells(text: &str, start: usize) -> Vec<Cell> {
    let bytes = text.as_bytes();
    let mut cells: Vec<Cell> = Vec::new();
    let cell = |bytes: Range<usize>, before: Option<&Cell>| {
        let (byte, column) = before.map_or((0, 0), |cell| (cell.bytes.end, cell.columns.end));
        let start = column + width(&text[byte..bytes.start]);
        Cell { columns: start..start + width(&text[bytes.clone()]), bytes }
    };
    let mut at = start + indent(&text[start..]);
    let mut start = at;
    while at < bytes.len() {
        let spaces = bytes[at..].iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        let dots = bytes[at..].iter().take_while(|byte| **byte == b'.').count();
        let ends_sentence = spaces == 2 && at > 0 && matches!(bytes[at - 1], b'.' | b'!' | b'?' | b'"' | b')');
        if spaces > 1 && !ends_sentence || bytes[at] == b'\t' || dots > 2 {
            if at > start {
                cells.push(cell(start..at, cells.last()));
            }
            at += spaces.max(dots);
            start = at;
        } else {
            at += 1;
        }
    }
    if start < text.len() {
        cells.push(cell(start..text.len(), cells.last()));
    }
    cells
}

/// Separators of fields, without a space behind them as prose has it.
fn separators(text: &str, mark: u8) -> usize {
    text.as_bytes().windows(2).filter(|pair| pair[0] == mark && !pair[1].is_ascii_whitespace()).count()
}

/// Whether a word starts with a digit, after a sign or a currency.
fn is_number(word: &str) -> bool {
    let digits = word.trim_start_matches(['$', '€', '£', '¥', '(', '+', '-', '~', '<', '>']);
    digits.starts_with(char::is_numeric)
}

/// Whether a tool says the same of other things in the next line: `Compiling a v1.2`, `Compiling b v3.4`.
fn repeats_words(line: &str, next: &str) -> bool {
    let is_alike = line.as_bytes().iter().zip(next.as_bytes()).take(MIN_PREFIX).filter(|(one, other)| one == other);
    let words = |text: &str| text.split_whitespace().count();
    let has_digit = |text: &str| text.bytes().any(|byte| byte.is_ascii_digit());
    !next.is_empty()
        && is_alike.count() == MIN_PREFIX
        && line.len() <= LONGEST_MESSAGE
        && has_digit(line)
        && has_digit(next)
        && !line.ends_with(['.', ','])
        && words(line) == words(next)
        && line.split_whitespace().next() == next.split_whitespace().next()
}

/// Whether a line may start an entry of a list: in wrapped prose, most lines start in lower case.
fn begins_entry(text: &str) -> bool {
    !text.trim_start().starts_with(char::is_lowercase)
}

/// Whether a line ends with a number that is no year, which a unit or currency may follow.
fn ends_with_number(text: &str) -> bool {
    let mut words = text.split([' ', '\t']).rev();
    let last = words.next().unwrap_or_default();
    let number = last.rsplit("..").next().unwrap_or(last).trim_start_matches('.');
    if is_number(number) {
        let is_year = number.len() == 4 && number.bytes().all(|byte| byte.is_ascii_digit());
        return !is_year && !text.ends_with(['.', ',', ';', ':']);
    }
    let is_unit = last.len() <= 4
        && !last.is_empty()
        && (last.chars().all(char::is_uppercase) || last.chars().all(|c| !c.is_alphanumeric()));
    is_unit && words.next().is_some_and(is_number)
}

/// Whether programs write this word: a path, an address, a setting, a hash.
fn is_path(word: &str) -> bool {
    let inside = word.trim_matches(|c: char| !c.is_alphanumeric());
    let has_mark = || {
        let marks = inside.bytes().filter(|byte| matches!(byte, b'/' | b'\\' | b'=' | b'_' | b'@')).count();
        marks > 0
            || inside.contains("::")
            || (inside.matches('.').count() > 1 && !inside.starts_with(|c: char| c.is_ascii_digit()))
    };
    let is_hash = || {
        inside.len() >= 7
            && inside.bytes().all(|byte| byte.is_ascii_hexdigit())
            && inside.bytes().any(|byte| byte.is_ascii_digit())
            && inside.bytes().any(|byte| byte.is_ascii_lowercase())
    };
    word.len() > 3 && (has_mark() || is_hash())
}
