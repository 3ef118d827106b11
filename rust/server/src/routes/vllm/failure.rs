//! Errors as clients of vLLM and Cohere read them.

use axum::http::StatusCode;
use schemars::{JsonSchema, json_schema};
use serde::Serialize;

use crate::http::failure::{ErrorShape, Failure, error_body};
use crate::routes::tei::failure::TeiFailure;

pub(crate) static VLLM: ErrorShape = ErrorShape {
    name: "Vllm",
    status: Failure::status_without_422,
    body: |failure, _| {
        let (status, message) = (failure.status_without_422(), failure.message_with_field());
        let (error_type, code, param) = (error_type(status), status.as_u16(), failure.field.as_deref());
        error_body(&VllmFailure { error: VllmError { message: &message, error_type, param, code }, message: &message })
    },
    schema: |status, generator| match status {
        // Only requests of Text Embeddings Inference get 422, on `/invocations`.
        422 => generator.subschema_for::<TeiFailure>(),
        // They may be empty or too large.
        400 | 413 => {
            let own = generator.subschema_for::<VllmFailure>();
            json_schema!({"anyOf": [own, generator.subschema_for::<TeiFailure>()]})
        }
        _ => generator.subschema_for::<VllmFailure>(),
    },
};

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

fn error_type(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 => "AuthenticationError",
        404 => "NotFoundError",
        429 => "RateLimitError",
        400..=499 => "BadRequestError",
        _ => "InternalServerError",
    }
}
