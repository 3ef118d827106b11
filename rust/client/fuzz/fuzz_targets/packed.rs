//! Packed vectors: a byte for the type, one for the dimension, then a body for two rows that comes in two pieces. What is taken
//! is what came, and as float32 it would have been taken too.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pullquote_client::packed::PackedBodyWriter;
use pullquote_client::raw::{BodyWriter, Dtype, EmbeddingHeaders};

fuzz_target!(|data: &[u8]| {
    let [dtype, dimension, body @ ..] = data else { return };
    let dtype = Dtype::ALL[usize::from(*dtype) % Dtype::ALL.len()];
    let headers = EmbeddingHeaders { rows: 2, dimension: usize::from(*dimension).max(1), dtype, truncated: 0 };
    let mut place = vec![0; headers.bytes()];
    let mut writer = PackedBodyWriter::new(headers, &mut place).expect("the place has the body's size");
    let (first, second) = body.split_at(body.len() / 3);
    let packed = writer.write(first).and_then(|()| writer.write(second)).and_then(|()| writer.finish());
    assert!(packed.is_err() || place == body);
    assert!(body.len() == headers.bytes() || packed.is_err());
    if dtype.is_float() {
        let mut values = vec![0.0; 2 * headers.dimension];
        let mut writer = BodyWriter::new(headers, &mut values).expect("the place has the body's size");
        let written = writer.write(body).and_then(|()| writer.finish());
        assert_eq!(written.is_ok(), packed.is_ok(), "both check the same values");
    }
});
