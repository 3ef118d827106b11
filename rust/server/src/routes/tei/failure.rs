//! Errors as clients of Text Embeddings Inference read them.

use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;

use crate::http::failure::{Amount, ErrorShape, Failure, error_body};

pub(crate) static TEI: ErrorShape = ErrorShape {
    name: "Tei",
    status: |failure| match failure.amount {
        Some(Amount::Nothing) => StatusCode::BAD_REQUEST,
        Some(Amount::TooMuch) => StatusCode::PAYLOAD_TOO_LARGE,
        None => failure.status(),
    },
    body: |failure, _| error_body(&TeiFailure::of(failure, &failure.message_with_field())),
    schema: |_, generator| generator.subschema_for::<TeiFailure>(),
};

#[derive(Serialize, JsonSchema)]
pub(crate) struct TeiFailure<'failure> {
    /// What failed, on which value, and what would work.
    error: &'failure str,
    #[schemars(extend("enum" = ["Validation", "Empty", "Overloaded", "Unhealthy", "Backend"]))]
    error_type: &'static str,
}

impl<'failure> TeiFailure<'failure> {
    /// `message` is the failure's, with its field.
    pub(in crate::routes) fn of(failure: &Failure, message: &'failure str) -> Self {
        Self { error: message, error_type: error_type(failure) }
    }
}

/// Marks a request of Text Embeddings Inference to a route of several APIs, which fails with 422 and this body.
pub(in crate::routes) fn of_tei(failure: Failure) -> Failure {
    let is_body = failure.status() == StatusCode::UNPROCESSABLE_ENTITY;
    Failure { shape: is_body.then_some(&TEI).or(failure.shape), ..failure }
}

fn error_type(failure: &Failure) -> &'static str {
    match failure.status().as_u16() {
        _ if failure.amount == Some(Amount::Nothing) => "Empty",
        429 => "Overloaded",
        424 => "Backend",
        400..=499 => "Validation",
        503 => "Unhealthy",
        _ => "Backend",
    }
}
