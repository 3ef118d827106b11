//! The client as a Python class. `pullquote.Client` and `pullquote.AsyncClient` wrap it and document it.
//!
//! Each call either waits, with Python's lock released, or is given a function `done` and returns at once: what came of the
//! call is then handed to `done(value, error)`, once, on a thread of the client's.

use std::sync::Arc;

use pullquote_client::{Question, Settings, Stored, Wish};
use pullquote_core::error::Result;
use pullquote_core::options::seconds;
use pullquote_core::tokens::Role;
use pyo3::IntoPyObjectExt;
use pyo3::conversion::FromPyObjectOwned;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::failures::Failure;
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

/// What is said about any call: `timeout` in seconds, and `priority`, where there are such options.
fn read_wish(options: &Bound<'_, PyDict>) -> PyResult<Wish> {
    fn get<'py, T: FromPyObjectOwned<'py>>(options: &Bound<'py, PyDict>, name: &str) -> PyResult<Option<T>> {
        options.get_item(name)?.filter(|value| !value.is_none()).map(|value| argument(&value, name)).transpose()
    }
    let (timeout, priority): (Option<f64>, Option<i32>) = (get(options, "timeout")?, get(options, "priority")?);
    Ok(Wish::new(timeout.map(seconds).transpose().map_err(Failure)?, priority))
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
        self.run(py, done, self.client.embed(texts, role, read_wish(options)?), move |py, embedded| {
            let (truncated, written_at) = (embedded.truncated, embedded.written_at);
            let vectors = matrix(py, rows, embedded.dimension, embedded.values)?;
            (vectors, truncated, written_at).into_py_any(py)
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
        let listed = !query.is_instance_of::<PyString>();
        let queries = if listed { texts::many(query, "query")? } else { vec![texts::one(query, "query")?] };
        let texts = texts::many(texts, "texts")?;
        let titles = texts::many_or_none(titles, "titles")?;
        let question = Question { queries, listed, texts, titles, options: read_options(options)? };
        self.run(py, done, self.client.highlights(question, read_wish(options)?), |py, answers| {
            columns(py, answers)?.into_py_any(py)
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
        self.run(py, done, self.client.rerank(query, texts, top_n, read_wish(options)?), |py, ranks| {
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
        self.run(py, done, self.client.put_document(id, text, title, read_wish(options)?), |py, hash| {
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
        self.run(py, done, self.client.get_document(id, read_wish(options)?), |py, stored| {
            let Stored { title, text, text_hash } = stored;
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
        self.run(py, done, self.client.delete_document(id, read_wish(options)?), |py, ()| Ok(py.None()))
    }

    fn health(&self, py: Python<'_>, options: &Bound<'_, PyDict>, done: Option<Py<PyAny>>) -> PyResult<Py<PyAny>> {
        self.run(py, done, self.client.health(read_wish(options)?), |py, health| health.into_py_any(py))
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| self.client.close());
    }
}
