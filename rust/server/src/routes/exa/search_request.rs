//! The request of `POST /search`.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::request::ContentsOptions;
use crate::app::App;
use crate::http::failure::{Failure, refused};
use crate::http::input::Input;
use crate::routes::item_limits::check_query;

/// The path of the options for pages.
pub(super) const PLACE: &str = "contents.";

/// Number of results if the request does not say.
pub(crate) const DEFAULT_RESULTS: i64 = 10;

/// Maximum number of results.
pub(crate) const MOST_RESULTS: usize = 100;

/// A query, and what to return of each page.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", expecting = "an object with a query")]
pub(crate) struct SearchRequest {
    #[schemars(regex(pattern = r"\S"))]
    query: String,
    #[serde(default)]
    #[schemars(range(min = 1, max = MOST_RESULTS), extend("default" = DEFAULT_RESULTS))]
    num_results: Option<i64>,
    /// What to return of each page.
    #[serde(default)]
    #[schemars(with = "Option<ContentsOptions>")]
    contents: Option<Map<String, Value>>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// A checked search.
pub(super) struct Search {
    pub(super) query: String,
    pub(super) num_results: usize,
    pub(super) wanted: ContentsOptions,
    pub(super) rest: Map<String, Value>,
}

impl Search {
    pub(super) fn read(app: &App, input: &Input) -> Result<Self, Failure> {
        let SearchRequest { query, num_results, contents, rest } = input.parse()?;
        if query.trim().is_empty() {
            return refused("query", "the query is empty; it needs at least one character");
        }
        let max_query_bytes = app.settings.max_query_bytes;
        check_query(&query, "query", max_query_bytes)?;
        for name in ["highlights", "text", "summary", "context"] {
            if rest.get(name).is_some_and(|value| !matches!(value, Value::Null | Value::Bool(false))) {
                return refused(name, "it belongs under contents");
            }
        }
        let request = num_results.unwrap_or(DEFAULT_RESULTS);
        let num_results = usize::try_from(request).unwrap_or_default();
        if !(1..=MOST_RESULTS).contains(&num_results) {
            return refused("numResults", format!("it must be from 1 to {MOST_RESULTS}, not {request}"));
        }
        let wanted = ContentsOptions::read(contents.unwrap_or_default(), PLACE, max_query_bytes)?;
        Ok(Self { query, num_results, wanted, rest })
    }
}
