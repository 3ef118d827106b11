//! The pages of a request: texts, and documents of the store.

use std::borrow::Cow;
use std::sync::Arc;

use pullquote_wire::request::{Document, DocumentFields, Documents, NO_TEXT, StoredIds};

use crate::app::App;
use crate::http::failure::{Failure, refused};
use crate::http::input::Input;
use crate::routes::item_limits::{check_count, check_lengths};
use crate::settings::Settings;
use crate::store::hashes::text_hash;
use crate::store::{Store, not_stored};
use crate::uploads::parsed_upload::ParsedUpload;

const FIELD: &str = "documents";

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

/// The pages, after checks of their number, their lengths, and that stored ones exist.
pub(crate) fn read_pages(documents: Documents, app: &App, input: &Input) -> Result<Vec<RequestPage>, Failure> {
    let Settings { max_documents, max_document_bytes, .. } = app.settings;
    read_pages_within(documents, max_documents, max_document_bytes, Some((&app.store, input)))
}

/// As [`read_pages`]; without a store each document needs a text.
pub(crate) fn read_pages_within(
    documents: Documents,
    max_documents: usize,
    max_document_bytes: usize,
    store: Option<(&Store, &Input)>,
) -> Result<Vec<RequestPage>, Failure> {
    let stored = |id: String| Document::Fields(DocumentFields { id: Some(id.into()), ..DocumentFields::default() });
    let listed = match documents {
        Documents::Listed(documents) => documents,
        Documents::Stored(StoredIds { ids }) => ids.into_iter().map(stored).collect(),
    };
    check_count(listed.len(), FIELD, max_documents)?;
    let pages = listed.into_iter().map(|document| read_page(document, store)).collect::<Result<Vec<_>, Failure>>()?;
    check_lengths(pages.iter().map(|page| page.text.as_ref()), FIELD, max_document_bytes)?;
    Ok(pages)
}

fn read_page(document: Document, store: Option<(&Store, &Input)>) -> Result<RequestPage, Failure> {
    let DocumentFields { id, title, text } = match document {
        Document::Text(text) => DocumentFields { text: Some(text), ..DocumentFields::default() },
        Document::Fields(fields) => fields,
    };
    let [id, title, text] = [id, title, text].map(|field| field.map(Cow::into_owned));
    let (text_hash, stored_title, text) = match (text, &id, store) {
        (Some(text), ..) => (text_hash(&text), None, text),
        (None, Some(id), Some((store, input))) => {
            let stored = store.get(id)?.ok_or_else(|| not_stored(id))?;
            input.hold_text(stored.text.len())?;
            (stored.text_hash, stored.title, stored.text)
        }
        (None, Some(_), None) => return refused(FIELD, "a document needs a text; this server stores none"),
        (None, None, _) => return refused(FIELD, NO_TEXT),
    };
    Ok(RequestPage { id, title: title.or(stored_title), text: text.into(), text_hash })
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
