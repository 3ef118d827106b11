//! `POST /v1/embeddings` and `GET /v1/models`, as `OpenAI`'s clients know them.
//!
//! Whatever model a request names, the one that is served answers, and says its name. Fields that belong to `OpenAI`'s own
//! business (`user`) are read over.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pullquote_core::error::ErrorKind;
use pullquote_core::tokens::Role;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Name;
use crate::admission::{Input, Reply, compute};
use crate::app::App;
use crate::body;
use crate::failure::{Cause, Failure};
use crate::vectors::{Texts, embed};

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/v1/embeddings", post(embeddings))
        .route("/v1/models", get(models))
        .route("/v1/models/{model}", get(model))
}

#[derive(Deserialize)]
#[serde(expecting = "an object with an input")]
struct Asked {
    input: Texts,
    #[serde(default)]
    encoding_format: EncodingFormat,
    #[serde(default)]
    dimensions: Option<usize>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum EncodingFormat {
    #[default]
    Float,
    /// Little-endian float32.
    Base64,
}

#[derive(Serialize)]
struct Answer<'vectors> {
    object: &'static str,
    data: Vec<Row<'vectors>>,
    model: &'vectors str,
    usage: Usage,
}

#[derive(Serialize)]
struct Row<'vectors> {
    object: &'static str,
    index: usize,
    embedding: Values<'vectors>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Values<'vectors> {
    Float(&'vectors [f32]),
    Base64(String),
}

#[derive(Serialize)]
struct Usage {
    prompt_tokens: usize,
    total_tokens: usize,
}

async fn embeddings(State(app): State<Arc<App>>, request: Request) -> Result<Response, Failure> {
    compute(&app, request, answer).await
}

fn answer(app: &App, input: &Input) -> Result<Reply, Failure> {
    let Asked { input: texts, encoding_format, dimensions } = body::parse(&input.headers, &input.body)?;
    check_dimensions(dimensions, app)?;
    let texts = texts.read("input", app)?;
    let vectors = embed(app, &texts, Role::Passage, &input.call(None))?;
    let row = |(index, vector)| Row { object: "embedding", index, embedding: values(vector, encoding_format) };
    let answer = Answer {
        object: "list",
        data: vectors.rows().enumerate().map(row).collect(),
        model: &app.settings.model_name,
        usage: Usage { prompt_tokens: vectors.work.tokens, total_tokens: vectors.work.tokens },
    };
    Reply::json(&answer, vectors.work)
}

/// Cutting vectors off is for models that were trained for it; none of those that are read here says so.
pub(super) fn check_dimensions(asked: Option<usize>, app: &App) -> Result<(), Failure> {
    let own = app.engine.spec().dimension;
    match asked {
        Some(asked) if asked != own => Err(Failure::of_field(
            Cause::Unprocessable,
            "dimensions",
            format!("this model's vectors have {own} dimensions and cannot be cut to {asked}; leave it out"),
        )),
        _ => Ok(()),
    }
}

fn values(vector: &[f32], format: EncodingFormat) -> Values<'_> {
    match format {
        EncodingFormat::Float => Values::Float(vector),
        EncodingFormat::Base64 => {
            Values::Base64(STANDARD.encode(vector.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>()))
        }
    }
}

async fn models(State(app): State<Arc<App>>) -> Json<Value> {
    Json(json!({"object": "list", "data": [described(&app)]}))
}

async fn model(State(app): State<Arc<App>>, Name(model): Name) -> Result<Json<Value>, Failure> {
    if model == app.settings.model_name {
        return Ok(Json(described(&app)));
    }
    let message = format!("there is no model {model:?} here, only {:?}", app.settings.model_name);
    Err(Failure::of_field(Cause::Core(ErrorKind::NotFound), "model", message))
}

fn described(app: &App) -> Value {
    let name = &app.settings.model_name;
    json!({"id": name, "object": "model", "created": app.started, "owned_by": "pullquote", "max_model_len": app.engine.max_tokens()})
}

#[cfg(test)]
pub(super) fn fields() -> Vec<&'static str> {
    crate::openapi::tests::fields_of::<Asked>()
}
