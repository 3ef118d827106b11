//! The headers of Text Embeddings Inference about the work for an answer. Its times are whole milliseconds.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use pullquote_core::engine::Engine;

pub(crate) const QUEUE_TIME: HeaderName = HeaderName::from_static("x-queue-time");
pub(crate) const INFERENCE_TIME: HeaderName = HeaderName::from_static("x-inference-time");
pub(crate) const TOTAL_TIME: HeaderName = HeaderName::from_static("x-total-time");
const COMPUTE_TYPE: HeaderName = HeaderName::from_static("x-compute-type");
const COMPUTE_TIME: HeaderName = HeaderName::from_static("x-compute-time");
const COMPUTE_CHARACTERS: HeaderName = HeaderName::from_static("x-compute-characters");
const TOKENIZATION_TIME: HeaderName = HeaderName::from_static("x-tokenization-time");

/// Headers that only these answers have.
pub(crate) const EXPOSED: [HeaderName; 4] = [COMPUTE_TYPE, COMPUTE_TIME, COMPUTE_CHARACTERS, TOKENIZATION_TIME];

/// The work for an answer, besides its times in the queue and in the engine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compute {
    /// `None` if the server does not know where its encoder computes.
    kind: Option<&'static str>,
    /// Characters of all texts; token ids have none.
    characters: usize,
    tokenization: Duration,
}

impl Compute {
    /// Of texts that were tokenized in this time.
    pub(crate) fn of<'text>(engine: &Engine, texts: impl Iterator<Item = &'text str>, tokenization: Duration) -> Self {
        let all = |name: &str| engine.spec().devices.iter().all(|device| device.name.split(':').next() == Some(name));
        let kind = [("cpu", "cpu"), ("cuda", "gpu")].into_iter().find(|(name, _)| all(name)).map(|(_, kind)| kind);
        Self { kind, characters: texts.map(|text| text.chars().count()).sum(), tokenization }
    }

    /// `total` is the time since the request's headers.
    pub(crate) fn write(self, headers: &mut HeaderMap, queued: Duration, ran: Duration, total: Duration) {
        let Self { kind, characters, tokenization } = self;
        if let Some(kind) = kind {
            headers.insert(COMPUTE_TYPE, HeaderValue::from_static(kind));
        }
        headers.insert(COMPUTE_CHARACTERS, characters.into());
        for (name, time) in [
            // It means the same there.
            (COMPUTE_TIME, total),
            (TOTAL_TIME, total),
            (TOKENIZATION_TIME, tokenization),
            (QUEUE_TIME, queued),
            (INFERENCE_TIME, ran.saturating_sub(tokenization)),
        ] {
            headers.insert(name, u64::try_from(time.as_millis()).unwrap_or(u64::MAX).into());
        }
    }
}
