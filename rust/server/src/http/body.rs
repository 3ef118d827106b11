//! Bodies of requests: read within limits, and parsed with errors that name the field.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use hyper::body::Body as _;
use pullquote_core::engine::option_values::{self, OptionError};
use pullquote_core::engine::options::Options;
use pullquote_core::error::{Error, ErrorKind};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::error::Category;
use serde_json::{Map, Value};
use serde_path_to_error::Track;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout_at};

use crate::http::failure::{Cause, Failure, overloaded, too_late};
use crate::http::unread_bodies::BodyMemory;
use crate::serde_messages::in_words;
use crate::settings::Settings;

/// A value inside a body that must be an object. Without it, serde also takes a list, as the fields in their order.
#[derive(JsonSchema)]
#[schemars(transparent)]
pub(crate) struct Object<T>(pub(crate) T);

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Object)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

/// The most bytes of a request's body: an extension of every request that has a route.
#[derive(Clone, Copy)]
pub(crate) struct BodyLimit(pub(crate) usize);

/// The first bytes of a body that get a buffer; it doubles as more arrive.
const FIRST_BYTES: usize = 16 * 1024;

/// Bodies that say they have at most this many bytes are small.
const SMALL_BYTES: usize = 16 * 1024;

/// The memory for small bodies, as a share of that for all others.
const SMALL_SHARE: usize = 8;

/// Reads bodies within the limits of a server.
pub(crate) struct BodyReader {
    pub(crate) memory: BodyMemory,
    /// For small bodies, which large ones in the queue must not refuse.
    small: BodyMemory,
    timeout: Duration,
}

impl BodyReader {
    pub(crate) fn new(settings: &Settings) -> Self {
        // A client of HTTP/2 may send as many as fit the queue over one connection.
        let max_slots = settings.max_concurrent.saturating_add(settings.max_queue);
        let max_unread = max_slots.max(settings.max_connections / 2);
        let memory = BodyMemory::new(settings.max_queue_bytes, max_unread);
        let small = BodyMemory::new(settings.max_queue_bytes / SMALL_SHARE, max_unread);
        Self { memory, small, timeout: settings.body_timeout }
    }

    /// How many bodies wait for their clients.
    pub(crate) fn unread(&self) -> usize {
        self.memory.unread() + self.small.unread()
    }

    /// A body and its share of the memory.
    pub(crate) async fn read(
        &self,
        headers: &HeaderMap,
        body: Body,
        limit: BodyLimit,
        deadline: Instant,
    ) -> Result<(Bytes, OwnedSemaphorePermit), Failure> {
        if let Some(encoding) = headers.get(header::CONTENT_ENCODING).filter(|encoding| *encoding != "identity") {
            let message = format!("a body encoded as {encoding:?} cannot be read; send it as it is");
            return Err(Failure::new(Cause::UnsupportedMediaType, message));
        }
        let until = (Instant::now() + self.timeout).min(deadline);
        match timeout_at(until, self.collect(body, limit)).await {
            Ok(read) => read,
            Err(_) if until == deadline => Err(too_late("the request's timeout passed while its body was read")),
            Err(_) => Err(Failure::new(
                Cause::SlowSender,
                format!("the body did not arrive within {} seconds", self.timeout.as_secs_f64()),
            )),
        }
    }

    async fn collect(
        &self,
        mut body: Body,
        BodyLimit(limit): BodyLimit,
    ) -> Result<(Bytes, OwnedSemaphorePermit), Failure> {
        let too_large = || Failure::new(Cause::TooLarge, format!("the body is larger than {limit} bytes"));
        let declared = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        if declared > limit {
            return Err(too_large());
        }
        let memory = if (1..=SMALL_BYTES).contains(&declared) { &self.small } else { &self.memory };
        memory.check(declared)?;
        let mut unread = memory.begin()?;
        let most = if declared > 0 { declared } else { limit };
        let mut read = Vec::new();
        loop {
            let Some(frame) = unread.frame(&mut body).await? else { break };
            let frame =
                frame.map_err(|error| Failure::new(Cause::Malformed, format!("the body ended early: {error}")))?;
            let Ok(data) = frame.into_data() else { continue };
            let length = read.len() + data.len();
            if length > limit {
                return Err(too_large());
            }
            let capacity = read.capacity();
            let capacity =
                if length > capacity { (2 * capacity).max(FIRST_BYTES).min(most).max(length) } else { capacity };
            unread.received(length, capacity)?;
            read.try_reserve_exact(capacity - read.len()).map_err(|_| overloaded("no memory for a body; try again"))?;
            read.extend_from_slice(&data);
        }
        read.shrink_to_fit();
        let memory = unread.complete(read.len())?;
        Ok((read.into(), memory))
    }
}

/// Parses a body, which is a JSON object; calls `ignored` with each field that is not read.
pub(crate) fn parse<'body, T: Deserialize<'body>>(
    headers: &HeaderMap,
    body: &'body [u8],
    ignored: impl FnMut(String),
) -> Result<T, Failure> {
    check_content_type(headers)?;
    parse_json(body, ignored)
}

/// Parses a JSON object; calls `ignored` with each field that is not read.
pub(crate) fn parse_json<'body, T: Deserialize<'body>>(
    body: &'body [u8],
    mut ignored: impl FnMut(String),
) -> Result<T, Failure> {
    let malformed = |message: String| Failure::new(Cause::Malformed, message);
    if body.is_empty() {
        return Err(malformed("the body is empty; it must be a JSON object".to_owned()));
    }
    let text = std::str::from_utf8(body).map_err(|error| {
        let message = format!("the body is not UTF-8 at byte {}", error.valid_up_to());
        Failure::from(Error::new(ErrorKind::InvalidText, message))
    })?;
    // serde would take the entries of a list for an object's fields, in their order.
    if text.trim_start().starts_with('[') {
        return Err(Failure::new(Cause::Unprocessable, "the body is a list; it must be a JSON object"));
    }
    let (mut reader, mut track) = (serde_json::Deserializer::from_str(text), Track::new());
    let tracked = serde_path_to_error::Deserializer::new(&mut reader, &mut track);
    // serde_ignored's paths have a question mark for each optional field.
    let parsed = serde_ignored::deserialize(tracked, |path| ignored(path.to_string().replace(".?", "")));
    let value = parsed.map_err(|error| of_json(&serde_path_to_error::Error::new(track.path(), error)))?;
    reader.end().map_err(|error| malformed(format!("after the JSON of the body: {error}")))?;
    Ok(value)
}

/// Reads the options of a call, which are fields of a body.
pub(crate) fn read_options(options: Map<String, Value>) -> Result<Options, Failure> {
    let options = options.into_iter().map(|(name, value)| (name, value.into()));
    option_values::read(options).map_err(|OptionError { name, message, .. }| Failure {
        field: name,
        ..Failure::new(Cause::Unprocessable, message)
    })
}

/// A value that the engine does not take.
pub(crate) fn of_value(error: Error) -> Failure {
    let is_value = error.kind() == ErrorKind::InvalidArgument;
    let failure = Failure::from(error);
    if is_value { Failure { cause: Cause::Unprocessable, ..failure } } else { failure }
}

pub(crate) fn parse_value<T: for<'value> Deserialize<'value>>(value: serde_json::Value) -> Result<T, Failure> {
    serde_path_to_error::deserialize(value).map_err(|error| of_json(&error))
}

/// An answer that serde cannot write.
pub(crate) fn not_json(error: &serde_json::Error) -> Error {
    Error::new(ErrorKind::Internal, format!("the answer does not fit JSON: {error}"))
}

/// Requires JSON's content type, for which browsers send a CORS preflight before another site's request.
pub(crate) fn check_content_type(headers: &HeaderMap) -> Result<(), Failure> {
    let named = headers.get(header::CONTENT_TYPE).map_or("", |value| value.to_str().unwrap_or("unreadable"));
    let essence = named.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let message = format!("the body must be JSON and say so, by content-type: application/json, not {named:?}");
    Err(Failure::new(Cause::UnsupportedMediaType, message))
}

fn of_json(error: &serde_path_to_error::Error<serde_json::Error>) -> Failure {
    let (path, inner) = (error.path().to_string(), error.inner());
    let message = in_words(inner);
    if inner.classify() != Category::Data {
        // The parser's message for half a pair of surrogates depends on the next characters.
        let is_half = message.contains("surrogate") || message.contains("hex escape");
        let advice = if is_half { "; a lone surrogate is not a character, and no text can hold it" } else { "" };
        return Failure::new(Cause::Malformed, format!("the body is not JSON: {message}{advice}"));
    }
    // Where an object has a field too many or too few, the message itself names it.
    if path == "." {
        return Failure::new(Cause::Unprocessable, message);
    }
    Failure::of_field(Cause::Unprocessable, path, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn ignored_fields_are_named_by_their_path() {
        #[derive(Deserialize)]
        struct Outer {
            inner: Option<Inner>,
        }
        #[derive(Deserialize)]
        struct Inner {
            known: Vec<u8>,
        }
        let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, "application/json".parse().unwrap())]);
        let body = json!({"inner": {"known": [1], "made": 2}, "up": 3}).to_string();
        let mut ignored = Vec::new();
        let outer: Outer = parse(&headers, body.as_bytes(), |name| ignored.push(name)).unwrap();
        assert_eq!(outer.inner.unwrap().known, [1]);
        assert_eq!(ignored, ["inner.made", "up"]);
    }
}
