//! Counters of each device. The scheduler writes them once for each batch; metrics and health checks read them from any
//! thread. No decision depends on them.

use std::sync::{Mutex, MutexGuard};

use crate::encoder::{DeviceSpec, EncoderSpec, GraphState};
use crate::runtime::sync::lock;

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

/// One state for each device, in the order of [`EncoderSpec::devices`].
#[derive(Debug)]
pub(crate) struct DeviceStats(Vec<Mutex<DeviceState>>);

impl DeviceStats {
    pub(crate) fn new(spec: &EncoderSpec) -> Self {
        let state = |device: &DeviceSpec| DeviceState {
            name: device.name.clone(),
            is_working: true,
            depth: device.depth,
            batch_tokens: device.batch_tokens,
            padded_rows: device.padded_rows,
            outstanding_tokens: 0,
            batches: 0,
            tokens: 0,
            failures: 0,
            out_of_memory: 0,
            last_error: None,
            graph_batches: 0,
            graph_error: None,
        };
        Self(spec.devices.iter().map(state).map(Mutex::new).collect())
    }

    fn lock(&self, device: usize) -> MutexGuard<'_, DeviceState> {
        lock(&self.0[device])
    }

    pub(crate) fn states(&self) -> Vec<DeviceState> {
        (0..self.0.len()).map(|device| self.lock(device).clone()).collect()
    }

    pub(crate) fn set_limits(&self, device: usize, depth: usize, batch_tokens: usize) {
        let mut state = self.lock(device);
        (state.depth, state.batch_tokens) = (depth, batch_tokens);
    }

    pub(crate) fn set_outstanding(&self, device: usize, tokens: usize) {
        self.lock(device).outstanding_tokens = tokens;
    }

    pub(crate) fn set_backoff(&self, device: usize, in_backoff: bool) {
        self.lock(device).is_working = !in_backoff;
    }

    pub(crate) fn add_finished(&self, device: usize, tokens: usize) {
        let mut state = self.lock(device);
        state.batches += 1;
        state.tokens += tokens as u64;
    }

    pub(crate) fn set_graphs(&self, device: usize, graphs: GraphState) {
        let mut state = self.lock(device);
        state.graph_batches = graphs.replayed;
        state.graph_error = state.graph_error.take().or(graphs.error);
    }

    pub(crate) fn add_failure(&self, device: usize, is_out_of_memory: bool, message: &str) {
        let mut state = self.lock(device);
        *if is_out_of_memory { &mut state.out_of_memory } else { &mut state.failures } += 1;
        state.last_error = Some(message.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graph_batches_and_the_first_graph_error_are_kept() {
        let devices = ["cuda:0", "cuda:1"].map(|name| DeviceSpec::new(name.to_owned(), 2, 64)).into();
        let stats = DeviceStats::new(&EncoderSpec::new("torch", 1, 1, 1, devices));
        for (replayed, error) in [(1, None), (5, Some("first")), (5, Some("second"))] {
            stats.set_graphs(1, GraphState { replayed, error: error.map(str::to_owned) });
        }
        let found: Vec<_> = stats.states().into_iter().map(|state| (state.graph_batches, state.graph_error)).collect();
        assert_eq!(found, [(0, None), (5, Some("first".to_owned()))]);
    }
}
