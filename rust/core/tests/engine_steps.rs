//! The engine a step at a time: the answers of a call, bounded steps, and an end for whoever takes too much.

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{FakeEncoder, Poison, asked, model, question, word_piece};
use pullquote_core::engine::{Engine, Finished, Steps};
use pullquote_core::error::ErrorKind;
use pullquote_core::runtime::call::{Allowance, Call};

fn engine(encoder: FakeEncoder) -> Engine {
    let (_folder, model) = model(&word_piece(), 64, ("", ""));
    Engine::new(&model, Box::new(encoder), Some(1), 0).unwrap()
}

fn steps(devices: usize, notifies: bool) -> Steps {
    Steps::new(Arc::new(engine(FakeEncoder::new(devices, notifies, Poison::default())).driven_by_callers()))
}

fn add(steps: &mut Steps, id: &str, sentences: usize, call: Call<'static>) {
    steps.add(id.to_owned(), asked(sentences), question(), call).unwrap();
}

fn run(steps: &mut Steps) -> Vec<Finished> {
    let mut finished = Vec::new();
    while steps.unfinished() > 0 {
        finished.extend(steps.step().unwrap());
    }
    finished
}

#[test]
fn answers_are_those_of_a_call() {
    for (devices, notifies) in [(1, true), (3, true), (1, false), (2, false)] {
        let mut steps = steps(devices, notifies);
        let sizes = [40, 0, 3, 200, 1, 17];
        for size in sizes {
            add(&mut steps, &size.to_string(), size, Call::default());
        }
        let alone = engine(FakeEncoder::new(1, true, Poison::default()));
        let finished = run(&mut steps);
        assert_eq!(finished.len(), sizes.len());
        for Finished { id, answers, done } in finished {
            let expected = alone.answer(&asked(id.parse().unwrap()), &question(), &Call::default()).unwrap();
            let answers = answers.unwrap();
            assert_eq!(answers.spans, expected.spans, "{id}");
            assert_eq!(answers.scores, expected.scores, "{id}");
            assert_eq!((done.windows, done.tokens), (answers.work.windows, answers.work.tokens), "{id}");
        }
    }
}

#[test]
fn an_empty_engine_returns_at_once_and_what_was_aborted_is_not_heard_of() {
    let mut steps = steps(1, true);
    let began = Instant::now();
    for _ in 0..1000 {
        assert!(steps.step().unwrap().is_empty());
    }
    assert!(began.elapsed() < Duration::from_secs(1));
    add(&mut steps, "a", 50, Call::default());
    add(&mut steps, "b", 2, Call::default());
    steps.step().unwrap();
    steps.abort(&["a".to_owned(), "nobody".to_owned()]);
    let finished = run(&mut steps);
    assert!(finished.iter().all(|finished| finished.id == "b"));
}

#[test]
fn a_name_stands_for_one_request_at_a_time() {
    let mut steps = steps(1, true);
    add(&mut steps, "a", 1, Call::default());
    let again = steps.add("a".to_owned(), asked(1), question(), Call::default());
    assert_eq!(again.unwrap_err().kind(), ErrorKind::InvalidArgument);
    run(&mut steps);
    add(&mut steps, "a", 1, Call::default());
    assert_eq!(run(&mut steps).len(), 1);
}

#[test]
fn the_more_urgent_request_ends_first() {
    let mut steps = steps(1, false);
    for (id, priority) in [("late", 5), ("urgent", -1), ("usual", 0)] {
        steps.add(id.to_owned(), asked(30), question(), Call::default().with_priority(priority)).unwrap();
    }
    assert_eq!(run(&mut steps)[0].id, "urgent");
}

#[test]
fn going_over_a_limit_ends_one_request_and_says_what_was_done() {
    let mut steps = steps(1, true);
    let within = |windows, tokens| Call::default().within(Allowance { windows, tokens });
    add(&mut steps, "many windows", 100, within(Some(50), None));
    add(&mut steps, "tokens", 100, within(None, Some(100)));
    add(&mut steps, "time", 100, Call::new(Some(Duration::from_nanos(1)), None));
    add(&mut steps, "enough", 100, within(Some(10_000), Some(1_000_000)));
    let mut finished = run(&mut steps);
    finished.sort_by(|a, b| a.id.cmp(&b.id));
    let kind = |place: usize| finished[place].answers.as_ref().err().map(pullquote_core::error::Error::kind);
    assert_eq!(kind(0), None);
    assert_eq!(kind(1), Some(ErrorKind::LimitExceeded));
    assert!(finished[1].done.windows > 50 && finished[1].done.rows == 1, "{:?}", finished[1].done);
    assert_eq!(kind(2), Some(ErrorKind::DeadlineExceeded));
    assert_eq!(kind(3), Some(ErrorKind::LimitExceeded));
    assert!(finished[3].done.tokens <= 100 && finished[3].done.tokens > 0, "{:?}", finished[3].done);
}

#[test]
fn closing_ends_what_is_unfinished() {
    let engine = Arc::new(engine(FakeEncoder::new(1, true, Poison::default())).driven_by_callers());
    let mut steps = Steps::new(Arc::clone(&engine));
    add(&mut steps, "a", 100, Call::default());
    steps.step().unwrap();
    engine.close();
    let finished = run(&mut steps);
    assert_eq!(finished[0].answers.as_ref().unwrap_err().kind(), ErrorKind::Closed);
    let refused = steps.add("b".to_owned(), asked(1), question(), Call::default());
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn callers_of_an_engine_without_threads_drive_it_in_turn() {
    let engine = engine(FakeEncoder::new(2, true, Poison::default())).driven_by_callers();
    let expected = engine.answer(&asked(40), &question(), &Call::default()).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let answers = engine.answer(&asked(40), &question(), &Call::default()).unwrap();
                    assert_eq!(answers.spans, expected.spans);
                }
            });
        }
    });
}
