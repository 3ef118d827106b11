//! Errors: one type, one table.
//!
//! An [`ErrorKind`] says what the caller can do next. The table below is the one place that decides its Python class,
//! its HTTP status, its exit code and whether trying again can help. `python/pullquote/errors.py` is generated from it.

use std::fmt;
use std::sync::Arc;

macro_rules! error_kinds {
    ($($kind:ident = $code:literal: ($class:literal, $base:literal, $status:literal, $exit:literal, $retryable:literal, $meaning:literal);)*) => {
        /// What went wrong, by what the caller can do about it.
        ///
        /// The numbers are the codes of the encoder's C table, so they never change; see [`ErrorKind::code`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(i32)]
        pub enum ErrorKind {
            $(#[doc = $meaning] $kind = $code,)*
        }

        impl ErrorKind {
            pub const ALL: [Self; [$(Self::$kind),*].len()] = [$(Self::$kind),*];

            /// How this kind appears in Python, over HTTP and on the command line.
            pub const fn row(self) -> ErrorRow {
                let (python_class, python_base, http_status, exit_code, retryable, meaning) = match self {
                    $(Self::$kind => ($class, $base, $status, $exit, $retryable, $meaning),)*
                };
                ErrorRow { python_class, python_base, http_status, exit_code, retryable, meaning }
            }
        }
    };
}

// Code, Python class and its built-in base, HTTP status, exit code, whether the same call may succeed later, meaning.
// Exit codes follow BSD's `sysexits.h` where it has one: 2 is a usage error, 130 is an interrupt.
error_kinds! {
    InvalidArgument = 1: ("InvalidArgumentError", "ValueError", 400, 2, false, "An argument's value is outside what is allowed: correct it.");
    InvalidType = 2: ("InvalidTypeError", "TypeError", 400, 2, false, "An argument has the wrong type: correct it.");
    InvalidText = 3: ("InvalidTextError", "ValueError", 400, 65, false, "A text cannot be read as Unicode: correct it.");
    NoEncoder = 4: ("NoEncoderError", "ImportError", 503, 69, false, "No encoder is installed, so nothing can be embedded: install one.");
    TorchVersion = 5: ("TorchVersionError", "ImportError", 503, 69, false, "The installed torch is not the one that pullquote-torch was built for: install that one.");
    ModelNotFound = 6: ("ModelNotFoundError", "FileNotFoundError", 500, 66, false, "A file of the model is missing: name another place.");
    InvalidModel = 7: ("InvalidModelError", "ValueError", 500, 65, false, "A file of the model is damaged, or two of them contradict each other: fetch the model again.");
    UnsupportedModel = 8: ("UnsupportedModelError", "ValueError", 500, 65, false, "The encoder does not support this kind of model: use another.");
    Device = 9: ("DeviceError", "ValueError", 500, 69, false, "A device is missing or unusable: name another.");
    Encoder = 10: ("EncoderError", "RuntimeError", 500, 70, true, "The encoder failed on this request: try again, or check the model.");
    OutOfMemory = 11: ("OutOfMemoryError", "MemoryError", 503, 71, true, "No device has enough memory: use a smaller model, or free some.");
    Cancelled = 12: ("CancelledError", "RuntimeError", 499, 130, false, "The caller stopped the work.");
    DeadlineExceeded = 13: ("DeadlineExceededError", "TimeoutError", 504, 75, true, "The deadline passed before the work was done.");
    LimitExceeded = 14: ("LimitExceededError", "RuntimeError", 413, 65, false, "The call needs more windows or tokens than its limit: request less, or raise the limit.");
    Overloaded = 15: ("OverloadedError", "RuntimeError", 429, 75, true, "Too much work is queued: try again later.");
    Closed = 16: ("ClosedError", "RuntimeError", 503, 69, false, "The highlighter was closed.");
    Forked = 17: ("ForkedError", "RuntimeError", 500, 70, false, "The highlighter was made before this process was forked: make a new one.");
    Unauthorized = 18: ("UnauthorizedError", "PermissionError", 401, 77, false, "The key is missing or invalid: send a valid one.");
    NotFound = 19: ("NotFoundError", "LookupError", 404, 66, false, "Nothing has this name: use another.");
    StoreFull = 20: ("StoreFullError", "RuntimeError", 507, 73, false, "The server's store is full: delete documents.");
    Unavailable = 21: ("UnavailableError", "ConnectionError", 503, 69, true, "No server can be reached, or its answer ended early: try again, or another one.");
    BadAnswer = 22: ("BadAnswerError", "RuntimeError", 502, 76, false, "A server's answer violates its protocol; nothing of it was used: check the address.");
    Internal = 23: ("InternalError", "RuntimeError", 500, 70, false, "A bug in pullquote.");
    NotInstalled = 24: ("NotInstalledError", "ModuleNotFoundError", 501, 69, false, "A package that an extra of pullquote installs is missing: install it.");
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
    field: Option<String>,
    #[source]
    cause: Option<Arc<Cause>>,
}

/// The error of a function that the caller passed.
pub type Cause = dyn std::error::Error + Send + Sync;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error {
    /// An error of this kind; the message is lower case, without a full stop.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), field: None, cause: None }
    }

    /// An option or a setting with a value that is not allowed.
    pub fn of_field(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: Some(field.into()), ..Self::new(ErrorKind::InvalidArgument, message) }
    }

    /// An error that another one caused.
    #[must_use]
    pub fn with_cause(self, cause: Arc<Cause>) -> Self {
        Self { cause: Some(cause), ..self }
    }

    pub fn cause(&self) -> Option<&Cause> {
        self.cause.as_deref()
    }

    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }

    pub fn message(&self) -> &str {
        &self.message
    }

    /// The option or setting whose value is wrong, if it is only one.
    pub fn field(&self) -> Option<&str> {
        self.field.as_deref()
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
