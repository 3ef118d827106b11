//! A reading: all that is known of a page whatever is asked of it. It is made once for a page, and kept in the cache.

use std::ops::Range;

use super::{Engine, Question};
use crate::error::Result;
use crate::formats::Document;
use crate::page::ByteSpan;
use crate::pieces::Units;
use crate::terms::{Language, PageTerms, guess_language};
use crate::tokens::GoOn;

/// What is known of a page.
#[derive(Clone, Debug, Default)]
pub(super) struct Reading {
    /// The page's units.
    pub(super) units: Units,
    /// The windows over them.
    pub(super) ranges: Vec<Range<usize>>,
    /// The page's words, where they count.
    pub(super) terms: Option<PageTerms>,
    pub(super) language: Language,
    /// See [`crate::tokens::Tokens::characters_per_token`]; 0 where words do not count.
    pub(super) characters_per_token: f32,
    /// Windows, and units where these are encoded too.
    pub(super) rows: usize,
}

impl Reading {
    /// What it takes in memory, nearly.
    pub(super) fn bytes(&self) -> usize {
        let Units { spans, groups, paragraphs, quiet } = &self.units;
        let runs = self.ranges.len() + groups.len() + paragraphs.len();
        size_of::<Self>()
            + size_of_val(spans.as_slice())
            + runs * size_of::<Range<usize>>()
            + size_of_val(quiet.as_slice())
            + self.terms.as_ref().map_or(0, PageTerms::bytes)
    }

    /// Where a row lies in the text: a window, or behind them a unit.
    pub(super) fn row(&self, row: usize) -> ByteSpan {
        match self.ranges.get(row) {
            Some(window) => self.units.span(window),
            None => self.units.spans[row - self.ranges.len()],
        }
    }
}

impl Engine {
    /// Cuts a page and reads its words.
    pub(super) fn read(&self, document: &Document, question: &Question, go_on: &GoOn) -> Result<Reading> {
        go_on()?;
        let text = document.text();
        let units = self.units(document, question.unit, go_on)?;
        let ranges: Vec<Range<usize>> = question.windows.ranges(units.spans.len()).collect();
        let language = guess_language(text);
        let terms = question.lexical.may_count().then(|| PageTerms::new(text, &units.spans, language));
        let characters_per_token = if terms.is_some() {
            let apart = question.windows.highlight_length().div_ceil(question.windows.step_size());
            self.tokens.characters_per_token(ranges.len(), apart, |window| units.span(&ranges[window]).of(text))?
        } else {
            0.0
        };
        let rows = ranges.len() + if question.encodes_units() { units.spans.len() } else { 0 };
        Ok(Reading { units, ranges, terms, language, characters_per_token, rows })
    }
}
