//! Devices that compute cosines: answers equal those from vectors, and vectors return only where a job or the cache
//! needs them.

use std::sync::{Arc, Mutex};

use pullquote_core::engine::{Answers, Effort, Engine, Pairing, Question};
use pullquote_core::error::{ErrorKind, Result};
use pullquote_core::runtime::call::Call;
use pullquote_core::tokens::{Role, Tokens};

use crate::common::{
    DIMENSION, FakeEncoder, Poison, embed, fake_vector, highlights, model, question, request, word_piece,
};

/// The number of queries of each batch.
type QueryCounts = Arc<Mutex<Vec<usize>>>;

fn engine(encoder: FakeEncoder, cache_bytes: usize) -> (Engine, QueryCounts) {
    let (_folder, model) = model(&word_piece(), 64, ("", ""));
    let counts = Arc::clone(&encoder.query_counts);
    (Engine::new(&model, Box::new(encoder), Some(2), cache_bytes).unwrap(), counts)
}

fn engine_with_cosines(cache_bytes: usize) -> (Engine, QueryCounts) {
    engine(FakeEncoder::new(3, true, Poison::default()).with_cosines(), cache_bytes)
}

fn full_effort() -> Question {
    Question { effort: Effort::Full, ..question() }
}

fn pages(count: usize) -> Vec<String> {
    let sentence = |page: usize, n: usize| format!("The cat {n} of {page} is in the moon. ").repeat(1 + n % 3);
    (0..count).map(|page| (0..=page % 9).map(|n| sentence(page, n)).collect()).collect()
}

fn highlight(engine: &Engine, queries: &[&str], pages: &[String], pairing: Pairing) -> Result<Answers> {
    let pages: Vec<&str> = pages.iter().map(String::as_str).collect();
    let request = request(queries, &pages, pairing);
    highlights(engine, &request, &full_effort(), &Call::default())
}

fn assert_same(actual: &Answers, expected: &Answers) {
    assert!(!expected.scores.is_empty());
    assert_eq!((&actual.spans, &actual.pages, &actual.queries), (&expected.spans, &expected.pages, &expected.queries));
    let pairs = actual.scores.iter().zip(&expected.scores).chain(actual.cosines.iter().zip(&expected.cosines));
    for (actual, expected) in pairs {
        assert!((actual - expected).abs() < 1e-5, "{actual} {expected}");
    }
}

#[test]
fn cosines_of_devices_give_the_answers_of_vectors() {
    let (plain, _) = engine(FakeEncoder::new(1, true, Poison::default()), 0);
    for (queries, pairing) in [
        (vec!["Where is the cat?"], Pairing::All),
        (vec!["Where is the cat?", "the moon"], Pairing::All),
        (vec!["the moon", "bread"], Pairing::Each),
    ] {
        let pages = pages(if pairing == Pairing::Each { 2 } else { 40 });
        let (engine, counts) = engine_with_cosines(0);
        let actual = highlight(&engine, &queries, &pages, pairing).unwrap();
        assert_same(&actual, &highlight(&plain, &queries, &pages, pairing).unwrap());
        let counts = counts.lock().unwrap();
        // Only the queries themselves return as vectors.
        assert!(counts.iter().filter(|count| **count == 0).count() <= queries.len(), "{counts:?}");
        assert!(counts.iter().any(|count| *count >= queries.len()), "{counts:?}");
    }
}

#[test]
fn vectors_return_for_the_cache_and_with_many_queries() {
    let all = pages(20);
    let (cached, counts) = engine_with_cosines(1 << 24);
    highlight(&cached, &["Where is the cat?"], &all, Pairing::All).unwrap();
    assert_eq!(counts.lock().unwrap().iter().sum::<usize>(), 0, "the cache needs vectors");
    // One page may fill a quarter of the cache. Devices compute the cosines of pages that are larger.
    let (small, counts) = engine_with_cosines(1000);
    highlight(&small, &["Where is the cat?"], &all, Pairing::All).unwrap();
    assert!(counts.lock().unwrap().iter().any(|count| *count > 0));
    let (many, counts) = engine_with_cosines(0);
    highlight(&many, &["cat", "moon", "bread"], &all, Pairing::All).unwrap();
    assert_eq!(counts.lock().unwrap().iter().sum::<usize>(), 0, "three queries are too many for 16 dimensions");
}

#[test]
fn jobs_with_and_without_queries_share_batches() {
    let (plain, _) = engine(FakeEncoder::new(1, true, Poison::default()), 0);
    let (engine, counts) = engine_with_cosines(0);
    let (_folder, model) = model(&word_piece(), 64, ("", ""));
    let tokens = Tokens::read(&model).unwrap();
    std::thread::scope(|scope| {
        for n in 0..12 {
            let (engine, plain, tokens) = (&engine, &plain, &tokens);
            scope.spawn(move || {
                let query = format!("Where is the cat {n}?");
                for _ in 0..10 {
                    if n % 3 == 0 {
                        let embedded = embed(engine, &["the cat", &query], Role::Passage, &Call::default()).unwrap();
                        let expected = fake_vector(&tokens.text(&query, Role::Passage).unwrap().0);
                        assert_eq!(embedded.vectors[DIMENSION..], expected);
                    } else {
                        let pages = pages(2 + n);
                        let actual = highlight(engine, &[&query], &pages, Pairing::All).unwrap();
                        assert_same(&actual, &highlight(plain, &[&query], &pages, Pairing::All).unwrap());
                    }
                }
            });
        }
    });
    let counts = counts.lock().unwrap();
    assert!(counts.contains(&0) && counts.contains(&1), "{counts:?}");
}

#[test]
fn a_nan_cosine_fails_its_caller_alone() {
    let (_folder, model) = model(&word_piece(), 64, ("", ""));
    let percent = Tokens::read(&model).unwrap().text("%", Role::Query).unwrap().0[1];
    let poison = Poison { nan: Some(percent), ..Poison::default() };
    let (engine, _) = engine(FakeEncoder::new(2, true, poison).with_cosines(), 0);
    std::thread::scope(|scope| {
        for n in 0..20 {
            let engine = &engine;
            scope.spawn(move || {
                let page = if n % 4 == 0 { "The % is red. Bread is good." } else { "The cat is red. Bread is good." };
                let answer = highlight(engine, &["cat"], &[page.to_owned()], Pairing::All);
                assert_eq!(answer.err().map(|error| error.kind()), (n % 4 == 0).then_some(ErrorKind::Encoder));
            });
        }
    });
}
