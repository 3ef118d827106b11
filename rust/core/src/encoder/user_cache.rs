//! The user's cache: small files that only save time. A cache that is absent, full or read-only costs that time.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// `$XDG_CACHE_HOME/pullquote`, by default in `~/.cache`; `None` for a user without a home.
pub fn folder() -> Option<PathBuf> {
    let home = || env::home_dir().map(|home| home.join(".cache"));
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute()).or_else(home);
    cache.map(|cache| cache.join("pullquote"))
}

/// A file of the cache.
pub fn read(name: &str) -> Option<Vec<u8>> {
    fs::read(folder()?.join(name)).ok()
}

/// Keeps a file in the cache, if it takes one.
pub fn write(name: &str, bytes: &[u8]) {
    if let Some(folder) = folder() {
        write_whole(&folder.join(name), bytes);
    }
}

/// Writes a file that appears whole, as another process may write or read the same; whether that succeeded.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> bool {
    let Some(folder) = path.parent() else { return false };
    let draft = path.with_extension(format!("{}.tmp", std::process::id()));
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(&draft, bytes));
    let is_written = written.and_then(|()| fs::rename(&draft, path)).is_ok();
    if !is_written {
        let _ = fs::remove_file(draft);
    }
    is_written
}
