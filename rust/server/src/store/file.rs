//! Documents in an `SQLite` file.
//!
//! Written ahead to a log that is on the disk before a document is acknowledged (`journal_mode = WAL`, `synchronous = FULL`),
//! so killing the process or the machine at any moment loses nothing that was acknowledged. One process has the file at a time.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pullquote_core::error::{Error, ErrorKind, Result};
use rusqlite::{Connection, OptionalExtension, params};

use super::{Size, Stored};
use crate::http::failure::Failure;

/// What this program writes; a file of another one is left alone.
const APPLICATION_ID: i32 = 0x7071_7431;

/// The layout of the tables.
const VERSION: i32 = 1;

const LAYOUT: &str = "
    CREATE TABLE documents (
        id TEXT PRIMARY KEY,
        title TEXT,
        text TEXT NOT NULL,
        text_hash TEXT NOT NULL,
        bytes INTEGER NOT NULL
    ) STRICT;
";

/// An open file.
pub(super) struct FileStore {
    open: Mutex<Open>,
}

struct Open {
    connection: Connection,
    /// What is in it; nobody else writes it.
    size: Size,
}

impl FileStore {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let refused = |error: String| {
            Error::new(ErrorKind::InvalidArgument, format!("cannot keep documents in {}: {error}", path.display()))
        };
        open(path).map_err(|error| refused(error.to_string()))?.map_err(refused)
    }

    /// Keeps a document where `fits` says the size that comes of it; whether there was none under this id.
    pub(super) fn put(
        &self,
        id: &str,
        document: &Stored,
        bytes: usize,
        fits: impl FnOnce(Size, Option<usize>) -> Result<Size, Failure>,
    ) -> Result<bool, Failure> {
        let mut open = self.lock();
        let old = bytes_of(&open.connection, id).map_err(|error| broken(&error))?;
        let size = fits(open.size, old)?;
        open.connection
            .prepare_cached(
                "INSERT OR REPLACE INTO documents (id, title, text, text_hash, bytes) VALUES (?, ?, ?, ?, ?)",
            )
            .and_then(|mut put| put.execute(params![id, document.title, document.text, document.text_hash, bytes]))
            .map_err(|error| broken(&error))?;
        open.size = size;
        Ok(old.is_none())
    }

    pub(super) fn get(&self, id: &str) -> Result<Option<Stored>> {
        let read = |row: &rusqlite::Row| Ok(Stored { title: row.get(0)?, text: row.get(1)?, text_hash: row.get(2)? });
        self.lock()
            .connection
            .prepare_cached("SELECT title, text, text_hash FROM documents WHERE id = ?")
            .and_then(|mut get| get.query_row([id], read).optional())
            .map_err(|error| broken(&error))
    }

    pub(super) fn all(&self) -> Result<Vec<(String, Stored)>> {
        let read = |row: &rusqlite::Row| {
            Ok((row.get(0)?, Stored { title: row.get(1)?, text: row.get(2)?, text_hash: row.get(3)? }))
        };
        let open = self.lock();
        let mut select = open
            .connection
            .prepare_cached("SELECT id, title, text, text_hash FROM documents ORDER BY id")
            .map_err(|error| broken(&error))?;
        let rows = select.query_map([], read).map_err(|error| broken(&error))?;
        rows.collect::<rusqlite::Result<_>>().map_err(|error| broken(&error))
    }

    pub(super) fn delete(&self, id: &str) -> Result<bool> {
        let mut open = self.lock();
        let delete = |open: &Open| {
            let Some(old) = bytes_of(&open.connection, id)? else { return Ok(None) };
            open.connection.prepare_cached("DELETE FROM documents WHERE id = ?")?.execute([id])?;
            Ok(Some(old))
        };
        let Some(old) = delete(&open).map_err(|error| broken(&error))? else { return Ok(false) };
        open.size.documents -= 1;
        open.size.bytes -= old;
        Ok(true)
    }

    pub(super) fn size(&self) -> Size {
        self.lock().size
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The inner error is one that `SQLite` does not know.
fn open(path: &Path) -> rusqlite::Result<Result<FileStore, String>> {
    let connection = Connection::open(path)?;
    // Another process that has the file makes this fail at once, instead of at the first document.
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    let application: i32 = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let version: i32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if tables > 0 && application != APPLICATION_ID {
        return Ok(Err("it is a database of another program".to_owned()));
    }
    if tables > 0 && version != VERSION {
        return Ok(Err(format!("its layout is number {version}, and this version knows number {VERSION}")));
    }
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    if tables == 0 {
        connection.execute_batch(&format!(
            "BEGIN IMMEDIATE; {LAYOUT} PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION}; COMMIT;"
        ))?;
    }
    let (documents, bytes) =
        connection.query_row("SELECT count(*), coalesce(sum(bytes), 0) FROM documents", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    Ok(Ok(FileStore { open: Mutex::new(Open { connection, size: Size { documents, bytes } }) }))
}

fn bytes_of(connection: &Connection, id: &str) -> rusqlite::Result<Option<usize>> {
    connection.prepare_cached("SELECT bytes FROM documents WHERE id = ?")?.query_row([id], |row| row.get(0)).optional()
}

/// What the disk says has nothing to do with the caller.
fn broken(error: &rusqlite::Error) -> Error {
    Error::new(ErrorKind::Internal, format!("the store failed: {error}"))
}
