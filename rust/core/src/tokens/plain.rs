//! Plain bytes: tokenizers whose tokens are the bytes of UTF-8, one for one, as models that are functions have them.
//!
//! There is nothing to look up: a table gives a byte's id, a hundred times faster than the general way.

use serde_json::Value;
use tokenizers::Tokenizer;

/// The id of each byte.
#[derive(Debug)]
pub(super) struct PlainBytes([i32; 256]);

impl PlainBytes {
    /// The table of a tokenizer that changes nothing, knows no word and merges nothing, so that a byte has the same id wherever
    /// it stands; none of any other.
    pub(super) fn of(tokenizer: &Tokenizer, json: &Value) -> Option<Self> {
        let is_empty = |value: &Value| value.as_array().is_some_and(Vec::is_empty);
        let (before, model) = (&json["pre_tokenizer"], &json["model"]);
        let is_plain = json["normalizer"].is_null()
            && is_empty(&json["added_tokens"])
            && before["type"] == "ByteLevel"
            && before["add_prefix_space"] == false
            && model["type"] == "BPE"
            && is_empty(&model["merges"])
            && ["continuing_subword_prefix", "end_of_word_suffix", "dropout"]
                .iter()
                .all(|name| is_nothing(&model[*name]));
        if !is_plain {
            return None;
        }
        // Every byte that UTF-8 has.
        let text: String = (0..0x800)
            .chain((1..16).map(|lead| lead << 12))
            .chain((0x1_0000..0x11_0000).step_by(0x3_0000))
            .filter_map(char::from_u32)
            .chain(['\u{800}', '\u{10ffff}'])
            .collect();
        let encoded = tokenizer.encode(text.as_str(), false).ok()?;
        if encoded.len() != text.len() {
            return None;
        }
        let mut table = [-1; 256];
        for (byte, id) in text.bytes().zip(encoded.get_ids()) {
            let (entry, id) = (&mut table[usize::from(byte)], i32::try_from(*id).ok()?);
            if *entry != -1 && *entry != id {
                return None;
            }
            *entry = id;
        }
        Some(Self(table))
    }

    /// The ids of a text.
    pub(super) fn ids(&self, text: &str) -> Vec<i32> {
        text.bytes().map(|byte| self.0[usize::from(byte)]).collect()
    }
}

fn is_nothing(value: &Value) -> bool {
    value.is_null() || value == ""
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT_MODEL: &str = include_str!("../../../../python/pullquote/text_model/tokenizer.json");

    fn read(json: &str) -> (Tokenizer, Option<PlainBytes>) {
        let tokenizer = Tokenizer::from_bytes(json).unwrap();
        let plain = PlainBytes::of(&tokenizer, &serde_json::from_str(json).unwrap());
        (tokenizer, plain)
    }

    #[test]
    fn every_byte_of_utf8_has_its_id() {
        let (_, plain) = read(TEXT_MODEL);
        let PlainBytes(table) = plain.unwrap();
        let missing: Vec<usize> = (0..256).filter(|byte| table[*byte] == -1).collect();
        assert_eq!(missing, [0xC0, 0xC1, 0xF5, 0xF6, 0xF7, 0xF8, 0xF9, 0xFA, 0xFB, 0xFC, 0xFD, 0xFE, 0xFF]);
    }

    #[test]
    fn a_tokenizer_that_does_more_is_left_alone() {
        for (plain, other) in [
            (r#""normalizer": null"#, r#""normalizer": {"type": "Lowercase"}"#),
            (r#""add_prefix_space": false"#, r#""add_prefix_space": true"#),
        ] {
            let changed = TEXT_MODEL.replacen(plain, other, 1);
            assert_ne!(changed, TEXT_MODEL);
            assert!(read(&changed).1.is_none(), "{other}");
        }
    }

    proptest! {
        #[test]
        fn ids_are_the_tokenizers(text in any::<String>()) {
            let (tokenizer, plain) = read(TEXT_MODEL);
            let ids: Vec<i32> = tokenizer.encode(text.as_str(), false).unwrap().get_ids().iter().map(|id| *id as i32).collect();
            prop_assert_eq!(plain.unwrap().ids(&text), ids);
        }
    }
}
