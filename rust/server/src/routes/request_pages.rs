//! The pages of a request: texts, and documents of the store.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::app::App;
use crate::http::failure::{Failure, refused};
use crate::http::input::Input;
use crate::http::memory::RequestMemory;
use crate::routes::item_limits::{check_count, check_lengths};
use crate::routes::schema_placeholders::{MAX_DOCUMENT_BYTES, MAX_DOCUMENTS};
use crate::settings::Settings;
use crate::store::hashes::text_hash;
use crate::store::{Store, Stored, not_stored};
use crate::uploads::parsed_upload::ParsedUpload;

const FIELD: &str = "documents";

const NOTHING: &str = "a document needs a text, or the id of one that is stored";

/// Pages: texts, or objects with a text or the id of a stored document; or the ids of stored documents. At most
/// `{max_documents}`, of at most `{max_document_bytes}` bytes each.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(untagged)]
pub(crate) enum Documents {
    Listed(#[schemars(length(min = 1, max = MAX_DOCUMENTS))] Vec<Document>),
    Stored(StoredIds),
}

/// A page of a request.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(untagged, inline)]
pub(crate) enum Document {
    Text(#[schemars(length(max = MAX_DOCUMENT_BYTES))] String),
    Fields(DocumentFields),
}

/// A page with its text, from the request or from the store.
pub(crate) struct RequestPage {
    pub(crate) id: Option<String>,
    /// The request's title, or else the stored one.
    pub(crate) title: Option<String>,
    pub(crate) text: RequestText,
    pub(crate) text_hash: String,
}

/// A text of a request.
pub struct RequestText(TextOwner);

enum TextOwner {
    Itself(String),
    Upload(Arc<ParsedUpload>),
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline, extend("anyOf" = [
    {"required": ["text"], "properties": {"text": {"type": "string", "maxLength": MAX_DOCUMENT_BYTES}}},
    {"required": ["id"], "properties": {"id": {"type": "string"}}},
]))]
pub(crate) struct DocumentFields {
    /// Returned with the page's highlights; without a text, the id of a stored document.
    #[serde(default)]
    id: Option<String>,
    /// Added to the relevance of every passage of the page when pages compete.
    #[serde(default)]
    title: Option<String>,
    /// The page itself.
    #[serde(default)]
    text: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub(crate) struct StoredIds {
    /// Ids of stored documents.
    #[schemars(length(min = 1, max = MAX_DOCUMENTS))]
    ids: Vec<String>,
}

impl Documents {
    /// The pages, after checks of their number, their lengths, and that stored ones exist.
    pub(crate) fn read(self, app: &App, input: &Input) -> Result<Vec<RequestPage>, Failure> {
        let Settings { max_documents, max_document_bytes, .. } = app.settings;
        self.read_within(max_documents, max_document_bytes, Some((&app.store, &input.memory)))
    }

    /// As [`Self::read`]; without a store each document needs a text.
    pub(crate) fn read_within(
        self,
        max_documents: usize,
        max_document_bytes: usize,
        store: Option<(&Store, &RequestMemory)>,
    ) -> Result<Vec<RequestPage>, Failure> {
        let listed = match self {
            Self::Listed(documents) => documents,
            Self::Stored(StoredIds { ids }) => ids.into_iter().map(Document::stored).collect(),
        };
        check_count(listed.len(), FIELD, max_documents)?;
        let pages =
            listed.into_iter().map(|document| document.read(store)).collect::<Result<Vec<RequestPage>, Failure>>()?;
        check_lengths(pages.iter().map(|page| page.text.as_ref()), FIELD, max_document_bytes)?;
        Ok(pages)
    }
}

impl Document {
    const fn stored(id: String) -> Self {
        Self::Fields(DocumentFields { id: Some(id), title: None, text: None })
    }

    fn read(self, store: Option<(&Store, &RequestMemory)>) -> Result<RequestPage, Failure> {
        let DocumentFields { id, title, text } = match self {
            Self::Text(text) => DocumentFields { id: None, title: None, text: Some(text) },
            Self::Fields(fields) => fields,
        };
        let document = match (text, &id, store) {
            (Some(text), ..) => Stored { text_hash: text_hash(&text), title: None, text },
            (None, Some(id), Some((store, memory))) => {
                let stored = store.get(id)?.ok_or_else(|| not_stored(id))?;
                memory.hold(stored.text.len())?;
                stored
            }
            (None, Some(_), None) => return refused(FIELD, "a document needs a text; this server stores none"),
            (None, None, _) => return refused(FIELD, NOTHING),
        };
        let Stored { title: stored_title, text, text_hash } = document;
        Ok(RequestPage { id, title: title.or(stored_title), text: text.into(), text_hash })
    }
}

impl RequestPage {
    pub(crate) fn uploaded(name: Option<String>, document: Arc<ParsedUpload>) -> Self {
        let text_hash = text_hash(&document.text);
        Self { id: name, title: None, text: RequestText(TextOwner::Upload(document)), text_hash }
    }
}

impl RequestText {
    /// The uploaded document that has this text.
    pub(crate) fn upload(&self) -> Option<&ParsedUpload> {
        match &self.0 {
            TextOwner::Upload(document) => Some(document),
            TextOwner::Itself(_) => None,
        }
    }
}

impl AsRef<str> for RequestText {
    fn as_ref(&self) -> &str {
        match &self.0 {
            TextOwner::Itself(text) => text,
            TextOwner::Upload(document) => &document.text,
        }
    }
}

impl From<String> for RequestText {
    fn from(text: String) -> Self {
        Self(TextOwner::Itself(text))
    }
}

impl<'de> Deserialize<'de> for Documents {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DocumentsVisitor)
    }
}

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DocumentVisitor)
    }
}

struct DocumentsVisitor;

impl<'de> Visitor<'de> for DocumentsVisitor {
    type Value = Documents;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of documents, or an object with the ids of stored ones")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Documents, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list)).map(Documents::Listed)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Documents, A::Error> {
        StoredIds::deserialize(MapAccessDeserializer::new(map)).map(Documents::Stored)
    }
}

struct DocumentVisitor;

impl<'de> Visitor<'de> for DocumentVisitor {
    type Value = Document;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, or an object with its text and perhaps an id and a title, or with the id of a stored one")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Document, E> {
        self.visit_string(text.to_owned())
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<Document, E> {
        Ok(Document::Text(text))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Document, A::Error> {
        let fields = DocumentFields::deserialize(MapAccessDeserializer::new(map))?;
        if fields.id.is_none() && fields.text.is_none() {
            return Err(de::Error::custom(NOTHING));
        }
        Ok(Document::Fields(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn document_is_a_text_or_an_object_with_text() {
        let read = |json: &str| serde_json::from_str::<Document>(json).map_err(|error| error.to_string());
        assert_eq!(read(r#""a""#).unwrap(), Document::Text("a".to_owned()));
        assert_eq!(read(r#"{"id": "1"}"#).unwrap(), Document::stored("1".to_owned()));
        assert!(read("{}").unwrap_err().contains(NOTHING));
        assert!(read(r#"{"text": "a", "url": "b"}"#).unwrap_err().contains("url"));
        assert!(read("3").unwrap_err().contains('3'));
    }
}
