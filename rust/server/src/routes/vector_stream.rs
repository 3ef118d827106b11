//! Vectors as bytes; the first are sent before the last are encoded.
//!
//! The headers wait for the first part, so that a failure before it has its own status. They have the length of the
//! body. After a later failure, the body ends before that length, and the connection or stream is closed: clients
//! detect that it is incomplete.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::HeaderValue;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use pullquote_core::encoder::cosine::normalize;
use pullquote_core::engine::{StreamedEmbedding, Work};
use pullquote_core::tokens::Role;
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::{Receiver, channel};

use crate::app::App;
use crate::http::dtype::NumberFormat;
use crate::http::failure::Failure;
use crate::http::input::RequestControl;
use crate::http::metrics::Metrics;
use crate::http::reply::Reply;
use crate::http::request_id::RequestId;
use crate::http::vector_headers::{MODEL, OCTETS, PROMPT_TOKENS, TRUNCATED, headers};
use crate::routes::vectors::{FieldInputs, Item, Vectors};

/// What the `OpenAPI` document says of vectors as bytes.
pub(super) const VECTOR_BYTES: &str = "With `accept: application/octet-stream` the answer is the vectors as bytes, one after the other; the \
    `x-embedding` headers describe them. The server sends the first vectors before it computes the last. If it fails in \
    between, the connection (for HTTP/2: the stream) ends before the body is complete. `content-length` is the body's length, \
    unless it is compressed for a client that prefers `gzip` to `identity`. Failures are always JSON.";

pub(super) fn vector_bytes() -> (&'static str, Value) {
    (OCTETS, json!({"type": "string", "contentMediaType": OCTETS, "description": "Vectors as bytes."}))
}

/// Tokenized texts to encode and send.
pub(crate) struct VectorStream {
    parts: StreamedEmbedding,
    end: RequestControl,
    dimension: usize,
    /// The setting of the model's files, unless the request overrides it.
    normalizes: bool,
    memory: Option<OwnedSemaphorePermit>,
}

/// A body whose parts are still being encoded.
struct Rows {
    parts: Receiver<io::Result<Bytes>>,
    /// Bytes that have not been sent.
    left: usize,
    _memory: Option<OwnedSemaphorePermit>,
}

impl VectorStream {
    fn new(app: &App, parts: StreamedEmbedding, end: RequestControl) -> Result<Self, Failure> {
        let dimension = app.engine.spec().dimension;
        let memory = end.memory.reserve_vectors(parts.rows() * dimension * size_of::<f32>())?;
        Ok(Self { parts, end, dimension, normalizes: app.model.normalize, memory })
    }

    /// Normalizes vectors or not; `None` is as the model's own files say.
    pub(crate) fn normalized(self, normalizes: Option<bool>) -> Self {
        Self { normalizes: normalizes.unwrap_or(self.normalizes), ..self }
    }

    /// Tokenizes texts; nothing is encoded yet. Texts over the model's limit are cut.
    pub(crate) fn of(app: &App, texts: &[&str], role: Role, end: RequestControl) -> Result<Self, Failure> {
        let parts = app.engine.embed_streamed(texts, role, &end.call())?;
        Self::new(app, parts, end)
    }

    /// Tokenizes a field; nothing is encoded yet.
    pub(crate) fn of_field(app: &App, inputs: &FieldInputs, end: RequestControl) -> Result<Self, Failure> {
        let texts: Option<Vec<&str>> = inputs.items.iter().map(Item::text).collect();
        let encoding = if let Some(texts) = texts.filter(|_| inputs.truncation.is_default(app)) {
            Self::of(app, &texts, inputs.role, end)?
        } else {
            let rows = inputs.rows(app, &end)?;
            let parts = app.engine.embed_rows(rows, &end.call())?;
            Self::new(app, parts, end)?
        };
        inputs.check_truncated(app, encoding.truncated())?;
        Ok(encoding)
    }

    pub(crate) const fn rows(&self) -> usize {
        self.parts.rows()
    }

    pub(crate) const fn truncated(&self) -> usize {
        self.parts.truncated()
    }

    pub(crate) fn work(&self) -> Work {
        let rows = self.rows();
        let (tokens, truncated) = (self.parts.tokens(), self.truncated());
        Work { windows: rows, encoded: rows, tokens, truncated, ..Work::default() }
    }

    pub(crate) fn whole(self) -> Result<Vectors, Failure> {
        let (work, dimension) = (self.work(), self.dimension);
        let mut values = self.parts.collect(&self.end.call())?;
        if self.normalizes {
            normalize(&mut values, dimension);
        }
        Ok(Vectors { values, dimension, work, _memory: self.memory })
    }

    /// Encodes the first part and answers with it; the reply's rest encodes the others.
    pub(crate) fn into_reply(mut self, app: &App, format: NumberFormat, id: RequestId) -> Result<Reply, Failure> {
        let (work, dimension) = (self.work(), self.dimension);
        let mut headers = headers(self.rows(), dimension, format);
        headers.push((PROMPT_TOKENS, work.tokens.into()));
        headers.push((TRUNCATED, work.truncated.into()));
        // A name that is invalid in a header is only in `/v1/models`.
        headers.extend(HeaderValue::from_str(&app.settings.model_name).map(|name| (MODEL, name)));
        let bytes = self.rows() * format.dtype.row_bytes(dimension);
        let first = self.next(format)?.unwrap_or_default();
        let reply = Reply { headers, ..Reply::new(OCTETS, Body::empty(), work) };
        let left = self.parts.remaining_parts();
        if left == 0 {
            return Ok(Reply { body: first.into(), ..reply });
        }
        let memory = self.memory.take();
        // It holds all parts and a failure, so that encoding never waits for the client.
        let (sending, parts) = channel(left + 2);
        let _ = sending.try_send(Ok(first));
        let metrics = Arc::clone(&app.metrics);
        let rest = move || {
            loop {
                let part = match self.next(format) {
                    Ok(Some(part)) => Ok(part),
                    Ok(None) => break,
                    Err(failure) => Err(broken(&metrics, &failure, &id)),
                };
                // A client that disconnected has stopped the call.
                let has_failed = part.is_err();
                if sending.try_send(part).is_err() || has_failed {
                    break;
                }
            }
        };
        Ok(Reply { body: Body::new(Rows { parts, left: bytes, _memory: memory }), rest: Some(Box::new(rest)), ..reply })
    }

    fn next(&mut self, format: NumberFormat) -> Result<Option<Bytes>, Failure> {
        let Some(mut vectors) = self.parts.next(&self.end.call())? else { return Ok(None) };
        if self.normalizes {
            normalize(&mut vectors, self.dimension);
        }
        Ok(Some(format.pack(vectors, self.dimension)))
    }
}

/// Records a failure after the answer has begun, which cannot contain it.
fn broken(metrics: &Metrics, failure: &Failure, id: &RequestId) -> io::Error {
    let cause = failure.cause.row().name;
    metrics.failure(&cause);
    tracing::warn!(request_id = %id.0, failure = %cause, "the answer ended early: {}", failure.message);
    io::Error::other(failure.message.clone())
}

impl hyper::body::Body for Rows {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let Poll::Ready(part) = self.parts.poll_recv(context) else { return Poll::Pending };
        Poll::Ready(match part {
            Some(Ok(bytes)) => {
                self.left = self.left.saturating_sub(bytes.len());
                Some(Ok(Frame::data(bytes)))
            }
            Some(Err(error)) => Some(Err(error)),
            None if self.left == 0 => None,
            None => Some(Err(io::Error::other("the work ended before the answer did"))),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left as u64)
    }
}
