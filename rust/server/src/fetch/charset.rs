//! Charset: from the bytes of a page to Unicode, as browsers do it.
//!
//! A byte order mark has precedence over the server's header, and that over the page's own declaration in its first
//! 1,024 bytes (<https://html.spec.whatwg.org/multipage/parsing.html#determining-the-character-encoding>). Without any
//! of them, it is UTF-8 if it can be, or else what the detector of Firefox takes it for. What is wrong in the bytes
//! becomes U+FFFD.

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};

/// Bytes of a page in which it may name its encoding.
const PRESCAN_BYTES: usize = 1024;

pub(super) fn decode(bytes: &[u8], declared: Option<&str>, is_html: bool) -> String {
    let declared = declared.and_then(|label| Encoding::for_label(label.as_bytes()));
    let own = || if is_html { own_encoding(&bytes[..bytes.len().min(PRESCAN_BYTES)]) } else { None };
    let encoding = declared.or_else(own).unwrap_or_else(|| guessed(bytes));
    // A byte order mark has precedence over all of that.
    let (text, ..) = encoding.decode(bytes);
    text.into_owned()
}

/// The encoding that a page's `meta` declares.
fn own_encoding(head: &[u8]) -> Option<&'static Encoding> {
    let head = head.to_ascii_lowercase();
    let mut rest = head.as_slice();
    while let Some(at) = find(rest, b"<meta") {
        rest = &rest[at + b"<meta".len()..];
        let tag = &rest[..find(rest, b">").unwrap_or(rest.len())];
        if let Some(encoding) = charset_of(tag) {
            return Some(encoding);
        }
    }
    None
}

/// The value of `charset=`, as an attribute or in the content of one.
fn charset_of(tag: &[u8]) -> Option<&'static Encoding> {
    let value = tag[find(tag, b"charset")? + b"charset".len()..].trim_ascii_start().strip_prefix(b"=")?;
    let value = value.trim_ascii_start();
    let value = value.strip_prefix(b"\"").or(value.strip_prefix(b"'")).unwrap_or(value).trim_ascii_start();
    let is_end = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b';' | b'/');
    let label = &value[..value.iter().position(is_end).unwrap_or(value.len())];
    let encoding = Encoding::for_label(label)?;
    // A label that is readable byte by byte is not written in pairs of bytes.
    Some(if encoding == UTF_16LE || encoding == UTF_16BE { UTF_8 } else { encoding })
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

fn guessed(bytes: &[u8]) -> &'static Encoding {
    if std::str::from_utf8(bytes).is_ok() {
        return UTF_8;
    }
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(bytes, true);
    detector.guess(None, Utf8Detection::Allow)
}

#[cfg(test)]
mod tests {
    use super::*;
    use encoding_rs::{SHIFT_JIS, WINDOWS_1252};

    #[test]
    fn byte_order_mark_wins_over_header_over_meta() {
        let meta = |charset: &str| format!("<html><META {charset}><p>Čeština</p>");
        let latin =
            |charset: &str| WINDOWS_1252.encode(&format!("<meta {charset}><p>Zürich – Genève</p>")).0.into_owned();
        let cases: [(Vec<u8>, Option<&str>, &str); 8] = [
            (meta("charset=utf-8").into_bytes(), None, "Čeština"),
            (meta("charset=utf-16").into_bytes(), None, "Čeština"),
            (latin("http-equiv=content-type content='text/html; charset = iso-8859-1'"), None, "Zürich – Genève"),
            (latin("charset=\"utf-8\""), Some("latin1"), "Zürich – Genève"),
            (latin("charset=nonsense"), None, "Zürich – Genève"),
            (latin("name=x"), None, "Zürich – Genève"),
            ([b"\xef\xbb\xbf", meta("charset=latin1").as_bytes()].concat(), Some("latin1"), "Čeština"),
            (
                SHIFT_JIS.encode("<p>日本語の文章です。東京は日本の首都です。</p>").0.into_owned(),
                None,
                "東京は日本の首都",
            ),
        ];
        for (bytes, declared, expected) in cases {
            let text = decode(&bytes, declared, true);
            assert!(text.contains(expected), "{text}");
        }
        assert!(decode(b"<meta charset=latin1>\xc3\xa9", None, false).ends_with('é'), "text has no markup");
        assert_eq!(decode(b"a\xff\xfe", Some("utf-8"), false), "a\u{fffd}\u{fffd}");
    }
}
