//! The seam to what turns token ids into vectors.
//!
//! Everything an encoder does is asked for by one thread, the scheduler: it submits batch after batch serially over the
//! devices, and collects in a second pass. An encoder never waits in `submit`, and promises that a row's values depend on
//! that row's ids alone, up to rounding. Where it has no threads, those who wait for vectors may lend it theirs, several at
//! once, by its [`BatchRunner`]. [`crate::encoder::abi`] is the same seam as a table of C functions.

pub mod abi;
pub mod cosine;
pub mod dtype;
pub mod model;
pub mod places;
pub mod workers;

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
pub use crate::runtime::profiling::BatchTimes;

/// What an encoder is, fixed when it is made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EncoderSpec {
    /// Values in a vector.
    pub dimension: usize,
    /// The longest row, in token ids, special ones included.
    pub max_tokens: usize,
    /// Rows of the embedding table: every id must be below it.
    pub vocabulary: usize,
    /// The type the encoder computes in: `float32`, `bfloat16`, `float16`.
    pub dtype: String,
    /// The devices, in the order in which they are walked; never empty.
    pub devices: Vec<DeviceSpec>,
    /// Whether the encoder calls the waker when a batch is finished that no [`BatchRunner`] computed.
    pub notifies: bool,
    /// Whether, where it calls nobody, batches are finished by themselves: the scheduler looks at them again and again then.
    /// Where an encoder does neither, the scheduler waits in `collect`.
    #[serde(default)]
    pub needs_polling: bool,
    /// Whether devices compare rows with the queries of their batch (see [`Batch::queries`]).
    #[serde(default)]
    pub scores: bool,
    /// What computes: an instruction set, or a library and its version.
    #[serde(default)]
    pub backend: String,
}

impl EncoderSpec {
    /// Whether batches are finished though nobody collects them.
    pub(crate) const fn computes_alone(&self) -> bool {
        self.notifies || self.needs_polling
    }

    /// Checks a batch, once, so that nothing after it can read outside a table.
    ///
    /// # Errors
    /// [`ErrorKind::Encoder`], with the row or id that this encoder cannot take.
    pub fn check(&self, batch: &Batch) -> Result<()> {
        let failed = |message: String| Err(Error::new(ErrorKind::Encoder, message));
        let longest = self.max_tokens;
        if batch.lengths.is_empty() {
            return failed("the batch has no rows".to_owned());
        }
        for (row, length) in batch.lengths.iter().enumerate() {
            if *length == 0 || *length as usize > longest {
                return failed(format!("row {row} of the batch has {length} ids; allowed are 1 to {longest}"));
            }
        }
        let total: u64 = batch.lengths.iter().map(|length| u64::from(*length)).sum();
        if total != batch.ids.len() as u64 {
            return failed(format!("the batch has {} ids, but its lengths add up to {total}", batch.ids.len()));
        }
        if !batch.queries.len().is_multiple_of(self.dimension) {
            let (values, dimension) = (batch.queries.len(), self.dimension);
            return failed(format!("the batch's queries have {values} values, which is no multiple of {dimension}"));
        }
        let outside = |id: &&i32| usize::try_from(**id).map_or(true, |id| id >= self.vocabulary);
        match batch.ids.iter().find(outside) {
            None => Ok(()),
            Some(id) => failed(format!("id {id} is outside the model's vocabulary of {} ids", self.vocabulary)),
        }
    }
}

/// One device of an encoder.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DeviceSpec {
    /// As people write it: `cuda:0`, `cpu:1`.
    pub name: String,
    /// Batches it wants submitted and not yet collected, so that it never runs dry.
    pub depth: usize,
    /// Tokens a batch should have: fewer leave it idle, more bring nothing.
    pub batch_tokens: usize,
}

/// What a host may say about batches, beside what a device wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Batching {
    /// Tokens of a batch, instead of [`DeviceSpec::batch_tokens`]; a longer row goes alone.
    pub max_tokens: Option<usize>,
    /// Rows of a batch, at most.
    pub max_rows: Option<usize>,
    /// Batches that a device has at once, instead of [`DeviceSpec::depth`]: while one runs, the others are ready.
    pub depth: Option<usize>,
    /// How long rows that do not fill a batch wait for others. Zero: they never do, and batches grow while devices are busy.
    pub timeout: Duration,
    /// How long a device may finish nothing before others compute what it has, instead of [`DEVICE_PATIENCE`].
    pub patience: Option<Duration>,
}

/// How long a device may finish nothing that it was given: much longer than a card's first batch takes, for which it loads
/// its kernels, and less than what callers wait.
pub const DEVICE_PATIENCE: Duration = Duration::from_secs(10);

/// What one batch may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    pub(crate) tokens: usize,
    pub(crate) rows: usize,
}

impl Batching {
    /// How many batches this device may have at once.
    pub(crate) fn depth(&self, device: &DeviceSpec) -> usize {
        self.depth.unwrap_or(device.depth).max(1)
    }

    /// How long a device may finish nothing.
    pub(crate) fn patience(&self) -> Duration {
        self.patience.unwrap_or(DEVICE_PATIENCE)
    }

    /// What a batch of this device may hold.
    pub(crate) fn budget(&self, device: &DeviceSpec) -> Budget {
        Budget { tokens: self.max_tokens.unwrap_or(device.batch_tokens), rows: self.max_rows.unwrap_or(usize::MAX) }
    }
}

/// The ids of several rows, one behind the other, without padding.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// All ids, special ones included; its length is the sum of `lengths`.
    pub ids: Vec<i32>,
    /// How many ids each row has; none is 0.
    pub lengths: Vec<u32>,
    /// Vectors of length one, or zero, one behind the other. Where there are any, a row's cosines with them come back in the
    /// place of its vector, none of which is a number where the vector has values that are none. Encoders whose spec does not
    /// say that they score are given none.
    pub queries: Vec<f32>,
}

impl Batch {
    /// Rows that come back as vectors.
    #[must_use]
    pub const fn new(ids: Vec<i32>, lengths: Vec<u32>) -> Self {
        Self { ids, lengths, queries: Vec::new() }
    }
}

/// A submitted batch, good for one `collect`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket(pub u64);

/// Called by an encoder, from any of its threads, when a batch is finished.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// Computes one batch that was submitted and that nobody computes yet, on the calling thread; false where there is none. It is
/// finished when this returns, and the waker need not be called for it; a failure is told by `collect`.
///
/// May be called from any thread, by several at once and beside everything else, also when the encoder is gone: what is
/// computed then is for nobody. Leaves the thread's settings as it found them.
pub type BatchRunner = Arc<dyn Fn() -> bool + Send + Sync>;

/// Hands out rows that lie one behind the other, as [`Encoder::collect`] has to.
pub fn hand_out(vectors: &[f32], dimension: usize, row: &mut dyn FnMut(usize, &[f32])) {
    vectors.chunks_exact(dimension).enumerate().for_each(|(index, values)| row(index, values));
}

/// Turns batches of token ids into vectors on one or more devices.
pub trait Encoder: Send {
    /// What this encoder is.
    fn spec(&self) -> &EncoderSpec;

    /// Gives the encoder the function to call when a batch is finished; called once, before the first `submit`.
    fn set_waker(&mut self, waker: Waker);

    /// Starts a batch on a device and returns at once.
    ///
    /// # Errors
    /// When the batch could not be started; nothing of it is in flight then. Kinds as those of [`Encoder::collect`].
    fn submit(&mut self, device: usize, batch: &Batch) -> Result<Ticket>;

    /// Whether `collect` would return without waiting for the device.
    fn is_finished(&mut self, ticket: Ticket) -> bool;

    /// Waits for a batch and hands out its rows, each once, in the order they were submitted: `row(index, values)`, where the
    /// values are a vector, or a score for each of the batch's queries.
    ///
    /// # Errors
    /// When the batch failed; no row was handed out then. [`ErrorKind::OutOfMemory`] is tried again in smaller batches,
    /// [`ErrorKind::Device`] on all other devices, and anything else on one of them.
    ///
    /// [`ErrorKind::OutOfMemory`]: crate::error::ErrorKind::OutOfMemory
    /// [`ErrorKind::Device`]: crate::error::ErrorKind::Device
    fn collect(&mut self, ticket: Ticket, row: &mut dyn FnMut(usize, &[f32])) -> Result<()>;

    /// Whether [`Encoder::take`] costs less than [`Encoder::collect`]. Rows of a batch then stand in the order in which their
    /// callers have them, and not by their lengths.
    fn gives(&self) -> bool {
        false
    }

    /// Waits for a batch like [`Encoder::collect`], and gives away the memory that its rows lie in, one behind the other.
    ///
    /// # Errors
    /// As [`Encoder::collect`].
    fn take(&mut self, ticket: Ticket) -> Result<Vec<f32>> {
        let mut vectors = Vec::new();
        self.collect(ticket, &mut |_, values| vectors.extend_from_slice(values))?;
        Ok(vectors)
    }

    /// Whether devices shall wait at the end of each stage, so that [`Encoder::times`] can tell them apart; called before the
    /// first `submit`, if at all.
    fn profile(&mut self, synchronizes: bool) {
        let _ = synchronizes;
    }

    /// What the batch took that was collected last; nothing where the encoder does not know.
    fn times(&mut self) -> Option<BatchTimes> {
        None
    }

    /// What lends the encoder a thread; asked for once, after [`Encoder::set_waker`]. Nothing where it needs none, or where its
    /// batches are computed in `collect`.
    fn batch_runner(&self) -> Option<BatchRunner> {
        None
    }
}
