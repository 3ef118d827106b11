//! Models of callers, the conductor and a device: every order in which their threads may come, as far as loom's bound goes.
//!
//! The code is the real one; only the device is made here. A wake that is lost is a thread that sleeps for ever, which loom
//! reports; so is a lock that is waited for in a circle.

use std::sync::PoisonError;

use super::*;
use crate::call::Stop;
use crate::encoder::{Batch, DeviceSpec, EncoderSpec, Ticket, Waker};
use crate::tokens::TokenPage;

/// Every order in which no more than so many threads are interrupted where they need not wait.
fn model(interruptions: usize, run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(interruptions);
    builder.max_branches = 10_000;
    builder.check(run);
}

/// A device whose vectors are a row's first id. Where it wakes, a thread of its own computes them.
struct Echo {
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
    is_stopping: bool,
}

impl Echo {
    fn new(wakes: bool) -> Box<Self> {
        let spec = EncoderSpec {
            dimension: 1,
            max_tokens: 8,
            vocabulary: 100,
            dtype: "float32".to_owned(),
            devices: vec![DeviceSpec { name: "echo".to_owned(), depth: 1, batch_tokens: 8 }],
            wakes,
        };
        Box::new(Self { spec, tickets: 0, device: Arc::default(), worker: None })
    }
}

impl Device {
    fn lock(&self) -> MutexGuard<'_, DeviceState> {
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

impl Encoder for Echo {
    fn spec(&self) -> &EncoderSpec {
        &self.spec
    }

    fn set_waker(&mut self, waker: Waker) {
        if self.spec.wakes {
            let device = Arc::clone(&self.device);
            self.worker = Some(thread::spawn(move || device.work(&waker)));
        }
    }

    fn submit(&mut self, _: usize, batch: &Batch) -> Result<Ticket> {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        let mut state = self.device.lock();
        if self.spec.wakes {
            state.waiting.push_back((ticket, batch.clone()));
        } else {
            state.finished.push((ticket, batch.clone()));
        }
        drop(state);
        self.device.changed.notify_one();
        Ok(ticket)
    }

    fn is_finished(&mut self, ticket: Ticket) -> bool {
        self.device.lock().finished.iter().any(|(finished, _)| *finished == ticket)
    }

    fn collect(&mut self, ticket: Ticket, row: &mut dyn FnMut(usize, &[f32])) -> Result<()> {
        let mut state = self.device.lock();
        let place = state.finished.iter().position(|(finished, _)| *finished == ticket).unwrap();
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

fn watched(encoder: &Echo) -> Watched {
    Watched { board: Arc::new(Board::new(&encoder.spec)), stages: Arc::default() }
}

fn with_thread(wakes: bool) -> Arc<Conductor> {
    let encoder = Echo::new(wakes);
    let watched = watched(&encoder);
    Arc::new(Conductor::start(encoder, Batching::default(), watched, Cores::default()).unwrap())
}

fn by_callers(wakes: bool) -> Arc<Conductor> {
    let encoder = Echo::new(wakes);
    let watched = watched(&encoder);
    Arc::new(Conductor::driven(encoder, Batching::default(), watched))
}

fn submit(conductor: &Conductor, id: i32, call: &Call) -> Result<Pending> {
    let page = Arc::new(TokenPage::of_rows(vec![(vec![id], false)]));
    conductor.submit(vec![RowSource { page, window: 0 }], call)
}

/// What a caller does, from the first to the last.
fn ask(conductor: &Conductor, id: i32, call: &Call) -> Result<Vec<f32>> {
    block_on(submit(conductor, id, call)?, conductor, call)
}

fn assert_answered(conductor: &Conductor, id: i32) {
    assert_eq!(ask(conductor, id, &Call::default()).unwrap(), [f32::from(i16::try_from(id).unwrap())]);
}

/// Another thread that asks, and is answered.
fn beside(conductor: &Arc<Conductor>, id: i32) -> JoinHandle<()> {
    let conductor = Arc::clone(conductor);
    thread::spawn(move || assert_answered(&conductor, id))
}

/// Right vectors, or the end that somebody made.
fn assert_answered_or(kind: ErrorKind, id: i32, outcome: Result<Vec<f32>>) {
    match outcome {
        Ok(vectors) => assert_eq!(vectors, [f32::from(i16::try_from(id).unwrap())]),
        Err(error) => assert_eq!(error.kind(), kind),
    }
}

#[test]
fn a_caller_and_the_conductor() {
    for wakes in [false, true] {
        model(3, move || assert_answered(&with_thread(wakes), 7));
    }
}

/// The second waits for a place too: in a model one job may wait.
#[test]
fn two_callers_and_the_conductor() {
    model(2, || {
        let conductor = with_thread(false);
        let other = beside(&conductor, 8);
        assert_answered(&conductor, 7);
        other.join().unwrap();
    });
}

#[test]
fn callers_hand_over_the_conductors_work() {
    for wakes in [false, true] {
        model(2, move || {
            let conductor = by_callers(wakes);
            let other = beside(&conductor, 8);
            assert_answered(&conductor, 7);
            other.join().unwrap();
        });
    }
}

#[test]
fn the_end_comes_beside_a_call() {
    for make in [with_thread, by_callers] {
        model(2, move || {
            let conductor = make(false);
            let closing = Arc::clone(&conductor);
            let other = thread::spawn(move || closing.close());
            assert_answered_or(ErrorKind::Closed, 7, ask(&conductor, 7, &Call::default()));
            other.join().unwrap();
        });
    }
}

/// Who is stopped leaves its place to another, whether the conductor has begun its job or not.
#[test]
fn a_call_is_stopped_and_the_next_one_gets_its_place() {
    for (interruptions, wakes) in [(2, false), (1, true)] {
        model(interruptions, move || {
            let conductor = with_thread(wakes);
            let stop = Stop::default();
            let pending = submit(&conductor, 7, &Call::default().stopped_by(stop.clone())).unwrap();
            let other = thread::spawn(move || {
                stop.stop();
                drop(pending);
            });
            assert_answered(&conductor, 8);
            other.join().unwrap();
        });
    }
}
