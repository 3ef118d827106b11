//! Spans of requests for an OpenTelemetry collector (`--otlp-endpoint`).
//!
//! A request is a span of its caller's trace, or of a new one. Below it are spans of its time in the queue and of its
//! work. A thread of OpenTelemetry sends them in batches, over OTLP in protobuf, and drops them if the collector cannot
//! keep up; no request waits for it. OpenTelemetry's environment variables set the sampler, headers and the service's
//! name. Spans contain no text, key or path of a client.

use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

use axum::http::{Method, StatusCode};
use opentelemetry::trace::{Span as _, SpanBuilder, SpanContext, SpanKind, Status, TraceContextExt, TracerProvider};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{self, SdkTracer, SdkTracerProvider, Span, SpanData};
use pullquote_core::engine::Work;
use pullquote_core::error::{Error, ErrorKind, Result};
use pullquote_core::runtime::sync::lock;
use url::Url;

use crate::net::http_client;
use crate::settings::Settings;

/// For sending a batch, and for the last ones when the server stops.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(5);

/// The service's name, unless the environment has one.
const SERVICE: &str = "pullquote";

/// Routes that probes call every few seconds.
const UNTRACED: [&str; 3] = ["/live", "/health", "/metrics"];

pub(crate) struct Exporter {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
}

const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Sends spans, and logs failures once a minute instead of every five seconds.
#[derive(Debug)]
struct QuietExporter {
    exporter: SpanExporter,
    logged: Mutex<Option<Instant>>,
}

impl trace::SpanExporter for QuietExporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        if let Err(error) = self.exporter.export(batch).await {
            let mut logged = lock(&self.logged);
            if logged.is_none_or(|logged| logged.elapsed() >= LOG_INTERVAL) {
                *logged = Some(Instant::now());
                tracing::warn!(%error, spans, "spans did not reach the collector; this is logged once a minute");
            }
        }
        Ok(())
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

pub(crate) struct RequestSpan(Span);

impl Exporter {
    /// `None` without `--otlp-endpoint`.
    pub(crate) fn new(settings: &Settings) -> Result<Option<Self>> {
        let Some(address) = &settings.otlp_endpoint else { return Ok(None) };
        let invalid = |message: String| Error::new(ErrorKind::InvalidArgument, message);
        let endpoint = Url::parse(&format!("{}/v1/traces", address.trim_end_matches('/'))).ok();
        let endpoint = endpoint
            .filter(|url| matches!(url.scheme(), "http" | "https"))
            .ok_or_else(|| invalid(format!("otlp_endpoint must be like http://localhost:4318, not {address:?}")))?;
        let client = http_client::blocking_builder()
            .timeout(EXPORT_TIMEOUT)
            .build()
            .map_err(|error| http_client::cannot_be_built(&error))?;
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_endpoint(endpoint)
            .with_timeout(EXPORT_TIMEOUT)
            .build()
            .map_err(|error| invalid(format!("otlp_endpoint {address:?} cannot be used: {error}")))?;
        let exporter = QuietExporter { exporter, logged: Mutex::default() };
        let resource = Resource::builder();
        let is_named = std::env::var_os("OTEL_SERVICE_NAME").is_some_and(|name| !name.is_empty());
        let resource = if is_named { resource } else { resource.with_service_name(SERVICE) };
        let provider =
            SdkTracerProvider::builder().with_resource(resource.build()).with_batch_exporter(exporter).build();
        Ok(Some(Self { tracer: provider.tracer(SERVICE), provider }))
    }

    /// Starts the span of a request; `None` for probes.
    pub(crate) fn request(&self, caller: Option<&SpanContext>, method: &Method, route: &str) -> Option<RequestSpan> {
        if UNTRACED.contains(&route) {
            return None;
        }
        let attributes = [
            KeyValue::new("http.request.method", method.as_str().to_owned()),
            KeyValue::new("http.route", route.to_owned()),
        ];
        let span =
            SpanBuilder::from_name(format!("{method} {route}")).with_kind(SpanKind::Server).with_attributes(attributes);
        let context =
            caller.map_or_else(Context::new, |caller| Context::new().with_remote_span_context(caller.clone()));
        Some(RequestSpan(span.start_with_context(&self.tracer, &context)))
    }

    /// A part of a request, which has just ended.
    pub(crate) fn part(&self, of: &SpanContext, name: &'static str, took: Duration) {
        let ended = SystemTime::now();
        let context = Context::new().with_remote_span_context(of.clone());
        let span = SpanBuilder::from_name(name).with_start_time(ended - took);
        span.start_with_context(&self.tracer, &context).end_with_timestamp(ended);
    }

    /// Sends what is left.
    pub(crate) fn stop(&self) {
        if let Err(error) = self.provider.shutdown_with_timeout(EXPORT_TIMEOUT) {
            tracing::warn!(%error, "the last spans may not have reached the collector");
        }
    }
}

impl RequestSpan {
    pub(crate) fn context(&self) -> SpanContext {
        self.0.span_context().clone()
    }

    pub(crate) fn end(&mut self, status: StatusCode, failure: Option<&str>, work: Option<&Work>) {
        let span = &mut self.0;
        span.set_attribute(KeyValue::new("http.response.status_code", i64::from(status.as_u16())));
        if let Some(failure) = failure {
            span.set_attribute(KeyValue::new("error.type", failure.to_owned()));
        }
        if status.is_server_error() {
            span.set_status(Status::error(failure.unwrap_or_default().to_owned()));
        }
        if let Some(work) = work {
            let counts = [
                ("windows", work.windows),
                ("windows_scored", work.windows_scored),
                ("encoded", work.encoded),
                ("tokens", work.tokens),
                ("truncated", work.truncated),
            ];
            let count = |value: usize| i64::try_from(value).unwrap_or(i64::MAX);
            span.set_attributes(counts.map(|(name, value)| KeyValue::new(format!("pullquote.{name}"), count(value))));
            let times = [
                ("cutting", work.cutting),
                ("tokenizing", work.tokenizing),
                ("waiting", work.waiting),
                ("ranking", work.ranking),
            ];
            let seconds =
                |(name, time): (&str, Duration)| KeyValue::new(format!("pullquote.{name}"), time.as_secs_f64());
            span.set_attributes(times.map(seconds));
        }
        span.end();
    }
}
