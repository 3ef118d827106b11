//! The encoder seam as a table of C functions.
//!
//! `pullquote-torch` puts an [`EncoderTable`] into a `PyCapsule` named [`CAPSULE_NAME`], as Arrow and `DLPack` do; `pullquote`
//! takes it out, and from then on the two talk without Python's lock and without a copy. Who takes the table sets
//! `state` to null in the capsule, so that it is released once.
//!
//! All functions but the waker and `help` are called by one thread at a time. Strings are UTF-8 and end in NUL.

use std::ffi::{c_char, c_void};

use crate::encoder::BatchTimes;

/// The name of the capsule, and with it the version of the table's layout.
pub const CAPSULE_NAME: &std::ffi::CStr = c"pullquote.encoder.v4";

/// The version before it, which ends where [`EncoderTable::submit_with_queries`] begins; it is taken as well.
pub const CAPSULE_NAME_3: &std::ffi::CStr = c"pullquote.encoder.v3";

/// The second version, which ends where [`EncoderTable3::help`] begins; it is taken as well.
pub const CAPSULE_NAME_2: &std::ffi::CStr = c"pullquote.encoder.v2";

/// The first version, which ends where [`EncoderTable2::profile`] begins; it is taken as well.
pub const CAPSULE_NAME_1: &std::ffi::CStr = c"pullquote.encoder.v1";

/// An encoder, as C sees it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct EncoderTable {
    /// What there was in the third version.
    pub third: EncoderTable3,
    /// As [`EncoderTable1::submit`], with queries (see [`crate::encoder::Batch::queries`]). Called only where the
    /// spec says that the encoder scores; may be null elsewhere.
    pub submit_with_queries: Option<SubmitWithQueries>,
}

/// Starts a batch with `query_count` vectors of `dimension` values, read before it returns. `collect` calls `row` with
/// `query_count` values for each row of such a batch.
pub type SubmitWithQueries = unsafe extern "C" fn(
    state: *mut c_void,
    device: usize,
    ids: *const i32,
    id_count: usize,
    lengths: *const u32,
    row_count: usize,
    queries: *const f32,
    query_count: usize,
    ticket: *mut u64,
) -> *mut c_char;

/// An encoder, as C saw it in the third version.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct EncoderTable3 {
    /// What there was in the second version.
    pub second: EncoderTable2,
    /// See [`crate::encoder::BatchRunner`]; null where the encoder has none. May be called from any thread, by several at once and
    /// beside all other functions, until `release` is called.
    pub help: Option<unsafe extern "C" fn(state: *mut c_void) -> bool>,
}

/// An encoder, as C saw it in the second version.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct EncoderTable2 {
    /// What there was from the first version on.
    pub first: EncoderTable1,
    /// See [`crate::encoder::Encoder::profile`].
    pub profile: unsafe extern "C" fn(state: *mut c_void, synchronizes: bool),
    /// See [`crate::encoder::Encoder::times`]. Writes `times` and returns true where it knows them.
    pub times: unsafe extern "C" fn(state: *mut c_void, times: *mut BatchTimes) -> bool,
}

/// An encoder, as C saw it first.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct EncoderTable1 {
    /// The encoder itself; null once somebody has taken the table.
    pub state: *mut c_void,
    /// An [`crate::encoder::EncoderSpec`] in JSON; lives as long as `state`.
    pub spec: *const c_char,
    /// See [`crate::encoder::Encoder::set_waker`]. `wake(context)` may be called from any thread until `release` returns.
    pub set_waker: unsafe extern "C" fn(
        state: *mut c_void,
        wake: unsafe extern "C" fn(context: *const c_void),
        context: *const c_void,
    ),
    /// See [`crate::encoder::Encoder::submit`]. Reads `ids` and `lengths` before it returns; writes `ticket`.
    /// Returns null, or a failure.
    pub submit: unsafe extern "C" fn(
        state: *mut c_void,
        device: usize,
        ids: *const i32,
        id_count: usize,
        lengths: *const u32,
        row_count: usize,
        ticket: *mut u64,
    ) -> *mut c_char,
    /// See [`crate::encoder::Encoder::is_finished`].
    pub is_finished: unsafe extern "C" fn(state: *mut c_void, ticket: u64) -> bool,
    /// See [`crate::encoder::Encoder::collect`]. Calls `row(context, index, values)` with `dimension` values for each row.
    /// Returns null, or a failure.
    pub collect: unsafe extern "C" fn(
        state: *mut c_void,
        ticket: u64,
        row: unsafe extern "C" fn(context: *mut c_void, index: usize, values: *const f32),
        context: *mut c_void,
    ) -> *mut c_char,
    /// Frees a failure: a string of the form `PythonClass: message`.
    pub release_failure: unsafe extern "C" fn(failure: *mut c_char),
    /// Ends the encoder: stops its threads, frees its memory. Called from any thread.
    pub release: unsafe extern "C" fn(state: *mut c_void),
}
