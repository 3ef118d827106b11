//! Vectors of tokens, for `/embed_all` of Text Embeddings Inference and vLLM's task `token_embed`.
//!
//! They are those of the model's last layer, special tokens included, before pooling and the modules after it; with late
//! interaction those that `MaxSim` compares. A token's vector is as long as that of a whole text, so the tokens of a
//! request are limited by the memory of its answer.

use pullquote_core::encoder::cosine::normalize;
use pullquote_core::engine::Work;
use pullquote_core::tokens::Row;
use schemars::{Schema, SchemaGenerator, json_schema};
use tokio::sync::OwnedSemaphorePermit;

use super::vectors::FieldInputs;
use crate::app::App;
use crate::http::dtype::{VALUE_BYTES, write_entries, write_list};
use crate::http::failure::{Amount, Failure};
use crate::http::input::RequestControl;

/// Tokenized texts whose tokens are to be encoded.
pub(super) struct TokenEncoding {
    rows: Vec<Row>,
    width: usize,
    work: Work,
    end: RequestControl,
    memory: OwnedSemaphorePermit,
}

/// The vectors of all tokens of texts, and the work for them.
pub(super) struct TokenVectors {
    /// Those of one text after those of another: `[tokens, width]`.
    pub(super) values: Vec<f32>,
    pub(super) width: usize,
    /// The number of tokens of each text.
    pub(super) lengths: Vec<usize>,
    pub(super) work: Work,
    _memory: OwnedSemaphorePermit,
}

impl TokenEncoding {
    /// Tokenizes a field; nothing is encoded yet. `width` is that of a token's vector.
    pub(super) fn of_field(
        app: &App,
        inputs: &FieldInputs,
        width: usize,
        end: RequestControl,
    ) -> Result<Self, Failure> {
        let rows = inputs.rows(app, &end)?;
        let truncated = rows.iter().filter(|row| row.is_truncated()).count();
        inputs.check_truncated(app, truncated)?;
        let tokens = rows.iter().map(|row| row.ids.len()).sum::<usize>();
        let bytes = tokens * width * VALUE_BYTES;
        // Half, so that one large request does not refuse all others.
        let most = app.settings.max_queue_bytes / 2;
        if bytes > most {
            let limit = most / (width * VALUE_BYTES);
            let message = format!(
                "the texts have {tokens} tokens, and this server returns the vectors of at most {limit} tokens in one answer; \
                 send fewer texts"
            );
            return Err(Failure::of_amount(Amount::TooMuch, inputs.field, message));
        }
        let memory = app.admission.bodies.memory.reserve(bytes)?;
        let work = Work { windows: rows.len(), encoded: rows.len(), tokens, truncated, ..Work::default() };
        Ok(Self { rows, width, work, end, memory })
    }

    /// Encodes the tokens, and brings their vectors to length 1 if `normalizes`.
    pub(super) fn whole(self, app: &App, normalizes: bool) -> Result<TokenVectors, Failure> {
        let Self { rows, width, work, end, memory } = self;
        let lengths = rows.iter().map(Row::vectors).collect();
        let mut values = {
            let call = end.call();
            app.engine.wait(&call, app.engine.token_vectors(rows, &call))?
        };
        if normalizes {
            normalize(&mut values, width);
        }
        Ok(TokenVectors { values, width, lengths, work, _memory: memory })
    }
}

impl TokenVectors {
    /// For each text the vectors of its tokens, concatenated.
    pub(super) fn texts(&self) -> impl Iterator<Item = &[f32]> {
        let mut left = self.values.as_slice();
        self.lengths.iter().map(move |length| {
            let (text, later) = left.split_at(length * self.width);
            left = later;
            text
        })
    }
}

/// Appends the vectors of a text's tokens as a list of lists.
pub(super) fn write_lists(json: &mut Vec<u8>, text: &[f32], width: usize) {
    write_entries(json, text.chunks_exact(width), write_list);
}

/// The vectors of a text's tokens, as numbers.
pub(crate) fn token_vectors_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "minItems": 1,
        "items": {"type": "array", "items": {"type": "number"}, "minItems": 1},
        "description": "A vector for each token.",
    })
}
