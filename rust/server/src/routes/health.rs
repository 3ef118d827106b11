//! `GET /live`: whether the process answers at all. `GET /health`: whether it encodes. `GET /metrics`: what it counts.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

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
pub(crate) use crate::http::metrics::CONTENT_TYPE as METRICS;
use crate::http::metrics::Load;
use crate::http::metrics::devices::{self, DeviceHealth};

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/live", get(live))
        .route("/health", get(health))
        .route("/v1/health", get(health))
        .route("/ping", get(health))
        .route("/metrics", get(metrics))
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Live {
    #[schemars(extend("const" = true))]
    live: bool,
}

#[derive(Serialize, JsonSchema)]
#[expect(clippy::struct_field_names, reason = "the field is what programs compare")]
pub(crate) struct Healthy {
    #[schemars(extend("const" = true))]
    healthy: bool,
    /// As llama.cpp's clients read it.
    #[schemars(extend("const" = "ok"))]
    status: &'static str,
    devices: Vec<DeviceHealth>,
    /// In seconds since 1970, as infinity's clients read it.
    unix: f64,
}

async fn live() -> Json<Live> {
    Json(Live { live: true })
}

async fn health(State(app): State<Arc<App>>) -> Result<Json<Healthy>, Failure> {
    match app.health.check().await {
        Ok(()) => {
            let devices = devices::health(app.engine.devices());
            Ok(Json(Healthy { healthy: true, status: "ok", devices, unix: unix_time() }))
        }
        Err(error) => {
            let message = format!("texts are not being encoded: {}", error.message());
            Err(Failure::new(Cause::Unhealthy, message))
        }
    }
}

fn unix_time() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

async fn metrics(State(app): State<Arc<App>>) -> Result<impl IntoResponse, Failure> {
    // The store's size waits for its writes.
    let text = tokio::task::spawn_blocking(move || {
        let ((running, waiting), stored) = (app.admission.state(), app.store.size());
        let load = Load { running, waiting, documents: stored.documents, document_bytes: stored.bytes };
        app.metrics.text(&app.engine, load)
    });
    let failed = || Error::new(ErrorKind::Internal, "the metrics cannot be written");
    let text = text.await.ok().and_then(Result::ok).ok_or_else(failed)?;
    Ok(([(header::CONTENT_TYPE, METRICS)], text))
}
