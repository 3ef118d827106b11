//! What supports each sentence of a text.

use std::borrow::Cow;
use std::sync::Arc;

use pullquote_core::engine::Request as Texts;
use pullquote_core::error::Result;
use pullquote_wire::citations::{CiteRequest, Cited};
use pullquote_wire::options::Format;
use pullquote_wire::request::{Document, DocumentFields, Documents};
use pullquote_wire::result::OffsetUnit;

use crate::call_options::CallOptions;
use crate::client::Client;
use crate::exchange::{Request, compute, json_body};
use crate::vectors::Text;

/// A text, which is the only query of `texts`, and its pages.
pub struct CiteArguments<T> {
    pub texts: Texts<T>,
    /// Of each page, or empty.
    pub ids: Vec<Option<String>>,
    /// See [`CiteRequest::numbers`].
    pub numbers: Option<Vec<usize>>,
    pub format: Format,
}

impl Client {
    /// What supports each sentence of a text, in characters.
    ///
    /// # Errors
    /// Those of all calls of a [`Client`].
    pub fn cite<T: Text>(
        &self,
        arguments: CiteArguments<T>,
        call: CallOptions,
    ) -> impl Future<Output = Result<Cited<'static>>> + Send + use<T> {
        let shared = Arc::clone(&self.shared);
        async move {
            let CiteArguments { texts, ids, numbers, format } = &arguments;
            texts.check()?;
            let document = |page: usize| {
                let title = texts.titles.get(page).and_then(Option::as_ref);
                Document::Fields(DocumentFields {
                    id: ids.get(page).and_then(Option::as_deref).map(Cow::Borrowed),
                    title: title.map(|title| Cow::Borrowed(title.as_ref())),
                    text: Some(Cow::Borrowed(texts.pages[page].as_ref())),
                })
            };
            let request = CiteRequest {
                answer: texts.queries.first().map_or("", AsRef::as_ref).into(),
                documents: Documents::Listed((0..texts.pages.len()).map(document).collect()),
                numbers: numbers.clone(),
                format: *format,
                offsets: OffsetUnit::Codepoint,
            };
            let size = texts.pages.iter().map(|page| page.as_ref().len()).sum();
            let answer = shared.fetch(&Request::post("/cite", compute(size, || json_body(&request))?), call).await?;
            answer.read_json()
        }
    }
}
