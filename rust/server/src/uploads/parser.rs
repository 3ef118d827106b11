//! The parser: runs a process for each uploaded PDF, DOCX or EPUB, and keeps what it read.
//!
//! A process gets the file on standard input, below a line of settings, and answers on standard output: a line of JSON,
//! then bytes. It ends at the request's deadline, and when the client disconnects. Recently read documents stay in
//! memory, so that a second question about the same file needs no process.

use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use lru::LruCache;
use pullquote_core::error::ErrorKind;
use pullquote_core::text::formats::Format;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use super::form::UploadedFile;
use super::parsed_upload::ParsedUpload;
use crate::fetch::decode_text;
use crate::http::failure::{Cause, Failure, refused};
use crate::settings::Settings;

/// Bytes of the documents that stay in memory.
const CACHE_BYTES: usize = 64 * 1024 * 1024;

/// Bytes of a process's answer for each character: a float32 box, and the character as JSON escapes it.
const ANSWER_BYTES: u64 = 16 + 12;

/// The most bytes of a process's answer that are not characters: an image, and the places of pages.
const OTHER_BYTES: u64 = 64 * 1024 * 1024;

/// Where a PDF's header may stand, as readers of PDFs look for it.
const HEADER_BYTES: usize = 1024;

/// Variables of the environment that a parser must not see.
const SECRETS: [&str; 2] = ["PULLQUOTE_API_KEY", "PULLQUOTE_UPSTREAM_KEY"];

pub(crate) struct Parser {
    /// The program and its arguments; empty without the libraries for documents.
    command: Vec<String>,
    max_pages: usize,
    max_chars: usize,
    max_memory: usize,
    timeout: Duration,
    /// Processes that may run at the same time.
    places: Semaphore,
    cache: Mutex<Cache>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    Pdf,
    Docx,
    Epub,
    Text,
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
    kind: FileKind,
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
            max_pages: settings.upload_max_pages,
            max_chars: settings.max_document_bytes,
            max_memory: settings.upload_max_memory,
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
        let known = match kind {
            FileKind::Text => Some(Arc::new(read_text(&field, &content)?)),
            _ if self.command.is_empty() => return Err(not_installed(&field)),
            FileKind::Pdf | FileKind::Docx | FileKind::Epub => self.cache().documents.get(&key).cloned(),
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
            format: Some(if parsing.kind == FileKind::Pdf { Format::Text } else { Format::Html }),
            page_starts: header.pages.iter().map(|(start, ..)| *start).collect(),
            boxes: boxes.iter().map(place).collect(),
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
        if parsing.kind != FileKind::Pdf {
            return refused(parsing.field, "it is not a PDF; only PDFs have pages");
        }
        let output = self.process(&parsing, json!({"render": {"page": page, "width": width}}), deadline).await?;
        let (Header { area, rotation, .. }, image) = self.header(&parsing, &output)?;
        Ok(PageImage { image: Bytes::copy_from_slice(image), area, rotation })
    }

    async fn process(&self, parsing: &Parsing, more: Value, deadline: Instant) -> Result<Vec<u8>, Failure> {
        let until = deadline.min(Instant::now() + self.timeout);
        let late = |_| {
            let message = format!(
                "reading it takes longer than the request's timeout, or {} seconds",
                self.timeout.as_secs_f64()
            );
            Failure::of_field(Cause::Core(ErrorKind::DeadlineExceeded), parsing.field.clone(), message)
        };
        let work = async {
            let internal = |error: &str| Failure::new(Cause::Core(ErrorKind::Internal), format!("the parser: {error}"));
            let _place = self.places.acquire().await.map_err(|error| internal(&error.to_string()))?;
            let mut settings = json!({
                "format": parsing.kind.name().to_lowercase(),
                "password": parsing.password,
                "max_pages": self.max_pages,
                "max_chars": self.max_chars,
                "max_memory": self.max_memory,
                "seconds": self.timeout.as_secs_f64(),
            });
            if let (Value::Object(settings), Value::Object(more)) = (&mut settings, more) {
                settings.extend(more);
            }
            let (program, arguments) = self.command.split_first().ok_or_else(|| not_installed(&parsing.field))?;
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
            let most = (self.max_chars as u64).saturating_mul(ANSWER_BYTES).saturating_add(OTHER_BYTES);
            let (mut written, mut said) = (Vec::new(), Vec::new());
            let (mut output, mut errors) = (output.take(most), errors.take(64 * 1024));
            let ((), read, _) = tokio::join!(send, output.read_to_end(&mut written), errors.read_to_end(&mut said));
            read.map_err(|error| internal(&error.to_string()))?;
            let status = child.wait().await.map_err(|error| internal(&error.to_string()))?;
            if !status.success() || !written.contains(&b'\n') {
                let said = String::from_utf8_lossy(&said);
                tracing::warn!(%status, error = said.trim().lines().last().unwrap_or_default(), "a parser of a file failed");
                let message = format!("its parser failed ({status}); the file is damaged, or needs more memory");
                return refused(parsing.field.clone(), message);
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
        let shown = parsing.kind.name();
        if error == "encrypted" && parsing.kind == FileKind::Epub {
            let message = "it is an encrypted EPUB, which only the reader of its publisher opens";
            return Failure::of_field(Cause::Unprocessable, parsing.field.clone(), message);
        }
        if error == "encrypted" {
            let advice = if parsing.password.is_none() {
                "send its password as the part password"
            } else {
                "the password is wrong, or its encryption is not supported"
            };
            let message = format!("{} is an encrypted {shown}; {advice}", parsing.field);
            return Failure::of_field(Cause::Unprocessable, "password", message);
        }
        let (cause, message) = match error {
            "no_text" if parsing.kind == FileKind::Pdf => (
                Cause::Unprocessable,
                format!(
                    "it is a PDF without text on its {detail} pages: a scan needs text recognition first, such as ocrmypdf"
                ),
            ),
            "no_text" => (Cause::Unprocessable, format!("it is a {shown} without text")),
            "pages" => (
                Cause::Core(ErrorKind::LimitExceeded),
                format!("it has {detail} pages, and this server reads at most {}", self.max_pages),
            ),
            "chars" => (
                Cause::Core(ErrorKind::LimitExceeded),
                format!("it has at least {detail} characters, and this server reads at most {}", self.max_chars),
            ),
            "memory" => (
                Cause::Core(ErrorKind::LimitExceeded),
                format!("reading it needs more memory than this server allows, {} bytes", self.max_memory),
            ),
            "no_page" => (Cause::Unprocessable, format!("it has only {detail} pages")),
            _ => (Cause::Unprocessable, format!("it is a damaged {shown}: {detail}")),
        };
        Failure::of_field(cause, parsing.field.clone(), message)
    }

    fn cache(&self) -> std::sync::MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FileKind {
    fn of(content: &[u8]) -> Self {
        let has = |part: &[u8], name: &[u8]| part.windows(name.len()).any(|window| window == name);
        if has(&content[..content.len().min(HEADER_BYTES)], b"%PDF-") {
            return Self::Pdf;
        }
        // An archive has the names of its files as they are.
        if !content.starts_with(b"PK\x03\x04") {
            return Self::Text;
        }
        if has(content, b"word/document.xml") {
            Self::Docx
        } else if has(content, b"META-INF/container.xml") {
            Self::Epub
        } else {
            Self::Text
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Pdf => "PDF",
            Self::Docx => "DOCX",
            Self::Epub => "EPUB",
            Self::Text => "text",
        }
    }
}

/// A file that is a text in any of the web's encodings.
fn read_text(field: &str, content: &[u8]) -> Result<ParsedUpload, Failure> {
    let text = decode_text(content);
    if text.contains('\0') {
        return refused(field, "it is neither a PDF nor a DOCX nor an EPUB nor a text");
    }
    Ok(ParsedUpload { text, ..ParsedUpload::default() })
}

fn not_installed(field: &str) -> Failure {
    let message =
        "this server cannot read PDF, DOCX and EPUB; install its libraries: pip install \"pullquote[documents]\"";
    Failure::of_field(Cause::NotImplemented, field, message)
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
    fn kind_of_a_file_is_known_by_its_bytes() {
        assert_eq!(FileKind::of(b"\n%PDF-1.7"), FileKind::Pdf);
        assert_eq!(FileKind::of(b"PK\x03\x04.....word/document.xml"), FileKind::Docx);
        assert_eq!(FileKind::of(b"PK\x03\x04.....META-INF/container.xml"), FileKind::Epub);
        assert_eq!(FileKind::of(b"PK\x03\x04.....xl/workbook.xml"), FileKind::Text);
        assert_eq!(FileKind::of(b"# A page"), FileKind::Text);
        assert_eq!(FileKind::of(b""), FileKind::Text);
        assert!(read_text("file[0]", b"a\0b").is_err());
        assert_eq!(read_text("file[0]", b"caf\xe9 au lait").unwrap().text, "café au lait");
    }
}
