use super::Reading;
use super::property_tests::{REFERENCES, lawful};
use crate::text::page::BlockKind::{self, Caption, Code, HeaderRow, Heading, Item, Prose, Row, Rule, Source, Term};
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
            "\tA\t\tB\n\nC\nD",
            &[("\tA\t\tB", Row, false), ("C\nD", Row, false)],
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
        ("<table role=presentation><tr><td>A<td>B</table>", "A\n\nB", &[("A", Prose, false), ("B", Prose, false)]),
        (
            "<table><tr><td><p>A</p><td>B<tr><td><h2>C</h2><td>D</table>",
            "A\n\nB\n\nC\n\nD",
            &[("A", Prose, false), ("B", Prose, false), ("C", Heading, false), ("D", Prose, false)],
        ),
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
        ("A<textarea><p>B</textarea>C<input value=D>E<select>F<p>G</select>", "ACE"),
        ("A<span hidden>B<span>C</span>D</span>E<i aria-hidden=TRUE>F</i>G<i aria-hidden=false>H</i>", "AEFGH"),
        ("A<span style='color:red; DISPLAY : none !important'>B</span>C<p style=display:block>D", "AC\n\nD"),
        ("A<div hidden><p>B</div>C", "AC"),
        ("A<dialog>B</dialog><dialog open>C</dialog>", "A\n\nC"),
        ("<p><i aria-hidden=true>A<p>B", "A\n\nB"),
        ("<b hidden hidden=x>A</b><input hidden>B<br hidden>C", "BC"),
    ]);
}

#[test]
fn cells_keep_their_row_and_column() {
    let day = |cell: &str| format!("<table><tr><th>Day<th>Hours<tr><td>Mon<td>{cell}<tr><td>Tue<td>closed</table>");
    for (cell, text) in [
        ("<p>9-5</p>", "9-5"),
        ("<div>9-12</div><div>1-5</div>", "9-12\n1-5"),
        ("<ul><li>9-12<li>1-5</ul>", "9-12\n1-5"),
        ("<table><tr><td>9<td>5</table>", "9\t5"),
        ("Hours:<table><tr><td>9<td>5<tr><td>6<td>7</table>", "Hours:\n9\t5\n6\t7"),
        ("<pre>\nopen()\n  close()\n</pre>", "open()\n  close()"),
        ("<h4>9</h4>-5", "9\n-5"),
        ("<dl><dt>Door<dd>9-5</dl>", "Door\n9-5"),
        ("<p style='white-space: pre-line'>9-12\n 1-5", "9-12\n1-5"),
    ] {
        assert_eq!(lawful(&day(cell)).text, format!("Day\tHours\nMon\t{text}\nTue\tclosed"), "{cell}");
    }
    let header = |row| (row, HeaderRow, false);
    check(&[
        (
            "<table><tr><td><th>Basic<th>Pro<tr><td>Price<td>5<td>9</table>",
            "\tBasic\tPro\nPrice\t5\t9",
            &[header("\tBasic\tPro"), ("Price\t5\t9", Row, true)],
        ),
        (
            "<table><thead><tr><td>Day<td>Hours</thead><tbody><tr><td>Mon<td>9-5</table>",
            "Day\tHours\nMon\t9-5",
            &[header("Day\tHours"), ("Mon\t9-5", Row, true)],
        ),
        (
            "<table><thead><tr><th><th colspan=2>2023<th>2024</thead><tr><th>a<td>1<td>2<td>3</table>",
            "\t2023\t\t2024\na\t1\t2\t3",
            &[header("\t2023\t\t2024"), ("a\t1\t2\t3", Row, true)],
        ),
        (
            "<table><tr><th rowspan=2>Ann<td>1<tr><td>2<tr><th>Bob<td>3</table>",
            "Ann\t1\n\t2\nBob\t3",
            &[("Ann\t1", Row, false), ("\t2", Row, true), ("Bob\t3", Row, true)],
        ),
        (
            "<table><tr><td><p>A<td><p>B<tr><td><p>C<td><p>D</table>",
            "A\tB\nC\tD",
            &[("A\tB", Row, false), ("C\tD", Row, true)],
        ),
    ]);
}

#[test]
fn buttons_and_options_are_text_but_not_controls() {
    check(&[
        (
            "<p>Press <button>OK</button>, then wait.</p>",
            "Press OK, then wait.",
            &[("Press OK, then wait.", Prose, false)],
        ),
        (
            "<h2><button>Is it dry</button></h2>Yes.",
            "Is it dry\n\nYes.",
            &[("Is it dry", Heading, false), ("Yes.", Prose, false)],
        ),
        (
            "<button>Is it dry?</button><p>Yes.",
            "Is it dry?\n\nYes.",
            &[("Is it dry?", Prose, false), ("Yes.", Prose, false)],
        ),
        (
            "<div><button aria-expanded=false>Delivery</button></div><div>Three days.</div>",
            "Delivery\n\nThree days.",
            &[("Delivery", Heading, false), ("Three days.", Prose, false)],
        ),
        (
            "<p>Run:</p><div><button>Copy</button><pre>ls</pre></div>",
            "Run:\n\nls",
            &[("Run:", Prose, false), ("ls", Code, false)],
        ),
        (
            "A<p><button>Share</button> <button>Save</button></p>B",
            "A\n\nB",
            &[("A", Prose, false), ("B", Prose, false)],
        ),
        ("<nav><button aria-expanded=false>Menu</button></nav>B", "B", &[("B", Prose, false)]),
        (
            "Size <select><option>S<option>M</select> of it",
            "Size\nS\nM\nof it",
            &[("Size", Prose, false), ("S", Rule, false), ("M", Rule, false), ("of it", Prose, false)],
        ),
    ]);
    check_text(&[("One<button>two</button>three", "One two three"), ("<label>A</label> <legend>B</legend>", "A\n\nB")]);
}

#[test]
fn what_is_hidden_from_screen_readers_is_shown_unless_it_is_a_copy() {
    check_text(&[
        ("<main aria-hidden=true><h1>A</h1><p>B</main><div role=dialog>C</div>", "A\n\nB\n\nC"),
        ("<main aria-hidden=true>A <math><mi>x</mi></math><p>B</main><span class=sr-only>C</span>", "A x\n\nB\n\nC"),
        ("<p><span aria-hidden=true>5 of 9</span> <span class='x sr-only'>Five</span>", "Five"),
        ("<p><b class=a-offscreen>$1.50</b><i aria-hidden=true>$<i>1.</i><sup>50</sup></i>", "$1.50"),
        ("<p><i aria-hidden=true>One</i> <b>one</b> <i aria-hidden=true>two</i>", "one two"),
        ("<p>So <span><span><math><mi>x</mi></math></span><span aria-hidden=true>x<b>y</b></span></span>.", "So x."),
        ("<p>So <i><i aria-hidden=true>x</i><i><math><mi>x</mi></math></i></i>.", "So x."),
        ("<h2>A <a aria-hidden=true>#</a></h2><p aria-hidden=true>★★☆", "A"),
        ("<i class=material-icons aria-hidden=true>home</i>A<nav aria-hidden=true>B</nav>", "A"),
        ("<div role=dialog aria-hidden=true>A</div>B", "B"),
        ("<ul aria-hidden=true><li>A</ul><p aria-hidden=false>B", "A\n\nB"),
    ]);
}

#[test]
fn styles_are_followed() {
    check_text(&[
        ("<p style='visibility:hidden'>A<b style='visibility: visible'>B</b>C", "B"),
        ("<div style='content-visibility:hidden'>A</div>B<div style='content-visibility:auto'>C", "B\n\nC"),
        ("<div hidden=until-found>A</div><div popover>B</div>C", "A\n\nC"),
        ("<b style='display:block'>A</b><a style='display: flex'>B</a>C", "A\n\nB\n\nC"),
        ("<div style=display:inline>A</div> <p style=display:inline>B</p>", "A B"),
        ("<div style='display:grid'><span>A</span><span>B</span></div>", "A\n\nB"),
        ("<ul><li style='display: inline'>A</li> <li style='display: inline-block'>B</li></ul>", "A B"),
        (
            "<div style=display:table><div style=display:table-row><div style=display:table-cell>A</div><div \
             style=display:table-cell>B</div></div></div>",
            "A\tB",
        ),
        ("<p style='white-space:pre-line'> A   b \n  C\n\n D", "A b\nC\n\nD"),
        ("<p style='white-space: pre-wrap'>A  b\n  C\n\n D</p>E", "A  b\n  C\n\n D\n\nE"),
        ("A <i style='white-space:pre'>b  c</i>  d", "A b  c d"),
        ("<pre style='white-space:normal'>A\n  b</pre>", "A b"),
    ]);
    check(&[
        (
            "<div style='white-space:pre; font-family: Menlo, monospace'><div>a</div><div>  b</div></div>",
            "a\n  b",
            &[("a", Code, false), ("b", Code, true)],
        ),
        (
            "<p style='white-space:break-spaces'>5 Long Road\nLeeds</p>",
            "5 Long Road\nLeeds",
            &[("5 Long Road\nLeeds", Prose, false)],
        ),
    ]);
}

#[test]
fn readings_follow_the_word() {
    check_text(&[
        ("あの<ruby>表<rt>ひょう</rt>示<rt>じ</rt></ruby>が", "あの表示 ひょうじ が"),
        (
            "<ruby>表<rp>(</rp><rt>ひょう</rt><rp>)</rp></ruby><ruby>示<rp>(</rp><rt>じ</rt><rp>)</rp></ruby>。",
            "表示(ひょうじ)。",
        ),
        ("<ruby><rb>表<rb>示<rtc><rt>ひょう<rt>じ</rtc></ruby>が", "表示 ひょうじ が"),
        ("<ruby>漢<rt>hàn<rt></ruby><ruby>字<rt>zì</ruby>", "漢字 hàn zì"),
        ("The <ruby>WWW<rt>World\n Wide Web</rt></ruby> grew", "The WWW World Wide Web grew"),
        ("<ruby>WWW <rp>(<rt>web<rp>)</ruby>.", "WWW(web)."),
        ("<ruby>表<rt>ひょう</ruby><p>示", "表 ひょう\n\n示"),
        ("A<rp>(</rp><rt>B</rt>", "AB"),
    ]);
}

#[test]
fn notes_do_not_fuse_with_words_and_numbers() {
    check_text(&[
        ("the end.<sup><a>12</a></sup>The", "the end.12 The"),
        ("in 1940<sup>3</sup> and 10<sup>6</sup>", "in 1940 3 and 10 6"),
        ("1<sup>st</sup>, km<sup>2</sup>, H<sub>2</sub>O, <sup>14</sup>C", "1st, km2, H2O, 14C"),
        ("a law<sup>4</sup><p><sup>4</sup>See", "a law 4\n\n4 See"),
    ]);
}

#[test]
fn blocks_say_what_belongs_to_them() {
    check(&[
        (
            "<details><summary>A</summary><p>B<p>C</details>D",
            "A\n\nB\n\nC\n\nD",
            &[("A", Term, false), ("B", Item, true), ("C", Item, true), ("D", Prose, false)],
        ),
        (
            "<p><b>A</b><br>B.<p><strong>C</strong><p><b>D.</b><p><b>E</b> f",
            "A\nB.\n\nC\n\nD.\n\nE f",
            &[
                ("A", Heading, false),
                ("B.", Prose, false),
                ("C", Heading, false),
                ("D.", Prose, false),
                ("E f", Prose, false),
            ],
        ),
        (
            "<div style='font-weight: 700'>A</div>b.<p class='x card-title'>C<div role=heading>D</div><div class=title><p>E<p>F</div>",
            "A\n\nb.\n\nC\n\nD\n\nE\n\nF",
            &[
                ("A", Heading, false),
                ("b.", Prose, false),
                ("C", Heading, false),
                ("D", Heading, false),
                ("E", Prose, false),
                ("F", Prose, false),
            ],
        ),
        (
            "<blockquote><p>A<footer>B</footer></blockquote>C",
            "A\n\nB\n\nC",
            &[("A", Prose, false), ("B", Source, false), ("C", Prose, false)],
        ),
        (
            "<blockquote>A<br><cite>B</cite></blockquote><cite>C</cite> d",
            "A\nB\n\nC d",
            &[("A", Prose, false), ("B", Source, false), ("C d", Prose, false)],
        ),
        (
            "<figure><pre>A</pre><figcaption>B</figcaption></figure>C",
            "A\n\nB\n\nC",
            &[("A", Code, false), ("B", Source, false), ("C", Prose, false)],
        ),
        (
            "<figure><figcaption>A</figcaption><table><tr><td>B</table></figure><figure><img><figcaption>C</figure>",
            "A\n\nB\n\nC",
            &[("A", Caption, false), ("B", Row, false), ("C", Prose, false)],
        ),
        (
            "<dl><dt><p>A</p><dd><div>B<pre>C</pre></div></dl>",
            "A\n\nB\n\nC",
            &[("A", Term, false), ("B", Item, false), ("C", Code, false)],
        ),
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
        ("A<select><p>B</select>C", "A\n\nC"),
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
