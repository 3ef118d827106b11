//! Metrics of each stage of calls and batches.

use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::{Registry, Unit};
use pullquote_core::runtime::profiling::StageTotal;

use super::{add, add_with_unit};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StageLabel {
    stage: &'static str,
}

pub(crate) struct StageMetrics {
    times: Family<StageLabel, Counter<f64, AtomicU64>>,
    counts: Family<StageLabel, Counter<u64, AtomicU64>>,
}

impl StageMetrics {
    pub(super) fn new(all: &mut Registry) -> Self {
        let help = "Time spent in each stage of calls and batches";
        Self {
            times: add_with_unit(all, "stage", help, Unit::Seconds, Family::default()),
            counts: add(all, "stage_runs", "Number of times each stage ran"),
        }
    }

    pub(crate) fn set(&self, totals: Vec<StageTotal>) {
        for StageTotal { stage, time, count } in totals {
            let label = StageLabel { stage: stage.name() };
            // A counter of f64 stores its bits.
            self.times.get_or_create(&label).inner().store(time.as_secs_f64().to_bits(), Ordering::Relaxed);
            self.counts.get_or_create(&label).inner().store(count, Ordering::Relaxed);
        }
    }
}
