//! What a request must be before anything is done for it, and which of its parts belong together; needs no model, so that who
//! sends it to another engine can ask too.

use std::ops::Range;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::highlights::Bounds;
use crate::ranking::Effort;
use crate::ranking::candidates::CandidateLimits;
use crate::ranking::relevance::LexicalWeight;
use crate::text::formats::{Document, Format};
use crate::text::pieces::{Unit, Windows};

/// The longest text: positions of tokens are counted in 32 bits.
pub const MAX_TEXT_BYTES: usize = 1 << 30;

/// Which query goes with which page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairing {
    /// Every query with every page; each query has its own answers.
    All,
    /// Every query with every page; a unit is worth what it is to the query that it answers best.
    Fused,
    /// Query `i` with page `i`.
    Each,
}

/// Queries and pages of a call.
#[derive(Clone, Copy, Debug)]
pub struct Request<'text> {
    /// What is asked.
    pub queries: &'text [&'text str],
    /// The sources of the pages.
    pub pages: &'text [&'text str],
    /// What these are written in: one for all of them, or one for each.
    pub formats: &'text [Format],
    /// A title for each page, where there is one; or empty.
    pub titles: &'text [Option<&'text str>],
    /// Which query goes with which page.
    pub pairing: Pairing,
}

/// What is asked about the pages.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// What windows count in.
    pub unit: Unit,
    /// How long windows are and how far apart.
    pub windows: Windows,
    /// Whether sentences are ranked and passages grown from them, or windows are returned as they are. Only sentences grow.
    pub expand: bool,
    /// How much words count against meaning.
    pub lexical_weight: LexicalWeight,
    /// How much of the pages is encoded.
    pub effort: Effort,
    /// How many units on each side of a highlight are reported beside it.
    pub context: usize,
    /// Whether the words that matched are reported.
    pub explain: bool,
    /// What highlights are bound by.
    pub bounds: Bounds,
}

/// What a call took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Work {
    /// Windows of the pages, and sentences where these are encoded too.
    pub windows: usize,
    /// How many of them queries were compared with (see [`Effort`]).
    pub windows_scored: usize,
    /// How many of these were encoded: not those that are kept, nor those that are equal to others.
    pub encoded: usize,
    /// Token ids encoded, special ones and the queries' included.
    pub tokens: usize,
    /// Windows that were compared and are longer than the model allows: no vector saw their end.
    pub truncated: usize,
    /// Time the caller spent cutting pages.
    pub cutting: Duration,
    /// Time the caller spent tokenizing.
    pub tokenizing: Duration,
    /// Time the caller spent waiting for vectors; devices also worked while it cut and tokenized.
    pub waiting: Duration,
    /// Time the caller spent scoring and choosing.
    pub ranking: Duration,
}

impl Question {
    /// Whether passages grow from sentences, instead of windows being returned as they are. Who skips text means the windows.
    pub(super) fn grows(&self) -> bool {
        self.expand && self.unit == Unit::Sentence && self.windows.step_size() <= self.windows.highlight_length()
    }

    /// Whether units are encoded beside the windows. Where words count, these tell the units of a window apart as well, for
    /// nothing; where windows are the units, once is enough.
    pub(super) fn encodes_units(&self) -> bool {
        self.grows()
            && !self.lexical_weight.may_count()
            && (self.windows.highlight_length(), self.windows.step_size()) != (1, 1)
    }

    /// The units of the longest passage: as far as the windows around one unit reach.
    pub(super) fn longest(&self) -> usize {
        self.windows.highlight_length().saturating_mul(2) - 1
    }

    /// What decides which windows are candidates.
    pub(super) fn candidate_limits(&self) -> CandidateLimits {
        let budget = self.bounds.most();
        CandidateLimits {
            effort: self.effort,
            grows: self.grows(),
            passages: self.bounds.passages(),
            chars: budget.chars,
            tokens: budget.tokens,
            min_relevance: self.bounds.min_relevance(),
        }
    }
}

impl Request<'_> {
    /// Checks what goes together.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] and [`ErrorKind::InvalidText`], saying what does not go together.
    pub fn check(&self) -> Result<()> {
        let Self { queries, pages, formats, titles, pairing } = self;
        let invalid = |message| Err(Error::new(ErrorKind::InvalidArgument, message));
        queries.iter().chain(*pages).chain(titles.iter().flatten()).try_for_each(|text| check_length(text))?;
        if let Some(empty) = queries.iter().position(|query| query.trim().is_empty()) {
            return invalid(format!(
                "query {empty} is empty; a query needs at least one character that is not white space"
            ));
        }
        if queries.is_empty() || (*pairing == Pairing::Each && queries.len() != pages.len()) {
            return invalid(format!(
                "{} queries do not go with {} pages; pass one query, or one for each page, or many for one page",
                queries.len(),
                pages.len()
            ));
        }
        if formats.len() != 1 && formats.len() != pages.len() {
            return invalid(format!(
                "{} formats do not go with {} pages; pass one for all, or one for each page",
                formats.len(),
                pages.len()
            ));
        }
        if !titles.is_empty() && titles.len() != pages.len() {
            return invalid(format!(
                "{} titles do not go with {} pages; pass one for each page, None where it has none",
                titles.len(),
                pages.len()
            ));
        }
        Ok(())
    }

    /// What a page is written in.
    pub(super) fn format(&self, page: usize) -> Format {
        // One stands for all; how many there are was checked.
        self.formats.get(page).or(self.formats.first()).copied().unwrap_or_default()
    }

    /// The pages that a query is asked of together.
    pub(super) fn pages_of(&self, query: usize) -> Range<usize> {
        if self.pairing == Pairing::Each { query..query + 1 } else { 0..self.pages.len() }
    }
}

impl<'text> Request<'text> {
    /// The pages that have a title, and their titles: the caller's, or else what a page calls itself.
    pub(super) fn titled<'document>(&self, documents: &'document [Document]) -> Vec<(usize, &'document str)>
    where
        'text: 'document,
    {
        let given = |page: usize| self.titles.get(page).copied().flatten();
        let titles =
            documents.iter().enumerate().map(|(page, document)| (page, given(page).or_else(|| document.title())));
        titles
            .filter_map(|(page, title)| title.filter(|title| !title.trim().is_empty()).map(|title| (page, title)))
            .collect()
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
