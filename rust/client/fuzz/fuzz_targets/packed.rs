//! Packed vectors: a byte for the type, one for the dimension, then a body for two rows that comes in two pieces. What is taken
//! is what came, and halves become finite float32.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pullquote_wire::embedding_dtype::EmbeddingDtype;
use pullquote_client::raw::{BodyWriter, EmbeddingHeaders, widen};

fuzz_target!(|data: &[u8]| {
    let [dtype, dimension, body @ ..] = data else { return };
    let dtype = EmbeddingDtype::ALL[usize::from(*dtype) % EmbeddingDtype::ALL.len()];
    let headers = EmbeddingHeaders { rows: 2, dimension: usize::from(*dimension).max(1), dtype, truncated: 0 };
    let mut place = vec![0; headers.bytes()];
    let mut writer = BodyWriter::new(headers, &mut place).expect("the place has the body's size");
    let (first, second) = body.split_at(body.len() / 3);
    let packed = writer.write(first).and_then(|()| writer.write(second)).and_then(|()| writer.finish());
    assert!(packed.is_err() || place == body);
    if let (Ok(()), EmbeddingDtype::Float16 | EmbeddingDtype::Bfloat16) = (packed, dtype) {
        let mut values = vec![0.0; 2 * headers.dimension];
        widen(dtype, body, &mut values);
        assert!(values.iter().all(|value| value.is_finite()));
    }
});
