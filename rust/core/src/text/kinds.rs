//! The table of file kinds: how each is recognized, what reads it, and what errors say about it.
//!
//! Uploads, fetched pages, `pullquote.documents` and the command line read it here. `cargo xtask generate` writes what
//! the page at `/` and Python's types need. To add a kind: its row in [`KINDS`], its reader in
//! `python/pullquote/_document_parser.py`, and the reader's library in `pyproject.toml` (the extra
//! `documents`, the group `frameworks`, and mypy's list of modules without types).

use std::fmt;

use self::Signature::{Archive, Header, Start};
use crate::error::{Error, ErrorKind};
use crate::text::formats::Format;

/// Where a PDF's header may stand, as readers of PDFs look for it.
const HEADER_BYTES: usize = 1024;

/// A kind of file.
#[derive(Debug)]
pub struct FileKind {
    /// As options and the parser name it.
    pub name: &'static str,
    /// As errors name it, with an article.
    title: &'static str,
    pub signature: Signature,
    /// Endings of file names, in lower case; the first is the usual one.
    pub suffixes: &'static [&'static str],
    pub media_types: &'static [&'static str],
    pub reader: Reader,
    /// A command that prints its text or makes a file that can be read, with `{file}`; empty for text.
    converter: &'static str,
}

/// What shows a file's kind in its bytes.
#[derive(Debug)]
pub enum Signature {
    /// Nothing: it is text.
    Text,
    /// One of these at the start, where `?` is any byte.
    Start(&'static [&'static [u8]]),
    /// This within the first [`HEADER_BYTES`].
    Header(&'static [u8]),
    /// A ZIP archive that has this in the name of a file.
    Archive(&'static [u8]),
}

/// What reads a file's text.
#[derive(Debug)]
pub enum Reader {
    /// The core: the file is text in this format.
    Core(Format),
    /// `python/pullquote/_document_parser.py`, in a process of its own.
    Parser {
        /// The Python package that it needs.
        library: Option<&'static str>,
        /// The format of the text that it returns.
        format: Format,
        /// What helps with an encrypted file; `None` if it has a password.
        encrypted: Option<&'static str>,
        /// What errors add for a file without text, with `{pages}`.
        no_text: &'static str,
    },
    None,
}

/// A limit of reading, by the name of the option that sets it.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    pub option: &'static str,
    pub value: usize,
}

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub pages: Limit,
    pub chars: Limit,
    pub memory: Limit,
}

/// Where the first file of an archive has its name, and a file of `OpenDocument` its media type.
const FIRST_BYTES: usize = 128;

const ZIP: &[u8] = b"PK\x03\x04";
const PANDOC: &str = "pandoc --to plain {file}";
const TESSERACT: &str = "tesseract {file} -";

/// All kinds; of those that fit a file, the first is its kind. The first of all is text.
pub static KINDS: [FileKind; 22] = [
    text("text", "plain text", &["txt", "text"], &["text/plain"], Format::Text),
    text("markdown", "Markdown", &["md", "markdown"], &["text/markdown", "text/x-markdown"], Format::Markdown),
    text("html", "HTML", &["html", "htm"], &["text/html", "application/xhtml+xml"], Format::Html),
    FileKind {
        name: "pdf",
        title: "a PDF",
        signature: Header(b"%PDF-"),
        suffixes: &["pdf"],
        media_types: &["application/pdf"],
        reader: Reader::Parser {
            library: Some("pypdfium2"),
            format: Format::Text,
            encrypted: None,
            no_text: " on its {pages}: a scan needs text recognition first, such as ocrmypdf",
        },
        converter: "pdftotext {file} -",
    },
    FileKind {
        name: "docx",
        title: "a DOCX",
        signature: Archive(b"word/"),
        suffixes: &["docx"],
        media_types: &["application/vnd.openxmlformats-officedocument.wordprocessingml.document"],
        reader: Reader::Parser { library: Some("mammoth"), format: Format::Html, encrypted: None, no_text: "" },
        converter: PANDOC,
    },
    FileKind {
        name: "epub",
        title: "an EPUB",
        signature: Archive(b"META-INF/container.xml"),
        suffixes: &["epub"],
        media_types: &["application/epub+zip"],
        reader: Reader::Parser {
            library: None,
            format: Format::Html,
            encrypted: Some("only the reader of its publisher opens it"),
            no_text: "",
        },
        converter: PANDOC,
    },
    FileKind {
        name: "rtf",
        title: "an RTF",
        signature: Start(&[b"{\\rtf"]),
        suffixes: &["rtf"],
        media_types: &["application/rtf", "text/rtf"],
        reader: Reader::Parser { library: Some("striprtf"), format: Format::Html, encrypted: None, no_text: "" },
        converter: PANDOC,
    },
    other("doc", "an old Office document", Start(&[b"\xd0\xcf\x11\xe0"]), "soffice --headless --convert-to txt {file}"),
    other("pptx", "a PPTX presentation", Archive(b"ppt/"), "soffice --headless --convert-to pdf {file}"),
    other("xlsx", "an XLSX table", Archive(b"xl/"), "soffice --headless --convert-to csv {file}"),
    other("odt", "an OpenDocument file", Archive(b"application/vnd.oasis.opendocument"), PANDOC),
    other("zip", "a ZIP archive", Start(&[ZIP]), "unzip -p {file}"),
    other("png", "a PNG image", Start(&[b"\x89PNG"]), TESSERACT),
    other("jpg", "a JPEG image", Start(&[b"\xff\xd8\xff"]), TESSERACT),
    other("gif", "a GIF image", Start(&[b"GIF8"]), TESSERACT),
    other("tiff", "a TIFF image", Start(&[b"II*\0", b"MM\0*"]), TESSERACT),
    other("webp", "a WebP image", Start(&[b"RIFF????WEBP"]), TESSERACT),
    other("gz", "compressed with gzip", Start(&[b"\x1f\x8b"]), "gunzip --stdout {file}"),
    other("zst", "compressed with Zstandard", Start(&[b"\x28\xb5\x2f\xfd"]), "zstdcat {file}"),
    other("parquet", "a Parquet file", Start(&[b"PAR1"]), "pullquote job --input {file}"),
    other("sqlite", "a database of SQLite", Start(&[b"SQLite format 3"]), "sqlite3 {file} .dump"),
    other("elf", "a program", Start(&[b"\x7fELF"]), "strings {file}"),
];

const fn text(
    name: &'static str,
    title: &'static str,
    suffixes: &'static [&'static str],
    media_types: &'static [&'static str],
    format: Format,
) -> FileKind {
    FileKind {
        name,
        title,
        signature: Signature::Text,
        suffixes,
        media_types,
        reader: Reader::Core(format),
        converter: "",
    }
}

/// A kind that nothing here reads.
const fn other(name: &'static str, title: &'static str, signature: Signature, converter: &'static str) -> FileKind {
    FileKind { name, title, signature, suffixes: &[], media_types: &[], reader: Reader::None, converter }
}

/// The kinds that can be read, as in "plain text, Markdown and HTML".
pub fn readable() -> String {
    let labels = KINDS.iter().filter(|kind| !matches!(kind.reader, Reader::None)).map(FileKind::label);
    let labels: Vec<&str> = labels.collect();
    match labels.split_last() {
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => String::new(),
    }
}

impl FileKind {
    /// The kind of a file, by its bytes alone: names and servers often err. All text is the first kind of the table;
    /// [`Format::Auto`] tells Markdown and HTML.
    pub fn of(content: &[u8]) -> &'static Self {
        KINDS.iter().find(|kind| kind.signature.fits(content)).unwrap_or(&KINDS[0])
    }

    /// The kind that a server says a file is. `media_type` is in lower case, without parameters.
    pub fn of_media_type(media_type: &str) -> Option<&'static Self> {
        KINDS.iter().find(|kind| kind.media_types.contains(&media_type))
    }

    pub fn of_name(name: &str) -> Option<&'static Self> {
        KINDS.iter().find(|kind| kind.name == name)
    }

    /// As errors name it after an adjective.
    pub fn label(&self) -> &'static str {
        self.title.trim_start_matches("an ").trim_start_matches("a ")
    }

    /// The Python package that the parser needs for it.
    pub const fn library(&self) -> Option<&'static str> {
        match self.reader {
            Reader::Parser { library, .. } => library,
            _ => None,
        }
    }

    /// The format of what the parser returns; `None` if it does not read this kind.
    pub const fn parsed_format(&self) -> Option<Format> {
        match self.reader {
            Reader::Parser { format, .. } => Some(format),
            _ => None,
        }
    }

    /// Whether a file of this kind may be encrypted with a password.
    pub const fn takes_password(&self) -> bool {
        matches!(self.reader, Reader::Parser { encrypted: None, .. })
    }

    /// Why a file is not read as text, after its name, with a command that makes text of it. `None` for text.
    /// `file` is its name for a shell.
    pub fn refusal(&self, file: &str) -> Option<String> {
        let advice = self.converter.replace("{file}", file);
        let is_text = matches!(self.reader, Reader::Core(_));
        (!is_text).then(|| format!("is {}, not text; extract its text first: {advice}", self.title))
    }

    /// Why the parser cannot read a file, after its name, with what would help.
    ///
    /// `error` and `detail` are those of its answer, or `"crashed"` and how it ended, or `"time"` and the limit.
    pub fn failure(&self, error: &str, detail: &str, has_password: bool, limits: &Limits) -> Error {
        use ErrorKind::{DeadlineExceeded, InvalidText, LimitExceeded, NotInstalled, OutOfMemory};
        let (title, label) = (self.title, self.label());
        let (encrypted, no_text) = match self.reader {
            Reader::Parser { encrypted, no_text, .. } => (encrypted, no_text),
            _ => (None, ""),
        };
        let password = if has_password {
            "the password is wrong, or its encryption is not supported"
        } else {
            "pass its password"
        };
        let pages_of_file = format!("{detail} {}", if detail == "1" { "page" } else { "pages" });
        let Limits { pages, chars, memory } = limits;
        let (kind, message) = match error {
            "encrypted" => (InvalidText, format!("is an encrypted {label}; {}", encrypted.unwrap_or(password))),
            "no_text" => {
                (InvalidText, format!("is {title} without text{}", no_text.replace("{pages}", &pages_of_file)))
            }
            "no_page" => (InvalidText, format!("has only {pages_of_file}")),
            "crashed" => (
                InvalidText,
                format!("makes the parser of {label} fail ({detail}); it is damaged, or needs more memory"),
            ),
            "pages" => (LimitExceeded, format!("has {pages_of_file}, and {pages}")),
            "chars" => (LimitExceeded, format!("has at least {detail} characters, and {chars}")),
            "memory" => (OutOfMemory, format!("needs more memory to be read, and {memory} bytes")),
            "time" => (DeadlineExceeded, format!("takes longer to be read than {detail}")),
            "not_installed" => {
                let advice = "run: pip install \"pullquote[documents]\"";
                (NotInstalled, format!("is {title}, which {detail} reads; {advice}"))
            }
            _ => (InvalidText, format!("is a damaged {label}: {detail}")),
        };
        Error::new(kind, message)
    }
}

impl Signature {
    fn fits(&self, content: &[u8]) -> bool {
        let starts_with = |start: &&[u8]| {
            let is_same = |(byte, wanted): (&u8, &u8)| *wanted == b'?' || byte == wanted;
            content.len() >= start.len() && content.iter().zip(*start).all(is_same)
        };
        match self {
            Self::Text => false,
            Self::Start(starts) => starts.iter().any(starts_with),
            Self::Header(header) => has(&content[..content.len().min(HEADER_BYTES)], header),
            Self::Archive(name) => {
                starts_with(&ZIP)
                    && (has(&content[..content.len().min(FIRST_BYTES)], name) || has(directory(content), name))
            }
        }
    }

    /// What a file of this kind has within its first bytes; empty for text.
    pub const fn start(&self) -> &'static [u8] {
        match self {
            Self::Start([start, ..]) | Self::Header(start) => start,
            Self::Archive(_) => ZIP,
            Self::Start([]) | Self::Text => b"",
        }
    }
}

/// The directory of a ZIP archive, which has the names of its files as they are. All of a damaged one, which may have
/// them before each file.
fn directory(archive: &[u8]) -> &[u8] {
    // The record at the end has a comment of at most 65,535 bytes.
    let tail = &archive[archive.len().saturating_sub(22 + 65_535)..];
    let record = tail.windows(4).rposition(|mark| mark == b"PK\x05\x06").and_then(|at| tail.get(at + 16..at + 20));
    let start = record.and_then(|start| usize::try_from(u32::from_le_bytes(start.try_into().ok()?)).ok());
    start.and_then(|start| archive.get(start..)).unwrap_or(archive)
}

fn has(content: &[u8], part: &[u8]) -> bool {
    content.windows(part.len()).any(|window| window == part)
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}", self.option, self.value)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// The end of an archive whose directory has a name, behind its first file.
    fn archive(first: &str, name: &str) -> Vec<u8> {
        let files = [b"PK\x03\x04".as_slice(), &[0; 26], first.as_bytes(), &[0; 200]].concat();
        let start = u32::try_from(files.len()).unwrap().to_le_bytes();
        let directory = [b"PK\x01\x02".as_slice(), &[0; 42], name.as_bytes()].concat();
        [&files[..], &directory, b"PK\x05\x06", &[0; 12], &start, &[0; 2]].concat()
    }

    #[test]
    fn every_kind_is_known_by_its_bytes() {
        for kind in KINDS.iter().filter(|kind| !matches!(kind.signature, Signature::Text)) {
            let files: Vec<Vec<u8>> = match kind.signature {
                Signature::Text => Vec::new(),
                Signature::Start(starts) => starts.iter().map(|start| [start, &b" and more"[..]].concat()).collect(),
                Signature::Header(header) => vec![header.to_vec(), [b"\n", header, &b"1.7"[..]].concat()],
                Signature::Archive(name) => {
                    let name = str::from_utf8(name).unwrap();
                    // Whole, and cut off.
                    vec![archive("a", name), format!("PK\x03\x04{}{name}", " ".repeat(5000)).into_bytes()]
                }
            };
            assert!(!files.is_empty());
            for file in files {
                assert_eq!(FileKind::of(&file).name, kind.name);
                assert!(kind.parsed_format().is_none() || has(&file, kind.signature.start()), "{}", kind.name);
            }
        }
    }

    #[test]
    fn bytes_that_are_no_signature_are_text() {
        for text in [
            &b""[..],
            b"# A page",
            b"PK",
            b"RIFF....WAVE",
            b"about %PD",
            &[b"a".repeat(2000), b"%PDF-".to_vec()].concat(),
        ] {
            assert_eq!(FileKind::of(text).name, "text");
        }
        // A name within a file is no name of the archive.
        assert_eq!(FileKind::of(&archive(&format!("{}word/document.xml", " ".repeat(200)), "a.docx")).name, "zip");
    }

    #[test]
    fn names_suffixes_and_media_types_belong_to_one_kind() {
        let names = |kind: &'static FileKind| [kind.name];
        let all = [
            KINDS.iter().flat_map(names).collect::<Vec<_>>(),
            KINDS.iter().flat_map(|kind| kind.suffixes.to_vec()).collect(),
            KINDS.iter().flat_map(|kind| kind.media_types.to_vec()).collect(),
        ];
        for words in all {
            assert_eq!(words.len(), words.iter().collect::<HashSet<_>>().len(), "{words:?}");
        }
        for kind in &KINDS {
            assert_eq!(FileKind::of_name(kind.name).map(|found| found.name), Some(kind.name));
            for media_type in kind.media_types {
                assert_eq!(FileKind::of_media_type(media_type).map(|found| found.name), Some(kind.name));
            }
            let is_readable = !matches!(kind.reader, Reader::None);
            assert_eq!(readable().contains(kind.label()), is_readable, "{}", kind.name);
            assert_eq!((kind.suffixes.is_empty(), kind.media_types.is_empty()), (!is_readable, !is_readable));
            assert_eq!(kind.refusal("a").is_none(), matches!(kind.reader, Reader::Core(_)));
        }
    }

    #[test]
    fn failures_count_pages_in_words() {
        let limit = Limit { option: "--upload-max-pages", value: 5 };
        let limits = Limits { pages: limit, chars: limit, memory: limit };
        for (error, detail, words) in [
            ("no_text", "1", "on its 1 page:"),
            ("no_text", "3", "on its 3 pages:"),
            ("no_page", "1", "only 1 page"),
            ("pages", "9", "has 9 pages, and --upload-max-pages is 5"),
        ] {
            let failure = FileKind::of(b"%PDF-1.7").failure(error, detail, false, &limits);
            let message = failure.message();
            assert!(message.contains(words) && !message.contains("1 pages"), "{message}");
        }
    }
}
