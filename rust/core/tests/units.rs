//! The promises of units on random texts, and how layout bounds sentences. `golden.rs` has sentences in many languages.

use icu_segmenter::GraphemeClusterSegmenter;
use proptest::prelude::*;
use pullquote_core::text::page::ByteSpan;
use pullquote_core::text::pieces::words;

use crate::common::sentences;

fn texts_of(text: &str, units: Vec<ByteSpan>) -> Vec<&str> {
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
        assert_eq!(texts_of(text, sentences(text)), *expected, "{text:?}");
    }
}

/// Text from a PDF has each page's number, header and footer between its lines.
#[test]
fn page_headers_and_footers_split_no_sentence() {
    let held = "This is the opinion of the court in which all judges joined and which held that";
    let guilty = "the defendant was guilty as charged and so he was convicted of what he did.";
    let cases: &[(&str, &[&str])] = &[
        (&format!("{held}\n\n12\n\x0cSmith v. Jones\n\n{guilty}"), &[held, "12", "Smith v. Jones", guilty]),
        (&format!("{held}\n12\n\x0cSmith v. Jones\n{guilty}"), &[held, "12", "Smith v. Jones", guilty]),
        (&format!("{held}\nPage 3 of 10\nSmith v. Jones\n{guilty}"), &[held, "Page 3 of 10", "Smith v. Jones", guilty]),
        (
            &format!("ACME 1\n{held}\nAnnual Report\n\x0cACME 2\n{guilty}\nAnnual Report\n"),
            &["ACME 1", held, "Annual Report", "ACME 2", guilty, "Annual Report"],
        ),
        ("A page that was\x0ccut in two.\nSo it is.", &["A page that was", "cut in two.", "So it is."]),
        ("It was infor-\nmation. The Sub-\nCommittee met.", &["It was infor-\nmation.", "The Sub-\nCommittee met."]),
        ("it is soft\u{ad}\nly said", &["it is soft\u{ad}\nly said"]),
        (
            "Contents\nIntroduction .......... 5\nMethods and data ...... 9\nEnd",
            &["Contents", "Introduction .......... 5", "Methods and data ...... 9", "End"],
        ),
        (
            "The ﬁrst oﬃce.  Two spaces.   Three.\n\n\n\nBlanks.",
            &["The ﬁrst oﬃce.", "Two spaces.", "Three.", "Blanks."],
        ),
        ("So it was held.12 The rest.† And more.²", &["So it was held.12", "The rest.†", "And more.²"]),
    ];
    for (text, expected) in cases {
        assert_eq!(texts_of(text, sentences(text)), *expected, "{text:?}");
    }
}

/// A text without sentences is cut into parts of similar size, at the best places of its kind.
#[test]
fn run_on_text_is_cut_at_the_best_place() {
    let cases = [
        ("and so it went on and on, ", ","),
        ("und so ging es weiter und weiter; ", ";"),
        ("и так всё шло и шло, ", ","),
        ("وهكذا استمر الأمر، ", "،"),
        ("और इस तरह चलता रहा, ", ","),
        ("就这样一直走下去，", "，"),
        ("そして歩き続けて、", "、"),
        ("그렇게 계속 걸어갔고, ", ","),
        ("one two three four ", "four|three|two|one"),
        ("GET /a/b.html 200 1.2ms ", "ms|200|html|GET"),
    ];
    for (repeated, ends) in cases {
        let text = repeated.repeat(20_000 / repeated.len());
        let units = texts_of(&text, sentences(&text));
        for unit in &units[..units.len() - 1] {
            assert!((200..=1000).contains(&unit.chars().count()), "{repeated}: {} characters", unit.chars().count());
            assert!(ends.split('|').any(|end| unit.ends_with(end)), "{repeated}: {unit}");
        }
    }
    for data in ["QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo0", "1984,Anna,3.50;", "{\"name\":\"Anna\",\"age\":42},"] {
        let text = data.repeat(20_000 / data.len());
        let units = texts_of(&text, sentences(&text));
        assert_eq!(units.concat(), text);
        assert!(units[..units.len() - 1].iter().all(|unit| (40..=1000).contains(&unit.len())), "{data}");
        let is_joint = |unit: &&str| !data.contains(';') && !data.contains('{') || unit.ends_with([';', ',']);
        assert!(units[..units.len() - 1].iter().all(is_joint), "{data}");
    }
}

#[test]
fn every_line_of_a_chat_or_a_log_is_one_unit() {
    let chat: Vec<String> = (10..60).map(|i| format!("[12:{i}] anna: hi. are you there")).collect();
    let log: Vec<String> =
        (10..60).map(|i| format!("2024-05-01 12:00:{i} INFO server.rs:12 request done in 1.{i}ms")).collect();
    let table: Vec<String> = (10..60).map(|i| format!("{i},Anna Smith,\"12, Main St.\",3.50")).collect();
    for lines in [log, table] {
        let text = lines.join("\n");
        assert_eq!(texts_of(&text, sentences(&text)), lines);
    }
    let text = chat.join("\n");
    let units = texts_of(&text, sentences(&text));
    assert!(chat.iter().all(|line| units.iter().any(|unit| line.starts_with(unit))), "{units:?}");
}

/// Long sentences are not cut inside a hyphenated word or a link.
#[test]
fn long_sentences_are_cut_outside_links_and_hyphens() {
    let link = "[a title, with. Full stops, in it](https://example.com/a,b \"And, a title\")";
    let texts = [
        format!("and so on, {link} ").repeat(60),
        format!("and {link} ").repeat(60),
        "去https://example.com/a-b/c?d=e,f看".repeat(200),
        "写信给anna.b@example.com吧".repeat(200),
        format!("ไปที่ {link} แล้วกลับมา ").repeat(60),
    ];
    let whole = [link, "https://example.com/a-b/c?d=e,f", "anna.b@example.com"];
    for text in texts {
        let units = texts_of(&text, sentences(&text));
        assert!(units.len() > 3);
        let count = |text: &str| whole.iter().map(|link| text.matches(link).count()).sum::<usize>();
        assert_eq!(units.iter().map(|unit| count(unit)).sum::<usize>(), count(&text), "{units:?}");
    }
    let hyphened = "extra-\nordinary ".repeat(200);
    assert!(texts_of(&hyphened, sentences(&hyphened)).iter().all(|unit| unit.ends_with("ordinary")));
    let longest = format!("[{}](https://example.com/)", "and so on, ".repeat(170));
    assert!(sentences(&longest).len() > 1);
}

/// Thai has no marks between sentences: short texts stay whole, long ones are cut at spaces.
#[test]
fn long_thai_is_cut_at_spaces() {
    let phrase = "โปโลเนียวอร์ซอว์ ซึ่งเป็นคู่แข่งในท้องถิ่นของพวกเขามีผู้สนับสนุนน้อยกว่าอย่างเห็นได้ชัด";
    assert_eq!(sentences(phrase).len(), 1);
    let text = [phrase; 40].join(" ");
    for unit in texts_of(&text, sentences(&text)) {
        assert!((80..=300).contains(&unit.chars().count()), "{unit}");
    }
}

/// Checks all promises of units.
fn check_units(text: &str, units: &[ByteSpan]) -> Result<(), TestCaseError> {
    let clusters: Vec<usize> = GraphemeClusterSegmenter::new().segment_str(text).collect();
    let mut covered = 0;
    for unit in units {
        prop_assert!(unit.start >= covered && unit.end > unit.start, "{:?} overlaps {}", unit, covered);
        prop_assert!(text.is_char_boundary(unit.start) && text.is_char_boundary(unit.end));
        prop_assert_eq!(unit.of(text).trim(), unit.of(text));
        prop_assert_eq!(text[covered..unit.start].trim(), "", "text is missing before {:?}", unit);
        for at in [unit.start, unit.end] {
            let at_space = text[..at].ends_with(char::is_whitespace) || text[at..].starts_with(char::is_whitespace);
            prop_assert!(at_space || clusters.binary_search(&at).is_ok(), "{} is inside a grapheme cluster", at);
        }
        covered = unit.end;
    }
    prop_assert_eq!(text[covered..].trim(), "", "text is missing at the end");
    Ok(())
}

/// Mixes the kinds of text that have broken the cutting before.
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
        "(\\[a\\. B\\]\\(c\\.d \"E\\. F\"\\)|https://a\\.b/[c-z]{1,900}|`g\\. H`|i@j\\.kl|\\[|\\]\\() ?",
    ];
    prop::collection::vec(part, 0..24).prop_map(|parts| parts.concat())
}

/// Prose with words that look like list items, headings or abbreviations at the start of a line.
fn any_prose() -> impl Strategy<Value = String> {
    let words = [
        "the", "river", "of", "a", "government", "Paris", "and", "in", "1984", "was", "-", "—", "well-known",
        "Mr. Smith", "(a)", "U.S.", "e.g.", "J. R. Hall", "3.5", "to", "understanding", "I", "“quoted”", "No. 5",
        "it's", "12",
    ];
    let word = prop::sample::select(words.to_vec());
    let sentence = (prop::collection::vec(word, 4..30), prop::sample::select(vec![".", "?", "!", ".”"]));
    let sentence = sentence.prop_map(|(words, mark)| format!("The {} end{mark}", words.join(" ")));
    prop::collection::vec(sentence, 1..8).prop_map(|sentences| sentences.join(" "))
}

/// As Python's `textwrap.fill`, for words without hyphens.
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

/// Texts with the spans of their links.
fn any_linked_text() -> impl Strategy<Value = (String, Vec<ByteSpan>)> {
    let links = [
        "[One. Two! Three? Four](https://a.b/c_(d)?E=f. \"G. H\")",
        "![Alt. Text](a.png)",
        "[![A. B](c.d)](https://e.f)",
        "`foo. Bar`",
        "``a. `B``",
        "https://a.b/c?d=e.f!g",
        "<https://a.b/c?D=e!F>",
        "anna.b@example.com",
        "[東京。大阪](https://a.b)",
        "[See. It][1]",
    ];
    let words =
        ["and ", "The end. ", "So? ", "Yes! ", "漢字。", "(see ", "a, ", "“No.” ", "[12] ", "\n", "word ", "x) "];
    let link = prop::sample::select(links.to_vec()).prop_map(|link| (link, true));
    let word = prop::sample::select(words.to_vec()).prop_map(|word| (word, false));
    prop::collection::vec(prop_oneof![1 => link, 3 => word], 0..120).prop_map(|parts| {
        let (mut text, mut spans) = (String::new(), Vec::new());
        for (part, is_link) in parts {
            if is_link {
                spans.push(ByteSpan { start: text.len(), end: text.len() + part.len() });
            }
            text += part;
            text += if is_link { " " } else { "" };
        }
        (text, spans)
    })
}

proptest! {
    #[test]
    fn no_sentence_ends_inside_a_link((text, links) in any_linked_text()) {
        let units = sentences(&text);
        check_units(&text, &units)?;
        for link in links {
            let cut = units.iter().find(|unit| link.start < unit.end && unit.end < link.end);
            prop_assert!(cut.is_none(), "{:?} is cut by {:?}", link.of(&text), cut.map(|unit| unit.of(&text)));
        }
    }

    #[test]
    fn sentences_are_disjoint_bounded_and_cover_the_text(text in any_text()) {
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
    fn words_are_disjoint_and_cover_the_text(text in any_text()) {
        check_units(&text, &words(&text))?;
    }

    #[test]
    fn wrapping_moves_no_sentence(text in any_prose(), width in 30_usize..=120, has_carriage_returns in any::<bool>()) {
        let mut wrapped = filled(&text, width);
        if has_carriage_returns {
            wrapped = wrapped.replace('\n', "\r\n");
        }
        let units = texts_of(&wrapped, sentences(&wrapped));
        let joined: Vec<String> = units.iter().map(|unit| unit.replace("\r\n", " ").replace('\n', " ")).collect();
        prop_assert_eq!(joined, texts_of(&text, sentences(&text)));
    }
}

#[test]
fn a_link_that_ends_at_a_sentences_start_belongs_to_the_one_before() {
    let text = "Unarmed Jews gathered in Jerusalem.[citation needed][original research?] In modern times. He won.";
    assert_eq!(
        texts_of(text, sentences(text)),
        ["Unarmed Jews gathered in Jerusalem.[citation needed][original research?]", "In modern times.", "He won."]
    );
}
