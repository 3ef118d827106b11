//! Loads a model's `tokenizer.json`, with lower case where the model has it.

use std::fs;

use serde_json::{Value, json};
use tokenizers::Tokenizer;

use super::boundaries::Family;
use super::byte_table::ByteTable;
use super::counts::unknown_id;
use super::late_interaction::LateTokens;
use super::{Tokens, signed, word_ids};
use crate::encoder::model::{Body, Model};
use crate::error::{Error, ErrorKind, Result};

/// A byte-level vocabulary of this size or less has no token longer than a byte.
const BYTE_VOCABULARY: usize = 256;

impl Tokens {
    /// Reads `tokenizer.json` in the model's directory.
    ///
    /// # Errors
    /// [`ErrorKind::ModelNotFound`] without that file, [`ErrorKind::InvalidModel`] if it is damaged.
    pub fn read(model: &Model) -> Result<Self> {
        let path = model.file("tokenizer.json");
        let damaged =
            |why: String| Error::new(ErrorKind::InvalidModel, format!("{} is damaged: {why}", path.display()));
        let bytes = fs::read(&path).map_err(|error| {
            Error::new(ErrorKind::ModelNotFound, format!("the model lacks {}: {error}", path.display()))
        })?;
        let mut json: Value = serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
        let mut tokenizer = if model.lowercase && prepend_lowercase(&mut json) {
            Tokenizer::from_bytes(json.to_string())
        } else {
            Tokenizer::from_bytes(&bytes)
        }
        .map_err(|error| damaged(error.to_string()))?;
        // sentence-transformers keeps the file's limit of static embeddings, which have no other.
        let limit = match (model.body, tokenizer.get_truncation()) {
            _ if model.late_interaction.is_some() => {
                model.late_interaction.as_ref().map_or(0, |late| late.document_length)
            }
            (Body::Static { drops_unknown: false }, Some(truncation)) => {
                model.max_tokens.min(truncation.max_length + 1)
            }
            _ => model.max_tokens,
        };
        // We truncate and pad ourselves. The file's limit would cut pages silently (MiniLM's is 128).
        tokenizer.with_truncation(None).map_err(|error| damaged(error.to_string()))?;
        tokenizer.with_padding(None);
        let (mut prefix, suffix) = match model.body {
            Body::Transformer => special_ids(&tokenizer).map_err(damaged)?,
            // An id that the encoder skips: no row may be empty.
            Body::Static { .. } => (vec![0], Vec::new()),
        };
        let late = model.late_interaction.as_ref();
        let late = late.map(|late| LateTokens::read(model, late, &tokenizer, &mut prefix)).transpose()?;
        let (normalized, added): (Vec<_>, Vec<_>) =
            tokenizer.get_added_tokens_decoder().into_values().partition(|token| token.normalized);
        let special = prefix.len() + suffix.len();
        if limit <= special {
            let max_tokens = limit;
            return Err(damaged(format!("{special} special tokens leave no room in {max_tokens} tokens")));
        }
        let drops_unknown = matches!(model.body, Body::Static { drops_unknown: true });
        let family = Family::new(&json);
        Ok(Self {
            separate_words: if drops_unknown { None } else { word_ids::of_separate_words(&tokenizer, family) },
            family,
            unknown: unknown_id(&json, &tokenizer),
            has_only_bytes: family == Family::ByteLevel && tokenizer.get_vocab_size(false) <= BYTE_VOCABULARY,
            byte_table: ByteTable::new(&tokenizer, &json),
            drops_unknown,
            prefix,
            suffix,
            added: added.into_iter().map(|token| token.content).collect(),
            added_lowercase: normalized.into_iter().map(|token| token.content.to_lowercase()).collect(),
            limit,
            prompts: model.prompts.clone(),
            late,
            tokenizer,
        })
    }
}

/// Makes the normalizer of a `tokenizer.json` begin with lower case, and returns whether it did not yet do so itself.
fn prepend_lowercase(tokenizer: &mut Value) -> bool {
    let normalizer = &mut tokenizer["normalizer"];
    let steps = match normalizer["normalizers"].as_array() {
        Some(steps) => steps.clone(),
        None if normalizer.is_null() => Vec::new(),
        None => vec![normalizer.clone()],
    };
    if steps.iter().any(|step| step["type"] == "Lowercase" || step["lowercase"] == true) {
        return false;
    }
    let steps: Vec<Value> = std::iter::once(json!({"type": "Lowercase"})).chain(steps).collect();
    *normalizer = json!({"type": "Sequence", "normalizers": steps});
    true
}

/// The ids that the tokenizer puts before and after every text.
pub(super) fn special_ids(tokenizer: &Tokenizer) -> Result<(Vec<i32>, Vec<i32>), String> {
    let encode = |text| tokenizer.encode(text, true).map_err(|error| error.to_string());
    let filled = encode("a")?;
    let inside = filled.get_special_tokens_mask().iter().position(|special| *special == 0).unwrap_or(0);
    let mut prefix = signed(encode("")?.get_ids());
    let suffix = prefix.split_off(inside.min(prefix.len()));
    Ok((prefix, suffix))
}
