//! Vectors that come as bytes in the document: their types, and the headers that say how they lie.

use serde_json::{Map, Value, json};

use super::{Answer, header_references, schema};
use crate::http::binary_body::OCTETS;
use crate::http::dtype::Dtype;

/// What routes with vectors have in common, in words.
pub(super) const ABOUT: &str = "With `accept: application/octet-stream` the vectors come as bytes, one behind the other, and \
    the `x-embedding` headers say how they lie. The first are sent before the last are encoded; where that fails later, the \
    connection (of HTTP/2: the stream) breaks off before the body is complete. `content-length` says how long that is, unless \
    it is compressed, which nothing is but for clients that rather have `gzip` than `identity`. Failures are JSON always.";

/// JSON of this schema, or bytes.
pub(super) fn answers(description: &'static str, name: &str) -> Vec<Answer> {
    let bytes =
        json!({"type": "string", "contentMediaType": OCTETS, "description": "Vectors as bytes, one behind the other."});
    vec![Answer { status: 200, description, content: vec![("application/json", schema(name)), (OCTETS, bytes)] }]
}

/// The type of the numbers.
pub(super) fn dtype(meaning: &str) -> Value {
    let names: Vec<Value> = Dtype::NAMES.iter().map(|name| json!(name)).chain([Value::Null]).collect();
    json!({"enum": names, "default": null, "description": meaning})
}

pub(super) const DTYPES: &str = "The type of numbers that come as bytes; float32 unless it is said. int8 is 127 times the \
    value, rounded (halves to even), from -127 to 127. binary is a bit for each value, 1 where it is above 0, eight in a byte, \
    the first in the highest. Numbers of JSON are float32 always.";

/// A vector within JSON.
pub(super) fn written() -> Value {
    json!({
        "anyOf": [{"type": "array", "items": {"type": "number"}}, {"type": "string"}],
        "description": "With `return_vectors`: its vector, as numbers or, with base64, their bytes.",
    })
}

pub(super) fn headers() -> Map<String, Value> {
    let all = json!({
        "EmbeddingShape": {
            "description": "Of vectors as bytes: how many, and of how many values (of binary: bits).",
            "schema": {"type": "string", "pattern": "^[0-9]+,[0-9]+$"},
        },
        "EmbeddingDtype": {"description": "The type of their numbers.", "schema": {"enum": Dtype::NAMES}},
        "EmbeddingByteOrder": {"description": "The order of a number's bytes.", "schema": {"const": "little"}},
        "PromptTokens": {
            "description": "Of vectors as bytes: tokens that were encoded.",
            "schema": {"type": "integer", "minimum": 0},
        },
        "Truncated": {
            "description": "Of vectors as bytes: how many texts are longer than the model takes, and were cut.",
            "schema": {"type": "integer", "minimum": 0},
        },
        "Model": {"description": "Of vectors as bytes: the model's name.", "schema": {"type": "string"}},
    });
    if let Value::Object(all) = all { all } else { Map::new() }
}

/// Where they stand.
pub(super) fn references() -> Map<String, Value> {
    header_references(&[
        ("x-embedding-shape", "EmbeddingShape"),
        ("x-embedding-dtype", "EmbeddingDtype"),
        ("x-embedding-byte-order", "EmbeddingByteOrder"),
        ("x-prompt-tokens", "PromptTokens"),
        ("x-truncated", "Truncated"),
        ("x-model", "Model"),
    ])
}
