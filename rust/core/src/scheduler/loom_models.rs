//! loom models of callers, steps, the scheduler and a device: every order of their threads within loom's preemption bound.
//!
//! Only the device is a fake. loom reports a lost wake-up as a thread that sleeps forever, and a deadlock as such.

use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;
use std::sync::PoisonError;
use std::task::{Context, Poll};

use super::*;
use crate::encoder::{Batch, Collected, DeviceSpec, EncoderSpec, Ticket, Waker};
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
    is_stopping: bool,
}

impl EchoEncoder {
    fn new(by: ComputedBy) -> Box<Self> {
        let mut spec = EncoderSpec::new("test", 1, 8, 100, vec![DeviceSpec::new("echo".to_owned(), 1, 8)]);
        spec.capabilities.notifies = by == ComputedBy::Device;
        Box::new(Self { by, spec, tickets: 0, device: Arc::default(), worker: None })
    }
}

impl EchoDevice {
    fn lock(&self) -> MutexGuard<'_, EchoState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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

    fn submit(&mut self, device: usize, batch: &Batch) -> Result<Ticket> {
        self.tickets += 1;
        let ticket = Ticket { device, number: self.tickets };
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

    fn is_finished(&mut self, ticket: Ticket) -> bool {
        self.device.lock().finished.iter().any(|(finished, _)| *finished == ticket)
    }

    fn collect(&mut self, ticket: Ticket, receive: &mut dyn FnMut(Cow<'_, [f32]>)) -> Result<Collected> {
        let mut state = self.device.lock();
        let index = loop {
            match state.finished.iter().position(|(finished, _)| *finished == ticket) {
                Some(index) => break index,
                None => state = self.device.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        };
        let (_, batch) = state.finished.remove(index);
        drop(state);
        // Rows have one id each.
        receive(batch.ids.iter().map(|id| f32::from(i16::try_from(*id).unwrap())).collect());
        Ok(Collected::default())
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

fn by_steps(by: ComputedBy) -> Arc<Scheduler> {
    let encoder = EchoEncoder::new(by);
    let telemetry = telemetry(&encoder);
    Arc::new(Scheduler::stepped(encoder, Batching::default(), telemetry))
}

fn submit(scheduler: &Scheduler, id: i32, call: &Call) -> Result<Pending> {
    let page = Arc::new(TokenPage::of_rows(vec![(vec![id], false)]));
    scheduler.submit(vec![RowSource { page, window: 0 }], call)
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

/// Steps until a call ends.
fn step_to_the_end(scheduler: &Scheduler, mut pending: Pending) -> Result<Vec<f32>> {
    loop {
        let mut context = Context::from_waker(std::task::Waker::noop());
        if let Poll::Ready(outcome) = Pin::new(&mut pending).poll(&mut context) {
            return outcome;
        }
        scheduler.step(Duration::from_secs(1));
    }
}

#[test]
fn a_caller_and_the_scheduler() {
    for by in [ComputedBy::Collector, ComputedBy::Device] {
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

/// A step that waits for a batch misses no wake-up of the device.
#[test]
fn steps_and_a_device() {
    for by in [ComputedBy::Collector, ComputedBy::Device] {
        model(3, move || {
            let scheduler = by_steps(by);
            let pending = [7, 8].map(|id| submit(&scheduler, id, &Call::default()).unwrap());
            for (id, pending) in [7.0, 8.0].into_iter().zip(pending) {
                assert_eq!(step_to_the_end(&scheduler, pending).unwrap(), [id]);
            }
        });
    }
}

#[test]
fn close_races_with_a_call() {
    model(2, || {
        let scheduler = with_thread(ComputedBy::Collector);
        let closing = Arc::clone(&scheduler);
        let other = thread::spawn(move || closing.close());
        assert_encoded_or_closed(7, encode(&scheduler, 7, &Call::default()));
        other.join().unwrap();
    });
}

#[test]
fn close_races_with_steps() {
    for by in [ComputedBy::Collector, ComputedBy::Device] {
        model(2, move || {
            let scheduler = by_steps(by);
            let closing = Arc::clone(&scheduler);
            let other = thread::spawn(move || closing.close());
            let outcome = submit(&scheduler, 7, &Call::default());
            assert_encoded_or_closed(7, outcome.and_then(|pending| step_to_the_end(&scheduler, pending)));
            other.join().unwrap();
        });
    }
}

/// Whether the scheduler has begun the stopped job or not.
#[test]
fn a_stopped_call_makes_space_for_the_next() {
    for (preemptions, by) in [(2, ComputedBy::Collector), (1, ComputedBy::Device)] {
        model(preemptions, move || {
            let scheduler = with_thread(by);
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
