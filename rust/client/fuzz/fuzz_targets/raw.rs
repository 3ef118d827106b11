//! Raw answers: a header in each of the first lines, then a body in two pieces.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pullquote_client::raw::{BodyWriter, EmbeddingHeaders};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

fuzz_target!(|data: &[u8]| {
    let mut headers = HeaderMap::new();
    let mut rest = data;
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        let (line, next) = (&rest[..end], &rest[end + 1..]);
        rest = next;
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { break };
        let name = HeaderName::from_bytes(&line[..colon]);
        let value = HeaderValue::from_bytes(&line[colon + 1..]);
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.insert(name, value);
        }
    }
    let Ok(Some(headers)) = EmbeddingHeaders::read(&headers, 2) else { return };
    let mut place = vec![0; headers.bytes()];
    let mut writer = BodyWriter::new(headers, &mut place).expect("the place has the body's size");
    let (first, second) = rest.split_at(rest.len() / 3);
    let written = writer.write(first).and_then(|()| writer.write(second)).and_then(|()| writer.finish());
    if written.is_ok() {
        assert!(place == rest);
    }
});
