//! Late interaction (`ColBERT`): a model keeps a vector for each token, and a text's score is `MaxSim`, the sum over the
//! query's tokens of the best cosine with any of the text's.
//!
//! Two layouts are read: pylate's, whose `modules.json` has dense layers and no pooling, and Stanford's, which has the
//! layer in the transformer's file and its settings in `artifact.metadata`.

use std::path::Path;

use serde_json::Value;

use super::Activation;
use super::files::{invalid, number, optional, text};
use super::modules::{Module, Residual};
use super::transformer::Transformer;
use crate::error::Result;

/// How a late-interaction model reads queries and texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LateInteraction {
    /// The token after the first one of a query; empty for none.
    pub query_prefix: String,
    /// The same of a text.
    pub document_prefix: String,
    /// The longest query in token ids, and the length of every query that is expanded.
    pub query_length: usize,
    /// The longest text in token ids.
    pub document_length: usize,
    pub expansion: Expansion,
    /// Tokens of texts without a vector: punctuation.
    pub skipped_words: Vec<String>,
}

/// Whether a short query is filled up with mask tokens, whose vectors count as those of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expansion {
    None,
    /// No token attends to them.
    Unattended,
    Attended,
}

const SETTINGS: &str = "config_sentence_transformers.json";
const METADATA: &str = "artifact.metadata";
const QUERY_LENGTH: usize = 32;
const DOCUMENT_LENGTH: usize = 180;
/// Python's `string.punctuation`.
const PUNCTUATION: &str = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
/// Of a Stanford model whose metadata do not say.
const DIMENSION: usize = 128;

impl LateInteraction {
    /// The settings of pylate's layout, with its defaults.
    pub(super) fn read(root: &Path) -> Result<Self> {
        let path = root.join(SETTINGS);
        let settings = optional(&path)?.unwrap_or(Value::Null);
        let flag = |key: &str, default| settings.get(key).and_then(Value::as_bool).unwrap_or(default);
        let prefix = |key: &str, default: &str| text(&settings, key).unwrap_or(default).to_owned();
        let skipped_words = match settings.get("skiplist_words") {
            None | Some(Value::Null) => punctuation(),
            Some(words) => {
                let words = words.as_array().and_then(|words| words.iter().map(|word| word.as_str()).collect());
                let words: Option<Vec<&str>> = words;
                let words = words.ok_or_else(|| invalid(&path, "skiplist_words is no list of strings"))?;
                words.into_iter().map(str::to_owned).collect()
            }
        };
        Self {
            query_prefix: prefix("query_prefix", "[Q] "),
            document_prefix: prefix("document_prefix", "[D] "),
            query_length: number(&settings, "query_length").unwrap_or(QUERY_LENGTH),
            document_length: number(&settings, "document_length").unwrap_or(DOCUMENT_LENGTH),
            expansion: match (flag("do_query_expansion", true), flag("attend_to_expansion_tokens", false)) {
                (false, _) => Expansion::None,
                (true, false) => Expansion::Unattended,
                (true, true) => Expansion::Attended,
            },
            skipped_words,
        }
        .checked(&path)
    }

    /// The settings of Stanford's layout, and the layer after the transformer.
    pub(super) fn read_stanford(root: &Path, transformer: &Transformer) -> Result<(Self, Module)> {
        let path = root.join(METADATA);
        let settings = optional(&path)?.unwrap_or(Value::Null);
        let flag = |key: &str, default| settings.get(key).and_then(Value::as_bool).unwrap_or(default);
        let prefix = |key: &str, default: &str| text(&settings, key).unwrap_or(default).to_owned();
        let late = Self {
            query_prefix: prefix("query_token_id", "[unused0]"),
            document_prefix: prefix("doc_token_id", "[unused1]"),
            query_length: number(&settings, "query_maxlen").unwrap_or(QUERY_LENGTH),
            document_length: number(&settings, "doc_maxlen").unwrap_or(DOCUMENT_LENGTH),
            expansion: if flag("attend_to_mask_tokens", false) { Expansion::Attended } else { Expansion::Unattended },
            skipped_words: if flag("mask_punctuation", true) { punctuation() } else { Vec::new() },
        };
        let dense = Module::Dense {
            folder: root.to_owned(),
            name: "linear",
            inputs: transformer.hidden,
            outputs: number(&settings, "dim").filter(|dim| (1..1 << 24).contains(dim)).unwrap_or(DIMENSION),
            bias: false,
            activation: Activation::Identity,
            residual: Residual::None,
        };
        Ok((late.checked(&path)?, dense))
    }

    fn checked(self, path: &Path) -> Result<Self> {
        for (name, length) in [("query length", self.query_length), ("document length", self.document_length)] {
            if !(4..1 << 20).contains(&length) {
                return Err(invalid(path, &format!("its {name} is {length} tokens; at least 4 are needed")));
            }
        }
        Ok(self)
    }

    /// Brings both lengths within the model's positions.
    pub(super) fn within(self, positions: usize) -> Self {
        Self {
            query_length: self.query_length.min(positions),
            document_length: self.document_length.min(positions),
            ..self
        }
    }

    /// The longest row in token ids.
    pub(super) fn max_tokens(&self) -> usize {
        self.query_length.max(self.document_length)
    }
}

fn punctuation() -> Vec<String> {
    PUNCTUATION.chars().map(String::from).collect()
}
