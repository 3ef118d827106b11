//! `POST /embed`, `POST /tokenize` and `GET /info`, as clients of Text Embeddings Inference know them.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Json, Router};
use pullquote_core::encoder::model::Pooling;
use pullquote_core::engine::Work;
use pullquote_core::tokens::Role;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::openai::{check_dimensions, check_json_dtype};
use crate::app::App;
use crate::http::admission::{Input, Reply, compute};
use crate::http::binary_body::{Encoding, OCTETS};
use crate::http::body;
use crate::http::dtype::{Dtype, NUMBER_BYTES, write_list};
use crate::http::failure::{Cause, Failure};
use crate::http::negotiation;
use crate::routes::vectors::Texts;

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new().route("/embed", post(vectors)).route("/tokenize", post(tokenize)).route("/info", get(info))
}

#[derive(Deserialize)]
#[serde(expecting = "an object with inputs")]
struct Embed {
    inputs: Texts,
    /// False is refused where the model's own files say that its vectors have length one.
    #[serde(default)]
    normalize: Option<bool>,
    /// Vectors as the library has them: of length one where the model's own files say so. Text Embeddings Inference has no word
    /// for it, and reads over this one.
    #[serde(default)]
    as_model_says: bool,
    /// False refuses texts that are too long, instead of cutting them.
    #[serde(default)]
    truncate: Option<bool>,
    #[serde(default)]
    truncation_direction: Direction,
    #[serde(default)]
    prompt_name: Option<PromptName>,
    #[serde(default)]
    dimensions: Option<usize>,
    /// Of vectors that come as bytes.
    #[serde(default)]
    embedding_dtype: Option<Dtype>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
enum Direction {
    #[serde(alias = "left")]
    Left,
    #[default]
    #[serde(alias = "right")]
    Right,
}

/// What sentence-transformers calls the prompts that [`Role`] chooses between.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum PromptName {
    Query,
    #[serde(alias = "document", alias = "corpus")]
    Passage,
}

#[derive(Deserialize)]
#[serde(expecting = "an object with inputs")]
struct Tokenize {
    inputs: Texts,
    #[serde(default = "yes")]
    add_special_tokens: bool,
}

#[derive(Serialize)]
struct Token {
    id: i32,
    text: String,
    special: bool,
    /// Bytes of UTF-8.
    start: Option<usize>,
    stop: Option<usize>,
}

const fn yes() -> bool {
    true
}

async fn vectors(State(app): State<Arc<App>>, request: Request) -> Result<Response, Failure> {
    compute(&app, request, answer).await
}

fn answer(app: &App, input: &Input) -> Result<Reply, Failure> {
    let asked: Embed = body::parse(&input.headers, &input.body)?;
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
        let Tokenize { inputs, add_special_tokens } = body::parse(&input.headers, &input.body)?;
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

async fn info(State(app): State<Arc<App>>) -> Json<Value> {
    let (settings, spec, batching) = (&app.settings, app.engine.spec(), app.engine.batching());
    let wanted = spec.devices.iter().map(|device| device.batch_tokens).max();
    let pooling = match app.model.pooling {
        Pooling::Mean => "mean",
        Pooling::Cls => "cls",
        Pooling::Max => "max",
        Pooling::Last => "last_token",
    };
    Json(json!({
        "model_id": settings.model_name,
        "model_sha": null,
        "model_dtype": spec.dtype,
        "model_type": {"embedding": {"pooling": pooling}},
        "max_concurrent_requests": settings.max_concurrent.saturating_add(settings.max_queue),
        "max_input_length": app.engine.max_tokens(),
        "max_batch_tokens": batching.max_tokens.or(wanted),
        "max_batch_requests": batching.max_rows,
        "max_client_batch_size": settings.max_inputs,
        "auto_truncate": true,
        "tokenization_workers": null,
        "version": env!("CARGO_PKG_VERSION"),
    }))
}

#[cfg(test)]
pub(super) fn fields() -> [Vec<&'static str>; 2] {
    use crate::openapi::tests::fields_of;
    [fields_of::<Embed>(), fields_of::<Tokenize>()]
}
