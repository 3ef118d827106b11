//! `/highlights` in the document: its options, and what a passage is known by.

use pullquote_core::engine::options::Options;
use serde_json::{Map, Value, json};

use super::documents::hash;
use super::{Answer, Facts, Operation, Work, count, exact, exact_or, schema, vectors};

pub(super) fn operations(_: &Facts) -> Vec<Operation> {
    let example = json!({
        "query": "How is bread made?",
        "documents": [{"id": "bread", "title": "Bread", "text": "The moon is white. Bread is baked from flour."}],
        "highlight_length": 1,
        "top_k": 1,
    });
    let lines = json!({
        "type": "string",
        "description": "A line of JSON for each entry of `results`, and a last one with all the rest.",
    });
    let form = json!({
        "type": "object",
        "properties": {"highlights": schema("Highlights"), "vectors": {"type": "string"}, "queries": {"type": "string"}},
        "description": "With `return_vectors`: the JSON without vectors, and these as bytes.",
    });
    let json = schema("Highlights");
    let answers = vec![Answer {
        status: 200,
        description: "The passages, page by page.",
        content: vec![("application/json", json), ("application/x-ndjson", lines), ("multipart/form-data", form)],
    }];
    let summary = "The passages of pages that answer a query";
    vec![Operation {
        description:
            "Every passage is an exact substring of its page. With `accept: application/x-ndjson` each page's passages \
             are a line of their own. With `return_vectors` and `accept: multipart/form-data` there are three parts: \
             `highlights`, the JSON; `vectors`, those of the passages as bytes, in the order in which the JSON has them; and \
             `queries`, those of the queries; the `x-embedding` headers of a part say how they lie."
                .to_owned(),
        body: Some((schema("HighlightsRequest"), example)),
        work: Work::Parse,
        failures: &[404],
        ..Operation::new("post", "/highlights", "highlights", "highlights", summary, answers)
    }]
}

pub(super) fn schemas(facts: &Facts) -> Vec<(&'static str, Value)> {
    vec![
        ("HighlightsRequest", request(facts)),
        ("Documents", documents(facts)),
        ("Highlights", answer()),
        ("Page", page()),
        ("Highlight", highlight()),
    ]
}

fn request(facts: &Facts) -> Value {
    // More than white space.
    let query = json!({"type": "string", "pattern": "\\S"});
    let queries = json!({"type": "array", "items": query, "minItems": 1, "maxItems": facts.settings.max_queries});
    let required = json!({
        "query": {"anyOf": [query, queries], "description": "One for all pages; or a list: one for each page, or many for one page."},
        "documents": schema("Documents"),
    });
    let mut optional = options();
    optional.insert(
        "offsets".to_owned(),
        json!({
            "enum": ["codepoint", "utf16", "byte"],
            "default": "codepoint",
            "description": "What offsets count: code points as Python does, UTF-16 units as JavaScript does, or bytes of UTF-8.",
        }),
    );
    optional.insert(
        "return_texts".to_owned(),
        json!({
            "type": "boolean",
            "default": false,
            "description": "Return the text that offsets count in; of HTML that is not what was sent.",
        }),
    );
    optional.insert(
        "return_vectors".to_owned(),
        json!({
            "type": "boolean",
            "default": false,
            "description": "Return vectors of length one: of each passage that of its text, as /embed gives it, and of each query.",
        }),
    );
    optional.insert(
        "encoding_format".to_owned(),
        json!({"enum": ["float", "base64"], "default": "float", "description": "How vectors stand in JSON: numbers, or their bytes."}),
    );
    optional.insert("embedding_dtype".to_owned(), vectors::dtype(vectors::DTYPES));
    exact_or(&required, Value::Object(optional))
}

/// The options of a call by their names, as the core describes them.
fn options() -> Map<String, Value> {
    match Options::json_schema().get("properties") {
        Some(Value::Object(options)) => options.clone(),
        _ => Map::new(),
    }
}

/// The pages of a request, here and where documents are ranked.
fn documents(facts: &Facts) -> Value {
    let settings = facts.settings;
    let text = json!({"type": "string", "maxLength": settings.max_document_bytes});
    let object = json!({
        "type": "object",
        "properties": {
            "id": {"type": ["string", "null"], "description": "Comes back; without a text, that of a stored document."},
            "title": {"type": ["string", "null"], "description": "Where pages are compared, it speaks for all of its page."},
            "text": {"type": ["string", "null"], "description": "The page itself."},
        },
        "anyOf": [
            {"required": ["text"], "properties": {"text": text}},
            {"required": ["id"], "properties": {"id": {"type": "string"}}},
        ],
        "additionalProperties": false,
    });
    let ids = json!({
        "ids": {
            "type": "array",
            "items": {"type": "string"},
            "minItems": 1,
            "maxItems": settings.max_documents,
            "description": "Those of stored documents.",
        },
    });
    json!({
        "description": format!(
            "Texts, or objects with a text or the id of a stored one; or the ids of stored ones. At most {} of at most {} bytes.",
            settings.max_documents, settings.max_document_bytes
        ),
        "anyOf": [
            {"type": "array", "items": {"anyOf": [text, object]}, "minItems": 1, "maxItems": settings.max_documents},
            exact(&ids),
        ],
    })
}

fn answer() -> Value {
    let seconds = |of: &str| json!({"type": "number", "minimum": 0, "description": format!("Seconds of {of}.")});
    let usage = json!({
        "windows": count("Windows of all pages."),
        "windows_scored": count("Those that queries were compared with."),
        "encoded": count("Those that were encoded for this request."),
        "tokens": count("Tokens of those."),
        "truncated": count("Those that were longer than the model takes, and cut."),
    });
    let timings = json!({
        "queue": seconds("waiting"),
        "cutting": seconds("cutting pages"),
        "tokenizing": seconds("tokenizing"),
        "waiting": seconds("waiting for vectors"),
        "ranking": seconds("scoring and choosing passages"),
    });
    let always = json!({
        "results": {"type": "array", "items": schema("Page")},
        "offsets": {"enum": ["codepoint", "utf16", "byte"], "description": "What offsets count."},
        "usage": exact(&usage),
        "timings": exact(&timings),
    });
    let of_queries = json!({
        "type": "array",
        "items": vectors::written(),
        "description": "With `return_vectors`: each query's vector.",
    });
    exact_or(&always, json!({"query_vectors": of_queries}))
}

fn page() -> Value {
    let always = json!({
        "index": count("Which of the request's documents it is."),
        "text_hash": hash(),
        "format": {"enum": ["text", "markdown", "html"], "description": "What it was read as."},
        "windows": count("How many windows it has."),
        "windows_scored": count("How many of them were compared with a query."),
        "highlights": {"type": "array", "items": schema("Highlight")},
    });
    let sometimes = json!({
        "id": {"type": "string", "description": "The document's own, where it has one."},
        "query": count("Which of the request's queries is answered, where there was a list and each has its own answer."),
        "text": {"type": "string", "description": "With `return_texts`: what offsets count in."},
    });
    exact_or(&always, sometimes)
}

fn highlight() -> Value {
    let score = |meaning: &str| json!({"type": "number", "description": meaning});
    let found = exact(&json!({
        "word": {"type": "string", "description": "A word of the query."},
        "start": count("Where the page has it."),
        "end": count("Where that ends."),
    }));
    let always = json!({
        "text": {"type": "string", "description": "What stands between `start` and `end`."},
        "start": count("Where it begins in the page."),
        "end": count("Where it ends."),
        "score": score("From 0 to 1; comparable between all pages of the answer."),
        "cosine": score("By meaning alone, from -1 to 1."),
        "bm25": score("By words alone (BM25)."),
    });
    let sometimes = json!({
        "query": count("With `fuse`: which of the queries it answers best."),
        "before": {"type": "string", "description": "With `context`: what stands before it."},
        "after": {"type": "string", "description": "With `context`: what stands behind it."},
        "matches": {"type": "array", "items": found, "description": "With `explain`: the words that matched."},
        "source_start": count("Of HTML: where it begins in the source."),
        "source_end": count("Of HTML: where it ends there."),
        "vector": vectors::written(),
    });
    exact_or(&always, sometimes)
}
