//! The store: documents that clients have sent before and name by an id.
//!
//! Documents are in memory, or in an `SQLite` file, where acknowledged documents survive a kill and a power failure.
//! Both have limits of documents and bytes, and refuse documents beyond them. A document is removed only when a client
//! deletes it.

mod file;
mod full_text_index;
pub(crate) mod hashes;
mod memory;

use std::sync::Arc;

use pullquote_core::error::{ErrorKind, Result as CoreResult};

use crate::http::failure::{Cause, Failure};
use crate::settings::Settings;
use crate::store::hashes::text_hash;
use file::FileStore;
pub use file::check as check_store;
use memory::MemoryStore;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) title: Option<String>,
    pub(crate) text: String,
    pub(crate) text_hash: String,
}

pub(crate) struct Store {
    backend: Backend,
    bounds: Bounds,
}

enum Backend {
    Memory(MemoryStore),
    File(FileStore),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) documents: usize,
    pub(crate) bytes: usize,
}

#[derive(Clone, Copy, Debug)]
struct Bounds(Size);

impl Stored {
    pub(crate) fn new(title: Option<String>, text: String) -> Self {
        Self { title, text_hash: text_hash(&text), text }
    }

    /// Its bytes with its id, as limits count them.
    fn bytes(&self, id: &str) -> usize {
        id.len() + self.title.as_ref().map_or(0, String::len) + self.text.len()
    }
}

impl Bounds {
    /// The size after a document of `new` bytes replaces one of `old` bytes, if that is within the limits.
    fn replace(self, size: Size, old: Option<usize>, new: usize) -> Result<Size, Failure> {
        let after =
            Size { documents: size.documents + usize::from(old.is_none()), bytes: size.bytes - old.unwrap_or(0) + new };
        if after.documents <= self.0.documents && after.bytes <= self.0.bytes {
            return Ok(after);
        }
        let Size { documents, bytes } = self.0;
        let message = format!("the store is full: it holds {documents} documents and {bytes} bytes; delete some first");
        Err(Failure::new(Cause::Core(ErrorKind::StoreFull), message))
    }
}

impl Store {
    /// Opens the file of `--store`, or a store in memory.
    pub(crate) fn open(settings: &Settings) -> CoreResult<Self> {
        let backend = match &settings.store {
            Some(path) => Backend::File(FileStore::open(path)?),
            None => Backend::Memory(MemoryStore::new()?),
        };
        let bounds = Bounds(Size { documents: settings.store_documents, bytes: settings.store_bytes });
        Ok(Self { backend, bounds })
    }

    /// Stores a document durably; returns whether its id is new.
    pub(crate) fn put(&self, id: &str, document: Stored) -> Result<bool, Failure> {
        self.put_all(vec![(id.to_owned(), document)]).remove(0)
    }

    /// Stores documents durably, in one transaction; returns of each whether its id is new. One that fails fails alone.
    pub(crate) fn put_all(&self, documents: Vec<(String, Stored)>) -> Vec<Result<bool, Failure>> {
        match &self.backend {
            Backend::Memory(memory) => {
                documents.into_iter().map(|(id, document)| memory.put(&id, document, self.bounds)).collect()
            }
            Backend::File(file) => file.put(documents, self.bounds),
        }
    }

    pub(crate) fn get(&self, id: &str) -> Result<Option<Arc<Stored>>, Failure> {
        match &self.backend {
            Backend::Memory(memory) => Ok(memory.get(id)),
            Backend::File(file) => Ok(file.get(id)?),
        }
    }

    /// All documents with their ids, in the order of ids.
    pub(crate) fn all(&self) -> Result<Vec<(String, Arc<Stored>)>, Failure> {
        match &self.backend {
            Backend::Memory(memory) => Ok(memory.all()),
            Backend::File(file) => Ok(file.all()?),
        }
    }

    /// The documents with words of a query, the best by BM25 first.
    pub(crate) fn search(&self, query: &str, most: usize) -> Result<Vec<(String, Arc<Stored>)>, Failure> {
        match &self.backend {
            Backend::Memory(memory) => Ok(memory.search(query, most)?),
            Backend::File(file) => Ok(file.search(query, most)?),
        }
    }

    /// Bytes of memory that [`Self::all`] needs.
    pub(crate) fn bytes_to_read(&self) -> usize {
        match &self.backend {
            Backend::Memory(_) => 0,
            Backend::File(file) => file.size().bytes,
        }
    }

    /// Deletes a document; returns whether there was one.
    pub(crate) fn delete(&self, id: &str) -> Result<bool, Failure> {
        match &self.backend {
            Backend::Memory(memory) => Ok(memory.delete(id)?),
            Backend::File(file) => Ok(file.delete(id)?),
        }
    }

    pub(crate) fn size(&self) -> Size {
        match &self.backend {
            Backend::Memory(memory) => memory.size(),
            Backend::File(file) => file.size(),
        }
    }
}

pub(crate) fn not_stored(id: &str) -> Failure {
    Failure::new(Cause::Core(ErrorKind::NotFound), format!("no document is stored under {id:?}"))
}

#[cfg(test)]
mod tests;
