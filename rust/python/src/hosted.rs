//! Hosted calls as Python classes. `pullquote.engine.Hosted` wraps and documents them.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use numpy::PyReadonlyArray2;
use pullquote_core::encoder::model::Model;
use pullquote_core::encoder::{Batch as CoreBatch, Ticket};
use pullquote_core::engine::{Engine as CoreEngine, HostEncoder, Hosted as CoreHosted};
use pullquote_core::error::{Error, ErrorKind};
use pullquote_core::runtime::call::{Stop, WorkLimits};
use pullquote_core::runtime::sync::lock;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::citations::CiteCall;
use crate::config::EngineSettings;
use crate::engine_handle::EngineHandle;
use crate::failures::Failure;
use crate::highlight_columns::HighlightColumns;
use crate::highlights_body::HighlightsBody;
use crate::interruptible::{DropDetached, leave_python};
use crate::native_threads::NativeSection;
use crate::results::{Batch, HostOutput, vector};
use crate::texts::HighlightsCall;

/// An engine whose host encodes the rows.
#[pyclass(frozen, extends = EngineHandle, module = "pullquote._native")]
pub(crate) struct Hosted {
    engine: DropDetached<Arc<CoreEngine>>,
}

/// A call in progress.
#[pyclass(frozen, module = "pullquote._native")]
pub(crate) struct HostedCall {
    /// Stops a call that another thread is advancing, without waiting for that thread.
    stop: Stop,
    /// None after the host has stopped it.
    call: Mutex<Option<CoreHosted<HostOutput>>>,
    /// The body that it answers, and how long that waited for its turn.
    body: Option<(Arc<pullquote_server::HighlightsBody>, Duration)>,
}

enum HostedResult {
    Output(HostOutput),
    /// JSON.
    Response(Vec<u8>),
}

#[pymethods]
impl Hosted {
    #[new]
    #[expect(clippy::needless_pass_by_value, reason = "pyo3 passes owned values")]
    fn new(
        py: Python<'_>,
        settings: &EngineSettings,
        model: PathBuf,
        host: &Bound<'_, PyAny>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let mut model = leave_python(py, None, |_| Model::read_for_host(&model))?;
        let longest: Option<usize> = host.getattr("max_tokens")?.extract()?;
        model.max_tokens = longest.map_or(model.max_tokens, |longest| longest.min(model.max_tokens));
        let name: String = host.getattr("name")?.extract()?;
        let dimension = host.getattr("dimension")?.extract()?;
        let vocabulary = model.vocabulary.unwrap_or(usize::MAX);
        let encoder = HostEncoder::new(name, dimension, model.max_tokens, vocabulary);
        let engine = Arc::new(settings.engine_of(py, &model, Box::new(encoder))?.stepped());
        Ok(EngineHandle::base(&engine).add_subclass(Self { engine: DropDetached::new(engine) }))
    }

    fn start(
        &self,
        request: HighlightsCall<'_>,
        limit_windows: Option<usize>,
        limit_tokens: Option<usize>,
        depth: usize,
    ) -> PyResult<HostedCall> {
        let (request, question, call) = request.detach()?;
        let call = call.with_limits(WorkLimits { windows: limit_windows, tokens: limit_tokens });
        let stop = call.stop().clone();
        let call =
            CoreHosted::new(Arc::clone(&self.engine), Arc::new(request), question, call, depth).map_err(Failure)?;
        Ok(HostedCall { stop, call: Mutex::new(Some(call)), body: None })
    }

    /// A call whose result is what `cite` found, as JSON.
    fn start_cite(
        &self,
        request: HighlightsCall<'_>,
        ids: Vec<Option<String>>,
        numbers: Option<Vec<usize>>,
        depth: usize,
    ) -> PyResult<HostedCall> {
        let (request, _, call) = request.detach()?;
        let cite = CiteCall { request, ids, numbers };
        let stop = call.stop().clone();
        let call = CoreHosted::of_call(Arc::clone(&self.engine), call, depth, |engine, vectors, call| async move {
            cite.run_with(&engine, &vectors, &call).await.map(HostOutput::Cited)
        });
        Ok(HostedCall { stop, call: Mutex::new(Some(call.map_err(Failure)?)), body: None })
    }

    /// A call whose result is the response to a body that waited `queued` seconds for its turn.
    fn start_body(
        &self,
        body: &HighlightsBody,
        queued: f64,
        limit_windows: Option<usize>,
        depth: usize,
    ) -> PyResult<HostedCall> {
        let body = Arc::clone(&body.0);
        let call = body.call().with_limits(WorkLimits { windows: limit_windows, tokens: None });
        let stop = call.stop().clone();
        let (engine, request) = (Arc::clone(&self.engine), body.request());
        let call = CoreHosted::new(engine, request, body.question(), call, depth).map_err(Failure)?;
        let queued = Duration::try_from_secs_f64(queued).unwrap_or_default();
        Ok(HostedCall { stop, call: Mutex::new(Some(call)), body: Some((body, queued)) })
    }
}

#[pymethods]
impl HostedCall {
    /// Takes vectors of batches, and works until it needs more. Returns the next batches, and once it is done the
    /// columns, the JSON of citations, or the response to its body.
    fn advance<'py>(
        &self,
        py: Python<'py>,
        vectors: Vec<(u64, PyReadonlyArray2<'py, f32>)>,
    ) -> PyResult<(Vec<Batch>, Option<Py<PyAny>>)> {
        let vectors: Vec<(Ticket, Vec<f32>)> = vectors
            .into_iter()
            .map(|(number, rows)| Ok((Ticket { device: 0, number }, rows.as_slice()?.to_vec())))
            .collect::<PyResult<_>>()?;
        let (result, batches) = leave_python(py, None, |_| {
            let mut call = lock(&self.call);
            let stopped = || Error::new(ErrorKind::Cancelled, "the call was stopped by its host");
            let call = call.as_mut().ok_or_else(stopped)?;
            vectors.into_iter().try_for_each(|(ticket, rows)| call.return_vectors(ticket, rows))?;
            let output = call.advance()?;
            let result = output.map(|output| match (output, &self.body) {
                (HostOutput::Answers(answers), Some((body, queued))) => {
                    Ok(HostedResult::Response(body.response(&answers, *queued)?))
                }
                (output, _) => Ok(HostedResult::Output(output)),
            });
            Ok((result.transpose()?, call.take_batches()))
        })?;
        let batch = |(Ticket { number: ticket, .. }, CoreBatch { ids, lengths, .. })| Batch {
            ticket,
            ids: vector(py, ids),
            lengths: vector(py, lengths),
        };
        let result = result.map(|result| match result {
            HostedResult::Output(HostOutput::Answers(answers)) => {
                HighlightColumns::of_answers(py, *answers)?.into_py_any(py)
            }
            HostedResult::Output(HostOutput::Cited(json)) => json.into_py_any(py),
            HostedResult::Response(json) => Ok(PyBytes::new(py, &json).into_any().unbind()),
        });
        Ok((batches.into_iter().map(batch).collect(), result.transpose()?))
    }

    /// Stops the call. Never waits: a thread that is advancing it notices soon.
    fn stop(&self, py: Python<'_>) {
        let _section = NativeSection::enter(py);
        self.stop.stop();
        py.detach(|| {
            let call = self.call.try_lock().ok().and_then(|mut call| call.take());
            drop(call);
        });
    }
}
