//! What HTTP demands of a request's head and hyper leaves to the server (RFC 9112, 3.2 and 6.1): one `Host`, and no
//! transfer coding but `chunked`.

use axum::http::uri::Authority;
use axum::http::{HeaderMap, Version, header};

use crate::http::failure::{Cause, Failure};

pub(crate) fn check(version: Version, headers: &HeaderMap) -> Result<(), Failure> {
    check_host(version, headers)?;
    check_transfer_codings(headers)
}

/// Proxies and servers that take different ones of two hosts can be played off against each other.
fn check_host(version: Version, headers: &HeaderMap) -> Result<(), Failure> {
    let malformed = |message: String| Err(Failure::new(Cause::MalformedHead, message));
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host,
        (None, _) if version == Version::HTTP_11 => {
            return malformed("HTTP/1.1 requires a host header, and the request has none".to_owned());
        }
        (None, _) => return Ok(()),
        (Some(_), Some(_)) => return malformed("the request has more than one host header; send one".to_owned()),
    };
    let is_valid =
        host.is_empty() || Authority::try_from(host.as_bytes()).is_ok_and(|host| !host.as_str().contains('@'));
    if is_valid { Ok(()) } else { malformed(format!("the host header must be like example.com:8080, not {host:?}")) }
}

/// A body that is still encoded after its chunks must not be taken for what it encodes.
fn check_transfer_codings(headers: &HeaderMap) -> Result<(), Failure> {
    let values = headers.get_all(header::TRANSFER_ENCODING).iter();
    let codings = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
    let mut chunked = 0;
    for coding in codings.filter(|coding| !coding.is_empty()) {
        if !coding.eq_ignore_ascii_case(b"chunked") {
            let coding = String::from_utf8_lossy(coding);
            let message = format!("the transfer coding {coding:?} cannot be read; send the body as it is, or chunked");
            return Err(Failure::new(Cause::NotImplemented, message));
        }
        chunked += 1;
    }
    if chunked > 1 {
        return Err(Failure::new(
            Cause::MalformedHead,
            "the body is chunked twice, by transfer-encoding; once is enough",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(version: Version, named: &[(&'static str, &str)]) -> Option<u16> {
        let headers = named.iter().map(|(name, value)| ((*name).parse().unwrap(), value.parse().unwrap())).collect();
        check(version, &headers).err().map(|failure| failure.status().as_u16())
    }

    #[test]
    fn one_valid_host_is_required_and_only_chunks_are_read() {
        let http_11 = |named: &[(&'static str, &str)]| refusal(Version::HTTP_11, named);
        for valid in ["localhost", "localhost:8080", "127.0.0.1", "[::1]:80", "example.com.", ""] {
            assert_eq!(http_11(&[("host", valid)]), None, "{valid}");
        }
        for wrong in ["a b", "a, b", "user@example.com", "http://example.com", "a/b"] {
            assert_eq!(http_11(&[("host", wrong)]), Some(400), "{wrong}");
        }
        assert_eq!(http_11(&[]), Some(400));
        assert_eq!(http_11(&[("host", "a"), ("host", "a")]), Some(400));
        assert_eq!(refusal(Version::HTTP_10, &[]), None);
        assert_eq!(refusal(Version::HTTP_2, &[]), None);
        assert_eq!(refusal(Version::HTTP_2, &[("host", "a"), ("host", "a")]), Some(400));
        for (codings, status) in [
            (&["chunked"][..], None),
            (&["Chunked, "], None),
            (&["gzip, chunked"], Some(501)),
            (&["gzip", "chunked"], Some(501)),
            (&["chunked;a=b"], Some(501)),
            (&["chunked, chunked"], Some(400)),
        ] {
            let named: Vec<_> = codings.iter().map(|coding| ("transfer-encoding", *coding)).collect();
            assert_eq!(http_11(&[&[("host", "a")], named.as_slice()].concat()), status, "{codings:?}");
        }
    }
}
