//! Hosted calls as Python classes. `pullquote.engine.Hosted` wraps and documents them.

use std::sync::{Arc, Mutex, PoisonError};

use numpy::PyReadonlyArray2;
use pullquote_core::encoder::model::Model;
use pullquote_core::encoder::{Batch as CoreBatch, Ticket};
use pullquote_core::engine::{Engine as CoreEngine, HostEncoder, Hosted as CoreHosted};
use pullquote_core::error::{Error, ErrorKind};
use pullquote_core::runtime::call::{Stop, WorkLimits};
use pyo3::prelude::*;

use crate::config::EngineConfig;
use crate::engine_handle::EngineHandle;
use crate::failures::Failure;
use crate::highlighter::HighlightsCall;
use crate::leave::{DropDetached, leave_python};
use crate::native_threads::NativeSection;
use crate::results::{Batch, HighlightColumns, vector};

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
    call: Mutex<Option<CoreHosted>>,
}

#[pymethods]
impl Hosted {
    #[new]
    fn new(py: Python<'_>, config: EngineConfig<'_>) -> PyResult<PyClassInitializer<Self>> {
        let mut model = leave_python(py, None, |_| Model::read_for_host(&config.model))?;
        let host = &config.encoder;
        let longest: Option<usize> = host.getattr("max_tokens")?.extract()?;
        model.max_tokens = longest.map_or(model.max_tokens, |longest| longest.min(model.max_tokens));
        let name: String = host.getattr("name")?.extract()?;
        let dimension = host.getattr("dimension")?.extract()?;
        let vocabulary = model.vocabulary.unwrap_or(usize::MAX);
        let encoder = HostEncoder::new(name, dimension, model.max_tokens, vocabulary);
        let engine = Arc::new(config.engine_of(py, &model, Box::new(encoder))?.driven_by_callers());
        Ok(EngineHandle::base(&engine).add_subclass(Self { engine: DropDetached::new(engine) }))
    }

    fn start(
        &self,
        request: &Bound<'_, PyAny>,
        limit_windows: Option<usize>,
        limit_tokens: Option<usize>,
        depth: usize,
    ) -> PyResult<HostedCall> {
        let (request, question, call) = HighlightsCall::read(request)?.detach()?;
        let call = call.with_limits(WorkLimits { windows: limit_windows, tokens: limit_tokens });
        let stop = call.stop().clone();
        let call = CoreHosted::new(Arc::clone(&self.engine), request, question, call, depth).map_err(Failure)?;
        Ok(HostedCall { stop, call: Mutex::new(Some(call)) })
    }
}

#[pymethods]
impl HostedCall {
    /// Takes vectors of batches, and works until it needs more. Returns the next batches, and the columns once it is
    /// done.
    fn advance<'py>(
        &self,
        py: Python<'py>,
        vectors: Vec<(u64, PyReadonlyArray2<'py, f32>)>,
    ) -> PyResult<(Vec<Batch>, Option<HighlightColumns>)> {
        let vectors: Vec<(Ticket, Vec<f32>)> = vectors
            .into_iter()
            .map(|(ticket, rows)| Ok((Ticket(ticket), rows.as_slice()?.to_vec())))
            .collect::<PyResult<_>>()?;
        let (answers, batches) = leave_python(py, None, |_| {
            let mut call = self.call.lock().unwrap_or_else(PoisonError::into_inner);
            let stopped = || Error::new(ErrorKind::Cancelled, "the call was stopped by its host");
            let call = call.as_mut().ok_or_else(stopped)?;
            vectors.into_iter().try_for_each(|(ticket, rows)| call.return_vectors(ticket, rows))?;
            Ok((call.advance()?, call.take_batches()))
        })?;
        let batch = |(Ticket(ticket), CoreBatch { ids, lengths, .. })| Batch {
            ticket,
            ids: vector(py, ids),
            lengths: vector(py, lengths),
        };
        let columns = answers.map(|answers| HighlightColumns::new(py, answers)).transpose()?;
        Ok((batches.into_iter().map(batch).collect(), columns))
    }

    /// Stops the call. Never waits: a thread that is advancing it notices soon.
    fn stop(&self, py: Python<'_>) {
        let _section = NativeSection::enter();
        self.stop.stop();
        py.detach(|| {
            let call = self.call.try_lock().ok().and_then(|mut call| call.take());
            drop(call);
        });
    }
}
