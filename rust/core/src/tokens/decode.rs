//! The tokens of a text one by one, and decoding ids to text.

use super::boundaries::Family;
use super::load::special_ids;
use super::{CHUNK_BYTES, Check, Tokens, signed};
use crate::error::{Error, ErrorKind, Result};
use crate::text::page::ByteSpan;

/// A token of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'call> {
    /// The row in the embedding table.
    pub id: i32,
    /// As in the tokenizer's vocabulary.
    pub name: &'call str,
    /// `None` for special tokens.
    pub span: Option<ByteSpan>,
}

impl Tokens {
    /// Visits the tokens of a text without a prompt, in order; `special` adds the special tokens. Only those of a part
    /// of the text are in memory at once.
    ///
    /// # Errors
    /// Those of `check` and of `visit`, which end it.
    pub fn visit(
        &self,
        text: &str,
        special: bool,
        check: &Check,
        visit: &mut dyn FnMut(Token<'_>) -> Result<()>,
    ) -> Result<()> {
        // Those of the tokenizer, which for static embeddings are not those of a row.
        let damaged = |why: String| Error::new(ErrorKind::Internal, format!("the tokenizer failed: {why}"));
        let (prefix, suffix) =
            if special { special_ids(&self.tokenizer).map_err(damaged)? } else { Default::default() };
        self.visit_special(&prefix, visit)?;
        for part in self.parts(text) {
            check()?;
            let encoding = self.encode(part.of(text))?;
            let tokens = encoding.get_ids().iter().zip(encoding.get_tokens()).zip(encoding.get_offsets());
            for ((id, name), (start, end)) in tokens {
                let span = ByteSpan { start: part.start + start, end: part.start + end };
                visit(Token { id: id.cast_signed(), name, span: Some(span) })?;
            }
        }
        self.visit_special(&suffix, visit)
    }

    fn visit_special(&self, ids: &[i32], visit: &mut dyn FnMut(Token<'_>) -> Result<()>) -> Result<()> {
        ids.iter().try_for_each(|id| {
            let name = self.tokenizer.id_to_token(id.cast_unsigned()).unwrap_or_default();
            visit(Token { id: *id, name: &name, span: None })
        })
    }

    /// Parts of a text whose tokens, one part after the other, are those of the text, with the same spans.
    pub(super) fn parts(&self, text: &str) -> Vec<ByteSpan> {
        let is_known = self.byte_table.is_some() || self.family != Family::Unknown;
        let is_whole = text.len() <= CHUNK_BYTES || !is_known || self.contains_added_token(text);
        let mut parts = Vec::new();
        let mut start = 0;
        while start < text.len() || parts.is_empty() {
            let least = if is_whole { text.len() } else { (start + CHUNK_BYTES).min(text.len()) };
            let places = (least..text.len()).filter(|byte| text.is_char_boundary(*byte));
            let end = places.into_iter().find(|byte| self.is_part_end(text, *byte)).unwrap_or(text.len());
            parts.push(ByteSpan { start, end });
            start = end;
        }
        parts
    }

    /// Except in BERT's family, a space belongs to the word after it, so a part begins with the first of spaces.
    fn is_part_end(&self, text: &str, byte: usize) -> bool {
        if self.byte_table.is_some() {
            return true;
        }
        let begins_with_space = text[byte..].starts_with(' ') && !text[..byte].ends_with(' ');
        (matches!(self.family, Family::Bert { .. }) || begins_with_space) && self.family.is_safe(text, byte)
    }

    /// The text of ids, which need not be the one that they were made from.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for an id that the tokenizer does not have; [`ErrorKind::Internal`] if it fails.
    pub fn decode(&self, ids: &[u32], skips_special_tokens: bool) -> Result<String> {
        if let Some(unknown) = ids.iter().find(|id| self.tokenizer.id_to_token(**id).is_none()) {
            return Err(Error::new(ErrorKind::InvalidArgument, format!("the tokenizer has no token {unknown}")));
        }
        self.tokenizer.decode(ids, skips_special_tokens).map_err(|error| failed(&*error))
    }

    /// The text with these ids, with or without special ids. `None` if the tokenizer gives these ids to no text.
    pub fn text_of(&self, ids: &[u32]) -> Result<Option<String>> {
        let all = signed(ids);
        let inside = all.strip_prefix(self.prefix.as_slice()).and_then(|ids| ids.strip_suffix(self.suffix.as_slice()));
        let (ids, all) = match inside {
            Some(inside) => (&ids[self.prefix.len()..self.prefix.len() + inside.len()], inside),
            None => (ids, all.as_slice()),
        };
        let text = self.tokenizer.decode(ids, false).map_err(|error| failed(&*error))?;
        Ok((signed(self.encode(&text)?.get_ids()) == all).then_some(text))
    }
}

fn failed(error: &(dyn std::error::Error + Send + Sync)) -> Error {
    Error::new(ErrorKind::Internal, format!("the tokenizer failed: {error}"))
}
