//! Export: what a request took, as spans for an OpenTelemetry collector, where one was named (`--otlp-endpoint`).
//!
//! A request is a span of its caller's trace, or of a new one; under it lie one for each time that it waited for its turn and
//! one for each time that it ran. They leave in batches, from a thread of their own, over OTLP in protobuf; where the collector
//! cannot keep up they are dropped, and no request waits for it. What OpenTelemetry's environment variables say counts: the
//! sampler, headers, the service's name. Texts, keys and paths of clients are in none.

use std::time::{Duration, SystemTime};

use axum::http::{Method, StatusCode};
use opentelemetry::trace::{Span as _, SpanBuilder, SpanKind, Status, TraceContextExt, TracerProvider};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider, Span};
use pullquote_core::engine::Work;
use pullquote_core::error::{Error, ErrorKind, Result};
use url::Url;

use crate::fetch::http_client;
use crate::http::trace_context::Trace;
use crate::settings::Settings;

/// How long a batch may take to arrive, and the last ones when the server stops.
const PATIENCE: Duration = Duration::from_secs(5);

/// Names this process where nothing in the environment does.
const SERVICE: &str = "pullquote";

/// Routes that are asked every few seconds by machines, and would fill every trace store with nothing.
const UNTOLD: [&str; 3] = ["/live", "/health", "/metrics"];

/// Spans on their way to a collector.
pub(crate) struct Exporter {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
}

/// The span of a request that is being answered.
pub(crate) struct RequestSpan(Span);

impl Exporter {
    /// None where no collector was named.
    pub(crate) fn new(settings: &Settings) -> Result<Option<Self>> {
        let Some(address) = &settings.otlp_endpoint else { return Ok(None) };
        let invalid = |message: String| Error::new(ErrorKind::InvalidArgument, message);
        let endpoint = Url::parse(&format!("{}/v1/traces", address.trim_end_matches('/'))).ok();
        let endpoint = endpoint
            .filter(|url| matches!(url.scheme(), "http" | "https"))
            .ok_or_else(|| invalid(format!("otlp_endpoint must be like http://localhost:4318, not {address:?}")))?;
        let client =
            http_client::blocking_builder().timeout(PATIENCE).build().map_err(|error| http_client::unfit(&error))?;
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_endpoint(endpoint)
            .with_timeout(PATIENCE)
            .build()
            .map_err(|error| invalid(format!("otlp_endpoint {address:?} cannot be used: {error}")))?;
        let resource = Resource::builder();
        let is_named = std::env::var_os("OTEL_SERVICE_NAME").is_some_and(|name| !name.is_empty());
        let resource = if is_named { resource } else { resource.with_service_name(SERVICE) };
        let provider =
            SdkTracerProvider::builder().with_resource(resource.build()).with_batch_exporter(exporter).build();
        Ok(Some(Self { tracer: provider.tracer(SERVICE), provider }))
    }

    /// Begins a request's span; none for those that tell nothing.
    pub(crate) fn request(&self, caller: Option<&Trace>, method: &Method, route: &str) -> Option<RequestSpan> {
        if UNTOLD.contains(&route) {
            return None;
        }
        let attributes = [
            KeyValue::new("http.request.method", method.as_str().to_owned()),
            KeyValue::new("http.route", route.to_owned()),
        ];
        let span =
            SpanBuilder::from_name(format!("{method} {route}")).with_kind(SpanKind::Server).with_attributes(attributes);
        let context =
            caller.map_or_else(Context::new, |caller| Context::new().with_remote_span_context(caller.parent()));
        Some(RequestSpan(span.start_with_context(&self.tracer, &context)))
    }

    /// A part of a request that has just ended.
    pub(crate) fn part(&self, of: &Trace, name: &'static str, took: Duration) {
        let ended = SystemTime::now();
        let context = Context::new().with_remote_span_context(of.context());
        let span = SpanBuilder::from_name(name).with_start_time(ended - took);
        span.start_with_context(&self.tracer, &context).end_with_timestamp(ended);
    }

    /// Sends what is left.
    pub(crate) fn stop(&self) {
        if let Err(error) = self.provider.shutdown_with_timeout(PATIENCE) {
            tracing::warn!(%error, "the last spans may not have reached the collector");
        }
    }
}

impl RequestSpan {
    /// Its place in its trace.
    pub(crate) fn trace(&self) -> Trace {
        Trace::of(self.0.span_context())
    }

    /// Ends it with what the request came to.
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
