//! Golden pieces: the spans in `tests/golden/pieces.json`, read by eye once, which Python's tests check as well.

use std::fs;
use std::path::Path;

use pullquote_core::page::Page;
use pullquote_core::pieces::{Unit, Windows, parse_pieces};
use serde_json::Value;

#[test]
fn pieces_of_real_pages_are_the_golden_ones() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let cases = fs::read_to_string(root.join("tests/golden/pieces.json")).unwrap();
    let cases: Vec<Value> = serde_json::from_str(&cases).unwrap();
    for case in &cases {
        let number = |key: &str| case[key].as_i64().unwrap();
        let place = |key: &str| usize::try_from(number(key)).unwrap();
        let whole = fs::read_to_string(root.join("demo/pages").join(case["page"].as_str().unwrap())).unwrap();
        let text: String = whole.chars().skip(place("from")).take(place("to") - place("from")).collect();
        let unit = Unit::parse(case["unit"].as_str().unwrap()).unwrap();
        let windows = Windows::new(number("highlight_length"), number("step_size"), false).unwrap();
        let page = Page::new(&text);
        let found: Vec<Value> = parse_pieces(&text, unit, windows)
            .unwrap()
            .into_iter()
            .map(|piece| page.chars(piece))
            .map(|span| serde_json::json!([span.start, span.end]))
            .collect();
        assert_eq!(Value::from(found), case["spans"], "{} by {unit}", case["page"]);
    }
    assert_eq!(cases.len(), 15);
}
