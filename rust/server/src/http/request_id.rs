//! The name of a request: the client's, or a new one.

use axum::http::{HeaderMap, HeaderName};
use uuid::Uuid;

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The longest request id that a client may set.
pub(crate) const LONGEST_ID: usize = 128;

#[derive(Clone, Debug)]
pub(crate) struct RequestId(pub(crate) String);

impl RequestId {
    /// The client's name for the request if it is fit for logs and headers, or else a new one.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let given = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok());
        let is_fit = |id: &&str| (1..=LONGEST_ID).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic());
        Self(given.filter(is_fit).map_or_else(|| Uuid::new_v4().simple().to_string(), str::to_owned))
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn id_of(given: &str) -> String {
        let mut headers = HeaderMap::new();
        headers.insert(REQUEST_ID, HeaderValue::from_bytes(given.as_bytes()).unwrap());
        RequestId::of(&headers).0
    }

    #[test]
    fn unsafe_request_id_is_replaced() {
        assert_eq!(id_of("a-1"), "a-1");
        for unfit in ["", "two words", "ünfit", &"x".repeat(LONGEST_ID + 1)] {
            assert_eq!(id_of(unfit).len(), 32, "{unfit:?}");
        }
    }
}
