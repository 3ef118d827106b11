//! The engine as a Python class. `pullquote.Highlighter` wraps it and documents it.

use std::sync::Arc;

use numpy::PyArray2;
use pullquote_core::engine::options::{Options, seconds};
use pullquote_core::engine::{self, Engine, OwnedRequest, Question};
use pullquote_core::error::{ErrorKind, Result};
use pullquote_core::runtime::call::Call;
use pullquote_core::text::pieces::Windows;
use pullquote_core::tokens::Role;
use pyo3::IntoPyObjectExt;
use pyo3::conversion::FromPyObjectOwned;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::PyDict;

use crate::arrow::{self, ColumnNames, Table};
use crate::completion::{CompletionSender, PendingCall, ReplyTo};
use crate::config::EngineConfig;
use crate::engine_handle::EngineHandle;
use crate::failures::{Failure, raise};
use crate::interruptible::{DropDetached, leave_python, leave_python_reporting};
use crate::options::{read_options, read_unit};
use crate::results::{Embeddings, HighlightColumns, matrix, span_array};
use crate::server::Server;
use crate::texts;

/// A model on its devices.
#[pyclass(frozen, extends = EngineHandle, module = "pullquote._native")]
pub(crate) struct Highlighter {
    /// Shared with the servers of this model.
    engine: DropDetached<Arc<Engine>>,
}

/// The value of an argument; the error of another type names the argument.
pub(crate) fn argument<'py, T: FromPyObjectOwned<'py>>(value: &Bound<'py, PyAny>, name: &str) -> PyResult<T> {
    value.extract::<T>().map_err(|error| {
        let error: PyErr = error.into();
        raise(ErrorKind::InvalidType, &format!("{name}: {}", error.value(value.py())))
    })
}

/// The call of a `Request` in `python/pullquote/_request/options.py`.
pub(crate) struct HighlightsCall {
    pub(crate) request: OwnedRequest<PyBackedStr>,
    pub(crate) question: Question,
    /// In seconds.
    pub(crate) timeout: Option<f64>,
    pub(crate) priority: i32,
}

impl HighlightsCall {
    pub(crate) fn read(request: &Bound<'_, PyAny>) -> PyResult<Self> {
        let texts::CallTexts { queries, pages, titles, .. } = texts::CallTexts::read(request)?;
        let options: Options = read_options(request.getattr("options")?.cast()?, &[])?;
        let pairing = options.pairing(queries.len(), pages.len()).map_err(Failure)?;
        let (question, format) = (options.question().map_err(Failure)?, options.format);
        let request = OwnedRequest { queries, pages, formats: vec![format], titles, pairing };
        Ok(Self { request, question, timeout: options.timeout, priority: options.priority })
    }

    /// The call's parts, for a driver other than the calling thread.
    pub(crate) fn detach(self) -> PyResult<(OwnedRequest<PyBackedStr>, Question, Call<'static>)> {
        Ok((self.request, self.question, detached_call(self.timeout)?.with_priority(self.priority)))
    }
}

/// A call that no caller's thread waits for.
fn detached_call(timeout: Option<f64>) -> PyResult<Call<'static>> {
    Ok(Call::new(timeout.map(seconds).transpose().map_err(Failure)?, None))
}

const fn role(is_query: bool) -> Role {
    if is_query { Role::Query } else { Role::Passage }
}

#[pymethods]
impl Highlighter {
    #[new]
    fn new(py: Python<'_>, config: EngineConfig<'_>) -> PyResult<PyClassInitializer<Self>> {
        let engine = Arc::new(config.engine(py)?);
        Ok(EngineHandle::base(&engine).add_subclass(Self { engine: DropDetached::new(engine) }))
    }

    fn highlights(
        &self,
        py: Python<'_>,
        request: &Bound<'_, PyAny>,
        report: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<HighlightColumns> {
        let HighlightsCall { request, question, timeout, priority } = HighlightsCall::read(request)?;
        let report = report.map(|report| report.clone().unbind());
        let answers = leave_python_reporting(py, timeout, report.as_ref(), |call| {
            self.engine.answer(&request, &question, &call.clone().with_priority(priority))
        })?;
        HighlightColumns::new(py, answers)
    }

    fn highlights_arrow(
        &self,
        py: Python<'_>,
        table: &Bound<'_, PyAny>,
        names: ColumnNames,
        options: &Bound<'_, PyDict>,
    ) -> PyResult<Table> {
        arrow::highlights(py, &self.engine, table, names, options)
    }

    fn embed(
        &self,
        py: Python<'_>,
        texts: &Bound<'_, PyAny>,
        is_query: bool,
        timeout: &Bound<'_, PyAny>,
        priority: &Bound<'_, PyAny>,
    ) -> PyResult<Embeddings> {
        let texts = texts::many(texts, "texts")?;
        let (timeout, priority): (Option<f64>, i32) = (argument(timeout, "timeout")?, argument(priority, "priority")?);
        let embedded = leave_python(py, timeout, |call| {
            let texts: Vec<&str> = texts.iter().map(|text| &**text).collect();
            self.engine.embed(&texts, role(is_query), &call.clone().with_priority(priority))
        })?;
        embeddings(py, embedded, texts.len(), self.engine.spec().dimension)
    }

    fn parse_pieces(
        &self,
        py: Python<'_>,
        text: &Bound<'_, PyAny>,
        highlight_length: i64,
        step_size: i64,
        unit: &str,
        allow_gaps: bool,
    ) -> PyResult<Py<PyArray2<i64>>> {
        let text = texts::one(text, "text")?;
        let unit = read_unit(unit)?;
        let windows = Windows::new(highlight_length, step_size, allow_gaps).map_err(Failure)?;
        let spans = leave_python(py, None, |call| self.engine.parse_pieces(&text, unit, windows, call))?;
        span_array(py, &spans)
    }

    fn start_highlights(&self, request: &Bound<'_, PyAny>, reply_to: ReplyTo<'_>) -> PyResult<PendingCall> {
        let (request, question, call) = HighlightsCall::read(request)?.detach()?;
        let call = Arc::new(call);
        let answers = Arc::clone(&self.engine).answer_async(request, question, Arc::clone(&call));
        self.start(call, reply_to, answers, |py, answers| HighlightColumns::new(py, answers)?.into_py_any(py))
    }

    fn start_embed(
        &self,
        texts: &Bound<'_, PyAny>,
        is_query: bool,
        timeout: &Bound<'_, PyAny>,
        priority: &Bound<'_, PyAny>,
        reply_to: ReplyTo<'_>,
    ) -> PyResult<PendingCall> {
        let texts = texts::many(texts, "texts")?;
        let call = detached_call(argument(timeout, "timeout")?)?.with_priority(argument(priority, "priority")?);
        let (call, rows, dimension) = (Arc::new(call), texts.len(), self.engine.spec().dimension);
        let embedded = Arc::clone(&self.engine).embed_async(texts, role(is_query), Arc::clone(&call));
        self.start(call, reply_to, embedded, move |py, embedded| {
            embeddings(py, embedded, rows, dimension)?.into_py_any(py)
        })
    }

    fn start_parse_pieces(
        &self,
        text: &Bound<'_, PyAny>,
        highlight_length: i64,
        step_size: i64,
        unit: &str,
        allow_gaps: bool,
        reply_to: ReplyTo<'_>,
    ) -> PyResult<PendingCall> {
        let text = texts::one(text, "text")?;
        let unit = read_unit(unit)?;
        let windows = Windows::new(highlight_length, step_size, allow_gaps).map_err(Failure)?;
        let call = Arc::new(detached_call(None)?);
        let (engine, stop) = (Arc::clone(&self.engine), Arc::clone(&call));
        let spans = async move { engine.parse_pieces(&text, unit, windows, &stop) };
        self.start(call, reply_to, spans, |py, spans| span_array(py, &spans)?.into_py_any(py))
    }

    /// A server of this model that is bound to its address; `settings` are those of `pullquote/_cli/serve_command.py`, as JSON.
    fn bind(&self, py: Python<'_>, settings: &str) -> PyResult<Server> {
        Server::bind(py, settings, &self.engine)
    }
}

impl Highlighter {
    /// Runs a call on the engine's task threads, and completes it in the caller's queue.
    fn start<T: Send + 'static>(
        &self,
        call: Arc<Call<'static>>,
        reply_to: ReplyTo<'_>,
        work: impl Future<Output = Result<T>> + Send + 'static,
        convert: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> PyResult<PendingCall> {
        let sender = CompletionSender::new(reply_to);
        let task = self.engine.spawn(async move { sender.send(work.await, convert) }).map_err(Failure)?;
        Ok(PendingCall::new(move || {
            call.stop().stop();
            drop(task);
        }))
    }
}

impl Drop for Highlighter {
    fn drop(&mut self) {
        // This waits for batches that run, so it releases Python's lock.
        Python::attach(|py| py.detach(|| self.engine.close()));
    }
}

fn embeddings(py: Python<'_>, embedded: engine::Embeddings, rows: usize, dimension: usize) -> PyResult<Embeddings> {
    let vectors = matrix(py, rows, dimension, embedded.vectors)?.into_any();
    Ok(Embeddings { vectors, truncated: embedded.truncated })
}
