//! Documents in an `SQLite` database, in memory or in a file.
//!
//! In a file, a write-ahead log is on the disk before a document is acknowledged (`journal_mode = WAL`, `synchronous =
//! FULL`), and the index of words is in the same file and transaction. So nothing that was acknowledged is lost if the
//! process or the machine is killed at any moment. One process has the file at a time. Documents that arrive while
//! others are written share the next transaction, and its flush to the disk. On a full disk, documents can still be read
//! and deleted.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use pullquote_core::error::{Error, ErrorKind, Result};
use pullquote_core::runtime::call::Check;
use pullquote_core::runtime::sync::lock;
use rusqlite::{Connection, ErrorCode, OptionalExtension, TransactionBehavior, params};

use super::disk_reserve::DiskReserve;
use super::listing::{Ids, Page, Rows};
use super::{Size, Stored, full_text_index, owners_file};
use crate::http::failure::Failure;
use crate::http::unix_time;
use crate::settings::Settings;

/// Identifies files of this program; others are refused.
const APPLICATION_ID: i32 = 0x7071_7431;

const VERSION: i32 = 3;

/// A layout that opening a file brings up to date.
const OLDER_VERSION: i32 = 2;

/// What the older layout lacks. Its documents have neither.
const NEW_COLUMNS: &str = "
    ALTER TABLE documents ADD COLUMN format TEXT;
    ALTER TABLE documents ADD COLUMN stored_at INTEGER;
";

/// Documents that are deleted together, while others wait.
const DELETED_TOGETHER: usize = 256;

/// How long to wait for a process that has the file. A server keeps it until it exits.
const LOCK_TIMEOUT: Duration = Duration::from_millis(200);

/// With the index, counting documents and bytes does not read their texts.
const LAYOUT: &str = "
    CREATE TABLE documents (
        id TEXT PRIMARY KEY,
        title TEXT,
        text TEXT NOT NULL,
        text_hash TEXT NOT NULL,
        bytes INTEGER NOT NULL,
        format TEXT,
        stored_at INTEGER
    ) STRICT;
    CREATE INDEX documents_bytes ON documents (bytes);
";

const SELECT: &str = "SELECT id, title, text, text_hash, format FROM documents";

pub(crate) struct Store {
    open: Mutex<Open>,
    /// Batches whose threads wait for `open`.
    waiting: Mutex<Vec<Arc<Batch>>>,
}

/// Documents that are stored together or not at all.
struct Batch {
    documents: Vec<(String, Stored)>,
    /// Once it was written.
    outcome: Mutex<Option<Stores>>,
}

/// Of each document whether its id is new, or why none is stored.
type Stores = Result<Vec<bool>, NotStored>;

/// Why a batch is not stored.
#[derive(Clone, Debug)]
pub(crate) struct NotStored {
    pub(crate) failure: Failure,
    /// The first document that is too much.
    pub(crate) document: Option<usize>,
}

impl From<rusqlite::Error> for NotStored {
    fn from(error: rusqlite::Error) -> Self {
        Self { failure: broken(&error).into(), document: None }
    }
}

struct Open {
    connection: Connection,
    /// `None` in memory.
    reserve: Option<DiskReserve>,
    /// Size of its content; no other process writes it.
    size: Size,
    limits: Size,
}

/// Why a file cannot be opened.
struct Refused(String);

impl From<rusqlite::Error> for Refused {
    fn from(error: rusqlite::Error) -> Self {
        let is_busy = error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy);
        Self(if is_busy { "another process has it open".to_owned() } else { error.to_string() })
    }
}

impl Refused {
    fn at(self, path: &Path) -> Error {
        let message = format!("cannot keep documents in {}: {}", path.display(), self.0);
        Error::new(ErrorKind::InvalidArgument, message)
    }
}

/// Fails if the file is another program's, or if another process has it. Says so sooner than [`Store::open`] if it
/// comes before the model is loaded.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`], with the path.
pub fn check_store(path: &Path) -> Result<()> {
    if path.exists() { connect(path).map(drop).map_err(|refused| refused.at(path)) } else { Ok(()) }
}

impl Store {
    /// Opens the file of `--store`, or a database in memory.
    pub(crate) fn open(settings: &Settings) -> Result<Self> {
        let limits = Size { documents: settings.store_documents, bytes: settings.store_bytes };
        Self::new(settings.store.as_deref(), limits)
    }

    pub(super) fn new(path: Option<&Path>, limits: Size) -> Result<Self> {
        let open = match path {
            Some(path) => open(path, limits).map_err(|refused| refused.at(path))?,
            None => Connection::open_in_memory()
                .and_then(|connection| lay_out(connection, limits))
                .map_err(|error| broken(&error))?,
        };
        Ok(Self { open: Mutex::new(open), waiting: Mutex::default() })
    }

    /// Stores a document durably; returns whether its id is new.
    pub(crate) fn put(&self, id: &str, document: Stored) -> Result<bool, Failure> {
        let stored = self.put_all(vec![(id.to_owned(), document)]).map_err(|refused| refused.failure)?;
        Ok(stored[0])
    }

    /// Stores documents durably, in one transaction, or none of them; returns of each whether its id is new.
    pub(crate) fn put_all(&self, documents: Vec<(String, Stored)>) -> Stores {
        let batch = Arc::new(Batch { documents, outcome: Mutex::default() });
        lock(&self.waiting).push(Arc::clone(&batch));
        let mut open = self.lock();
        // Another thread may have stored it while this one waited.
        if lock(&batch.outcome).is_none() {
            let group = std::mem::take(&mut *lock(&self.waiting));
            // One that fails must not fail the others.
            let outcomes = open.put(&group).unwrap_or_else(|_| {
                let mut alone = |batch| open.put(std::slice::from_ref(batch)).map(|mut outcomes| outcomes.remove(0));
                group.iter().map(|batch| alone(batch).unwrap_or_else(|error| Err(error.into()))).collect()
            });
            for (batch, outcome) in group.iter().zip(outcomes) {
                *lock(&batch.outcome) = Some(outcome);
            }
        }
        drop(open);
        let panicked = || {
            let failure = Error::new(ErrorKind::Internal, "a thread of the store panicked").into();
            Err(NotStored { failure, document: None })
        };
        lock(&batch.outcome).take().unwrap_or_else(panicked)
    }

    /// The documents with words of a query, the best by BM25 first.
    pub(crate) fn search(&self, query: &str, most: usize) -> Result<Vec<String>> {
        let Some(expression) = full_text_index::expression(query) else { return Ok(Vec::new()) };
        let open = self.lock();
        let found = || {
            let mut best = open.connection.prepare_cached(full_text_index::BEST)?;
            let rows = best.query_map(params![expression, most], |row| row.get(0))?;
            let rows: Vec<i64> = rows.collect::<rusqlite::Result<_>>()?;
            let mut id = open.connection.prepare_cached("SELECT id FROM documents WHERE rowid = ?")?;
            rows.into_iter().map(|row| id.query_row([row], |row| row.get(0))).collect::<rusqlite::Result<Vec<_>>>()
        };
        found().map_err(|error| broken(&error))
    }

    pub(crate) fn get(&self, id: &str) -> Result<Option<Stored>> {
        let found = self
            .lock()
            .connection
            .prepare_cached(&format!("{SELECT} WHERE id = ?"))
            .and_then(|mut get| get.query_row([id], stored).optional());
        Ok(found.map_err(|error| broken(&error))?.map(|(_, stored)| stored))
    }

    /// All documents with their ids, in the order of ids.
    pub(crate) fn all(&self) -> Result<Vec<(String, Stored)>> {
        let open = self.lock();
        let all = || {
            let mut select = open.connection.prepare_cached(&format!("{SELECT} ORDER BY id"))?;
            select.query_map([], stored)?.collect::<rusqlite::Result<_>>()
        };
        all().map_err(|error| broken(&error))
    }

    /// Deletes a document; returns whether there was one.
    pub(crate) fn delete(&self, id: &str) -> Result<bool> {
        let mut open = self.lock();
        let row = row_of(&open.connection, id).map_err(|error| broken(&error))?;
        let Some((row, bytes)) = row else { return Ok(false) };
        open.delete(&Rows { numbers: vec![row], bytes, last: id.to_owned() }).map_err(|error| broken(&error))?;
        Ok(true)
    }

    /// Some of the documents whose ids begin with a prefix, in the order of ids, after an id.
    pub(crate) fn list(&self, prefix: &str, after: &str, most: usize) -> Result<Page> {
        Ids::with_prefix(prefix).page(&self.lock().connection, after, most).map_err(|error| broken(&error))
    }

    /// Deletes all documents whose ids begin with a prefix, some at a time, so that others do not wait for all of them;
    /// returns how many. Those that were deleted before an error stay deleted.
    pub(crate) fn delete_all(&self, prefix: &str, check: &Check) -> Result<usize> {
        let (ids, mut after, mut deleted) = (Ids::with_prefix(prefix), String::new(), 0);
        loop {
            check()?;
            let mut open = self.lock();
            let rows = ids.rows(&open.connection, &after, DELETED_TOGETHER).map_err(|error| broken(&error))?;
            let Some(rows) = rows else { return Ok(deleted) };
            open.delete(&rows).map_err(|error| broken(&error))?;
            deleted += rows.numbers.len();
            after = rows.last;
        }
    }

    pub(crate) fn size(&self) -> Size {
        self.lock().size
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        lock(&self.open)
    }
}

impl Open {
    /// Stores those batches of a group that fit, or none if one fails.
    fn put(&mut self, group: &[Arc<Batch>]) -> rusqlite::Result<Vec<Stores>> {
        let (before, limits) = (self.size, self.limits);
        let (size, outcomes) = self.write(|connection| {
            let mut size = before;
            let mut outcomes = Vec::with_capacity(group.len());
            for batch in group {
                let after = size_after(connection, size, limits, &batch.documents)?;
                outcomes.push(match after {
                    Err(refused) => Err(refused),
                    Ok(after) => {
                        size = after;
                        let put = |(id, document): &(String, Stored)| replace(connection, id, document);
                        Ok(batch.documents.iter().map(put).collect::<rusqlite::Result<_>>()?)
                    }
                });
            }
            Ok((size, outcomes))
        })?;
        self.size = size;
        Ok(outcomes)
    }

    /// Deletes documents. Uses the reserve on a full disk.
    fn delete(&mut self, rows: &Rows) -> rusqlite::Result<()> {
        let delete = |connection: &Connection| {
            let mut delete = connection.prepare_cached("DELETE FROM documents WHERE rowid = ?")?;
            rows.numbers.iter().try_for_each(|row| {
                full_text_index::remove(connection, *row)?;
                delete.execute([row]).map(drop)
            })
        };
        let deleted = self.write(delete);
        match (deleted, &self.reserve) {
            (Err(error), Some(reserve)) if is_full(&error) => {
                reserve.release();
                let deleted = self.write(delete);
                self.empty_log();
                if let Some(reserve) = &self.reserve {
                    reserve.take();
                }
                deleted?;
            }
            (deleted, _) => deleted?,
        }
        self.size.documents -= rows.numbers.len();
        self.size.bytes -= rows.bytes;
        Ok(())
    }

    /// Writes everything or nothing; on a full disk once more, with the space of the log.
    fn write<T>(&mut self, write: impl Fn(&Connection) -> rusqlite::Result<T>) -> rusqlite::Result<T> {
        match self.try_write(&write) {
            Err(error) if is_full(&error) && self.reserve.is_some() => {
                self.empty_log();
                self.try_write(write)
            }
            written => written,
        }
    }

    fn try_write<T>(&mut self, write: impl Fn(&Connection) -> rusqlite::Result<T>) -> rusqlite::Result<T> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let written = write(&transaction)?;
        transaction.commit()?;
        Ok(written)
    }

    /// Moves the content of the write-ahead log to the database, if that has space for it.
    fn empty_log(&self) {
        let moved = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        if let Err(error) = moved {
            tracing::debug!(%error, "the log of the store keeps its content");
        }
    }
}

/// The size of the store after it has these documents, or the first one that is too much. Counts the end only: a batch
/// may replace a document by a smaller one to make room.
fn size_after(
    connection: &Connection,
    before: Size,
    limits: Size,
    documents: &[(String, Stored)],
) -> rusqlite::Result<Result<Size, NotStored>> {
    let mut size = before;
    let mut bytes_of = HashMap::new();
    let mut first_too_much = None;
    for (index, (id, document)) in documents.iter().enumerate() {
        let new = document.bytes(id);
        let old = match bytes_of.insert(id, new) {
            Some(old) => Some(old),
            None => row_of(connection, id)?.map(|(_, bytes)| bytes),
        };
        size = size.replace(old, new);
        if !size.is_within(limits) {
            first_too_much = first_too_much.or(Some(index));
        }
    }
    // A store whose limits were lowered is above them already.
    Ok(if size.is_within(limits) {
        Ok(size)
    } else {
        Err(NotStored { failure: limits.full(), document: first_too_much })
    })
}

/// Makes a new file that only its owner may read; the files of `SQLite`'s log get the same mode.
fn create(path: &Path) -> io::Result<()> {
    match owners_file().create_new(true).open(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// A file that is new or of this program.
fn connect(path: &Path) -> Result<Connection, Refused> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(LOCK_TIMEOUT)?;
    // Another process that has the file makes this fail at once, instead of at the first document.
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    let application: i32 = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let version: i32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if !is_empty(&connection)? && application != APPLICATION_ID {
        return Err(Refused("it is a database of another program".to_owned()));
    }
    if !is_empty(&connection)? && ![OLDER_VERSION, VERSION].contains(&version) {
        return Err(Refused(format!("its layout is number {version}, and this version knows number {VERSION}")));
    }
    Ok(connection)
}

fn is_empty(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row("SELECT count(*) = 0 FROM sqlite_schema", [], |row| row.get(0))
}

fn open(path: &Path, limits: Size) -> Result<Open, Refused> {
    create(path).map_err(|error| Refused(error.to_string()))?;
    let connection = connect(path)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    let reserve = DiskReserve::new(path);
    reserve.take();
    Ok(Open { reserve: Some(reserve), ..lay_out(connection, limits)? })
}

/// Lays out a new database, or one that has the older layout.
fn lay_out(mut connection: Connection, limits: Size) -> rusqlite::Result<Open> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if is_empty(&transaction)? {
        let index = full_text_index::LAYOUT;
        let numbers = format!("PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION};");
        transaction.execute_batch(&format!("{LAYOUT} {index} {numbers}"))?;
    } else if transaction.pragma_query_value(None, "user_version", |row| row.get::<_, i32>(0))? == OLDER_VERSION {
        transaction.execute_batch(&format!("{NEW_COLUMNS} PRAGMA user_version = {VERSION};"))?;
    }
    transaction.commit()?;
    let count = "SELECT count(*), coalesce(sum(bytes), 0) FROM documents";
    let size = connection.query_row(count, [], |row| Ok(Size { documents: row.get(0)?, bytes: row.get(1)? }))?;
    Ok(Open { connection, reserve: None, size, limits })
}

/// Writes a document in place of the one with its id; returns whether there was none.
fn replace(connection: &Connection, id: &str, document: &Stored) -> rusqlite::Result<bool> {
    let old = row_of(connection, id)?;
    if let Some((row, _)) = old {
        full_text_index::remove(connection, row)?;
        connection.prepare_cached("DELETE FROM documents WHERE rowid = ?")?.execute([row])?;
    }
    connection
        .prepare_cached(
            "INSERT INTO documents (id, title, text, text_hash, bytes, format, stored_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
        )?
        .execute(params![
            id,
            document.title,
            document.text,
            document.text_hash,
            document.bytes(id),
            document.format,
            unix_time().as_secs(),
        ])?;
    full_text_index::add(connection, connection.last_insert_rowid(), document.title.as_deref(), &document.text)?;
    Ok(old.is_none())
}

/// A row of [`SELECT`].
fn stored(row: &rusqlite::Row) -> rusqlite::Result<(String, Stored)> {
    let stored = Stored { title: row.get(1)?, text: row.get(2)?, text_hash: row.get(3)?, format: row.get(4)? };
    Ok((row.get(0)?, stored))
}

/// The row of a document, and its bytes.
fn row_of(connection: &Connection, id: &str) -> rusqlite::Result<Option<(i64, usize)>> {
    connection
        .prepare_cached("SELECT rowid, bytes FROM documents WHERE id = ?")?
        .query_row([id], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()
}

/// Whether the file cannot grow. `SQLite` names a quota and a limit of the file's size as other errors of a write.
fn is_full(error: &rusqlite::Error) -> bool {
    const WRITE: i32 = rusqlite::ffi::SQLITE_IOERR_WRITE;
    error.sqlite_error_code() == Some(ErrorCode::DiskFull)
        || error.sqlite_error().is_some_and(|error| error.extended_code == WRITE)
}

/// An error of the database, which is not the caller's.
fn broken(error: &rusqlite::Error) -> Error {
    if is_full(error) {
        tracing::error!(%error, "the file of the store cannot grow");
        let message =
            format!("the store's file cannot grow ({error}): delete documents, or make room on the server's disk");
        return Error::new(ErrorKind::StoreFull, message);
    }
    Error::new(ErrorKind::Internal, format!("the store failed: {error}"))
}
