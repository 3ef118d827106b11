//! Documents in memory, and the index of their words in an `SQLite` database in memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use pullquote_core::error::{Error, ErrorKind, Result};
use rusqlite::{Connection, params};

use super::{Bounds, Size, Stored, full_text_index};
use crate::http::failure::Failure;

pub(super) struct MemoryStore {
    entries: RwLock<Entries>,
    /// Locked before `entries`.
    index: Mutex<Connection>,
}

#[derive(Default)]
struct Entries {
    documents: HashMap<String, Entry>,
    /// The ids of all rows of the index.
    ids: HashMap<i64, String>,
    /// The last row of the index.
    last: i64,
    size: Size,
}

struct Entry {
    row: i64,
    stored: Arc<Stored>,
}

impl MemoryStore {
    pub(super) fn new() -> Result<Self> {
        let index = Connection::open_in_memory().and_then(|index| {
            index.execute_batch(full_text_index::LAYOUT)?;
            Ok(index)
        });
        Ok(Self { entries: RwLock::default(), index: Mutex::new(index.map_err(|error| broken(&error))?) })
    }

    /// Stores a document within the bounds; returns whether its id is new.
    pub(super) fn put(&self, id: &str, document: Stored, bounds: Bounds) -> Result<bool, Failure> {
        let index = self.lock_index();
        let (old, size, row) = {
            let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
            let old = entries.documents.get(id).map(|old| (old.row, old.stored.bytes(id)));
            let after = bounds.replace(entries.size, old.map(|(_, bytes)| bytes), document.bytes(id))?;
            (old, after, entries.last + 1)
        };
        let indexed = || {
            if let Some((row, _)) = old {
                full_text_index::remove(&index, row)?;
            }
            full_text_index::add(&index, row, document.title.as_deref(), &document.text)
        };
        indexed().map_err(|error| broken(&error))?;
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        if let Some((row, _)) = old {
            entries.ids.remove(&row);
        }
        (entries.size, entries.last) = (size, row);
        entries.ids.insert(row, id.to_owned());
        entries.documents.insert(id.to_owned(), Entry { row, stored: Arc::new(document) });
        Ok(old.is_none())
    }

    pub(super) fn get(&self, id: &str) -> Option<Arc<Stored>> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        entries.documents.get(id).map(|document| Arc::clone(&document.stored))
    }

    pub(super) fn all(&self) -> Vec<(String, Arc<Stored>)> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> =
            entries.documents.iter().map(|(id, document)| (id.clone(), Arc::clone(&document.stored))).collect();
        drop(entries);
        all.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        all
    }

    /// The documents with words of the query, the best first.
    pub(super) fn search(&self, query: &str, most: usize) -> Result<Vec<(String, Arc<Stored>)>> {
        let Some(expression) = full_text_index::expression(query) else { return Ok(Vec::new()) };
        let index = self.lock_index();
        let found = || {
            let mut best = index.prepare_cached(full_text_index::BEST)?;
            best.query_map(params![expression, most], |row| row.get(0))?.collect::<rusqlite::Result<Vec<i64>>>()
        };
        let rows = found().map_err(|error| broken(&error))?;
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        let document = |row: i64| {
            let id = entries.ids.get(&row)?;
            Some((id.clone(), Arc::clone(&entries.documents.get(id)?.stored)))
        };
        Ok(rows.into_iter().filter_map(document).collect())
    }

    pub(super) fn delete(&self, id: &str) -> Result<bool> {
        let index = self.lock_index();
        let Some(row) =
            self.entries.read().unwrap_or_else(PoisonError::into_inner).documents.get(id).map(|old| old.row)
        else {
            return Ok(false);
        };
        full_text_index::remove(&index, row).map_err(|error| broken(&error))?;
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(old) = entries.documents.remove(id) {
            entries.ids.remove(&row);
            entries.size.documents -= 1;
            entries.size.bytes -= old.stored.bytes(id);
        }
        Ok(true)
    }

    pub(super) fn size(&self) -> Size {
        self.entries.read().unwrap_or_else(PoisonError::into_inner).size
    }

    fn lock_index(&self) -> MutexGuard<'_, Connection> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn broken(error: &rusqlite::Error) -> Error {
    Error::new(ErrorKind::Internal, format!("the index of words failed: {error}"))
}
