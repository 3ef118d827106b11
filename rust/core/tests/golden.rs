//! Golden pieces, read by eye once, which Python's tests check as well: spans of real pages in `tests/golden/pieces.json`,
//! and in `tests/golden/languages.json` short texts in many languages with what a reader sees in them.

use std::fs;
use std::path::Path;

use pullquote_core::text::page::Page;
use pullquote_core::text::pieces::{Unit, Windows, parse_pieces};
use serde_json::Value;

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
}

fn cases(file: &str) -> Vec<Value> {
    serde_json::from_str(&read(&format!("tests/golden/{file}"))).unwrap()
}

#[test]
fn pieces_of_real_pages_are_the_golden_ones() {
    let cases = cases("pieces.json");
    for case in &cases {
        let number = |key: &str| case[key].as_i64().unwrap();
        let place = |key: &str| usize::try_from(number(key)).unwrap();
        let whole = read(&format!("demo/pages/{}", case["page"].as_str().unwrap()));
        let text: String = whole.chars().skip(place("from")).take(place("to") - place("from")).collect();
        let unit: Unit = serde_json::from_value(case["unit"].clone()).unwrap();
        let windows = Windows::new(number("highlight_length"), number("step_size"), false).unwrap();
        let page = Page::new(&text);
        let found: Vec<Value> = parse_pieces(&text, unit, windows)
            .unwrap()
            .into_iter()
            .map(|piece| page.chars(piece))
            .map(|span| serde_json::json!([span.start, span.end]))
            .collect();
        assert_eq!(Value::from(found), case["spans"], "{} by {unit:?}", case["page"]);
    }
    assert_eq!(cases.len(), 15);
}

#[test]
fn pieces_are_those_a_reader_of_the_language_sees() {
    let cases = cases("languages.json");
    let single = Windows::new(1, 1, false).unwrap();
    let mut wrong = Vec::new();
    for case in &cases {
        let unit: Unit = serde_json::from_value(case["unit"].clone()).unwrap();
        let pieces: Vec<&str> =
            case["pieces"].as_array().unwrap().iter().map(|piece| piece.as_str().unwrap()).collect();
        let mut texts = vec![case["text"].as_str().unwrap().to_owned()];
        if unit == Unit::Sentence {
            texts.push(pieces.join("\n"));
        }
        for text in texts {
            let found = parse_pieces(&text, unit, single).unwrap();
            let found: Vec<&str> = found.into_iter().map(|piece| piece.of(&text)).collect();
            if found != pieces {
                wrong.push(format!("{}: {found:#?} is not {pieces:#?}", case["language"]));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
