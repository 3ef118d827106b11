//! `GET /v1/models`, as clients of `OpenAI`, vLLM, llama.cpp and infinity know it.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::API;
use crate::app::App;
use crate::http::failure::Failure;
use crate::routes::Name;
use crate::routes::route::Route;
use crate::routes::schemas::Schemas;
use crate::routes::vectors::{ModelName, check_model};

pub(in crate::routes) fn routes(schemas: &mut Schemas) -> Vec<Route> {
    let name = json!({
        "name": "model",
        "in": "path",
        "required": true,
        "schema": {"type": "string", "minLength": 1},
        "example": "{model_name}",
    });
    vec![
        API.get("/v1/models", models, "listModels", "List the model")
            .writes_json("The only model.", schemas.response::<Models>()),
        API.get("/models", models, "listModelsAtRoot", "List the model")
            .writes_json("The only model.", schemas.response::<Models>()),
        Route { parameters: vec![name], ..API.get("/v1/models/{model}", model, "getModel", "Return the model") }
            .writes_json("The model.", schemas.response::<ServedModel>())
            .fails(&[404, 422]),
    ]
}

#[derive(Serialize, JsonSchema)]
struct Models<'app> {
    #[schemars(extend("const" = "list"))]
    object: &'static str,
    data: [ServedModel<'app>; 1],
}

#[derive(Serialize, JsonSchema)]
struct ServedModel<'app> {
    id: &'app str,
    #[schemars(extend("const" = "model"))]
    object: &'static str,
    /// Start of the server, in seconds since 1970.
    created: u64,
    owned_by: &'static str,
    /// Hash of weights, tokenizer and configuration; null if the weights are unknown.
    model_sha: Option<String>,
    /// Maximum number of tokens of a text.
    max_model_len: usize,
    /// As infinity's clients read it.
    stats: ModelStats,
    #[schemars(extend("const" = "pullquote"))]
    backend: &'static str,
    /// As infinity's clients read it.
    capabilities: [&'static str; 2],
}

/// Requests of the server.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct ModelStats {
    /// Queued requests, as a share of the maximum.
    queue_fraction: f64,
    /// Queued requests.
    queue_absolute: usize,
    /// Running requests.
    results_pending: usize,
    /// Maximum number of texts of a batch, if it is limited.
    batch_size: Option<usize>,
}

async fn models(State(app): State<Arc<App>>) -> Response {
    Json(Models { object: "list", data: [served(&app, app.model_id().await)] }).into_response()
}

async fn model(State(app): State<Arc<App>>, Name(model): Name) -> Result<Response, Failure> {
    check_model(&ModelName(Some(model)), &app)?;
    Ok(Json(served(&app, app.model_id().await)).into_response())
}

fn served(app: &App, model_sha: Option<String>) -> ServedModel<'_> {
    let (running, queued) = app.admission.state();
    ServedModel {
        id: &app.settings.model_name,
        object: "model",
        created: app.started,
        owned_by: "pullquote",
        model_sha,
        max_model_len: app.engine.max_tokens(),
        stats: ModelStats {
            #[expect(clippy::cast_precision_loss, reason = "a fraction of few requests")]
            queue_fraction: queued as f64 / app.settings.max_queue.max(1) as f64,
            queue_absolute: queued,
            results_pending: running,
            batch_size: app.engine.batching().max_rows,
        },
        backend: "pullquote",
        capabilities: ["embed", "rerank"],
    }
}
