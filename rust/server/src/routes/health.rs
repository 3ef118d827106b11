//! `GET /live`: whether the process answers at all. `GET /health`: whether it encodes. `GET /metrics`: what it counts.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::IntoResponse;
use pullquote_core::error::{Error, ErrorKind};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::highlights::failure::NATIVE;
use super::llama_cpp;
use super::route::{Api, Route};
use super::schemas::Schemas;
use super::tei::failure::TEI;
use crate::app::App;
use crate::http::failure::{Cause, Failure};
use crate::http::metrics::devices::{self, DeviceHealth};
use crate::http::metrics::prometheus_text::{CONTENT_TYPE as PROMETHEUS, prometheus_text};
use crate::http::metrics::{CONTENT_TYPE as METRICS, Load, OPEN_METRICS};
use crate::http::negotiation::preferred;
use crate::http::route_table::Access;
use crate::http::unix_time;

pub(super) const API: Api = Api { tag: "server", errors: &NATIVE };
/// Text Embeddings Inference has `/` and `/ping` too.
pub(super) const TEI_API: Api = Api { errors: &TEI, ..API };

pub(super) fn routes(schemas: &mut Schemas) -> Vec<Route> {
    let open = |route| Route { access: Access::Open, ..route };
    let text = [METRICS, PROMETHEUS].map(|kind| (kind, json!({"type": "string"}))).into();
    let healthy = schemas.response::<Healthy>();
    let summary = "Check that texts are encoded";
    vec![
        open(API.get("/live", live, "live", "Check that the process answers"))
            .writes_json("It does.", schemas.response::<Live>()),
        open(API.get("/health", health, "health", summary))
            .described(
                "It is healthy if a request encoded a text in the last two seconds; otherwise the server encodes a small text.",
            )
            .writes_json("They are.", healthy.clone()),
        open(llama_cpp::API.get("/v1/health", health, "healthV1", summary))
            .described("As `/health`.")
            .writes_json("They are.", healthy.clone()),
        open(TEI_API.get("/ping", health, "ping", summary))
            .described("As `/health`.")
            .writes_json("They are.", healthy),
        open(API.get("/metrics", metrics, "metrics", "Return metrics"))
            .described("OpenMetrics, or Prometheus's text format for clients that accept only that (`text/plain`).")
            .writes(200, "Metrics for Prometheus.", text)
            .fails(&[500]),
    ]
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
            Ok(Json(Healthy { healthy: true, status: "ok", devices, unix: unix_time().as_secs_f64() }))
        }
        Err(error) => {
            let message = format!("texts are not being encoded: {}", error.message());
            Err(Failure::new(Cause::Unhealthy, message))
        }
    }
}

async fn metrics(State(app): State<Arc<App>>, headers: HeaderMap) -> Result<impl IntoResponse, Failure> {
    // The store's size waits for its writes.
    let text = tokio::task::spawn_blocking(move || {
        let ((running_requests, queued_requests), stored) = (app.admission.state(), app.store.size());
        let (stored_documents, stored_bytes) = (stored.documents, stored.bytes);
        let unread_bodies = app.admission.bodies.unread();
        let load = Load { running_requests, queued_requests, unread_bodies, stored_documents, stored_bytes };
        app.metrics.text(&app.engine, load)
    });
    let failed = || Error::new(ErrorKind::Internal, "the metrics cannot be written");
    let text = text.await.ok().and_then(Result::ok).ok_or_else(failed)?;
    Ok(match preferred(&headers, &[OPEN_METRICS, "text/plain"]) {
        OPEN_METRICS => ([(header::CONTENT_TYPE, METRICS)], text),
        _ => ([(header::CONTENT_TYPE, PROMETHEUS)], prometheus_text(&text)),
    })
}
