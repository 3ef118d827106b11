//! Hostile pages of about a megabyte: units keep their promises on them, and every test here must finish. An algorithm
//! that is quadratic in the page would take hours.

use icu_segmenter::GraphemeClusterSegmenter;
use pullquote_core::ranking::terms::{Language, PageTerms, guess_language, query_terms};
use pullquote_core::text::page::ByteSpan;
use pullquote_core::text::pieces::words;

use crate::common::sentences;

/// Approximate bytes of a page.
const SIZE: usize = 1 << 20;

/// Cuts a page into units and terms, and checks the promises of units.
fn assert_survives(name: &str, text: &str) {
    // A cluster of more than 256 bytes may be cut.
    let mut clusters = vec![true; text.len() + 1];
    let mut start = 0;
    for end in GraphemeClusterSegmenter::new().segment_str(text).skip(1) {
        clusters[start + 1..end].fill(end - start > 256);
        start = end;
    }
    let units = sentences(text);
    check(name, text, &units, &clusters);
    for unit in &units {
        let unit = unit.of(text);
        assert!(unit.chars().count() <= 1000 && unit.split_whitespace().count() <= 120, "{name}: too long");
    }
    let words = words(text);
    check(name, text, &words, &clusters);
    assert!(words.iter().all(|word| word.len() <= 256), "{name}: too long a word");
    let page = PageTerms::new(text, &units, guess_language(text));
    let query = query_terms("a query of some words", Language::English);
    assert_eq!(page.find(&query).bm25(std::slice::from_ref(&(0..units.len()))).len(), 1);
}

/// Units are sorted, disjoint, trimmed, not empty, cover all that is not white space, and end at grapheme clusters.
fn check(name: &str, text: &str, units: &[ByteSpan], clusters: &[bool]) {
    let mut covered = 0;
    for unit in units {
        assert!(unit.start >= covered && unit.end > unit.start, "{name}: {unit:?} overlaps {covered}");
        assert_eq!(unit.of(text).trim(), unit.of(text), "{name}: not trimmed");
        assert!(text[covered..unit.start].trim().is_empty(), "{name}: text is missing before {unit:?}");
        for at in [unit.start, unit.end] {
            let at_space = text[..at].ends_with(char::is_whitespace) || text[at..].starts_with(char::is_whitespace);
            assert!(at_space || clusters[at], "{name}: {at} is inside a grapheme cluster");
        }
        covered = unit.end;
    }
    assert!(text[covered..].trim().is_empty(), "{name}: text is missing at the end");
}

/// One page for each case, which it repeats.
fn repeated(cases: &[&str]) {
    for case in cases {
        assert_survives(case, &case.repeat(SIZE / case.len()));
    }
}

#[test]
fn one_character_repeated() {
    repeated(&["x", "0", "-", ".", "!", "…", "\"", "_", "e\u{301}", "漢", "한", "あ", "ア", "ท", "က", "क्ष", "🎉"]);
}

#[test]
fn markdown_marks_that_are_never_closed() {
    repeated(&[
        "[", "]", "](", "[](", "[a](b", "[a](b \"", "![", "`", "`` ` ", "<", "*", "**a", "|", "~", "#", "\\", "(", ")",
    ]);
    repeated(&[
        "[a]: ", "``a` ", "[[a](b)](", "a://", "a://(", "a://b)", "a@", "a@b.", "@", ":", "<a://b", "[a][", "http://))",
    ]);
}

#[test]
fn sentences_of_few_characters() {
    repeated(&[
        "a. ", "A. ", "Mr. X ", "a.b", "1. ", "12.3 ", ".1 ", "? ", "?\" ", ".\u{201c}a", "e.g. ", "a.12 B ", "... ",
        ". . ",
    ]);
    repeated(&[
        "。", "「。", "。」と", "?!", "¿", "»? ", ";", "\u{37e} Α", "a-\n", "a\u{ad}\n", "aA", "a_", "1,", "צ\"", "مـ",
        "க. ",
    ]);
}

#[test]
fn lines_of_every_shape() {
    repeated(&[
        "\n", "\r\n", "\r", "\r\n\n\r", "\x0c", "\u{2028}", "\u{85}", "a\n", "A b.\r\n\n", "12\n", "Page 3 of 10\n\x0c",
    ]);
    repeated(&[
        "# Title\n", "- item\n", "> quote\n", "| a | b |\n", "===\n", "---\n", "```\n", "a\n===\n", "1. a\n",
        "a .... 5\n",
    ]);
    repeated(&["```", "````\n```\n", "- ", "> ", "| ", "a | b | ", "Head\na b\n\x0c", "- a -\n", "(a) ", "=\n"]);
}

#[test]
fn deep_nesting() {
    let lines = |count: usize, line: &dyn Fn(usize) -> String| (0..count).map(line).collect::<Vec<_>>().concat();
    assert_survives("nested items", &lines(1400, &|depth| " ".repeat(depth) + "- a\n"));
    assert_survives("nested numbers", &lines(1400, &|depth| " ".repeat(depth) + "1. a\n"));
    assert_survives("nested quotes", &lines(1000, &|depth| "> ".repeat(depth) + "a\n"));
    assert_survives("many headings", &lines(100_000, &|i| format!("# {i}\n")));
    assert_survives("many items", &lines(100_000, &|i| " ".repeat(i % 9) + "- a\n"));
    let brackets = "[".repeat(SIZE / 4) + &"](b)".repeat(SIZE / 8);
    assert_survives("brackets that close", &brackets);
}

/// A search to the left of every end must not reach the start of the page each time.
#[test]
fn many_ends_after_a_long_beginning() {
    for beginning in [" ", "(", "[", "“", ".", "\u{301}", "`"] {
        for ends in ["Mr. X ", "?” he ", "a.1 b ", "[a.](b) c "] {
            let half = SIZE / 4;
            let text = beginning.repeat(half / beginning.len()) + &ends.repeat(half / ends.len());
            assert_survives(&format!("{beginning:?} and {ends:?}"), &text);
        }
    }
}

#[test]
fn combining_marks_and_invisible_characters() {
    repeated(&[
        "\u{301}", "\u{200d}", "\u{200b}", "\u{200c}", "\u{2060}", "\u{feff}", "\u{ad}", "\u{fe0f}", "\u{600}",
        "\u{e01}\u{e34}",
    ]);
    repeated(&[
        "\u{202e}", "\u{200f}a\u{200e}", "\u{2066}א\u{2069}", "\u{61c}", "\u{202b}abc\u{202c} אבג. ", "\u{e0001}",
    ]);
    assert_survives("a lone mark", &format!("\u{301}{}", "a. B ".repeat(1000)));
    assert_survives("a long cluster", &format!("a{}b {}", "\u{301}".repeat(SIZE / 2), "e\u{301}".repeat(1000)));
    assert_survives("many long clusters", &format!("x{}", "\u{301}".repeat(3000)).repeat(100));
}

#[test]
fn emoji_and_flags() {
    repeated(&[
        "👩🏽\u{200d}🚀",
        "👨\u{200d}👩\u{200d}👧\u{200d}👦",
        "🇩🇪",
        "🇩",
        "❤\u{fe0f}",
        "🏴\u{e0067}\u{e0062}\u{e007f}",
        "1\u{fe0f}\u{20e3}",
        "Hi!🎉 ",
    ]);
}

#[test]
fn mixed_scripts_and_directions() {
    repeated(&[
        "abc אבג ", "عربي abc. ", "漢字abc한글", "ไทยabc", "АбвAbc. ", "१२3٤", "ﷺﬁ", "𝐀𝟙", "Ⅷ½", "ភាသာລາວ ", "かﾅカﾞ",
    ]);
}

#[test]
fn control_characters_and_all_white_space() {
    repeated(&["\0", "\u{1}\u{7f}", "a\0b. C", "\u{fffd}", "\u{ffff}", "\u{10ffff}", "\u{1b}[0m"]);
    let spaces: Vec<char> = ('\0'..='\u{ffff}').filter(|c| c.is_whitespace()).collect();
    assert_eq!(spaces.len(), 25);
    for space in &spaces {
        assert_survives(&format!("{space:?}"), &format!("a.{space}B{space}").repeat(5000));
    }
    let all: String = spaces.iter().flat_map(|space| [*space, 'a', '.']).collect();
    repeated(&[&all]);
    assert_survives("only white space", &spaces.iter().collect::<String>().repeat(SIZE / 64));
}
