//! Failed requests, and their bodies in the format of each API.
//!
//! [`Cause::row`] is the table of errors that only HTTP has; `pullquote_core::error` has the others. A failure is an
//! extension of its response, and [`crate::http::middleware`] writes the body.

use std::borrow::Cow;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use pullquote_core::error::{Error, ErrorKind};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    Core(ErrorKind),
    /// The body is not JSON.
    Malformed,
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
    const HTTP_ONLY: [Self; 13] = [
        Self::Malformed,
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

    fn names() -> Vec<Cow<'static, str>> {
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
    /// The format of its body, if that is not the one of the path.
    pub(crate) format: Option<ErrorFormat>,
    /// Whether there is too little or too much of something.
    pub(crate) amount: Option<Amount>,
}

/// Of this, Text Embeddings Inference has statuses of its own.
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
        Self { cause, message: message.into(), field: None, format: None, amount: None }
    }

    pub(crate) fn of_field(cause: Cause, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: Some(field.into()), ..Self::new(cause, message) }
    }

    /// An unprocessable body, for the amount of something.
    pub(crate) fn of_amount(amount: Amount, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { amount: Some(amount), ..Self::of_field(Cause::Unprocessable, field, message) }
    }

    pub(crate) fn status(&self, format: ErrorFormat) -> StatusCode {
        match self.amount {
            Some(Amount::Nothing) if format == ErrorFormat::Tei => StatusCode::BAD_REQUEST,
            Some(Amount::TooMuch) if format == ErrorFormat::Tei => StatusCode::PAYLOAD_TOO_LARGE,
            _ => format.status(self.cause.row().status),
        }
    }

    /// Marks a request of Text Embeddings Inference to a route of several APIs, which fails with 422 and that API's
    /// body.
    pub(crate) fn of_tei(self) -> Self {
        let is_body = self.cause.row().status == StatusCode::UNPROCESSABLE_ENTITY;
        Self { format: is_body.then_some(ErrorFormat::Tei).or(self.format), ..self }
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

    /// Seconds for `Retry-After`, if the server would refuse other requests too.
    pub(crate) fn retry_after(&self) -> Option<u32> {
        matches!(self.cause, Cause::Core(ErrorKind::Overloaded) | Cause::ShuttingDown).then_some(1)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::new(Cause::Core(error.kind()), error.message())
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response = self.cause.row().status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// The format of a route's error body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ErrorFormat {
    #[default]
    Native,
    OpenAi,
    /// Of Text Embeddings Inference.
    Tei,
    Exa,
    /// Of the Model Context Protocol: errors of JSON-RPC.
    Mcp,
    /// For clients of Cohere, Jina and Text Embeddings Inference.
    Rerank,
    /// For clients of vLLM and Cohere.
    Vllm,
}

impl ErrorFormat {
    /// The status of a failure: only Text Embeddings Inference and this server itself have 422.
    pub(crate) fn status(self, status: StatusCode) -> StatusCode {
        let is_body = status == StatusCode::UNPROCESSABLE_ENTITY && !matches!(self, Self::Native | Self::Tei);
        if is_body { StatusCode::BAD_REQUEST } else { status }
    }

    pub(crate) fn body(self, failure: &Failure, request_id: &str) -> Value {
        let Failure { cause, message, field, .. } = failure;
        let row = cause.row();
        let message = match field {
            Some(field) if self != Self::Native && !message.starts_with(field.as_str()) => {
                format!("{field}: {message}")
            }
            _ => message.clone(),
        };
        let (kind, message) = (row.name.as_ref(), message.as_str());
        let tei = || TeiFailure { error: message, error_type: tei_type(failure) };
        let body = match self {
            Self::Native => {
                let error = NativeError { kind, message, field: field.as_deref(), retryable: row.retryable };
                serde_json::to_value(NativeFailure { error, request_id })
            }
            Self::OpenAi => {
                let error_type = openai_type(row.status);
                let error = OpenAiError { message, error_type, param: field.as_deref(), code: kind };
                serde_json::to_value(OpenAiFailure { error })
            }
            Self::Tei => serde_json::to_value(tei()),
            Self::Exa => {
                serde_json::to_value(ExaFailure { request_id, error: message, tag: exa_tag(&row, field.as_deref()) })
            }
            Self::Mcp => {
                let data = McpErrorData { kind, retryable: row.retryable };
                let error = McpError { code: json_rpc_code(*cause), message, data: Some(data) };
                serde_json::to_value(McpFailure { jsonrpc: "2.0", id: None, error })
            }
            Self::Rerank => serde_json::to_value(RerankFailure { tei: tei(), message, detail: message }),
            Self::Vllm => {
                let status = self.status(row.status);
                let (error_type, code) = (vllm_type(status), status.as_u16());
                let error = VllmError { message, error_type, param: field.as_deref(), code };
                serde_json::to_value(VllmFailure { error, message })
            }
        };
        // Strings and booleans are always JSON.
        body.unwrap_or_default()
    }
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct NativeFailure<'failure> {
    error: NativeError<'failure>,
    request_id: &'failure str,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct NativeError<'failure> {
    /// For programs to compare.
    #[schemars(extend("enum" = Cause::names()))]
    kind: &'failure str,
    /// What failed, on which value, and what would work.
    message: &'failure str,
    /// Where in the body, like `documents[3].text`.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<&'failure str>,
    /// Whether the same request may succeed later.
    retryable: bool,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct OpenAiFailure<'failure> {
    error: OpenAiError<'failure>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct OpenAiError<'failure> {
    /// What failed, on which value, and what would work.
    message: &'failure str,
    #[serde(rename = "type")]
    #[schemars(extend("enum" = [
        "authentication_error", "not_found_error", "rate_limit_error", "invalid_request_error", "server_error",
    ]))]
    error_type: &'static str,
    /// Which field of the body.
    param: Option<&'failure str>,
    /// For programs to compare.
    #[schemars(extend("enum" = Cause::names()))]
    code: &'failure str,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct TeiFailure<'failure> {
    /// What failed, on which value, and what would work.
    error: &'failure str,
    #[schemars(extend("enum" = ["Validation", "Empty", "Overloaded", "Unhealthy", "Backend"]))]
    error_type: &'static str,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExaFailure<'failure> {
    request_id: &'failure str,
    /// What failed, on which value, and what would work.
    error: &'failure str,
    /// For programs to compare, like `INVALID_REQUEST_BODY`.
    tag: String,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct McpFailure<'failure> {
    #[schemars(extend("const" = "2.0"))]
    jsonrpc: &'static str,
    /// Of the request; null or absent if the server refuses the request before it reads its id.
    #[schemars(extend("type" = ["string", "integer", "null"]))]
    #[serde(default)]
    id: Option<&'static str>,
    error: McpError<'failure>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct McpError<'failure> {
    code: i32,
    /// What failed, on which value, and what would work.
    message: &'failure str,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<McpErrorData<'failure>>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct McpErrorData<'failure> {
    /// For programs to compare.
    #[schemars(extend("enum" = Cause::names()))]
    kind: &'failure str,
    /// Whether the same request may succeed later.
    retryable: bool,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct RerankFailure<'failure> {
    #[serde(flatten)]
    tei: TeiFailure<'failure>,
    /// The same as `error`.
    message: &'failure str,
    /// The same as `error`.
    detail: &'failure str,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct VllmFailure<'failure> {
    error: VllmError<'failure>,
    /// The same, as Cohere's clients read it.
    message: &'failure str,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct VllmError<'failure> {
    /// What failed, on which value, and what would work.
    message: &'failure str,
    #[serde(rename = "type")]
    #[schemars(extend("enum" = [
        "BadRequestError", "AuthenticationError", "NotFoundError", "RateLimitError", "InternalServerError",
    ]))]
    error_type: &'static str,
    /// Which field of the body.
    param: Option<&'failure str>,
    /// The status.
    code: u16,
}

fn vllm_type(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 => "AuthenticationError",
        404 => "NotFoundError",
        429 => "RateLimitError",
        400..=499 => "BadRequestError",
        _ => "InternalServerError",
    }
}

fn openai_type(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 => "authentication_error",
        404 => "not_found_error",
        429 => "rate_limit_error",
        400..=499 => "invalid_request_error",
        _ => "server_error",
    }
}

/// JSON-RPC's codes: parse error, internal error, invalid request.
fn json_rpc_code(cause: Cause) -> i32 {
    match cause {
        Cause::Malformed => -32_700,
        _ if cause.row().status.is_server_error() => -32_603,
        _ => -32_600,
    }
}

/// The tag that Exa's clients compare; for errors that Exa does not have, our own name.
fn exa_tag(row: &FailureRow, field: Option<&str>) -> String {
    match (row.status.as_u16(), field) {
        (400 | 422, Some("numResults")) => "INVALID_NUM_RESULTS".to_owned(),
        (400 | 422, _) => "INVALID_REQUEST_BODY".to_owned(),
        (401, _) => "INVALID_API_KEY".to_owned(),
        (429, _) => "RATE_LIMIT_EXCEEDED".to_owned(),
        (503, _) => "SERVICE_OVERLOADED".to_owned(),
        _ => row.name.to_uppercase(),
    }
}

fn tei_type(failure: &Failure) -> &'static str {
    match failure.cause.row().status.as_u16() {
        _ if failure.amount == Some(Amount::Nothing) => "Empty",
        429 => "Overloaded",
        424 => "Backend",
        400..=499 => "Validation",
        503 => "Unhealthy",
        _ => "Backend",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
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

    #[test]
    fn each_family_of_routes_has_its_own_body() {
        let failure = Failure::of_field(Cause::Unprocessable, "input", "too many");
        assert_eq!(
            ErrorFormat::OpenAi.body(&failure, "id"),
            json!({"error": {"message": "input: too many", "type": "invalid_request_error", "param": "input", "code": "invalid_body"}})
        );
        assert_eq!(
            ErrorFormat::Tei.body(&failure, "id"),
            json!({"error": "input: too many", "error_type": "Validation"})
        );
        let too_much = Failure::of_amount(Amount::TooMuch, "inputs", "too many");
        let nothing = Failure::of_amount(Amount::Nothing, "inputs", "none");
        assert_eq!(too_much.status(ErrorFormat::Tei), StatusCode::PAYLOAD_TOO_LARGE);
        assert_eq!(nothing.status(ErrorFormat::Tei), StatusCode::BAD_REQUEST);
        assert_eq!(ErrorFormat::Tei.body(&nothing, "id"), json!({"error": "inputs: none", "error_type": "Empty"}));
        assert_eq!(too_much.status(ErrorFormat::OpenAi), StatusCode::BAD_REQUEST);
        assert_eq!(too_much.status(ErrorFormat::Native), StatusCode::UNPROCESSABLE_ENTITY);
        assert_eq!(
            ErrorFormat::Exa.body(&failure, "id"),
            json!({"requestId": "id", "error": "input: too many", "tag": "INVALID_REQUEST_BODY"})
        );
        assert_eq!(ErrorFormat::Exa.status(StatusCode::UNPROCESSABLE_ENTITY), StatusCode::BAD_REQUEST);
        let too_many = ErrorFormat::Vllm.body(&failure, "id");
        assert_eq!(too_many["message"], "input: too many");
        assert_eq!(
            too_many["error"],
            json!({"message": "input: too many", "type": "BadRequestError", "param": "input", "code": 400})
        );
        assert_eq!(ErrorFormat::Rerank.body(&failure, "id")["message"], "input: too many");
        let refused = Failure::new(Cause::Core(ErrorKind::Overloaded), "try again");
        assert_eq!(
            ErrorFormat::Mcp.body(&refused, "id"),
            json!({
                "jsonrpc": "2.0",
                "id": null,
                "error": {"code": -32600, "message": "try again", "data": {"kind": "overloaded", "retryable": true}},
            })
        );
        assert_eq!(
            ErrorFormat::Native.body(&failure, "id"),
            json!({"error": {"kind": "invalid_body", "message": "too many", "field": "input", "retryable": false}, "request_id": "id"})
        );
    }
}
