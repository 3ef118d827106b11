//! Which answers are retried, and on which server.

use std::time::Duration;

use pullquote_core::error::ErrorKind;
use reqwest::StatusCode;

/// Whether to retry, and the server's `Retry-After`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetryAdvice {
    /// No: the answer would be the same.
    Nothing,
    Again(Option<Duration>),
    /// The server did not answer: on another one first.
    OtherServer(Option<Duration>),
}

impl RetryAdvice {
    /// For an answer with this status and, if the server names it, this kind of error.
    pub(crate) fn of_status(status: StatusCode, kind: Option<ErrorKind>, retry_after: Option<Duration>) -> Self {
        if kind.is_some_and(|kind| !kind.row().retryable) {
            return Self::Nothing;
        }
        match status.as_u16() {
            502 | 503 => Self::OtherServer(retry_after),
            // 408: the body came more slowly than others.
            408 | 429 | 504 => Self::Again(retry_after),
            _ => Self::Nothing,
        }
    }
}
