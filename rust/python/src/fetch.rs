//! `fetch`: a page of the web, with the server's guard.

use pullquote_core::engine::options::seconds;
use pullquote_core::error::{Error, ErrorKind};
use pullquote_server::{FetchLimits, FetchedPage, fetch_page};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::failures::Failure;
use crate::interruptible::leave_python;

/// The text of a page, or the bytes of a file that is not text.
#[pyfunction]
pub(crate) fn fetch<'py>(
    py: Python<'py>,
    address: &str,
    allow: Vec<String>,
    max_bytes: usize,
    redirects: usize,
    timeout: f64,
) -> PyResult<Bound<'py, PyAny>> {
    let network = |name: String| {
        name.parse().map_err(|error| {
            let message = format!("fetch_allow must be a network such as 10.1.0.0/16, not {name:?}: {error}");
            Failure(Error::new(ErrorKind::InvalidArgument, message))
        })
    };
    let allow = allow.into_iter().map(network).collect::<Result<_, Failure>>()?;
    let limits = FetchLimits { allow, max_bytes, redirects, timeout: seconds(timeout).map_err(Failure)? };
    Ok(match leave_python(py, None, |call| fetch_page(address, limits, call))? {
        FetchedPage::Text(text) => PyString::new(py, &text).into_any(),
        FetchedPage::File(bytes) => PyBytes::new(py, &bytes).into_any(),
    })
}
