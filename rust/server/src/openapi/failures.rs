//! Failures in the document: which status has which causes, and the five shapes of their bodies.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{Facts, Operation, exact, exact_or, header_references, schema};
use crate::http::failure::{Cause, Shape};

/// What a failure is called among the document's responses.
pub(super) fn name(shape: Shape, status: u16) -> String {
    format!("{shape:?}{status}")
}

/// Every failure that an operation names.
pub(super) fn responses(operations: &[Operation], facts: &Facts) -> Map<String, Value> {
    let named = operations.iter().flat_map(|operation| {
        let shape = operation.shape();
        operation.statuses(facts).map(move |status| (name(shape, status), (shape, status)))
    });
    let named: BTreeMap<String, (Shape, u16)> = named.collect();
    named.into_iter().map(|(name, (shape, status))| (name, response(shape, status))).collect()
}

fn response(shape: Shape, status: u16) -> Value {
    let mut headers =
        vec![("x-request-id", "RequestId"), ("x-total-time", "TotalTime"), ("traceparent", "Traceparent")];
    match status {
        401 => headers.push(("www-authenticate", "Authenticate")),
        429 | 503 => headers.push(("retry-after", "RetryAfter")),
        _ => {}
    }
    let kinds = kinds().filter(|(of, _)| *of == status).map(|(_, kind)| format!("`{kind}`")).collect::<Vec<_>>();
    json!({
        "description": format!("{} ({}.)", meaning(status), kinds.join(", ")),
        "headers": header_references(&headers),
        "content": {"application/json": {"schema": schema(schema_name(shape))}},
    })
}

/// Every kind of failure, and its status.
fn kinds() -> impl Iterator<Item = (u16, String)> {
    Cause::all().map(Cause::row).map(|row| (row.status.as_u16(), row.name.into_owned()))
}

const fn meaning(status: u16) -> &'static str {
    match status {
        400 => "The body is no JSON, or a value is outside what is allowed.",
        401 => "A key is needed, and none or an unknown one was named.",
        404 => "There is nothing under this name.",
        408 => "The body came too slowly.",
        413 => "The body is too large.",
        415 => "The body is not said to be JSON, or is compressed.",
        421 => "The request is for a host that this server is not.",
        422 => "The body is JSON, but not what the route takes.",
        429 => "Too much work is waiting: try again.",
        500 => "The server failed on this request.",
        503 => "Texts cannot be encoded, or the server is stopping: ask another one.",
        502 => "The server that is asked for results gave none.",
        504 => "The time that the request may take has passed.",
        507 => "The store holds as much as it may: delete something first.",
        _ => "Failed.",
    }
}

const fn schema_name(shape: Shape) -> &'static str {
    match shape {
        Shape::Native => "Failure",
        Shape::OpenAi => "OpenAiFailure",
        Shape::Tei => "TeiFailure",
        Shape::Exa => "ExaFailure",
        Shape::Rerank => "RerankFailure",
    }
}

pub(super) fn schemas(_: &Facts) -> Vec<(&'static str, Value)> {
    let kinds: Vec<String> = kinds().map(|(_, kind)| kind).collect();
    let message = json!({"type": "string", "description": "What failed, on which value, and what would work."});
    let tei_type = json!({"enum": ["Validation", "Overloaded", "Unhealthy", "Backend"]});
    let native = json!({
        "kind": {"enum": &kinds, "description": "What programs compare."},
        "message": &message,
        "retryable": {"type": "boolean", "description": "Whether the same request may succeed later."},
    });
    let native = exact_or(
        &native,
        json!({"field": {"type": "string", "description": "Where in the body, like documents[3].text."}}),
    );
    let openai_types =
        json!(["authentication_error", "not_found_error", "rate_limit_error", "invalid_request_error", "server_error"]);
    let openai = json!({
        "message": &message,
        "type": {"enum": openai_types},
        "param": {"type": ["string", "null"], "description": "Which field of the body."},
        "code": {"enum": &kinds, "description": "What programs compare."},
    });
    vec![
        ("Failure", exact_or(&json!({"error": native}), json!({"request_id": {"type": "string"}}))),
        ("OpenAiFailure", exact(&json!({"error": exact(&openai)}))),
        ("TeiFailure", exact(&json!({"error": &message, "error_type": &tei_type}))),
        (
            "ExaFailure",
            exact(&json!({
                "requestId": {"type": "string"},
                "error": &message,
                "tag": {"type": "string", "description": "What programs compare, like INVALID_REQUEST_BODY."},
            })),
        ),
        (
            "RerankFailure",
            exact(&json!({"error": &message, "error_type": &tei_type, "message": &message, "detail": &message})),
        ),
    ]
}
