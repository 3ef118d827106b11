//! Counters of each device. The scheduler writes them once for each batch; metrics and health checks read them from any
//! thread. No decision depends on them.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::encoder::{EncoderSpec, GraphState};

/// A device's state and counters at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceState {
    /// As in the option `devices`: `cuda:0`, `cpu:1`.
    pub name: String,
    /// False while the device is in backoff after a failure, or has stalled.
    pub is_working: bool,
    /// The most batches in flight on the device.
    pub depth: usize,
    /// Token budget of its next batch: halved after an out-of-memory error, and raised again later.
    pub batch_tokens: usize,
    /// Whether the rows of its batches are padded to a common length.
    pub padded_rows: bool,
    /// Tokens submitted and not collected.
    pub outstanding_tokens: usize,
    /// Batches collected without an error.
    pub batches: u64,
    /// Tokens of those batches.
    pub tokens: u64,
    /// Batches that failed, without out-of-memory errors.
    pub failures: u64,
    /// Batches that ran out of memory.
    pub out_of_memory: u64,
    /// The last message of either kind of failure.
    pub last_error: Option<String>,
    /// Batches whose kernels were queued as one CUDA graph.
    pub graph_batches: u64,
    /// Why no more are, after an error.
    pub graph_error: Option<String>,
}

/// One entry for each device, in the order of [`EncoderSpec::devices`].
#[derive(Debug)]
pub(crate) struct DeviceStats(Vec<DeviceCounters>);

#[derive(Debug)]
struct DeviceCounters {
    name: String,
    depth: AtomicUsize,
    in_backoff: AtomicBool,
    batch_tokens: AtomicUsize,
    padded_rows: bool,
    outstanding: AtomicUsize,
    batches: AtomicU64,
    tokens: AtomicU64,
    failures: AtomicU64,
    out_of_memory: AtomicU64,
    last_error: Mutex<Option<String>>,
    graph_batches: AtomicU64,
    graph_error: OnceLock<String>,
}

impl DeviceStats {
    pub(crate) fn new(spec: &EncoderSpec) -> Self {
        let counters = |device: &crate::encoder::DeviceSpec| DeviceCounters {
            name: device.name.clone(),
            depth: device.depth.into(),
            in_backoff: false.into(),
            batch_tokens: device.batch_tokens.into(),
            padded_rows: device.padded_rows,
            outstanding: 0.into(),
            batches: 0.into(),
            tokens: 0.into(),
            failures: 0.into(),
            out_of_memory: 0.into(),
            last_error: Mutex::default(),
            graph_batches: 0.into(),
            graph_error: OnceLock::new(),
        };
        Self(spec.devices.iter().map(counters).collect())
    }

    pub(crate) fn states(&self) -> Vec<DeviceState> {
        let state = |device: &DeviceCounters| DeviceState {
            name: device.name.clone(),
            is_working: !device.in_backoff.load(Ordering::Relaxed),
            depth: device.depth.load(Ordering::Relaxed),
            batch_tokens: device.batch_tokens.load(Ordering::Relaxed),
            padded_rows: device.padded_rows,
            outstanding_tokens: device.outstanding.load(Ordering::Relaxed),
            batches: device.batches.load(Ordering::Relaxed),
            tokens: device.tokens.load(Ordering::Relaxed),
            failures: device.failures.load(Ordering::Relaxed),
            out_of_memory: device.out_of_memory.load(Ordering::Relaxed),
            last_error: device.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            graph_batches: device.graph_batches.load(Ordering::Relaxed),
            graph_error: device.graph_error.get().cloned(),
        };
        self.0.iter().map(state).collect()
    }

    pub(crate) fn set_limits(&self, device: usize, depth: usize, batch_tokens: usize) {
        self.0[device].depth.store(depth, Ordering::Relaxed);
        self.0[device].batch_tokens.store(batch_tokens, Ordering::Relaxed);
    }

    pub(crate) fn set_outstanding(&self, device: usize, tokens: usize) {
        self.0[device].outstanding.store(tokens, Ordering::Relaxed);
    }

    pub(crate) fn set_backoff(&self, device: usize, in_backoff: bool) {
        self.0[device].in_backoff.store(in_backoff, Ordering::Relaxed);
    }

    pub(crate) fn add_finished(&self, device: usize, tokens: usize) {
        self.0[device].batches.fetch_add(1, Ordering::Relaxed);
        self.0[device].tokens.fetch_add(tokens as u64, Ordering::Relaxed);
    }

    pub(crate) fn set_graphs(&self, device: usize, graphs: GraphState) {
        self.0[device].graph_batches.store(graphs.replayed, Ordering::Relaxed);
        if let Some(error) = graphs.error {
            self.0[device].graph_error.get_or_init(|| error);
        }
    }

    pub(crate) fn add_failure(&self, device: usize, is_out_of_memory: bool, message: &str) {
        let device = &self.0[device];
        let counter = if is_out_of_memory { &device.out_of_memory } else { &device.failures };
        counter.fetch_add(1, Ordering::Relaxed);
        *device.last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(message.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoder::DeviceSpec;

    #[test]
    fn graph_batches_and_the_first_graph_error_are_kept() {
        let devices = ["cuda:0", "cuda:1"].map(|name| DeviceSpec::new(name.to_owned(), 2, 64)).into();
        let stats = DeviceStats::new(&EncoderSpec {
            dimension: 1,
            max_tokens: 1,
            vocabulary: 1,
            dtype: "float16".to_owned(),
            devices,
            notifies: false,
            needs_polling: true,
            scores: true,
            backend: "torch".to_owned(),
        });
        for (replayed, error) in [(1, None), (5, Some("first")), (5, Some("second"))] {
            stats.set_graphs(1, GraphState { replayed, error: error.map(str::to_owned) });
        }
        let found: Vec<_> = stats.states().into_iter().map(|state| (state.graph_batches, state.graph_error)).collect();
        assert_eq!(found, [(0, None), (5, Some("first".to_owned()))]);
    }
}
