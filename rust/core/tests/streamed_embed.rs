//! Vectors in parts: the same as in one, and the first before the last are encoded.

mod common;

use std::sync::Arc;

use common::{FakeEncoder, Poison, model, word_piece};
use pullquote_core::engine::Engine;
use pullquote_core::runtime::call::Call;
use pullquote_core::tokens::Role;

#[test]
fn parts_are_the_whole_in_order_and_the_first_comes_before_the_last_is_asked_for() {
    let encoder = FakeEncoder::new(2, true, Poison::default());
    let log = Arc::clone(&encoder.log);
    let (_folder, model) = model(&word_piece(), 64, ("", ""));
    let engine = Engine::new(&model, Box::new(encoder), Some(2), 0).unwrap();
    let texts: Vec<String> = (0..500).map(|n| format!("cat {n} ").repeat(n % 30)).collect();
    let borrowed: Vec<&str> = texts.iter().map(String::as_str).collect();
    let call = Call::default();
    let whole = engine.embed(&borrowed, Role::Passage, &call).unwrap();
    let sent = || log.lock().unwrap().iter().map(|(_, lengths)| lengths.len()).sum::<usize>();
    let before = sent();
    let mut parts = engine.embed_in_parts(&borrowed, Role::Passage, &call).unwrap();
    assert_eq!((parts.rows(), parts.tokens(), parts.truncated()), (500, whole.tokens, whole.truncated));
    let count = parts.left();
    assert!(count > 10, "{count}");
    let mut vectors = parts.next(&call).unwrap().unwrap();
    assert!(sent() - before < 400, "{}", sent() - before);
    while let Some(part) = parts.next(&call).unwrap() {
        vectors.extend(part);
    }
    assert_eq!(vectors, whole.vectors);
    assert_eq!(parts.left(), 0);
    let at_once = engine.embed_in_parts(&borrowed, Role::Passage, &call).unwrap().whole(&call).unwrap();
    assert_eq!(at_once, whole.vectors);
    assert!(engine.embed_in_parts(&[], Role::Passage, &call).unwrap().next(&call).unwrap().is_none());
    // What nobody waits for is not encoded.
    let mut left = engine.embed_in_parts(&borrowed, Role::Passage, &call).unwrap();
    left.next(&call).unwrap();
    drop(left);
    assert!(call.stop().is_stopped());
}
