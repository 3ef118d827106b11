//! Devices: which of them gets the next batch, how large it may be, and which of them rest.
//!
//! **Balance.** The next batch goes to the device that would be done with it first: the tokens it has and those it would get, by
//! the time a token took there of late. Devices that are faster, or have less to do for others, so get more.
//!
//! **Rest.** A device where a batch failed rests, and its rows are tried elsewhere. Where they fail there too they are to
//! blame, and the device is back at once; else it is tried with one batch after a pause, which doubles with each failed
//! trial. Where no device works, all are tried: nothing better can be done for who waits.
//!
//! **Hanging.** A device that finishes nothing for too long rests too, while another works, which gets its rows. It is back
//! when it has finished all that it was given; until then it gets nothing, since what it does not finish it keeps.
//!
//! **Memory.** Where a batch found no memory, batches of this device have half of its tokens from then on. After a while
//! without another such failure twice as many are tried, up to what the device wants; each failure makes that while longer.
//!
//! Nothing here waits or allocates from batch to batch. Times are handed in, so that tests need no clock.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::encoder::{Batching, Budget, EncoderSpec};
use crate::error::{Error, ErrorKind};
use crate::scheduler::device_stats::DeviceStats;

/// How long a device rests when it fails for the first time, and at most. As long as a client's server (`rust/client`).
const FIRST_REST: Duration = Duration::from_millis(500);
const LONGEST_REST: Duration = Duration::from_secs(30);

/// Batches that must go well before larger ones are tried: at first, and at most.
const FIRST_PATIENCE: u32 = 64;
const LONGEST_PATIENCE: u32 = 4096;

/// How much of what is known of a device's pace is left after another batch.
const MEMORY_OF_PACE: f64 = 0.9;

/// All devices of an encoder.
pub(crate) struct Devices {
    each: Vec<Device>,
    board: Arc<DeviceStats>,
}

struct Device {
    depth: usize,
    /// What its batches have where memory suffices.
    wanted: Budget,
    /// What they may have now: never more.
    tokens: usize,
    /// Batches that went well since `tokens` changed, and how many must.
    well: u32,
    patience: u32,
    /// Batches submitted and not collected, and their tokens.
    in_flight: usize,
    outstanding: usize,
    /// Seconds and tokens of the last batches, the latest counting most.
    spent: f64,
    done: f64,
    /// When it was last seen to finish a batch.
    finished: Option<Instant>,
    rest: Option<Rest>,
    /// Batches in flight that were given up.
    given_up: usize,
    /// Looked at in this pass, and found to get nothing.
    is_passed: bool,
}

#[derive(Clone, Copy)]
struct Rest {
    until: Instant,
    length: Duration,
}

impl Devices {
    pub(crate) fn new(spec: &EncoderSpec, batching: Batching, board: Arc<DeviceStats>) -> Self {
        let device = |(index, spec)| {
            let (depth, wanted) = (batching.depth(spec), batching.budget(spec));
            board.bounds(index, depth, wanted.tokens);
            Device {
                depth,
                wanted,
                tokens: wanted.tokens,
                well: 0,
                patience: FIRST_PATIENCE,
                in_flight: 0,
                outstanding: 0,
                spent: 0.0,
                done: 0.0,
                finished: None,
                rest: None,
                given_up: 0,
                is_passed: false,
            }
        };
        Self { each: spec.devices.iter().enumerate().map(device).collect(), board }
    }

    pub(crate) fn len(&self) -> usize {
        self.each.len()
    }

    /// A pass begins: every device may get something.
    pub(crate) fn begin_pass(&mut self) {
        self.each.iter_mut().for_each(|device| device.is_passed = false);
    }

    /// The device that shall have the next batch, among those with room that were not passed over; those that are tried
    /// again first. `is_asked_for` says of a device that rests whether rows wait that nobody else can be asked for.
    pub(crate) fn next(&self, now: Instant, is_asked_for: impl Fn(usize) -> bool) -> Option<usize> {
        let pace = self.mean_pace();
        let none_works = self.each.iter().all(|device| device.rest.is_some());
        let candidates = self.each.iter().enumerate().filter(|(index, device)| {
            let may = match device.rest {
                None => device.in_flight < device.depth,
                Some(_) if none_works => device.in_flight < device.depth,
                Some(rest) => device.in_flight == 0 && (now >= rest.until || is_asked_for(*index)),
            };
            may && device.given_up == 0 && !device.is_passed
        });
        let key = |device: &Device| {
            #[expect(clippy::cast_precision_loss, reason = "tokens of a few batches")]
            let tokens = (device.outstanding + device.tokens) as f64;
            (device.rest.is_none(), tokens * device.pace().unwrap_or(pace))
        };
        // Of equals the first, so that a device alone at work keeps its caches.
        let best = candidates.min_by(|(_, one), (_, other)| {
            let (one, other) = (key(one), key(other));
            one.0.cmp(&other.0).then(one.1.total_cmp(&other.1))
        });
        best.map(|(index, _)| index)
    }

    /// There is nothing for this device in this pass.
    pub(crate) fn pass(&mut self, device: usize) {
        self.each[device].is_passed = true;
    }

    /// What the device's next batch may hold.
    pub(crate) fn budget(&self, device: usize) -> Budget {
        Budget { tokens: self.each[device].tokens, rows: self.each[device].wanted.rows }
    }

    /// Whether all devices that work are among these.
    pub(crate) fn covers_healthy(&self, tried: &[usize]) -> bool {
        self.each.iter().enumerate().all(|(index, device)| device.rest.is_some() || tried.contains(&index))
    }

    /// A batch was given to the device. Whether it is its trial.
    pub(crate) fn submitted(&mut self, device: usize, tokens: usize) -> bool {
        let it = &mut self.each[device];
        it.in_flight += 1;
        it.outstanding += tokens;
        self.board.outstanding(device, it.outstanding);
        it.rest.is_some()
    }

    /// The batch is no longer on the device, whatever came of it.
    pub(crate) fn ended(&mut self, device: usize, tokens: usize) {
        let it = &mut self.each[device];
        it.in_flight -= 1;
        it.outstanding -= tokens;
        self.board.outstanding(device, it.outstanding);
    }

    /// The batch came back.
    pub(crate) fn succeeded(&mut self, device: usize, tokens: usize, since: Instant, is_trial: bool, now: Instant) {
        let it = &mut self.each[device];
        let took = it.busy_with(since, now).as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "tokens of a batch")]
        let count = tokens as f64;
        it.spent = it.spent * MEMORY_OF_PACE + took;
        it.done = it.done * MEMORY_OF_PACE + count;
        it.finished = Some(now);
        self.board.finished(device, tokens);
        if is_trial && it.rest.take().is_some() {
            self.board.rests(device, false);
        }
        if it.tokens < it.wanted.tokens {
            it.well += 1;
            if it.well >= it.patience {
                it.well = 0;
                it.tokens = it.tokens.saturating_mul(2).min(it.wanted.tokens);
                self.board.bounds(device, it.depth, it.tokens);
            }
        }
    }

    /// A batch of so many tokens found no memory.
    pub(crate) fn on_out_of_memory(&mut self, device: usize, tokens: usize, error: &Error) {
        let it = &mut self.each[device];
        // Of several such batches in flight each was as large as the first: that is one reason to halve, not several.
        it.tokens = it.tokens.min(tokens / 2).max(1);
        it.well = 0;
        it.patience = it.patience.saturating_mul(2).min(LONGEST_PATIENCE);
        self.board.bounds(device, it.depth, it.tokens);
        self.board.failed(device, true, error.message());
    }

    /// A batch failed. Where the device has to rest for it, it does from now on.
    pub(crate) fn failed(&mut self, device: usize, error: &Error, rests: bool, now: Instant) {
        self.board.failed(device, error.kind() == ErrorKind::OutOfMemory, error.message());
        let it = &mut self.each[device];
        if !rests {
            return;
        }
        let length = match it.rest {
            // What was submitted before it began to rest says nothing new.
            Some(rest) if now < rest.until => return,
            Some(rest) => rest.length.saturating_mul(2).min(LONGEST_REST),
            None => FIRST_REST,
        };
        it.rest = Some(Rest { until: now + length, length });
        self.board.rests(device, true);
    }

    /// Whether the device has finished nothing for so long, though it had something since then, and another one works.
    pub(crate) fn hangs(&self, device: usize, since: Instant, patience: Duration, now: Instant) -> bool {
        let another_works = || self.each.iter().enumerate().any(|(index, it)| index != device && it.rest.is_none());
        self.each[device].busy_with(since, now) >= patience && another_works()
    }

    /// How long a device has been busy with its oldest batch, which it was given then, and how long that is expected to take;
    /// no time at all where nothing is known.
    pub(crate) fn progress(&self, device: usize, since: Instant, tokens: usize, now: Instant) -> (Duration, Duration) {
        let it = &self.each[device];
        #[expect(clippy::cast_precision_loss, reason = "tokens of a batch")]
        let seconds = it.pace().unwrap_or(0.0) * tokens as f64;
        (it.busy_with(since, now), Duration::try_from_secs_f64(seconds).unwrap_or_default())
    }

    /// A batch that the device still has is nobody's any more.
    pub(crate) fn gave_up(&mut self, device: usize, error: &Error, now: Instant) {
        self.failed(device, error, true, now);
        self.each[device].given_up += 1;
    }

    /// A batch that was given up is no longer on the device, and went well or not.
    pub(crate) fn on_late_completion(&mut self, device: usize, went_well: bool, now: Instant) {
        let it = &mut self.each[device];
        it.given_up -= 1;
        it.finished = Some(now);
        if went_well && it.given_up == 0 && it.rest.take().is_some() {
            self.board.rests(device, false);
        }
    }

    /// The rows for which the device rests fail elsewhere too. One that failed its trial goes on resting: that proved nothing.
    pub(crate) fn clear_failure(&mut self, device: usize) {
        let it = &mut self.each[device];
        if it.given_up == 0 && it.rest.is_some_and(|rest| rest.length == FIRST_REST) {
            it.rest = None;
            self.board.rests(device, false);
        }
    }

    /// Seconds a token, over all devices of which it is known.
    fn mean_pace(&self) -> f64 {
        let (spent, done) = self.each.iter().fold((0.0, 0.0), |sum, it| (sum.0 + it.spent, sum.1 + it.done));
        if done > 0.0 { spent / done } else { 1.0 }
    }
}

impl Device {
    /// For how long it has had nothing else to do than a batch that it was given then: batches wait behind one another on a
    /// device, and one begins when the one before it is done.
    fn busy_with(&self, since: Instant, now: Instant) -> Duration {
        now.saturating_duration_since(self.finished.map_or(since, |finished| finished.max(since)))
    }

    /// Seconds a token, where it is known.
    fn pace(&self) -> Option<f64> {
        (self.done > 0.0).then(|| self.spent / self.done)
    }
}

#[cfg(test)]
mod tests;
