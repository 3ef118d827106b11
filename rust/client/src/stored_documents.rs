//! Documents that servers store.

use std::sync::Arc;

use pullquote_core::error::Result;
use pullquote_wire::documents::{DeletedDocuments, DocumentList, PutDocuments};
use reqwest::Method;
use serde::{Deserialize, Serialize};
use url::form_urlencoded;

use crate::call_options::CallOptions;
use crate::client::Client;
use crate::exchange::{ClientState, Request, compute, json_body};
use crate::raw::bad;
use crate::settings::invalid;
use crate::vectors::Text;

#[derive(Clone, Debug, Deserialize)]
pub struct StoredDocument {
    #[serde(default)]
    pub title: Option<String>,
    #[serde(default)]
    pub text: String,
    pub text_hash: String,
}

/// The most documents of a request that stores them: those that a server takes by default.
const MOST_DOCUMENTS: usize = 1000;
/// The most bytes of their texts together, half of what a server takes by default.
const MOST_BYTES: usize = 16 * 1024 * 1024;

impl Client {
    /// Stores a document under an id. Returns the hash of its text.
    ///
    /// # Errors
    /// Those of all calls of a [`Client`].
    pub fn put_document<T: Text>(
        &self,
        id: T,
        text: T,
        title: Option<T>,
        call: CallOptions,
    ) -> impl Future<Output = Result<String>> + Send + use<T> {
        let shared = Arc::clone(&self.shared);
        async move {
            #[derive(Serialize)]
            struct DocumentBody<'call> {
                #[serde(skip_serializing_if = "Option::is_none")]
                title: Option<&'call str>,
                text: &'call str,
            }
            let (title, text) = (title.as_ref().map(AsRef::as_ref), text.as_ref());
            let body = compute(text.len(), || json_body(&DocumentBody { title, text }))?;
            let request = Request { body: Some(body), ..Request::of(Method::PUT, path(id.as_ref())?) };
            shared.fetch(&request, call).await?.read_json::<StoredDocument>().map(|stored| stored.text_hash)
        }
    }

    /// Stores documents: for each its id, text and title. Each request of up to [`MOST_DOCUMENTS`] of them and
    /// [`MOST_BYTES`] of text, unless one text is longer, is a transaction.
    ///
    /// # Errors
    /// Those of all calls of a [`Client`]; the documents of earlier requests are stored then.
    pub fn put_documents<T: Text>(
        &self,
        documents: Vec<(T, T, Option<T>)>,
        call: CallOptions,
    ) -> impl Future<Output = Result<PutDocuments>> + Send + use<T> {
        let shared = Arc::clone(&self.shared);
        async move {
            let mut put = PutDocuments::default();
            let mut rest = documents.as_slice();
            loop {
                let (request, after) = rest.split_at(first_request(rest));
                let part = put_request(&shared, request, call).await?;
                put.created += part.created;
                put.replaced += part.replaced;
                rest = after;
                if rest.is_empty() {
                    return Ok(put);
                }
            }
        }
    }

    /// The document stored under an id.
    ///
    /// # Errors
    /// Those of all calls of a [`Client`].
    pub fn get_document<T: Text>(
        &self,
        id: T,
        call: CallOptions,
    ) -> impl Future<Output = Result<StoredDocument>> + Send + use<T> {
        let shared = Arc::clone(&self.shared);
        async move {
            let answer = shared.fetch(&Request::of(Method::GET, path(id.as_ref())?), call).await?;
            compute(answer.body.len(), || answer.read_json())
        }
    }

    /// Documents whose ids begin with a prefix, in the order of ids, after one: at most `limit`, or as many as the server
    /// lists by default.
    ///
    /// # Errors
    /// Those of all calls of a [`Client`].
    pub fn list_documents<T: Text>(
        &self,
        prefix: T,
        after: Option<T>,
        limit: Option<usize>,
        call: CallOptions,
    ) -> impl Future<Output = Result<DocumentList>> + Send + use<T> {
        let shared = Arc::clone(&self.shared);
        async move {
            let limit = limit.map(|limit| limit.to_string());
            let path = documents_path(&[
                ("prefix", Some(prefix.as_ref())),
                ("after", after.as_ref().map(AsRef::as_ref)),
                ("limit", limit.as_deref()),
            ]);
            let answer = shared.fetch(&Request::of(Method::GET, path), call).await?;
            let list: DocumentList = answer.read_json()?;
            let prefix = prefix.as_ref();
            match list.documents.iter().find(|document| !document.id.starts_with(prefix)) {
                None => Ok(list),
                Some(other) => Err(answer.error(&bad(format!("{:?} does not begin with {prefix:?}", other.id)))),
            }
        }
    }

    /// Deletes all documents whose ids begin with a prefix, or all documents without one; returns how many this request
    /// has deleted.
    ///
    /// # Errors
    /// Those of all calls of a [`Client`]; [`InvalidArgument`](pullquote_core::error::ErrorKind::InvalidArgument) for an
    /// empty prefix.
    pub fn delete_documents<T: Text>(
        &self,
        prefix: Option<T>,
        call: CallOptions,
    ) -> impl Future<Output = Result<usize>> + Send + use<T> {
        let shared = Arc::clone(&self.shared);
        async move {
            let prefix = prefix.as_ref().map(AsRef::as_ref);
            if prefix == Some("") {
                return Err(invalid("the prefix is empty; it must have at least one character"));
            }
            let all = if prefix.is_none() { Some("true") } else { None };
            let path = documents_path(&[("prefix", prefix), ("all", all)]);
            let answer = shared.fetch(&Request::of(Method::DELETE, path), call).await?;
            answer.read_json::<DeletedDocuments>().map(|answer| answer.deleted)
        }
    }

    /// Deletes the document stored under an id.
    ///
    /// # Errors
    /// Those of all calls of a [`Client`].
    pub fn delete_document<T: Text>(
        &self,
        id: T,
        call: CallOptions,
    ) -> impl Future<Output = Result<()>> + Send + use<T> {
        let shared = Arc::clone(&self.shared);
        async move { shared.fetch(&Request::of(Method::DELETE, path(id.as_ref())?), call).await.map(drop) }
    }
}

/// How many documents the first request has.
fn first_request<T: Text>(documents: &[(T, T, Option<T>)]) -> usize {
    let mut bytes = 0;
    let fits = |(_, text, _): &&(T, T, Option<T>)| {
        bytes += text.as_ref().len();
        bytes <= MOST_BYTES
    };
    let count = documents.iter().take(MOST_DOCUMENTS).take_while(fits).count();
    count.max(1).min(documents.len())
}

async fn put_request<T: Text>(
    shared: &ClientState,
    documents: &[(T, T, Option<T>)],
    call: CallOptions,
) -> Result<PutDocuments> {
    #[derive(Serialize)]
    struct NamedDocument<'call> {
        id: &'call str,
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<&'call str>,
        text: &'call str,
    }
    #[derive(Serialize)]
    struct DocumentsBody<'call> {
        documents: Vec<NamedDocument<'call>>,
    }
    let size = documents.iter().map(|(_, text, _)| text.as_ref().len()).sum();
    let named = documents.iter().map(|(id, text, title)| NamedDocument {
        id: id.as_ref(),
        title: title.as_ref().map(AsRef::as_ref),
        text: text.as_ref(),
    });
    let body = compute(size, || json_body(&DocumentsBody { documents: named.collect() }))?;
    let answer = shared.fetch(&Request::post("/documents", body), call).await?;
    let put: PutDocuments = answer.read_json()?;
    let (stored, sent) = (put.created.checked_add(put.replaced), documents.len());
    if stored == Some(sent) {
        return Ok(put);
    }
    Err(answer.error(&bad(format!("{} created and {} replaced are not {sent} documents", put.created, put.replaced))))
}

/// The path of all documents, with parameters.
fn documents_path(parameters: &[(&str, Option<&str>)]) -> String {
    let mut query = form_urlencoded::Serializer::new("/documents?".to_owned());
    for (name, value) in parameters {
        query.extend_pairs(value.map(|value| (name, value)));
    }
    query.finish()
}

/// The path of a document, with any id as one segment.
fn path(id: &str) -> Result<String> {
    if id.is_empty() || id == "." || id == ".." {
        return Err(invalid(format!("a document's id must be a name, not {id:?}")));
    }
    let escaped: String = form_urlencoded::byte_serialize(id.as_bytes()).collect();
    Ok(format!("/documents/{}", escaped.replace('+', "%20")))
}
