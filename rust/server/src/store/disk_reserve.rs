//! Space on the disk of the store for deletions: even a deletion writes to the log of `SQLite` first, so that on a full
//! disk nothing could be deleted otherwise.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// As much as `SQLite` keeps in its log, so that there is space to move all of it to the database; less on a small disk.
const SIZES: [usize; 2] = [4 << 20, 512 << 10];

/// A file of zeros next to the database.
pub(super) struct DiskReserve(PathBuf);

impl DiskReserve {
    pub(super) fn new(database: &Path) -> Self {
        let mut path = database.as_os_str().to_owned();
        path.push("-reserve");
        Self(path.into())
    }

    /// Takes the space, as far as the disk has it.
    pub(super) fn take(&self) {
        if !SIZES.iter().any(|size| self.write(*size).is_ok()) {
            self.release();
            tracing::warn!(file = %self.0.display(), "the disk of the store is full, and has no space in reserve");
        }
    }

    pub(super) fn release(&self) {
        if let Err(error) = self.open().and_then(|file| file.set_len(0)) {
            tracing::warn!(%error, file = %self.0.display(), "the reserve of the store cannot be released");
        }
    }

    fn write(&self, size: usize) -> io::Result<()> {
        let mut file = self.open()?;
        if file.metadata()?.len() == size as u64 {
            return Ok(());
        }
        file.set_len(0)?;
        // A hole would take no space.
        let zeros = vec![0; 64 * 1024];
        for _ in 0..size / zeros.len() {
            file.write_all(&zeros)?;
        }
        file.sync_all()
    }

    fn open(&self) -> io::Result<File> {
        super::owners_file().truncate(false).create(true).open(&self.0)
    }
}
