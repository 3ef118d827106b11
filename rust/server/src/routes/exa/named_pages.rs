//! Pages that a client names: a request sends them, the store has them, or they are fetched from the web with
//! `--fetch`.
//!
//! Fetching waits, so the work of such a request takes several permits ([`fetch`]). It holds none while it waits.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use futures_util::future::join_all;
use pullquote_core::text::formats::Format;
use schemars::JsonSchema;
use serde::Deserialize;

use super::answer::ExaStatus;
use super::passages::ExaPage;
use crate::app::App;
use crate::fetch::{Fetched, Unfetched};
use crate::http::admission::Admitted;
use crate::http::failure::{Failure, refused};
use crate::http::input::Input;
use crate::routes::item_limits::check_count;
use crate::routes::schema_placeholders::MAX_DOCUMENT_BYTES;
use crate::store::Stored;
use crate::uploads::form::UploadedFile;
use crate::uploads::parsed_upload::ParsedUpload;
use crate::uploads::parser::{Parsed, Parsing};

/// Maximum number of pages of a request.
pub(crate) const MOST_PAGES: usize = 100;

/// The longest name of a page, in characters.
pub(crate) const LONGEST_NAME: usize = 2048;

/// A page that the request itself sends.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an object with a text, an id or a url, and perhaps a title")]
#[schemars(inline, extend("anyOf" = [
    {"required": ["id"], "properties": {"id": {"type": "string"}}},
    {"required": ["url"], "properties": {"url": {"type": "string", "pattern": "\\S"}, "id": {"type": "null"}}},
]))]
pub(super) struct SentDocument {
    #[serde(default)]
    #[schemars(regex(pattern = r"\S"))]
    pub(super) id: Option<String>,
    #[serde(default)]
    pub(super) url: Option<String>,
    #[serde(default)]
    title: Option<String>,
    #[schemars(length(max = MAX_DOCUMENT_BYTES))]
    pub(super) text: String,
}

pub(in crate::routes) struct NamedPage {
    pub(in crate::routes) name: String,
    content: Content,
}

enum Content {
    Sent(Arc<SentDocument>),
    Stored(Stored),
    ToFetch,
    Fetched(Fetched),
    /// A file that was fetched, before and after a process reads it.
    File(Parsing),
    Parsed(Parsed),
    /// Fetched and in Unicode.
    Read(String, Format),
    Document(Arc<ParsedUpload>),
    None(Unfetched),
}

impl SentDocument {
    pub(super) fn name(&self) -> Option<&str> {
        self.id.as_deref().or(self.url.as_deref())
    }
}

impl NamedPage {
    pub(super) const fn sent(name: String, document: Arc<SentDocument>) -> Self {
        Self { name, content: Content::Sent(document) }
    }

    /// The stored page of this name, or else one to fetch.
    pub(in crate::routes) fn find(app: &App, name: String, is_url: bool) -> Result<Self, Failure> {
        if let Some(stored) = app.store.get(&name)? {
            return Ok(Self { name, content: Content::Stored(stored) });
        }
        let is_web = ["http://", "https://"]
            .into_iter()
            .any(|scheme| name.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)));
        let content = match (is_web, &app.fetcher) {
            (true, Some(_)) => Content::ToFetch,
            (true, None) => Content::None(Unfetched::NoFetcher),
            (false, _) if is_url => Content::None(Unfetched::NoAddress),
            _ => Content::None(Unfetched::NotFound),
        };
        Ok(Self { name, content })
    }

    pub(super) const fn is_to_fetch(&self) -> bool {
        matches!(self.content, Content::ToFetch)
    }

    /// The page, if it is available, and memory for its text.
    pub(in crate::routes) fn page(&self, input: &Input) -> Option<Result<ExaPage<'_>, Failure>> {
        let page = |title, text, format| Some(ExaPage::new(input, &self.name, title, text, format));
        match &self.content {
            Content::Sent(sent) => page(sent.title.as_deref(), &sent.text, Format::Text),
            Content::Stored(stored) => page(stored.title.as_deref(), &stored.text, Format::Text),
            Content::Read(source, format) => page(None, source, *format),
            Content::Document(document) => page(None, &document.text, document.format.unwrap_or_default()),
            _ => None,
        }
    }

    /// The document of a file that was fetched.
    pub(in crate::routes) fn document(&self) -> Option<&ParsedUpload> {
        match &self.content {
            Content::Document(document) => Some(document),
            _ => None,
        }
    }

    /// Why the page is not available.
    pub(in crate::routes) const fn unfetched(&self) -> Option<&Unfetched> {
        match &self.content {
            Content::Sent(_) | Content::Stored(_) | Content::Read(..) | Content::Document(_) => None,
            Content::None(unfetched) => Some(unfetched),
            _ => Some(&Unfetched::Failed),
        }
    }

    /// The address of an available page: its name, unless the request has another one.
    pub(super) fn url(&self) -> Option<&str> {
        match &self.content {
            Content::Sent(sent) => Some(sent.url.as_deref().unwrap_or(&self.name)),
            _ => self.unfetched().is_none().then_some(&self.name),
        }
    }

    pub(super) fn status(&self) -> ExaStatus<'_> {
        match (self.unfetched(), &self.content) {
            (Some(unfetched), _) => ExaStatus::error(&self.name, unfetched),
            (None, Content::Sent(_) | Content::Stored(_)) => ExaStatus::success(&self.name, "cached"),
            (None, _) => ExaStatus::success(&self.name, "crawled"),
        }
    }

    /// Decodes a fetched page into Unicode, which may make it too long. Computes.
    pub(in crate::routes) fn read(&mut self, app: &App) {
        let most = app.settings.max_document_bytes;
        let read = match self.take() {
            Content::Fetched(fetched) => fetched.read().map(|(text, format)| Content::Read(text, format)),
            Content::Parsed(parsed) => {
                app.parser.finish(parsed).map(Content::Document).map_err(|failure| Unfetched::of_file(&failure))
            }
            other => Ok(other),
        };
        self.content = match read.unwrap_or_else(Content::None) {
            Content::Read(text, _) if text.len() > most => Content::None(Unfetched::TooLarge(most)),
            Content::Document(document) if document.text.len() > most => Content::None(Unfetched::TooLarge(most)),
            content => content,
        };
    }

    const fn take(&mut self) -> Content {
        std::mem::replace(&mut self.content, Content::ToFetch)
    }
}

/// Fetches the missing pages, and runs a process for each file among them. [`NamedPage::read`] is what remains to be
/// done.
pub(in crate::routes) async fn fetch(
    app: &App,
    admitted: &mut Admitted<App>,
    mut pages: Vec<NamedPage>,
) -> Result<Vec<NamedPage>, Failure> {
    let deadline = admitted.limits.deadline;
    fetch_missing(app, &mut pages, deadline).await;
    if pages.iter().any(|page| matches!(&page.content, Content::Fetched(fetched) if fetched.is_file())) {
        pages = admitted.with_permit(move |app, _| Ok(prepare_files(app, pages))).await?;
        parse_files(app, &mut pages, deadline).await;
    }
    Ok(pages)
}

async fn fetch_missing(app: &App, pages: &mut [NamedPage], deadline: Instant) {
    let Some(fetcher) = &app.fetcher else { return };
    let now = Instant::now();
    // Half of the remaining time is for reading the pages.
    let patience = fetcher.timeout().min(deadline.saturating_duration_since(now) / 2);
    let missing = pages.iter_mut().filter(|page| page.is_to_fetch());
    join_all(missing.map(async |page: &mut NamedPage| {
        page.content = match fetcher.fetch(&page.name, (now + patience).into()).await {
            Ok(page) => Content::Fetched(page),
            Err(unfetched) => Content::None(unfetched),
        };
    }))
    .await;
}

/// Detects the kinds of fetched files. Computes.
fn prepare_files(app: &App, mut pages: Vec<NamedPage>) -> Vec<NamedPage> {
    for page in &mut pages {
        let Content::Fetched(fetched) = &page.content else { continue };
        if fetched.is_file() {
            let prepare = |bytes: Cow<'_, [u8]>| {
                let file = UploadedFile { name: None, content: bytes.into_owned().into() };
                app.parser.prepare(0, file, None).map_err(|failure| Unfetched::of_file(&failure))
            };
            page.content = fetched.bytes().and_then(prepare).map_or_else(Content::None, Content::File);
        }
    }
    pages
}

/// Runs a process for each fetched file.
async fn parse_files(app: &App, pages: &mut [NamedPage], deadline: Instant) {
    join_all(pages.iter_mut().map(async |page: &mut NamedPage| {
        page.content = match page.take() {
            Content::File(parsing) => match app.parser.run(parsing, deadline.into()).await {
                Ok(parsed) => Content::Parsed(parsed),
                Err(failure) => Content::None(Unfetched::of_file(&failure)),
            },
            other => other,
        };
    }))
    .await;
}

/// Checks the number of names, and that each has a length that a page's may have.
pub(in crate::routes) fn check_names(names: &[String], field: &str) -> Result<(), Failure> {
    check_count(names.len(), field, MOST_PAGES)?;
    match names.iter().position(|name| name.trim().is_empty() || name.chars().count() > LONGEST_NAME) {
        None => Ok(()),
        Some(index) => refused(format!("{field}[{index}]"), format!("it must have 1 to {LONGEST_NAME} characters")),
    }
}
