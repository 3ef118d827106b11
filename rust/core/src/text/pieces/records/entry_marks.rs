//! What entries of logs and lines of data begin with: a level, an address, a place in a file, pairs, an object.

use super::cuts;

/// Bytes of the longest path of a place.
const LONGEST_PATH: usize = 200;

/// Words before the level in a line with a time.
const MAX_WORDS_BEFORE_LEVEL: usize = 4;

const LEVELS: [&str; 19] = [
    "TRACE", "DEBUG", "INFO", "NOTICE", "WARN", "WARNING", "ERROR", "ERR", "FATAL", "CRITICAL", "CRIT", "ALERT",
    "SEVERE", "EMERG", "VERBOSE", "INF", "WRN", "DBG", "FTL",
];

/// Bytes before the time of an entry of a web server.
pub(super) const LONGEST_CLIENT: usize = 60;

/// Bytes before the `$` of the longest prompt.
const LONGEST_PROMPT: usize = 80;

/// Whether a command stands here after its prompt.
pub(super) fn is_prompt(text: &str) -> bool {
    ["$ ", ">>> "].iter().any(|prompt| text.starts_with(prompt)) || is_place_prompt(text)
}

/// Whether the prompt says where the command was given: `ann@host:~/src$ ls`, `[ann@host src]# ls`, `PS C:\src> ls`.
pub(super) fn is_place_prompt(text: &str) -> bool {
    let bytes = &text.as_bytes()[..text.len().min(LONGEST_PROMPT)];
    let is_drive = |at: usize| matches!(bytes.get(at..at + 3), Some([b'A'..=b'Z', b':', b'\\']));
    if is_drive(0) || text.starts_with("PS ") && is_drive(3) {
        return bytes.contains(&b'>');
    }
    let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let name = usize::from(bytes.first() == Some(&b'['));
    let at = name + bytes[name..].iter().take_while(|byte| is_of_name(byte)).count();
    // Most lines end here.
    if at == name || bytes.get(at) != Some(&b'@') {
        return false;
    }
    let Some(end) = bytes.iter().position(|byte| matches!(byte, b'$' | b'#' | b'%' | b'>')) else { return false };
    // `ann@host src % ls`
    let most_spaces = if end > 0 && bytes[end] == b'%' && bytes[end - 1] == b' ' { 2 } else { 1 };
    at < end
        && bytes.get(end + 1).is_none_or(|after| *after == b' ')
        && bytecount::count(&bytes[at..end], b' ') <= most_spaces
}

/// Whether a card, an event or an entry of a list of sources starts here: `BEGIN:VCARD`, `TY  - JOUR`, `PMID- 3`, `%0 Book`.
pub(super) fn is_component(text: &str) -> bool {
    ["BEGIN:", "TY  - ", "PMID- ", "%0 "].iter().any(|start| text.starts_with(start))
}

/// Whether this is one object or list of JSON.
pub(super) fn is_object(text: &str) -> bool {
    let inside = text[1..].trim_start();
    text.ends_with(['}', ']', ','])
        && inside.starts_with(['"', '\'', '{', '[', '}'])
        && cuts::is_balanced(text.trim_end_matches(','))
}

/// Whether this is an entry of a web server's log: an address, then a time in brackets.
pub(super) fn is_access(text: &str) -> bool {
    let address = text.bytes().take_while(|byte| byte.is_ascii_hexdigit() || matches!(byte, b'.' | b':')).count();
    let address = &text.as_bytes()[..address];
    let marks = address.iter().filter(|byte| matches!(byte, b'.' | b':')).count();
    marks >= 3 && text.as_bytes().iter().take(LONGEST_CLIENT).any(|byte| *byte == b'[')
}

/// Whether this is a line of pairs: `level=info msg="…"`.
pub(super) fn is_pairs(text: &str) -> bool {
    let is_pair = |word: &str| {
        word.split_once('=').is_some_and(|(key, _)| {
            !key.is_empty()
                && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
        })
    };
    let mut words = text.split(' ');
    words.next().is_some_and(is_pair) && words.next().is_some_and(is_pair)
}

/// Whether a compiler or tool says something here: `error: it failed`, `warning[E01]: it may fail`.
pub(super) fn is_small_level(text: &str) -> bool {
    let length = text.bytes().take_while(u8::is_ascii_lowercase).count();
    matches!(&text[..length], "error" | "warning" | "fatal" | "info" | "debug" | "warn")
        && text[length..].starts_with([':', '['])
}

/// Whether a line starts with a place in a file: `src/main.c:12:5: `.
pub(super) fn is_place(text: &str) -> bool {
    let path = text.bytes().take(LONGEST_PATH).take_while(|byte| !matches!(byte, b':' | b' ' | b'"')).count();
    let is_path = text.as_bytes()[..path].iter().any(|byte| matches!(byte, b'.' | b'/'));
    let number = text.as_bytes()[path..].iter().skip(1).take_while(|byte| byte.is_ascii_digit()).count();
    is_path && number > 0 && text[path..].starts_with(':') && text.as_bytes().get(path + 1 + number) == Some(&b':')
}

fn is_level(word: &str) -> bool {
    let name = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let is_marked = name.len() < word.len();
    LEVELS.contains(&name) || is_marked && LEVELS.iter().any(|level| level.eq_ignore_ascii_case(name))
}

/// Whether the text after a time has a level near its start.
pub(super) fn has_level(text: &str) -> bool {
    let mut words = text.split_whitespace().take(MAX_WORDS_BEFORE_LEVEL);
    words.any(|word| is_level(word) || word.rsplit_once('.').is_some_and(|(_, level)| is_level(level)))
}

/// Whether a line starts with a level: `INFO:root:`, `[ERROR] `, `WARN  `.
pub(super) fn begins_with_level(text: &str) -> bool {
    let start = text.strip_prefix(['[', '<']).unwrap_or(text);
    if !start.as_bytes().get(1).is_some_and(u8::is_ascii_uppercase) {
        return false;
    }
    let length = start.bytes().take_while(u8::is_ascii_alphabetic).count();
    let is_named = LEVELS.contains(&&start[..length]);
    let after = start.as_bytes().get(length);
    is_named
        && if start.len() < text.len() {
            matches!(after, Some(b']' | b'>'))
        } else {
            matches!(after, Some(b':' | b' ' | b'\t'))
        }
}
