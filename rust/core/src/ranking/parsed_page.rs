//! A page of a call. What is parsed of it (its units, windows and terms) is independent of queries, so each page is parsed
//! once and then cached.

use std::ops::Range;
use std::sync::Arc;

use super::relevance::best_around;
use super::static_vectors::UnitTokens;
use super::terms::{Language, PageTerms, guess_language};
use crate::error::Result;
use crate::runtime::call::Check;
use crate::text::formats::Document;
use crate::text::page::{ByteSpan, PageText};
use crate::text::pieces::{self, Unit, Units, Windows};
use crate::tokens::Tokens;

/// How a call parses pages: with the document, all that a parsed page depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parsing {
    pub(crate) unit: Unit,
    pub(crate) windows: Windows,
    /// Whether units are encoded in addition to windows.
    pub(crate) encodes_units: bool,
    /// Whether words are indexed.
    pub(crate) uses_terms: bool,
    /// Whether tokens are kept, so that static vectors can predict cosines.
    pub(crate) keeps_tokens: bool,
}

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
    /// See [`crate::tokens::PageWords::characters_per_token`]; 0 with a lexical weight of 0.
    pub(crate) characters_per_token: f32,
    /// See [`Parsing::keeps_tokens`].
    pub(crate) tokens: Option<UnitTokens>,
    /// Rows that can be encoded: windows, and units if they are encoded too.
    pub(crate) rows: usize,
}

impl ParsedPage {
    /// Cuts a page into units and windows, and indexes its words and tokens.
    ///
    /// # Errors
    /// Those of `check`; [`crate::error::ErrorKind::InvalidArgument`] for windows that repeat the text too often.
    pub(crate) fn new(document: &Document, parsing: Parsing, tokenizer: &Tokens, check: &Check) -> Result<Self> {
        check()?;
        let text = document.text();
        let units = units(document, parsing.unit, tokenizer, check)?;
        parsing.windows.check_total(units.spans.len())?;
        let windows = units.windows(parsing.windows);
        let language = guess_language(text);
        let (mut terms, mut characters_per_token) = (None, 0.0);
        let words = tokenizer.words(text);
        if parsing.uses_terms {
            terms = Some(PageTerms::new_checked(text, &units.spans, language, check)?);
            let stride = parsing.windows.highlight_length().div_ceil(parsing.windows.step_size());
            let window = |window: usize| units.span(&windows[window]).of(text);
            characters_per_token = words.characters_per_token(windows.len(), stride, window)?;
        }
        let rows = windows.len() + if parsing.encodes_units { units.spans.len() } else { 0 };
        let of_units = || Ok(UnitTokens::new(&words.of_units(text, &units.spans, check)?));
        let tokens = parsing.keeps_tokens.then(of_units).transpose()?;
        Ok(Self { units, windows, terms, language, characters_per_token, tokens, rows })
    }

    /// The approximate size in memory.
    pub(crate) fn bytes(&self) -> usize {
        let Units { spans, groups, paragraphs, boilerplate, rows, tables, short_paragraphs, .. } = &self.units;
        let Units { headings, section_ends, names, labels, .. } = &self.units;
        let tables = rows.len() + 2 * tables.len();
        let paragraphs = paragraphs.len() + short_paragraphs.len();
        let runs = self.windows.len() + groups.len() + paragraphs + tables + headings.len();
        size_of::<Self>()
            + size_of_val(spans.as_slice())
            + runs * size_of::<Range<usize>>()
            + size_of_val(boilerplate.as_slice())
            + size_of_val(section_ends.as_slice())
            + names.bytes()
            + size_of_val(labels.as_slice())
            + self.terms.as_ref().map_or(0, PageTerms::bytes)
            + self.tokens.as_ref().map_or(0, UnitTokens::bytes)
    }

    /// For each unit the best value of the windows around it; `none` for a unit in no window. The names of a long table's
    /// columns count for all of its rows, not only for those in a window with them.
    pub(crate) fn best_around(&self, values: &[f32], none: f32) -> Vec<f32> {
        let mut best = best_around(self.units.spans.len(), &self.windows, values, none);
        for table in self.units.tables.iter().filter(|table| table.is_long()) {
            let named = best[table.header.clone()].iter().copied().fold(f32::NEG_INFINITY, f32::max);
            best[table.rows.clone()].iter_mut().for_each(|row| *row = row.max(named));
        }
        best
    }

    /// The span of a row: windows first, then units.
    pub(crate) fn row(&self, row: usize) -> ByteSpan {
        match self.windows.get(row) {
            Some(window) => self.units.span(window),
            None => self.units.spans[row - self.windows.len()],
        }
    }
}

/// Cuts a document into units.
pub(crate) fn units(document: &Document, unit: Unit, tokenizer: &Tokens, check: &Check) -> Result<Units> {
    let text = document.text();
    match unit {
        Unit::Sentence => Units::sentences(text, document.blocks(), document.links(), check),
        Unit::Word => Ok(Units::independent(pieces::words_checked(text, check)?)),
        Unit::Token => Ok(Units::independent(tokenizer.units(text, check)?)),
    }
}
