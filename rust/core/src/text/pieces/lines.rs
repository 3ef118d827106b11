//! Lines: their ends, and their shapes by their first characters.
//!
//! A line's shape depends on the line alone; [`super::items`] and [`super::titles`] change it for its neighbours, and
//! [`super::blocks`] interprets it.

use super::list_marks::{Mark, is_sure_bullet};
use super::marks::{is_box, is_indic, is_separator_row};
use super::page_headers_footers::{has_dot_leader, is_page_number};
use super::records::chat_marks::{inner_starts, may_have_marks};
use crate::error::{Error, Result};
use crate::runtime::call::{Check, Checkpoints};
use crate::text::page::{ByteSpan, marked_level, marks_around};

/// Bytes of the longest title with marks around it.
const LONGEST_TITLE: usize = 100;

/// Bytes of a mark alone on its line.
const LONGEST_LONE_MARK: usize = 6;

/// Bytes of a bold line that is one unit.
const LONGEST_BOLD_LINE: usize = 160;

/// Bytes of the longest text, so that a line's place takes four bytes.
const LONGEST_TEXT: usize = u32::MAX as usize;

/// Blank lines in a row that are kept: more of them say nothing.
const MAX_BLANK_LINES: usize = 4;

#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    start: u32,
    /// After the last character that is not white space; `start` in a blank line.
    end: u32,
    /// Whether it ends in a form feed or a Unicode separator, which never come from wrapping.
    pub(super) hard: bool,
    pub(super) shape: LineShape,
    /// Of an item, how many lists it is in.
    pub(super) depth: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineShape {
    Blank,
    Text,
    /// `# Title`, `== Title ==`, `\section{Title}`
    Heading,
    /// A table row, or an entry of a table of contents.
    Row,
    /// `===`, `---`, `^^^`, `***`: all but the last underline a title above them.
    Rule {
        underlines: bool,
    },
    PageNumber,
    /// A heading that only its words and place show, as [`super::titles`] finds them: its level.
    Title(u8),
    /// The first line of a list item.
    Item,
    /// At least three of `mark`. A bare fence may close an earlier one.
    Fence {
        mark: u8,
        length: u16,
        bare: bool,
    },
}

impl Line {
    pub(super) fn new(span: ByteSpan, shape: LineShape) -> Self {
        let place = |byte: usize| u32::try_from(byte).unwrap_or(u32::MAX);
        Self { start: place(span.start), end: place(span.end), hard: false, shape, depth: 0 }
    }

    pub(super) const fn start(&self) -> usize {
        self.start as usize
    }

    pub(super) const fn end(&self) -> usize {
        self.end as usize
    }

    /// Of a part of the text that starts with this byte.
    pub(super) fn moved(self, by: usize) -> Self {
        let span = ByteSpan { start: by + self.start(), end: by + self.end() };
        Self { hard: self.hard, depth: self.depth, ..Self::new(span, self.shape) }
    }

    pub(super) const fn span(&self) -> ByteSpan {
        ByteSpan { start: self.start(), end: self.end() }
    }
}

/// # Errors
/// `InvalidArgument` for a text whose places lines cannot name.
pub(super) fn check_length(text: &str) -> Result<()> {
    if text.len() <= LONGEST_TEXT {
        return Ok(());
    }
    Err(Error::of_field("texts", format!("a page of {} bytes: at most {LONGEST_TEXT}", text.len())))
}

/// The lines of a page, without most of many blank ones in a row.
pub(super) fn page_lines(text: &str, check: &Check) -> Result<Vec<Line>> {
    let mut checkpoints = Checkpoints::new(check);
    let mut kept: Vec<Line> = Vec::new();
    // Blank lines at the end of those kept.
    let mut blanks = 0;
    let has_marks = may_have_marks(text);
    for line in lines(text) {
        checkpoints.reach(line.start())?;
        let line = if has_marks { split_turns(text, line, &mut kept) } else { line };
        // Below a lone number, a blank line may stand.
        let is_gap = line.end > line.start
            && line.shape == LineShape::Text
            && !is_lone_mark(line.span().of(text))
            && matches!(kept.as_slice(), [.., mark, blank] if blank.start == blank.end && is_lone_mark(mark.span().of(text)));
        if is_gap {
            kept.pop();
        }
        let is_mark = |last: &str| is_lone_bullet(last) || is_gap;
        let line = kept.pop_if(|last| line.end > line.start && is_mark(last.span().of(text))).map_or(line, |bullet| {
            let item = ByteSpan { start: bullet.start(), end: line.end() };
            Line { hard: line.hard, ..Line::new(item, LineShape::Item) }
        });
        let is_blank = line.start == line.end;
        let is_known = !line.hard || kept.last().is_some_and(|last| last.hard);
        if is_blank && blanks >= MAX_BLANK_LINES && is_known {
            continue;
        }
        blanks = if is_blank { blanks + 1 } else { 0 };
        kept.push(line);
    }
    mark_numbers(text, &mut kept);
    Ok(kept)
}

/// Gives numbers alone on a line that begin entries of several lines the shape of text: they are of lots or tasks, not of pages.
fn mark_numbers(text: &str, lines: &mut [Line]) {
    for number in 0..lines.len() {
        let is = |line: usize, shape: LineShape| lines.get(line).is_some_and(|line| line.shape == shape);
        let begins = lines[number].shape == LineShape::PageNumber
            && number.checked_sub(1).is_none_or(|above| is(above, LineShape::Blank))
            && is(number + 1, LineShape::Text)
            && is(number + 2, LineShape::Text);
        if begins && lines[number].span().of(text).bytes().all(|byte| byte.is_ascii_digit()) {
            lines[number].shape = LineShape::Text;
        }
    }
}

/// Whether a line is nothing but the bullet of the item below it, as readers of PDFs leave it.
fn is_lone_bullet(line: &str) -> bool {
    let content = content(line);
    let mut chars = content.chars();
    chars.next().is_some_and(is_sure_bullet) && chars.next().is_none()
}

/// Whether a line is nothing but the number of the paragraph below it: `1.`, `(a)`, or a bullet.
fn is_lone_mark(line: &str) -> bool {
    let content = content(line);
    content.len() <= LONGEST_LONE_MARK
        && (matches!(content, "•" | "●" | "▪" | "■" | "◦" | "○")
            || content.ends_with(['.', ')'])
                && Mark::at_start(content).is_some_and(|mark| mark.end == content.len() && mark.style.label.is_empty()))
}

/// Splits a line before the turns of a chat inside it. Adds all parts but the last, which it returns.
fn split_turns(text: &str, line: Line, kept: &mut Vec<Line>) -> Line {
    let mut start = line.start();
    for inner in inner_starts(line.span().of(text)) {
        let part = ByteSpan { start, end: line.start() + inner }.trimmed(text);
        kept.push(Line::new(part, shape(part.of(text))));
        start = line.start() + inner;
    }
    let last = ByteSpan { start, end: line.end() };
    let last = if start > line.start() { last.trimmed(text) } else { last };
    Line { hard: line.hard, ..Line::new(last, shape(last.of(text))) }
}

pub(super) fn lines(text: &str) -> impl Iterator<Item = Line> {
    lines_of(text, shape)
}

/// The lines of a paragraph of a page with markup, which are text whatever they look like.
pub(super) fn text_lines(text: &str) -> impl Iterator<Item = Line> {
    lines_of(text, |line| if line.is_empty() { LineShape::Blank } else { LineShape::Text })
}

fn lines_of(text: &str, shape: impl Fn(&str) -> LineShape) -> impl Iterator<Item = Line> {
    let mut start = 0;
    std::iter::from_fn(move || {
        if start == text.len() {
            return None;
        }
        let (end, next, hard) = line_end(text.as_bytes(), start);
        let trimmed = text[start..end].trim_end();
        let span = ByteSpan { start, end: start + trimmed.len() };
        start = next;
        Some(Line { hard, ..Line::new(span, shape(trimmed)) })
    })
}

/// The end of the line at `start`, the start of the next one, and whether a hard break separates them.
fn line_end(bytes: &[u8], start: usize) -> (usize, usize, bool) {
    let mut at = start;
    while let Some(step) = bytes[at..].iter().position(|byte| matches!(byte, b'\n' | b'\r' | 0x0c | 0xc2 | 0xe2)) {
        at += step;
        let (length, hard) = match bytes[at..] {
            [b'\r', b'\n', ..] => (2, false),
            [b'\n' | b'\r', ..] => (1, false),
            [0x0c, ..] => (1, true),
            // U+0085, the next-line control; U+2028 and U+2029, the line and paragraph separators.
            [0xc2, 0x85, ..] => (2, true),
            [0xe2, 0x80, 0xa8 | 0xa9, ..] => (3, true),
            _ => {
                at += 1;
                continue;
            }
        };
        return (at, at + length, hard);
    }
    (bytes.len(), bytes.len(), false)
}

/// Bytes of white space at the start.
pub(super) fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// The line without its indentation and the `>` of quotes.
pub(super) fn content(line: &str) -> &str {
    line.trim_start_matches(|c: char| c == '>' || c.is_whitespace())
}

/// The line with text above a line.
pub(super) fn line_above(lines: &[Line], number: usize) -> Option<&Line> {
    lines[..number].iter().rfind(|line| line.shape != LineShape::Blank)
}

/// The end of the bold line at the start of a paragraph: what it says is one unit.
pub(super) fn bold_line_end(paragraph: &str) -> Option<usize> {
    let line = paragraph.lines().next()?.trim_end();
    let bold = line.strip_prefix("**")?.strip_suffix("**")?;
    (line.len() <= LONGEST_BOLD_LINE && !bold.contains("**")).then_some(line.len() - 1)
}

fn shape(line: &str) -> LineShape {
    let content = content(line);
    let Some(first) = content.chars().next() else { return LineShape::Blank };
    if first == '|' || is_row(content) || has_dot_leader(content) || is_ruled(content) || is_boxed(content, first) {
        return LineShape::Row;
    }
    if is_page_number(content) {
        return LineShape::PageNumber;
    }
    if first == '\\' && marked_level(content) > 0 {
        return LineShape::Heading;
    }
    if let Some(shape) = repeated_mark(content) {
        return shape;
    }
    if Mark::at_start(content).is_some_and(|mark| mark.is_sure) { LineShape::Item } else { LineShape::Text }
}

/// Whether at least two ` | ` separate the cells of a row.
fn is_row(content: &str) -> bool {
    content.as_bytes().contains(&b'|')
        && content.matches(" | ").nth(1).is_some()
        // In the scripts of India, `|` is also typed for a full stop.
        && !(content.starts_with(is_indic) && content.ends_with('|'))
}

/// Whether this is a row of a drawn table: `│ a │ b │`, `├───┼───┤`. In a drawn tree, lines end with names.
fn is_boxed(content: &str, first: char) -> bool {
    is_box(first) && content.len() > first.len_utf8() && content.ends_with(is_box)
}

/// Whether this is a rule of a table of text: `---+---`, `+===+===+`.
fn is_ruled(content: &str) -> bool {
    content.contains('+') && (content.contains("--") || content.contains("==")) && is_separator_row(content)
}

pub(super) fn fence(mark: u8, length: usize, bare: bool) -> LineShape {
    LineShape::Fence { mark, length: u16::try_from(length).unwrap_or(u16::MAX), bare }
}

/// Headings, fences and rules, which start with a repeated mark.
fn repeated_mark(content: &str) -> Option<LineShape> {
    let mark = content.as_bytes()[0];
    if !matches!(mark, b'#' | b'`' | b'~' | b'=' | b'-' | b'*' | b'_' | b'^' | b'"' | b'+' | b':') {
        return None;
    }
    let length = content.bytes().take_while(|&byte| byte == mark).count();
    let after = &content[length..];
    if is_decorated(content, mark, length) {
        return Some(LineShape::Heading);
    }
    match mark {
        b'#' => (length <= 6 && after.starts_with([' ', '\t'])).then_some(LineShape::Heading),
        b'`' if after.contains('`') => None,
        b'`' | b'~' => (length >= 3).then(|| fence(mark, length, after.is_empty())),
        b'=' if marks_around(content) > 0 => Some(LineShape::Heading),
        b'=' => (length >= 2 && after.is_empty()).then_some(LineShape::Rule { underlines: true }),
        _ if length >= 3 && after.is_empty() => {
            Some(LineShape::Rule { underlines: !matches!(mark, b'*' | b'_' | b':') })
        }
        b'^' | b'"' | b'+' | b':' => None,
        // Rules may contain spaces: `* * *`.
        _ => {
            let marks = content.bytes().filter(|&byte| byte == mark).count();
            (marks >= 3 && content.bytes().all(|byte| byte == mark || byte == b' '))
                .then_some(LineShape::Rule { underlines: false })
        }
    }
}

/// Whether marks stand on both sides of a title, or before it in a wiki: `== Title ==`, `*** TITLE ***`, `== Title`.
fn is_decorated(content: &str, mark: u8, length: usize) -> bool {
    let is_wiki = mark == b'=' && (2..=6).contains(&length);
    let title = &content[length..];
    let inside = title.trim_end_matches(char::from(mark));
    let is_closed = (title.len() - inside.len()).abs_diff(length) <= usize::from(length > 4) && inside.ends_with(' ');
    length >= 2
        && matches!(mark, b'=' | b'*' | b'-' | b'~' | b'+' | b'_')
        && content.len() <= LONGEST_TITLE
        && (is_closed && (is_wiki || length >= 3) || is_wiki && !title.contains('='))
        && title.starts_with(' ')
        && inside.trim_start().starts_with(char::is_alphanumeric)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::call::unstopped;

    #[test]
    fn lines_end_where_any_system_ends_them() {
        let text = "a\nb \r\nc\rd\x0ce\u{85}f\u{2028}g\u{2029}é";
        let found: Vec<(&str, bool)> = lines(text).map(|line| (line.span().of(text), line.hard)).collect();
        let expected = [
            ("a", false),
            ("b", false),
            ("c", false),
            ("d", true),
            ("e", true),
            ("f", true),
            ("g", true),
            ("é", false),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn blank_lines_in_a_row_take_no_memory() {
        let text = format!("a{}b\x0c\x0c{}\n>\n{}c", "\n".repeat(1000), "\x0c".repeat(1000), "\n".repeat(3));
        let found = page_lines(&text, &unstopped).unwrap();
        assert!(found.len() < 20, "{} lines", found.len());
        let shown: Vec<&str> = found.iter().map(|line| line.span().of(&text)).filter(|line| !line.is_empty()).collect();
        assert_eq!(shown, ["a", "b", ">", "c"]);
        assert!(found.iter().any(|line| line.hard), "a page ends");
        assert!(size_of::<Line>() <= 16);
    }

    #[test]
    fn first_characters_decide_the_shape() {
        for (line, expected) in [
            ("", LineShape::Blank),
            ("  >  >", LineShape::Blank),
            ("Text", LineShape::Text),
            ("## Title", LineShape::Heading),
            ("#tag", LineShape::Text),
            ("> # Quoted", LineShape::Heading),
            ("== Title ==", LineShape::Heading),
            ("= = Title = =", LineShape::Heading),
            ("== Title", LineShape::Heading),
            ("\\section*{Title}", LineShape::Heading),
            ("\\section{Title} is here", LineShape::Text),
            ("== a = b", LineShape::Text),
            ("______ test_open _____", LineShape::Heading),
            ("===", LineShape::Rule { underlines: true }),
            ("-----", LineShape::Rule { underlines: true }),
            ("* * *", LineShape::Rule { underlines: false }),
            ("```rust", LineShape::Fence { mark: b'`', length: 3, bare: false }),
            ("~~~~", LineShape::Fence { mark: b'~', length: 4, bare: true }),
            ("``a`` b", LineShape::Text),
            ("| a | b |", LineShape::Row),
            ("a | b | c", LineShape::Row),
            ("a | b", LineShape::Text),
            ("---+-----", LineShape::Row),
            ("+===+===+", LineShape::Row),
            ("╠═══╬═══╣", LineShape::Row),
            ("║ a ║ b ║", LineShape::Row),
            ("├── a", LineShape::Text),
            ("a+--", LineShape::Text),
            ("Methods ..... 12", LineShape::Row),
            ("- 12 -", LineShape::PageNumber),
            ("- a", LineShape::Item),
            ("  • a", LineShape::Item),
            ("-a", LineShape::Text),
            ("**bold** a", LineShape::Text),
            ("12. a", LineShape::Item),
            ("3) a", LineShape::Item),
            ("1984. a", LineShape::Text),
            ("a) b", LineShape::Item),
            ("(iv) b", LineShape::Item),
            ("(see) b", LineShape::Text),
            ("1.) b", LineShape::Item),
            ("ii) b", LineShape::Item),
            ("Step 2: b", LineShape::Item),
            ("Art. 12. B", LineShape::Item),
            ("§ 3. B", LineShape::Item),
            ("Q4. B", LineShape::Item),
            ("Art. is long", LineShape::Text),
        ] {
            assert_eq!(shape(line), expected, "{line:?}");
        }
    }
}
