//! Errors as clients of Cohere, Jina and Text Embeddings Inference read them.

use schemars::{JsonSchema, json_schema};
use serde::Serialize;

use crate::http::failure::{ErrorShape, Failure, error_body};
use crate::routes::tei::failure::TeiFailure;

pub(crate) static RERANK: ErrorShape = ErrorShape {
    name: "Rerank",
    status: Failure::status_without_422,
    body: |failure, _| {
        let message = failure.message_with_field();
        error_body(&RerankFailure { tei: TeiFailure::of(failure, &message), message: &message, detail: &message })
    },
    schema: |status, generator| match status {
        // Only requests of Text Embeddings Inference get 422.
        422 => generator.subschema_for::<TeiFailure>(),
        // They may be empty or too large.
        400 | 413 => {
            let own = generator.subschema_for::<RerankFailure>();
            json_schema!({"anyOf": [own, generator.subschema_for::<TeiFailure>()]})
        }
        _ => generator.subschema_for::<RerankFailure>(),
    },
};

#[derive(Serialize, JsonSchema)]
struct RerankFailure<'failure> {
    #[serde(flatten)]
    tei: TeiFailure<'failure>,
    /// The same as `error`.
    message: &'failure str,
    /// The same as `error`.
    detail: &'failure str,
}
