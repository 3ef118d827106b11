//! A parsed page: its units, windows and terms. It is independent of queries, so each page is parsed once and then
//! cached.

use std::ops::Range;

use super::static_vectors::UnitTokens;
use super::terms::{Language, PageTerms};
use crate::text::page::ByteSpan;
use crate::text::pieces::Units;

#[derive(Clone, Debug, Default)]
pub(crate) struct ParsedPage {
    pub(crate) units: Units,
    /// Ranges of units.
    pub(crate) windows: Vec<Range<usize>>,
    /// `None` with a lexical weight of 0.
    pub(crate) terms: Option<PageTerms>,
    pub(crate) language: Language,
    /// See [`crate::tokens::Tokens::characters_per_token`]; 0 with a lexical weight of 0.
    pub(crate) characters_per_token: f32,
    /// Only with [`super::Effort::Instant`].
    pub(crate) tokens: Option<UnitTokens>,
    /// Rows that can be encoded: windows, and units if they are encoded too.
    pub(crate) rows: usize,
}

impl ParsedPage {
    /// The approximate size in memory.
    pub(crate) fn bytes(&self) -> usize {
        let Units { spans, groups, paragraphs, boilerplate, tables, headings, heading_levels } = &self.units;
        let runs = self.windows.len() + groups.len() + paragraphs.len() + 2 * tables.len() + headings.len();
        size_of::<Self>()
            + size_of_val(spans.as_slice())
            + runs * size_of::<Range<usize>>()
            + size_of_val(boilerplate.as_slice())
            + size_of_val(heading_levels.as_slice())
            + self.terms.as_ref().map_or(0, PageTerms::bytes)
            + self.tokens.as_ref().map_or(0, UnitTokens::bytes)
    }

    /// The span of a row: windows first, then units.
    pub(crate) fn row(&self, row: usize) -> ByteSpan {
        match self.windows.get(row) {
            Some(window) => self.units.span(window),
            None => self.units.spans[row - self.windows.len()],
        }
    }
}
