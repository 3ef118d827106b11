//! Markup inside of a text whose format is not known: tags and references of HTML, links and images of Markdown, numbers of
//! footnotes, and words that a line break divides. Everything is recognised by itself, within a bounded number of bytes.

use std::sync::LazyLock;

use rustc_hash::FxHashSet;

use crate::runtime::call::unstopped;
use crate::text::formats::{Document, Format};
use crate::text::page::boundary_from;

/// A part of a source that shows no text of its own.
pub(super) enum Markup {
    Skipped {
        end: usize,
        /// Whether words on both sides of it are apart.
        is_break: bool,
    },
    /// The tags `<sup>` and `</sup>`.
    Superscript { end: usize, opens: bool },
    /// Perhaps a reference of HTML, which [`referred`] knows.
    Reference { end: usize },
    /// The start of what is not shown.
    Hidden { end: usize, element: Hidden },
    /// A hyphen at the end of a line, with the white space after it.
    BrokenWord { end: usize },
}

/// What is not shown up to its end.
#[derive(Clone, Copy)]
pub(super) enum Hidden {
    Script,
    Style,
    Comment,
}

const LONGEST_TAG: usize = 4000;
const LONGEST_ADDRESS: usize = 1000;
const LONGEST_LABEL: usize = 300;
const LONGEST_REFERENCE: usize = 34;
const LONGEST_NOTE: usize = 24;
/// Bytes of a quote's marks before a sign that may be one of them.
const FARTHEST_LINE_START: usize = 16;

/// Tags inside of a line: words go on through them.
const INLINE: &str = "a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd label mark nobr q rp rt ruby s samp \
    small span strike strong sub sup time tt u var wbr";

/// Tags between words.
const BLOCKS: &str = "address article aside audio blockquote body br button canvas caption center col colgroup dd details \
    dialog dir div dl dt fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html \
    iframe img input legend li link main map math menu meta nav noscript object ol optgroup option p param picture pre progress \
    script section select source style summary svg table tbody td template textarea tfoot th thead title tr track ul video";

/// Notes in brackets that have no number.
const NOTES: [&str; 6] = ["citation needed", "edit", "sic", "clarification needed", "who?", "when?"];

/// The markup that begins with an ASCII character.
pub(super) fn read(text: &str, at: usize) -> Option<Markup> {
    match text.as_bytes()[at] {
        b'<' => tag(text, at),
        b'&' => reference_end(text, at).map(|end| Markup::Reference { end }),
        b'[' => bracketed_note(text, at).map(|end| Markup::Skipped { end, is_break: false }),
        b']' => link_target_end(text, at + 1).map(|end| Markup::Skipped { end, is_break: false }),
        b'!' => image_end(text, at).map(|end| Markup::Skipped { end, is_break: true }),
        b'-' => line_wrap_end(text, at + 1).map(|end| Markup::BrokenWord { end }),
        _ => None,
    }
}

/// The text from a position to a number of bytes later.
fn ahead(text: &str, from: usize, bytes: usize) -> &str {
    text.get(from..boundary_from(text, from.saturating_add(bytes))).unwrap_or_default()
}

fn tag(text: &str, at: usize) -> Option<Markup> {
    static KNOWN_INLINE: LazyLock<FxHashSet<&str>> = LazyLock::new(|| INLINE.split_whitespace().collect());
    static KNOWN_BLOCKS: LazyLock<FxHashSet<&str>> = LazyLock::new(|| BLOCKS.split_whitespace().collect());
    let rest = ahead(text, at, LONGEST_TAG);
    if rest.starts_with("<!--") {
        return Some(Markup::Hidden { end: at + 4, element: Hidden::Comment });
    }
    if rest.get(..9).is_some_and(|start| start.eq_ignore_ascii_case("<!doctype")) {
        return Some(Markup::Skipped { end: at + rest.find('>')? + 1, is_break: true });
    }
    let name = rest[1..].trim_start_matches('/');
    let opens = name.len() + 1 == rest.len();
    let name = &name[..name.find(|c: char| !c.is_ascii_alphanumeric())?];
    let after = &rest[rest.len() - (rest.len() - 1 - usize::from(!opens)) + name.len()..];
    if name.is_empty() || name.len() > 12 || !after.starts_with(['>', '/', ' ', '\n', '\t', '\r']) {
        return None;
    }
    let end = at + rest.len() - after.len() + tag_end(after)?;
    let name = name.to_ascii_lowercase();
    if name == "sup" {
        return Some(Markup::Superscript { end, opens });
    }
    match name.as_str() {
        "script" if opens => return Some(Markup::Hidden { end, element: Hidden::Script }),
        "style" if opens => return Some(Markup::Hidden { end, element: Hidden::Style }),
        _ => {}
    }
    let is_break = KNOWN_BLOCKS.contains(name.as_str());
    (is_break || KNOWN_INLINE.contains(name.as_str())).then_some(Markup::Skipped { end, is_break })
}

/// The end of a tag: its first `>` outside of quotes, or the first one if a quote is open.
fn tag_end(attributes: &str) -> Option<usize> {
    let mut quote = None;
    for (at, byte) in attributes.bytes().enumerate() {
        match (quote, byte) {
            (None, b'>') => return Some(at + 1),
            (None, b'<') => return None,
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), _) if open == byte => quote = None,
            _ => {}
        }
    }
    attributes.find('>').map(|at| at + 1)
}

/// The end of what is not shown, if it is closed.
pub(super) fn hidden_end(text: &str, start: usize, element: Hidden) -> Option<usize> {
    let name = match element {
        Hidden::Script => "script",
        Hidden::Style => "style",
        Hidden::Comment => return text[start..].find("-->").map(|end| start + end + 3),
    };
    let mut at = start;
    while let Some(found) = text[at..].find("</") {
        at += found + 2;
        if text.get(at..at + name.len()).is_some_and(|closing| closing.eq_ignore_ascii_case(name)) {
            return text[at..].find('>').map(|end| at + end + 1);
        }
    }
    None
}

/// The end of what may be a reference.
fn reference_end(text: &str, at: usize) -> Option<usize> {
    let length = ahead(text, at, LONGEST_REFERENCE).find(';')? + 1;
    let name = text[at + 1..at + length - 1].trim_start_matches('#');
    (!name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric())).then_some(at + length)
}

/// The text of a reference such as `&amp;`, as the reader of HTML has it; `None` if there is no such reference.
pub(super) fn referred(reference: &str) -> Option<String> {
    // White space would not survive alone at the edge of a page.
    let page = format!("<pre>-{reference}-</pre>");
    let document = Document::read(&page, Format::Html, &unstopped).ok()?;
    let text = document.text().trim_end().strip_prefix('-')?.strip_suffix('-')?;
    (text != reference).then(|| text.to_owned())
}

/// The end of `(address "title")` or `[label]` at a position.
fn link_target_end(text: &str, at: usize) -> Option<usize> {
    match text.as_bytes().get(at)? {
        b'(' => {
            let mut depth = 0_usize;
            let address = ahead(text, at, LONGEST_ADDRESS);
            for (length, byte) in address.bytes().enumerate() {
                match byte {
                    b'(' => depth += 1,
                    b')' if depth == 1 => return Some(at + length + 1),
                    b')' => depth -= 1,
                    // A title may stand on the next line.
                    b'\n' if address[length + 1..].trim_start_matches([' ', '\t', '\r']).starts_with('\n') => {
                        return None;
                    }
                    b'[' | b']' => return None,
                    _ => {}
                }
            }
            None
        }
        b'[' => {
            let label = ahead(text, at, LONGEST_LABEL);
            let end = label.find([']', '\n'])?;
            (label.as_bytes()[end] == b']').then_some(at + end + 1)
        }
        _ => None,
    }
}

/// The end of `![text](address)`.
fn image_end(text: &str, at: usize) -> Option<usize> {
    if text.as_bytes().get(at + 1) != Some(&b'[') {
        return None;
    }
    let label = ahead(text, at + 2, LONGEST_LABEL);
    let end = label.find([']', '\n'])?;
    if label.as_bytes()[end] == b']' { link_target_end(text, at + 2 + end + 1) } else { None }
}

/// The end of the number or letter of a note in brackets, such as `[12]`, `[^a]` or `[citation needed]`, with the address
/// that it may link to.
fn bracketed_note(text: &str, at: usize) -> Option<usize> {
    let rest = ahead(text, at + 1, LONGEST_NOTE);
    let length = rest.find(']')?;
    let inside = rest[..length].trim_matches(['\\', ' ']);
    let end = at + 1 + length + 1;
    let goes_on = text[end..].chars().next().is_some_and(char::is_alphabetic);
    let number = inside.trim_start_matches("note ").trim_start_matches("nb ");
    let is_number = number.bytes().any(|byte| byte.is_ascii_digit())
        && number.chars().all(|c| c.is_ascii_digit() || matches!(c, ',' | ' ' | '-' | '–'));
    let is_link = text[end..].starts_with('(');
    let is_letter = inside.len() == 1 && inside.as_bytes()[0].is_ascii_lowercase() && !goes_on && !is_link;
    let is_note = is_number || is_letter || inside.starts_with('^') || NOTES.contains(&inside);
    is_note.then(|| link_target_end(text, end).unwrap_or(end))
}

/// The end of the digits at a position if they number a footnote right after a sentence's mark, or an item of a list.
pub(super) fn note_number_end(text: &str, at: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let digits = bytes[at..].iter().take(4).take_while(|byte| byte.is_ascii_digit()).count();
    let end = at + digits;
    if digits > 3 {
        return None;
    }
    let before = &text[..at];
    let line = before.trim_end_matches([' ', '\t', '>', '*', '#']);
    if line.is_empty() || line.ends_with('\n') {
        let is_mark = matches!(bytes.get(end), Some(b'.' | b')')) && matches!(bytes.get(end + 1), Some(b' ' | b'\t'));
        return is_mark.then_some(end);
    }
    if bytes.get(end).is_some_and(|byte| !byte.is_ascii_whitespace() && *byte != b'<') {
        return None;
    }
    let word = before.trim_end_matches(['.', ',', ';', ':', '!', '?', '"', '”', '’', ')', '»']);
    let ends_sentence =
        word.len() < before.len() && word.chars().rev().take(3).filter(|c| c.is_alphabetic()).count() == 3;
    ends_sentence.then_some(end)
}

/// After a hyphen that ends a line in a word: where the word goes on.
pub(super) fn line_wrap_end(text: &str, after: usize) -> Option<usize> {
    let mut before = text[..after].chars().rev();
    if before.next().is_none() || !before.next().is_some_and(char::is_alphanumeric) {
        return None;
    }
    let rest = text[after..].trim_start_matches([' ', '\t', '\r']);
    let next = rest.strip_prefix('\n')?.trim_start_matches([' ', '\t', '>', '|']);
    next.starts_with(char::is_alphabetic).then_some(text.len() - next.len())
}

/// Whether the sign from `at` to `end` compares a number: it does not begin a line, as a quote's mark does.
pub(super) fn compares_number(text: &str, at: usize, end: usize) -> bool {
    let mut before = text[..at].bytes().rev().take(FARTHEST_LINE_START);
    let begins_line = before.find(|byte| !matches!(byte, b' ' | b'\t' | b'>')).is_none_or(|byte| byte == b'\n');
    !begins_line && text[end..].trim_start_matches([' ', '=']).starts_with(|c: char| c.is_ascii_digit())
}
