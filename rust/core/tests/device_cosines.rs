//! Devices that compare rows with queries: the answers are those of vectors, and vectors come only where somebody wants them.

mod common;

use std::sync::{Arc, Mutex};

use common::{DIMENSION, FakeEncoder, Poison, fake_vector, model, question, word_piece};
use pullquote_core::engine::{Answers, Effort, Engine, Pairing, Question, Request};
use pullquote_core::error::{ErrorKind, Result};
use pullquote_core::runtime::call::Call;
use pullquote_core::text::formats::Format;
use pullquote_core::tokens::{Role, Tokens};

/// How many queries each batch had.
type Asked = Arc<Mutex<Vec<usize>>>;

fn engine(encoder: FakeEncoder, cache_bytes: usize) -> (Engine, Asked) {
    let (_folder, model) = model(&word_piece(), 64, ("", ""));
    let asked = Arc::clone(&encoder.scored);
    (Engine::new(&model, Box::new(encoder), Some(2), cache_bytes).unwrap(), asked)
}

fn scoring(cache_bytes: usize) -> (Engine, Asked) {
    engine(FakeEncoder::new(3, true, Poison::default()).scoring(), cache_bytes)
}

fn full() -> Question {
    Question { effort: Effort::Full, ..question() }
}

fn pages(count: usize) -> Vec<String> {
    let sentence = |page: usize, n: usize| format!("The cat {n} of {page} is in the moon. ").repeat(1 + n % 3);
    (0..count).map(|page| (0..=page % 9).map(|n| sentence(page, n)).collect()).collect()
}

fn ask(engine: &Engine, queries: &[&str], pages: &[String], pairing: Pairing) -> Result<Answers> {
    let pages: Vec<&str> = pages.iter().map(String::as_str).collect();
    let request = Request { queries, pages: &pages, formats: &[Format::Text], titles: &[], pairing };
    engine.highlights(&request, &full(), &Call::default())
}

fn assert_same(found: &Answers, expected: &Answers) {
    assert!(!expected.scores.is_empty());
    assert_eq!((&found.spans, &found.pages, &found.queries), (&expected.spans, &expected.pages, &expected.queries));
    let pairs = found.scores.iter().zip(&expected.scores).chain(found.cosines.iter().zip(&expected.cosines));
    for (found, expected) in pairs {
        assert!((found - expected).abs() < 1e-5, "{found} {expected}");
    }
}

#[test]
fn scores_are_those_of_vectors() {
    let (plain, _) = engine(FakeEncoder::new(1, true, Poison::default()), 0);
    for (queries, pairing) in [
        (vec!["Where is the cat?"], Pairing::All),
        (vec!["Where is the cat?", "the moon"], Pairing::All),
        (vec!["the moon", "bread"], Pairing::Each),
    ] {
        let pages = pages(if pairing == Pairing::Each { 2 } else { 40 });
        let (engine, asked) = scoring(0);
        let found = ask(&engine, &queries, &pages, pairing).unwrap();
        assert_same(&found, &ask(&plain, &queries, &pages, pairing).unwrap());
        let asked = asked.lock().unwrap();
        // Those of the queries themselves are the only ones that come as vectors.
        assert!(asked.iter().filter(|count| **count == 0).count() <= queries.len(), "{asked:?}");
        assert!(asked.iter().any(|count| *count >= queries.len()), "{asked:?}");
    }
}

#[test]
fn vectors_come_where_they_are_kept_or_where_scores_would_be_more() {
    let all = pages(20);
    let (keeping, asked) = scoring(1 << 24);
    ask(&keeping, &["Where is the cat?"], &all, Pairing::All).unwrap();
    assert_eq!(asked.lock().unwrap().iter().sum::<usize>(), 0, "they are to be kept");
    // A cache of which one page may fill a quarter: what it has no room for is compared on the devices.
    let (narrow, asked) = scoring(1000);
    ask(&narrow, &["Where is the cat?"], &all, Pairing::All).unwrap();
    assert!(asked.lock().unwrap().iter().any(|count| *count > 0));
    let (many, asked) = scoring(0);
    ask(&many, &["cat", "moon", "bread"], &all, Pairing::All).unwrap();
    assert_eq!(asked.lock().unwrap().iter().sum::<usize>(), 0, "three of 16 values are too many");
}

#[test]
fn callers_of_both_kinds_share_batches() {
    let (plain, _) = engine(FakeEncoder::new(1, true, Poison::default()), 0);
    let (engine, asked) = scoring(0);
    let (_folder, model) = model(&word_piece(), 64, ("", ""));
    let tokens = Tokens::read(&model).unwrap();
    std::thread::scope(|scope| {
        for n in 0..12 {
            let (engine, plain, tokens) = (&engine, &plain, &tokens);
            scope.spawn(move || {
                let query = format!("Where is the cat {n}?");
                for _ in 0..10 {
                    if n % 3 == 0 {
                        let embedded = engine.embed(&["the cat", &query], Role::Passage, &Call::default()).unwrap();
                        let expected = fake_vector(&tokens.alone(&query, Role::Passage).unwrap().0);
                        assert_eq!(embedded.vectors[DIMENSION..], expected);
                    } else {
                        let pages = pages(2 + n);
                        let found = ask(engine, &[&query], &pages, Pairing::All).unwrap();
                        assert_same(&found, &ask(plain, &[&query], &pages, Pairing::All).unwrap());
                    }
                }
            });
        }
    });
    let asked = asked.lock().unwrap();
    let has = |is: fn(&usize) -> bool| asked.iter().any(is);
    assert!(has(|count| *count == 0) && has(|count| *count == 1), "{asked:?}");
}

#[test]
fn a_score_that_is_no_number_fails_its_caller_alone() {
    let (_folder, model) = model(&word_piece(), 64, ("", ""));
    let percent = Tokens::read(&model).unwrap().alone("%", Role::Query).unwrap().0[1];
    let poison = Poison { nan: Some(percent), ..Poison::default() };
    let (engine, _) = engine(FakeEncoder::new(2, true, poison).scoring(), 0);
    std::thread::scope(|scope| {
        for n in 0..20 {
            let engine = &engine;
            scope.spawn(move || {
                let page = if n % 4 == 0 { "The % is red. Bread is good." } else { "The cat is red. Bread is good." };
                let answer = ask(engine, &["cat"], &[page.to_owned()], Pairing::All);
                assert_eq!(answer.err().map(|error| error.kind()), (n % 4 == 0).then_some(ErrorKind::Encoder));
            });
        }
    });
}
