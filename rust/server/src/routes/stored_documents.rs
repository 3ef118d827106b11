//! `PUT`, `GET` and `DELETE /documents/{id}`, and `POST /documents` for many: texts that later requests name by their
//! id.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use axum::routing;
use pullquote_core::engine::Work;
use pullquote_wire::result::HASH_PATTERN;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Name;
use crate::app::App;
use crate::http::admission::{Admitted, admit_and_run, run};
use crate::http::body::Object;
use crate::http::failure::{Failure, refused};
use crate::http::input::Input;
use crate::http::reply::Reply;
use crate::routes::highlights::failure::NATIVE;
use crate::routes::item_limits::{check_count, check_lengths};
use crate::routes::route::{Api, Handling, JSON, Route};
use crate::routes::schema_placeholders::{MAX_DOCUMENT_BYTES, MAX_DOCUMENTS};
use crate::routes::schemas::Schemas;
use crate::store::{Stored, not_stored};

/// The longest id in bytes: as long as an address may be.
pub(crate) const LONGEST_ID: usize = 2048;

const API: Api = Api { tag: "documents", errors: &NATIVE };

pub(super) fn routes(schemas: &mut Schemas) -> Vec<Route> {
    let id = json!({
        "name": "id",
        "in": "path",
        "required": true,
        "description": "Any name or address, percent-encoded; at most {max_document_id} bytes without control characters.",
        "schema": {
            "type": "string",
            "minLength": 1,
            "maxLength": "{max_document_id}",
            "pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f]+$",
        },
        "example": "moon",
    });
    let named = |route| Route { in_path: Some(id.clone()), work: Handling::Compute, failures: &[404, 422], ..route };
    let path = "/documents/{id}";
    let written = vec![(JSON, schemas.response::<PutDocument>())];
    vec![
        API.post("/documents", post, "putDocuments", "Store many documents")
            .described(
                "Stores all of them or, with an error, none. With `--store`, one flush to the disk stores all. If the store \
                 has no room for all, the error names the first document that is too much.",
            )
            .reads(
                schemas.request::<DocumentsRequest>(),
                json!({"documents": [{"id": "moon", "title": "The moon", "text": "The moon is white."}]}),
            )
            .writes_json("All are stored.", schemas.response::<PutDocuments>())
            .fails(&[507]),
        named(API.route(Method::PUT, path, routing::put(put), "putDocument", "Store a document"))
            .described(
                "The server keeps documents until they are deleted, and drops none to make room. With `--store` they are in a \
                 file that survives a crash, otherwise in memory.",
            )
            .reads(
                schemas.request::<DocumentRequest>(),
                json!({"title": "The moon", "text": "The moon is white. It has no air."}),
            )
            .writes(200, "The document replaced another.", written.clone())
            .writes(201, "The document is new.", written)
            .fails(&[507]),
        named(API.get(path, read, "getDocument", "Return a document"))
            .writes_json("The document.", schemas.response::<StoredDocument>()),
        named(API.route(Method::DELETE, path, routing::delete(delete), "deleteDocument", "Delete a document"))
            .writes(204, "The document is deleted.", Vec::new()),
    ]
}

/// Documents to store, with their ids.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an object with documents")]
pub(crate) struct DocumentsRequest {
    #[schemars(length(min = 1, max = MAX_DOCUMENTS))]
    documents: Vec<Object<NamedDocument>>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an object with an id, a text and perhaps a title")]
#[schemars(inline)]
struct NamedDocument {
    /// Any name or address; at most `{max_document_id}` bytes without control characters.
    #[schemars(length(min = 1, max = LONGEST_ID), regex(pattern = r"^[^\u0000-\u001f\u007f-\u009f]+$"))]
    id: String,
    /// Added to the relevance of every passage of the page when pages compete.
    #[serde(default)]
    title: Option<String>,
    /// At most `{max_document_bytes}` bytes of UTF-8.
    #[schemars(length(max = MAX_DOCUMENT_BYTES))]
    text: String,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct PutDocuments {
    /// Documents whose ids are new.
    created: usize,
    /// Documents that replaced others.
    replaced: usize,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an object with a text and perhaps a title")]
pub(crate) struct DocumentRequest {
    /// Added to the relevance of every passage of the page when pages compete.
    #[serde(default)]
    title: Option<String>,
    /// At most `{max_document_bytes}` bytes of UTF-8.
    #[schemars(length(max = MAX_DOCUMENT_BYTES))]
    text: String,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct PutDocument<'document> {
    id: &'document str,
    #[schemars(regex(pattern = HASH_PATTERN))]
    text_hash: &'document str,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct StoredDocument<'document> {
    id: &'document str,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'document str>,
    #[schemars(regex(pattern = HASH_PATTERN))]
    text_hash: &'document str,
    text: &'document str,
}

async fn put(State(app): State<Arc<App>>, Name(id): Name, request: Request) -> Result<Response, Failure> {
    run(Admitted::admit(&app, request).await?.storing(), move |app, input| {
        check_id(&id, "id")?;
        let DocumentRequest { title, text } = input.parse()?;
        check_lengths([text.as_str()], "text", app.settings.max_document_bytes)?;
        let document = Stored::new(title, text);
        let text_hash = document.text_hash.clone();
        let is_new = app.store.put(&id, document)?;
        let answer = PutDocument { id: &id, text_hash: &text_hash };
        let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
        Ok(Reply { status, ..Reply::json(input, &answer, Work::default())? })
    })
    .await
}

async fn post(State(app): State<Arc<App>>, request: Request) -> Result<Response, Failure> {
    run(Admitted::admit(&app, request).await?.storing(), put_all).await
}

/// One flush to the disk stores all.
fn put_all(app: &App, input: &Input) -> Result<Reply, Failure> {
    let DocumentsRequest { documents } = input.parse()?;
    check_count(documents.len(), "documents", app.settings.max_documents)?;
    check_lengths(
        documents.iter().map(|Object(document)| document.text.as_str()),
        "documents",
        app.settings.max_document_bytes,
    )?;
    for (index, Object(document)) in documents.iter().enumerate() {
        check_id(&document.id, &format!("documents[{index}].id"))?;
    }
    let named = |Object(NamedDocument { id, title, text })| (id, Stored::new(title, text));
    let stored = app.store.put_all(documents.into_iter().map(named).collect()).map_err(|refused| {
        let field = refused.document.map(|index| format!("documents[{index}]"));
        Failure { field, ..refused.failure }
    })?;
    let created = stored.iter().filter(|is_new| **is_new).count();
    Reply::json(input, &PutDocuments { created, replaced: stored.len() - created }, Work::default())
}

async fn read(State(app): State<Arc<App>>, Name(id): Name, request: Request) -> Result<Response, Failure> {
    admit_and_run(&app, request, move |app: &App, input: &Input| {
        let stored = app.store.get(&id)?.ok_or_else(|| not_stored(&id))?;
        input.memory.hold(stored.text.len())?;
        let Stored { title, text, text_hash } = &stored;
        Reply::json(input, &StoredDocument { id: &id, title: title.as_deref(), text_hash, text }, Work::default())
    })
    .await
}

async fn delete(State(app): State<Arc<App>>, Name(id): Name, request: Request) -> Result<Response, Failure> {
    admit_and_run(&app, request, move |app: &App, _: &Input| {
        if !app.store.delete(&id)? {
            return Err(not_stored(&id));
        }
        let reply = Reply::new("application/json", Body::empty(), Work::default());
        Ok(Reply { status: StatusCode::NO_CONTENT, ..reply })
    })
    .await
}

fn check_id(id: &str, field: &str) -> Result<(), Failure> {
    if (1..=LONGEST_ID).contains(&id.len()) && !id.chars().any(char::is_control) {
        return Ok(());
    }
    refused(field, format!("an id has 1 to {LONGEST_ID} bytes of UTF-8, none of them a control character"))
}
