//! Hosted calls: the answers of an ordinary one, whatever the order in which a host brings vectors.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{DIMENSION, FakeEncoder, Poison, fake_vector, model, word_piece};
use pullquote_core::encoder::{Batch, Ticket};
use pullquote_core::engine::options::Options;
use pullquote_core::engine::{Answers, Effort, Engine, HostEncoder, Hosted, OwnedRequest, Pairing, Question};
use pullquote_core::error::ErrorKind;
use pullquote_core::runtime::call::{Allowance, Call};
use pullquote_core::text::formats::Format;

fn hosting(cache_bytes: usize) -> Arc<Engine> {
    let (_folder, model) = model(&word_piece(), 64, ("", ""));
    let encoder = HostEncoder::new("host".to_owned(), DIMENSION, 64, 5000);
    Arc::new(Engine::new(&model, Box::new(encoder), Some(1), cache_bytes).unwrap().driven_by_callers())
}

fn ordinary() -> Engine {
    let (_folder, model) = model(&word_piece(), 64, ("", ""));
    Engine::new(&model, Box::new(FakeEncoder::new(1, true, Poison::default())), Some(1), 0).unwrap()
}

fn question(effort: Effort) -> Question {
    Options { effort, ..Options::default() }.question().unwrap()
}

fn asked(sentences: usize) -> OwnedRequest<String> {
    let page = |n: usize| format!("The cat {n} is in the moon. ").repeat(1 + n % 3);
    OwnedRequest {
        queries: vec!["Where is the cat?".to_owned(), "the bread".to_owned()],
        pages: vec![(0..sentences).map(page).collect(), "Bread is in Paris.".to_owned()],
        formats: vec![Format::Text],
        titles: vec![Some("The moon".to_owned()), Some("Bread".to_owned())],
        pairing: Pairing::All,
    }
}

fn vectors(batch: &Batch) -> Vec<f32> {
    let mut ids = batch.ids.as_slice();
    let row = |length: &u32| {
        let (row, rest) = ids.split_at(*length as usize);
        ids = rest;
        fake_vector(row)
    };
    batch.lengths.iter().flat_map(row).collect()
}

/// Runs a call to its end, bringing one batch at a time, the last one first; with how many went out at once, and how often.
fn run(mut call: Hosted) -> (Answers, usize, usize) {
    let (mut waiting, mut most, mut rounds): (Vec<(Ticket, Batch)>, usize, usize) = (Vec::new(), 0, 0);
    loop {
        if let Some(answers) = call.advance().unwrap() {
            return (answers, most, rounds);
        }
        waiting.extend(call.take());
        most = most.max(waiting.len());
        rounds += 1;
        let (ticket, batch) = waiting.pop().expect("what waits, waits for batches that are out");
        call.give(ticket, vectors(&batch)).unwrap();
    }
}

#[test]
fn answers_are_those_of_an_ordinary_call() {
    let (engine, alone) = (hosting(0), ordinary());
    for (effort, sentences, depth) in
        [(Effort::Full, 900, 1), (Effort::Full, 900, 3), (Effort::Auto, 900, 2), (Effort::Auto, 5, 100)]
    {
        let call = Hosted::new(Arc::clone(&engine), asked(sentences), question(effort), Call::default(), depth);
        let (answers, most, _) = run(call.unwrap());
        let expected = alone.answer(&asked(sentences), &question(effort), &Call::default()).unwrap();
        assert_eq!(answers.spans, expected.spans);
        assert_eq!(answers.scores, expected.scores);
        assert_eq!(answers.work.tokens, expected.work.tokens);
        assert!(most <= depth, "{most} batches were out, of {depth}");
    }
}

#[test]
fn what_was_read_and_encoded_is_kept_between_calls() {
    let engine = hosting(1 << 20);
    let call = || Hosted::new(Arc::clone(&engine), asked(50), question(Effort::Full), Call::default(), 1).unwrap();
    let (first, ..) = run(call());
    let (again, ..) = run(call());
    assert_eq!(first.scores, again.scores);
    assert!(first.work.encoded > 0);
    assert_eq!(again.work.encoded, 0);
}

#[test]
fn what_does_not_fit_is_refused_and_still_wanted() {
    let mut call = Hosted::new(hosting(0), asked(3), question(Effort::Full), Call::default(), 1).unwrap();
    assert!(call.advance().unwrap().is_none());
    let (ticket, batch) = call.take().remove(0);
    assert_eq!(call.give(Ticket(99), vectors(&batch)).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(call.give(ticket, vec![0.0; 3]).unwrap_err().kind(), ErrorKind::Encoder);
    call.give(ticket, vectors(&batch)).unwrap();
    assert_eq!(call.give(ticket, vectors(&batch)).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert!(call.advance().unwrap().is_none());
    assert_eq!(call.take().len(), 1);
    assert_eq!(call.done().rows, batch.lengths.len());
}

#[test]
fn a_vector_that_is_no_number_ends_its_call() {
    let mut call = Hosted::new(hosting(0), asked(3), question(Effort::Full), Call::default(), 1).unwrap();
    call.advance().unwrap();
    let (ticket, batch) = call.take().remove(0);
    call.give(ticket, vec![f32::NAN; batch.lengths.len() * DIMENSION]).unwrap();
    assert_eq!(call.advance().unwrap_err().kind(), ErrorKind::Encoder);
    assert_eq!(call.advance().unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn limits_deadlines_and_the_end_of_the_engine_end_it() {
    let engine = hosting(0);
    let start = |call| Hosted::new(Arc::clone(&engine), asked(300), question(Effort::Full), call, 1);
    let few = Allowance { windows: Some(10), tokens: None };
    let mut limited = start(Call::default().within(few)).unwrap();
    limited.advance().unwrap();
    let (ticket, batch) = limited.take().remove(0);
    limited.give(ticket, vectors(&batch)).unwrap();
    let ended = loop {
        match limited.advance() {
            Ok(_) => {
                let (ticket, batch) = limited.take().remove(0);
                limited.give(ticket, vectors(&batch)).unwrap();
            }
            Err(error) => break error,
        }
    };
    assert_eq!(ended.kind(), ErrorKind::LimitExceeded);
    let mut late = start(Call::new(Some(Duration::from_nanos(1)), None)).unwrap();
    assert_eq!(late.advance().unwrap_err().kind(), ErrorKind::DeadlineExceeded);
    assert_eq!(
        Hosted::new(Arc::clone(&engine), asked(1), question(Effort::Full), Call::default(), 0).err().unwrap().kind(),
        ErrorKind::InvalidArgument
    );
    let mut open = start(Call::default()).unwrap();
    open.advance().unwrap();
    engine.close();
    assert_eq!(open.advance().unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(start(Call::default()).err().unwrap().kind(), ErrorKind::Closed);
}
