//! CUDA graphs: a batch's kernels, recorded once and queued again by a single call.
//!
//! A graph repeats its kernels with the same sizes and addresses. So a batch is padded to one of few [`RaggedShape`]s
//! and copied to the graph's inputs, and its rows are read from the graph's output. Inputs and output are tensors of
//! the graph. What the kernels need in between comes from a pool of torch's allocator that only the captures of one
//! device use ([`CaptureMemory`]): no other work gets that memory while the pool lives. All graphs of a device may
//! share it, because the device's thread queues them on one stream, and nothing in the pool is read after its graph has
//! ended.
//!
//! A shape is captured when it comes for the second time. The first rows of a graph are compared with those of the same
//! batch without a graph, which callers get. After an error, or if rows differ, the device stops using graphs.
//!
//! Nothing of this has run on a GPU. The tests replay kernels on a CPU, through a runtime library of their own.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use lru::LruCache;
use pullquote_core::encoder::Batch;
use tch::{Kind, TchError, Tensor};

use super::runtime::{CaptureStream, CudaError, Event, GraphExec, Runtime};
use super::staging::{RaggedShape, Staging};
use crate::error::TorchResult;
use crate::model::dispatcher::new_reference;
use crate::model::layout::{DeviceBatch, Ragged, dim};
use crate::model::network::Network;

/// Graphs of a device, and shapes that came once.
const MAX_GRAPHS: NonZeroUsize = NonZeroUsize::new(64).expect("it is not zero");

/// Tokens of a shape.
const TOKENS: [usize; 7] = [1 << 10, 1 << 11, 1 << 12, 1 << 13, 1 << 14, 1 << 15, 1 << 16];

/// Tokens of a shape for each of its rows. More rows would cost attention time, although they are empty.
const TOKENS_PER_ROW: [usize; 4] = [256, 128, 64, 32];

/// Tokens of a shape's longest row.
const LONGEST: [usize; 4] = [64, 128, 256, 512];

/// The most work of padding tokens: what a large GPU computes in the time that a graph saves, by estimate.
const PADDING_FLOPS: u64 = 260_000_000_000;

/// The largest difference between values with and without a graph, as a part of the largest value: several times what
/// rounding in bfloat16 does. Rows of other texts differ by more.
const TOLERANCE: f64 = 1.0 / 32.0;

/// How long a device waits for its graphs to end before it leaks them.
const END_TIMEOUT: Duration = Duration::from_millis(500);
const POLL_INTERVAL: Duration = Duration::from_micros(50);

/// Queues the kernels of a graph: they read its inputs and write its output.
pub type Kernels = Arc<Mutex<dyn FnMut() -> TorchResult<()> + Send>>;

/// Where the memory of captured kernels comes from, on one GPU.
pub trait CaptureMemory: Send {
    /// Calls `capture` while torch's allocations on this thread come from this memory, and torch queues on the
    /// capture's stream.
    ///
    /// # Errors
    /// The reason, as a sentence. `capture` may have been called.
    fn with(&self, kernels: &Kernels, capture: &mut dyn FnMut(&Kernels)) -> Result<(), String>;

    /// Gives the memory back to torch's allocator. No graph that uses it is left, nor running. Dropping leaks it
    /// instead.
    fn release(self: Box<Self>);
}

/// What graphs need of torch's Python API.
#[derive(Clone, Copy, Debug)]
pub struct CaptureSupport {
    /// Memory for captures on this stream of this GPU.
    pub memory: fn(device: usize, stream: CaptureStream) -> Result<Box<dyn CaptureMemory>, String>,
    /// Writes a warning to the host's log.
    pub warn: fn(message: &str),
}

/// The graphs of a device. Its thread owns them.
pub(super) struct Graphs {
    support: CaptureSupport,
    runtime: &'static Runtime,
    index: usize,
    table: GraphTable<Graph>,
    /// Since the first capture.
    place: Option<(CaptureStream, Box<dyn CaptureMemory>)>,
    /// The model's longest row.
    max_tokens: usize,
    /// The most padding tokens of a batch.
    max_padding: usize,
}

struct Graph {
    exec: GraphExec,
    /// int32; see [`RaggedShape`].
    inputs: Tensor,
    /// float32 `[rows, dimension]`.
    output: Tensor,
    /// They keep the tensors that the graph uses.
    _kernels: Kernels,
}

/// Captured shapes, and shapes that came once; of both, the least recently used go.
struct GraphTable<T> {
    captured: LruCache<RaggedShape, T>,
    seen: LruCache<RaggedShape, ()>,
}

impl Graphs {
    pub(super) fn new(support: CaptureSupport, runtime: &'static Runtime, index: usize, network: &Network) -> Self {
        let padding = network.flops_per_token().map_or(0, |flops| PADDING_FLOPS / flops.max(1));
        let max_padding = usize::try_from(padding).unwrap_or(usize::MAX);
        let (table, max_tokens) = (GraphTable::new(), network.max_tokens());
        Self { support, runtime, index, table, place: None, max_tokens, max_padding }
    }

    /// The shape of a batch, if it has a graph.
    pub(super) fn captured_shape(&self, batch: &Batch) -> Option<RaggedShape> {
        self.shape(batch).filter(|shape| self.table.captured.contains(shape))
    }

    /// The shape that a batch is padded to; `None` where it is better off without a graph.
    fn shape(&self, batch: &Batch) -> Option<RaggedShape> {
        bucket(batch, self.max_tokens, self.max_padding)
    }

    /// Starts the copy of a batch to the inputs of its shape's graph.
    pub(super) fn upload(&mut self, shape: RaggedShape, batch: &Batch, staging: &mut Staging) -> TorchResult<Ragged> {
        let graph = self.table.captured.get(&shape).ok_or_else(no_graph)?;
        staging.upload_bucketed(batch, shape, &graph.inputs)?;
        shape.view(&graph.inputs)
    }

    /// Launches the graph of a shape, and returns its output, which the next launch overwrites.
    pub(super) fn launch(&mut self, shape: RaggedShape) -> TorchResult<Tensor> {
        let graph = self.table.captured.get(&shape).ok_or_else(no_graph)?;
        graph.exec.launch()?;
        new_reference(&graph.output)
    }

    /// Captures the shape of a batch that was computed without a graph, if the shape came before. `rows` is what it
    /// gave. Waits for the GPU.
    pub(super) fn see(
        &mut self,
        batch: &Batch,
        staging: &mut Staging,
        network: &Arc<Network>,
        rows: &Tensor,
    ) -> TorchResult<()> {
        match self.shape(batch) {
            Some(shape) if self.table.came_before(shape) => {
                let graph = self.capture(shape, batch, staging, network, rows)?;
                self.table.captured.put(shape, graph);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn capture(
        &mut self,
        shape: RaggedShape,
        batch: &Batch,
        staging: &mut Staging,
        network: &Arc<Network>,
        rows: &Tensor,
    ) -> TorchResult<Graph> {
        let device = network.device();
        let inputs = Tensor::f_empty([dim(shape.values())], (Kind::Int, device))?;
        let mut output = Tensor::f_empty([dim(shape.rows), dim(network.dimension())], (Kind::Float, device))?;
        staging.upload_bucketed(batch, shape, &inputs)?;
        let ragged = DeviceBatch::Ragged(shape.view(&inputs)?);
        let (network, mut written) = (Arc::clone(network), new_reference(&output)?);
        let kernels: Kernels = Arc::new(Mutex::new(move || written.f_copy_(&network.encode_uploaded(&ragged)?)));
        // Not captured yet: this loads kernels that other shapes did not need, which a capture could not.
        run(&kernels)?;
        let exec = self.record(&kernels)?;
        let _ = output.f_fill_(f64::NAN)?;
        exec.launch()?;
        let found = output.f_narrow(0, 0, dim(batch.lengths.len()))?;
        let largest = rows.f_abs()?.f_max()?.f_double_value(&[])?;
        let difference = found.f_sub(rows)?.f_abs()?.f_max()?.f_double_value(&[])?;
        // False for NaN.
        if difference <= TOLERANCE * largest {
            return Ok(Graph { exec, inputs, output, _kernels: kernels });
        }
        let message =
            format!("a graph's values differ from those without by {difference}, and the largest is {largest}");
        Err(TchError::Kind(message))
    }

    fn record(&mut self, kernels: &Kernels) -> TorchResult<GraphExec> {
        let refused = |why: String| TchError::Kind(why);
        let (stream, memory) = match &mut self.place {
            Some(place) => place,
            none => {
                let stream = CaptureStream::new(self.runtime)?;
                none.insert((stream, (self.support.memory)(self.index, stream).map_err(refused)?))
            }
        };
        let mut recorded = Err(refused("nothing was captured".to_owned()));
        memory.with(kernels, &mut |kernels| recorded = stream.capture(&mut || run(kernels))).map_err(refused)?;
        recorded
    }

    /// Frees the graphs and their memory once the GPU has reached the end of its queue, and leaks them if it does not.
    pub(super) fn end(self, is_lost: bool) {
        if is_lost || self.has_ended() != Ok(true) {
            return std::mem::forget(self);
        }
        let Self { table, place, .. } = self;
        drop(table);
        if let Some((_, memory)) = place {
            memory.release();
        }
    }

    fn has_ended(&self) -> Result<bool, CudaError> {
        let (event, began) = (Event::new(self.runtime)?, Instant::now());
        event.record()?;
        while began.elapsed() < END_TIMEOUT {
            if event.is_done()? {
                return Ok(true);
            }
            sleep(POLL_INTERVAL);
        }
        Ok(false)
    }

    /// Logs to the host that graphs are no longer used.
    pub(super) fn warn(&self, name: &str, why: &str) {
        (self.support.warn)(&format!("{name}: CUDA graphs are off, and batches are computed without: {why}"));
    }
}

fn run(kernels: &Kernels) -> TorchResult<()> {
    (kernels.lock().unwrap_or_else(PoisonError::into_inner))()
}

fn no_graph() -> TchError {
    TchError::Kind("no graph of this shape".to_owned())
}

/// The first shape that a batch fits with at most this number of padding tokens; `None` where there is none. The
/// padding's rows are no longer than the model's.
pub fn bucket(batch: &Batch, max_tokens: usize, max_padding: usize) -> Option<RaggedShape> {
    let filled = batch.ids.len();
    let longest = batch.lengths.iter().copied().max()? as usize;
    let longest = LONGEST.into_iter().find(|most| *most >= longest)?.min(max_tokens.max(longest));
    let fits = |tokens: &usize| *tokens >= filled && *tokens - filled <= max_padding;
    TOKENS.into_iter().filter(fits).find_map(|tokens| {
        let least = batch.lengths.len() + (tokens - filled).div_ceil(longest);
        let rows = TOKENS_PER_ROW.into_iter().map(|each| tokens / each).find(|rows| *rows >= least)?;
        Some(RaggedShape { tokens, rows, longest })
    })
}

impl<T> GraphTable<T> {
    fn new() -> Self {
        Self { captured: LruCache::new(MAX_GRAPHS), seen: LruCache::new(MAX_GRAPHS) }
    }

    /// Whether a shape came before that is not captured. If not, it has now.
    fn came_before(&mut self, shape: RaggedShape) -> bool {
        let came = self.seen.pop(&shape).is_some();
        if !came {
            self.seen.put(shape, ());
        }
        came
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(lengths: &[u32]) -> Batch {
        Batch::new(vec![0; lengths.iter().sum::<u32>() as usize], lengths.to_vec())
    }

    #[test]
    fn buckets_hold_their_batches_and_are_few() {
        let found = |lengths: &[u32]| bucket(&batch(lengths), 512, usize::MAX);
        let shape = |tokens, rows, longest| Some(RaggedShape { tokens, rows, longest });
        assert_eq!(found(&[64; 16]), shape(1024, 16, 64), "a full batch needs no padding");
        assert_eq!(found(&[64; 17]), shape(2048, 32, 64), "17 rows, and 15 of padding");
        assert_eq!(found(&[512; 32]), shape(16_384, 64, 512));
        assert_eq!(found(&[300, 20, 1]), shape(1024, 8, 512), "two rows of padding");
        assert_eq!(found(&[7]), shape(1024, 32, 64));
        assert_eq!(found(&[8; 100]), shape(8192, 256, 64), "rows that are too short for the first shape");
        assert_eq!(found(&[1; 4000]), None, "more rows than any shape has");
        assert_eq!(found(&[513]), None);
        assert_eq!(found(&[512; 129]), None);
        assert_eq!(bucket(&batch(&[300]), 384, usize::MAX), shape(1024, 4, 384), "no row is longer than the model's");
        assert_eq!(bucket(&batch(&[64; 17]), 512, 959), None, "padding that costs more than the graph saves");
        assert_eq!(bucket(&batch(&[64; 17]), 512, 960), shape(2048, 32, 64));
        let mut shapes = std::collections::HashSet::new();
        for rows in 1..2048_u32 {
            for length in [1, 5, 20, 64, 65, 100, 200, 500, 512] {
                let lengths: Vec<u32> = (0..rows).map(|row| 1 + (row * 7919) % length).collect();
                let Some(shape) = found(&lengths) else { continue };
                let mut values = vec![-1; shape.values()];
                shape.write(&batch(&lengths), &mut values);
                let ends = &values[2 * shape.tokens..];
                assert_eq!((ends[0], ends.len()), (0, shape.rows + 1));
                assert_eq!(usize::try_from(ends[shape.rows]), Ok(shape.tokens), "every token is in a row");
                let longest = ends.windows(2).map(|ends| ends[1] - ends[0]).max();
                assert!(
                    longest
                        .is_some_and(|longest| usize::try_from(longest).is_ok_and(|longest| longest <= shape.longest))
                );
                shapes.insert(shape);
            }
        }
        assert!(shapes.len() <= TOKENS.len() * TOKENS_PER_ROW.len() * LONGEST.len());
    }

    #[test]
    fn shapes_are_captured_when_they_come_again_and_the_least_recently_used_go() {
        let shape = |tokens| RaggedShape { tokens, rows: 1, longest: 64 };
        let mut table = GraphTable::new();
        assert!(!table.came_before(shape(0)) && table.came_before(shape(0)));
        assert!(!table.came_before(shape(0)), "after a graph was dropped, its shape must come twice again");
        for tokens in 0..64 {
            assert_eq!(table.captured.put(shape(tokens), tokens), None);
        }
        table.captured.get(&shape(0));
        table.captured.put(shape(64), 64);
        let kept: Vec<bool> = [0, 1, 2, 64].map(|tokens| table.captured.contains(&shape(tokens))).to_vec();
        assert_eq!((kept, table.captured.len()), (vec![true, false, true, true], 64));
        for tokens in 100..164 {
            assert!(!table.came_before(shape(tokens)));
        }
        assert!(!table.came_before(shape(0)), "64 other shapes came since");
        assert!(table.came_before(shape(163)));
    }
}
