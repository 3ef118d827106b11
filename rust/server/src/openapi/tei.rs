//! `/embed`, `/tokenize` and `/info` in the document.

use serde_json::{Value, json};

use super::openai::{dimensions, texts, vector};
use super::{Facts, Operation, Work, count, exact, json_answer, schema};

pub(super) fn operations(_: &Facts) -> Vec<Operation> {
    let operation = |path, id, summary, answers| Operation {
        work: Work::Parse,
        ..Operation::new("post", path, id, "tei", summary, answers)
    };
    let vectors = json_answer("A vector for each text, in order.", schema("Vectors"));
    let lists = json_answer("A list of tokens for each text, in order.", schema("Tokens"));
    vec![
        Operation {
            body: Some((
                schema("EmbedRequest"),
                json!({"inputs": ["The moon is white.", "Bread is baked from flour."]}),
            )),
            ..operation("/embed", "embed", "Vectors of texts", vectors)
        },
        Operation {
            body: Some((schema("TokenizeRequest"), json!({"inputs": "The moon is white."}))),
            ..operation("/tokenize", "tokenize", "Tokens of texts", lists)
        },
        Operation {
            method: "get",
            work: Work::Tell,
            ..operation("/info", "info", "What the model and the server are", json_answer("It.", schema("Info")))
        },
    ]
}

pub(super) fn schemas(facts: &Facts) -> Vec<(&'static str, Value)> {
    let normalize = json!({
        "enum": if facts.normalizes { json!([true, null]) } else { json!([true, false, null]) },
        "default": null,
        "description": "Bring vectors to length one; always where the model's own files say so.",
    });
    let embed = json!({
        "type": "object",
        "required": ["inputs"],
        "properties": {
            "inputs": texts(facts),
            "normalize": normalize,
            "truncate": {
                "type": ["boolean", "null"],
                "default": null,
                "description": "False refuses texts that are longer than the model takes, instead of cutting them.",
            },
            "truncation_direction": {
                "enum": ["Right", "right"],
                "default": "Right",
                "description": "Texts are cut at their end only.",
            },
            "prompt_name": {
                "enum": ["query", "passage", "document", "corpus", null],
                "default": null,
                "description": "What the texts are for, where the model tells queries from passages.",
            },
            "dimensions": dimensions(facts),
        },
    });
    let tokenize = json!({
        "type": "object",
        "required": ["inputs"],
        "properties": {
            "inputs": texts(facts),
            "add_special_tokens": {"type": "boolean", "default": true, "description": "Those that the model puts around a text."},
        },
    });
    let place = |meaning: &str| json!({"type": ["integer", "null"], "minimum": 0, "description": meaning});
    let token = exact(&json!({
        "id": {"type": "integer"},
        "text": {"type": "string"},
        "special": {"type": "boolean", "description": "Whether the model put it there."},
        "start": place("Where it begins, in bytes of UTF-8."),
        "stop": place("Where it ends."),
    }));
    let lists = json!({"type": "array", "items": {"type": "array", "items": token}});
    vec![
        ("EmbedRequest", embed),
        ("TokenizeRequest", tokenize),
        ("Vectors", json!({"type": "array", "items": vector(facts)})),
        ("Tokens", lists),
        ("Info", info()),
    ]
}

fn info() -> Value {
    let unsaid = json!({"type": "null", "description": "Not said here."});
    let pooling = exact(&json!({"pooling": {"enum": ["mean", "cls", "max", "last_token"]}}));
    exact(&json!({
        "model_id": {"type": "string"},
        "model_sha": unsaid,
        "model_dtype": {"type": "string"},
        "model_type": exact(&json!({"embedding": pooling})),
        "max_concurrent_requests": count("Requests that run or wait; more are answered 429."),
        "max_input_length": count("The longest text in tokens."),
        "max_batch_tokens": {"type": ["integer", "null"], "minimum": 0},
        "max_batch_requests": unsaid,
        "max_client_batch_size": count("Texts of a request; more are answered 422."),
        "auto_truncate": {"const": true},
        "tokenization_workers": unsaid,
        "version": {"type": "string"},
    }))
}
