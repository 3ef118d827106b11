//! `/v1/embeddings` and `/v1/models` in the document.

use serde_json::{Value, json};

use super::{Facts, Operation, Work, count, exact, json_answer, schema};

pub(super) fn operations(facts: &Facts) -> Vec<Operation> {
    let model = &facts.settings.model_name;
    let operation = |method, path, id, summary, answers| Operation::new(method, path, id, "openai", summary, answers);
    let example = json!({"model": model, "input": ["The moon is white.", "Bread is baked from flour."]});
    let place = json!({
        "name": "model",
        "in": "path",
        "required": true,
        "schema": {"type": "string", "minLength": 1},
        "example": model,
    });
    let vectors = json_answer("A vector for each text, in order.", schema("Embeddings"));
    vec![
        Operation {
            description:
                "Whatever `model` is named, the one that is served answers. Fields that are not listed here, such as \
                          `model` and `user`, are read over."
                    .to_owned(),
            body: Some((schema("EmbeddingsRequest"), example)),
            work: Work::Parse,
            ..operation("post", "/v1/embeddings", "createEmbeddings", "Vectors of texts", vectors)
        },
        operation("get", "/v1/models", "listModels", "The model", json_answer("It alone.", schema("Models"))),
        Operation {
            place: Some(place),
            failures: &[404, 422],
            ..operation(
                "get",
                "/v1/models/{model}",
                "getModel",
                "The model by its name",
                json_answer("It.", schema("Model")),
            )
        },
    ]
}

/// Texts or ids of tokens, alone or in a list.
pub(super) fn texts(facts: &Facts) -> Value {
    let settings = facts.settings;
    let text = json!({"type": "string", "maxLength": settings.max_document_bytes});
    let list = |of: &Value| json!({"type": "array", "items": of, "minItems": 1, "maxItems": settings.max_inputs});
    let id = json!({"type": "integer", "minimum": 0, "maximum": u32::MAX});
    let ids = json!({"type": "array", "items": id, "minItems": 1});
    json!({
        "anyOf": [text, list(&text), ids, list(&ids)],
        "description": format!(
            "Texts, or the ids of their tokens: one, or a list of at most {}. Ids must be those that a text has with this \
             server's tokenizer. What is behind {} tokens is cut.",
            settings.max_inputs, facts.max_tokens
        ),
    })
}

/// How long vectors are: what the model gives and nothing else.
pub(super) fn dimensions(facts: &Facts) -> Value {
    json!({"enum": [facts.dimension, null], "default": null, "description": "This model's vectors cannot be cut."})
}

/// A vector of the model.
pub(super) fn vector(facts: &Facts) -> Value {
    json!({"type": "array", "items": {"type": "number"}, "minItems": facts.dimension, "maxItems": facts.dimension})
}

pub(super) fn schemas(facts: &Facts) -> Vec<(&'static str, Value)> {
    let request = json!({
        "type": "object",
        "required": ["input"],
        "properties": {
            "input": texts(facts),
            "encoding_format": {
                "enum": ["float", "base64"],
                "default": "float",
                "description": "Numbers, or little-endian float32 in base64.",
            },
            "dimensions": dimensions(facts),
        },
    });
    let row = exact(&json!({
        "object": {"const": "embedding"},
        "index": count("Which of the texts it is."),
        "embedding": {"anyOf": [vector(facts), {"type": "string", "description": "With base64."}]},
    }));
    let usage = exact(&json!({
        "prompt_tokens": count("Tokens that were encoded."),
        "total_tokens": count("The same."),
    }));
    let embeddings = exact(&json!({
        "object": {"const": "list"},
        "data": {"type": "array", "items": row},
        "model": {"type": "string"},
        "usage": usage,
    }));
    let model = exact(&json!({
        "id": {"type": "string"},
        "object": {"const": "model"},
        "created": count("When the server started, in seconds since 1970."),
        "owned_by": {"type": "string"},
        "max_model_len": count("The longest text in tokens."),
    }));
    let models = exact(&json!({"object": {"const": "list"}, "data": {"type": "array", "items": schema("Model")}}));
    vec![("EmbeddingsRequest", request), ("Embeddings", embeddings), ("Model", model), ("Models", models)]
}
