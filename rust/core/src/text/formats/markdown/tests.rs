use super::*;
use crate::runtime::call::unstopped;
use BlockKind::{Code, HeaderRow, Heading, Item, Prose, Row, Rule, Term};
use proptest::prelude::*;

fn cut(source: &str) -> Vec<(&str, BlockKind, bool)> {
    layout(source, &unstopped)
        .unwrap()
        .blocks
        .iter()
        .map(|block| (block.span.of(source), block.kind, block.continues))
        .collect()
}

#[test]
#[expect(clippy::type_complexity, reason = "a table of cases")]
fn structure_bounds_blocks() {
    let cases: &[(&str, &[(&str, BlockKind, bool)])] = &[
        ("One\ntwo\n\n \nThree", &[("One\ntwo", Prose, false), ("Three", Prose, false)]),
        ("# Title #\nText", &[("# Title #", Heading, false), ("Text", Prose, false)]),
        ("Title\n===\nText", &[("Title\n===", Heading, false), ("Text", Prose, false)]),
        ("\u{feff}# Title\r\n\r\nText\r\n", &[("\u{feff}# Title", Heading, false), ("Text", Prose, false)]),
        ("One\r- two\r\r***\r", &[("One", Prose, false), ("- two", Item, false), ("***", Rule, false)]),
        ("- a\n- b\n  c\nlazy", &[("- a", Item, false), ("- b\n  c\nlazy", Item, false)]),
        (
            "1. a\n\n   b\n   - c\n\n   d\n2. e",
            &[("1. a", Item, false), ("b", Item, true), ("- c", Item, false), ("d", Item, true), ("2. e", Item, false)],
        ),
        ("- - a\n-\n- b", &[("- - a", Item, false), ("-", Rule, false), ("- b", Item, false)]),
        ("- # a\n\n  b", &[("- # a", Heading, false), ("b", Item, true)]),
        ("- a\n  > b", &[("- a", Item, false), ("> b", Item, true)]),
        (
            "> # a\n> b\n> c\n>\n> - d",
            &[("> # a", Heading, false), ("> b\n> c", Prose, false), (">", Rule, false), ("> - d", Item, false)],
        ),
        (
            "| a | b |\n|---|---|\n| c | d |\n\n| e |\n|---|",
            &[
                ("| a | b |", HeaderRow, false),
                ("|---|---|", Row, true),
                ("| c | d |", Row, true),
                ("| e |", HeaderRow, false),
                ("|---|", Row, true),
            ],
        ),
        ("- a\n\n  | b |\n  |---|", &[("- a", Item, false), ("| b |", HeaderRow, false), ("|---|", Row, true)]),
        (
            "```sh\nls\n\n  # x\n```\n```\ny",
            &[
                ("```sh", Code, false),
                ("ls", Code, true),
                ("# x", Code, true),
                ("```", Code, true),
                ("```", Code, false),
                ("y", Code, true),
            ],
        ),
        (
            "a\n\n    b\n\n      c\nd",
            &[("a", Prose, false), ("b", Code, false), ("c", Code, true), ("d", Prose, false)],
        ),
        ("- ```\n  a\n  ```", &[("- ```", Code, false), ("a", Code, true), ("```", Code, true)]),
        (
            "---\ntitle: x\n---\nText\n\n---\nTitle\n---",
            &[
                ("---", Code, false),
                ("title: x", Code, true),
                ("---", Code, true),
                ("Text", Prose, false),
                ("---", Rule, false),
                ("Title\n---", Heading, false),
            ],
        ),
        (
            "[a]: /b\n[c]: /d\n\n[^1]: One.\n\n    Two.",
            &[("[a]: /b", Rule, false), ("[c]: /d", Rule, false), ("[^1]: One.", Prose, false), ("Two.", Prose, false)],
        ),
        (
            "<div\n class=a>\nOne\n<b>two</b>\n</div>\n\n<!-- a\n\nb -->",
            &[
                ("<div", Rule, false),
                ("class=a>", Rule, false),
                ("One\n<b>two</b>", Prose, false),
                ("</div>", Rule, false),
                ("<!-- a", Rule, false),
                ("b -->", Rule, false),
            ],
        ),
        (
            "<h2>Terms</h2>\n<dl>\n<dt>Keep</dt>\n<dd>A tower. High.</dd>\n</dl>",
            &[
                ("<h2>Terms</h2>", Heading, false),
                ("<dl>", Rule, false),
                ("<dt>Keep</dt>", Term, false),
                ("<dd>A tower. High.</dd>", Item, false),
                ("</dl>", Rule, false),
            ],
        ),
        (
            "<table><tr><th>a</th></tr>\n<tr>\n<td>b</td>\n</tr>\n<tr><td>c</td></tr></table>",
            &[
                ("<table><tr><th>a</th></tr>", HeaderRow, false),
                ("<tr>\n<td>b</td>\n</tr>", Row, true),
                ("<tr><td>c</td></tr></table>", Row, true),
            ],
        ),
        ("<PRE>\na\n\nb</PRE>", &[("<PRE>", Code, false), ("a", Code, true), ("b</PRE>", Code, true)]),
        ("", &[]),
    ];
    for (source, expected) in cases {
        assert_eq!(cut(source), *expected, "{source:?}");
    }
}

#[test]
fn links_and_inline_code_have_their_spans() {
    let cases: &[(&str, &[&str])] = &[
        ("A [link](/a), [![image](b)](c) and `a. b`", &["[link](/a)", "[![image](b)](c)", "`a. b`"]),
        ("<http://a.b> [c][d] [d]\n\n[d]: /e", &["<http://a.b>", "[c][d]", "[d]"]),
        ("A note[^1].\n\n[^1]: See [a\nb](c).", &["[^1]", "[a\nb](c)"]),
        ("- [a](b)\n\n| `c` |\n|---|", &["[a](b)", "`c`"]),
        ("    `a`\n\n[not a link]", &[]),
    ];
    for (source, expected) in cases {
        let links: Vec<&str> = layout(source, &unstopped).unwrap().links.iter().map(|link| link.of(source)).collect();
        assert_eq!(links, *expected, "{source:?}");
    }
}

#[test]
fn a_title_comes_from_the_front_matter_or_the_first_heading() {
    let cases = [
        ("---\ntitle: \"A: b\"\n---\n# C", Some("A: b")),
        ("+++\r\ndate = 1\r\ntitle = 'A'\r\n+++\r\n", Some("A")),
        ("---\ndate: 1\n---\n## B\n\n# A `c` *d*\n\n# E", Some("A c d")),
        ("---\n\ntitle: a\n---", None),
        ("---\ntitle: a\n", None),
        ("#\n\nA\n===", Some("A")),
        ("Text", None),
    ];
    for (source, expected) in cases {
        assert_eq!(layout(source, &unstopped).unwrap().title.as_deref(), expected, "{source:?}");
    }
}

/// Random sequences of conflicting markup.
fn soup() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "a", "é", "漢", "\u{a0}", "\u{feff}", " ", "  ", "    ", "\t", "\n", "\n\n", "\r\n", "\r", "\u{2028}", "# ",
        "- ", "1. ", "> ", "```", "~~~", "`", "|", "|-|", "\n|a|b|\n|-|-|\n", "---", "\n---\n", "+++\n", "===", "***",
        "**", "_", "~~", "[a]", "[a](b)", "![", "](", "[^1]", "[^1]: ", "[a]: b", "<div>", "</div>", "<!--", "-->",
        "<pre>", "<", ">", "<http://a.b>", "&amp;", "\\", "\0", "title: a\n", "Word. ", "\u{3000}",
    ]);
    prop::collection::vec(pieces, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nothing_is_lost(source in soup()) {
        let layout = layout(&source, &unstopped).unwrap();
        crate::text::formats::tests::assert_lawful(&source, &layout.blocks, &layout.links);
    }
}

#[test]
fn a_link_across_blocks_is_dropped() {
    // Found by `nothing_is_lost`.
    let source = "\u{a0}_\n# \u{3000}<pre>\u{2028}```Word. </div>```\t\n---\n[^1]: \0-->\u{2028}![\u{3000}[^1]a-->\u{feff}  |\u{a0}é";
    let layout = layout(source, &unstopped).unwrap();
    crate::text::formats::tests::assert_lawful(source, &layout.blocks, &layout.links);
}
