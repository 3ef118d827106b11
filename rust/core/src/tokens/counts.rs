//! Counts: how many tokens a text has, and how much text a token stands for.

use serde_json::Value;
use tokenizers::Tokenizer;

use super::{GoOn, SEGMENTS_AT_ONCE, Tokens};
use crate::error::Result;
use crate::runtime::text_pool;
use crate::text::page::ByteSpan;

/// Texts that are looked at to tell whether the tokenizer knows their script.
const SAMPLED: usize = 16;

/// Characters that a token stands for in a script that the tokenizer knows.
const USUAL: f32 = 4.0;

impl Tokens {
    /// How many tokens a text by itself has, special ones not counted.
    ///
    /// # Errors
    /// [`ErrorKind::Internal`] where the tokenizer fails.
    pub fn count(&self, text: &str) -> Result<usize> {
        Ok(self.encode(text)?.len())
    }

    /// How many special tokens stand around every row.
    #[must_use]
    pub const fn special(&self) -> usize {
        self.prefix.len() + self.suffix.len()
    }

    /// Tokens before each unit, and in all: each unit is counted by itself, with the white space behind it.
    ///
    /// Where tokens grow over white space (byte-level, `SentencePiece`) a run of units can have a few more or less than that.
    ///
    /// # Errors
    /// [`ErrorKind::Internal`] where the tokenizer fails; what `go_on` says.
    pub fn counts_before(&self, text: &str, units: &[ByteSpan], go_on: &GoOn) -> Result<Vec<usize>> {
        let ends: Vec<usize> = units.iter().skip(1).map(|next| next.start).chain([text.len()]).collect();
        let spans: Vec<ByteSpan> = units.iter().zip(ends).map(|(unit, end)| ByteSpan { end, ..*unit }).collect();
        let groups: Vec<&[ByteSpan]> = spans.chunks(SEGMENTS_AT_ONCE).collect();
        let counts = text_pool::map(&groups, |group| {
            go_on()?;
            group.iter().map(|span| self.count(span.of(text))).collect::<Result<Vec<usize>>>()
        })?;
        let mut before = vec![0];
        for count in counts.into_iter().flatten() {
            before.push(before[before.len() - 1] + count);
        }
        Ok(before)
    }

    /// How many characters a token stands for, where unknown ones stand for none: three to five where the tokenizer knows the
    /// script, near one or below where it does not; bytes tell neither, and count as known. Some of the texts tell, evenly
    /// spread over them, each so many behind the one before: windows that overlap would be read more than once.
    ///
    /// # Errors
    /// [`crate::error::ErrorKind::Internal`] where the tokenizer fails.
    #[expect(clippy::cast_precision_loss, reason = "an average, of which one digit is used")]
    pub fn characters_per_token<'text>(
        &self,
        texts: usize,
        apart: usize,
        text: impl Fn(usize) -> &'text str,
    ) -> Result<f32> {
        if self.bytes {
            return Ok(USUAL);
        }
        let (mut characters, mut tokens) = (0, 0);
        for text in (0..texts).step_by(apart.max(texts / SAMPLED + 1)).map(text) {
            let encoding = self.encode(text)?;
            tokens += encoding.len();
            for (id, (start, end)) in encoding.get_ids().iter().zip(encoding.get_offsets()) {
                let stands_for = text.get(*start..*end).unwrap_or_default();
                if Some(id.cast_signed()) != self.unknown {
                    characters += stands_for.chars().filter(|c| !c.is_whitespace()).count();
                }
            }
        }
        Ok(characters as f32 / tokens.max(1) as f32)
    }
}

/// `WordPiece` and BPE name their unknown token, Unigram has its number.
pub(super) fn unknown_id(json: &Value, tokenizer: &Tokenizer) -> Option<i32> {
    let model = &json["model"];
    let named = model["unk_token"].as_str().and_then(|token| tokenizer.token_to_id(token));
    named.map(u32::cast_signed).or_else(|| i32::try_from(model["unk_id"].as_i64()?).ok())
}
