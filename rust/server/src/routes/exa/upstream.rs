//! `POST /search` with an upstream: another server finds the pages and their texts, and this one makes the highlights.
//!
//! The request is forwarded without its options of highlights, and with a request for the whole text of each page. The
//! answer has that text only if the client asked for it. Errors of the upstream are forwarded unchanged, and so are
//! answers to searches without highlights.

use std::borrow::Cow;
use std::sync::Arc;

use axum::extract::Request;
use axum::response::Response;
use pullquote_core::engine::Work;
use pullquote_core::text::formats::Format;
use serde_json::{Map, Value, json};

use super::answer::{ContextPage, cut};
use super::passages::{self, ExaPage, Passages};
use super::request::{HighlightOptions, Warning};
use super::search_request::{PLACE, Search};
use crate::app::App;
use crate::fetch::upstream::Answered;
use crate::http::admission::Admitted;
use crate::http::body;
use crate::http::failure::{Cause, Failure};
use crate::http::input::Input;
use crate::http::reply::Reply;

/// A search to forward to the upstream.
struct Forwarded {
    search: Search,
    /// `None` if the client asks for no highlights.
    highlights: Option<HighlightOptions>,
    body: Vec<u8>,
}

pub(super) async fn search(app: &Arc<App>, request: Request) -> Result<Response, Failure> {
    let Some(upstream) = &app.upstream else {
        return Err(Failure::new(Cause::Upstream, "there is no upstream"));
    };
    let mut admitted = Admitted::admit(app, request).await?;
    let mut forwarded = admitted.with_permit(Forwarded::read).await?;
    let body = std::mem::take(&mut forwarded.body);
    let deadline = admitted.limits.deadline.into();
    let answered = upstream.search(&admitted.headers, admitted.span.as_ref(), body, deadline).await?;
    let reply = admitted.with_permit(move |app, input| forwarded.respond(app, input, &answered)).await?;
    Ok(admitted.respond(reply))
}

impl Forwarded {
    fn read(app: &App, input: &Input) -> Result<Self, Failure> {
        let search = Search::read(app, input)?;
        let highlights = search.wanted.highlights();
        let mut request: Map<String, Value> = input.parse()?;
        if highlights.is_some()
            && let Some(Value::Object(contents)) = request.get_mut("contents")
        {
            contents.remove("highlights");
            // It would have the whole texts.
            contents.remove("context");
            match contents.get_mut("text") {
                Some(Value::Object(text)) => {
                    text.remove("maxCharacters");
                }
                _ => {
                    contents.insert("text".to_owned(), json!(true));
                }
            }
        }
        let body = serde_json::to_vec(&request).map_err(|error| body::not_json(&error))?;
        Ok(Self { search, highlights, body })
    }

    fn respond(&self, app: &App, input: &Input, answered: &Answered) -> Result<Reply, Failure> {
        let Some(request) = self.highlights.as_ref().filter(|_| answered.status.is_success()) else {
            let body = answered.body.clone().into();
            return Ok(Reply { status: answered.status, ..Reply::new("application/json", body, Work::default()) });
        };
        let strange = || Failure::new(Cause::Upstream, "the upstream's answer has no results");
        let mut answer: Map<String, Value> = serde_json::from_slice(&answered.body).map_err(|_| strange())?;
        let Some(Value::Array(results)) = answer.get_mut("results") else { return Err(strange()) };
        let pages = results.iter().map(|result| page(input, result)).collect::<Result<Vec<ExaPage>, Failure>>()?;
        let (found, work) = passages::find(app, input, &pages, request, Some(&self.search.query))?;
        drop(pages);
        let mut warnings = request.warnings(PLACE);
        if passages::are_unanswered(&found) {
            warnings.push(Warning::unanswered(PLACE));
        }
        for (result, passages) in results.iter_mut().zip(found) {
            let Value::Object(result) = result else { return Err(strange()) };
            self.put(result, &passages);
        }
        if let Some(options) = self.search.wanted.context() {
            let context = ContextPage::join(results.iter().map(context_page), &options);
            answer.insert("context".to_owned(), context.into());
        }
        if !warnings.is_empty() {
            let all = answer.entry("warnings").or_insert_with(|| json!([]));
            if let Value::Array(all) = all {
                all.extend(warnings.iter().map(|warning| json!(warning)));
            }
        }
        Reply::json(input, &answer, work)
    }

    /// Puts a page's highlights into its result, and removes a text that the client did not ask for.
    fn put(&self, result: &mut Map<String, Value>, passages: &Passages) {
        let scores: Vec<f32> = passages.spans.iter().map(|span| span.score).collect();
        result.insert("highlights".to_owned(), json!(passages.texts));
        result.insert("highlightScores".to_owned(), json!(scores));
        let extras = result.entry("extras").or_insert(Value::Null);
        if !extras.is_object() {
            *extras = json!({});
        }
        extras["highlightSpans"] = json!(passages.spans);
        let Some(options) = self.search.wanted.text() else {
            result.remove("text");
            return;
        };
        if let Some(Value::String(text)) = result.get_mut("text") {
            let wanted = cut(text, &options).len();
            text.truncate(wanted);
        }
    }
}

/// A result with its highlights, for the string with all contents.
fn context_page(result: &Value) -> ContextPage<'_> {
    let text = |name: &str| result.get(name).and_then(Value::as_str);
    let highlights = || result["highlights"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let content = text("text").map_or_else(|| highlights().collect::<Vec<_>>().join("\n").into(), Cow::Borrowed);
    ContextPage { title: text("title"), url: text("url").unwrap_or_default(), content }
}

/// A result's page; one without a text has no highlights.
fn page<'call>(input: &Input, result: &'call Value) -> Result<ExaPage<'call>, Failure> {
    let text = |name: &str| result.get(name).and_then(Value::as_str);
    ExaPage::new(input, text("url").unwrap_or_default(), text("title"), text("text").unwrap_or_default(), Format::Text)
}
