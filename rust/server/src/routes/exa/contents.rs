//! `POST /contents`: texts and highlights of pages that the client names.
//!
//! If pages have to be fetched, the work takes two permits, one before and one after.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::response::Response;
use pullquote_core::engine::Work;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::answer::{ContextPage, Cost, ExaAnswer, ExaResult, milliseconds_since};
use super::named_pages::{LONGEST_NAME, MOST_PAGES, NamedPage, SentDocument, check_names, fetch};
use super::passages::{self, ExaPage};
use super::request::{ContentsOptions, Warning};
use crate::app::App;
use crate::http::admission::Admitted;
use crate::http::body::Object;
use crate::http::failure::{Failure, refused};
use crate::http::input::Input;
use crate::http::reply::Reply;
use crate::routes::item_limits::{check_count, check_lengths};
use crate::routes::schema_placeholders::MAX_DOCUMENTS;

/// Pages, and what to return of each.
#[derive(Deserialize, JsonSchema)]
#[serde(expecting = "an object with ids or urls")]
#[schemars(extend("anyOf" = [
    {"required": ["ids"], "properties": {"ids": {"type": "array"}, "urls": {"type": "null"}}},
    {"required": ["urls"], "properties": {"urls": {"type": "array"}, "ids": {"type": "null"}}},
    {"required": ["documents"], "properties": {
        "documents": {"type": "array", "minItems": 1}, "ids": {"type": "null"}, "urls": {"type": "null"},
    }},
]))]
pub(crate) struct ContentsRequest {
    /// Ids of pages, at most 100; ids or urls, not both.
    #[serde(default)]
    #[schemars(length(min = 1, max = MOST_PAGES), inner(length(min = 1, max = LONGEST_NAME), regex(pattern = r"\S")))]
    ids: Option<Vec<String>>,
    /// Addresses of pages, at most 100; ids or urls, not both.
    #[serde(default)]
    #[schemars(length(min = 1, max = MOST_PAGES), inner(length(min = 1, max = LONGEST_NAME), regex(pattern = r"\S")))]
    urls: Option<Vec<String>>,
    /// Pages that the request itself sends; without ids and urls, all of them are answered.
    #[serde(default)]
    #[schemars(length(max = MAX_DOCUMENTS))]
    documents: Option<Vec<Object<SentDocument>>>,
    #[serde(flatten)]
    #[schemars(with = "ContentsOptions")]
    options: Map<String, Value>,
}

/// A request on its way.
struct Plan {
    wanted: ContentsOptions,
    warnings: Vec<Warning>,
    pages: Vec<NamedPage>,
}

/// The result with the first permit.
enum Step {
    Answered(Reply),
    Fetch(Plan),
}

pub(super) async fn contents(State(app): State<Arc<App>>, request: Request) -> Result<Response, Failure> {
    let began = Instant::now();
    let mut admitted = Admitted::admit(&app, request).await?;
    let step = admitted.with_permit(move |app, input| {
        let mut plan = Plan::read(app, input)?;
        let is_whole = !plan.pages.iter().any(NamedPage::is_to_fetch);
        Ok(if is_whole { Step::Answered(plan.respond(app, input, began)?) } else { Step::Fetch(plan) })
    });
    let reply = match step.await? {
        Step::Answered(reply) => reply,
        Step::Fetch(mut plan) => {
            plan.pages = fetch(&app, &mut admitted, plan.pages).await?;
            admitted.with_permit(move |app, input| plan.respond(app, input, began)).await?
        }
    };
    Ok(admitted.respond(reply))
}

impl Plan {
    fn read(app: &App, input: &Input) -> Result<Self, Failure> {
        let request: ContentsRequest = input.parse()?;
        if request.options.get("contents").is_some_and(|contents| !contents.is_null()) {
            return refused("contents", "only /search has options under contents; /contents has them next to urls");
        }
        let wanted = ContentsOptions::read(request.options, "", app.settings.max_query_bytes)?;
        let sent: Vec<Arc<SentDocument>> =
            request.documents.unwrap_or_default().into_iter().map(|Object(document)| Arc::new(document)).collect();
        if !sent.is_empty() {
            check_count(sent.len(), "documents", app.settings.max_documents)?;
        }
        check_lengths(
            sent.iter().map(|document| document.text.as_str()),
            "documents",
            app.settings.max_document_bytes,
        )?;
        if sent.iter().any(|document| document.name().is_none_or(|name| name.trim().is_empty())) {
            return refused("documents", "a document needs an id or a url");
        }
        let (names, of_urls) = match (request.ids, request.urls) {
            (Some(_), Some(_)) => return refused("ids", "pass ids or urls, not both"),
            (Some(ids), None) => (ids, false),
            (None, Some(urls)) => (urls, true),
            (None, None) if sent.is_empty() => return refused("urls", "pass ids, urls or documents"),
            (None, None) => {
                let all =
                    sent.iter().filter_map(|sent| Some(NamedPage::sent(sent.name()?.to_owned(), Arc::clone(sent))));
                return Ok(Self { warnings: wanted.warnings(""), pages: all.collect(), wanted });
            }
        };
        check_names(&names, if of_urls { "urls" } else { "ids" })?;
        let known = by_name(&sent);
        let resolve = |name: String| match known.get(name.as_str()) {
            Some(sent) => Ok(NamedPage::sent(name, Arc::clone(sent))),
            None => NamedPage::find(app, name, of_urls),
        };
        let pages = names.into_iter().map(resolve).collect::<Result<_, Failure>>()?;
        Ok(Self { warnings: wanted.warnings(""), wanted, pages })
    }

    fn respond(&mut self, app: &App, input: &Input, began: Instant) -> Result<Reply, Failure> {
        let Self { wanted, warnings, pages: named } = self;
        for page in &mut *named {
            page.read(app);
        }
        let pages = named.iter().filter_map(|named| named.page(input)).collect::<Result<Vec<ExaPage>, Failure>>()?;
        let (mut found, work) = match wanted.highlights() {
            Some(request) => {
                let (found, work) = passages::find(app, input, &pages, &request, None)?;
                if request.query.is_some() && passages::are_unanswered(&found) {
                    warnings.push(Warning::unanswered(""));
                }
                (found.into_iter().map(Some).collect(), work)
            }
            None => (Vec::new(), Work::default()),
        };
        found.resize_with(pages.len(), || None);
        let urls = named.iter().filter_map(NamedPage::url);
        let results = pages.iter().zip(urls).zip(found);
        let results: Vec<ExaResult> =
            results.map(|((page, url), found)| ExaResult::new(page, url, found, None, wanted)).collect();
        let answer = ExaAnswer {
            request_id: &input.id.0,
            context: ContextPage::join_results(&results, &pages, wanted),
            results,
            statuses: Some(named.iter().map(NamedPage::status).collect()),
            warnings: std::mem::take(warnings),
            cost_dollars: Cost::default(),
            search_time: milliseconds_since(began),
        };
        Reply::json(input, &answer, work)
    }
}

/// The documents of a request by their ids and by their addresses; the first of equals counts.
fn by_name(sent: &[Arc<SentDocument>]) -> HashMap<&str, &Arc<SentDocument>> {
    let mut names = HashMap::new();
    for document in sent {
        for name in [&document.id, &document.url].into_iter().flatten() {
            names.entry(name.as_str()).or_insert(document);
        }
    }
    names
}
