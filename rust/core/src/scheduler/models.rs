//! Models of callers, the scheduler and a device: every order in which their threads may come, as far as loom's bound goes.
//!
//! The code is the real one; only the device is made here. A wake that is lost is a thread that sleeps for ever, which loom
//! reports; so is a lock that is waited for in a circle.

use std::sync::PoisonError;

use super::*;
use crate::encoder::{Batch, BatchRunner, DeviceSpec, EncoderSpec, Ticket, Waker};
use crate::runtime::call::Stop;
use crate::tokens::TokenPage;

/// Every order in which no more than so many threads are interrupted where they need not wait.
fn model(interruptions: usize, run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(interruptions);
    builder.max_branches = 10_000;
    builder.check(run);
}

/// Who computes a batch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// Whoever collects it.
    Collecting,
    /// A thread of the device's own, which wakes.
    Itself,
    /// Those who wait.
    Helpers,
    /// Those who wait, or else whoever collects it: as a CPU beside a card.
    Either,
}

/// A device whose vectors are a row's first id.
struct Echo {
    by: By,
    spec: EncoderSpec,
    tickets: u64,
    device: Arc<Device>,
    worker: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Device {
    state: Mutex<DeviceState>,
    changed: Condvar,
}

#[derive(Default)]
struct DeviceState {
    waiting: VecDeque<(Ticket, Batch)>,
    finished: Vec<(Ticket, Batch)>,
    /// Nobody who helps goes on before so many have begun.
    meeting: usize,
    begun: usize,
    is_stopping: bool,
}

impl Echo {
    fn new(by: By) -> Box<Self> {
        // Helpers have a batch of each row, and two at once.
        let (depth, batch_tokens) = if matches!(by, By::Helpers | By::Either) { (2, 1) } else { (1, 8) };
        let spec = EncoderSpec {
            dimension: 1,
            max_tokens: 8,
            vocabulary: 100,
            dtype: "float32".to_owned(),
            devices: vec![DeviceSpec { name: "echo".to_owned(), depth, batch_tokens }],
            notifies: matches!(by, By::Itself | By::Helpers),
            needs_polling: false,
            scores: false,
            backend: "test".to_owned(),
        };
        Box::new(Self { by, spec, tickets: 0, device: Arc::default(), worker: None })
    }
}

impl Device {
    fn lock(&self) -> MutexGuard<'_, DeviceState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn compute(&self) -> bool {
        let Some(batch) = self.lock().waiting.pop_front() else { return false };
        // The lock is not held while a batch is computed, which is here.
        let mut state = self.lock();
        state.begun += 1;
        self.changed.notify_all();
        while state.begun < state.meeting {
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

impl Encoder for Echo {
    fn spec(&self) -> &EncoderSpec {
        &self.spec
    }

    fn set_waker(&mut self, waker: Waker) {
        if self.by == By::Itself {
            let device = Arc::clone(&self.device);
            self.worker = Some(thread::spawn(move || device.work(&waker)));
        }
    }

    fn submit(&mut self, _: usize, batch: &Batch) -> Result<Ticket> {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        let mut state = self.device.lock();
        if self.by != By::Collecting {
            state.waiting.push_back((ticket, batch.clone()));
        } else {
            state.finished.push((ticket, batch.clone()));
        }
        drop(state);
        self.device.changed.notify_one();
        Ok(ticket)
    }

    fn batch_runner(&self) -> Option<BatchRunner> {
        let device = Arc::clone(&self.device);
        matches!(self.by, By::Helpers | By::Either).then(|| Arc::new(move || device.compute()) as BatchRunner)
    }

    fn is_finished(&mut self, ticket: Ticket) -> bool {
        self.device.lock().finished.iter().any(|(finished, _)| *finished == ticket)
    }

    fn collect(&mut self, ticket: Ticket, row: &mut dyn FnMut(usize, &[f32])) -> Result<()> {
        while !self.is_finished(ticket) && self.by == By::Either && self.device.compute() {}
        let mut state = self.device.lock();
        let place = loop {
            match state.finished.iter().position(|(finished, _)| *finished == ticket) {
                Some(place) => break place,
                None => state = self.device.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        };
        let (_, batch) = state.finished.remove(place);
        drop(state);
        let mut start = 0;
        for (number, length) in batch.lengths.iter().enumerate() {
            row(number, &[f32::from(i16::try_from(batch.ids[start]).unwrap())]);
            start += *length as usize;
        }
        Ok(())
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.device.lock().is_stopping = true;
        self.device.changed.notify_one();
        if let Some(worker) = self.worker.take() {
            worker.join().unwrap();
        }
    }
}

fn watched(encoder: &Echo) -> Telemetry {
    Telemetry { board: Arc::new(DeviceStats::new(&encoder.spec)), stages: Arc::default() }
}

fn with_thread(by: By) -> Arc<Scheduler> {
    let encoder = Echo::new(by);
    let watched = watched(&encoder);
    Arc::new(Scheduler::start(encoder, Batching::default(), watched, CpuAffinity::default()).unwrap())
}

fn by_callers(by: By) -> Arc<Scheduler> {
    let encoder = Echo::new(by);
    let watched = watched(&encoder);
    Arc::new(Scheduler::driven(encoder, Batching::default(), watched))
}

fn submit(scheduler: &Scheduler, id: i32, call: &Call) -> Result<Pending> {
    submit_rows(scheduler, &[id], call)
}

fn submit_rows(scheduler: &Scheduler, ids: &[i32], call: &Call) -> Result<Pending> {
    let page = Arc::new(TokenPage::of_rows(ids.iter().map(|id| (vec![*id], false)).collect()));
    let row = |window| RowSource { page: Arc::clone(&page), window };
    scheduler.submit((0..ids.len()).map(row).collect(), call)
}

/// What a caller does, from the first to the last.
fn ask(scheduler: &Scheduler, id: i32, call: &Call) -> Result<Vec<f32>> {
    block_on(submit(scheduler, id, call)?, scheduler, call)
}

fn assert_answered(scheduler: &Scheduler, id: i32) {
    assert_eq!(ask(scheduler, id, &Call::default()).unwrap(), [f32::from(i16::try_from(id).unwrap())]);
}

/// Another thread that asks, and is answered.
fn beside(scheduler: &Arc<Scheduler>, id: i32) -> JoinHandle<()> {
    let scheduler = Arc::clone(scheduler);
    thread::spawn(move || assert_answered(&scheduler, id))
}

/// Right vectors, or the end that somebody made.
fn assert_answered_or(kind: ErrorKind, id: i32, outcome: Result<Vec<f32>>) {
    match outcome {
        Ok(vectors) => assert_eq!(vectors, [f32::from(i16::try_from(id).unwrap())]),
        Err(error) => assert_eq!(error.kind(), kind),
    }
}

#[test]
fn a_caller_and_the_scheduler() {
    for by in [By::Collecting, By::Itself, By::Helpers, By::Either] {
        model(3, move || assert_answered(&with_thread(by), 7));
    }
}

/// The second waits for a place too: in a model one job may wait.
#[test]
fn two_callers_and_the_scheduler() {
    model(2, || {
        let scheduler = with_thread(By::Collecting);
        let other = beside(&scheduler, 8);
        assert_answered(&scheduler, 7);
        other.join().unwrap();
    });
}

#[test]
fn callers_hand_over_the_schedulers_work() {
    for by in [By::Collecting, By::Itself, By::Helpers, By::Either] {
        model(2, move || {
            let scheduler = by_callers(by);
            let other = beside(&scheduler, 8);
            assert_answered(&scheduler, 7);
            other.join().unwrap();
        });
    }
}

/// One has more batches than it can compute before the other wants to leave; neither forgets what the other needs.
#[test]
fn callers_compute_each_others_batches() {
    for by in [By::Helpers, By::Either] {
        model(2, move || {
            let scheduler = by_callers(by);
            let other = beside(&scheduler, 8);
            let call = Call::default();
            let pending = submit_rows(&scheduler, &[5, 6, 7], &call).unwrap();
            assert_eq!(block_on(pending, &scheduler, &call).unwrap(), [5.0, 6.0, 7.0]);
            other.join().unwrap();
        });
    }
}

/// Neither can be done before both compute: nobody sleeps while there is a batch to be begun.
#[test]
fn two_callers_compute_at_once() {
    model(2, || {
        let encoder = Echo::new(By::Helpers);
        encoder.device.lock().meeting = 2;
        let watched = watched(&encoder);
        let scheduler = Arc::new(Scheduler::driven(encoder, Batching::default(), watched));
        let other = beside(&scheduler, 8);
        assert_answered(&scheduler, 7);
        other.join().unwrap();
    });
}

#[test]
fn three_callers_compute_and_leave_in_any_order() {
    model(1, || {
        let scheduler = by_callers(By::Helpers);
        let others = [beside(&scheduler, 8), beside(&scheduler, 9)];
        assert_answered(&scheduler, 7);
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

#[test]
fn the_end_comes_beside_a_call() {
    for (make, by) in
        [(with_thread as fn(By) -> _, By::Collecting), (by_callers, By::Collecting), (by_callers, By::Helpers)]
    {
        model(2, move || {
            let scheduler = make(by);
            let closing = Arc::clone(&scheduler);
            let other = thread::spawn(move || closing.close());
            assert_answered_or(ErrorKind::Closed, 7, ask(&scheduler, 7, &Call::default()));
            other.join().unwrap();
        });
    }
}

#[test]
fn the_end_comes_beside_two_who_compute() {
    model(1, || {
        let scheduler = by_callers(By::Helpers);
        let (closing, beside) = (Arc::clone(&scheduler), Arc::clone(&scheduler));
        let other = thread::spawn(move || closing.close());
        let third = thread::spawn(move || assert_answered_or(ErrorKind::Closed, 8, ask(&beside, 8, &Call::default())));
        assert_answered_or(ErrorKind::Closed, 7, ask(&scheduler, 7, &Call::default()));
        other.join().unwrap();
        third.join().unwrap();
    });
}

/// Who is stopped leaves its place to another, whether the scheduler has begun its job or not.
#[test]
fn a_call_is_stopped_and_the_next_one_gets_its_place() {
    let made = [
        (2, with_thread as fn(By) -> Arc<Scheduler>, By::Collecting),
        (1, with_thread, By::Itself),
        (2, by_callers, By::Helpers),
    ];
    for (interruptions, make, by) in made {
        model(interruptions, move || {
            let scheduler = make(by);
            let stop = Stop::default();
            let pending = submit(&scheduler, 7, &Call::default().stopped_by(stop.clone())).unwrap();
            let other = thread::spawn(move || {
                stop.stop();
                drop(pending);
            });
            assert_answered(&scheduler, 8);
            other.join().unwrap();
        });
    }
}
