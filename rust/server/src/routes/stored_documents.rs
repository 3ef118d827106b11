//! `PUT`, `GET` and `DELETE /documents/{id}`, and `POST`, `GET` and `DELETE /documents` for many: texts that later
//! requests name by their id.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use axum::routing;
use pullquote_core::engine::Work;
use pullquote_wire::documents::{DeletedDocuments, DocumentList, PutDocuments};
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
use crate::routes::route::{Api, Handling, JSON, Route, read_query};
use crate::routes::schema_placeholders::{MAX_DOCUMENT_BYTES, MAX_DOCUMENTS};
use crate::routes::schemas::Schemas;
use crate::store::{Page, Stored, not_stored};

/// The longest id in bytes: as long as an address may be.
pub(crate) const LONGEST_ID: usize = 2048;

/// Documents of a list, if the request does not say.
const LISTED: usize = 100;

/// The most documents of a list.
const MOST_LISTED: usize = 1000;

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
    let named = |route| Route { parameters: vec![id.clone()], work: Handling::Compute, failures: &[404, 422], ..route };
    let listing = |route, parameters| Route { parameters, work: Handling::Compute, failures: &[422], ..route };
    let prefix = |is_needed: bool| {
        let description = "Only documents whose ids begin with it, such as `https://example.com/`, percent-encoded.";
        let least = usize::from(is_needed);
        json!({"name": "prefix", "in": "query", "required": is_needed, "description": description, "schema": {"type": "string", "minLength": least}})
    };
    let limit = json!({
        "name": "limit",
        "in": "query",
        "schema": {"type": "integer", "minimum": 1, "maximum": MOST_LISTED, "default": LISTED},
    });
    let after = json!({
        "name": "after",
        "in": "query",
        "description": "Only documents whose ids come after it: `next` of the page before.",
        "schema": {"type": "string"},
    });
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
        listing(API.get("/documents", list, "listDocuments", "List documents"), vec![prefix(false), limit, after])
            .described(
                "In the order of ids (by their code points), page by page: `next` is the `after` of the next page. A page has at \
                 most `limit` documents, and fewer if their ids and titles are long. `total` counts all documents with the prefix.",
            )
            .writes_json("Some documents, without their texts.", schemas.response::<DocumentList>()),
        listing(
            API.route(Method::DELETE, "/documents", routing::delete(delete_many), "deleteDocuments", "Delete many documents"),
            vec![prefix(true)],
        )
        .described(
            "All whose ids begin with `prefix`, or with `all=true` in place of a prefix every document. The server deletes some at a time: after an \
             error, such as 504 at the end of the request's time, those before it are deleted, and the same request goes on.",
        )
        .writes_json("They are deleted.", schemas.response::<DeletedDocuments>()),
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
    /// Format that `format="auto"` reads the text as; missing for documents that an older version has stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["text", "markdown", "html"]))]
    format: Option<&'document str>,
    text: &'document str,
}

async fn put(State(app): State<Arc<App>>, Name(id): Name, request: Request) -> Result<Response, Failure> {
    let [] = read_query(&request, [])?;
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
    let [] = read_query(&request, [])?;
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
        let Stored { title, text, text_hash, format } = &stored;
        let (title, format) = (title.as_deref(), format.as_deref());
        Reply::json(input, &StoredDocument { id: &id, title, text_hash, format, text }, Work::default())
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

async fn list(State(app): State<Arc<App>>, request: Request) -> Result<Response, Failure> {
    let [prefix, limit, after] = read_query(&request, ["prefix", "limit", "after"])?;
    admit_and_run(&app, request, move |app: &App, input: &Input| {
        let most = limit.map_or(Ok(LISTED), |limit| read_limit(&limit))?;
        let (prefix, after) = (prefix.unwrap_or_default(), after.unwrap_or_default());
        let Page { documents, total, has_more } = app.store.list(&prefix, &after, most)?;
        let next = documents.last().filter(|_| has_more).map(|last| last.id.clone());
        Reply::json(input, &DocumentList { documents, total, next }, Work::default())
    })
    .await
}

async fn delete_many(State(app): State<Arc<App>>, request: Request) -> Result<Response, Failure> {
    let [prefix, all] = read_query(&request, ["prefix", "all"])?;
    admit_and_run(&app, request, move |app: &App, input: &Input| {
        let prefix = match (prefix.as_deref(), all.as_deref()) {
            (Some(prefix), None) if !prefix.is_empty() => prefix,
            (None, Some("true")) => "",
            (_, None) => {
                return refused("prefix", "pass a prefix of ids, which is not empty, or all=true for every document");
            }
            (Some(_), Some(_)) => {
                return refused("all", "pass a prefix of ids, or all=true for every document, not both");
            }
            (None, Some(other)) => return refused("all", format!("all must be true, not {other:?}")),
        };
        let call = input.call(None);
        let deleted = app.store.delete_all(prefix, &|| call.check())?;
        Reply::json(input, &DeletedDocuments { deleted }, Work::default())
    })
    .await
}

fn read_limit(limit: &str) -> Result<usize, Failure> {
    let within = limit.parse().ok().filter(|limit| (1..=MOST_LISTED).contains(limit));
    within.map_or_else(
        || refused("limit", format!("limit must be a whole number from 1 to {MOST_LISTED}, not {limit:?}")),
        Ok,
    )
}

fn check_id(id: &str, field: &str) -> Result<(), Failure> {
    if matches!(id, "." | "..") {
        return refused(field, format!("{id:?} cannot be an id: in an address it means a folder"));
    }
    if (1..=LONGEST_ID).contains(&id.len()) && !id.chars().any(char::is_control) {
        return Ok(());
    }
    refused(field, format!("an id has 1 to {LONGEST_ID} bytes of UTF-8, none of them a control character"))
}
