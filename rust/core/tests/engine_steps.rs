//! The engine in steps: the answers of calls, steps of bounded length, and limits on each request.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use pullquote_core::encoder::{Batch, Collected, DeviceSpec, Encoder, EncoderSpec, Ticket, Waker};
use pullquote_core::engine::{Engine, Finished, Steps};
use pullquote_core::error::{ErrorKind, Result};
use pullquote_core::runtime::call::{Call, WorkLimits};

use crate::common::{
    DIMENSION, FakeEncoder, Poison, fake_vectors, highlights, model, owned_request, question, word_piece,
};

fn engine(encoder: FakeEncoder) -> Engine {
    let (_folder, model) = model(&word_piece(), 64, ("", ""));
    Engine::new(&model, Box::new(encoder), Some(1), 0).unwrap()
}

fn steps(devices: usize, notifies: bool) -> Steps {
    <Steps>::new(Arc::new(engine(FakeEncoder::new(devices, notifies, Poison::default())).stepped()))
}

fn add(steps: &mut Steps, id: &str, sentences: usize, call: Call<'static>) {
    steps.add(id.to_owned(), owned_request(sentences), question(), call).unwrap();
}

fn run(steps: &mut Steps) -> Vec<Finished> {
    let mut finished = Vec::new();
    while steps.unfinished() > 0 {
        finished.extend(steps.step().unwrap());
    }
    finished
}

#[test]
fn answers_equal_those_of_calls() {
    for (devices, notifies) in [(1, true), (3, true), (1, false), (2, false)] {
        let mut steps = steps(devices, notifies);
        let sizes = [40, 0, 3, 200, 1, 17];
        for size in sizes {
            add(&mut steps, &size.to_string(), size, Call::default());
        }
        let alone = engine(FakeEncoder::new(1, true, Poison::default()));
        let finished = run(&mut steps);
        assert_eq!(finished.len(), sizes.len());
        for Finished { id, output: answers, progress } in finished {
            let expected =
                highlights(&alone, &owned_request(id.parse().unwrap()), &question(), &Call::default()).unwrap();
            let answers = answers.unwrap();
            assert_eq!(answers.spans, expected.spans, "{id}");
            assert_eq!(answers.scores, expected.scores, "{id}");
            assert_eq!((progress.windows, progress.tokens), (answers.work.windows, answers.work.tokens), "{id}");
        }
    }
}

#[test]
fn a_step_without_requests_returns_at_once_and_aborted_requests_never_finish() {
    let mut steps = steps(1, true);
    let began = Instant::now();
    for _ in 0..1000 {
        assert!(steps.step().unwrap().is_empty());
    }
    assert!(began.elapsed() < Duration::from_secs(1));
    add(&mut steps, "a", 50, Call::default());
    add(&mut steps, "b", 2, Call::default());
    steps.step().unwrap();
    steps.abort(&["a".to_owned(), "unknown".to_owned()]);
    let finished = run(&mut steps);
    assert!(finished.iter().all(|finished| finished.id == "b"));
}

#[test]
fn an_id_names_one_unfinished_request() {
    let mut steps = steps(1, true);
    add(&mut steps, "a", 1, Call::default());
    let again = steps.add("a".to_owned(), owned_request(1), question(), Call::default());
    assert_eq!(again.unwrap_err().kind(), ErrorKind::InvalidArgument);
    run(&mut steps);
    add(&mut steps, "a", 1, Call::default());
    assert_eq!(run(&mut steps).len(), 1);
}

#[test]
fn the_request_with_the_lowest_priority_finishes_first() {
    let mut steps = steps(1, false);
    for (id, priority) in [("late", 5), ("urgent", -1), ("usual", 0)] {
        steps.add(id.to_owned(), owned_request(30), question(), Call::default().with_priority(priority)).unwrap();
    }
    assert_eq!(run(&mut steps)[0].id, "urgent");
}

#[test]
fn exceeding_a_limit_ends_one_request_and_reports_its_progress() {
    let mut steps = steps(1, true);
    let limited = |windows, tokens| Call::default().with_limits(WorkLimits { windows, tokens });
    add(&mut steps, "windows", 100, limited(Some(50), None));
    add(&mut steps, "tokens", 100, limited(None, Some(100)));
    add(&mut steps, "time", 100, Call::new(Some(Duration::from_nanos(1)), None));
    add(&mut steps, "enough", 100, limited(Some(10_000), Some(1_000_000)));
    let finished = run(&mut steps);
    let request = |id: &str| finished.iter().find(|finished| finished.id == id).unwrap();
    let kind = |id: &str| request(id).output.as_ref().err().map(pullquote_core::error::Error::kind);
    assert_eq!(kind("enough"), None);
    assert_eq!(kind("time"), Some(ErrorKind::DeadlineExceeded));
    assert_eq!((kind("windows"), kind("tokens")), (Some(ErrorKind::LimitExceeded), Some(ErrorKind::LimitExceeded)));
    let (windows, tokens) = (request("windows").progress, request("tokens").progress);
    assert!(windows.windows > 50 && windows.rows == 0, "{windows:?}");
    assert!(tokens.tokens <= 100 && tokens.tokens > 0, "{tokens:?}");
}

#[test]
fn close_ends_unfinished_requests() {
    let engine = Arc::new(engine(FakeEncoder::new(1, true, Poison::default())).stepped());
    let mut steps = <Steps>::new(Arc::clone(&engine));
    add(&mut steps, "a", 100, Call::default());
    steps.step().unwrap();
    engine.close();
    let finished = run(&mut steps);
    assert_eq!(finished[0].output.as_ref().unwrap_err().kind(), ErrorKind::Closed);
    let rejected = steps.add("b".to_owned(), owned_request(1), question(), Call::default());
    assert_eq!(rejected.unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn calls_outside_steps_are_refused() {
    let engine = Arc::new(engine(FakeEncoder::new(2, true, Poison::default())).stepped());
    let refused = highlights(&engine, &owned_request(1), &question(), &Call::default()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert_eq!(engine.spawn(async {}).err().map(|error| error.kind()), Some(ErrorKind::InvalidArgument));
}

/// Computes in `collect`, as an encoder without threads does.
struct InlineEncoder {
    spec: EncoderSpec,
    submitted: HashMap<Ticket, Batch>,
    next: u64,
    /// The thread of each computed batch.
    threads: Arc<Mutex<Vec<ThreadId>>>,
}

impl Encoder for InlineEncoder {
    fn spec(&self) -> &EncoderSpec {
        &self.spec
    }

    fn set_waker(&mut self, _: Waker) {}

    fn submit(&mut self, device: usize, batch: &Batch) -> Result<Ticket> {
        self.next += 1;
        let ticket = Ticket { device, number: self.next };
        self.submitted.insert(ticket, batch.clone());
        Ok(ticket)
    }

    fn is_finished(&mut self, _: Ticket) -> bool {
        true
    }

    fn collect(&mut self, ticket: Ticket, receive: &mut dyn FnMut(Cow<'_, [f32]>)) -> Result<Collected> {
        self.threads.lock().unwrap().push(std::thread::current().id());
        receive(Cow::Owned(fake_vectors(&self.submitted.remove(&ticket).unwrap())));
        Ok(Collected::default())
    }
}

#[test]
fn a_step_computes_at_most_two_batches_on_the_hosts_thread() {
    let mut spec = EncoderSpec::new("test", DIMENSION, 64, 5000, vec![DeviceSpec::new("inline".to_owned(), 1, 64)]);
    spec.capabilities.notifies = false;
    let threads = Arc::default();
    let encoder = InlineEncoder { spec, submitted: HashMap::new(), next: 0, threads: Arc::clone(&threads) };
    let (_folder, model) = model(&word_piece(), 64, ("", ""));
    let engine = Engine::new(&model, Box::new(encoder), Some(1), 0).unwrap().stepped();
    let mut steps = <Steps>::new(Arc::new(engine));
    let sizes = [40, 0, 3, 200, 1, 17];
    for size in sizes {
        add(&mut steps, &size.to_string(), size, Call::default());
    }
    let mut finished = Vec::new();
    while steps.unfinished() > 0 {
        let before = threads.lock().unwrap().len();
        finished.extend(steps.step().unwrap());
        assert!(threads.lock().unwrap().len() - before <= 2);
    }
    assert!(threads.lock().unwrap().iter().all(|thread| *thread == std::thread::current().id()));
    assert_eq!(finished.len(), sizes.len());
    assert!(finished.iter().all(|finished| finished.output.is_ok()));
}
