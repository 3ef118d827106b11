//! serde's messages about values, in words that callers know.

use serde_json::error::Category;

/// serde names a number by Rust's type.
const IN_WORDS: [(&str, &str); 8] = [
    ("expected u16", "expected a whole number from 0 to 65535"),
    ("expected i64", "expected a whole number"),
    ("expected i32", "expected a whole number of 32 bits"),
    ("expected usize", "expected a whole number from 0"),
    ("expected u64", "expected a whole number from 0"),
    ("expected u32", "expected a whole number from 0"),
    ("expected f64", "expected a number"),
    ("expected f32", "expected a number"),
];

/// serde's message about a value. The position in the text is useful only if the text is not JSON; otherwise the field
/// has a name.
pub(crate) fn in_words(error: &serde_json::Error) -> String {
    let message = IN_WORDS.iter().fold(error.to_string(), |message, (from, to)| message.replace(from, to));
    let place = format!(" at line {} column {}", error.line(), error.column());
    match message.strip_suffix(&place) {
        Some(plain) if error.classify() == Category::Data => plain.to_owned(),
        _ => message,
    }
}
