//! Documents in an `SQLite` file.
//!
//! A write-ahead log is on the disk before a document is acknowledged (`journal_mode = WAL`, `synchronous = FULL`), and
//! the index of words is in the same file and transaction. So nothing that was acknowledged is lost if the process or
//! the machine is killed at any moment. One process has the file at a time. Documents that arrive while others are
//! written share the next transaction, and its flush to the disk.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pullquote_core::error::{Error, ErrorKind, Result};
use rusqlite::{Connection, ErrorCode, OptionalExtension, TransactionBehavior, params};

use super::{Bounds, Size, Stored, full_text_index};
use crate::http::failure::Failure;

/// Identifies files of this program; others are refused.
const APPLICATION_ID: i32 = 0x7071_7431;

const VERSION: i32 = 2;

/// The layout without an index of words.
const WITHOUT_WORDS: i32 = 1;

/// How long to wait for a process that has the file. A server keeps it until it exits.
const LOCK_TIMEOUT: Duration = Duration::from_millis(200);

const LAYOUT: &str = "
    CREATE TABLE documents (
        id TEXT PRIMARY KEY,
        title TEXT,
        text TEXT NOT NULL,
        text_hash TEXT NOT NULL,
        bytes INTEGER NOT NULL
    ) STRICT;
";

const SELECT: &str = "SELECT id, title, text, text_hash FROM documents";

/// Counting documents and bytes would otherwise read all texts. Files from before it get it when they are opened.
const BYTES_INDEX: &str = "CREATE INDEX IF NOT EXISTS documents_bytes ON documents (bytes);";

pub(super) struct FileStore {
    open: Mutex<Open>,
    /// Documents whose threads wait for `open`.
    waiting: Mutex<Vec<Arc<Put>>>,
}

struct Put {
    id: String,
    document: Stored,
    bounds: Bounds,
    /// Whether its id is new, once it is stored.
    outcome: Mutex<Option<Result<bool, Failure>>>,
}

struct Open {
    connection: Connection,
    /// Size of its content; no other process writes it.
    size: Size,
}

/// Fails if the file is another program's, or if another process has it. Says so sooner than `open` if it
/// comes before the model is loaded.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`], with the path.
pub fn check(path: &Path) -> Result<()> {
    if path.exists() { named(path, connect(path)).map(drop) } else { Ok(()) }
}

/// The inner error is one that `SQLite` does not know.
fn named<T>(path: &Path, opened: rusqlite::Result<Result<T, String>>) -> Result<T> {
    let refused = |error: String| {
        Error::new(ErrorKind::InvalidArgument, format!("cannot keep documents in {}: {error}", path.display()))
    };
    opened
        .map_err(|error| {
            let is_busy = error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy);
            refused(if is_busy { "another process has it open".to_owned() } else { error.to_string() })
        })?
        .map_err(refused)
}

impl FileStore {
    pub(super) fn open(path: &Path) -> Result<Self> {
        named(path, open(path))
    }

    /// Stores documents within the bounds, with one flush to the disk; returns of each whether its id is new.
    pub(super) fn put(&self, documents: Vec<(String, Stored)>, bounds: Bounds) -> Vec<Result<bool, Failure>> {
        let put = |(id, document)| Arc::new(Put { id, document, bounds, outcome: Mutex::default() });
        let puts: Vec<Arc<Put>> = documents.into_iter().map(put).collect();
        locked(&self.waiting).extend(puts.iter().map(Arc::clone));
        let mut open = self.lock();
        // Another thread may have stored them while this one waited.
        if puts.iter().any(|put| locked(&put.outcome).is_none()) {
            let group = std::mem::take(&mut *locked(&self.waiting));
            // One that fails must not fail the others.
            let outcomes = open.put(&group).unwrap_or_else(|_| {
                let alone = |put| open.put(std::slice::from_ref(put)).map(|mut outcomes| outcomes.remove(0));
                group.iter().map(alone).map(|put| put.unwrap_or_else(|error| Err(broken(&error).into()))).collect()
            });
            for (put, outcome) in group.iter().zip(outcomes) {
                *locked(&put.outcome) = Some(outcome);
            }
        }
        drop(open);
        let panicked = || Err(Error::new(ErrorKind::Internal, "a thread of the store panicked").into());
        puts.iter().map(|put| locked(&put.outcome).take().unwrap_or_else(panicked)).collect()
    }

    /// The documents with words of the query, the best first.
    pub(super) fn search(&self, query: &str, most: usize) -> Result<Vec<(String, Arc<Stored>)>> {
        let Some(expression) = full_text_index::expression(query) else { return Ok(Vec::new()) };
        let open = self.lock();
        let found = || {
            let mut best = open.connection.prepare_cached(full_text_index::BEST)?;
            let rows = best.query_map(params![expression, most], |row| row.get(0))?;
            let rows: Vec<i64> = rows.collect::<rusqlite::Result<_>>()?;
            let mut get = open.connection.prepare_cached(&format!("{SELECT} WHERE rowid = ?"))?;
            rows.into_iter().map(|row| get.query_row([row], stored)).collect::<rusqlite::Result<Vec<_>>>()
        };
        found().map_err(|error| broken(&error))
    }

    pub(super) fn get(&self, id: &str) -> Result<Option<Arc<Stored>>> {
        let found = self
            .lock()
            .connection
            .prepare_cached(&format!("{SELECT} WHERE id = ?"))
            .and_then(|mut get| get.query_row([id], stored).optional());
        Ok(found.map_err(|error| broken(&error))?.map(|(_, stored)| stored))
    }

    pub(super) fn all(&self) -> Result<Vec<(String, Arc<Stored>)>> {
        let open = self.lock();
        let all = || {
            let mut select = open.connection.prepare_cached(&format!("{SELECT} ORDER BY id"))?;
            select.query_map([], stored)?.collect::<rusqlite::Result<_>>()
        };
        all().map_err(|error| broken(&error))
    }

    pub(super) fn delete(&self, id: &str) -> Result<bool> {
        let mut open = self.lock();
        let delete = |open: &mut Open| {
            let Some((row, old)) = row_of(&open.connection, id)? else { return Ok(None) };
            open.write(|connection| {
                full_text_index::remove(connection, row)?;
                connection.prepare_cached("DELETE FROM documents WHERE rowid = ?")?.execute([row]).map(drop)
            })?;
            Ok(Some(old))
        };
        let Some(old) = delete(&mut open).map_err(|error| broken(&error))? else { return Ok(false) };
        open.size.documents -= 1;
        open.size.bytes -= old;
        Ok(true)
    }

    pub(super) fn size(&self) -> Size {
        self.lock().size
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        locked(&self.open)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Open {
    /// Stores those documents of a group that fit, or none if one fails.
    fn put(&mut self, group: &[Arc<Put>]) -> rusqlite::Result<Vec<Result<bool, Failure>>> {
        let mut size = self.size;
        let mut outcomes = Vec::with_capacity(group.len());
        self.write(|connection| {
            for put in group {
                let old = row_of(connection, &put.id)?;
                let bytes = put.document.bytes(&put.id);
                outcomes.push(match put.bounds.replace(size, old.map(|(_, bytes)| bytes), bytes) {
                    Err(full) => Err(full),
                    Ok(after) => {
                        size = after;
                        replace(connection, old.map(|(row, _)| row), put, bytes)?;
                        Ok(old.is_none())
                    }
                });
            }
            Ok(())
        })?;
        self.size = size;
        Ok(outcomes)
    }

    /// Writes everything or nothing.
    fn write(&mut self, write: impl FnOnce(&Connection) -> rusqlite::Result<()>) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        write(&transaction)?;
        transaction.commit()
    }
}

/// Makes a new file that only its owner may read; the files of `SQLite`'s log get the same mode.
fn create(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// A connection, and the version of the layout; `None` in a new file.
fn connect(path: &Path) -> rusqlite::Result<Result<(Connection, Option<i32>), String>> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(LOCK_TIMEOUT)?;
    // Another process that has the file makes this fail at once, instead of at the first document.
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    let application: i32 = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let version: i32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if tables > 0 && application != APPLICATION_ID {
        return Ok(Err("it is a database of another program".to_owned()));
    }
    if tables > 0 && version != VERSION && version != WITHOUT_WORDS {
        return Ok(Err(format!("its layout is number {version}, and this version knows number {VERSION}")));
    }
    Ok(Ok((connection, (tables > 0).then_some(version))))
}

fn open(path: &Path) -> rusqlite::Result<Result<FileStore, String>> {
    if let Err(error) = create(path) {
        return Ok(Err(error.to_string()));
    }
    let (mut connection, version) = match connect(path)? {
        Ok(connected) => connected,
        Err(refused) => return Ok(Err(refused)),
    };
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if version.is_none() {
        transaction.execute_batch(&format!("{LAYOUT} PRAGMA application_id = {APPLICATION_ID};"))?;
    }
    if version != Some(VERSION) {
        transaction.execute_batch(&format!("{} PRAGMA user_version = {VERSION};", full_text_index::LAYOUT))?;
        index_all(&transaction)?;
    }
    transaction.execute_batch(BYTES_INDEX)?;
    transaction.commit()?;
    let (documents, bytes) =
        connection.query_row("SELECT count(*), coalesce(sum(bytes), 0) FROM documents", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    let open = Mutex::new(Open { connection, size: Size { documents, bytes } });
    Ok(Ok(FileStore { open, waiting: Mutex::default() }))
}

/// Indexes the words of documents from before there was an index.
fn index_all(connection: &Connection) -> rusqlite::Result<()> {
    let mut all = connection.prepare("SELECT rowid, title, text FROM documents")?;
    let mut rows = all.query([])?;
    while let Some(row) = rows.next()? {
        let (number, title, text): (i64, Option<String>, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        full_text_index::add(connection, number, title.as_deref(), &text)?;
    }
    Ok(())
}

/// Writes a document in place of the one in the row `old`.
fn replace(connection: &Connection, old: Option<i64>, put: &Put, bytes: usize) -> rusqlite::Result<()> {
    if let Some(row) = old {
        full_text_index::remove(connection, row)?;
        connection.prepare_cached("DELETE FROM documents WHERE rowid = ?")?.execute([row])?;
    }
    let Put { id, document, .. } = put;
    connection
        .prepare_cached("INSERT INTO documents (id, title, text, text_hash, bytes) VALUES (?, ?, ?, ?, ?)")?
        .execute(params![id, document.title, document.text, document.text_hash, bytes])?;
    full_text_index::add(connection, connection.last_insert_rowid(), document.title.as_deref(), &document.text)
}

/// A row of [`SELECT`].
fn stored(row: &rusqlite::Row) -> rusqlite::Result<(String, Arc<Stored>)> {
    let stored = Stored { title: row.get(1)?, text: row.get(2)?, text_hash: row.get(3)? };
    Ok((row.get(0)?, Arc::new(stored)))
}

/// The row of a document, and its bytes.
fn row_of(connection: &Connection, id: &str) -> rusqlite::Result<Option<(i64, usize)>> {
    connection
        .prepare_cached("SELECT rowid, bytes FROM documents WHERE id = ?")?
        .query_row([id], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()
}

/// Not the caller's error.
fn broken(error: &rusqlite::Error) -> Error {
    Error::new(ErrorKind::Internal, format!("the store failed: {error}"))
}
