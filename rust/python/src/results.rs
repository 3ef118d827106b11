//! What calls return to Python: read-only classes, and numpy arrays that own the memory the core wrote.

use numpy::ndarray::Array2;
use numpy::{IntoPyArray, PyArray1, PyArray2, PyArrayMethods};
use pullquote_core::engine;
use pullquote_core::error::ErrorKind;
use pullquote_core::runtime::call::CallProgress;
use pullquote_core::text::page::CharSpan;
use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;

use crate::failures::raise;
use crate::highlight_columns::HighlightColumns;

/// Declares a class like a frozen dataclass: read-only attributes, a constructor, `==`, `repr()` and pickling. With
/// `from`, it is made of the core's struct with the same fields.
macro_rules! record {
    ($module:literal, from $core:ty, $(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $field:ident: $type:ty,)+ }) => {
        record! { $module, $(#[$meta])* $name { $($(#[$doc])* $field: $type,)+ } }

        impl From<$core> for $name {
            fn from(core: $core) -> Self {
                Self { $($field: core.$field),+ }
            }
        }
    };
    ($module:literal, $(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $field:ident: $type:ty,)+ }) => {
        $(#[$meta])*
        #[pyclass(frozen, get_all, eq, from_py_object, module = $module)]
        #[derive(Clone, PartialEq)]
        pub(crate) struct $name {
            $($(#[$doc])* pub(crate) $field: $type,)+
        }

        #[pymethods]
        impl $name {
            #[new]
            #[allow(clippy::too_many_arguments, reason = "one for each attribute")]
            const fn new($($field: $type),+) -> Self {
                Self { $($field),+ }
            }

            #[classattr]
            fn __match_args__(py: Python<'_>) -> PyResult<Bound<'_, pyo3::types::PyTuple>> {
                pyo3::types::PyTuple::new(py, [$(stringify!($field)),+])
            }

            fn __getnewargs__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, pyo3::types::PyTuple>> {
                pyo3::types::PyTuple::new(slf.py(), [$(slf.getattr(stringify!($field))?),+])
            }

            fn __hash__(slf: &Bound<'_, Self>) -> PyResult<isize> {
                Self::__getnewargs__(slf)?.hash()
            }

            fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
                $crate::results::repr(slf.as_any(), &[$(stringify!($field)),+])
            }
        }
    };
}
pub(crate) use record;

/// `Name(attribute=value, …)`.
pub(crate) fn repr(object: &Bound<'_, PyAny>, attributes: &[&str]) -> PyResult<String> {
    let value = |name: &&str| Ok(format!("{name}={}", object.getattr(*name)?.repr()?));
    let values: Vec<String> = attributes.iter().map(value).collect::<PyResult<_>>()?;
    Ok(format!("{}({})", object.get_type().name()?, values.join(", ")))
}

record! {
    "pullquote.engine",
    /// The work of a call, and where its time went: seconds of the caller's wall clock.
    ///
    /// Devices also compute while the caller cuts and tokenizes, so `waiting` is only the time that the caller had
    /// nothing else to do.
    Work {
        /// Windows of all pages; with ``lexical_weight=0`` also their sentences.
        windows: usize,
        /// Windows whose score was computed; `effort` decides how many.
        windows_scored: usize,
        /// Windows that a device encoded: those neither in the cache nor equal to another one.
        encoded: usize,
        /// Token ids encoded, special tokens and queries included.
        tokens: usize,
        /// Windows longer than the model allows. Text after the limit did not affect their scores.
        truncated: usize,
        /// Seconds spent cutting pages into windows.
        cutting: f64,
        /// Seconds spent tokenizing.
        tokenizing: f64,
        /// Seconds spent waiting for vectors.
        waiting: f64,
        /// Seconds spent scoring and choosing passages.
        ranking: f64,
    }
}

record! {
    "pullquote.engine",
    from engine::CacheState,
    /// The cache of an engine.
    CacheState {
        /// Pages in the cache.
        pages: usize,
        /// Vectors of queries and titles in the cache.
        queries: usize,
        /// Bytes that both hold.
        bytes: usize,
        /// Lookups since the start that found their page.
        hits: u64,
        /// Lookups since the start that did not.
        misses: u64,
    }
}

record! {
    "pullquote.engine",
    from engine::DeviceState,
    /// The current state of a device.
    DeviceState {
        /// Its name, for example ``cuda:0``.
        name: String,
        /// False after a failure, until a retry succeeds. Retries start after 0.5 seconds and back off to 30.
        is_working: bool,
        /// Maximum batches in flight.
        depth: usize,
        /// Current maximum tokens of a batch; it shrinks when memory runs out.
        batch_tokens: usize,
        /// Whether its batches pad rows to a common length, which costs time: a GPU without variable-length attention
        /// does.
        padded_rows: bool,
        /// Tokens submitted and not yet returned as vectors.
        outstanding_tokens: usize,
        /// Batches completed.
        batches: u64,
        /// Tokens of completed batches.
        tokens: u64,
        /// Failed batches; another device retried them.
        failures: u64,
        /// Batches that ran out of memory; they were retried in parts.
        out_of_memory: u64,
        /// Message of the last failure or out-of-memory error.
        last_error: Option<String>,
        /// Batches whose kernels were queued as one CUDA graph (`cuda_graphs`).
        graph_batches: u64,
        /// Why the device queues no more CUDA graphs, after an error.
        graph_error: Option<String>,
    }
}

record! {
    "pullquote.engine",
    /// Total time of a stage. Stages of different calls and batches overlap.
    StageTime {
        /// Total seconds.
        seconds: f64,
        /// Number of runs.
        count: u64,
    }
}

record! {
    "pullquote.engine",
    from CallProgress,
    /// How far a request got before it ended.
    Progress {
        /// Windows that its pages were cut into.
        windows: usize,
        /// Rows that devices returned: windows, queries and titles.
        rows: usize,
        /// Tokens of those rows.
        tokens: usize,
    }
}

record! {
    "pullquote._native",
    /// A run of the text of Markdown that a browser shows.
    ShownRun {
        /// As a browser shows it; white space between blocks.
        text: String,
        /// Its start in the source, in characters.
        start: usize,
        /// Its end; the start between blocks.
        end: usize,
        /// Whether HTML or Markdown may be put around it: not within a block of code.
        is_prose: bool,
    }
}

impl From<engine::Work> for Work {
    fn from(work: engine::Work) -> Self {
        Self {
            windows: work.windows,
            windows_scored: work.windows_scored,
            encoded: work.encoded,
            tokens: work.tokens,
            truncated: work.truncated,
            cutting: work.cutting.as_secs_f64(),
            tokenizing: work.tokenizing.as_secs_f64(),
            waiting: work.waiting.as_secs_f64(),
            ranking: work.ranking.as_secs_f64(),
        }
    }
}

/// Vectors of texts: float32 `[n, dimension]`, or bytes of another type from a server.
#[pyclass(frozen, get_all, module = "pullquote._native")]
pub(crate) struct Embeddings {
    pub(crate) vectors: Py<PyAny>,
    /// Texts cut at the model's limit.
    pub(crate) truncated: usize,
}

/// What a host's call ends with.
pub(crate) enum HostOutput {
    Answers(Box<engine::Answers>),
    /// What `cite` found, as JSON.
    Cited(String),
}

impl From<engine::Answers> for HostOutput {
    fn from(answers: engine::Answers) -> Self {
        Self::Answers(Box::new(answers))
    }
}

/// A request that ended in a step: with columns, with the JSON of citations, or with an error.
#[pyclass(frozen, get_all, module = "pullquote._native")]
pub(crate) struct FinishedRequest {
    pub(crate) request_id: String,
    pub(crate) columns: Option<Py<HighlightColumns>>,
    pub(crate) cited: Option<String>,
    pub(crate) error: Option<Py<PyBaseException>>,
    pub(crate) progress: Progress,
}

/// A batch to encode.
#[pyclass(frozen, get_all, module = "pullquote.engine")]
pub(crate) struct Batch {
    /// Identifies the batch when its vectors are returned.
    pub(crate) ticket: u64,
    /// Token ids of all rows, int32, concatenated without padding, special tokens included.
    pub(crate) ids: Py<PyArray1<i32>>,
    /// Length of each row, uint32.
    pub(crate) lengths: Py<PyArray1<u32>>,
}

#[pymethods]
impl Batch {
    /// The ids of each row, as lists.
    fn split(&self, py: Python<'_>) -> PyResult<Vec<Vec<i32>>> {
        let (ids, lengths) = (self.ids.bind(py).readonly(), self.lengths.bind(py).readonly());
        let mut ids = ids.as_slice()?.iter().copied();
        Ok(lengths.as_slice()?.iter().map(|length| ids.by_ref().take(*length as usize).collect()).collect())
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        repr(slf.as_any(), &["ticket", "ids", "lengths"])
    }
}

pub(crate) fn vector<T: numpy::Element>(py: Python<'_>, values: Vec<T>) -> Py<PyArray1<T>> {
    values.into_pyarray(py).unbind()
}

pub(crate) fn matrix<T: numpy::Element>(
    py: Python<'_>,
    rows: usize,
    columns: usize,
    values: Vec<T>,
) -> PyResult<Py<PyArray2<T>>> {
    let array = Array2::from_shape_vec((rows, columns), values)
        .map_err(|error| raise(ErrorKind::Internal, &format!("{rows} rows of {columns} do not fit: {error}")))?;
    Ok(array.into_pyarray(py).unbind())
}

/// Spans as an array `[n, 2]`.
pub(crate) fn span_array(py: Python<'_>, spans: &[CharSpan]) -> PyResult<Py<PyArray2<i64>>> {
    let flat: Result<Vec<i64>, _> = spans.iter().flat_map(|span| [span.start, span.end]).map(i64::try_from).collect();
    let flat = flat.map_err(|_| raise(ErrorKind::Internal, "a span that does not fit 63 bits"))?;
    matrix(py, spans.len(), 2, flat)
}
