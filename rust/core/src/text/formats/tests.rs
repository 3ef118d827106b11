use super::*;
use crate::runtime::call::unstopped;
use crate::text::page::BlockKind;
use proptest::prelude::*;

/// Asserts that blocks and links are as [`Document::blocks`] and [`Document::links`] promise.
pub(super) fn assert_lawful(text: &str, blocks: &[Block], links: &[ByteSpan]) {
    let mut done = 0;
    for block in blocks {
        let span = block.span;
        assert!(done <= span.start && !span.is_empty(), "{span:?} overlaps or is empty in {text:?}");
        assert!(text[done..span.start].trim().is_empty(), "text before {span:?} is in no block of {text:?}");
        // A row may start with empty cells.
        let cells = if matches!(block.kind, BlockKind::Row | BlockKind::HeaderRow) { span.of(text) } else { "" };
        let tabs = cells.bytes().take_while(|byte| *byte == b'\t').count();
        let inside = ByteSpan { start: span.start + tabs, end: span.end };
        assert_eq!(inside.trimmed(text), inside, "not trimmed in {text:?}");
        done = span.end;
    }
    assert!(text[done..].trim().is_empty(), "text after {done} is in no block of {text:?}");
    assert!(!blocks.first().is_some_and(|first| first.continues), "the first block goes on with nothing in {text:?}");
    let mut done = 0;
    for link in links {
        assert!(done <= link.start && !link.is_empty(), "{link:?} overlaps or is empty in {text:?}");
        let block = blocks.partition_point(|block| block.span.end < link.end);
        let within = blocks.get(block).is_some_and(|block| block.span.start <= link.start);
        assert!(within && text.is_char_boundary(link.start), "{link:?} leaves its block in {text:?}");
        done = link.end;
    }
}

#[test]
fn text_and_markdown_are_their_source() {
    let source = "# A\n\n<p>[b](c)</p>";
    for format in [Format::Text, Format::Markdown] {
        let document = Document::read(source, format, &unstopped).unwrap();
        assert_eq!(document.format(), format);
        assert_eq!(document.text().as_ptr(), source.as_ptr(), "it was copied");
        let span = ByteSpan { start: 2, end: 6 };
        assert_eq!(document.source_span(span), span);
        assert_eq!(document.blocks().is_some(), format == Format::Markdown);
        assert_eq!(document.title().is_some(), format == Format::Markdown);
        assert!(format == Format::Markdown || document.links().is_empty());
    }
}

#[test]
fn auto_detects_the_format() {
    let cases = [
        ("<p>A</p>", Format::Html, "A"),
        (
            "# A\n\nSome words of prose.\n\n## B\n\n- c\n- d\n",
            Format::Markdown,
            "# A\n\nSome words of prose.\n\n## B\n\n- c\n- d\n",
        ),
        ("A", Format::Text, "A"),
    ];
    for (source, format, text) in cases {
        let document = Document::read(source, Format::Auto, &unstopped).unwrap();
        assert_eq!((document.format(), document.text()), (format, text));
    }
}

/// A mebibyte of each shape for which a parser could take more than linear time or recurse too deep; then this test
/// does not end.
#[test]
fn hostile_sources_end() {
    const SIZE: usize = 1 << 20;
    let shapes = [
        "<div>", "<b>", "<a>", "</b>", "<p>", "</p>", "<li>", "<ul><li>", "<b><p>", "<p></b>", "<a><div>", "<h1>",
        "<dd>", "<table>", "<table><tr><td>", "<td>", "</table>", "<svg>", "<svg><foreignObject>", "<math><mi>",
        "</svg>", "<pre>", "<pre> ", "<br>", "<template>", "<select>", "<span hidden>", "<x", "<!--", "<script>",
        "</script", "<title>", "<![CDATA[", "<", "</", "&", "&a", "&amp;", "&#1", "<plaintext>", "\0", "\r", " ",
        "&nbsp;", "> ", "- ", "1. ", "#", "# a\n", "a\n", "```\n", "`", "`a``", "[", "![", "[a](", "](", "[a]: b\n",
        "[^a]: b\n", "*a_ ", "|", "|a", "|-", "---\n", "a\n---\n", "+++\n", "> ```\n", ">- ", "\t- ", "\\", "<?",
        "<a ", "<a b=\"", "~~a ", "\u{a0}", "漢",
    ];
    let read = |source: &str| {
        for format in [Format::Markdown, Format::Html, Format::Auto] {
            let document = Document::read(source, format, &unstopped).unwrap();
            if let Some(blocks) = document.blocks() {
                assert_lawful(document.text(), blocks, document.links());
            }
        }
    };
    for shape in shapes {
        read(&shape.repeat(SIZE / shape.len()));
    }
    // Many end tags of distant elements, or of none.
    for (starts, ends) in [("<b>", "</i>"), ("<b>", "</p>"), ("<div>", "</b>"), ("<li><b>", "</li>"), ("<x>", "</y>")] {
        let distant = "<i><p><b><table><tr><td>";
        read(&format!("{distant}{}{}", starts.repeat(SIZE / 2 / starts.len()), ends.repeat(SIZE / 2 / ends.len())));
    }
    let long = "a".repeat(SIZE);
    read(&format!("<p style='{long}' {long}={long}>b</p><{long}>c</{long}>&{long};&#{};", "0".repeat(SIZE)));
    // A wide table with short rows, which the parser fills up.
    read(&format!("{}\n{}\n{}", "|a".repeat(SIZE >> 5), "|-".repeat(SIZE >> 5), "|b\n".repeat(SIZE >> 2)));
    // Nested lists.
    read(&(0..SIZE).map(|depth| format!("{}- a\n", " ".repeat(depth))).take(1400).collect::<String>());
}

proptest! {
    #[test]
    fn any_source_is_read(source in "\\PC{0,200}", format in prop::sample::select(vec![Format::Text, Format::Markdown, Format::Html, Format::Auto])) {
        let document = Document::read(&source, format, &unstopped).unwrap();
        prop_assert_ne!(document.format(), Format::Auto);
        let whole = ByteSpan { start: 0, end: document.text().len() };
        prop_assert!(document.source_span(whole).end <= source.len());
        if let Some(blocks) = document.blocks() {
            assert_lawful(document.text(), blocks, document.links());
        }
    }
}
