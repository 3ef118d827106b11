//! The class that all classes around an engine extend: what a host may see of it, and its end.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;

use pullquote_core::engine::{CacheState, DeviceState, Engine};
use pyo3::prelude::*;

use crate::leave::Outside;

/// An engine, whoever drives it.
#[pyclass(frozen, subclass, module = "pullquote._native")]
pub(crate) struct Opened {
    engine: Outside<Arc<Engine>>,
}

/// A device's state; `DeviceState` in `python/pullquote/loading.py` names what is in it.
type DeviceColumns = (String, bool, usize, usize, usize, u64, u64, u64, u64, Option<String>);

impl Opened {
    /// What a class that extends this begins with.
    pub(crate) fn around(engine: &Arc<Engine>) -> PyClassInitializer<Self> {
        PyClassInitializer::from(Self { engine: Outside::new(Arc::clone(engine)) })
    }
}

#[pymethods]
impl Opened {
    /// Pages, bytes, hits and misses of the cache.
    fn cache(&self) -> (usize, usize, u64, u64) {
        let CacheState { pages, bytes, hits, misses } = self.engine.cache();
        (pages, bytes, hits, misses)
    }

    fn clear_cache(&self, py: Python<'_>) {
        py.detach(|| self.engine.clear_cache());
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| self.engine.close());
    }

    #[getter]
    fn dimension(&self) -> usize {
        self.engine.spec().dimension
    }

    #[getter]
    fn max_tokens(&self) -> usize {
        self.engine.max_tokens()
    }

    #[getter]
    fn dtype(&self) -> &str {
        &self.engine.spec().dtype
    }

    /// What computes: an instruction set, or a library and its version.
    #[getter]
    fn backend(&self) -> &str {
        &self.engine.spec().backend
    }

    #[getter]
    fn devices(&self) -> Vec<&str> {
        self.engine.spec().devices.iter().map(|device| device.name.as_str()).collect()
    }

    fn device_states(&self) -> Vec<DeviceColumns> {
        let columns = |state: DeviceState| {
            let DeviceState { name, is_working, depth, batch_tokens, outstanding_tokens, .. } = state;
            let DeviceState { batches, tokens, failures, out_of_memory, last_error, .. } = state;
            let bounds = (depth, batch_tokens, outstanding_tokens);
            (name, is_working, bounds.0, bounds.1, bounds.2, batches, tokens, failures, out_of_memory, last_error)
        };
        self.engine.devices().into_iter().map(columns).collect()
    }

    /// For each stage its name, seconds, and how often it was gone through.
    fn stages(&self) -> Vec<(&'static str, f64, u64)> {
        let totals = self.engine.profiler().totals();
        totals.iter().map(|total| (total.stage.name(), total.time.as_secs_f64(), total.count)).collect()
    }

    /// Writes the trace to a file.
    fn write_trace(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let write = || {
            let mut file = BufWriter::new(File::create(path)?);
            self.engine.profiler().write_trace(&mut file)?;
            file.flush()
        };
        Ok(py.detach(write)?)
    }
}
