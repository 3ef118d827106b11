//! `fetch`: a page of the web, with the server's guard.

use pullquote_server::{FetchLimits, FetchedPage, fetch_page};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};

use crate::failures::Failure;
use crate::interruptible::leave_python;
use crate::options::read_settings;

/// The text of a page, or the bytes of a file that is not text. `settings` are the server's for fetched pages.
#[pyfunction]
pub(crate) fn fetch<'py>(py: Python<'py>, address: &str, settings: &Bound<'_, PyDict>) -> PyResult<Bound<'py, PyAny>> {
    let limits = FetchLimits::of(&read_settings(settings)?).map_err(Failure)?;
    Ok(match leave_python(py, None, |call| fetch_page(address, limits, call))? {
        FetchedPage::Text(text) => PyString::new(py, &text).into_any(),
        FetchedPage::File(bytes) => PyBytes::new(py, &bytes).into_any(),
    })
}
