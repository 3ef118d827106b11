//! `POST /highlights` in a host that encodes the rows, such as vLLM: the same requests and responses, without stored
//! documents and without vectors.

use std::sync::Arc;
use std::time::Duration;

use pullquote_core::engine::options::seconds;
use pullquote_core::engine::{Answers, Question, Request};
use pullquote_core::error::{Error, ErrorKind, Result};
use pullquote_core::runtime::call::Call;
use pullquote_wire::request::HighlightsRequest;
use pullquote_wire::result::Highlights;

use super::request::{PreparedRequest, prepare, take_documents};
use super::response::{Frame, Totals, limited};
use crate::http::answer::{AnswerWriter, Listed, WrittenAnswer};
use crate::http::body;
use crate::http::failure::{Cause, Failure, refused};
use crate::routes::request_pages::{RequestText, read_pages_within};

/// Limits of a body.
#[derive(Clone, Copy, Debug)]
pub struct BodyLimits {
    pub max_documents: usize,
    /// Bytes of UTF-8 of each document.
    pub max_document_bytes: usize,
    pub max_queries: usize,
    /// Bytes of UTF-8 of each query.
    pub max_query_bytes: usize,
}

/// A checked body of `POST /highlights`.
pub struct HighlightsBody {
    request: PreparedRequest,
    bytes: usize,
    timeout: Option<Duration>,
}

/// Why a body is refused, as the error body says it.
#[derive(Clone, Debug)]
pub struct BodyRefusal {
    /// Of the response, such as 422.
    pub status: u16,
    /// For programs to compare, as `invalid_body`.
    pub kind: String,
    pub message: String,
    /// The field of the body, as `documents[3].text`.
    pub field: Option<String>,
}

impl HighlightsBody {
    /// # Errors
    /// The refusal that `pullquote serve` answers with.
    pub fn read(body: &[u8], limits: BodyLimits) -> Result<Self, BodyRefusal> {
        Self::prepare(body, limits).map_err(BodyRefusal::from)
    }

    fn prepare(body: &[u8], limits: BodyLimits) -> Result<Self, Failure> {
        let mut fields: HighlightsRequest = body::parse_json(body, |_| ())?;
        if fields.return_vectors {
            return refused(
                "return_vectors",
                "vectors of passages are not available; /v1/embeddings returns those of texts",
            );
        }
        let BodyLimits { max_documents, max_document_bytes, max_queries, max_query_bytes } = limits;
        let documents = read_pages_within(take_documents(&mut fields)?, max_documents, max_document_bytes, None)?;
        let request = prepare(fields, documents, max_queries, max_query_bytes)?;
        Ok(Self { bytes: body.len(), timeout: request.options.timeout.map(seconds).transpose()?, request })
    }

    pub fn request(&self) -> Arc<Request<RequestText>> {
        Arc::clone(&self.request.texts)
    }

    pub const fn question(&self) -> Question {
        self.request.question
    }

    /// A call with the body's timeout and priority.
    pub fn call(&self) -> Call<'static> {
        Call::new(self.timeout, None).with_priority(self.priority())
    }

    pub const fn priority(&self) -> i32 {
        self.request.options.priority
    }

    /// Bytes of UTF-8 of all its texts.
    pub fn text_bytes(&self) -> usize {
        let Request { queries, pages, titles, .. } = &*self.request.texts;
        queries.iter().chain(pages).chain(titles.iter().flatten()).map(|text| text.as_ref().len()).sum()
    }

    /// The response's JSON, after a wait of `queued` for its turn.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] if an option makes the answer too large for the request.
    pub fn response(&self, answers: &Answers, queued: Duration) -> Result<Vec<u8>> {
        let call = self.call();
        let frame = Frame::new(&self.request, answers, &call);
        let mut answer = limited(&self.request, AnswerWriter::hosted(self.call(), self.bytes));
        let rest = Totals::of(answers, &self.request.options).footer(&self.request, queued);
        let written = frame.check_marks(&answer).and_then(|()| {
            answer.json(&Highlights { results: Listed(|| frame.pages()), rest })?;
            answer.finish()
        });
        written.map(WrittenAnswer::into_vec).map_err(|failure| {
            let kind = if let Cause::Core(kind) = failure.cause { kind } else { ErrorKind::Internal };
            Error::new(kind, failure.message_with_field())
        })
    }
}

impl From<Failure> for BodyRefusal {
    fn from(failure: Failure) -> Self {
        let row = failure.cause.row();
        Self {
            status: row.status.as_u16(),
            kind: row.name.into_owned(),
            message: failure.message,
            field: failure.field,
        }
    }
}
