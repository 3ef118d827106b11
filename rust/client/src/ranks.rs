//! The smaller calls: ranks, stored documents, health.

use bytes::Bytes;
use pullquote_core::error::Result;
use reqwest::Method;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use url::form_urlencoded;

use crate::attempts::CallOptions;
use crate::exchange::{Request, Shared, Whole, compute};
use crate::raw::bad;
use crate::settings::invalid;
use crate::vectors::Text;

/// How near a text is to a query.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Rank {
    /// Which of the texts.
    pub index: usize,
    /// The cosine of the vectors, or whatever the server ranks by.
    pub score: f32,
}

/// A stored document.
#[derive(Clone, Debug, Deserialize)]
pub struct Stored {
    /// Its title, if it has one.
    #[serde(default)]
    pub title: Option<String>,
    /// Its text.
    #[serde(default)]
    pub text: String,
    /// What the text is known by.
    pub text_hash: String,
}

pub(crate) async fn rerank<T: Text>(
    shared: &Shared,
    query: &str,
    texts: &[T],
    top_n: Option<usize>,
    call: CallOptions,
) -> Result<Vec<Rank>> {
    #[derive(Serialize)]
    struct RerankBody<'call> {
        query: &'call str,
        texts: Vec<&'call str>,
    }
    let size = texts.iter().map(|text| text.as_ref().len()).sum();
    let sent = || json(&RerankBody { query, texts: texts.iter().map(AsRef::as_ref).collect() });
    let answer = shared.whole(&Request::post("/rerank", compute(size, sent)?), call).await?;
    let ranks: Vec<Rank> = read(&answer)?;
    let mut ranks = ranked(ranks, texts.len()).map_err(|error| answer.wrong(&error))?;
    ranks.sort_by(|a, b| b.score.total_cmp(&a.score));
    ranks.truncate(top_n.unwrap_or(usize::MAX));
    Ok(ranks)
}

/// Ranks that name each of so many texts once.
fn ranked(ranks: Vec<Rank>, texts: usize) -> Result<Vec<Rank>> {
    let mut is_ranked = vec![false; texts];
    for Rank { index, score } in &ranks {
        match is_ranked.get_mut(*index) {
            Some(ranked) if !*ranked && score.is_finite() => *ranked = true,
            _ => return Err(bad(format!("it ranks text {index} of {texts} by {score}, or twice"))),
        }
    }
    if ranks.len() == texts { Ok(ranks) } else { Err(bad(format!("it ranks {} of {texts} texts", ranks.len()))) }
}

pub(crate) async fn put_document(
    shared: &Shared,
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
    read::<Stored>(&shared.whole(&request, call).await?).map(|stored| stored.text_hash)
}

pub(crate) async fn get_document(shared: &Shared, id: &str, call: CallOptions) -> Result<Stored> {
    let answer = shared.whole(&Request::of(Method::GET, path(id)?), call).await?;
    compute(answer.body.len(), || read(&answer))
}

pub(crate) async fn delete_document(shared: &Shared, id: &str, call: CallOptions) -> Result<()> {
    shared.whole(&Request::of(Method::DELETE, path(id)?), call).await.map(drop)
}

/// Each server is asked once: what health means is what it says now.
pub(crate) async fn health(shared: &Shared, call: CallOptions) -> Vec<(String, Option<String>)> {
    let asked = shared.endpoints.iter().map(|endpoint| async move {
        let unhealthy = shared.healthy(endpoint, call).await.err();
        (endpoint.name.clone(), unhealthy.map(|error| error.message().to_owned()))
    });
    futures_util::future::join_all(asked).await
}

/// Where a document is stored. The id is one segment of the path, whatever it holds.
fn path(id: &str) -> Result<String> {
    if id.is_empty() || id == "." || id == ".." {
        return Err(invalid(format!("a document's id must be a name, not {id:?}")));
    }
    let escaped: String = form_urlencoded::byte_serialize(id.as_bytes()).collect();
    Ok(format!("/documents/{}", escaped.replace('+', "%20")))
}

fn json(value: &impl Serialize) -> Result<Bytes> {
    serde_json::to_vec(value).map(Bytes::from).map_err(|error| invalid(format!("the call does not fit JSON: {error}")))
}

fn read<T: DeserializeOwned>(answer: &Whole) -> Result<T> {
    serde_json::from_slice(&answer.body).map_err(|error| answer.wrong(&bad(error.to_string())))
}
