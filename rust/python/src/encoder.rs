//! An encoder that lives in another library, reached through a table of C functions in a `PyCapsule`.

use std::ffi::{CStr, c_char, c_void};
use std::sync::{Arc, OnceLock};

use pullquote_core::encoder::abi::{
    CAPSULE_NAME, CAPSULE_NAME_1, CAPSULE_NAME_2, CAPSULE_NAME_3, EncoderTable, EncoderTable1, EncoderTable2,
    EncoderTable3, SubmitWithQueries,
};
use pullquote_core::encoder::{Batch, BatchRunner, BatchTimes, Encoder, EncoderSpec, Ticket, Waker};
use pullquote_core::error::{Error, ErrorKind, Result};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::failures::{Failure, raise};

/// The table, taken out of its capsule.
pub(crate) struct ForeignEncoder {
    taken: Arc<SharedTable>,
    optional: OptionalFunctions,
    spec: EncoderSpec,
    /// Batches in flight that have queries, and how many.
    asking: Vec<(Ticket, usize)>,
}

/// What only later versions of the table have.
#[derive(Clone, Copy, Default)]
struct OptionalFunctions {
    profile: Option<unsafe extern "C" fn(state: *mut c_void, synchronizes: bool)>,
    times: Option<unsafe extern "C" fn(state: *mut c_void, times: *mut BatchTimes) -> bool>,
    help: Option<unsafe extern "C" fn(state: *mut c_void) -> bool>,
    submit_with_queries: Option<SubmitWithQueries>,
}

impl OptionalFunctions {
    fn of_second(EncoderTable2 { profile, times, .. }: EncoderTable2) -> Self {
        Self { profile: Some(profile), times: Some(times), ..Self::default() }
    }

    fn of_third(EncoderTable3 { second, help }: EncoderTable3) -> Self {
        Self { help, ..Self::of_second(second) }
    }
}

/// What whoever helps needs too: released when the last of them lets go of it.
struct SharedTable {
    table: EncoderTable1,
    /// What the other side's waker context points to; freed after the release of the state, when nothing can call it any more.
    waker: OnceLock<Waker>,
}

// SAFETY: `EncoderTable` says that its functions may be called from any thread. Of those that only one at a time may call, all
// but `release`, which is called when nobody else has this, are called by `ForeignEncoder`, whose methods take `&mut self`. The
// spec's memory is only read while the encoder is made.
unsafe impl Send for SharedTable {}
// SAFETY: as above; `help` may be called by several at once and beside the others.
unsafe impl Sync for SharedTable {}

impl ForeignEncoder {
    /// Takes the table out of a capsule, which is empty from then on.
    pub(crate) fn take(capsule: &Bound<'_, PyAny>) -> PyResult<Self> {
        let refused = |what: &str| raise(ErrorKind::InvalidType, &format!("not an encoder capsule: {what}"));
        let capsule = capsule.cast::<PyCapsule>().map_err(|_| refused("no PyCapsule"))?;
        let of_name = |name| capsule.pointer_checked(Some(name)).ok();
        let wrong_name = || refused("another name; are pullquote and pullquote-torch of the same version?");
        // What there was in earlier versions stands first.
        let (pointer, optional) = if let Some(pointer) = of_name(CAPSULE_NAME) {
            // SAFETY: a capsule of this name holds a pointer to an `EncoderTable` (see `abi::CAPSULE_NAME`), which lives as
            // long as the capsule; Python's lock is held, so nobody else takes it at the same time.
            let EncoderTable { third, submit_with_queries } = unsafe { *pointer.cast().as_ptr() };
            (pointer, OptionalFunctions { submit_with_queries, ..OptionalFunctions::of_third(third) })
        } else if let Some(pointer) = of_name(CAPSULE_NAME_3) {
            // SAFETY: as above; a capsule of this name holds a pointer to an `EncoderTable3`.
            (pointer, OptionalFunctions::of_third(unsafe { *pointer.cast().as_ptr() }))
        } else if let Some(pointer) = of_name(CAPSULE_NAME_2) {
            // SAFETY: as above; a capsule of this name holds a pointer to an `EncoderTable2`.
            (pointer, OptionalFunctions::of_second(unsafe { *pointer.cast().as_ptr() }))
        } else {
            (of_name(CAPSULE_NAME_1).ok_or_else(wrong_name)?, OptionalFunctions::default())
        };
        let table = pointer.cast::<EncoderTable1>().as_ptr();
        // SAFETY: as above; a capsule of the first name holds a pointer to an `EncoderTable1`.
        let taken = unsafe { *table };
        if taken.state.is_null() {
            return Err(refused("its encoder was taken already; load it again"));
        }
        // SAFETY: as above; null is what says that the state has a new owner.
        unsafe { (*table).state = std::ptr::null_mut() };
        let taken = Arc::new(SharedTable { table: taken, waker: OnceLock::new() });
        // SAFETY: `spec` is a string that lives as long as `state` (see `EncoderTable::spec`), which `taken` will release.
        let json = unsafe { CStr::from_ptr(taken.table.spec) }.to_bytes();
        let mut spec: EncoderSpec = serde_json::from_slice(json).map_err(|error| {
            let message = format!("an encoder described itself in a way this version cannot read: {error}");
            Failure(Error::new(ErrorKind::Internal, message))
        })?;
        spec.scores &= optional.submit_with_queries.is_some();
        Ok(Self { taken, optional, spec, asking: Vec::new() })
    }

    fn result(&self, failure: *mut c_char) -> Result<()> {
        if failure.is_null() {
            return Ok(());
        }
        // SAFETY: a failure that is not null is a string that is ours until we release it (see `EncoderTable`).
        let text = unsafe { CStr::from_ptr(failure) }.to_string_lossy().into_owned();
        // SAFETY: the same; `text` is a copy.
        unsafe { (self.taken.table.release_failure)(failure) };
        let (class, message) = text.split_once(": ").unwrap_or(("EncoderError", &text));
        Err(Error::new(ErrorKind::from_python_class(class).unwrap_or(ErrorKind::Encoder), message))
    }
}

impl Encoder for ForeignEncoder {
    fn spec(&self) -> &EncoderSpec {
        &self.spec
    }

    fn set_waker(&mut self, waker: Waker) {
        let context = std::ptr::from_ref::<Waker>(self.taken.waker.get_or_init(|| waker)).cast::<c_void>();
        // SAFETY: `context` points to what `taken` keeps in its place until after the state's release, and `wake` reads it as
        // the `Waker` it is, through a shared reference, which `Waker` (`Sync`) allows from any thread.
        unsafe { (self.taken.table.set_waker)(self.taken.table.state, wake, context) };
    }

    fn submit(&mut self, device: usize, batch: &Batch) -> Result<Ticket> {
        let mut ticket = 0;
        let Batch { ids, lengths, queries } = batch;
        if let Some(submit) = self.optional.submit_with_queries.filter(|_| !queries.is_empty()) {
            let (count, state) = (queries.len() / self.spec.dimension, self.taken.table.state);
            let (id_count, row_count) = (ids.len(), lengths.len());
            // SAFETY: pointers and counts belong together, and all outlive the call, after which they are not used.
            let failure = unsafe {
                let (ids, lengths, queries) = (ids.as_ptr(), lengths.as_ptr(), queries.as_ptr());
                submit(state, device, ids, id_count, lengths, row_count, queries, count, &raw mut ticket)
            };
            self.result(failure)?;
            self.asking.push((Ticket(ticket), count));
            return Ok(Ticket(ticket));
        }
        // SAFETY: pointers and counts belong together, and all outlive the call, after which they are not used.
        let failure = unsafe {
            (self.taken.table.submit)(
                self.taken.table.state,
                device,
                ids.as_ptr(),
                ids.len(),
                lengths.as_ptr(),
                lengths.len(),
                &raw mut ticket,
            )
        };
        self.result(failure).map(|()| Ticket(ticket))
    }

    fn is_finished(&mut self, ticket: Ticket) -> bool {
        // SAFETY: the state is alive: it is released when `taken` is dropped.
        unsafe { (self.taken.table.is_finished)(self.taken.table.state, ticket.0) }
    }

    fn collect(&mut self, ticket: Ticket, row: &mut dyn FnMut(usize, &[f32])) -> Result<()> {
        let place = self.asking.iter().position(|(asking, _)| *asking == ticket);
        let width = place.map_or(self.spec.dimension, |place| self.asking.swap_remove(place).1);
        let mut rows = Rows { width, row };
        // SAFETY: the state is alive; `context` is a `Rows`, which `take_row` expects, and outlives the call.
        let failure = unsafe {
            (self.taken.table.collect)(self.taken.table.state, ticket.0, take_row, (&raw mut rows).cast::<c_void>())
        };
        self.result(failure)
    }

    fn profile(&mut self, synchronizes: bool) {
        if let Some(profile) = self.optional.profile {
            // SAFETY: the state is alive.
            unsafe { profile(self.taken.table.state, synchronizes) };
        }
    }

    fn times(&mut self) -> Option<BatchTimes> {
        let times = self.optional.times?;
        let mut written = BatchTimes::default();
        // SAFETY: the state is alive, and there is a place to write to.
        unsafe { times(self.taken.table.state, &raw mut written) }.then_some(written)
    }

    fn batch_runner(&self) -> Option<BatchRunner> {
        let (help, taken) = (self.optional.help?, Arc::clone(&self.taken));
        // SAFETY: the state is alive for as long as `taken` is.
        Some(Arc::new(move || unsafe { help(taken.table.state) }))
    }
}

impl Drop for SharedTable {
    fn drop(&mut self) {
        // SAFETY: the state is ours since we set the capsule's to null, and nobody else uses it: they would have this too. The
        // waker is dropped after this, as `release` demands.
        unsafe { (self.table.release)(self.table.state) };
    }
}

/// What `collect` hands its rows to.
struct Rows<'call> {
    /// How many values each has.
    width: usize,
    row: &'call mut dyn FnMut(usize, &[f32]),
}

unsafe extern "C" fn take_row(context: *mut c_void, index: usize, values: *const f32) {
    // SAFETY: `collect` above passes a `Rows` and waits until the other side is done with it.
    let rows = unsafe { &mut *context.cast::<Rows<'_>>() };
    // SAFETY: `values` has `dimension` values, or as many as its batch had queries (see `EncoderTable`), for as long as this
    // call lasts.
    let values = unsafe { std::slice::from_raw_parts(values, rows.width) };
    (rows.row)(index, values);
}

unsafe extern "C" fn wake(context: *const c_void) {
    // SAFETY: `set_waker` above passed a `Waker` that lives until the state is released.
    let waker = unsafe { &*context.cast::<Waker>() };
    waker();
}
