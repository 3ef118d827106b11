//! Packed vectors: a byte for the type, one for the dimension, then a body for two rows that comes in two pieces. What is taken
//! is what came, and as float32 it would have been taken too.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pullquote_client::packed::Packing;
use pullquote_client::raw::{Claim, Dtype, Landing};

fuzz_target!(|data: &[u8]| {
    let [dtype, dimension, body @ ..] = data else { return };
    let dtype = Dtype::ALL[usize::from(*dtype) % Dtype::ALL.len()];
    let claim = Claim { rows: 2, dimension: usize::from(*dimension).max(1), dtype, truncated: 0 };
    let mut place = vec![0; claim.bytes()];
    let mut packing = Packing::new(claim, &mut place).expect("the place has the claim's size");
    let (first, second) = body.split_at(body.len() / 3);
    let packed = packing.write(first).and_then(|()| packing.write(second)).and_then(|()| packing.finish());
    assert!(packed.is_err() || place == body);
    assert!(body.len() == claim.bytes() || packed.is_err());
    if dtype.is_float() {
        let mut values = vec![0.0; 2 * claim.dimension];
        let mut landing = Landing::new(claim, &mut values, false).expect("the place has the claim's size");
        let landed = landing.write(body).and_then(|()| landing.finish());
        assert_eq!(landed.is_ok(), packed.is_ok(), "both look at the same values");
    }
});
