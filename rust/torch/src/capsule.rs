//! The encoder as a table of C functions.
//!
//! Nothing may unwind into C: each function catches panics and turns them, like errors, into a failure string
//! `PythonClass: message`. Who takes the table sets `state` to null; a capsule that nobody opened releases it itself.

use std::ffi::{CString, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pullquote_core::encoder::abi::{EncoderTable, EncoderTable1, EncoderTable2, EncoderTable3};
use pullquote_core::encoder::workers::panic_message;
use pullquote_core::encoder::{Batch, BatchRunner, BatchTimes, Encoder, Ticket};
use pullquote_core::error::{Error, ErrorKind, Result};

use crate::encoder::TorchEncoder;

/// What `state` points to: nobody ever has more than a shared reference to it, because `help` is called beside the others.
struct Handle {
    /// What one call at a time uses, so that nobody waits for it.
    own: Mutex<Own>,
    /// What `spec` points to.
    spec: CString,
    batch_runner: Option<BatchRunner>,
}

struct Own {
    encoder: TorchEncoder,
    /// Where `submit` brings batches into our own form; grows to the largest.
    batch: Batch,
}

impl Handle {
    fn own(&self) -> MutexGuard<'_, Own> {
        // A panic is a failure of that call; what it leaves behind is what the encoder then says.
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The waker's context, which the other side promises may be used from any thread until `release` returns.
struct Context(*const c_void);

// SAFETY: `EncoderTable::set_waker` demands that `wake(context)` may be called from any thread.
unsafe impl Send for Context {}
// SAFETY: as above; workers call it at the same time.
unsafe impl Sync for Context {}

impl Context {
    fn pointer(&self) -> *const c_void {
        self.0
    }
}

/// An encoder as a table; `release` ends it.
///
/// # Errors
/// [`ErrorKind::Internal`] where its spec cannot be written.
pub fn encoder_table(encoder: TorchEncoder) -> Result<EncoderTable> {
    let spec =
        serde_json::to_string(encoder.spec()).map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))?;
    let spec = CString::new(spec).map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))?;
    let batch_runner = encoder.batch_runner();
    let help = batch_runner.is_some().then_some(help as unsafe extern "C" fn(*mut c_void) -> bool);
    let handle = Box::new(Handle { own: Mutex::new(Own { encoder, batch: Batch::default() }), spec, batch_runner });
    let spec = handle.spec.as_ptr();
    let state = Box::into_raw(handle).cast();
    let first = EncoderTable1 { state, spec, set_waker, submit, is_finished, collect, release_failure, release };
    let third = EncoderTable3 { second: EncoderTable2 { first, profile, times }, help };
    Ok(EncoderTable { third, submit_with_queries: Some(submit_with_queries) })
}

/// The handle behind `state`.
///
/// # Safety
/// `state` must come from [`encoder_table`], and not be released before the call that uses this returns.
unsafe fn handle<'call>(state: *mut c_void) -> &'call Handle {
    // SAFETY: `encoder_table` made it from a box of this type, to which nobody has a unique reference before `release`; the
    // caller promises the rest.
    unsafe { &*state.cast::<Handle>() }
}

/// Runs what may fail or panic: null, or a failure that [`release_failure`] frees.
fn guarded(work: impl FnOnce() -> Result<()>) -> *mut c_char {
    let result = catch_unwind(AssertUnwindSafe(work));
    let error = match result {
        Ok(Ok(())) => return std::ptr::null_mut(),
        Ok(Err(error)) => error,
        Err(panic) => Error::new(ErrorKind::Internal, format!("a panic: {}", panic_message(&*panic))),
    };
    let text = format!("{}: {}", error.kind().row().python_class, error.message()).replace('\0', " ");
    CString::new(text).unwrap_or_default().into_raw()
}

unsafe extern "C" fn set_waker(
    state: *mut c_void,
    wake: unsafe extern "C" fn(context: *const c_void),
    context: *const c_void,
) {
    let context = Context(context);
    // The signature has no room for a failure, and setting cannot fail.
    let failure = guarded(|| {
        // SAFETY: `EncoderTable` demands a live state.
        let handle = unsafe { handle(state) };
        handle.own().encoder.set_waker(Arc::new(move || {
            // SAFETY: `EncoderTable::set_waker` demands that this may be called from any thread until `release` returns;
            // after that no worker is left to call it.
            unsafe { wake(context.pointer()) };
        }));
        Ok(())
    });
    // SAFETY: the failure is null or came from `guarded`.
    unsafe { release_failure(failure) };
}

unsafe extern "C" fn submit(
    state: *mut c_void,
    device: usize,
    ids: *const i32,
    id_count: usize,
    lengths: *const u32,
    row_count: usize,
    ticket: *mut u64,
) -> *mut c_char {
    // SAFETY: what `submit` demands is what `submit_with_queries` does, but for queries, of which there are none.
    unsafe { submit_with_queries(state, device, ids, id_count, lengths, row_count, std::ptr::null(), 0, ticket) }
}

unsafe extern "C" fn submit_with_queries(
    state: *mut c_void,
    device: usize,
    ids: *const i32,
    id_count: usize,
    lengths: *const u32,
    row_count: usize,
    queries: *const f32,
    query_count: usize,
    ticket: *mut u64,
) -> *mut c_char {
    guarded(|| {
        // SAFETY: `EncoderTable` demands a live state.
        let mut own = unsafe { handle(state) }.own();
        let Own { encoder, batch } = &mut *own;
        // SAFETY: `EncoderTable` demands that the pointers hold as many values as the counts say.
        unsafe {
            copy(ids, id_count, &mut batch.ids);
            copy(lengths, row_count, &mut batch.lengths);
            copy(queries, query_count * encoder.spec().dimension, &mut batch.queries);
        }
        let submitted = encoder.submit(device, batch)?;
        // SAFETY: `EncoderTable::submit` demands a place to write the ticket to.
        unsafe { ticket.write(submitted.0) };
        Ok(())
    })
}

/// Copies foreign memory, in the place of what was there.
///
/// # Safety
/// `values` must point to `count` values, unless `count` is 0.
unsafe fn copy<T: Copy>(values: *const T, count: usize, to: &mut Vec<T>) {
    to.clear();
    if count > 0 {
        // SAFETY: the caller promises it; where there are none the pointer, which may be null, is not looked at.
        to.extend_from_slice(unsafe { std::slice::from_raw_parts(values, count) });
    }
}

unsafe extern "C" fn is_finished(state: *mut c_void, ticket: u64) -> bool {
    let mut finished = true;
    let failure = guarded(|| {
        // SAFETY: `EncoderTable` demands a live state.
        finished = unsafe { handle(state) }.own().encoder.is_finished(Ticket(ticket));
        Ok(())
    });
    // SAFETY: the failure is null or came from `guarded`; collecting the batch will tell it again.
    unsafe { release_failure(failure) };
    finished
}

unsafe extern "C" fn collect(
    state: *mut c_void,
    ticket: u64,
    row: unsafe extern "C" fn(context: *mut c_void, index: usize, values: *const f32),
    context: *mut c_void,
) -> *mut c_char {
    guarded(|| {
        // SAFETY: `EncoderTable` demands a live state.
        let handle = unsafe { handle(state) };
        handle.own().encoder.collect(Ticket(ticket), &mut |index, values| {
            // SAFETY: `EncoderTable::collect` demands a function that takes what `values` has: `dimension` values, or as many
            // as the batch had queries.
            unsafe { row(context, index, values.as_ptr()) };
        })
    })
}

unsafe extern "C" fn profile(state: *mut c_void, synchronizes: bool) {
    let failure = guarded(|| {
        // SAFETY: `EncoderTable` demands a live state.
        unsafe { handle(state) }.own().encoder.profile(synchronizes);
        Ok(())
    });
    // SAFETY: the failure is null or came from `guarded`.
    unsafe { release_failure(failure) };
}

unsafe extern "C" fn times(state: *mut c_void, times: *mut BatchTimes) -> bool {
    let mut known = None;
    let failure = guarded(|| {
        // SAFETY: `EncoderTable` demands a live state.
        known = unsafe { handle(state) }.own().encoder.times();
        Ok(())
    });
    // SAFETY: the failure is null or came from `guarded`; nothing is known then.
    unsafe { release_failure(failure) };
    if let Some(known) = known {
        // SAFETY: `EncoderTable::times` demands a place to write to.
        unsafe { times.write(known) };
    }
    known.is_some()
}

unsafe extern "C" fn help(state: *mut c_void) -> bool {
    let mut helped = false;
    let failure = guarded(|| {
        // SAFETY: `EncoderTable::help` demands a live state.
        helped = unsafe { handle(state) }.batch_runner.as_ref().is_some_and(|help| help());
        Ok(())
    });
    // SAFETY: the failure is null or came from `guarded`; a batch that panics fails by itself.
    unsafe { release_failure(failure) };
    helped
}

unsafe extern "C" fn release_failure(failure: *mut c_char) {
    if !failure.is_null() {
        // SAFETY: every failure came from `CString::into_raw` in `guarded`, and is released once.
        drop(unsafe { CString::from_raw(failure) });
    }
}

unsafe extern "C" fn release(state: *mut c_void) {
    let failure = guarded(|| {
        // SAFETY: `encoder_table` made it from a box of this type, and it is released once.
        drop(unsafe { Box::from_raw(state.cast::<Handle>()) });
        Ok(())
    });
    // SAFETY: the failure is null or came from `guarded`.
    unsafe { release_failure(failure) };
}
