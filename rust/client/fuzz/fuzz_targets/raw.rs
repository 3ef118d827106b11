//! Raw answers: a line of headers for each of the first lines, then a body that comes in two pieces.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pullquote_client::raw::{Claim, Landing};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

fuzz_target!(|data: &[u8]| {
    let mut headers = HeaderMap::new();
    let mut rest = data;
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        let (line, behind) = (&rest[..end], &rest[end + 1..]);
        rest = behind;
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { break };
        let name = HeaderName::from_bytes(&line[..colon]);
        let value = HeaderValue::from_bytes(&line[colon + 1..]);
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.insert(name, value);
        }
    }
    let Ok(Some(claim)) = Claim::read(&headers, 2) else { return };
    let landed = [false, true].map(|copying| {
        let mut place = vec![0.0; claim.rows * claim.dimension];
        let mut landing = Landing::new(claim, &mut place, copying).expect("the place has the claim's size");
        let (first, second) = rest.split_at(rest.len() / 3);
        let landed = landing.write(first).and_then(|()| landing.write(second)).and_then(|()| landing.finish());
        landed.map(|()| place).ok()
    });
    assert_eq!(landed[0], landed[1], "the direct way and the copying one differ");
    if let Some(place) = &landed[0] {
        assert!(rest.len() == claim.bytes() && place.iter().all(|value| value.is_finite()));
    }
});
