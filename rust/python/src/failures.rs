//! The core's errors as Python's exceptions: the classes of `pullquote.errors`.

use pullquote_core::error::{Error, ErrorKind};
use pyo3::prelude::*;

/// A core error that converts to the exception of its kind.
pub(crate) struct Failure(pub(crate) Error);

impl From<Failure> for PyErr {
    fn from(Failure(error): Failure) -> Self {
        raise(error.kind(), error.message())
    }
}

pub(crate) fn raise(kind: ErrorKind, message: &str) -> PyErr {
    Python::attach(|py| {
        let class = py.import("pullquote.errors").and_then(|errors| errors.getattr(kind.row().python_class));
        match class.and_then(|class| class.call1((message,))) {
            Ok(exception) => PyErr::from_value(exception),
            // `pullquote.errors` could not be imported; why matters more than `message`.
            Err(error) => error,
        }
    })
}
