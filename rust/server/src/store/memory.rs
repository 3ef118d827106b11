//! Documents in memory, and the index of their words in an `SQLite` database in memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use pullquote_core::error::{Error, ErrorKind, Result};
use rusqlite::{Connection, params};

use super::{Bounds, Size, Stored, words};
use crate::http::failure::Failure;

pub(super) struct MemoryStore {
    kept: RwLock<Kept>,
    /// Locked before `kept`.
    index: Mutex<Connection>,
}

#[derive(Default)]
struct Kept {
    documents: HashMap<String, Document>,
    /// The ids of all rows of the index.
    ids: HashMap<i64, String>,
    /// The last row of the index.
    last: i64,
    size: Size,
}

struct Document {
    row: i64,
    stored: Arc<Stored>,
}

impl MemoryStore {
    pub(super) fn new() -> Result<Self> {
        let index = Connection::open_in_memory().and_then(|index| {
            index.execute_batch(words::LAYOUT)?;
            Ok(index)
        });
        Ok(Self { kept: RwLock::default(), index: Mutex::new(index.map_err(|error| broken(&error))?) })
    }

    /// Stores a document within the bounds; returns whether its id is new.
    pub(super) fn put(&self, id: &str, document: Stored, bounds: Bounds) -> Result<bool, Failure> {
        let index = self.lock_index();
        let (old, size, row) = {
            let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
            let old = kept.documents.get(id).map(|old| (old.row, old.stored.bytes(id)));
            let after = bounds.replace(kept.size, old.map(|(_, bytes)| bytes), document.bytes(id))?;
            (old, after, kept.last + 1)
        };
        let indexed = || {
            if let Some((row, _)) = old {
                words::remove(&index, row)?;
            }
            words::add(&index, row, document.title.as_deref(), &document.text)
        };
        indexed().map_err(|error| broken(&error))?;
        let mut kept = self.kept.write().unwrap_or_else(PoisonError::into_inner);
        if let Some((row, _)) = old {
            kept.ids.remove(&row);
        }
        (kept.size, kept.last) = (size, row);
        kept.ids.insert(row, id.to_owned());
        kept.documents.insert(id.to_owned(), Document { row, stored: Arc::new(document) });
        Ok(old.is_none())
    }

    pub(super) fn get(&self, id: &str) -> Option<Arc<Stored>> {
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        kept.documents.get(id).map(|document| Arc::clone(&document.stored))
    }

    pub(super) fn all(&self) -> Vec<(String, Arc<Stored>)> {
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> =
            kept.documents.iter().map(|(id, document)| (id.clone(), Arc::clone(&document.stored))).collect();
        drop(kept);
        all.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        all
    }

    /// The documents with words of the query, the best first.
    pub(super) fn search(&self, query: &str, most: usize) -> Result<Vec<(String, Arc<Stored>)>> {
        let Some(expression) = words::expression(query) else { return Ok(Vec::new()) };
        let index = self.lock_index();
        let found = || {
            let mut best = index.prepare_cached(words::BEST)?;
            best.query_map(params![expression, most], |row| row.get(0))?.collect::<rusqlite::Result<Vec<i64>>>()
        };
        let rows = found().map_err(|error| broken(&error))?;
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        let document = |row: i64| {
            let id = kept.ids.get(&row)?;
            Some((id.clone(), Arc::clone(&kept.documents.get(id)?.stored)))
        };
        Ok(rows.into_iter().filter_map(document).collect())
    }

    pub(super) fn delete(&self, id: &str) -> Result<bool> {
        let index = self.lock_index();
        let Some(row) = self.kept.read().unwrap_or_else(PoisonError::into_inner).documents.get(id).map(|old| old.row)
        else {
            return Ok(false);
        };
        words::remove(&index, row).map_err(|error| broken(&error))?;
        let mut kept = self.kept.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(old) = kept.documents.remove(id) {
            kept.ids.remove(&row);
            kept.size.documents -= 1;
            kept.size.bytes -= old.stored.bytes(id);
        }
        Ok(true)
    }

    pub(super) fn size(&self) -> Size {
        self.kept.read().unwrap_or_else(PoisonError::into_inner).size
    }

    fn lock_index(&self) -> MutexGuard<'_, Connection> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn broken(error: &rusqlite::Error) -> Error {
    Error::new(ErrorKind::Internal, format!("the index of words failed: {error}"))
}
