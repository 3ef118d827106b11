//! Vectors: what the routes of `OpenAI`, Text Embeddings Inference and the rerankers have in common.

use pullquote_core::call::Call;
use pullquote_core::engine::{Embedded, Work};
use pullquote_core::tokens::Role;
use serde::Deserialize;

use crate::app::App;
use crate::documents::{check_count, check_lengths};
use crate::failure::{Cause, Failure};

/// Texts, or the ids of their tokens, alone or in a list.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a text, a list of texts, a list of token ids or a list of lists of token ids")]
pub(crate) enum Texts {
    /// A text.
    One(String),
    /// Texts.
    Many(Vec<String>),
    /// Ids of a text.
    Ids(Vec<u32>),
    /// Ids of texts.
    ManyIds(Vec<Vec<u32>>),
}

/// The vectors of texts, one behind the other, and what they took.
pub(crate) struct Vectors {
    pub(crate) embedded: Embedded,
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
pub(crate) fn embed<Text: AsRef<str>>(app: &App, texts: &[Text], role: Role, call: &Call) -> Result<Vectors, Failure> {
    let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
    let embedded = app.engine.embed(&texts, role, call)?;
    let work = Work {
        pieces: texts.len(),
        encoded: texts.len(),
        tokens: embedded.tokens,
        truncated: embedded.truncated,
        ..Work::default()
    };
    Ok(Vectors { embedded, dimension: app.engine.spec().dimension, work })
}

impl Vectors {
    /// Each text's vector.
    pub(crate) fn rows(&self) -> std::slice::ChunksExact<'_, f32> {
        self.embedded.vectors.chunks_exact(self.dimension)
    }

    /// Brings every vector to length one.
    pub(crate) fn normalize(&mut self) {
        for vector in self.embedded.vectors.chunks_exact_mut(self.dimension) {
            let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
            if length > 0.0 {
                for value in vector {
                    *value /= length;
                }
            }
        }
    }
}
