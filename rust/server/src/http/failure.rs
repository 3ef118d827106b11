//! Failed requests.
//!
//! [`Cause::row`] is the table of errors that only HTTP has; `pullquote_core::error` has the others. A failure is an
//! extension of its response, and [`crate::http::middleware`] writes the body, in the [`ErrorShape`] of its route's API.

use std::borrow::Cow;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use pullquote_core::error::{Error, ErrorKind};
use schemars::{Schema, SchemaGenerator};
use serde::Serialize;
use serde_json::Value;

use crate::http::request_id::RequestId;

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    Core(ErrorKind),
    /// The body is not JSON.
    Malformed,
    /// The request's head is not HTTP.
    MalformedHead,
    /// The body is JSON that the route does not take.
    Unprocessable,
    WrongHost,
    /// A page of another site sends the request.
    WrongOrigin,
    MethodNotAllowed,
    SlowSender,
    TooLarge,
    UnsupportedMediaType,
    Unhealthy,
    ShuttingDown,
    /// The route is for another kind of model.
    OtherModel,
    /// A route of an API that this server does not implement.
    NotImplemented,
    /// The upstream search server failed.
    Upstream,
}

pub(crate) struct FailureRow {
    pub(crate) status: StatusCode,
    /// The name that programs compare.
    pub(crate) name: Cow<'static, str>,
    /// Whether the same request may succeed later.
    pub(crate) retryable: bool,
}

impl Cause {
    /// Those that only HTTP has.
    const HTTP_ONLY: [Self; 14] = [
        Self::Malformed,
        Self::MalformedHead,
        Self::Unprocessable,
        Self::WrongHost,
        Self::WrongOrigin,
        Self::MethodNotAllowed,
        Self::SlowSender,
        Self::TooLarge,
        Self::UnsupportedMediaType,
        Self::Unhealthy,
        Self::ShuttingDown,
        Self::OtherModel,
        Self::NotImplemented,
        Self::Upstream,
    ];

    /// Every cause, in the order of the two tables.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        ErrorKind::ALL.into_iter().map(Self::Core).chain(Self::HTTP_ONLY)
    }

    pub(crate) fn names() -> Vec<Cow<'static, str>> {
        Self::all().map(|cause| cause.row().name).collect()
    }

    pub(crate) fn row(self) -> FailureRow {
        let (status, name, retryable) = match self {
            // Its name is that of the Python class, in snake case and without `Error`.
            Self::Core(kind) => {
                let row = kind.row();
                let status = StatusCode::from_u16(row.http_status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                return FailureRow { status, name: Cow::Owned(kind.name()), retryable: row.retryable };
            }
            Self::Malformed => (StatusCode::BAD_REQUEST, "malformed_body", false),
            Self::MalformedHead => (StatusCode::BAD_REQUEST, "malformed_head", false),
            Self::Unprocessable => (StatusCode::UNPROCESSABLE_ENTITY, "invalid_body", false),
            Self::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", false),
            Self::WrongOrigin => (StatusCode::FORBIDDEN, "wrong_origin", false),
            Self::WrongHost => (StatusCode::MISDIRECTED_REQUEST, "wrong_host", false),
            Self::SlowSender => (StatusCode::REQUEST_TIMEOUT, "slow_sender", true),
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", false),
            Self::UnsupportedMediaType => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", false),
            Self::Unhealthy => (StatusCode::SERVICE_UNAVAILABLE, "unhealthy", true),
            Self::ShuttingDown => (StatusCode::SERVICE_UNAVAILABLE, "shutting_down", true),
            Self::OtherModel => (StatusCode::FAILED_DEPENDENCY, "unsupported_by_model", false),
            Self::NotImplemented => (StatusCode::NOT_IMPLEMENTED, "not_implemented", false),
            Self::Upstream => (StatusCode::BAD_GATEWAY, "upstream_failed", true),
        };
        FailureRow { status, name: Cow::Borrowed(name), retryable }
    }
}

/// What failed, on which value, and what would work.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) cause: Cause,
    pub(crate) message: String,
    /// The field of the body, as `documents[3].text`.
    pub(crate) field: Option<String>,
    /// The shape of its body, if that is not the one of the path.
    pub(crate) shape: Option<&'static ErrorShape>,
    /// Whether there is too little or too much of something.
    pub(crate) amount: Option<Amount>,
}

/// Of this, some APIs have statuses of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Amount {
    /// An empty list.
    Nothing,
    /// A list or a text over a limit.
    TooMuch,
}

/// Refuses a body because of one of its fields.
pub(crate) fn refused<T>(field: impl Into<String>, message: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::of_field(Cause::Unprocessable, field, message))
}

pub(crate) fn too_late(message: &str) -> Failure {
    Failure::new(Cause::Core(ErrorKind::DeadlineExceeded), message)
}

pub(crate) fn overloaded(message: impl Into<String>) -> Failure {
    Failure::new(Cause::Core(ErrorKind::Overloaded), message)
}

pub(crate) fn internal(message: &str) -> Failure {
    Failure::new(Cause::Core(ErrorKind::Internal), message)
}

impl Failure {
    pub(crate) fn new(cause: Cause, message: impl Into<String>) -> Self {
        Self { cause, message: message.into(), field: None, shape: None, amount: None }
    }

    pub(crate) fn of_field(cause: Cause, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: Some(field.into()), ..Self::new(cause, message) }
    }

    /// An unprocessable body, for the amount of something.
    pub(crate) fn of_amount(amount: Amount, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { amount: Some(amount), ..Self::of_field(Cause::Unprocessable, field, message) }
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.cause.row().status
    }

    /// The status in APIs that have 400 in place of 422.
    pub(crate) fn status_without_422(&self) -> StatusCode {
        let status = self.status();
        if status == StatusCode::UNPROCESSABLE_ENTITY { StatusCode::BAD_REQUEST } else { status }
    }

    /// The message with the field that it is about, for APIs without a place for fields.
    pub(crate) fn message_with_field(&self) -> Cow<'_, str> {
        match &self.field {
            Some(field) if !self.message.starts_with(field.as_str()) => format!("{field}: {}", self.message).into(),
            _ => self.message.as_str().into(),
        }
    }

    /// Whether its message is for the log only: it may contain an encoder's error, which can contain its input.
    pub(crate) const fn is_internal(&self) -> bool {
        matches!(
            self.cause,
            Cause::Unhealthy
                | Cause::Core(
                    ErrorKind::Encoder
                        | ErrorKind::Device
                        | ErrorKind::OutOfMemory
                        | ErrorKind::ModelNotFound
                        | ErrorKind::InvalidModel
                        | ErrorKind::UnsupportedModel
                        | ErrorKind::Internal
                )
        )
    }

    /// Logs an internal failure's message, and removes it from the client's answer.
    pub(crate) fn conceal(&mut self, id: &RequestId) {
        if self.is_internal() {
            let kind = self.cause.row().name;
            tracing::error!(request_id = %id.0, failure = %kind, "{}", self.message);
            self.message = format!("{kind}: the server failed; its log has the reason under the request id {}", id.0);
        }
    }

    /// Seconds for `Retry-After`, if the server would refuse other requests too.
    pub(crate) fn retry_after(&self) -> Option<u32> {
        matches!(self.cause, Cause::Core(ErrorKind::Overloaded) | Cause::ShuttingDown).then_some(1)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { field: error.field().map(str::to_owned), ..Self::new(Cause::Core(error.kind()), error.message()) }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response = self.cause.row().status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// How an API writes its errors. Each API's is next to its routes.
#[derive(Debug)]
pub(crate) struct ErrorShape {
    /// Its name in the `OpenAPI` document.
    pub(crate) name: &'static str,
    pub(crate) status: fn(&Failure) -> StatusCode,
    /// The body of a failure of the request with this id.
    pub(crate) body: fn(&Failure, &str) -> Value,
    /// The schema of bodies with a status.
    pub(crate) schema: fn(u16, &mut SchemaGenerator) -> Schema,
}

/// A body of strings and numbers, which are always JSON.
pub(crate) fn error_body(body: &impl Serialize) -> Value {
    serde_json::to_value(body).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_cause_has_an_error_status_and_a_unique_name() {
        let mut names = HashSet::new();
        for cause in Cause::all() {
            let row = cause.row();
            assert!(row.status.is_client_error() || row.status.is_server_error(), "{cause:?}");
            assert!(names.insert(row.name.to_string()), "{cause:?} shares the name {}", row.name);
        }
        assert_eq!(Cause::Core(ErrorKind::DeadlineExceeded).row().name, "deadline_exceeded");
    }
}
