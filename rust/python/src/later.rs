//! Calls of event loops: started here, done on the engine's threads, and told to the loop that asked.
//!
//! No thread waits for a call. What is done lies in the loop's mailbox; who puts the first thing in rings, and the loop takes all
//! out at once, so that Python's lock is asked for once for many calls.

use std::sync::{Arc, Mutex, PoisonError};

use pullquote_core::engine::{Answers, Embeddings};
use pullquote_core::error::{Error, ErrorKind, Result};
use pullquote_core::runtime::call::Call;
use pullquote_core::runtime::tasks::Task;
use pullquote_core::text::page::CharSpan;
use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::failures::Failure;
use crate::highlighter::{columns, matrix, span_array};
use crate::inside::Inside;

/// What came of a call.
pub(crate) enum Outcome {
    Answers(Box<Answers>),
    /// With how many texts, and how long a vector is.
    Embedded(Embeddings, [usize; 2]),
    Pieces(Vec<CharSpan>),
}

/// Where a loop finds what is done.
#[pyclass(frozen, module = "pullquote._native")]
pub(crate) struct Mailbox(Arc<Post>);

struct Post {
    arrived: Mutex<Vec<(u64, Result<Outcome>)>>,
    /// Makes the loop take what is there; called from any thread.
    ring: Py<PyAny>,
}

impl Post {
    fn put(&self, number: u64, outcome: Result<Outcome>) {
        let is_first = {
            let mut arrived = self.arrived.lock().unwrap_or_else(PoisonError::into_inner);
            arrived.push((number, outcome));
            arrived.len() == 1
        };
        if is_first {
            let _inside = Inside::enter();
            // An interpreter that ends, or a loop that was closed, wants nothing any more.
            let rung = Python::try_attach(|py| self.ring.call0(py).is_ok());
            if rung != Some(true) {
                self.arrived.lock().unwrap_or_else(PoisonError::into_inner).clear();
            }
        }
    }
}

#[pymethods]
impl Mailbox {
    #[new]
    fn new(ring: Py<PyAny>) -> Self {
        Self(Arc::new(Post { arrived: Mutex::default(), ring }))
    }

    /// Takes out what is there: for each call its number, and its value or its error.
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Vec<Taken<'py>>> {
        let arrived = std::mem::take(&mut *self.0.arrived.lock().unwrap_or_else(PoisonError::into_inner));
        let read = |(number, outcome): (u64, Result<Outcome>)| match outcome.map_err(Failure) {
            Ok(outcome) => Ok((number, Some(outcome.into_python(py)?), None)),
            Err(failure) => Ok((number, None, Some(PyErr::from(failure).into_value(py).into_bound(py)))),
        };
        arrived.into_iter().map(read).collect()
    }
}

type Taken<'py> = (u64, Option<Bound<'py, PyAny>>, Option<Bound<'py, PyBaseException>>);

impl Outcome {
    pub(crate) fn into_python(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        match self {
            Self::Answers(answers) => Ok(columns(py, *answers)?.into_any()),
            Self::Embedded(embedded, [rows, dimension]) => {
                let vectors = matrix(py, rows, dimension, embedded.vectors)?;
                Ok(PyTuple::new(py, [vectors.into_any(), embedded.truncated.into_pyobject(py)?.into_any()])?.into_any())
            }
            Self::Pieces(spans) => Ok(span_array(py, &spans)?.into_any()),
        }
    }
}

/// A call in progress; whoever lets go of it does not want it any more.
#[pyclass(frozen, module = "pullquote._native")]
pub(crate) struct Later {
    call: Arc<Call<'static>>,
    task: Mutex<Option<Task<()>>>,
}

impl Later {
    pub(crate) const fn new(call: Arc<Call<'static>>, task: Task<()>) -> Self {
        Self { call, task: Mutex::new(Some(task)) }
    }
}

#[pymethods]
impl Later {
    /// Stops the work: what waits is dropped, and what a device has begun is thrown away when it ends.
    ///
    /// Without Python's lock: another thread may be dropping the same call, hold its locks, and want Python's to tell so.
    fn cancel(&self, py: Python<'_>) {
        let _inside = Inside::enter();
        py.detach(|| {
            self.call.stop().stop();
            let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
            drop(task);
        });
    }
}

impl Drop for Later {
    fn drop(&mut self) {
        Python::attach(|py| self.cancel(py));
    }
}

/// Tells the loop how a call ended, whatever happens to it: one that is dropped on the way has ended as well.
pub(crate) struct Promise {
    number: u64,
    /// None once it is kept.
    post: Option<Arc<Post>>,
}

impl Promise {
    pub(crate) fn new(number: u64, mailbox: &Mailbox) -> Self {
        Self { number, post: Some(Arc::clone(&mailbox.0)) }
    }

    pub(crate) fn keep(mut self, outcome: Result<Outcome>) {
        if let Some(post) = self.post.take() {
            post.put(self.number, outcome);
        }
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        let Some(post) = self.post.take() else { return };
        let error = if std::thread::panicking() {
            Error::new(ErrorKind::Internal, "pullquote panicked; please report this")
        } else {
            Error::new(ErrorKind::Closed, "the call ended with its highlighter")
        };
        post.put(self.number, Err(error));
    }
}
