//! The request, after all checks that need no engine.

use std::sync::Arc;

use pullquote_core::engine::option_values::similar;
use pullquote_core::engine::options::{Options, seconds};
use pullquote_core::engine::{Pairing, Question, Request};
use pullquote_wire::request::{Documents, HighlightsRequest, Queries};
use pullquote_wire::result::OffsetUnit;
use serde_json::{Map, Value};

use super::marks::Marks;
use crate::http::body::{self, of_value};
use crate::http::failure::{Cause, Failure, refused};
use crate::routes::item_limits::{check_count, check_query};
use crate::routes::request_pages::{RequestPage, RequestText};

/// A checked request, with the text of its pages.
pub(super) struct PreparedRequest {
    /// Shared with the call of a host.
    pub(super) texts: Arc<Request<RequestText>>,
    /// Of each page.
    pub(super) ids: Vec<Option<String>>,
    /// Of each page.
    pub(super) text_hashes: Vec<String>,
    /// Of each page, why it could not be read.
    pub(super) missing: Vec<Option<Failure>>,
    /// Whether there was a list of queries.
    pub(super) listed: bool,
    pub(super) options: Options,
    pub(super) question: Question,
    pub(super) offsets: OffsetUnit,
    pub(super) return_texts: bool,
    pub(super) return_blocks: bool,
    pub(super) marks: Option<Marks>,
}

/// The documents of a body, which must have some.
pub(super) fn take_documents<'call>(request: &mut HighlightsRequest<'call>) -> Result<Documents<'call>, Failure> {
    request.documents.take().ok_or_else(|| missing("documents", &request.options))
}

pub(super) fn prepare(
    request: HighlightsRequest,
    documents: Vec<RequestPage>,
    max_queries: usize,
    max_query_bytes: usize,
) -> Result<PreparedRequest, Failure> {
    check_fields(&request.options)?;
    let (queries, listed) = match request.query {
        Some(Queries::One(query)) => (vec![query], false),
        Some(Queries::Listed(queries)) => (queries, true),
        None => return Err(missing("query", &request.options)),
    };
    let options: Options = body::read_options(request.options)?;
    check_count(queries.len(), "query", max_queries)?;
    for (index, query) in queries.iter().enumerate() {
        let field = if listed { format!("query[{index}]") } else { "query".to_owned() };
        if query.trim().is_empty() {
            return refused(field, "a query needs at least one character that is not white space");
        }
        check_query(query, field, max_query_bytes)?;
    }
    let mut texts = Request {
        pairing: Pairing::new(&options, queries.len(), documents.len()).map_err(of_value)?,
        queries: queries.into_iter().map(|query| query.into_owned().into()).collect(),
        pages: Vec::with_capacity(documents.len()),
        formats: Vec::with_capacity(documents.len()),
        titles: Vec::with_capacity(documents.len()),
    };
    let (mut ids, mut text_hashes, mut all_missing) = (Vec::new(), Vec::new(), Vec::new());
    for RequestPage { id, title, text, text_hash, missing } in documents {
        texts.formats.push(text.upload().and_then(|document| document.format).unwrap_or(options.format));
        texts.titles.push(title.map(RequestText::from));
        texts.pages.push(text);
        ids.push(id);
        text_hashes.push(text_hash);
        all_missing.push(missing);
    }
    let marks = Marks::read(request.pre_tags, request.post_tags, request.encoder)?;
    options.timeout.map(seconds).transpose().map_err(of_value)?;
    let mut question = Question::new(&options).map_err(of_value)?;
    question.explain |= marks.is_some();
    Ok(PreparedRequest {
        texts: Arc::new(texts),
        ids,
        text_hashes,
        missing: all_missing,
        listed,
        question,
        offsets: request.offsets,
        return_texts: request.return_texts,
        return_blocks: request.return_blocks,
        marks,
        options,
    })
}

/// Explains an unknown field whose name is similar to another field's, or that belongs elsewhere.
fn check_fields(options: &Map<String, Value>) -> Result<(), Failure> {
    for name in options.keys() {
        let advice = match (name.as_str(), similar(name, &HighlightsRequest::FIELDS)) {
            ("ids" | "titles", _) => "each document has its own: {\"id\", \"title\", \"text\"}".to_owned(),
            (_, Some(field)) => format!("did you mean {field:?}?"),
            _ => continue,
        };
        return refused(name.as_str(), format!("there is no field {name:?}; {advice}"));
    }
    Ok(())
}

/// A field that must be there, unless another is there that was probably meant by it.
fn missing(field: &str, options: &Map<String, Value>) -> Failure {
    let plain = || Failure::of_field(Cause::Unprocessable, field, format!("missing field `{field}`"));
    check_fields(options).err().unwrap_or_else(plain)
}
