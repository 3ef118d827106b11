//! `/rerank` in the document.

use serde_json::{Value, json};

use super::{Facts, Operation, Work, count, exact, exact_or, json_answer, schema};

pub(super) fn operations(_: &Facts) -> Vec<Operation> {
    let example = json!({
        "query": "How is bread made?",
        "documents": ["The moon is white.", "Bread is baked from flour."],
        "top_n": 1,
        "return_documents": true,
    });
    let answer = json!({"anyOf": [schema("Ranking"), schema("TeiRanking")]});
    let answers = || json_answer("The nearest first.", answer.clone());
    let summary = "Documents by how near they are to a query";
    let operation = |(path, id)| Operation {
        description:
            "A score is the cosine of two vectors. A request with `documents` is answered as Cohere and Jina do, one \
                      with `texts` as Text Embeddings Inference does. Fields that are not listed here are read over."
                .to_owned(),
        body: Some((schema("RerankRequest"), example.clone())),
        work: Work::Parse,
        failures: &[404],
        ..Operation::new("post", path, id, "rerank", summary, answers())
    };
    [("/rerank", "rerank"), ("/v1/rerank", "rerankV1"), ("/v2/rerank", "rerankV2")].map(operation).into()
}

pub(super) fn schemas(facts: &Facts) -> Vec<(&'static str, Value)> {
    let settings = facts.settings;
    let texts = json!({
        "type": ["array", "null"],
        "items": {"type": "string", "maxLength": settings.max_document_bytes},
        "minItems": 1,
        "maxItems": settings.max_documents,
        "description": format!("Instead of `documents`: at most {}.", settings.max_documents),
    });
    let request = json!({
        "type": "object",
        "required": ["query"],
        // null is as good as left out.
        "oneOf": [
            {"required": ["documents"], "properties": {"documents": schema("Documents"), "texts": {"type": "null"}}},
            {"required": ["texts"], "properties": {"texts": {"type": "array"}, "documents": {"type": "null"}}},
        ],
        "properties": {
            "query": {"type": "string", "pattern": "\\S"},
            "documents": {"anyOf": [schema("Documents"), {"type": "null"}]},
            "top_n": {
                "type": ["integer", "null"],
                "minimum": 1,
                "maximum": u64::MAX,
                "default": null,
                "description": "At most so many; all where it is left out.",
            },
            "return_documents": {"type": "boolean", "default": false, "description": "Return the documents' texts."},
            "texts": texts,
            "return_text": {"type": "boolean", "default": false, "description": "The same where there are `texts`."},
        },
    });
    let text = json!({"type": "string"});
    let score = json!({"type": "number", "description": "The cosine, from -1 to 1."});
    let which = count("Which of the request's documents it is.");
    let rank = exact_or(
        &json!({"index": which, "relevance_score": score}),
        json!({"document": exact(&json!({"text": text}))}),
    );
    let tei_rank = exact_or(&json!({"index": which, "score": score}), json!({"text": text}));
    let meta = json!({
        "api_version": exact(&json!({"version": {"type": "string"}})),
        "billed_units": exact(&json!({"search_units": count("Always 1.")})),
    });
    let ranking = json!({
        "id": {"type": "string", "format": "uuid"},
        "model": {"type": "string"},
        "results": {"type": "array", "items": rank},
        "usage": exact(&json!({"total_tokens": count("Tokens that were encoded.")})),
        "meta": exact(&meta),
    });
    vec![
        ("RerankRequest", request),
        ("Ranking", exact(&ranking)),
        ("TeiRanking", json!({"type": "array", "items": tei_rank})),
    ]
}
