//! Callers that lend the encoder their threads: they compute at once, each on its own, and everybody gets what is theirs.

mod common;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::ThreadId;
use std::time::Duration;

use common::{DIMENSION, FakeEncoder, Poison, asked, fake_vector, model, question, word_piece};
use pullquote_core::encoder::{
    Batch, BatchRunner, Batching, DeviceSpec, Encoder, EncoderSpec, Ticket, Waker, hand_out,
};
use pullquote_core::engine::{Engine, Steps};
use pullquote_core::error::{Error, ErrorKind, Result};
use pullquote_core::runtime::call::Call;
use pullquote_core::tokens::Role;

/// What a test fails after, instead of hanging.
const TOO_LONG: Duration = Duration::from_secs(60);
const DEPTH: usize = 4;

type Fault = Box<dyn Fn(&Batch) -> Option<ErrorKind> + Send + Sync>;

/// An encoder that has only the threads that are lent to it.
struct Lent {
    spec: EncoderSpec,
    shared: Arc<Shared>,
    next: u64,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    fault: Fault,
    /// No batch is finished before so many have been computed at once.
    gate: usize,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<(Ticket, Batch)>,
    finished: HashMap<Ticket, Result<Vec<f32>>>,
    /// Submitted and not collected, and the most there were.
    in_flight: usize,
    deepest: usize,
    /// Being computed now, and the most there were.
    inside: usize,
    most_inside: usize,
    /// Who computed how many.
    by: HashMap<ThreadId, usize>,
}

impl Shared {
    fn new(gate: usize, fault: impl Fn(&Batch) -> Option<ErrorKind> + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), changed: Condvar::new(), fault: Box::new(fault), gate })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Waits until this holds.
    fn wait_until(&self, holds: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let (state, timeout) = self.changed.wait_timeout_while(self.lock(), TOO_LONG, |state| !holds(state)).unwrap();
        assert!(!timeout.timed_out(), "this never came");
        state
    }

    fn help(&self) -> bool {
        let mut state = self.lock();
        let Some((ticket, batch)) = state.waiting.pop_front() else { return false };
        state.inside += 1;
        state.most_inside = state.most_inside.max(state.inside);
        *state.by.entry(std::thread::current().id()).or_default() += 1;
        drop(state);
        self.changed.notify_all();
        drop(self.wait_until(|state| state.most_inside >= self.gate));
        let rows = (self.fault)(&batch).map_or_else(|| Ok(vectors(&batch)), |kind| Err(Error::new(kind, "scripted")));
        let mut state = self.lock();
        state.inside -= 1;
        state.finished.insert(ticket, rows);
        true
    }
}

fn vectors(batch: &Batch) -> Vec<f32> {
    let mut rest = batch.ids.as_slice();
    let rows = batch.lengths.iter().map(|length| {
        let (row, behind) = rest.split_at(*length as usize);
        rest = behind;
        fake_vector(row)
    });
    rows.flatten().collect()
}

impl Encoder for Lent {
    fn spec(&self) -> &EncoderSpec {
        &self.spec
    }

    fn set_waker(&mut self, _: Waker) {}

    fn submit(&mut self, _: usize, batch: &Batch) -> Result<Ticket> {
        self.next += 1;
        let mut state = self.shared.lock();
        state.waiting.push_back((Ticket(self.next), batch.clone()));
        state.in_flight += 1;
        state.deepest = state.deepest.max(state.in_flight);
        Ok(Ticket(self.next))
    }

    fn is_finished(&mut self, ticket: Ticket) -> bool {
        self.shared.lock().finished.contains_key(&ticket)
    }

    fn collect(&mut self, ticket: Ticket, row: &mut dyn FnMut(usize, &[f32])) -> Result<()> {
        let mut state = self.shared.lock();
        state.in_flight -= 1;
        let rows = state.finished.remove(&ticket).expect("only what is finished is collected")?;
        drop(state);
        hand_out(&rows, DIMENSION, row);
        Ok(())
    }

    fn batch_runner(&self) -> Option<BatchRunner> {
        let shared = Arc::clone(&self.shared);
        Some(Arc::new(move || shared.help()))
    }
}

/// An engine over it that has a thread of its own, or none.
fn engine(shared: &Arc<Shared>, has_thread: bool) -> Engine {
    let spec = EncoderSpec {
        dimension: DIMENSION,
        max_tokens: 64,
        vocabulary: 5000,
        dtype: "float32".to_owned(),
        devices: vec![DeviceSpec { name: "lent".to_owned(), depth: DEPTH, batch_tokens: 64 }],
        notifies: true,
        needs_polling: false,
        scores: false,
        backend: "test".to_owned(),
    };
    let (_folder, model) = model(&word_piece(), 64, ("", ""));
    let engine = Engine::new(&model, Box::new(Lent { spec, shared: Arc::clone(shared), next: 0 }), Some(1), 0).unwrap();
    if has_thread { engine } else { engine.driven_by_callers() }
}

/// Each row is a batch.
fn row_by_row(engine: Engine) -> Engine {
    engine.with_batching(Batching { max_rows: Some(1), ..Batching::default() }).unwrap()
}

fn with_threads() -> Engine {
    let (_folder, model) = model(&word_piece(), 64, ("", ""));
    Engine::new(&model, Box::new(FakeEncoder::new(2, true, Poison::default())), Some(1), 0).unwrap()
}

fn embed(engine: &Engine, texts: &[&str]) -> Result<Vec<f32>> {
    engine.embed(texts, Role::Passage, &Call::default()).map(|embedded| embedded.vectors)
}

#[test]
fn callers_compute_at_once_each_on_its_own_thread() {
    for callers in [2, DEPTH] {
        let shared = Shared::new(callers, |_| None);
        let engine = row_by_row(engine(&shared, false));
        std::thread::scope(|scope| {
            for _ in 0..callers {
                // Nobody leaves before all of them compute.
                scope.spawn(|| assert_eq!(embed(&engine, &["cat", "moon"]).unwrap().len(), 2 * DIMENSION));
            }
        });
        let state = shared.lock();
        assert_eq!(state.most_inside, callers);
        assert_eq!(state.by.values().sum::<usize>(), 2 * callers);
        assert!(state.by.len() >= callers, "{:?}", state.by);
    }
}

#[test]
fn as_many_batches_are_in_flight_as_callers_wait_and_no_more_than_the_device_wants() {
    let texts: Vec<String> = (0..50).map(|n| format!("The cat {n} is in the moon.")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    for (callers, most) in [(1, 1), (2, 2), (12, DEPTH)] {
        let shared = Shared::new(most, |_| None);
        let engine = row_by_row(engine(&shared, false));
        std::thread::scope(|scope| {
            (0..callers).for_each(|_| drop(scope.spawn(|| embed(&engine, &texts).unwrap())));
        });
        assert_eq!(shared.lock().deepest, most, "{callers}");
    }
}

#[test]
fn answers_are_those_of_an_engine_with_threads() {
    let expected = with_threads();
    // Where the scheduler has a thread, that computes too.
    for has_thread in [false, true] {
        let shared = Shared::new(0, |_| None);
        let engine = engine(&shared, has_thread);
        std::thread::scope(|scope| {
            for caller in 0..8 {
                let (engine, expected) = (&engine, &expected);
                scope.spawn(move || {
                    for round in 0..10 {
                        let asked = asked(7 * caller + round);
                        let answers = engine.answer(&asked, &question(), &Call::default()).unwrap();
                        let theirs = expected.answer(&asked, &question(), &Call::default()).unwrap();
                        assert_eq!((answers.spans, answers.scores), (theirs.spans, theirs.scores));
                    }
                });
            }
        });
        let state = shared.lock();
        assert_eq!((state.in_flight, state.inside), (0, 0));
        assert!(!has_thread || state.deepest == 1, "a thread alone has no use for more");
    }
}

#[test]
fn what_fails_in_a_helper_is_the_same_error() {
    let texts: Vec<String> = (0..20).map(|n| format!("The cat {n} is in the moon.")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let expected = embed(&with_threads(), &texts).unwrap();
    // A batch of several rows finds no memory, and is tried again in parts; nobody hears of it.
    let full = Shared::new(2, |batch| (batch.lengths.len() > 1).then_some(ErrorKind::OutOfMemory));
    let engine_of_little = engine(&full, false);
    std::thread::scope(|scope| {
        (0..2).for_each(|_| drop(scope.spawn(|| assert_eq!(embed(&engine_of_little, &texts).unwrap(), expected))));
    });
    for kind in [ErrorKind::OutOfMemory, ErrorKind::Device, ErrorKind::Encoder] {
        // Long texts fail, and those of the caller beside do not.
        let shared = Shared::new(2, move |batch| (batch.ids.len() > 40).then_some(kind));
        let engine = row_by_row(engine(&shared, false));
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
fn closing_ends_those_who_compute_and_the_encoder_goes_with_the_engine() {
    let shared = Shared::new(3, |_| None);
    let engine = row_by_row(engine(&shared, false));
    std::thread::scope(|scope| {
        let calls = [(); 2].map(|()| scope.spawn(|| embed(&engine, &["cat", "moon", "bread"])));
        // Both compute, and cannot leave.
        drop(shared.wait_until(|state| state.most_inside == 2));
        engine.close();
        shared.lock().most_inside = 3;
        shared.changed.notify_all();
        for call in calls {
            assert_eq!(call.join().unwrap().unwrap_err().kind(), ErrorKind::Closed);
        }
    });
    assert_eq!(embed(&engine, &["cat"]).unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(Arc::strong_count(&shared), 1, "neither the encoder nor its batch_runner is left");
}

#[test]
fn a_helper_that_panics_ends_all_calls() {
    let shared = Shared::new(2, |batch| if batch.ids.len() > 40 { panic!("scripted") } else { None });
    let engine = row_by_row(engine(&shared, false));
    std::thread::scope(|scope| {
        let bad = scope.spawn(|| embed(&engine, &["cat ".repeat(50).as_str(); 2]));
        let other = scope.spawn(|| embed(&engine, &["cat ".repeat(50).as_str(); 2]));
        for call in [bad, other] {
            if let Ok(ended) = call.join() {
                assert_eq!(ended.unwrap_err().kind(), ErrorKind::Closed);
            }
        }
    });
    assert_eq!(embed(&engine, &["cat"]).unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn a_step_computes_itself_and_is_bounded() {
    let shared = Shared::new(0, |_| None);
    let mut steps = Steps::new(Arc::new(engine(&shared, false)));
    assert!(steps.step().unwrap().is_empty());
    let sizes = [40, 0, 3, 200, 1, 17];
    for size in sizes {
        steps.add(size.to_string(), asked(size), question(), Call::default()).unwrap();
    }
    let (alone, mut finished) = (with_threads(), Vec::new());
    while steps.unfinished() > 0 {
        let before: usize = shared.lock().by.values().sum();
        finished.extend(steps.step().unwrap());
        let state = shared.lock();
        assert!(state.by.values().sum::<usize>() - before <= 2, "{:?}", state.by);
    }
    assert_eq!(shared.lock().deepest, 1);
    assert_eq!(shared.lock().by.keys().copied().collect::<Vec<_>>(), [std::thread::current().id()]);
    assert_eq!(finished.len(), sizes.len());
    for ended in finished {
        let expected = alone.answer(&asked(ended.id.parse().unwrap()), &question(), &Call::default()).unwrap();
        assert_eq!(ended.answers.unwrap().spans, expected.spans, "{}", ended.id);
    }
}
