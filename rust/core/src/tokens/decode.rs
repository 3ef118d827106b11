//! The tokens of a text one by one, and decoding ids to text.

use super::{Tokens, signed};
use crate::error::{Error, ErrorKind, Result};
use crate::text::page::ByteSpan;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The row in the embedding table.
    pub id: i32,
    /// As in the tokenizer's vocabulary.
    pub text: String,
    /// `None` for special tokens.
    pub span: Option<ByteSpan>,
}

impl Tokens {
    /// The tokens of a text without a prompt; `special` adds the special tokens.
    pub fn list(&self, text: &str, special: bool) -> Result<Vec<Token>> {
        let encoding = self.tokenizer.encode(text, special).map_err(|error| failed(&*error))?;
        let (offsets, is_special) = (encoding.get_offsets(), encoding.get_special_tokens_mask());
        let ids = signed(encoding.get_ids());
        let token = |(index, (id, text)): (usize, (&i32, &String))| {
            let (start, end) = offsets[index];
            let span = (is_special[index] == 0).then_some(ByteSpan { start, end });
            Token { id: *id, text: text.clone(), span }
        };
        Ok(ids.iter().zip(encoding.get_tokens()).enumerate().map(token).collect())
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
