//! `POST /contents` and `POST /search`: highlights for clients of Exa.
//!
//! A page of `/contents` is what the request itself sends (`documents`), or else what is stored, or else fetched, where that is
//! switched on. `/search` ranks what is stored, or asks the upstream and makes the highlights of what that finds. A page that
//! cannot be had is no failure of the request: its status says so. Options that this server cannot honour are named in the
//! answer's `warnings`.

mod answer;
mod contents;
mod passages;
mod request;
mod search;
mod upstream;

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::routing::post;

use crate::app::App;
use crate::http::middleware::RequestId;
pub(crate) use answer::ExaAnswer;
pub(crate) use contents::ContentsRequest;
pub(crate) use search::SearchRequest;

pub(super) fn routes() -> Router<Arc<App>> {
    // The paths with two slashes: Exa's client for Python puts "/contents" behind whatever base it was given, even one that
    // ends with a slash.
    Router::new()
        .route("/contents", post(contents::contents))
        .route("//contents", post(contents::contents))
        .route("/search", post(search::search))
        .route("//search", post(search::search))
}

/// The name of a request.
fn id_of(request: &Request) -> String {
    request.extensions().get::<RequestId>().map_or_else(String::new, |id| id.0.clone())
}
