//! An encoder in another library, called through a table of C functions that came in a `PyCapsule`.

use std::ffi::{CStr, c_void};
use std::sync::{Arc, OnceLock};

use pullquote_core::encoder::abi::{CAPSULE_NAME, EncoderTable};
use pullquote_core::encoder::{Batch, BatchRunner, BatchTimes, Encoder, EncoderSpec, GraphState, Ticket, Waker};
use pullquote_core::error::{Error, ErrorKind, Result};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::failures::{Failure, raise};

/// The encoder whose table came out of a capsule.
pub(crate) struct ForeignEncoder {
    shared: Arc<SharedTable>,
    spec: EncoderSpec,
    /// Batches in flight that have queries, with the number of queries.
    query_counts: Vec<(Ticket, usize)>,
}

/// The table, shared with batch runners. The state is released when the last owner drops it.
struct SharedTable {
    table: EncoderTable,
    /// The encoder's waker context points here, so it is freed after the state.
    waker: OnceLock<Waker>,
}

// SAFETY: `EncoderTable` allows its functions to be called from any thread. Those that one thread at a time may call
// are called by `ForeignEncoder`, whose methods take `&mut self`, except `release`, which the last owner calls. `spec`
// is read only while the encoder is made.
unsafe impl Send for SharedTable {}
// SAFETY: as above; any number of threads may call `run_batch`, during the other functions too.
unsafe impl Sync for SharedTable {}

impl ForeignEncoder {
    /// Takes the table out of a capsule, and leaves the capsule without an encoder.
    pub(crate) fn take(capsule: &Bound<'_, PyAny>) -> PyResult<Self> {
        let refused = |why: &str| raise(ErrorKind::InvalidType, &format!("not an encoder capsule: {why}"));
        let capsule = capsule.cast::<PyCapsule>().map_err(|_| refused("no PyCapsule"))?;
        let pointer = capsule.pointer_checked(Some(CAPSULE_NAME));
        let pointer = pointer.map_err(|_| refused(&format!("its name is not {CAPSULE_NAME:?}")))?.as_ptr();
        // SAFETY: a capsule of this name holds a pointer to an `EncoderTable`, of any size, that begins with the size.
        // It lives as long as the capsule, and this thread has the GIL, so no other takes it at the same time.
        let size = unsafe { *pointer.cast::<usize>() };
        let needed = size_of::<EncoderTable>();
        if size < needed {
            let why =
                format!("its table has {size} bytes, and this version needs {needed}; install versions that match");
            return Err(refused(&why));
        }
        let pointer = pointer.cast::<EncoderTable>();
        // SAFETY: as above, and the table is large enough.
        let table = unsafe { *pointer };
        if table.state.is_null() {
            return Err(refused("its encoder was taken already; load it again"));
        }
        // SAFETY: as above; null means that the state has a new owner.
        unsafe { (*pointer).state = std::ptr::null_mut() };
        let shared = Arc::new(SharedTable { table, waker: OnceLock::new() });
        // SAFETY: `spec` is a string that lives as long as `state`, which `shared` will release.
        let json = unsafe { CStr::from_ptr(table.spec) }.to_bytes();
        let spec = serde_json::from_slice(json).map_err(|error| {
            Failure(Error::new(ErrorKind::Internal, format!("the spec of an encoder is not valid: {error}")))
        })?;
        Ok(Self { shared, spec, query_counts: Vec::new() })
    }

    /// Converts a function's code into a result.
    fn check(&self, code: i32) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        let SharedTable { table, .. } = &*self.shared;
        // SAFETY: the state is alive, and no other function is called before the message was copied.
        let message = unsafe {
            let message = (table.last_error)(table.state);
            if message.is_null() {
                format!("the encoder failed with code {code}")
            } else {
                CStr::from_ptr(message).to_string_lossy().into_owned()
            }
        };
        Err(Error::new(ErrorKind::from_code(code).unwrap_or(ErrorKind::Encoder), message))
    }
}

impl Encoder for ForeignEncoder {
    fn spec(&self) -> &EncoderSpec {
        &self.spec
    }

    fn set_waker(&mut self, waker: Waker) {
        let context = std::ptr::from_ref::<Waker>(self.shared.waker.get_or_init(|| waker)).cast::<c_void>();
        // SAFETY: `context` points to what `shared` keeps in its place until after the state's release, and `wake`
        // reads it as the `Waker` it is, through a shared reference, which `Waker` (`Sync`) allows from any thread.
        unsafe { (self.shared.table.set_waker)(self.shared.table.state, wake, context) };
    }

    fn submit(&mut self, device: usize, batch: &Batch) -> Result<Ticket> {
        let Batch { ids, lengths, queries } = batch;
        let query_count = queries.len() / self.spec.dimension;
        let mut ticket = 0;
        // SAFETY: pointers and counts belong together, and all outlive the call, after which they are not used.
        let code = unsafe {
            (self.shared.table.submit)(
                self.shared.table.state,
                device,
                ids.as_ptr(),
                ids.len(),
                lengths.as_ptr(),
                lengths.len(),
                queries.as_ptr(),
                query_count,
                &raw mut ticket,
            )
        };
        self.check(code)?;
        if query_count > 0 {
            self.query_counts.push((Ticket(ticket), query_count));
        }
        Ok(Ticket(ticket))
    }

    fn is_finished(&mut self, ticket: Ticket) -> bool {
        // SAFETY: the state is alive until `shared` is dropped.
        unsafe { (self.shared.table.is_finished)(self.shared.table.state, ticket.0) }
    }

    fn collect(&mut self, ticket: Ticket, row: &mut dyn FnMut(usize, &[f32])) -> Result<()> {
        let place = self.query_counts.iter().position(|(known, _)| *known == ticket);
        let width = place.map_or(self.spec.dimension, |place| self.query_counts.swap_remove(place).1);
        let mut receiver = RowReceiver { width, row };
        // SAFETY: the state is alive; `context` is a `RowReceiver`, which `receive_row` expects, and outlives the call.
        let code = unsafe {
            let context = (&raw mut receiver).cast::<c_void>();
            (self.shared.table.collect)(self.shared.table.state, ticket.0, receive_row, context)
        };
        self.check(code)
    }

    fn profile(&mut self, synchronizes: bool) {
        if let Some(profile) = self.shared.table.profile {
            // SAFETY: the state is alive.
            unsafe { profile(self.shared.table.state, synchronizes) };
        }
    }

    fn times(&mut self) -> Option<BatchTimes> {
        let times = self.shared.table.times?;
        let mut written = BatchTimes::default();
        // SAFETY: the state is alive, and there is a place to write to.
        unsafe { times(self.shared.table.state, &raw mut written) }.then_some(written)
    }

    fn graphs(&mut self, device: usize) -> GraphState {
        let Some(graphs) = self.shared.table.graphs else { return GraphState::default() };
        let mut replayed = 0;
        // SAFETY: the state is alive, there is a place to write to, and the text lives as long as the state.
        let error = unsafe {
            let error = graphs(self.shared.table.state, device, &raw mut replayed);
            (!error.is_null()).then(|| CStr::from_ptr(error).to_string_lossy().into_owned())
        };
        GraphState { replayed, error }
    }

    fn batch_runner(&self) -> Option<BatchRunner> {
        let (run_batch, shared) = (self.shared.table.run_batch?, Arc::clone(&self.shared));
        // SAFETY: the state is alive for as long as `shared` is.
        Some(Arc::new(move || unsafe { run_batch(shared.table.state) }))
    }
}

impl Drop for SharedTable {
    fn drop(&mut self) {
        // SAFETY: the state is ours since we set the capsule's to null, and this is its last owner. The waker is
        // dropped after this, as `release` demands.
        unsafe { (self.table.release)(self.table.state) };
    }
}

/// The context of `collect`.
struct RowReceiver<'call> {
    /// Values in a row.
    width: usize,
    row: &'call mut dyn FnMut(usize, &[f32]),
}

unsafe extern "C" fn receive_row(context: *mut c_void, index: usize, values: *const f32) {
    // SAFETY: `collect` above passes a `RowReceiver` and waits until the encoder is done with it.
    let receiver = unsafe { &mut *context.cast::<RowReceiver<'_>>() };
    // SAFETY: `values` has `dimension` values, or as many as its batch had queries (see `EncoderTable`), for as long as
    // this call lasts.
    let values = unsafe { std::slice::from_raw_parts(values, receiver.width) };
    (receiver.row)(index, values);
}

unsafe extern "C" fn wake(context: *const c_void) {
    // SAFETY: `set_waker` above passed a `Waker` that lives until the state is released.
    let waker = unsafe { &*context.cast::<Waker>() };
    waker();
}
