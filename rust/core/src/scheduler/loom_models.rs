//! loom models of callers, the scheduler and a device: every order of their threads within loom's preemption bound.
//!
//! Only the device is a fake. loom reports a lost wake-up as a thread that sleeps forever, and a deadlock as such.

use std::sync::PoisonError;

use super::*;
use crate::encoder::{Batch, BatchRunner, DeviceSpec, EncoderSpec, Ticket, Waker};
use crate::runtime::call::Stop;
use crate::tokens::TokenPage;

/// Explores every order with at most `preemptions` preemptions.
fn model(preemptions: usize, run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 10_000;
    builder.check(run);
}

/// Where a batch is computed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ComputedBy {
    /// The thread that calls `collect`.
    Collector,
    /// The device's own thread, which calls the waker.
    Device,
    /// Threads that call the [`BatchRunner`].
    Runners,
    /// Runners, or else the collector: a CPU next to a GPU.
    RunnersOrCollector,
}

/// Its vectors are the rows' first ids.
struct EchoEncoder {
    by: ComputedBy,
    spec: EncoderSpec,
    tickets: u64,
    device: Arc<EchoDevice>,
    worker: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct EchoDevice {
    state: Mutex<EchoState>,
    changed: Condvar,
}

#[derive(Default)]
struct EchoState {
    waiting: VecDeque<(Ticket, Batch)>,
    finished: Vec<(Ticket, Batch)>,
    /// Runners block until this number of batches was begun.
    barrier: usize,
    begun: usize,
    is_stopping: bool,
}

impl EchoEncoder {
    fn new(by: ComputedBy) -> Box<Self> {
        let has_runner = matches!(by, ComputedBy::Runners | ComputedBy::RunnersOrCollector);
        // Runners get one batch for each row, two at once.
        let (depth, batch_tokens) = if has_runner { (2, 1) } else { (1, 8) };
        let spec = EncoderSpec {
            notifies: matches!(by, ComputedBy::Device | ComputedBy::Runners),
            ..EncoderSpec::new("test", 1, 8, 100, vec![DeviceSpec::new("echo".to_owned(), depth, batch_tokens)])
        };
        Box::new(Self { by, spec, tickets: 0, device: Arc::default(), worker: None })
    }
}

impl EchoDevice {
    fn lock(&self) -> MutexGuard<'_, EchoState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn compute(&self) -> bool {
        let Some(batch) = self.lock().waiting.pop_front() else { return false };
        // Between the two locks is where a real device computes.
        let mut state = self.lock();
        state.begun += 1;
        self.changed.notify_all();
        while state.begun < state.barrier {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.finished.push(batch);
        self.changed.notify_all();
        true
    }

    fn work(&self, waker: &Waker) {
        loop {
            let mut state = self.lock();
            while state.waiting.is_empty() && !state.is_stopping {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.is_stopping {
                return;
            }
            let batch = state.waiting.pop_front();
            state.finished.extend(batch);
            drop(state);
            waker();
        }
    }
}

impl Encoder for EchoEncoder {
    fn spec(&self) -> &EncoderSpec {
        &self.spec
    }

    fn set_waker(&mut self, waker: Waker) {
        if self.by == ComputedBy::Device {
            let device = Arc::clone(&self.device);
            self.worker = Some(thread::spawn(move || device.work(&waker)));
        }
    }

    fn submit(&mut self, _: usize, batch: &Batch) -> Result<Ticket> {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        let mut state = self.device.lock();
        if self.by == ComputedBy::Collector {
            state.finished.push((ticket, batch.clone()));
        } else {
            state.waiting.push_back((ticket, batch.clone()));
        }
        drop(state);
        self.device.changed.notify_one();
        Ok(ticket)
    }

    fn batch_runner(&self) -> Option<BatchRunner> {
        let device = Arc::clone(&self.device);
        let has_runner = matches!(self.by, ComputedBy::Runners | ComputedBy::RunnersOrCollector);
        has_runner.then(|| Arc::new(move || device.compute()) as BatchRunner)
    }

    fn is_finished(&mut self, ticket: Ticket) -> bool {
        self.device.lock().finished.iter().any(|(finished, _)| *finished == ticket)
    }

    fn collect(&mut self, ticket: Ticket, row: &mut dyn FnMut(usize, &[f32])) -> Result<()> {
        while !self.is_finished(ticket) && self.by == ComputedBy::RunnersOrCollector && self.device.compute() {}
        let mut state = self.device.lock();
        let index = loop {
            match state.finished.iter().position(|(finished, _)| *finished == ticket) {
                Some(index) => break index,
                None => state = self.device.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        };
        let (_, batch) = state.finished.remove(index);
        drop(state);
        let mut start = 0;
        for (number, length) in batch.lengths.iter().enumerate() {
            row(number, &[f32::from(i16::try_from(batch.ids[start]).unwrap())]);
            start += *length as usize;
        }
        Ok(())
    }
}

impl Drop for EchoEncoder {
    fn drop(&mut self) {
        self.device.lock().is_stopping = true;
        self.device.changed.notify_one();
        if let Some(worker) = self.worker.take() {
            worker.join().unwrap();
        }
    }
}

fn telemetry(encoder: &EchoEncoder) -> Telemetry {
    Telemetry { device_stats: Arc::new(DeviceStats::new(&encoder.spec)), profiler: Arc::default() }
}

fn with_thread(by: ComputedBy) -> Arc<Scheduler> {
    let encoder = EchoEncoder::new(by);
    let telemetry = telemetry(&encoder);
    Arc::new(Scheduler::start(encoder, Batching::default(), telemetry, CpuAffinity::default()).unwrap())
}

fn by_callers(by: ComputedBy) -> Arc<Scheduler> {
    let encoder = EchoEncoder::new(by);
    let telemetry = telemetry(&encoder);
    Arc::new(Scheduler::by_callers(encoder, Batching::default(), telemetry))
}

fn submit(scheduler: &Scheduler, id: i32, call: &Call) -> Result<Pending> {
    submit_rows(scheduler, &[id], call)
}

fn submit_rows(scheduler: &Scheduler, ids: &[i32], call: &Call) -> Result<Pending> {
    let page = Arc::new(TokenPage::of_rows(ids.iter().map(|id| (vec![*id], false)).collect()));
    let row = |window| RowSource { page: Arc::clone(&page), window };
    scheduler.submit((0..ids.len()).map(row).collect(), call)
}

fn encode(scheduler: &Scheduler, id: i32, call: &Call) -> Result<Vec<f32>> {
    block_on(submit(scheduler, id, call)?, scheduler, call)
}

fn assert_encodes(scheduler: &Scheduler, id: i32) {
    assert_eq!(encode(scheduler, id, &Call::default()).unwrap(), [f32::from(i16::try_from(id).unwrap())]);
}

fn spawn_caller(scheduler: &Arc<Scheduler>, id: i32) -> JoinHandle<()> {
    let scheduler = Arc::clone(scheduler);
    thread::spawn(move || assert_encodes(&scheduler, id))
}

/// The outcome of a call while the scheduler closes.
fn assert_encoded_or_closed(id: i32, outcome: Result<Vec<f32>>) {
    match outcome {
        Ok(vectors) => assert_eq!(vectors, [f32::from(i16::try_from(id).unwrap())]),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Closed),
    }
}

#[test]
fn a_caller_and_the_scheduler() {
    for by in [ComputedBy::Collector, ComputedBy::Device, ComputedBy::Runners, ComputedBy::RunnersOrCollector] {
        model(3, move || assert_encodes(&with_thread(by), 7));
    }
}

/// The second caller also waits for space: the queue of a model holds one job.
#[test]
fn two_callers_and_the_scheduler() {
    model(2, || {
        let scheduler = with_thread(ComputedBy::Collector);
        let other = spawn_caller(&scheduler, 8);
        assert_encodes(&scheduler, 7);
        other.join().unwrap();
    });
}

#[test]
fn callers_hand_over_the_schedulers_work() {
    for by in [ComputedBy::Collector, ComputedBy::Device, ComputedBy::Runners, ComputedBy::RunnersOrCollector] {
        model(2, move || {
            let scheduler = by_callers(by);
            let other = spawn_caller(&scheduler, 8);
            assert_encodes(&scheduler, 7);
            other.join().unwrap();
        });
    }
}

/// One caller has more batches than it computes before the other one leaves; neither loses the other's work.
#[test]
fn callers_compute_each_others_batches() {
    for by in [ComputedBy::Runners, ComputedBy::RunnersOrCollector] {
        model(2, move || {
            let scheduler = by_callers(by);
            let other = spawn_caller(&scheduler, 8);
            let call = Call::default();
            let pending = submit_rows(&scheduler, &[5, 6, 7], &call).unwrap();
            assert_eq!(block_on(pending, &scheduler, &call).unwrap(), [5.0, 6.0, 7.0]);
            other.join().unwrap();
        });
    }
}

/// The barrier passes only if both callers compute: neither parks while a batch is unclaimed.
#[test]
fn two_callers_compute_at_once() {
    model(2, || {
        let encoder = EchoEncoder::new(ComputedBy::Runners);
        encoder.device.lock().barrier = 2;
        let telemetry = telemetry(&encoder);
        let scheduler = Arc::new(Scheduler::by_callers(encoder, Batching::default(), telemetry));
        let other = spawn_caller(&scheduler, 8);
        assert_encodes(&scheduler, 7);
        other.join().unwrap();
    });
}

#[test]
fn three_callers_compute_and_leave_in_any_order() {
    model(1, || {
        let scheduler = by_callers(ComputedBy::Runners);
        let others = [spawn_caller(&scheduler, 8), spawn_caller(&scheduler, 9)];
        assert_encodes(&scheduler, 7);
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

#[test]
fn close_races_with_a_call() {
    for (make, by) in [
        (with_thread as fn(ComputedBy) -> _, ComputedBy::Collector),
        (by_callers, ComputedBy::Collector),
        (by_callers, ComputedBy::Runners),
    ] {
        model(2, move || {
            let scheduler = make(by);
            let closing = Arc::clone(&scheduler);
            let other = thread::spawn(move || closing.close());
            assert_encoded_or_closed(7, encode(&scheduler, 7, &Call::default()));
            other.join().unwrap();
        });
    }
}

#[test]
fn close_races_with_two_callers_that_compute() {
    model(1, || {
        let scheduler = by_callers(ComputedBy::Runners);
        let (closing, second) = (Arc::clone(&scheduler), Arc::clone(&scheduler));
        let other = thread::spawn(move || closing.close());
        let third = thread::spawn(move || assert_encoded_or_closed(8, encode(&second, 8, &Call::default())));
        assert_encoded_or_closed(7, encode(&scheduler, 7, &Call::default()));
        other.join().unwrap();
        third.join().unwrap();
    });
}

/// Whether the scheduler has begun the stopped job or not.
#[test]
fn a_stopped_call_makes_space_for_the_next() {
    let cases = [
        (2, with_thread as fn(ComputedBy) -> Arc<Scheduler>, ComputedBy::Collector),
        (1, with_thread, ComputedBy::Device),
        (2, by_callers, ComputedBy::Runners),
    ];
    for (preemptions, make, by) in cases {
        model(preemptions, move || {
            let scheduler = make(by);
            let stop = Stop::default();
            let pending = submit(&scheduler, 7, &Call::default().stopped_by(stop.clone())).unwrap();
            let other = thread::spawn(move || {
                stop.stop();
                drop(pending);
            });
            assert_encodes(&scheduler, 8);
            other.join().unwrap();
        });
    }
}
