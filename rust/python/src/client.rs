//! The client as a Python class. `pullquote.Client` and `pullquote.AsyncClient` wrap and document it.
//!
//! A method checks its arguments and returns a [`ClientCall`]: a thread waits for it, or an event loop awaits it.

use std::pin::Pin;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use numpy::PyArray2;
use pullquote_client::{CallOptions, CiteArguments, File, HighlightsArguments, ReturnOptions, StoredDocument, Vectors};
use pullquote_core::engine::Request;
use pullquote_core::engine::options::seconds;
use pullquote_core::error::{ErrorKind, Result};
use pullquote_core::runtime::sync::lock;
use pullquote_core::text::formats::{Format, detected};
use pullquote_core::tokens::Role;
use pullquote_wire::embedding_dtype::EmbeddingDtype;
use pyo3::IntoPyObjectExt;
use pyo3::conversion::FromPyObjectOwned;
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::PyDict;

use crate::citations::to_json;
use crate::completion::{CompletionSender, IntoPython, PendingCall, ReplyTo};
use crate::failures::{Failure, raise};
use crate::highlight_columns::HighlightColumns;
use crate::highlighter::argument;
use crate::interruptible::leave_python;
use crate::options::read_settings;
use crate::pruning::{self, PruneCall};
use crate::quotes::Located;
use crate::results::{Embeddings, matrix, record};
use crate::texts::{self, HighlightsCall};

/// Servers, for many threads at once.
#[pyclass(frozen, module = "pullquote._native")]
pub(crate) struct Client {
    client: Arc<pullquote_client::Client>,
}

record! {
    "pullquote.client",
    /// A stored document.
    Document {
        /// Its id.
        id: String,
        /// Its text.
        text: String,
        /// Its title.
        title: Option<String>,
        /// SHA-256 of its text, as ``sha256:…``.
        text_hash: String,
    }
}

record! {
    "pullquote.client",
    from pullquote_wire::documents::ListedDocument,
    /// A stored document of `Client.list_documents`, without its text.
    ListedDocument {
        /// Its id.
        id: String,
        /// Its title, of which at most 1,000 characters.
        title: Option<String>,
        /// SHA-256 of its text, as ``sha256:…``.
        text_hash: String,
        /// Format that ``format="auto"`` reads its text as; `None` if an older version has stored it.
        format: Option<String>,
        /// Bytes of UTF-8 of its id, title and text.
        bytes: usize,
        /// When it was stored, in seconds since 1970; `None` if an older version has stored it.
        stored_at: Option<i64>,
    }
}

record! {
    "pullquote.client",
    /// Some of the stored documents.
    DocumentList {
        /// In the order of their ids.
        documents: Vec<ListedDocument>,
        /// Stored documents with the prefix.
        total: usize,
        /// The `after` of the next page; `None` on the last one.
        next: Option<String>,
    }
}

record! {
    "pullquote.client",
    from pullquote_wire::documents::PutDocuments,
    /// What `Client.put_documents` did.
    PutDocuments {
        /// Documents whose ids are new.
        created: usize,
        /// Documents that replaced others.
        replaced: usize,
    }
}

record! {
    "pullquote._native",
    /// A text of `Client.rerank`.
    Rank {
        /// Its index among the texts.
        index: usize,
        /// The cosine of its vector with the query's.
        score: f32,
    }
}

/// An option, unless it is missing or `None`.
fn get<'py, T: FromPyObjectOwned<'py>>(options: &Bound<'py, PyDict>, name: &str) -> PyResult<Option<T>> {
    options.get_item(name)?.filter(|value| !value.is_none()).map(|value| argument(&value, name)).transpose()
}

fn read_dtype(options: &Bound<'_, PyDict>) -> PyResult<EmbeddingDtype> {
    let name: String = get(options, "embedding_dtype")?.unwrap_or_else(|| EmbeddingDtype::Float32.name().to_owned());
    EmbeddingDtype::of_name(&name).ok_or_else(|| {
        let names = EmbeddingDtype::ALL.map(|dtype| format!("{:?}", dtype.name())).join(", ");
        raise(ErrorKind::InvalidArgument, &format!("embedding_dtype must be one of {names}, not {name:?}"))
    })
}

fn read_return_options(options: &Bound<'_, PyDict>) -> PyResult<ReturnOptions> {
    let texts = get(options, "return_texts")?.unwrap_or(false);
    let (dtype, vectors) = (read_dtype(options)?, get(options, "return_vectors")?.unwrap_or(false));
    if !vectors && dtype != EmbeddingDtype::Float32 {
        let message = "embedding_dtype is that of vectors; ask for them with return_vectors=True, or leave it out";
        return Err(raise(ErrorKind::InvalidArgument, message));
    }
    Ok(ReturnOptions { texts, vectors: vectors.then_some(dtype) })
}

/// Vectors as an array of bytes, a row for each; `client.py` views it as their type.
fn packed(py: Python<'_>, rows: usize, dtype: EmbeddingDtype, vectors: Vectors<u8>) -> PyResult<Py<PyArray2<u8>>> {
    matrix(py, rows, dtype.row_bytes(vectors.dimension), vectors.values)
}

fn read_call_options(options: &Bound<'_, PyDict>) -> PyResult<CallOptions> {
    let (timeout, priority): (Option<f64>, Option<i32>) = (get(options, "timeout")?, get(options, "priority")?);
    Ok(CallOptions::new(timeout.map(seconds).transpose().map_err(Failure)?, priority))
}

/// Files to upload: for each its name or `None`, and its bytes.
fn read_files(options: &Bound<'_, PyDict>) -> PyResult<Vec<File>> {
    let files: Vec<(Option<String>, PyBackedBytes)> = get(options, "files")?.unwrap_or_default();
    Ok(files.into_iter().map(|(name, content)| File { name, content: Bytes::from_owner(content) }).collect())
}

impl Client {
    fn call<R: Send + 'static>(
        &self,
        work: impl Future<Output = Result<R>> + Send + 'static,
        convert: impl FnOnce(Python<'_>, R) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> ClientCall {
        let work = async move {
            let value = work.await?;
            Ok(Box::new(|py: Python<'_>| convert(py, value)) as IntoPython)
        };
        ClientCall { client: Arc::clone(&self.client), work: Mutex::new(Some(Box::pin(work))) }
    }
}

type Work = Pin<Box<dyn Future<Output = Result<IntoPython>> + Send>>;

/// A call that has not begun.
#[pyclass(frozen, module = "pullquote._native")]
pub(crate) struct ClientCall {
    client: Arc<pullquote_client::Client>,
    /// None once it began.
    work: Mutex<Option<Work>>,
}

impl ClientCall {
    fn take(&self) -> PyResult<Work> {
        let work = lock(&self.work).take();
        work.ok_or_else(|| raise(ErrorKind::InvalidArgument, "this call has begun; make another"))
    }
}

#[pymethods]
impl ClientCall {
    /// Waits for the value, with Python's lock released.
    fn wait(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let work = self.take()?;
        leave_python(py, None, |call| self.client.wait(call, work))?(py)
    }

    /// Runs the call in the background; its value goes to the queue.
    fn start(&self, py: Python<'_>, reply_to: ReplyTo<'_>) -> PyResult<PendingCall> {
        let (work, sender) = (self.take()?, CompletionSender::new(reply_to));
        let done = move |outcome| sender.send(outcome, |py, into_python: IntoPython| into_python(py));
        let handle = py.detach(|| self.client.spawn(work, done)).map_err(Failure)?;
        Ok(PendingCall::new(move || handle.abort()))
    }
}

#[pymethods]
impl Client {
    #[new]
    fn new(py: Python<'_>, settings: &Bound<'_, PyDict>) -> PyResult<Self> {
        let settings = read_settings(settings)?;
        let client = leave_python(py, None, |_| pullquote_client::Client::new(settings))?;
        Ok(Self { client: Arc::new(client) })
    }

    /// Vectors of other types than float32 are bytes.
    fn embed(&self, texts: &Bound<'_, PyAny>, is_query: bool, options: &Bound<'_, PyDict>) -> PyResult<ClientCall> {
        let texts = texts::many(texts, "texts")?;
        let (rows, role) = (texts.len(), if is_query { Role::Query } else { Role::Passage });
        let (dtype, call) = (read_dtype(options)?, read_call_options(options)?);
        if dtype == EmbeddingDtype::Float32 {
            return Ok(self.call(self.client.embed(texts, role, call), move |py, embedded| {
                let vectors = matrix(py, rows, embedded.dimension, embedded.values)?.into_any();
                Embeddings { vectors, truncated: embedded.truncated }.into_py_any(py)
            }));
        }
        Ok(self.call(self.client.embed_packed(texts, role, dtype, call), move |py, embedded| {
            let truncated = embedded.truncated;
            Embeddings { vectors: packed(py, rows, dtype, embedded)?.into_any(), truncated }.into_py_any(py)
        }))
    }

    fn highlights(&self, request: HighlightsCall<'_>) -> PyResult<ClientCall> {
        let HighlightsCall { request: texts, is_list, options, token_counter, server_options } = request;
        if token_counter.is_some() {
            return Err(raise(
                ErrorKind::InvalidArgument,
                "count_tokens is a function, which cannot be sent to a server; without it, the server counts its model's tokens",
            ));
        }
        let (returns, call) = (read_return_options(&server_options)?, read_call_options(&server_options)?);
        let number = texts.queries.len();
        let is_stored: Vec<bool> = get(&server_options, "stored")?.unwrap_or_default();
        let files = read_files(&server_options)?;
        check_formats(&texts, if files.is_empty() { &is_stored } else { &[] })?;
        let request = HighlightsArguments {
            texts,
            is_list,
            is_stored,
            files,
            password: get(&server_options, "password")?,
            options,
            returns,
        };
        Ok(self.call(self.client.highlights(request, call), move |py, answer| {
            let rows = answer.columns.rows.len();
            let mut columns = HighlightColumns::of_columns(py, answer.columns)?;
            if let (Some([of_passages, of_queries]), Some(dtype)) = (answer.vectors, returns.vectors) {
                columns.vectors = Some([packed(py, rows, dtype, of_passages)?, packed(py, number, dtype, of_queries)?]);
            }
            columns.into_py_any(py)
        }))
    }

    fn rerank(
        &self,
        query: &Bound<'_, PyAny>,
        texts: &Bound<'_, PyAny>,
        top_n: Option<usize>,
        raw_scores: bool,
        options: &Bound<'_, PyDict>,
    ) -> PyResult<ClientCall> {
        let (query, texts) = (texts::one(query, "query")?, texts::many(texts, "texts")?);
        let options = read_call_options(options)?;
        Ok(self.call(self.client.rerank(query, texts, top_n, raw_scores, options), |py, ranks| {
            let rank = |rank: pullquote_client::RerankResult| Rank { index: rank.index, score: rank.score };
            ranks.into_iter().map(rank).collect::<Vec<_>>().into_py_any(py)
        }))
    }

    fn prune(&self, pairs: PruneCall, threshold: Option<f32>, options: &Bound<'_, PyDict>) -> PyResult<ClientCall> {
        let call = self.client.prune(pairs.into_wire(threshold), read_call_options(options)?);
        Ok(self.call(call, |py, pruned| {
            pruning::results(py, pruned.into_iter().map(Into::into).collect()).into_py_any(py)
        }))
    }

    fn locate(
        &self,
        page: &Bound<'_, PyAny>,
        quote: &Bound<'_, PyAny>,
        options: &Bound<'_, PyDict>,
    ) -> PyResult<ClientCall> {
        let (page, quote) = (texts::one(page, "page")?, texts::one(quote, "quote")?);
        Ok(self.call(self.client.locate(page, quote, read_call_options(options)?), |py, located| {
            Located::from(located).into_py_any(py)
        }))
    }

    fn cite(
        &self,
        request: HighlightsCall<'_>,
        ids: Vec<Option<String>>,
        numbers: Option<Vec<usize>>,
    ) -> PyResult<ClientCall> {
        let HighlightsCall { request, options, .. } = request;
        let call = CallOptions::new(
            options.timeout.map(seconds).transpose().map_err(Failure)?,
            Some(options.priority).filter(|priority| *priority != 0),
        );
        let cite = CiteArguments { texts: request, ids, numbers, format: options.format };
        Ok(self.call(self.client.cite(cite, call), |py, cited| to_json(&cited).map_err(Failure)?.into_py_any(py)))
    }

    fn put_document(
        &self,
        document_id: &Bound<'_, PyAny>,
        text: &Bound<'_, PyAny>,
        title: Option<&Bound<'_, PyAny>>,
        options: &Bound<'_, PyDict>,
    ) -> PyResult<ClientCall> {
        let (id, text) = (texts::one(document_id, "document_id")?, texts::one(text, "text")?);
        let title = title.map(|title| texts::one(title, "title")).transpose()?;
        Ok(self.call(self.client.put_document(id, text, title, read_call_options(options)?), |py, hash| {
            hash.into_py_any(py)
        }))
    }

    fn put_documents(
        &self,
        ids: &Bound<'_, PyAny>,
        texts: &Bound<'_, PyAny>,
        titles: &Bound<'_, PyAny>,
        options: &Bound<'_, PyDict>,
    ) -> PyResult<ClientCall> {
        let (ids, texts) = (texts::many(ids, "ids")?, texts::many(texts, "texts")?);
        let titles = texts::many_or_none(titles, "titles")?;
        let titles = titles.into_iter().chain(std::iter::repeat_with(|| None));
        let documents = ids.into_iter().zip(texts).zip(titles).map(|((id, text), title)| (id, text, title)).collect();
        Ok(self.call(self.client.put_documents(documents, read_call_options(options)?), |py, put| {
            PutDocuments::from(put).into_py_any(py)
        }))
    }

    fn get_document(&self, document_id: &Bound<'_, PyAny>, options: &Bound<'_, PyDict>) -> PyResult<ClientCall> {
        let id = texts::one(document_id, "document_id")?;
        let known = id.to_string();
        Ok(self.call(self.client.get_document(id, read_call_options(options)?), |py, stored| {
            let StoredDocument { title, text, text_hash } = stored;
            Document { id: known, text, title, text_hash }.into_py_any(py)
        }))
    }

    fn delete_document(&self, document_id: &Bound<'_, PyAny>, options: &Bound<'_, PyDict>) -> PyResult<ClientCall> {
        let id = texts::one(document_id, "document_id")?;
        Ok(self.call(self.client.delete_document(id, read_call_options(options)?), |py, ()| Ok(py.None())))
    }

    fn list_documents(
        &self,
        prefix: &Bound<'_, PyAny>,
        after: Option<&Bound<'_, PyAny>>,
        limit: Option<usize>,
        options: &Bound<'_, PyDict>,
    ) -> PyResult<ClientCall> {
        let prefix = texts::one(prefix, "prefix")?;
        let after = after.map(|after| texts::one(after, "after")).transpose()?;
        Ok(self.call(self.client.list_documents(prefix, after, limit, read_call_options(options)?), |py, list| {
            let documents = list.documents.into_iter().map(ListedDocument::from).collect();
            DocumentList { documents, total: list.total, next: list.next }.into_py_any(py)
        }))
    }

    fn delete_documents(&self, prefix: Option<&Bound<'_, PyAny>>, options: &Bound<'_, PyDict>) -> PyResult<ClientCall> {
        let prefix = prefix.map(|prefix| texts::one(prefix, "prefix")).transpose()?;
        Ok(self.call(self.client.delete_documents(prefix, read_call_options(options)?), |py, deleted| {
            deleted.into_py_any(py)
        }))
    }

    fn health(&self, options: &Bound<'_, PyDict>) -> PyResult<ClientCall> {
        Ok(self.call(self.client.health(read_call_options(options)?), |py, health| health.into_py_any(py)))
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| self.client.close());
    }
}

/// Over HTTP all pages have one format. Different ones can be sent only if the server detects the same by itself.
fn check_formats(request: &Request<PyBackedStr>, is_stored: &[bool]) -> PyResult<()> {
    let Request { pages, formats, .. } = request;
    if formats.len() <= 1 {
        return Ok(());
    }
    for (number, (page, format)) in pages.iter().zip(formats).enumerate() {
        let is_sent = is_stored.get(number) == Some(&false);
        if *format != Format::Auto && (!is_sent || detected(Format::Auto, page) != *format) {
            return Err(raise(
                ErrorKind::InvalidArgument,
                &format!(
                    "format: pages of a call to a server have one format, and texts[{number}] as {:?} differs; make one call for each format",
                    format.name()
                ),
            ));
        }
    }
    Ok(())
}
