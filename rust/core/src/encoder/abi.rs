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
//! **Threads.** One thread at a time calls the functions, except `run_batch` and the waker. Strings are UTF-8 and end
//! in NUL.

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
    /// See [`Encoder::submit`](crate::encoder::Encoder::submit). `queries` has `query_count · dimension` values, and
    /// may be null where `query_count` is 0, as it is unless the spec `scores`. Reads all arrays before it returns.
    /// Writes `ticket`.
    pub submit: unsafe extern "C" fn(
        state: *mut c_void,
        device: usize,
        ids: *const i32,
        id_count: usize,
        lengths: *const u32,
        row_count: usize,
        queries: *const f32,
        query_count: usize,
        ticket: *mut u64,
    ) -> i32,
    /// See [`Encoder::is_finished`](crate::encoder::Encoder::is_finished).
    pub is_finished: unsafe extern "C" fn(state: *mut c_void, ticket: u64) -> bool,
    /// See [`Encoder::collect`](crate::encoder::Encoder::collect). Calls `row(context, index, values)` for each row,
    /// with `dimension` values, or with `query_count` values where the batch had queries.
    pub collect: unsafe extern "C" fn(
        state: *mut c_void,
        ticket: u64,
        row: unsafe extern "C" fn(context: *mut c_void, index: usize, values: *const f32),
        context: *mut c_void,
    ) -> i32,
    /// The message of the last function that failed, or null. Valid until the next function is called.
    pub last_error: unsafe extern "C" fn(state: *mut c_void) -> *const c_char,
    /// Stops the encoder's threads and frees its memory. Called once, from any thread.
    pub release: unsafe extern "C" fn(state: *mut c_void),
    /// See [`Encoder::profile`](crate::encoder::Encoder::profile); null if the encoder does not distinguish stages.
    pub profile: Option<unsafe extern "C" fn(state: *mut c_void, synchronizes: bool)>,
    /// See [`Encoder::times`](crate::encoder::Encoder::times); null where the encoder measures nothing. Returns whether
    /// it wrote `times`.
    pub times: Option<unsafe extern "C" fn(state: *mut c_void, times: *mut BatchTimes) -> bool>,
    /// See [`BatchRunner`](crate::encoder::BatchRunner); null where the encoder has none. Any threads may call it,
    /// several at once and during all other functions, until `release` is called.
    pub run_batch: Option<unsafe extern "C" fn(state: *mut c_void) -> bool>,
    /// See [`Encoder::graphs`](crate::encoder::Encoder::graphs); null where no device has CUDA graphs. Writes the
    /// number of batches, and returns the error, or null; it lives as long as `state`.
    pub graphs: Option<unsafe extern "C" fn(state: *mut c_void, device: usize, replayed: *mut u64) -> *const c_char>,
}
