//! Hosted calls give the answers of ordinary calls, in whatever order the host returns vectors.

use std::sync::Arc;
use std::time::Duration;

use pullquote_core::encoder::{Batch, Ticket};
use pullquote_core::engine::options::Options;
use pullquote_core::engine::{Answers, Effort, Engine, HostEncoder, Hosted, Pairing, Question, Request};
use pullquote_core::error::ErrorKind;
use pullquote_core::runtime::call::{Call, WorkLimits};
use pullquote_core::text::formats::Format;

use crate::common::{DIMENSION, FakeEncoder, Poison, fake_vectors, highlights, model, word_piece};

fn host_engine(cache_bytes: usize) -> Arc<Engine> {
    let (_folder, model) = model(&word_piece(), 64, ("", ""));
    let encoder = HostEncoder::new("host".to_owned(), DIMENSION, 64, 5000);
    Arc::new(Engine::new(&model, Box::new(encoder), Some(1), cache_bytes).unwrap().stepped())
}

fn ordinary_engine() -> Engine {
    let (_folder, model) = model(&word_piece(), 64, ("", ""));
    Engine::new(&model, Box::new(FakeEncoder::new(1, true, Poison::default())), Some(1), 0).unwrap()
}

fn question(effort: Effort) -> Question {
    Question::new(&Options { effort, ..Options::default() }).unwrap()
}

fn two_queries(sentences: usize) -> Arc<Request<String>> {
    let page = |n: usize| format!("The cat {n} is in the moon. ").repeat(1 + n % 3);
    Arc::new(Request {
        queries: vec!["Where is the cat?".to_owned(), "the bread".to_owned()],
        pages: vec![(0..sentences).map(page).collect(), "Bread is in Paris.".to_owned()],
        formats: vec![Format::Text],
        titles: vec![Some("The moon".to_owned()), Some("Bread".to_owned())],
        pairing: Pairing::All,
    })
}

/// Runs a call to its end. Returns one batch at a time, the last one first. Also gives the most batches at the host.
fn run(mut call: Hosted) -> (Answers, usize) {
    let (mut at_host, mut most): (Vec<(Ticket, Batch)>, usize) = (Vec::new(), 0);
    loop {
        if let Some(answers) = call.advance().unwrap() {
            return (answers, most);
        }
        at_host.extend(call.take_batches());
        most = most.max(at_host.len());
        let (ticket, batch) = at_host.pop().expect("a waiting call has a batch at the host");
        call.return_vectors(ticket, fake_vectors(&batch)).unwrap();
    }
}

#[test]
fn answers_equal_those_of_an_ordinary_call() {
    let (engine, ordinary) = (host_engine(0), ordinary_engine());
    for (effort, sentences, depth) in
        [(Effort::Full, 900, 1), (Effort::Full, 900, 3), (Effort::Auto, 900, 2), (Effort::Auto, 5, 100)]
    {
        let call = <Hosted>::new(Arc::clone(&engine), two_queries(sentences), question(effort), Call::default(), depth);
        let (answers, most) = run(call.unwrap());
        let expected = highlights(&ordinary, &two_queries(sentences), &question(effort), &Call::default()).unwrap();
        assert_eq!(answers.spans, expected.spans);
        assert_eq!(answers.scores, expected.scores);
        assert_eq!(answers.work.tokens, expected.work.tokens);
        assert!(most <= depth, "{most} batches were at the host, of {depth}");
    }
}

#[test]
fn the_page_cache_spans_calls() {
    let engine = host_engine(1 << 20);
    let call =
        || <Hosted>::new(Arc::clone(&engine), two_queries(50), question(Effort::Full), Call::default(), 1).unwrap();
    let (first, _) = run(call());
    let (again, _) = run(call());
    assert_eq!(first.scores, again.scores);
    assert!(first.work.encoded > 0);
    assert_eq!(again.work.encoded, 0);
}

#[test]
fn wrong_vectors_are_errors_and_the_batch_stays_open() {
    let mut call = <Hosted>::new(host_engine(0), two_queries(3), question(Effort::Full), Call::default(), 1).unwrap();
    assert!(call.advance().unwrap().is_none());
    let (ticket, batch) = call.take_batches().remove(0);
    assert_eq!(
        call.return_vectors(Ticket { number: 99, ..ticket }, fake_vectors(&batch)).unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
    assert_eq!(call.return_vectors(ticket, vec![0.0; 3]).unwrap_err().kind(), ErrorKind::Encoder);
    call.return_vectors(ticket, fake_vectors(&batch)).unwrap();
    assert_eq!(call.return_vectors(ticket, fake_vectors(&batch)).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert!(call.advance().unwrap().is_none());
    assert_eq!(call.take_batches().len(), 1);
    assert_eq!(call.progress().rows, batch.lengths.len());
}

#[test]
fn a_nan_vector_ends_its_call() {
    let mut call = <Hosted>::new(host_engine(0), two_queries(3), question(Effort::Full), Call::default(), 1).unwrap();
    call.advance().unwrap();
    let (ticket, batch) = call.take_batches().remove(0);
    call.return_vectors(ticket, vec![f32::NAN; batch.lengths.len() * DIMENSION]).unwrap();
    assert_eq!(call.advance().unwrap_err().kind(), ErrorKind::Encoder);
    assert_eq!(call.advance().unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn limits_deadlines_and_close_end_a_call() {
    let engine = host_engine(0);
    let start = |call| <Hosted>::new(Arc::clone(&engine), two_queries(300), question(Effort::Full), call, 1);
    let few = WorkLimits { windows: Some(10), tokens: None };
    let mut limited = start(Call::default().with_limits(few)).unwrap();
    assert_eq!(limited.advance().unwrap_err().kind(), ErrorKind::LimitExceeded);
    let mut late = start(Call::new(Some(Duration::from_nanos(1)), None)).unwrap();
    assert_eq!(late.advance().unwrap_err().kind(), ErrorKind::DeadlineExceeded);
    assert_eq!(
        <Hosted>::new(Arc::clone(&engine), two_queries(1), question(Effort::Full), Call::default(), 0)
            .err()
            .unwrap()
            .kind(),
        ErrorKind::InvalidArgument
    );
    let mut open = start(Call::default()).unwrap();
    open.advance().unwrap();
    engine.close();
    assert_eq!(open.advance().unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(start(Call::default()).err().unwrap().kind(), ErrorKind::Closed);
}
