//! `POST /score`, `POST /pooling` and `POST /invocations` of vLLM.

pub(super) mod failure;

use axum::Json;
use pullquote_core::encoder::cosine::cosines;
use pullquote_core::engine::{PairLimits, Work};
use pullquote_core::tokens::Role;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::json;

use self::failure::VLLM;
use super::openai::{self, EmbeddingsRequest, EmbeddingsUsage, ListShape, list_schema};
use super::rerank::scores::{by_maxsim, by_reranker, check_raw};
use super::token_vectors::token_vectors_schema;
use super::{rerank, tei};
use crate::app::App;
use crate::http::failure::{Cause, Failure, refused};
use crate::http::input::Input;
use crate::http::reply::Reply;
use crate::http::unix_time;
use crate::routes::route::{Api, JSON, Route};
use crate::routes::schema_placeholders::{ACTIVATION, SCORE_MODEL_NAMES};
use crate::routes::schemas::Schemas;
use crate::routes::tei::failure::of_tei;
use crate::routes::vector_stream::{VectorStream, vector_bytes};
use crate::routes::vectors::{
    Direction, FieldInputs, Item, ModelName, Strings, Truncation, check_score_model, vector_schema,
};

pub(super) const API: Api = Api { tag: "vllm", errors: &VLLM };

pub(super) fn routes(schemas: &mut Schemas) -> Vec<Route> {
    let pair = json!({"queries": "How is bread made?", "documents": ["The moon is white.", "Bread is baked."]});
    let example = json!({"model": "{model_name}", "input": ["The moon is white."]});
    let pooled = json!({"anyOf": [schemas.written(pooling_schema), schemas.written(token_pooling_schema)]});
    let mut compares = |route: Route| {
        route
            .reads(schemas.request::<ScoreRequest>(), pair.clone())
            .writes_json("A score for each pair: {relevance}.", schemas.response::<Scores>())
            .fails(&[404])
    };
    vec![
        compares(API.compute("/score", scores, "score", "Score pairs of texts")),
        compares(API.compute("/v1/score", scores, "scoreV1", "Score pairs of texts")),
        API.compute("/pooling", pooling, "pooling", "Embed texts, as vLLM's pooling does")
            .described(
                "As `/v1/embeddings`, for the task `embed`. For the task `token_embed` the data of each text are the vectors of \
                 its tokens, special ones included, before pooling and the modules after it: a list of them, or in base64 the \
                 bytes of one after the other. `use_activation` brings each to length 1. The server does not have vLLM's other \
                 tasks.",
            )
            .reads(schemas.request::<EmbeddingsRequest>(), example.clone())
            .writes(
                200,
                "For each text, in order, a vector, or with `token_embed` one for each token.",
                vec![(JSON, pooled), vector_bytes()],
            )
            .fails(&[404]),
        API.compute(
            "/invocations",
            invocations,
            "invocations",
            "Send a request of another route, recognized by its fields",
        )
        .described(
            "With `input` as `/v1/embeddings`, with `inputs` as `/embed`, with `query` as `/rerank`, and with `queries` or \
             `text_1` as `/score`.",
        )
        .reads(json!({"type": "object"}), example)
        .writes(200, "As from that route.", vec![(JSON, json!({})), vector_bytes()])
        .fails(&[404, 422]),
        API.get("/version", version, "version", "Return the version")
            .writes_json("The version of pullquote.", schemas.response::<Version>()),
    ]
}

const POOLING: ListShape = ListShape { id: "pool", object: "pooling", field: "data" };

/// Two texts or lists of texts, under one of the pairs of names that vLLM has. One text is compared with all of a list;
/// two lists have the same length.
#[derive(Deserialize, JsonSchema)]
#[serde(expecting = "an object with queries and documents, or with text_1 and text_2")]
#[schemars(extend("oneOf" = [
    {"required": ["queries"], "anyOf": [{"required": ["documents"]}]},
    {"required": ["text_1"], "anyOf": [{"required": ["text_2"]}]},
]))]
pub(crate) struct ScoreRequest {
    #[serde(default, alias = "text_1", alias = "data_1")]
    queries: Option<Strings>,
    #[serde(default, alias = "text_2", alias = "data_2", alias = "items")]
    documents: Option<Strings>,
    /// One of the names of the served model, or that of the reranker.
    #[serde(default)]
    #[schemars(extend("enum" = SCORE_MODEL_NAMES))]
    model: ModelName,
    /// Cut texts to this number of tokens; -1 is the model's limit. By default longer texts are refused.
    #[serde(default)]
    #[schemars(range(min = -1))]
    truncate_prompt_tokens: Option<i64>,
    /// Which end of a long text is dropped.
    #[serde(default, alias = "truncation_direction")]
    truncation_side: Option<Direction>,
    /// False returns logits, which only a reranker has.
    #[serde(default)]
    #[schemars(extend("enum" = ACTIVATION))]
    use_activation: Option<bool>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Scores<'app> {
    id: String,
    #[schemars(extend("const" = "list"))]
    object: &'static str,
    /// In seconds since 1970.
    created: u64,
    model: &'app str,
    data: Vec<Score>,
    usage: EmbeddingsUsage,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
#[expect(clippy::struct_field_names, reason = "vLLM's names")]
struct Score {
    /// Index of the pair.
    index: usize,
    #[schemars(extend("const" = "score"))]
    object: &'static str,
    /// It is {relevance}.
    score: f32,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Version {
    /// Version of pullquote.
    version: &'static str,
}

async fn version() -> Json<Version> {
    Json(Version { version: env!("CARGO_PKG_VERSION") })
}

/// The task of a request to `/pooling`.
#[derive(Deserialize)]
struct Task {
    #[serde(default)]
    task: Option<String>,
}

/// The schemas of the answers that [`pooling`] writes without serde: for the task `embed`, and for `token_embed`.
pub(crate) fn pooling_schema(generator: &mut SchemaGenerator) -> Schema {
    list_schema(POOLING, vector_schema, generator)
}

pub(crate) fn token_pooling_schema(generator: &mut SchemaGenerator) -> Schema {
    list_schema(POOLING, token_vectors_schema, generator)
}

fn scores(app: &App, input: &Input) -> Result<Reply, Failure> {
    let request: ScoreRequest = input.parse()?;
    let model = check_score_model(&request.model, app)?;
    let (Some(queries), Some(documents)) = (request.queries, request.documents) else {
        return refused("queries", "pass queries and documents, or text_1 and text_2");
    };
    let is_raw = request.use_activation == Some(false);
    check_raw(app, is_raw, "use_activation")?;
    let truncation = Truncation::new(app, false, request.truncation_side.unwrap_or_default())
        .to(request.truncate_prompt_tokens, "truncate_prompt_tokens", app)?;
    let (queries, documents) = (queries.read("queries", app)?, documents.read("documents", app)?);
    if queries.len() != documents.len() && queries.len() != 1 {
        let message =
            format!("there are {} for {} documents; there must be 1, or as many", queries.len(), documents.len());
        return refused("queries", message);
    }
    let tokens = request.truncate_prompt_tokens.and_then(|most| usize::try_from(most).ok());
    let limits = PairLimits { tokens: tokens.unwrap_or(usize::MAX), ..PairLimits::NONE };
    let texts: Vec<&str> = documents.iter().map(String::as_str).collect();
    let (all, work) = if app.engine.reranker().is_some() {
        let asked: Vec<(Option<&str>, &[&str])> = if let [query] = queries.as_slice() {
            vec![(Some(query), &texts)]
        } else {
            queries.iter().map(|query| Some(query.as_str())).zip(texts.chunks(1)).collect()
        };
        let scored = by_reranker(app, &asked, truncation, limits, is_raw, ("queries", input))?;
        (scored.scores, scored.work)
    } else if app.engine.is_late_interaction() {
        let items = queries.into_iter().map(Item::Text).collect();
        let queries = FieldInputs { field: "queries", items, role: Role::Query, truncation };
        let scored = by_maxsim(app, &queries, &texts, limits, is_raw, input)?;
        (scored.scores, scored.work)
    } else {
        cosines_of(app, queries, documents, truncation, input)?
    };
    let data = all.into_iter().enumerate().map(|(index, score)| Score { index, object: "score", score }).collect();
    let answer = Scores {
        id: format!("score-{}", input.id.0),
        object: "list",
        created: unix_time().as_secs(),
        model: &model,
        data,
        usage: EmbeddingsUsage::of(&work),
    };
    Reply::json(input, &answer, work)
}

/// The cosine of each pair.
fn cosines_of(
    app: &App,
    queries: Vec<String>,
    documents: Vec<String>,
    truncation: Truncation,
    input: &Input,
) -> Result<(Vec<f32>, Work), Failure> {
    let is_one_query = queries.len() == 1;
    let encode = |texts: Vec<String>, field, role| {
        let items = texts.into_iter().map(Item::Text).collect();
        let inputs = FieldInputs { field, items, role, truncation };
        VectorStream::of_field(app, &inputs, input.end()).and_then(VectorStream::whole)
    };
    let request = encode(queries, "queries", Role::Query)?;
    let answers = encode(documents, "documents", Role::Passage)?;
    let all: Vec<f32> = if is_one_query {
        cosines(&request.values, &answers.values)
    } else {
        request.rows().zip(answers.rows()).flat_map(|(query, document)| cosines(query, document)).collect()
    };
    let mut work = request.work;
    work += answers.work;
    Ok((all, work))
}

fn pooling(app: &App, input: &Input) -> Result<Reply, Failure> {
    let Task { task } = serde_json::from_slice(&input.body).unwrap_or(Task { task: None });
    match (task.as_deref(), app.engine.token_width()) {
        (None | Some("embed"), _) => EmbeddingsRequest::parse(app, input, false)?.into_reply(app, input, POOLING),
        (Some("token_embed"), Some(width)) => {
            EmbeddingsRequest::token_vectors(app, input, width)?.into_reply(app, input, POOLING)
        }
        (Some(task), width) => {
            let known = if width.is_some() { "'embed' and 'token_embed'" } else { "'embed'" };
            let message = format!("Unsupported task: '{task}'; this server has {known}");
            Err(Failure::new(Cause::Unprocessable, message))
        }
    }
}

/// The kind of a request to `/invocations`, by the fields that only it has.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Fields {
    inputs: Option<IgnoredAny>,
    input: Option<IgnoredAny>,
    query: Option<IgnoredAny>,
    #[serde(alias = "text_1", alias = "data_1")]
    queries: Option<IgnoredAny>,
}

fn invocations(app: &App, input: &Input) -> Result<Reply, Failure> {
    match serde_json::from_slice(&input.body).unwrap_or_default() {
        Fields { inputs: Some(_), .. } => tei::embed(app, input).map_err(of_tei),
        Fields { input: Some(_), .. } => openai::create_embeddings(app, input, false),
        Fields { query: Some(_), .. } => rerank::rerank(app, input),
        Fields { queries: Some(_), .. } => scores(app, input),
        Fields { .. } => {
            let _: serde_json::Map<String, serde_json::Value> = input.parse()?;
            let message = "the body fits no route: it needs input (embeddings), inputs (embed), query (rerank) or queries (score)";
            Err(Failure::new(Cause::Unprocessable, message))
        }
    }
}
