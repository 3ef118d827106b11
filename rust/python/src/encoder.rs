//! An encoder in another library, called through a table of C functions that came in a `PyCapsule`.

use std::borrow::Cow;
use std::ffi::{CStr, c_void};

use pullquote_core::encoder::abi::{BatchArrays, BatchReport, CAPSULE_NAME, EncoderTable};
use pullquote_core::encoder::{Batch, BatchTimes, Collected, Encoder, EncoderSpec, GraphState, Ticket, Waker};
use pullquote_core::error::{Error, ErrorKind, Result};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::failures::{Failure, raise};

/// The encoder whose table came out of a capsule.
pub(crate) struct ForeignEncoder {
    table: EncoderTable,
    /// The context of the encoder's waker is its address, so it stays in its place until after the state's release.
    waker: Option<Box<Waker>>,
    spec: EncoderSpec,
}

// SAFETY: `EncoderTable` allows any thread to call its functions, one at a time, as methods with `&mut self` do. `spec`
// of the table is read only while the encoder is made.
unsafe impl Send for ForeignEncoder {}

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
        let mut encoder = Self { table, waker: None, spec: EncoderSpec::new("", 0, 0, 0, Vec::new()) };
        // SAFETY: `spec` is a string that lives as long as `state`, which `encoder` will release.
        let json = unsafe { CStr::from_ptr(table.spec) }.to_bytes();
        encoder.spec = serde_json::from_slice(json).map_err(|error| {
            Failure(Error::new(ErrorKind::Internal, format!("the spec of an encoder is not valid: {error}")))
        })?;
        Ok(encoder)
    }

    /// Converts a function's code into a result.
    fn check(&self, code: i32) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        let Self { table, .. } = self;
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
        let context = std::ptr::from_ref::<Waker>(self.waker.insert(Box::new(waker))).cast::<c_void>();
        // SAFETY: `context` points to what stays in its place until after the state's release: this is called once.
        // `wake` reads it as the `Waker` it is, through a shared reference, which `Waker` (`Sync`) allows from any
        // thread.
        unsafe { (self.table.set_waker)(self.table.state, wake, context) };
    }

    fn submit(&mut self, device: usize, batch: &Batch) -> Result<Ticket> {
        // Late interaction is refused here, so that every token is attended to.
        let Batch { output, ids, lengths, queries, seconds, unattended: _ } = batch;
        let arrays = BatchArrays {
            output: *output as u32,
            ids: ids.as_ptr(),
            id_count: ids.len(),
            lengths: lengths.as_ptr(),
            row_count: lengths.len(),
            queries: queries.as_ptr(),
            query_values: queries.len(),
            seconds: seconds.as_ptr(),
        };
        let mut number = 0;
        let Self { table, .. } = self;
        // SAFETY: pointers and counts belong together, and all outlive the call, after which they are not used.
        let code = unsafe { (table.submit)(table.state, device, &raw const arrays, &raw mut number) };
        self.check(code)?;
        Ok(Ticket { device, number })
    }

    fn is_finished(&mut self, Ticket { device, number }: Ticket) -> bool {
        // SAFETY: the state is alive.
        unsafe { (self.table.is_finished)(self.table.state, device, number) }
    }

    fn collect(&mut self, ticket: Ticket, mut receive: &mut dyn FnMut(Cow<'_, [f32]>)) -> Result<Collected> {
        let (Ticket { device, number }, Self { table, .. }) = (ticket, &*self);
        let mut report =
            BatchReport { times: BatchTimes::default(), graphs_replayed: 0, graphs_error: std::ptr::null() };
        // SAFETY: the state is alive; `context` is a `Receive`, which `receive_values` expects, and outlives the call,
        // as the place for the report does.
        let code = unsafe {
            let context = (&raw mut receive).cast::<c_void>();
            (table.collect)(table.state, device, number, receive_values, context, &raw mut report)
        };
        self.check(code)?;
        let BatchReport { times, graphs_replayed: replayed, graphs_error: error } = report;
        // SAFETY: where it is not null, it is a string that lives as long as the state.
        let error = (!error.is_null()).then(|| unsafe { CStr::from_ptr(error) }.to_string_lossy().into_owned());
        Ok(Collected { times, graphs: GraphState { replayed, error } })
    }
}

impl Drop for ForeignEncoder {
    fn drop(&mut self) {
        // SAFETY: the state is ours since we set the capsule's to null. The waker is dropped after this, as `release`
        // demands.
        unsafe { (self.table.release)(self.table.state) };
    }
}

/// The context of `collect`.
type Receive<'call> = &'call mut dyn FnMut(Cow<'_, [f32]>);

unsafe extern "C" fn receive_values(context: *mut c_void, values: *const f32, count: usize) {
    // SAFETY: `collect` above passes a `Receive` and waits until the encoder is done with it.
    let receive = unsafe { &mut *context.cast::<Receive<'_>>() };
    // SAFETY: `values` has `count` values, at least one, for as long as this call lasts.
    receive(Cow::Borrowed(unsafe { std::slice::from_raw_parts(values, count) }));
}

unsafe extern "C" fn wake(context: *const c_void) {
    // SAFETY: `set_waker` above passed a `Waker` that lives until the state is released.
    let waker = unsafe { &*context.cast::<Waker>() };
    waker();
}
