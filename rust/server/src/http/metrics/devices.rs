//! Metrics of each device.

use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use pullquote_core::engine::DeviceState;
use schemars::JsonSchema;
use serde::Serialize;

use super::add;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DeviceLabel {
    device: String,
}

type Counts = Family<DeviceLabel, Counter<u64, AtomicU64>>;
type Levels = Family<DeviceLabel, Gauge>;

pub(crate) struct DeviceMetrics {
    working: Levels,
    outstanding: Levels,
    batch_tokens: Levels,
    batches: Counts,
    tokens: Counts,
    failures: Counts,
    out_of_memory: Counts,
}

impl DeviceMetrics {
    pub(super) fn new(all: &mut Registry) -> Self {
        Self {
            working: add(
                all,
                "device_working",
                "1 while the device is in rotation, 0 while it is excluded after a failure",
            ),
            outstanding: add(all, "device_outstanding_tokens", "Tokens in flight on the device"),
            batch_tokens: add(all, "device_batch_tokens", "Token budget of a batch on the device"),
            batches: add(all, "device_batches", "Batches completed by the device"),
            tokens: add(all, "device_tokens", "Tokens processed by the device"),
            failures: add(all, "device_failures", "Batches that failed on the device"),
            out_of_memory: add(all, "device_out_of_memory", "Batches that ran out of memory on the device"),
        }
    }

    pub(crate) fn set(&self, states: Vec<DeviceState>) {
        for state in states {
            let device = DeviceLabel { device: state.name };
            let level = |levels: &Levels, value: usize| {
                levels.get_or_create(&device).set(i64::try_from(value).unwrap_or(i64::MAX));
            };
            level(&self.working, usize::from(state.is_working));
            level(&self.outstanding, state.outstanding_tokens);
            level(&self.batch_tokens, state.batch_tokens);
            for (counts, value) in [
                (&self.batches, state.batches),
                (&self.tokens, state.tokens),
                (&self.failures, state.failures),
                (&self.out_of_memory, state.out_of_memory),
            ] {
                counts.get_or_create(&device).inner().store(value, Ordering::Relaxed);
            }
        }
    }
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct DeviceHealth {
    name: String,
    /// False while the device is excluded after a failure; the others do its work.
    working: bool,
    /// Batches that failed on the device, and were repeated on others.
    failures: u64,
}

/// Leaves out the last error: health needs no key, and the error of a Python encoder may contain a caller's text.
pub(crate) fn health(states: Vec<DeviceState>) -> Vec<DeviceHealth> {
    let health =
        |state: DeviceState| DeviceHealth { name: state.name, working: state.is_working, failures: state.failures };
    states.into_iter().map(health).collect()
}
