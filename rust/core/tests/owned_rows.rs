//! An encoder that gives away the memory its rows lie in: the vectors are those of the plain way, and nobody copies them.

mod common;

use std::sync::{Arc, Mutex};

use common::{FakeEncoder, Poison, fake_vector, model, word_piece};
use proptest::prelude::*;
use pullquote_core::encoder::{Batch, Batching, Encoder, EncoderSpec, Ticket, Waker};
use pullquote_core::engine::{Embedded, Engine};
use pullquote_core::error::{ErrorKind, Result};
use pullquote_core::runtime::call::Call;
use pullquote_core::tokens::{Role, Tokens};

/// The fake encoder, which gives its vectors away, some values too few where it is asked to.
struct Giver {
    inner: FakeEncoder,
    /// Where in memory each gift lay.
    given: Arc<Mutex<Vec<usize>>>,
    short_of: usize,
}

impl Giver {
    fn new(notifies: bool, poison: Poison) -> Self {
        Self { inner: FakeEncoder::new(2, notifies, poison), given: Arc::default(), short_of: 0 }
    }
}

impl Encoder for Giver {
    fn spec(&self) -> &EncoderSpec {
        self.inner.spec()
    }

    fn set_waker(&mut self, waker: Waker) {
        self.inner.set_waker(waker);
    }

    fn submit(&mut self, device: usize, batch: &Batch) -> Result<Ticket> {
        self.inner.submit(device, batch)
    }

    fn is_finished(&mut self, ticket: Ticket) -> bool {
        self.inner.is_finished(ticket)
    }

    fn collect(&mut self, ticket: Ticket, row: &mut dyn FnMut(usize, &[f32])) -> Result<()> {
        self.inner.collect(ticket, row)
    }

    fn gives(&self) -> bool {
        true
    }

    fn take(&mut self, ticket: Ticket) -> Result<Vec<f32>> {
        let mut vectors = self.inner.take(ticket)?;
        vectors.truncate(vectors.len() - self.short_of);
        self.given.lock().unwrap().push(vectors.as_ptr() as usize);
        Ok(vectors)
    }
}

/// An engine whose batches have at most so many tokens.
fn engine(encoder: impl Encoder + 'static, tokens: usize) -> Engine {
    let (_folder, model) = model(&word_piece(), 64, ("", ""));
    let batching = Batching { max_tokens: Some(tokens), ..Batching::default() };
    Engine::new(&model, Box::new(encoder), Some(2), 0).unwrap().with_batching(batching).unwrap()
}

fn embed(engine: &Engine, texts: &[String]) -> Result<Embedded> {
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    engine.embed(&texts, Role::Passage, &Call::default())
}

/// Texts of all lengths, in no order of these.
fn texts(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("cat {n} ").repeat(n * 7 % 11)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn vectors_are_those_of_the_plain_way(
        calls in prop::collection::vec(1_usize..40, 1..6),
        tokens in 20_usize..2000,
        notifies: bool,
    ) {
        let giving = engine(Giver::new(notifies, Poison::default()), tokens);
        let plain = engine(FakeEncoder::new(2, notifies, Poison::default()), tokens);
        std::thread::scope(|scope| {
            let asked: Vec<_> = calls.iter().map(|rows| scope.spawn(|| embed(&giving, &texts(*rows)).unwrap())).collect();
            for (rows, thread) in calls.iter().zip(asked) {
                let embedded = thread.join().unwrap();
                assert_eq!(embedded.vectors, embed(&plain, &texts(*rows)).unwrap().vectors);
                assert_eq!(embedded.vectors.as_ptr() as usize, embedded.written_at);
            }
        });
    }
}

#[test]
fn a_job_that_fills_a_batch_alone_has_the_encoders_own_memory() {
    let encoder = Giver::new(true, Poison::default());
    let given = Arc::clone(&encoder.given);
    let engine = engine(encoder, 1_000_000);
    let embedded = embed(&engine, &texts(300)).unwrap();
    assert_eq!(*given.lock().unwrap(), [embedded.written_at]);
    assert_eq!(embedded.vectors.as_ptr() as usize, embedded.written_at);
    let (_folder, model) = model(&word_piece(), 64, ("", ""));
    let tokens = Tokens::read(&model).unwrap();
    for (text, vector) in texts(300).iter().zip(embedded.vectors.chunks_exact(common::DIMENSION)) {
        assert_eq!(vector, fake_vector(&tokens.alone(text, Role::Passage).unwrap().0));
    }
}

#[test]
fn gifts_are_looked_at_like_rows() {
    let mut short = Giver::new(true, Poison::default());
    short.short_of = 1;
    let error = embed(&engine(short, 1_000_000), &texts(3)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Encoder);
    assert!(["47 values", "3 rows of 16"].iter().all(|name| error.message().contains(name)), "{error}");
    // The second id of a row of "cat" is that of its first word or letter.
    let (_folder, model) = model(&word_piece(), 64, ("", ""));
    let cat = Tokens::read(&model).unwrap().alone("cat", Role::Passage).unwrap().0[1];
    let poison = Poison { nan: Some(cat), ..Poison::default() };
    let given = embed(&engine(Giver::new(true, poison), 1_000_000), &texts(5)).unwrap_err();
    let plain = embed(&engine(FakeEncoder::new(2, true, poison), 1_000_000), &texts(5)).unwrap_err();
    assert_eq!((given.kind(), given.message()), (plain.kind(), plain.message()));
    assert!(["NaN", "dimension 3"].iter().all(|name| given.message().contains(name)), "{given}");
}
