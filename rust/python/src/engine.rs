//! The step engine as a Python class. `pullquote.engine.Engine` wraps and documents it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use pullquote_core::engine::{Finished, Steps};
use pullquote_core::runtime::call::WorkLimits;
use pullquote_core::runtime::sync::lock;
use pyo3::prelude::*;

use crate::citations::CiteCall;
use crate::config::EngineSettings;
use crate::engine_handle::EngineHandle;
use crate::failures::Failure;
use crate::highlight_columns::HighlightColumns;
use crate::interruptible::{DropDetached, leave_python};
use crate::native_threads::NativeSection;
use crate::results::{FinishedRequest, HostOutput};
use crate::texts::HighlightsCall;

/// An engine that works only inside `step`.
#[pyclass(frozen, extends = EngineHandle, module = "pullquote._native")]
pub(crate) struct Engine {
    /// Locked by one step at a time, and never by a thread that holds Python's lock: a step may take that to call an
    /// encoder.
    steps: DropDetached<Mutex<Steps<HostOutput>>>,
}

impl Engine {
    fn with_steps<R: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut Steps<HostOutput>) -> R + Send) -> R {
        let _section = NativeSection::enter(py);
        py.detach(|| work(&mut lock(&self.steps)))
    }
}

#[pymethods]
impl Engine {
    #[new]
    #[expect(clippy::needless_pass_by_value, reason = "pyo3 passes owned values")]
    fn new(
        py: Python<'_>,
        settings: &EngineSettings,
        model: PathBuf,
        encoder: &Bound<'_, PyAny>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let engine = Arc::new(settings.engine(py, &model, encoder)?.stepped());
        Ok(EngineHandle::base(&engine).add_subclass(Self { steps: DropDetached::new(Mutex::new(Steps::new(engine))) }))
    }

    fn add_request(
        &self,
        py: Python<'_>,
        request_id: String,
        request: HighlightsCall<'_>,
        limit_windows: Option<usize>,
        limit_tokens: Option<usize>,
    ) -> PyResult<()> {
        let (request, question, call) = request.detach()?;
        let call = call.with_limits(WorkLimits { windows: limit_windows, tokens: limit_tokens });
        let added = self.with_steps(py, |steps| steps.add(request_id, request, question, call));
        Ok(added.map_err(Failure)?)
    }

    fn add_cite(
        &self,
        py: Python<'_>,
        request_id: String,
        request: HighlightsCall<'_>,
        ids: Vec<Option<String>>,
        numbers: Option<Vec<usize>>,
    ) -> PyResult<()> {
        let (request, _, call) = request.detach()?;
        let cite = CiteCall { request, ids, numbers };
        let added = self.with_steps(py, |steps| {
            steps.add_call(request_id, call, |engine, call| async move {
                cite.run(&engine, &call).await.map(HostOutput::Cited)
            })
        });
        Ok(added.map_err(Failure)?)
    }

    fn step(&self, py: Python<'_>) -> PyResult<Vec<FinishedRequest>> {
        let finished = leave_python(py, None, |_| lock(&self.steps).step())?;
        let output = |Finished { id, output, progress }: Finished<HostOutput>| {
            let (mut columns, mut cited, mut error) = (None, None, None);
            match output {
                Ok(HostOutput::Answers(answers)) => {
                    columns = Some(Py::new(py, HighlightColumns::of_answers(py, *answers)?)?);
                }
                Ok(HostOutput::Cited(json)) => cited = Some(json),
                Err(failed) => error = Some(PyErr::from(Failure(failed)).into_value(py)),
            }
            Ok(FinishedRequest { request_id: id, columns, cited, error, progress: progress.into() })
        };
        finished.into_iter().map(output).collect()
    }

    fn abort(&self, py: Python<'_>, request_ids: Vec<String>) {
        self.with_steps(py, move |steps| steps.abort(&request_ids));
    }

    fn unfinished(&self, py: Python<'_>) -> usize {
        self.with_steps(py, |steps| steps.unfinished())
    }
}
