//! Links and code inside a line: one thing to the reader, even if it contains full stops.
//!
//! Markdown links, images and code spans; bare web and mail addresses. No sentence ends inside one, and no long
//! sentence is cut there unless the link itself is too long. A text is scanned once. Every lookahead is bounded, and so
//! is the number of them that can pass the same byte.

use super::marks::{is_closing, is_east_asian, is_opening, is_terminal};
use crate::text::page::ByteSpan;

/// Bytes of the longest link. Readers do not see anything longer as one thing.
const MAX_LINK_BYTES: usize = 2000;

/// Nesting of brackets, and of parentheses in an address. Deeper nesting only occurs in attacks.
const MAX_DEPTH: usize = 32;

/// Bytes of the longest scheme or mailbox, which is searched backwards.
const MAX_NAME_BYTES: usize = 64;

/// Bytes that are checked together for the start of a link.
const CHUNK: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) span: ByteSpan,
    /// The end of a Markdown link's visible text; the brackets of its address follow. The link's end if there is no
    /// such address.
    pub(super) text_end: usize,
}

/// Sorted and disjoint.
pub(super) struct Links(Vec<Link>);

impl Links {
    pub(super) fn new(text: &str) -> Self {
        let mut finder = LinkFinder { text, open_brackets: Vec::new(), links: Vec::new() };
        let mut at = 0;
        while let Some(next) = next_link_byte(text.as_bytes(), at) {
            at = finder.scan(next);
        }
        Self(finder.links)
    }

    /// The link that contains a position strictly inside.
    pub(super) fn around(&self, position: usize) -> Option<Link> {
        let link = self.0.get(self.0.partition_point(|link| link.span.end <= position))?;
        (link.span.start < position).then_some(*link)
    }

    /// Where a sentence may end that a mark ends at `position`: there, or after the address of the link whose text ends
    /// there; `None` inside a link.
    pub(super) fn end_outside(&self, position: usize) -> Option<usize> {
        match self.around(position) {
            None => Some(position),
            Some(link) => (link.text_end <= position && position <= link.text_end + 1).then_some(link.span.end),
        }
    }

    /// The link whose address ends at a position.
    pub(super) fn ending_at(&self, position: usize) -> Option<Link> {
        let index = self.0.binary_search_by_key(&position, |link| link.span.end).ok()?;
        Some(self.0[index]).filter(|link| link.text_end < link.span.end)
    }
}

const fn may_be_link(byte: u8) -> bool {
    matches!(byte, b'[' | b']' | b'`' | b':' | b'@' | b'\\')
}

/// The next such byte. Most texts have none, so whole chunks are checked in a few instructions each.
fn next_link_byte(bytes: &[u8], at: usize) -> Option<usize> {
    let has_link_byte = |chunk: &[u8]| chunk.iter().fold(false, |found, &byte| found | may_be_link(byte));
    let skipped = bytes[at..].chunks(CHUNK).take_while(|chunk| !has_link_byte(chunk)).count() * CHUNK;
    let offset = bytes.get(at + skipped..)?.iter().position(|&byte| may_be_link(byte))?;
    Some(at + skipped + offset)
}

struct LinkFinder<'text> {
    text: &'text str,
    open_brackets: Vec<usize>,
    links: Vec<Link>,
}

impl LinkFinder<'_> {
    /// Scans the byte at a position. Returns where to continue.
    fn scan(&mut self, at: usize) -> usize {
        let bytes = self.text.as_bytes();
        let link = match bytes[at] {
            // An escaped character starts no link.
            b'\\' => return at + 1 + usize::from(bytes.get(at + 1).is_some_and(u8::is_ascii_punctuation)),
            b'[' => {
                if self.open_brackets.len() == MAX_DEPTH {
                    self.open_brackets.clear();
                }
                self.open_brackets.push(at);
                return at + 1;
            }
            b']' => self.open_brackets.pop().and_then(|open| self.markdown(open, at)),
            b'`' => {
                let run = run_length(bytes, at);
                match code_end(self.text, at, run) {
                    Some(end) => Some(without_address(at, end)),
                    None => return at + run,
                }
            }
            b':' => self.address(at),
            _ => self.mailbox(at),
        };
        let Some(mut link) = link else { return at + 1 };
        // An image inside a link is part of it.
        while self.links.last().is_some_and(|inner| inner.span.start >= link.span.start) {
            self.links.pop();
        }
        let follows_bang = link.span.start > self.last_end() && bytes[link.span.start - 1] == b'!';
        if follows_bang && bytes[link.span.start] == b'[' {
            link.span.start -= 1;
        }
        self.links.push(link);
        link.span.end
    }

    fn last_end(&self) -> usize {
        self.links.last().map_or(0, |link| link.span.end)
    }

    /// The Markdown link whose text is in these brackets: `[text](address "title")`, `[text][name]`.
    fn markdown(&self, open: usize, close: usize) -> Option<Link> {
        let bytes = self.text.as_bytes();
        let end = match bytes.get(close + 1)? {
            b'(' => destination_end(self.text, close + 2)?,
            b'[' => name_end(bytes, close + 2)?,
            _ => return None,
        };
        (end - open <= MAX_LINK_BYTES).then_some(Link { span: ByteSpan { start: open, end }, text_end: close })
    }

    /// The web address whose scheme ends with this colon, in angle brackets or bare.
    fn address(&self, colon: usize) -> Option<Link> {
        let after = self.text[colon..].strip_prefix("://")?;
        let is_name = |byte: u8| byte.is_ascii_alphabetic();
        let start = name_start(self.text, colon, self.last_end(), is_name)?;
        let longest = after.char_indices().take_while(|&(at, c)| at < MAX_LINK_BYTES && is_in_address(c));
        let end = longest.last().map_or(0, |(at, c)| at + c.len_utf8());
        let address = &after[..end];
        let closing_mark = |c| matches!(c, '.' | ',' | ';' | ':' | '!' | '?' | '\'' | '*' | '_');
        let mut trimmed = address.trim_end_matches(closing_mark);
        // A bracket around an address is not part of it; one inside is: `(see https://a.b/c_(d))`.
        let mut unopened = trimmed.matches(')').count().saturating_sub(trimmed.matches('(').count());
        while unopened > 0 && trimmed.ends_with(')') {
            trimmed = trimmed[..trimmed.len() - 1].trim_end_matches(closing_mark);
            unopened -= 1;
        }
        (!trimmed.is_empty()).then(|| without_address(start, colon + "://".len() + trimmed.len()))
    }

    /// The mail address around this `@`.
    fn mailbox(&self, at: usize) -> Option<Link> {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'%' | b'+' | b'-');
        let start = name_start(self.text, at, self.last_end(), is_name)?;
        let after = &self.text[at + 1..];
        let length = after.bytes().take(4 * MAX_NAME_BYTES).take_while(|&byte| is_name(byte)).count();
        let host = after[..length].trim_end_matches(['.', '-', '_', '%', '+']);
        host.contains('.').then(|| without_address(start, at + 1 + host.len()))
    }
}

/// A link that is visible as a whole.
const fn without_address(start: usize, end: usize) -> Link {
    Link { span: ByteSpan { start, end }, text_end: end }
}

/// Whether a bare address may contain this: not white space, nor the marks that text puts around addresses.
fn is_in_address(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_graphic() && !matches!(c, '<' | '>' | '"' | '`' | '[' | ']' | '{' | '}' | '|' | '\\' | '^');
    }
    // Chinese, Japanese and Korean text continues after an address without a space.
    !(c.is_whitespace() || is_terminal(c) || is_opening(c) || is_closing(c) || is_east_asian(c))
}

/// The start of the name that ends at a position; `None` if there is none, or it is too long.
fn name_start(text: &str, end: usize, earliest: usize, is_name: impl Fn(u8) -> bool) -> Option<usize> {
    let before = &text.as_bytes()[earliest.max(end.saturating_sub(MAX_NAME_BYTES))..end];
    let length = before.iter().rev().take_while(|&&byte| is_name(byte)).count();
    (length > 0).then_some(end - length)
}

/// The number of equal bytes from a position on.
fn run_length(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().take_while(|&&byte| byte == bytes[at]).count()
}

/// The end of the code span that a run of backticks opens: after the next run of the same length.
///
/// Backticks are also quotes: `` `so'``, ``` ``so'' ```. The next run of that length then opens another quote.
fn code_end(text: &str, open: usize, run: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let limit = bytes.len().min(open.saturating_add(MAX_LINK_BYTES));
    let mut at = open + run;
    while let Some(step) = bytes.get(at..limit)?.iter().position(|&byte| byte == b'`') {
        at += step;
        let length = run_length(bytes, at);
        if length == run {
            let inside = &bytes[open + run..at];
            let opens_another = bytes[at - 1].is_ascii_whitespace()
                && bytes.get(at + run).is_some_and(|&byte| !byte.is_ascii() || byte.is_ascii_alphanumeric());
            let is_quoted = run == 2 && inside.windows(2).any(|two| two == b"''");
            return (!opens_another && !is_quoted).then_some(at + run);
        }
        at += length;
    }
    None
}

/// The end of the parentheses with a link's address, and perhaps its title.
///
/// An address has no white space unless it is in angle brackets. The search for an unclosed one ends at the maximum
/// depth, so that many openings in a row do not all search the same bytes.
fn destination_end(text: &str, start: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let bytes = &bytes[..bytes.len().min(start.saturating_add(MAX_LINK_BYTES))];
    let mut at = start + bytes.get(start..)?.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    if bytes.get(at) == Some(&b'<') {
        let inside = &bytes[at + 1..];
        let length = inside.iter().position(|byte| matches!(byte, b'>' | b'<'))?;
        at += 1 + length + 1;
    } else {
        let mut depth = 0;
        while let Some(&byte) = bytes.get(at) {
            match byte {
                b'(' if depth == MAX_DEPTH => return None,
                b'(' => depth += 1,
                b')' if depth == 0 => return Some(at + 1),
                b')' => depth -= 1,
                b'\\' => at += 1,
                byte if byte.is_ascii_whitespace() => break,
                _ => {}
            }
            at += 1;
        }
    }
    at += bytes.get(at..)?.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    if let Some(&quote @ (b'"' | b'\'')) = bytes.get(at) {
        at += 1 + bytes[at + 1..].iter().position(|&byte| byte == quote)? + 1;
        at += bytes[at..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    }
    (bytes.get(at) == Some(&b')')).then_some(at + 1)
}

/// The end of the square brackets with the name of a link's address.
fn name_end(bytes: &[u8], start: usize) -> Option<usize> {
    let length = bytes[start..].iter().take(MAX_NAME_BYTES).position(|&byte| matches!(byte, b']' | b'['))?;
    (bytes[start + length] == b']').then_some(start + length + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn links_are_found_whole() {
        let cases: [(&str, &[&str]); 20] = [
            ("See [the A. B](https://x.y/z \"A. B\").", &["[the A. B](https://x.y/z \"A. B\")"]),
            ("![An image. Two](x.png) and", &["![An image. Two](x.png)"]),
            ("[![a. B](b.png)](https://c.d) e", &["[![a. B](b.png)](https://c.d)"]),
            ("[a](https://x.y/b_(c)) d", &["[a](https://x.y/b_(c))"]),
            ("[a]( <b c> 'd' ) e", &["[a]( <b c> 'd' )"]),
            ("[a. B][12] and [c] (d)", &["[a. B][12]"]),
            ("\\[a. B](c)", &[]),
            ("[a](b c) [d](e", &[]),
            ("`a. B` and ``c ` d``, `e", &["`a. B`", "``c ` d``"]),
            ("``Yes.'' He left. ``No.''", &[]),
            ("`Yes.' He left. `No.'", &[]),
            ("<https://a.b/c?d=e.f!g>.", &["https://a.b/c?d=e.f!g"]),
            ("(see https://a.b/c_(d)).", &["https://a.b/c_(d)"]),
            ("at https://a.b/c?d=e.f!g. Then", &["https://a.b/c?d=e.f!g"]),
            ("见https://a.b/ü看https://a.b/c。然后", &["https://a.b/ü", "https://a.b/c"]),
            ("://a :// http:// x", &[]),
            ("[https://a.b/c](https://a.b/c)", &["[https://a.b/c](https://a.b/c)"]),
            ("to anna.b+c@mail.example.com. Then", &["anna.b+c@mail.example.com"]),
            ("@anna and a@b, x@@y", &[]),
            ("[a](mailto:b@c.de) f@g.hi", &["[a](mailto:b@c.de)", "f@g.hi"]),
        ];
        for (text, expected) in cases {
            let links: Vec<&str> = Links::new(text).0.iter().map(|link| link.span.of(text)).collect();
            assert_eq!(links, expected, "{text:?}");
        }
    }

    #[test]
    fn a_position_is_inside_a_link_between_its_ends() {
        let links = Links::new("a [b. C](d) `e` f");
        let inside: Vec<usize> = (0..18).filter(|&at| links.around(at).is_some()).collect();
        assert_eq!(inside, [3, 4, 5, 6, 7, 8, 9, 10, 13, 14]);
        assert_eq!(links.ending_at(11).map(|link| link.text_end), Some(7));
        assert_eq!((links.ending_at(15), links.ending_at(4)), (None, None));
    }

    #[test]
    fn longer_links_and_deeper_brackets_are_no_links() {
        let long = "x".repeat(MAX_LINK_BYTES);
        for text in [format!("[a](b{long})"), format!("[{long}](b)"), format!("`{long}`")] {
            assert!(Links::new(&text).0.is_empty());
        }
        assert!(Links::new(&format!("{}a{}", "[".repeat(9000), "](b)".repeat(9000))).0.len() <= MAX_DEPTH);
    }

    proptest! {
        #[test]
        fn links_are_ordered_and_disjoint(text in "[a.é。 \\[\\]()`:/@!<>\"'\\\\]{0,60}|(\\[a|\\]\\(|\\)|https://b|c@d\\.e| |`|é){0,30}") {
            let mut end = 0;
            for link in Links::new(&text).0 {
                prop_assert!(end <= link.span.start && link.span.start < link.span.end);
                prop_assert!(link.text_end <= link.span.end && link.span.end <= text.len());
                prop_assert!(text.is_char_boundary(link.span.start) && text.is_char_boundary(link.span.end));
                end = link.span.end;
            }
        }
    }
}
