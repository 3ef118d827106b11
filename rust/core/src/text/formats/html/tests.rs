use super::Reading;
use super::property_tests::{REFERENCES, lawful};
use crate::text::page::BlockKind::{self, Caption, Code, HeaderRow, Heading, Item, Prose, Row, Term};
use crate::text::page::ByteSpan;

type Cut<'text> = (&'text str, BlockKind, bool);

fn check(cases: &[(&str, &str, &[Cut<'_>])]) {
    for (source, text, blocks) in cases {
        let reading = lawful(source);
        assert_eq!(reading.text, *text, "{source:?}");
        let cut: Vec<Cut<'_>> =
            reading.blocks.iter().map(|block| (block.span.of(&reading.text), block.kind, block.continues)).collect();
        assert_eq!(cut, *blocks, "{source:?}");
    }
}

fn check_text(cases: &[(&str, &str)]) {
    for (source, text) in cases {
        assert_eq!(lawful(source).text, *text, "{source:?}");
    }
}

#[test]
fn elements_bound_blocks() {
    check(&[
        ("", "", &[]),
        ("One <b>two</b>", "One two", &[("One two", Prose, false)]),
        (
            "<h1>A</h1><p>B<p>C</p>D<div>E<section>F</section></div>",
            "A\n\nB\n\nC\n\nD\n\nE\n\nF",
            &[
                ("A", Heading, false),
                ("B", Prose, false),
                ("C", Prose, false),
                ("D", Prose, false),
                ("E", Prose, false),
                ("F", Prose, false),
            ],
        ),
        (
            "A<ul><li>B<li>C<p>D</p><ol><li>E</ol>F</ul>G",
            "A\n\nB\nC\n\nD\n\nE\nF\n\nG",
            &[
                ("A", Prose, false),
                ("B", Item, false),
                ("C", Item, false),
                ("D", Item, true),
                ("E", Item, false),
                ("F", Item, true),
                ("G", Prose, false),
            ],
        ),
        (
            "<dl><dt>A<dd>B<dd><div>C</div><div>D</div></dl>",
            "A\nB\nC\nD",
            &[("A", Term, false), ("B", Item, false), ("C", Item, false), ("D", Item, true)],
        ),
        (
            "<blockquote>A</blockquote><figure><img alt=x><figcaption>B</figcaption></figure><hr>C",
            "A\n\nB\n\nC",
            &[("A", Prose, false), ("B", Prose, false), ("C", Prose, false)],
        ),
        (
            "<h2>A<div>B</div>C<p>D",
            "A\n\nB\n\nC\n\nD",
            &[("A", Heading, false), ("B", Heading, false), ("C", Heading, false), ("D", Prose, false)],
        ),
        (
            "A<br>B <br>\n C<br><br>D<br><h2>E<br><br>F</h2>",
            "A\nB\nC\n\nD\n\nE\nF",
            &[("A\nB\nC", Prose, false), ("D", Prose, false), ("E\nF", Heading, false)],
        ),
        ("<ul><li>A<br><br>B</ul>", "A\n\nB", &[("A", Item, false), ("B", Item, true)]),
        ("<p>&nbsp;</p>", "\u{a0}", &[]),
    ]);
}

#[test]
fn tables_of_data_are_rows() {
    check(&[
        (
            "<table><caption>T</caption><thead><tr><th>A<th>B</thead><tr><td>C</td> <td><b>D</b>\n</td></tr></table>E",
            "T\n\nA\tB\nC\tD\n\nE",
            &[("T", Caption, false), ("A\tB", HeaderRow, false), ("C\tD", Row, true), ("E", Prose, false)],
        ),
        (
            "<table><tr><th colspan=2>T<tr><th>A<th>B<tr><th>C<td>D</table><table><tr><th>A<td>B<tr><td>C<td>D</table>",
            "T\nA\tB\nC\tD\n\nA\tB\nC\tD",
            &[
                ("T", HeaderRow, false),
                ("A\tB", HeaderRow, true),
                ("C\tD", Row, true),
                ("A\tB", Row, false),
                ("C\tD", Row, true),
            ],
        ),
        (
            "<table><tr><td><td>A<td> <td>B<td></table><table><td>C<br>D</table>",
            "A\t\tB\n\nC\nD",
            &[("A\t\tB", Row, false), ("C\nD", Row, false)],
        ),
        ("<ul><li><table><tr><td>A<tr><td>B</table></ul>", "A\nB", &[("A", Row, false), ("B", Row, true)]),
        ("<tr><td>A</td><td>B</td></tr>", "A\n\nB", &[("A", Prose, false), ("B", Prose, false)]),
    ]);
}

#[test]
fn tables_of_layout_are_not() {
    check(&[
        ("<table><tr><td>A<td><p>B</table>", "A\n\nB", &[("A", Prose, false), ("B", Prose, false)]),
        (
            "<table><tr><td>A<td><table><tr><td>B<td>C</table></table>",
            "A\n\nB\tC",
            &[("A", Prose, false), ("B\tC", Row, false)],
        ),
        (
            "<table><tr><td>A<td><ul><li>B<li>C</ul></table>",
            "A\n\nB\nC",
            &[("A", Prose, false), ("B", Item, false), ("C", Item, false)],
        ),
        ("<table><tr><td>A<td><p hidden>B</p>C</table>", "A\n\nC", &[("A", Prose, false), ("C", Prose, false)]),
    ]);
    let long = "word ".repeat(LONGEST_DATA / 5 + 1);
    let blocks = |cell: &str| lawful(&format!("<table><tr><td>A<td>{cell}</table>")).blocks;
    assert_eq!(blocks(&long).len(), 2);
    assert_eq!(blocks(&long[..LONGEST_DATA - 5]).len(), 1);
}

/// Characters of the longest cell of a data table.
const LONGEST_DATA: usize = 400;

#[test]
fn code_is_cut_into_lines() {
    check(&[
        (
            "A<pre>\n  b\n\n    c  d\n</pre><pre><code>e</code></pre>F",
            "A\n\n  b\n\n    c  d\n\ne\n\nF",
            &[("A", Prose, false), ("b", Code, false), ("c  d", Code, true), ("e", Code, false), ("F", Prose, false)],
        ),
        ("<pre><div> a</div>\n<div> b &lt;</div></pre>", " a\n b <", &[("a", Code, false), ("b <", Code, true)]),
        (
            "<pre>a<br> b&#10;\tc\r\nd</pre>",
            "a\n b\n\tc\nd",
            &[("a", Code, false), ("b", Code, true), ("c", Code, true), ("d", Code, true)],
        ),
        ("<pre>  \n</pre>A", "A", &[("A", Prose, false)]),
        ("a<plaintext><b>\nc", "a\n\n<b>\nc", &[("a", Prose, false), ("<b>", Code, false), ("c", Code, true)]),
    ]);
}

#[test]
fn white_space_collapses() {
    check_text(&[
        (" \n A  \t\r\n B <i> C</i> <b> D</b>E ", "A B C DE"),
        ("A&nbsp;&nbsp;B\u{200b}\u{ad}C&shy;D", "A\u{a0}\u{a0}B\u{200b}\u{ad}C\u{ad}D"),
        ("A&#32; &#10;B", "A B"),
        ("<span>A</span><span>B</span><a>C</a><wbr>D<img alt=e>F<foo>G</foo>", "ABCDFG"),
        ("\u{feff} A", "A"),
    ]);
}

#[test]
fn hidden_html_is_left_out() {
    check_text(&[
        ("A<script>if (a<b) '</p>'</script>B<style>p{}</style>C<!-- D --><!----!>E", "ABCE"),
        ("<!doctype html><html><head><title>T</title><meta a=b></head><body hidden>A</body></html>B", "AB"),
        ("A<template><p>B</p></template>C<noscript><p>D</p></noscript>E", "ACE"),
        ("A<svg><title>B</title><style>c</style><path/><text>D</text></svg>E", "AE"),
        ("A<svg><foreignObject><p>B</p></foreignObject></svg>C<svg/>D", "ACD"),
        ("A<svg><path><p>B", "A\n\nB"),
        ("<math><mi>x</mi><mo>=</mo><mn>1</mn><annotation>y</annotation><![CDATA[z]]></math>", "x=1z"),
        ("A<iframe><p>B</iframe><object>C</object><video>D</video><canvas>E</canvas>F", "AF"),
        ("A<select><option>B<option>C</select>D<textarea><p>E</textarea><button>F</button>G", "ADG"),
        ("A<span hidden>B<span>C</span>D</span>E<i aria-hidden=TRUE>F</i>G<i aria-hidden=false>H</i>", "AEGH"),
        ("A<span style='color:red; DISPLAY : none !important'>B</span>C<p style=display:block>D", "AC\n\nD"),
        ("A<div hidden><p>B</div>C", "AC"),
        ("A<ruby>漢<rp>(</rp><rt>B</rt><rp>)</rp></ruby>", "A漢B"),
        ("A<dialog>B</dialog><dialog open>C</dialog>", "A\n\nC"),
        ("<p><i aria-hidden=true>A<p>B", "B"),
        ("<b hidden hidden=x>A</b><input hidden>B<br hidden>C", "B\nC"),
    ]);
}

#[test]
fn broken_markup_is_read_as_browsers_do() {
    check_text(&[
        ("<p>A</div></b></table>B<p>C</p></p>D", "AB\n\nC\n\nD"),
        ("<b>A<p>B</b>C</p>D", "A\n\nBC\n\nD"),
        ("a < b <3 <é </> <!x> </ y>z &bogus; & &#; &#x;", "a < b <3 <é z &bogus; & &#; &#x;"),
        ("A<a href='>'>B</a><a title=a>b>C</a>", "ABb>C"),
        ("A<div class=\"B", "A"),
        ("A<script>B", "A"),
        ("A<!-- B", "A"),
        ("A<textarea>B", "A"),
        ("A\0B<![CDATA[C]]>D", "ABD"),
        ("<li>A<div><li>B", "A\nB"),
        ("<ul><li>A<section><li>B</section>C</ul>", "A\nB\nC"),
        ("<table><tr><td>A<table><tr><td>B</table>C</table>", "A\n\nB\n\nC"),
        ("<table>A<tr><td>B</table>", "A\nB"),
        ("<table><tr><td>A</div>B</table>", "AB"),
        ("<h1>A<h2>B</h1>C", "A\n\nB\n\nC"),
        ("A</br>B", "A\nB"),
        ("A<select><p>B</select>C", "AC"),
    ]);
}

#[test]
fn references_map_to_their_whole_source() {
    for (reference, text) in REFERENCES.iter().filter(|(_, text)| !text.trim_matches([' ', '\n', '\t']).is_empty()) {
        let source = format!("<p>a {reference} <b>b</b>");
        let Reading { text: read, map, .. } = lawful(&source);
        assert_eq!(read, format!("a {text} b"));
        let span = map.source_span(ByteSpan { start: 2, end: 2 + text.len() });
        assert_eq!(span.of(&source), *reference);
    }
    let source = "<p>One <b>t&amp;o</b>\n three";
    let Reading { text, map, .. } = lawful(source);
    let span = |words: &str| {
        let start = text.find(words).expect("it is there");
        map.source_span(ByteSpan { start, end: start + words.len() }).of(source)
    };
    assert_eq!(span("One t&o three"), "One <b>t&amp;o</b>\n three");
    assert_eq!(span("t&"), "t&amp;");
    assert_eq!(span("o"), "o");
    assert!(map.source_span(ByteSpan { start: text.len(), end: text.len() }).is_empty());
    assert!(lawful("").map.source_span(ByteSpan { start: 0, end: 0 }).is_empty());
}

#[test]
fn short_links_are_reported() {
    let long = format!("<a>{}</a>", "a ".repeat(101));
    let cases: [(&str, &[&str]); 7] = [
        ("A <a href=b> C <b>D</b> </a> E <a>F</a>", &["C D", "F"]),
        ("<p><a>A</a><a>B</a>C", &["A", "B"]),
        ("<a><p>A</p></a>B<div><a>C</a></div>", &["C"]),
        ("<a>A<p>B</a>", &[]),
        ("<a> </a><a><img></a>A<a></a>", &[]),
        ("<li><a>A</a><li><a>B", &["A", "B"]),
        (&long, &[]),
    ];
    for (source, expected) in cases {
        let reading = lawful(source);
        let links: Vec<&str> = reading.links.iter().map(|link| link.of(&reading.text)).collect();
        assert_eq!(links, expected, "{source:?}");
    }
}

#[test]
fn a_title_comes_from_the_head_or_the_first_main_heading() {
    let cases = [
        ("<title> A &amp;\n<b> </title><title>B</title><h1>C</h1>", Some("A & <b>")),
        ("<svg><title>A</title></svg><title></title><h2>B</h2><h1>C<br>D</h1><h1>E</h1>", Some("C D")),
        ("<div hidden><h1>A</h1></div>", None),
    ];
    for (source, expected) in cases {
        assert_eq!(lawful(source).title.as_deref(), expected, "{source:?}");
    }
}

#[test]
fn an_article_reads_as_it_looks() {
    let source = r#"<!DOCTYPE html>
<html lang=en><head><meta charset=utf-8><title>Tea &mdash; a guide</title>
<style>body { color: #111 }</style></head>
<body><nav><ul><li><a href="/">Home</a></li><li><a href="/tea">Tea</a></li></ul></nav>
<article>
  <h1>Tea</h1>
  <p>Water at 80&nbsp;°C is <em>best</em>
     for green tea.<sup><a href=note>[1]</a></sup></p>
  <table><tr><th>Kind</th><th>Minutes</th></tr><tr><td>Green</td><td>2</td></tr></table>
  <pre><code>steep(tea,
  minutes=2)
</code></pre>
</article><script>track("<p>")</script></body></html>
"#;
    let text = "Home\nTea\n\nTea\n\nWater at 80\u{a0}°C is best for green tea.[1]\n\nKind\tMinutes\nGreen\t2\n\n\
                steep(tea,\n  minutes=2)";
    let reading = lawful(source);
    assert_eq!(reading.text, text);
    assert_eq!(reading.title.as_deref(), Some("Tea — a guide"));
    let kinds: Vec<BlockKind> = reading.blocks.iter().map(|block| block.kind).collect();
    assert_eq!(kinds, [Item, Item, Heading, Prose, HeaderRow, Row, Code, Code]);
}
