//! Errors of an attempt, as the core's kinds.
//!
//! A pullquote server names the kind, in a header and in bodies that have a field for it. For other servers the status
//! decides.

use std::error::Error as _;
use std::time::{Duration, SystemTime};

use pullquote_core::error::{Error, ErrorKind};
use reqwest::StatusCode;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use serde_json::Value;

use crate::retry_advice::RetryAdvice;

#[derive(Debug)]
pub(crate) struct RequestError {
    pub(crate) error: Error,
    pub(crate) retry: RetryAdvice,
}

impl From<Error> for RequestError {
    fn from(error: Error) -> Self {
        Self { error, retry: RetryAdvice::Nothing }
    }
}

impl RequestError {
    /// A request that reqwest could not make, send or read the answer of.
    pub(crate) fn of_reqwest(error: &reqwest::Error, server: &str) -> Self {
        // The message has our name of the server; reqwest's address may hold a secret.
        if error.is_builder() {
            let message = format!("a request to {server} cannot be made: {}", chain(error.source()));
            return Error::new(ErrorKind::InvalidArgument, message).into();
        }
        Self::lost(error.source(), error.is_connect(), server)
    }

    /// A connection that broke or was not made.
    pub(crate) fn lost(cause: Option<&(dyn std::error::Error + 'static)>, is_connect: bool, server: &str) -> Self {
        let message = chain(cause);
        let of_hyper: Option<&hyper::Error> = cause.into_iter().flat_map(causes).find_map(|cause| cause.downcast_ref());
        if of_hyper.is_some_and(hyper::Error::is_parse) {
            return Error::new(ErrorKind::BadAnswer, format!("the answer of {server} is not HTTP: {message}")).into();
        }
        let message = if is_connect {
            format!("{server} cannot be reached: {message}")
        } else {
            format!("the connection to {server} was lost: {message}")
        };
        Self { error: Error::new(ErrorKind::Unavailable, message), retry: RetryAdvice::OtherServer(None) }
    }

    pub(crate) fn timed_out(server: &str, timeout: Duration) -> Self {
        let message = format!("{server} did not answer completely within {} seconds", timeout.as_secs_f64());
        Self { error: Error::new(ErrorKind::DeadlineExceeded, message), retry: RetryAdvice::OtherServer(None) }
    }

    /// An answer with another status than success.
    pub(crate) fn of_status(server: &str, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Self {
        let known = ErrorBody::read(headers, body);
        let kind = known.kind.unwrap_or_else(|| kind_of_status(status));
        let message = known.message.unwrap_or_else(|| status.canonical_reason().unwrap_or("no reason").to_owned());
        let message =
            if known.kind.is_some() { message } else { format!("{server} answered {}: {message}", status.as_u16()) };
        let retry = RetryAdvice::of_status(status, known.kind, retry_after(headers));
        Self { error: Error::new(kind, message), retry }
    }
}

#[derive(Default)]
struct ErrorBody {
    kind: Option<ErrorKind>,
    message: Option<String>,
}

impl ErrorBody {
    fn read(headers: &HeaderMap, body: &[u8]) -> Self {
        let named = headers.get("x-error-kind").and_then(|value| value.to_str().ok()).and_then(ErrorKind::from_name);
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let error = &body["error"];
        let texts = [&error["message"], error, &body["message"], &body["detail"]];
        let message = texts.into_iter().find_map(Value::as_str).map(|text| {
            // The field, unless the message begins with it.
            let field = error["field"].as_str().filter(|field| !text.starts_with(field));
            let place = field.map(|field| format!("{field}: ")).unwrap_or_default();
            place.chars().chain(text.chars()).take(2000).collect()
        });
        let kinds = [&error["kind"], &error["code"]];
        let in_body = || kinds.into_iter().filter_map(Value::as_str).find_map(ErrorKind::from_name);
        Self { kind: named.or_else(in_body), message }
    }
}

/// The kind of an error without a kind of its own.
fn kind_of_status(status: StatusCode) -> ErrorKind {
    match status.as_u16() {
        401 | 403 | 407 => ErrorKind::Unauthorized,
        404 => ErrorKind::NotFound,
        408 => ErrorKind::Unavailable,
        425 | 429 => ErrorKind::Overloaded,
        499 => ErrorKind::Cancelled,
        504 => ErrorKind::DeadlineExceeded,
        507 => ErrorKind::StoreFull,
        // Text Embeddings Inference says 424 where its model failed.
        424 | 500 => ErrorKind::Encoder,
        400..=498 => ErrorKind::InvalidArgument,
        501 => ErrorKind::NotInstalled,
        502..=599 => ErrorKind::Unavailable,
        _ => ErrorKind::BadAnswer,
    }
}

/// The header `Retry-After`: seconds, or a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse::<u32>() {
        return Some(Duration::from_secs(seconds.into()));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(SystemTime::now()).unwrap_or_default())
}

fn chain(cause: Option<&(dyn std::error::Error + 'static)>) -> String {
    let messages: Vec<String> = cause.into_iter().flat_map(causes).map(ToString::to_string).collect();
    if messages.is_empty() { "no reason is known".to_owned() } else { messages.join(": ") }
}

fn causes<'error>(
    error: &'error (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'error (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |error| (*error).source())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, headers: &[(&'static str, &'static str)], body: &str) -> RequestError {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().unwrap());
        }
        RequestError::of_status("http://here", StatusCode::from_u16(status).unwrap(), &map, body.as_bytes())
    }

    #[test]
    fn an_error_names_the_field_that_is_wrong() {
        let body = |message: &str| {
            format!(r#"{{"error": {{"kind": "invalid_body", "message": "{message}", "field": "documents[3]"}}}}"#)
        };
        for (message, expected) in
            [("it is empty", "documents[3]: it is empty"), ("documents[3] is empty", "documents[3] is empty")]
        {
            let error = refused(422, &[], &body(message)).error;
            assert!(error.message().ends_with(&format!(": {expected}")), "{error}");
        }
    }

    #[test]
    fn every_kind_is_read_from_the_header_and_from_each_api_s_body() {
        for kind in ErrorKind::ALL {
            let (name, status) = (kind.name(), kind.row().http_status);
            let bodies = [
                format!(r#"{{"error": {{"kind": "{name}", "message": "m", "retryable": true}}, "request_id": "r"}}"#),
                format!(r#"{{"error": {{"message": "m", "type": "t", "code": "{name}"}}}}"#),
            ];
            for body in bodies {
                let failure = refused(status, &[], &body);
                assert_eq!((failure.error.kind(), failure.error.message()), (kind, "m"), "{body}");
            }
            let mut map = HeaderMap::new();
            map.insert("x-error-kind", name.parse().unwrap());
            let body = br#"{"error": "m", "error_type": "Backend"}"#;
            let failure = RequestError::of_status("s", StatusCode::from_u16(status).unwrap(), &map, body);
            assert_eq!((failure.error.kind(), failure.error.message()), (kind, "m"));
            let is_retryable = kind.row().retryable && matches!(status, 429 | 502 | 503 | 504);
            assert_eq!(failure.retry != RetryAdvice::Nothing, is_retryable, "{kind:?}");
        }
    }

    #[test]
    fn for_other_servers_the_status_decides() {
        let cases = [
            (401, ErrorKind::Unauthorized),
            (404, ErrorKind::NotFound),
            (413, ErrorKind::InvalidArgument),
            (424, ErrorKind::Encoder),
            (429, ErrorKind::Overloaded),
            (501, ErrorKind::NotInstalled),
            (502, ErrorKind::Unavailable),
            (504, ErrorKind::DeadlineExceeded),
            (302, ErrorKind::BadAnswer),
        ];
        for (status, kind) in cases {
            let failure = refused(status, &[], "<html>");
            assert_eq!(failure.error.kind(), kind);
            assert!(failure.error.message().starts_with(&format!("http://here answered {status}: ")));
        }
        assert!(refused(422, &[], r#"{"detail": "too many"}"#).error.message().ends_with("422: too many"));
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        assert_eq!(refused(429, &[("retry-after", "7")], "").retry, RetryAdvice::Again(Some(Duration::from_secs(7))));
        let past = [("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT")];
        assert_eq!(refused(503, &past, "").retry, RetryAdvice::OtherServer(Some(Duration::ZERO)));
        assert_eq!(refused(503, &[("retry-after", "soon")], "").retry, RetryAdvice::OtherServer(None));
    }
}
