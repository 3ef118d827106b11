//! Rows of texts or of ids, truncated as the caller says.

use super::{Check, Role, Tokens, signed};
use crate::error::Result;

/// Which part of a long text a row keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TruncationSide {
    Left,
    Right,
}

/// How a text becomes a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowOptions {
    /// The most ids of a row, special ids included; more than the model's limit is the limit.
    pub max_tokens: usize,
    pub side: TruncationSide,
    /// Whether the special ids are put around a text.
    pub adds_special_tokens: bool,
}

/// The source of a row.
#[derive(Clone, Copy, Debug)]
pub enum TextOrIds<'call> {
    /// A text, which gets its prompt.
    Text(&'call str),
    /// Ids of [`Tokens::inner_ids`].
    Ids(&'call [i32]),
}

/// The ids of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Special ids included.
    pub ids: Vec<i32>,
    /// The number of ids before truncation.
    pub length: usize,
    /// Late interaction: how many of the last ids only fill up the row, so that no token attends to them.
    pub unattended: usize,
    /// Late interaction: the places of ids without a vector.
    pub skipped: Vec<usize>,
}

/// A client's token ids, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GivenIds {
    /// The ids of a text, without the special ids that were around them.
    Valid(Vec<i32>),
    /// The tokenizer has no token with this id.
    Unknown(u32),
    /// The special ids, or for a model without any a text, show that the ids are of this tokenizer; these do not.
    Unmarked,
}

impl Row {
    /// A row of which every id is attended to and gets a vector.
    pub const fn whole(ids: Vec<i32>) -> Self {
        Self { length: ids.len(), ids, unattended: 0, skipped: Vec::new() }
    }

    /// The number of its tokens' vectors.
    pub const fn vectors(&self) -> usize {
        self.ids.len() - self.skipped.len()
    }

    /// Whether ids were dropped.
    pub const fn is_truncated(&self) -> bool {
        self.ids.len() < self.length
    }
}

impl Tokens {
    pub fn row_of(&self, source: TextOrIds, role: Role, options: &RowOptions, check: &Check) -> Result<Row> {
        let (prompt, body) = match source {
            // pylate strips texts.
            TextOrIds::Text(text) if self.late.is_some() => {
                self.prompt_and_body(text.trim(), role, usize::MAX, check)?
            }
            TextOrIds::Text(text) => self.prompt_and_body(text, role, usize::MAX, check)?,
            TextOrIds::Ids(ids) => (Vec::new(), ids.to_vec()),
        };
        let (prefix, suffix): (&[i32], &[i32]) =
            if options.adds_special_tokens { (self.prefix(role), &self.suffix) } else { (&[], &[]) };
        let room = options.max_tokens.min(self.limit(role)).saturating_sub(prefix.len() + suffix.len());
        let length = prefix.len() + prompt.len() + body.len() + suffix.len();
        let body_room = room.saturating_sub(prompt.len());
        let kept = body_room.min(body.len());
        let body = match options.side {
            TruncationSide::Left => &body[body.len() - kept..],
            TruncationSide::Right => &body[..kept],
        };
        let mut ids = [prefix, &prompt[..prompt.len().min(room)], body, suffix].concat();
        let (skipped, before) = (self.skipped(&ids, role), ids.len());
        let expansion = self.late.as_ref().filter(|_| role == Role::Query);
        let unattended = expansion.map_or(0, |late| late.expand(&mut ids));
        Ok(Row { length: length + ids.len() - before, ids, unattended, skipped })
    }

    /// The rows of overlapping windows that together cover a text; one row for a text that fits.
    ///
    /// `max_tokens` is as in [`RowOptions`], and `total_tokens` bounds what is read of the text.
    pub fn window_rows(
        &self,
        text: &str,
        role: Role,
        max_tokens: usize,
        total_tokens: usize,
        check: &Check,
    ) -> Result<Vec<Vec<i32>>> {
        let (prompt, mut body) = self.prompt_and_body(text, role, total_tokens, check)?;
        let around = self.prefix.len() + prompt.len() + self.suffix.len();
        body.truncate(total_tokens.saturating_sub(around).max(1));
        let room = self.limit.saturating_sub(around).max(1);
        let window = |ids: &[i32]| [&self.prefix, &prompt, ids, &self.suffix].concat();
        if body.len() <= room {
            return Ok(vec![window(&body)]);
        }
        let room = max_tokens.saturating_sub(around).clamp(1, room);
        let step = room.div_ceil(2);
        let starts = (0..(body.len() - room).div_ceil(step)).map(|number| number * step).chain([body.len() - room]);
        Ok(starts.map(|start| window(&body[start..start + room])).collect())
    }

    /// Checks a client's ids; `adds_special_tokens` is that of [`RowOptions`].
    pub fn inner_ids(&self, ids: &[u32], adds_special_tokens: bool) -> Result<GivenIds> {
        let size = self.tokenizer.get_vocab_size(true);
        if let Some(unknown) = ids.iter().find(|id| usize::try_from(**id).map_or(true, |id| id >= size)) {
            return Ok(GivenIds::Unknown(*unknown));
        }
        let all = signed(ids);
        if !adds_special_tokens {
            return Ok(GivenIds::Valid(all));
        }
        if self.prefix.is_empty() && self.suffix.is_empty() {
            return Ok(if self.text_of(ids)?.is_some() { GivenIds::Valid(all) } else { GivenIds::Unmarked });
        }
        let inside = all.strip_prefix(self.prefix.as_slice()).and_then(|ids| ids.strip_suffix(self.suffix.as_slice()));
        Ok(inside.map_or(GivenIds::Unmarked, |inside| GivenIds::Valid(inside.to_vec())))
    }

    /// The ids of a prompt, and those of the text after it, of which at least `most` are read.
    fn prompt_and_body(&self, text: &str, role: Role, most: usize, check: &Check) -> Result<(Vec<i32>, Vec<i32>)> {
        let prompt = self.prompt(role);
        if prompt.is_empty() {
            return Ok((Vec::new(), self.first_ids(text, most, check)?));
        }
        let alone = self.ids(prompt)?;
        let all = self.first_ids(&format!("{prompt}{text}"), most.saturating_add(alone.len()), check)?;
        // A prompt may merge with the text; then all of it counts as text.
        Ok(match all.strip_prefix(alone.as_slice()) {
            Some(body) => (alone, body.to_vec()),
            None => (Vec::new(), all),
        })
    }
}
