//! Devices: which one gets the next batch, the token budget of that batch, and which ones are in backoff.
//!
//! **Balance.** The next batch goes to the device that would finish it first: its outstanding tokens plus the batch's,
//! times its recent seconds per token. So faster and less busy devices get more.
//!
//! **Backoff.** A device where a batch failed backs off, and the rows are retried on other devices. If they fail there
//! too, the rows are at fault and the backoff ends at once. Otherwise the device gets one batch as a probe after a
//! delay, which doubles with each failed probe. If every device is in backoff, all are used.
//!
//! **Stalls.** A device that finishes nothing within `device_timeout` backs off too, if another one is healthy; that
//! one computes its rows. The device gets no batches until it has finished all of its own, because it still holds their
//! memory.
//!
//! **Memory.** After an out-of-memory error, the device's batches get half of its tokens. After a number of batches
//! without another such error the budget doubles again, up to the configured one. Each error raises that number.
//!
//! Nothing here waits, or allocates for each batch. Callers pass in the time, so that tests need no clock.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::encoder::{BatchBudget, Batching, EncoderSpec, GraphState};
use crate::error::{Error, ErrorKind};
use crate::scheduler::device_stats::DeviceStats;

/// Delay after a device's first failure, and the longest one. The client (`rust/client`) uses the same for servers.
const INITIAL_BACKOFF: Duration = Duration::from_millis(500);
const MAX_BACKOFF: Duration = Duration::from_secs(30);

/// Successful batches before the token budget doubles again: after the first out-of-memory error, and at most.
const MIN_SUCCESSES_TO_GROW: u32 = 64;
const MAX_SUCCESSES_TO_GROW: u32 = 4096;

/// Weight of older batches in a device's speed, for each newer batch.
const SPEED_DECAY: f64 = 0.9;

pub(crate) struct Devices {
    all: Vec<Device>,
    stats: Arc<DeviceStats>,
}

struct Device {
    depth: usize,
    configured: BatchBudget,
    /// The current token budget, at most the configured one.
    tokens: usize,
    /// Successful batches since `tokens` changed, and the number at which it doubles.
    successes: u32,
    successes_to_grow: u32,
    /// Batches submitted and not collected, and their tokens.
    in_flight: usize,
    outstanding: usize,
    /// Seconds and tokens of recent batches, weighted by [`SPEED_DECAY`].
    recent_seconds: f64,
    recent_tokens: f64,
    /// When a finished batch was last collected.
    last_finished: Option<Instant>,
    backoff: Option<Backoff>,
    /// Batches still on the device whose rows were given to others after a stall.
    abandoned: usize,
    /// No rows wait for it in this pass.
    is_skipped: bool,
}

#[derive(Clone, Copy)]
struct Backoff {
    until: Instant,
    delay: Duration,
}

impl Devices {
    pub(crate) fn new(spec: &EncoderSpec, batching: Batching, stats: Arc<DeviceStats>) -> Self {
        let device = |(index, spec)| {
            let (depth, configured) = (batching.depth(spec), batching.budget(spec));
            stats.set_limits(index, depth, configured.tokens);
            Device {
                depth,
                configured,
                tokens: configured.tokens,
                successes: 0,
                successes_to_grow: MIN_SUCCESSES_TO_GROW,
                in_flight: 0,
                outstanding: 0,
                recent_seconds: 0.0,
                recent_tokens: 0.0,
                last_finished: None,
                backoff: None,
                abandoned: 0,
                is_skipped: false,
            }
        };
        Self { all: spec.devices.iter().enumerate().map(device).collect(), stats }
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Starts a pass over the devices: none is skipped yet.
    pub(crate) fn begin_pass(&mut self) {
        self.all.iter_mut().for_each(|device| device.is_skipped = false);
    }

    /// The device for the next batch: among those with room that are not skipped, first one to probe, then the one that
    /// would finish first. `is_needed` says whether rows wait for a device in backoff because all healthy ones failed
    /// on them.
    pub(crate) fn next(&self, now: Instant, is_needed: impl Fn(usize) -> bool) -> Option<usize> {
        let mean = self.mean_seconds_per_token();
        let none_is_healthy = self.all.iter().all(|device| device.backoff.is_some());
        let candidates = self.all.iter().enumerate().filter(|(index, device)| {
            let has_room = match device.backoff {
                None => device.in_flight < device.depth,
                Some(_) if none_is_healthy => device.in_flight < device.depth,
                Some(backoff) => device.in_flight == 0 && (now >= backoff.until || is_needed(*index)),
            };
            has_room && device.abandoned == 0 && !device.is_skipped
        });
        let key = |device: &Device| {
            #[expect(clippy::cast_precision_loss, reason = "tokens of a few batches")]
            let tokens = (device.outstanding + device.tokens) as f64;
            (device.backoff.is_none(), tokens * device.seconds_per_token().unwrap_or(mean))
        };
        // The first of equals, so that under light load one device stays busy and keeps its caches warm.
        let best = candidates.min_by(|(_, one), (_, other)| {
            let (one, other) = (key(one), key(other));
            one.0.cmp(&other.0).then(one.1.total_cmp(&other.1))
        });
        best.map(|(index, _)| index)
    }

    /// Ignores the device for the rest of this pass, because no rows wait for it.
    pub(crate) fn skip(&mut self, device: usize) {
        self.all[device].is_skipped = true;
    }

    /// The budget of the device's next batch.
    pub(crate) fn budget(&self, device: usize) -> BatchBudget {
        BatchBudget { tokens: self.all[device].tokens, rows: self.all[device].configured.rows }
    }

    /// Whether `failed` holds every healthy device.
    pub(crate) fn covers_healthy(&self, failed: &[usize]) -> bool {
        self.all.iter().enumerate().all(|(index, device)| device.backoff.is_some() || failed.contains(&index))
    }

    /// Counts a submitted batch. Returns whether it is the device's probe.
    pub(crate) fn on_submitted(&mut self, index: usize, tokens: usize) -> bool {
        let device = &mut self.all[index];
        device.in_flight += 1;
        device.outstanding += tokens;
        self.stats.set_outstanding(index, device.outstanding);
        device.backoff.is_some()
    }

    /// Counts a batch as no longer on the device, successful or not.
    pub(crate) fn on_ended(&mut self, index: usize, tokens: usize) {
        let device = &mut self.all[index];
        device.in_flight -= 1;
        device.outstanding -= tokens;
        self.stats.set_outstanding(index, device.outstanding);
    }

    /// Records what a device has done with CUDA graphs.
    pub(crate) fn on_graphs(&self, index: usize, graphs: GraphState) {
        self.stats.set_graphs(index, graphs);
    }

    /// Records a successful batch that was submitted at `since`.
    pub(crate) fn on_success(&mut self, index: usize, tokens: usize, since: Instant, is_probe: bool, now: Instant) {
        let device = &mut self.all[index];
        let took = device.busy_with(since, now).as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "tokens of a batch")]
        let count = tokens as f64;
        device.recent_seconds = device.recent_seconds * SPEED_DECAY + took;
        device.recent_tokens = device.recent_tokens * SPEED_DECAY + count;
        device.last_finished = Some(now);
        self.stats.add_finished(index, tokens);
        if is_probe && device.backoff.take().is_some() {
            self.stats.set_backoff(index, false);
        }
        if device.tokens < device.configured.tokens {
            device.successes += 1;
            if device.successes >= device.successes_to_grow {
                device.successes = 0;
                device.tokens = device.tokens.saturating_mul(2).min(device.configured.tokens);
                self.stats.set_limits(index, device.depth, device.tokens);
            }
        }
    }

    /// Halves the token budget after a batch of `tokens` ran out of memory.
    pub(crate) fn on_out_of_memory(&mut self, index: usize, tokens: usize, error: &Error) {
        let device = &mut self.all[index];
        // Half of the batch, not of the budget: several failed batches of one size in flight halve the budget once.
        device.tokens = device.tokens.min(tokens / 2).max(1);
        device.successes = 0;
        device.successes_to_grow = device.successes_to_grow.saturating_mul(2).min(MAX_SUCCESSES_TO_GROW);
        self.stats.set_limits(index, device.depth, device.tokens);
        self.stats.add_failure(index, true, error.message());
    }

    /// Records a failed batch, and starts or doubles the backoff where `backs_off`.
    pub(crate) fn on_failure(&mut self, index: usize, error: &Error, backs_off: bool, now: Instant) {
        self.stats.add_failure(index, error.kind() == ErrorKind::OutOfMemory, error.message());
        let device = &mut self.all[index];
        if !backs_off {
            return;
        }
        let delay = match device.backoff {
            // The batch was submitted before the backoff began, so its failure adds nothing.
            Some(backoff) if now < backoff.until => return,
            Some(backoff) => backoff.delay.saturating_mul(2).min(MAX_BACKOFF),
            None => INITIAL_BACKOFF,
        };
        device.backoff = Some(Backoff { until: now + delay, delay });
        self.stats.set_backoff(index, true);
    }

    /// Whether the device finished nothing for `timeout` with a batch submitted at `since`, while another one is
    /// healthy.
    pub(crate) fn is_stalled(&self, index: usize, since: Instant, timeout: Duration, now: Instant) -> bool {
        let is_healthy = |(other, device): (usize, &Device)| other != index && device.backoff.is_none();
        self.all[index].busy_with(since, now) >= timeout && self.all.iter().enumerate().any(is_healthy)
    }

    /// The time for which the device has computed its oldest batch, submitted at `since`, and the expected time for
    /// that batch: zero while the device's speed is unknown.
    pub(crate) fn progress(&self, index: usize, since: Instant, tokens: usize, now: Instant) -> (Duration, Duration) {
        let device = &self.all[index];
        #[expect(clippy::cast_precision_loss, reason = "tokens of a batch")]
        let seconds = device.seconds_per_token().unwrap_or(0.0) * tokens as f64;
        (device.busy_with(since, now), Duration::try_from_secs_f64(seconds).unwrap_or_default())
    }

    /// Records that a stalled device's batch was given to others.
    pub(crate) fn on_abandoned(&mut self, index: usize, error: &Error, now: Instant) {
        self.on_failure(index, error, true, now);
        self.all[index].abandoned += 1;
    }

    /// Records that the device finished an abandoned batch. After the last one, a success ends the backoff.
    pub(crate) fn on_late_completion(&mut self, index: usize, succeeded: bool, now: Instant) {
        let device = &mut self.all[index];
        device.abandoned -= 1;
        device.last_finished = Some(now);
        if succeeded && device.abandoned == 0 && device.backoff.take().is_some() {
            self.stats.set_backoff(index, false);
        }
    }

    /// Ends a backoff whose rows failed on another device too. After a failed probe the backoff stays: the probe had
    /// other rows.
    pub(crate) fn clear_failure(&mut self, index: usize) {
        let device = &mut self.all[index];
        if device.abandoned == 0 && device.backoff.is_some_and(|backoff| backoff.delay == INITIAL_BACKOFF) {
            device.backoff = None;
            self.stats.set_backoff(index, false);
        }
    }

    /// Over all devices; 1 before the first batch.
    fn mean_seconds_per_token(&self) -> f64 {
        let sum = |(seconds, tokens), device: &Device| (seconds + device.recent_seconds, tokens + device.recent_tokens);
        let (seconds, tokens) = self.all.iter().fold((0.0, 0.0), sum);
        if tokens > 0.0 { seconds / tokens } else { 1.0 }
    }
}

impl Device {
    /// The time for which the device has computed the batch submitted at `since`: its batches run one after another, so
    /// this one began when it was submitted or when the batch before it finished.
    fn busy_with(&self, since: Instant, now: Instant) -> Duration {
        now.saturating_duration_since(self.last_finished.map_or(since, |finished| finished.max(since)))
    }

    fn seconds_per_token(&self) -> Option<f64> {
        (self.recent_tokens > 0.0).then(|| self.recent_seconds / self.recent_tokens)
    }
}

#[cfg(test)]
mod tests;
