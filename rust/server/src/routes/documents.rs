//! `PUT`, `GET` and `DELETE /documents/{id}`: texts that later requests name by their id.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use pullquote_core::engine::Work;
use serde::{Deserialize, Serialize};

use super::Name;
use crate::app::App;
use crate::http::admission::{Input, Reply, compute};
use crate::http::body;
use crate::http::failure::{Cause, Failure};
use crate::store::documents::check_lengths;
use crate::store::{Stored, not_stored, put_status};

/// The longest id in bytes: as long as an address may be.
pub(crate) const LONGEST_ID: usize = 2048;

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new().route("/documents/{id}", get(read).put(put).delete(delete))
}

/// What a client sends.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with a text and perhaps a title")]
struct StoreRequest {
    #[serde(default)]
    title: Option<String>,
    text: String,
}

/// What comes back.
#[derive(Serialize)]
struct Shown<'document> {
    id: &'document str,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'document str>,
    text_hash: &'document str,
    /// Left out where the client has just sent it.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'document str>,
}

async fn put(State(app): State<Arc<App>>, Name(id): Name, request: Request) -> Result<Response, Failure> {
    compute(&app, request, move |app, input| {
        check_id(&id)?;
        let StoreRequest { title, text } = body::parse(&input.headers, &input.body)?;
        check_lengths([text.as_str()], "text", &app.settings)?;
        let document = Stored::new(title, text);
        let text_hash = document.text_hash.clone();
        let is_new = app.store.put(&id, document)?;
        let shown = Shown { id: &id, title: None, text_hash: &text_hash, text: None };
        Ok(Reply { status: put_status(is_new), ..Reply::json(&shown, Work::default())? })
    })
    .await
}

async fn read(State(app): State<Arc<App>>, Name(id): Name, request: Request) -> Result<Response, Failure> {
    compute(&app, request, move |app: &App, _: &Input| {
        let stored = app.store.get(&id)?.ok_or_else(|| not_stored(&id))?;
        let Stored { title, text, text_hash } = &*stored;
        Reply::json(&Shown { id: &id, title: title.as_deref(), text_hash, text: Some(text) }, Work::default())
    })
    .await
}

async fn delete(State(app): State<Arc<App>>, Name(id): Name, request: Request) -> Result<Response, Failure> {
    compute(&app, request, move |app: &App, _: &Input| {
        if !app.store.delete(&id)? {
            return Err(not_stored(&id));
        }
        Ok(Reply { status: StatusCode::NO_CONTENT, body: Body::empty(), ..Reply::json(&(), Work::default())? })
    })
    .await
}

fn check_id(id: &str) -> Result<(), Failure> {
    if id.len() <= LONGEST_ID && !id.chars().any(char::is_control) {
        return Ok(());
    }
    let message = format!("an id has at most {LONGEST_ID} bytes of UTF-8, none of them a control character");
    Err(Failure::of_field(Cause::Unprocessable, "id", message))
}

#[cfg(test)]
pub(super) fn fields() -> Vec<&'static str> {
    crate::openapi::tests::fields_of::<StoreRequest>()
}
