//! Streamed embedding: the same vectors as at once, and the first part is returned before the last is encoded.

use std::sync::Arc;

use pullquote_core::engine::Engine;
use pullquote_core::runtime::call::{Call, Stop};
use pullquote_core::tokens::Role;

use crate::common::{FakeEncoder, Poison, embed, model, word_piece};

#[test]
fn parts_equal_the_whole_and_the_first_is_returned_before_the_last_is_encoded() {
    let encoder = FakeEncoder::new(2, true, Poison::default());
    let log = Arc::clone(&encoder.log);
    let (_folder, model) = model(&word_piece(), 64, ("", ""));
    let engine = Engine::new(&model, Box::new(encoder), Some(2), 0).unwrap();
    let texts: Vec<String> = (0..500).map(|n| format!("cat {n} ").repeat(n % 30)).collect();
    let borrowed: Vec<&str> = texts.iter().map(String::as_str).collect();
    let stop = Stop::default();
    let call = Call::default().stopped_by(stop.clone());
    let whole = embed(&engine, &borrowed, Role::Passage, &call).unwrap();
    let rows_encoded = || log.lock().unwrap().iter().map(|(_, lengths)| lengths.len()).sum::<usize>();
    let before = rows_encoded();
    let mut parts = engine.embed_streamed(&borrowed, Role::Passage, &call).unwrap();
    assert_eq!((parts.rows(), parts.tokens(), parts.truncated()), (500, whole.tokens, whole.truncated));
    let count = parts.remaining_parts();
    assert!(count > 10, "{count}");
    let mut vectors = parts.next(&call).unwrap().unwrap();
    assert!(rows_encoded() - before < 400, "{}", rows_encoded() - before);
    while let Some(part) = parts.next(&call).unwrap() {
        vectors.extend(part);
    }
    assert_eq!(vectors, whole.vectors);
    assert_eq!(parts.remaining_parts(), 0);
    let at_once = engine.embed_streamed(&borrowed, Role::Passage, &call).unwrap().collect(&call).unwrap();
    assert_eq!(at_once, whole.vectors);
    assert!(engine.embed_streamed(&[], Role::Passage, &call).unwrap().next(&call).unwrap().is_none());
    // Dropping it cancels the parts in flight.
    let mut dropped = engine.embed_streamed(&borrowed, Role::Passage, &call).unwrap();
    dropped.next(&call).unwrap();
    drop(dropped);
    assert!(stop.is_stopped());
}
