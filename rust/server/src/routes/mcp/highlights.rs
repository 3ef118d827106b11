//! The tool `highlights`: the passages of texts and web pages that answer a query, all in one call of the engine.
//!
//! A request may name pages to fetch; its work then takes several permits, and holds none while it waits.

use std::borrow::Cow;

use pullquote_core::engine::options::Options;
use pullquote_core::engine::{Answers, Pairing, Question, Request, Rows, Work, number};
use pullquote_core::runtime::call::Call;
use pullquote_core::text::formats::Format;
use pullquote_core::text::kinds::readable;
use pullquote_wire::result::{OffsetUnit, Twin};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{check_query, parse_arguments, result};
use crate::app::App;
use crate::http::admission::Admitted;
use crate::http::failure::{Cause, Failure, refused};
use crate::http::input::Input;
use crate::routes::exa::named_pages::{self, NamedPage, check_names};
use crate::routes::exa::passages::ExaPage;
use crate::routes::highlights::is_answered;
use crate::routes::item_limits::{check_count, check_lengths};

/// Beyond this, counting the tokens of all sources would take longer than finding the passages.
const MAX_COUNTED_CHARS: usize = 2_000_000;

/// Of an answer that not all sources could give.
pub(crate) const SOME_FAILED: &str = " Sources that could not be read are in failed.";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct HighlightsArguments {
    #[schemars(length(min = 1), description = "a whole question, in any language")]
    query: String,
    #[serde(default)]
    #[schemars(description = "texts, Markdown or HTML, as they are")]
    texts: Option<Vec<String>>,
    #[serde(default)]
    #[schemars(description = format!("paths of files ({}), or of folders of such", readable()))]
    files: Option<Vec<String>>,
    #[serde(default)]
    #[schemars(description = "addresses of web pages, which the server fetches")]
    urls: Option<Vec<String>>,
    #[serde(default = "most_tokens")]
    #[schemars(range(min = 1), description = "maximum tokens of all passages together")]
    max_tokens: i64,
    #[serde(default = "most_passages")]
    #[schemars(range(min = 1), description = "maximum passages")]
    max_passages: i64,
}

const fn most_tokens() -> i64 {
    2000
}

const fn most_passages() -> i64 {
    10
}

/// The passages of all sources, best first.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "Answer")]
pub(crate) struct ToolAnswer {
    #[schemars(
        description = "false if no passage answers the query in its words; the passages are then the nearest ones"
    )]
    answered: bool,
    #[schemars(description = "why nothing answers the query; otherwise empty")]
    note: Cow<'static, str>,
    passages: Vec<Passage>,
    #[schemars(description = "whether the sources have more text than these passages")]
    truncated: bool,
    #[schemars(description = "tokens of all sources; null if they are too long to count")]
    total_tokens: Option<usize>,
    #[schemars(description = "sources that could not be read")]
    failed: Vec<FailedSource>,
}

/// A passage, word for word.
#[derive(Serialize, JsonSchema)]
struct Passage {
    text: String,
    #[schemars(description = "file, address, or texts[number] of the call")]
    source: String,
    #[schemars(description = "first character in the source")]
    start: usize,
    #[schemars(description = "end, exclusive")]
    end: usize,
    #[schemars(description = "page of a PDF, from 1")]
    page: Option<usize>,
    #[schemars(description = "probability that the passage answers the query, 0 to 1")]
    score: f64,
    #[schemars(description = "the row above that names the columns, if the passage is rows of a table; else empty")]
    header: String,
    #[schemars(
        description = "what names its subject, outermost first: headings, items around it, its question or lead-in, then that row"
    )]
    breadcrumbs: Vec<String>,
    #[schemars(description = "other places that say nearly the same, and are left out")]
    twins: Vec<Place>,
}

/// A place in the text of a source.
#[derive(Serialize, JsonSchema)]
struct Place {
    source: String,
    start: usize,
    end: usize,
}

/// A source that could not be read.
#[derive(Serialize, JsonSchema)]
pub(crate) struct FailedSource {
    pub(crate) source: String,
    pub(crate) reason: String,
}

impl ToolAnswer {
    /// The answer if no source could be read.
    pub(crate) const fn unread(failed: Vec<FailedSource>) -> Self {
        let note = Cow::Borrowed("No source could be read; failed says why.");
        Self { answered: false, note, passages: Vec::new(), truncated: false, total_tokens: Some(0), failed }
    }
}

/// A text of the call, or a page.
struct Source<'call> {
    name: Cow<'call, str>,
    title: Option<&'call str>,
    text: &'call str,
    format: Format,
    /// `None` for a text of the call.
    page: Option<&'call NamedPage>,
}

pub(super) async fn highlights(
    app: &App,
    admitted: &mut Admitted<App>,
    arguments: Value,
) -> Result<(Value, Work), Failure> {
    let mut request: HighlightsArguments = parse_arguments(arguments)?;
    let urls = request.urls.take().unwrap_or_default();
    check(app, &request, &urls)?;
    let mut pages = Vec::new();
    if !urls.is_empty() {
        let find = move |app: &App, _: &Input| urls.into_iter().map(|url| NamedPage::find(app, url, true)).collect();
        pages = admitted.with_permit(find).await?;
        pages = named_pages::fetch(app, admitted, pages).await?;
    }
    admitted.with_permit(move |app, input| respond(app, input, &request, pages)).await
}

fn check(app: &App, request: &HighlightsArguments, urls: &[String]) -> Result<(), Failure> {
    check_query(app, &request.query)?;
    for (name, value) in [("max_tokens", request.max_tokens), ("max_passages", request.max_passages)] {
        if value < 1 {
            return refused(name, format!("it must be a whole number from 1, not {value}"));
        }
    }
    if request.files.as_ref().is_some_and(|files| !files.is_empty()) {
        let message = "this server reads no files; pass their texts, or let the agent run: pullquote mcp --folder DIR";
        return refused("files", message);
    }
    if !urls.is_empty() {
        if app.fetcher.is_none() {
            return refused("urls", "this server fetches no pages; pullquote serve --fetch does");
        }
        check_names(urls, "urls")?;
    }
    let texts = request.texts.as_deref().unwrap_or_default();
    if texts.is_empty() && urls.is_empty() {
        let message = "there is nothing to read: pass texts, or another source of this tool";
        return Err(Failure::new(Cause::Unprocessable, message));
    }
    check_count(texts.len() + urls.len(), "texts", app.settings.max_documents)?;
    check_lengths(texts.iter().map(String::as_str), "texts", app.settings.max_document_bytes)
}

fn respond(
    app: &App,
    input: &Input,
    body: &HighlightsArguments,
    mut named: Vec<NamedPage>,
) -> Result<(Value, Work), Failure> {
    for page in &mut named {
        page.read(app);
    }
    let failed: Vec<FailedSource> = named.iter().filter_map(failed_source).collect();
    let pages = named.iter().filter_map(|named| Some(named.page(input)?.map(|page| (named, page))));
    let pages = pages.collect::<Result<Vec<(&NamedPage, ExaPage)>, Failure>>()?;
    let texts = body.texts.iter().flatten().enumerate().map(|(number, text)| Source {
        name: format!("texts[{number}]").into(),
        title: None,
        text,
        format: Format::Auto,
        page: None,
    });
    let sources: Vec<Source> = texts.chain(pages.iter().map(|(named, page)| Source::of(named, page))).collect();
    if sources.is_empty() {
        return Ok((result(input, &ToolAnswer::unread(failed))?, Work::default()));
    }
    let request = Request {
        queries: vec![body.query.as_str()],
        pages: sources.iter().map(|source| source.text).collect(),
        formats: sources.iter().map(|source| source.format).collect(),
        titles: sources.iter().map(|source| source.title).collect(),
        pairing: Pairing::All,
    };
    let options = Options {
        max_total_highlights: Some(body.max_passages),
        max_total_tokens: Some(body.max_tokens),
        ..Options::default()
    };
    let call = input.call(None);
    let answers = app.engine.wait(&call, app.engine.highlights(&request, &Question::new(&options)?, &call))?;
    let texts = &request.pages;
    let passages = passages(input, &sources, texts, &answers)?;
    let read: Vec<&str> =
        texts.iter().zip(&answers.texts).map(|(source, text)| text.as_deref().unwrap_or(source)).collect();
    let is_answered = is_answered(&answers.scores);
    let answer = ToolAnswer {
        answered: is_answered,
        note: if is_answered { Cow::default() } else { note(&answers, body.max_tokens, !failed.is_empty()).into() },
        truncated: passages.iter().map(|passage| visible(&passage.text)).sum::<usize>()
            < read.iter().map(|text| visible(text)).sum(),
        passages,
        total_tokens: total_tokens(app, &read, &call)?,
        failed,
    };
    Ok((result(input, &answer)?, answers.work))
}

impl<'call> Source<'call> {
    fn of(named: &'call NamedPage, page: &ExaPage<'call>) -> Self {
        Self {
            name: named.name.as_str().into(),
            title: page.title,
            text: page.source,
            format: page.document.format(),
            page: Some(named),
        }
    }
}

/// How many bytes of a text are not white space, which stands between passages.
fn visible(text: &str) -> usize {
    text.split_whitespace().map(str::len).sum()
}

/// Why none of these answers says what the query asks.
fn note(answers: &Answers, max_tokens: i64, has_failed: bool) -> String {
    let why = if !answers.scores.is_empty() {
        "No passage says it in these words; those here are only the nearest ones.".to_owned()
    } else if answers.windows.iter().all(|windows| *windows == 0) {
        "The sources have no text.".to_owned()
    } else {
        format!("No passage is within max_tokens={max_tokens}; ask for more.")
    };
    why + if has_failed { SOME_FAILED } else { "" }
}

fn failed_source(page: &NamedPage) -> Option<FailedSource> {
    let (.., reason) = page.unfetched()?.row();
    Some(FailedSource { source: page.name.clone(), reason: reason.into_owned() })
}

/// The passages of all sources, best first; ties are in the order of position.
fn passages(input: &Input, sources: &[Source], texts: &[&str], answers: &Answers) -> Result<Vec<Passage>, Failure> {
    let mut rows: Vec<usize> = (0..answers.scores.len()).collect();
    rows.sort_by(|a, b| answers.scores[*b].total_cmp(&answers.scores[*a]));
    let found = Rows::new(answers, rows.iter().copied(), |page| texts[page]);
    let limit = input.answer().advising("max_passages", "ask for fewer passages, or send shorter texts");
    let mut bytes = 0;
    let place = |Twin { page, start, end }| Place { source: sources[page].name.to_string(), start, end };
    let passage = |row: usize| {
        let source = &sources[number(answers.pages[row])];
        let highlight = found.highlight(row, OffsetUnit::Codepoint);
        bytes += highlight.parts().iter().map(|(_, text)| text.len()).sum::<usize>();
        limit.check(bytes)?;
        let of_text = (highlight.start, highlight.end);
        // An agent has the source of its own texts; of a page it can read the text only.
        let of_source = highlight.source_start.zip(highlight.source_end).filter(|_| source.page.is_none());
        let (start, end) = of_source.unwrap_or(of_text);
        let document = source.page.and_then(NamedPage::document);
        Ok(Passage {
            text: highlight.text.into(),
            source: source.name.to_string(),
            start,
            end,
            page: document.and_then(|document| document.page_number(highlight.start)),
            score: (f64::from(highlight.score) * 1e4).round() / 1e4,
            header: highlight.header.unwrap_or_default().into(),
            breadcrumbs: highlight.breadcrumbs.into_iter().flatten().map(|one| one.text.into()).collect(),
            twins: highlight.twins.into_iter().flatten().map(place).collect(),
        })
    };
    rows.into_iter().map(passage).collect()
}

fn total_tokens(app: &App, texts: &[&str], call: &Call) -> Result<Option<usize>, Failure> {
    if texts.iter().map(|text| text.chars().count()).sum::<usize>() > MAX_COUNTED_CHARS {
        return Ok(None);
    }
    let count = |text: &&str| {
        call.check()?;
        app.engine.tokens().count(text)
    };
    Ok(Some(texts.iter().map(count).sum::<Result<usize, _>>()?))
}
