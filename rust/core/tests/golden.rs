//! Golden windows that Python's tests check too: spans in real pages (`tests/golden/pieces.json`), and sentences and
//! words of short texts in many languages as a reader sees them (`tests/golden/languages.json`, `sentence_ends.json`).

use std::fs;
use std::path::Path;

use pullquote_core::runtime::call::unstopped;
use pullquote_core::text::page::PageText;
use pullquote_core::text::pieces::{Unit, Windows, parse_pieces};
use serde_json::Value;

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
}

fn cases(file: &str) -> Vec<Value> {
    serde_json::from_str(&read(&format!("tests/golden/{file}"))).unwrap()
}

#[test]
fn windows_of_real_pages_equal_the_golden_ones() {
    let cases = cases("pieces.json");
    for case in &cases {
        let number = |key: &str| case[key].as_i64().unwrap();
        let offset = |key: &str| usize::try_from(number(key)).unwrap();
        let whole = read(&format!("demo/pages/{}", case["page"].as_str().unwrap()));
        let text: String = whole.chars().skip(offset("from")).take(offset("to") - offset("from")).collect();
        let unit: Unit = serde_json::from_value(case["unit"].clone()).unwrap();
        let windows = Windows::new(number("highlight_length"), number("step_size"), false).unwrap();
        let page = PageText::new(&text);
        let spans: Vec<Value> = parse_pieces(&text, unit, windows, &unstopped)
            .unwrap()
            .into_iter()
            .map(|window| page.chars(window))
            .map(|span| serde_json::json!([span.start, span.end]))
            .collect();
        assert_eq!(Value::from(spans), case["spans"], "{} by {unit:?}", case["page"]);
    }
    assert_eq!(cases.len(), 15);
}

#[test]
fn units_are_those_a_reader_of_the_language_sees() {
    let mut cases = cases("languages.json");
    cases.extend(self::cases("sentence_ends.json"));
    let single = Windows::new(1, 1, false).unwrap();
    let mut wrong = Vec::new();
    for case in &cases {
        let unit: Unit = serde_json::from_value(case["unit"].clone()).unwrap();
        let expected: Vec<&str> =
            case["pieces"].as_array().unwrap().iter().map(|unit| unit.as_str().unwrap()).collect();
        let mut texts = vec![case["text"].as_str().unwrap().to_owned()];
        if unit == Unit::Sentence {
            texts.push(expected.join("\n"));
        }
        for text in texts {
            let spans = parse_pieces(&text, unit, single, &unstopped).unwrap();
            let units: Vec<&str> = spans.into_iter().map(|span| span.of(&text)).collect();
            if units != expected {
                wrong.push(format!("{}: {units:#?} is not {expected:#?}", case["language"]));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
