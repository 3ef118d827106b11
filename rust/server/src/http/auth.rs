//! API keys.
//!
//! The server keeps hashes of keys, and compares each request with all of them in constant time, so that timing reveals
//! nothing. A changed file of keys is read again; if that fails, its old keys stay valid.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use axum::http::{HeaderMap, header};
use pullquote_core::error::{Error, ErrorKind, Result};
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

use crate::settings::Settings;

const CHECK_INTERVAL: Duration = Duration::from_secs(1);

const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// SHA-256 of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct KeyHash([u8; 32]);

/// The valid keys; without any, every request is allowed.
pub(crate) struct Keys {
    given: Vec<KeyHash>,
    file: Option<KeysFile>,
}

struct KeysFile {
    path: PathBuf,
    read: RwLock<FileState>,
}

#[derive(Clone, Default)]
struct FileState {
    keys: Vec<KeyHash>,
    /// Time and length of the file, to notice a change.
    stamp: Option<(SystemTime, u64)>,
}

impl Keys {
    pub(crate) fn read(settings: &Settings) -> Result<Self> {
        let file = settings.api_keys_file.as_ref().map(|path| {
            let read = read_file(path).map_err(|error| {
                let message = format!("cannot read the keys in {}: {error}", path.display());
                Error::new(ErrorKind::InvalidArgument, message)
            })?;
            Result::Ok(KeysFile { path: path.clone(), read: RwLock::new(read) })
        });
        Ok(Self { given: settings.api_key.iter().map(|key| hash(key)).collect(), file: file.transpose()? })
    }

    pub(crate) const fn are_required(&self) -> bool {
        !self.given.is_empty() || self.file.is_some()
    }

    /// The valid key of a request.
    pub(crate) fn find(&self, headers: &HeaderMap) -> Option<KeyHash> {
        let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).and_then(bearer);
        let named = headers.get("x-api-key").and_then(|value| value.to_str().ok());
        [bearer, named].into_iter().flatten().map(hash).find(|key| self.knows(key))
    }

    fn knows(&self, key_hash: &KeyHash) -> bool {
        let among = |keys: &[KeyHash]| keys.iter().fold(Choice::from(0), |known, key| known | key.0.ct_eq(&key_hash.0));
        let in_file = self
            .file
            .as_ref()
            .map_or(Choice::from(0), |file| among(&file.read.read().unwrap_or_else(PoisonError::into_inner).keys));
        (among(&self.given) | in_file).into()
    }

    /// Reads the file again after each change, forever.
    pub(crate) async fn watch(self: Arc<Self>) {
        if self.file.is_none() {
            return;
        }
        loop {
            tokio::time::sleep(CHECK_INTERVAL).await;
            let keys = Arc::clone(&self);
            let _ = tokio::task::spawn_blocking(move || keys.reload_if_changed()).await;
        }
    }

    fn reload_if_changed(&self) {
        let Some(file) = &self.file else { return };
        let stamp = file.read.read().unwrap_or_else(PoisonError::into_inner).stamp;
        if stamp_of(&file.path).is_ok_and(|now| Some(now) == stamp) {
            return;
        }
        match read_file(&file.path) {
            Ok(read) => {
                tracing::info!(keys = read.keys.len(), "reloaded the changed file of keys");
                *file.read.write().unwrap_or_else(PoisonError::into_inner) = read;
            }
            Err(error) => tracing::warn!(%error, "the file of keys cannot be read; its old keys stay valid"),
        }
    }
}

/// A key in each line, except empty ones and those that begin with `#`.
fn read_file(path: &Path) -> std::io::Result<FileState> {
    // Before the text: after a change in between, the file is read again.
    let stamp = stamp_of(path)?;
    if stamp.1 > MAX_FILE_BYTES {
        return Err(std::io::Error::other(format!("it is longer than {MAX_FILE_BYTES} bytes")));
    }
    let text = std::fs::read_to_string(path)?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    Ok(FileState { keys: lines.map(hash).collect(), stamp: Some(stamp) })
}

fn stamp_of(path: &Path) -> std::io::Result<(SystemTime, u64)> {
    let metadata = std::fs::metadata(path)?;
    Ok((metadata.modified()?, metadata.len()))
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, key) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
}

fn hash(key: &str) -> KeyHash {
    KeyHash(Sha256::digest(key.trim().as_bytes()).into())
}
