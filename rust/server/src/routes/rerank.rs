//! `POST /rerank`: documents by how relevant they are to a query, for clients of Cohere, Jina and Text Embeddings
//! Inference.
//!
//! A score is the reranker's, or without one the cosine of the two vectors. A document over the model's limit is read
//! in overlapping windows, and its score is that of the best. A request with `texts` is answered as Text Embeddings Inference does,
//! one with `documents` as Cohere and Jina do.

pub(super) mod failure;
pub(super) mod scores;

use pullquote_core::engine::PairLimits;
use pullquote_wire::request::Documents;
use schemars::JsonSchema;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use self::failure::RERANK;
use self::scores::{Query, Scored, check_raw, score};
use crate::app::App;
use crate::http::failure::{Amount, Failure, refused};
use crate::http::input::Input;
use crate::http::reply::Reply;
use crate::http::tei_headers::Compute;
use crate::http::unix_time;
use crate::routes::item_limits::{check_count, check_lengths, check_query};
use crate::routes::request_pages::read_pages;
use crate::routes::route::{Api, Route};
use crate::routes::schema_placeholders::{
    ACTIVATION, MAX_DOCUMENT_BYTES, MAX_DOCUMENTS, RAW_SCORES, SCORE_MODEL_NAMES,
};
use crate::routes::schemas::Schemas;
use crate::routes::tei::failure::of_tei;
use crate::routes::vectors::{Direction, ModelName, Truncation, check_score_model};
use crate::store::not_stored;

const API: Api = Api { tag: "rerank", errors: &RERANK };

pub(super) fn routes(schemas: &mut Schemas) -> Vec<Route> {
    let example = json!({
        "query": "How is bread made?",
        "documents": ["The moon is white.", "Bread is baked from flour."],
        "top_n": 1,
        "return_documents": true,
    });
    let of_texts = json!({"type": "array", "items": schemas.response::<TeiRank>()});
    let answers = json!({"anyOf": [schemas.response::<Ranking>(), of_texts]});
    let request = schemas.request::<RerankRequest>();
    let summary = "Rank documents by their relevance to a query";
    let llama_cpp = Api { tag: "llamacpp", ..API };
    let routes = vec![
        API.compute("/rerank", rerank, "rerank", summary),
        // Cohere's clients have their version in the path.
        API.compute("/v1/rerank", |app, input| rerank_as(app, input, "1", false), "rerankV1", summary),
        API.compute("/v2/rerank", |app, input| rerank_as(app, input, "2", false), "rerankV2", summary),
        // llama.cpp returns no documents.
        llama_cpp.compute("/reranking", |app, input| rerank_as(app, input, "2", false), "reranking", summary),
        llama_cpp.compute("/v1/reranking", |app, input| rerank_as(app, input, "2", false), "rerankingV1", summary),
    ];
    let described = |route: Route| {
        route
            .described(
                "A score is {relevance}; a document that is longer than the model's limit is read in windows, and \
                 has the score of the best. The answer to `documents` is as from Cohere and Jina, the answer to \
                 `texts` as from Text Embeddings Inference. Fields that are not listed here are ignored.",
            )
            .reads(request.clone(), example.clone())
            .writes_json("The best first.", answers.clone())
            .with_tei_headers()
            .fails(&[404, 422])
    };
    routes.into_iter().map(described).collect()
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
    documents: Option<RerankDocuments>,
    /// One of the names of the served model, or that of the reranker.
    #[serde(default)]
    #[schemars(extend("enum" = SCORE_MODEL_NAMES))]
    model: ModelName,
    /// Maximum number of results; all by default and for 0, as vLLM's clients mean it.
    #[serde(default)]
    #[schemars(range(min = 0))]
    top_n: Option<usize>,
    /// Return each document. By default `/rerank` does, as vLLM and Jina, and `/v1/rerank` and `/v2/rerank` do not, as
    /// Cohere.
    #[serde(default)]
    return_documents: Option<bool>,
    /// Fields of documents that count, in their order; by default `text`, or else all that are texts.
    #[serde(default)]
    rank_fields: Option<Vec<String>>,
    /// Tokens that are read of each document; all by default.
    #[serde(default, alias = "truncate_prompt_tokens")]
    #[schemars(range(min = -1))]
    max_tokens_per_doc: Option<i64>,
    /// Windows that are read of each document; all by default.
    #[serde(default)]
    #[schemars(range(min = 1))]
    max_chunks_per_doc: Option<usize>,
    /// At most `{max_documents}`.
    #[schemars(length(min = 1, max = MAX_DOCUMENTS), inner(length(max = MAX_DOCUMENT_BYTES)))]
    texts: Option<Vec<String>>,
    /// Return the text of each of `texts`.
    #[serde(default)]
    return_text: bool,
    /// Return logits, which only a reranker has.
    #[serde(default)]
    #[schemars(extend("enum" = RAW_SCORES))]
    raw_scores: Option<bool>,
    /// False means the same, as vLLM names it.
    #[serde(default)]
    #[schemars(extend("enum" = ACTIVATION))]
    use_activation: Option<bool>,
    /// Cut a query over the model's limit; by default it is cut with `texts`, and refused with `documents`. Documents
    /// are never cut.
    #[serde(default)]
    truncate: Option<bool>,
    /// Which end of a long query is dropped.
    #[serde(default, alias = "truncation_side")]
    truncation_direction: Option<Direction>,
}

/// Texts, or objects with any fields or with the id of a stored document; or the ids of stored documents. At most
/// `{max_documents}`.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged, expecting = "must be a list of texts or objects, or an object with the ids of stored documents")]
#[schemars(inline)]
enum RerankDocuments {
    Listed(#[schemars(length(min = 1, max = MAX_DOCUMENTS))] Vec<FieldDocument>),
    Stored(Documents<'static>),
}

/// A text, or an object with any fields.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
enum FieldDocument {
    Text(#[schemars(length(max = MAX_DOCUMENT_BYTES))] String),
    Fields(Map<String, Value>),
}

/// A document to rank.
struct Candidate {
    text: String,
    /// The object that was sent, without `text`.
    fields: Map<String, Value>,
}

/// How relevant a document is.
struct Rank {
    index: usize,
    score: f32,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct TeiRank<'call> {
    /// Index of the text in the request.
    index: usize,
    /// It is {relevance}.
    score: f32,
    /// With `return_text`.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'call str>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Ranking<'call> {
    #[schemars(extend("format" = "uuid"))]
    id: String,
    /// As infinity's clients read it.
    #[schemars(extend("const" = "rerank"))]
    object: &'static str,
    /// In seconds since 1970.
    created: u64,
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
    /// It is {relevance}.
    relevance_score: f32,
    /// With `return_documents`.
    #[serde(skip_serializing_if = "Option::is_none")]
    document: Option<RankedText<'call>>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct RankedText<'call> {
    text: &'call str,
    /// The other fields of the document that was sent.
    #[serde(flatten)]
    fields: &'call Map<String, Value>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct RerankUsage {
    /// Tokens that were encoded.
    prompt_tokens: usize,
    /// The same.
    total_tokens: usize,
    /// 1 if the query was cut.
    truncated: usize,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct RerankMeta {
    api_version: ApiVersion,
    billed_units: BilledUnits,
}

#[derive(Clone, Copy, Serialize, JsonSchema)]
#[schemars(inline)]
pub(super) struct ApiVersion {
    pub(super) version: &'static str,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct BilledUnits {
    /// Always 1.
    search_units: usize,
}

pub(super) fn rerank(app: &App, input: &Input) -> Result<Reply, Failure> {
    rerank_as(app, input, "2", true)
}

/// `returns_documents` is the default of `return_documents`.
pub(super) fn rerank_as(
    app: &App,
    input: &Input,
    version: &'static str,
    returns_documents: bool,
) -> Result<Reply, Failure> {
    let is_tei = || serde_json::from_slice(&input.body).is_ok_and(|TeiFields { texts }| texts.is_some());
    read(app, input, version, returns_documents).map_err(|failure| if is_tei() { of_tei(failure) } else { failure })
}

/// Fields that only requests of Text Embeddings Inference have.
#[derive(Deserialize)]
struct TeiFields {
    texts: Option<IgnoredAny>,
}

fn read(app: &App, input: &Input, version: &'static str, returns_documents: bool) -> Result<Reply, Failure> {
    let request: RerankRequest = input.parse()?;
    let model = check_score_model(&request.model, app)?;
    let (candidates, is_tei) = match (request.documents, request.texts) {
        (Some(documents), None) => (documents.read(app, input, request.rank_fields.as_deref())?, false),
        (None, Some(texts)) => {
            check_count(texts.len(), "texts", app.settings.max_documents)?;
            check_lengths(texts.iter().map(String::as_str), "texts", app.settings.max_document_bytes)?;
            (texts.into_iter().map(Candidate::of).collect(), true)
        }
        _ => return refused("documents", "pass documents or texts, not both"),
    };
    if request.query.trim().is_empty() {
        return refused("query", "the query is empty; it needs at least one character that is not white space");
    }
    check_query(&request.query, "query", app.settings.max_query_bytes)?;
    check_raw(app, request.raw_scores == Some(true), "raw_scores")?;
    check_raw(app, request.use_activation == Some(false), "use_activation")?;
    let is_raw = request.raw_scores == Some(true) || request.use_activation == Some(false);
    let direction = request.truncation_direction.unwrap_or_default();
    let total = match request.max_tokens_per_doc {
        None | Some(-1) => usize::MAX,
        Some(tokens) => match usize::try_from(tokens) {
            Ok(tokens) if tokens > 0 => tokens,
            _ => {
                let message = format!("max_tokens_per_doc must be a positive integer, or -1 for all, not {tokens}");
                return refused("max_tokens_per_doc", message);
            }
        },
    };
    let query = Query {
        text: request.query,
        truncation: Truncation::new(
            app,
            request.truncate.unwrap_or(is_tei || request.max_tokens_per_doc.is_some()),
            direction,
        ),
    };
    if request.max_chunks_per_doc == Some(0) {
        return refused("max_chunks_per_doc", "it must be at least 1");
    }
    let limits = PairLimits { tokens: total, windows: request.max_chunks_per_doc.unwrap_or(usize::MAX) };
    let texts: Vec<&str> = candidates.iter().map(|candidate| candidate.text.as_str()).collect();
    let Scored { scores, work, tokenization } = score(app, &query, &texts, limits, is_raw, input)?;
    let ranked = scores.into_iter().enumerate().map(|(index, score)| Rank { index, score });
    let mut ranks: Vec<Rank> = ranked.collect();
    // Ties are in the order of the request.
    ranks.sort_by(|a, b| b.score.total_cmp(&a.score));
    // vLLM's clients send 0 for all; infinity and Cohere refuse it, but requests of the three are alike.
    ranks.truncate(request.top_n.filter(|most| *most > 0).unwrap_or(usize::MAX));
    if is_tei {
        let text = |index: usize| request.return_text.then(|| texts[index]);
        let rank = |Rank { index, score }: &Rank| TeiRank { index: *index, score: *score, text: text(*index) };
        let compute =
            Compute::of(&app.engine, std::iter::once(query.text.as_str()).chain(texts.iter().copied()), tokenization);
        return Ok(Reply::json(input, &ranks.iter().map(rank).collect::<Vec<_>>(), work)?.computed(compute));
    }
    let returns_documents = request.return_documents.unwrap_or(returns_documents);
    let document =
        |index: usize| returns_documents.then(|| RankedText { text: texts[index], fields: &candidates[index].fields });
    let rank = |Rank { index, score }: &Rank| RankedDocument {
        index: *index,
        relevance_score: *score,
        document: document(*index),
    };
    let answer = Ranking {
        id: Uuid::new_v4().to_string(),
        object: "rerank",
        created: unix_time().as_secs(),
        model: &model,
        results: ranks.iter().map(rank).collect(),
        usage: RerankUsage { prompt_tokens: work.tokens, total_tokens: work.tokens, truncated: work.truncated },
        meta: RerankMeta { api_version: ApiVersion { version }, billed_units: BilledUnits { search_units: 1 } },
    };
    Reply::json(input, &answer, work)
}

impl RerankDocuments {
    fn read(self, app: &App, input: &Input, rank_fields: Option<&[String]>) -> Result<Vec<Candidate>, Failure> {
        let documents = match self {
            Self::Listed(documents) => documents,
            Self::Stored(documents) => {
                let mut pages = read_pages(documents, app, input)?;
                // The formats of ranks have no place for an error of one document.
                if let Some(missing) = pages.iter_mut().find_map(|page| page.missing.take()) {
                    return Err(missing);
                }
                return Ok(pages.iter().map(|page| Candidate::of(page.text.as_ref().to_owned())).collect());
            }
        };
        check_count(documents.len(), "documents", app.settings.max_documents)?;
        let read = |(index, document)| match document {
            FieldDocument::Text(text) => Ok(Candidate::of(text)),
            FieldDocument::Fields(fields) => Candidate::of_fields(fields, rank_fields, index, (app, input)),
        };
        let candidates: Vec<Candidate> = documents.into_iter().enumerate().map(read).collect::<Result<_, _>>()?;
        check_lengths(
            candidates.iter().map(|candidate| candidate.text.as_str()),
            "documents",
            app.settings.max_document_bytes,
        )?;
        Ok(candidates)
    }
}

impl Candidate {
    fn of(text: String) -> Self {
        Self { text, fields: Map::new() }
    }

    /// As Cohere's first version reads it: the named fields, or else `text`, or else all that are texts.
    fn of_fields(
        mut fields: Map<String, Value>,
        names: Option<&[String]>,
        index: usize,
        (app, input): (&App, &Input),
    ) -> Result<Self, Failure> {
        let value = |name: &str| fields.get(name).and_then(Value::as_str);
        if let (1, Some(id)) = (fields.len(), value("id")) {
            let missing = || Failure { field: Some(format!("documents[{index}]")), ..not_stored(id) };
            let stored = app.store.get(id)?.ok_or_else(missing)?;
            input.hold_text(stored.text.len())?;
            return Ok(Self { text: stored.text, fields });
        }
        let parts: Vec<&str> = match (names, value("text")) {
            (Some(names), _) => names.iter().filter_map(|name| value(name)).collect(),
            (None, Some(text)) => vec![text],
            (None, None) => fields.values().filter_map(Value::as_str).collect(),
        };
        if parts.is_empty() {
            return refused(format!("documents[{index}]"), "the document has no text among the fields to rank by");
        }
        // A field may be named often.
        let most = app.settings.max_document_bytes;
        if parts.iter().map(|part| part.len() + 1).sum::<usize>() > most.saturating_add(1) {
            let message = format!("the fields to rank by have more than {most} bytes, the maximum of a document");
            return Err(Failure::of_amount(Amount::TooMuch, format!("documents[{index}]"), message));
        }
        let text = parts.join("\n");
        fields.remove("text");
        Ok(Self { text, fields })
    }
}
