//! Vectors of tokens go through the scheduler: in the order of their rows, next to vectors of rows, with the ends of
//! calls.

use std::time::Duration;

use pullquote_core::engine::Engine;
use pullquote_core::error::{ErrorKind, Result};
use pullquote_core::runtime::call::{Call, Stop, WorkLimits};
use pullquote_core::tokens::{Role, Row, RowOptions, TextOrIds, Tokens, TruncationSide};

use crate::common::{DIMENSION, FakeEncoder, Poison, TOKEN_WIDTH, embed, fake_vector, model, word_piece};

/// An engine of two devices, which compute at most 64 tokens at once.
fn engine(encoder: FakeEncoder) -> Engine {
    let (_folder, model) = model(&word_piece(), 64, ("", ""));
    Engine::new(&model, Box::new(encoder), Some(1), 0).unwrap()
}

fn rows(engine: &Engine, texts: &[&str]) -> Vec<Row> {
    let sources: Vec<TextOrIds> = texts.iter().map(|text| TextOrIds::Text(text)).collect();
    let options = RowOptions { max_tokens: 64, side: TruncationSide::Right, adds_special_tokens: true };
    engine.rows(&sources, Role::Passage, &options, &Call::default()).unwrap()
}

fn token_vectors(engine: &Engine, rows: Vec<Row>, call: &Call) -> Result<Vec<f32>> {
    engine.wait(call, engine.token_vectors(rows, call))
}

#[test]
fn token_vectors_are_in_the_order_of_their_rows() {
    let encoder = FakeEncoder::new(2, true, Poison::default()).with_token_vectors();
    let log = encoder.log.clone();
    let engine = engine(encoder);
    let repeated = "cat ".repeat(200);
    let rows = rows(&engine, &["cat", "", &repeated, "cat cat", "cat"]);
    let vectors = token_vectors(&engine, rows.clone(), &Call::default()).unwrap();
    let expected = rows.iter().flat_map(|row| {
        let of_row = fake_vector(&row.ids)[3];
        row.ids.iter().map(move |id| [f32::from(i16::try_from(*id).unwrap()), of_row])
    });
    assert_eq!(vectors, expected.flatten().collect::<Vec<f32>>());
    let lengths: usize = rows.iter().map(|row| row.ids.len()).sum();
    let log = log.lock().unwrap();
    assert!(log.len() > 1 && log.iter().all(|(_, batch)| batch.iter().sum::<u32>() <= 64), "{log:?}");
    assert_eq!(log.iter().flat_map(|(_, batch)| batch).sum::<u32>() as usize, lengths);
    assert_eq!(engine.token_width(), Some(TOKEN_WIDTH));
    assert!(token_vectors(&engine, Vec::new(), &Call::default()).unwrap().is_empty());
}

#[test]
fn token_vectors_and_vectors_of_rows_are_encoded_at_the_same_time() {
    for notifies in [true, false] {
        let engine = engine(FakeEncoder::new(2, notifies, Poison::default()).with_token_vectors());
        let (_folder, model) = model(&word_piece(), 64, ("", ""));
        let tokens = Tokens::read(&model).unwrap();
        std::thread::scope(|scope| {
            for n in 0..12 {
                let (engine, tokens) = (&engine, &tokens);
                scope.spawn(move || {
                    let texts: Vec<String> = (0..40).map(|row| "cat ".repeat(1 + (row * n) % 9)).collect();
                    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
                    for _ in 0..5 {
                        if n % 2 == 0 {
                            let rows = rows(engine, &texts);
                            let ids: Vec<i32> = rows.iter().flat_map(|row| row.ids.clone()).collect();
                            let vectors = token_vectors(engine, rows, &Call::default()).unwrap();
                            let ids = ids.iter().map(|id| f32::from(i16::try_from(*id).unwrap()));
                            assert!(vectors.chunks_exact(TOKEN_WIDTH).map(|vector| vector[0]).eq(ids));
                        } else {
                            let embedded = embed(engine, &texts, Role::Passage, &Call::default()).unwrap();
                            for (text, vector) in texts.iter().zip(embedded.vectors.chunks_exact(DIMENSION)) {
                                assert_eq!(vector, fake_vector(&tokens.text(text, Role::Passage).unwrap().0));
                            }
                        }
                    }
                });
            }
        });
    }
}

#[test]
fn calls_for_token_vectors_end_as_others() {
    let engine = engine(FakeEncoder::new(2, true, Poison::default()).with_token_vectors());
    let rows = rows(&engine, &["cat", "cat cat", "moon"]);
    let kind = |call: &Call| token_vectors(&engine, rows.clone(), call).unwrap_err().kind();
    let few = WorkLimits { tokens: Some(9), ..WorkLimits::default() };
    assert_eq!(kind(&Call::default().with_limits(few)), ErrorKind::LimitExceeded);
    assert_eq!(kind(&Call::new(Some(Duration::from_nanos(1)), None)), ErrorKind::DeadlineExceeded);
    let stop = Stop::default();
    stop.stop();
    assert_eq!(kind(&Call::default().stopped_by(stop)), ErrorKind::Cancelled);
    engine.close();
    assert_eq!(kind(&Call::default()), ErrorKind::Closed);
}

#[test]
fn a_token_vector_that_is_not_finite_fails_its_call_alone() {
    let (_folder, model) = model(&word_piece(), 64, ("", ""));
    let percent = Tokens::read(&model).unwrap().text("%", Role::Query).unwrap().0[1];
    let poison = Poison { nan: Some(percent), ..Poison::default() };
    let engine = engine(FakeEncoder::new(2, true, poison).with_token_vectors());
    std::thread::scope(|scope| {
        for n in 0..20 {
            let engine = &engine;
            scope.spawn(move || {
                let text = if n % 4 == 0 { "The % is red." } else { "The cat is red." };
                let vectors = token_vectors(engine, rows(engine, &[text, "cat"]), &Call::default());
                assert_eq!(vectors.err().map(|error| error.kind()), (n % 4 == 0).then_some(ErrorKind::Encoder));
            });
        }
    });
}

#[test]
fn encoder_without_token_vectors_is_refused() {
    let engine = engine(FakeEncoder::new(2, true, Poison::default()));
    assert_eq!(engine.token_width(), None);
    let refused = token_vectors(&engine, rows(&engine, &["cat"]), &Call::default()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
}
