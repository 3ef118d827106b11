//! Limits the nesting of quotes, lists and footnotes.
//!
//! The parser visits all open containers at every line, so its time is the number of lines times their depth. Beyond
//! about a hundred containers a mark is text.

use std::borrow::Cow;

/// The width of the marks and white space before a line's text up to which a mark opens a container. A container takes
/// at least two columns of every line in it, so this is a depth of a hundred.
const MAX_WIDTH: usize = 200;

/// What replaces the first byte of a mark beyond the limit: offsets stay the same.
const TEXT: char = 'x';

/// The source with at most [`MAX_WIDTH`] columns of marks before the text of a line.
pub(super) fn limited(source: &str) -> Cow<'_, str> {
    let mut limited = String::new();
    let mut copied = 0;
    let mut start = 0;
    for line in source.split('\n') {
        let end = start + line.len();
        // Lines may also end in a carriage return alone.
        for part in line.split('\r') {
            if let Some(mark) = mark_beyond_limit(part.as_bytes()) {
                limited.push_str(&source[copied..start + mark]);
                limited.push(TEXT);
                copied = start + mark + 1;
            }
            start += part.len() + 1;
        }
        start = end + 1;
    }
    if copied == 0 {
        return Cow::Borrowed(source);
    }
    limited.push_str(&source[copied..]);
    Cow::Owned(limited)
}

/// The first mark of a line that is beyond the limit.
fn mark_beyond_limit(line: &[u8]) -> Option<usize> {
    let (mut at, mut width) = (0, 0);
    loop {
        let length = match line.get(at)? {
            b' ' | b'\x0b' | b'\x0c' => {
                (at, width) = (at + 1, width + 1);
                continue;
            }
            b'\t' => {
                (at, width) = (at + 1, width + 4);
                continue;
            }
            b'>' | b'-' | b'*' | b'+' => 1,
            b'0'..=b'9' => line[at..].iter().take(10).position(|byte| !byte.is_ascii_digit())? + 1,
            b'[' if line.get(at + 1) == Some(&b'^') => line[at..].iter().position(|byte| *byte == b']')? + 2,
            _ => return None,
        };
        let mark = &line[at..line.len().min(at + length)];
        let is_list = line.get(at + length).is_none_or(u8::is_ascii_whitespace);
        let opens = match mark {
            [b'>'] | [b'[', .., b':'] => true,
            [b'-' | b'*' | b'+'] | [.., b'.' | b')'] => is_list,
            _ => false,
        };
        if !opens || is_rule(&line[at..]) {
            return None;
        }
        if width >= MAX_WIDTH {
            return Some(at);
        }
        (at, width) = (at + length, width + length.max(2));
        // The space after the mark of an item.
        width -= usize::from(mark[0] != b'>' && length == 1);
    }
}

/// Whether the rest of a line is a rule: `- - -`.
fn is_rule(rest: &[u8]) -> bool {
    let mark = rest[0];
    matches!(mark, b'-' | b'*') && rest.iter().all(|byte| *byte == mark || byte.is_ascii_whitespace()) && {
        rest.iter().filter(|byte| **byte == mark).take(3).count() == 3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_beyond_the_limit_become_text() {
        for (mark, depth) in [("> ", 67), (">", 100), ("- ", 100), ("1. ", 67), ("[^a]: > ", 22), ("\t- ", 33)] {
            let line = format!("a\n{}b\n", mark.repeat(depth));
            assert_eq!(limited(&line), line, "{mark:?}");
            let deeper = format!("a\n{}b\r{}b\nc", mark.repeat(300), mark.repeat(300));
            let cut = limited(&deeper);
            assert_eq!(cut.len(), deeper.len(), "{mark:?}");
            let differences = cut.bytes().zip(deeper.bytes()).filter(|(cut, byte)| cut != byte).count();
            assert_eq!(differences, 2, "{mark:?}");
        }
    }

    #[test]
    fn rules_and_text_stay() {
        for text in ["- ".repeat(500), "* ".repeat(500), " ".repeat(500) + "a", "1".repeat(500), "-".repeat(500)] {
            assert_eq!(limited(&text), text);
        }
    }
}
