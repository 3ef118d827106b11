//! What an engine's host may see of it: its devices, and where time goes.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use pullquote_core::engine::{DeviceState, Engine};
use pyo3::prelude::*;

/// A device's state; `DeviceState` in `python/pullquote/loading.py` names what is in it.
pub(crate) type DeviceColumns = (String, bool, usize, usize, usize, u64, u64, u64, u64, Option<String>);

pub(crate) fn device_columns(engine: &Engine) -> Vec<DeviceColumns> {
    let columns = |state: DeviceState| {
        let DeviceState { name, is_working, depth, batch_tokens, outstanding_tokens, .. } = state;
        let DeviceState { batches, tokens, failures, out_of_memory, last_error, .. } = state;
        let bounds = (depth, batch_tokens, outstanding_tokens);
        (name, is_working, bounds.0, bounds.1, bounds.2, batches, tokens, failures, out_of_memory, last_error)
    };
    engine.devices().into_iter().map(columns).collect()
}

/// For each stage its name, seconds, and how often it was gone through.
pub(crate) fn stage_times(engine: &Engine) -> Vec<(&'static str, f64, u64)> {
    let totals = engine.stages().totals();
    totals.iter().map(|total| (total.stage.name(), total.time.as_secs_f64(), total.count)).collect()
}

/// Writes the trace to a file.
pub(crate) fn write_trace(py: Python<'_>, engine: &Engine, path: &Path) -> PyResult<()> {
    let write = || {
        let mut file = BufWriter::new(File::create(path)?);
        engine.stages().write_trace(&mut file)?;
        file.flush()
    };
    Ok(py.detach(write)?)
}
