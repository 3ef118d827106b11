//! The step engine as a Python class. `pullquote.Engine` wraps it and documents it.

use std::sync::{Arc, Mutex, PoisonError};

use pullquote_core::engine::{Finished, Steps};
use pullquote_core::runtime::call::WorkLimits;
use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::failures::Failure;
use crate::highlighter::{HighlightsCall, Loading, call_later, columns};
use crate::inside::Inside;
use crate::leave::{Outside, leave_python};
use crate::opened::Opened;

/// An engine that does nothing by itself.
#[pyclass(frozen, extends = Opened, module = "pullquote._native")]
pub(crate) struct Engine {
    /// Locked by one step at a time, and never while Python's lock is held: a step may need it for an encoder of Python's.
    steps: Outside<Mutex<Steps>>,
}

/// A request's name, its columns or its error, and how many windows, rows and tokens were done.
type Output<'py> = (String, Option<Bound<'py, PyDict>>, Option<Bound<'py, PyBaseException>>, (usize, usize, usize));

impl Engine {
    fn with<R: Send>(&self, py: Python<'_>, what: impl FnOnce(&mut Steps) -> R + Send) -> R {
        let _inside = Inside::enter();
        py.detach(|| what(&mut self.steps.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

#[pymethods]
impl Engine {
    #[new]
    fn new(py: Python<'_>, loading: Loading<'_>) -> PyResult<PyClassInitializer<Self>> {
        let engine = Arc::new(loading.engine(py)?.driven_by_callers());
        Ok(Opened::around(&engine).add_subclass(Self { steps: Outside::new(Mutex::new(Steps::new(engine))) }))
    }

    /// `asked` are query, texts, titles and options; `limits` are windows and tokens.
    fn add_request(
        &self,
        py: Python<'_>,
        request_id: String,
        asked: (Bound<'_, PyAny>, Bound<'_, PyAny>, Bound<'_, PyAny>, Bound<'_, PyDict>),
        limits: (Option<usize>, Option<usize>),
    ) -> PyResult<()> {
        let (query, texts, titles, options) = asked;
        let HighlightsCall { request, question, timeout, priority } =
            HighlightsCall::read(&query, &texts, &titles, &options)?;
        let call = call_later(timeout)?
            .with_priority(priority)
            .with_limits(WorkLimits { windows: limits.0, tokens: limits.1 });
        let added = self.with(py, |steps| steps.add(request_id, request, question, call));
        Ok(added.map_err(Failure)?)
    }

    fn step<'py>(&self, py: Python<'py>) -> PyResult<Vec<Output<'py>>> {
        let finished = leave_python(py, None, |_| self.steps.lock().unwrap_or_else(PoisonError::into_inner).step())?;
        let output = |Finished { id, answers, progress: done }: Finished| {
            let done = (done.windows, done.rows, done.tokens);
            match answers.map_err(Failure) {
                Ok(answers) => Ok((id, Some(columns(py, answers)?), None, done)),
                Err(failure) => Ok((id, None, Some(PyErr::from(failure).into_value(py).into_bound(py)), done)),
            }
        };
        finished.into_iter().map(output).collect()
    }

    fn abort(&self, py: Python<'_>, request_ids: Vec<String>) {
        self.with(py, move |steps| steps.abort(&request_ids));
    }

    fn unfinished(&self, py: Python<'_>) -> usize {
        self.with(py, |steps| steps.unfinished())
    }
}
