//! The request: its fields, and what they are after all checks that need no engine.

use std::sync::Arc;

use pullquote_core::encoder::embedding_dtype::EmbeddingDtype;
use pullquote_core::engine::option_values::similar;
use pullquote_core::engine::options::Options;
use pullquote_core::engine::{Pairing, Question, Request};
use pullquote_wire::result::OffsetUnit;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::marks::{MarkEncoder, Marks, Tag};
use super::vectors::VectorEncoding;
use crate::http::body;
use crate::http::failure::{Cause, Failure, refused};
use crate::routes::item_limits::{check_count, check_query};
use crate::routes::request_pages::{Documents, RequestPage, RequestText};
use crate::routes::schema_placeholders::MAX_QUERIES;

/// Queries, pages and options.
#[derive(Deserialize, JsonSchema)]
#[serde(expecting = "an object with a query and documents")]
#[schemars(deny_unknown_fields)]
pub(crate) struct HighlightsRequest {
    // An `Option` only so that its absence is explained by the names that are there.
    #[serde(default)]
    #[schemars(with = "Queries", required)]
    query: Option<Queries>,
    /// Absent in a form, whose files are the documents.
    #[serde(default)]
    #[schemars(with = "Documents", required)]
    pub(super) documents: Option<Documents>,
    #[serde(default)]
    offsets: OffsetUnit,
    /// Return the text that offsets refer to; for HTML it differs from the source.
    #[serde(default)]
    return_texts: bool,
    /// Return the blocks of each page: its headings, paragraphs, list items, rows of tables and lines of code.
    #[serde(default)]
    return_blocks: bool,
    /// Return vectors of length 1: of each highlight that of its text, as `/embed` computes it, and of each query.
    #[serde(default)]
    pub(super) return_vectors: bool,
    /// Return each highlight as `marked` too, with this before every word that matches the query; `<em>` if only
    /// `post_tags` is set. A list has one tag.
    #[serde(default)]
    pre_tags: Option<Tag>,
    /// Text after every word that matches; `</em>` if only `pre_tags` is set.
    #[serde(default)]
    post_tags: Option<Tag>,
    #[serde(default)]
    encoder: MarkEncoder,
    #[serde(default)]
    pub(super) encoding_format: VectorEncoding,
    #[serde(default)]
    pub(super) embedding_dtype: Option<EmbeddingDtype>,
    #[serde(flatten)]
    #[schemars(with = "Options")]
    options: Map<String, Value>,
}

/// One query for all pages, or a list of queries: see `pairing`.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged, expecting = "must be a text or a list of texts")]
#[schemars(inline)]
enum Queries {
    One(#[schemars(regex(pattern = r"\S"))] String),
    Listed(#[schemars(length(min = 1, max = MAX_QUERIES), inner(regex(pattern = r"\S")))] Vec<String>),
}

/// A checked request, with the text of its pages.
pub(super) struct PreparedRequest {
    /// Shared with the call of a host.
    pub(super) texts: Arc<Request<RequestText>>,
    /// Of each page.
    pub(super) ids: Vec<Option<String>>,
    /// Of each page.
    pub(super) text_hashes: Vec<String>,
    /// Whether there was a list of queries.
    pub(super) listed: bool,
    pub(super) options: Options,
    pub(super) question: Question,
    pub(super) offsets: OffsetUnit,
    pub(super) return_texts: bool,
    pub(super) return_blocks: bool,
    pub(super) marks: Option<Marks>,
}

impl HighlightsRequest {
    /// The documents of a body, which must have some.
    pub(super) fn take_documents(&mut self) -> Result<Documents, Failure> {
        self.documents.take().ok_or_else(|| missing("documents", &self.options))
    }

    pub(super) fn prepare(
        self,
        documents: Vec<RequestPage>,
        max_queries: usize,
        max_query_bytes: usize,
    ) -> Result<PreparedRequest, Failure> {
        check_fields(&self.options)?;
        let (queries, listed) = match self.query {
            Some(Queries::One(query)) => (vec![query], false),
            Some(Queries::Listed(queries)) => (queries, true),
            None => return Err(missing("query", &self.options)),
        };
        let options: Options = body::read_options(self.options)?;
        check_count(queries.len(), "query", max_queries)?;
        for (index, query) in queries.iter().enumerate() {
            let field = if listed { format!("query[{index}]") } else { "query".to_owned() };
            check_query(query, field, max_query_bytes)?;
        }
        let mut texts = Request {
            pairing: Pairing::new(&options, queries.len(), documents.len())?,
            queries: queries.into_iter().map(RequestText::from).collect(),
            pages: Vec::with_capacity(documents.len()),
            formats: Vec::with_capacity(documents.len()),
            titles: Vec::with_capacity(documents.len()),
        };
        let (mut ids, mut text_hashes) = (Vec::new(), Vec::new());
        for RequestPage { id, title, text, text_hash } in documents {
            texts.formats.push(text.upload().and_then(|document| document.format).unwrap_or(options.format));
            texts.titles.push(title.map(RequestText::from));
            texts.pages.push(text);
            ids.push(id);
            text_hashes.push(text_hash);
        }
        let marks = Marks::read(self.pre_tags, self.post_tags, self.encoder);
        let mut question = Question::new(&options)?;
        question.explain |= marks.is_some();
        Ok(PreparedRequest {
            texts: Arc::new(texts),
            ids,
            text_hashes,
            listed,
            question,
            offsets: self.offsets,
            return_texts: self.return_texts,
            return_blocks: self.return_blocks,
            marks,
            options,
        })
    }
}

/// The fields of a request that are not options.
const FIELDS: [&str; 11] = [
    "query", "documents", "offsets", "return_texts", "return_blocks", "return_vectors", "pre_tags", "post_tags",
    "encoder", "encoding_format", "embedding_dtype",
];

/// Explains an unknown field whose name is similar to another field's, or that belongs elsewhere.
fn check_fields(options: &Map<String, Value>) -> Result<(), Failure> {
    for name in options.keys() {
        let advice = match (name.as_str(), similar(name, &FIELDS)) {
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
