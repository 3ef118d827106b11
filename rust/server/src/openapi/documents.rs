//! `/documents/{id}` in the document.

use serde_json::{Value, json};

use super::{Answer, Facts, Operation, Work, exact, exact_or, json_answer, schema};
use crate::routes::documents::LONGEST_ID;

const PATH: &str = "/documents/{id}";

pub(super) fn operations(_: &Facts) -> Vec<Operation> {
    let operation = |method, id, summary, answers| Operation {
        place: Some(json!({
            "name": "id",
            "in": "path",
            "required": true,
            "description": format!(
                "Any name, or an address; percent-encoded, at most {LONGEST_ID} bytes without control characters."
            ),
            "schema": {
                "type": "string",
                "minLength": 1,
                "maxLength": LONGEST_ID,
                "pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f]+$",
            },
            "example": "moon",
        })),
        work: Work::Compute,
        failures: &[404, 422],
        ..Operation::new(method, PATH, id, "documents", summary, answers)
    };
    let kept = |status, description| Answer {
        status,
        description,
        content: vec![("application/json", schema("KeptDocument"))],
    };
    let example = json!({"title": "The moon", "text": "The moon is white. It has no air."});
    vec![
        Operation {
            description:
                "Documents are kept until they are deleted, none is dropped to make room; with `--store` in a file \
                          that survives a kill, else in memory."
                    .to_owned(),
            body: Some((schema("DocumentRequest"), example)),
            work: Work::Parse,
            failures: &[507],
            ..operation(
                "put",
                "putDocument",
                "Keep a text under an id",
                vec![kept(200, "The document replaced another."), kept(201, "The document is new.")],
            )
        },
        operation("get", "getDocument", "The text under an id", json_answer("The document.", schema("Document"))),
        operation(
            "delete",
            "deleteDocument",
            "Let a document go",
            vec![Answer { status: 204, description: "It is gone.", content: Vec::new() }],
        ),
    ]
}

/// What is known of a text.
pub(super) fn hash() -> Value {
    json!({"type": "string", "pattern": "^sha256:[0-9a-f]{64}$", "description": "SHA-256 of the text's UTF-8."})
}

pub(super) fn schemas(facts: &Facts) -> Vec<(&'static str, Value)> {
    let text = json!({
        "type": "string",
        "maxLength": facts.settings.max_document_bytes,
        "description": format!("At most {} bytes of UTF-8.", facts.settings.max_document_bytes),
    });
    let title = json!({
        "type": ["string", "null"],
        "default": null,
        "description": "Where pages are compared, it speaks for all of its page.",
    });
    let known = json!({"id": {"type": "string"}, "text_hash": hash()});
    let whole = json!({"id": {"type": "string"}, "text_hash": hash(), "text": {"type": "string"}});
    vec![
        ("DocumentRequest", exact_or(&json!({"text": text}), json!({"title": title}))),
        ("KeptDocument", exact(&known)),
        ("Document", exact_or(&whole, json!({"title": {"type": "string"}}))),
    ]
}
