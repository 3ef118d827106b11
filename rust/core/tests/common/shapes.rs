//! Texts that are expensive for some stage, made at any size: what `cost.rs` and `memory_growth.rs` measure, and
//! `bench/growth.py` and the tests of the server's routes.

use serde_json::Value;

/// The shapes by name.
pub(crate) fn shapes() -> impl Iterator<Item = (String, Shape)> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/growth_shapes.json");
    let file = std::fs::read_to_string(path).unwrap();
    let Ok(Value::Object(shapes)) = serde_json::from_str(&file) else { panic!("{path} is no object") };
    shapes.into_iter().map(|(name, parts)| (name, Shape(parts)))
}

/// A list of parts, in the order of the text:
///
/// - a string stands once
/// - `repeat`, a string or parts, fills a `share` of the text's bytes; `most` limits how often it stands
/// - `number` is a pattern in which `{}` is 0, 1, 2 and so on; `every` is the number of bytes of the text for each
/// - `grow` stands once, then twice, then three times and so on, each time with `then` after it
pub(crate) struct Shape(Value);

impl Shape {
    /// A text of about this many bytes.
    pub(crate) fn text(&self, bytes: usize) -> String {
        made(&self.0, bytes)
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "sizes of texts"
)]
fn made(part: &Value, bytes: usize) -> String {
    let (fields, parts) = match part {
        Value::String(once) => return once.clone(),
        Value::Array(parts) => return parts.iter().map(|part| made(part, bytes)).collect(),
        part => (part, &part["repeat"]),
    };
    let size = (bytes as f64 * fields["share"].as_f64().unwrap_or(1.0)) as usize;
    if let (Some(pattern), Some(every)) = (fields["number"].as_str(), fields["every"].as_u64()) {
        return (0..size / every as usize).map(|number| pattern.replace("{}", &number.to_string())).collect();
    }
    if let (Some(grows), Some(then)) = (fields["grow"].as_str(), fields["then"].as_str()) {
        let mut text = String::new();
        for length in 1.. {
            if text.len() >= size {
                break;
            }
            text += &(grows.repeat(length) + then);
        }
        return text;
    }
    let once = made(parts, bytes);
    let most = fields["most"].as_u64().unwrap_or(u64::MAX) as usize;
    once.repeat((size / once.len()).max(1).min(most))
}
