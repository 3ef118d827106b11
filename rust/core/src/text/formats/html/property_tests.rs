//! Properties of parsed HTML, tested with random sources.

use proptest::prelude::*;

use super::*;
use crate::runtime::call::unstopped;
use crate::text::formats::tests::assert_lawful;

/// Parses a source and asserts every property.
pub(super) fn lawful(source: &str) -> Reading {
    let reading = read(source, &unstopped).unwrap();
    let Reading { text, blocks, links, map, .. } = &reading;
    assert_lawful(text, blocks, links);
    let mut last = ByteSpan { start: 0, end: 0 };
    for (start, character) in text.char_indices() {
        let span = map.source_span(ByteSpan { start, end: start + character.len_utf8() });
        assert!(last.start <= span.start && last.end <= span.end, "{span:?} comes before {last:?} in {source:?}");
        let part = span.of(source);
        // Several readings of one word have one span.
        let is_reading = source.contains("<ruby>") && (part.is_empty() || part.contains('<'));
        assert!(is_reading || stands_for(part, character), "{part:?} stands for {character:?} in {source:?}");
        last = span;
    }
    if let (Some(first), Some(last)) = (text.chars().next(), text.chars().next_back()) {
        let whole = map.source_span(ByteSpan { start: 0, end: text.len() });
        assert_eq!(whole.start, map.source_span(ByteSpan { start: 0, end: first.len_utf8() }).start);
        let start = text.len() - last.len_utf8();
        assert_eq!(whole.end, map.source_span(ByteSpan { start, end: text.len() }).end);
    }
    reading
}

/// Character references of the tests, and their characters.
pub(super) const REFERENCES: [(&str, &str); 16] = [
    ("&amp;", "&"),
    ("&amp", "&"),
    ("&lt;", "<"),
    ("&nbsp;", "\u{a0}"),
    ("&shy;", "\u{ad}"),
    ("&#59;", ";"),
    ("&#x30", "0"),
    ("&#x1F600;", "😀"),
    ("&#128512", "😀"),
    ("&#150;", "–"),
    ("&#0;", "\u{fffd}"),
    ("&NotEqualTilde;", "\u{2242}\u{338}"),
    ("&nGt;", "\u{226b}\u{20d2}"),
    ("&#32;", " "),
    ("&#10;", "\n"),
    ("&Tab;", "\t"),
];

/// Whether a character of the text comes from this part of the source.
fn stands_for(source: &str, character: char) -> bool {
    let is_same = source.chars().eq([character]);
    let is_reference = REFERENCES.iter().any(|&(name, text)| name == source && text.contains(character));
    let is_white_reference = source.starts_with('&') && character == ' ';
    let is_line_break = source.starts_with("<br") || source.starts_with("</br");
    match character {
        ' ' => source.is_empty() || is_same || is_white_reference || source.chars().all(|c| c.is_ascii_whitespace()),
        '\n' => source.is_empty() || is_same || is_reference || is_line_break || source == "\r",
        '\t' => source.is_empty() || is_same || is_reference,
        '\u{fffd}' => is_same || is_reference || source == "\0",
        _ => is_same || is_reference,
    }
}

/// A page of words in inline elements in blocks, and its expected text.
fn nested() -> impl Strategy<Value = (String, Vec<String>)> {
    let words = prop::sample::select(vec!["one", "two.", "é", "漢字", "x y"]);
    let line = words.prop_map(|words| (words.to_owned(), words.to_owned()));
    let line = line.prop_recursive(4, 16, 4, |inner| {
        let names = prop::sample::select(vec!["b", "i", "span", "a", "code", "foo"]);
        (names, prop::collection::vec(inner, 1..4)).prop_map(|(name, parts)| {
            let (source, text): (Vec<String>, Vec<String>) = parts.into_iter().unzip();
            (format!("<{name}>{}</{name}>", source.join(" \n")), text.join(" "))
        })
    });
    let block = line.prop_map(|(source, text)| (format!("<p>{source}"), vec![text]));
    block.prop_recursive(4, 32, 4, |inner| {
        let names = prop::sample::select(vec!["div", "section", "blockquote", "article", "center"]);
        (names, prop::collection::vec(inner, 1..4)).prop_map(|(name, parts)| {
            let (source, text): (Vec<String>, Vec<Vec<String>>) = parts.into_iter().unzip();
            (format!(" <{name}>\n{}</{name}><!-- x -->", source.concat()), text.concat())
        })
    })
}

/// Markup that changes where text stands.
const STYLED: &str = "<ruby>|<rt>|</rt>|<rp>|</ruby>|<sup>|</sup>|<i aria-hidden=true>|</i>|<details>|<summary>|</details>|\
    <figure>|<figcaption>|</figure>|<blockquote>|<footer>|<cite>|</cite>|<td colspan=2 rowspan=3>|<thead>|</thead>|\
    <p style=white-space:pre>|<i style=white-space:pre-line>|<div style=display:flex>|<b style=display:block>|\
    <div style=visibility:hidden>|<i style=visibility:visible>|<div style=display:table>|<div style=display:table-row>|\
    <div style=display:table-cell>";

/// Random sequences of conflicting markup.
fn soup() -> impl Strategy<Value = String> {
    let mut pieces = vec![
        "a", "é", "漢", " ", "  ", "\n", "\r\n", "\r", "\0", "\u{a0}", "<", ">", "&", ";", "/", "=", "'", "\"", "<!",
        "<!--", "-->", "</>", "<?", "<![CDATA[", "]]>", "<p>", "</p>", "<br>", "<br/>", "<hr>", "<a>", "</a>", "<b>",
        "</b>", "<b hidden>", "<div hidden>", "<div>", "</div>", "<h1>", "</h1>", "<h2>", "</h2>", "<ul>", "</ul>",
        "<li>", "</li>", "<dl>", "<dt>", "<dd>", "<table>", "</table>", "<caption>", "<tbody>", "<tr>", "</tr>",
        "<td>", "</td>", "<th>", "<pre>", "</pre>", "<svg>", "</svg>", "<foreignObject>", "</foreignObject>", "<math>",
        "</math>", "<mi>", "</mi>", "<annotation>", "<script>", "</script>", "<style>", "</style>", "<title>",
        "</title>", "<textarea>", "</textarea>", "<select>", "<option>", "</select>", "<template>", "</template>",
        "<button>", "</button>", "<plaintext>", "<span style=display:none>", "</span>", "<x", " y=", "<iframe>",
        "</iframe>", "<section>", "</section>", "<noscript>", "</noscript>",
    ];
    pieces.extend(REFERENCES.map(|(reference, _)| reference).iter().filter(|reference| reference.ends_with(';')));
    pieces.extend(["&amp-", "&#x30-", "&#128512<"]);
    pieces.extend(STYLED.split('|'));
    prop::collection::vec(prop::sample::select(pieces), 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn random_markup_keeps_every_property(source in soup()) {
        lawful(&source);
    }
}

proptest! {
    #[test]
    fn any_text_is_read(source in "\\PC{0,200}|[<>/&;a-c #=\"'!\\-\\[\\]\0\r\n]{0,200}") {
        let reading = read(&source, &unstopped).unwrap();
        assert_lawful(&reading.text, &reading.blocks, &reading.links);
    }

    #[test]
    fn nested_elements_give_their_text((source, blocks) in nested()) {
        let reading = lawful(&source);
        prop_assert_eq!(reading.text, blocks.join("\n\n"));
    }
}
