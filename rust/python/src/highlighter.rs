//! The engine as a Python class. `pullquote.Highlighter` wraps it and documents it.

use std::sync::Arc;
use std::time::Duration;

use numpy::ndarray::Array2;
use numpy::{IntoPyArray, PyArray2};
use pullquote_core::encoder::model::Model;
use pullquote_core::encoder::{Batching, Encoder};
use pullquote_core::engine::options::{Options, seconds};
use pullquote_core::engine::{Answers, Engine, OwnedRequest, Question, Work};
use pullquote_core::error::{ErrorKind, Result};
use pullquote_core::runtime::affinity::CpuAffinity;
use pullquote_core::runtime::call::Call;
use pullquote_core::text::page::CharSpan;
use pullquote_core::text::pieces::{Unit, Windows};
use pullquote_core::tokens::Role;
use pyo3::conversion::FromPyObjectOwned;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyCapsule, PyDict};

use crate::arrow::{self, Names, Table};
use crate::cpu::CpuEncoder;
use crate::encoder::ForeignEncoder;
use crate::failures::{Failure, raise};
use crate::function::FunctionEncoder;
use crate::later::{Later, Mailbox, Outcome, Promise};
use crate::leave::{Outside, leave_python};
use crate::opened::Opened;
use crate::server::Server;
use crate::texts;

/// A model on its devices.
#[pyclass(frozen, extends = Opened, module = "pullquote._native")]
pub(crate) struct Highlighter {
    /// Shared with the servers that were made from it.
    engine: Outside<Arc<Engine>>,
}

/// What an argument says; an error that names it where it is of another type.
pub(crate) fn argument<'py, T: FromPyObjectOwned<'py>>(value: &Bound<'py, PyAny>, name: &str) -> PyResult<T> {
    value.extract::<T>().map_err(|error| {
        let error: PyErr = error.into();
        raise(ErrorKind::InvalidType, &format!("{name}: {}", error.value(value.py())))
    })
}

/// The options of a call, out of the dictionary that `python/pullquote/highlighter.py` fills.
pub(crate) fn read_options(options: &Bound<'_, PyDict>) -> PyResult<Options> {
    fn get<'py, T: FromPyObjectOwned<'py>>(options: &Bound<'py, PyDict>, name: &str) -> PyResult<T> {
        let value =
            options.get_item(name)?.ok_or_else(|| raise(ErrorKind::Internal, &format!("no option {name:?}")))?;
        argument(&value, name)
    }
    Ok(Options {
        highlight_length: get(options, "highlight_length")?,
        step_size: get(options, "step_size")?,
        unit: get(options, "unit")?,
        format: get(options, "format")?,
        pairing: get(options, "pairing")?,
        fuse: get(options, "fuse")?,
        top_k: get(options, "top_k")?,
        max_chars: get(options, "max_chars")?,
        max_tokens: get(options, "max_tokens")?,
        max_total_chars: get(options, "max_total_chars")?,
        max_total_tokens: get(options, "max_total_tokens")?,
        min_score: get(options, "min_score")?,
        order: get(options, "order")?,
        dedupe: get(options, "dedupe")?,
        context: get(options, "context")?,
        explain: get(options, "explain")?,
        allow_gaps: get(options, "allow_gaps")?,
        effort: get(options, "effort")?,
        expand: get(options, "expand")?,
        lexical_weight: get(options, "lexical_weight")?,
        timeout: get(options, "timeout")?,
        priority: get(options, "priority")?,
    })
}

/// What an engine is made of; see `Loaded` in `python/pullquote/loading.py`, which fills it.
#[derive(FromPyObject)]
pub(crate) struct Loading<'py> {
    model: String,
    encoder: Bound<'py, PyAny>,
    /// 0 is none: everything is done by those who wait.
    threads: usize,
    cores: Option<Vec<usize>>,
    cache_bytes: usize,
    max_batch_tokens: Option<usize>,
    max_batch_size: Option<usize>,
    batch_timeout: f64,
    depth: Option<usize>,
    device_timeout: Option<f64>,
    profile: bool,
    trace: Option<Py<PyAny>>,
}

impl<'py> Loading<'py> {
    pub(crate) fn model(&self) -> &str {
        &self.model
    }

    pub(crate) const fn encoder(&self) -> &Bound<'py, PyAny> {
        &self.encoder
    }

    pub(crate) fn engine(self, py: Python<'_>) -> PyResult<Engine> {
        let model = leave_python(py, None, |_| Model::read(&self.model))?;
        let encoder: Box<dyn Encoder> = if self.encoder.is_instance_of::<PyCapsule>() {
            Box::new(ForeignEncoder::take(&self.encoder)?)
        } else if let Ok(cpu) = self.encoder.cast::<CpuEncoder>() {
            Box::new(cpu.get().take()?)
        } else {
            FunctionEncoder::of(&self.encoder, self.threads > 0, &model)?
        };
        self.engine_of(py, &model, encoder)
    }

    /// An engine of this model, with this for an encoder.
    pub(crate) fn engine_of(self, py: Python<'_>, model: &Model, encoder: Box<dyn Encoder>) -> PyResult<Engine> {
        // No time at all is no error here.
        let timeout =
            if self.batch_timeout == 0.0 { Duration::ZERO } else { seconds(self.batch_timeout).map_err(Failure)? };
        let (max_tokens, max_rows, depth) = (self.max_batch_tokens, self.max_batch_size, self.depth);
        let device_timeout = self.device_timeout.map(seconds).transpose().map_err(Failure)?;
        let batching = Batching { max_tokens, max_rows, depth, timeout, device_timeout };
        let (threads, cache_bytes, cores) = (self.threads, self.cache_bytes, self.cores);
        let (profile, has_trace) = (self.profile, self.trace.is_some());
        leave_python(py, None, |_| {
            let cores = cores.as_deref().map_or_else(|| Ok(CpuAffinity::default()), CpuAffinity::new)?;
            let engine = Engine::new(model, encoder, Some(threads), cache_bytes)?;
            let engine = engine.with_batching(batching)?.with_affinity(&cores).with_profiling(profile, has_trace);
            Ok(if threads == 0 { engine.driven_by_callers() } else { engine })
        })
    }
}

/// A call as Python asks for it, checked.
pub(crate) struct HighlightsCall {
    pub(crate) request: OwnedRequest<PyBackedStr>,
    pub(crate) question: Question,
    /// In seconds.
    pub(crate) timeout: Option<f64>,
    pub(crate) priority: i32,
}

impl HighlightsCall {
    pub(crate) fn read(
        query: &Bound<'_, PyAny>,
        texts: &Bound<'_, PyAny>,
        titles: &Bound<'_, PyAny>,
        options: &Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        let texts::Texts { queries, listed, pages, titles } = texts::Texts::read(query, texts, titles)?;
        let options = read_options(options)?;
        let pairing = options.pairing(listed, pages.len()).map_err(Failure)?;
        let (question, format) = (options.question().map_err(Failure)?, options.format().map_err(Failure)?);
        let request = OwnedRequest { queries, pages, formats: vec![format], titles, pairing };
        Ok(Self { request, question, timeout: options.timeout, priority: options.priority })
    }
}

/// A call that does not end with the one who asks.
pub(crate) fn call_later(timeout: Option<f64>) -> PyResult<Call<'static>> {
    Ok(Call::new(timeout.map(seconds).transpose().map_err(Failure)?, None))
}

#[pymethods]
impl Highlighter {
    #[new]
    fn new(py: Python<'_>, loading: Loading<'_>) -> PyResult<PyClassInitializer<Self>> {
        let engine = Arc::new(loading.engine(py)?);
        Ok(Opened::around(&engine).add_subclass(Self { engine: Outside::new(engine) }))
    }

    fn highlights<'py>(
        &self,
        py: Python<'py>,
        query: &Bound<'py, PyAny>,
        texts: &Bound<'py, PyAny>,
        titles: &Bound<'py, PyAny>,
        options: &Bound<'py, PyDict>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let HighlightsCall { request, question, timeout, priority } =
            HighlightsCall::read(query, texts, titles, options)?;
        let answers = leave_python(py, timeout, |call| {
            self.engine.answer(&request, &question, &call.clone().with_priority(priority))
        })?;
        columns(py, answers)
    }

    /// The answers to the rows of a table; see `arrow`.
    fn highlights_arrow(
        &self,
        py: Python<'_>,
        table: &Bound<'_, PyAny>,
        names: Names,
        options: &Bound<'_, PyDict>,
    ) -> PyResult<Table> {
        arrow::highlights(py, &self.engine, table, names, options)
    }

    fn embed<'py>(
        &self,
        py: Python<'py>,
        texts: &Bound<'py, PyAny>,
        is_query: bool,
        timeout: &Bound<'py, PyAny>,
        priority: &Bound<'py, PyAny>,
    ) -> PyResult<(Bound<'py, PyArray2<f32>>, usize, usize)> {
        let texts = texts::many(texts, "texts")?;
        let (timeout, priority): (Option<f64>, i32) = (argument(timeout, "timeout")?, argument(priority, "priority")?);
        let embedded = leave_python(py, timeout, |call| {
            let texts: Vec<&str> = texts.iter().map(|text| &**text).collect();
            let role = if is_query { Role::Query } else { Role::Passage };
            self.engine.embed(&texts, role, &call.clone().with_priority(priority))
        })?;
        let written_at = embedded.vectors.as_ptr() as usize;
        let vectors = matrix(py, texts.len(), self.engine.spec().dimension, embedded.vectors)?;
        Ok((vectors, embedded.truncated, written_at))
    }

    fn parse_pieces<'py>(
        &self,
        py: Python<'py>,
        text: &Bound<'py, PyAny>,
        highlight_length: i64,
        step_size: i64,
        unit: &str,
        allow_gaps: bool,
    ) -> PyResult<Bound<'py, PyArray2<i64>>> {
        let text = texts::one(text, "text")?;
        let unit = Unit::parse(unit).map_err(Failure)?;
        let windows = Windows::new(highlight_length, step_size, allow_gaps).map_err(Failure)?;
        let spans = leave_python(py, None, |call| self.engine.parse_pieces(&text, unit, windows, call))?;
        span_array(py, &spans)
    }

    /// As `highlights`, told to a mailbox when it is done; `answer_to` is that and the call's number.
    fn highlights_later(
        &self,
        query: &Bound<'_, PyAny>,
        texts: &Bound<'_, PyAny>,
        titles: &Bound<'_, PyAny>,
        options: &Bound<'_, PyDict>,
        answer_to: (PyRef<'_, Mailbox>, u64),
    ) -> PyResult<Later> {
        let HighlightsCall { request, question, timeout, priority } =
            HighlightsCall::read(query, texts, titles, options)?;
        let call = Arc::new(call_later(timeout)?.with_priority(priority));
        let answers = Arc::clone(&self.engine).answer_async(request, question, Arc::clone(&call));
        self.later(call, answer_to, async { Ok(Outcome::Answers(Box::new(answers.await?))) })
    }

    fn embed_later(
        &self,
        texts: &Bound<'_, PyAny>,
        is_query: bool,
        timeout: &Bound<'_, PyAny>,
        priority: &Bound<'_, PyAny>,
        answer_to: (PyRef<'_, Mailbox>, u64),
    ) -> PyResult<Later> {
        let texts = texts::many(texts, "texts")?;
        let (timeout, priority) = (argument(timeout, "timeout")?, argument(priority, "priority")?);
        let call = Arc::new(call_later(timeout)?.with_priority(priority));
        let sides = [texts.len(), self.engine.spec().dimension];
        let role = if is_query { Role::Query } else { Role::Passage };
        let embedded = Arc::clone(&self.engine).embed_async(texts, role, Arc::clone(&call));
        self.later(call, answer_to, async move { Ok(Outcome::Embedded(embedded.await?, sides)) })
    }

    fn parse_pieces_later(
        &self,
        text: &Bound<'_, PyAny>,
        windows: (i64, i64, bool),
        unit: &str,
        answer_to: (PyRef<'_, Mailbox>, u64),
    ) -> PyResult<Later> {
        let text = texts::one(text, "text")?;
        let unit = Unit::parse(unit).map_err(Failure)?;
        let windows = Windows::new(windows.0, windows.1, windows.2).map_err(Failure)?;
        let call = Arc::new(call_later(None)?);
        let (engine, stop) = (Arc::clone(&self.engine), Arc::clone(&call));
        self.later(
            call,
            answer_to,
            async move { Ok(Outcome::Pieces(engine.parse_pieces(&text, unit, windows, &stop)?)) },
        )
    }

    /// A server of this model that has taken its address; `settings` are those of `pullquote/serving.py`, as JSON.
    fn bind(&self, py: Python<'_>, settings: &str) -> PyResult<Server> {
        Server::bind(py, settings, &self.engine)
    }
}

impl Highlighter {
    fn later(
        &self,
        call: Arc<Call<'static>>,
        answer_to: (PyRef<'_, Mailbox>, u64),
        outcome: impl Future<Output = Result<Outcome>> + Send + 'static,
    ) -> PyResult<Later> {
        let (mailbox, number) = answer_to;
        let promise = Promise::new(number, &mailbox);
        let task = self.engine.spawn(async move { promise.keep(outcome.await) }).map_err(Failure)?;
        Ok(Later::new(call, task))
    }
}

impl Drop for Highlighter {
    fn drop(&mut self) {
        // Waiting for batches that run must not hold Python up.
        Python::attach(|py| py.detach(|| self.engine.close()));
    }
}

/// Hands the answers' columns to numpy, which owns them from then on: nothing is copied.
pub(crate) fn columns(py: Python<'_>, answers: Answers) -> PyResult<Bound<'_, PyDict>> {
    let work = work_dict(py, &answers.work)?;
    let addresses =
        [answers.spans.as_ptr() as usize, answers.scores.as_ptr() as usize, answers.pages.as_ptr() as usize];
    let columns = PyDict::new(py);
    let rows = answers.scores.len();
    columns.set_item("work", work)?;
    columns.set_item("written_at", addresses.to_vec())?;
    columns.set_item("ends", answers.ends.into_pyarray(py))?;
    columns.set_item("spans", matrix(py, rows, 2, answers.spans)?)?;
    columns.set_item("contexts", matrix(py, rows, 2, answers.contexts)?)?;
    columns.set_item("sources", matrix(py, rows, 2, answers.sources)?)?;
    columns.set_item("texts", answers.texts)?;
    columns.set_item("formats", answers.formats.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    columns.set_item("windows", answers.windows.into_pyarray(py))?;
    columns.set_item("windows_scored", answers.windows_scored.into_pyarray(py))?;
    columns.set_item("scores", answers.scores.into_pyarray(py))?;
    columns.set_item("cosines", answers.cosines.into_pyarray(py))?;
    columns.set_item("bm25_scores", answers.bm25_scores.into_pyarray(py))?;
    columns.set_item("pages", answers.pages.into_pyarray(py))?;
    columns.set_item("queries", answers.queries.into_pyarray(py))?;
    let matches = answers.matches;
    columns.set_item("match_ends", matches.ends.into_pyarray(py))?;
    columns.set_item("match_spans", matrix(py, matches.words.len(), 2, matches.spans)?)?;
    columns.set_item("match_words", matches.words.into_pyarray(py))?;
    columns.set_item("query_words", matches.query_words)?;
    Ok(columns)
}

/// What a call took.
pub(crate) fn work_dict<'py>(py: Python<'py>, took: &Work) -> PyResult<Bound<'py, PyDict>> {
    let work = PyDict::new(py);
    work.set_item("windows", took.windows)?;
    work.set_item("windows_scored", took.windows_scored)?;
    work.set_item("encoded", took.encoded)?;
    work.set_item("tokens", took.tokens)?;
    work.set_item("truncated", took.truncated)?;
    work.set_item("cutting", took.cutting.as_secs_f64())?;
    work.set_item("tokenizing", took.tokenizing.as_secs_f64())?;
    work.set_item("waiting", took.waiting.as_secs_f64())?;
    work.set_item("ranking", took.ranking.as_secs_f64())?;
    Ok(work)
}

/// Spans as an array `[n, 2]`.
pub(crate) fn span_array<'py>(py: Python<'py>, spans: &[CharSpan]) -> PyResult<Bound<'py, PyArray2<i64>>> {
    let flat: std::result::Result<Vec<i64>, _> =
        spans.iter().flat_map(|span| [span.start, span.end]).map(i64::try_from).collect();
    let flat = flat.map_err(|_| raise(ErrorKind::Internal, "a span that does not fit 63 bits"))?;
    matrix(py, spans.len(), 2, flat)
}

pub(crate) fn matrix<T: numpy::Element>(
    py: Python<'_>,
    rows: usize,
    columns: usize,
    values: Vec<T>,
) -> PyResult<Bound<'_, PyArray2<T>>> {
    let array = Array2::from_shape_vec((rows, columns), values)
        .map_err(|error| raise(ErrorKind::Internal, &format!("{rows} rows of {columns} do not fit: {error}")))?;
    Ok(array.into_pyarray(py))
}
