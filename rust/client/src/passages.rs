//! The call of `/highlights`.
//!
//! All pages of a call are one request, because they share budgets, and the scale of their relevance.
//! [`crate::columns`] reads the answer.

use std::borrow::Cow;
use std::sync::Arc;

use pullquote_core::engine::options::Options;
use pullquote_core::engine::{self, Question};
use pullquote_core::error::Result;
use pullquote_core::text::formats::{Format, detected};
use pullquote_wire::embedding_dtype::EmbeddingDtype;
use pullquote_wire::request::{Document, DocumentFields, Documents, HighlightsRequest, Queries};
use reqwest::header::CONTENT_TYPE;

use crate::call_options::CallOptions;
use crate::client::Client;
use crate::columns::{Columns, ExpectedAnswer, read_answers};
use crate::exchange::{Request, compute};
use crate::forms::{FORM, File, Part, read_form, write_form};
use crate::raw::{EmbeddingHeaders, bad};
use crate::settings::invalid;
use crate::vectors::{Text, Vectors};

#[derive(Clone, Copy, Debug, Default)]
pub struct ReturnOptions {
    /// The texts of stored pages.
    pub texts: bool,
    /// The vectors of passages and queries, in this type.
    pub vectors: Option<EmbeddingDtype>,
}

/// The arguments of `Highlighter.highlights`, and what only a server has.
pub struct HighlightsArguments<T> {
    /// The pages are texts, ids of stored documents, or the names of the files.
    pub texts: engine::Request<T>,
    /// Whether the caller passed a list of queries.
    pub is_list: bool,
    /// Which pages are ids of documents stored on the server; the rest are texts.
    pub is_stored: Vec<bool>,
    /// The files to upload in place of pages.
    pub files: Vec<File>,
    pub password: Option<String>,
    pub options: Options,
    pub returns: ReturnOptions,
}

pub struct HighlightsAnswer {
    pub columns: Columns,
    /// The vectors of the passages and of the queries, if requested.
    pub vectors: Option<[Vectors<u8>; 2]>,
}

impl<T: Text> HighlightsArguments<T> {
    /// The text of a page, if this side has it.
    fn text(&self, page: usize) -> Option<&str> {
        let is_sent = self.files.is_empty() && self.is_stored.get(page) != Some(&true);
        is_sent.then(|| self.texts.pages[page].as_ref())
    }

    /// The body, as JSON.
    fn json(&self) -> Result<Vec<u8>> {
        let invalid_body = |error: serde_json::Error| invalid(format!("the call cannot be written as JSON: {error}"));
        let engine::Request { queries, pages, titles, .. } = &self.texts;
        let mut each = queries.iter().map(|query| Cow::Borrowed(query.as_ref()));
        let document = |page: usize| {
            let title = titles.get(page).and_then(Option::as_ref).map(|title| title.as_ref().into());
            let (id, text) = match self.text(page) {
                Some(text) => (None, Some(text.into())),
                None => (Some(pages[page].as_ref().into()), None),
            };
            Document::Fields(DocumentFields { id, title, text })
        };
        let documents = if self.files.is_empty() { 0..pages.len() } else { 0..0 };
        // The text of HTML differs from what was sent.
        let differs = |page| self.text(page).is_some_and(|text| detected(self.options.format, text) == Format::Html);
        let body = HighlightsRequest {
            query: if self.is_list { Some(Queries::Listed(each.collect())) } else { each.next().map(Queries::One) },
            return_texts: self.returns.texts || documents.clone().any(differs),
            documents: (!documents.is_empty()).then(|| Documents::Listed(documents.map(document).collect())),
            return_vectors: self.returns.vectors.is_some(),
            embedding_dtype: self.returns.vectors,
            options: serde_json::to_value(self.options).and_then(serde_json::from_value).map_err(invalid_body)?,
            ..HighlightsRequest::default()
        };
        serde_json::to_vec(&body).map_err(invalid_body)
    }
}

impl Client {
    /// The passages of pages that answer queries.
    ///
    /// # Errors
    /// Those of all calls of a [`Client`].
    pub fn highlights<T: Text>(
        &self,
        request: HighlightsArguments<T>,
        call: CallOptions,
    ) -> impl Future<Output = Result<HighlightsAnswer>> + Send + use<T> {
        let shared = Arc::clone(&self.shared);
        async move {
            // The checks of the engine, before a request is sent.
            Question::new(&request.options)?;
            request.texts.check()?;
            let HighlightsArguments { texts, files, returns, .. } = &request;
            let sent = (0..texts.pages.len()).map(|page| request.text(page));
            let size = sent.clone().flatten().map(str::len).sum::<usize>()
                + files.iter().map(|file| file.content.len()).sum::<usize>();
            let mut post = compute(size, || {
                let json = request.json()?;
                if files.is_empty() {
                    return Ok(Request::post("/highlights", json.into()));
                }
                let (form, content_type) = write_form(&json, files, request.password.as_deref());
                Ok(Request { content_type: content_type.into(), ..Request::post("/highlights", form) })
            })?;
            if returns.vectors.is_some() {
                post.accept = FORM;
            }
            let answer = shared.fetch(&post, call).await?;
            let read = |body: &[u8]| {
                let (pairing, queries, returns_texts) = (texts.pairing, texts.queries.len(), returns.texts);
                let sources = sent.clone().collect();
                read_answers(body, &ExpectedAnswer { pairing, queries, returns_texts, sources })
            };
            let Some(dtype) = returns.vectors else {
                let columns =
                    compute(size + answer.body.len(), || read(&answer.body)).map_err(|error| answer.error(&error))?;
                return Ok(HighlightsAnswer { columns, vectors: None });
            };
            let form = read_form(answer.headers.get(CONTENT_TYPE), answer.body.clone()).await;
            let form = form.map_err(|error| answer.error(&error))?;
            let parsed = compute(size + answer.body.len(), || {
                let columns = read(&form.highlights)?;
                let vectors = [(&form.vectors, columns.answers.scores.len()), (&form.queries, texts.queries.len())];
                let [of_passages, of_queries] = vectors.map(|(part, rows)| read_vectors(part, rows, dtype));
                let (of_passages, of_queries) = (of_passages?, of_queries?);
                if of_passages.dimension != of_queries.dimension {
                    return Err(bad(format!(
                        "its passages have vectors of {} values, its queries of {}",
                        of_passages.dimension, of_queries.dimension
                    )));
                }
                Ok(HighlightsAnswer { columns, vectors: Some([of_passages, of_queries]) })
            });
            parsed.map_err(|error| answer.error(&error))
        }
    }
}

/// The vectors of a part, which must have this number of rows.
fn read_vectors(part: &Part, rows: usize, dtype: EmbeddingDtype) -> Result<Vectors<u8>> {
    let headers = EmbeddingHeaders::read(&part.headers, rows)?.ok_or_else(|| bad("a part of it is not raw vectors"))?;
    if headers.dtype != dtype {
        return Err(headers.wrong_dtype(dtype));
    }
    if part.content.len() != headers.bytes() {
        return Err(bad(format!(
            "a part of it has {} bytes, and its shape needs {}",
            part.content.len(),
            headers.bytes()
        )));
    }
    headers.check_values(&part.content)?;
    Ok(Vectors { values: part.content.to_vec(), dimension: headers.dimension, truncated: headers.truncated })
}
