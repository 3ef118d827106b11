//! Encoders that return owned rows: the vectors equal those of `collect`, without a copy.

use std::borrow::Cow;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use pullquote_core::encoder::{Batch, Batching, Collected, Encoder, EncoderSpec, Ticket, Waker};
use pullquote_core::engine::{Embeddings, Engine};
use pullquote_core::error::{ErrorKind, Result};
use pullquote_core::runtime::call::Call;
use pullquote_core::tokens::{Role, Tokens};

use crate::common::{FakeEncoder, Poison, fake_vector, model, word_piece};

/// The fake encoder, which gives its memory away if it `owns`, with some values missing if a test says so.
struct OwningEncoder {
    inner: FakeEncoder,
    spec: EncoderSpec,
    /// The address of each returned allocation.
    addresses: Arc<Mutex<Vec<usize>>>,
    missing_values: usize,
}

impl OwningEncoder {
    fn new(notifies: bool, poison: Poison) -> Self {
        let inner = FakeEncoder::new(2, notifies, poison);
        let mut spec = inner.spec().clone();
        spec.capabilities.owned_rows = true;
        Self { inner, spec, addresses: Arc::default(), missing_values: 0 }
    }

    /// Copies are collected instead.
    fn lending(notifies: bool, poison: Poison) -> Self {
        let mut encoder = Self::new(notifies, poison);
        encoder.spec.capabilities.owned_rows = false;
        encoder
    }
}

impl Encoder for OwningEncoder {
    fn spec(&self) -> &EncoderSpec {
        &self.spec
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

    fn collect(&mut self, ticket: Ticket, receive: &mut dyn FnMut(Cow<'_, [f32]>)) -> Result<Collected> {
        let (is_owned, missing) = (self.spec.capabilities.owned_rows, self.missing_values);
        self.inner.collect(ticket, &mut |values| {
            let mut values = values.into_owned();
            values.truncate(values.len() - missing);
            self.addresses.lock().unwrap().push(values.as_ptr() as usize);
            receive(if is_owned { Cow::Owned(values) } else { Cow::Borrowed(&values) });
        })
    }
}

/// `tokens` is the token budget of a batch.
fn engine(encoder: impl Encoder + 'static, tokens: usize) -> Engine {
    let (_folder, model) = model(&word_piece(), 64, ("", ""));
    let batching = Batching { max_tokens: Some(tokens), ..Batching::default() };
    Engine::new(&model, Box::new(encoder), Some(2), 0).unwrap().with_batching(batching).unwrap()
}

fn embed(engine: &Engine, texts: &[String]) -> Result<Embeddings> {
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    crate::common::embed(engine, &texts, Role::Passage, &Call::default())
}

/// Texts of different lengths, not sorted by them.
fn texts(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("cat {n} ").repeat(n * 7 % 11)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn vectors_equal_those_of_collect(
        calls in prop::collection::vec(1_usize..40, 1..6),
        tokens in 20_usize..2000,
        notifies: bool,
    ) {
        let owning = engine(OwningEncoder::new(notifies, Poison::default()), tokens);
        let plain = engine(OwningEncoder::lending(notifies, Poison::default()), tokens);
        std::thread::scope(|scope| {
            let threads: Vec<_> = calls.iter().map(|rows| scope.spawn(|| embed(&owning, &texts(*rows)).unwrap())).collect();
            for (rows, thread) in calls.iter().zip(threads) {
                assert_eq!(thread.join().unwrap().vectors, embed(&plain, &texts(*rows)).unwrap().vectors);
            }
        });
    }
}

#[test]
fn a_job_that_fills_a_batch_alone_keeps_the_encoders_allocation() {
    let encoder = OwningEncoder::new(true, Poison::default());
    let addresses = Arc::clone(&encoder.addresses);
    let engine = engine(encoder, 1_000_000);
    let embedded = embed(&engine, &texts(300)).unwrap();
    assert_eq!(*addresses.lock().unwrap(), [embedded.vectors.as_ptr() as usize]);
    let (_folder, model) = model(&word_piece(), 64, ("", ""));
    let tokens = Tokens::read(&model).unwrap();
    for (text, vector) in texts(300).iter().zip(embedded.vectors.chunks_exact(crate::common::DIMENSION)) {
        assert_eq!(vector, fake_vector(&tokens.text(text, Role::Passage).unwrap().0));
    }
}

#[test]
fn owned_rows_are_checked_like_others() {
    let mut short = OwningEncoder::new(true, Poison::default());
    short.missing_values = 1;
    let error = embed(&engine(short, 1_000_000), &texts(3)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Encoder);
    assert!(["47 values", "3 rows", "48"].iter().all(|name| error.message().contains(name)), "{error}");
    // The second id of a row of "cat" is that of its first word or letter.
    let (_folder, model) = model(&word_piece(), 64, ("", ""));
    let cat = Tokens::read(&model).unwrap().text("cat", Role::Passage).unwrap().0[1];
    let poison = Poison { nan: Some(cat), ..Poison::default() };
    let owned = embed(&engine(OwningEncoder::new(true, poison), 1_000_000), &texts(5)).unwrap_err();
    let plain = embed(&engine(OwningEncoder::lending(true, poison), 1_000_000), &texts(5)).unwrap_err();
    assert_eq!((owned.kind(), owned.message()), (plain.kind(), plain.message()));
    assert!(["NaN", "value 3"].iter().all(|name| owned.message().contains(name)), "{owned}");
}
