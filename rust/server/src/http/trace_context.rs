//! W3C Trace Context: the place of a request in its caller's trace. OpenTelemetry's propagator reads and writes the
//! headers.

use std::collections::HashMap;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry::Context;
use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::{SpanContext, TraceContextExt};
use opentelemetry_http::HeaderInjector;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{IdGenerator, RandomIdGenerator};

pub(crate) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
pub(crate) const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// The caller's span. Headers that cannot be read are ignored.
pub(crate) fn caller(headers: &HeaderMap) -> Option<SpanContext> {
    if !headers.contains_key(TRACEPARENT) {
        return None;
    }
    // As the standard requires: two joined `traceparent` are invalid, and two `tracestate` are one list.
    let joined = |name: HeaderName| {
        let values: Vec<&str> = headers.get_all(&name).iter().filter_map(|value| value.to_str().ok()).collect();
        (name.to_string(), values.join(","))
    };
    let carrier = HashMap::from([TRACEPARENT, TRACESTATE].map(joined));
    let context = TraceContextPropagator::new().extract_with_context(&Context::new(), &carrier);
    context.has_active_span().then(|| context.span().span_context().clone())
}

/// A span of this server below its caller's.
pub(crate) fn child(caller: &SpanContext) -> SpanContext {
    let span = RandomIdGenerator::default().new_span_id();
    SpanContext::new(caller.trace_id(), span, caller.trace_flags(), false, caller.trace_state().clone())
}

pub(crate) fn headers(span: &SpanContext) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let context = Context::new().with_remote_span_context(span.clone());
    TraceContextPropagator::new().inject_context(&context, &mut HeaderInjector(&mut headers));
    if headers.get(TRACESTATE).is_some_and(HeaderValue::is_empty) {
        headers.remove(TRACESTATE);
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn map(pairs: &[(HeaderName, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn two_traceparent_are_ignored_and_two_tracestate_are_one_list() {
        assert_eq!(caller(&map(&[(TRACEPARENT, PARENT), (TRACEPARENT, PARENT)])), None);
        let states = [(TRACEPARENT, PARENT), (TRACESTATE, "them=1"), (TRACESTATE, "others=2")];
        let span = child(&caller(&map(&states)).unwrap());
        assert_eq!(headers(&span)[TRACESTATE], "them=1,others=2");
        let span = child(&caller(&map(&states[..1])).unwrap());
        assert!(!headers(&span).contains_key(TRACESTATE));
    }
}
