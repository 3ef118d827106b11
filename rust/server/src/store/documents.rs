//! Documents: the pages of a request, as clients write them.

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use sha2::{Digest, Sha256};

use crate::app::App;
use crate::http::failure::{Cause, Failure};
use crate::settings::Settings;
use crate::store::{Stored, not_stored};

/// What requests call their documents.
const FIELD: &str = "documents";

const NOTHING: &str = "a document needs a text, or the id of one that is stored";

/// The pages of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Documents {
    /// One by one.
    Listed(Vec<Document>),
    /// Stored ones.
    Named(Vec<String>),
}

/// A page of a request: a text, or an object that has one, or the id of one that is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Document {
    id: Option<String>,
    title: Option<String>,
    /// Never none where there is no id.
    text: Option<String>,
}

/// A page with its text, wherever that came from.
pub(crate) struct RequestPage {
    pub(crate) id: Option<String>,
    title: Option<String>,
    content: Content,
}

enum Content {
    Sent { text: String, text_hash: String },
    Stored(Arc<Stored>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    text: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ids {
    ids: Vec<String>,
}

impl Documents {
    /// The pages, checked: how many there are, how long each is, and that those which are named are there.
    pub(crate) fn read(self, app: &App) -> Result<Vec<RequestPage>, Failure> {
        let listed = match self {
            Self::Listed(documents) => documents,
            Self::Named(ids) => ids.into_iter().map(Document::named).collect(),
        };
        check_count(listed.len(), FIELD, app.settings.max_documents)?;
        let pages =
            listed.into_iter().map(|document| document.read(app)).collect::<Result<Vec<RequestPage>, Failure>>()?;
        check_lengths(pages.iter().map(RequestPage::text), FIELD, &app.settings)?;
        Ok(pages)
    }
}

impl Document {
    const fn named(id: String) -> Self {
        Self { id: Some(id), title: None, text: None }
    }

    fn read(self, app: &App) -> Result<RequestPage, Failure> {
        let Self { id, title, text } = self;
        let content = match (text, &id) {
            (Some(text), _) => Content::Sent { text_hash: text_hash(&text), text },
            (None, Some(id)) => Content::Stored(app.store.get(id)?.ok_or_else(|| not_stored(id))?),
            (None, None) => return Err(Failure::of_field(Cause::Unprocessable, FIELD, NOTHING)),
        };
        Ok(RequestPage { id, title, content })
    }
}

impl RequestPage {
    pub(crate) fn text(&self) -> &str {
        match &self.content {
            Content::Sent { text, .. } => text,
            Content::Stored(stored) => &stored.text,
        }
    }

    /// The request's own title goes before the one that was stored.
    pub(crate) fn title(&self) -> Option<&str> {
        let stored = match &self.content {
            Content::Sent { .. } => None,
            Content::Stored(stored) => stored.title.as_deref(),
        };
        self.title.as_deref().or(stored)
    }

    pub(crate) fn text_hash(&self) -> &str {
        match &self.content {
            Content::Sent { text_hash, .. } => text_hash,
            Content::Stored(stored) => &stored.text_hash,
        }
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
        Ids::deserialize(MapAccessDeserializer::new(map)).map(|named| Documents::Named(named.ids))
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
        Ok(Document { text: Some(text), ..Document::default() })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Document, A::Error> {
        let Fields { id, title, text } = Fields::deserialize(MapAccessDeserializer::new(map))?;
        if id.is_none() && text.is_none() {
            return Err(de::Error::custom(NOTHING));
        }
        Ok(Document { id, title, text })
    }
}

/// Checks how long each text is.
pub(crate) fn check_lengths<'text>(
    texts: impl IntoIterator<Item = &'text str>,
    field: &str,
    settings: &Settings,
) -> Result<(), Failure> {
    let limit = settings.max_document_bytes;
    match texts.into_iter().enumerate().find(|(_, text)| text.len() > limit) {
        None => Ok(()),
        Some((index, text)) => Err(Failure::of_field(
            Cause::Unprocessable,
            format!("{field}[{index}]"),
            format!("a text of {} bytes is longer than {limit}, the most this server takes", text.len()),
        )),
    }
}

/// Checks that there is at least one of something, and not more than may be.
pub(crate) fn check_count(count: usize, field: &str, limit: usize) -> Result<(), Failure> {
    let refused = |message: String| Err(Failure::of_field(Cause::Unprocessable, field, message));
    match count {
        0 => refused("the list is empty; it must have at least one entry".to_owned()),
        _ if count > limit => refused(format!("there are {count}, more than {limit}, the most this server takes")),
        _ => Ok(()),
    }
}

/// What a text is known by: the SHA-256 of its UTF-8, named so.
pub(crate) fn text_hash(text: &str) -> String {
    use std::fmt::Write;
    let mut name = String::from("sha256:");
    for byte in Sha256::digest(text.as_bytes()) {
        // Writing to a string never fails.
        let _ = write!(name, "{byte:02x}");
    }
    name
}

/// Those of a document, and of a list of ids.
#[cfg(test)]
pub(crate) fn fields() -> [Vec<&'static str>; 2] {
    use crate::openapi::tests::fields_of;
    [fields_of::<Fields>(), fields_of::<Ids>()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn document_is_a_text_or_an_object_with_text() {
        let read = |json: &str| serde_json::from_str::<Document>(json).map_err(|error| error.to_string());
        assert_eq!(read(r#""a""#).unwrap(), Document { text: Some("a".to_owned()), ..Document::default() });
        assert_eq!(read(r#"{"id": "1"}"#).unwrap(), Document::named("1".to_owned()));
        assert!(read("{}").unwrap_err().contains(NOTHING));
        assert!(read(r#"{"text": "a", "url": "b"}"#).unwrap_err().contains("url"));
        assert!(read("3").unwrap_err().contains('3'));
    }

    #[test]
    fn text_hash_is_sha256() {
        let known = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(text_hash("abc"), known);
    }
}
