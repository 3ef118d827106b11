//! The `OpenAPI` document of a server: every route with its requests, answers and errors.
//!
//! Schemas are those of the types that the routes read and write, so their doc comments are the document's
//! descriptions. Each API lists its routes next to its handlers, and `common.json` has what they share.
//! `tests/python/server/test_openapi.py` compares the document with what a server answers.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use serde_json::{Map, Value, json};

use crate::http::failure::{Cause, ErrorShape, Failure};
use crate::http::request_id::LONGEST_ID;
use crate::http::vector_headers::OCTETS;
use crate::routes::highlights::FORM;
use crate::routes::route::{Handling, JSON, Route, SuccessAnswer};
use crate::routes::schemas::{Schemas, fill};
use crate::routes::vectors::Purpose;
use crate::settings::Settings;

/// Values of a server that a document contains.
#[derive(Clone, Copy)]
pub(crate) struct Facts<'app> {
    pub(crate) settings: &'app Settings,
    pub(crate) has_keys: bool,
    pub(crate) dimension: usize,
    pub(crate) max_tokens: usize,
    /// Its name.
    pub(crate) reranker: Option<&'app str>,
    pub(crate) is_late_interaction: bool,
}

pub(crate) fn document(facts: &Facts, routes: &[Route], mut schemas: Schemas) -> Value {
    // The file is part of the program; a test reads it.
    let mut document: Value = serde_json::from_str(include_str!("openapi/common.json")).unwrap_or_default();
    for route in routes {
        document["paths"][route.path][route.method.as_str().to_lowercase()] = route.operation(facts);
    }
    // Either way to send a key, or none.
    document["security"] =
        if facts.has_keys { json!([{"bearer": []}, {"key": []}]) } else { json!([{}, {"bearer": []}, {"key": []}]) };
    document["components"]["responses"] = failures(routes, facts, &mut schemas).into();
    document["components"]["schemas"] = schemas.components().into();
    fill(&mut document, &facts.by_name());
    document
}

impl Facts<'_> {
    /// The values of names in braces, in schemas and descriptions.
    fn by_name(&self) -> Map<String, Value> {
        let settings = self.settings;
        let names = std::iter::once(&settings.model_name).chain(&settings.served_model_name).map(|name| json!(name));
        let model_names: Vec<Value> = names.chain([json!(""), Value::Null]).collect();
        let score_model_names: Vec<Value> =
            self.reranker.iter().map(|name| json!(name)).chain(model_names.iter().cloned()).collect();
        let has_raw = self.reranker.is_some() || self.is_late_interaction;
        let facts = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "max_request_id": LONGEST_ID,
            "max_document_id": crate::routes::stored_documents::LONGEST_ID,
            "max_documents": settings.max_documents,
            "max_document_bytes": settings.max_document_bytes,
            "max_queries": settings.max_queries,
            "max_inputs": settings.max_inputs,
            "model_name": settings.model_name,
            "model_names": model_names,
            "score_model_names": score_model_names,
            "purposes": Purpose::NAMES.into_iter().map(Some).chain([None]).collect::<Vec<_>>(),
            "dimension": self.dimension,
            "max_tokens": self.max_tokens,
            "raw_scores": if has_raw { json!([true, false, null]) } else { json!([false, null]) },
            "activation": if has_raw { json!([true, false, null]) } else { json!([true, null]) },
            "relevance": if self.reranker.is_some() {
                "the probability that a reranker gives, from 0 to 1, or its logit"
            } else if self.is_late_interaction {
                "MaxSim: the mean over the query's tokens of the best cosine with one of the document's, or their sum"
            } else {
                "the cosine of two vectors, from -1 to 1, because the server has no reranker"
            },
        });
        if let Value::Object(facts) = facts { facts } else { Map::new() }
    }
}

impl Route {
    fn operation(&self, facts: &Facts) -> Value {
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
        let json = self.body.as_ref().map(|(schema, example)| (JSON, json!({"schema": schema, "example": example})));
        let form = self.form.as_ref().map(|schema| (FORM, json!({"schema": schema})));
        let content: Map<String, Value> =
            json.into_iter().chain(form).map(|(content_type, body)| (content_type.to_owned(), body)).collect();
        if !content.is_empty() {
            operation["requestBody"] = json!({"required": true, "content": content});
        }
        if self.needs_no_key(facts) {
            operation["security"] = json!([]);
        }
        operation
    }

    fn needs_no_key(&self, facts: &Facts) -> bool {
        self.access.needs_no_key(facts.settings.protect_all)
    }

    fn parameters(&self) -> Vec<Value> {
        let all = ["RequestTimeout", "RequestPriority", "RequestId", "Traceparent"];
        let all = all.map(|name| json!({"$ref": format!("#/components/parameters/{name}")}));
        self.parameters.iter().cloned().chain(all).collect()
    }

    fn statuses(&self, facts: &Facts) -> impl Iterator<Item = u16> {
        let is_open = self.needs_no_key(facts);
        let has_422 = (self.errors.status)(&Failure::new(Cause::Unprocessable, "")) == StatusCode::UNPROCESSABLE_ENTITY;
        let of_work = self.work.failures().iter().copied().filter(move |status| *status != 422 || has_422);
        of_work.chain(self.failures.iter().copied()).filter(move |status| *status != 401 || !is_open)
    }

    fn responses(&self, facts: &Facts) -> Map<String, Value> {
        let failures = self.statuses(facts).map(|status| {
            let name = failure_name(self.errors, status);
            (status.to_string(), json!({"$ref": format!("#/components/responses/{name}")}))
        });
        let answers = self.answers.iter().map(|answer| (answer.status.to_string(), answer.json(self)));
        answers.chain(failures).collect()
    }
}

impl SuccessAnswer {
    fn json(&self, route: &Route) -> Value {
        let (work, mut headers) = (route.work, ALWAYS.to_vec());
        if work == Handling::Parse {
            headers.extend([
                ("x-ignored-fields", "IgnoredFields"),
                ("x-truncated", "Truncated"),
                ("x-compute-tokens", "ComputeTokens"),
            ]);
        }
        if work != Handling::Immediate {
            headers.extend([("x-queue-time", "QueueTime"), ("x-inference-time", "InferenceTime")]);
        }
        if route.has_tei_headers {
            headers.extend([
                ("x-compute-type", "ComputeType"),
                ("x-compute-time", "ComputeTime"),
                ("x-compute-characters", "ComputeCharacters"),
                ("x-tokenization-time", "TokenizationTime"),
            ]);
        }
        if self.content.iter().any(|(content_type, _)| *content_type == OCTETS) {
            headers.extend([
                ("x-embedding-shape", "EmbeddingShape"),
                ("x-embedding-dtype", "EmbeddingDtype"),
                ("x-embedding-byte-order", "EmbeddingByteOrder"),
                ("x-prompt-tokens", "PromptTokens"),
                ("x-model", "Model"),
            ]);
        }
        let mut response = json!({"description": self.description, "headers": header_references(&headers)});
        for (content_type, schema) in &self.content {
            response["content"][*content_type]["schema"] = schema.clone();
        }
        response
    }
}

const ALWAYS: [(&str, &str); 3] =
    [("x-request-id", "RequestId"), ("x-total-time", "TotalTime"), ("traceparent", "Traceparent")];

fn header_references(names: &[(&str, &str)]) -> Map<String, Value> {
    let reference = |component: &str| json!({"$ref": format!("#/components/headers/{component}")});
    names.iter().map(|(header, component)| ((*header).to_owned(), reference(component))).collect()
}

fn failure_name(errors: &ErrorShape, status: u16) -> String {
    format!("{}{status}", errors.name)
}

/// Every failure that a route names.
fn failures(routes: &[Route], facts: &Facts, schemas: &mut Schemas) -> Map<String, Value> {
    let named = routes.iter().flat_map(|route| {
        let errors = route.errors;
        route.statuses(facts).map(move |status| (failure_name(errors, status), (errors, status)))
    });
    let named: BTreeMap<String, (&ErrorShape, u16)> = named.collect();
    named.into_iter().map(|(name, (errors, status))| (name, failure(errors, status, schemas))).collect()
}

fn failure(errors: &ErrorShape, status: u16, schemas: &mut Schemas) -> Value {
    let mut headers = ALWAYS.to_vec();
    match status {
        401 => headers.push(("www-authenticate", "Authenticate")),
        429 | 503 => headers.push(("retry-after", "RetryAfter")),
        _ => {}
    }
    let kinds = Cause::all().map(Cause::row).filter(|row| row.status == status);
    let kinds: Vec<String> = kinds.map(|row| format!("`{}`", row.name)).collect();
    let schema = schemas.written(|generator| (errors.schema)(status, generator));
    json!({
        "description": format!("{} ({}.)", meaning(status), kinds.join(", ")),
        "headers": header_references(&headers),
        "content": {"application/json": {"schema": schema}},
    })
}

const fn meaning(status: u16) -> &'static str {
    match status {
        400 => "The body is not JSON, or a value is not allowed.",
        401 => "The request has no valid key.",
        403 => "A page of another site sends the request.",
        404 => "Nothing has this name.",
        408 => "The body arrived too slowly, or more slowly than too many others.",
        413 => "The body is too large.",
        415 => "The content type is not JSON, or the body is compressed.",
        421 => "The request is for another host.",
        422 => "The body is JSON, but does not fit the route.",
        424 => "The route is for another kind of model.",
        429 => "The queue is full, or the key's share of it; try again later.",
        500 => "The server failed on this request.",
        501 => "The server does not implement this route of another API.",
        502 => "The upstream server returned no results.",
        503 => "Texts cannot be encoded, or the server is stopping; try another server.",
        504 => "The request's time limit has passed.",
        507 => "The store or its disk is full; delete documents first.",
        _ => "Failed.",
    }
}

#[cfg(test)]
mod tests;
