//! What clients of Exa are answered.

use std::time::Instant;

use serde::Serialize;

use super::passages::{ExaPage, Passages, Span};
use super::request::{TextOptions, Wanted, Warning};
use crate::fetch::Unfetched;

/// An answer.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answer<'call> {
    pub(super) request_id: &'call str,
    pub(super) results: Vec<Found<'call>>,
    /// Of `/contents` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) statuses: Option<Vec<Status<'call>>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) warnings: Vec<Warning>,
    pub(super) cost_dollars: Cost,
    /// In milliseconds.
    pub(super) search_time: f64,
}

/// Nothing, always.
#[derive(Default, Serialize)]
pub(super) struct Cost {
    total: u8,
}

/// A page that was found.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Found<'call> {
    id: &'call str,
    url: &'call str,
    title: Option<&'call str>,
    /// How well it answers the query, where pages were ranked by one.
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'call str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    highlights: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    highlight_scores: Option<Vec<f32>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extras: Option<Extras>,
}

/// What Exa's client for Python hands on of a result, beside what it knows.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Extras {
    highlight_spans: Vec<Span>,
}

/// Whether a page that was named could be had.
#[derive(Serialize)]
pub(super) struct Status<'call> {
    id: &'call str,
    #[serde(rename = "status")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<StatusError>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StatusError {
    tag: String,
    http_status_code: u16,
    message: String,
}

impl<'call> Found<'call> {
    /// A page with what was wanted of it.
    pub(super) fn new(
        page: &'call ExaPage<'call>,
        url: &'call str,
        passages: Option<Passages>,
        score: Option<f32>,
        wanted: &Wanted,
    ) -> Self {
        let text = wanted.text().map(|options| cut(page.document.text(), &options));
        let highlight_scores = passages.as_ref().map(|found| found.spans.iter().map(|span| span.score).collect());
        let (highlights, extras) = match passages {
            Some(Passages { texts, spans }) => (Some(texts), Some(Extras { highlight_spans: spans })),
            None => (None, None),
        };
        Self { id: page.name, url, title: page.title(), score, text, highlights, highlight_scores, extras }
    }
}

impl<'call> Status<'call> {
    pub(super) const fn success(id: &'call str, source: &'static str) -> Self {
        Self { id, kind: "success", source: Some(source), error: None }
    }

    pub(super) fn error(id: &'call str, unfetched: &Unfetched) -> Self {
        let (tag, http_status_code, message) = unfetched.row();
        let error = StatusError { tag: tag.into_owned(), http_status_code, message: message.into_owned() };
        Self { id, kind: "error", source: None, error: Some(error) }
    }
}

/// As much of a text as is wanted.
pub(super) fn cut<'text>(text: &'text str, options: &TextOptions) -> &'text str {
    let end = options.max_characters.and_then(|most| text.char_indices().nth(most));
    end.map_or(text, |(byte, _)| &text[..byte])
}

/// How long ago something began, in milliseconds.
pub(super) fn milliseconds_since(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1e3
}
