//! `pullquote._native`: the Python face of `pullquote-core`.
//!
//! It checks arguments, converts them to Rust values, and does all long work without Python's lock (see `interruptible`). The
//! public classes are in `python/pullquote`.

mod arrow;
mod citations;
mod client;
mod completion;
mod config;
mod cpu;
mod encoder;
mod engine;
mod engine_handle;
mod failures;
mod fetch;
mod file_kind;
mod function;
mod highlight_columns;
mod highlighter;
mod highlights_body;
mod hosted;
mod hub_cache;
mod interruptible;
mod native_threads;
mod options;
mod pruning;
mod quotes;
mod results;
mod server;
mod texts;
mod thread_slices;

use numpy::PyArray2;
use pullquote_core::engine::option_values;
use pullquote_core::error::ErrorKind;
use pullquote_core::text::formats;
use pullquote_core::text::page::{CharSpan, PageText};
use pullquote_core::text::pieces::{self, Unit, Windows};
use pullquote_wire::client::ClientSettings;
use pullquote_wire::engine::EngineSettings;
use pullquote_wire::options::Options;
use pullquote_wire::schema::Settings;
use pullquote_wire::server::ServerSettings;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::Value;

use crate::failures::Failure;
use crate::options::read_unit;
use crate::results::{ShownRun, span_array};

/// Rust's memory comes from mimalloc. glibc gives each thread an arena, callers' threads come and go, and no other
/// thread reuses what they freed: over 10,000 varied requests memory grew by 8 % (`bench/memory.py`), with mimalloc by
/// 2 %. Fewer arenas and trimming also help, but arenas are the host's to set, and a trim also scans the host's memory.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The Rust core of pullquote. Private: call `pullquote` instead.
#[pymodule]
#[allow(non_upper_case_globals, reason = "what Python calls it")]
mod _native {
    #[pymodule_export]
    const __version__: &str = env!("CARGO_PKG_VERSION");
    #[pymodule_export]
    const ANSWERED: f32 = pullquote_core::ranking::probability::ANSWERED;
    #[pymodule_export]
    const ANSWER_MULTIPLE: usize = pullquote_server::ANSWER_MULTIPLE;
    #[pymodule_export]
    const LEAST_ANSWER: usize = pullquote_server::LEAST_ANSWER;
    #[pymodule_export]
    use crate::{
        arrow::Table,
        client::{Client, ClientCall, Document, DocumentList, ListedDocument, PutDocuments, Rank},
        completion::{Completion, CompletionQueue, PendingCall},
        config::EngineSettings,
        cpu::{CpuEncoder, instruction_set, instruction_sets},
        engine::Engine,
        engine_handle::EngineHandle,
        fetch::fetch,
        file_kind::{FileKind, decode_undeclared},
        highlight_columns::HighlightColumns,
        highlighter::Highlighter,
        highlights_body::{BodyRefusal, HighlightsBody},
        hosted::{Hosted, HostedCall},
        hub_cache::{
            CachedModel, NeededFiles, Snapshot, cached_models, check_description, find_snapshot, needed_files,
        },
        native_threads::{forget_threads, wait_for_threads},
        options::{check_options, note},
        quotes::{Difference, Located, Place, locate},
        results::{Batch, CacheState, DeviceState, Embeddings, FinishedRequest, Progress, ShownRun, StageTime, Work},
        server::{Server, check_store, serve_agent},
        {error_table, html_runs, parse_pieces, settings, shown_runs, similar},
    };
}

/// Windows of a text over sentences or words, int64 `[n, 2]`.
#[pyfunction]
fn parse_pieces(
    py: Python<'_>,
    text: &Bound<'_, PyAny>,
    highlight_length: i64,
    step_size: i64,
    unit: &str,
    allow_gaps: bool,
) -> PyResult<Py<PyArray2<i64>>> {
    let text = texts::one(text, "text")?;
    let unit = read_unit(unit)?;
    let windows = Windows::new(highlight_length, step_size, allow_gaps).map_err(Failure)?;
    if unit == Unit::Token {
        return Err(failures::raise(
            ErrorKind::InvalidArgument,
            "unit=\"token\" needs a model's tokenizer; call Highlighter(...).parse_pieces instead",
        ));
    }
    let spans = interruptible::leave_python(py, None, |call| {
        let page = PageText::new(&text);
        Ok(pieces::parse_pieces(&text, unit, windows, &call.own_checker())?
            .into_iter()
            .map(|piece| page.chars(piece))
            .collect::<Vec<_>>())
    })?;
    span_array(py, &spans)
}

/// The text of Markdown that a browser shows.
#[pyfunction]
fn shown_runs(py: Python<'_>, markdown: &Bound<'_, PyAny>) -> PyResult<Vec<ShownRun>> {
    let source = texts::one(markdown, "markdown")?;
    interruptible::leave_python(py, None, |_| {
        let page = PageText::new(&source);
        let run = |run: formats::ShownRun| {
            let span = page.chars(run.source);
            ShownRun { text: run.text, start: span.start, end: span.end, is_prose: run.is_prose }
        };
        Ok(formats::shown(&source).into_iter().map(run).collect())
    })
}

/// The parts of a page's source, in characters, that show spans of its text: each within one text node.
#[pyfunction]
fn html_runs(py: Python<'_>, html: &Bound<'_, PyAny>, spans: Vec<(usize, usize)>) -> PyResult<Vec<(usize, usize)>> {
    let source = texts::one(html, "html")?;
    interruptible::leave_python(py, None, |call| {
        let spans: Vec<CharSpan> = spans.into_iter().map(|(start, end)| CharSpan { start, end }).collect();
        let runs = formats::html_runs(&source, &spans, &call.own_checker())?;
        Ok(runs.into_iter().map(|run| (run.start, run.end)).collect())
    })
}

/// The options of a call, and the settings of an engine, a server and a client, in their order: a JSON list of schemas, as
/// `pullquote_wire::schema` describes them.
#[pyfunction]
fn settings(kind: &str) -> PyResult<String> {
    let fields = match kind {
        "call" => Options::fields(),
        "engine" => EngineSettings::fields(),
        "server" => ServerSettings::fields(),
        "client" => ClientSettings::fields(),
        _ => return Err(failures::raise(ErrorKind::InvalidArgument, "kind is call, engine, server or client")),
    };
    Ok(Value::from_iter(fields).to_string())
}

/// The name among `names` that was probably meant by `name`.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "pyo3 passes owned values")]
fn similar(name: &str, names: Vec<String>) -> Option<String> {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    option_values::similar(name, &names).map(str::to_owned)
}

/// The table of errors: for each class its base, HTTP status, exit code and whether a retry can help.
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
