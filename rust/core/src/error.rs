//! Errors: one type, one table.
//!
//! An [`ErrorKind`] says what the caller can do next; [`ErrorKind::row`] is the one place that decides the Python
//! class, the HTTP status, the exit code and whether trying again can help. `python/pullquote/errors.py` is generated
//! from it.

use std::fmt;

/// What went wrong, by what the caller can do about it.
///
/// The numbers are the codes of the encoder's C table, so they never change; see [`ErrorKind::code`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum ErrorKind {
    /// An argument's value is outside what is allowed: correct it.
    InvalidArgument = 1,
    /// An argument has the wrong type: correct it.
    InvalidType = 2,
    /// A text cannot be read as Unicode: correct it.
    InvalidText = 3,
    /// No encoder is installed: install one.
    NoEncoder = 4,
    /// The installed torch is not the one the encoder was built for: install that one.
    TorchVersion = 5,
    /// A model file is missing: name another place.
    ModelNotFound = 6,
    /// A model file is damaged, or two of them contradict each other: fetch the model again.
    InvalidModel = 7,
    /// The model is sound, but of a kind this encoder does not know: use another.
    UnsupportedModel = 8,
    /// A device is missing or unusable: name another.
    Device = 9,
    /// The encoder failed on this request: try again, or check the model.
    Encoder = 10,
    /// No device has the memory for one text: use a smaller model, or free some.
    OutOfMemory = 11,
    /// The caller stopped the work.
    Cancelled = 12,
    /// The deadline passed before the work was done.
    DeadlineExceeded = 13,
    /// The call needs more than its limit: request less, or raise the limit.
    LimitExceeded = 14,
    /// Too much work is queued: try again later.
    Overloaded = 15,
    /// The engine was closed.
    Closed = 16,
    /// The engine was made before this process was forked: make a new one.
    Forked = 17,
    /// The key is missing or invalid: send a valid one.
    Unauthorized = 18,
    /// Nothing has this name: use another.
    NotFound = 19,
    /// The server's store is full: delete documents.
    StoreFull = 20,
    /// No server can be reached, or its answer ended early: try again, or another one.
    Unavailable = 21,
    /// A server's answer violates its protocol: check the address.
    BadAnswer = 22,
    /// A bug in pullquote.
    Internal = 23,
}

#[derive(Clone, Copy, Debug)]
pub struct ErrorRow {
    /// The Python class in `pullquote.errors`; all derive from `PullquoteError`.
    pub python_class: &'static str,
    /// The built-in Python class it derives from as well.
    pub python_base: &'static str,
    pub http_status: u16,
    pub exit_code: u8,
    /// Whether the same call may succeed later.
    pub retryable: bool,
    /// One sentence for the Python docstring.
    pub meaning: &'static str,
}

impl ErrorKind {
    #[rustfmt::skip]
    pub const ALL: [Self; 23] = [
        Self::InvalidArgument, Self::InvalidType, Self::InvalidText, Self::NoEncoder, Self::TorchVersion,
        Self::ModelNotFound, Self::InvalidModel, Self::UnsupportedModel, Self::Device, Self::Encoder,
        Self::OutOfMemory, Self::Cancelled, Self::DeadlineExceeded, Self::LimitExceeded, Self::Overloaded,
        Self::Closed, Self::Forked, Self::Unauthorized, Self::NotFound, Self::StoreFull, Self::Unavailable,
        Self::BadAnswer, Self::Internal,
    ];

    /// The table: how this kind appears in Python, over HTTP and on the command line.
    ///
    /// Exit codes follow BSD's `sysexits.h` where it has one: 2 is a usage error, 130 is an interrupt.
    pub const fn row(self) -> ErrorRow {
        #[rustfmt::skip]
        let (python_class, python_base, http_status, exit_code, retryable, meaning) = match self {
            Self::InvalidArgument => ("InvalidArgumentError", "ValueError", 400, 2, false, "An argument's value is outside what is allowed."),
            Self::InvalidType => ("InvalidTypeError", "TypeError", 400, 2, false, "An argument has the wrong type."),
            Self::InvalidText => ("InvalidTextError", "ValueError", 400, 65, false, "A text cannot be read as Unicode."),
            Self::NoEncoder => ("NoEncoderError", "ImportError", 503, 69, false, "No encoder is installed, so nothing can be embedded."),
            Self::TorchVersion => ("TorchVersionError", "ImportError", 503, 69, false, "The installed torch is not the one that pullquote-torch was built for."),
            Self::ModelNotFound => ("ModelNotFoundError", "FileNotFoundError", 500, 66, false, "A file of the model is missing."),
            Self::InvalidModel => ("InvalidModelError", "ValueError", 500, 65, false, "A file of the model is damaged, or two of them contradict each other."),
            Self::UnsupportedModel => ("UnsupportedModelError", "ValueError", 500, 65, false, "The encoder does not support this kind of model."),
            Self::Device => ("DeviceError", "ValueError", 500, 69, false, "A device is missing or unusable."),
            Self::Encoder => ("EncoderError", "RuntimeError", 500, 70, true, "The encoder failed on this request."),
            Self::OutOfMemory => ("OutOfMemoryError", "MemoryError", 503, 71, true, "No device has enough memory."),
            Self::Cancelled => ("CancelledError", "RuntimeError", 499, 130, false, "The caller stopped the work."),
            Self::DeadlineExceeded => ("DeadlineExceededError", "TimeoutError", 504, 75, true, "The deadline passed before the work was done."),
            Self::LimitExceeded => ("LimitExceededError", "RuntimeError", 413, 65, false, "The call needs more windows or tokens than its limit."),
            Self::Overloaded => ("OverloadedError", "RuntimeError", 429, 75, true, "Too much work is queued."),
            Self::Closed => ("ClosedError", "RuntimeError", 503, 69, false, "The highlighter was closed."),
            Self::Forked => ("ForkedError", "RuntimeError", 500, 70, false, "The highlighter was made before this process was forked."),
            Self::Unauthorized => ("UnauthorizedError", "PermissionError", 401, 77, false, "The key is missing or invalid."),
            Self::NotFound => ("NotFoundError", "LookupError", 404, 66, false, "Nothing has this name."),
            Self::StoreFull => ("StoreFullError", "RuntimeError", 507, 73, false, "The server's store is full."),
            Self::Unavailable => ("UnavailableError", "ConnectionError", 503, 69, true, "No server can be reached, or its answer ended early."),
            Self::BadAnswer => ("BadAnswerError", "RuntimeError", 502, 76, false, "A server's answer violates its protocol; nothing of it was used."),
            Self::Internal => ("InternalError", "RuntimeError", 500, 70, false, "A bug in pullquote."),
        };
        ErrorRow { python_class, python_base, http_status, exit_code, retryable, meaning }
    }

    /// The name that programs compare, as in answers over HTTP: the Python class without its ending.
    pub fn name(self) -> String {
        let mut name = String::new();
        for letter in self.row().python_class.trim_end_matches("Error").chars() {
            if letter.is_uppercase() && !name.is_empty() {
                name.push('_');
            }
            name.push(letter.to_ascii_lowercase());
        }
        name
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// What a function of [the encoder's C table](crate::encoder::abi) returns for this kind; 0 is success.
    pub const fn code(self) -> i32 {
        self as i32
    }

    pub fn from_code(code: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }
}

/// What failed, on which value, and what would work.
#[derive(Clone, Debug, thiserror::Error)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error {
    /// An error of this kind; the message is lower case, without a full stop.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }

    pub fn message(&self) -> &str {
        &self.message
    }
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_kind_has_its_own_python_class_and_a_sane_row() {
        let mut classes = HashSet::new();
        for kind in ErrorKind::ALL {
            let row = kind.row();
            assert!(classes.insert(row.python_class), "{kind:?} shares the class {}", row.python_class);
            assert!((400..600).contains(&row.http_status), "{kind:?} has status {}", row.http_status);
            assert_ne!(row.exit_code, 0, "{kind:?} would exit as a success");
            assert_eq!(ErrorKind::from_code(kind.code()), Some(kind));
            assert_ne!(kind.code(), 0, "{kind:?} would count as success");
            assert_eq!(ErrorKind::from_name(&kind.name()), Some(kind));
        }
    }
}
