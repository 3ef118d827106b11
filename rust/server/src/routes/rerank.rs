//! `POST /rerank`: documents by how near they are to a query, for clients of Cohere, Jina and Text Embeddings Inference.
//!
//! A score is the cosine of the two vectors, from -1 to 1; what a document has behind the model's limit has no part in it.
//! A request with `texts` is answered as Text Embeddings Inference does, one with `documents` as Cohere and Jina do.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::post;
use pullquote_core::encoder::cosine::cosines;
use pullquote_core::engine::Work;
use pullquote_core::tokens::Role;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::app::App;
use crate::http::admission::{Input, Reply, compute};
use crate::http::body;
use crate::http::failure::{Cause, Failure};
use crate::openapi::limits::{MAX_DOCUMENT_BYTES, MAX_DOCUMENTS};
use crate::routes::vectors::embed;
use crate::store::documents::{Documents, RequestPage, check_count, check_lengths};

pub(super) fn routes() -> Router<Arc<App>> {
    // Cohere's clients ask under their version.
    ["/rerank", "/v1/rerank", "/v2/rerank"]
        .into_iter()
        .fold(Router::new(), |router, path| router.route(path, post(rerank)))
}

/// Documents as Cohere and Jina send them, or texts as Text Embeddings Inference does.
#[derive(Deserialize, JsonSchema)]
#[serde(expecting = "an object with a query and documents, or texts")]
#[schemars(extend("oneOf" = [
    {"required": ["documents"], "properties": {"documents": {"not": {"type": "null"}}, "texts": {"type": "null"}}},
    {"required": ["texts"], "properties": {"texts": {"type": "array"}, "documents": {"type": "null"}}},
]))]
pub(crate) struct RerankRequest {
    #[schemars(regex(pattern = r"\S"))]
    query: String,
    documents: Option<Documents>,
    /// Maximum number of results; all by default.
    #[serde(default)]
    #[schemars(range(min = 1))]
    top_n: Option<usize>,
    /// Return the text of each document.
    #[serde(default)]
    return_documents: bool,
    /// At most `{max_documents}`.
    #[schemars(length(min = 1, max = MAX_DOCUMENTS), inner(length(max = MAX_DOCUMENT_BYTES)))]
    texts: Option<Vec<String>>,
    /// Return the text of each of `texts`.
    #[serde(default)]
    return_text: bool,
}

/// How near a document is.
struct Rank {
    index: usize,
    score: f32,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct TeiRank<'call> {
    /// Index of the text in the request.
    index: usize,
    /// The cosine, from -1 to 1.
    score: f32,
    /// With `return_text`.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'call str>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Ranking<'call> {
    #[schemars(extend("format" = "uuid"))]
    id: String,
    model: &'call str,
    results: Vec<RankedDocument<'call>>,
    /// As Jina's clients read it.
    usage: RerankUsage,
    /// As Cohere's clients read it.
    meta: RerankMeta,
}

#[derive(Serialize, JsonSchema)]
struct RankedDocument<'call> {
    /// Index of the document in the request.
    index: usize,
    /// The cosine, from -1 to 1.
    relevance_score: f32,
    /// With `return_documents`.
    #[serde(skip_serializing_if = "Option::is_none")]
    document: Option<RankedText<'call>>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct RankedText<'call> {
    text: &'call str,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct RerankUsage {
    /// Tokens that were encoded.
    total_tokens: usize,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct RerankMeta {
    api_version: ApiVersion,
    billed_units: BilledUnits,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct ApiVersion {
    version: &'static str,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct BilledUnits {
    /// Always 1.
    search_units: usize,
}

async fn rerank(State(app): State<Arc<App>>, request: Request) -> Result<Response, Failure> {
    compute(&app, request, answer).await
}

fn answer(app: &App, input: &Input) -> Result<Reply, Failure> {
    let asked: RerankRequest = body::parse(&input.headers, &input.body)?;
    let refused = |field: &str, message: &str| Err(Failure::of_field(Cause::Unprocessable, field, message));
    let pages;
    let (texts, of_tei): (Vec<&str>, bool) = match (asked.documents, &asked.texts) {
        (Some(documents), None) => {
            pages = documents.read(app)?;
            (pages.iter().map(RequestPage::text).collect(), false)
        }
        (None, Some(texts)) => {
            check_count(texts.len(), "texts", app.settings.max_documents)?;
            check_lengths(texts.iter().map(String::as_str), "texts", &app.settings)?;
            (texts.iter().map(String::as_str).collect(), true)
        }
        _ => return refused("documents", "one of documents and texts must be there, and not both"),
    };
    if asked.query.trim().is_empty() {
        return refused("query", "the query is empty; it needs at least one character that is not white space");
    }
    if asked.top_n == Some(0) {
        return refused("top_n", "top_n must be at least 1, not 0");
    }
    let (mut ranks, work) = ranks(app, &asked.query, &texts, input)?;
    ranks.truncate(asked.top_n.unwrap_or(usize::MAX));
    if of_tei {
        let text = |index: usize| asked.return_text.then(|| texts[index]);
        let rank = |Rank { index, score }: &Rank| TeiRank { index: *index, score: *score, text: text(*index) };
        return Reply::json(&ranks.iter().map(rank).collect::<Vec<_>>(), work);
    }
    let document = |index: usize| asked.return_documents.then(|| RankedText { text: texts[index] });
    let rank = |Rank { index, score }: &Rank| RankedDocument {
        index: *index,
        relevance_score: *score,
        document: document(*index),
    };
    let answer = Ranking {
        id: Uuid::new_v4().to_string(),
        model: &app.settings.model_name,
        results: ranks.iter().map(rank).collect(),
        usage: RerankUsage { total_tokens: work.tokens },
        meta: RerankMeta { api_version: ApiVersion { version: "2" }, billed_units: BilledUnits { search_units: 1 } },
    };
    Reply::json(&answer, work)
}

/// The documents, the nearest first; of equals the one that stands first.
fn ranks(app: &App, query: &str, texts: &[&str], input: &Input) -> Result<(Vec<Rank>, Work), Failure> {
    let asked = embed(app, &[query], Role::Query, input.end())?;
    let documents = embed(app, texts, Role::Passage, input.end())?;
    let scores = cosines(&asked.values, &documents.values);
    let mut ranks: Vec<Rank> = scores.into_iter().enumerate().map(|(index, score)| Rank { index, score }).collect();
    ranks.sort_by(|a, b| b.score.total_cmp(&a.score));
    let mut work = documents.work;
    work.tokens += asked.work.tokens;
    Ok((ranks, work))
}
