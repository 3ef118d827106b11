//! The answers to clients of Exa.

use std::borrow::Cow;
use std::time::Instant;

use schemars::JsonSchema;
use serde::Serialize;

use super::passages::{ExaPage, Passages, ScoredSpan};
use super::request::{ContentsOptions, TextOptions, Warning};
use crate::fetch::Unfetched;

/// Fields that an upstream adds are forwarded.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("additionalProperties" = true))]
pub(crate) struct ExaAnswer<'call> {
    pub(super) request_id: &'call str,
    pub(super) results: Vec<ExaResult<'call>>,
    /// With `/contents`: one for each page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) statuses: Option<Vec<ExaStatus<'call>>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) warnings: Vec<Warning>,
    /// With the option `context`: the title, the address and the contents of each page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) context: Option<String>,
    pub(super) cost_dollars: Cost,
    /// In milliseconds.
    pub(super) search_time: f64,
}

#[derive(Default, Serialize, JsonSchema)]
#[schemars(inline, extend("additionalProperties" = true))]
pub(super) struct Cost {
    total: u8,
}

/// A page of the answer.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("additionalProperties" = true))]
pub(super) struct ExaResult<'call> {
    id: &'call str,
    url: &'call str,
    title: Option<&'call str>,
    /// With `/search`: how near its best passage is to the query, from 0 to 1.
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

/// Fields that Exa's client for Python passes on.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub(super) struct Extras {
    highlight_spans: Vec<ScoredSpan>,
}

/// Whether a named page is available.
#[derive(Serialize, JsonSchema)]
pub(super) struct ExaStatus<'call> {
    id: &'call str,
    #[serde(rename = "status")]
    #[schemars(extend("enum" = ["success", "error"]))]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["cached", "crawled"]))]
    source: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<StatusError>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
struct StatusError {
    tag: String,
    http_status_code: u16,
    message: String,
}

impl<'call> ExaResult<'call> {
    /// A page with the requested text and highlights.
    pub(super) fn new(
        page: &'call ExaPage<'call>,
        url: &'call str,
        passages: Option<Passages>,
        score: Option<f32>,
        wanted: &ContentsOptions,
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

/// A page in the string with all contents.
pub(super) struct ContextPage<'call> {
    pub(super) title: Option<&'call str>,
    pub(super) url: &'call str,
    pub(super) content: Cow<'call, str>,
}

impl<'call> ContextPage<'call> {
    /// A result, and the page that it is of.
    fn of(result: &'call ExaResult, page: &'call ExaPage) -> Self {
        let content = match (result.text, &result.highlights) {
            (None, Some(highlights)) => Cow::Owned(highlights.join("\n")),
            (text, _) => Cow::Borrowed(text.unwrap_or(page.document.text())),
        };
        Self { title: result.title, url: result.url, content }
    }

    /// The string with the contents of all results, if it is wanted.
    pub(super) fn join_results(
        results: &'call [ExaResult],
        pages: &'call [ExaPage],
        wanted: &ContentsOptions,
    ) -> Option<String> {
        let each = results.iter().zip(pages).map(|(result, page)| Self::of(result, page));
        wanted.context().map(|options| Self::join(each, &options))
    }

    /// Pages one after the other, up to `maxCharacters`.
    pub(super) fn join(pages: impl Iterator<Item = Self>, options: &TextOptions) -> String {
        let write = |Self { title, url, content }: Self| {
            let title = title.map_or_else(String::new, |title| format!("Title: {title}\n"));
            format!("{title}URL: {url}\n{content}")
        };
        let mut all = pages.map(write).collect::<Vec<_>>().join("\n\n");
        all.truncate(cut(&all, options).len());
        all
    }
}

impl<'call> ExaStatus<'call> {
    pub(super) const fn success(id: &'call str, source: &'static str) -> Self {
        Self { id, kind: "success", source: Some(source), error: None }
    }

    pub(super) fn error(id: &'call str, unfetched: &Unfetched) -> Self {
        let (tag, http_status_code, message) = unfetched.row();
        let error = StatusError { tag: tag.into_owned(), http_status_code, message: message.into_owned() };
        Self { id, kind: "error", source: None, error: Some(error) }
    }
}

/// The beginning of a text, up to `maxCharacters`.
pub(super) fn cut<'text>(text: &'text str, options: &TextOptions) -> &'text str {
    let end = options.max_characters.and_then(|most| text.char_indices().nth(most));
    end.map_or(text, |(byte, _)| &text[..byte])
}

/// How long ago something began, in milliseconds.
pub(super) fn milliseconds_since(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1e3
}
