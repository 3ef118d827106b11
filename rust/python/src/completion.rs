//! Calls that event loops await: started on the loop's thread, run on the engine's or the client's, and returned to the
//! loop.
//!
//! No thread waits for a call. A completed call goes into its loop's queue; if the queue was empty, the loop is woken
//! once, and then takes everything that is there. One acquisition of Python's lock serves many calls.

use std::sync::{Arc, Mutex};

use pullquote_core::error::{Error, ErrorKind, Result};
use pullquote_core::runtime::sync::lock;
use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;

use crate::failures::Failure;
use crate::native_threads::NativeSection;

/// Makes a call's Python value; runs on the loop's thread.
pub(crate) type IntoPython = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

/// The queue of a loop's completed calls.
#[pyclass(frozen, module = "pullquote._native")]
pub(crate) struct CompletionQueue(Arc<Queue>);

struct Queue {
    completed: Mutex<Vec<(u64, Result<IntoPython>)>>,
    /// Makes the loop drain the queue; called from any thread.
    wake: Py<PyAny>,
}

/// What a method that starts a call takes: the queue for its completion, and the call's number there.
pub(crate) type ReplyTo<'py> = (PyRef<'py, CompletionQueue>, u64);

/// A completed call: its value, or its error.
#[pyclass(frozen, get_all, module = "pullquote._native")]
pub(crate) struct Completion {
    number: u64,
    value: Option<Py<PyAny>>,
    error: Option<Py<PyBaseException>>,
}

impl Queue {
    fn push(&self, number: u64, outcome: Result<IntoPython>) {
        let is_first = {
            let mut completed = lock(&self.completed);
            completed.push((number, outcome));
            completed.len() == 1
        };
        if is_first {
            let _section = NativeSection::enter_unattached();
            // Neither an ending interpreter nor a closed loop drains the queue.
            let woken = Python::try_attach(|py| self.wake.call0(py).is_ok());
            if woken != Some(true) {
                lock(&self.completed).clear();
            }
        }
    }
}

#[pymethods]
impl CompletionQueue {
    #[new]
    fn new(wake: Py<PyAny>) -> Self {
        Self(Arc::new(Queue { completed: Mutex::default(), wake }))
    }

    /// Takes all completed calls.
    fn drain(&self, py: Python<'_>) -> Vec<Completion> {
        let completed = std::mem::take(&mut *lock(&self.0.completed));
        let completion = |(number, outcome): (u64, Result<IntoPython>)| match outcome
            .map_err(|error| Failure(error).into())
            .and_then(|into_python| into_python(py))
        {
            Ok(value) => Completion { number, value: Some(value), error: None },
            Err(error) => Completion { number, value: None, error: Some(error.into_value(py)) },
        };
        completed.into_iter().map(completion).collect()
    }
}

/// Completes a call, also when it is dropped on the way.
pub(crate) struct CompletionSender {
    number: u64,
    /// None once it was used.
    queue: Option<Arc<Queue>>,
}

impl CompletionSender {
    pub(crate) fn new(reply_to: ReplyTo<'_>) -> Self {
        let (queue, number) = reply_to;
        Self { number, queue: Some(Arc::clone(&queue.0)) }
    }

    pub(crate) fn send<T: Send + 'static>(
        mut self,
        outcome: Result<T>,
        convert: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) {
        if let Some(queue) = self.queue.take() {
            queue.push(self.number, outcome.map(|value| Box::new(|py: Python<'_>| convert(py, value)) as IntoPython));
        }
    }
}

impl Drop for CompletionSender {
    fn drop(&mut self) {
        let Some(queue) = self.queue.take() else { return };
        let error = if std::thread::panicking() {
            Error::new(ErrorKind::Internal, "pullquote panicked; please report this")
        } else {
            Error::new(ErrorKind::Closed, "the call was dropped because its highlighter or client was closed")
        };
        queue.push(self.number, Err(error));
    }
}

/// A call in progress. Dropping it cancels the call.
#[pyclass(frozen, module = "pullquote._native")]
pub(crate) struct PendingCall(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl PendingCall {
    pub(crate) fn new(cancel: impl FnOnce() + Send + 'static) -> Self {
        Self(Mutex::new(Some(Box::new(cancel))))
    }
}

#[pymethods]
impl PendingCall {
    /// Stops the work: queued rows are dropped, and the results of batches that run are ignored.
    ///
    /// Releases Python's lock: another thread may hold the locks of the same call, and want Python's to complete it.
    fn cancel(&self, py: Python<'_>) {
        let _section = NativeSection::enter(py);
        py.detach(|| {
            let cancel = lock(&self.0).take();
            if let Some(cancel) = cancel {
                cancel();
            }
        });
    }
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        Python::attach(|py| self.cancel(py));
    }
}
