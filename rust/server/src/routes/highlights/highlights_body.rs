//! `POST /highlights` in a host that encodes the rows, such as vLLM: the same requests and responses, without stored
//! documents and without vectors.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use pullquote_core::engine::{Answers, OwnedRequest, Question};
use pullquote_core::error::Result;
use pullquote_core::runtime::call::Call;

use super::request::{HighlightsRequest, PreparedRequest};
use super::response::{Frame, Highlights};
use crate::http::body;
use crate::http::failure::{Failure, refused};

/// Limits of a body.
#[derive(Clone, Copy, Debug)]
pub struct BodyLimits {
    pub max_documents: usize,
    /// Bytes of UTF-8 of each document.
    pub max_document_bytes: usize,
    pub max_queries: usize,
}

/// A checked body of `POST /highlights`.
pub struct HighlightsBody {
    request: PreparedRequest,
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

/// A text of a body, which it keeps.
pub struct BodyText {
    body: Arc<HighlightsBody>,
    part: Part,
}

/// Which text of a body: its index among those of its kind.
#[derive(Clone, Copy)]
enum Part {
    Query(usize),
    Page(usize),
    Title(usize),
}

impl HighlightsBody {
    /// # Errors
    /// The refusal that `pullquote serve` answers with.
    pub fn read(body: &[u8], limits: BodyLimits) -> Result<Self, BodyRefusal> {
        Self::prepare(body, limits).map_err(BodyRefusal::from)
    }

    fn prepare(body: &[u8], limits: BodyLimits) -> Result<Self, Failure> {
        let mut asked: HighlightsRequest = body::parse_json(body, |_| ())?;
        if asked.return_vectors {
            return refused(
                "return_vectors",
                "vectors of passages are not available; /v1/embeddings returns those of texts",
            );
        }
        let documents = asked.take_documents()?.read_within(limits.max_documents, limits.max_document_bytes, None)?;
        let request = asked.prepare(documents, limits.max_queries)?;
        Ok(Self { timeout: request.options.timeout()?, request })
    }

    /// The call of the engine; the texts stay in the body.
    pub fn request(self: &Arc<Self>) -> OwnedRequest<BodyText> {
        let text = |part| BodyText { body: Arc::clone(self), part };
        let titles = self.request.titles().into_iter().enumerate();
        OwnedRequest {
            queries: (0..self.request.queries.len()).map(|query| text(Part::Query(query))).collect(),
            pages: (0..self.request.documents.len()).map(|page| text(Part::Page(page))).collect(),
            formats: self.request.formats.clone(),
            titles: titles.map(|(page, title)| title.map(|_| text(Part::Title(page)))).collect(),
            pairing: self.request.pairing,
        }
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
        let titles = self.request.titles().into_iter().flatten();
        self.request.queries().into_iter().chain(self.request.texts()).chain(titles).map(str::len).sum()
    }

    /// The response's JSON, after a wait of `queued` for its turn.
    ///
    /// # Errors
    /// [`pullquote_core::error::ErrorKind::Internal`] if an answer does not fit JSON.
    pub fn response(&self, answers: &Answers, queued: Duration) -> Result<Vec<u8>> {
        let frame = Frame::new(&self.request, answers);
        let response = Highlights { results: frame.pages().collect(), rest: frame.footer(&answers.work, queued) };
        serde_json::to_vec(&response).map_err(|error| body::unfit(&error))
    }
}

impl Deref for BodyText {
    type Target = str;

    fn deref(&self) -> &str {
        let request = &self.body.request;
        match self.part {
            Part::Query(query) => &request.queries[query],
            Part::Page(page) => request.documents[page].text(),
            Part::Title(page) => request.documents[page].title().unwrap_or_default(),
        }
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
