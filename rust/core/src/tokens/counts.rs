//! Numbers of tokens, and characters for each token.

use serde_json::Value;
use tokenizers::Tokenizer;

use super::word_ids::PageWords;
use super::{Check, SEGMENTS_AT_ONCE, Tokens};
use crate::error::Result;
use crate::runtime::text_pool;
use crate::text::page::ByteSpan;

/// Texts sampled for [`PageWords::characters_per_token`].
const SAMPLE_TEXTS: usize = 16;

/// The most bytes that count as one token.
const BYTES_OF_BUDGETED: usize = 4;

/// The rarity of a digit and of a capital letter.
const OF_SIGN: f32 = 0.5;

/// Typical for scripts that a tokenizer knows.
const KNOWN_SCRIPT: f32 = 4.0;

/// The tokens before each unit, and in total, by a function such as [`Tokens::budgeted`]. Each unit is counted with the
/// white space after it.
///
/// Where tokens include white space (byte-level, `SentencePiece`), a run of units may have a few more or fewer tokens.
///
/// # Errors
/// Those of `count` and `check`.
pub fn counts_before(
    text: &str,
    units: &[ByteSpan],
    count: impl Fn(&str) -> Result<usize> + Sync,
    check: &Check,
) -> Result<Vec<usize>> {
    let ends: Vec<usize> = units.iter().skip(1).map(|next| next.start).chain([text.len()]).collect();
    let spans: Vec<ByteSpan> = units.iter().zip(ends).map(|(unit, end)| ByteSpan { end, ..*unit }).collect();
    let groups: Vec<&[ByteSpan]> = spans.chunks(SEGMENTS_AT_ONCE).collect();
    let counts = text_pool::map(&groups, |group| {
        check()?;
        group.iter().map(|span| count(span.of(text))).collect::<Result<Vec<usize>>>()
    })?;
    let mut before: Vec<usize> = vec![0];
    for count in counts.into_iter().flatten() {
        before.push(before[before.len() - 1].saturating_add(count));
    }
    Ok(before)
}

impl Tokens {
    /// The number of a text's tokens, without special tokens.
    pub fn count(&self, text: &str) -> Result<usize> {
        self.parts(text).into_iter().map(|part| Ok(self.encode(part.of(text))?.len())).sum()
    }

    /// What a text counts in a budget: its tokens, but at least one for every four bytes. `WordPiece` makes one token of
    /// any "word" over a hundred characters, such as base64; the tokenizer of the prompt's model does not.
    pub fn budgeted(&self, text: &str) -> Result<usize> {
        Ok(self.count(text)?.max(text.len().div_ceil(BYTES_OF_BUDGETED)))
    }

    /// How rare a word is in the model's languages: from 0, for the most frequent words, to 1, for words that the
    /// vocabulary lacks.
    ///
    /// Vocabularies are in the order of frequency (`WordPiece`, Unigram) or of merges, which is nearly the same (BPE).
    /// The rarity is the logarithm of the word's rank after "the", relative to that of the last rank. Single letters and
    /// digits stand before it whatever their frequency: they have the rarity of the number 10, so that "room B" and
    /// "vault 8" differ from other rooms and vaults.
    #[expect(clippy::cast_precision_loss, reason = "a logarithm, of which two digits are used")]
    pub fn rarity(&self, word: &str) -> f32 {
        if let [b'0'..=b'9' | b'A'..=b'Z'] = word.as_bytes() {
            return OF_SIGN;
        }
        let rank = |word: &str| match self.encode(&format!(" {word}")).ok()?.get_ids() {
            [id] if Some(id.cast_signed()) != self.unknown => Some(*id),
            _ => None,
        };
        let first = rank("the").unwrap_or(0);
        let last = self.tokenizer.get_vocab_size(false).max(2) as f32;
        rank(&word.to_lowercase()).map_or(1.0, |rank| (rank.saturating_sub(first) as f32 + 1.0).ln() / last.ln())
    }

    /// The number of special tokens around every row.
    pub const fn special_tokens(&self) -> usize {
        self.prefix.len() + self.suffix.len()
    }

    /// The number of a text's tokens, and of the characters of known ones, white space not counted.
    pub(super) fn known_characters(&self, text: &str) -> Result<(usize, usize)> {
        let encoding = self.encode(text)?;
        let mut characters = 0;
        for (id, (start, end)) in encoding.get_ids().iter().zip(encoding.get_offsets()) {
            let token = text.get(*start..*end).unwrap_or_default();
            if Some(id.cast_signed()) != self.unknown {
                characters += token.chars().filter(|c| !c.is_whitespace()).count();
            }
        }
        Ok((encoding.len(), characters))
    }
}

impl<'page> PageWords<'page> {
    /// The average number of characters of a token, where unknown tokens have none: three to five for scripts that the
    /// tokenizer knows, and about one or less for others. `KNOWN_SCRIPT` for tokenizers of bytes.
    ///
    /// Averages over a sample of the page's `texts` texts, at least `stride` apart, so that overlapping windows are not
    /// sampled twice.
    ///
    /// # Errors
    /// Those of the tokenizer.
    #[expect(clippy::cast_precision_loss, reason = "an average, of which one digit is used")]
    pub fn characters_per_token(&self, texts: usize, stride: usize, text: impl Fn(usize) -> &'page str) -> Result<f32> {
        if self.tokens().has_only_bytes {
            return Ok(KNOWN_SCRIPT);
        }
        let (mut characters, mut tokens) = (0, 0);
        for sampled in (0..texts).step_by(stride.max(texts / SAMPLE_TEXTS + 1)) {
            let (of_text, known) = self.count(text(sampled))?;
            tokens += of_text;
            characters += known;
        }
        Ok(characters as f32 / tokens.max(1) as f32)
    }
}

/// `WordPiece` and BPE give the unknown token's text, Unigram its id.
pub(super) fn unknown_id(json: &Value, tokenizer: &Tokenizer) -> Option<i32> {
    let model = &json["model"];
    let named = model["unk_token"].as_str().and_then(|token| tokenizer.token_to_id(token));
    named.map(u32::cast_signed).or_else(|| i32::try_from(model["unk_id"].as_i64()?).ok())
}
