//! torch's errors as pullquote's: one line, with the value it happened on.

use pullquote_core::error::{Error, ErrorKind};
use tch::TchError;

/// What torch's operators return.
pub type TorchResult<T> = Result<T, TchError>;

/// The line of torch's message that says what happened; the rest is a C++ backtrace.
#[must_use]
pub fn describe(error: &TchError) -> String {
    let TchError::Torch(message) = error else { return error.to_string() };
    // TorchScript puts its own backtrace first and the reason last.
    let reason = message.lines().find_map(|line| line.strip_prefix("RuntimeError: "));
    reason.or_else(|| message.lines().find(|line| !line.trim().is_empty())).unwrap_or("no message").trim().to_owned()
}

/// An error of this kind: what was tried, and torch's reason.
#[must_use]
pub fn torch_failed(kind: ErrorKind, what: &str, error: &TchError) -> Error {
    Error::new(kind, format!("{what}: {}", describe(error)))
}

/// What a panic said.
#[must_use]
pub fn panic_message(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message").to_owned()
}
