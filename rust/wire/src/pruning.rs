//! The sentences of texts that answer questions: the request and the answer of `prune`.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::result::OffsetUnit;

/// Questions, each with a text that may answer it.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an object with pairs")]
pub struct PruneRequest<'text> {
    /// At most `{max_documents}`.
    #[schemars(length(min = 1), extend("maxItems" = "{max_documents}"))]
    pub pairs: Vec<PrunedPair<'text>>,
    /// Probability from which sentences are kept; by default the pruner's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1))]
    pub threshold: Option<f32>,
    /// Unit of the offsets of the answer.
    #[serde(default)]
    pub offsets: OffsetUnit,
}

/// A question and a text.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an object with a question and a context")]
#[schemars(inline)]
pub struct PrunedPair<'text> {
    #[schemars(regex(pattern = r"\S"))]
    pub question: Cow<'text, str>,
    pub context: Context<'text>,
}

/// A text, or the sentences that together are a text.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(untagged, expecting = "must be a text, or a list of its sentences")]
#[schemars(inline)]
pub enum Context<'text> {
    Text(#[schemars(extend("maxLength" = "{max_document_bytes}"))] Cow<'text, str>),
    Sentences(Vec<Cow<'text, str>>),
}

/// What a pruner keeps of texts.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[schemars(rename = "Pruned")]
pub struct Pruned {
    /// For each pair, in order.
    pub results: Vec<PrunedContext>,
    /// Unit of offsets.
    pub offsets: OffsetUnit,
}

/// What a pruner keeps of a text.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct PrunedContext {
    /// Probability that the text answers the question; null if the pruner ranks no texts.
    pub score: Option<f32>,
    /// The sentences of the text, each up to where the next one begins.
    pub sentences: Vec<PrunedSentence>,
}

/// A sentence of a text.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct PrunedSentence {
    /// Start in the text, in the unit of `offsets`.
    pub start: usize,
    /// End in the text.
    pub end: usize,
    /// Probability that it answers.
    pub probability: f32,
    /// Whether it is among the sentences that the pruner keeps.
    pub kept: bool,
}
