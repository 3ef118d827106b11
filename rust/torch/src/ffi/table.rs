//! The encoder as a table of C functions.
//!
//! Nothing may unwind into C: each function catches panics, and turns them into error codes like other errors. A host
//! that takes the table out of its capsule sets `state` to null; a capsule that still has a state releases it.

use std::ffi::{CStr, CString, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pullquote_core::encoder::abi::EncoderTable;
use pullquote_core::encoder::cpu_device::panic_message;
use pullquote_core::encoder::{Batch, BatchRunner, BatchTimes, Encoder, Ticket};
use pullquote_core::error::{Error, ErrorKind, Result};

use crate::encoder::TorchEncoder;

/// What `state` points to. All references to it are shared, because `run_batch` runs during the other functions.
struct Handle {
    /// One call at a time uses it, so the lock is never contended.
    exclusive: Mutex<Exclusive>,
    /// What the table's `spec` points to.
    spec: CString,
    batch_runner: Option<BatchRunner>,
}

struct Exclusive {
    encoder: TorchEncoder,
    /// The batch that `submit` copies into; grows to the largest.
    batch: Batch,
    last_error: CString,
}

impl Handle {
    fn lock(&self) -> MutexGuard<'_, Exclusive> {
        self.exclusive.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct WakerContext(*const c_void);

// SAFETY: `EncoderTable::set_waker` demands that `wake(context)` may be called from any thread.
unsafe impl Send for WakerContext {}
// SAFETY: as above; workers call it at the same time.
unsafe impl Sync for WakerContext {}

impl WakerContext {
    fn pointer(&self) -> *const c_void {
        self.0
    }
}

/// An encoder as a table; `release` ends it.
///
/// # Errors
/// [`ErrorKind::Internal`] if its spec cannot be written.
pub fn encoder_table(encoder: TorchEncoder) -> Result<EncoderTable> {
    let spec =
        serde_json::to_string(encoder.spec()).map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))?;
    let spec = CString::new(spec).map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))?;
    let batch_runner = encoder.batch_runner();
    let run_batch = batch_runner.is_some().then_some(run_batch as unsafe extern "C" fn(*mut c_void) -> bool);
    let exclusive = Mutex::new(Exclusive { encoder, batch: Batch::default(), last_error: CString::default() });
    let handle = Box::new(Handle { exclusive, spec, batch_runner });
    let spec = handle.spec.as_ptr();
    Ok(EncoderTable {
        size: size_of::<EncoderTable>(),
        state: Box::into_raw(handle).cast(),
        spec,
        set_waker,
        submit,
        is_finished,
        collect,
        last_error,
        release,
        profile: Some(profile),
        times: Some(times),
        run_batch,
        graphs: Some(graphs),
    })
}

/// The handle that `state` points to.
///
/// # Safety
/// `state` must come from [`encoder_table`], and not be released before the call that uses this returns.
unsafe fn handle<'call>(state: *mut c_void) -> &'call Handle {
    // SAFETY: `encoder_table` made it from a box of this type, and no exclusive reference to it exists before
    // `release`; the caller promises the rest.
    unsafe { &*state.cast::<Handle>() }
}

/// Runs what may fail or panic, and returns 0 or the error's code; [`last_error`] has its message.
///
/// # Safety
/// As [`handle`].
unsafe fn with_encoder(state: *mut c_void, work: impl FnOnce(&mut Exclusive) -> Result<()>) -> i32 {
    // SAFETY: the caller promises it.
    let mut exclusive = unsafe { handle(state) }.lock();
    let error = match catch_unwind(AssertUnwindSafe(|| work(&mut exclusive))) {
        Ok(Ok(())) => return 0,
        Ok(Err(error)) => error,
        Err(panic) => Error::new(ErrorKind::Internal, format!("a panic: {}", panic_message(&*panic))),
    };
    exclusive.last_error = CString::new(error.message().replace('\0', " ")).unwrap_or_default();
    error.kind().code()
}

unsafe extern "C" fn set_waker(
    state: *mut c_void,
    wake: unsafe extern "C" fn(context: *const c_void),
    context: *const c_void,
) {
    let context = WakerContext(context);
    let set = |exclusive: &mut Exclusive| {
        exclusive.encoder.set_waker(Arc::new(move || {
            // SAFETY: `EncoderTable::set_waker` demands that this may be called from any thread until `release`
            // returns; after that no worker is left to call it.
            unsafe { wake(context.pointer()) };
        }));
        Ok(())
    };
    // SAFETY: `EncoderTable` demands a live state.
    unsafe { with_encoder(state, set) };
}

unsafe extern "C" fn submit(
    state: *mut c_void,
    device: usize,
    ids: *const i32,
    id_count: usize,
    lengths: *const u32,
    row_count: usize,
    queries: *const f32,
    query_count: usize,
    ticket: *mut u64,
) -> i32 {
    let submit = |exclusive: &mut Exclusive| {
        let Exclusive { encoder, batch, .. } = exclusive;
        // SAFETY: `EncoderTable` demands that the pointers hold as many values as the counts say.
        unsafe {
            copy(ids, id_count, &mut batch.ids);
            copy(lengths, row_count, &mut batch.lengths);
            copy(queries, query_count * encoder.spec().dimension, &mut batch.queries);
        }
        let submitted = encoder.submit(device, batch)?;
        // SAFETY: `EncoderTable` demands a place to write the ticket to.
        unsafe { ticket.write(submitted.0) };
        Ok(())
    };
    // SAFETY: `EncoderTable` demands a live state.
    unsafe { with_encoder(state, submit) }
}

/// Copies foreign memory, in the place of what was there.
///
/// # Safety
/// `values` must point to `count` values, unless `count` is 0.
unsafe fn copy<T: Copy>(values: *const T, count: usize, to: &mut Vec<T>) {
    to.clear();
    if count > 0 {
        // SAFETY: the caller promises it.
        to.extend_from_slice(unsafe { std::slice::from_raw_parts(values, count) });
    }
}

unsafe extern "C" fn is_finished(state: *mut c_void, ticket: u64) -> bool {
    // Where this fails, the batch counts as finished, and collecting it fails too.
    let mut finished = true;
    let ask = |exclusive: &mut Exclusive| {
        finished = exclusive.encoder.is_finished(Ticket(ticket));
        Ok(())
    };
    // SAFETY: `EncoderTable` demands a live state.
    unsafe { with_encoder(state, ask) };
    finished
}

unsafe extern "C" fn collect(
    state: *mut c_void,
    ticket: u64,
    row: unsafe extern "C" fn(context: *mut c_void, index: usize, values: *const f32),
    context: *mut c_void,
) -> i32 {
    let collect = |exclusive: &mut Exclusive| {
        exclusive.encoder.collect(Ticket(ticket), &mut |index, values| {
            // SAFETY: `EncoderTable::collect` demands a function that takes what `values` has: `dimension` values, or
            // as many as the batch had queries.
            unsafe { row(context, index, values.as_ptr()) };
        })
    };
    // SAFETY: `EncoderTable` demands a live state.
    unsafe { with_encoder(state, collect) }
}

unsafe extern "C" fn last_error(state: *mut c_void) -> *const c_char {
    // SAFETY: `EncoderTable` demands a live state. The string stays in its place until the next call fails.
    unsafe { handle(state) }.lock().last_error.as_ptr()
}

unsafe extern "C" fn release(state: *mut c_void) {
    // SAFETY: `encoder_table` made it from a box of this type, and it is released once.
    let handle = unsafe { Box::from_raw(state.cast::<Handle>()) };
    let _ = catch_unwind(AssertUnwindSafe(|| drop(handle)));
}

unsafe extern "C" fn profile(state: *mut c_void, synchronizes: bool) {
    let profile = |exclusive: &mut Exclusive| {
        exclusive.encoder.profile(synchronizes);
        Ok(())
    };
    // SAFETY: `EncoderTable` demands a live state.
    unsafe { with_encoder(state, profile) };
}

unsafe extern "C" fn times(state: *mut c_void, times: *mut BatchTimes) -> bool {
    let mut known = None;
    let ask = |exclusive: &mut Exclusive| {
        known = exclusive.encoder.times();
        Ok(())
    };
    // SAFETY: `EncoderTable` demands a live state.
    unsafe { with_encoder(state, ask) };
    if let Some(known) = known {
        // SAFETY: `EncoderTable::times` demands a place to write to.
        unsafe { times.write(known) };
    }
    known.is_some()
}

unsafe extern "C" fn graphs(state: *mut c_void, device: usize, replayed: *mut u64) -> *const c_char {
    let mut known = (0, std::ptr::null());
    let ask = |exclusive: &mut Exclusive| {
        let (replayed, error) = exclusive.encoder.graph_counts(device);
        known = (replayed, error.map_or(std::ptr::null(), CStr::as_ptr));
        Ok(())
    };
    // SAFETY: `EncoderTable` demands a live state.
    unsafe { with_encoder(state, ask) };
    // SAFETY: `EncoderTable::graphs` demands a place to write to.
    unsafe { replayed.write(known.0) };
    known.1
}

unsafe extern "C" fn run_batch(state: *mut c_void) -> bool {
    // SAFETY: `EncoderTable` demands a live state.
    let runner = unsafe { handle(state) }.batch_runner.as_ref();
    // A batch that panics fails by itself.
    catch_unwind(AssertUnwindSafe(|| runner.is_some_and(|run| run()))).unwrap_or(false)
}
