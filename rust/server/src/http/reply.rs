//! What the work of a request answers.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use pullquote_core::engine::Work;

use crate::http::answer::AnswerWriter;
use crate::http::failure::Failure;
use crate::http::input::Input;
use crate::http::tei_headers::Compute;

pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) content_type: &'static str,
    pub(crate) body: Body,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) work: Work,
    /// For clients of Text Embeddings Inference.
    pub(crate) compute: Option<Compute>,
    /// Work that continues after the answer has begun.
    pub(crate) rest: Option<Continuation>,
}

/// Work that the body of the answer waits for.
pub(crate) type Continuation = Box<dyn FnOnce() + Send>;

/// An extension of the response of every request that ran.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RequestTimes {
    pub(crate) queued: Duration,
    pub(crate) ran: Duration,
    pub(crate) work: Work,
    /// For clients of Text Embeddings Inference.
    pub(crate) compute: Option<Compute>,
}

impl Reply {
    pub(crate) fn json(input: &Input, value: &impl serde::Serialize, work: Work) -> Result<Self, Failure> {
        Self::written(input.answer(), value, work)
    }

    /// JSON with limits of its own.
    pub(crate) fn written(
        mut answer: AnswerWriter,
        value: &impl serde::Serialize,
        work: Work,
    ) -> Result<Self, Failure> {
        answer.json(value)?;
        Ok(Self::new("application/json", answer.finish()?.into_body(), work))
    }

    pub(crate) const fn new(content_type: &'static str, body: Body, work: Work) -> Self {
        Self { status: StatusCode::OK, content_type, body, headers: Vec::new(), work, compute: None, rest: None }
    }

    /// With the headers of Text Embeddings Inference.
    pub(crate) fn computed(self, compute: Compute) -> Self {
        Self { compute: Some(compute), ..self }
    }
}
