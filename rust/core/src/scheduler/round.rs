//! A round of the scheduler: takes new jobs in, gives the devices batches, and collects what is finished.

mod looking;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::pending::Reply;
use super::{Inbox, Telemetry, closed, wait};
use crate::encoder::{Batch, BatchRunner, BatchTimes, Batching, Encoder, EncoderSpec, Ticket};
use crate::error::{Error, ErrorKind, Result};
use crate::runtime::profiling::{BatchSpan, Profiler, Stage};
use crate::scheduler::batches::{Batches, Job, QueryOffsets, RowTarget, Written, check_values};
use crate::scheduler::devices::Devices;

/// The longest sleep: an idle scheduler looks around once a minute, a busy one often enough to feel a stopped call.
const IDLE: Duration = Duration::from_secs(60);
const BUSY: Duration = Duration::from_millis(50);

/// A list of targets begins with a place for each token of a device's batch, since a row has at least one, so that it need
/// not grow. For what a device may call its batch there is no bound, so there is one here: 1.5 MiB.
const MOST_PLACES: usize = 1 << 16;

/// A batch on a device.
struct InFlight {
    ticket: Ticket,
    sent: SubmittedBatch,
    /// When it was handed to the encoder.
    since: Instant,
    /// What that took.
    submitting: Duration,
    /// No other batch in flight on its device has this number; 0 for all where nobody wants a trace.
    lane: usize,
    /// Whether it shows that the device works again.
    is_trial: bool,
    /// Whether others compute its rows, because this device does not finish it.
    is_given_up: bool,
}

/// Rows of a batch that was given to a device.
struct SubmittedBatch {
    places: RowDestinations,
    /// The sum of their ids.
    tokens: usize,
    /// Devices that failed on them before.
    tried: Vec<usize>,
}

/// Where what comes back of a batch belongs.
#[derive(Default)]
struct RowDestinations {
    targets: Vec<RowTarget>,
    columns: QueryOffsets,
}

/// The scheduler's thread: everything it owns.
pub(super) struct Round {
    encoder: Box<dyn Encoder>,
    spec: EncoderSpec,
    /// Computes a batch on the thread that calls it, where batches are not computed by themselves.
    batch_runner: Option<BatchRunner>,
    /// Batches that there may be in flight: as many as there are threads to compute them, where they are lent.
    most: usize,
    /// Batches submitted of which nobody has been told, where there is a helper.
    fresh: usize,
    batching: Batching,
    devices: Devices,
    stages: Arc<Profiler>,
    /// How much longer rows are held back for others, where some are.
    held: Option<Duration>,
    /// How long to sleep before batches are looked at again, where nobody says that they are finished.
    look: Option<Duration>,
    inbox: Arc<Inbox>,
    batches: Batches<Reply>,
    /// For each device what was submitted to it, the oldest first.
    in_flight: Vec<VecDeque<InFlight>>,
    /// Where each batch is written until its encoder has read it; grows to the largest batch of a device.
    batch: Batch,
    /// Places that are not in flight. There are never more in all than batches fit the devices, and one.
    spare: Vec<RowDestinations>,
}

impl Round {
    pub(super) fn new(
        mut encoder: Box<dyn Encoder>,
        batching: Batching,
        watched: Telemetry,
        inbox: Arc<Inbox>,
    ) -> Self {
        let Telemetry { board, stages } = watched;
        if stages.synchronizes() {
            encoder.profile(true);
        }
        let spec = encoder.spec().clone();
        let devices = Devices::new(&spec, batching, board);
        let in_flight = spec.devices.iter().map(|_| VecDeque::new()).collect();
        let (batch, spare) = (Batch::default(), Vec::new());
        let (batches, batch_runner) = (Batches::new(encoder.gives()), encoder.batch_runner());
        Self {
            encoder,
            spec,
            batch_runner,
            most: usize::MAX,
            fresh: 0,
            batching,
            devices,
            stages,
            held: None,
            look: None,
            inbox,
            batches,
            in_flight,
            batch,
            spare,
        }
    }

    /// What those who wait for vectors may compute batches with.
    pub(super) fn batch_runner(&self) -> Option<BatchRunner> {
        self.batch_runner.clone()
    }

    /// What a scheduler's thread does all its life. Where there is nobody else to lend the encoder a thread, it does.
    pub(super) fn run(mut self) {
        while self.once(IDLE) {
            if self.batch_runner.as_ref().is_some_and(|help| help()) {
                self.inbox.lock().woken = true;
            }
        }
    }

    /// One round: waits until there is something to do, no longer than this; takes new jobs in, submits and collects. False when
    /// the end has come.
    pub(super) fn once(&mut self, longest: Duration) -> bool {
        if !self.take_in(longest) {
            return false;
        }
        for (job, error) in self.batches.take_unwanted() {
            self.end(job, Err(error));
        }
        let began = Instant::now();
        self.submit_pass();
        self.offer();
        let submitted = Instant::now();
        self.collect_pass();
        self.give_up_pass();
        self.look_ahead();
        self.stages.conducted("submit", began, submitted);
        self.stages.conducted("collect", submitted, Instant::now());
        true
    }

    /// Waits until there is something to do, and takes new jobs in; false when the end has come.
    fn take_in(&mut self, longest: Duration) -> bool {
        let mut state = self.inbox.lock();
        if !longest.is_zero() && state.arrived.is_empty() && !state.woken && !state.closed {
            let busy = !self.batches.is_empty() || self.flying() > 0;
            let bounds = [self.held, self.look, busy.then_some(BUSY)];
            let longest = bounds.into_iter().flatten().fold(longest, Duration::min);
            state = wait(&self.inbox.changed, state, longest);
        }
        state.woken = false;
        if state.closed {
            return false;
        }
        // A device that computes by itself is not kept waiting for somebody to lend it a thread.
        self.most = if self.batch_runner.is_some() && self.spec.notifies { state.attending.max(1) } else { usize::MAX };
        let arrived = std::mem::take(&mut state.arrived);
        drop(state);
        for job in arrived {
            if let Some(empty) = self.batches.push(job) {
                self.end_well(empty);
            }
        }
        true
    }

    /// Tells those who wait of batches that they may compute.
    fn offer(&mut self) {
        if self.fresh == 0 {
            return;
        }
        let mut state = self.inbox.lock();
        state.offered += std::mem::take(&mut self.fresh);
        // Whoever runs this round takes one itself when it is over, unless it waits for a device in it.
        if !self.spec.computes_alone() {
            state.pass_on();
        }
    }

    /// Says when the next round is due though nothing happens.
    fn look_ahead(&mut self) {
        let in_flight = self.flying() > 0;
        let mut state = self.inbox.lock();
        self.look = self.next_look();
        let soonest = [self.held, self.look].into_iter().flatten().min();
        state.look.by = soonest.map(|soonest| Instant::now() + soonest);
        // An encoder that neither wakes nor can be looked at is waited for in `collect`.
        let waits = in_flight || (!self.batches.is_empty() && self.held.is_none());
        state.woken |= !self.spec.computes_alone() && waits;
    }

    /// How many batches are in flight.
    fn flying(&self) -> usize {
        self.in_flight.iter().map(VecDeque::len).sum()
    }

    /// First pass: gives the devices one batch after the other, whoever would be done first the next, until none has room or
    /// nothing waits. Nothing here waits for a device.
    fn submit_pass(&mut self) {
        self.held = None;
        let now = Instant::now();
        self.devices.begin_pass();
        while self.flying() < self.most {
            let Self { batches, devices, .. } = self;
            let is_asked_for = |device| batches.ask_for(device, |tried| devices.covers_healthy(tried));
            let Some(device) = devices.next(now, is_asked_for) else { return };
            let budget = devices.budget(device);
            self.held = batches.hold(budget, self.batching.timeout);
            if self.held.is_some() {
                return;
            }
            let mut places =
                self.spare.pop().unwrap_or_else(|| RowDestinations::with_room(budget.tokens.min(MOST_PLACES)));
            let Some(tried) = batches.next_batch(device, budget, &mut self.batch, &mut places.targets) else {
                self.spare.push(places);
                devices.pass(device);
                continue;
            };
            if self.spec.scores {
                // More scores than half a vector has values are no gain.
                batches.ask(&places.targets, self.spec.dimension / 2, &mut self.batch, &mut places.columns);
            }
            self.submit(device, SubmittedBatch { places, tokens: self.batch.ids.len(), tried });
        }
    }

    fn submit(&mut self, device: usize, sent: SubmittedBatch) {
        let is_trial = self.devices.submitted(device, sent.tokens);
        let (queued, jobs) = self.batches.take_queued();
        self.stages.add(Stage::Queue, queued, jobs);
        let since = Instant::now();
        match self.encoder.submit(device, &self.batch) {
            Ok(ticket) => {
                let (submitting, lane) = (since.elapsed(), self.free_lane(device));
                self.fresh += usize::from(self.batch_runner.is_some());
                let flight = InFlight { ticket, sent, since, submitting, lane, is_trial, is_given_up: false };
                self.in_flight[device].push_back(flight);
            }
            Err(error) => {
                self.devices.ended(device, sent.tokens);
                self.fail(device, sent, &error);
            }
        }
    }

    /// The lowest number that no batch of the device has.
    fn free_lane(&self, device: usize) -> usize {
        let batches = &self.in_flight[device];
        let is_free = |lane: &usize| batches.iter().all(|batch| batch.lane != *lane);
        if self.stages.has_trace() { (0..=batches.len()).find(is_free).unwrap_or(0) } else { 0 }
    }

    /// Second pass: walks the devices again and writes what is finished into the callers' memory.
    fn collect_pass(&mut self) {
        let mut collected = false;
        for device in 0..self.in_flight.len() {
            let mut place = 0;
            while place < self.in_flight[device].len() {
                let ticket = self.in_flight[device][place].ticket;
                if self.encoder.is_finished(ticket) {
                    self.collect(device, place);
                    collected = true;
                } else {
                    place += 1;
                }
            }
        }
        if !collected && !self.spec.computes_alone() {
            let oldest = (0..self.in_flight.len())
                .filter_map(|device| self.in_flight[device].front().map(|batch| (batch.since, device)))
                .min();
            if let Some((_, device)) = oldest {
                self.collect(device, 0);
            }
        }
        if collected {
            // There may be room for more on a device.
            self.inbox.lock().woken = true;
        }
    }

    fn collect(&mut self, device: usize, place: usize) {
        let Some(flight) = self.in_flight[device].remove(place) else { return };
        let InFlight { ticket, sent, since, submitting, lane, is_trial, is_given_up } = flight;
        if is_given_up {
            return self.collect_late(device, ticket, sent.tokens);
        }
        let asked = Instant::now();
        let mut poisoned: Vec<(RowTarget, Error)> = Vec::new();
        let RowDestinations { targets, columns } = &sent.places;
        let collected = if self.encoder.gives() && self.batches.are_a_job(targets) {
            self.take(ticket, targets, &mut poisoned)
        } else {
            let batches = &mut self.batches;
            self.encoder.collect(ticket, &mut |row, values| match check_values(values) {
                Ok(()) => batches.write(targets[row], values, columns),
                Err(error) => poisoned.push((targets[row], error)),
            })
        };
        self.devices.ended(device, sent.tokens);
        match collected {
            Ok(()) => {
                let now = Instant::now();
                self.devices.succeeded(device, sent.tokens, since, is_trial, now);
                let span = BatchSpan { device, lane, since, rows: targets.len(), tokens: sent.tokens };
                let times = self.encoder.times().unwrap_or_else(|| {
                    // What can be seen from here: whoever does not wake computes until it is collected.
                    let collecting = now.saturating_duration_since(asked);
                    let alone = self.spec.computes_alone();
                    let (copied_out, end) = if alone { (collecting, asked) } else { (Duration::ZERO, now) };
                    let computed = end.saturating_duration_since(since).saturating_sub(submitting);
                    let [copied_in, computed, copied_out] = [submitting, computed, copied_out].map(BatchTimes::of);
                    BatchTimes { copied_in, waited: 0, computed, copied_out }
                });
                self.stages.batch(span, times, now);
                self.end_finished(targets, poisoned);
                self.spare.push(sent.places);
            }
            Err(error) => self.fail(device, sent, &error),
        }
    }

    /// Makes the encoder's memory that of the job whose rows these all are. The plain way writes them one by one.
    fn take(&mut self, ticket: Ticket, targets: &[RowTarget], poisoned: &mut Vec<(RowTarget, Error)>) -> Result<()> {
        let vectors = self.encoder.take(ticket)?;
        let dimension = self.spec.dimension;
        if vectors.len() != targets.len() * dimension {
            let message =
                format!("the encoder gave {} values for {} rows of {dimension}", vectors.len(), targets.len());
            return Err(Error::new(ErrorKind::Encoder, message));
        }
        for (target, values) in targets.iter().zip(vectors.chunks_exact(dimension)) {
            if let Err(error) = check_values(values) {
                poisoned.push((*target, error));
            }
        }
        if poisoned.is_empty() {
            self.batches.give(targets[0].job, vectors);
        }
        Ok(())
    }

    /// Ends the jobs of these rows that are complete, or whose rows cannot be used.
    fn end_finished(&mut self, targets: &[RowTarget], poisoned: Vec<(RowTarget, Error)>) {
        for (target, error) in poisoned {
            if let Some(job) = self.batches.remove(target.job) {
                self.end(job, Err(error));
            }
        }
        for job in self.batches.take_complete(targets) {
            self.end_well(job);
        }
    }

    /// A batch failed. Its rows are tried again where that can help; else their jobs end, or each is tried by itself.
    fn fail(&mut self, device: usize, sent: SubmittedBatch, error: &Error) {
        let SubmittedBatch { places, tokens, mut tried } = sent;
        let targets = &places.targets;
        if error.kind() == ErrorKind::OutOfMemory && targets.len() > 1 {
            self.devices.on_out_of_memory(device, tokens, error);
            self.batches.try_again(targets, tried);
            self.spare.push(places);
            return;
        }
        tried.push(device);
        // A device that is broken says nothing of the rows, however many are. Else two that fail are enough to blame them.
        let may_be_tried = error.kind() != ErrorKind::Encoder || tried.len() < 2;
        if may_be_tried && tried.len() < self.devices.len() {
            self.devices.failed(device, error, error.kind() != ErrorKind::OutOfMemory, Instant::now());
            self.batches.try_again(targets, tried);
        } else {
            self.devices.failed(device, error, error.kind() == ErrorKind::Device, Instant::now());
            if error.kind() == ErrorKind::Encoder {
                for device in tried {
                    self.devices.clear_failure(device);
                }
            }
            if let Some(job) = self.batches.batch_failed(targets) {
                self.end(job, Err(error.clone()));
            }
        }
        self.spare.push(places);
    }

    fn end_well(&mut self, mut job: Job<Reply>) {
        let vectors = std::mem::take(&mut job.vectors);
        self.end(job, Ok(vectors));
    }

    fn end(&mut self, job: Job<Reply>, outcome: Result<Written>) {
        self.inbox.lock().unfinished -= 1;
        self.inbox.changed.notify_all();
        // The ids go before the caller hears of the end, so that memory does not depend on who is faster.
        let reply = job.done.clone();
        drop(job);
        reply.write(outcome);
    }
}

impl RowDestinations {
    /// For so many rows.
    fn with_room(rows: usize) -> Self {
        Self { targets: Vec::with_capacity(rows), columns: QueryOffsets::default() }
    }
}

impl Drop for Round {
    /// Also runs when the scheduler panics: no caller is left waiting.
    fn drop(&mut self) {
        self.inbox.close();
        let arrived = std::mem::take(&mut self.inbox.lock().arrived);
        for job in self.batches.drain().into_iter().chain(arrived) {
            job.done.write(Err(closed()));
        }
    }
}
