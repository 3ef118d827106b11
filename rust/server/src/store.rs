//! The store: documents that clients have sent before and name by an id.
//!
//! Documents are in an `SQLite` database in memory, or in a file, where acknowledged documents survive a kill and a
//! power failure. It has limits of documents and bytes, and refuses documents beyond them. A document is removed only
//! when a client deletes it.

mod database;
mod disk_reserve;
mod full_text_index;
pub(crate) mod hashes;
mod listing;

use std::fs::OpenOptions;

use pullquote_core::error::ErrorKind;
use pullquote_core::text::formats::{Format, detected};

use crate::http::failure::{Cause, Failure};
use crate::store::hashes::text_hash;
pub(crate) use database::Store;
pub use database::check_store;
pub(crate) use listing::Page;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) title: Option<String>,
    pub(crate) text: String,
    pub(crate) text_hash: String,
    /// That it is read as by itself; `None` for documents that an older version has stored.
    pub(crate) format: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) documents: usize,
    pub(crate) bytes: usize,
}

impl Stored {
    pub(crate) fn new(title: Option<String>, text: String) -> Self {
        let format = Some(detected(Format::Auto, &text).name().to_owned());
        Self { title, text_hash: text_hash(&text), text, format }
    }

    /// Its bytes with its id, as limits count them.
    fn bytes(&self, id: &str) -> usize {
        id.len() + self.title.as_ref().map_or(0, String::len) + self.text.len()
    }
}

impl Size {
    /// The size after a document of `new` bytes replaces one of `old` bytes.
    const fn replace(self, old: Option<usize>, new: usize) -> Self {
        let (added, old) = match old {
            Some(old) => (0, old),
            None => (1, 0),
        };
        Self { documents: self.documents + added, bytes: self.bytes - old + new }
    }

    const fn is_within(self, limits: Self) -> bool {
        self.documents <= limits.documents && self.bytes <= limits.bytes
    }

    /// The failure of documents beyond these limits.
    fn full(self) -> Failure {
        let Self { documents, bytes } = self;
        let message = format!("the store is full: it holds {documents} documents and {bytes} bytes; delete some first");
        Failure::new(Cause::Core(ErrorKind::StoreFull), message)
    }
}

/// Options that create a file for its owner only.
fn owners_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

pub(crate) fn not_stored(id: &str) -> Failure {
    Failure::new(Cause::Core(ErrorKind::NotFound), format!("no document is stored under {id:?}"))
}

#[cfg(test)]
mod tests;
