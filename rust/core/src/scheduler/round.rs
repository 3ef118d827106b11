//! One round of the scheduler: accepts new jobs, submits batches to devices, and collects finished ones.

mod failed_batches;
mod polling;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::pending::Reply;
use super::{Inbox, Telemetry, closed, wait};
use crate::encoder::{Batch, BatchTimes, Batching, Collected, Encoder, EncoderSpec, Ticket};
use crate::error::{Error, ErrorKind, Result};
use crate::runtime::profiling::{Profiler, Stage};
use crate::scheduler::batches::{BatchRows, Batches, Job, RowTarget};
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
    rows: BatchRows,
    /// Token ids of all rows.
    tokens: usize,
    /// Devices that failed on these rows before.
    failed_devices: Vec<usize>,
}

/// All that the thread of the scheduler, or the host that steps it, owns.
pub(super) struct Round {
    encoder: Box<dyn Encoder>,
    spec: EncoderSpec,
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
    spare: Vec<BatchRows>,
}

impl Round {
    pub(super) fn new(encoder: Box<dyn Encoder>, batching: Batching, telemetry: Telemetry, inbox: Arc<Inbox>) -> Self {
        let Telemetry { device_stats, profiler } = telemetry;
        let spec = encoder.spec().clone();
        let devices = Devices::new(&spec, batching, device_stats);
        let in_flight = spec.devices.iter().map(|_| VecDeque::new()).collect();
        let (batch, spare) = (Batch::default(), Vec::new());
        let batches = Batches::new(spec.capabilities.owned_rows);
        Self {
            encoder,
            spec,
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

    /// The main loop of the scheduler's thread.
    pub(super) fn run(mut self) {
        while self.once(IDLE_WAIT) {}
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
        self.collect_pass();
        self.abandon_pass();
        self.poll_after = self.next_poll();
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
        let arrived = std::mem::take(&mut state.arrived);
        drop(state);
        for job in arrived {
            if let Some(empty) = self.batches.push(job) {
                self.succeed(empty);
            }
        }
        true
    }

    fn batches_in_flight(&self) -> usize {
        self.in_flight.iter().map(VecDeque::len).sum()
    }

    /// First pass: submits batches until no device has room or no rows wait. Nothing here waits for a device.
    fn submit_pass(&mut self) {
        self.batch_delay = None;
        // With more queries than this, cosines save too little over the vector.
        let max_queries = if self.spec.capabilities.cosines { self.spec.dimension / 2 } else { 0 };
        let now = Instant::now();
        self.devices.begin_pass();
        loop {
            let Self { batches, devices, .. } = self;
            let is_needed = |device| batches.needs_device(device, |failed| devices.covers_healthy(failed));
            let Some(device) = devices.next(now, is_needed) else { return };
            let budget = devices.budget(device);
            self.batch_delay = batches.batch_delay(budget, self.batching.timeout);
            if self.batch_delay.is_some() {
                return;
            }
            let reserved = budget.tokens.min(MAX_RESERVED_ROWS);
            let new = || BatchRows { targets: Vec::with_capacity(reserved), ..BatchRows::default() };
            let mut rows = self.spare.pop().unwrap_or_else(new);
            let (in_flight, workers) = (self.in_flight[device].len(), self.spec.devices[device].workers);
            let budget = batches.even_budget(budget, in_flight, workers);
            let next = batches.next_batch(device, budget, max_queries, &mut self.batch, &mut rows);
            let Some(failed_devices) = next else {
                self.spare.push(rows);
                devices.skip(device);
                continue;
            };
            self.submit(device, SubmittedBatch { rows, tokens: self.batch.ids.len(), failed_devices });
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
        let Self { encoder, batches, spec, .. } = self;
        let mut received = None;
        let collected =
            encoder.collect(ticket, &mut |values| received = Some(batches.receive(&batch.rows, spec, values)));
        let collected = collected.and_then(|collected| Ok((collected, received.unwrap_or_else(no_values)?)));
        self.devices.on_ended(device, batch.tokens);
        match collected {
            Ok((Collected { times, graphs }, invalid)) => {
                let now = Instant::now();
                self.devices.on_success(device, batch.tokens, since, is_probe, now);
                self.devices.on_graphs(device, graphs);
                let is_measured = times != BatchTimes::default();
                let times = if is_measured { times } else { outside_times(since, submitting, collect_began, now) };
                self.profiler.record_batch(times);
                self.finish_jobs(&batch.rows.targets, invalid);
                self.spare.push(batch.rows);
            }
            Err(error) => self.fail(device, batch, &error),
        }
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
        let values = std::mem::take(&mut job.values);
        self.finish(job, Ok(values));
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

/// An estimate for an encoder that measures nothing.
fn outside_times(since: Instant, submitting: Duration, collect_began: Instant, now: Instant) -> BatchTimes {
    let computed = collect_began.saturating_duration_since(since).saturating_sub(submitting);
    let copied_out = now.saturating_duration_since(collect_began);
    let [copied_in, computed, copied_out] = [submitting, computed, copied_out].map(BatchTimes::of);
    BatchTimes { copied_in, computed, copied_out, ..BatchTimes::default() }
}

fn no_values<T>() -> Result<T> {
    Err(Error::new(ErrorKind::Encoder, "the encoder gave no values for a batch"))
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
