//! `POST /embed`, `POST /tokenize` and `GET /info`, as clients of Text Embeddings Inference know them.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use pullquote_core::encoder::model::Pooling;
use pullquote_core::engine::Work;
use pullquote_core::tokens::Role;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::openai::{check_dimensions, check_json_dtype};
use crate::app::App;
use crate::http::admission::{Input, Reply, compute};
use crate::http::binary_body::{Encoding, OCTETS};
use crate::http::body;
use crate::http::dtype::{Dtype, NUMBER_BYTES, write_list};
use crate::http::failure::{Cause, Failure};
use crate::http::negotiation;
use crate::openapi::limits::{DIMENSION, NORMALIZE};
use crate::routes::vectors::Texts;

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new().route("/embed", post(vectors)).route("/tokenize", post(tokenize)).route("/info", get(info))
}

#[derive(Deserialize, JsonSchema)]
#[serde(expecting = "an object with inputs")]
pub(crate) struct EmbedRequest {
    inputs: Texts,
    /// Bring vectors to length 1; always if the model's own files say so.
    #[serde(default)]
    #[schemars(extend("enum" = NORMALIZE))]
    normalize: Option<bool>,
    /// Leave it to the model's own files whether vectors have length 1. Text Embeddings Inference ignores this field.
    #[serde(default)]
    as_model_says: bool,
    /// False refuses texts over the model's limit instead of cutting them.
    #[serde(default)]
    truncate: Option<bool>,
    /// Texts are cut at their end only.
    #[serde(default)]
    #[schemars(extend("enum" = ["Right", "right"]))]
    truncation_direction: Direction,
    /// Role of the texts, for models that have a prompt for each.
    #[serde(default)]
    #[schemars(extend("enum" = ["query", "passage", "document", "corpus", null]))]
    prompt_name: Option<PromptName>,
    /// Length of the vectors; this model's cannot be cut.
    #[serde(default)]
    #[schemars(extend("enum" = [DIMENSION, null]))]
    dimensions: Option<usize>,
    #[serde(default)]
    embedding_dtype: Option<Dtype>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(inline)]
enum Direction {
    #[serde(alias = "left")]
    Left,
    #[default]
    #[serde(alias = "right")]
    Right,
}

/// What sentence-transformers calls the prompts that [`Role`] chooses between.
#[derive(Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum PromptName {
    Query,
    #[serde(alias = "document", alias = "corpus")]
    Passage,
}

#[derive(Deserialize, JsonSchema)]
#[serde(expecting = "an object with inputs")]
pub(crate) struct TokenizeRequest {
    inputs: Texts,
    /// Include the tokens that the model puts around a text.
    #[serde(default = "yes")]
    add_special_tokens: bool,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Token {
    id: i32,
    text: String,
    /// Whether the model put it around the text.
    special: bool,
    /// Start in bytes of UTF-8.
    start: Option<usize>,
    /// End in bytes of UTF-8.
    stop: Option<usize>,
}

/// The model and the limits of the server.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Info<'app> {
    model_id: &'app str,
    /// Always null.
    model_sha: (),
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
    #[schemars(extend("const" = true))]
    auto_truncate: bool,
    /// Always null.
    tokenization_workers: (),
    version: &'static str,
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

const fn yes() -> bool {
    true
}

async fn vectors(State(app): State<Arc<App>>, request: Request) -> Result<Response, Failure> {
    compute(&app, request, answer).await
}

fn answer(app: &App, input: &Input) -> Result<Reply, Failure> {
    let asked: EmbedRequest = body::parse(&input.headers, &input.body)?;
    let refused = |field: &str, message: String| Err(Failure::of_field(Cause::Unprocessable, field, message));
    if asked.truncation_direction == Direction::Left {
        return refused("truncation_direction", "texts are cut at their end only; leave it out".to_owned());
    }
    if asked.normalize == Some(false) && app.model.normalize {
        return refused(
            "normalize",
            "this model's own files make its vectors have length one; leave it out".to_owned(),
        );
    }
    check_dimensions(asked.dimensions, app)?;
    let role = match asked.prompt_name {
        Some(PromptName::Query) => Role::Query,
        _ => Role::Passage,
    };
    let wants_bytes = negotiation::preferred(&input.headers, &["application/json", OCTETS]) == OCTETS;
    let dtype = asked.embedding_dtype.unwrap_or_default();
    if !wants_bytes {
        check_json_dtype(dtype)?;
    }
    let texts = asked.inputs.read("inputs", app)?;
    let encoding = Encoding::of(app, &texts, role, input.end())?;
    if asked.truncate == Some(false) && encoding.truncated() > 0 {
        let message = format!(
            "{} of {} texts are longer than {} tokens; leave truncate out to have them cut",
            encoding.truncated(),
            texts.len(),
            app.engine.max_tokens()
        );
        return refused("inputs", message);
    }
    let normalizes = !asked.as_model_says && asked.normalize != Some(false) && !app.model.normalize;
    if wants_bytes {
        return encoding.answer(app, dtype, normalizes, input.id.clone());
    }
    let mut vectors = encoding.whole()?;
    if normalizes {
        vectors.normalize();
    }
    let mut json = Vec::with_capacity(vectors.values.len() * NUMBER_BYTES);
    json.push(b'[');
    for (index, vector) in vectors.rows().enumerate() {
        if index > 0 {
            json.push(b',');
        }
        write_list(&mut json, vector);
    }
    json.push(b']');
    Ok(Reply::new("application/json", json.into(), vectors.work))
}

async fn tokenize(State(app): State<Arc<App>>, request: Request) -> Result<Response, Failure> {
    compute(&app, request, |app, input| {
        let TokenizeRequest { inputs, add_special_tokens } = body::parse(&input.headers, &input.body)?;
        let listed = |text: &String| {
            let tokens = app.engine.tokens().list(text, add_special_tokens)?.into_iter().map(|token| Token {
                id: token.id,
                special: token.span.is_none(),
                text: token.span.map_or(token.text, |span| span.of(text).to_owned()),
                start: token.span.map(|span| span.start),
                stop: token.span.map(|span| span.end),
            });
            Ok(tokens.collect())
        };
        let lists: Vec<Vec<Token>> = inputs.read("inputs", app)?.iter().map(listed).collect::<Result<_, Failure>>()?;
        Reply::json(&lists, Work::default())
    })
    .await
}

async fn info(State(app): State<Arc<App>>) -> Response {
    let (settings, spec, batching) = (&app.settings, app.engine.spec(), app.engine.batching());
    let wanted = spec.devices.iter().map(|device| device.batch_tokens).max();
    let pooling = match app.model.pooling[..] {
        [Pooling::Cls] => "cls",
        [Pooling::Max] => "max",
        [Pooling::Last] => "last_token",
        // It has no names for the others.
        _ => "mean",
    };
    let info = Info {
        model_id: &settings.model_name,
        model_sha: (),
        model_dtype: &spec.dtype,
        model_type: ModelType { embedding: ModelPooling { pooling } },
        max_concurrent_requests: settings.max_concurrent.saturating_add(settings.max_queue),
        max_input_length: app.engine.max_tokens(),
        max_batch_tokens: batching.max_tokens.or(wanted),
        max_batch_requests: batching.max_rows,
        max_client_batch_size: settings.max_inputs,
        auto_truncate: true,
        tokenization_workers: (),
        version: env!("CARGO_PKG_VERSION"),
    };
    Json(info).into_response()
}
