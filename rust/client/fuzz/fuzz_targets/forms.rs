//! Forms: a line with the content type, then a body. Whatever it is, three parts come of it, or an error.
#![no_main]

use bytes::Bytes;
use futures_util::FutureExt;
use libfuzzer_sys::fuzz_target;
use pullquote_client::forms::read_form;
use reqwest::header::HeaderValue;

fuzz_target!(|data: &[u8]| {
    let end = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let kind = HeaderValue::from_bytes(&data[..end]).ok();
    let body = Bytes::copy_from_slice(data.get(end + 1..).unwrap_or_default());
    let length = body.len();
    let form = read_form(kind.as_ref(), body).now_or_never().expect("all of the body is here");
    if let Ok(form) = form {
        assert!(form.highlights.len() + form.vectors.content.len() + form.queries.content.len() <= length);
    }
});
