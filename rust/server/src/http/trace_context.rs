//! Traces: the place of a request in a caller's trace, as W3C's Trace Context says it.
//!
//! <https://www.w3.org/TR/trace-context/>: what cannot be read is as good as nothing, never an error.

use std::fmt;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};
use uuid::Uuid;

/// The header, of requests and of answers.
pub(crate) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// What others have to say of the trace; nothing of ours is added.
pub(crate) const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// The only flag that is defined: the caller keeps this trace.
const SAMPLED: u8 = 1;

/// `VERSION-TRACE-PARENT-FLAGS` has so many characters, and in later versions more may stand behind them.
const LENGTH: usize = 55;

/// A request as a span of its caller's trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trace {
    /// 32 hexadecimal digits that the whole trace shares.
    pub(crate) id: String,
    /// 16 that the caller gave its own span; none where the trace begins here.
    parent: String,
    /// 16 of our own, for this request.
    span: String,
    is_sampled: bool,
    /// What stood in `tracestate`.
    state: String,
}

impl Trace {
    /// The trace that these headers name, if they name one, and one only.
    pub(crate) fn read(headers: &HeaderMap) -> Option<Self> {
        let mut named = headers.get_all(TRACEPARENT).iter();
        let (Some(value), None) = (named.next(), named.next()) else { return None };
        let (id, parent, is_sampled) = parse(value.to_str().ok()?)?;
        // The last digits of a version 4 are all random, and its first ones never all zero.
        let span = Uuid::new_v4().simple().to_string()[..16].to_owned();
        let states: Vec<&str> = headers.get_all(TRACESTATE).iter().filter_map(|state| state.to_str().ok()).collect();
        Some(Self { id: id.to_owned(), parent: parent.to_owned(), span, is_sampled, state: states.join(",") })
    }

    /// The place of a span.
    pub(crate) fn of(span: &SpanContext) -> Self {
        Self {
            id: span.trace_id().to_string(),
            parent: String::new(),
            span: span.span_id().to_string(),
            is_sampled: span.is_sampled(),
            state: span.trace_state().header(),
        }
    }

    /// The caller's span.
    pub(crate) fn parent(&self) -> SpanContext {
        self.place(&self.parent, true)
    }

    /// This request's span.
    pub(crate) fn context(&self) -> SpanContext {
        self.place(&self.span, false)
    }

    fn place(&self, span: &str, is_remote: bool) -> SpanContext {
        let id = TraceId::from_hex(&self.id).unwrap_or(TraceId::INVALID);
        let span = SpanId::from_hex(span).unwrap_or(SpanId::INVALID);
        let flags = if self.is_sampled { TraceFlags::SAMPLED } else { TraceFlags::default() };
        SpanContext::new(id, span, flags, is_remote, self.state.parse::<TraceState>().unwrap_or_default())
    }

    /// What is passed on to a server that is asked for this request.
    pub(crate) fn headers(&self) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
        let state = HeaderValue::from_str(&self.state).ok().filter(|state| !state.is_empty());
        self.header().map(|value| (TRACEPARENT, value)).into_iter().chain(state.map(|value| (TRACESTATE, value)))
    }

    /// The header for whoever asked: its trace, and our span.
    pub(crate) fn header(&self) -> Option<HeaderValue> {
        HeaderValue::from_str(&self.to_string()).ok()
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", self.id, self.span, u8::from(self.is_sampled))
    }
}

/// The trace's id, its caller's span, and whether it is kept.
fn parse(value: &str) -> Option<(&str, &str, bool)> {
    let value = value.trim();
    if !value.is_ascii() || value.len() < LENGTH {
        return None;
    }
    let (known, later) = value.split_at(LENGTH);
    let mut parts = known.split('-');
    let mut part = |length: usize| parts.next().filter(|part| part.len() == length && part.bytes().all(is_digit));
    let (version, id, parent, flags) = (part(2)?, part(32)?, part(16)?, part(2)?);
    let is_zero = |part: &str| part.bytes().all(|digit| digit == b'0');
    let ends = if version == "00" { later.is_empty() } else { later.is_empty() || later.starts_with('-') };
    if version == "ff" || is_zero(id) || is_zero(parent) || !ends {
        return None;
    }
    Some((id, parent, u8::from_str_radix(flags, 16).ok()? & SAMPLED != 0))
}

/// Upper case is not allowed.
const fn is_digit(byte: u8) -> bool {
    byte.is_ascii_digit() || matches!(byte, b'a'..=b'f')
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0af7651916cd43dd8448eb211c80319c";

    fn read(values: &[&str]) -> Option<Trace> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(TRACEPARENT, HeaderValue::from_str(value).unwrap());
        }
        Trace::read(&headers)
    }

    #[test]
    fn an_answer_has_the_callers_trace_and_a_span_of_its_own() {
        for (flags, ours) in [("01", "01"), ("00", "00"), ("ff", "01"), ("02", "00")] {
            let trace = read(&[&format!("00-{ID}-b7ad6b7169203331-{flags}")]).unwrap();
            let header = trace.header().unwrap().to_str().unwrap().to_owned();
            assert!(header.starts_with(&format!("00-{ID}-")) && header.ends_with(&format!("-{ours}")), "{header}");
            assert!(parse(&header).is_some() && !header.contains("b7ad6b7169203331"), "{header}");
        }
        assert_eq!(read(&[&format!("cc-{ID}-b7ad6b7169203331-01-what-the-future-brings")]).unwrap().id, ID);
    }

    #[test]
    fn what_is_no_trace_is_ignored() {
        let good = format!("00-{ID}-b7ad6b7169203331-01");
        for value in [
            "",
            "00",
            &good[..54],
            &format!("{good}-more"),
            &format!("{good}0"),
            &format!("cc-{ID}-b7ad6b7169203331-01.more"),
            &good.replace("00-", "ff-"),
            &good.to_uppercase(),
            &good.replace('-', "_"),
            &good.replace(ID, &"0".repeat(32)),
            &good.replace("b7ad6b7169203331", &"0".repeat(16)),
            &good.replace("0af7", "0ag7"),
        ] {
            assert_eq!(read(&[value]), None, "{value:?}");
        }
        assert_eq!(read(&[&good, &good]), None);
        assert_eq!(read(&[]), None);
    }
}
