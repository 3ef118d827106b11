//! The passages of pages, for `/contents` and `/search`.

use std::borrow::Cow;

use pullquote_core::engine::{Pairing, Question, Request, Rows, Work};
use pullquote_core::ranking::probability::ANSWERED;
use pullquote_core::text::formats::{Document, Format};
use pullquote_wire::result::{Highlight, OffsetUnit};
use schemars::JsonSchema;
use serde::Serialize;

use super::request::HighlightOptions;
use crate::app::App;
use crate::http::failure::Failure;
use crate::http::input::Input;

/// Characters of a page without a title that are its query if the request has none.
const BEGINNING: usize = 300;

/// A page to find passages in.
pub(in crate::routes) struct ExaPage<'call> {
    /// The client's name for it.
    pub(super) name: &'call str,
    /// The one that came with it.
    pub(in crate::routes) title: Option<&'call str>,
    pub(in crate::routes) source: &'call str,
    /// The text of `source`, in which offsets count.
    pub(in crate::routes) document: Document<'call>,
}

/// The passages of a page, the best first.
#[derive(Debug, Default)]
pub(super) struct Passages {
    pub(super) texts: Vec<String>,
    pub(super) spans: Vec<ScoredSpan>,
}

/// Offsets of a highlight in the text of its page, in code points.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub(super) struct ScoredSpan {
    start: usize,
    end: usize,
    /// Probability that it answers the query, from 0 to 1.
    pub(super) score: f32,
}

impl<'call> ExaPage<'call> {
    /// A page, and memory for its text: a request may name it more than once, and an answer have all of it.
    pub(super) fn new(
        input: &Input,
        name: &'call str,
        title: Option<&'call str>,
        source: &'call str,
        format: Format,
    ) -> Result<Self, Failure> {
        input.hold_text(source.len())?;
        let call = input.call(None);
        let document = Document::read(source, format, &|| call.check())?;
        Ok(Self { name, title, source, document })
    }

    /// The title that came with it, or else its own.
    pub(super) fn title(&self) -> Option<&str> {
        self.title.or_else(|| self.document.title()).filter(|title| !title.trim().is_empty())
    }

    /// The query of a request without one: the title, or else the beginning of the page.
    fn own_query(&self) -> Cow<'_, str> {
        let beginning = || {
            let text = self.document.text().trim_start();
            let end = text.char_indices().nth(BEGINNING).map_or(text.len(), |(byte, _)| byte);
            Some(&text[..end]).filter(|beginning| !beginning.is_empty())
        };
        // A page without a text has no passages for any query, but the query must not be empty.
        self.title().or_else(beginning).unwrap_or("?").into()
    }
}

/// Whether there are passages, and none probably answers the query.
pub(super) fn are_unanswered(found: &[Passages]) -> bool {
    let mut scores = found.iter().flat_map(|passages| &passages.spans).map(|span| span.score).peekable();
    scores.peek().is_some() && scores.all(|score| score < ANSWERED)
}

/// The passages of each page, and what finding them took.
pub(super) fn find(
    app: &App,
    input: &Input,
    pages: &[ExaPage],
    body: &HighlightOptions,
    query: Option<&str>,
) -> Result<(Vec<Passages>, Work), Failure> {
    if pages.is_empty() {
        return Ok((Vec::new(), Work::default()));
    }
    let query = body.query.as_deref().or(query);
    let own: Vec<Cow<str>> = if query.is_some() { Vec::new() } else { pages.iter().map(ExaPage::own_query).collect() };
    let (queries, pairing): (Vec<&str>, Pairing) = match query {
        Some(query) => (vec![query], Pairing::All),
        None => (own.iter().map(AsRef::as_ref).collect(), Pairing::Each),
    };
    let request = Request {
        queries,
        pages: pages.iter().map(|page| page.source).collect(),
        formats: pages.iter().map(|page| page.document.format()).collect(),
        titles: pages.iter().map(|page| page.title).collect(),
        pairing,
    };
    let (options, call) = (body.options(pages.len(), query.is_some()), input.call(None));
    let answers = app.engine.wait(&call, app.engine.highlights(&request, &Question::new(&options)?, &call))?;
    let rows = Rows::new(&answers, 0..answers.scores.len(), |page| pages[page].source);
    let passages = |answer| {
        let highlight = |row| rows.highlight(row, OffsetUnit::Codepoint);
        let scored =
            |Highlight { text, start, end, score, .. }: Highlight| (text.into(), ScoredSpan { start, end, score });
        let (texts, spans) = answers.rows_of(answer).map(highlight).map(scored).unzip();
        Passages { texts, spans }
    };
    Ok(((0..answers.ends.len()).map(passages).collect(), answers.work))
}
