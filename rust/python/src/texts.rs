//! Texts from Python: borrowed without a copy, checked once.

use std::sync::Arc;

use pullquote_core::engine::options::{Options, seconds};
use pullquote_core::engine::{Pairing, Question, Request};
use pullquote_core::error::{Error, ErrorKind};
use pullquote_core::runtime::call::{Call, TokenCounter};
use pullquote_core::text::formats::Format;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyString};

use crate::failures::{Failure, raise};
use crate::native_threads::NativeSection;
use crate::options::{read_format, read_options};

/// Options that only a server has.
pub(crate) const SERVER_OPTIONS: [&str; 6] =
    ["stored", "files", "password", "return_texts", "return_vectors", "embedding_dtype"];

/// A list of texts: any iterable of strings, except a string.
pub(crate) fn many(texts: &Bound<'_, PyAny>, name: &str) -> PyResult<Vec<PyBackedStr>> {
    each(texts, name, one)
}

/// A list of texts and `None`s; or `None`, for an empty list.
pub(crate) fn many_or_none(texts: &Bound<'_, PyAny>, name: &str) -> PyResult<Vec<Option<PyBackedStr>>> {
    if texts.is_none() {
        return Ok(Vec::new());
    }
    each(texts, name, |text, name| if text.is_none() { Ok(None) } else { one(text, name).map(Some) })
}

/// A `Request` in `python/pullquote/_request/options.py`.
pub(crate) struct HighlightsCall<'py> {
    pub(crate) request: Request<PyBackedStr>,
    /// Whether the caller passed a list of queries, which may have one.
    pub(crate) is_list: bool,
    pub(crate) options: Options,
    pub(crate) token_counter: Option<Arc<TokenCounter>>,
    /// Options that only a server has, among all others.
    pub(crate) server_options: Bound<'py, PyDict>,
}

impl<'py> FromPyObject<'_, 'py> for HighlightsCall<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let query = object.getattr("query")?;
        let is_list = !query.is_instance_of::<PyString>();
        let queries = if is_list { many(&query, "query")? } else { vec![one(&query, "query")?] };
        let pages = many(&object.getattr("texts")?, "texts")?;
        let titles = many_or_none(&object.getattr("titles")?, "titles")?;
        let server_options = object.getattr("options")?.cast_into::<PyDict>()?;
        let options: Options = read_options(&server_options, &SERVER_OPTIONS)?;
        let pairing = Pairing::new(&options, queries.len(), pages.len()).map_err(Failure)?;
        let formats: Option<Vec<String>> = object.getattr("formats")?.extract()?;
        let formats: Vec<Format> = match formats {
            Some(formats) => formats.iter().map(|format| read_format(format)).collect::<PyResult<_>>()?,
            None => vec![options.format],
        };
        let token_counter: Option<Py<PyAny>> = object.getattr("count_tokens")?.extract()?;
        let token_counter = token_counter.map(token_counter_of);
        let request = Request { queries, pages, formats, titles, pairing };
        Ok(Self { request, is_list, options, token_counter, server_options })
    }
}

impl HighlightsCall<'_> {
    /// The call's parts, for a driver other than the calling thread.
    pub(crate) fn detach(self) -> PyResult<(Request<PyBackedStr>, Question, Call<'static>)> {
        let Self { request, options, token_counter, .. } = self;
        let question = Question::new(&options).map_err(Failure)?;
        let call = Call::new(options.timeout.map(seconds).transpose().map_err(Failure)?, None);
        Ok((request, question, call.with_priority(options.priority).with_token_counter(token_counter)))
    }
}

/// A function that `token_counter` in `python/pullquote/_request/token_counter.py` made.
fn token_counter_of(function: Py<PyAny>) -> Arc<TokenCounter> {
    Arc::new(move |text| {
        let _section = NativeSection::enter_unattached();
        let counted =
            Python::try_attach(|py| function.call1(py, (text,)).and_then(|counted| counted.extract::<usize>(py)));
        let ended = || Error::new(ErrorKind::Closed, "count_tokens cannot be called: Python has ended");
        // `Failure` raises the cause itself.
        let failed =
            |error: PyErr| Error::new(ErrorKind::InvalidArgument, error.to_string()).with_cause(Arc::new(error));
        counted.ok_or_else(ended)?.map_err(failed)
    })
}

fn each<T>(
    texts: &Bound<'_, PyAny>,
    name: &str,
    read: impl Fn(&Bound<'_, PyAny>, &str) -> PyResult<T>,
) -> PyResult<Vec<T>> {
    let wrong =
        texts.is_instance_of::<PyString>() || texts.is_instance_of::<PyBytes>() || texts.is_instance_of::<PyDict>();
    if wrong || texts.is_instance_of::<PyByteArray>() {
        let kind = type_name(texts);
        return Err(raise(
            ErrorKind::InvalidType,
            &format!("{name} must be a list of strings, not one {kind}; pass [{name}]"),
        ));
    }
    let items = texts.try_iter().map_err(|_| {
        raise(ErrorKind::InvalidType, &format!("{name} must be a list of strings, not {}", type_name(texts)))
    })?;
    items.enumerate().map(|(index, item)| read(&item?, &format!("{name}[{index}]"))).collect()
}

pub(crate) fn one(text: &Bound<'_, PyAny>, name: &str) -> PyResult<PyBackedStr> {
    let Ok(string) = text.cast::<PyString>() else {
        let kind = type_name(text);
        let advice = if text.is_instance_of::<PyBytes>() {
            "; decode it first, for instance with .decode(\"utf-8\")"
        } else if text.hasattr("read_text").unwrap_or(false) {
            "; read it first, with .read_text(encoding=\"utf-8\")"
        } else if text.hasattr("page_starts").unwrap_or(false) {
            "; pass its .text"
        } else {
            ""
        };
        return Err(raise(ErrorKind::InvalidType, &format!("{name} must be a string, not {kind}{advice}")));
    };
    PyBackedStr::try_from(string.clone()).map_err(|error| {
        let py = text.py();
        let place = error.value(py).getattr("start").and_then(|start| start.extract::<usize>()).unwrap_or(0);
        raise(
            ErrorKind::InvalidText,
            &format!(
                "{name} has a lone surrogate at character {place}, which no Unicode text can hold; \
                 repair it, for instance with text.encode(\"utf-16\", \"surrogatepass\").decode(\"utf-16\", \"replace\")"
            ),
        )
    })
}

fn type_name(value: &Bound<'_, PyAny>) -> String {
    value.get_type().name().map_or_else(|_| "an unnamed type".to_owned(), |name| name.to_string())
}
