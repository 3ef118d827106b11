//! Errors on their way to Python: the class that the core's table names, from `pullquote.errors`.

use pullquote_core::error::{Error, ErrorKind};
use pyo3::prelude::*;

/// A core error that becomes the Python exception of its row.
pub(crate) struct Failure(pub(crate) Error);

impl From<Failure> for PyErr {
    fn from(Failure(error): Failure) -> Self {
        raise(error.kind(), error.message())
    }
}

/// The exception of a kind.
pub(crate) fn raise(kind: ErrorKind, message: &str) -> PyErr {
    Python::attach(|py| {
        let class = py.import("pullquote.errors").and_then(|errors| errors.getattr(kind.row().python_class));
        match class.and_then(|class| class.call1((message,))) {
            Ok(exception) => PyErr::from_value(exception),
            // The package is broken; what it broke on says more than what we wanted to say.
            Err(error) => error,
        }
    })
}
