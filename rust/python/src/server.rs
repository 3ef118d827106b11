//! The server as a Python class. `pullquote/_cli/serve_command.py` runs it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use pullquote_core::engine::Engine;
use pullquote_core::error::{Error, ErrorKind};
use pullquote_core::runtime::priority::set_longer_slices;
use pullquote_core::runtime::sync::lock;
use pullquote_server::{AgentSettings, Ended};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::failures::{Failure, raise};
use crate::highlighter::Highlighter;
use crate::interruptible::leave_python;
use crate::options::read_settings;
use crate::thread_slices;

/// A server that is bound to its address.
#[pyclass(frozen, module = "pullquote._native")]
pub(crate) struct Server {
    address: String,
    /// None once it runs.
    server: Mutex<Option<pullquote_server::Server>>,
}

impl Server {
    pub(crate) fn bind(py: Python<'_>, settings: &Bound<'_, PyDict>, engine: &Arc<Engine>) -> PyResult<Self> {
        let settings = read_settings(settings)?;
        set_longer_slices(thread_slices::lengthen);
        let server = leave_python(py, None, |_| pullquote_server::Server::bind(settings, Arc::clone(engine)))?;
        Ok(Self { address: server.address().to_string(), server: Mutex::new(Some(server)) })
    }
}

/// Fails if the file of a store is another program's, or if another process has it.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "pyo3 passes owned values")]
pub(crate) fn check_store(py: Python<'_>, path: PathBuf) -> PyResult<()> {
    leave_python(py, None, |_| pullquote_server::check_store(&path))
}

/// Serves an agent over standard input and output until the input ends, or a signal comes. The settings are those of a
/// server and, as JSON, of `pullquote/_cli/mcp_command.py`; the highlighter computes, unless the latter name a server.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "pyo3 passes owned values")]
pub(crate) fn serve_agent(
    py: Python<'_>,
    settings: &Bound<'_, PyDict>,
    agent: &str,
    highlighter: Option<PyRef<'_, Highlighter>>,
) -> PyResult<()> {
    let settings = read_settings(settings)?;
    let agent = AgentSettings::read(agent).map_err(Failure)?;
    let engine = highlighter.as_ref().map(|highlighter| highlighter.engine());
    py.detach(|| pullquote_server::serve_agent(settings, engine, &agent)).map_err(|error| Failure(error).into())
}

#[pymethods]
impl Server {
    /// Host and port, as in a URL.
    #[getter]
    fn address(&self) -> &str {
        &self.address
    }

    /// Serves until a signal ends it. Returns whether it answered every accepted request.
    fn run(&self, py: Python<'_>) -> PyResult<bool> {
        let server = lock(&self.server).take();
        let server = server.ok_or_else(|| raise(ErrorKind::Closed, "this server has run already; make a new one"))?;
        let ended = py.detach(|| server.run());
        ended.map(|ended| ended == Ended::Done).map_err(|error: Error| Failure(error).into())
    }
}
