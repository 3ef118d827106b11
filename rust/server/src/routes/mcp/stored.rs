//! The tools `search` and `fetch`, in the shapes that the research modes of chat products expect.

use std::collections::BTreeMap;

use pullquote_core::engine::Work;
use pullquote_core::error::ErrorKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{check_query, parse_arguments, result};
use crate::app::App;
use crate::http::admission::Admitted;
use crate::http::failure::{Cause, Failure};
use crate::routes::exa::search::find;
use crate::store::not_stored;

/// Results of a search.
const RESULTS: usize = 10;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchArguments {
    #[schemars(length(min = 1), description = "a whole question, in any language")]
    query: String,
}

/// The stored documents that a query finds, best first.
#[derive(Serialize, JsonSchema)]
pub(super) struct SearchResults {
    results: Vec<SearchResult>,
}

/// A stored document that a query finds.
#[derive(Serialize, JsonSchema)]
struct SearchResult {
    id: String,
    title: String,
    url: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FetchArguments {
    #[schemars(description = "id of a result of search")]
    id: String,
}

/// A stored document.
#[derive(Serialize, JsonSchema)]
pub(super) struct Page {
    id: String,
    title: String,
    text: String,
    url: String,
    metadata: BTreeMap<&'static str, String>,
}

pub(super) async fn search(admitted: &mut Admitted<App>, arguments: Value) -> Result<(Value, Work), Failure> {
    let SearchArguments { query } = parse_arguments(arguments)?;
    let found = admitted.with_permit(move |app, input| {
        check_query(app, &query)?;
        check_store(app)?;
        let (found, work) = find(app, input, &query, RESULTS)?;
        let results = found.into_iter().map(|found| {
            let title = title(found.stored.title.as_deref(), &found.id);
            SearchResult { url: found.id.clone(), id: found.id, title }
        });
        Ok((result(input, &SearchResults { results: results.collect() })?, work))
    });
    found.await
}

pub(super) async fn fetch(admitted: &mut Admitted<App>, arguments: Value) -> Result<(Value, Work), Failure> {
    let FetchArguments { id } = parse_arguments(arguments)?;
    let read = admitted.with_permit(move |app, input| {
        check_store(app)?;
        let stored = app.store.get(&id)?.ok_or_else(|| not_stored(&id))?;
        input.memory.hold(stored.text.len())?;
        let page = Page {
            title: title(stored.title.as_deref(), &id),
            text: stored.text,
            url: id.clone(),
            metadata: BTreeMap::from([("text_hash", stored.text_hash)]),
            id,
        };
        Ok((result(input, &page)?, Work::default()))
    });
    read.await
}

fn title(stored: Option<&str>, id: &str) -> String {
    stored.filter(|title| !title.trim().is_empty()).unwrap_or(id).to_owned()
}

fn check_store(app: &App) -> Result<(), Failure> {
    if app.settings.store_documents > 0 {
        return Ok(());
    }
    let message =
        "this server stores no documents, because --store-documents is 0; `highlights` finds passages in texts";
    Err(Failure::new(Cause::Core(ErrorKind::NotFound), message))
}
