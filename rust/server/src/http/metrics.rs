//! The server's metrics, for Prometheus.

pub(crate) mod devices;
pub(crate) mod prometheus_text;
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
use prometheus_client::registry::{Metric, Registry, Unit};
use pullquote_core::engine::{Engine, Work};

use crate::http::metrics::devices::DeviceMetrics;
use crate::http::metrics::stages::StageMetrics;
use crate::net::connections::ConnectionMetrics;

pub(crate) const OPEN_METRICS: &str = "application/openmetrics-text";
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What `/metrics` reads of the server when it is called.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) running_requests: usize,
    pub(crate) queued_requests: usize,
    pub(crate) unread_bodies: usize,
    pub(crate) stored_documents: usize,
    pub(crate) stored_bytes: usize,
}

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
    unread: Gauge,
    connections: Gauge,
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

fn add<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}

fn bytes(registry: &mut Registry, name: &str, help: &str) -> Gauge {
    add_with_unit(registry, name, help, Unit::Bytes, Gauge::default())
}

fn add_with_unit<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, unit: Unit, metric: M) -> M {
    registry.register_with_unit(name, help, unit, metric.clone());
    metric
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut all = Registry::with_prefix("pullquote");
        let metrics = Self {
            registry: Registry::default(),
            requests: add(&mut all, "requests", "Completed requests by method, route and status"),
            durations: add_with_unit(
                &mut all,
                "request_duration",
                "Time from a request's headers to its response",
                Unit::Seconds,
                Family::new_with_constructor(seconds),
            ),
            queued: add_with_unit(&mut all, "request_queue", "Time a request spent queued", Unit::Seconds, seconds()),
            failures: add(&mut all, "failures", "Failed requests and connections by cause"),
            windows: add(&mut all, "windows", "Windows that pages were cut into"),
            windows_scored: add(&mut all, "windows_scored", "Windows compared with a query"),
            encoded: add(&mut all, "rows_encoded", "Windows, queries and texts encoded"),
            tokens: add(&mut all, "tokens_encoded", "Tokens encoded"),
            truncated: add(&mut all, "inputs_truncated", "Windows and texts truncated at the model's limit"),
            running: add(&mut all, "requests_running", "Requests being processed"),
            waiting: add(&mut all, "requests_waiting", "Requests queued"),
            unread: add(&mut all, "bodies_unread", "Bodies of requests that are being read"),
            connections: add(&mut all, "connections", "Open connections"),
            cache_pages: add(&mut all, "cache_pages", "Pages in the page cache"),
            cache_bytes: bytes(&mut all, "cache", "Memory held by the page cache"),
            cache_hits: add(&mut all, "cache_hits", "Page cache hits"),
            cache_misses: add(&mut all, "cache_misses", "Page cache misses"),
            documents: add(&mut all, "documents", "Stored documents"),
            document_bytes: bytes(&mut all, "documents", "Size of the stored documents"),
            resident: bytes(&mut all, "resident_memory", "Resident memory of the process"),
            devices: DeviceMetrics::new(&mut all),
            stages: StageMetrics::new(&mut all),
        };
        Self { registry: all, ..metrics }
    }

    pub(crate) fn request(&self, method: &Method, route: &str, status: StatusCode, took: Duration) {
        let labels = RequestLabels { method: known(method), route: route.to_owned(), status: status.as_u16() };
        self.requests.get_or_create(&labels).inc();
        self.durations.get_or_create(&RouteLabel { route: labels.route }).observe(took.as_secs_f64());
    }

    pub(crate) fn work(&self, queued: Duration, work: &Work) {
        self.queued.observe(queued.as_secs_f64());
        self.count(work);
    }

    /// Counts work that was done after the answer had begun.
    pub(crate) fn count(&self, work: &Work) {
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

    pub(crate) fn text(&self, engine: &Engine, load: Load) -> Result<String, fmt::Error> {
        let cache = engine.cache();
        let gauges = [
            (&self.running, load.running_requests),
            (&self.waiting, load.queued_requests),
            (&self.unread, load.unread_bodies),
            (&self.cache_pages, cache.pages),
            (&self.cache_bytes, cache.bytes),
            (&self.documents, load.stored_documents),
            (&self.document_bytes, load.stored_bytes),
        ];
        for (gauge, value) in gauges {
            gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        }
        self.devices.set(engine.devices());
        self.stages.set(engine.profiler().totals());
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

impl ConnectionMetrics for Metrics {
    fn opened(&self) {
        self.connections.inc();
    }

    fn closed(&self) {
        self.connections.dec();
    }

    fn failed(&self, cause: &'static str) {
        self.failure(cause);
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
