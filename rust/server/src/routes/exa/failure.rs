//! Errors as Exa's clients read them.

use schemars::JsonSchema;
use serde::Serialize;

use crate::http::failure::{ErrorShape, Failure, FailureRow, error_body};

pub(crate) static EXA: ErrorShape = ErrorShape {
    name: "Exa",
    status: Failure::status_without_422,
    body: |failure, request_id| {
        let tag = tag(&failure.cause.row(), failure.field.as_deref());
        error_body(&ExaFailure { request_id, error: &failure.message_with_field(), tag })
    },
    schema: |_, generator| generator.subschema_for::<ExaFailure>(),
};

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ExaFailure<'failure> {
    request_id: &'failure str,
    /// What failed, on which value, and what would work.
    error: &'failure str,
    /// For programs to compare, like `INVALID_REQUEST_BODY`.
    tag: String,
}

/// The tag that Exa's clients compare; for errors that Exa does not have, our own name.
fn tag(row: &FailureRow, field: Option<&str>) -> String {
    match (row.status.as_u16(), field) {
        (400 | 422, Some("numResults")) => "INVALID_NUM_RESULTS".to_owned(),
        (400 | 422, _) => "INVALID_REQUEST_BODY".to_owned(),
        (401, _) => "INVALID_API_KEY".to_owned(),
        (429, _) => "RATE_LIMIT_EXCEEDED".to_owned(),
        (503, _) => "SERVICE_OVERLOADED".to_owned(),
        _ => row.name.to_uppercase(),
    }
}
