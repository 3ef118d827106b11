//! `pullquote._native`: the Python face of `pullquote-core`.
//!
//! Arguments are checked and turned into Rust values here; everything that takes time runs without Python's lock (see
//! `leave`). What people call is in `python/pullquote`.

mod arrow;
mod client;
mod cpu;
mod encoder;
mod engine;
mod failures;
mod function;
mod highlighter;
mod hosted;
mod inside;
mod later;
mod leave;
mod opened;
mod server;
mod texts;

use numpy::PyArray2;
use pullquote_core::engine::options::Options;
use pullquote_core::error::ErrorKind;
use pullquote_core::text::page::Page;
use pullquote_core::text::pieces::{self, Unit, Windows};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrow::Table;
use crate::client::{Client, Task};
use crate::cpu::{CpuEncoder, instruction_set, instruction_sets};
use crate::engine::Engine;
use crate::failures::Failure;
use crate::highlighter::{Highlighter, span_array};
use crate::hosted::{Hosted, HostedCall};
use crate::later::{Later, Mailbox};
use crate::opened::Opened;
use crate::server::Server;

/// What Rust allocates here comes from mimalloc. Callers' threads come and go, and each leaves what it freed in an arena of
/// glibc's that no other uses: over 10,000 varied requests memory grew by 8 % (`bench/memory.py`), with mimalloc by 2 %.
/// Fewer arenas and trimming help as well, but arenas are the host's to set, and a trim looks through the host's memory too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The Rust core of pullquote. Private: call `pullquote` instead.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<Client>()?;
    module.add_class::<CpuEncoder>()?;
    module.add_class::<Engine>()?;
    module.add_class::<Highlighter>()?;
    module.add_class::<Hosted>()?;
    module.add_class::<HostedCall>()?;
    module.add_class::<Later>()?;
    module.add_class::<Mailbox>()?;
    module.add_class::<Opened>()?;
    module.add_class::<Server>()?;
    module.add_class::<Table>()?;
    module.add_class::<Task>()?;
    module.add_function(wrap_pyfunction!(parse_pieces, module)?)?;
    module.add_function(wrap_pyfunction!(available_threads, module)?)?;
    module.add_function(wrap_pyfunction!(inside::wait_for_threads, module)?)?;
    module.add_function(wrap_pyfunction!(inside::forget_threads, module)?)?;
    module.add_function(wrap_pyfunction!(instruction_set, module)?)?;
    module.add_function(wrap_pyfunction!(instruction_sets, module)?)?;
    module.add_function(wrap_pyfunction!(default_options, module)?)?;
    module.add_function(wrap_pyfunction!(error_table, module)?)
}

/// The windows of one text, over sentences or words.
#[pyfunction]
fn parse_pieces<'py>(
    py: Python<'py>,
    text: &Bound<'py, PyAny>,
    highlight_length: i64,
    step_size: i64,
    unit: &str,
    allow_gaps: bool,
) -> PyResult<Bound<'py, PyArray2<i64>>> {
    let text = texts::one(text, "text")?;
    let unit = Unit::parse(unit).map_err(Failure)?;
    let windows = Windows::new(highlight_length, step_size, allow_gaps).map_err(Failure)?;
    if unit == Unit::Token {
        return Err(failures::raise(
            ErrorKind::InvalidArgument,
            "unit=\"token\" needs a model's tokenizer; call Highlighter(...).parse_pieces instead",
        ));
    }
    let spans = leave::leave_python(py, None, |_| {
        let page = Page::new(&text);
        Ok(pieces::parse_pieces(&text, unit, windows)?.into_iter().map(|piece| page.chars(piece)).collect::<Vec<_>>())
    })?;
    span_array(py, &spans)
}

/// How many threads the system and the user allow.
#[pyfunction]
fn available_threads() -> usize {
    pullquote_core::runtime::affinity::available_threads()
}

/// The options that a call has where it says nothing, as JSON.
#[pyfunction]
fn default_options() -> PyResult<String> {
    serde_json::to_string(&Options::default())
        .map_err(|error| failures::raise(ErrorKind::Internal, &format!("the options do not fit JSON: {error}")))
}

/// The table of errors: for each class its base, HTTP status, exit code and whether trying again can help.
#[pyfunction]
fn error_table(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let row = |kind: ErrorKind| {
        let (row, dict) = (kind.row(), PyDict::new(py));
        dict.set_item("kind", format!("{kind:?}"))?;
        dict.set_item("python_class", row.python_class)?;
        dict.set_item("python_base", row.python_base)?;
        dict.set_item("http_status", row.http_status)?;
        dict.set_item("code", kind.code())?;
        dict.set_item("exit_code", row.exit_code)?;
        dict.set_item("retryable", row.retryable)?;
        Ok(dict)
    };
    ErrorKind::ALL.into_iter().map(row).collect()
}
