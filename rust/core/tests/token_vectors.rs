//! Vectors of tokens: batches within a device's tokens, turns, and the ends of calls.

use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use pullquote_core::encoder::{Batch, EncodeTokens, TokenEncoder};
use pullquote_core::engine::Engine;
use pullquote_core::error::ErrorKind;
use pullquote_core::runtime::call::{Call, Stop, WorkLimits};
use pullquote_core::tokens::{Role, Row, RowOptions, TextOrIds, TruncationSide};

use crate::common::{FakeEncoder, Poison, model, word_piece};

/// An engine of two devices with one worker each, which compute at most 64 tokens at once.
fn engine(encode: Option<EncodeTokens>) -> Engine {
    let mut encoder = FakeEncoder::new(2, true, Poison::default());
    encoder.token_encoder = encode.map(|encode| TokenEncoder { width: 2, encode });
    let (_folder, model) = model(&word_piece(), 64, ("", ""));
    Engine::new(&model, Box::new(encoder), Some(1), 0).unwrap()
}

fn rows(engine: &Engine, texts: &[&str]) -> Vec<Row> {
    let sources: Vec<TextOrIds> = texts.iter().map(|text| TextOrIds::Text(text)).collect();
    let options = RowOptions { max_tokens: 64, side: TruncationSide::Right, adds_special_tokens: true };
    engine.rows(&sources, Role::Passage, &options, &Call::default()).unwrap()
}

#[test]
fn batches_are_within_a_devices_tokens_and_in_order() {
    let batches: Arc<Mutex<Vec<Vec<u32>>>> = Arc::default();
    let seen = Arc::clone(&batches);
    let engine = engine(Some(Arc::new(move |batch: &Batch, vectors: &mut Vec<f32>| {
        seen.lock().unwrap().push(batch.lengths.clone());
        vectors.extend(batch.ids.iter().flat_map(|id| [f32::from(i16::try_from(*id).unwrap()), 1.0]));
        Ok(())
    })));
    let long = "cat ".repeat(200);
    let rows = rows(&engine, &["cat", "", &long, "cat cat", "cat"]);
    let lengths: Vec<u32> = rows.iter().map(|row| u32::try_from(row.ids.len()).unwrap()).collect();
    assert_eq!(lengths[2], 64);
    let vectors = engine.token_vectors(&rows, &Call::default()).unwrap();
    let ids = rows.iter().flat_map(|row| &row.ids).map(|id| f32::from(i16::try_from(*id).unwrap()));
    assert!(vectors.chunks_exact(2).map(|vector| vector[0]).eq(ids));
    assert_eq!(*batches.lock().unwrap(), [&lengths[..2], &lengths[2..3], &lengths[3..]]);
    assert_eq!(engine.token_width(), Some(2));
    assert!(engine.token_vectors(&[], &Call::default()).unwrap().is_empty());
    let few = Call::default().with_limits(WorkLimits { tokens: Some(9), ..WorkLimits::default() });
    assert_eq!(engine.token_vectors(&rows, &few).unwrap_err().kind(), ErrorKind::LimitExceeded);
}

#[test]
fn as_many_calls_compute_as_there_are_workers_and_others_wait_until_their_deadline() {
    let (begun, end) = (Arc::new(Barrier::new(3)), Arc::new(Barrier::new(3)));
    let barriers = [Arc::clone(&begun), Arc::clone(&end)];
    let engine = engine(Some(Arc::new(move |_: &Batch, _: &mut Vec<f32>| {
        for barrier in &barriers {
            barrier.wait();
        }
        Ok(())
    })));
    let rows = rows(&engine, &["cat"]);
    std::thread::scope(|scope| {
        let calls = [(); 2].map(|()| scope.spawn(|| engine.token_vectors(&rows, &Call::default())));
        begun.wait();
        let brief = Call::new(Some(Duration::from_millis(1)), None);
        assert_eq!(engine.token_vectors(&rows, &brief).unwrap_err().kind(), ErrorKind::DeadlineExceeded);
        end.wait();
        assert!(calls.into_iter().all(|call| call.join().unwrap().is_ok()));
    });
    let stop = Stop::default();
    stop.stop();
    let stopped = engine.token_vectors(&rows, &Call::default().stopped_by(stop)).unwrap_err();
    assert_eq!(stopped.kind(), ErrorKind::Cancelled);
    engine.close();
    assert_eq!(engine.token_vectors(&rows, &Call::default()).unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn encoder_without_token_vectors_is_refused() {
    let engine = engine(None);
    assert_eq!(engine.token_width(), None);
    let refused = engine.token_vectors(&rows(&engine, &["cat"]), &Call::default()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
}
