//! A host's settings for batches: their size, and how long rows wait for more.

use std::sync::Arc;
use std::time::Duration;

use pullquote_core::encoder::Batching;
use pullquote_core::engine::Engine;
use pullquote_core::error::ErrorKind;
use pullquote_core::runtime::call::Call;
use pullquote_core::tokens::Role;

use crate::common::{FakeEncoder, Poison, embed, model, word_piece};

fn engine(encoder: FakeEncoder, batching: Batching) -> pullquote_core::error::Result<Engine> {
    let (_folder, model) = model(&word_piece(), 64, ("", ""));
    Engine::new(&model, Box::new(encoder), Some(2), 0)?.with_batching(batching)
}

#[test]
fn max_tokens_and_max_rows_limit_batches() {
    let encoder = FakeEncoder::new(2, true, Poison::default());
    let log = Arc::clone(&encoder.log);
    let batching = Batching { max_tokens: Some(20), max_rows: Some(3), ..Batching::default() };
    let engine = engine(encoder, batching).unwrap();
    let texts: Vec<String> = (0..40).map(|n| "cat ".repeat(n % 9)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    embed(&engine, &texts, Role::Passage, &Call::default()).unwrap();
    let lengths: Vec<Vec<u32>> = log.lock().unwrap().iter().map(|(_, lengths)| lengths.clone()).collect();
    assert_eq!(lengths.iter().map(Vec::len).sum::<usize>(), 40);
    assert!(lengths.iter().all(|batch| batch.len() <= 3 && (batch.len() == 1 || batch.iter().sum::<u32>() <= 20)));
    assert_eq!(lengths.iter().map(Vec::len).max(), Some(3));
    for empty in [Batching { max_rows: Some(0), ..batching }, Batching { max_tokens: Some(0), ..batching }] {
        let rejected = self::engine(FakeEncoder::new(1, true, Poison::default()), empty);
        assert_eq!(rejected.err().map(|error| error.kind()), Some(ErrorKind::InvalidArgument));
    }
}

#[test]
fn rows_wait_for_a_full_batch_until_the_timeout() {
    for notifies in [true, false] {
        let encoder = FakeEncoder::new(1, notifies, Poison::default());
        let log = Arc::clone(&encoder.log);
        let hour = Batching { max_rows: Some(4), timeout: Duration::from_secs(3600), ..Batching::default() };
        let engine = engine(encoder, hour).unwrap();
        let embed_one = |text: &str, call: &Call| embed(&engine, &[text], Role::Passage, call).map(|_| ());
        std::thread::scope(|scope| {
            let waiting: Vec<_> = (0..2).map(|_| scope.spawn(|| embed_one("the cat", &Call::default()))).collect();
            // A call that misses its deadline takes its rows along.
            let late = embed_one("the moon", &Call::new(Some(Duration::from_millis(50)), None));
            assert_eq!(late.unwrap_err().kind(), ErrorKind::DeadlineExceeded);
            assert!(log.lock().unwrap().is_empty());
            let filling: Vec<_> = (0..2).map(|_| scope.spawn(|| embed_one("a cat is", &Call::default()))).collect();
            waiting.into_iter().chain(filling).for_each(|thread| thread.join().unwrap().unwrap());
        });
        let lengths: Vec<usize> = log.lock().unwrap().iter().map(|(_, lengths)| lengths.len()).collect();
        assert_eq!(lengths, [4]);
        // The timeout ends the wait.
        let encoder = FakeEncoder::new(1, notifies, Poison::default());
        let soon = Batching { timeout: Duration::from_millis(20), ..Batching::default() };
        let engine = self::engine(encoder, soon).unwrap();
        embed(&engine, &["alone"], Role::Passage, &Call::default()).unwrap();
    }
}
