//! Hosted calls as Python classes. `pullquote.hosted` wraps and documents them.

use std::sync::{Arc, Mutex, PoisonError};

use numpy::{IntoPyArray, PyArray1, PyReadonlyArray2};
use pullquote_core::encoder::model::Model;
use pullquote_core::encoder::{Batch, Ticket};
use pullquote_core::engine::{Engine as CoreEngine, HostEncoder, Hosted as CoreHosted};
use pullquote_core::error::{Error, ErrorKind};
use pullquote_core::runtime::call::{Stop, WorkLimits};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::failures::Failure;
use crate::highlighter::{HighlightsCall, Loading, call_later, columns};
use crate::inside::Inside;
use crate::leave::{Outside, leave_python};
use crate::opened::Opened;

/// An engine whose rows its host encodes.
#[pyclass(frozen, extends = Opened, module = "pullquote._native")]
pub(crate) struct Hosted {
    engine: Outside<Arc<CoreEngine>>,
}

/// A call of it.
#[pyclass(frozen, module = "pullquote._native")]
pub(crate) struct HostedCall {
    /// Told to a call that another thread takes further at the moment, without waiting for it.
    stop: Stop,
    /// None once its host does not want it any more.
    call: Mutex<Option<CoreHosted>>,
}

/// A batch that goes out: its ticket, the ids of its rows, and how many each has.
type Out<'py> = (u64, Bound<'py, PyArray1<i32>>, Bound<'py, PyArray1<u32>>);

#[pymethods]
impl Hosted {
    #[new]
    fn new(py: Python<'_>, loading: Loading<'_>) -> PyResult<PyClassInitializer<Self>> {
        let directory = loading.model();
        let mut model = leave_python(py, None, |_| Model::read_for_host(directory))?;
        let host = loading.encoder();
        let longest: Option<usize> = host.getattr("max_tokens")?.extract()?;
        model.max_tokens = longest.map_or(model.max_tokens, |longest| longest.min(model.max_tokens));
        let name: String = host.getattr("name")?.extract()?;
        let dimension = host.getattr("dimension")?.extract()?;
        let vocabulary = model.vocabulary.unwrap_or(usize::MAX);
        let encoder = HostEncoder::new(name, dimension, model.max_tokens, vocabulary);
        let engine = Arc::new(loading.engine_of(py, &model, Box::new(encoder))?.driven_by_callers());
        Ok(Opened::around(&engine).add_subclass(Self { engine: Outside::new(engine) }))
    }

    /// `asked` are query, texts, titles and options; `limits` are windows and tokens.
    fn start(
        &self,
        asked: (Bound<'_, PyAny>, Bound<'_, PyAny>, Bound<'_, PyAny>, Bound<'_, PyDict>),
        limits: (Option<usize>, Option<usize>),
        depth: usize,
    ) -> PyResult<HostedCall> {
        let (query, texts, titles, options) = asked;
        let HighlightsCall { request, question, timeout, priority } =
            HighlightsCall::read(&query, &texts, &titles, &options)?;
        let call = call_later(timeout)?
            .with_priority(priority)
            .with_limits(WorkLimits { windows: limits.0, tokens: limits.1 });
        let stop = call.stop().clone();
        let call = CoreHosted::new(Arc::clone(&self.engine), request, question, call, depth).map_err(Failure)?;
        Ok(HostedCall { stop, call: Mutex::new(Some(call)) })
    }
}

#[pymethods]
impl HostedCall {
    /// Brings vectors, and takes the call as far as it goes: what is wanted next, and the columns once it is done.
    fn advance<'py>(
        &self,
        py: Python<'py>,
        given: Vec<(u64, PyReadonlyArray2<'py, f32>)>,
    ) -> PyResult<(Vec<Out<'py>>, Option<Bound<'py, PyDict>>)> {
        let given: Vec<(Ticket, Vec<f32>)> = given
            .into_iter()
            .map(|(ticket, vectors)| Ok((Ticket(ticket), vectors.as_slice()?.to_vec())))
            .collect::<PyResult<_>>()?;
        let (answers, out) = leave_python(py, None, |_| {
            let mut call = self.call.lock().unwrap_or_else(PoisonError::into_inner);
            let stopped = || Error::new(ErrorKind::Cancelled, "the call was stopped by its host");
            let call = call.as_mut().ok_or_else(stopped)?;
            given.into_iter().try_for_each(|(ticket, vectors)| call.return_vectors(ticket, vectors))?;
            Ok((call.advance()?, call.take_batches()))
        })?;
        let out = out
            .into_iter()
            .map(|(ticket, Batch { ids, lengths, .. })| (ticket.0, ids.into_pyarray(py), lengths.into_pyarray(py)));
        Ok((out.collect(), answers.map(|answers| columns(py, answers)).transpose()?))
    }

    /// Lets go of it; nothing more comes of it. Never waits: a thread that takes it further at the moment soon stops.
    fn stop(&self, py: Python<'_>) {
        let _inside = Inside::enter();
        self.stop.stop();
        py.detach(|| {
            let call = self.call.try_lock().ok().and_then(|mut call| call.take());
            drop(call);
        });
    }
}
