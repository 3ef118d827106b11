//! What a client would rather have: `Accept`, and where it says so, compression.
//!
//! RFC 9110, 12.5: of the ranges that fit a type the most specific one says how much it is wanted. A client that wants none of
//! what a route has gets what the route gives everybody, which the RFC allows and which breaks nobody.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, header};
use axum::middleware::Next;
use axum::response::Response;

/// A thousandth: weights have three digits at most.
const WHOLE: u16 = 1000;

/// Which of these types a client would rather have. Of equals it is the one that it named more exactly, then the first.
pub(crate) fn preferred(headers: &HeaderMap, offered: &[&'static str]) -> &'static str {
    let mut best = ((0, 0), offered.first().copied().unwrap_or_default());
    for offer in offered {
        let fits = elements(headers, &header::ACCEPT).filter_map(|(range, weight)| Some((fit(range, offer)?, weight)));
        // The most specific range decides; its own place says how exactly the type was named.
        if let Some((exactness, weight)) = fits.max_by_key(|(exactness, _)| *exactness)
            && weight > 0
            && (weight, exactness) > best.0
        {
            best = ((weight, exactness), offer);
        }
    }
    best.1
}

/// How exactly a range names a type, if it fits it at all.
fn fit(range: &str, offer: &str) -> Option<u8> {
    let kind = offer.split('/').next()?;
    if range.eq_ignore_ascii_case(offer) {
        Some(3)
    } else if range.strip_suffix("/*").is_some_and(|of| of.eq_ignore_ascii_case(kind)) {
        Some(2)
    } else {
        (range == "*/*").then_some(1)
    }
}

/// The elements of a list with their weights; what cannot be read weighs nothing.
fn elements<'headers>(
    headers: &'headers HeaderMap,
    name: &HeaderName,
) -> impl Iterator<Item = (&'headers str, u16)> + use<'headers> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(|element| {
        let mut parts = element.split(';').map(str::trim);
        let named = parts.next().unwrap_or_default();
        let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
        (named, weight.map_or(WHOLE, thousandths))
    })
}

fn thousandths(weight: &str) -> u16 {
    let (whole, digits) = weight.split_once('.').unwrap_or((weight, ""));
    let is_weight = digits.len() <= 3 && digits.bytes().all(|digit| digit.is_ascii_digit());
    match whole {
        "1" if digits.bytes().all(|digit| digit == b'0') => WHOLE,
        "0" if is_weight => format!("{digits:0<3}").parse().unwrap_or(0),
        _ => 0,
    }
}

/// Hands on only a wish for compression that is one. HTTP libraries name the codings they know with every request, which
/// nobody has asked them for, and vectors hardly get smaller while both sides work hard: what is as it is (`identity`) goes
/// first, unless the client says that it would rather not have it.
pub(crate) async fn only_wished_compression(mut request: Request, next: Next) -> Response {
    if !wants_gzip(request.headers()) {
        request.headers_mut().remove(header::ACCEPT_ENCODING);
    }
    next.run(request).await
}

fn wants_gzip(headers: &HeaderMap) -> bool {
    let weight = |wanted: &str| {
        let mut named = elements(headers, &header::ACCEPT_ENCODING);
        named.find_map(|(name, weight)| name.eq_ignore_ascii_case(wanted).then_some(weight))
    };
    let gzip = weight("gzip").unwrap_or(0);
    // `*` speaks for what is not named; what nobody speaks of may come as it is.
    gzip > weight("identity").or_else(|| weight("*")).unwrap_or(WHOLE)
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
    fn the_type_is_the_one_that_is_wanted_most() {
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
    fn nothing_is_compressed_for_a_client_that_only_could_read_it() {
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
            assert_eq!(wants_gzip(&headers(&header::ACCEPT_ENCODING, accept)), expected, "{accept:?}");
        }
    }
}
