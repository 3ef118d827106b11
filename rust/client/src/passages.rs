//! The call of `/highlights`.
//!
//! All pages of a call are one request, because they share budgets, and the scale of their relevance.
//! [`crate::columns`] reads the answer.

use pullquote_core::encoder::embedding_dtype::EmbeddingDtype;
use pullquote_core::engine::options::Options;
use pullquote_core::engine::{self, Pairing};
use pullquote_core::error::Result;
use pullquote_core::text::formats::Format;
use reqwest::header::CONTENT_TYPE;
use serde::Serialize;

use crate::call_options::CallOptions;
use crate::columns::{Columns, ExpectedAnswer, read_answers};
use crate::exchange::{ClientState, Request, compute};
use crate::forms::{FORM, File, Part, read_form, write_form};
use crate::raw::{EmbeddingHeaders, bad};
use crate::settings::invalid;
use crate::vectors::{Text, Vectors};

pub enum PageSource<T> {
    Text(T),
    /// The id of a document stored on the server.
    Stored(T),
}

#[derive(Clone, Copy, Debug, Default)]
pub struct ReturnOptions {
    /// The texts of stored pages.
    pub texts: bool,
    /// The vectors of passages and queries, in this type.
    pub vectors: Option<EmbeddingDtype>,
}

/// The arguments of `Highlighter.highlights`, and what only a server returns.
pub struct HighlightsRequest<T> {
    pub queries: Vec<T>,
    /// Whether the caller passed a list of queries.
    pub listed: bool,
    /// The pages; empty with files.
    pub pages: Vec<PageSource<T>>,
    /// The files to upload in place of pages.
    pub files: Vec<File>,
    pub password: Option<String>,
    /// Empty, or for each page its title, if it has one.
    pub titles: Vec<Option<T>>,
    pub options: Options,
    pub returns: ReturnOptions,
}

pub struct HighlightsAnswer {
    pub columns: Columns,
    /// The vectors of the passages and of the queries, if requested.
    pub vectors: Option<[Vectors<u8>; 2]>,
}

#[derive(Serialize)]
struct HighlightsBody<'call> {
    query: QueryField<'call>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    documents: Vec<DocumentField<'call>>,
    #[serde(skip_serializing_if = "is_false")]
    return_texts: bool,
    #[serde(skip_serializing_if = "is_false")]
    return_vectors: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    embedding_dtype: Option<EmbeddingDtype>,
    #[serde(flatten)]
    options: &'call Options,
}

/// Left out by default: vLLM's host does not know these fields.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
const fn is_false(flag: &bool) -> bool {
    !*flag
}

#[derive(Serialize)]
#[serde(untagged)]
enum QueryField<'call> {
    One(&'call str),
    Listed(Vec<&'call str>),
}

#[derive(Serialize)]
struct DocumentField<'call> {
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'call str>,
    #[serde(flatten)]
    source: DocumentSource<'call>,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum DocumentSource<'call> {
    Text(&'call str),
    Id(&'call str),
}

impl<T: Text> PageSource<T> {
    fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text.as_ref()),
            Self::Stored(_) => None,
        }
    }

    fn source(&self) -> DocumentSource<'_> {
        match self {
            Self::Text(text) => DocumentSource::Text(text.as_ref()),
            Self::Stored(id) => DocumentSource::Id(id.as_ref()),
        }
    }
}

pub(crate) async fn highlights<T: Text>(
    shared: &ClientState,
    request: HighlightsRequest<T>,
    call: CallOptions,
) -> Result<HighlightsAnswer> {
    let HighlightsRequest { queries, listed, pages, files, password, titles, options, returns } = &request;
    let pairing = options.pairing(queries.len(), pages.len() + files.len())?;
    check(&request, pairing)?;
    let body = || {
        let each: Vec<&str> = queries.iter().map(AsRef::as_ref).collect();
        let title = |page: usize| titles.get(page).and_then(Option::as_ref).map(AsRef::as_ref);
        let documents = pages.iter().enumerate();
        // The text of HTML differs from what was sent.
        let differ = |page: &PageSource<T>| page.text().is_some_and(|text| options.format.of(text) == Format::Html);
        let body = HighlightsBody {
            query: if *listed { QueryField::Listed(each) } else { QueryField::One(each[0]) },
            documents: documents
                .map(|(index, page)| DocumentField { title: title(index), source: page.source() })
                .collect(),
            return_texts: returns.texts || pages.iter().any(differ),
            return_vectors: returns.vectors.is_some(),
            embedding_dtype: returns.vectors,
            options,
        };
        let json = serde_json::to_vec(&body);
        json.map_err(|error| invalid(format!("the call cannot be written as JSON: {error}")))
    };
    let texts: usize = pages.iter().filter_map(PageSource::text).map(str::len).sum();
    let size = texts + files.iter().map(|file| file.content.len()).sum::<usize>();
    let mut request = compute(size, || {
        let json = body()?;
        if files.is_empty() {
            return Ok(Request::post("/highlights", json.into()));
        }
        let (form, content_type) = write_form(&json, files, password.as_deref());
        Ok(Request { content_type: content_type.into(), ..Request::post("/highlights", form) })
    })?;
    if returns.vectors.is_some() {
        request.accept = FORM;
    }
    let answer = shared.fetch(&request, call).await?;
    let read = |body: &[u8]| {
        let lengths = pages.iter().map(|page| page.text().map(|text| text.chars().count()));
        let lengths = lengths.chain(files.iter().map(|_| None)).collect();
        let (queries, explain, returns_texts) = (queries.len(), options.explain, returns.texts);
        read_answers(body, &ExpectedAnswer { pairing, queries, explain, returns_texts, lengths })
    };
    let Some(dtype) = returns.vectors else {
        let columns = compute(size + answer.body.len(), || read(&answer.body)).map_err(|error| answer.error(&error))?;
        return Ok(HighlightsAnswer { columns, vectors: None });
    };
    let form = read_form(answer.headers.get(CONTENT_TYPE), answer.body.clone()).await;
    let form = form.map_err(|error| answer.error(&error))?;
    let parsed = compute(size + answer.body.len(), || {
        let columns = read(&form.highlights)?;
        let vectors = [(&form.vectors, columns.answers.scores.len()), (&form.queries, queries.len())];
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

/// The checks of the engine, before a request is sent.
fn check<T: Text>(request: &HighlightsRequest<T>, pairing: Pairing) -> Result<()> {
    let HighlightsRequest { queries, pages, files, titles, options, .. } = request;
    options.question()?;
    let queries: Vec<&str> = queries.iter().map(AsRef::as_ref).collect();
    let unknown = files.iter().map(|_| "");
    let pages: Vec<&str> = pages.iter().map(|page| page.text().unwrap_or_default()).chain(unknown).collect();
    let titles: Vec<Option<&str>> = titles.iter().map(|title| title.as_ref().map(AsRef::as_ref)).collect();
    let formats = [options.format];
    engine::Request { queries: &queries, pages: &pages, formats: &formats, titles: &titles, pairing }.check()
}
