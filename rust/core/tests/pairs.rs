//! Pairs: each is told of once, in order, as if it had been asked alone.

mod common;

use std::cell::RefCell;

use common::{FakeEncoder, Poison, model, word_piece};
use pullquote_core::engine::{Answers, Effort, Engine, Pair, Pairing, Question, Request};
use pullquote_core::error::{Error, ErrorKind, Result};
use pullquote_core::highlights::{Bounds, Dedupe, Limits, Order};
use pullquote_core::ranking::relevance::LexicalWeight;
use pullquote_core::runtime::call::{Call, Stop};
use pullquote_core::text::formats::Format;
use pullquote_core::text::pieces::{Unit, Windows};
use pullquote_core::tokens::{Role, Tokens};

fn engine(poison: Poison) -> Engine {
    let (_folder, model) = model(&word_piece(), 64, ("", ""));
    Engine::new(&model, Box::new(FakeEncoder::new(2, true, poison)), Some(2), 0).unwrap()
}

fn question() -> Question {
    Question {
        unit: Unit::Sentence,
        windows: Windows::new(2, 1, false).unwrap(),
        expand: true,
        lexical_weight: LexicalWeight::Auto,
        effort: Effort::Auto,
        context: 0,
        explain: false,
        bounds: Bounds::new(&Limits { top_k: Some(4), ..Limits::default() }, Order::Score, Dedupe::Page).unwrap(),
    }
}

/// What was found for a pair: spans, scores to the bit, bytes and pieces.
type Found = (Vec<i64>, Vec<u32>, Vec<i64>, i64);

fn of_answer(answers: &Answers, place: usize) -> Found {
    let row = |place: usize| usize::try_from(answers.ends[place]).unwrap();
    let rows = if place == 0 { 0 } else { row(place - 1) }..row(place);
    let spans = 2 * rows.start..2 * rows.end;
    let scores = answers.scores[rows].iter().map(|score| score.to_bits()).collect();
    (answers.spans[spans.clone()].to_vec(), scores, answers.byte_spans[spans].to_vec(), answers.windows[place])
}

fn ask(engine: &Engine, pairs: &[Pair], call: &Call) -> Result<Vec<Result<Found>>> {
    let mut told: Vec<Result<Found>> = Vec::new();
    engine.answer_pairs(pairs, Format::Text, &question(), call, &mut |range, answers| {
        assert_eq!(range.start, told.len(), "pairs are told of in their order");
        match answers {
            Ok(answers) => told.extend((0..range.len()).map(|place| Ok(of_answer(&answers, place)))),
            Err(error) => {
                assert_eq!(range.len(), 1);
                told.push(Err(error));
            }
        }
        Ok(())
    })?;
    Ok(told)
}

fn alone(engine: &Engine, pair: Pair) -> Found {
    let (queries, pages) = ([pair.query], [pair.page]);
    let request =
        Request { queries: &queries, pages: &pages, formats: &[Format::Text], titles: &[], pairing: Pairing::All };
    of_answer(&engine.highlights(&request, &question(), &Call::default()).unwrap(), 0)
}

#[test]
fn thousands_of_pairs_are_answered_as_each_alone() {
    let engine = engine(Poison::default());
    let pages: Vec<String> =
        (0..5000).map(|n| format!("Das Haus {n} – ist. The cat {n} is in the moon. ").repeat(n % 4)).collect();
    let pairs: Vec<Pair> =
        pages.iter().enumerate().map(|(n, page)| Pair { query: ["cat", "Haus moon"][n % 2], page }).collect();
    let told = ask(&engine, &pairs, &Call::default()).unwrap();
    assert_eq!(told.len(), pairs.len());
    for (pair, told) in pairs.iter().zip(told).step_by(37) {
        assert_eq!(told.unwrap(), alone(&engine, *pair));
    }
}

#[test]
fn what_is_wrong_with_a_pair_is_told_in_its_place() {
    let (_folder, model) = model(&word_piece(), 64, ("", ""));
    let percent = Tokens::read(&model).unwrap().alone("%", Role::Query).unwrap().0[1];
    let engine = engine(Poison { refuse: Some(percent), nan: None });
    let pages = ["The cat is in.", "The % moon. The cat.", "Das Haus."];
    let pairs: Vec<Pair> =
        (0..60).map(|n| Pair { query: if n % 7 == 0 { " " } else { "cat" }, page: pages[n % 3] }).collect();
    let told = ask(&engine, &pairs, &Call::default()).unwrap();
    for (n, (pair, told)) in pairs.iter().zip(told).enumerate() {
        match told {
            Ok(told) => assert_eq!(told, alone(&engine, *pair)),
            Err(error) => {
                let expected = if n % 7 == 0 { ErrorKind::InvalidArgument } else { ErrorKind::Encoder };
                assert_eq!((error.kind(), n % 7 == 0 || n % 3 == 1), (expected, true), "{n}");
            }
        }
    }
}

#[test]
fn what_ends_the_call_ends_all_of_it() {
    let engine = engine(Poison::default());
    let pairs = [Pair { query: "cat", page: "The cat is in." }; 3];
    let stop = Stop::default();
    stop.stop();
    let stopped = ask(&engine, &pairs, &Call::default().stopped_by(stop)).unwrap_err();
    assert_eq!(stopped.kind(), ErrorKind::Cancelled);
    let told = RefCell::new(0);
    let mut full = |_, _| {
        *told.borrow_mut() += 1;
        Err(Error::new(ErrorKind::StoreFull, "no more"))
    };
    let ended = engine.answer_pairs(&pairs, Format::Text, &question(), &Call::default(), &mut full).unwrap_err();
    assert_eq!((ended.kind(), told.into_inner()), (ErrorKind::StoreFull, 1));
    engine.close();
    assert_eq!(ask(&engine, &pairs, &Call::default()).unwrap_err().kind(), ErrorKind::Closed);
}
