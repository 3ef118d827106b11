//! Pairs: each is emitted once, in order, with the answer of a call of its own.

use std::cell::RefCell;

use pullquote_core::engine::options::Options;
use pullquote_core::engine::{Answers, Effort, Engine, Pair, Pairing, Question};
use pullquote_core::error::{Error, ErrorKind, Result};
use pullquote_core::highlights::{Bounds, Dedupe, Order};
use pullquote_core::ranking::relevance::LexicalWeight;
use pullquote_core::runtime::call::{Call, Stop};
use pullquote_core::text::formats::Format;
use pullquote_core::text::pieces::{Unit, Windows};
use pullquote_core::tokens::{Role, Tokens};

use crate::common::{FakeEncoder, Poison, highlights, model, request, word_piece};

fn engine(poison: Poison) -> Engine {
    let (_folder, model) = model(&word_piece(), 64, ("", ""));
    Engine::new(&model, Box::new(FakeEncoder::new(2, true, poison)), Some(2), 0).unwrap()
}

fn question() -> Question {
    Question {
        rerank_top: 0,
        likely_windows: None,
        unit: Unit::Sentence,
        windows: Windows::new(2, 1, false).unwrap(),
        expand: true,
        lexical_weight: LexicalWeight::Auto,
        effort: Effort::Auto,
        context: 0,
        explain: false,
        bounds: Bounds::new(&Options { top_k: Some(4), ..Options::default() }, Order::Score, Dedupe::Page).unwrap(),
    }
}

/// One pair's spans, scores as bits, byte spans and number of windows.
type PairAnswer = (Vec<i64>, Vec<u32>, Vec<i64>, i64);

fn answer_of(answers: &Answers, pair: usize) -> PairAnswer {
    let end = |pair: usize| usize::try_from(answers.ends[pair]).unwrap();
    let rows = if pair == 0 { 0 } else { end(pair - 1) }..end(pair);
    let spans = 2 * rows.start..2 * rows.end;
    let scores = answers.scores[rows].iter().map(|score| score.to_bits()).collect();
    (answers.spans[spans.clone()].to_vec(), scores, answers.byte_spans[spans].to_vec(), answers.windows[pair])
}

fn highlights_of_pairs(engine: &Engine, pairs: &[Pair], call: &Call) -> Result<Vec<Result<PairAnswer>>> {
    let mut emitted: Vec<Result<PairAnswer>> = Vec::new();
    engine.highlights_of_pairs(pairs, Format::Text, &question(), call, &mut |range, answers| {
        assert_eq!(range.start, emitted.len(), "pairs are emitted in order");
        match answers {
            Ok(answers) => emitted.extend((0..range.len()).map(|pair| Ok(answer_of(&answers, pair)))),
            Err(error) => {
                assert_eq!(range.len(), 1);
                emitted.push(Err(error));
            }
        }
        Ok(())
    })?;
    Ok(emitted)
}

fn alone(engine: &Engine, pair: Pair) -> PairAnswer {
    let (queries, pages) = ([pair.query], [pair.page]);
    let request = request(&queries, &pages, Pairing::All);
    answer_of(&highlights(engine, &request, &question(), &Call::default()).unwrap(), 0)
}

#[test]
fn thousands_of_pairs_are_answered_as_each_alone() {
    let engine = engine(Poison::default());
    let pages: Vec<String> =
        (0..5000).map(|n| format!("Das Haus {n} – ist. The cat {n} is in the moon. ").repeat(n % 4)).collect();
    let pairs: Vec<Pair> =
        pages.iter().enumerate().map(|(n, page)| Pair { query: ["cat", "Haus moon"][n % 2], page }).collect();
    let emitted = highlights_of_pairs(&engine, &pairs, &Call::default()).unwrap();
    assert_eq!(emitted.len(), pairs.len());
    for (pair, answer) in pairs.iter().zip(emitted).step_by(37) {
        assert_eq!(answer.unwrap(), alone(&engine, *pair));
    }
}

#[test]
fn a_pairs_error_is_emitted_in_its_place() {
    let (_folder, model) = model(&word_piece(), 64, ("", ""));
    let percent = Tokens::read(&model).unwrap().text("%", Role::Query).unwrap().0[1];
    let engine = engine(Poison { reject: Some(percent), nan: None });
    let pages = ["The cat is in.", "The % moon. The cat.", "Das Haus."];
    let pairs: Vec<Pair> =
        (0..60).map(|n| Pair { query: if n % 7 == 0 { " " } else { "cat" }, page: pages[n % 3] }).collect();
    let emitted = highlights_of_pairs(&engine, &pairs, &Call::default()).unwrap();
    for (n, (pair, answer)) in pairs.iter().zip(emitted).enumerate() {
        match answer {
            Ok(answer) => assert_eq!(answer, alone(&engine, *pair)),
            Err(error) => {
                let expected = if n % 7 == 0 { ErrorKind::InvalidArgument } else { ErrorKind::Encoder };
                assert_eq!((error.kind(), n % 7 == 0 || n % 3 == 1), (expected, true), "{n}");
            }
        }
    }
}

#[test]
fn stop_close_and_an_error_of_the_callback_end_the_call() {
    let engine = engine(Poison::default());
    let pairs = [Pair { query: "cat", page: "The cat is in." }; 3];
    let stop = Stop::default();
    stop.stop();
    let stopped = highlights_of_pairs(&engine, &pairs, &Call::default().stopped_by(stop)).unwrap_err();
    assert_eq!(stopped.kind(), ErrorKind::Cancelled);
    let calls = RefCell::new(0);
    let mut emit = |_, _| {
        *calls.borrow_mut() += 1;
        Err(Error::new(ErrorKind::StoreFull, "no more"))
    };
    let error = engine.highlights_of_pairs(&pairs, Format::Text, &question(), &Call::default(), &mut emit).unwrap_err();
    assert_eq!((error.kind(), calls.into_inner()), (ErrorKind::StoreFull, 1));
    engine.close();
    assert_eq!(highlights_of_pairs(&engine, &pairs, &Call::default()).unwrap_err().kind(), ErrorKind::Closed);
}
