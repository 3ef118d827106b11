//! A page of a call. What is parsed of it (its units, windows and terms) is independent of queries, so each page is parsed
//! once and then cached.

use std::ops::Range;
use std::sync::Arc;

use super::static_vectors::UnitTokens;
use super::terms::{Language, PageTerms};
use crate::text::formats::Document;
use crate::text::page::{ByteSpan, PageText};
use crate::text::pieces::Units;

/// A page of a call, ready to be scored.
#[derive(Clone, Debug)]
pub(crate) struct PreparedPage<'text> {
    pub(crate) document: &'text Document<'text>,
    pub(crate) text: PageText<'text>,
    /// The request's, or else the document's own; not blank.
    pub(crate) title: Option<&'text str>,
    /// The source, if it is not the text.
    pub(crate) source: Option<PageText<'text>>,
    pub(crate) parsed: Arc<ParsedPage>,
    /// Tokens before each unit, and in total; empty without a token limit.
    pub(crate) tokens_before: Arc<[usize]>,
}

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
        let Units { spans, groups, paragraphs, boilerplate, tables, headings, heading_levels, outer_headings } =
            &self.units;
        let runs = self.windows.len() + groups.len() + paragraphs.len() + 2 * tables.len() + headings.len();
        size_of::<Self>()
            + size_of_val(spans.as_slice())
            + runs * size_of::<Range<usize>>()
            + size_of_val(boilerplate.as_slice())
            + size_of_val(heading_levels.as_slice())
            + size_of_val(outer_headings.as_slice())
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
