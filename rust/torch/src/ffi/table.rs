//! The encoder as a table of C functions.
//!
//! Nothing may unwind into C: each function catches panics, and turns them into error codes like other errors. A host
//! that takes the table out of its capsule sets `state` to null; a capsule that still has a state releases it.

use std::ffi::{CStr, CString, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use pullquote_core::encoder::abi::{BatchArrays, BatchReport, EncoderTable};
use pullquote_core::encoder::cpu_device::panic_message;
use pullquote_core::encoder::{Batch, Collected, Encoder, Output, Ticket};
use pullquote_core::error::{Error, ErrorKind, Result};

use crate::encoder::TorchEncoder;

/// What `state` points to.
struct Handle {
    encoder: TorchEncoder,
    /// What the table's `spec` points to.
    spec: CString,
    /// The batch that `submit` copies into; grows to the largest.
    batch: Batch,
    last_error: CString,
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
    let handle = Box::new(Handle { encoder, spec, batch: Batch::default(), last_error: CString::default() });
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
    })
}

/// The handle that `state` points to.
///
/// # Safety
/// `state` must come from [`encoder_table`], and not be released before the call that uses this returns.
unsafe fn handle<'call>(state: *mut c_void) -> &'call mut Handle {
    // SAFETY: `encoder_table` made it from a box of this type. `EncoderTable` demands that one thread at a time calls
    // its functions, so no other reference to it exists; the caller promises the rest.
    unsafe { &mut *state.cast::<Handle>() }
}

/// Runs what may fail or panic, and returns 0 or the error's code; [`last_error`] has its message.
///
/// # Safety
/// As [`handle`].
unsafe fn with_encoder(state: *mut c_void, work: impl FnOnce(&mut Handle) -> Result<()>) -> i32 {
    // SAFETY: the caller promises it.
    let handle = unsafe { handle(state) };
    let error = match catch_unwind(AssertUnwindSafe(|| work(handle))) {
        Ok(Ok(())) => return 0,
        Ok(Err(error)) => error,
        Err(panic) => Error::new(ErrorKind::Internal, format!("a panic: {}", panic_message(&*panic))),
    };
    handle.last_error = CString::new(error.message().replace('\0', " ")).unwrap_or_default();
    error.kind().code()
}

unsafe extern "C" fn set_waker(
    state: *mut c_void,
    wake: unsafe extern "C" fn(context: *const c_void),
    context: *const c_void,
) {
    let context = WakerContext(context);
    let set = |handle: &mut Handle| {
        handle.encoder.set_waker(Arc::new(move || {
            // SAFETY: `EncoderTable::set_waker` demands that this may be called from any thread until `release`
            // returns; after that no worker is left to call it.
            unsafe { wake(context.pointer()) };
        }));
        Ok(())
    };
    // SAFETY: `EncoderTable` demands a live state.
    unsafe { with_encoder(state, set) };
}

unsafe extern "C" fn submit(state: *mut c_void, device: usize, arrays: *const BatchArrays, number: *mut u64) -> i32 {
    let submit = |handle: &mut Handle| {
        let Handle { encoder, batch, .. } = handle;
        // SAFETY: `EncoderTable` demands a batch.
        let BatchArrays { output, ids, id_count, lengths, row_count, queries, query_values, seconds } =
            unsafe { *arrays };
        let unknown = || Error::new(ErrorKind::Internal, format!("this version computes no output {output}"));
        batch.output = Output::from_code(output).ok_or_else(unknown)?;
        // SAFETY: `EncoderTable` demands that the pointers hold as many values as the counts say.
        unsafe {
            copy(ids, id_count, &mut batch.ids);
            copy(lengths, row_count, &mut batch.lengths);
            copy(queries, query_values, &mut batch.queries);
            let pairs = if batch.output == Output::Scores { row_count } else { 0 };
            copy(seconds, pairs, &mut batch.seconds);
        }
        let ticket = encoder.submit(device, batch)?;
        // SAFETY: `EncoderTable` demands a place to write the number to.
        unsafe { number.write(ticket.number) };
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

unsafe extern "C" fn is_finished(state: *mut c_void, device: usize, number: u64) -> bool {
    // Where this fails, the batch counts as finished, and collecting it fails too.
    let mut finished = true;
    let ask = |handle: &mut Handle| {
        finished = handle.encoder.is_finished(Ticket { device, number });
        Ok(())
    };
    // SAFETY: `EncoderTable` demands a live state.
    unsafe { with_encoder(state, ask) };
    finished
}

unsafe extern "C" fn collect(
    state: *mut c_void,
    device: usize,
    number: u64,
    receive: unsafe extern "C" fn(context: *mut c_void, values: *const f32, count: usize),
    context: *mut c_void,
    report: *mut BatchReport,
) -> i32 {
    let collect = |handle: &mut Handle| {
        let encoder = &mut handle.encoder;
        let Collected { times, graphs } = encoder.collect(Ticket { device, number }, &mut |values| {
            // SAFETY: `EncoderTable::collect` demands a function that takes this number of values.
            unsafe { receive(context, values.as_ptr(), values.len()) };
        })?;
        let graphs_error = encoder.graph_error(device).map_or(std::ptr::null(), CStr::as_ptr);
        // SAFETY: `EncoderTable::collect` demands a place to write to.
        unsafe { report.write(BatchReport { times, graphs_replayed: graphs.replayed, graphs_error }) };
        Ok(())
    };
    // SAFETY: `EncoderTable` demands a live state.
    unsafe { with_encoder(state, collect) }
}

unsafe extern "C" fn last_error(state: *mut c_void) -> *const c_char {
    // SAFETY: `EncoderTable` demands a live state. The string stays in its place until the next call fails.
    unsafe { handle(state) }.last_error.as_ptr()
}

unsafe extern "C" fn release(state: *mut c_void) {
    // SAFETY: `encoder_table` made it from a box of this type, and it is released once.
    let handle = unsafe { Box::from_raw(state.cast::<Handle>()) };
    let _ = catch_unwind(AssertUnwindSafe(|| drop(handle)));
}
