//! The ids of a page's units, word by word. Most words of a page are whole tokens of a `WordPiece` vocabulary, so one lookup
//! replaces the tokenizer.

use rustc_hash::FxHashMap;

use super::boundaries::Family;
use super::{Check, SEGMENTS_AT_ONCE, Tokens};
use crate::error::Result;
use crate::runtime::text_pool;
use crate::text::page::ByteSpan;

/// Finds the ids of words, which end at ASCII white space and punctuation.
struct WordIds<'page> {
    tokens: &'page Tokens,
    /// Whether the tokenizer ignores the case of letters.
    ignores_case: bool,
    /// Of words that are no token.
    split: FxHashMap<&'page str, Vec<i32>>,
    /// Reused.
    lowercase: String,
}

impl Tokens {
    /// The ids of each unit, without special ids and prompts.
    ///
    /// # Errors
    /// [`crate::error::ErrorKind::Internal`] if the tokenizer fails; errors of `check`.
    pub fn of_units(&self, text: &str, units: &[ByteSpan], check: &Check) -> Result<Vec<Vec<i32>>> {
        let by_word = matches!(self.family, Family::Bert { punctuation: true, .. })
            && !self.drops_unknown
            && !self.contains_added_token(text);
        let ignores_case = by_word && self.ids("A")? == self.ids("a")?;
        let groups: Vec<&[ByteSpan]> = units.chunks(SEGMENTS_AT_ONCE).collect();
        let ids = text_pool::map(&groups, |group| {
            check()?;
            let mut words =
                WordIds { tokens: self, ignores_case, split: FxHashMap::default(), lowercase: String::new() };
            let ids = |unit: &ByteSpan| if by_word { words.of(unit.of(text)) } else { self.ids(unit.of(text)) };
            group.iter().map(ids).collect::<Result<Vec<_>>>()
        })?;
        Ok(ids.into_iter().flatten().collect())
    }
}

impl<'page> WordIds<'page> {
    fn of(&mut self, text: &'page str) -> Result<Vec<i32>> {
        let mut ids = Vec::with_capacity(text.len() / 4);
        let is_edge = |c: char| c.is_ascii_punctuation();
        for run in text.split([' ', '\n', '\t', '\r']) {
            let mut rest = run;
            while let Some(edge) = rest.find(is_edge) {
                self.add(&rest[..edge], &mut ids)?;
                self.add(&rest[edge..=edge], &mut ids)?;
                rest = &rest[edge + 1..];
            }
            self.add(rest, &mut ids)?;
        }
        Ok(ids)
    }

    fn add(&mut self, word: &'page str, ids: &mut Vec<i32>) -> Result<()> {
        if word.is_empty() {
            return Ok(());
        }
        if word.is_ascii() {
            let mut known = word;
            if self.ignores_case {
                self.lowercase.clear();
                self.lowercase.extend(word.chars().map(|c| c.to_ascii_lowercase()));
                known = &self.lowercase;
            }
            if let Some(id) = self.tokens.tokenizer.token_to_id(known) {
                ids.push(id.cast_signed());
                return Ok(());
            }
        }
        if let Some(known) = self.split.get(word) {
            ids.extend_from_slice(known);
            return Ok(());
        }
        let new = self.tokens.ids(word)?;
        ids.extend_from_slice(&new);
        self.split.insert(word, new);
        Ok(())
    }
}
