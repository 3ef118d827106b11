//! The engine in steps: the answers of calls, steps of bounded length, and limits on each request.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pullquote_core::engine::{Engine, Finished, Steps};
use pullquote_core::error::ErrorKind;
use pullquote_core::runtime::call::{Call, WorkLimits};

use crate::common::{FakeEncoder, Poison, highlights, model, owned_request, question, word_piece};

fn engine(encoder: FakeEncoder) -> Engine {
    let (_folder, model) = model(&word_piece(), 64, ("", ""));
    Engine::new(&model, Box::new(encoder), Some(1), 0).unwrap()
}

fn steps(devices: usize, notifies: bool) -> Steps {
    Steps::new(Arc::new(engine(FakeEncoder::new(devices, notifies, Poison::default())).driven_by_callers()))
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
        for Finished { id, answers, progress } in finished {
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
    let kind = |id: &str| request(id).answers.as_ref().err().map(pullquote_core::error::Error::kind);
    assert_eq!(kind("enough"), None);
    assert_eq!(kind("time"), Some(ErrorKind::DeadlineExceeded));
    assert_eq!((kind("windows"), kind("tokens")), (Some(ErrorKind::LimitExceeded), Some(ErrorKind::LimitExceeded)));
    let (windows, tokens) = (request("windows").progress, request("tokens").progress);
    assert!(windows.windows > 50 && windows.rows == 1, "{windows:?}");
    assert!(tokens.tokens <= 100 && tokens.tokens > 0, "{tokens:?}");
}

#[test]
fn close_ends_unfinished_requests() {
    let engine = Arc::new(engine(FakeEncoder::new(1, true, Poison::default())).driven_by_callers());
    let mut steps = Steps::new(Arc::clone(&engine));
    add(&mut steps, "a", 100, Call::default());
    steps.step().unwrap();
    engine.close();
    let finished = run(&mut steps);
    assert_eq!(finished[0].answers.as_ref().unwrap_err().kind(), ErrorKind::Closed);
    let rejected = steps.add("b".to_owned(), owned_request(1), question(), Call::default());
    assert_eq!(rejected.unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn callers_of_an_engine_without_threads_take_turns_as_its_scheduler() {
    let engine = engine(FakeEncoder::new(2, true, Poison::default())).driven_by_callers();
    let expected = highlights(&engine, &owned_request(40), &question(), &Call::default()).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let answers = highlights(&engine, &owned_request(40), &question(), &Call::default()).unwrap();
                    assert_eq!(answers.spans, expected.spans);
                }
            });
        }
    });
}
