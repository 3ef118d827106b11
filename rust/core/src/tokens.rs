//! Tokens: each page is tokenized once, and a window's ids are a slice of the page's.
//!
//! [`Tokens::page`] promises that the ids of every window equal those of [`Tokens::alone`], the plain way: tokenize the
//! window's text by itself. Where a window's edge is not a safe place to cut (see `boundaries`), the edge is
//! tokenized alone; where nothing is safe, the whole window is.

mod boundaries;
mod counts;
mod listing;
mod plain;

use std::fs;
use std::ops::Range;

use serde_json::Value;
use tokenizers::{Encoding, Tokenizer};

use crate::encoder::model::{Model, Prompts};
use crate::error::{Error, ErrorKind, Result};
use crate::runtime::text_pool;
use crate::text::page::ByteSpan;
use boundaries::Family;
use counts::unknown_id;
pub use listing::Token;
use plain::PlainBytes;

/// Bytes of a page that are tokenized at once: enough to keep the cost of a call low, small enough for all cores to have work
/// and for a cancelled call to stop soon.
const CHUNK_BYTES: usize = 16 * 1024;

/// A byte-level vocabulary of so many is one of bytes alone.
const BYTES: usize = 256;

/// Segments of a page that are tokenized between two looks at whether the call is still wanted.
const SEGMENTS_AT_ONCE: usize = 128;

/// A model's tokenizer.
#[derive(Debug)]
pub struct Tokens {
    tokenizer: Tokenizer,
    family: Family,
    /// The special ids before and behind every row.
    prefix: Vec<i32>,
    suffix: Vec<i32>,
    /// The id of what the tokenizer does not know, where it has one.
    unknown: Option<i32>,
    /// Whether tokens are bytes, which say nothing of what a model has learned.
    bytes: bool,
    /// The way around the tokenizer, where tokens are bytes and nothing else.
    plain: Option<PlainBytes>,
    /// Special tokens that may be written out in a text.
    added: Vec<String>,
    /// Those that are looked for after normalization, which may have changed the case.
    added_in_lower_case: Vec<String>,
    /// The longest row, special ids included.
    longest: usize,
    prompts: Prompts,
}

/// Asked now and then whether the work is still wanted; an error ends it.
pub type GoOn<'call> = dyn Fn() -> Result<()> + Sync + 'call;

/// What a text is for: it decides the prompt before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A question.
    Query,
    /// A text to be found.
    Passage,
}

/// The ids of a page's windows.
#[derive(Clone, Debug, Default)]
pub struct TokenPage {
    /// The page's ids, then those of the windows' edges.
    ids: Vec<i32>,
    rows: Vec<Row>,
    /// Which windows were longer than the model allows and were cut at the limit.
    pub cut: Vec<usize>,
}

/// A window's ids: special ids, an edge, a slice of the page, another edge, special ids. All are ranges of `TokenPage::ids`.
#[derive(Clone, Debug)]
struct Row {
    parts: [Range<u32>; 5],
}

impl TokenPage {
    /// Of each window the ids, and whether it was cut.
    pub(crate) fn of_rows(rows: Vec<(Vec<i32>, bool)>) -> Self {
        let mut page = Self::default();
        for (row, (ids, cut)) in rows.into_iter().enumerate() {
            let whole = append(&mut page.ids, &ids);
            page.rows.push(Row { parts: [whole, 0..0, 0..0, 0..0, 0..0] });
            page.cut.extend(cut.then_some(row));
        }
        page
    }

    /// How many windows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is no window.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// How many ids a window has, special ones included.
    #[must_use]
    pub fn row_len(&self, row: usize) -> usize {
        self.rows[row].parts.iter().map(ExactSizeIterator::len).sum()
    }

    /// Appends a window's ids.
    pub fn write_row(&self, row: usize, ids: &mut Vec<i32>) {
        for part in &self.rows[row].parts {
            ids.extend_from_slice(&self.ids[part.start as usize..part.end as usize]);
        }
    }

    /// A window's ids.
    #[must_use]
    pub fn row(&self, row: usize) -> Vec<i32> {
        let mut ids = Vec::with_capacity(self.row_len(row));
        self.write_row(row, &mut ids);
        ids
    }
}

impl Tokens {
    /// Reads `tokenizer.json` of a model's directory.
    ///
    /// # Errors
    /// [`ErrorKind::ModelNotFound`] where it is not there, [`ErrorKind::InvalidModel`] where it is damaged.
    pub fn read(model: &Model) -> Result<Self> {
        let path = model.file("tokenizer.json");
        let damaged =
            |why: String| Error::new(ErrorKind::InvalidModel, format!("{} is damaged: {why}", path.display()));
        let bytes = fs::read(&path).map_err(|error| {
            Error::new(ErrorKind::ModelNotFound, format!("the model lacks {}: {error}", path.display()))
        })?;
        let json: Value = serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
        let mut tokenizer = Tokenizer::from_bytes(&bytes).map_err(|error| damaged(error.to_string()))?;
        // Limits and padding are ours: the file's would cut pages silently (MiniLM's says 128).
        tokenizer.with_truncation(None).map_err(|error| damaged(error.to_string()))?;
        tokenizer.with_padding(None);
        let special = tokenizer.encode("", true).map_err(|error| damaged(error.to_string()))?;
        let filled = tokenizer.encode("a", true).map_err(|error| damaged(error.to_string()))?;
        let inside = filled.get_special_tokens_mask().iter().position(|special| *special == 0).unwrap_or(0);
        let special = signed(special.get_ids());
        let (prefix, suffix) = special.split_at(inside.min(special.len()));
        let (normalized, added): (Vec<_>, Vec<_>) =
            tokenizer.get_added_tokens_decoder().into_values().partition(|token| token.normalized);
        if model.max_tokens <= special.len() {
            return Err(damaged(format!(
                "{} special tokens leave no room in {} tokens",
                special.len(),
                model.max_tokens
            )));
        }
        Ok(Self {
            family: Family::of(&json),
            unknown: unknown_id(&json, &tokenizer),
            bytes: Family::of(&json) == Family::ByteLevel && tokenizer.get_vocab_size(false) <= BYTES,
            plain: PlainBytes::of(&tokenizer, &json),
            prefix: prefix.to_vec(),
            suffix: suffix.to_vec(),
            added: added.into_iter().map(|token| token.content).collect(),
            added_in_lower_case: normalized.into_iter().map(|token| token.content.to_lowercase()).collect(),
            longest: model.max_tokens,
            prompts: model.prompts.clone(),
            tokenizer,
        })
    }

    /// Checks that every id of the tokenizer has its row in the encoder's embedding table.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidModel`] naming both sizes.
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

    /// The ids of a text by itself, with its prompt and the special ids, cut at the model's limit; and whether it was cut.
    ///
    /// This is the plain way, and what [`Tokens::page`] is tested against.
    ///
    /// # Errors
    /// [`ErrorKind::Internal`] where the tokenizer fails.
    pub fn alone(&self, text: &str, role: Role) -> Result<(Vec<i32>, bool)> {
        let mut ids = self.ids(&format!("{}{text}", self.prompt(role)))?;
        let room = self.room();
        let cut = ids.len() > room;
        ids.truncate(room);
        Ok(([self.prefix.as_slice(), &ids, &self.suffix].concat(), cut))
    }

    /// The ids of each text by itself, as a page whose windows are the texts; `go_on` as in [`Tokens::page`].
    ///
    /// # Errors
    /// [`ErrorKind::Internal`] where the tokenizer fails; what `go_on` says.
    pub fn texts(&self, texts: &[&str], role: Role, go_on: &GoOn) -> Result<TokenPage> {
        let rows: Vec<(Vec<i32>, bool)> = text_pool::map(texts, |text| {
            go_on()?;
            self.alone(text, role)
        })?;
        Ok(TokenPage::of_rows(rows))
    }

    /// The ids of a page's windows; the page is tokenized once. `go_on` is asked between chunks, from any thread.
    ///
    /// # Errors
    /// [`ErrorKind::Internal`] where the tokenizer fails; what `go_on` says.
    pub fn page(&self, text: &str, pieces: &[ByteSpan], go_on: &GoOn) -> Result<TokenPage> {
        if self.family == Family::Unknown || self.holds_added_token(text) {
            let texts: Vec<&str> = pieces.iter().map(|piece| piece.of(text)).collect();
            return self.texts(&texts, Role::Passage, go_on);
        }
        let prompt = self.prompt(Role::Passage);
        // A prompt that ends in a space keeps its ids whatever comes behind it; byte-level words take the space along.
        let prompt_alone = prompt.ends_with(' ') && self.family != Family::ByteLevel;
        let bodies = pieces.iter().map(|piece| self.body(text, *piece, prompt.is_empty() || prompt_alone)).collect();
        let segments = Segments::between(bodies);
        let groups: Vec<&[ByteSpan]> = segments.spans.chunks(SEGMENTS_AT_ONCE).collect();
        let encoded = text_pool::map(&groups, |group| {
            go_on()?;
            let encode = |span: &ByteSpan| self.ids(self.segment(text, *span));
            group.iter().map(encode).collect::<Result<Vec<_>>>()
        })?;
        let mut page = TokenPage { rows: Vec::with_capacity(pieces.len()), ..TokenPage::default() };
        let starts: Vec<u32> =
            std::iter::once(0).chain(encoded.iter().flatten().map(|ids| append(&mut page.ids, ids).end)).collect();
        let prefix = append(&mut page.ids, &self.prefix);
        let suffix = append(&mut page.ids, &self.suffix);
        let prompt_ids = self.ids(if prompt_alone { self.without_last_space(prompt) } else { "" })?;
        let prompt_ids = append(&mut page.ids, &prompt_ids);
        for (number, (piece, body)) in pieces.iter().zip(&segments.bodies).enumerate() {
            if number % SEGMENTS_AT_ONCE == 0 {
                go_on()?;
            }
            let head = if body.start == piece.start {
                prompt_ids.clone()
            } else {
                self.append_edge(&mut page.ids, &format!("{prompt}{}", &text[piece.start..body.start]))?
            };
            let tail =
                if body.end == piece.end { 0..0 } else { self.append_edge(&mut page.ids, &text[body.end..piece.end])? };
            let middle = starts[segments.first_at(body.start)]..starts[segments.first_at(body.end)];
            let middle = if body.is_empty() { 0..0 } else { middle };
            let mut parts = [prefix.clone(), head, middle, tail, suffix.clone()];
            page.cut.extend(cut_at(&mut parts[1..4], self.room()).then_some(number));
            page.rows.push(Row { parts });
        }
        Ok(page)
    }

    /// The part of a window between its first and its last safe boundary; empty, at the window's end, where there is none.
    fn body(&self, text: &str, piece: ByteSpan, may_start_at_once: bool) -> ByteSpan {
        // A prompt that does not end in a space grows together with the first word.
        let first_char = if may_start_at_once { 0 } else { piece.of(text).chars().next().map_or(0, char::len_utf8) };
        let start = self.family.next_safe(text, piece.start + first_char, piece.end).unwrap_or(piece.end);
        let end = self.family.last_safe(text, start, piece.end).unwrap_or(start);
        ByteSpan { start, end }
    }

    /// The spans of a text's tokens: ordered, disjoint, on character boundaries; with the white space between them they are
    /// the whole text. Tokens that share a character (bytes of one) count as one. `go_on` as in [`Tokens::page`].
    ///
    /// # Errors
    /// [`ErrorKind::Internal`] where the tokenizer fails.
    pub fn units(&self, text: &str, go_on: &GoOn) -> Result<Vec<ByteSpan>> {
        let chunks: Vec<Vec<usize>> = text_pool::map(&self.chunks(text), |chunk| {
            go_on()?;
            let encoding = self.encode(chunk.of(text))?;
            let tokens = encoding.get_offsets().iter().filter(|(start, end)| start < end);
            Ok(tokens.map(|(start, _)| chunk.start + start).collect())
        })?;
        // What no token covers (a removed control character) goes with the token before it.
        let mut starts: Vec<usize> = chunks.into_iter().flatten().collect();
        starts.retain(|start| text.is_char_boundary(*start));
        starts.dedup();
        let leading = ByteSpan { start: 0, end: starts.first().copied().unwrap_or(0) };
        if starts.is_empty() || !leading.trimmed(text).is_empty() {
            starts.insert(0, 0);
        }
        let ends = starts.iter().skip(1).copied().chain([text.len()]);
        let spans = starts.iter().zip(ends).map(|(start, end)| ByteSpan { start: *start, end }.trimmed(text));
        Ok(spans.filter(|span| !span.is_empty()).collect())
    }

    /// The longest row, special ids included.
    #[must_use]
    pub const fn max_tokens(&self) -> usize {
        self.longest
    }

    fn room(&self) -> usize {
        self.longest - self.prefix.len() - self.suffix.len()
    }

    fn prompt(&self, role: Role) -> &str {
        match role {
            Role::Query => &self.prompts.query,
            Role::Passage => &self.prompts.passage,
        }
    }

    fn ids(&self, text: &str) -> Result<Vec<i32>> {
        self.plain.as_ref().map_or_else(|| Ok(signed(self.encode(text)?.get_ids())), |plain| Ok(plain.ids(text)))
    }

    fn encode(&self, text: &str) -> Result<Encoding> {
        self.tokenizer.encode(text, false).map_err(|error| {
            Error::new(ErrorKind::Internal, format!("the tokenizer failed on a text of {} bytes: {error}", text.len()))
        })
    }

    /// The space before a word becomes part of that word, its mark of a word's start, so it is no part of what comes before.
    fn without_last_space<'text>(&self, text: &'text str) -> &'text str {
        if self.family == Family::ByteLevel { text } else { text.strip_suffix(' ').unwrap_or(text) }
    }

    /// A segment's text. Where the next one starts with a space itself, this one keeps its own.
    fn segment<'text>(&self, text: &'text str, segment: ByteSpan) -> &'text str {
        let body = segment.of(text);
        if text[segment.end..].starts_with(' ') { body } else { self.without_last_space(body) }
    }

    fn append_edge(&self, ids: &mut Vec<i32>, edge: &str) -> Result<Range<u32>> {
        let edge = self.ids(edge)?;
        Ok(append(ids, &edge))
    }

    /// Whether a special token is written out in the text: such a token is found before words are, anywhere in them.
    fn holds_added_token(&self, text: &str) -> bool {
        self.added.iter().any(|token| text.contains(token.as_str()))
            || (!self.added_in_lower_case.is_empty() && {
                let lower = text.to_lowercase();
                self.added_in_lower_case.iter().any(|token| lower.contains(token.as_str()))
            })
    }

    /// The text in parts that can be tokenized each by itself.
    fn chunks(&self, text: &str) -> Vec<ByteSpan> {
        let mut chunks = Vec::new();
        let mut start = 0;
        while start < text.len() {
            let mut end = (start + CHUNK_BYTES).min(text.len());
            while !text.is_char_boundary(end) {
                end += 1;
            }
            // Only where a space ends and a word starts (or, for byte-level, the other way round): the one kind of boundary
            // at which nothing is lost whatever the chunk's other end holds.
            while end < text.len() && !self.is_chunk_end(text, end) {
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
            Family::Bert { .. } | Family::Spaced | Family::Metaspace => {
                text.as_bytes()[byte - 1] == b' ' && !text[byte..].starts_with(char::is_whitespace)
            }
        }
    }
}

/// The page between the safe boundaries that windows need: each segment is tokenized once, by itself.
struct Segments {
    /// For each window what of it is made of whole segments.
    bodies: Vec<ByteSpan>,
    /// In order, disjoint, none empty; text that no window needs is in none.
    spans: Vec<ByteSpan>,
}

impl Segments {
    fn between(bodies: Vec<ByteSpan>) -> Self {
        // At each boundary, how many bodies start less how many end there.
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

    /// The first segment that starts at or behind a boundary.
    fn first_at(&self, boundary: usize) -> usize {
        self.spans.partition_point(|span| span.start < boundary)
    }
}

/// Cuts the parts, in order, so that they have at most `room` ids together; says whether anything was lost.
fn cut_at(parts: &mut [Range<u32>], room: usize) -> bool {
    let mut left = index(room);
    let mut cut = false;
    for part in parts {
        let length = part.end - part.start;
        if length > left {
            part.end = part.start + left;
            cut = true;
        }
        left -= part.end - part.start;
    }
    cut
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
