//! `POST /search`: pages that answer a query, with texts and highlights as the client asks for them.
//!
//! Without an upstream, the search ranks all stored pages. A small store is ranked by the best passage of each page,
//! which encodes whole pages. In a larger one, [`shortlist`] first finds the best pages by their words. `/contents` and
//! this route make texts and highlights of the found pages in the same way.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::response::Response;
use pullquote_core::engine::Work;
use pullquote_core::text::formats::Format;

use super::answer::{ContextPage, Cost, ExaAnswer, ExaResult, milliseconds_since};
use super::passages::{self, ExaPage, Passages};
use super::request::{HighlightOptions, Warning, warnings};
use super::search_request::{PLACE, Search};
use super::shortlist::{Found, shortlist};
use super::upstream;
use crate::app::App;
use crate::http::admission::admit_and_run;
use crate::http::failure::Failure;
use crate::http::input::Input;
use crate::http::reply::Reply;
use crate::store::Stored;

/// The most bytes of stored documents of which all passages are compared. Two cores encode 100 kB in 1.75 s
/// (`bench/second_query.py`).
const MAX_EXACT_BYTES: usize = 64 * 1024;

/// Options of a search that do not change its results here.
const QUIET: [&str; 4] = ["moderation", "type", "useAutoprompt", "stream"];

pub(super) async fn search(State(app): State<Arc<App>>, request: Request) -> Result<Response, Failure> {
    if app.upstream.is_some() {
        return upstream::search(&app, request).await;
    }
    let began = Instant::now();
    admit_and_run(&app, request, move |app, input| respond(app, input, began)).await
}

fn respond(app: &App, input: &Input, began: Instant) -> Result<Reply, Failure> {
    let search = Search::read(app, input)?;
    let (listed, mut work) = find(app, input, &search.query, search.num_results)?;
    let pages: Vec<ExaPage> =
        listed.iter().map(|found| page(input, &found.id, &found.stored)).collect::<Result<_, _>>()?;
    let mut warned = warnings(&search.rest, "", &QUIET);
    warned.extend(search.wanted.warnings(PLACE));
    let mut found: Vec<Option<Passages>> = Vec::new();
    if let Some(request) = search.wanted.highlights() {
        let (passages, more) = passages::find(app, input, &pages, &request, Some(&search.query))?;
        if passages::are_unanswered(&passages) {
            warned.push(Warning::unanswered(PLACE));
        }
        found.extend(passages.into_iter().map(Some));
        work += more;
    }
    found.resize_with(pages.len(), || None);
    let results = pages.iter().zip(&listed).zip(found);
    let results: Vec<ExaResult> = results
        .map(|((page, listed), found)| ExaResult::new(page, page.name, found, Some(listed.score), &search.wanted))
        .collect();
    let answer = ExaAnswer {
        request_id: &input.id.0,
        context: ContextPage::join_results(&results, &pages, &search.wanted),
        results,
        statuses: None,
        warnings: warned,
        cost_dollars: Cost::default(),
        search_time: milliseconds_since(began),
    };
    Reply::json(input, &answer, work)
}

fn page<'call>(input: &Input, id: &'call str, stored: &'call Stored) -> Result<ExaPage<'call>, Failure> {
    ExaPage::new(input, id, stored.title.as_deref(), &stored.text, Format::Text)
}

/// The best stored documents for a query, each with the score of its best passage; ties are in the order of ids.
pub(in crate::routes) fn find(
    app: &App,
    input: &Input,
    query: &str,
    most: usize,
) -> Result<(Vec<Found>, Work), Failure> {
    let size = app.store.size();
    if size.documents > app.settings.max_documents || size.bytes > MAX_EXACT_BYTES {
        return shortlist(app, input, query, most);
    }
    let all = app.store.all()?;
    let pages: Vec<ExaPage> = all.iter().map(|(id, stored)| page(input, id, stored)).collect::<Result<_, _>>()?;
    let (passages, work) = passages::find(app, input, &pages, &HighlightOptions::one(), Some(query))?;
    let score = |passages: &Passages| passages.spans.first().map(|span| span.score);
    let scores: Vec<Option<f32>> = passages.iter().map(score).collect();
    let found = |((id, stored), score): ((String, Stored), Option<f32>)| Some(Found { id, stored, score: score? });
    let mut ranked: Vec<Found> = all.into_iter().zip(scores).filter_map(found).collect();
    ranked.sort_by(|a, b| b.score.total_cmp(&a.score));
    ranked.truncate(most);
    Ok((ranked, work))
}
