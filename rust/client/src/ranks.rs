//! Calls with small answers: rerank, stored documents, health.

use bytes::Bytes;
use pullquote_core::error::Result;
use reqwest::Method;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use url::form_urlencoded;

use crate::exchange::{ClientState, FullResponse, Request, compute};
use crate::raw::bad;
use crate::retry::CallOptions;
use crate::settings::invalid;
use crate::vectors::Text;

/// The score of a text for a query.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct RerankResult {
    pub index: usize,
    /// The cosine of the vectors, or the server's own measure.
    pub score: f32,
}

#[derive(Clone, Debug, Deserialize)]
pub struct StoredDocument {
    #[serde(default)]
    pub title: Option<String>,
    #[serde(default)]
    pub text: String,
    pub text_hash: String,
}

/// What storing documents did.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct PutDocuments {
    /// Documents whose ids are new.
    pub created: usize,
    /// Documents that replaced others.
    pub replaced: usize,
}

pub(crate) async fn rerank<T: Text>(
    shared: &ClientState,
    query: &str,
    texts: &[T],
    top_n: Option<usize>,
    call: CallOptions,
) -> Result<Vec<RerankResult>> {
    #[derive(Serialize)]
    struct RerankBody<'call> {
        query: &'call str,
        texts: Vec<&'call str>,
    }
    let size = texts.iter().map(|text| text.as_ref().len()).sum();
    let body = || json(&RerankBody { query, texts: texts.iter().map(AsRef::as_ref).collect() });
    let answer = shared.fetch(&Request::post("/rerank", compute(size, body)?), call).await?;
    let ranks: Vec<RerankResult> = read(&answer)?;
    let mut ranks = ranked(ranks, texts.len()).map_err(|error| answer.error(&error))?;
    ranks.sort_by(|a, b| b.score.total_cmp(&a.score));
    ranks.truncate(top_n.unwrap_or(usize::MAX));
    Ok(ranks)
}

/// Checks that each text is ranked once.
fn ranked(ranks: Vec<RerankResult>, texts: usize) -> Result<Vec<RerankResult>> {
    let mut is_ranked = vec![false; texts];
    for RerankResult { index, score } in &ranks {
        match is_ranked.get_mut(*index) {
            Some(ranked) if !*ranked && score.is_finite() => *ranked = true,
            _ => return Err(bad(format!("it ranks text {index} of {texts} with the score {score}, or twice"))),
        }
    }
    if ranks.len() == texts { Ok(ranks) } else { Err(bad(format!("it ranks {} of {texts} texts", ranks.len()))) }
}

pub(crate) async fn put_document(
    shared: &ClientState,
    id: &str,
    text: &str,
    title: Option<&str>,
    call: CallOptions,
) -> Result<String> {
    #[derive(Serialize)]
    struct DocumentBody<'call> {
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<&'call str>,
        text: &'call str,
    }
    let body = compute(text.len(), || json(&DocumentBody { title, text }))?;
    let request = Request { body: Some(body), ..Request::of(Method::PUT, path(id)?) };
    read::<StoredDocument>(&shared.fetch(&request, call).await?).map(|stored| stored.text_hash)
}

pub(crate) async fn put_documents<T: Text>(
    shared: &ClientState,
    documents: &[(T, T, Option<T>)],
    call: CallOptions,
) -> Result<PutDocuments> {
    #[derive(Serialize)]
    struct NamedDocument<'call> {
        id: &'call str,
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<&'call str>,
        text: &'call str,
    }
    #[derive(Serialize)]
    struct DocumentsBody<'call> {
        documents: Vec<NamedDocument<'call>>,
    }
    let size = documents.iter().map(|(_, text, _)| text.as_ref().len()).sum();
    let named = documents.iter().map(|(id, text, title)| NamedDocument {
        id: id.as_ref(),
        title: title.as_ref().map(AsRef::as_ref),
        text: text.as_ref(),
    });
    let body = compute(size, || json(&DocumentsBody { documents: named.collect() }))?;
    let answer = shared.fetch(&Request::post("/documents", body), call).await?;
    let put: PutDocuments = read(&answer)?;
    let (stored, sent) = (put.created.checked_add(put.replaced), documents.len());
    if stored == Some(sent) {
        return Ok(put);
    }
    Err(answer.error(&bad(format!("{} created and {} replaced are not {sent} documents", put.created, put.replaced))))
}

pub(crate) async fn get_document(shared: &ClientState, id: &str, call: CallOptions) -> Result<StoredDocument> {
    let answer = shared.fetch(&Request::of(Method::GET, path(id)?), call).await?;
    compute(answer.body.len(), || read(&answer))
}

pub(crate) async fn delete_document(shared: &ClientState, id: &str, call: CallOptions) -> Result<()> {
    shared.fetch(&Request::of(Method::DELETE, path(id)?), call).await.map(drop)
}

/// Requests each server's health once, without retries.
pub(crate) async fn health(shared: &ClientState, call: CallOptions) -> Vec<(String, Option<String>)> {
    let checks = shared.endpoints.iter().map(|endpoint| async move {
        let unhealthy = shared.check_health(endpoint, call).await.err();
        (endpoint.name.clone(), unhealthy.map(|error| error.message().to_owned()))
    });
    futures_util::future::join_all(checks).await
}

/// The path of a document, with any id as one segment.
fn path(id: &str) -> Result<String> {
    if id.is_empty() || id == "." || id == ".." {
        return Err(invalid(format!("a document's id must be a name, not {id:?}")));
    }
    let escaped: String = form_urlencoded::byte_serialize(id.as_bytes()).collect();
    Ok(format!("/documents/{}", escaped.replace('+', "%20")))
}

fn json(value: &impl Serialize) -> Result<Bytes> {
    serde_json::to_vec(value)
        .map(Bytes::from)
        .map_err(|error| invalid(format!("the call cannot be written as JSON: {error}")))
}

fn read<T: DeserializeOwned>(answer: &FullResponse) -> Result<T> {
    serde_json::from_slice(&answer.body).map_err(|error| answer.error(&bad(error.to_string())))
}
