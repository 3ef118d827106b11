//! Lines: where each ends, and what its first characters say it is.
//!
//! A line is judged alone; what it means beside its neighbours is for [`super::blocks`].

use super::page_headers_footers::{has_leader, is_page_number};

/// One line of a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    pub(super) start: usize,
    /// Behind the last character that is not white space; `start` where there is none.
    pub(super) end: usize,
    /// Whether it ends in a form feed or in one of Unicode's own separators, which no one writes to wrap a line.
    pub(super) hard: bool,
    pub(super) shape: Shape,
}

/// What a line looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Blank,
    Text,
    /// `# Title`
    Heading,
    /// A row of a table, or a line of a table of contents.
    Row,
    /// `===`, `---`, `***`: under a title the first two underline it, alone each is a rule.
    Rule {
        underlines: bool,
    },
    /// The number of a page.
    PageNumber,
    /// The first line of a list item.
    Item(Marker),
    /// Three or more of `mark`; a bare one may close what another opened.
    Fence {
        mark: u8,
        length: usize,
        bare: bool,
    },
}

/// What a list item begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marker {
    Bullet(char),
    /// `1.` or `1)`
    Number,
    /// `a)`, `(a)`, `(iv)`, `(1)`
    Letter,
}

/// The lines of a text.
pub(super) fn lines(text: &str) -> impl Iterator<Item = Line> {
    let mut start = 0;
    std::iter::from_fn(move || {
        if start == text.len() {
            return None;
        }
        let (end, next, hard) = line_end(text.as_bytes(), start);
        let inked = text[start..end].trim_end();
        let line = Line { start, end: start + inked.len(), hard, shape: shape(inked) };
        start = next;
        Some(line)
    })
}

/// Where the line that starts here ends, where the next one starts, and whether what parts them is a hard break.
fn line_end(bytes: &[u8], start: usize) -> (usize, usize, bool) {
    let mut at = start;
    while let Some(step) = bytes[at..].iter().position(|byte| matches!(byte, b'\n' | b'\r' | 0x0c | 0xc2 | 0xe2)) {
        at += step;
        let (length, hard) = match bytes[at..] {
            [b'\r', b'\n', ..] => (2, false),
            [b'\n' | b'\r', ..] => (1, false),
            [0x0c, ..] => (1, true),
            // U+0085, the next-line control; then U+2028 and U+2029, the line and the paragraph separator.
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

/// How many bytes of white space a line starts with.
pub(super) fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// The line without its indentation and without the `>` of quoted text.
pub(super) fn content(line: &str) -> &str {
    line.trim_start_matches(|c: char| c == '>' || c.is_whitespace())
}

/// The shape of a line that has no white space at its end.
fn shape(line: &str) -> Shape {
    let content = content(line);
    let Some(first) = content.chars().next() else { return Shape::Blank };
    if first == '|' || is_row(content) || has_leader(content) {
        return Shape::Row;
    }
    if is_page_number(content) {
        return Shape::PageNumber;
    }
    if first.is_ascii_alphabetic() && content.as_bytes().get(1) != Some(&b')') {
        return Shape::Text;
    }
    if let Some(shape) = drawn(content) {
        return shape;
    }
    marker(content).map_or(Shape::Text, Shape::Item)
}

/// Whether at least two ` | ` part the cells of a row.
fn is_row(content: &str) -> bool {
    content.as_bytes().contains(&b'|') && content.matches(" | ").nth(1).is_some()
}

/// Headings, fences and rules: shapes drawn with a run of one mark.
fn drawn(content: &str) -> Option<Shape> {
    let mark = content.as_bytes()[0];
    if !matches!(mark, b'#' | b'`' | b'~' | b'=' | b'-' | b'*' | b'_') {
        return None;
    }
    let length = content.bytes().take_while(|&byte| byte == mark).count();
    let rest = &content[length..];
    match mark {
        b'#' => (length <= 6 && rest.starts_with([' ', '\t'])).then_some(Shape::Heading),
        b'`' if rest.contains('`') => None,
        b'`' | b'~' => (length >= 3).then_some(Shape::Fence { mark, length, bare: rest.is_empty() }),
        b'=' => (length >= 2 && rest.is_empty()).then_some(Shape::Rule { underlines: true }),
        _ if length >= 3 && rest.is_empty() => Some(Shape::Rule { underlines: mark == b'-' }),
        // A rule may be drawn with spaces: `* * *`.
        _ => {
            let drawn = content.bytes().filter(|&byte| byte == mark).count();
            (drawn >= 3 && content.bytes().all(|byte| byte == mark || byte == b' '))
                .then_some(Shape::Rule { underlines: false })
        }
    }
}

/// The marker that a list item starts with; white space must follow it.
fn marker(content: &str) -> Option<Marker> {
    let (word, _) = content.split_once(char::is_whitespace)?;
    let mut chars = word.chars();
    let first = chars.next()?;
    let bullets = ['-', '*', '+', '•', '‣', '◦', '▪', '▫', '●', '○', '■', '·', '–', '—'];
    if bullets.contains(&first) && chars.next().is_none() {
        return Some(Marker::Bullet(first));
    }
    if let Some(label) = word.strip_suffix(')') {
        let (label, bracketed) = label.strip_prefix('(').map_or((label, false), |label| (label, true));
        if is_number(label) {
            return Some(if bracketed { Marker::Letter } else { Marker::Number });
        }
        let letter = label.len() == 1 && label.as_bytes()[0].is_ascii_alphabetic();
        let roman = bracketed && (1..=5).contains(&label.len()) && label.bytes().all(|byte| b"ivx".contains(&byte));
        return (letter || roman).then_some(Marker::Letter);
    }
    word.strip_suffix('.').is_some_and(is_number).then_some(Marker::Number)
}

/// Whether this counts something; four digits would rather be a year.
fn is_number(label: &str) -> bool {
    (1..=3).contains(&label.len()) && label.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_where_any_system_ends_them() {
        let text = "a\nb \r\nc\rd\x0ce\u{85}f\u{2028}g\u{2029}é";
        let found: Vec<(&str, bool)> = lines(text).map(|line| (&text[line.start..line.end], line.hard)).collect();
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
    fn first_characters_tell_the_shape() {
        let bullet = |c| Shape::Item(Marker::Bullet(c));
        for (line, expected) in [
            ("", Shape::Blank),
            ("  >  >", Shape::Blank),
            ("Text", Shape::Text),
            ("## Title", Shape::Heading),
            ("#tag", Shape::Text),
            ("> # Quoted", Shape::Heading),
            ("===", Shape::Rule { underlines: true }),
            ("-----", Shape::Rule { underlines: true }),
            ("* * *", Shape::Rule { underlines: false }),
            ("```rust", Shape::Fence { mark: b'`', length: 3, bare: false }),
            ("~~~~", Shape::Fence { mark: b'~', length: 4, bare: true }),
            ("``a`` b", Shape::Text),
            ("| a | b |", Shape::Row),
            ("a | b | c", Shape::Row),
            ("a | b", Shape::Text),
            ("Methods ..... 12", Shape::Row),
            ("- 12 -", Shape::PageNumber),
            ("- a", bullet('-')),
            ("  • a", bullet('•')),
            ("-a", Shape::Text),
            ("**bold** a", Shape::Text),
            ("12. a", Shape::Item(Marker::Number)),
            ("3) a", Shape::Item(Marker::Number)),
            ("1984. a", Shape::Text),
            ("a) b", Shape::Item(Marker::Letter)),
            ("(iv) b", Shape::Item(Marker::Letter)),
            ("(see) b", Shape::Text),
        ] {
            assert_eq!(shape(line), expected, "{line:?}");
        }
    }
}
