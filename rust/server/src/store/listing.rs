//! Stored documents whose ids begin with a prefix, in the order of their ids.
//!
//! `SQLite` compares ids by their bytes, which is the order of their code points. So the ids with a prefix are those from
//! it to the next text of the same length, and a page of them is the first ones after the last id of the page before
//! (keyset paging): it costs the same wherever it is, and changes in between neither skip nor repeat other documents.

use pullquote_wire::documents::ListedDocument;
use rusqlite::{Connection, Result, params};

/// Characters of a title in a list.
const TITLE_CHARS: usize = 1000;

/// Bytes of the ids and titles of a page: less than an answer may have, however they are escaped.
const PAGE_BYTES: usize = 128 * 1024;

/// Some of the documents with a prefix.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) documents: Vec<ListedDocument>,
    /// Of all documents with the prefix.
    pub(crate) total: usize,
    /// Whether others come after these.
    pub(crate) has_more: bool,
}

/// The ids with a prefix: from it up to the end, which has no prefix of the greatest code points alone.
pub(super) struct Ids {
    from: String,
    end: Option<String>,
}

impl Ids {
    pub(super) fn with_prefix(prefix: &str) -> Self {
        Self { from: prefix.to_owned(), end: after_all(prefix) }
    }

    pub(super) fn count(&self, connection: &Connection) -> Result<usize> {
        connection
            .prepare_cached("SELECT count(*) FROM documents WHERE id >= ?1 AND (?2 IS NULL OR id < ?2)")?
            .query_row(params![self.from, self.end], |row| row.get(0))
    }

    /// The first documents after an id: at most `most`, and at least one if there is any.
    pub(super) fn page(&self, connection: &Connection, after: &str, most: usize) -> Result<Page> {
        let mut select = connection.prepare_cached(
            "SELECT id, substr(title, 1, ?5), text_hash, format, bytes, stored_at FROM documents
             WHERE id >= ?1 AND (?2 IS NULL OR id < ?2) AND id > ?3 ORDER BY id LIMIT ?4",
        )?;
        let mut rows = select.query(params![self.from, self.end, after, most.saturating_add(1), TITLE_CHARS])?;
        let (mut documents, mut bytes) = (Vec::new(), 0);
        let mut has_more = false;
        while let Some(row) = rows.next()? {
            let document = ListedDocument {
                id: row.get(0)?,
                title: row.get(1)?,
                text_hash: row.get(2)?,
                format: row.get(3)?,
                bytes: row.get(4)?,
                stored_at: row.get(5)?,
            };
            bytes += document.id.len() + document.title.as_ref().map_or(0, String::len);
            if documents.len() == most || (bytes > PAGE_BYTES && !documents.is_empty()) {
                has_more = true;
                break;
            }
            documents.push(document);
        }
        Ok(Page { documents, total: self.count(connection)?, has_more })
    }

    /// The rows of the first documents after an id, their bytes, and the last of their ids.
    pub(super) fn rows(&self, connection: &Connection, after: &str, most: usize) -> Result<Option<Rows>> {
        let mut select = connection.prepare_cached(
            "SELECT rowid, bytes, id FROM documents
             WHERE id >= ?1 AND (?2 IS NULL OR id < ?2) AND id > ?3 ORDER BY id LIMIT ?4",
        )?;
        let mut rows = Rows::default();
        let mut found = select.query(params![self.from, self.end, after, most])?;
        while let Some(row) = found.next()? {
            rows.numbers.push(row.get(0)?);
            rows.bytes += row.get::<_, usize>(1)?;
            rows.last = row.get(2)?;
        }
        Ok((!rows.numbers.is_empty()).then_some(rows))
    }
}

/// Some rows of documents.
#[derive(Default)]
pub(super) struct Rows {
    pub(super) numbers: Vec<i64>,
    pub(super) bytes: usize,
    pub(super) last: String,
}

/// The first text after all that begin with a prefix; `None` if no text comes after them.
fn after_all(prefix: &str) -> Option<String> {
    let mut end = prefix.to_owned();
    while let Some(last) = end.pop() {
        // The code points of surrogates are no characters.
        let next = if last == '\u{d7ff}' { Some('\u{e000}') } else { char::from_u32(u32::from(last) + 1) };
        if let Some(next) = next {
            end.push(next);
            return Some(end);
        }
    }
    None
}
