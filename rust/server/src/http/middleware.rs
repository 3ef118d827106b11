//! Middleware of all routes.
//!
//! A request gets an id, a deadline and a priority. Its response gets the id, its times, and for a failure the body.
//! Each request is a line in the log, with the route's pattern, and without any text, key or path of a client.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use opentelemetry::trace::SpanContext;
use pullquote_core::error::{Error, ErrorKind};
use tokio::sync::watch;

use crate::http::auth::Keys;
use crate::http::failure::{Cause, ErrorShape, Failure};
use crate::http::host_check::Hosts;
use crate::http::input::{IGNORED, RequestLimits};
use crate::http::message_head;
use crate::http::metrics::Metrics;
use crate::http::otel::{Exporter, RequestSpan};
use crate::http::reply::RequestTimes;
use crate::http::request_id::{REQUEST_ID, RequestId};
use crate::http::route_table::RouteTable;
use crate::http::tei_headers::{INFERENCE_TIME, QUEUE_TIME, TOTAL_TIME};
use crate::http::trace_context::{self, TRACEPARENT};
use crate::net::body_drain::BodyDrain;

const REQUEST_TIMEOUT: HeaderName = HeaderName::from_static("request-timeout-ms");
const REQUEST_PRIORITY: HeaderName = HeaderName::from_static("request-priority");
/// The header with the kind of a failure, for which not every API has a field.
const ERROR_KIND: HeaderName = HeaderName::from_static("x-error-kind");

/// Headers of answers that CORS exposes to other sites.
pub(crate) const EXPOSED: [HeaderName; 8] =
    [IGNORED, REQUEST_ID, QUEUE_TIME, INFERENCE_TIME, TOTAL_TIME, ERROR_KIND, TRACEPARENT, header::RETRY_AFTER];

/// What the middleware uses for every request.
pub(crate) struct Middleware {
    pub(crate) routes: RouteTable,
    pub(crate) hosts: Hosts,
    pub(crate) keys: Arc<Keys>,
    /// Whether every route but the page at `/` needs a key.
    pub(crate) protect_all: bool,
    /// The longest timeout of a request, and its default.
    pub(crate) timeout: Duration,
    pub(crate) metrics: Arc<Metrics>,
    /// `None` without an OTLP endpoint.
    pub(crate) exporter: Option<Arc<Exporter>>,
    /// True from the first signal on.
    pub(crate) stopping: watch::Receiver<bool>,
}

/// A request in progress. Dropped before its answer, it is recorded as cancelled.
struct RequestGuard<'server> {
    server: &'server Middleware,
    id: RequestId,
    /// `None` without a collector.
    span: Option<RequestSpan>,
    /// `None` without a collector and without a trace of the caller.
    context: Option<SpanContext>,
    method: Method,
    route: String,
    began: Instant,
    /// HTTP/1.1: `connection: close` may end its connection.
    is_http1: bool,
    is_finished: bool,
}

pub(crate) async fn handle(State(server): State<Arc<Middleware>>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let (mut request, drain) = BodyDrain::track(request);
    let id = RequestId::of(request.headers());
    let caller = trace_context::caller(request.headers());
    let route = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str).to_owned();
    let errors = server.routes.errors(request.uri().path());
    let (method, is_http1) = (request.method().clone(), request.version() < Version::HTTP_2);
    let span = server.exporter.as_ref().and_then(|exporter| exporter.request(caller.as_ref(), &method, &route));
    let context = span.as_ref().map(RequestSpan::context).or_else(|| caller.as_ref().map(trace_context::child));
    let guard = RequestGuard { server: &server, id, span, context, method, route, began, is_http1, is_finished: false };
    let response = match server.check(&request, began) {
        Ok(limits) => {
            request.extensions_mut().insert(limits);
            request.extensions_mut().insert(guard.id.clone());
            if let Some(context) = &guard.context {
                request.extensions_mut().insert(context.clone());
            }
            next.run(request).await
        }
        Err(failure) => {
            drop(request);
            failure.into_response()
        }
    };
    let mut response = guard.finish(response, errors);
    if !drain.finish().await {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

impl Middleware {
    /// The checks before any route.
    fn check(&self, request: &Request, began: Instant) -> Result<RequestLimits, Failure> {
        if *self.stopping.borrow() {
            return Err(Failure::new(Cause::ShuttingDown, "the server is stopping; try another one"));
        }
        message_head::check(request.version(), request.headers())?;
        if !self.hosts.allow(request.uri(), request.headers()) {
            let message = "this server rejects the host of this request; --allowed-host allows it";
            return Err(Failure::new(Cause::WrongHost, message));
        }
        let is_open = self.routes.is_open(request.method(), request.uri().path(), self.protect_all);
        let key = if is_open { None } else { self.keys.find(request.headers()) };
        if !is_open && key.is_none() && self.keys.are_required() {
            let message = "this needs a valid key, as authorization: Bearer KEY or x-api-key: KEY";
            return Err(Failure::new(Cause::Core(ErrorKind::Unauthorized), message));
        }
        let headers = request.headers();
        let timeout = timeout(headers)?.map_or(self.timeout, |body| body.min(self.timeout));
        Ok(RequestLimits { deadline: began + timeout, priority: priority(headers)?, key })
    }
}

fn timeout(headers: &HeaderMap) -> Result<Option<Duration>, Failure> {
    let Some(value) = headers.get(REQUEST_TIMEOUT) else { return Ok(None) };
    match value.to_str().ok().and_then(|text| text.trim().parse::<u64>().ok()) {
        Some(milliseconds) if milliseconds > 0 => Ok(Some(Duration::from_millis(milliseconds))),
        _ => {
            let message = format!("{REQUEST_TIMEOUT} must be a whole number of milliseconds above 0, not {value:?}");
            Err(Error::new(ErrorKind::InvalidArgument, message).into())
        }
    }
}

fn priority(headers: &HeaderMap) -> Result<i32, Failure> {
    let Some(value) = headers.get(REQUEST_PRIORITY) else { return Ok(0) };
    value.to_str().ok().and_then(|text| text.trim().parse().ok()).ok_or_else(|| {
        let message = format!(
            "{REQUEST_PRIORITY} must be a whole number (the default is 0, and lower is more urgent), not {value:?}"
        );
        Error::new(ErrorKind::InvalidArgument, message).into()
    })
}

impl RequestGuard<'_> {
    fn finish(mut self, mut response: Response, errors: &'static ErrorShape) -> Response {
        self.is_finished = true;
        let mut failure = response.extensions_mut().remove::<Failure>();
        if let Some(failure) = &mut failure {
            failure.conceal(&self.id);
            response = render(failure, failure.shape.unwrap_or(errors), &self.id, &response);
        }
        let times = response.extensions_mut().remove::<RequestTimes>();
        let total = self.began.elapsed();
        let headers = response.headers_mut();
        if let Ok(id) = HeaderValue::from_str(&self.id.0) {
            headers.insert(REQUEST_ID, id);
        }
        if let Some(value) = self.context.as_ref().and_then(|span| trace_context::headers(span).remove(TRACEPARENT)) {
            headers.insert(TRACEPARENT, value);
        }
        headers.insert(TOTAL_TIME, milliseconds(total));
        // No browser shows JSON with a client's text as a page.
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        if let Some(times) = &times {
            headers.insert(QUEUE_TIME, milliseconds(times.queued));
            headers.insert(INFERENCE_TIME, milliseconds(times.ran));
            if let Some(compute) = times.compute {
                compute.write(headers, times.queued, times.ran, total);
            }
        }
        if self.is_http1 && *self.server.stopping.borrow() {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        self.record(response.status(), failure.as_ref(), times.as_ref(), total);
        response
    }

    fn record(&mut self, status: StatusCode, failure: Option<&Failure>, times: Option<&RequestTimes>, total: Duration) {
        if let Some(mut span) = self.span.take() {
            span.end(
                status,
                failure.map(|failure| failure.cause.row().name).as_deref(),
                times.map(|times| &times.work),
            );
        }
        let metrics = &self.server.metrics;
        metrics.request(&self.method, &self.route, status, total);
        if let Some(failure) = failure {
            metrics.failure(&failure.cause.row().name);
        }
        if let Some(times) = times {
            metrics.work(times.queued, &times.work);
        }
        let times = times.copied();
        // An answer in lines logs its work at its end.
        let work = times.map(|times| times.work).filter(|work| work.windows > 0);
        tracing::info!(
            request_id = %self.id.0,
            trace_id = self.context.as_ref().map(|span| span.trace_id().to_string()),
            method = %self.method,
            route = %self.route,
            status = status.as_u16(),
            failure = failure.map(|failure| failure.cause.row().name).as_deref(),
            total_us = micros(total),
            queue_us = times.map(|times| micros(times.queued)),
            inference_us = times.map(|times| micros(times.ran)),
            windows = work.map(|work| work.windows),
            tokens = work.map(|work| work.tokens),
            "request"
        );
    }
}

impl Drop for RequestGuard<'_> {
    fn drop(&mut self) {
        if !self.is_finished {
            let failure = Failure::from(Error::new(ErrorKind::Cancelled, "the client disconnected"));
            self.record(failure.cause.row().status, Some(&failure), None, self.began.elapsed());
        }
    }
}

/// Writes a failure's body, and keeps the headers of the response, such as `Allow` of a 405.
fn render(failure: &Failure, shape: &ErrorShape, id: &RequestId, bare: &Response) -> Response {
    let (status, body) = ((shape.status)(failure), (shape.body)(failure, &id.0).to_string());
    let mut response = (status, [(header::CONTENT_TYPE, "application/json")], body).into_response();
    for (name, value) in bare.headers() {
        if name != header::CONTENT_TYPE && name != header::CONTENT_LENGTH {
            response.headers_mut().append(name, value.clone());
        }
    }
    if let Ok(name) = HeaderValue::from_str(&failure.cause.row().name) {
        response.headers_mut().insert(ERROR_KIND, name);
    }
    if failure.cause == Cause::Core(ErrorKind::Unauthorized) {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if let Some(seconds) = failure.retry_after() {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Milliseconds with three decimals.
fn milliseconds(time: Duration) -> HeaderValue {
    let text = format!("{:.3}", time.as_secs_f64() * 1e3);
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("0"))
}
