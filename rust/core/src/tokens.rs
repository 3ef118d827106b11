//! Tokens: each page is tokenized once, and a window's ids are a slice of the page's.
//!
//! [`Tokens::page`] promises that the ids of every window equal those of [`Tokens::alone`], the plain way: tokenize the
//! window's text by itself. Where a window's edge is not a safe place to cut (see `boundaries`), the edge is
//! tokenized alone; where nothing is safe, the whole window is.

mod boundaries;

use std::collections::HashSet;
use std::fs;
use std::ops::Range;

use serde_json::Value;
use tokenizers::{Encoding, Tokenizer};

use crate::error::{Error, ErrorKind, Result};
use crate::model::{Model, Prompts};
use crate::page::ByteSpan;
use crate::pool;
use boundaries::Family;

/// Bytes of a page that are tokenized at once: enough to keep the cost of a call low, small enough for all cores to have work
/// and for a cancelled call to stop soon.
const CHUNK_BYTES: usize = 16 * 1024;

/// A model's tokenizer.
#[derive(Debug)]
pub struct Tokens {
    tokenizer: Tokenizer,
    family: Family,
    /// The special ids before and behind every row.
    prefix: Vec<i32>,
    suffix: Vec<i32>,
    /// Ids that only a special token written out in the text can have; the unknown token is none of them.
    added: HashSet<u32>,
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
    /// Windows that were longer than the model allows and were cut at the limit.
    pub truncated: usize,
}

/// A window's ids: special ids, an edge, a slice of the page, another edge, special ids. All are ranges of `TokenPage::ids`.
#[derive(Clone, Debug)]
struct Row {
    parts: [Range<u32>; 5],
}

impl TokenPage {
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
        let unknown = json["model"]["unk_token"].as_str().and_then(|token| tokenizer.token_to_id(token));
        let unknown = unknown.or_else(|| json["model"]["unk_id"].as_u64().and_then(|id| u32::try_from(id).ok()));
        let added = tokenizer.get_added_tokens_decoder().into_keys().filter(|id| Some(*id) != unknown).collect();
        if model.max_tokens <= special.len() {
            return Err(damaged(format!(
                "{} special tokens leave no room in {} tokens",
                special.len(),
                model.max_tokens
            )));
        }
        Ok(Self {
            family: Family::of(&json),
            prefix: prefix.to_vec(),
            suffix: suffix.to_vec(),
            added,
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
        let mut ids = signed(self.encode(&format!("{}{text}", self.prompt(role)))?.get_ids());
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
        let rows: Vec<(Vec<i32>, bool)> = pool::map(texts, |text| {
            go_on()?;
            self.alone(text, role)
        })?;
        let mut page = TokenPage::default();
        for (ids, cut) in rows {
            let whole = append(&mut page.ids, &ids);
            page.rows.push(Row { parts: [whole, 0..0, 0..0, 0..0, 0..0] });
            page.truncated += usize::from(cut);
        }
        Ok(page)
    }

    /// The ids of a page's windows; the page is tokenized once. `go_on` is asked between chunks, from any thread.
    ///
    /// # Errors
    /// [`ErrorKind::Internal`] where the tokenizer fails; what `go_on` says.
    pub fn page(&self, text: &str, pieces: &[ByteSpan], go_on: &GoOn) -> Result<TokenPage> {
        if pieces.is_empty() {
            return Ok(TokenPage::default());
        }
        let sliced = if self.family == Family::Unknown { None } else { Some(self.tokenize(text, go_on)?) };
        let Some((ids, ends)) = sliced.filter(|(ids, _)| !self.holds_added_token(ids)) else {
            let texts: Vec<&str> = pieces.iter().map(|piece| piece.of(text)).collect();
            return self.texts(&texts, Role::Passage, go_on);
        };
        let mut page = TokenPage { ids, rows: Vec::with_capacity(pieces.len()), truncated: 0 };
        let prefix = append(&mut page.ids, &self.prefix);
        let suffix = append(&mut page.ids, &self.suffix);
        let prompt = self.prompt(Role::Passage);
        // A prompt that ends in white space keeps its ids whatever comes behind it; byte-level words take the space along.
        let prompt_alone = prompt.ends_with(' ') && self.family != Family::ByteLevel;
        let prompt_ids = self.encode(if prompt_alone { prompt } else { "" })?;
        let prompt_ids = append(&mut page.ids, &signed(prompt_ids.get_ids()));
        for (number, piece) in pieces.iter().enumerate() {
            if number % 256 == 0 {
                go_on()?;
            }
            let first = if prompt.is_empty() || prompt_alone {
                piece.start
            } else {
                // The prompt grows together with the first word.
                piece.start + piece.of(text).chars().next().map_or(0, char::len_utf8)
            };
            let start = self.family.next_safe(text, first, piece.end).unwrap_or(piece.end);
            let end = self.family.last_safe(text, start, piece.end).unwrap_or(start);
            let head = if start == piece.start {
                prompt_ids.clone()
            } else {
                self.append_edge(&mut page.ids, &format!("{prompt}{}", &text[piece.start..start]))?
            };
            let body = index(ends.partition_point(|token| *token <= start))
                ..index(ends.partition_point(|token| *token <= end));
            let tail = if end == piece.end { 0..0 } else { self.append_edge(&mut page.ids, &text[end..piece.end])? };
            let mut parts = [prefix.clone(), head, body, tail, suffix.clone()];
            page.truncated += usize::from(cut_at(&mut parts[1..4], self.room()));
            page.rows.push(Row { parts });
        }
        Ok(page)
    }

    /// The spans of a text's tokens: ordered, disjoint, on character boundaries; with the white space between them they are
    /// the whole text. Tokens that share a character (bytes of one) count as one.
    ///
    /// # Errors
    /// [`ErrorKind::Internal`] where the tokenizer fails.
    pub fn units(&self, text: &str) -> Result<Vec<ByteSpan>> {
        let chunks: Vec<Vec<usize>> = pool::map(&self.chunks(text), |chunk| {
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

    fn encode(&self, text: &str) -> Result<Encoding> {
        self.tokenizer.encode(text, false).map_err(|error| {
            Error::new(ErrorKind::Internal, format!("the tokenizer failed on a text of {} bytes: {error}", text.len()))
        })
    }

    fn append_edge(&self, ids: &mut Vec<i32>, edge: &str) -> Result<Range<u32>> {
        let encoding = self.encode(edge)?;
        Ok(append(ids, &signed(encoding.get_ids())))
    }

    fn holds_added_token(&self, ids: &[i32]) -> bool {
        ids.iter().any(|id| self.added.contains(&id.cast_unsigned()))
    }

    /// All ids of a text, and for each the byte where its word ends.
    fn tokenize(&self, text: &str, go_on: &GoOn) -> Result<(Vec<i32>, Vec<usize>)> {
        let chunks = pool::map(&self.chunks(text), |chunk| {
            go_on()?;
            // The space at a chunk's end becomes part of the next chunk's first word: its mark of a word's start.
            let body = chunk.of(text);
            let body = if self.family == Family::ByteLevel { body } else { body.strip_suffix(' ').unwrap_or(body) };
            let encoding = self.encode(body)?;
            Ok((signed(encoding.get_ids()), word_ends(&encoding, chunk.start)))
        })?;
        let (ids, ends): (Vec<_>, Vec<_>) = chunks.into_iter().unzip();
        Ok((ids.concat(), ends.concat()))
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

/// For each id the byte behind its pre-token: the unit that the tokenizer never joins across.
fn word_ends(encoding: &Encoding, base: usize) -> Vec<usize> {
    let offsets = encoding.get_offsets();
    let words = encoding.get_word_ids();
    let mut ends: Vec<usize> = offsets.iter().map(|(_, end)| base + end).collect();
    for token in (1..ends.len()).rev() {
        if words[token - 1].is_some() && words[token - 1] == words[token] {
            ends[token - 1] = ends[token - 1].max(ends[token]);
        }
    }
    ends
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
