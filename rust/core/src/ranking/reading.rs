//! A reading: all that is known of a page whatever is asked of it. It is made once for a page, and kept in the cache.

use std::ops::Range;

use super::terms::{Language, PageTerms};
use crate::text::page::ByteSpan;
use crate::text::pieces::Units;

/// What is known of a page.
#[derive(Clone, Debug, Default)]
pub(crate) struct PageReading {
    /// The page's units.
    pub(crate) units: Units,
    /// The windows over them.
    pub(crate) ranges: Vec<Range<usize>>,
    /// The page's words, where they count.
    pub(crate) terms: Option<PageTerms>,
    pub(crate) language: Language,
    /// See [`crate::tokens::Tokens::characters_per_token`]; 0 where words do not count.
    pub(crate) characters_per_token: f32,
    /// Windows, and units where these are encoded too.
    pub(crate) rows: usize,
}

impl PageReading {
    /// What it takes in memory, nearly.
    pub(crate) fn bytes(&self) -> usize {
        let Units { spans, groups, paragraphs, quiet } = &self.units;
        let runs = self.ranges.len() + groups.len() + paragraphs.len();
        size_of::<Self>()
            + size_of_val(spans.as_slice())
            + runs * size_of::<Range<usize>>()
            + size_of_val(quiet.as_slice())
            + self.terms.as_ref().map_or(0, PageTerms::bytes)
    }

    /// Where a row lies in the text: a window, or behind them a unit.
    pub(crate) fn row(&self, row: usize) -> ByteSpan {
        match self.ranges.get(row) {
            Some(window) => self.units.span(window),
            None => self.units.spans[row - self.ranges.len()],
        }
    }
}
