//! The `OpenAPI` document: every route, what it takes, and what it answers, failures too.
//!
//! Written by hand, with what the code knows filled in: this server's own limits, the defaults of options, the names of
//! failures. `tests` compares it with the router's routes and with the fields that serde reads, so that neither has what the
//! other has not; `tests/python/server/test_openapi.py` compares it with what a server answers. Each family of routes is a module.

mod documents;
mod failures;
mod health;
mod highlights;
mod openai;
mod page;
mod rerank;
mod tei;
mod vectors;

use serde_json::{Map, Value, json};

use crate::http::binary_body::OCTETS;
use crate::http::failure::Shape;
use crate::http::middleware::{LONGEST_ID, OPEN};
use crate::settings::Settings;
pub(crate) use page::Page;

/// What a document says of the server that gives it.
#[derive(Clone, Copy)]
pub(crate) struct Facts<'app> {
    pub(crate) settings: &'app Settings,
    pub(crate) has_keys: bool,
    pub(crate) dimension: usize,
    pub(crate) max_tokens: usize,
    /// Whether the model's own files make its vectors have length one.
    pub(crate) normalizes: bool,
}

/// A method of a route.
pub(crate) struct Operation {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    /// Its name in clients that are made from the document.
    pub(crate) id: &'static str,
    pub(crate) tag: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) description: String,
    /// What stands in its path: name, description, schema and example.
    pub(crate) place: Option<Value>,
    /// The schema and an example of what it takes.
    pub(crate) body: Option<(Value, Value)>,
    pub(crate) answers: Vec<Answer>,
    pub(crate) work: Work,
    /// Statuses of failures beside those that `work` has.
    pub(crate) failures: &'static [u16],
}

/// An answer that is no failure.
pub(crate) struct Answer {
    status: u16,
    description: &'static str,
    /// Content types with what is in them; none where there is no body.
    content: Vec<(&'static str, Value)>,
}

/// What a route does with a request; with that come the failures it can end with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// Says what is known.
    Tell,
    /// Waits for its turn.
    Compute,
    /// Parses a body and waits for its turn.
    Parse,
}

/// The document of a server.
pub(crate) fn document(facts: &Facts) -> Value {
    let operations = [documents::operations, health::operations, highlights::operations, openai::operations];
    let operations =
        operations.into_iter().chain([crate::routes::exa::openapi::operations, rerank::operations, tei::operations]);
    let operations: Vec<Operation> = operations.flat_map(|of_family| of_family(facts)).collect();
    let schemas = [documents::schemas, failures::schemas, health::schemas, highlights::schemas, openai::schemas];
    let schemas = schemas.into_iter().chain([crate::routes::exa::openapi::schemas, rerank::schemas, tei::schemas]);
    let schemas: Map<String, Value> =
        schemas.flat_map(|of_family| of_family(facts)).map(|(name, schema)| (name.to_owned(), schema)).collect();
    let mut paths: Map<String, Value> = Map::new();
    for operation in &operations {
        let methods = paths.entry(operation.path).or_insert_with(|| json!({}));
        methods[operation.method] = operation.json(facts);
    }
    json!({
        "openapi": "3.1.1",
        "info": {
            "title": "pullquote",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "Finds the passages of whole pages that answer a query",
            "description": INTRODUCTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": security(facts),
        "tags": TAGS.map(|(name, description)| json!({"name": name, "description": description})),
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": failures::responses(&operations, facts),
            "parameters": parameters(),
            "headers": headers(),
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "description": "A key of --api-key or --api-keys-file"},
                "key": {"type": "apiKey", "in": "header", "name": "x-api-key", "description": "The same, said otherwise"},
            },
        },
    })
}

const INTRODUCTION: &str = "A request's body is JSON and says so (`content-type: application/json`). Requests that wait for their \
    turn share batches. What a route does not know is 404, what it is not for is 405 with `allow`. A failure says what was \
    wrong, on which value, and what would work, in the shape that the route's clients know.";

const TAGS: [(&str, &str); 7] = [
    ("highlights", "Passages of pages that answer a query."),
    ("documents", "Texts that later requests name by their id."),
    ("exa", "Highlights, as clients of Exa know them."),
    ("openai", "Vectors, as OpenAI's clients know them."),
    ("tei", "Vectors and tokens, as clients of Text Embeddings Inference know them."),
    (
        "rerank",
        "Documents by how near they are to a query, as clients of Cohere, Jina and Text Embeddings Inference know it.",
    ),
    ("server", "What the server is and does."),
];

/// Where a key is needed, one of two ways to say it.
fn security(facts: &Facts) -> Value {
    let named = json!([{"bearer": []}, {"key": []}]);
    if facts.has_keys { named } else { json!([{}, {"bearer": []}, {"key": []}]) }
}

/// What every request may say.
fn parameters() -> Value {
    json!({
        "RequestTimeout": {
            "name": "request-timeout-ms",
            "in": "header",
            "description": "How many milliseconds the client waits at most; the server's own timeout, where that is less.",
            "schema": {"type": "integer", "minimum": 1, "maximum": u64::MAX},
            "example": 60_000,
        },
        "RequestPriority": {
            "name": "request-priority",
            "in": "header",
            "description": "How urgent the request is among those that wait: the lower, the more, 0 being what requests have of \
                            themselves. One turn in eight goes to whoever has waited longest, so that none waits for ever.",
            "schema": {"type": "integer", "minimum": i32::MIN, "maximum": i32::MAX},
            "example": 0,
        },
        "RequestId": {
            "name": "x-request-id",
            "in": "header",
            "description": format!(
                "A name for the request in its answer and in the log: 1 to {LONGEST_ID} visible characters of ASCII; any \
                 other is replaced."
            ),
            "schema": {"type": "string"},
        },
        "Traceparent": {
            "name": "traceparent",
            "in": "header",
            "description": "The caller's place in a trace (W3C Trace Context); one that cannot be read is ignored.",
            "schema": {"type": "string"},
        },
    })
}

/// What answers say beside their bodies.
fn headers() -> Value {
    let mut headers = headers_of_all();
    headers.as_object_mut().into_iter().for_each(|headers| headers.extend(vectors::headers()));
    headers
}

fn headers_of_all() -> Value {
    let milliseconds = |of: &str| json!({"required": true, "description": format!("Milliseconds {of}."), "schema": {"type": "number", "minimum": 0}});
    json!({
        "RequestId": {
            "required": true,
            "description": "The request's name in the log.",
            "schema": {"type": "string", "pattern": format!("^[!-~]{{1,{LONGEST_ID}}}$")},
        },
        "TotalTime": milliseconds("from the request's headers to its answer"),
        "QueueTime": milliseconds("it waited for its turn"),
        "InferenceTime": milliseconds("it was worked on"),
        "Traceparent": {
            "description": "The caller's trace with this request's span, where the request named one or spans are collected.",
            "schema": {"type": "string", "pattern": "^00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]$"},
        },
        "RetryAfter": {"description": "Seconds after which to try again.", "schema": {"type": "integer", "minimum": 1}},
        "Authenticate": {"required": true, "description": "How to name a key.", "schema": {"type": "string"}},
    })
}

impl Work {
    const fn failures(self) -> &'static [u16] {
        match self {
            Self::Tell => &[400, 401, 421, 503],
            Self::Compute => &[400, 401, 408, 413, 415, 421, 429, 500, 503, 504],
            Self::Parse => &[400, 401, 408, 413, 415, 421, 422, 429, 500, 503, 504],
        }
    }
}

impl Operation {
    /// One that takes nothing and tells what is known; what else a route does stands before it.
    pub(crate) const fn new(
        method: &'static str,
        path: &'static str,
        id: &'static str,
        tag: &'static str,
        summary: &'static str,
        answers: Vec<Answer>,
    ) -> Self {
        Self {
            method,
            path,
            id,
            tag,
            summary,
            description: String::new(),
            place: None,
            body: None,
            answers,
            work: Work::Tell,
            failures: &[],
        }
    }

    fn json(&self, facts: &Facts) -> Value {
        let mut operation = json!({
            "operationId": self.id,
            "tags": [self.tag],
            "summary": self.summary,
            "parameters": self.parameters(),
            "responses": self.responses(facts),
        });
        if !self.description.is_empty() {
            operation["description"] = json!(self.description);
        }
        if let Some((schema, example)) = &self.body {
            let content = json!({"application/json": {"schema": schema, "example": example}});
            operation["requestBody"] = json!({"required": true, "content": content});
        }
        if self.is_open(facts) {
            operation["security"] = json!([]);
        }
        operation
    }

    fn is_open(&self, facts: &Facts) -> bool {
        OPEN.contains(&self.path) && !facts.settings.protect_all
    }

    fn parameters(&self) -> Vec<Value> {
        let everywhere = ["RequestTimeout", "RequestPriority", "RequestId", "Traceparent"];
        let everywhere = everywhere.map(|name| json!({"$ref": format!("#/components/parameters/{name}")}));
        self.place.clone().into_iter().chain(everywhere).collect()
    }

    fn statuses(&self, facts: &Facts) -> impl Iterator<Item = u16> {
        let is_open = self.is_open(facts);
        // Exa has no 422: 400 says the same.
        let has_no_422 = self.shape() == Shape::Exa;
        let all = self.work.failures().iter().chain(self.failures).copied();
        all.filter(move |status| (*status != 401 || !is_open) && (*status != 422 || !has_no_422))
    }

    fn shape(&self) -> Shape {
        Shape::of(self.path)
    }

    fn responses(&self, facts: &Facts) -> Map<String, Value> {
        let failures = self.statuses(facts).map(|status| {
            let name = failures::name(self.shape(), status);
            (status.to_string(), json!({"$ref": format!("#/components/responses/{name}")}))
        });
        let answers = self.answers.iter().map(|answer| (answer.status.to_string(), answer.json(self.work)));
        answers.chain(failures).collect()
    }
}

impl Answer {
    fn json(&self, work: Work) -> Value {
        let mut names =
            vec![("x-request-id", "RequestId"), ("x-total-time", "TotalTime"), ("traceparent", "Traceparent")];
        if work != Work::Tell {
            names.extend([("x-queue-time", "QueueTime"), ("x-inference-time", "InferenceTime")]);
        }
        let mut response = json!({"description": self.description, "headers": header_references(&names)});
        if self.content.iter().any(|(name, _)| *name == OCTETS) {
            response["headers"].as_object_mut().into_iter().for_each(|headers| headers.extend(vectors::references()));
        }
        if !self.content.is_empty() {
            let of_type = |(name, schema): &(&str, Value)| ((*name).to_owned(), json!({"schema": schema}));
            response["content"] = Value::Object(self.content.iter().map(of_type).collect());
        }
        response
    }
}

fn header_references(names: &[(&str, &str)]) -> Map<String, Value> {
    let reference = |component: &str| json!({"$ref": format!("#/components/headers/{component}")});
    names.iter().map(|(header, component)| ((*header).to_owned(), reference(component))).collect()
}

/// A schema that is described elsewhere.
pub(crate) fn schema(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// An answer of 200 with this JSON.
pub(crate) fn json_answer(description: &'static str, schema: Value) -> Vec<Answer> {
    vec![Answer { status: 200, description, content: vec![("application/json", schema)] }]
}

/// An object that has all of these fields and no others.
pub(crate) fn exact(fields: &Value) -> Value {
    let names: Vec<&String> = fields.as_object().into_iter().flat_map(Map::keys).collect();
    json!({"type": "object", "required": names, "properties": fields, "additionalProperties": false})
}

/// An object that has all of the first fields, perhaps some of the second, and no others.
pub(crate) fn exact_or(fields: &Value, mut optional: Value) -> Value {
    let mut object = exact(fields);
    for (name, schema) in optional.as_object_mut().into_iter().flatten() {
        object["properties"][name.as_str()] = schema.take();
    }
    object
}

pub(crate) fn count(description: &str) -> Value {
    json!({"type": "integer", "minimum": 0, "description": description})
}

#[cfg(test)]
pub(crate) mod tests;
