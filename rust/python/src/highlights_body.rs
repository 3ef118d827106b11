//! The server's parser of `POST /highlights` for `pullquote.vllm`.

use std::sync::Arc;

use pullquote_server::BodyLimits;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;

use crate::results::record;

/// A checked body of ``POST /highlights``.
#[pyclass(frozen, module = "pullquote._native")]
pub(crate) struct HighlightsBody(pub(crate) Arc<pullquote_server::HighlightsBody>);

record! {
    "pullquote._native",
    from pullquote_server::BodyRefusal,
    /// Why a body is refused.
    BodyRefusal {
        /// Status of the response.
        status: u16,
        /// For programs to compare.
        kind: String,
        /// What failed, on which value, and what would work.
        message: String,
        /// The field of the body.
        field: Option<String>,
    }
}

#[pymethods]
impl HighlightsBody {
    /// The body, or a `BodyRefusal`.
    #[staticmethod]
    fn read(
        py: Python<'_>,
        body: &[u8],
        max_documents: usize,
        max_document_bytes: usize,
        max_queries: usize,
        max_query_bytes: usize,
    ) -> PyResult<Py<PyAny>> {
        let limits = BodyLimits { max_documents, max_document_bytes, max_queries, max_query_bytes };
        match py.detach(|| pullquote_server::HighlightsBody::read(body, limits)) {
            Ok(body) => Self(Arc::new(body)).into_py_any(py),
            Err(refused) => BodyRefusal::from(refused).into_py_any(py),
        }
    }

    #[getter]
    fn priority(&self) -> i32 {
        self.0.priority()
    }

    /// Bytes of UTF-8 of all its texts.
    #[getter]
    fn text_bytes(&self) -> usize {
        self.0.text_bytes()
    }
}
