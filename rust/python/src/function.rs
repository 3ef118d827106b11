//! An encoder that is a Python function: texts in, vectors out.
//!
//! A function of token ids takes the batch as it is, two arrays. One of texts is asked in texts, though the engine deals in ids: here a token is a byte of UTF-8 (`pullquote/text_model/tokenizer.json`), so a row of ids is
//! its text, to the byte. One thread takes batches, one after the other, and holds Python's lock only while the function runs.
//! Where there may be no thread, whoever collects a batch calls the function.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use numpy::{PyArray1, PyArrayMethods, PyReadonlyArray2, PyUntypedArrayMethods};
use pullquote_core::encoder::model::Model;
use pullquote_core::encoder::{Batch, DeviceSpec, Encoder, EncoderSpec, Ticket, Waker, for_each_row};
use pullquote_core::error::{Error, ErrorKind, Result};
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::failures::raise;
use crate::inside::Inside;

/// Bytes of a batch, where nobody says how many: a function would rather have rows than wait for more of them.
const BATCH_BYTES: usize = 64 * 1024;
/// One batch at a time: what waits meanwhile is the next one, larger than if a part of it had been taken already. With two, 40
/// users of a large model had batches of 13 and 0.91 of its speed; with one, batches of 20 and all of it.
const DEPTH: usize = 1;
/// The longest text in bytes, and the ids there are: those of bytes, and what stands before each row. As in `config.json`.
const MAX_BYTES: usize = 1 << 20;
const VOCABULARY: usize = 257;

/// Ids of a batch, where they are what the function takes: as a card's.
const BATCH_TOKENS: usize = 16_384;

/// What a function is asked for.
enum Rows {
    Texts(Vec<String>),
    Ids(Batch),
}

/// What the function's thread is told.
enum Message {
    Batch(Ticket, Rows),
    /// It is to let go of the function. For that it needs Python, so it is inside from now on: an interpreter that ends waits.
    End {
        _inside: Inside,
    },
}

/// The function, its thread, and what came of its batches.
pub(crate) struct FunctionEncoder {
    spec: EncoderSpec,
    /// The thread ends when this is dropped, after the batch that it has.
    batches: Sender<Message>,
    shared: Arc<Shared>,
    next: u64,
    takes_ids: bool,
}

#[derive(Default)]
struct Shared {
    finished: Mutex<HashMap<Ticket, Result<Vec<f32>>>>,
    /// Signalled whenever a batch is finished.
    changed: Condvar,
    waker: OnceLock<Waker>,
    /// The encoder is gone: what waits is not wanted.
    closed: AtomicBool,
}

/// The function, called by whoever collects.
struct Inline {
    spec: EncoderSpec,
    function: Py<PyAny>,
    waiting: HashMap<Ticket, Rows>,
    next: u64,
    takes_ids: bool,
}

impl FunctionEncoder {
    /// An encoder from a `pullquote.text_encoder.TextEncoder` or `IdsEncoder`, with a thread or without.
    pub(crate) fn of(encoder: &Bound<'_, PyAny>, has_thread: bool, model: &Model) -> PyResult<Box<dyn Encoder>> {
        let takes_ids: bool = encoder.getattr("takes_ids")?.extract()?;
        let dimension = encoder.getattr("dimension")?.extract()?;
        let name: String = encoder.getattr("name")?.extract()?;
        let device = DeviceSpec {
            name,
            depth: if has_thread { DEPTH } else { 1 },
            batch_tokens: if takes_ids { BATCH_TOKENS } else { BATCH_BYTES },
        };
        let spec = EncoderSpec {
            dimension,
            max_tokens: if takes_ids { model.max_tokens } else { MAX_BYTES },
            vocabulary: if takes_ids { model.vocabulary.unwrap_or(usize::MAX) } else { VOCABULARY },
            dtype: "float32".to_owned(),
            devices: vec![device],
            notifies: has_thread,
            needs_polling: false,
            scores: false,
            backend: "python".to_owned(),
        };
        if has_thread {
            return Ok(Box::new(Self::new(encoder, spec, takes_ids)?));
        }
        Ok(Box::new(Inline { spec, function: encoder.clone().unbind(), waiting: HashMap::new(), next: 0, takes_ids }))
    }

    fn new(encoder: &Bound<'_, PyAny>, spec: EncoderSpec, takes_ids: bool) -> PyResult<Self> {
        let dimension = spec.dimension;
        let shared = Arc::new(Shared::default());
        let (batches, arrived) = channel();
        let (function, for_thread) = (encoder.clone().unbind(), Arc::clone(&shared));
        // Nobody waits for it to end: a function that hangs must not hold up who lets go of it.
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

    fn submit(&mut self, _: usize, batch: &Batch) -> Result<Ticket> {
        self.next += 1;
        let ticket = Ticket(self.next);
        let ended = |_| Error::new(ErrorKind::Internal, "the thread of the encoder's function has ended");
        self.batches.send(Message::Batch(ticket, rows(batch, self.takes_ids))).map_err(ended)?;
        Ok(ticket)
    }

    fn is_finished(&mut self, ticket: Ticket) -> bool {
        self.shared.finished().contains_key(&ticket)
    }

    fn collect(&mut self, ticket: Ticket, row: &mut dyn FnMut(usize, &[f32])) -> Result<()> {
        let vectors = self.take(ticket)?;
        for_each_row(&vectors, self.spec.dimension, row);
        Ok(())
    }

    fn returns_owned_rows(&self) -> bool {
        true
    }

    fn collect_owned(&mut self, ticket: Ticket) -> Result<Vec<f32>> {
        let mut finished = self.shared.finished();
        loop {
            match finished.remove(&ticket) {
                Some(vectors) => return vectors,
                None => finished = self.shared.changed.wait(finished).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

impl Drop for FunctionEncoder {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Release);
        // Where the thread is gone, nobody has to let go.
        let _ = self.batches.send(Message::End { _inside: Inside::enter() });
    }
}

impl Encoder for Inline {
    fn spec(&self) -> &EncoderSpec {
        &self.spec
    }

    fn set_waker(&mut self, _: Waker) {}

    fn submit(&mut self, _: usize, batch: &Batch) -> Result<Ticket> {
        self.next += 1;
        self.waiting.insert(Ticket(self.next), rows(batch, self.takes_ids));
        Ok(Ticket(self.next))
    }

    fn is_finished(&mut self, _: Ticket) -> bool {
        true
    }

    fn collect(&mut self, ticket: Ticket, row: &mut dyn FnMut(usize, &[f32])) -> Result<()> {
        let vectors = self.take(ticket)?;
        for_each_row(&vectors, self.spec.dimension, row);
        Ok(())
    }

    fn returns_owned_rows(&self) -> bool {
        true
    }

    fn collect_owned(&mut self, ticket: Ticket) -> Result<Vec<f32>> {
        let unknown = || Error::new(ErrorKind::Internal, "a batch that was not submitted");
        let rows = self.waiting.remove(&ticket).ok_or_else(unknown)?;
        Python::attach(|py| call(self.function.bind(py), &rows, self.spec.dimension))
    }
}

impl Shared {
    fn finished(&self) -> MutexGuard<'_, HashMap<Ticket, Result<Vec<f32>>>> {
        // Nothing in there is ever left half done.
        self.finished.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn rows(batch: &Batch, are_ids: bool) -> Rows {
    if are_ids { Rows::Ids(batch.clone()) } else { Rows::Texts(texts(batch)) }
}

/// The texts whose bytes a batch's ids are.
fn texts(batch: &Batch) -> Vec<String> {
    let mut rest = batch.ids.as_slice();
    let take = |length: &u32| {
        let (row, behind) = rest.split_at(*length as usize);
        rest = behind;
        let bytes: Vec<u8> = row.iter().filter_map(|id| u8::try_from(*id).ok()).collect();
        // A text that was cut at the limit may end within a character.
        String::from_utf8(bytes).unwrap_or_else(|error| {
            let valid = error.utf8_error().valid_up_to();
            String::from_utf8_lossy(&error.as_bytes()[..valid]).into_owned()
        })
    };
    batch.lengths.iter().map(take).collect()
}

fn run(function: Py<PyAny>, arrived: &Receiver<Message>, dimension: usize, shared: &Shared) {
    while let Ok(message) = arrived.recv() {
        let (ticket, rows) = match message {
            Message::Batch(..) if shared.closed.load(Ordering::Acquire) => continue,
            Message::Batch(ticket, rows) => (ticket, rows),
            Message::End { _inside } => {
                // Without Python's lock it would be let go of at our next call only, which may never come.
                let _ = Python::try_attach(|py| function.drop_ref(py));
                return;
            }
        };
        let inside = Inside::enter();
        let vectors = Python::try_attach(|py| call(function.bind(py), &rows, dimension));
        drop(inside);
        // There is nobody left to tell where the interpreter ends.
        let Some(vectors) = vectors else { return };
        shared.finished().insert(ticket, vectors);
        shared.changed.notify_all();
        if let Some(waker) = shared.waker.get() {
            waker();
        }
    }
}

/// Asks for vectors; what is raised is an error of the calls that shared the batch.
fn call(function: &Bound<'_, PyAny>, asked: &Rows, dimension: usize) -> Result<Vec<f32>> {
    let py = function.py();
    let rows = || -> PyResult<Vec<f32>> {
        let (returned, count) = match asked {
            Rows::Texts(texts) => (function.call1((PyList::new(py, texts)?,))?, texts.len()),
            Rows::Ids(Batch { ids, lengths, .. }) => {
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
        // `text_encoder.py` has seen what it was.
        let is_memory = error.is_instance_of::<PyMemoryError>(py);
        let kind = if is_memory { ErrorKind::OutOfMemory } else { ErrorKind::Encoder };
        Error::new(kind, error.value(py).to_string())
    })
}
