//! `FileKind`: a row of the core's table of file kinds; and the text of a file, as the server decodes uploads.

use pullquote_core::error::Error;
use pullquote_core::text::kinds::{self, Limit, Limits};
use pyo3::prelude::*;

use crate::failures::Failure;

/// The text of bytes whose encoding nothing declares, and the encoding if only the letters suggest it; `None` for bytes
/// that are no text in any encoding.
#[pyfunction]
pub(crate) fn decode_undeclared(py: Python<'_>, content: &[u8]) -> Option<(String, Option<&'static str>)> {
    let decoded = py.detach(|| pullquote_server::decode_undeclared(content));
    (!decoded.has_errors).then_some((decoded.text, decoded.guess))
}

#[pyclass(frozen, module = "pullquote._native")]
pub(crate) struct FileKind(&'static kinds::FileKind);

/// `pullquote.documents.Limits`.
#[derive(Clone, Copy, FromPyObject)]
pub(crate) struct ReadLimits {
    #[pyo3(attribute("max_pages"))]
    pages: usize,
    #[pyo3(attribute("max_chars"))]
    chars: usize,
    #[pyo3(attribute("max_memory"))]
    memory: usize,
}

#[pymethods]
impl FileKind {
    /// The kind of a file, by its bytes.
    #[staticmethod]
    fn of(content: &[u8]) -> Self {
        Self(kinds::FileKind::of(content))
    }

    #[staticmethod]
    fn of_name(name: &str) -> Option<Self> {
        kinds::FileKind::of_name(name).map(Self)
    }

    #[getter]
    const fn name(&self) -> &'static str {
        self.0.name
    }

    /// The format of what the parser returns; `None` if it does not read this kind.
    #[getter]
    fn parsed_format(&self) -> Option<String> {
        self.0.parsed_format().map(|format| format.to_string())
    }

    /// The package that the parser needs for it.
    #[getter]
    const fn library(&self) -> Option<&'static str> {
        self.0.library()
    }

    /// Why it is not read as text, after the file's name; `None` for text.
    fn refusal(&self, file: &str) -> Option<String> {
        self.0.refusal(file)
    }

    /// Raises why the parser cannot read a file.
    fn fail(&self, name: &str, error: &str, detail: &str, has_password: bool, limits: ReadLimits) -> PyResult<()> {
        let limits = Limits {
            pages: Limit { option: "max_pages", value: limits.pages },
            chars: Limit { option: "max_chars", value: limits.chars },
            memory: Limit { option: "max_memory", value: limits.memory },
        };
        let error = self.0.failure(error, detail, has_password, &limits);
        Err(Failure(Error::new(error.kind(), format!("{name} {error}"))).into())
    }
}
