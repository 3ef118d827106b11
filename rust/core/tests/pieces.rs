//! The laws of units, attacked by random texts, and what layout does to sentences; `golden.rs` has their languages.

use icu_segmenter::GraphemeClusterSegmenter;
use proptest::prelude::*;
use pullquote_core::page::ByteSpan;
use pullquote_core::pieces::{sentences, words};

fn shown(text: &str, units: Vec<ByteSpan>) -> Vec<&str> {
    units.into_iter().map(|unit| unit.of(text)).collect()
}

#[test]
fn layout_ends_sentences() {
    let cases: &[(&str, &[&str])] = &[
        ("# A title. With two parts\nText one. Text two.", &["# A title. With two parts", "Text one.", "Text two."]),
        ("1. Introduction\n2. Methods. We did.\n", &["1. Introduction", "2. Methods.", "We did."]),
        ("- One\r\n- Two. Three\r\n  wrapped\r\n", &["- One", "- Two.", "Three\r\n  wrapped"]),
        ("Run:\n```sh\nls -l\n\ncat a.b. C\n```\nDone.", &["Run:", "```sh", "ls -l", "cat a.b. C", "```", "Done."]),
        ("| A. B | C |\n|---|---|\n| 1 | 2 |", &["| A. B | C |", "|---|---|", "| 1 | 2 |"]),
        ("it works. i like it. e.g. this one! ok", &["it works.", "i like it.", "e.g. this one!", "ok"]),
        ("A line that was\rwrapped by an old Mac. Yes.", &["A line that was\rwrapped by an old Mac.", "Yes."]),
        (
            "!!! note\nSee the\n[long link to a page of ours](https://example.com/). Yes!",
            &["!!! note", "See the\n[long link to a page of ours](https://example.com/).", "Yes!"],
        ),
        ("", &[]),
        (" \n\t\u{3000}\r\n", &[]),
    ];
    for (text, expected) in cases {
        assert_eq!(shown(text, sentences(text)), *expected, "{text:?}");
    }
}

/// Thai marks no sentences: short texts stay whole, long ones are cut at spaces.
#[test]
fn thai_is_cut_at_spaces_where_it_is_long() {
    let phrase = "โปโลเนียวอร์ซอว์ ซึ่งเป็นคู่แข่งในท้องถิ่นของพวกเขามีผู้สนับสนุนน้อยกว่าอย่างเห็นได้ชัด";
    assert_eq!(sentences(phrase).len(), 1);
    let text = [phrase; 40].join(" ");
    for unit in shown(&text, sentences(&text)) {
        assert!((80..=300).contains(&unit.chars().count()), "{unit}");
    }
}

/// Checks everything that is promised of units.
fn check_units(text: &str, units: &[ByteSpan]) -> Result<(), TestCaseError> {
    let clusters: Vec<usize> = GraphemeClusterSegmenter::new().segment_str(text).collect();
    let mut covered = 0;
    for unit in units {
        prop_assert!(unit.start >= covered && unit.end > unit.start, "{:?} behind {}", unit, covered);
        prop_assert!(text.is_char_boundary(unit.start) && text.is_char_boundary(unit.end));
        prop_assert_eq!(unit.of(text).trim(), unit.of(text));
        prop_assert_eq!(text[covered..unit.start].trim(), "", "text is left out before {:?}", unit);
        for at in [unit.start, unit.end] {
            let spaced = text[..at].ends_with(char::is_whitespace) || text[at..].starts_with(char::is_whitespace);
            prop_assert!(spaced || clusters.binary_search(&at).is_ok(), "{} is inside a grapheme cluster", at);
        }
        covered = unit.end;
    }
    prop_assert_eq!(text[covered..].trim(), "", "text is left out at the end");
    Ok(())
}

/// Texts of every kind that once was trouble for someone.
fn any_text() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        "\\PC{0,20}",
        "[\n\r\u{85}\u{2028}\u{c} \t]{1,4}",
        "[#>|=`~*+•-]{1,4} ?",
        "[A-Za-z]{1,9}[.!?;,…]{0,3}[\"”’)»\\[]{0,2} ?",
        "[0-9]{1,4}[.)] ?",
        "[漢字かなカナ한글。！？「」（），、]{1,12}",
        "[ก-ฮะ-ูเ-์ກ-ຮក-ឳ ]{1,60}",
        "[👩👨🏽\u{200d}🚀🇩🇪❤\u{fe0f}.! ]{1,8}",
        "[ae\u{301}\u{323}\u{200d}\u{600}क्षि।. ]{1,12}",
        "[אבגדهوي؟،. ]{1,12}",
        "(Mr|e\\.g|U\\.S|etc|No|[A-Z])\\. ",
        "[a-z]{300,1200}",
        "(lorem ){50,150}",
    ];
    prop::collection::vec(part, 0..24).prop_map(|parts| parts.concat())
}

/// Prose as people write it: some of its words are trouble at the start of a line.
fn any_prose() -> impl Strategy<Value = String> {
    let words = [
        "the",
        "river",
        "of",
        "a",
        "government",
        "Paris",
        "and",
        "in",
        "1984",
        "was",
        "-",
        "—",
        "well-known",
        "Mr. Smith",
        "(a)",
        "U.S.",
        "e.g.",
        "J. R. Hall",
        "3.5",
        "to",
        "understanding",
        "I",
        "“quoted”",
        "No. 5",
        "it's",
        "12",
    ];
    let word = prop::sample::select(words.to_vec());
    let sentence = (prop::collection::vec(word, 4..30), prop::sample::select(vec![".", "?", "!", ".”"]));
    let sentence = sentence.prop_map(|(words, mark)| format!("The {} end{mark}", words.join(" ")));
    prop::collection::vec(sentence, 1..8).prop_map(|sentences| sentences.join(" "))
}

/// What Python's `textwrap.fill` makes of words without hyphens.
fn filled(text: &str, width: usize) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is always a line");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines.join("\n")
}

proptest! {
    #[test]
    fn sentences_keep_their_promises(text in any_text()) {
        let units = sentences(&text);
        check_units(&text, &units)?;
        for unit in units {
            let unit = unit.of(&text);
            let clusters = GraphemeClusterSegmenter::new().segment_str(unit).count() - 1;
            prop_assert!(unit.chars().count() <= 1000 || clusters == 1, "{} characters", unit.chars().count());
            prop_assert!(unit.split_whitespace().count() <= 120);
        }
    }

    #[test]
    fn words_keep_their_promises(text in any_text()) {
        check_units(&text, &words(&text))?;
    }

    #[test]
    fn wrapping_moves_no_sentence(text in any_prose(), width in 30_usize..=120, windows in any::<bool>()) {
        let mut wrapped = filled(&text, width);
        if windows {
            wrapped = wrapped.replace('\n', "\r\n");
        }
        let found = shown(&wrapped, sentences(&wrapped));
        let joined: Vec<String> = found.iter().map(|unit| unit.replace("\r\n", " ").replace('\n', " ")).collect();
        prop_assert_eq!(joined, shown(&text, sentences(&text)));
    }
}
