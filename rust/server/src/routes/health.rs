//! `GET /live`: whether the process answers at all. `GET /health`: whether it encodes. `GET /metrics`: what it counts.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Json, Router};
use pullquote_core::error::{Error, ErrorKind};
use schemars::JsonSchema;
use serde::Serialize;

use crate::app::App;
use crate::http::failure::{Cause, Failure};
use crate::http::health::Health;
pub(crate) use crate::http::metrics::CONTENT_TYPE as METRICS;
use crate::http::metrics::devices::{self, DeviceHealth};

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new().route("/live", get(live)).route("/health", get(health)).route("/metrics", get(metrics))
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Live {
    #[schemars(extend("const" = true))]
    live: bool,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Healthy {
    #[schemars(extend("const" = true))]
    healthy: bool,
    devices: Vec<DeviceHealth>,
}

async fn live() -> Json<Live> {
    Json(Live { live: true })
}

async fn health(State(app): State<Arc<App>>) -> Result<Json<Healthy>, Failure> {
    match Health::check(&app).await {
        Ok(()) => Ok(Json(Healthy { healthy: true, devices: devices::health(app.engine.devices()) })),
        Err(error) => {
            let message = format!("texts are not being encoded: {}", error.message());
            Err(Failure::new(Cause::Unhealthy, message))
        }
    }
}

async fn metrics(State(app): State<Arc<App>>) -> Result<impl IntoResponse, Failure> {
    // The store says how much it holds when it has finished writing.
    let text = tokio::task::spawn_blocking(move || app.metrics.text(&app)).await;
    let failed = || Error::new(ErrorKind::Internal, "the metrics cannot be written");
    let text = text.ok().and_then(Result::ok).ok_or_else(failed)?;
    Ok(([(header::CONTENT_TYPE, METRICS)], text))
}
