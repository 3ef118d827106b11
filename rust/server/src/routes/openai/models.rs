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
        API.get("/v1/models", models, "listModels", "List the models")
            .writes_json("The model, then the reranker or the pruner.", schemas.response::<Models>()),
        API.get("/models", models, "listModelsAtRoot", "List the models")
            .writes_json("The model, then the reranker or the pruner.", schemas.response::<Models>()),
        Route { parameters: vec![name], ..API.get("/v1/models/{model}", model, "getModel", "Return a model") }
            .writes_json("The model.", schemas.response::<ServedModel>())
            .fails(&[404, 422]),
    ]
}

#[derive(Serialize, JsonSchema)]
struct Models {
    #[schemars(extend("const" = "list"))]
    object: &'static str,
    data: Vec<ServedModel>,
}

#[derive(Serialize, JsonSchema)]
struct ServedModel {
    id: String,
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
    capabilities: Vec<&'static str>,
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
    Json(Models { object: "list", data: served(&app).await }).into_response()
}

async fn model(State(app): State<Arc<App>>, Name(name): Name) -> Result<Response, Failure> {
    let mut served = served(&app).await;
    // The first one has more names.
    let index = match served.iter().position(|model| model.id == name) {
        Some(index) => index,
        None => check_model(&ModelName(Some(name)), &app).map(|()| 0)?,
    };
    Ok(Json(served.swap_remove(index)).into_response())
}

/// The model, and the reranker or the pruner.
async fn served(app: &App) -> Vec<ServedModel> {
    let (running, queued) = app.admission.state();
    let entry = |id: String, model_sha, max_model_len, capabilities| ServedModel {
        id,
        object: "model",
        created: app.started,
        owned_by: "pullquote",
        model_sha,
        max_model_len,
        stats: ModelStats {
            #[expect(clippy::cast_precision_loss, reason = "a fraction of few requests")]
            queue_fraction: queued as f64 / app.settings.max_queue.max(1) as f64,
            queue_absolute: queued,
            results_pending: running,
            batch_size: app.engine.batching().max_rows,
        },
        backend: "pullquote",
        capabilities,
    };
    let (name, longest) = (app.settings.model_name.clone(), app.engine.max_tokens());
    let mut served = vec![entry(name, app.model_id().await, longest, vec!["embed", "rerank"])];
    if let (Some(name), Some(reranker)) = (app.engine.reranker_name(), app.engine.reranker()) {
        served.push(entry(name, app.reranker_id().await, reranker.max_tokens(), vec!["rerank", "classify"]));
    }
    if let Some(pruner) = app.engine.pruner() {
        let longest = pruner.pairs().max_tokens();
        served.push(entry(pruner.name().to_owned(), app.pruner_id().await, longest, vec!["prune"]));
    }
    served
}
