//! A reading: all that is known of a page whatever is asked of it. It is made once for a page, and kept in the cache.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Engine, Question};
use crate::error::Result;
use crate::formats::Document;
use crate::pieces::Units;
use crate::terms::{Language, PageTerms, guess_language};
use crate::tokens::{GoOn, TokenPage};

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
    /// See [`TokenPage::characters_per_token`].
    pub(super) characters_per_token: f32,
    /// Windows, and units where these are encoded too.
    pub(super) rows: usize,
    /// Rows that are longer than the model allows.
    pub(super) truncated: usize,
    /// The vectors of all rows, one behind the other, where they are kept.
    pub(super) vectors: Option<Vec<f32>>,
}

/// A page that was read just now, and is to be encoded.
pub(super) struct Fresh {
    pub(super) reading: Reading,
    /// The ids of its rows: the windows, then the units where these are encoded too.
    pub(super) tokens: Arc<TokenPage>,
    pub(super) cutting: Duration,
    pub(super) tokenizing: Duration,
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
            + self.vectors.as_ref().map_or(0, |vectors| size_of_val(vectors.as_slice()))
    }
}

impl Engine {
    /// Cuts a page, tokenizes it and reads its words.
    pub(super) fn read(&self, document: &Document, question: &Question, go_on: &GoOn) -> Result<Fresh> {
        go_on()?;
        let began = Instant::now();
        let text = document.text();
        let units = self.units(document, question.unit, go_on)?;
        let ranges: Vec<Range<usize>> = question.windows.ranges(units.spans.len()).collect();
        let mut pieces = question.windows.over(&units.spans);
        if question.encodes_units() {
            pieces.extend(&units.spans);
        }
        let language = guess_language(text);
        let terms = question.lexical.may_count().then(|| PageTerms::new(text, &units.spans, language));
        let cutting = began.elapsed();
        let began = Instant::now();
        let tokens = Arc::new(self.tokens.page(text, &pieces, go_on)?);
        let reading = Reading {
            units,
            ranges,
            terms,
            language,
            characters_per_token: tokens.characters_per_token,
            rows: tokens.len(),
            truncated: tokens.truncated,
            vectors: None,
        };
        Ok(Fresh { reading, tokens, cutting, tokenizing: began.elapsed() })
    }
}
