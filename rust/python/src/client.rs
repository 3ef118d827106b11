//! The client as a Python class. `pullquote.Client` and `pullquote.AsyncClient` wrap it and document it.
//!
//! Each call either waits, with Python's lock released, or is given a function `done` and returns at once: what came of the
//! call is then handed to `done(value, error)`, once, on a thread of the client's.

use std::sync::Arc;

use numpy::PyArray2;
use pullquote_client::{
    CallOptions, Dtype, HighlightsAnswer, HighlightsRequest, Page, Passage, ReturnOptions, Settings, StoredDocument,
    Vectors,
};
use pullquote_core::engine::options::seconds;
use pullquote_core::error::{ErrorKind, Result};
use pullquote_core::tokens::Role;
use pyo3::IntoPyObjectExt;
use pyo3::conversion::FromPyObjectOwned;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::failures::{Failure, raise};
use crate::highlighter::{argument, columns, matrix, read_options};
use crate::leave::leave_python;
use crate::texts;

/// Servers, asked by many threads at once.
#[pyclass(frozen, module = "pullquote._native")]
pub(crate) struct Client {
    client: Arc<pullquote_client::Client>,
}

/// A call that runs beside others.
#[pyclass(frozen, module = "pullquote._native")]
pub(crate) struct Task {
    handle: Box<dyn Fn() + Send + Sync>,
}

#[pymethods]
impl Task {
    /// Drops the call, which closes its streams.
    fn abort(&self) {
        (self.handle)();
    }
}

/// An option, if there is such a one.
fn get<'py, T: FromPyObjectOwned<'py>>(options: &Bound<'py, PyDict>, name: &str) -> PyResult<Option<T>> {
    options.get_item(name)?.filter(|value| !value.is_none()).map(|value| argument(&value, name)).transpose()
}

/// The option `embedding_dtype`.
fn read_dtype(options: &Bound<'_, PyDict>) -> PyResult<Dtype> {
    let name: String = get(options, "embedding_dtype")?.unwrap_or_else(|| Dtype::Float32.name().to_owned());
    Dtype::of_name(&name).ok_or_else(|| {
        let names = Dtype::ALL.map(|dtype| format!("{:?}", dtype.name())).join(", ");
        raise(ErrorKind::InvalidArgument, &format!("embedding_dtype must be one of {names}, not {name:?}"))
    })
}

/// What only a server is asked for.
fn read_return_options(options: &Bound<'_, PyDict>) -> PyResult<ReturnOptions> {
    let texts = get(options, "return_texts")?.unwrap_or(false);
    let (dtype, vectors) = (read_dtype(options)?, get(options, "return_vectors")?.unwrap_or(false));
    if !vectors && dtype != Dtype::Float32 {
        let message = "embedding_dtype is that of vectors; ask for them with return_vectors=True, or leave it out";
        return Err(raise(ErrorKind::InvalidArgument, message));
    }
    Ok(ReturnOptions { texts, vectors: vectors.then_some(dtype) })
}

/// Bytes of vectors as an array of `uint8`, a row for each, in which `client.py` sees what they stand for.
fn packed(py: Python<'_>, rows: usize, dtype: Dtype, vectors: Vectors<u8>) -> PyResult<Bound<'_, PyArray2<u8>>> {
    matrix(py, rows, dtype.row_bytes(vectors.dimension), vectors.values)
}

/// What is said about any call: `timeout` in seconds, and `priority`, where there are such options.
fn read_call_options(options: &Bound<'_, PyDict>) -> PyResult<CallOptions> {
    let (timeout, priority): (Option<f64>, Option<i32>) = (get(options, "timeout")?, get(options, "priority")?);
    Ok(CallOptions::new(timeout.map(seconds).transpose().map_err(Failure)?, priority))
}

impl Client {
    /// Waits for a call, or lets it run and tell `done`.
    fn run<R: Send + 'static>(
        &self,
        py: Python<'_>,
        done: Option<Py<PyAny>>,
        work: impl Future<Output = Result<R>> + Send + 'static,
        convert: impl FnOnce(Python<'_>, R) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> PyResult<Py<PyAny>> {
        let Some(done) = done else {
            let came = leave_python(py, None, |call| self.client.wait(call, work))?;
            return convert(py, came);
        };
        let tell = move |came: Result<R>| {
            // None where Python is at its end: nobody waits any more.
            let _ = Python::try_attach(|py| {
                let came = came.map_err(|error| PyErr::from(Failure(error))).and_then(|value| convert(py, value));
                let told = match came {
                    Ok(value) => done.call1(py, (value, py.None())),
                    Err(error) => done.call1(py, (py.None(), error.into_value(py))),
                };
                if let Err(error) = told {
                    error.write_unraisable(py, None);
                }
            });
        };
        let handle = py.detach(|| self.client.spawn(work, tell)).map_err(Failure)?;
        Task { handle: Box::new(move || handle.abort()) }.into_py_any(py)
    }
}

#[pymethods]
impl Client {
    /// `settings` are those of `pullquote/client.py`, as JSON.
    #[new]
    fn new(py: Python<'_>, settings: &str) -> PyResult<Self> {
        let settings = Settings::read(settings).map_err(Failure)?;
        let client = leave_python(py, None, |_| pullquote_client::Client::new(settings))?;
        Ok(Self { client: Arc::new(client) })
    }

    /// The array, how many texts were cut, and where the core wrote it. Of other types than float32 it holds bytes.
    fn embed(
        &self,
        py: Python<'_>,
        texts: &Bound<'_, PyAny>,
        is_query: bool,
        options: &Bound<'_, PyDict>,
        done: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let texts = texts::many(texts, "texts")?;
        let (rows, role) = (texts.len(), if is_query { Role::Query } else { Role::Passage });
        let (dtype, call) = (read_dtype(options)?, read_call_options(options)?);
        if dtype == Dtype::Float32 {
            return self.run(py, done, self.client.embed(texts, role, call), move |py, embedded| {
                let (truncated, written_at) = (embedded.truncated, embedded.written_at);
                let vectors = matrix(py, rows, embedded.dimension, embedded.values)?;
                (vectors, truncated, written_at).into_py_any(py)
            });
        }
        self.run(py, done, self.client.embed_packed(texts, role, dtype, call), move |py, embedded| {
            let (truncated, written_at) = (embedded.truncated, embedded.written_at);
            (packed(py, rows, dtype, embedded)?, truncated, written_at).into_py_any(py)
        })
    }

    fn highlights(
        &self,
        py: Python<'_>,
        query: &Bound<'_, PyAny>,
        texts: &Bound<'_, PyAny>,
        titles: &Bound<'_, PyAny>,
        options: &Bound<'_, PyDict>,
        done: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let texts::Texts { queries, listed, pages, titles } = texts::Texts::read(query, texts, titles)?;
        let is_stored: Vec<bool> = get(options, "stored")?.unwrap_or_default();
        let page =
            |(index, text)| if is_stored.get(index) == Some(&true) { Page::Stored(text) } else { Page::Text(text) };
        let pages = pages.into_iter().enumerate().map(page).collect();
        let (options, returns, call) =
            (read_options(options)?, read_return_options(options)?, read_call_options(options)?);
        let number = queries.len();
        let request = HighlightsRequest { queries, listed, pages, titles, options, returns };
        self.run(py, done, self.client.highlights(request, call), move |py, answer| {
            let HighlightsAnswer { answers, passages, vectors } = answer;
            let rows = answers.scores.len();
            let columns = columns(py, answers)?;
            if !passages.is_empty() {
                let texts = |passage: Passage| (passage.text, passage.before, passage.after);
                let passages: Vec<_> = passages.into_iter().map(|passage| passage.map(texts)).collect();
                columns.set_item("passages", passages)?;
            }
            if let (Some([of_passages, of_queries]), Some(dtype)) = (vectors, returns.vectors) {
                columns.set_item("vectors", packed(py, rows, dtype, of_passages)?)?;
                columns.set_item("query_vectors", packed(py, number, dtype, of_queries)?)?;
            }
            columns.into_py_any(py)
        })
    }

    fn rerank(
        &self,
        py: Python<'_>,
        query: &Bound<'_, PyAny>,
        texts: &Bound<'_, PyAny>,
        top_n: Option<usize>,
        options: &Bound<'_, PyDict>,
        done: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let (query, texts) = (texts::one(query, "query")?, texts::many(texts, "texts")?);
        self.run(py, done, self.client.rerank(query, texts, top_n, read_call_options(options)?), |py, ranks| {
            ranks.iter().map(|rank| (rank.index, rank.score)).collect::<Vec<_>>().into_py_any(py)
        })
    }

    fn put_document(
        &self,
        py: Python<'_>,
        document_id: &Bound<'_, PyAny>,
        text: &Bound<'_, PyAny>,
        title: Option<&Bound<'_, PyAny>>,
        options: &Bound<'_, PyDict>,
        done: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let (id, text) = (texts::one(document_id, "document_id")?, texts::one(text, "text")?);
        let title = title.map(|title| texts::one(title, "title")).transpose()?;
        self.run(py, done, self.client.put_document(id, text, title, read_call_options(options)?), |py, hash| {
            hash.into_py_any(py)
        })
    }

    fn get_document(
        &self,
        py: Python<'_>,
        document_id: &Bound<'_, PyAny>,
        options: &Bound<'_, PyDict>,
        done: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let id = texts::one(document_id, "document_id")?;
        self.run(py, done, self.client.get_document(id, read_call_options(options)?), |py, stored| {
            let StoredDocument { title, text, text_hash } = stored;
            (title, text, text_hash).into_py_any(py)
        })
    }

    fn delete_document(
        &self,
        py: Python<'_>,
        document_id: &Bound<'_, PyAny>,
        options: &Bound<'_, PyDict>,
        done: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let id = texts::one(document_id, "document_id")?;
        self.run(py, done, self.client.delete_document(id, read_call_options(options)?), |py, ()| Ok(py.None()))
    }

    fn health(&self, py: Python<'_>, options: &Bound<'_, PyDict>, done: Option<Py<PyAny>>) -> PyResult<Py<PyAny>> {
        self.run(py, done, self.client.health(read_call_options(options)?), |py, health| health.into_py_any(py))
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| self.client.close());
    }
}
