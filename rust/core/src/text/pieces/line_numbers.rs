//! Numbers of lines in the margin: of depositions, pleadings and listings. They are part of the page and of no sentence.

use super::wrapping::column;
use crate::text::page::ByteSpan;

/// Numbered lines of the shortest page, and of the shortest run of lines.
const MIN_LINES: usize = 8;
const MIN_RUN: usize = 3;

/// Digits of the longest number.
const MAX_DIGITS: usize = 4;

/// Of this number of lines, at least one goes on with the sentence of the line above.
const LINES_PER_CONTINUATION: usize = 5;

/// A text with spaces instead of the numbers of its lines; `None` without any.
pub(super) fn without_line_numbers(text: &str) -> Option<String> {
    let mut runs: Vec<NumberedLines> = Vec::new();
    let mut is_open = false;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let start = at;
        at += line.len();
        if line.trim().is_empty() {
            continue;
        }
        let Some((number, value)) = numbered(line) else {
            is_open = false;
            continue;
        };
        // Only a number: that of a page.
        let is_blank = line[number.end..].trim().is_empty();
        let goes_on = is_open && runs.last().is_some_and(|run| value == run.last + 1);
        if !goes_on && !is_blank {
            runs.push(NumberedLines::default());
        }
        is_open = goes_on || !is_blank;
        if let Some(run) = runs.last_mut().filter(|_| is_open) {
            run.add(ByteSpan { start: start + number.start, end: start + number.end }, value, &line[number.end..]);
        }
    }
    runs.retain(|run| run.numbers.len() >= MIN_RUN);
    let lines: usize = runs.iter().map(|run| run.numbers.len()).sum();
    let continued: usize = runs.iter().map(|run| run.continued).sum();
    // The rows of a table begin in one column.
    let is_indented = runs.iter().any(|run| run.columns.is_some_and(|(least, most)| most > least + 1));
    if lines < MIN_LINES || LINES_PER_CONTINUATION * continued < lines || !is_indented {
        return None;
    }
    let mut masked = text.to_owned();
    for number in runs.iter().flat_map(|run| &run.numbers) {
        masked.replace_range(number.start..number.end, &" ".repeat(number.len()));
    }
    Some(masked)
}

/// The number at the start of a line, two spaces or a tab before text.
fn numbered(line: &str) -> Option<(ByteSpan, usize)> {
    let start = line.len() - line.trim_start_matches([' ', '\t']).len();
    let digits = line[start..].bytes().take(MAX_DIGITS + 1).take_while(u8::is_ascii_digit).count();
    let after = &line[start + digits..];
    let is_apart = after.starts_with("  ") || after.starts_with('\t') || after.trim().is_empty();
    let value = line[start..start + digits].parse().ok().filter(|_| digits <= MAX_DIGITS && is_apart)?;
    Some((ByteSpan { start, end: start + digits }, value))
}

/// Lines whose numbers count up.
#[derive(Default)]
struct NumberedLines {
    numbers: Vec<ByteSpan>,
    last: usize,
    /// Lines that begin in lower case.
    continued: usize,
    /// The least and the largest column of what follows the number.
    columns: Option<(usize, usize)>,
}

impl NumberedLines {
    fn add(&mut self, number: ByteSpan, value: usize, rest: &str) {
        self.numbers.push(number);
        self.last = value;
        if rest.trim().is_empty() {
            return;
        }
        self.continued += usize::from(rest.trim_start().starts_with(char::is_lowercase));
        let column = column(rest);
        let (least, most) = self.columns.unwrap_or((column, column));
        self.columns = Some((least.min(column), most.max(column)));
    }
}

/// Adds to each span the numbers between it and the one before, so that all of the text is covered.
pub(super) fn with_line_numbers(text: &str, spans: &mut [ByteSpan]) {
    let mut last = 0;
    for span in spans.iter_mut() {
        let gap = &text[last..span.start];
        span.start = last + gap.len() - gap.trim_start().len();
        last = span.end;
    }
    if let Some(span) = spans.last_mut() {
        span.end = last + text[last..].trim_end().len();
    }
}
