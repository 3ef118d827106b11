//! `POST /contents` and `POST /search`: highlights for clients of Exa.
//!
//! A page of `/contents` comes from the request itself (`documents`), else from the store, else from the web with
//! `--fetch`. `/search` ranks the stored pages, or asks the upstream and makes highlights of its results. An
//! unavailable page does not fail the request: the page's status has the reason. The answer's `warnings` name options
//! that this server cannot honour, and report that no highlight answers the query. `answer` has the answer's fields,
//! `request` the options.

mod answer;
mod contents;
pub(super) mod failure;
pub(super) mod named_pages;
pub(super) mod passages;
mod request;
pub(super) mod search;
mod search_request;
mod shortlist;
mod upstream;

use crate::http::failure::{Cause, Failure};
use crate::routes::route::{Api, Route};
use crate::routes::schemas::Schemas;
use answer::ExaAnswer;
use contents::ContentsRequest;
use failure::EXA;
use search_request::SearchRequest;
use serde_json::json;

pub(super) const API: Api = Api { tag: "exa", errors: &EXA };

pub(super) fn routes(schemas: &mut Schemas) -> Vec<Route> {
    let contents = json!({
        "urls": ["https://example.com/bread"],
        "documents": [{"url": "https://example.com/bread", "text": "Bread is baked from flour. The moon is white."}],
        "highlights": {"query": "How is bread made?", "highlightsPerUrl": 1},
    });
    let search = json!({"query": "How is bread made?", "numResults": 3, "contents": {"highlights": true}});
    let answer = schemas.response::<ExaAnswer>();
    // Exa's client for Python appends "/contents" to its base address, even if that ends with a slash.
    let also = |alias, route| Route { alias: Some(alias), ..route };
    vec![
        also("//contents", API.post("/contents", contents::contents, "contents", "Find highlights of named pages"))
            .described(
                "A page is taken from the request itself, else from the stored documents, else fetched if the server may do \
                 that. A page that is not available gets a status of its own. Exa's other options are accepted; those that \
                 would change the answer are listed in `warnings`. If no highlight answers the query, `warnings` says so.",
            )
            .reads(schemas.request::<ContentsRequest>(), contents)
            .writes_json("The pages that are available.", answer.clone()),
        Route { body_limit: Some(MAX_SEARCH_BYTES), ..also("//search", API.post("/search", search::search, "search", "Search stored pages, or an upstream server"))}
            .described(
                "Without an upstream server, all stored documents are ranked by the best passage of each. If more documents \
                 are stored than `documents` may have, those with the query's words are.",
            )
            .reads(schemas.request::<SearchRequest>(), search)
            .writes_json("The pages that were found.", answer)
            .fails(&[502]),
        also("//findSimilar", API.post("/findSimilar", find_similar, "findSimilar", NO_INDEX)).fails(&[501]),
        also("//answer", API.post("/answer", answer_route, "answer", NO_ANSWERS)).fails(&[501]),
    ]
}

/// The most bytes of a search: it has a query and options, but no pages.
const MAX_SEARCH_BYTES: usize = 1024 * 1024;

const NO_INDEX: &str = "Refused: this server has no index of the web";
const NO_ANSWERS: &str = "Refused: this server does not write answers";

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
