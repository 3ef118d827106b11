//! The store: documents that clients have sent before and name by an id.
//!
//! Documents are in an `SQLite` database in memory, or in a file, where acknowledged documents survive a kill and a
//! power failure. It has limits of documents and bytes, and refuses documents beyond them. A document is removed only
//! when a client deletes it.

mod database;
mod full_text_index;
pub(crate) mod hashes;

use pullquote_core::error::ErrorKind;

use crate::http::failure::{Cause, Failure};
use crate::store::hashes::text_hash;
pub(crate) use database::Store;
pub use database::check_store;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) title: Option<String>,
    pub(crate) text: String,
    pub(crate) text_hash: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) documents: usize,
    pub(crate) bytes: usize,
}

impl Stored {
    pub(crate) fn new(title: Option<String>, text: String) -> Self {
        Self { title, text_hash: text_hash(&text), text }
    }

    /// Its bytes with its id, as limits count them.
    fn bytes(&self, id: &str) -> usize {
        id.len() + self.title.as_ref().map_or(0, String::len) + self.text.len()
    }
}

impl Size {
    /// The size after a document of `new` bytes replaces one of `old` bytes, if that is within the limits.
    fn replace(self, limits: Self, old: Option<usize>, new: usize) -> Result<Self, Failure> {
        let after =
            Self { documents: self.documents + usize::from(old.is_none()), bytes: self.bytes - old.unwrap_or(0) + new };
        if after.documents <= limits.documents && after.bytes <= limits.bytes {
            return Ok(after);
        }
        let Self { documents, bytes } = limits;
        let message = format!("the store is full: it holds {documents} documents and {bytes} bytes; delete some first");
        Err(Failure::new(Cause::Core(ErrorKind::StoreFull), message))
    }
}

pub(crate) fn not_stored(id: &str) -> Failure {
    Failure::new(Cause::Core(ErrorKind::NotFound), format!("no document is stored under {id:?}"))
}

#[cfg(test)]
mod tests;
