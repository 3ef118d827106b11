//! The parser: runs a process for each uploaded file that is not text, and keeps what it read.
//!
//! A process gets the file on standard input, below a line of settings, and answers on standard output: a line of JSON,
//! then bytes. It ends at the request's deadline, and when the client disconnects. Recently read documents stay in
//! memory, so that a second question about the same file needs no process.

use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use lru::LruCache;
use pullquote_core::error::ErrorKind;
use pullquote_core::runtime::sync::lock;
use pullquote_core::text::kinds::{FileKind, Limit, Limits, Reader, readable};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use super::form::UploadedFile;
use super::parsed_upload::ParsedUpload;
use crate::fetch::decode_undeclared;
use crate::http::failure::{Cause, Failure, refused};
use crate::settings::Settings;

/// Bytes of the documents that stay in memory.
const CACHE_BYTES: usize = 64 * 1024 * 1024;

/// Bytes of a process's answer for each character: a float32 box, and the character as JSON escapes it.
const ANSWER_BYTES: u64 = 16 + 12;

/// The most bytes of a process's answer that are not characters: an image, and the places of pages.
const OTHER_BYTES: u64 = 64 * 1024 * 1024;

/// Variables of the environment that a parser must not see.
const SECRETS: [&str; 2] = ["PULLQUOTE_API_KEY", "PULLQUOTE_UPSTREAM_KEY"];

pub(crate) struct Parser {
    /// The program and its arguments.
    command: Vec<String>,
    limits: Limits,
    timeout: Duration,
    /// Processes that may run at the same time.
    places: Semaphore,
    cache: Mutex<Cache>,
}

pub(crate) struct PageImage {
    pub(crate) image: Bytes,
    /// The part of the page that it shows, in points: left, bottom, right, top.
    pub(crate) area: [f32; 4],
    /// Degrees by which it is turned clockwise.
    pub(crate) rotation: u16,
}

/// A file that may have to be parsed.
pub(crate) struct Parsing {
    /// Name of the field for errors, as `file[0]`.
    field: String,
    kind: &'static FileKind,
    content: Bytes,
    password: Option<String>,
    key: [u8; 32],
    known: Option<Arc<ParsedUpload>>,
}

pub(crate) struct Parsed {
    parsing: Parsing,
    output: Vec<u8>,
}

#[derive(Deserialize)]
struct Header {
    #[serde(default)]
    text: String,
    /// For each page its first character, width and height.
    #[serde(default)]
    pages: Vec<(usize, f32, f32)>,
    error: Option<String>,
    #[serde(default)]
    detail: String,
    #[serde(default)]
    area: [f32; 4],
    #[serde(default)]
    rotation: u16,
}

impl Parser {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            command: settings.document_parser.clone(),
            limits: Limits {
                pages: Limit { option: "--upload-max-pages", value: settings.upload_max_pages },
                chars: Limit { option: "--max-document-bytes", value: settings.max_document_bytes },
                memory: Limit { option: "--upload-max-memory", value: settings.upload_max_memory },
            },
            timeout: settings.upload_timeout,
            places: Semaphore::new(settings.upload_processes.min(Semaphore::MAX_PERMITS)),
            cache: Mutex::new(Cache::new()),
        }
    }

    /// What a file is, and its document if it was read before. Computes.
    pub(crate) fn prepare(&self, index: usize, file: UploadedFile, password: Option<&str>) -> Result<Parsing, Failure> {
        let field = format!("file[{index}]");
        let UploadedFile { content, .. } = file;
        let kind = FileKind::of(&content);
        let mut hash = Sha256::new();
        hash.update(password.unwrap_or_default());
        hash.update([0]);
        hash.update(&content);
        let key = hash.finalize().into();
        let known = match kind.reader {
            Reader::Core(_) => Some(Arc::new(read_text(&field, &content)?)),
            Reader::Parser { .. } => self.cache().documents.get(&key).cloned(),
            Reader::None => return refused(field, format!("it {}", kind.refusal("FILE").unwrap_or_default())),
        };
        Ok(Parsing { field, kind, content, password: password.map(str::to_owned), key, known })
    }

    /// Runs the process of a file, if it needs one.
    pub(crate) async fn run(&self, parsing: Parsing, deadline: Instant) -> Result<Parsed, Failure> {
        let output = match &parsing.known {
            Some(_) => Vec::new(),
            None => self.process(&parsing, json!({}), deadline).await?,
        };
        Ok(Parsed { parsing, output })
    }

    /// The document that a process returned. Computes.
    pub(crate) fn finish(&self, parsed: Parsed) -> Result<Arc<ParsedUpload>, Failure> {
        let Parsed { parsing, output } = parsed;
        if let Some(known) = parsing.known {
            return Ok(known);
        }
        let (header, rest) = self.header(&parsing, &output)?;
        let (boxes, _) = rest.as_chunks::<16>();
        let place = |bytes: &[u8; 16]| bytemuck::pod_read_unaligned::<[f32; 4]>(bytes);
        let document = Arc::new(ParsedUpload {
            text: header.text,
            format: parsing.kind.parsed_format(),
            page_starts: header.pages.iter().map(|(start, ..)| *start).collect(),
            boxes: boxes.iter().map(place).collect(),
            warning: None,
        });
        self.cache().put(parsing.key, &document);
        Ok(document)
    }

    /// A page of a PDF as an image of this width in pixels.
    pub(crate) async fn render(
        &self,
        parsing: Parsing,
        page: usize,
        width: usize,
        deadline: Instant,
    ) -> Result<PageImage, Failure> {
        if parsing.kind.name != "pdf" {
            return refused(parsing.field, "it is not a PDF; only PDFs have pages");
        }
        let output = self.process(&parsing, json!({"render": {"page": page, "width": width}}), deadline).await?;
        let (Header { area, rotation, .. }, image) = self.header(&parsing, &output)?;
        Ok(PageImage { image: Bytes::copy_from_slice(image), area, rotation })
    }

    async fn process(&self, parsing: &Parsing, more: Value, deadline: Instant) -> Result<Vec<u8>, Failure> {
        let until = deadline.min(Instant::now() + self.timeout);
        let late = |_| {
            let limit = format!("the request's timeout, or {} seconds", self.timeout.as_secs_f64());
            self.failure(parsing, "time", &limit)
        };
        let work = async {
            let internal = |error: &str| Failure::new(Cause::Core(ErrorKind::Internal), format!("the parser: {error}"));
            let _place = self.places.acquire().await.map_err(|error| internal(&error.to_string()))?;
            let mut settings = json!({
                "format": parsing.kind.name,
                "library": parsing.kind.library(),
                "password": parsing.password,
                "max_pages": self.limits.pages.value,
                "max_chars": self.limits.chars.value,
                "max_memory": self.limits.memory.value,
                "seconds": self.timeout.as_secs_f64(),
            });
            if let (Value::Object(settings), Value::Object(more)) = (&mut settings, more) {
                settings.extend(more);
            }
            let (program, arguments) = self.command.split_first().ok_or_else(|| internal("no program"))?;
            let mut command = Command::new(program);
            command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            for name in SECRETS {
                command.env_remove(name);
            }
            let mut child = command.kill_on_drop(true).spawn().map_err(|error| internal(&error.to_string()))?;
            let (Some(mut input), Some(output), Some(errors)) =
                (child.stdin.take(), child.stdout.take(), child.stderr.take())
            else {
                return Err(internal("a process without pipes"));
            };
            let send = async {
                let line = format!("{settings}\n");
                // A process that has enough, or crashed, reads no further; its answer or its status says why.
                let _ = input.write_all(line.as_bytes()).await;
                let _ = input.write_all(&parsing.content).await;
                drop(input);
            };
            let most = (self.limits.chars.value as u64).saturating_mul(ANSWER_BYTES).saturating_add(OTHER_BYTES);
            let (mut written, mut said) = (Vec::new(), Vec::new());
            let (mut output, mut errors) = (output.take(most), errors.take(64 * 1024));
            let ((), read, _) = tokio::join!(send, output.read_to_end(&mut written), errors.read_to_end(&mut said));
            read.map_err(|error| internal(&error.to_string()))?;
            let status = child.wait().await.map_err(|error| internal(&error.to_string()))?;
            if !status.success() || !written.contains(&b'\n') {
                let said = String::from_utf8_lossy(&said);
                tracing::warn!(%status, error = said.trim().lines().last().unwrap_or_default(), "a parser of a file failed");
                return Err(self.failure(parsing, "crashed", &status.to_string()));
            }
            Ok(written)
        };
        timeout_at(until, work).await.map_err(late)?
    }

    /// The first line of an answer, and the bytes below it.
    fn header<'output>(&self, parsing: &Parsing, output: &'output [u8]) -> Result<(Header, &'output [u8]), Failure> {
        let end = output.iter().position(|byte| *byte == b'\n').unwrap_or(output.len());
        let header: Header = serde_json::from_slice(&output[..end]).map_err(|error| {
            Failure::new(Cause::Core(ErrorKind::Internal), format!("the parser's answer is not JSON: {error}"))
        })?;
        match &header.error {
            None => Ok((header, output.get(end + 1..).unwrap_or_default())),
            Some(error) => Err(self.failure(parsing, error, &header.detail)),
        }
    }

    /// Why a file cannot be read, and what would help.
    fn failure(&self, parsing: &Parsing, error: &str, detail: &str) -> Failure {
        let failure = parsing.kind.failure(error, detail, parsing.password.is_some(), &self.limits);
        let cause = match failure.kind() {
            ErrorKind::InvalidText => Cause::Unprocessable,
            ErrorKind::OutOfMemory => Cause::Core(ErrorKind::LimitExceeded),
            kind => Cause::Core(kind),
        };
        if error == "encrypted" && parsing.kind.takes_password() {
            return Failure::of_field(cause, "password", format!("{} {failure}", parsing.field));
        }
        Failure::of_field(cause, parsing.field.clone(), format!("it {failure}"))
    }

    fn cache(&self) -> std::sync::MutexGuard<'_, Cache> {
        lock(&self.cache)
    }
}

/// A file that is a text in any of the web's encodings.
fn read_text(field: &str, content: &[u8]) -> Result<ParsedUpload, Failure> {
    let decoded = decode_undeclared(content);
    if decoded.text.contains('\0') {
        return refused(field, format!("it is not text: it has zero bytes; {} can be read", readable()));
    }
    Ok(ParsedUpload { warning: decoded.warning(), text: decoded.text, ..ParsedUpload::default() })
}

/// Recently read documents, by the hash of their file and password.
struct Cache {
    documents: LruCache<[u8; 32], Arc<ParsedUpload>>,
    bytes: usize,
}

impl Cache {
    fn new() -> Self {
        Self { documents: LruCache::unbounded(), bytes: 0 }
    }

    fn put(&mut self, key: [u8; 32], document: &Arc<ParsedUpload>) {
        if document.bytes() > CACHE_BYTES {
            return;
        }
        self.bytes += document.bytes();
        if let Some(before) = self.documents.put(key, Arc::clone(document)) {
            self.bytes -= before.bytes();
        }
        while self.bytes > CACHE_BYTES {
            let Some((_, oldest)) = self.documents.pop_lru() else { return };
            self.bytes -= oldest.bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parser_cache_evicts_the_least_recently_used_documents() {
        let document = |bytes: usize| Arc::new(ParsedUpload { text: " ".repeat(bytes), ..ParsedUpload::default() });
        let mut cache = Cache::new();
        let third = document(CACHE_BYTES / 3);
        for key in [1, 2, 3, 3, 4] {
            cache.put([key; 32], &third);
        }
        assert_eq!(cache.documents.iter().map(|(key, _)| key[0]).collect::<Vec<_>>(), [4, 3, 2]);
        cache.put([5; 32], &document(CACHE_BYTES + 1));
        assert_eq!((cache.documents.len(), cache.bytes), (3, 3 * third.text.len()));
    }

    #[test]
    fn text_of_any_encoding_is_read() {
        assert!(read_text("file[0]", b"a\0b").is_err());
        assert_eq!(read_text("file[0]", b"caf\xe9 au lait").unwrap().text, "café au lait");
    }
}
