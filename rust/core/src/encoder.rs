//! The encoder trait: token ids in, vectors out.
//!
//! One thread, the scheduler's, calls an encoder: it submits batches to the devices one after another, and collects
//! them in a second pass. `submit` never waits. A row's values depend on that row's ids alone, up to rounding. An
//! encoder without threads may offer a [`BatchRunner`], with which several waiting callers compute batches at the same
//! time. One that keeps the vectors of tokens may offer a [`TokenEncoder`]. [`crate::encoder::abi`] is the same
//! interface as a table of C functions, without the `TokenEncoder`.

pub mod abi;
pub mod cosine;
pub mod cpu_device;
pub mod device_config;
pub mod dtype;
pub mod embedding_dtype;
pub mod hub_cache;
pub mod model;

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
pub use crate::runtime::profiling::BatchTimes;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EncoderSpec {
    /// Values in a vector.
    pub dimension: usize,
    /// The longest row in token ids, special tokens included.
    pub max_tokens: usize,
    /// Rows of the embedding table; every id is below it.
    pub vocabulary: usize,
    /// The type of computation: `float32`, `bfloat16`, `float16`.
    pub dtype: String,
    /// In the order of submission; never empty.
    pub devices: Vec<DeviceSpec>,
    /// Whether the encoder calls the waker for each finished batch, unless a [`BatchRunner`] computed it.
    pub notifies: bool,
    /// Whether batches finish by themselves but without a notification, as on GPUs: the scheduler polls them. Without
    /// `notifies` and this, the scheduler waits in `collect`.
    #[serde(default)]
    pub needs_polling: bool,
    /// Whether devices compute cosines with the batch's queries (see [`Batch::queries`]).
    #[serde(default)]
    pub scores: bool,
    /// The instruction set, or a library and its version.
    #[serde(default)]
    pub backend: String,
}

impl EncoderSpec {
    /// The spec of an encoder that computes in float32, calls the waker for each batch, and leaves cosines to the
    /// scheduler.
    pub fn new(
        backend: &str,
        dimension: usize,
        max_tokens: usize,
        vocabulary: usize,
        devices: Vec<DeviceSpec>,
    ) -> Self {
        Self {
            dimension,
            max_tokens,
            vocabulary,
            dtype: "float32".to_owned(),
            devices,
            notifies: true,
            needs_polling: false,
            scores: false,
            backend: backend.to_owned(),
        }
    }

    /// Whether batches finish although no thread collects them.
    pub(crate) const fn computes_alone(&self) -> bool {
        self.notifies || self.needs_polling
    }

    /// Checks a batch once, so that no later code can index outside a table.
    ///
    /// # Errors
    /// [`ErrorKind::Encoder`], naming the row or id that this encoder cannot take.
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
            return failed(format!("the batch's queries have {values} values, which is not a multiple of {dimension}"));
        }
        let outside = |id: &&i32| usize::try_from(**id).map_or(true, |id| id >= self.vocabulary);
        match batch.ids.iter().find(outside) {
            None => Ok(()),
            Some(id) => failed(format!("id {id} is outside the model's vocabulary of {} ids", self.vocabulary)),
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DeviceSpec {
    /// As in the option `devices`: `cuda:0`, `cpu:1`.
    pub name: String,
    /// Batches submitted and not collected that keep the device busy.
    pub depth: usize,
    /// Batches that it computes at the same time.
    #[serde(default = "one")]
    pub workers: usize,
    /// Tokens of a batch: with fewer the device idles, and more are no faster.
    pub batch_tokens: usize,
    /// Whether the rows of a batch are padded to a common length, which costs time.
    #[serde(default)]
    pub padded_rows: bool,
}

const fn one() -> usize {
    1
}

impl DeviceSpec {
    /// A device that computes one batch at a time, without padding.
    pub const fn new(name: String, depth: usize, batch_tokens: usize) -> Self {
        Self { name, depth, workers: 1, batch_tokens, padded_rows: false }
    }
}

/// A host's settings for batches; `None` takes the device's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Batching {
    /// Replaces [`DeviceSpec::batch_tokens`]. A single longer row forms a batch of its own.
    pub max_tokens: Option<usize>,
    pub max_rows: Option<usize>,
    /// Replaces [`DeviceSpec::depth`].
    pub depth: Option<usize>,
    /// The longest wait for more rows when a batch is not full. With zero, batches grow only while devices are busy.
    pub timeout: Duration,
    /// How long a device may finish nothing before its batches are given to others; replaces
    /// [`DEFAULT_DEVICE_TIMEOUT`].
    pub device_timeout: Option<Duration>,
}

/// Far longer than a GPU's first batch, which loads its kernels, and shorter than callers' timeouts.
pub const DEFAULT_DEVICE_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchBudget {
    pub(crate) tokens: usize,
    pub(crate) rows: usize,
}

/// Smaller batches cost more than they gain by running on more workers.
const MIN_SHARE_TOKENS: usize = 128;

/// Batches for each worker beyond which a last uneven one costs little.
const UNEVEN_BATCHES: usize = 4;

impl BatchBudget {
    /// The budget that spreads a few waiting rows over batches of equal size. With those in flight, each worker gets
    /// the same number of batches.
    pub(crate) fn even(self, rows: usize, tokens: usize, in_flight: usize, workers: usize) -> Self {
        let full = tokens.div_ceil(self.tokens.max(1));
        if workers <= 1 || rows == 0 || full > UNEVEN_BATCHES * workers {
            return self;
        }
        let batches = (in_flight + full).next_multiple_of(workers) - in_flight;
        // Half a row more, because rows stay whole.
        let share = tokens.div_ceil(batches) + tokens / rows / 2;
        Self { tokens: share.max(MIN_SHARE_TOKENS).min(self.tokens), ..self }
    }
}

impl Batching {
    pub(crate) fn depth(&self, device: &DeviceSpec) -> usize {
        self.depth.unwrap_or(device.depth).max(1)
    }

    pub(crate) fn device_timeout(&self) -> Duration {
        self.device_timeout.unwrap_or(DEFAULT_DEVICE_TIMEOUT)
    }
    pub(crate) fn budget(&self, device: &DeviceSpec) -> BatchBudget {
        BatchBudget {
            tokens: self.max_tokens.unwrap_or(device.batch_tokens),
            rows: self.max_rows.unwrap_or(usize::MAX),
        }
    }
}

/// The token ids of several rows, concatenated without padding.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Special tokens included; as many as `lengths` add up to.
    pub ids: Vec<i32>,
    /// The number of ids of each row; never 0.
    pub lengths: Vec<u32>,
    /// Concatenated vectors of unit length, or zero. If there are any, the device returns each row's cosine with every
    /// query instead of its vector; a vector that is not finite gives NaN. Empty for encoders without
    /// [`EncoderSpec::scores`].
    pub queries: Vec<f32>,
}

impl Batch {
    /// A batch without queries.
    pub const fn new(ids: Vec<i32>, lengths: Vec<u32>) -> Self {
        Self { ids, lengths, queries: Vec::new() }
    }
}

/// Identifies a submitted batch until its `collect`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket(pub u64);

/// What a device has done with CUDA graphs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraphState {
    /// Batches whose kernels were queued as one graph.
    pub replayed: u64,
    /// Why no more are, after an error.
    pub error: Option<String>,
}

/// An encoder calls it from any of its threads when a batch is finished.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// Computes one submitted batch that no thread has started, on the calling thread; returns false if there is none. The
/// batch is finished when this returns, without a call of the waker; `collect` returns its error.
///
/// May be called from any thread, from several at once, and after the encoder was dropped; results are then discarded.
/// Restores the thread's settings.
pub type BatchRunner = Arc<dyn Fn() -> bool + Send + Sync>;

/// Appends the vectors of all ids of a batch, in their order: float32 `[ids, width]`. Fails as [`Encoder::submit`] and
/// [`Encoder::collect`] do.
///
/// Computes on the calling thread. May be called from any thread, and from several at once; after the encoder was
/// dropped it fails with [`ErrorKind::Closed`].
pub type EncodeTokens = Arc<dyn Fn(&Batch, &mut Vec<f32>) -> Result<()> + Send + Sync>;

/// Computes the vectors of tokens, before pooling and the modules after it.
#[derive(Clone)]
pub struct TokenEncoder {
    /// Values in a token's vector.
    pub width: usize,
    pub encode: EncodeTokens,
}

/// Calls `row` for each row of concatenated vectors, as [`Encoder::collect`] must.
pub fn for_each_row(vectors: &[f32], dimension: usize, row: &mut dyn FnMut(usize, &[f32])) {
    vectors.chunks_exact(dimension).enumerate().for_each(|(index, values)| row(index, values));
}

/// Turns batches of token ids into vectors on one or more devices.
pub trait Encoder: Send {
    /// Never changes.
    fn spec(&self) -> &EncoderSpec;

    /// Called once, before the first `submit`.
    fn set_waker(&mut self, waker: Waker);

    /// Starts a batch on a device and returns without waiting for it.
    ///
    /// # Errors
    /// If the batch could not be started; none of it is in flight then. The kinds mean what they mean for
    /// [`Encoder::collect`].
    fn submit(&mut self, device: usize, batch: &Batch) -> Result<Ticket>;

    /// Whether `collect` would return without waiting for the device.
    fn is_finished(&mut self, ticket: Ticket) -> bool;

    /// Waits for a batch and calls `row(index, values)` once for each row, in the order of submission. `values` is a
    /// vector, or one cosine for each of the batch's queries.
    ///
    /// # Errors
    /// If the batch failed; `row` was not called then. The scheduler retries [`ErrorKind::OutOfMemory`] in smaller
    /// batches, [`ErrorKind::Device`] on all other devices, and any other kind on one of them.
    fn collect(&mut self, ticket: Ticket, row: &mut dyn FnMut(usize, &[f32])) -> Result<()>;

    /// Whether [`Encoder::collect_owned`] is cheaper than [`Encoder::collect`]. The rows of a batch then keep their
    /// jobs' order instead of being sorted by length.
    fn returns_owned_rows(&self) -> bool {
        false
    }

    /// As [`Encoder::collect`], but returns the encoder's own memory with the concatenated rows.
    fn collect_owned(&mut self, ticket: Ticket) -> Result<Vec<f32>> {
        let mut vectors = Vec::new();
        self.collect(ticket, &mut |_, values| vectors.extend_from_slice(values))?;
        Ok(vectors)
    }

    /// With `synchronizes`, devices wait at the end of each stage so that [`Encoder::times`] can separate them. Called
    /// at most once, before the first `submit`.
    fn profile(&mut self, synchronizes: bool) {
        let _ = synchronizes;
    }

    /// The times of the batch that was collected last; `None` if they are unknown.
    fn times(&mut self) -> Option<BatchTimes> {
        None
    }

    /// What a device has done with CUDA graphs; nothing where it has none.
    fn graphs(&mut self, device: usize) -> GraphState {
        let _ = device;
        GraphState::default()
    }

    /// Requested once, after [`Encoder::set_waker`]. `None` if the encoder has threads of its own, or computes in
    /// `collect`.
    fn batch_runner(&self) -> Option<BatchRunner> {
        None
    }

    /// Requested once, before [`Encoder::set_waker`]. `None` if the encoder has only one vector for each row.
    fn token_encoder(&self) -> Option<TokenEncoder> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The batches of rows of 130 tokens each, on workers that finish none before the last is submitted.
    fn batches(mut rows: usize, workers: usize) -> Vec<usize> {
        let (budget, mut batches) = (BatchBudget { tokens: 512, rows: usize::MAX }, Vec::new());
        while rows > 0 {
            let fit = budget.even(rows, 130 * rows, batches.len(), workers).tokens / 130;
            batches.push(fit.clamp(1, rows));
            rows -= batches[batches.len() - 1];
        }
        batches
    }

    #[test]
    fn a_few_rows_are_spread_evenly_over_workers() {
        assert_eq!(batches(18, 2), [3, 3, 3, 3, 3, 3]);
        assert_eq!(batches(8, 2), [2, 2, 2, 2]);
        assert_eq!(batches(5, 4), [1, 1, 2, 1]);
        assert_eq!(batches(2, 8), [1, 1]);
        assert_eq!(batches(7, 1), [3, 3, 1]);
    }
}
