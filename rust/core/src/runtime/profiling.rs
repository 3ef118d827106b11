//! Profiling: totals of the time that calls and batches spend in each stage.
//!
//! They are always kept, and cost a few additions for each batch and each part of a call.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Nanoseconds that a batch spent in each stage on its device. The stages follow each other from `submit` on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct BatchTimes {
    /// Copying the ids to the device.
    pub copied_in: u64,
    /// Queueing the kernels of a GPU, on the host.
    pub launched: u64,
    /// In the device's queue.
    pub waited: u64,
    pub computed: u64,
    /// Copying the rows to host memory.
    pub copied_out: u64,
}

impl BatchTimes {
    /// Nanoseconds since `then`.
    pub fn since(then: Instant) -> u64 {
        Self::of(then.elapsed())
    }

    /// A duration in nanoseconds.
    pub fn of(time: Duration) -> u64 {
        u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// The stages of a call on the caller's thread, and of a batch on its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// A call reads, cuts and hashes its pages.
    Cut,
    /// A call tokenizes its windows.
    Tokenize,
    /// A call waits for vectors. Devices may have started before it waits.
    Wait,
    /// A call scores its windows and chooses passages.
    Choose,
    /// A job waits until a batch takes the first of its rows.
    Queue,
    /// A batch's ids are copied to its device.
    CopyIn,
    /// A batch's kernels are queued on its GPU, by the GPU's thread; 0 on CPUs.
    Launch,
    /// A batch waits for earlier ones on its device. A GPU counts this as computing unless it waits at the end of each
    /// stage.
    DeviceQueue,
    /// A batch is computed.
    Compute,
    /// A batch's rows are copied back.
    CopyOut,
}

impl Stage {
    /// In the order of the flow.
    pub const ALL: [Self; 10] = [
        Self::Cut,
        Self::Tokenize,
        Self::Wait,
        Self::Choose,
        Self::Queue,
        Self::CopyIn,
        Self::Launch,
        Self::DeviceQueue,
        Self::Compute,
        Self::CopyOut,
    ];

    /// The name in metrics and profiles.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cut => "cut",
            Self::Tokenize => "tokenize",
            Self::Wait => "wait",
            Self::Choose => "choose",
            Self::Queue => "queue",
            Self::CopyIn => "copy_in",
            Self::Launch => "launch",
            Self::DeviceQueue => "device_queue",
            Self::Compute => "compute",
            Self::CopyOut => "copy_out",
        }
    }
}

/// Total time and count of one stage.
#[derive(Clone, Copy, Debug)]
pub struct StageTotal {
    pub stage: Stage,
    /// Summed over calls and batches, which overlap in time.
    pub time: Duration,
    pub count: u64,
}

/// Collects the stages of an engine's calls and batches.
#[derive(Debug, Default)]
pub struct Profiler {
    totals: [(AtomicU64, AtomicU64); Stage::ALL.len()],
}

impl Profiler {
    pub fn totals(&self) -> Vec<StageTotal> {
        let total = |stage: Stage| {
            let (nanoseconds, count) = &self.totals[stage as usize];
            let time = Duration::from_nanos(nanoseconds.load(Ordering::Relaxed));
            StageTotal { stage, time, count: count.load(Ordering::Relaxed) }
        };
        Stage::ALL.map(total).to_vec()
    }

    /// Adds `count` runs of a stage that took `time` together.
    pub(crate) fn add(&self, stage: Stage, time: Duration, count: u64) {
        let (nanoseconds, counted) = &self.totals[stage as usize];
        nanoseconds.fetch_add(BatchTimes::of(time), Ordering::Relaxed);
        counted.fetch_add(count, Ordering::Relaxed);
    }

    /// Records that a call ran a stage from `began` until now. Returns the time it took.
    pub(crate) fn record_call(&self, stage: Stage, began: Instant) -> Duration {
        let time = began.elapsed();
        self.add(stage, time, 1);
        time
    }

    /// Records the stages of a finished batch.
    pub(crate) fn record_batch(&self, times: BatchTimes) {
        let stages = [
            (Stage::CopyIn, times.copied_in),
            (Stage::Launch, times.launched),
            (Stage::DeviceQueue, times.waited),
            (Stage::Compute, times.computed),
            (Stage::CopyOut, times.copied_out),
        ];
        for (stage, nanoseconds) in stages {
            self.add(stage, Duration::from_nanos(nanoseconds), 1);
        }
    }
}
