//! Charset: from the bytes of a page to Unicode, as browsers do it.
//!
//! A byte order mark has precedence over the server's header, and that over the page's own declaration in its first
//! 1,024 bytes (<https://html.spec.whatwg.org/multipage/parsing.html#determining-the-character-encoding>). Without any
//! of them, it is UTF-8 if it can be, or else what the detector of Firefox takes it for, if that makes words. What is
//! wrong in the bytes becomes U+FFFD.

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};

/// Bytes of a page in which it may name its encoding.
const PRESCAN_BYTES: usize = 1024;

/// A text whose encoding nothing declares.
pub struct Decoded {
    pub text: String,
    /// Whether U+FFFD is in the place of bytes that are no text in any encoding.
    pub has_errors: bool,
    /// The encoding, if only the letters suggest it.
    pub guess: Option<&'static str>,
}

impl Decoded {
    pub fn warning(&self) -> Option<String> {
        if self.has_errors {
            let warning = "its bytes are no text in UTF-8 or another encoding; U+FFFD is in the place of wrong ones";
            return Some(warning.to_owned());
        }
        self.guess
            .map(|encoding| format!("it does not declare its encoding, and was read as {encoding}, by its letters"))
    }
}

/// The text of a file: in the encoding that its HTML declares, or the one that its bytes suggest.
pub fn decode_undeclared(bytes: &[u8]) -> Decoded {
    let is_markup = bytes.trim_ascii_start().starts_with(b"<") && std::str::from_utf8(bytes).is_err();
    if let Some(encoding) = is_markup.then(|| own_encoding(head_of(bytes))).flatten() {
        let (text, _, has_errors) = encoding.decode(bytes);
        return Decoded { text: text.into_owned(), has_errors, guess: None };
    }
    let (text, encoding, has_errors) = guessed(bytes).decode(bytes);
    let is_sure = encoding == UTF_8 || Encoding::for_bom(bytes).is_some();
    Decoded { text: text.into_owned(), has_errors, guess: (!is_sure).then(|| encoding.name()) }
}

pub(super) fn decode(bytes: &[u8], declared: Option<&str>, is_html: bool) -> String {
    let declared = declared.and_then(|label| Encoding::for_label(label.as_bytes()));
    let own = || if is_html { own_encoding(head_of(bytes)) } else { None };
    let encoding = declared.or_else(own).unwrap_or_else(|| guessed(bytes));
    // A byte order mark has precedence over all of that.
    let (text, ..) = encoding.decode(bytes);
    text.into_owned()
}

fn head_of(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len().min(PRESCAN_BYTES)]
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
    if Encoding::for_bom(bytes).is_some() || is_damaged_utf8(bytes) {
        return UTF_8;
    }
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(bytes, true);
    let guess = detector.guess(None, Utf8Detection::Allow);
    // Pairs of bytes that are characters are rarely anything else.
    if !guess.is_single_byte() || makes_words(&guess.decode_without_bom_handling(bytes).0) { guess } else { UTF_8 }
}

/// Whether more characters of UTF-8 are right than wrong, as in a text that was cut inside one.
fn is_damaged_utf8(bytes: &[u8]) -> bool {
    let (mut right, mut wrong) = (0, 0);
    for chunk in bytes.utf8_chunks() {
        right += chunk.valid().chars().filter(|character| !character.is_ascii()).count();
        wrong += usize::from(!chunk.invalid().is_empty());
    }
    right > wrong
}

/// Whether most words with characters beyond ASCII look like words: without controls, and without signs next to letters.
fn makes_words(text: &str) -> bool {
    // These do stand next to letters.
    const SIGNS: &str = "®™©°ªº·–—…‘’‚“”„‹›«»¿¡§\u{a0}\u{ad}\u{b4}";
    let is_odd = |character: char| {
        !character.is_ascii() && !character.is_alphanumeric() && !SIGNS.contains(character) || character.is_control()
    };
    let (mut words, mut odd) = (0_usize, 0);
    for word in text.split(|character: char| character.is_ascii_whitespace() || character == '\u{a0}') {
        if word.is_ascii() {
            continue;
        }
        words += 1;
        let has_control = word.chars().any(char::is_control);
        odd += usize::from(has_control || word.chars().any(is_odd) && word.chars().any(char::is_alphabetic));
    }
    odd * 2 < words.max(1)
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

    #[test]
    fn encoding_is_guessed_only_where_it_makes_words() {
        use encoding_rs::{EUC_KR, GBK, WINDOWS_1250, WINDOWS_1251};
        let in_encoding =
            |encoding: &'static Encoding, text: &str| (encoding.encode(text).0.into_owned(), text.to_owned());
        for (bytes, expected) in [
            in_encoding(WINDOWS_1252, "Le café est fermé."),
            in_encoding(WINDOWS_1252, "Zürich – Genève “quoted” for 5 €, 20 °C, Windows® and 10€"),
            in_encoding(WINDOWS_1250, "Žluťoučký kůň úpěl ďábelské ódy. Zażółć gęślą jaźń."),
            in_encoding(WINDOWS_1251, "Луна далеко. Хлеб пекут из муки."),
            in_encoding(SHIFT_JIS, "月は遠いです。東京は日本の首都です。"),
            in_encoding(GBK, "月亮离地球很远。面包是用面粉烤的。"),
            in_encoding(EUC_KR, "달은 멀리 있다. 빵은 밀가루로 굽는다."),
        ] {
            let decoded = decode_undeclared(&bytes);
            assert_eq!(decoded.text, expected);
            assert!(decoded.warning().is_some_and(|warning| warning.contains("was read as")), "{expected}");
        }
        for (bytes, expected) in [
            (&b"The moon \xff\xfe\x80 is far."[..], "The moon \u{fffd}\u{fffd}\u{fffd} is far."),
            ("Čeština a čas\u{10d}".as_bytes().split_last().unwrap().1, "Čeština a čas\u{fffd}"),
        ] {
            let decoded = decode_undeclared(bytes);
            assert_eq!(decoded.text, expected);
            assert!(decoded.warning().is_some_and(|warning| warning.contains("U+FFFD")), "{expected}");
        }
        for (bytes, expected) in [
            ("Čas".as_bytes(), "Čas"),
            (b"\xff\xfeM\0o\0", "Mo"),
            (b"\n<meta charset=iso-8859-2>\xe8as", "\n<meta charset=iso-8859-2>čas"),
        ] {
            let decoded = decode_undeclared(bytes);
            assert_eq!((decoded.warning(), decoded.text.as_str()), (None, expected));
        }
    }
}
