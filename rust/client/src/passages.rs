//! Passages: the call of `/highlights`.
//!
//! All pages of a call go in one request, because scores are comparable within a call only. What comes back becomes the
//! columns that the library itself would have written ([`crate::columns`]), and where vectors were asked for, these beside them.

use bytes::Bytes;
use pullquote_core::engine::options::Options;
use pullquote_core::engine::{self, Answers, Pairing};
use pullquote_core::error::Result;
use pullquote_core::text::formats::Format;
use reqwest::header::CONTENT_TYPE;
use serde::Serialize;

use crate::attempts::CallOptions;
use crate::columns::{ExpectedAnswer, Passage, read_answers};
use crate::exchange::{Request, Shared, compute};
use crate::forms::{FORM, Part, read_form};
use crate::packed::Packing;
use crate::raw::{Dtype, EmbeddingHeaders, bad};
use crate::settings::invalid;
use crate::vectors::{Text, Vectors};

/// A page of a call.
pub enum Page<T> {
    /// Its text.
    Text(T),
    /// The id of a document that the server has stored.
    Stored(T),
}

/// What is to come back beside the passages.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    /// The texts of stored pages.
    pub texts: bool,
    /// The vectors of passages and queries, as this type.
    pub vectors: Option<Dtype>,
}

/// Queries and pages of a call, as `Highlighter.highlights` takes them.
pub struct Question<T> {
    /// What is asked.
    pub queries: Vec<T>,
    /// Whether there was a list of queries, or one that stands alone.
    pub listed: bool,
    /// The pages.
    pub pages: Vec<Page<T>>,
    /// A title for each page, where there is one; or empty.
    pub titles: Vec<Option<T>>,
    /// The options of the call.
    pub options: Options,
    /// What only a server is asked for.
    pub wanted: Wanted,
}

/// What was found.
pub struct Found {
    /// The columns. Of pages whose text stays with the server there are places, and no text.
    pub answers: Answers,
    /// For each passage its own texts, where its page has none; empty where all pages have theirs.
    pub passages: Vec<Option<Passage>>,
    /// The vectors of the passages and of the queries, where they were asked for.
    pub vectors: Option<[Vectors<u8>; 2]>,
}

#[derive(Serialize)]
struct HighlightsBody<'call> {
    query: Queries<'call>,
    documents: Vec<Document<'call>>,
    #[serde(skip_serializing_if = "is_no")]
    return_texts: bool,
    #[serde(skip_serializing_if = "is_no")]
    return_vectors: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    embedding_dtype: Option<Dtype>,
    #[serde(flatten)]
    options: &'call Options,
}

/// What is not asked for is not said: hosts that give no vectors do not know the word.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
const fn is_no(flag: &bool) -> bool {
    !*flag
}

#[derive(Serialize)]
#[serde(untagged)]
enum Queries<'call> {
    One(&'call str),
    Listed(Vec<&'call str>),
}

#[derive(Serialize)]
struct Document<'call> {
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'call str>,
    #[serde(flatten)]
    page: Named<'call>,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Named<'call> {
    Text(&'call str),
    Id(&'call str),
}

impl<T: Text> Page<T> {
    /// What is known here of its text.
    fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text.as_ref()),
            Self::Stored(_) => None,
        }
    }

    fn named(&self) -> Named<'_> {
        match self {
            Self::Text(text) => Named::Text(text.as_ref()),
            Self::Stored(id) => Named::Id(id.as_ref()),
        }
    }
}

pub(crate) async fn highlights<T: Text>(shared: &Shared, question: Question<T>, call: CallOptions) -> Result<Found> {
    let Question { queries, listed, pages, titles, options, wanted } = &question;
    let pairing = options.pairing(*listed, pages.len())?;
    check(&question, pairing)?;
    let sent = || {
        let each: Vec<&str> = queries.iter().map(AsRef::as_ref).collect();
        let title = |page: usize| titles.get(page).and_then(Option::as_ref).map(AsRef::as_ref);
        let documents = pages.iter().enumerate();
        // Of HTML the text is not what was sent; of everything else it is.
        let differ = matches!(options.format, Format::Html | Format::Auto);
        let sent = HighlightsBody {
            query: if *listed { Queries::Listed(each) } else { Queries::One(each[0]) },
            documents: documents.map(|(index, page)| Document { title: title(index), page: page.named() }).collect(),
            return_texts: wanted.texts || (differ && pages.iter().any(|page| page.text().is_some())),
            return_vectors: wanted.vectors.is_some(),
            embedding_dtype: wanted.vectors,
            options,
        };
        serde_json::to_vec(&sent).map_err(|error| invalid(format!("the call does not fit JSON: {error}")))
    };
    let size = pages.iter().filter_map(Page::text).map(str::len).sum();
    let body = Bytes::from(compute(size, sent)?);
    let mut request = Request::post("/highlights", body);
    if wanted.vectors.is_some() {
        request.accept = FORM;
    }
    let answer = shared.whole(&request, call).await?;
    let read = |body: &[u8]| {
        let lengths = pages.iter().map(|page| page.text().map(|text| text.chars().count())).collect();
        let (queries, explain, returns_texts) = (queries.len(), options.explain, wanted.texts);
        read_answers(body, &ExpectedAnswer { pairing, queries, explain, returns_texts, lengths })
    };
    let Some(dtype) = wanted.vectors else {
        let (answers, passages) =
            compute(size + answer.body.len(), || read(&answer.body)).map_err(|error| answer.wrong(&error))?;
        return Ok(Found { answers, passages, vectors: None });
    };
    let form = read_form(answer.headers.get(CONTENT_TYPE), answer.body.clone()).await;
    let form = form.map_err(|error| answer.wrong(&error))?;
    let found = compute(size + answer.body.len(), || {
        let (answers, passages) = read(&form.highlights)?;
        let vectors = [(&form.vectors, answers.scores.len()), (&form.queries, queries.len())];
        let [of_passages, of_queries] = vectors.map(|(part, rows)| read_vectors(part, rows, dtype));
        let (of_passages, of_queries) = (of_passages?, of_queries?);
        if of_passages.dimension != of_queries.dimension {
            return Err(bad(format!(
                "its passages have vectors of {} values, its queries of {}",
                of_passages.dimension, of_queries.dimension
            )));
        }
        Ok(Found { answers, passages, vectors: Some([of_passages, of_queries]) })
    });
    found.map_err(|error| answer.wrong(&error))
}

/// The vectors of a part, for exactly so many rows.
fn read_vectors(part: &Part, rows: usize, dtype: Dtype) -> Result<Vectors<u8>> {
    let claim = EmbeddingHeaders::read(&part.headers, rows)?.ok_or_else(|| bad("a part of it is no raw vectors"))?;
    if claim.dtype != dtype {
        return Err(claim.other_dtype(dtype));
    }
    // No longer than what came, so the claim needs no bound of its own.
    if part.content.len() != claim.bytes() {
        return Err(bad(format!("a part of it has {} bytes, its shape {}", part.content.len(), claim.bytes())));
    }
    let mut values = vec![0; claim.bytes()];
    let mut packing = Packing::new(claim, &mut values)?;
    packing.write(&part.content)?;
    packing.finish()?;
    let written_at = values.as_ptr() as usize;
    Ok(Vectors { values, dimension: claim.dimension, truncated: claim.truncated, written_at })
}

/// What the engine would say before it begins, said without asking a server.
fn check<T: Text>(question: &Question<T>, pairing: Pairing) -> Result<()> {
    let Question { queries, pages, titles, options, .. } = question;
    options.question()?;
    let queries: Vec<&str> = queries.iter().map(AsRef::as_ref).collect();
    let pages: Vec<&str> = pages.iter().map(|page| page.text().unwrap_or_default()).collect();
    let titles: Vec<Option<&str>> = titles.iter().map(|title| title.as_ref().map(AsRef::as_ref)).collect();
    let formats = [options.format];
    engine::Request { queries: &queries, pages: &pages, formats: &formats, titles: &titles, pairing }.check()
}
