//! An encoder that is a Python function.
//!
//! A function of token ids gets the batch as two arrays. A function of texts gets texts, although the engine deals in ids: its
//! tokens are the bytes of UTF-8 (`pullquote/text_model/tokenizer.json`), so a row of ids is its text, to the byte.
//!
//! One thread takes batches one after the other, and holds the GIL only while the function runs. Without that thread,
//! `collect` calls the function.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use numpy::{PyArray1, PyArrayMethods, PyReadonlyArray2, PyUntypedArrayMethods};
use pullquote_core::encoder::model::Model;
use pullquote_core::encoder::{Batch, DeviceSpec, Encoder, EncoderSpec, Ticket, Waker, hand_out};
use pullquote_core::error::{Error, ErrorKind, Result};
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::failures::raise;
use crate::inside::Inside;

/// Bytes of a batch of texts: small, because a function should begin instead of waiting for more rows.
const BATCH_BYTES: usize = 64 * 1024;
/// Tokens of a batch of ids, as on a GPU.
const BATCH_TOKENS: usize = 16_384;
/// One batch at a time, so that the next one collects everything that waits meanwhile. With two, 40 users of a large model had batches
/// of 13 and 0.91 of its speed; with one, batches of 20 and all of it.
const DEPTH: usize = 1;
/// The longest text in bytes, and the number of ids: the bytes and the one that begins each row. As in `config.json`.
const MAX_BYTES: usize = 1 << 20;
const VOCABULARY: usize = 257;

/// The function's arguments.
enum Input {
    Texts(Vec<String>),
    Ids(Batch),
}

enum Message {
    Batch(Ticket, Input),
    /// Drop the function. That needs the GIL, so the thread counts as inside from now on, and an interpreter that ends waits for it.
    End {
        _inside: Inside,
    },
}

/// The function on a thread of its own.
pub(crate) struct FunctionEncoder {
    spec: EncoderSpec,
    /// The thread ends when this is dropped, after the batch that it has.
    batches: Sender<Message>,
    shared: Arc<Shared>,
    last_ticket: u64,
    takes_ids: bool,
}

#[derive(Default)]
struct Shared {
    finished: Mutex<HashMap<Ticket, Result<Vec<f32>>>>,
    /// Signalled when a batch is finished.
    changed: Condvar,
    waker: OnceLock<Waker>,
    /// The encoder was dropped, so waiting batches are skipped.
    closed: AtomicBool,
}

/// The function, called in `collect`.
struct ThreadlessFunctionEncoder {
    spec: EncoderSpec,
    function: Py<PyAny>,
    waiting: HashMap<Ticket, Input>,
    last_ticket: u64,
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
            return Ok(Box::new(Self::start(encoder, spec, takes_ids)?));
        }
        let function = encoder.clone().unbind();
        let waiting = HashMap::new();
        Ok(Box::new(ThreadlessFunctionEncoder { spec, function, waiting, last_ticket: 0, takes_ids }))
    }

    fn start(encoder: &Bound<'_, PyAny>, spec: EncoderSpec, takes_ids: bool) -> PyResult<Self> {
        let dimension = spec.dimension;
        let shared = Arc::new(Shared::default());
        let (batches, received) = channel();
        let (function, for_thread) = (encoder.clone().unbind(), Arc::clone(&shared));
        // Never joined: a function that hangs must not block the thread that drops this.
        std::thread::Builder::new()
            .name("pullquote-function".to_owned())
            .spawn(move || run(function, &received, dimension, &for_thread))
            .map_err(|error| raise(ErrorKind::Internal, &format!("no thread for the encoder: {error}")))?;
        Ok(Self { spec, batches, shared, last_ticket: 0, takes_ids })
    }
}

impl Encoder for FunctionEncoder {
    fn spec(&self) -> &EncoderSpec {
        &self.spec
    }

    fn set_waker(&mut self, waker: Waker) {
        // The trait calls this once.
        let _ = self.shared.waker.set(waker);
    }

    fn submit(&mut self, _: usize, batch: &Batch) -> Result<Ticket> {
        self.last_ticket += 1;
        let ticket = Ticket(self.last_ticket);
        let ended = |_| Error::new(ErrorKind::Internal, "the thread of the encoder's function has ended");
        self.batches.send(Message::Batch(ticket, Input::of(batch, self.takes_ids))).map_err(ended)?;
        Ok(ticket)
    }

    fn is_finished(&mut self, ticket: Ticket) -> bool {
        self.shared.finished().contains_key(&ticket)
    }

    fn collect(&mut self, ticket: Ticket, row: &mut dyn FnMut(usize, &[f32])) -> Result<()> {
        let vectors = self.take(ticket)?;
        hand_out(&vectors, self.spec.dimension, row);
        Ok(())
    }

    fn gives(&self) -> bool {
        true
    }

    fn take(&mut self, ticket: Ticket) -> Result<Vec<f32>> {
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
        // Fails where the thread has ended, and has dropped the function already.
        let _ = self.batches.send(Message::End { _inside: Inside::enter() });
    }
}

impl Encoder for ThreadlessFunctionEncoder {
    fn spec(&self) -> &EncoderSpec {
        &self.spec
    }

    fn set_waker(&mut self, _: Waker) {}

    fn submit(&mut self, _: usize, batch: &Batch) -> Result<Ticket> {
        self.last_ticket += 1;
        self.waiting.insert(Ticket(self.last_ticket), Input::of(batch, self.takes_ids));
        Ok(Ticket(self.last_ticket))
    }

    fn is_finished(&mut self, _: Ticket) -> bool {
        true
    }

    fn collect(&mut self, ticket: Ticket, row: &mut dyn FnMut(usize, &[f32])) -> Result<()> {
        let vectors = self.take(ticket)?;
        hand_out(&vectors, self.spec.dimension, row);
        Ok(())
    }

    fn gives(&self) -> bool {
        true
    }

    fn take(&mut self, ticket: Ticket) -> Result<Vec<f32>> {
        let unknown = || Error::new(ErrorKind::Internal, "a batch that was not submitted");
        let input = self.waiting.remove(&ticket).ok_or_else(unknown)?;
        Python::attach(|py| call(self.function.bind(py), &input, self.spec.dimension))
    }
}

impl Shared {
    /// A panic cannot leave the map inconsistent, so a poisoned lock is fine.
    fn finished(&self) -> MutexGuard<'_, HashMap<Ticket, Result<Vec<f32>>>> {
        self.finished.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Input {
    fn of(batch: &Batch, takes_ids: bool) -> Self {
        if takes_ids { Self::Ids(batch.clone()) } else { Self::Texts(texts(batch)) }
    }
}

/// Decodes ids that are bytes of UTF-8.
fn texts(batch: &Batch) -> Vec<String> {
    let mut rest = batch.ids.as_slice();
    let next_text = |length: &u32| {
        let (row, following) = rest.split_at(*length as usize);
        rest = following;
        let bytes: Vec<u8> = row.iter().filter_map(|id| u8::try_from(*id).ok()).collect();
        // A text that was cut at the limit may end within a character.
        String::from_utf8(bytes).unwrap_or_else(|error| {
            let valid = error.utf8_error().valid_up_to();
            String::from_utf8_lossy(&error.as_bytes()[..valid]).into_owned()
        })
    };
    batch.lengths.iter().map(next_text).collect()
}

fn run(function: Py<PyAny>, received: &Receiver<Message>, dimension: usize, shared: &Shared) {
    while let Ok(message) = received.recv() {
        let (ticket, input) = match message {
            Message::Batch(..) if shared.closed.load(Ordering::Acquire) => continue,
            Message::Batch(ticket, input) => (ticket, input),
            Message::End { _inside } => {
                // Dropped without the GIL, the function would live until our next call into Python, which may never come.
                let _ = Python::try_attach(|py| function.drop_ref(py));
                return;
            }
        };
        let inside = Inside::enter();
        let vectors = Python::try_attach(|py| call(function.bind(py), &input, dimension));
        drop(inside);
        // The interpreter has ended, and with it all callers.
        let Some(vectors) = vectors else { return };
        shared.finished().insert(ticket, vectors);
        shared.changed.notify_all();
        if let Some(waker) = shared.waker.get() {
            waker();
        }
    }
}

/// Calls the function and checks the shape of its vectors. An exception becomes the batch's error.
fn call(function: &Bound<'_, PyAny>, input: &Input, dimension: usize) -> Result<Vec<f32>> {
    let py = function.py();
    let rows = || -> PyResult<Vec<f32>> {
        let (returned, count) = match input {
            Input::Texts(texts) => (function.call1((PyList::new(py, texts)?,))?, texts.len()),
            Input::Ids(Batch { ids, lengths, .. }) => {
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
        // `text_encoder.py` has turned memory errors of all libraries into `MemoryError`.
        let is_memory = error.is_instance_of::<PyMemoryError>(py);
        let kind = if is_memory { ErrorKind::OutOfMemory } else { ErrorKind::Encoder };
        Error::new(kind, error.value(py).to_string())
    })
}
