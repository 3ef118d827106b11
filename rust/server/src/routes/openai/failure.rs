//! Errors as `OpenAI`'s clients read them.

use axum::http::StatusCode;
use schemars::{JsonSchema, json_schema};
use serde::Serialize;

use crate::http::failure::{Cause, ErrorShape, Failure, error_body};
use crate::routes::vllm::failure::VllmFailure;

pub(crate) static OPENAI: ErrorShape = ErrorShape {
    name: "OpenAi",
    status: Failure::status_without_422,
    body: |failure, _| {
        let (row, message) = (failure.cause.row(), failure.message_with_field());
        let error_type = error_type(row.status);
        let param = failure.field.as_deref();
        error_body(&OpenAiFailure { error: OpenAiError { message: &message, error_type, param, code: &row.name } })
    },
    schema: |status, generator| match (generator.subschema_for::<OpenAiFailure>(), status) {
        // vLLM's fields are on this route too.
        (own, 400) => json_schema!({"anyOf": [own, generator.subschema_for::<VllmFailure>()]}),
        (own, _) => own,
    },
};

#[derive(Serialize, JsonSchema)]
struct OpenAiFailure<'failure> {
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

fn error_type(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 => "authentication_error",
        404 => "not_found_error",
        429 => "rate_limit_error",
        400..=499 => "invalid_request_error",
        _ => "server_error",
    }
}
