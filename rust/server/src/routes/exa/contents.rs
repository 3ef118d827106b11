//! `POST /contents`: texts and highlights of pages that the client names.
//!
//! If pages have to be fetched, the work has two turns, one before and one after. The request holds no turn while it waits.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::response::Response;
use futures_util::future::join_all;
use pullquote_core::engine::Work;
use pullquote_core::text::formats::Format;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::answer::{Cost, ExaAnswer, ExaResult, ExaStatus, milliseconds_since};
use super::id_of;
use super::passages::{self, ExaPage};
use super::request::{ContentsOptions, Warning};
use crate::app::App;
use crate::fetch::{Fetched, Unfetched};
use crate::http::admission::{Admitted, Input, Reply};
use crate::http::body::Object;
use crate::http::failure::{Cause, Failure};
use crate::openapi::limits::{MAX_DOCUMENT_BYTES, MAX_DOCUMENTS};
use crate::store::Stored;
use crate::store::documents::{check_count, check_lengths};
use crate::uploads::document::ParsedUpload;
use crate::uploads::form::UploadedFile;
use crate::uploads::parser::{Parsed, Parsing};

/// Maximum number of pages of a request.
pub(crate) const MOST_PAGES: usize = 100;

/// The longest name of a page, in characters.
pub(crate) const LONGEST_NAME: usize = 2048;

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

/// A page that the request itself sends.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an object with a text, an id or a url, and perhaps a title")]
#[schemars(inline, extend("anyOf" = [
    {"required": ["id"], "properties": {"id": {"type": "string"}}},
    {"required": ["url"], "properties": {"url": {"type": "string", "pattern": "\\S"}, "id": {"type": "null"}}},
]))]
struct SentDocument {
    #[serde(default)]
    #[schemars(regex(pattern = r"\S"))]
    id: Option<String>,
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    title: Option<String>,
    #[schemars(length(max = MAX_DOCUMENT_BYTES))]
    text: String,
}

/// A request on its way.
struct Plan {
    wanted: ContentsOptions,
    warnings: Vec<Warning>,
    sent: Vec<SentDocument>,
    pages: Vec<Named>,
}

/// A page that the client names.
struct Named {
    name: String,
    content: NamedContent,
}

enum NamedContent {
    /// Which of the documents of the request it is.
    SentDocument(usize),
    Stored(Arc<Stored>),
    ToFetch,
    Fetched(Fetched),
    /// A PDF, DOCX or EPUB that was fetched, before and after a process reads it.
    File(Parsing),
    Parsed(Parsed),
    /// Fetched and in Unicode.
    Read(String, Format),
    Document(Arc<ParsedUpload>),
    None(Unfetched),
}

/// The result of the first turn.
enum Step {
    Answered(Reply),
    Fetch(Plan),
}

pub(super) async fn contents(State(app): State<Arc<App>>, request: Request) -> Result<Response, Failure> {
    let (id, began) = (id_of(&request), Instant::now());
    let mut admitted = Admitted::new(&app, request).await?;
    let step = admitted.turn({
        let id = id.clone();
        move |app, input| {
            let mut plan = Plan::read(app, input)?;
            let is_whole = !plan.pages.iter().any(|page| matches!(page.content, NamedContent::ToFetch));
            Ok(if is_whole { Step::Answered(plan.answer(app, input, &id, began)?) } else { Step::Fetch(plan) })
        }
    });
    let reply = match step.await? {
        Step::Answered(reply) => reply,
        Step::Fetch(mut plan) => {
            let deadline = admitted.limits.deadline;
            plan.fetch(&app, deadline).await;
            if plan.has_files() {
                plan = admitted.turn(move |app, _| Ok(plan.prepare_files(app))).await?;
                plan.parse_files(&app, deadline).await;
            }
            admitted.turn(move |app, input| plan.answer(app, input, &id, began)).await?
        }
    };
    Ok(admitted.respond(reply))
}

impl Plan {
    fn read(app: &App, input: &Input) -> Result<Self, Failure> {
        let asked: ContentsRequest = input.parse()?;
        let refused = |field: &str, message: &str| Err(Failure::of_field(Cause::Unprocessable, field, message));
        if asked.options.get("contents").is_some_and(|contents| !contents.is_null()) {
            return refused("contents", "only /search has options under contents; /contents has them next to urls");
        }
        let wanted = ContentsOptions::read(asked.options, "")?;
        let sent: Vec<SentDocument> =
            asked.documents.unwrap_or_default().into_iter().map(|Object(document)| document).collect();
        if !sent.is_empty() {
            check_count(sent.len(), "documents", app.settings.max_documents)?;
        }
        check_lengths(sent.iter().map(|document| document.text.as_str()), "documents", &app.settings)?;
        if sent.iter().any(|document| document.name().is_none_or(|name| name.trim().is_empty())) {
            return refused("documents", "a document needs an id or a url");
        }
        let (names, of_urls) = match (asked.ids, asked.urls) {
            (Some(_), Some(_)) => return refused("ids", "pass ids or urls, not both"),
            (Some(ids), None) => (ids, false),
            (None, Some(urls)) => (urls, true),
            (None, None) if sent.is_empty() => return refused("urls", "pass ids, urls or documents"),
            (None, None) => {
                let all = sent.iter().enumerate().filter_map(|(index, document)| {
                    Some(Named { name: document.name()?.to_owned(), content: NamedContent::SentDocument(index) })
                });
                return Ok(Self { warnings: wanted.warnings(""), pages: all.collect(), wanted, sent });
            }
        };
        check_names(&names, if of_urls { "urls" } else { "ids" })?;
        let known = by_name(&sent);
        let resolve = |name: String| {
            let content = match known.get(name.as_str()) {
                Some(index) => NamedContent::SentDocument(*index),
                None => content(app, &name, of_urls)?,
            };
            Ok(Named { name, content })
        };
        let pages = names.into_iter().map(resolve).collect::<Result<_, Failure>>()?;
        Ok(Self { warnings: wanted.warnings(""), wanted, sent, pages })
    }

    /// Fetches the missing pages concurrently.
    async fn fetch(&mut self, app: &App, deadline: Instant) {
        let Some(fetcher) = &app.fetcher else { return };
        let now = Instant::now();
        // Half of the remaining time is for reading the pages.
        let patience = fetcher.timeout().min(deadline.saturating_duration_since(now) / 2);
        let missing = self.pages.iter_mut().filter(|page| matches!(page.content, NamedContent::ToFetch));
        join_all(missing.map(async |page: &mut Named| {
            page.content = match fetcher.fetch(&page.name, (now + patience).into()).await {
                Ok(page) => NamedContent::Fetched(page),
                Err(unfetched) => NamedContent::None(unfetched),
            };
        }))
        .await;
    }

    fn has_files(&self) -> bool {
        self.pages.iter().any(|page| matches!(&page.content, NamedContent::Fetched(fetched) if fetched.is_file()))
    }

    /// Detects the kinds of fetched files. Computes.
    fn prepare_files(mut self, app: &App) -> Self {
        for page in &mut self.pages {
            let NamedContent::Fetched(fetched) = &page.content else { continue };
            if fetched.is_file() {
                let prepare = |bytes: Cow<'_, [u8]>| {
                    let file = UploadedFile { name: None, content: bytes.into_owned().into() };
                    app.parser.prepare(0, file, None).map_err(|failure| Unfetched::of_file(&failure))
                };
                page.content = fetched.bytes().and_then(prepare).map_or_else(NamedContent::None, NamedContent::File);
            }
        }
        self
    }

    /// Runs a process for each fetched file.
    async fn parse_files(&mut self, app: &App, deadline: Instant) {
        join_all(self.pages.iter_mut().map(async |page: &mut Named| {
            page.content = match page.content.take() {
                NamedContent::File(parsing) => match app.parser.run(parsing, deadline.into()).await {
                    Ok(parsed) => NamedContent::Parsed(parsed),
                    Err(failure) => NamedContent::None(Unfetched::of_file(&failure)),
                },
                other => other,
            };
        }))
        .await;
    }

    fn answer(&mut self, app: &App, input: &Input, id: &str, began: Instant) -> Result<Reply, Failure> {
        let Self { wanted, warnings, sent, pages: named } = self;
        for page in &mut *named {
            page.content.read(app);
        }
        let (sent, named): (&[SentDocument], &[Named]) = (sent, named);
        let pages: Vec<ExaPage> = named.iter().filter_map(|named| named.page(sent)).collect();
        let (mut found, work) = match wanted.highlights() {
            Some(asked) => {
                let (found, work) = passages::find(app, input, &pages, &asked, None)?;
                if asked.query.is_some() && passages::are_unanswered(&found) {
                    warnings.push(Warning::unanswered(""));
                }
                (found.into_iter().map(Some).collect(), work)
            }
            None => (Vec::new(), Work::default()),
        };
        found.resize_with(pages.len(), || None);
        let urls = named.iter().filter_map(|named| named.url(sent));
        let results = pages.iter().zip(urls).zip(found);
        let answer = ExaAnswer {
            request_id: id,
            results: results.map(|((page, url), found)| ExaResult::new(page, url, found, None, wanted)).collect(),
            statuses: Some(named.iter().map(Named::status).collect()),
            warnings: std::mem::take(warnings),
            cost_dollars: Cost::default(),
            search_time: milliseconds_since(began),
        };
        Reply::json(&answer, work)
    }
}

impl SentDocument {
    fn name(&self) -> Option<&str> {
        self.id.as_deref().or(self.url.as_deref())
    }
}

impl Named {
    /// The page, if it is available.
    fn page<'call>(&'call self, sent: &'call [SentDocument]) -> Option<ExaPage<'call>> {
        let page = |title, text, format| Some(ExaPage::new(&self.name, title, text, format));
        match &self.content {
            NamedContent::SentDocument(index) => page(sent[*index].title.as_deref(), &sent[*index].text, Format::Text),
            NamedContent::Stored(stored) => page(stored.title.as_deref(), &stored.text, Format::Text),
            NamedContent::Read(source, format) => page(None, source, *format),
            NamedContent::Document(document) => page(None, &document.text, document.format.unwrap_or_default()),
            _ => None,
        }
    }

    /// The address of an available page: its name, unless the request has another one.
    fn url<'call>(&'call self, sent: &'call [SentDocument]) -> Option<&'call str> {
        match &self.content {
            NamedContent::SentDocument(index) => Some(sent[*index].url.as_deref().unwrap_or(&self.name)),
            NamedContent::Stored(_) | NamedContent::Read(..) | NamedContent::Document(_) => Some(&self.name),
            _ => None,
        }
    }

    fn status(&self) -> ExaStatus<'_> {
        match &self.content {
            NamedContent::SentDocument(_) | NamedContent::Stored(_) => ExaStatus::success(&self.name, "cached"),
            NamedContent::Read(..) | NamedContent::Document(_) => ExaStatus::success(&self.name, "crawled"),
            NamedContent::None(unfetched) => ExaStatus::error(&self.name, unfetched),
            _ => ExaStatus::error(&self.name, &Unfetched::Failed),
        }
    }
}

impl NamedContent {
    fn take(&mut self) -> Self {
        std::mem::replace(self, Self::ToFetch)
    }

    /// Decodes the fetched pages into Unicode, which may make them too long.
    fn read(&mut self, app: &App) {
        let most = app.settings.max_document_bytes;
        let read = match self.take() {
            Self::Fetched(fetched) => fetched.read().map(|(text, format)| Self::Read(text, format)),
            Self::Parsed(parsed) => {
                app.parser.finish(parsed).map(Self::Document).map_err(|failure| Unfetched::of_file(&failure))
            }
            other => Ok(other),
        };
        *self = match read.unwrap_or_else(Self::None) {
            Self::Read(text, _) if text.len() > most => Self::None(Unfetched::TooLarge(most)),
            Self::Document(document) if document.text.len() > most => Self::None(Unfetched::TooLarge(most)),
            content => content,
        };
    }
}

/// The stored or fetched page of a name that is not among the request's documents.
fn content(app: &App, name: &str, is_url: bool) -> Result<NamedContent, Failure> {
    if let Some(stored) = app.store.get(name)? {
        return Ok(NamedContent::Stored(stored));
    }
    let is_web = ["http://", "https://"]
        .into_iter()
        .any(|scheme| name.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)));
    Ok(match (is_web, &app.fetcher) {
        (true, Some(_)) => NamedContent::ToFetch,
        (true, None) => NamedContent::None(Unfetched::NoFetcher),
        (false, _) if is_url => NamedContent::None(Unfetched::NoAddress),
        _ => NamedContent::None(Unfetched::NotFound),
    })
}

/// The documents of a request by their ids and by their addresses; the first of equals counts.
fn by_name(sent: &[SentDocument]) -> HashMap<&str, usize> {
    let mut names = HashMap::new();
    for (index, document) in sent.iter().enumerate() {
        for name in [&document.id, &document.url].into_iter().flatten() {
            names.entry(name.as_str()).or_insert(index);
        }
    }
    names
}

fn check_names(names: &[String], field: &str) -> Result<(), Failure> {
    check_count(names.len(), field, MOST_PAGES)?;
    match names.iter().position(|name| name.trim().is_empty() || name.chars().count() > LONGEST_NAME) {
        None => Ok(()),
        Some(index) => Err(Failure::of_field(
            Cause::Unprocessable,
            format!("{field}[{index}]"),
            format!("it must have 1 to {LONGEST_NAME} characters"),
        )),
    }
}
