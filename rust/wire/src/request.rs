//! The request of `highlights`, as HTTP has it: the client writes what the server reads.
//!
//! Fields at their default are left out, so that hosts that know fewer fields accept the request; their schemas still say
//! the default. Names in braces stand for a server's limits, which it fills in.

use std::borrow::Cow;
use std::fmt;

use schemars::JsonSchema;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::embedding_dtype::EmbeddingDtype;
use crate::options::Options;
use crate::result::OffsetUnit;

pub const MAX_DOCUMENTS: &str = "{max_documents}";
pub const MAX_DOCUMENT_BYTES: &str = "{max_document_bytes}";
pub const MAX_QUERIES: &str = "{max_queries}";

/// The message for a document without a text and an id.
pub const NO_TEXT: &str = "a document needs a text, or the id of one that is stored";

/// Queries, pages and options.
#[derive(Default, Deserialize, Serialize, JsonSchema)]
#[serde(expecting = "an object with a query and documents")]
#[schemars(deny_unknown_fields)]
pub struct HighlightsRequest<'call> {
    // An `Option` only so that its absence is explained by the names that are there.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(with = "Queries", required)]
    pub query: Option<Queries<'call>>,
    /// Absent in a form, whose files are the documents.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(with = "Documents", required)]
    pub documents: Option<Documents<'call>>,
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(skip_serializing_if = "never")]
    pub offsets: OffsetUnit,
    /// Return the text that offsets refer to; for HTML it differs from the source.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(skip_serializing_if = "never")]
    pub return_texts: bool,
    /// Return the blocks of each page: its headings, paragraphs, list items, rows of tables and lines of code.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(skip_serializing_if = "never")]
    pub return_blocks: bool,
    /// Return vectors of length 1: of each highlight that of its text, as `/embed` computes it, and of each query.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(skip_serializing_if = "never")]
    pub return_vectors: bool,
    /// Return each highlight as `marked` too, with this before every word that matches the query. A list has one text.
    /// Without `post_tags`, it must be tags of HTML.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pre_tags: Option<Tag>,
    /// Text after every word that matches; the end tags of `pre_tags` by default.
    #[serde(default, skip_serializing_if = "is_default")]
    pub post_tags: Option<Tag>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub encoder: MarkEncoder,
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(skip_serializing_if = "never")]
    pub encoding_format: VectorEncoding,
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(skip_serializing_if = "never")]
    pub embedding_dtype: Option<EmbeddingDtype>,
    /// The fields of [`Options`]; a map, so that one error explains each unknown name.
    #[serde(flatten)]
    #[schemars(with = "Options")]
    pub options: Map<String, Value>,
}

/// One query for all pages, or a list of queries: see `pairing`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged, expecting = "must be a text or a list of texts")]
#[schemars(inline)]
pub enum Queries<'call> {
    One(#[schemars(regex(pattern = r"\S"))] Cow<'call, str>),
    Listed(#[schemars(length(min = 1, max = MAX_QUERIES), inner(regex(pattern = r"\S")))] Vec<Cow<'call, str>>),
}

/// Pages: texts, or objects with a text or the id of a stored document; or the ids of stored documents. At most
/// `{max_documents}`, of at most `{max_document_bytes}` bytes each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Documents<'call> {
    Listed(#[schemars(length(min = 1, max = MAX_DOCUMENTS))] Vec<Document<'call>>),
    Stored(StoredIds),
}

/// A page of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub enum Document<'call> {
    Text(#[schemars(length(max = MAX_DOCUMENT_BYTES))] Cow<'call, str>),
    Fields(DocumentFields<'call>),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline, extend("anyOf" = [
    {"required": ["text"], "properties": {"text": {"type": "string", "maxLength": MAX_DOCUMENT_BYTES}}},
    {"required": ["id"], "properties": {"id": {"type": "string"}}},
]))]
pub struct DocumentFields<'call> {
    /// Returned with the page's highlights; without a text, the id of a stored document.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(skip_serializing_if = "never")]
    pub id: Option<Cow<'call, str>>,
    /// Added to the relevance of every passage of the page when pages compete.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(skip_serializing_if = "never")]
    pub title: Option<Cow<'call, str>>,
    /// The page itself.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(skip_serializing_if = "never")]
    pub text: Option<Cow<'call, str>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct StoredIds {
    /// Ids of stored documents.
    #[schemars(length(min = 1, max = MAX_DOCUMENTS))]
    pub ids: Vec<String>,
}

/// A tag, or a list with one, as Elasticsearch has it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged, expecting = "must be a text or a list with one text")]
#[schemars(inline)]
pub enum Tag {
    One(String),
    Listed([String; 1]),
}

/// What happens to the text around the tags: `html` escapes it, `default` leaves it as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum MarkEncoder {
    #[default]
    Html,
    Default,
}

/// How vectors are written in JSON: as numbers, or as base64 of their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum VectorEncoding {
    #[default]
    Float,
    Base64,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// For schemas, which have a default only where it may be written.
const fn never<T>(_: &T) -> bool {
    false
}

impl HighlightsRequest<'_> {
    /// The names of its fields that are not options.
    pub const FIELDS: [&'static str; 11] = [
        "query", "documents", "offsets", "return_texts", "return_blocks", "return_vectors", "pre_tags", "post_tags",
        "encoder", "encoding_format", "embedding_dtype",
    ];
}

impl<'de> Deserialize<'de> for Documents<'_> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DocumentsVisitor)
    }
}

impl<'de> Deserialize<'de> for Document<'_> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DocumentVisitor)
    }
}

struct DocumentsVisitor;

impl<'de> Visitor<'de> for DocumentsVisitor {
    type Value = Documents<'static>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of documents, or an object with the ids of stored ones")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list)).map(Documents::Listed)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        StoredIds::deserialize(MapAccessDeserializer::new(map)).map(Documents::Stored)
    }
}

struct DocumentVisitor;

impl<'de> Visitor<'de> for DocumentVisitor {
    type Value = Document<'static>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, or an object with its text and perhaps an id and a title, or with the id of a stored one")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        self.visit_string(text.to_owned())
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<Self::Value, E> {
        Ok(Document::Text(text.into()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        let fields = DocumentFields::deserialize(MapAccessDeserializer::new(map))?;
        if fields.id.is_none() && fields.text.is_none() {
            return Err(de::Error::custom(NO_TEXT));
        }
        Ok(Document::Fields(fields))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn document_is_a_text_or_an_object_with_text() {
        let read = |json: &str| serde_json::from_str::<Document>(json).map_err(|error| error.to_string());
        let of_id = DocumentFields { id: Some("1".into()), ..DocumentFields::default() };
        assert_eq!(read(r#""a""#).unwrap(), Document::Text("a".into()));
        assert_eq!(read(r#"{"id": "1"}"#).unwrap(), Document::Fields(of_id));
        assert!(read("{}").unwrap_err().contains(NO_TEXT));
        assert!(read(r#"{"text": "a", "url": "b"}"#).unwrap_err().contains("url"));
        assert!(read("3").unwrap_err().contains('3'));
    }

    #[test]
    fn request_is_written_as_it_was_read_and_leaves_out_defaults() {
        let body = json!({"query": ["a", "b"], "documents": ["c", {"title": "d", "text": "e"}], "offsets": "byte",
            "pre_tags": ["<b>"], "top_k": 2});
        let request: HighlightsRequest = serde_json::from_value(body.clone()).unwrap();
        assert_eq!(serde_json::to_value(&request).unwrap(), body);
    }

    #[test]
    fn fields_are_those_of_the_struct_without_its_options() {
        let names = |schema: schemars::Schema| -> Vec<String> {
            schema.get("properties").unwrap().as_object().unwrap().keys().cloned().collect()
        };
        let options = names(schemars::schema_for!(Options));
        let mut all = names(schemars::schema_for!(HighlightsRequest));
        all.retain(|name| !options.contains(name));
        all.sort_unstable();
        let mut fields = HighlightsRequest::FIELDS;
        fields.sort_unstable();
        assert_eq!(all, fields);
    }
}
