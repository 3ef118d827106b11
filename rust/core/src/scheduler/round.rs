//! One round of the scheduler: accepts new jobs, submits batches to devices, and collects finished ones.

mod failed_batches;
mod polling;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::pending::Reply;
use super::{Inbox, Telemetry, closed, wait};
use crate::encoder::{Batch, BatchRunner, BatchTimes, Batching, Encoder, EncoderSpec, Ticket};
use crate::error::{Error, ErrorKind, Result};
use crate::runtime::profiling::{Profiler, Stage};
use crate::scheduler::batches::{Batches, Job, QueryOffsets, RowTarget, check_values};
use crate::scheduler::devices::Devices;

/// The longest sleep of an idle scheduler, and of a busy one, which must notice stopped calls.
const IDLE_WAIT: Duration = Duration::from_secs(60);
const BUSY_WAIT: Duration = Duration::from_millis(50);

/// A new list of row targets reserves one entry for each token of a device's batch, the most rows it can hold, so that
/// it need not grow. `batch_tokens` has no upper bound, so this caps the reservation at 1.5 MiB.
const MAX_RESERVED_ROWS: usize = 1 << 16;

struct InFlightBatch {
    ticket: Ticket,
    batch: SubmittedBatch,
    /// When the encoder received it, and how long `submit` took.
    since: Instant,
    submitting: Duration,
    /// Whether its success ends the device's backoff.
    is_probe: bool,
    /// Whether the device stalled and others compute its rows.
    is_abandoned: bool,
}

/// A batch that an encoder has accepted.
struct SubmittedBatch {
    destinations: RowDestinations,
    /// Token ids of all rows.
    tokens: usize,
    /// Devices that failed on these rows before.
    failed_devices: Vec<usize>,
}

/// Where the values of each row belong.
#[derive(Default)]
struct RowDestinations {
    targets: Vec<RowTarget>,
    offsets: QueryOffsets,
}

/// All that the scheduler's thread owns.
pub(super) struct Round {
    encoder: Box<dyn Encoder>,
    spec: EncoderSpec,
    /// Computes a batch on the calling thread; `None` if the encoder needs no threads of others.
    batch_runner: Option<BatchRunner>,
    /// The most batches in flight: with a runner, the number of threads that compute them.
    max_in_flight: usize,
    /// Submitted batches not yet added to `InboxState::unclaimed_batches`.
    unannounced: usize,
    batching: Batching,
    devices: Devices,
    profiler: Arc<Profiler>,
    /// How much longer rows wait for a fuller batch.
    batch_delay: Option<Duration>,
    /// When to poll batches whose devices cannot notify.
    poll_after: Option<Duration>,
    inbox: Arc<Inbox>,
    batches: Batches<Reply>,
    /// For each device, the oldest batch first.
    in_flight: Vec<VecDeque<InFlightBatch>>,
    /// Reused for each batch; grows to the largest.
    batch: Batch,
    /// Reused target lists. There is one more than batches in flight.
    spare: Vec<RowDestinations>,
}

impl Round {
    pub(super) fn new(
        mut encoder: Box<dyn Encoder>,
        batching: Batching,
        telemetry: Telemetry,
        inbox: Arc<Inbox>,
    ) -> Self {
        let Telemetry { device_stats, profiler } = telemetry;
        if profiler.synchronizes() {
            encoder.profile(true);
        }
        let spec = encoder.spec().clone();
        let devices = Devices::new(&spec, batching, device_stats);
        let in_flight = spec.devices.iter().map(|_| VecDeque::new()).collect();
        let (batch, spare) = (Batch::default(), Vec::new());
        let (batches, batch_runner) = (Batches::new(encoder.returns_owned_rows()), encoder.batch_runner());
        Self {
            encoder,
            spec,
            batch_runner,
            max_in_flight: usize::MAX,
            unannounced: 0,
            batching,
            devices,
            profiler,
            batch_delay: None,
            poll_after: None,
            inbox,
            batches,
            in_flight,
            batch,
            spare,
        }
    }

    /// Lets waiting callers compute batches.
    pub(super) fn batch_runner(&self) -> Option<BatchRunner> {
        self.batch_runner.clone()
    }

    /// The main loop of the scheduler's thread. If the encoder has a runner, this thread also computes batches.
    pub(super) fn run(mut self) {
        while self.once(IDLE_WAIT) {
            if self.batch_runner.as_ref().is_some_and(|run| run()) {
                self.inbox.lock().woken = true;
            }
        }
    }

    /// Waits at most `timeout` for an event; then accepts jobs, submits and collects. Returns false once the scheduler
    /// is closed.
    pub(super) fn once(&mut self, timeout: Duration) -> bool {
        if !self.accept_jobs(timeout) {
            return false;
        }
        for (job, error) in self.batches.take_cancelled() {
            self.finish(job, Err(error));
        }
        self.submit_pass();
        self.announce_batches();
        self.collect_pass();
        self.abandon_pass();
        self.plan_next_round();
        true
    }

    /// Waits at most `timeout` for an event, and accepts new jobs. Returns false once the scheduler is closed.
    fn accept_jobs(&mut self, timeout: Duration) -> bool {
        let mut state = self.inbox.lock();
        if !timeout.is_zero() && state.arrived.is_empty() && !state.woken && !state.closed {
            let busy = !self.batches.is_empty() || self.batches_in_flight() > 0;
            let limits = [self.batch_delay, self.poll_after, busy.then_some(BUSY_WAIT)];
            let timeout = limits.into_iter().flatten().fold(timeout, Duration::min);
            state = wait(&self.inbox.changed, state, timeout);
        }
        state.woken = false;
        if state.closed {
            return false;
        }
        // Without `notifies`, some devices compute by themselves; those must not wait for callers' threads.
        let is_limited = self.batch_runner.is_some() && self.spec.notifies;
        self.max_in_flight = if is_limited { state.waiting_callers.max(1) } else { usize::MAX };
        let arrived = std::mem::take(&mut state.arrived);
        drop(state);
        for job in arrived {
            if let Some(empty) = self.batches.push(job) {
                self.succeed(empty);
            }
        }
        true
    }

    /// Lets waiting callers claim the batches that this round submitted.
    fn announce_batches(&mut self) {
        if self.unannounced == 0 {
            return;
        }
        let mut state = self.inbox.lock();
        state.unclaimed_batches += std::mem::take(&mut self.unannounced);
        // The caller that runs this round claims one itself afterwards, unless the round blocks in `collect`.
        if !self.spec.computes_alone() {
            state.wake_for_work();
        }
    }

    /// Sets when the next round is due if no event arrives.
    fn plan_next_round(&mut self) {
        let in_flight = self.batches_in_flight() > 0;
        let mut state = self.inbox.lock();
        self.poll_after = self.next_poll();
        let soonest = [self.batch_delay, self.poll_after].into_iter().flatten().min();
        state.next_poll.deadline = soonest.map(|soonest| Instant::now() + soonest);
        // With an encoder that neither notifies nor is polled, the thread waits in `collect`.
        let waits = in_flight || (!self.batches.is_empty() && self.batch_delay.is_none());
        state.woken |= !self.spec.computes_alone() && waits;
    }

    fn batches_in_flight(&self) -> usize {
        self.in_flight.iter().map(VecDeque::len).sum()
    }

    /// First pass: submits batches until no device has room or no rows wait. Nothing here waits for a device.
    fn submit_pass(&mut self) {
        self.batch_delay = None;
        let now = Instant::now();
        self.devices.begin_pass();
        while self.batches_in_flight() < self.max_in_flight {
            let Self { batches, devices, .. } = self;
            let is_needed = |device| batches.needs_device(device, |failed| devices.covers_healthy(failed));
            let Some(device) = devices.next(now, is_needed) else { return };
            let budget = devices.budget(device);
            self.batch_delay = batches.batch_delay(budget, self.batching.timeout);
            if self.batch_delay.is_some() {
                return;
            }
            let mut destinations = self
                .spare
                .pop()
                .unwrap_or_else(|| RowDestinations::with_capacity(budget.tokens.min(MAX_RESERVED_ROWS)));
            let targets = &mut destinations.targets;
            let (in_flight, workers) = (self.in_flight[device].len(), self.spec.devices[device].workers);
            let budget = batches.even_budget(budget, in_flight, workers);
            let Some(failed_devices) = batches.next_batch(device, budget, &mut self.batch, targets) else {
                self.spare.push(destinations);
                devices.skip(device);
                continue;
            };
            if self.spec.scores {
                // With more queries than this, cosines save too little over the vector.
                let max_queries = self.spec.dimension / 2;
                batches.add_queries(targets, max_queries, &mut self.batch, &mut destinations.offsets);
            }
            self.submit(device, SubmittedBatch { destinations, tokens: self.batch.ids.len(), failed_devices });
        }
    }

    fn submit(&mut self, device: usize, batch: SubmittedBatch) {
        let is_probe = self.devices.on_submitted(device, batch.tokens);
        let (queued, jobs) = self.batches.take_queue_time();
        self.profiler.add(Stage::Queue, queued, jobs);
        let since = Instant::now();
        match self.encoder.submit(device, &self.batch) {
            Ok(ticket) => {
                let submitting = since.elapsed();
                self.unannounced += usize::from(self.batch_runner.is_some());
                let flight = InFlightBatch { ticket, batch, since, submitting, is_probe, is_abandoned: false };
                self.in_flight[device].push_back(flight);
            }
            Err(error) => {
                self.devices.on_ended(device, batch.tokens);
                self.fail(device, batch, &error);
            }
        }
    }

    /// Second pass: writes the rows of finished batches into the callers' memory.
    fn collect_pass(&mut self) {
        let mut collected = false;
        for device in 0..self.in_flight.len() {
            let mut index = 0;
            while index < self.in_flight[device].len() {
                let ticket = self.in_flight[device][index].ticket;
                if self.encoder.is_finished(ticket) {
                    self.collect(device, index);
                    collected = true;
                } else {
                    index += 1;
                }
            }
        }
        if !collected && !self.spec.computes_alone() {
            let oldest = (0..self.in_flight.len())
                .filter_map(|device| self.in_flight[device].front().map(|flight| (flight.since, device)))
                .min();
            if let Some((_, device)) = oldest {
                self.collect(device, 0);
            }
        }
        if collected {
            // The device may have room for another batch.
            self.inbox.lock().woken = true;
        }
    }

    fn collect(&mut self, device: usize, index: usize) {
        let Some(flight) = self.in_flight[device].remove(index) else { return };
        let InFlightBatch { ticket, batch, since, submitting, is_probe, is_abandoned } = flight;
        if is_abandoned {
            return self.discard(device, ticket, batch.tokens);
        }
        let collect_began = Instant::now();
        let mut invalid: Vec<(RowTarget, Error)> = Vec::new();
        let RowDestinations { targets, offsets } = &batch.destinations;
        let collected = if self.encoder.returns_owned_rows() && self.batches.is_whole_job(targets) {
            self.collect_owned(ticket, targets, &mut invalid)
        } else {
            let batches = &mut self.batches;
            self.encoder.collect(ticket, &mut |row, values| match check_values(values) {
                Ok(()) => batches.write(targets[row], values, offsets),
                Err(error) => invalid.push((targets[row], error)),
            })
        };
        self.devices.on_ended(device, batch.tokens);
        match collected {
            Ok(()) => {
                let now = Instant::now();
                self.devices.on_success(device, batch.tokens, since, is_probe, now);
                self.devices.on_graphs(device, self.encoder.graphs(device));
                let times = self.encoder.times().unwrap_or_else(|| {
                    // An estimate from outside: an encoder that does not compute alone computes within `collect`.
                    let collecting = now.saturating_duration_since(collect_began);
                    let alone = self.spec.computes_alone();
                    let (copied_out, end) = if alone { (collecting, collect_began) } else { (Duration::ZERO, now) };
                    let computed = end.saturating_duration_since(since).saturating_sub(submitting);
                    let [copied_in, computed, copied_out] = [submitting, computed, copied_out].map(BatchTimes::of);
                    BatchTimes { copied_in, computed, copied_out, ..BatchTimes::default() }
                });
                self.profiler.record_batch(times);
                self.finish_jobs(targets, invalid);
                self.spare.push(batch.destinations);
            }
            Err(error) => self.fail(device, batch, &error),
        }
    }

    /// Hands the encoder's own memory to the job whose rows these all are, without a copy.
    fn collect_owned(
        &mut self,
        ticket: Ticket,
        targets: &[RowTarget],
        invalid: &mut Vec<(RowTarget, Error)>,
    ) -> Result<()> {
        let vectors = self.encoder.collect_owned(ticket)?;
        let dimension = self.spec.dimension;
        if vectors.len() != targets.len() * dimension {
            let message =
                format!("the encoder gave {} values for {} rows of {dimension}", vectors.len(), targets.len());
            return Err(Error::new(ErrorKind::Encoder, message));
        }
        for (target, values) in targets.iter().zip(vectors.chunks_exact(dimension)) {
            if let Err(error) = check_values(values) {
                invalid.push((*target, error));
            }
        }
        if invalid.is_empty() {
            self.batches.set_vectors(targets[0].job, vectors);
        }
        Ok(())
    }

    /// Finishes the jobs among these rows that are complete or have invalid values.
    fn finish_jobs(&mut self, targets: &[RowTarget], invalid: Vec<(RowTarget, Error)>) {
        for (target, error) in invalid {
            if let Some(job) = self.batches.remove(target.job) {
                self.finish(job, Err(error));
            }
        }
        for job in self.batches.take_complete(targets) {
            self.succeed(job);
        }
    }

    fn succeed(&mut self, mut job: Job<Reply>) {
        let vectors = std::mem::take(&mut job.vectors);
        self.finish(job, Ok(vectors));
    }

    fn finish(&mut self, job: Job<Reply>, outcome: Result<Vec<f32>>) {
        self.inbox.lock().unfinished -= 1;
        self.inbox.changed.notify_all();
        // Drop the job before replying, so that peak memory does not depend on a race with the caller.
        let reply = job.reply.clone();
        drop(job);
        reply.write(outcome);
    }
}

impl RowDestinations {
    fn with_capacity(rows: usize) -> Self {
        Self { targets: Vec::with_capacity(rows), offsets: QueryOffsets::default() }
    }
}

impl Drop for Round {
    /// Runs when the scheduler panics too, so that every caller gets a reply.
    fn drop(&mut self) {
        self.inbox.close();
        let arrived = std::mem::take(&mut self.inbox.lock().arrived);
        for job in self.batches.drain().into_iter().chain(arrived) {
            job.reply.write(Err(closed()));
        }
    }
}
