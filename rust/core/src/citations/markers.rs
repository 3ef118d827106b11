//! Markers of sources in a written text: `[1]`, `[1, 2]`, `[1-3]`, `【2】`, `[^4]`, `[doc-3]`, and links.

use rustc_hash::FxHashMap;

use crate::error::Result;
use crate::runtime::call::{Check, Checkpoints};
use crate::text::page::ByteSpan;

/// A marker with one of its labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Marker {
    /// The whole marker.
    pub(super) span: ByteSpan,
    pub(super) label: String,
    /// Index of the page that it means.
    pub(super) page: Option<usize>,
}

/// What labels may mean.
#[derive(Clone, Copy, Debug)]
pub struct Sources<'call> {
    /// Of each page, or empty.
    pub ids: &'call [Option<String>],
    /// Of each page, or empty.
    pub titles: &'call [Option<&'call str>],
    /// The page of each number, from 1 on; without it, numbers count the pages.
    pub numbers: Option<&'call [usize]>,
    pub pages: usize,
}

/// The longest text between brackets, and the longest address.
const LONGEST_LABEL: usize = 300;
const LONGEST_ADDRESS: usize = 2000;

/// Pages that `[1-9]` may name.
const LONGEST_RANGE: usize = 20;

/// Marks and markers before the first word of a line.
const LONGEST_LINE_START: usize = 64;

/// Digits of a number that may be a source's: `[2020]` is a year in a quotation.
const MOST_DIGITS: usize = 3;

/// The markers of a text, in their order, and the text with as many bytes where markers are white space. Of a link with
/// words, the words stay.
///
/// # Errors
/// Those of `check`.
pub(super) fn read_markers(text: &str, sources: &Sources, check: &Check) -> Result<(Vec<Marker>, String)> {
    let sources = &Names::new(sources);
    let mut checkpoints = Checkpoints::new(check);
    let mut masked = text.to_owned().into_bytes();
    let mut blank = |span: ByteSpan| blank(&mut masked[span.start..span.end], begins_line(text, span.start));
    let (mut markers, mut at) = (Vec::new(), 0);
    let mut definitions: FxHashMap<String, Option<usize>> = FxHashMap::default();
    while let Some(open) = text[at..].find(['[', '【', '<']).map(|found| at + found) {
        checkpoints.reach(open)?;
        let opening = text[open..].chars().next().map_or(1, char::len_utf8);
        let inner = open + opening;
        at = inner;
        let is_escaped = text[..open].ends_with('\\') || text[..open].ends_with('!');
        if text[open..].starts_with('<') {
            let Some(end) = end_of(text, inner, '>', LONGEST_ADDRESS) else { continue };
            let address = &text[inner..end];
            if address.starts_with("http://") || address.starts_with("https://") {
                let span = ByteSpan { start: open, end: end + 1 };
                markers.push(Marker { span, label: address.to_owned(), page: sources.named(address) });
                blank(span);
                at = span.end;
            }
            continue;
        }
        let closing = if opening > 1 { '】' } else { ']' };
        let Some(close) = end_of(text, inner, closing, LONGEST_LABEL) else { continue };
        let end = close + closing.len_utf8();
        let label = text[inner..close].trim();
        let target = link_target(text, end);
        if is_escaped {
            continue;
        }
        if let Some(address) = definition(text, open, end) {
            // A footnote's text, or the address of a label: it claims nothing.
            let page = sources.named(address.of(text).trim()).or_else(|| sources.labelled(label));
            definitions.insert(label.trim_start_matches('^').to_owned(), page);
            blank(ByteSpan { start: open, end: address.end });
            at = address.end;
            continue;
        }
        let labels = labels(label, sources);
        match (target, labels) {
            (Some(target), labels) => {
                let address = target.of(text).split_whitespace().next().unwrap_or_default();
                let span = ByteSpan { start: open, end: target.end + 1 };
                let page = sources.named(address).or_else(|| labels.as_ref().and_then(|labels| labels.first()?.1));
                markers.push(Marker { span, label: address.to_owned(), page });
                if labels.is_some() {
                    blank(span);
                } else {
                    blank(ByteSpan { start: open, end: inner });
                    blank(ByteSpan { start: close, end: span.end });
                }
                at = span.end;
            }
            (None, Some(labels)) => {
                let span = ByteSpan { start: open, end };
                markers.extend(labels.into_iter().map(|(label, page)| Marker { span, label, page }));
                blank(span);
                at = end;
            }
            (None, None) => {}
        }
    }
    for marker in &mut markers {
        marker.page = definitions.get(&marker.label).copied().flatten().or(marker.page);
    }
    Ok((markers, String::from_utf8(masked).unwrap_or_else(|_| text.to_owned())))
}

/// Fills a part of a text with white space. At the start of a line that is em spaces, for four spaces make code of Markdown.
fn blank(part: &mut [u8], begins_line: bool) {
    const EM_SPACE: &[u8] = "\u{2003}".as_bytes();
    let ems = if begins_line { part.len() / EM_SPACE.len() * EM_SPACE.len() } else { 0 };
    let (before, after) = part.split_at_mut(ems);
    before.chunks_exact_mut(EM_SPACE.len()).for_each(|space| space.copy_from_slice(EM_SPACE));
    after.fill(b' ');
}

/// Whether only marks stand before a place on its line.
pub(super) fn begins_line(text: &str, at: usize) -> bool {
    let mut before = text[..at].chars().rev();
    let decides = |c: &char| *c == '\n' || c.is_alphanumeric();
    match before.by_ref().take(LONGEST_LINE_START).find(decides) {
        Some(c) => c == '\n',
        None => before.next().is_none(),
    }
}

/// The address of `(address "title")` right after a label.
fn link_target(text: &str, at: usize) -> Option<ByteSpan> {
    let inner = text[at..].starts_with('(').then_some(at + 1)?;
    let mut depth = 0_usize;
    for (place, byte) in text.as_bytes()[inner..].iter().take(LONGEST_ADDRESS).enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' if depth == 0 => return Some(ByteSpan { start: inner, end: inner + place }),
            b')' => depth -= 1,
            b'\n' => return None,
            _ => {}
        }
    }
    None
}

/// The rest of the line of `[label]: …` or `[^label]: …` at a line's start.
fn definition(text: &str, open: usize, end: usize) -> Option<ByteSpan> {
    let before = text[..open].trim_end_matches([' ', '\t']);
    let begins_line = before.is_empty() || before.ends_with('\n');
    let start = (begins_line && text[end..].starts_with(':')).then_some(end + 1)?;
    let length = text[start..].find('\n').unwrap_or(text.len() - start);
    Some(ByteSpan { start, end: start + length })
}

fn end_of(text: &str, at: usize, close: char, most: usize) -> Option<usize> {
    for (place, c) in text[at..].char_indices().take_while(|(place, _)| *place <= most) {
        match c {
            _ if c == close => return Some(at + place),
            '\n' | '[' | '<' => return None,
            _ => {}
        }
    }
    None
}

/// The labels between brackets with their pages; `None` if these are words.
fn labels(inside: &str, sources: &Names) -> Option<Vec<(String, Option<usize>)>> {
    if let Some(page) = sources.named(inside) {
        return Some(vec![(inside.to_owned(), Some(page))]);
    }
    let mut labels = Vec::new();
    for part in inside.split([',', ';']) {
        let part = part.trim().trim_start_matches('^');
        if let Some((first, last)) = part.split_once(['-', '–']).and_then(|(a, b)| Some((number(a)?, number(b)?)))
            && first <= last
            && last - first < LONGEST_RANGE
        {
            labels.extend((first..=last).map(|number| (number.to_string(), sources.numbered(number))));
        } else {
            let page = sources.labelled(part);
            let is_label = page.is_some() || number(part).is_some() || numbered_word(part).is_some();
            labels.push(is_label.then(|| (part.to_owned(), page))?);
        }
    }
    (!labels.is_empty()).then_some(labels)
}

fn number(text: &str) -> Option<usize> {
    let text = text.trim();
    let is_number = !text.is_empty() && text.len() <= MOST_DIGITS && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

/// The number of `doc-3`, `source 3`, `4:0†source`.
fn numbered_word(text: &str) -> Option<usize> {
    if let Some((number_part, _)) = text.split_once('†') {
        return number(number_part.split(':').next().unwrap_or_default());
    }
    let word = text.trim_end_matches(|c: char| c.is_ascii_digit());
    let name = word.trim_end_matches(['-', '_', ' ', '#', ':']).to_lowercase();
    let known =
        ["doc", "document", "source", "src", "page", "ref", "passage", "chunk", "context", "text", "quelle", "fuente"];
    (known.contains(&name.as_str())).then(|| number(&text[word.len()..]))?
}

/// The pages by their ids and titles.
struct Names<'call> {
    sources: &'call Sources<'call>,
    pages: FxHashMap<String, usize>,
}

impl<'call> Names<'call> {
    fn new(sources: &'call Sources<'call>) -> Self {
        let ids = sources.ids.iter().map(Option::as_deref).enumerate();
        let mut pages = FxHashMap::default();
        for (page, name) in ids.chain(sources.titles.iter().copied().enumerate()) {
            if let Some(name) = name.map(plain_name).filter(|name| !name.is_empty()) {
                pages.entry(name).or_insert(page);
            }
        }
        Self { sources, pages }
    }

    fn numbered(&self, number: usize) -> Option<usize> {
        let place = number.checked_sub(1)?;
        match self.sources.numbers {
            Some(numbers) => numbers.get(place).copied().filter(|page| *page < self.sources.pages),
            None => (place < self.sources.pages).then_some(place),
        }
    }

    /// The page with an id or a title; the address of a link may lack its scheme or the last slash.
    fn named(&self, name: &str) -> Option<usize> {
        self.pages.get(&plain_name(name)).copied()
    }

    fn labelled(&self, label: &str) -> Option<usize> {
        let number = || number(label).or_else(|| numbered_word(label));
        self.named(label).or_else(|| self.numbered(number()?))
    }
}

fn plain_name(name: &str) -> String {
    let name = name.trim().to_lowercase();
    let name = name.strip_prefix("https://").or_else(|| name.strip_prefix("http://")).unwrap_or(&name);
    name.trim_start_matches("./").trim_end_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::call::unstopped;

    const IDS: [&str; 3] = ["moon", "doc-3", "https://a.example/b"];

    fn read(text: &str) -> (Vec<(String, Option<usize>)>, String) {
        let ids = IDS.map(|id| Some(id.to_owned()));
        let sources = Sources { ids: &ids, titles: &[], numbers: None, pages: 3 };
        let (markers, masked) = read_markers(text, &sources, &unstopped).unwrap();
        (markers.into_iter().map(|marker| (marker.label, marker.page)).collect(), masked)
    }

    #[test]
    fn markers_of_all_forms_are_read_with_their_pages() {
        let one = |label: &str, page| vec![(label.to_owned(), page)];
        for (text, expected) in [
            ("a [1].", one("1", Some(0))),
            ("a [9]", one("9", None)),
            ("a [1][2]", [one("1", Some(0)), one("2", Some(1))].concat()),
            ("a [1, 3]", [one("1", Some(0)), one("3", Some(2))].concat()),
            ("a [1-2]", [one("1", Some(0)), one("2", Some(1))].concat()),
            ("a 【2】 [^1]", [one("2", Some(1)), one("1", Some(0))].concat()),
            ("a [doc-3]", one("doc-3", Some(1))),
            ("a [source 3]", one("source 3", Some(2))),
            ("a [Moon] b", one("Moon", Some(0))),
            ("a [the b](http://a.example/b/ \"t\")", one("http://a.example/b/", Some(2))),
            ("a [1](moon)", one("moon", Some(0))),
            ("a [x](https://other)", one("https://other", None)),
            ("a <https://a.example/b>", one("https://a.example/b", Some(2))),
            ("a [x] [sic] [2020] [...] \\[1] ![1](x)", Vec::new()),
            ("a [7].\n\n[7]: https://a.example/b", one("7", Some(2))),
        ] {
            assert_eq!(read(text).0, expected, "{text}");
        }
    }

    #[test]
    fn masked_text_has_the_words_of_links_and_no_marker() {
        let (_, masked) = read("See [the b](moon) 【1】 now [1, 2].");
        assert_eq!(masked.split_whitespace().collect::<Vec<_>>(), ["See", "the", "b", "now", "."]);
        assert_eq!(masked.len(), "See [the b](moon) 【1】 now [1, 2].".len());
    }
}
