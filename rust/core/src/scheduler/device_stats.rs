//! The board: what is known of each device, for who asks from any thread.
//!
//! The scheduler writes it, a batch at a time; metrics, health and people read it. Nothing on it decides anything.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::encoder::EncoderSpec;

/// One device, as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceState {
    /// As people write it.
    pub name: String,
    /// False while it rests because it failed; it is tried again, and then this is true again.
    pub is_working: bool,
    /// Batches it may have at once.
    pub depth: usize,
    /// Tokens that its batches may have now: fewer than it wants where its memory did not suffice.
    pub batch_tokens: usize,
    /// Tokens that were submitted and are not back.
    pub outstanding_tokens: usize,
    /// Batches that came back.
    pub batches: u64,
    /// Their tokens.
    pub tokens: u64,
    /// Batches that failed here, those without memory not included.
    pub failures: u64,
    /// Batches for which its memory did not suffice.
    pub out_of_memory: u64,
    /// What the last one of both said.
    pub last_error: Option<String>,
}

/// One line for each device, in their order.
#[derive(Debug)]
pub(crate) struct DeviceStats(Vec<DeviceCounters>);

#[derive(Debug)]
struct DeviceCounters {
    name: String,
    depth: AtomicUsize,
    rests: AtomicBool,
    batch_tokens: AtomicUsize,
    outstanding: AtomicUsize,
    batches: AtomicU64,
    tokens: AtomicU64,
    failures: AtomicU64,
    out_of_memory: AtomicU64,
    last_error: Mutex<Option<String>>,
}

impl DeviceStats {
    /// For devices that have done nothing yet.
    pub(crate) fn new(spec: &EncoderSpec) -> Self {
        let line = |device: &crate::encoder::DeviceSpec| DeviceCounters {
            name: device.name.clone(),
            depth: device.depth.into(),
            rests: false.into(),
            batch_tokens: device.batch_tokens.into(),
            outstanding: 0.into(),
            batches: 0.into(),
            tokens: 0.into(),
            failures: 0.into(),
            out_of_memory: 0.into(),
            last_error: Mutex::default(),
        };
        Self(spec.devices.iter().map(line).collect())
    }

    /// All devices.
    pub(crate) fn states(&self) -> Vec<DeviceState> {
        let state = |line: &DeviceCounters| DeviceState {
            name: line.name.clone(),
            is_working: !line.rests.load(Ordering::Relaxed),
            depth: line.depth.load(Ordering::Relaxed),
            batch_tokens: line.batch_tokens.load(Ordering::Relaxed),
            outstanding_tokens: line.outstanding.load(Ordering::Relaxed),
            batches: line.batches.load(Ordering::Relaxed),
            tokens: line.tokens.load(Ordering::Relaxed),
            failures: line.failures.load(Ordering::Relaxed),
            out_of_memory: line.out_of_memory.load(Ordering::Relaxed),
            last_error: line.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        };
        self.0.iter().map(state).collect()
    }

    pub(crate) fn bounds(&self, device: usize, depth: usize, batch_tokens: usize) {
        self.0[device].depth.store(depth, Ordering::Relaxed);
        self.0[device].batch_tokens.store(batch_tokens, Ordering::Relaxed);
    }

    pub(crate) fn outstanding(&self, device: usize, tokens: usize) {
        self.0[device].outstanding.store(tokens, Ordering::Relaxed);
    }

    pub(crate) fn rests(&self, device: usize, rests: bool) {
        self.0[device].rests.store(rests, Ordering::Relaxed);
    }

    pub(crate) fn finished(&self, device: usize, tokens: usize) {
        self.0[device].batches.fetch_add(1, Ordering::Relaxed);
        self.0[device].tokens.fetch_add(tokens as u64, Ordering::Relaxed);
    }

    pub(crate) fn failed(&self, device: usize, is_memory: bool, message: &str) {
        let line = &self.0[device];
        let counter = if is_memory { &line.out_of_memory } else { &line.failures };
        counter.fetch_add(1, Ordering::Relaxed);
        *line.last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(message.to_owned());
    }
}
