//! Marks attached to the end of a sentence: closing quotes, references, footnote numbers.

use super::abbreviations::{self, last_word};
use super::marks::{are_notes, is_closing, is_emphasis, is_superscript};

/// Bytes of the longest reference such as `[citation needed]`, with brackets.
const LONGEST_REFERENCE: usize = 24;

/// The end of everything attached to a sentence's mark: closing quotes and brackets, emphasis, footnote markers.
pub(super) fn attached_end(text: &str, mark_end: usize) -> usize {
    let mut at = mark_end;
    while let Some(c) = text[at..].chars().next() {
        // German closes quotes with marks that open them in other languages: `。“为` opens one.
        let opens = matches!(c, '“' | '‘') && text[at + c.len_utf8()..].starts_with(char::is_alphanumeric);
        if (is_closing(c) && !opens) || is_emphasis(c) || is_superscript(c) {
            at += c.len_utf8();
        } else if let Some(length) = reference(&text[at..]).or_else(|| footnote(text, at)) {
            at += length;
        } else {
            break;
        }
    }
    at + text[at..].strip_prefix(' ').and_then(spaced_note).map_or(0, |length| 1 + length)
}

/// The length in bytes of the numbers of notes after a space, which no sentence begins with: `Walls are old. [1] Roofs`.
pub(super) fn spaced_note(text: &str) -> Option<usize> {
    let length = reference(text)?;
    (are_notes(&text[1..length - 1]) && !text[length..].starts_with(|c: char| !c.is_whitespace())).then_some(length)
}

/// The length in bytes of a bracketed reference at the start of a text.
fn reference(text: &str) -> Option<usize> {
    let inside = text.strip_prefix('[')?;
    let length = inside.bytes().take(LONGEST_REFERENCE - 1).position(|byte| byte == b']')?;
    // Digits of any script.
    let is_allowed = |c: char| c.is_ascii_alphabetic() || c.is_numeric() || matches!(c, ' ' | ',' | '-' | '^');
    (length > 0 && inside[..length].chars().all(is_allowed)).then_some(length + 2)
}

/// The length in bytes of a footnote number that has lost its superscript: `so held.12 The`, `है।१२ फिर`.
///
/// It follows a word's mark and precedes white space. After an abbreviation it would be what that abbreviation numbers.
fn footnote(text: &str, at: usize) -> Option<usize> {
    let digits = text[at..].chars().take(4).take_while(|c| c.is_numeric());
    let (count, length) = digits.fold((0, 0), |(count, length), c| (count + 1, length + c.len_utf8()));
    if !(1..=3).contains(&count) || !text[at + length..].starts_with(char::is_whitespace) {
        return None;
    }
    let is_mark = |c: char| matches!(c, '.' | '!' | '?' | '।' | '॥' | '۔' | '؟');
    let sentence = text[..at].trim_end_matches(['"', '”', '’', '»', ')']).strip_suffix(is_mark)?;
    // In scripts without case, words of two letters are common: `है`.
    let shortest = if text[..at].chars().rev().take(4).any(char::is_lowercase) { 3 } else { 2 };
    let is_word =
        |word: &str| word.chars().count() >= shortest && !word.contains(|c: char| c.is_uppercase() || c.is_numeric());
    let word = last_word(sentence);
    // `until 1921.3 The tower`
    let is_year = || {
        let next = text[at + length..].trim_start().chars().next();
        word.len() == 4 && word.bytes().all(|byte| byte.is_ascii_digit()) && next.is_some_and(char::is_uppercase)
    };
    let is_sentence = is_word(word) && !word.contains('.') && abbreviations::rule_of(word).is_none();
    (is_sentence || is_year()).then_some(length)
}

/// The length of the number of a note that a space keeps from the number before it, up to the next sentence:
/// `in 1921. |3 |The tower`.
pub(super) fn note_after(before: &str, after: &str) -> usize {
    let digits = after.bytes().take(4).take_while(u8::is_ascii_digit).count();
    let is_after_number =
        before.trim_end().strip_suffix('.').is_some_and(|text| text.ends_with(|c: char| c.is_ascii_digit()));
    let next = after[digits..].strip_prefix(' ').map(|next| abbreviations::first_word(next).0);
    let is_note = (1..=3).contains(&digits) && is_after_number && next.is_some_and(abbreviations::is_opener);
    if is_note { digits + 1 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_references_and_emphasis_are_attached_to_a_full_stop() {
        for (text, expected) in [
            ("[12] Next", "[12]"),
            ("\u{201d}[1][note 2] Next", "\u{201d}[1][note 2]"),
            (")**² x", ")**²"),
            ("[Link](url)", "[Link]"),
            ("[a longer text than any reference]", ""),
            ("[é]", ""),
            ("[१][২] x", "[१][২]"),
            (" x", ""),
        ] {
            assert_eq!(&text[..attached_end(text, 0)], expected, "{text:?}");
        }
    }

    #[test]
    fn notes_after_numbers_end_their_sentence() {
        assert_eq!(note_after("until 1921. ", "3 The tower"), 2);
        assert_eq!(note_after("until 1921. ", "3 towers"), 0);
        assert_eq!(note_after("until noon. ", "3 The tower"), 0);
    }

    #[test]
    fn footnote_numbers_are_attached_after_words_only() {
        for (text, mark_end, expected) in [
            ("held.12 The", 5, "12"),
            ("held.”3 The", 5, "”3"),
            ("held.1234 The", 5, ""),
            ("fig.12 The", 4, ""),
            ("held.12a", 5, ""),
            ("3.12 The", 2, ""),
            ("1921.3 The", 5, "3"),
            ("1921.3 the", 5, ""),
            ("वह घर है।१२ फिर", "वह घर है।".len(), "१२"),
            ("ذهب إلى البيت.٣ ثم", "ذهب إلى البيت.".len(), "٣"),
            ("道。“为", "道。".len(), ""),
            ("Ja.“ Er", 3, "“"),
        ] {
            assert_eq!(&text[mark_end..attached_end(text, mark_end)], expected, "{text:?}");
        }
    }
}
