//! The engine as a Python class. `pullquote.Highlighter` wraps it and documents it.

use std::path::PathBuf;
use std::sync::Arc;

use numpy::{PyArray1, PyArray2};
use pullquote_core::engine::options::seconds;
use pullquote_core::engine::{self, Engine, Question};
use pullquote_core::error::{ErrorKind, Result};
use pullquote_core::runtime::call::Call;
use pullquote_core::text::pieces::Windows;
use pullquote_core::tokens::Role;
use pyo3::IntoPyObjectExt;
use pyo3::conversion::FromPyObjectOwned;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrow::{self, ColumnNames, Table};
use crate::citations::CiteCall;
use crate::completion::{CompletionSender, PendingCall, ReplyTo};
use crate::config::EngineSettings;
use crate::engine_handle::EngineHandle;
use crate::failures::{Failure, raise};
use crate::highlight_columns::HighlightColumns;
use crate::interruptible::{DropDetached, leave_python, leave_python_reporting};
use crate::options::read_unit;
use crate::pruning::{self, PruneCall, PrunedTuple};
use crate::results::{Embeddings, matrix, span_array};
use crate::server::Server;
use crate::texts::{self, HighlightsCall};

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
    #[expect(clippy::needless_pass_by_value, reason = "pyo3 passes owned values")]
    fn new(
        py: Python<'_>,
        settings: &EngineSettings,
        model: PathBuf,
        encoder: &Bound<'_, PyAny>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let engine = Arc::new(settings.engine(py, &model, encoder)?);
        leave_python(py, None, |call| engine.measure(call))?;
        Ok(EngineHandle::base(&engine).add_subclass(Self { engine: DropDetached::new(engine) }))
    }

    fn highlights(
        &self,
        py: Python<'_>,
        request: HighlightsCall<'_>,
        report: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<HighlightColumns> {
        let HighlightsCall { request, options, token_counter, .. } = request;
        let question = Question::new(&options).map_err(Failure)?;
        let report = report.map(|report| report.clone().unbind());
        let answers = leave_python_reporting(py, options.timeout, report.as_ref(), |call| {
            let call = call.clone().with_priority(options.priority).with_token_counter(token_counter);
            self.engine.wait(&call, self.engine.highlights(&request, &question, &call))
        })?;
        HighlightColumns::of_answers(py, answers)
    }

    fn cite(
        &self,
        py: Python<'_>,
        request: HighlightsCall<'_>,
        ids: Vec<Option<String>>,
        numbers: Option<Vec<usize>>,
    ) -> PyResult<String> {
        let HighlightsCall { request, options, .. } = request;
        let cite = CiteCall { request, ids, numbers };
        leave_python(py, options.timeout, |call| {
            let call = call.clone().with_priority(options.priority);
            self.engine.wait(&call, cite.run(&self.engine, &call))
        })
    }

    fn start_cite(
        &self,
        request: HighlightsCall<'_>,
        ids: Vec<Option<String>>,
        numbers: Option<Vec<usize>>,
        reply_to: ReplyTo<'_>,
    ) -> PyResult<PendingCall> {
        let (request, _, call) = request.detach()?;
        let cite = CiteCall { request, ids, numbers };
        let work = |engine: Arc<Engine>, call: Arc<Call<'static>>| async move { cite.run(&engine, &call).await };
        self.start(call, reply_to, work, |py, cited| cited.into_py_any(py))
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
            let call = call.clone().with_priority(priority);
            self.engine.wait(&call, self.engine.embed(&texts, role(is_query), &call))
        })?;
        embeddings(py, embedded, texts.len(), self.engine.spec().dimension)
    }

    /// The reranker's logit of each text.
    fn score_passages<'py>(
        &self,
        py: Python<'py>,
        query: &Bound<'_, PyAny>,
        texts: &Bound<'_, PyAny>,
        raw_scores: bool,
        timeout: &Bound<'_, PyAny>,
        priority: &Bound<'_, PyAny>,
    ) -> PyResult<Bound<'py, PyArray1<f32>>> {
        let (query, texts) = (texts::one(query, "query")?, texts::many(texts, "texts")?);
        let (timeout, priority): (Option<f64>, i32) = (argument(timeout, "timeout")?, argument(priority, "priority")?);
        let passages: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
        let scores = leave_python(py, timeout, |call| {
            let call = call.clone().with_priority(priority);
            self.engine.wait(&call, self.engine.relevance(&query, &passages, raw_scores, &call))
        })?;
        Ok(PyArray1::from_vec(py, scores))
    }

    /// What the pruner says of each sentence of texts, and of the texts.
    #[expect(clippy::needless_pass_by_value, reason = "pyo3 passes owned values")]
    fn prune<'py>(
        &self,
        py: Python<'py>,
        texts: PruneCall,
        threshold: Option<f32>,
        timeout: &Bound<'_, PyAny>,
        priority: &Bound<'_, PyAny>,
    ) -> PyResult<Vec<PrunedTuple<'py>>> {
        let (timeout, priority): (Option<f64>, i32) = (argument(timeout, "timeout")?, argument(priority, "priority")?);
        let pruned = leave_python(py, timeout, |call| {
            let call = call.clone().with_priority(priority);
            self.engine.wait(&call, texts.run(&self.engine, threshold, &call))
        })?;
        Ok(pruning::results(py, pruned))
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

    fn start_highlights(&self, request: HighlightsCall<'_>, reply_to: ReplyTo<'_>) -> PyResult<PendingCall> {
        let (request, question, call) = request.detach()?;
        let work = |engine: Arc<Engine>, call: Arc<Call<'static>>| async move {
            engine.highlights(&request, &question, &call).await
        };
        self.start(call, reply_to, work, |py, answers| HighlightColumns::of_answers(py, answers)?.into_py_any(py))
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
        let (rows, dimension) = (texts.len(), self.engine.spec().dimension);
        let work = move |engine: Arc<Engine>, call: Arc<Call<'static>>| async move {
            engine.embed(&texts, role(is_query), &call).await
        };
        self.start(call, reply_to, work, move |py, embedded| embeddings(py, embedded, rows, dimension)?.into_py_any(py))
    }

    fn start_score_passages(
        &self,
        query: &Bound<'_, PyAny>,
        texts: &Bound<'_, PyAny>,
        raw_scores: bool,
        timeout: &Bound<'_, PyAny>,
        priority: &Bound<'_, PyAny>,
        reply_to: ReplyTo<'_>,
    ) -> PyResult<PendingCall> {
        let (query, texts) = (texts::one(query, "query")?, texts::many(texts, "texts")?);
        let call = detached_call(argument(timeout, "timeout")?)?.with_priority(argument(priority, "priority")?);
        let work = move |engine: Arc<Engine>, call: Arc<Call<'static>>| async move {
            let passages: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
            engine.relevance(&query, &passages, raw_scores, &call).await
        };
        self.start(call, reply_to, work, |py, scores| PyArray1::from_vec(py, scores).into_py_any(py))
    }

    fn start_prune(
        &self,
        texts: PruneCall,
        threshold: Option<f32>,
        timeout: &Bound<'_, PyAny>,
        priority: &Bound<'_, PyAny>,
        reply_to: ReplyTo<'_>,
    ) -> PyResult<PendingCall> {
        let call = detached_call(argument(timeout, "timeout")?)?.with_priority(argument(priority, "priority")?);
        let work = move |engine: Arc<Engine>, call: Arc<Call<'static>>| async move {
            texts.run(&engine, threshold, &call).await
        };
        self.start(call, reply_to, work, |py, pruned| pruning::results(py, pruned).into_py_any(py))
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
        let work = move |engine: Arc<Engine>, call: Arc<Call<'static>>| async move {
            engine.parse_pieces(&text, unit, windows, &call)
        };
        self.start(detached_call(None)?, reply_to, work, |py, spans| span_array(py, &spans)?.into_py_any(py))
    }

    /// A server of this model that is bound to its address; `settings` are those of `pullquote serve`, by name.
    fn bind(&self, py: Python<'_>, settings: &Bound<'_, PyDict>) -> PyResult<Server> {
        Server::bind(py, settings, &self.engine)
    }
}

impl Highlighter {
    pub(crate) fn engine(&self) -> Arc<Engine> {
        Arc::clone(&self.engine)
    }

    /// Runs a call on the engine's task threads, and completes it in the caller's queue.
    fn start<T: Send + 'static, Work: Future<Output = Result<T>> + Send + 'static>(
        &self,
        call: Call<'static>,
        reply_to: ReplyTo<'_>,
        work: impl FnOnce(Arc<Engine>, Arc<Call<'static>>) -> Work,
        convert: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> PyResult<PendingCall> {
        let (call, sender) = (Arc::new(call), CompletionSender::new(reply_to));
        let work = work(Arc::clone(&self.engine), Arc::clone(&call));
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
