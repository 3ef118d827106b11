//! `POST /contents` and `POST /search`: highlights for clients of Exa.
//!
//! A page of `/contents` comes from the request itself (`documents`), else from the store, else from the web with
//! `--fetch`. `/search` ranks the stored pages, or asks the upstream and makes highlights of its results. An
//! unavailable page does not fail the request: the page's status has the reason. The answer's `warnings` name options
//! that this server cannot honour, and report that no highlight answers the query. `answer` has the answer's fields,
//! `request` the options.

mod answer;
mod contents;
pub(super) mod named_pages;
pub(super) mod passages;
mod request;
pub(super) mod search;
mod search_request;
mod shortlist;
mod upstream;

use std::sync::Arc;

use axum::Router;
use axum::routing::post;

use crate::app::App;
use crate::http::failure::{Cause, Failure};
pub(crate) use answer::ExaAnswer;
pub(crate) use contents::ContentsRequest;
pub(crate) use search_request::SearchRequest;

pub(super) fn routes() -> Router<Arc<App>> {
    // The paths with two slashes: Exa's client for Python appends "/contents" to its base address, even if that ends
    // with a slash.
    Router::new()
        .route("/contents", post(contents::contents))
        .route("//contents", post(contents::contents))
        .route("/search", post(search::search))
        .route("//search", post(search::search))
        .route("/findSimilar", post(find_similar))
        .route("//findSimilar", post(find_similar))
        .route("/answer", post(answer_route))
        .route("//answer", post(answer_route))
}

/// Exa finds pages of the web that are similar to one; this server has no index of the web.
async fn find_similar() -> Failure {
    let message =
        "this server does not know which pages of the web are similar; POST /search ranks its stored documents";
    Failure::new(Cause::NotImplemented, message)
}

/// Exa writes an answer; this server has no model that writes.
async fn answer_route() -> Failure {
    let message =
        "this server does not write answers; POST /search with contents.highlights returns the passages that answer";
    Failure::new(Cause::NotImplemented, message)
}
