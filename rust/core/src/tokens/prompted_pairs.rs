//! Pairs of texts as a language model reads them: in one text, as a [`PairPrompt`] says.

use super::{Check, Tokens};
use crate::encoder::model::{PairPrompt, PromptPart};
use crate::error::Result;
use crate::text::page::boundary_from;

/// Bytes of a passage that are tokenized for each id of a row: far more than any id of a language has.
const BYTES_OF_ID: usize = 64;

/// The text around queries and passages.
#[derive(Debug)]
pub(super) struct PromptedPairs {
    /// Up to the passage, the last piece with only the parts before it.
    before: Vec<Vec<PromptPart>>,
    /// After the passage; the first piece has the parts that follow it.
    after: Vec<Vec<PromptPart>>,
}

/// A query in its text.
pub(super) struct PromptedQuery {
    query: String,
    /// The ids after a passage.
    suffix: Vec<i32>,
    /// The number of ids without a passage.
    fixed: usize,
    /// Whether the query is too long for a row.
    pub(super) is_cut: bool,
}

impl PromptedPairs {
    pub(super) fn new(prompt: &PairPrompt) -> Self {
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for piece in &prompt.pieces {
            if !after.is_empty() {
                after.push(piece.clone());
            } else if let Some(passage) = piece.iter().position(|part| *part == PromptPart::Passage) {
                before.push(piece[..passage].to_vec());
                after.push(piece[passage + 1..].to_vec());
            } else {
                before.push(piece.clone());
            }
        }
        Self { before, after }
    }

    /// The number of ids of the text around a pair.
    pub(super) fn fixed(&self, tokens: &Tokens, check: &Check) -> Result<usize> {
        Ok(self.whole(tokens, "", "", usize::MAX, check)?.len())
    }

    /// A query, cut where it would leave a passage less than a quarter of a row.
    pub(super) fn query(&self, tokens: &Tokens, query: &str, row: usize, check: &Check) -> Result<PromptedQuery> {
        let mut query = start(query, row.saturating_mul(BYTES_OF_ID));
        let fixed = |query: &str| Ok(self.whole(tokens, query, "", usize::MAX, check)?.len());
        let (mut ids, most) = (fixed(query)?, row - row / 4);
        let is_cut = ids > most;
        while ids > most && !query.is_empty() {
            // Shorter at each turn, also where the cut is inside of a character.
            query = start(query, (query.len() * most / ids).saturating_sub(3));
            ids = fixed(query)?;
        }
        let suffix = Self::ids(tokens, &self.after, query, usize::MAX, check)?;
        Ok(PromptedQuery { query: query.to_owned(), suffix, fixed: ids, is_cut })
    }

    /// The ids of a pair: at most `row`, and `most` of the passage; and whether that has more.
    pub(super) fn row(
        &self,
        tokens: &Tokens,
        query: &PromptedQuery,
        passage: &str,
        (row, most): (usize, usize),
        check: &Check,
    ) -> Result<(Vec<i32>, bool)> {
        let PromptedQuery { query, suffix, fixed, .. } = query;
        let row = row.min(fixed.saturating_add(most));
        let passage = start(passage, row.saturating_mul(BYTES_OF_ID));
        let ids = self.whole(tokens, query, passage, row + 1, check)?;
        if ids.len() <= row {
            return Ok((ids, false));
        }
        // What follows the passage stays.
        let mut ids = self.start(tokens, query, passage, row + 1, check)?;
        ids.truncate(row.saturating_sub(suffix.len()));
        ids.extend(suffix);
        Ok((ids, true))
    }

    /// The ids up to the passage's end.
    fn start(&self, tokens: &Tokens, query: &str, passage: &str, most: usize, check: &Check) -> Result<Vec<i32>> {
        let (last, before) = self.before.split_last().unwrap_or((const { &Vec::new() }, &[]));
        let mut ids = Self::ids(tokens, before, query, most, check)?;
        ids.extend(tokens.first_ids(&format!("{}{passage}", text_of(last, query)), most, check)?);
        Ok(ids)
    }

    /// The ids of the whole text. The piece with the passage is tokenized as one.
    fn whole(&self, tokens: &Tokens, query: &str, passage: &str, most: usize, check: &Check) -> Result<Vec<i32>> {
        let (last, before) = self.before.split_last().unwrap_or((const { &Vec::new() }, &[]));
        let (first, after) = self.after.split_first().unwrap_or((const { &Vec::new() }, &[]));
        let mut ids = Self::ids(tokens, before, query, most, check)?;
        let text = format!("{}{passage}{}", text_of(last, query), text_of(first, query));
        ids.extend(tokens.first_ids(&text, most, check)?);
        ids.extend(Self::ids(tokens, after, query, most, check)?);
        Ok(ids)
    }

    fn ids(tokens: &Tokens, pieces: &[Vec<PromptPart>], query: &str, most: usize, check: &Check) -> Result<Vec<i32>> {
        let mut ids = Vec::new();
        for piece in pieces {
            ids.extend(tokens.first_ids(&text_of(piece, query), most, check)?);
        }
        Ok(ids)
    }
}

/// The text of parts without a passage.
fn text_of(parts: &[PromptPart], query: &str) -> String {
    let text = |part: &PromptPart| match part {
        PromptPart::Text(text) => text.clone(),
        PromptPart::Query => query.to_owned(),
        PromptPart::Passage => String::new(),
    };
    parts.iter().map(text).collect()
}

/// The start of a text, of this many bytes or a few more.
fn start(text: &str, bytes: usize) -> &str {
    &text[..boundary_from(text, bytes.min(text.len()))]
}
