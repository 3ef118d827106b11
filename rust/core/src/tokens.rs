//! Tokens: each page is tokenized once, and a window's ids are a slice of the page's.
//!
//! [`Tokens::page`] promises that the ids of every window equal those of [`Tokens::text`], which tokenizes the window's
//! text by itself. If a window's edge is not a safe place to cut (see `boundaries`), the edge is tokenized alone;
//! without any safe place, the whole window is.

mod boundaries;
mod byte_table;
mod counts;
mod decode;
mod late_interaction;
mod load;
mod pairs;
mod prompted_pairs;
mod rows;
mod sentences;
mod word_ids;

use std::ops::Range;

use tokenizers::{Encoding, Tokenizer};

use crate::encoder::model::Prompts;
use crate::error::{Error, ErrorKind, Result};
pub use crate::runtime::call::Check;
use crate::runtime::call::unstopped;
use crate::runtime::text_pool;
use crate::text::page::{ByteSpan, boundary_from};
use crate::text::pieces::graphemes::push_word;
use boundaries::Family;
use byte_table::ByteTable;
pub use counts::counts_before;
pub use decode::Token;
use late_interaction::LateTokens;
pub(crate) use late_interaction::{PlacedRows, TokenPlace};
pub use pairs::{PairLimits, PairRows, PairTokens};
pub use rows::{GivenIds, Row, RowOptions, TextOrIds, TruncationSide};
pub use sentences::{PrunerTokens, SentenceIds};
pub use word_ids::PageWords;

/// Bytes of a page that are tokenized at once: enough to amortize the call, few enough to occupy all cores and to
/// notice a cancelled call soon.
const CHUNK_BYTES: usize = 16 * 1024;

/// Bytes of a text that is tokenized at once although it could be cut.
const WHOLE_BYTES: usize = 64 * 1024;

/// Bytes of a part of a page without a place to cut. A token at its end may be another one than in the whole page.
const LONGEST_CHUNK_BYTES: usize = 1 << 20;

/// Segments that are tokenized between two calls of [`Check`].
const SEGMENTS_AT_ONCE: usize = 128;

/// A model's tokenizer, with its prompts and its limit.
#[derive(Debug)]
pub struct Tokens {
    tokenizer: Tokenizer,
    family: Family,
    /// The special ids before and after every row.
    prefix: Vec<i32>,
    suffix: Vec<i32>,
    unknown: Option<i32>,
    /// Whether unknown tokens are left out.
    drops_unknown: bool,
    /// Whether every token is one byte, which says nothing about the scripts that a model knows.
    has_only_bytes: bool,
    /// Replaces the tokenizer if tokens are bytes.
    byte_table: Option<ByteTable>,
    /// If the ids of words do not depend on their neighbours; see `word_ids`.
    separate_words: Option<word_ids::NormalForms>,
    /// Special tokens that a text may contain literally.
    added: Vec<String>,
    /// Those that the tokenizer finds after normalization, which may change the case.
    added_lowercase: Vec<String>,
    /// The longest row, special ids included.
    limit: usize,
    prompts: Prompts,
    /// Of a model with a vector for each token.
    late: Option<LateTokens>,
}

/// Which prompt precedes a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The query's own prompt, as of asymmetric models.
    Query,
    /// A text to search.
    Passage,
}

/// The ids of a page's windows.
#[derive(Clone, Debug, Default)]
pub struct TokenPage {
    /// The page's ids, then those of edges that were tokenized alone.
    ids: Vec<i32>,
    rows: Vec<RowParts>,
    /// For rows that are pairs of texts: where tokens of the second type begin. Otherwise empty.
    seconds: Vec<u32>,
    /// For expanded queries: how many of the last ids no token attends to. Otherwise empty.
    unattended: Vec<u32>,
    /// Rows longer than the model's limit, whose ids end there.
    pub truncated: Vec<usize>,
}

/// Special ids, an edge, a slice of the page, another edge, special ids: ranges of `TokenPage::ids`.
#[derive(Clone, Debug)]
struct RowParts {
    parts: [Range<u32>; 5],
}

impl TokenPage {
    /// From pairs of a row's ids and whether they were truncated.
    pub(crate) fn of_rows(rows: Vec<(Vec<i32>, bool)>) -> Self {
        let mut page = Self::default();
        for (row, (ids, is_truncated)) in rows.into_iter().enumerate() {
            let whole = append(&mut page.ids, &ids);
            page.rows.push(RowParts { parts: [whole, 0..0, 0..0, 0..0, 0..0] });
            page.truncated.extend(is_truncated.then_some(row));
        }
        page
    }

    /// From rows of texts, of which none of the last ids may be attended to.
    pub(crate) fn of_texts(rows: Vec<Row>) -> Self {
        let unattended: Vec<u32> = rows.iter().map(|row| index(row.unattended)).collect();
        let page = Self::of_rows(
            rows.into_iter().map(|row| (row.is_truncated(), row.ids)).map(|(is_cut, ids)| (ids, is_cut)).collect(),
        );
        let is_attended = unattended.iter().all(|count| *count == 0);
        Self { unattended: if is_attended { Vec::new() } else { unattended }, ..page }
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The number of a window's ids, special ids included.
    pub fn row_len(&self, row: usize) -> usize {
        self.rows[row].parts.iter().map(ExactSizeIterator::len).sum()
    }

    /// In a pair of texts, where tokens of the second type begin.
    pub(crate) fn second(&self, row: usize) -> Option<u32> {
        self.seconds.get(row).copied()
    }

    /// In a pair of texts, the tokens of the second one.
    pub(crate) fn passage(&self, row: usize) -> Range<usize> {
        let parts = &self.rows[row].parts;
        let start = parts[..3].iter().map(ExactSizeIterator::len).sum();
        start..start + parts[3].len()
    }

    /// How many of a row's last ids no token attends to.
    pub(crate) fn unattended(&self, row: usize) -> u32 {
        self.unattended.get(row).copied().unwrap_or(0)
    }

    pub(crate) fn write_row(&self, row: usize, ids: &mut Vec<i32>) {
        for part in &self.rows[row].parts {
            ids.extend_from_slice(&self.ids[part.start as usize..part.end as usize]);
        }
    }

    /// A copy of a window's ids.
    pub fn row(&self, row: usize) -> Vec<i32> {
        let mut ids = Vec::with_capacity(self.row_len(row));
        self.write_row(row, &mut ids);
        ids
    }
}

impl Tokens {
    /// Checks that the embedding table has a row for every id of the tokenizer.
    pub fn check_vocabulary(&self, rows: usize) -> Result<()> {
        let size = self.tokenizer.get_vocab_size(true);
        if size <= rows {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::InvalidModel,
            format!(
                "the tokenizer has {size} tokens, but the model's embedding table has {rows} rows: they belong to different models"
            ),
        ))
    }

    /// The ids of a text by itself, with its prompt and the special ids, and whether they were truncated at the model's
    /// limit.
    ///
    /// [`Tokens::page`] is tested against this.
    pub fn text(&self, text: &str, role: Role) -> Result<(Vec<i32>, bool)> {
        self.text_checked(text, role, &unstopped)
    }

    fn text_checked(&self, text: &str, role: Role, check: &Check) -> Result<(Vec<i32>, bool)> {
        debug_assert!(self.late.is_none(), "late interaction has rows of another kind");
        let max = self.max_text_tokens();
        let prompt = self.prompt(role);
        let text = if prompt.is_empty() { text } else { &format!("{prompt}{text}") };
        let mut ids = self.first_ids(text, max + 1, check)?;
        let is_truncated = ids.len() > max;
        ids.truncate(max);
        Ok(([self.prefix.as_slice(), &ids, &self.suffix].concat(), is_truncated))
    }

    /// As [`Tokens::text`] for each text, as a page with one window for each.
    pub fn texts(&self, texts: &[&str], role: Role, check: &Check) -> Result<TokenPage> {
        let rows: Vec<(Vec<i32>, bool)> = text_pool::map(texts, |text| {
            check()?;
            self.text_checked(text, role, check)
        })?;
        Ok(TokenPage::of_rows(rows))
    }

    /// The ids of a page's windows.
    pub fn page(&self, text: &str, windows: &[ByteSpan], check: &Check) -> Result<TokenPage> {
        if self.family == Family::Unknown || self.contains_added_token(text) {
            let texts: Vec<&str> = windows.iter().map(|window| window.of(text)).collect();
            return self.texts(&texts, Role::Passage, check);
        }
        let prompt = self.prompt(Role::Passage);
        // A prompt that ends in a space keeps its ids whatever follows; byte-level words absorb that space.
        let is_separate = prompt.ends_with(' ') && self.family != Family::ByteLevel;
        let starts_safely = prompt.is_empty() || is_separate;
        let bodies = windows.iter().map(|window| self.body(text, *window, starts_safely)).collect();
        let segments = Segments::between(bodies);
        let texts: Vec<&str> = segments.spans.iter().map(|span| self.segment(text, *span)).collect();
        let encoded = PageWords::new(self, true).of_parts(&texts, check)?;
        let mut page = TokenPage { rows: Vec::with_capacity(windows.len()), ..TokenPage::default() };
        let starts: Vec<u32> =
            std::iter::once(0).chain(encoded.iter().map(|ids| append(&mut page.ids, ids).end)).collect();
        let prefix = append(&mut page.ids, &self.prefix);
        let suffix = append(&mut page.ids, &self.suffix);
        let prompt_ids = self.ids(if is_separate { self.without_last_space(prompt) } else { "" })?;
        let prompt_ids = append(&mut page.ids, &prompt_ids);
        for (number, (window, body)) in windows.iter().zip(&segments.bodies).enumerate() {
            if number % SEGMENTS_AT_ONCE == 0 {
                check()?;
            }
            let head = if body.start == window.start {
                prompt_ids.clone()
            } else {
                self.append_edge(&mut page.ids, &format!("{prompt}{}", &text[window.start..body.start]))?
            };
            let tail = if body.end == window.end {
                0..0
            } else {
                self.append_edge(&mut page.ids, &text[body.end..window.end])?
            };
            let middle = starts[segments.first_from(body.start)]..starts[segments.first_from(body.end)];
            let middle = if body.is_empty() { 0..0 } else { middle };
            let mut parts = [prefix.clone(), head, middle, tail, suffix.clone()];
            page.truncated.extend(truncate(&mut parts[1..4], self.max_text_tokens()).then_some(number));
            page.rows.push(RowParts { parts });
        }
        Ok(page)
    }

    /// A window between its first and last safe boundary; empty, at the window's end, without any.
    fn body(&self, text: &str, window: ByteSpan, starts_safely: bool) -> ByteSpan {
        // A prompt that does not end in a space merges with the first word.
        let first = window.of(text).chars().next();
        let is_safe = starts_safely
            && (self.prompt(Role::Passage).is_empty() || first.is_none_or(|c| self.family.may_follow_space(c)));
        let first_char = if is_safe { 0 } else { first.map_or(0, char::len_utf8) };
        let start = self.family.next_safe(text, window.start + first_char, window.end).unwrap_or(window.end);
        let end = self.family.last_safe(text, start, window.end).unwrap_or(start);
        ByteSpan { start, end }
    }

    /// The spans of a text's tokens: sorted, disjoint, on character boundaries. Together with white space they cover
    /// the text. Tokens that share a character (bytes of one) are one span; very long ones are several.
    pub fn units(&self, text: &str, check: &Check) -> Result<Vec<ByteSpan>> {
        let chunks: Vec<Vec<usize>> = text_pool::map(&self.chunks(text), |chunk| {
            check()?;
            let encoding = self.encode(chunk.of(text))?;
            let tokens = encoding.get_offsets().iter().filter(|(start, end)| start < end);
            Ok(tokens.map(|(start, _)| chunk.start + start).collect())
        })?;
        // Text that no token covers (a removed control character) joins the token before it.
        let mut starts: Vec<usize> = chunks.into_iter().flatten().collect();
        starts.retain(|start| text.is_char_boundary(*start));
        starts.dedup();
        let leading = ByteSpan { start: 0, end: starts.first().copied().unwrap_or(0) };
        if starts.is_empty() || !leading.trimmed(text).is_empty() {
            starts.insert(0, 0);
        }
        let ends = starts.iter().skip(1).copied().chain([text.len()]);
        let mut units = Vec::with_capacity(starts.len());
        starts.iter().zip(ends).for_each(|(start, end)| push_word(text, ByteSpan { start: *start, end }, &mut units));
        Ok(units)
    }

    /// The row of a text with this token alone.
    pub(crate) fn single_token_row(&self, id: i32) -> Vec<i32> {
        [self.prefix.as_slice(), &[id], &self.suffix].concat()
    }

    /// Whether every token is one byte, which says nothing about words.
    pub(crate) const fn has_only_bytes(&self) -> bool {
        self.has_only_bytes
    }

    /// The longest row, special ids included.
    pub const fn max_tokens(&self) -> usize {
        self.limit
    }

    /// What precedes queries and passages.
    pub const fn prompts(&self) -> &Prompts {
        &self.prompts
    }

    fn max_text_tokens(&self) -> usize {
        self.limit - self.prefix.len() - self.suffix.len()
    }

    /// The special ids before a text.
    fn prefix(&self, role: Role) -> &[i32] {
        match (&self.late, role) {
            (Some(late), Role::Query) => &late.query_prefix,
            _ => &self.prefix,
        }
    }

    /// The longest row of a text, special ids included.
    fn limit(&self, role: Role) -> usize {
        match (&self.late, role) {
            (Some(late), Role::Query) => late.query_limit,
            _ => self.limit,
        }
    }

    fn prompt(&self, role: Role) -> &str {
        match role {
            Role::Query => &self.prompts.query,
            Role::Passage => &self.prompts.passage,
        }
    }

    pub(crate) fn ids(&self, text: &str) -> Result<Vec<i32>> {
        let mut ids = match &self.byte_table {
            Some(table) => table.ids(text),
            None => signed(
                self.tokenizer.encode_fast(text, false).map_err(|error| tokenizer_failed(text, &error))?.get_ids(),
            ),
        };
        if self.drops_unknown {
            ids.retain(|id| Some(*id) != self.unknown);
        }
        Ok(ids)
    }

    /// The ids of a text, or of its start if that has `most` of them. A long text is tokenized in parts where it can be
    /// cut.
    fn first_ids(&self, text: &str, most: usize, check: &Check) -> Result<Vec<i32>> {
        if text.len() <= WHOLE_BYTES || self.family == Family::Unknown || self.contains_added_token(text) {
            return self.ids(text);
        }
        let mut ids = Vec::new();
        let mut start = 0;
        while start < text.len() && ids.len() < most {
            check()?;
            let from = boundary_from(text, start.saturating_add(CHUNK_BYTES));
            let end = self.family.next_safe(text, from, text.len()).unwrap_or(text.len());
            ids.extend(self.ids(self.segment(text, ByteSpan { start, end }))?);
            start = end;
        }
        Ok(ids)
    }

    fn encode(&self, text: &str) -> Result<Encoding> {
        self.tokenizer.encode(text, false).map_err(|error| tokenizer_failed(text, &error))
    }

    /// Except in byte-level families, a word's start mark absorbs the space before it, so that space adds no token to
    /// the text before.
    fn without_last_space<'text>(&self, text: &'text str) -> &'text str {
        if self.family == Family::ByteLevel { text } else { text.strip_suffix(' ').unwrap_or(text) }
    }

    /// The text of a segment without the space that the next one absorbs. If the next one starts with its own space,
    /// this one's stays.
    fn segment<'text>(&self, text: &'text str, segment: ByteSpan) -> &'text str {
        let body = segment.of(text);
        if text[segment.end..].starts_with(' ') { body } else { self.without_last_space(body) }
    }

    fn append_edge(&self, ids: &mut Vec<i32>, edge: &str) -> Result<Range<u32>> {
        let edge = self.ids(edge)?;
        Ok(append(ids, &edge))
    }

    /// Whether the text contains a special token literally. The tokenizer finds those before words, even inside one.
    fn contains_added_token(&self, text: &str) -> bool {
        self.added.iter().any(|token| text.contains(token.as_str()))
            || (!self.added_lowercase.is_empty() && {
                let lower = text.to_lowercase();
                self.added_lowercase.iter().any(|token| lower.contains(token.as_str()))
            })
    }

    /// Splits the text into parts that are tokenized separately.
    fn chunks(&self, text: &str) -> Vec<ByteSpan> {
        let mut chunks = Vec::new();
        let mut start = 0;
        while start < text.len() {
            let mut end = (start + CHUNK_BYTES).min(text.len());
            while !text.is_char_boundary(end) {
                end += 1;
            }
            // Only between a space and a word (for byte-level, between a word and a space). It is the only boundary
            // that is safe whatever the other end of the chunk is.
            let last = start.saturating_add(LONGEST_CHUNK_BYTES);
            while end < text.len()
                && end < last
                && !self.is_chunk_end(text, end)
                && !(end > start + 2 * CHUNK_BYTES && self.family.is_safe(text, end))
            {
                end += text[end..].chars().next().map_or(1, char::len_utf8);
            }
            chunks.push(ByteSpan { start, end });
            start = end;
        }
        chunks
    }

    fn is_chunk_end(&self, text: &str, byte: usize) -> bool {
        match self.family {
            Family::Unknown => false,
            Family::ByteLevel => self.family.is_safe(text, byte),
            Family::Bert { .. } | Family::WhitespaceSplit | Family::Metaspace => {
                text.as_bytes()[byte - 1] == b' ' && !text[byte..].starts_with(char::is_whitespace)
            }
        }
    }
}

/// The page between the safe boundaries that windows need. Each segment is tokenized once.
struct Segments {
    /// For each window, the part made of whole segments.
    bodies: Vec<ByteSpan>,
    /// Sorted, disjoint and not empty. Text that no window needs is in none.
    spans: Vec<ByteSpan>,
}

impl Segments {
    fn between(bodies: Vec<ByteSpan>) -> Self {
        // At each boundary, the number of bodies that start there minus those that end.
        let mut changes: Vec<(usize, i64)> =
            bodies.iter().filter(|body| !body.is_empty()).flat_map(|body| [(body.start, 1), (body.end, -1)]).collect();
        changes.sort_unstable();
        let mut spans = Vec::new();
        let mut open = 0;
        for pair in changes.windows(2) {
            open += pair[0].1;
            if open > 0 && pair[0].0 < pair[1].0 {
                spans.push(ByteSpan { start: pair[0].0, end: pair[1].0 });
            }
        }
        Self { bodies, spans }
    }

    /// The index of the first segment that starts at or after a boundary.
    fn first_from(&self, boundary: usize) -> usize {
        self.spans.partition_point(|span| span.start < boundary)
    }
}

/// Shortens parts, in order, to `max` ids in total. Returns whether any ids were dropped.
fn truncate(parts: &mut [Range<u32>], max: usize) -> bool {
    let mut remaining = index(max);
    let mut is_truncated = false;
    for part in parts {
        let length = part.end - part.start;
        if length > remaining {
            part.end = part.start + remaining;
            is_truncated = true;
        }
        remaining -= part.end - part.start;
    }
    is_truncated
}

fn tokenizer_failed(text: &str, error: &tokenizers::Error) -> Error {
    Error::new(ErrorKind::Internal, format!("the tokenizer failed on a text of {} bytes: {error}", text.len()))
}

fn append(ids: &mut Vec<i32>, more: &[i32]) -> Range<u32> {
    let start = index(ids.len());
    ids.extend_from_slice(more);
    start..index(ids.len())
}

fn index(position: usize) -> u32 {
    u32::try_from(position).expect("a page has fewer than 2^32 tokens: its text is limited to 2^32 bytes")
}

fn signed(ids: &[u32]) -> Vec<i32> {
    ids.iter().map(|id| id.cast_signed()).collect()
}
