//! The texts of a call, checked before any work, and the count of that work. Needs no model, so that a client can check too.

use std::ops::Range;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::text::formats::Format;

/// Token positions are counted in 32 bits.
pub const MAX_TEXT_BYTES: usize = 1 << 30;

/// Bytes of memory that a call about a page of text holds, for each of its bytes, apart from what the model needs: at most.
/// Lines of one letter in a block of code need the most: 139 of the heap (`tests/memory_growth.rs`).
pub const MEMORY_OF_TEXT: usize = 160;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairing {
    /// Every query with every page, and one answer for each pair.
    All,
    /// Every query with every page, and one answer for each page. A unit counts with the query that it answers best.
    Fused,
    /// Query `i` with page `i`.
    Each,
}

/// The texts of a call, borrowed or owned: `&str`, `String`, a Python string, a part of an HTTP body.
#[derive(Clone, Debug)]
pub struct Request<Text> {
    /// None may be blank.
    pub queries: Vec<Text>,
    /// The sources: text, Markdown or HTML.
    pub pages: Vec<Text>,
    /// One for all pages, or one for each.
    pub formats: Vec<Format>,
    /// One for each page, or empty. A page without one uses the title in its source.
    pub titles: Vec<Option<Text>>,
    pub pairing: Pairing,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Work {
    /// Windows of the pages, plus units if they are encoded too.
    pub windows: usize,
    /// How many of them were scored against a query (see [`Effort`](crate::ranking::Effort)).
    pub windows_scored: usize,
    /// How many of those were encoded. Cached windows and equal rows of a job are not.
    pub encoded: usize,
    /// Token ids encoded, for windows, queries and titles, special tokens included.
    pub tokens: usize,
    /// Scored windows longer than the model's limit; their end is not encoded.
    pub truncated: usize,
    /// The caller's time for reading, hashing and parsing pages.
    pub cutting: Duration,
    /// The caller's time for tokenizing.
    pub tokenizing: Duration,
    /// The caller's wait for vectors. Devices also work while the caller cuts and tokenizes.
    pub waiting: Duration,
    /// The caller's time for scoring and choosing.
    pub ranking: Duration,
}

impl<Text: AsRef<str>> Request<Text> {
    /// Checks lengths of texts and numbers of queries, pages, formats and titles.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] and [`ErrorKind::InvalidText`].
    pub fn check(&self) -> Result<()> {
        let Self { queries, pages, formats, titles, pairing } = self;
        let invalid = |message| Err(Error::new(ErrorKind::InvalidArgument, message));
        queries.iter().chain(pages).chain(titles.iter().flatten()).try_for_each(|text| check_length(text.as_ref()))?;
        if let Some(empty) = queries.iter().position(|query| query.as_ref().trim().is_empty()) {
            return invalid(format!(
                "query {empty} is empty; a query needs at least one character that is not white space"
            ));
        }
        if queries.is_empty() || (*pairing == Pairing::Each && queries.len() != pages.len()) {
            return invalid(format!(
                "queries: {}, but pages: {}; pass one query, or one for each page, or many for one page",
                queries.len(),
                pages.len()
            ));
        }
        if formats.len() != 1 && formats.len() != pages.len() {
            return invalid(format!(
                "{} formats for {} pages; pass one for all, or one for each page",
                formats.len(),
                pages.len()
            ));
        }
        if !titles.is_empty() && titles.len() != pages.len() {
            return invalid(format!(
                "titles: {}, but pages: {}; pass one for each page, None where it has none",
                titles.len(),
                pages.len()
            ));
        }
        Ok(())
    }

    /// The same request, for the stages of a call, which are compiled once for all kinds of texts.
    pub(super) fn borrowed(&self) -> Request<&str> {
        Request {
            queries: self.queries.iter().map(AsRef::as_ref).collect(),
            pages: self.pages.iter().map(AsRef::as_ref).collect(),
            formats: self.formats.clone(),
            titles: self.titles.iter().map(|title| title.as_ref().map(AsRef::as_ref)).collect(),
            pairing: self.pairing,
        }
    }

    pub(super) fn format(&self, page: usize) -> Format {
        // [`Self::check`] ensures one format for all, or one for each.
        self.formats.get(page).or(self.formats.first()).copied().unwrap_or_default()
    }

    /// The pages to which a query's scores are compared.
    pub(super) fn pages_of(&self, query: usize) -> Range<usize> {
        if self.pairing == Pairing::Each { query..query + 1 } else { 0..self.pages.len() }
    }
}

pub(super) fn check_length(text: &str) -> Result<()> {
    if text.len() <= MAX_TEXT_BYTES {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::InvalidText,
        format!("a text of {} bytes is too long; at most {MAX_TEXT_BYTES} bytes of UTF-8 fit", text.len()),
    ))
}
