//! The encoder trait: token ids in, vectors out.
//!
//! One thread, the scheduler's, calls an encoder: it submits batches to the devices one after another, and collects
//! them in a second pass. `submit` never waits. A batch says what is computed of it ([`Output`]). A row's values depend
//! on that row's ids alone, up to rounding. [`crate::encoder::abi`] is the same interface as a table of C functions.

pub mod abi;
pub mod cosine;
pub mod cpu_device;
pub mod device_config;
pub mod dtype;
pub mod hub_cache;
pub mod model;
pub mod user_cache;

use std::borrow::Cow;
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
    /// The instruction set, or a library and its version.
    #[serde(default)]
    pub backend: String,
    #[serde(default)]
    pub capabilities: Capabilities,
}

/// What an encoder does beyond vectors of rows, and how the scheduler learns that a batch is finished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Capabilities {
    /// Whether the encoder calls the waker for each finished batch. Otherwise, as with GPUs, the scheduler polls
    /// [`Encoder::is_finished`].
    pub notifies: bool,
    /// Whether devices compute [`Output::Cosines`].
    pub cosines: bool,
    /// Values in the vector of a token, if devices compute [`Output::TokenVectors`].
    pub token_width: Option<usize>,
    /// Whether these are all that there is, as with late interaction: no vector of a row.
    pub late_interaction: bool,
    /// What pairs of texts may be, if devices compute [`Output::Scores`] or [`Output::Labels`].
    pub pairs: Option<PairSpec>,
    /// Whether [`Encoder::collect`] gives its memory away. The rows of a batch then keep their jobs' order, and
    /// are not sorted by length. So the memory can become a job's without a copy.
    pub owned_rows: bool,
}

/// The rows of a reranker or a pruner: it is another model than that of vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairSpec {
    /// The longest row in token ids, special tokens included.
    pub max_tokens: usize,
    /// Rows of the embedding table; every id is below it.
    pub vocabulary: usize,
    /// Whether the model is a pruner, which computes [`Output::Labels`]; a reranker computes [`Output::Scores`].
    #[serde(default)]
    pub is_pruner: bool,
}

impl EncoderSpec {
    /// The spec of an encoder that computes vectors of rows in float32, and calls the waker for each batch.
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
            backend: backend.to_owned(),
            capabilities: Capabilities { notifies: true, ..Capabilities::default() },
        }
    }

    /// Values that a batch returns for a row of this number of tokens.
    pub(crate) fn row_values(&self, output: Output, tokens: usize, queries: usize) -> usize {
        match output {
            Output::Vectors => self.dimension,
            Output::Cosines => queries,
            Output::TokenVectors => tokens * self.capabilities.token_width.unwrap_or(0),
            Output::Scores => 1,
            Output::Labels => tokens,
        }
    }

    /// Checks a batch once, so that no later code can index outside a table.
    ///
    /// # Errors
    /// [`ErrorKind::Encoder`], naming the row or id that this encoder cannot take; [`ErrorKind::Internal`] for an output
    /// that its [`Capabilities`] lack.
    pub fn check(&self, batch: &Batch) -> Result<()> {
        let failed = |message: String| Err(Error::new(ErrorKind::Encoder, message));
        let is_capable = match batch.output {
            Output::Vectors => !self.capabilities.late_interaction,
            Output::Cosines => self.capabilities.cosines,
            Output::TokenVectors => self.capabilities.token_width.is_some(),
            Output::Scores => self.capabilities.pairs.is_some_and(|pairs| !pairs.is_pruner),
            Output::Labels => self.capabilities.pairs.is_some_and(|pairs| pairs.is_pruner),
        };
        if !is_capable || batch.queries.is_empty() == (batch.output == Output::Cosines) {
            let (output, queries) = (batch.output, batch.queries.len());
            let message = format!("this encoder computes no {output:?} with {queries} values of queries");
            return Err(Error::new(ErrorKind::Internal, message));
        }
        let is_of_pairs = matches!(batch.output, Output::Scores | Output::Labels);
        let pairs = self.capabilities.pairs.filter(|_| is_of_pairs);
        let (longest, vocabulary) =
            pairs.map_or((self.max_tokens, self.vocabulary), |pairs| (pairs.max_tokens, pairs.vocabulary));
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
        let are_inside = || batch.seconds.iter().zip(&batch.lengths).all(|(second, length)| second <= length);
        if batch.seconds.len() != if is_of_pairs { batch.lengths.len() } else { 0 } || !are_inside() {
            return failed("the batch's second texts do not begin in its rows".to_owned());
        }
        let are_attended = || batch.unattended.iter().zip(&batch.lengths).all(|(last, length)| last < length);
        if ![0, batch.lengths.len()].contains(&batch.unattended.len()) || !are_attended() {
            return failed("the batch has rows without a token that is attended to".to_owned());
        }
        if !batch.queries.len().is_multiple_of(self.dimension) {
            let (values, dimension) = (batch.queries.len(), self.dimension);
            return failed(format!("the batch's queries have {values} values, which is not a multiple of {dimension}"));
        }
        let outside = |id: &&i32| usize::try_from(**id).map_or(true, |id| id >= vocabulary);
        match batch.ids.iter().find(outside) {
            None => Ok(()),
            Some(id) => failed(format!("id {id} is outside the model's vocabulary of {vocabulary} ids")),
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

/// What an encoder computes of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Output {
    /// A vector for each row: `[rows, dimension]`.
    #[default]
    Vectors,
    /// Each row's cosine with each of the batch's queries: `[rows, queries]`. A vector that is not finite gives NaN.
    Cosines,
    /// A vector for each token: `[tokens, token_width]`. With late interaction it is after all modules and of length 1,
    /// otherwise before pooling and the modules after it.
    TokenVectors,
    /// For rows that are pairs of texts, the logit that a reranker gives each: `[rows]`.
    Scores,
    /// For rows that are pairs of texts, the logit that a pruner gives each token for keeping it: `[tokens]`. In place of
    /// the first token, which is a special one, stands the logit of the pair if the pruner ranks.
    Labels,
}

impl Output {
    /// The output with this number in a C table; `None` if a newer version has added it.
    pub fn from_code(code: u32) -> Option<Self> {
        [Self::Vectors, Self::Cosines, Self::TokenVectors, Self::Scores, Self::Labels]
            .into_iter()
            .find(|output| *output as u32 == code)
    }
}

/// The token ids of several rows, concatenated without padding.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    pub output: Output,
    /// Special tokens included; as many as `lengths` add up to.
    pub ids: Vec<i32>,
    /// The number of ids of each row; never 0.
    pub lengths: Vec<u32>,
    /// For [`Output::Cosines`]: concatenated vectors of unit length, or zero.
    pub queries: Vec<f32>,
    /// For [`Output::Scores`] and [`Output::Labels`]: in each row, where tokens of the second type begin; its length if none do.
    pub seconds: Vec<u32>,
    /// How many of each row's last tokens no token attends to; empty for none.
    pub unattended: Vec<u32>,
}

impl Batch {
    /// A batch of which vectors are computed.
    pub const fn new(ids: Vec<i32>, lengths: Vec<u32>) -> Self {
        let output = Output::Vectors;
        Self { output, ids, lengths, queries: Vec::new(), seconds: Vec::new(), unattended: Vec::new() }
    }

    /// Replaces this batch with a copy, in the memory it has.
    pub fn copy_from(&mut self, other: &Self) {
        self.output = other.output;
        self.ids.clone_from(&other.ids);
        self.lengths.clone_from(&other.lengths);
        self.queries.clone_from(&other.queries);
        self.seconds.clone_from(&other.seconds);
        self.unattended.clone_from(&other.unattended);
    }
}

/// Identifies a submitted batch until its `collect`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    pub device: usize,
    /// Unique among the device's batches.
    pub number: u64,
}

/// What is known of a collected batch and its device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Zero where the encoder measures nothing.
    pub times: BatchTimes,
    pub graphs: GraphState,
}

/// What a device has done with CUDA graphs; nothing where it has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraphState {
    /// Batches whose kernels were queued as one graph.
    pub replayed: u64,
    /// Why no more are, after an error.
    pub error: Option<String>,
}

/// An encoder calls it from any of its threads when a batch is finished.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// Turns batches of token ids into vectors on one or more devices.
pub trait Encoder: Send {
    /// Never changes.
    fn spec(&self) -> &EncoderSpec;

    /// Never changes.
    fn capabilities(&self) -> Capabilities {
        self.spec().capabilities
    }

    /// Called once, before the first `submit`.
    fn set_waker(&mut self, waker: Waker);

    /// Starts a batch on a device and returns without waiting for it.
    ///
    /// # Errors
    /// If the batch could not be started; none of it is in flight then. The kinds mean what they mean for
    /// [`Encoder::collect`].
    fn submit(&mut self, device: usize, batch: &Batch) -> Result<Ticket>;

    /// Whether `collect` need not wait for the device. An encoder without threads computes in `collect`, so all of its
    /// batches are finished.
    fn is_finished(&mut self, ticket: Ticket) -> bool;

    /// Waits for a batch and calls `receive` once with all its values, row by row in the order of submission. They may
    /// be infinite or NaN; the scheduler checks them. [`Cow::Owned`] gives their memory away.
    ///
    /// # Errors
    /// If the batch failed; `receive` was not called then. The scheduler retries [`ErrorKind::OutOfMemory`] in smaller
    /// batches, [`ErrorKind::Device`] on all other devices, and any other kind on one of them.
    fn collect(&mut self, ticket: Ticket, receive: &mut dyn FnMut(Cow<'_, [f32]>)) -> Result<Collected>;
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
