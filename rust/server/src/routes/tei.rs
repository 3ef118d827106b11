//! The routes of Text Embeddings Inference, except `/rerank`.
//!
//! A text over the model's limit is cut by default. Routes for models of another kind answer 424, as they do there.

pub(super) mod failure;
mod predict;

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use pullquote_core::encoder::cosine::cosines;
use pullquote_core::encoder::model::Pooling;
use pullquote_core::tokens::Role;
use pullquote_wire::embedding_dtype::EmbeddingDtype;
use schemars::JsonSchema;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::json;

use self::failure::TEI;
use self::predict::{PredictRequest, Prediction, predict};
use super::openai::{check_dimensions, check_int8, check_json_dtype};
use super::token_vectors::{TokenEncoding, token_vectors_schema, write_lists};
use crate::app::App;
use crate::http::body::Object;
use crate::http::dtype::{NUMBER_BYTES, write_list};
use crate::http::failure::{Cause, Failure};
use crate::http::input::Input;
use crate::http::negotiation;
use crate::http::reply::Reply;
use crate::http::tei_headers::Compute;
use crate::http::vector_headers::OCTETS;
use crate::routes::item_limits::{check_count, check_lengths};
use crate::routes::route::{Api, JSON, Route};
use crate::routes::schema_placeholders::{DIMENSION, MAX_DOCUMENT_BYTES, MAX_INPUTS, PURPOSES};
use crate::routes::schemas::Schemas;
use crate::routes::vector_stream::{VECTOR_BYTES, VectorStream, vector_bytes};
use crate::routes::vectors::{Direction, FieldInputs, Item, Purpose, Texts, Truncation, vector_schema};

pub(super) const API: Api = Api { tag: "tei", errors: &TEI };

pub(super) fn routes(schemas: &mut Schemas) -> Vec<Route> {
    let vectors = json!({"type": "array", "items": schemas.written(vector_schema)});
    let texts = json!({"inputs": ["The moon is white.", "Bread is baked from flour."]});
    let compared = json!({"inputs": {"source_sentence": "Bread is baked.", "sentences": ["The moon is white."]}});
    let similarities_schema = json!({"type": "array", "items": {"type": "number"}});
    let embed_or_compare =
        json!({"anyOf": [schemas.request::<EmbedRequest>(), schemas.request::<SimilarityRequest>()]});
    let prediction = schemas.response::<Prediction>();
    let refused = "Refused with 424: the model gives one vector for each text";
    vec![
        API.compute("/", any, "embedOrCompare", "Embed or compare texts, as huggingface_hub's client requests it")
            .described("As `/embed`, or with a `source_sentence` as `/similarity`.")
            .reads(embed_or_compare, texts.clone())
            .writes(
                200,
                "A vector for each text, or a cosine for each sentence.",
                vec![(JSON, json!({"type": "array"})), vector_bytes()],
            )
            .with_tei_headers(),
        API.compute("/embed", embed, "embed", "Embed texts")
            .described(VECTOR_BYTES)
            .reads(schemas.request::<EmbedRequest>(), texts.clone())
            .writes(200, "A vector for each text, in order.", vec![(JSON, vectors), vector_bytes()])
            .with_tei_headers(),
        API.compute("/embed_all", token_vectors, "embedAll", "Embed the tokens of texts")
            .described(
                "The vectors are those of the model's last layer, before pooling, the modules after it and normalization. \
                 Special tokens have vectors too. An encoder that has one vector for each text answers 424.",
            )
            .reads(schemas.request::<EmbedAllRequest>(), texts)
            .writes_json(
                "For each text, in order, a vector for each token.",
                json!({"type": "array", "items": schemas.written(token_vectors_schema)}),
            )
            .with_tei_headers()
            .fails(&[424]),
        API.compute("/similarity", similarities, "similarity", "Compare sentences with one by their cosines")
            .reads(schemas.request::<SimilarityRequest>(), compared)
            .writes_json("A cosine for each sentence, in order.", similarities_schema)
            .with_tei_headers(),
        API.post("/embed_sparse", other_model, "embedSparse", refused)
            .described("Text Embeddings Inference returns a weight for each word of a vocabulary.")
            .fails(&[424]),
        API.compute("/predict", predict, "predict", "Score pairs of a query and a text, or texts, by the reranker")
            .described("Without a reranker, 424: the model gives one vector for each text.")
            .reads(
                schemas.request::<PredictRequest>(),
                json!({"inputs": [["How is bread made?", "Bread is baked from flour."]]}),
            )
            .writes_json(
                "For each pair or text, in order, a list of one score; for one alone that list.",
                json!({"anyOf": [
                    {"type": "array", "items": {"type": "array", "items": prediction}},
                    {"type": "array", "items": prediction},
                ]}),
            )
            .with_tei_headers()
            .fails(&[424]),
        API.get("/info", info, "info", "Describe the model and the limits")
            .writes_json("The model and the limits.", schemas.response::<Info>()),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(expecting = "an object with inputs")]
pub(crate) struct EmbedRequest {
    inputs: Texts,
    /// Bring vectors to length 1: true by default. False returns them as they were before.
    #[serde(default)]
    normalize: Option<bool>,
    /// Leave it to the model's own files whether vectors have length 1. Text Embeddings Inference ignores this field.
    #[serde(default)]
    as_model_says: bool,
    /// False refuses texts over the model's limit instead of cutting them.
    #[serde(default, alias = "auto_truncate")]
    truncate: Option<bool>,
    #[serde(default)]
    truncation_direction: Direction,
    /// What the texts are for, for models that have a prompt for each.
    #[serde(default)]
    #[schemars(extend("enum" = PURPOSES))]
    prompt_name: Option<Purpose>,
    /// Put the model's special tokens around texts. Token ids have them, or need `false`.
    #[serde(default = "yes")]
    add_special_tokens: bool,
    /// Length of the vectors; this model's cannot be cut.
    #[serde(default)]
    #[schemars(extend("enum" = [DIMENSION, null]))]
    dimensions: Option<usize>,
    #[serde(default)]
    embedding_dtype: Option<EmbeddingDtype>,
}

/// Texts whose tokens are embedded.
#[derive(Deserialize, JsonSchema)]
#[serde(expecting = "an object with inputs")]
pub(crate) struct EmbedAllRequest {
    inputs: Texts,
    /// False refuses texts over the model's limit instead of cutting them.
    #[serde(default, alias = "auto_truncate")]
    truncate: Option<bool>,
    #[serde(default)]
    truncation_direction: Direction,
    /// What the texts are for, for models that have a prompt for each; the prompt's tokens have vectors too.
    #[serde(default)]
    #[schemars(extend("enum" = PURPOSES))]
    prompt_name: Option<Purpose>,
    /// Put the model's special tokens around texts; they have vectors too. Token ids have them, or need `false`.
    #[serde(default = "yes")]
    add_special_tokens: bool,
}

/// A sentence, and others to compare it with.
#[derive(Deserialize, JsonSchema)]
#[serde(expecting = "an object with inputs")]
pub(crate) struct SimilarityRequest {
    inputs: Object<SimilarityInputs>,
    #[serde(default)]
    parameters: Option<Object<SimilarityParameters>>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(expecting = "an object with a source_sentence and sentences")]
#[schemars(inline)]
struct SimilarityInputs {
    #[schemars(length(max = MAX_DOCUMENT_BYTES))]
    source_sentence: String,
    #[schemars(length(min = 1, max = MAX_INPUTS), inner(length(max = MAX_DOCUMENT_BYTES)))]
    sentences: Vec<String>,
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, expecting = "an object with parameters")]
#[schemars(inline)]
struct SimilarityParameters {
    /// False refuses texts over the model's limit instead of cutting them.
    truncate: Option<bool>,
    truncation_direction: Direction,
    /// What the texts are for, for models that have a prompt for each.
    #[schemars(extend("enum" = PURPOSES))]
    prompt_name: Option<Purpose>,
}

/// A reranker.
#[derive(Serialize, JsonSchema)]
struct RerankerInfo {
    /// Requests of scores may name it as their model.
    name: String,
    /// Hash of weights, tokenizer and configuration.
    sha: Option<String>,
}

/// A pruner.
#[derive(Serialize, JsonSchema)]
struct PrunerInfo<'app> {
    name: &'app str,
    /// Hash of weights, tokenizer and configuration.
    sha: Option<String>,
    /// Sentences with this probability or a higher one are kept.
    threshold: f32,
    /// As its card names it; null if the directory has no card.
    licence: Option<&'app str>,
}

/// The model and the limits of the server.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Info<'app> {
    model_id: &'app str,
    served_model_name: &'app str,
    /// Hash of weights, tokenizer and configuration; null if the weights are unknown.
    model_sha: Option<String>,
    /// What `--reranker` names; null without it.
    reranker: Option<RerankerInfo>,
    /// What `--pruner` names; null without it.
    pruner: Option<PrunerInfo<'app>>,
    model_dtype: &'app str,
    model_type: ModelType,
    /// Running and queued requests; excess requests get 429.
    max_concurrent_requests: usize,
    /// Maximum number of tokens of a text.
    max_input_length: usize,
    max_batch_tokens: Option<usize>,
    max_batch_requests: Option<usize>,
    /// Maximum number of texts of a request; more get 422.
    max_client_batch_size: usize,
    /// Maximum number of bytes of UTF-8 of a document; more get 422.
    max_document_bytes: usize,
    /// Maximum number of bytes of a request's body; more get 413.
    max_body_bytes: usize,
    #[schemars(extend("const" = true))]
    auto_truncate: bool,
    /// Threads that tokenize.
    tokenization_workers: usize,
    version: &'static str,
    /// Always null.
    sha: (),
    /// Always null.
    docker_label: (),
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct ModelType {
    embedding: ModelPooling,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct ModelPooling {
    #[schemars(extend("enum" = ["mean", "cls", "max", "last_token"]))]
    pooling: &'static str,
}

pub(super) const fn yes() -> bool {
    true
}

/// Distinguishes the requests of `POST /`.
#[derive(Deserialize)]
struct AnyRequest {
    #[serde(rename = "inputs")]
    _inputs: Object<AnySentence>,
}

#[derive(Deserialize)]
struct AnySentence {
    #[serde(rename = "source_sentence")]
    _source_sentence: IgnoredAny,
}

/// `huggingface_hub`'s client sends requests of all tasks to one URL.
fn any(app: &App, input: &Input) -> Result<Reply, Failure> {
    match serde_json::from_slice::<AnyRequest>(&input.body) {
        Ok(_) => similarities(app, input),
        Err(_) => embed(app, input),
    }
}

pub(super) fn embed(app: &App, input: &Input) -> Result<Reply, Failure> {
    let request: EmbedRequest = input.parse()?;
    check_dimensions(request.dimensions, app.engine.spec().dimension)?;
    let role = request.prompt_name.map_or(Ok(Role::Passage), |purpose| purpose.role("prompt_name", app))?;
    let wants_bytes = negotiation::preferred(&input.headers, &["application/json", OCTETS]) == OCTETS;
    let dtype = request.embedding_dtype.unwrap_or_default();
    check_int8(request.normalize, dtype)?;
    if !wants_bytes {
        check_json_dtype(dtype)?;
    }
    let mut truncation = Truncation::new(app, request.truncate.unwrap_or(true), request.truncation_direction);
    truncation.options.adds_special_tokens = request.add_special_tokens;
    let items = request.inputs.read("inputs", app, request.add_special_tokens)?;
    let normalize = request.normalize.or((!request.as_model_says).then_some(true));
    let began = Instant::now();
    let inputs = FieldInputs { field: "inputs", items, role, truncation };
    let encoding = VectorStream::of_field(app, &inputs, input.end())?.normalized(normalize);
    let compute = Compute::of(&app.engine, inputs.items.iter().filter_map(Item::text), began.elapsed());
    if wants_bytes {
        return Ok(encoding.into_reply(app, dtype.into(), input.id.clone())?.computed(compute));
    }
    let vectors = encoding.whole()?;
    let mut answer = input.answer().with_vectors(vectors.values.len() * NUMBER_BYTES);
    answer.entries(vectors.rows(), write_list)?;
    Ok(Reply::new("application/json", answer.finish()?.into_body(), vectors.work).computed(compute))
}

fn token_vectors(app: &App, input: &Input) -> Result<Reply, Failure> {
    let request: EmbedAllRequest = input.parse()?;
    let role = request.prompt_name.map_or(Ok(Role::Passage), |purpose| purpose.role("prompt_name", app))?;
    let mut truncation = Truncation::new(app, request.truncate.unwrap_or(true), request.truncation_direction);
    truncation.options.adds_special_tokens = request.add_special_tokens;
    let items = request.inputs.read("inputs", app, request.add_special_tokens)?;
    let Some(width) = app.engine.token_width() else {
        let message =
            "this server's encoder has one vector for each text, and none for its tokens; POST /embed returns it";
        return Err(Failure::new(Cause::OtherModel, message));
    };
    let began = Instant::now();
    let inputs = FieldInputs { field: "inputs", items, role, truncation };
    let encoding = TokenEncoding::of_field(app, &inputs, width, input.end())?;
    let compute = Compute::of(&app.engine, inputs.items.iter().filter_map(Item::text), began.elapsed());
    let vectors = encoding.whole(app, false)?;
    let mut answer = input.answer().with_vectors(vectors.values.len() * NUMBER_BYTES);
    answer.entries(vectors.texts(), |json, text| write_lists(json, text, width))?;
    Ok(Reply::new("application/json", answer.finish()?.into_body(), vectors.work).computed(compute))
}

pub(super) fn similarities(app: &App, input: &Input) -> Result<Reply, Failure> {
    let SimilarityRequest { inputs, parameters } = input.parse()?;
    let Object(SimilarityInputs { source_sentence, sentences }) = inputs;
    let parameters = parameters.map_or_else(SimilarityParameters::default, |Object(parameters)| parameters);
    let SimilarityParameters { truncate, truncation_direction, prompt_name } = parameters;
    check_count(sentences.len(), "inputs.sentences", app.settings.max_inputs)?;
    let role = prompt_name.map_or(Ok(Role::Passage), |purpose| purpose.role("parameters.prompt_name", app))?;
    let truncation = Truncation::new(app, truncate.unwrap_or(true), truncation_direction);
    let items: Vec<Item> = std::iter::once(source_sentence).chain(sentences).map(Item::Text).collect();
    check_lengths(items.iter().filter_map(Item::text), "inputs", app.settings.max_document_bytes)?;
    let began = Instant::now();
    let inputs = FieldInputs { field: "inputs", items, role, truncation };
    let encoding = VectorStream::of_field(app, &inputs, input.end())?;
    let compute = Compute::of(&app.engine, inputs.items.iter().filter_map(Item::text), began.elapsed());
    let encoded = encoding.whole()?;
    let (source, others) = encoded.values.split_at(encoded.dimension);
    Ok(Reply::json(input, &cosines(source, others), encoded.work)?.computed(compute))
}

/// Routes for sparse models.
async fn other_model() -> Failure {
    Failure::new(Cause::OtherModel, "the model gives one vector for each text; POST /embed returns it")
}

async fn info(State(app): State<Arc<App>>) -> Response {
    let (settings, spec, batching) = (&app.settings, app.engine.spec(), app.engine.batching());
    let wanted = spec.devices.iter().map(|device| device.batch_tokens).max();
    let pooling = match app.model.pooling[..] {
        [Pooling::Cls] => "cls",
        [Pooling::Max] => "max",
        [Pooling::Last] => "last_token",
        // It has no names for other means, and for several modes.
        [Pooling::Mean | Pooling::MeanSqrtLength | Pooling::WeightedMean] | [] | [_, _, ..] => "mean",
    };
    let pruner_id = app.pruner_id().await;
    let pruner = app.engine.pruner().map(|pruner| PrunerInfo {
        name: pruner.name(),
        sha: pruner_id,
        threshold: pruner.threshold(),
        licence: pruner.licence(),
    });
    let reranker_id = app.reranker_id().await;
    let reranker = app.engine.reranker_name().map(|name| RerankerInfo { name, sha: reranker_id });
    let info = Info {
        reranker,
        pruner,
        model_id: &settings.model_name,
        served_model_name: &settings.model_name,
        model_sha: app.model_id().await,
        model_dtype: &spec.dtype,
        model_type: ModelType { embedding: ModelPooling { pooling } },
        max_concurrent_requests: settings.max_concurrent.saturating_add(settings.max_queue),
        max_input_length: app.engine.max_tokens(),
        max_batch_tokens: batching.max_tokens.or(wanted),
        max_batch_requests: batching.max_rows,
        max_client_batch_size: settings.max_inputs,
        max_document_bytes: settings.max_document_bytes,
        max_body_bytes: settings.max_body_bytes,
        auto_truncate: true,
        tokenization_workers: std::thread::available_parallelism().map_or(1, usize::from),
        version: env!("CARGO_PKG_VERSION"),
        sha: (),
        docker_label: (),
    };
    Json(info).into_response()
}
