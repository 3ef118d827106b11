//! An encoder that is a Python function.
//!
//! A function of token ids takes a batch as two arrays. A function of texts takes a list of strings: its tokens are
//! bytes of UTF-8 (`pullquote/_models/text_model/tokenizer.json`), so a row of ids is the bytes of its text. One thread runs
//! one batch at a time, and holds Python's lock only while the function runs. With `threads="caller"`, `collect` calls
//! the function.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use numpy::{PyArray1, PyArrayMethods, PyReadonlyArray2, PyUntypedArrayMethods};
use pullquote_core::encoder::model::Model;
use pullquote_core::encoder::{
    Batch, BatchTimes, Capabilities, Collected, DeviceSpec, Encoder, EncoderSpec, Ticket, Waker,
};
use pullquote_core::error::{Error, ErrorKind, Result};
use pullquote_core::runtime::sync::lock;
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::failures::raise;
use crate::native_threads::NativeSection;

/// Default bytes of a batch of texts.
const BATCH_BYTES: usize = 64 * 1024;
/// One batch at a time, so that rows that arrive meanwhile form a larger next batch. With a depth of two, 40 users of a
/// large model had batches of 13 rows and 0.91 of its speed; with one, batches of 20 and its full speed.
const DEPTH: usize = 1;
/// The longest text in bytes; and the number of ids: 256 bytes, and the one before each row. As in `config.json`.
const MAX_BYTES: usize = 1 << 20;
const VOCABULARY: usize = 257;

/// Default tokens of a batch of ids; the same as a GPU's.
const BATCH_TOKENS: usize = 16_384;

/// The rows of a batch, as the function takes them.
enum FunctionInputs {
    Texts(Vec<String>),
    Ids(Batch),
}

/// A message to the function's thread.
enum Message {
    Batch(Ticket, FunctionInputs),
    /// Drop the function, which takes Python's lock: an ending interpreter waits for this section.
    End {
        _section: NativeSection,
    },
}

/// A function with a thread of its own.
pub(crate) struct FunctionEncoder {
    spec: EncoderSpec,
    /// The thread ends when this is dropped, after its current batch.
    batches: Sender<Message>,
    shared: Arc<FinishedBatches>,
    next: u64,
    takes_ids: bool,
}

#[derive(Default)]
struct FinishedBatches {
    finished: Mutex<HashMap<Ticket, Result<Vec<f32>>>>,
    /// Signalled when a batch finishes.
    changed: Condvar,
    waker: OnceLock<Waker>,
    /// The encoder was dropped; the thread skips queued batches.
    closed: AtomicBool,
}

/// A function that `collect` calls.
struct InlineFunction {
    spec: EncoderSpec,
    function: Py<PyAny>,
    queued: HashMap<Ticket, FunctionInputs>,
    next: u64,
    takes_ids: bool,
}

impl FunctionEncoder {
    /// The encoder of a `TextEncoder` or `IdsEncoder` of `pullquote._models.python_encoder`.
    pub(crate) fn from_python(
        encoder: &Bound<'_, PyAny>,
        has_thread: bool,
        model: &Model,
    ) -> PyResult<Box<dyn Encoder>> {
        let takes_ids: bool = encoder.getattr("takes_ids")?.extract()?;
        let dimension = encoder.getattr("dimension")?.extract()?;
        let name: String = encoder.getattr("name")?.extract()?;
        let device = DeviceSpec::new(
            name,
            if has_thread { DEPTH } else { 1 },
            if takes_ids { BATCH_TOKENS } else { BATCH_BYTES },
        );
        let (max_tokens, vocabulary) = if takes_ids {
            (model.max_tokens, model.vocabulary.unwrap_or(usize::MAX))
        } else {
            (MAX_BYTES, VOCABULARY)
        };
        let spec = EncoderSpec {
            capabilities: Capabilities { notifies: has_thread, owned_rows: true, ..Capabilities::default() },
            ..EncoderSpec::new("python", dimension, max_tokens, vocabulary, vec![device])
        };
        if has_thread {
            return Ok(Box::new(Self::new(encoder, spec, takes_ids)?));
        }
        Ok(Box::new(InlineFunction {
            spec,
            function: encoder.clone().unbind(),
            queued: HashMap::new(),
            next: 0,
            takes_ids,
        }))
    }

    fn new(encoder: &Bound<'_, PyAny>, spec: EncoderSpec, takes_ids: bool) -> PyResult<Self> {
        let dimension = spec.dimension;
        let shared = Arc::new(FinishedBatches::default());
        let (batches, arrived) = channel();
        let (function, for_thread) = (encoder.clone().unbind(), Arc::clone(&shared));
        // Not joined: closing the encoder must not wait for a function that hangs.
        std::thread::Builder::new()
            .name("pullquote-function".to_owned())
            .spawn(move || run(function, &arrived, dimension, &for_thread))
            .map_err(|error| raise(ErrorKind::Internal, &format!("no thread for the encoder: {error}")))?;
        Ok(Self { spec, batches, shared, next: 0, takes_ids })
    }
}

impl Encoder for FunctionEncoder {
    fn spec(&self) -> &EncoderSpec {
        &self.spec
    }

    fn set_waker(&mut self, waker: Waker) {
        // It is called once.
        let _ = self.shared.waker.set(waker);
    }

    fn submit(&mut self, device: usize, batch: &Batch) -> Result<Ticket> {
        self.next += 1;
        let ticket = Ticket { device, number: self.next };
        let ended = |_| Error::new(ErrorKind::Internal, "the thread of the encoder's function has ended");
        self.batches.send(Message::Batch(ticket, inputs(batch, self.takes_ids))).map_err(ended)?;
        Ok(ticket)
    }

    fn is_finished(&mut self, ticket: Ticket) -> bool {
        self.shared.finished().contains_key(&ticket)
    }

    fn collect(&mut self, ticket: Ticket, receive: &mut dyn FnMut(Cow<'_, [f32]>)) -> Result<Collected> {
        let mut finished = self.shared.finished();
        let vectors = loop {
            match finished.remove(&ticket) {
                Some(vectors) => break vectors?,
                None => finished = self.shared.changed.wait(finished).unwrap_or_else(PoisonError::into_inner),
            }
        };
        drop(finished);
        receive(Cow::Owned(vectors));
        Ok(Collected::default())
    }
}

impl Drop for FunctionEncoder {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Release);
        // The send fails if the thread has ended, which dropped the function.
        let _ = self.batches.send(Message::End { _section: NativeSection::for_another_thread() });
    }
}

impl Encoder for InlineFunction {
    fn spec(&self) -> &EncoderSpec {
        &self.spec
    }

    fn set_waker(&mut self, _: Waker) {}

    fn submit(&mut self, device: usize, batch: &Batch) -> Result<Ticket> {
        self.next += 1;
        let ticket = Ticket { device, number: self.next };
        self.queued.insert(ticket, inputs(batch, self.takes_ids));
        Ok(ticket)
    }

    fn is_finished(&mut self, _: Ticket) -> bool {
        true
    }

    fn collect(&mut self, ticket: Ticket, receive: &mut dyn FnMut(Cow<'_, [f32]>)) -> Result<Collected> {
        let unknown = || Error::new(ErrorKind::Internal, "a batch that was not submitted");
        let (inputs, began) = (self.queued.remove(&ticket).ok_or_else(unknown)?, Instant::now());
        let vectors = Python::attach(|py| call(self.function.bind(py), &inputs, self.spec.dimension))?;
        let times = BatchTimes { computed: BatchTimes::since(began), ..BatchTimes::default() };
        receive(Cow::Owned(vectors));
        Ok(Collected { times, ..Collected::default() })
    }
}

impl FinishedBatches {
    fn finished(&self) -> MutexGuard<'_, HashMap<Ticket, Result<Vec<f32>>>> {
        lock(&self.finished)
    }
}

fn inputs(batch: &Batch, takes_ids: bool) -> FunctionInputs {
    if takes_ids { FunctionInputs::Ids(batch.clone()) } else { FunctionInputs::Texts(texts(batch)) }
}

/// Decodes the texts of a batch, whose ids are their bytes.
fn texts(batch: &Batch) -> Vec<String> {
    let mut rest = batch.ids.as_slice();
    let take = |length: &u32| {
        let (row, after) = rest.split_at(*length as usize);
        rest = after;
        let bytes: Vec<u8> = row.iter().filter_map(|id| u8::try_from(*id).ok()).collect();
        // A text cut at the limit may end within a character.
        String::from_utf8(bytes).unwrap_or_else(|error| {
            let valid = error.utf8_error().valid_up_to();
            String::from_utf8_lossy(&error.as_bytes()[..valid]).into_owned()
        })
    };
    batch.lengths.iter().map(take).collect()
}

fn run(function: Py<PyAny>, arrived: &Receiver<Message>, dimension: usize, shared: &FinishedBatches) {
    while let Ok(message) = arrived.recv() {
        let (ticket, inputs) = match message {
            Message::Batch(..) if shared.closed.load(Ordering::Acquire) => continue,
            Message::Batch(ticket, inputs) => (ticket, inputs),
            Message::End { _section } => {
                // Without the lock, pyo3 would defer the drop to our next call into Python, which may never come.
                let _ = Python::try_attach(|py| function.drop_ref(py));
                return;
            }
        };
        let section = NativeSection::enter_unattached();
        let vectors = Python::try_attach(|py| call(function.bind(py), &inputs, dimension));
        drop(section);
        // The interpreter has ended.
        let Some(vectors) = vectors else { return };
        shared.finished().insert(ticket, vectors);
        shared.changed.notify_all();
        if let Some(waker) = shared.waker.get() {
            waker();
        }
    }
}

/// Writes the traceback of the function's own exception to the log of `pullquote serve`; without a server there is no
/// log.
fn log_traceback(py: Python<'_>, error: &PyErr) {
    let Some(cause) = error.cause(py) else { return };
    let lines = || -> PyResult<Vec<String>> {
        py.import("traceback")?.call_method1("format_exception", (cause.value(py),))?.extract()
    };
    if let Ok(lines) = lines() {
        tracing::error!(traceback = lines.concat().trim_end(), "the encoder's function failed");
    }
}

/// Calls the function; an exception becomes the error of all calls in the batch.
fn call(function: &Bound<'_, PyAny>, inputs: &FunctionInputs, dimension: usize) -> Result<Vec<f32>> {
    let py = function.py();
    let rows = || -> PyResult<Vec<f32>> {
        let (returned, count) = match inputs {
            FunctionInputs::Texts(texts) => (function.call1((PyList::new(py, texts)?,))?, texts.len()),
            FunctionInputs::Ids(Batch { ids, lengths, .. }) => {
                let arrays = (PyArray1::from_slice(py, ids), PyArray1::from_slice(py, lengths));
                (function.call1(arrays)?, lengths.len())
            }
        };
        let rows: PyReadonlyArray2<'_, f32> = returned.extract()?;
        if rows.shape() != [count, dimension] {
            return Err(raise(ErrorKind::Encoder, &format!("it returned shape {:?}", rows.shape())));
        }
        Ok(rows.to_vec()?)
    };
    rows().map_err(|error| {
        log_traceback(py, &error);
        // `python_encoder.py` made it an `OutOfMemoryError`, which is a `MemoryError`, or an `EncoderError`.
        let is_memory = error.is_instance_of::<PyMemoryError>(py);
        let kind = if is_memory { ErrorKind::OutOfMemory } else { ErrorKind::Encoder };
        Error::new(kind, error.value(py).to_string())
    })
}
