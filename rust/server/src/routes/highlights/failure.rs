//! Errors of pullquote's own routes.

use schemars::JsonSchema;
use serde::Serialize;

use crate::http::failure::{Cause, ErrorShape, Failure, error_body};

pub(crate) static NATIVE: ErrorShape = ErrorShape {
    name: "Native",
    status: Failure::status,
    body: |failure, request_id| {
        let Failure { cause, message, field, .. } = failure;
        let row = cause.row();
        let error = NativeError { kind: &row.name, message, field: field.as_deref(), retryable: row.retryable };
        error_body(&NativeFailure { error, request_id })
    },
    schema: |_, generator| generator.subschema_for::<NativeFailure>(),
};

#[derive(Serialize, JsonSchema)]
struct NativeFailure<'failure> {
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
