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
    /// Why it is empty: nothing is stored under its id.
    pub(crate) missing: Option<Failure>,
}

/// A text of a request.
pub struct RequestText(TextOwner);

enum TextOwner {
    Itself(String),
    Upload(Arc<ParsedUpload>),
}

/// The pages, after checks of their number and their lengths. One that is not stored is `missing`; all of them are a failure.
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
    let pages = listed
        .into_iter()
        .enumerate()
        .map(|(index, document)| read_page(index, document, store))
        .collect::<Result<Vec<_>, Failure>>()?;
    check_lengths(pages.iter().map(|page| page.text.as_ref()), FIELD, max_document_bytes)?;
    match pages.iter().map(|page| page.missing.as_ref()).collect::<Option<Vec<_>>>().as_deref() {
        Some([first, ..]) => Err((*first).clone()),
        _ => Ok(pages),
    }
}

fn read_page(index: usize, document: Document, store: Option<(&Store, &Input)>) -> Result<RequestPage, Failure> {
    let DocumentFields { id, title, text } = match document {
        Document::Text(text) => DocumentFields { text: Some(text), ..DocumentFields::default() },
        Document::Fields(fields) => fields,
    };
    let [id, title, text] = [id, title, text].map(|field| field.map(Cow::into_owned));
    let mut missing = None;
    let (text_hash, stored_title, text) = match (text, &id, store) {
        (Some(text), ..) => (text_hash(&text), None, text),
        (None, Some(id), Some((store, input))) => {
            if let Some(stored) = store.get(id)? {
                input.hold_text(stored.text.len())?;
                (stored.text_hash, stored.title, stored.text)
            } else {
                missing = Some(Failure { field: Some(format!("{FIELD}[{index}]")), ..not_stored(id) });
                (text_hash(""), None, String::new())
            }
        }
        (None, Some(_), None) => {
            return refused(format!("{FIELD}[{index}]"), "a document needs a text; this server stores none");
        }
        (None, None, _) => return refused(format!("{FIELD}[{index}]"), NO_TEXT),
    };
    Ok(RequestPage { id, title: title.or(stored_title), text: text.into(), text_hash, missing })
}

impl RequestPage {
    pub(crate) fn uploaded(name: Option<String>, document: Arc<ParsedUpload>) -> Self {
        let text_hash = text_hash(&document.text);
        Self { id: name, title: None, text: RequestText(TextOwner::Upload(document)), text_hash, missing: None }
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
