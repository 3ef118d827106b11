//! Tokenizers with one token for each byte, as text encoders (Python functions) use.
//!
//! A table of 256 ids is a hundred times faster than the general tokenizer.

use serde_json::Value;
use tokenizers::Tokenizer;

#[derive(Debug)]
pub(super) struct ByteTable([i32; 256]);

impl ByteTable {
    /// `None` unless the tokenizer has no normalizer, no added tokens and no merges, so that a byte has the same id
    /// everywhere.
    pub(super) fn new(tokenizer: &Tokenizer, json: &Value) -> Option<Self> {
        let is_empty = |value: &Value| value.as_array().is_some_and(Vec::is_empty);
        let (pre_tokenizer, model) = (&json["pre_tokenizer"], &json["model"]);
        let maps_bytes = json["normalizer"].is_null()
            && is_empty(&json["added_tokens"])
            && pre_tokenizer["type"] == "ByteLevel"
            && pre_tokenizer["add_prefix_space"] == false
            && model["type"] == "BPE"
            && is_empty(&model["merges"])
            && ["continuing_subword_prefix", "end_of_word_suffix", "dropout"]
                .iter()
                .all(|name| model[*name].is_null() || model[*name] == "");
        if !maps_bytes {
            return None;
        }
        let mut table = [-1; 256];
        for (byte, entry) in (0..=u8::MAX).zip(&mut table) {
            // Bytes that never occur in UTF-8 may be missing.
            if let Some(id) = tokenizer.token_to_id(letter(byte).encode_utf8(&mut [0; 4])) {
                *entry = i32::try_from(id).ok()?;
            } else if !matches!(byte, 0xC0 | 0xC1 | 0xF5..) {
                return None;
            }
        }
        Some(Self(table))
    }

    pub(super) fn ids(&self, text: &str) -> Vec<i32> {
        text.bytes().map(|byte| self.0[usize::from(byte)]).collect()
    }
}

/// The character that byte-level vocabularies write for a byte: itself if it is printable, else the next one from
/// U+0100 on (<https://github.com/openai/gpt-2/blob/master/src/encoder.py>, `bytes_to_unicode`).
fn letter(byte: u8) -> char {
    let is_printable = |byte: &u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..);
    if is_printable(&byte) {
        return char::from(byte);
    }
    let before = (0..byte).filter(|byte| !is_printable(byte)).count();
    u32::try_from(0x100 + before).ok().and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER)
}
#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT_MODEL: &str = include_str!("../../../../python/pullquote/_models/text_model/tokenizer.json");

    fn read(json: &str) -> (Tokenizer, Option<ByteTable>) {
        let tokenizer = Tokenizer::from_bytes(json).unwrap();
        let table = ByteTable::new(&tokenizer, &serde_json::from_str(json).unwrap());
        (tokenizer, table)
    }

    #[test]
    fn every_byte_of_utf8_has_an_id() {
        let (_, table) = read(TEXT_MODEL);
        let ByteTable(ids) = table.unwrap();
        assert_eq!((ids[usize::from(b'a')], ids[0xFF]), (0x61, 0xFF));
        assert!(ids.iter().all(|id| *id >= 0));
    }

    #[test]
    fn tokenizers_with_normalizers_or_prefixes_have_no_byte_table() {
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
            let (tokenizer, table) = read(TEXT_MODEL);
            let ids: Vec<i32> = tokenizer.encode(text.as_str(), false).unwrap().get_ids().iter().map(|id| id.cast_signed()).collect();
            prop_assert_eq!(table.unwrap().ids(&text), ids);
        }
    }
}
