//! `/contents` and `/search` in the document.

use serde_json::{Value, json};

use crate::openapi::{Facts, Operation, Work, count, exact, exact_or, json_answer, schema};
use crate::routes::exa::{DEFAULT_RESULTS, LONGEST_NAME, MOST_PAGES, MOST_RESULTS};

pub(crate) fn operations(_: &Facts) -> Vec<Operation> {
    let operation = |path, id, summary, description: &str, body, example, failures| Operation {
        description: description.to_owned(),
        body: Some((schema(body), example)),
        work: Work::Parse,
        failures,
        ..Operation::new("post", path, id, "exa", summary, json_answer("What could be had.", schema("ExaAnswer")))
    };
    vec![
        operation(
            "/contents",
            "contents",
            "Highlights of pages that the client names",
            "A page is what the request itself sends, or else what is stored, or else fetched, where the server does \
             that. One that cannot be had is a status of its own. Exa's other options may be there: those that would \
             change the answer are named in `warnings`.",
            "ContentsRequest",
            json!({
                "urls": ["https://example.com/bread"],
                "documents": [{"url": "https://example.com/bread", "text": "Bread is baked from flour. The moon is white."}],
                "highlights": {"query": "How is bread made?", "highlightsPerUrl": 1},
            }),
            &[],
        ),
        operation(
            "/search",
            "search",
            "Stored pages that answer a query, or those that another server finds",
            "Without an upstream, all that is stored is ranked by the best passage of each page; more documents than a \
             request may be about are refused.",
            "SearchRequest",
            json!({"query": "How is bread made?", "numResults": 3, "contents": {"highlights": true}}),
            &[502],
        ),
    ]
}

pub(crate) fn schemas(facts: &Facts) -> Vec<(&'static str, Value)> {
    let (contents, search) = requests(facts);
    let (text, highlights) = options();
    vec![
        ("ContentsRequest", contents),
        ("SearchRequest", search),
        ("ExaText", text),
        ("ExaHighlights", highlights),
        ("ExaAnswer", answer()),
    ]
}

/// What `/contents` and `/search` take.
fn requests(facts: &Facts) -> (Value, Value) {
    let settings = facts.settings;
    let name = json!({"type": "string", "minLength": 1, "maxLength": LONGEST_NAME, "pattern": "\\S"});
    let names = |of: &str| {
        json!({
            "type": ["array", "null"], "items": name, "minItems": 1, "maxItems": MOST_PAGES,
            "description": format!("{of} of pages, 1 to {MOST_PAGES}; ids or urls, and not both."),
        })
    };
    let (array, absent) = (json!({"type": "array"}), json!({"type": "null"}));
    let sent = json!({
        "type": "object",
        "required": ["text"],
        "additionalProperties": false,
        // null is as good as left out.
        "anyOf": [
            {"required": ["id"], "properties": {"id": {"type": "string"}}},
            {"required": ["url"], "properties": {"url": {"type": "string", "pattern": "\\S"}, "id": absent}},
        ],
        "properties": {
            "id": {"type": ["string", "null"], "pattern": "\\S"},
            "url": {"type": ["string", "null"]},
            "title": {"type": ["string", "null"]},
            "text": {"type": "string", "maxLength": settings.max_document_bytes},
        },
    });
    let contents = json!({
        "type": "object",
        "anyOf": [
            {"required": ["ids"], "properties": {"ids": array, "urls": absent}},
            {"required": ["urls"], "properties": {"urls": array, "ids": absent}},
            {"required": ["documents"], "properties": {"documents": {"type": "array", "minItems": 1}, "ids": absent, "urls": absent}},
        ],
        "properties": {
            "ids": names("Ids"),
            "urls": names("Addresses"),
            "documents": {
                "type": ["array", "null"], "items": sent, "maxItems": settings.max_documents,
                "description": "Pages that the request itself sends; all of them, where no ids or urls are named.",
            },
            "text": schema("ExaText"),
            "highlights": schema("ExaHighlights"),
        },
    });
    let search = json!({
        "type": "object",
        "required": ["query"],
        "properties": {
            "query": {"type": "string", "pattern": "\\S"},
            "numResults": {"type": ["integer", "null"], "minimum": 1, "maximum": MOST_RESULTS, "default": DEFAULT_RESULTS},
            "contents": {
                "type": ["object", "null"],
                "properties": {"text": schema("ExaText"), "highlights": schema("ExaHighlights")},
                "description": "What is wanted of each page.",
            },
        },
    });
    (contents, search)
}

/// How texts and highlights are wanted.
fn options() -> (Value, Value) {
    let whole = |description: &str| json!({"type": ["integer", "null"], "minimum": 1, "maximum": i64::MAX, "description": description});
    let switch = |options: Value, description: &str| {
        json!({
            "anyOf": [{"type": ["boolean", "null"]}, {"type": "object", "properties": options}],
            "description": description,
        })
    };
    let text = json!({
        "maxCharacters": {
            "type": ["integer", "null"], "minimum": 1, "maximum": u64::MAX,
            "description": "At most so many; all where it is left out.",
        },
    });
    let highlights = json!({
        "query": {"type": ["string", "null"], "pattern": "\\S", "description": "Else that of the search, or each page's title."},
        "numSentences": whole("Sentences of each passage."),
        "highlightsPerUrl": whole("Passages of a page."),
        "maxCharacters": whole("Characters of a page, over all its passages."),
        "dynamic": {"type": ["boolean", "null"], "description": "One budget for all pages, spent where the answers are."},
    });
    (
        switch(text, "Whether the text of each page comes back."),
        switch(highlights, "Whether passages of each page do, and how."),
    )
}

/// What both answer.
fn answer() -> Value {
    let string = json!({"type": "string"});
    let span = json!({
        "start": count("In code points of the text."),
        "end": count("Behind the last."),
        "score": {"type": "number", "description": "From 0 to 1."},
    });
    let found = exact_or(
        &json!({"id": string, "url": string, "title": {"type": ["string", "null"]}}),
        json!({
            "score": {"type": "number", "description": "How well the page answers, where pages were ranked."},
            "text": string,
            "highlights": {"type": "array", "items": string},
            "highlightScores": {"type": "array", "items": {"type": "number"}},
            "extras": exact(&json!({"highlightSpans": {"type": "array", "items": exact(&span)}})),
        }),
    );
    let failed = json!({"tag": string, "httpStatusCode": {"type": "integer"}, "message": string});
    let status = exact_or(
        &json!({"id": string, "status": {"enum": ["success", "error"]}}),
        json!({"source": {"enum": ["cached", "crawled"]}, "error": exact(&failed)}),
    );
    let warning = exact(&json!({"code": string, "path": string, "message": string}));
    let mut answer = exact_or(
        &json!({
            "requestId": string,
            "results": {"type": "array", "items": found},
            "costDollars": {"type": "object"},
            "searchTime": {"type": "number", "description": "In milliseconds."},
        }),
        json!({
            "statuses": {"type": "array", "items": status, "description": "Of `/contents`: one for each page."},
            "warnings": {"type": "array", "items": warning},
        }),
    );
    // What an upstream says beside that is handed on.
    answer["additionalProperties"] = json!(true);
    answer["properties"]["results"]["items"]["additionalProperties"] = json!(true);
    answer
}
