//! `POST /cite`: what supports each sentence of a written text.

use pullquote_core::citations::{self, CLAIMS_AT_ONCE, Claims, Pages, Sources};
use pullquote_core::engine::Work;
use pullquote_wire::citations::{CiteRequest, Cited};
use serde_json::json;

use super::highlights::API;
use crate::app::App;
use crate::http::body::of_value;
use crate::http::failure::{Amount, Failure};
use crate::http::input::Input;
use crate::http::reply::Reply;
use crate::routes::item_limits::check_lengths;
use crate::routes::request_pages::read_pages;
use crate::routes::route::Route;
use crate::routes::schemas::Schemas;

/// Sentences of a text for each query that a request may have: every sentence is held against all documents.
const SENTENCES_PER_QUERY: usize = 16;

pub(super) fn routes(schemas: &mut Schemas) -> Vec<Route> {
    let example = json!({
        "answer": "The Moon is 384,400 km away [moon]. Bread is made of stone [1].",
        "documents": [
            {"id": "bread", "text": "Bread is baked from flour, water, salt and yeast."},
            {"id": "moon", "text": "The Moon is white. On average it is 384,400 km away."},
        ],
    });
    vec![
        API.compute_body("/cite", respond, "cite", "Find what supports each sentence of a text")
            .described(
                "For every sentence the passages that support it, word for word, or that none does; the numbers, dates, names and \
                 quoted words that stand in none of them, compared by value; and whether its markers, such as `[1]`, `[id]` and \
                 links, name what supports it.",
            )
            .reads(schemas.request::<CiteRequest>(), example)
            .writes_json("The sentences of the text.", schemas.response::<Cited>())
            .fails(&[404]),
    ]
}

fn respond(app: &App, input: &Input) -> Result<Reply, Failure> {
    let request: CiteRequest = input.parse()?;
    let cited = cite(app, input, request)?;
    Reply::json(input, &cited, Work::default())
}

/// The sentences of a text with what supports them.
pub(super) fn cite(app: &App, input: &Input, request: CiteRequest) -> Result<Cited<'static>, Failure> {
    let CiteRequest { answer, documents, numbers, format, offsets } = request;
    check_lengths([answer.as_ref()], "answer", app.settings.max_document_bytes)?;
    let documents = read_pages(documents, app, input)?;
    if let Some(missing) = documents.iter().find_map(|page| page.missing.clone()) {
        return Err(missing);
    }
    let ids: Vec<Option<String>> = documents.iter().map(|page| page.id.clone()).collect();
    let titles: Vec<Option<&str>> = documents.iter().map(|page| page.title.as_deref()).collect();
    let sources = Sources { ids: &ids, titles: &titles, numbers: numbers.as_deref(), pages: documents.len() };
    let call = input.call(None);
    let claims = Claims::read(&answer, &sources, &call.own_checker()).map_err(of_value)?;
    let most = app.settings.max_queries.saturating_mul(SENTENCES_PER_QUERY);
    if claims.count() > most {
        let message = format!(
            "the text has {} sentences; the maximum is {most}, {SENTENCES_PER_QUERY} times --max-queries",
            claims.count()
        );
        return Err(Failure::of_amount(Amount::TooMuch, "answer", message));
    }
    input.work_for_queries(claims.count().min(CLAIMS_AT_ONCE))?;
    let texts = documents.iter().map(|page| page.text.as_ref()).collect();
    let pages = Pages { texts, formats: vec![format], titles: titles.clone(), ids: &ids };
    let vectors = app.engine.vector_source()?;
    let cited = citations::cite(&app.engine, &vectors, &answer, &claims, &pages, offsets, &call);
    Ok(app.engine.wait(&call, cited)?)
}
