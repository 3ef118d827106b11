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
        let mut table = [-1; 256];
        for (byte, entry) in (0..=u8::MAX).zip(&mut table) {
            // Bytes that no UTF-8 has may be missing.
            if let Some(id) = tokenizer.token_to_id(letter(byte).encode_utf8(&mut [0; 4])) {
                *entry = i32::try_from(id).ok()?;
            } else if !matches!(byte, 0xC0 | 0xC1 | 0xF5..) {
                return None;
            }
        }
        Some(Self(table))
    }

    /// The ids of a text.
    pub(super) fn ids(&self, text: &str) -> Vec<i32> {
        text.bytes().map(|byte| self.0[usize::from(byte)]).collect()
    }
}

/// What byte-level vocabularies write for a byte: itself where it is a letter that can be seen, or else the next one from U+0100
/// on (<https://github.com/openai/gpt-2/blob/master/src/encoder.py>, `bytes_to_unicode`).
fn letter(byte: u8) -> char {
    let is_seen = |byte: &u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..);
    if is_seen(&byte) {
        return char::from(byte);
    }
    let unseen_before = (0..byte).filter(|byte| !is_seen(byte)).count();
    u32::try_from(0x100 + unseen_before).ok().and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER)
}

fn is_nothing(value: &Value) -> bool {
    value.is_null() || value == ""
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT_MODEL: &str = include_str!("../../../../python/pullquote/_text_model/tokenizer.json");

    fn read(json: &str) -> (Tokenizer, Option<PlainBytes>) {
        let tokenizer = Tokenizer::from_bytes(json).unwrap();
        let plain = PlainBytes::of(&tokenizer, &serde_json::from_str(json).unwrap());
        (tokenizer, plain)
    }

    #[test]
    fn every_byte_of_utf8_has_its_id() {
        let (_, plain) = read(TEXT_MODEL);
        let PlainBytes(table) = plain.unwrap();
        assert_eq!((table[usize::from(b'a')], table[0xFF]), (0x61, 0xFF));
        assert!(table.iter().all(|id| *id >= 0));
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
            let ids: Vec<i32> = tokenizer.encode(text.as_str(), false).unwrap().get_ids().iter().map(|id| id.cast_signed()).collect();
            prop_assert_eq!(plain.unwrap().ids(&text), ids);
        }
    }
}
