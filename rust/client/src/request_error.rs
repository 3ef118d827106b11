//! Trouble: why an attempt came to nothing, as the core's kinds of errors, and whether another attempt may do better.
//!
//! A server of ours names the kind, in a header and where its body has a place for it. Of others the status decides.

use std::error::Error as _;
use std::time::{Duration, SystemTime};

use pullquote_core::error::{Error, ErrorKind};
use reqwest::StatusCode;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use serde_json::Value;

use crate::direct::Failed;

/// What an attempt came to instead of an answer.
#[derive(Debug)]
pub(crate) struct RequestError {
    pub(crate) error: Error,
    pub(crate) retry: Retry,
}

/// What may be done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retry {
    /// Nothing: the answer would be the same.
    Nothing,
    /// Another attempt, not before the time that the server named.
    Again(Option<Duration>),
    /// Another attempt; the server did not answer, so others are asked first.
    OtherServer(Option<Duration>),
}

impl From<Error> for RequestError {
    fn from(error: Error) -> Self {
        Self { error, retry: Retry::Nothing }
    }
}

impl RequestError {
    /// A connection that was not made, or broke.
    pub(crate) fn broken(error: &reqwest::Error, server: &str) -> Self {
        // The address stands in our own words; reqwest's may hold more of it than should be told.
        if error.is_builder() {
            let message = format!("a request to {server} cannot be made: {}", told(error.source()));
            return Error::new(ErrorKind::InvalidArgument, message).into();
        }
        Self::lost(error.source(), error.is_connect(), server)
    }

    /// The same where it was not reqwest's connection.
    pub(crate) fn not_sent(failed: &Failed, server: &str) -> Self {
        match failed {
            Failed::Request(error) => Self::broken(error, server),
            Failed::Connect(error) => Self::lost(Some(&**error), true, server),
            Failed::Http(error) => Self::lost(Some(error), false, server),
        }
    }

    /// A connection that was lost in a body, or never made.
    pub(crate) fn lost(cause: Option<&(dyn std::error::Error + 'static)>, is_connect: bool, server: &str) -> Self {
        let message = told(cause);
        if cause.and_then(|cause| find::<hyper::Error>(cause)).is_some_and(hyper::Error::is_parse) {
            return Error::new(ErrorKind::BadAnswer, format!("what {server} answers is no HTTP: {message}")).into();
        }
        let did = if is_connect { "cannot be reached" } else { "broke off" };
        let error = Error::new(ErrorKind::Unavailable, format!("{server} {did}: {message}"));
        Self { error, retry: Retry::OtherServer(None) }
    }

    /// A server that takes too long.
    pub(crate) fn slow(server: &str, patience: Duration) -> Self {
        let message = format!("no whole answer of {server} within {} seconds", patience.as_secs_f64());
        Self { error: Error::new(ErrorKind::DeadlineExceeded, message), retry: Retry::OtherServer(None) }
    }

    /// An answer that says no.
    pub(crate) fn refused(server: &str, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Self {
        let said = Said::read(headers, body);
        let kind = said.kind.unwrap_or_else(|| of_status(status));
        let message = said.message.unwrap_or_else(|| status.canonical_reason().unwrap_or("no reason").to_owned());
        let message =
            if said.kind.is_some() { message } else { format!("{server} answered {}: {message}", status.as_u16()) };
        let may_help =
            matches!(status.as_u16(), 429 | 502 | 503 | 504) && said.kind.is_none_or(|kind| kind.row().retryable);
        let wait = retry_after(headers);
        let retry = match status.as_u16() {
            _ if !may_help => Retry::Nothing,
            502 | 503 => Retry::OtherServer(wait),
            _ => Retry::Again(wait),
        };
        Self { error: Error::new(kind, message), retry }
    }
}

/// What the answer itself says.
#[derive(Default)]
struct Said {
    kind: Option<ErrorKind>,
    message: Option<String>,
}

impl Said {
    fn read(headers: &HeaderMap, body: &[u8]) -> Self {
        let named = headers.get("x-error-kind").and_then(|value| value.to_str().ok()).and_then(ErrorKind::from_name);
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let error = &body["error"];
        let texts = [&error["message"], error, &body["message"], &body["detail"]];
        let message = texts.into_iter().find_map(Value::as_str).map(|text| {
            // Where in the body it is wrong, unless the words say so.
            let field = error["field"].as_str().filter(|field| !text.starts_with(field));
            let place = field.map(|field| format!("{field}: ")).unwrap_or_default();
            place.chars().chain(text.chars()).take(2000).collect()
        });
        let kinds = [&error["kind"], &error["code"]];
        let in_body = || kinds.into_iter().filter_map(Value::as_str).find_map(ErrorKind::from_name);
        Self { kind: named.or_else(in_body), message }
    }
}

/// The kind of a status that nobody explains.
pub(crate) fn of_status(status: StatusCode) -> ErrorKind {
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
        501..=599 => ErrorKind::Unavailable,
        _ => ErrorKind::BadAnswer,
    }
}

/// How long the server wants to be left alone: seconds, or a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse::<u32>() {
        return Some(Duration::from_secs(seconds.into()));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(SystemTime::now()).unwrap_or_default())
}

/// All of a chain of errors in words.
fn told(mut cause: Option<&(dyn std::error::Error + 'static)>) -> String {
    let mut messages = Vec::new();
    while let Some(inner) = cause {
        messages.push(inner.to_string());
        cause = inner.source();
    }
    if messages.is_empty() { "the connection broke".to_owned() } else { messages.join(": ") }
}

/// The first of a chain of errors that is of this type.
fn find<'error, T: std::error::Error + 'static>(
    mut error: &'error (dyn std::error::Error + 'static),
) -> Option<&'error T> {
    loop {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        error = error.source()?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, headers: &[(&'static str, &'static str)], body: &str) -> RequestError {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().unwrap());
        }
        RequestError::refused("http://here", StatusCode::from_u16(status).unwrap(), &map, body.as_bytes())
    }

    #[test]
    fn a_refusal_says_where_the_body_is_wrong() {
        let body = |message: &str| {
            format!(r#"{{"error": {{"kind": "invalid_body", "message": "{message}", "field": "documents[3]"}}}}"#)
        };
        for (message, told) in
            [("it is empty", "documents[3]: it is empty"), ("documents[3] is empty", "documents[3] is empty")]
        {
            let error = refused(422, &[], &body(message)).error;
            assert!(error.message().ends_with(&format!(": {told}")), "{error}");
        }
    }

    #[test]
    fn every_kind_comes_back_as_itself_by_header_and_by_each_family_s_body() {
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
            let failure = RequestError::refused("s", StatusCode::from_u16(status).unwrap(), &map, body);
            assert_eq!((failure.error.kind(), failure.error.message()), (kind, "m"));
            let may_help = kind.row().retryable && matches!(status, 429 | 502 | 503 | 504);
            assert_eq!(failure.retry != Retry::Nothing, may_help, "{kind:?}");
        }
    }

    #[test]
    fn of_other_servers_the_status_decides() {
        let cases = [
            (401, ErrorKind::Unauthorized),
            (404, ErrorKind::NotFound),
            (413, ErrorKind::InvalidArgument),
            (424, ErrorKind::Encoder),
            (429, ErrorKind::Overloaded),
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
    fn a_server_says_when_to_come_back_in_seconds_or_by_a_date() {
        assert_eq!(refused(429, &[("retry-after", "7")], "").retry, Retry::Again(Some(Duration::from_secs(7))));
        let past = [("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT")];
        assert_eq!(refused(503, &past, "").retry, Retry::OtherServer(Some(Duration::ZERO)));
        assert_eq!(refused(503, &[("retry-after", "soon")], "").retry, Retry::OtherServer(None));
    }
}
