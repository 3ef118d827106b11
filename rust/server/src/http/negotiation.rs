//! Content negotiation (RFC 9110, 12.5): the type of an answer by `Accept`, and compression by `Accept-Encoding`.
//!
//! The most specific range that fits a type has its weight. A client that accepts nothing a route offers gets the
//! default.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, header};
use axum::middleware::Next;
use axum::response::Response;

/// The preferred one of these types. Equal weights go to the type that the client named more exactly, then to the
/// first.
pub(crate) fn preferred(headers: &HeaderMap, offered: &[&'static str]) -> &'static str {
    let mut best = ((0.0, 0), offered.first().copied().unwrap_or_default());
    for offer in offered {
        let fitting = elements(headers, &header::ACCEPT)
            .filter_map(|(range, weight)| Some((specificity(range, offer)?, weight)))
            .max_by_key(|(specificity, _)| *specificity);
        if let Some((specificity, weight)) = fitting
            && weight > 0.0
            && (weight, specificity) > best.0
        {
            best = ((weight, specificity), offer);
        }
    }
    best.1
}

fn specificity(range: &str, offer: &str) -> Option<u8> {
    let kind = offer.split('/').next()?;
    if range.eq_ignore_ascii_case(offer) {
        Some(3)
    } else if range.strip_suffix("/*").is_some_and(|of| of.eq_ignore_ascii_case(kind)) {
        Some(2)
    } else {
        (range == "*/*").then_some(1)
    }
}

/// The elements of a list with their weights; an invalid weight counts as 0.
fn elements<'headers>(
    headers: &'headers HeaderMap,
    name: &HeaderName,
) -> impl Iterator<Item = (&'headers str, f32)> + use<'headers> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(|element| {
        let mut parts = element.split(';').map(str::trim);
        let named = parts.next().unwrap_or_default();
        let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
        let valid = |weight: &str| weight.parse().ok().filter(|weight| (0.0..=1.0).contains(weight));
        (named, weight.map_or(1.0, |weight| valid(weight).unwrap_or(0.0)))
    })
}

/// Removes an `Accept-Encoding` that does not prefer gzip to `identity`. HTTP libraries send it with every request by
/// default, and vectors hardly get smaller while both sides work hard.
pub(crate) async fn compress_if_preferred(mut request: Request, next: Next) -> Response {
    if !prefers_gzip(request.headers()) {
        request.headers_mut().remove(header::ACCEPT_ENCODING);
    }
    next.run(request).await
}

fn prefers_gzip(headers: &HeaderMap) -> bool {
    let weight = |wanted: &str| {
        let mut named = elements(headers, &header::ACCEPT_ENCODING);
        named.find_map(|(name, weight)| name.eq_ignore_ascii_case(wanted).then_some(weight))
    };
    // `*` is every coding that is not named; `identity` without either is acceptable.
    weight("gzip").unwrap_or(0.0) > weight("identity").or_else(|| weight("*")).unwrap_or(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    const JSON: &str = "application/json";
    const RAW: &str = "application/octet-stream";

    fn headers(name: &HeaderName, values: &[&str]) -> HeaderMap {
        values.iter().map(|value| (name.clone(), HeaderValue::from_str(value).unwrap())).collect()
    }

    #[test]
    fn accept_decides_the_type() {
        for (accept, expected) in [
            (&[][..], JSON),
            (&["*/*"], JSON),
            (&["text/html"], JSON),
            (&[RAW], RAW),
            (&["APPLICATION/OCTET-STREAM"], RAW),
            (&["application/octet-stream, */*"], RAW),
            (&["application/json, text/plain, */*"], JSON),
            (&["application/octet-stream;q=0.5, application/json;q=0.4"], RAW),
            (&["application/octet-stream;q=0.5, application/json; q=0.51"], JSON),
            (&["application/octet-stream; charset=x; q=0.9, */*;q=0.1"], RAW),
            (&["application/octet-stream;q=0, */*"], JSON),
            (&["application/octet-stream;q=0"], JSON),
            (&["application/json;q=0, */*"], RAW),
            (&["application/json;q=0.2", "application/*;q=0.3"], RAW),
            (&["application/json, application/octet-stream"], JSON),
            (&["application/octet-stream;q=2, application/json;q=0.001"], JSON),
            (&["application/octet-stream;q=1.000, application/json;q=0.999"], RAW),
            (&["application/octet-stream;q=nonsense, */*;q=0.1"], JSON),
            (&["", ";;,;q=1", "ünfit"], JSON),
        ] {
            assert_eq!(preferred(&headers(&header::ACCEPT, accept), &[JSON, RAW]), expected, "{accept:?}");
        }
    }

    #[test]
    fn gzip_is_used_only_if_accept_encoding_prefers_it_to_identity() {
        for (accept, expected) in [
            (&[][..], false),
            (&["gzip, deflate, br, zstd"], false),
            (&["gzip"], false),
            (&["*"], false),
            (&["gzip, identity;q=0.5"], true),
            (&["gzip;q=0.5, *;q=0"], true),
            (&["gzip;q=0.5, identity;q=0.6"], false),
            (&["br, identity;q=0"], false),
            (&["GZIP", "Identity;Q=0"], true),
        ] {
            assert_eq!(prefers_gzip(&headers(&header::ACCEPT_ENCODING, accept)), expected, "{accept:?}");
        }
    }
}
