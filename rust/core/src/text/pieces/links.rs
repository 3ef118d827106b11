//! Links and code inside a line: what is one thing to its reader, however many full stops it holds.
//!
//! Markdown's links, images and code spans; bare addresses of the web and of mail. No sentence ends inside one, and no
//! long sentence is cut there unless the link alone is too long. A text is walked once, each look ahead is bounded, and
//! so is how many of them can see the same byte.

use super::marks::{is_closing, is_east_asian, is_opening, is_terminal};
use crate::text::page::ByteSpan;

/// The bytes of the longest link; whatever is longer is no link that a reader sees as one thing.
const LONGEST: usize = 2000;

/// How deep brackets are nested, and the parentheses of an address; deeper ones are an attack and not a text.
const DEEPEST: usize = 32;

/// The bytes of the longest name of a scheme or of a mailbox that is looked for, backwards.
const LONGEST_NAME: usize = 64;

/// The bytes that are looked at together where nothing tells of a link.
const CHUNK: usize = 64;

/// One link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) span: ByteSpan,
    /// Where the text ends that a reader sees of a Markdown link, with the brackets around its address behind it: at the
    /// end of the link where there is no address of that kind.
    pub(super) text_end: usize,
}

/// The links of a text, ordered and disjoint.
pub(super) struct Links(Vec<Link>);

impl Links {
    /// Walks the text once.
    pub(super) fn of(text: &str) -> Self {
        let mut finder = Finder { text, opens: Vec::new(), found: Vec::new() };
        let mut at = 0;
        while let Some(next) = next_telling(text.as_bytes(), at) {
            at = finder.look(next);
        }
        Self(finder.found)
    }

    /// The link that a position lies inside of; its ends are outside.
    pub(super) fn around(&self, position: usize) -> Option<Link> {
        let link = self.0.get(self.0.partition_point(|link| link.span.end <= position))?;
        (link.span.start < position).then_some(*link)
    }

    /// Where a sentence may end whose end was seen at a position: there, or behind the address of the link whose text ends
    /// there; nowhere inside a link.
    pub(super) fn outside(&self, position: usize) -> Option<usize> {
        match self.around(position) {
            None => Some(position),
            Some(link) => (link.text_end <= position && position <= link.text_end + 1).then_some(link.span.end),
        }
    }

    /// The link whose address ends at a position.
    pub(super) fn ending_at(&self, position: usize) -> Option<Link> {
        let found = self.0.binary_search_by_key(&position, |link| link.span.end).ok()?;
        Some(self.0[found]).filter(|link| link.text_end < link.span.end)
    }
}

/// Whether a link may be found by a look at this byte.
const fn may_tell(byte: u8) -> bool {
    matches!(byte, b'[' | b']' | b'`' | b':' | b'@' | b'\\')
}

/// The next byte that may tell; most texts have none, so that whole chunks are looked at in a few instructions each.
fn next_telling(bytes: &[u8], at: usize) -> Option<usize> {
    let tells = |chunk: &[u8]| chunk.iter().fold(false, |tells, &byte| tells | may_tell(byte));
    let skipped = bytes[at..].chunks(CHUNK).take_while(|chunk| !tells(chunk)).count() * CHUNK;
    let found = bytes.get(at + skipped..)?.iter().position(|&byte| may_tell(byte))?;
    Some(at + skipped + found)
}

struct Finder<'text> {
    text: &'text str,
    /// The brackets that are open.
    opens: Vec<usize>,
    found: Vec<Link>,
}

impl Finder<'_> {
    /// Looks at the byte at a position; returns where to go on.
    fn look(&mut self, at: usize) -> usize {
        let bytes = self.text.as_bytes();
        let link = match bytes[at] {
            // What is escaped opens nothing.
            b'\\' => return at + 1 + usize::from(bytes.get(at + 1).is_some_and(u8::is_ascii_punctuation)),
            b'[' => {
                if self.opens.len() == DEEPEST {
                    self.opens.clear();
                }
                self.opens.push(at);
                return at + 1;
            }
            b']' => self.opens.pop().and_then(|open| self.markdown(open, at)),
            b'`' => {
                let run = run_length(bytes, at);
                match code_end(self.text, at, run) {
                    Some(end) => Some(whole(at, end)),
                    None => return at + run,
                }
            }
            b':' => self.address(at),
            _ => self.mailbox(at),
        };
        let Some(mut link) = link else { return at + 1 };
        // An image inside a link is part of it.
        while self.found.last().is_some_and(|inner| inner.span.start >= link.span.start) {
            self.found.pop();
        }
        let marks_image = link.span.start > self.known_end() && bytes[link.span.start - 1] == b'!';
        if marks_image && bytes[link.span.start] == b'[' {
            link.span.start -= 1;
        }
        self.found.push(link);
        link.span.end
    }

    /// Where the links found so far end.
    fn known_end(&self) -> usize {
        self.found.last().map_or(0, |link| link.span.end)
    }

    /// The Markdown link whose text lies in these brackets: `[text](address "title")`, `[text][name]`.
    fn markdown(&self, open: usize, close: usize) -> Option<Link> {
        let bytes = self.text.as_bytes();
        let end = match bytes.get(close + 1)? {
            b'(' => destination_end(self.text, close + 2)?,
            b'[' => name_end(bytes, close + 2)?,
            _ => return None,
        };
        (end - open <= LONGEST).then_some(Link { span: ByteSpan { start: open, end }, text_end: close })
    }

    /// The address of the web whose scheme ends with this colon, in angle brackets or bare.
    fn address(&self, colon: usize) -> Option<Link> {
        let rest = self.text[colon..].strip_prefix("://")?;
        let is_name = |byte: u8| byte.is_ascii_alphabetic();
        let start = name_start(self.text, colon, self.known_end(), is_name)?;
        let longest = rest.char_indices().take_while(|&(at, c)| at < LONGEST && is_in_address(c));
        let end = longest.last().map_or(0, |(at, c)| at + c.len_utf8());
        let address = &rest[..end];
        let closing_mark = |c| matches!(c, '.' | ',' | ';' | ':' | '!' | '?' | '\'' | '*' | '_');
        let mut kept = address.trim_end_matches(closing_mark);
        // The bracket around an address is not part of it, one inside is: `(see https://a.b/c_(d))`.
        let mut around = kept.matches(')').count().saturating_sub(kept.matches('(').count());
        while around > 0 && kept.ends_with(')') {
            kept = kept[..kept.len() - 1].trim_end_matches(closing_mark);
            around -= 1;
        }
        (!kept.is_empty()).then(|| whole(start, colon + "://".len() + kept.len()))
    }

    /// The address of mail around this sign.
    fn mailbox(&self, at: usize) -> Option<Link> {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'%' | b'+' | b'-');
        let start = name_start(self.text, at, self.known_end(), is_name)?;
        let behind = &self.text[at + 1..];
        let length = behind.bytes().take(4 * LONGEST_NAME).take_while(|&byte| is_name(byte)).count();
        let host = behind[..length].trim_end_matches(['.', '-', '_', '%', '+']);
        host.contains('.').then(|| whole(start, at + 1 + host.len()))
    }
}

/// A link without an address behind its text.
const fn whole(start: usize, end: usize) -> Link {
    Link { span: ByteSpan { start, end }, text_end: end }
}

/// Whether this may stand in a bare address: all but white space and what text around it is set off with.
fn is_in_address(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_graphic() && !matches!(c, '<' | '>' | '"' | '`' | '[' | ']' | '{' | '}' | '|' | '\\' | '^');
    }
    // Chinese, Japanese and Korean go on behind an address without a space.
    !(c.is_whitespace() || is_terminal(c) || is_opening(c) || is_closing(c) || is_east_asian(c))
}

/// Where the name begins that ends at a position; nothing where none does, or where it is too long for one.
fn name_start(text: &str, end: usize, earliest: usize, is_name: impl Fn(u8) -> bool) -> Option<usize> {
    let before = &text.as_bytes()[earliest.max(end.saturating_sub(LONGEST_NAME))..end];
    let length = before.iter().rev().take_while(|&&byte| is_name(byte)).count();
    (length > 0).then_some(end - length)
}

/// How many of the same byte stand at a position.
fn run_length(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().take_while(|&&byte| byte == bytes[at]).count()
}

/// Where the code ends that this run of backticks opens: behind the next run of the same length.
///
/// Backticks are also written as quotes: `` `so'``, ``` ``so'' ```. There the next run of that length opens another.
fn code_end(text: &str, open: usize, run: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let limit = bytes.len().min(open.saturating_add(LONGEST));
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

/// Where the round brackets end that hold the address of a link, and perhaps its title.
///
/// An address holds no white space unless in angle brackets. One that is never closed is given up at the depth of its
/// brackets, so that of many openings in a row few see the same byte.
fn destination_end(text: &str, start: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let bytes = &bytes[..bytes.len().min(start.saturating_add(LONGEST))];
    let mut at = start + bytes.get(start..)?.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    if bytes.get(at) == Some(&b'<') {
        let inside = &bytes[at + 1..];
        let length = inside.iter().position(|byte| matches!(byte, b'>' | b'<'))?;
        at += 1 + length + 1;
    } else {
        let mut depth = 0;
        while let Some(&byte) = bytes.get(at) {
            match byte {
                b'(' if depth == DEEPEST => return None,
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

/// Where the square brackets end that name the address of a link.
fn name_end(bytes: &[u8], start: usize) -> Option<usize> {
    let length = bytes[start..].iter().take(LONGEST_NAME).position(|&byte| matches!(byte, b']' | b'['))?;
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
            let found: Vec<&str> = Links::of(text).0.iter().map(|link| link.span.of(text)).collect();
            assert_eq!(found, expected, "{text:?}");
        }
    }

    #[test]
    fn a_position_is_inside_a_link_between_its_ends() {
        let links = Links::of("a [b. C](d) `e` f");
        let inside: Vec<usize> = (0..18).filter(|&at| links.around(at).is_some()).collect();
        assert_eq!(inside, [3, 4, 5, 6, 7, 8, 9, 10, 13, 14]);
        assert_eq!(links.ending_at(11).map(|link| link.text_end), Some(7));
        assert_eq!((links.ending_at(15), links.ending_at(4)), (None, None));
    }

    #[test]
    fn what_is_too_long_is_no_link() {
        let long = "x".repeat(LONGEST);
        for text in [format!("[a](b{long})"), format!("[{long}](b)"), format!("`{long}`")] {
            assert!(Links::of(&text).0.is_empty());
        }
        assert!(Links::of(&format!("{}a{}", "[".repeat(9000), "](b)".repeat(9000))).0.len() <= DEEPEST);
    }

    proptest! {
        #[test]
        fn links_are_ordered_and_disjoint(text in "[a.é。 \\[\\]()`:/@!<>\"'\\\\]{0,60}|(\\[a|\\]\\(|\\)|https://b|c@d\\.e| |`|é){0,30}") {
            let mut end = 0;
            for link in Links::of(&text).0 {
                prop_assert!(end <= link.span.start && link.span.start < link.span.end);
                prop_assert!(link.text_end <= link.span.end && link.span.end <= text.len());
                prop_assert!(text.is_char_boundary(link.span.start) && text.is_char_boundary(link.span.end));
                end = link.span.end;
            }
        }
    }
}
