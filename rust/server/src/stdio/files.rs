//! Files that agents may read: below some folders, after links are resolved.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::join_all;
use pullquote_core::error::{Error, ErrorKind, Result};
use tokio::task::block_in_place;
use tokio::time::{Duration, Instant};

use super::backend::MAX_BYTES;
use crate::http::failure::Failure;
use crate::routes::mcp::FailedSource;
use crate::settings::Settings;
use crate::uploads::form::UploadedFile;
use crate::uploads::parsed_upload::ParsedUpload;
use crate::uploads::parser::{Parser, Parsing};

/// As many as a server takes in one request at its default settings.
const MAX_FILES: usize = 1000;

/// Longer than the parser waits for a file.
const PATIENCE: Duration = Duration::from_secs(24 * 60 * 60);

pub(super) struct Files {
    folders: Vec<PathBuf>,
    parser: Parser,
}

/// A file that was read.
pub(super) struct FileText {
    /// As the call names it, or its path if the call names its folder.
    pub(super) name: String,
    pub(super) document: Arc<ParsedUpload>,
}

impl Files {
    /// `None` without folders.
    pub(super) fn new(folders: &[PathBuf], settings: &Settings) -> Result<Option<Self>> {
        let folder = |folder: &PathBuf| {
            folder.canonicalize().ok().filter(|path| path.is_dir()).ok_or_else(|| {
                Error::new(ErrorKind::InvalidArgument, format!("there is no folder {}", folder.display()))
            })
        };
        let folders = folders.iter().map(folder).collect::<Result<Vec<PathBuf>>>()?;
        Ok((!folders.is_empty()).then(|| Self { folders, parser: Parser::new(settings) }))
    }

    /// Reads files and the files of folders, and says of others why they cannot be read. The error is that there are
    /// too many.
    pub(super) async fn read(&self, names: &[String]) -> Result<(Vec<FileText>, Vec<FailedSource>), String> {
        let (prepared, mut failed) = block_in_place(|| {
            let (paths, failed) = self.paths(names);
            if paths.len() > MAX_FILES {
                let count = paths.len();
                return Err(format!(
                    "{count} files are too many: a call takes {MAX_FILES} sources; name fewer or smaller folders"
                ));
            }
            Ok((paths.into_iter().map(|(name, path)| (name, self.prepare(&path))).collect::<Vec<_>>(), failed))
        })?;
        let read =
            join_all(prepared.into_iter().map(async |(name, prepared)| (name, self.finish(prepared).await))).await;
        let mut texts = Vec::new();
        for (name, document) in read {
            match document {
                Ok(document) => texts.push(FileText { name, document }),
                Err(reason) => failed.push(FailedSource { source: name, reason }),
            }
        }
        Ok((texts, failed))
    }

    fn prepare(&self, path: &Path) -> Result<Parsing, String> {
        let length = fs::metadata(path).map_err(|error| error.to_string())?.len();
        if length > MAX_BYTES as u64 {
            return Err(format!("it has {length} bytes; {MAX_BYTES} are read"));
        }
        let content = fs::read(path).map_err(|error| error.to_string())?.into();
        self.parser.prepare(0, UploadedFile { name: None, content }, None).map_err(|failure| reason(&failure))
    }

    async fn finish(&self, prepared: Result<Parsing, String>) -> Result<Arc<ParsedUpload>, String> {
        let parsed = self.parser.run(prepared?, Instant::now() + PATIENCE).await;
        parsed.and_then(|parsed| self.parser.finish(parsed)).map_err(|failure| reason(&failure))
    }

    /// Each file with its name: those that are named, and those of folders that are named.
    fn paths(&self, names: &[String]) -> (Vec<(String, PathBuf)>, Vec<FailedSource>) {
        let (mut paths, mut failed) = (Vec::new(), Vec::new());
        for name in names {
            match self.allowed(name) {
                None => {
                    let folders: Vec<String> = self.folders.iter().map(|folder| folder.display().to_string()).collect();
                    let reason = format!("there is no such file below {}", folders.join(", "));
                    failed.push(FailedSource { source: name.clone(), reason });
                }
                Some(path) if path.is_dir() => {
                    let mut found = Vec::new();
                    self.files_below(&path, &mut found);
                    found.sort();
                    paths.extend(found.into_iter().map(|path| (path.display().to_string(), path)));
                }
                Some(path) => paths.push((name.clone(), path)),
            }
        }
        (paths, failed)
    }

    /// The file or folder of a name, if it is there and below a folder of ours; a relative name is below one of them.
    fn allowed(&self, name: &str) -> Option<PathBuf> {
        let found = self.folders.iter().filter_map(|folder| folder.join(name).canonicalize().ok());
        found.into_iter().find(|path| self.has(path) && (path.is_file() || path.is_dir()))
    }

    fn has(&self, path: &Path) -> bool {
        self.folders.iter().any(|folder| path.starts_with(folder))
    }

    /// Adds the files below a folder, but no hidden ones, and no folders that are links.
    fn files_below(&self, folder: &Path, found: &mut Vec<PathBuf>) {
        let Ok(entries) = fs::read_dir(folder) else { return };
        for entry in entries.flatten() {
            let (path, kind) = (entry.path(), entry.file_type());
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            if kind.is_ok_and(|kind| kind.is_dir()) {
                self.files_below(&path, found);
            } else if path.is_file() && path.canonicalize().is_ok_and(|target| self.has(&target)) {
                found.push(path);
            }
        }
    }
}

fn reason(failure: &Failure) -> String {
    // A tool has no password.
    if failure.field.as_deref() == Some("password") { "it is encrypted".to_owned() } else { failure.message.clone() }
}
