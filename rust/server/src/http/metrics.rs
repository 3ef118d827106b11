//! The server's metrics, for Prometheus.

pub(crate) mod devices;
pub(crate) mod stages;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::http::{Method, StatusCode};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use pullquote_core::engine::Work;

use crate::app::App;
use crate::http::metrics::devices::DeviceMetrics;
use crate::http::metrics::stages::StageMetrics;

pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Counters are incremented as events happen, gauges are set for each `/metrics`.
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    durations: Family<RouteLabel, Histogram, fn() -> Histogram>,
    queued: Histogram,
    failures: Family<CauseLabel, Counter>,
    windows: Counter,
    windows_scored: Counter,
    encoded: Counter,
    tokens: Counter,
    truncated: Counter,
    running: Gauge,
    waiting: Gauge,
    pub(crate) connections: Gauge,
    cache_pages: Gauge,
    cache_bytes: Gauge,
    cache_hits: Counter<u64, AtomicU64>,
    cache_misses: Counter<u64, AtomicU64>,
    documents: Gauge,
    document_bytes: Gauge,
    resident: Gauge,
    devices: DeviceMetrics,
    stages: StageMetrics,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: &'static str,
    route: String,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabel {
    route: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CauseLabel {
    cause: String,
}

/// From 0.1 ms to about a minute.
fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.0001, 2.0, 20))
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("pullquote");
        let metrics = Self {
            registry: Registry::default(),
            requests: Family::default(),
            durations: Family::new_with_constructor(seconds),
            queued: seconds(),
            failures: Family::default(),
            windows: Counter::default(),
            windows_scored: Counter::default(),
            encoded: Counter::default(),
            tokens: Counter::default(),
            truncated: Counter::default(),
            running: Gauge::default(),
            waiting: Gauge::default(),
            connections: Gauge::default(),
            cache_pages: Gauge::default(),
            cache_bytes: Gauge::default(),
            cache_hits: Counter::default(),
            cache_misses: Counter::default(),
            documents: Gauge::default(),
            document_bytes: Gauge::default(),
            resident: Gauge::default(),
            devices: DeviceMetrics::default(),
            stages: StageMetrics::default(),
        };
        registry.register("requests", "Completed requests by method, route and status", metrics.requests.clone());
        registry.register_with_unit(
            "request_duration",
            "Time from a request's headers to its response",
            Unit::Seconds,
            metrics.durations.clone(),
        );
        registry.register_with_unit(
            "request_queue",
            "Time a request spent queued",
            Unit::Seconds,
            metrics.queued.clone(),
        );
        registry.register("failures", "Failed requests and connections by cause", metrics.failures.clone());
        registry.register("windows", "Windows that pages were cut into", metrics.windows.clone());
        registry.register("windows_scored", "Windows compared with a query", metrics.windows_scored.clone());
        registry.register("rows_encoded", "Windows, queries and texts encoded", metrics.encoded.clone());
        registry.register("tokens_encoded", "Tokens encoded", metrics.tokens.clone());
        registry.register(
            "inputs_truncated",
            "Windows and texts truncated at the model's limit",
            metrics.truncated.clone(),
        );
        registry.register("requests_running", "Requests being processed", metrics.running.clone());
        registry.register("requests_waiting", "Requests queued", metrics.waiting.clone());
        registry.register("connections", "Open connections", metrics.connections.clone());
        registry.register("cache_pages", "Pages in the page cache", metrics.cache_pages.clone());
        registry.register_with_unit("cache", "Memory held by the page cache", Unit::Bytes, metrics.cache_bytes.clone());
        registry.register("cache_hits", "Page cache hits", metrics.cache_hits.clone());
        registry.register("cache_misses", "Page cache misses", metrics.cache_misses.clone());
        registry.register("documents", "Stored documents", metrics.documents.clone());
        registry.register_with_unit(
            "documents",
            "Size of the stored documents",
            Unit::Bytes,
            metrics.document_bytes.clone(),
        );
        registry.register_with_unit(
            "resident_memory",
            "Resident memory of the process",
            Unit::Bytes,
            metrics.resident.clone(),
        );
        metrics.devices.register(&mut registry);
        metrics.stages.register(&mut registry);
        Self { registry, ..metrics }
    }

    pub(crate) fn request(&self, method: &Method, route: &str, status: StatusCode, took: Duration) {
        let labels = RequestLabels { method: known(method), route: route.to_owned(), status: status.as_u16() };
        self.requests.get_or_create(&labels).inc();
        self.durations.get_or_create(&RouteLabel { route: labels.route }).observe(took.as_secs_f64());
    }

    pub(crate) fn work(&self, queued: Duration, work: &Work) {
        self.queued.observe(queued.as_secs_f64());
        for (counter, count) in [
            (&self.windows, work.windows),
            (&self.windows_scored, work.windows_scored),
            (&self.encoded, work.encoded),
            (&self.tokens, work.tokens),
            (&self.truncated, work.truncated),
        ] {
            counter.inc_by(count as u64);
        }
    }

    pub(crate) fn failure(&self, cause: &str) {
        self.failures.get_or_create(&CauseLabel { cause: cause.to_owned() }).inc();
    }

    pub(crate) fn text(&self, app: &App) -> Result<String, fmt::Error> {
        let (running, waiting) = app.admission.state();
        let (cache, stored) = (app.engine.cache(), app.store.size());
        let gauges = [
            (&self.running, running),
            (&self.waiting, waiting),
            (&self.cache_pages, cache.pages),
            (&self.cache_bytes, cache.bytes),
            (&self.documents, stored.documents),
            (&self.document_bytes, stored.bytes),
        ];
        for (gauge, value) in gauges {
            gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        }
        self.devices.set(app.engine.devices());
        self.stages.set(app.engine.profiler().totals());
        if let Some(bytes) = resident_bytes() {
            self.resident.set(bytes);
        }
        self.cache_hits.inner().store(cache.hits, Ordering::Relaxed);
        self.cache_misses.inner().store(cache.misses, Ordering::Relaxed);
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

/// The label of a method: clients can invent any number of others.
fn known(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

/// Resident memory, on Linux.
fn resident_bytes() -> Option<i64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: i64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}
