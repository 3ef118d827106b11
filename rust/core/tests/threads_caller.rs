//! `threads="caller"`: waiting callers compute batches in parallel, each on its own thread, and get their own vectors.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::ThreadId;
use std::time::Duration;

use pullquote_core::encoder::{
    Batch, BatchRunner, Batching, DeviceSpec, Encoder, EncoderSpec, Ticket, Waker, for_each_row,
};
use pullquote_core::engine::{Engine, Finished, Steps};
use pullquote_core::error::{Error, ErrorKind, Result};
use pullquote_core::runtime::call::Call;
use pullquote_core::tokens::Role;

use crate::common::{
    DIMENSION, FakeEncoder, Poison, fake_vectors, highlights, model, owned_request, question, word_piece,
};

/// Tests fail after this instead of hanging.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);
const DEPTH: usize = 4;

type Fault = Box<dyn Fn(&Batch) -> Option<ErrorKind> + Send + Sync>;

/// An encoder without threads of its own.
struct CallersEncoder {
    spec: EncoderSpec,
    shared: Arc<Shared>,
    next: u64,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    fault: Fault,
    /// No batch finishes before this number of them is computed at the same time.
    barrier: usize,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<(Ticket, Batch)>,
    finished: HashMap<Ticket, Result<Vec<f32>>>,
    /// Submitted and not collected.
    in_flight: usize,
    max_in_flight: usize,
    /// Being computed now.
    running: usize,
    max_running: usize,
    /// The number of batches that each thread computed.
    by_thread: HashMap<ThreadId, usize>,
}

impl Shared {
    fn new(barrier: usize, fault: impl Fn(&Batch) -> Option<ErrorKind> + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), changed: Condvar::new(), fault: Box::new(fault), barrier })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn wait_until(&self, holds: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let (state, timeout) =
            self.changed.wait_timeout_while(self.lock(), TEST_TIMEOUT, |state| !holds(state)).unwrap();
        assert!(!timeout.timed_out(), "the condition never held");
        state
    }

    fn run_one(&self) -> bool {
        let mut state = self.lock();
        let Some((ticket, batch)) = state.waiting.pop_front() else { return false };
        state.running += 1;
        state.max_running = state.max_running.max(state.running);
        *state.by_thread.entry(std::thread::current().id()).or_default() += 1;
        drop(state);
        self.changed.notify_all();
        drop(self.wait_until(|state| state.max_running >= self.barrier));
        let rows =
            (self.fault)(&batch).map_or_else(|| Ok(fake_vectors(&batch)), |kind| Err(Error::new(kind, "scripted")));
        let mut state = self.lock();
        state.running -= 1;
        state.finished.insert(ticket, rows);
        true
    }
}

impl Encoder for CallersEncoder {
    fn spec(&self) -> &EncoderSpec {
        &self.spec
    }

    fn set_waker(&mut self, _: Waker) {}

    fn submit(&mut self, _: usize, batch: &Batch) -> Result<Ticket> {
        self.next += 1;
        let mut state = self.shared.lock();
        state.waiting.push_back((Ticket(self.next), batch.clone()));
        state.in_flight += 1;
        state.max_in_flight = state.max_in_flight.max(state.in_flight);
        Ok(Ticket(self.next))
    }

    fn is_finished(&mut self, ticket: Ticket) -> bool {
        self.shared.lock().finished.contains_key(&ticket)
    }

    fn collect(&mut self, ticket: Ticket, row: &mut dyn FnMut(usize, &[f32])) -> Result<()> {
        let mut state = self.shared.lock();
        state.in_flight -= 1;
        let rows = state.finished.remove(&ticket).expect("only finished batches are collected")?;
        drop(state);
        for_each_row(&rows, DIMENSION, row);
        Ok(())
    }

    fn batch_runner(&self) -> Option<BatchRunner> {
        let shared = Arc::clone(&self.shared);
        Some(Arc::new(move || shared.run_one()))
    }
}

/// An engine over it, with or without a scheduler thread.
fn engine(shared: &Arc<Shared>, has_thread: bool) -> Engine {
    let spec = EncoderSpec::new("test", DIMENSION, 64, 5000, vec![DeviceSpec::new("callers".to_owned(), DEPTH, 64)]);
    let (_folder, model) = model(&word_piece(), 64, ("", ""));
    let encoder = CallersEncoder { spec, shared: Arc::clone(shared), next: 0 };
    let engine = Engine::new(&model, Box::new(encoder), Some(1), 0).unwrap();
    if has_thread { engine } else { engine.driven_by_callers() }
}

/// Makes each row a batch.
fn with_single_rows(engine: Engine) -> Engine {
    engine.with_batching(Batching { max_rows: Some(1), ..Batching::default() }).unwrap()
}

fn with_threads() -> Engine {
    let (_folder, model) = model(&word_piece(), 64, ("", ""));
    Engine::new(&model, Box::new(FakeEncoder::new(2, true, Poison::default())), Some(1), 0).unwrap()
}

fn embed(engine: &Engine, texts: &[&str]) -> Result<Vec<f32>> {
    crate::common::embed(engine, texts, Role::Passage, &Call::default()).map(|embedded| embedded.vectors)
}

#[test]
fn callers_compute_in_parallel_each_on_its_own_thread() {
    for callers in [2, DEPTH] {
        let shared = Shared::new(callers, |_| None);
        let engine = with_single_rows(engine(&shared, false));
        std::thread::scope(|scope| {
            for _ in 0..callers {
                // The barrier keeps every caller until all of them compute.
                scope.spawn(|| assert_eq!(embed(&engine, &["cat", "moon"]).unwrap().len(), 2 * DIMENSION));
            }
        });
        let state = shared.lock();
        assert_eq!(state.max_running, callers);
        assert_eq!(state.by_thread.values().sum::<usize>(), 2 * callers);
        assert!(state.by_thread.len() >= callers, "{:?}", state.by_thread);
    }
}

#[test]
fn batches_in_flight_are_one_for_each_waiting_caller_up_to_the_depth() {
    let texts: Vec<String> = (0..50).map(|n| format!("The cat {n} is in the moon.")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    for (callers, expected) in [(1, 1), (2, 2), (12, DEPTH)] {
        let shared = Shared::new(expected, |_| None);
        let engine = with_single_rows(engine(&shared, false));
        std::thread::scope(|scope| {
            (0..callers).for_each(|_| drop(scope.spawn(|| embed(&engine, &texts).unwrap())));
        });
        assert_eq!(shared.lock().max_in_flight, expected, "{callers}");
    }
}

#[test]
fn answers_equal_those_of_an_engine_with_threads() {
    let expected = with_threads();
    // A scheduler thread also computes batches.
    for has_thread in [false, true] {
        let shared = Shared::new(0, |_| None);
        let engine = engine(&shared, has_thread);
        std::thread::scope(|scope| {
            for caller in 0..8 {
                let (engine, expected) = (&engine, &expected);
                scope.spawn(move || {
                    for round in 0..10 {
                        let request = owned_request(7 * caller + round);
                        let answers = highlights(&engine, &request, &question(), &Call::default()).unwrap();
                        let expected = highlights(&expected, &request, &question(), &Call::default()).unwrap();
                        assert_eq!((answers.spans, answers.scores), (expected.spans, expected.scores));
                    }
                });
            }
        });
        let state = shared.lock();
        assert_eq!((state.in_flight, state.running), (0, 0));
        assert!(!has_thread || state.max_in_flight == 1, "one thread computes one batch at a time");
    }
}

#[test]
fn errors_on_a_callers_thread_equal_those_of_a_device() {
    let texts: Vec<String> = (0..20).map(|n| format!("The cat {n} is in the moon.")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let expected = embed(&with_threads(), &texts).unwrap();
    // A batch of several rows runs out of memory, and is retried in parts.
    let full = Shared::new(2, |batch| (batch.lengths.len() > 1).then_some(ErrorKind::OutOfMemory));
    let low_memory = engine(&full, false);
    std::thread::scope(|scope| {
        (0..2).for_each(|_| drop(scope.spawn(|| assert_eq!(embed(&low_memory, &texts).unwrap(), expected))));
    });
    for kind in [ErrorKind::OutOfMemory, ErrorKind::Device, ErrorKind::Encoder] {
        // Long texts fail; those of another caller do not.
        let shared = Shared::new(2, move |batch| (batch.ids.len() > 40).then_some(kind));
        let engine = with_single_rows(engine(&shared, false));
        std::thread::scope(|scope| {
            let bad = scope.spawn(|| embed(&engine, &["cat ".repeat(50).as_str(), "moon"]));
            let good = scope.spawn(|| embed(&engine, &["cat", "moon"]));
            assert_eq!(bad.join().unwrap().unwrap_err().kind(), kind);
            assert_eq!(good.join().unwrap().unwrap(), [embed(&with_threads(), &["cat", "moon"]).unwrap()].concat());
        });
        assert_eq!(engine.devices()[0].is_working, kind != ErrorKind::Device);
    }
}

#[test]
fn close_ends_computing_callers_and_drops_the_encoder() {
    let shared = Shared::new(3, |_| None);
    let engine = with_single_rows(engine(&shared, false));
    std::thread::scope(|scope| {
        let calls = [(); 2].map(|()| scope.spawn(|| embed(&engine, &["cat", "moon", "bread"])));
        // Both compute and wait at the barrier.
        drop(shared.wait_until(|state| state.max_running == 2));
        engine.close();
        shared.lock().max_running = 3;
        shared.changed.notify_all();
        for call in calls {
            assert_eq!(call.join().unwrap().unwrap_err().kind(), ErrorKind::Closed);
        }
    });
    assert_eq!(embed(&engine, &["cat"]).unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(Arc::strong_count(&shared), 1, "the encoder and its batch runner are dropped");
}

#[test]
fn a_panic_on_a_callers_thread_ends_all_calls() {
    let shared = Shared::new(2, |batch| if batch.ids.len() > 40 { panic!("scripted") } else { None });
    let engine = with_single_rows(engine(&shared, false));
    std::thread::scope(|scope| {
        let bad = scope.spawn(|| embed(&engine, &["cat ".repeat(50).as_str(); 2]));
        let other = scope.spawn(|| embed(&engine, &["cat ".repeat(50).as_str(); 2]));
        for call in [bad, other] {
            if let Ok(outcome) = call.join() {
                assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Closed);
            }
        }
    });
    assert_eq!(embed(&engine, &["cat"]).unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn a_step_computes_at_most_two_batches_on_the_hosts_thread() {
    let shared = Shared::new(0, |_| None);
    let mut steps = Steps::new(Arc::new(engine(&shared, false)));
    assert!(steps.step().unwrap().is_empty());
    let sizes = [40, 0, 3, 200, 1, 17];
    for size in sizes {
        steps.add(size.to_string(), owned_request(size), question(), Call::default()).unwrap();
    }
    let (alone, mut finished) = (with_threads(), Vec::new());
    while steps.unfinished() > 0 {
        let before: usize = shared.lock().by_thread.values().sum();
        finished.extend(steps.step().unwrap());
        let state = shared.lock();
        assert!(state.by_thread.values().sum::<usize>() - before <= 2, "{:?}", state.by_thread);
    }
    assert_eq!(shared.lock().max_in_flight, 1);
    assert_eq!(shared.lock().by_thread.keys().copied().collect::<Vec<_>>(), [std::thread::current().id()]);
    assert_eq!(finished.len(), sizes.len());
    for Finished { id, answers, .. } in finished {
        let expected = highlights(&alone, &owned_request(id.parse().unwrap()), &question(), &Call::default()).unwrap();
        assert_eq!(answers.unwrap().spans, expected.spans, "{id}");
    }
}
