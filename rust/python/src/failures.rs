//! The core's errors as Python's exceptions: the classes of `pullquote.errors`.

use pullquote_core::error::{Error, ErrorKind};
use pyo3::prelude::*;

use crate::native_threads::NativeSection;

/// A core error that converts to the exception of its kind; to its cause, if that is an exception of Python.
pub(crate) struct Failure(pub(crate) Error);

impl From<Failure> for PyErr {
    fn from(Failure(error): Failure) -> Self {
        match error.cause().and_then(|cause| cause.downcast_ref::<PyErr>()) {
            Some(raised) => Python::attach(|py| raised.clone_ref(py)),
            None => raise(error.kind(), error.message()),
        }
    }
}

pub(crate) fn raise(kind: ErrorKind, message: &str) -> PyErr {
    Python::attach(|py| {
        let _section = NativeSection::enter(py);
        let class = py.import("pullquote.errors").and_then(|errors| errors.getattr(kind.row().python_class));
        match class.and_then(|class| class.call1((message,))) {
            Ok(exception) => PyErr::from_value(exception),
            // `pullquote.errors` could not be imported; why matters more than `message`.
            Err(error) => error,
        }
    })
}
