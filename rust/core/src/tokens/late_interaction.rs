//! Rows of late-interaction models: a token that tells queries from texts after the first one, queries that are filled
//! up with mask tokens, and texts with tokens that get no vector.

use std::ops::Range;

use serde_json::Value;
use tokenizers::Tokenizer;

use super::{Check, Role, Row, RowOptions, TextOrIds, TokenPage, Tokens, TruncationSide, signed};
use crate::encoder::model::{Expansion, LateInteraction, Model};
use crate::error::{Error, ErrorKind, Result};
use crate::runtime::call::unstopped;
use crate::runtime::text_pool;
use crate::text::page::ByteSpan;

/// What a late-interaction model adds to its tokenizer.
#[derive(Debug)]
pub(super) struct LateTokens {
    /// The special ids before queries.
    pub(super) query_prefix: Vec<i32>,
    /// The longest query, special ids included.
    pub(super) query_limit: usize,
    /// The mask token, if queries are filled up with it.
    mask: Option<i32>,
    expansion: Expansion,
    /// Ids of texts without a vector, sorted.
    skipped: Vec<i32>,
}

/// Where a token of a window is: in one of its units, in none, or without a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenPlace {
    Unit(u16),
    /// A special token, which belongs to every unit.
    Special,
    Skipped,
}

/// Rows of windows, and for each row the places of its tokens.
pub(crate) type PlacedRows = (TokenPage, Vec<Vec<TokenPlace>>);

impl LateTokens {
    /// `prefix` are the special ids before every text.
    pub(super) fn read(
        model: &Model,
        late: &LateInteraction,
        tokenizer: &Tokenizer,
        prefix: &mut Vec<i32>,
    ) -> Result<Self> {
        let path = model.file("tokenizer.json");
        let invalid = |what: &str| {
            Error::new(ErrorKind::InvalidModel, format!("{}: late interaction needs {what}", path.display()))
        };
        if prefix.is_empty() {
            return Err(invalid("a special token before every text"));
        }
        let id = |token: &str| tokenizer.token_to_id(token).map(u32::cast_signed);
        let with_mark = |mark: &str| {
            if mark.is_empty() {
                return Ok(prefix.clone());
            }
            let mark =
                id(mark).ok_or_else(|| invalid(&format!("the token {mark:?}, which is not in its vocabulary")))?;
            Ok([&prefix[..1], &[mark], &prefix[1..]].concat())
        };
        let (query_prefix, document_prefix) = (with_mark(&late.query_prefix)?, with_mark(&late.document_prefix)?);
        *prefix = document_prefix;
        let special = special_tokens(model)?;
        let of_name = |key: &str| special(key).and_then(|token| id(&token));
        // pylate's order: a model without a mask token fills up with the end of a text.
        let mask = of_name("mask_token").or_else(|| id("[MASK]")).or_else(|| id("<mask>"));
        let mask = mask.or_else(|| of_name("eos_token")).or_else(|| of_name("pad_token"));
        if mask.is_none() && late.expansion != Expansion::None {
            return Err(invalid("a mask token, which fills up queries; tokenizer_config.json names none"));
        }
        // transformers reads a word that is no token as the unknown token.
        let unknown = of_name("unk_token");
        let skipped = late.skipped_words.iter().filter_map(|word| id(word).or(unknown));
        let mut skipped: Vec<i32> = skipped.collect();
        skipped.sort_unstable();
        Ok(Self { query_prefix, query_limit: late.query_length, mask, expansion: late.expansion, skipped })
    }

    /// Fills up a query's ids. Returns how many of the last ones no token attends to.
    pub(super) fn expand(&self, ids: &mut Vec<i32>) -> usize {
        let (Some(mask), Expansion::Unattended | Expansion::Attended) = (self.mask, self.expansion) else { return 0 };
        let added = self.query_limit.saturating_sub(ids.len());
        ids.resize(ids.len() + added, mask);
        if self.expansion == Expansion::Unattended { added } else { 0 }
    }

    pub(super) fn is_skipped(&self, id: i32) -> bool {
        self.skipped.binary_search(&id).is_ok()
    }
}

/// The special tokens that `tokenizer_config.json` names, by their keys.
fn special_tokens(model: &Model) -> Result<impl Fn(&str) -> Option<String>> {
    let path = model.file("tokenizer_config.json");
    let config = match std::fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map_err(|error| Error::new(ErrorKind::InvalidModel, format!("{} is damaged: {error}", path.display())))?,
        Err(_) => Value::Null,
    };
    Ok(move |key: &str| {
        let token = &config[key];
        token.as_str().or_else(|| token["content"].as_str()).map(str::to_owned)
    })
}

impl Tokens {
    /// Whether the model has a vector for each token, and none for a text.
    pub const fn is_late_interaction(&self) -> bool {
        self.late.is_some()
    }

    /// The row of a short text: a query, a title.
    pub(crate) fn short_row(&self, text: &str, role: Role) -> Result<Row> {
        if self.late.is_none() {
            let (ids, is_truncated) = self.text(text, role)?;
            return Ok(Row { length: ids.len() + usize::from(is_truncated), ..Row::whole(ids) });
        }
        let options = RowOptions { max_tokens: usize::MAX, side: TruncationSide::Right, adds_special_tokens: true };
        self.row_of(TextOrIds::Text(text), role, &options, &unstopped)
    }

    /// The row of a text's ids, special ids included.
    pub fn passage_row(&self, ids: Vec<i32>) -> Row {
        Row { skipped: self.skipped(&ids, Role::Passage), ..Row::whole(ids) }
    }

    /// The rows of windows of a text. `units` are the parts of each.
    pub(crate) fn late_page(
        &self,
        text: &str,
        windows: &[(ByteSpan, &[ByteSpan])],
        check: &Check,
    ) -> Result<PlacedRows> {
        let rows = text_pool::map(windows, |(window, units)| {
            check()?;
            self.late_window(text, *window, units)
        })?;
        let (mut ids, mut places) = (Vec::with_capacity(rows.len()), Vec::with_capacity(rows.len()));
        for (row, is_truncated, of_row) in rows {
            ids.push((row, is_truncated));
            places.push(of_row);
        }
        Ok((TokenPage::of_rows(ids), places))
    }

    fn late_window(
        &self,
        text: &str,
        window: ByteSpan,
        units: &[ByteSpan],
    ) -> Result<(Vec<i32>, bool, Vec<TokenPlace>)> {
        let prompt = self.prompt(Role::Passage);
        let text = format!("{prompt}{}", window.of(text));
        let encoding = self.encode(&text)?;
        let max = self.max_text_tokens();
        let is_truncated = encoding.len() > max;
        let mut unit = 0;
        let place = |(id, (start, _)): (&u32, &(usize, usize))| {
            if self.is_skipped(id.cast_signed()) {
                return TokenPlace::Skipped;
            }
            let Some(at) = start.checked_sub(prompt.len()) else { return TokenPlace::Special };
            // A token's span may begin with the white space before its unit.
            let at = window.start + at + white_space(text.get(*start..).unwrap_or_default());
            while units.get(unit + 1).is_some_and(|next: &ByteSpan| next.start <= at) {
                unit += 1;
            }
            u16::try_from(unit).map_or(TokenPlace::Special, TokenPlace::Unit)
        };
        let kept = encoding.len().min(max);
        let inside: Vec<TokenPlace> =
            encoding.get_ids().iter().zip(encoding.get_offsets()).take(kept).map(place).collect();
        let around = |ids: &[i32]| -> Vec<TokenPlace> {
            let place = |id: &i32| if self.is_skipped(*id) { TokenPlace::Skipped } else { TokenPlace::Special };
            ids.iter().map(place).collect()
        };
        let places = [around(&self.prefix), inside, around(&self.suffix)].concat();
        let ids = [self.prefix.as_slice(), &signed(&encoding.get_ids()[..kept]), &self.suffix].concat();
        Ok((ids, is_truncated, places))
    }

    fn is_skipped(&self, id: i32) -> bool {
        self.late.as_ref().is_some_and(|late| late.is_skipped(id))
    }

    /// The places of a text's ids without a vector.
    pub(super) fn skipped(&self, ids: &[i32], role: Role) -> Vec<usize> {
        let places: Range<usize> = if role == Role::Passage { 0..ids.len() } else { 0..0 };
        places.filter(|place| self.is_skipped(ids[*place])).collect()
    }
}

fn white_space(text: &str) -> usize {
    text.len() - text.trim_start().len()
}
