//! The headers that describe a body of vectors.

use axum::http::{HeaderName, HeaderValue};

use crate::http::dtype::NumberFormat;

pub(crate) const OCTETS: &str = "application/octet-stream";

const SHAPE: HeaderName = HeaderName::from_static("x-embedding-shape");
const DTYPE: HeaderName = HeaderName::from_static("x-embedding-dtype");
const BYTE_ORDER: HeaderName = HeaderName::from_static("x-embedding-byte-order");
pub(crate) const PROMPT_TOKENS: HeaderName = HeaderName::from_static("x-prompt-tokens");
pub(crate) const TRUNCATED: HeaderName = HeaderName::from_static("x-truncated");
/// Text Embeddings Inference's header for the number of tokens of all texts.
pub(crate) const COMPUTE_TOKENS: HeaderName = HeaderName::from_static("x-compute-tokens");
pub(crate) const MODEL: HeaderName = HeaderName::from_static("x-model");

/// All of them but Text Embeddings Inference's.
pub(crate) const EXPOSED: [HeaderName; 6] = [SHAPE, DTYPE, BYTE_ORDER, PROMPT_TOKENS, TRUNCATED, MODEL];

pub(crate) fn headers(rows: usize, dimension: usize, format: NumberFormat) -> Vec<(HeaderName, HeaderValue)> {
    let shape = HeaderValue::from_str(&format!("{rows},{dimension}")).unwrap_or(HeaderValue::from_static(""));
    vec![
        (SHAPE, shape),
        (DTYPE, HeaderValue::from_static(format.dtype.name())),
        (BYTE_ORDER, HeaderValue::from_static(format.byte_order())),
    ]
}
