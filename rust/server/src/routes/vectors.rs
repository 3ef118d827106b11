//! Vectors: what the routes of `OpenAI`, Text Embeddings Inference and the rerankers have in common.

use pullquote_core::engine::Work;
use pullquote_core::tokens::Role;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::app::App;
use crate::http::admission::RequestControl;
use crate::http::binary_body::Encoding;
use crate::http::failure::{Cause, Failure};
use crate::openapi::limits::{MAX_DOCUMENT_BYTES, MAX_INPUTS};
use crate::store::documents::{check_count, check_lengths};

/// A text, a list of texts, or the same as token ids: at most `{max_inputs}`. Token ids must be those that this server's tokenizer
/// gives for a text. A text is cut after `{max_tokens}` tokens.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a text, a list of texts, a list of token ids or a list of lists of token ids")]
#[schemars(inline)]
pub(crate) enum Texts {
    One(#[schemars(length(max = MAX_DOCUMENT_BYTES))] String),
    Many(#[schemars(length(min = 1, max = MAX_INPUTS), inner(length(max = MAX_DOCUMENT_BYTES)))] Vec<String>),
    Ids(#[schemars(length(min = 1))] Vec<u32>),
    ManyIds(#[schemars(length(min = 1, max = MAX_INPUTS), inner(length(min = 1)))] Vec<Vec<u32>>),
}

/// The vectors of texts, one behind the other, and what they took.
pub(crate) struct Vectors {
    pub(crate) values: Vec<f32>,
    pub(crate) dimension: usize,
    pub(crate) work: Work,
}

impl Texts {
    /// The texts themselves, checked.
    pub(crate) fn read(self, field: &str, app: &App) -> Result<Vec<String>, Failure> {
        let texts = match self {
            Self::One(text) => vec![text],
            Self::Many(texts) => texts,
            Self::Ids(ids) => vec![text_of(&ids, field, app)?],
            Self::ManyIds(lists) => {
                let each = lists.iter().enumerate();
                each.map(|(index, ids)| text_of(ids, &format!("{field}[{index}]"), app)).collect::<Result<_, _>>()?
            }
        };
        check_count(texts.len(), field, app.settings.max_inputs)?;
        check_lengths(texts.iter().map(String::as_str), field, &app.settings)?;
        Ok(texts)
    }
}

/// The engine embeds texts. Ids stand for one exactly where its tokens are those ids again; all others are refused, so that
/// nobody gets the vector of something else.
fn text_of(ids: &[u32], field: &str, app: &App) -> Result<String, Failure> {
    if ids.is_empty() {
        return Err(Failure::of_field(Cause::Unprocessable, field, "the list of token ids is empty"));
    }
    app.engine.tokens().text_of(ids)?.ok_or_else(|| {
        let message =
            "no text has these token ids with this server's tokenizer; were they made by another one? send the text";
        Failure::of_field(Cause::Unprocessable, field, message)
    })
}

/// Embeds texts for what they are for.
pub(crate) fn embed<Text: AsRef<str>>(
    app: &App,
    texts: &[Text],
    role: Role,
    end: RequestControl,
) -> Result<Vectors, Failure> {
    Encoding::of(app, texts, role, end)?.whole()
}

impl Vectors {
    /// Each text's vector.
    pub(crate) fn rows(&self) -> std::slice::ChunksExact<'_, f32> {
        self.values.chunks_exact(self.dimension)
    }

    /// Brings every vector to length one.
    pub(crate) fn normalize(&mut self) {
        normalize(&mut self.values, self.dimension);
    }
}

/// Brings vectors, one behind the other, to length one.
pub(crate) fn normalize(vectors: &mut [f32], dimension: usize) {
    for vector in vectors.chunks_exact_mut(dimension) {
        let length = squared_length(vector).sqrt();
        if length > 0.0 {
            for value in vector {
                *value /= length;
            }
        }
    }
}

/// With sixteen running sums, so that the compiler can use the widest registers.
fn squared_length(vector: &[f32]) -> f32 {
    const LANES: usize = 16;
    let mut sums = [0.0_f32; LANES];
    let lanes = vector.chunks_exact(LANES);
    let rest: f32 = lanes.remainder().iter().map(|value| value * value).sum();
    for values in lanes {
        for (sum, value) in sums.iter_mut().zip(values) {
            *sum += value * value;
        }
    }
    sums.iter().sum::<f32>() + rest
}
