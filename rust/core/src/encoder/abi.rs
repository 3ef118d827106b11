//! The encoder trait as a table of C functions.
//!
//! `pullquote-torch` puts an [`EncoderTable`] into a `PyCapsule` named [`CAPSULE_NAME`], as Arrow and `DLPack` do.
//! `pullquote` takes it out, and from then on the two exchange batches without the GIL and without a copy. The taker
//! sets `state` to null in the capsule, so that it is released once.
//!
//! **Versions.** Fields are only appended, so [`EncoderTable::size`] is the version: a taker refuses a table smaller
//! than its own, and ignores what lies beyond. Any other change needs a new capsule name, which Python compares before
//! a byte is read.
//!
//! **Errors.** A function that can fail returns 0 or an [`ErrorKind::code`](crate::error::ErrorKind::code). A code that
//! the taker does not know counts as [`ErrorKind::Encoder`](crate::error::ErrorKind::Encoder).
//!
//! **Threads.** One thread at a time calls the functions. Strings are UTF-8 and end in NUL.

use std::ffi::{CStr, c_char, c_void};

use crate::encoder::BatchTimes;

pub const CAPSULE_NAME: &CStr = c"pullquote.encoder";

/// An encoder, as C sees it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct EncoderTable {
    /// Bytes of this struct as its maker compiled it.
    pub size: usize,
    /// The encoder; null in a table that was taken.
    pub state: *mut c_void,
    /// An [`EncoderSpec`](crate::encoder::EncoderSpec) in JSON; lives as long as `state`.
    pub spec: *const c_char,
    /// See [`Encoder::set_waker`](crate::encoder::Encoder::set_waker). The encoder may call `wake(context)` from any
    /// thread until `release` returns.
    pub set_waker: unsafe extern "C" fn(
        state: *mut c_void,
        wake: unsafe extern "C" fn(context: *const c_void),
        context: *const c_void,
    ),
    /// See [`Encoder::submit`](crate::encoder::Encoder::submit). Reads all arrays before it returns. Writes the
    /// `number` of the ticket.
    pub submit:
        unsafe extern "C" fn(state: *mut c_void, device: usize, batch: *const BatchArrays, number: *mut u64) -> i32,
    /// See [`Encoder::is_finished`](crate::encoder::Encoder::is_finished).
    pub is_finished: unsafe extern "C" fn(state: *mut c_void, device: usize, number: u64) -> bool,
    /// See [`Encoder::collect`](crate::encoder::Encoder::collect). Calls `receive(context, values, count)` once with
    /// all values of the batch, and writes what it knows into `report`, which the caller has zeroed.
    pub collect: unsafe extern "C" fn(
        state: *mut c_void,
        device: usize,
        number: u64,
        receive: unsafe extern "C" fn(context: *mut c_void, values: *const f32, count: usize),
        context: *mut c_void,
        report: *mut BatchReport,
    ) -> i32,
    /// The message of the last function that failed, or null. Valid until the next function is called.
    pub last_error: unsafe extern "C" fn(state: *mut c_void) -> *const c_char,
    /// Stops the encoder's threads and frees its memory. Called once, from any thread.
    pub release: unsafe extern "C" fn(state: *mut c_void),
}

/// A [`Batch`](crate::encoder::Batch), as C sees it. A pointer may be null where its count is 0.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct BatchArrays {
    /// The number of an [`Output`](crate::encoder::Output).
    pub output: u32,
    pub ids: *const i32,
    pub id_count: usize,
    pub lengths: *const u32,
    pub row_count: usize,
    pub queries: *const f32,
    /// Values of `queries`.
    pub query_values: usize,
    /// `row_count` values for [`Output::Scores`](crate::encoder::Output), and read for that alone.
    pub seconds: *const u32,
}

/// A [`Collected`](crate::encoder::Collected), as C sees it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct BatchReport {
    pub times: BatchTimes,
    pub graphs_replayed: u64,
    /// Null without an error; lives as long as the encoder's `state`.
    pub graphs_error: *const c_char,
}
