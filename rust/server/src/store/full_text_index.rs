//! The index of the words of stored documents: a table of `SQLite`'s FTS5, next to a table `documents` with the same
//! row numbers.
//!
//! FTS5 finds words between spaces and punctuation, so that words of scripts without spaces are separated first. It
//! stems English.

use std::fmt::Write;

use pullquote_core::ranking::terms::{Language, guess_language, query_terms};
use pullquote_core::text::pieces::words;
use rusqlite::{Connection, Result, params};

pub(super) const LAYOUT: &str = "
    CREATE VIRTUAL TABLE words USING fts5(
        title, text, content='', contentless_delete=1, tokenize='porter unicode61 remove_diacritics 2'
    );
";

/// The documents with words of the query, the best by BM25 first; a word of a title counts five times.
pub(super) const BEST: &str = "
    SELECT rowid FROM words WHERE words MATCH ? ORDER BY bm25(words, 5.0, 1.0) LIMIT ?
";

/// Where scripts begin that do not put spaces between words: Thai, and after it those of East Asia.
const FIRST_WITHOUT_SPACES: char = '\u{e00}';

pub(super) fn add(connection: &Connection, row: i64, title: Option<&str>, text: &str) -> Result<()> {
    connection.prepare_cached("INSERT INTO words (rowid, title, text) VALUES (?, ?, ?)")?.execute(params![
        row,
        title.map(separated),
        separated(text)
    ])?;
    Ok(())
}

pub(super) fn remove(connection: &Connection, row: i64) -> Result<()> {
    connection.prepare_cached("DELETE FROM words WHERE rowid = ?")?.execute([row])?;
    Ok(())
}

/// A query of FTS5 for any of a query's words, without stop words; `None` without words.
pub(super) fn expression(query: &str) -> Option<String> {
    let language = match guess_language(query) {
        // A short query rarely shows its language, and English stop words are not words of most other languages.
        Language::None => Language::English,
        language => language,
    };
    let mut expression = String::new();
    for term in query_terms(query, language) {
        let separator = if expression.is_empty() { "" } else { " OR " };
        // Writing to a string never fails.
        let _ = write!(expression, "{separator}\"{}\"", separated(&term.text).replace('"', " "));
    }
    (!expression.is_empty()).then_some(expression)
}

/// A text with a space after each word.
fn separated(text: &str) -> String {
    if !text.contains(|character| character >= FIRST_WITHOUT_SPACES) {
        return text.to_owned();
    }
    let mut all = String::with_capacity(text.len() * 3 / 2);
    for word in words(text) {
        all.push_str(word.of(text));
        all.push(' ');
    }
    all
}
