//! Where wrapping ends lines: whether the next word would have fit, and whether a sentence goes on.

use super::abbreviations::{self, last_word};
use super::lines::content;
use super::marks::{is_closing, is_east_asian, is_terminal, without_note};

/// Narrower lines without a full stop, in characters, are a menu or an address instead of wrapped prose.
pub(super) const NARROWEST_WRAP: usize = 30;

/// A paragraph wrapped at that width is at least this wide. In narrower lines, a dash at the start is a list item.
pub(super) const NARROWEST_PARAGRAPH: usize = 20;

/// Whether the next line starts in the middle of a sentence: in lower case, and not after a line of code.
pub(super) fn continues_sentence(line: &str, next: &str) -> bool {
    let is_lowercase = content(next).chars().next().is_some_and(char::is_lowercase);
    is_lowercase && !line.ends_with([';', ':', '{', '}', '[', '>'])
}

/// Whether a hyphen at the line's end splits a word.
pub(super) fn is_hyphenated(line: &str, next: &str) -> bool {
    let word = line.strip_suffix(['-', '\u{2010}', '\u{ad}']);
    word.is_some_and(|word| word.ends_with(char::is_alphabetic)) && content(next).starts_with(char::is_alphabetic)
}

/// Whether a sentence may end with this line, or introduce the next one.
pub(crate) fn ends_sentence(line: &str) -> bool {
    let line = without_note(line).trim_end_matches(is_closing);
    match line.strip_suffix('.') {
        Some(sentence) => abbreviations::rule_of(last_word(sentence)).is_none(),
        None => line.ends_with(|c| is_terminal(c) || c == ':'),
    }
}

/// Whether the next line's first word would have fit on a line of this width.
pub(super) fn has_room(line: &str, next: &str, widest: usize) -> bool {
    width(line) + 1 + first_word_width(next) <= widest
}

/// The column of a line's first character, with a tab stop at every eighth.
pub(super) fn column(line: &str) -> usize {
    let white = line.chars().take_while(|c| c.is_whitespace());
    white.fold(0, |column, c| if c == '\t' { (column / 8 + 1) * 8 } else { column + 1 })
}

/// In columns: East Asian characters have two.
pub(super) fn width(line: &str) -> usize {
    let characters = bytecount::num_chars(line.as_bytes());
    if characters == line.len() {
        return characters;
    }
    // The first bytes of U+3000 to U+FFFF.
    characters + line.bytes().filter(|byte| (0xe3..=0xef).contains(byte)).count()
}

/// The width of what wrapping keeps together at the start of a line: a word, a link or a code span.
fn first_word_width(line: &str) -> usize {
    let content = content(line);
    let Some(first) = content.chars().next() else { return 0 };
    let whole = match first {
        '[' => content.find("](").and_then(|text_end| content[text_end..].find(')').map(|end| text_end + end)),
        '`' => content[1..].find('`').map(|end| end + 1),
        _ if is_east_asian(first) => return 2,
        _ => None,
    };
    let whole = whole.unwrap_or(0);
    let word_end = content[whole..].find(char::is_whitespace).map_or(content.len(), |end| whole + end);
    width(&content[..word_end])
}
