//! Reads, deduplicates and parses the pages of a call, and cuts texts into windows alone.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use super::cache::{CacheKey, CachedPage};
use super::context::CallContext;
use super::request::check_length;
use super::{Engine, Question};
use crate::error::Result;
use crate::ranking::parsed_page::{ParsedPage, PreparedPage};
use crate::ranking::static_vectors::UnitTokens;
use crate::ranking::terms::{PageTerms, guess_language};
use crate::runtime::call::Call;
use crate::runtime::profiling::Stage;
use crate::runtime::text_pool;
use crate::text::formats::{Document, Format};
use crate::text::page::{CharSpan, PageText};
use crate::text::pieces::{self, Unit, Units, Windows};
use crate::tokens::{Check, counts_before};

/// The equal pages of a call. Only the first of them is parsed and encoded.
pub(super) struct DuplicatePages {
    /// Each page's cache key. `None` for a single page without a cache.
    pub(super) keys: Vec<Option<CacheKey>>,
    /// The first page equal to each page, often itself.
    pub(super) first: Vec<usize>,
    /// Each page's cache entry; `None` for duplicates.
    pub(super) cached: Vec<Option<Arc<CachedPage>>>,
}

impl Engine {
    /// Cuts a text into windows, in character offsets.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidText`] for a text over [`MAX_TEXT_BYTES`]; errors of [`Call::check`].
    pub fn parse_pieces(&self, text: &str, unit: Unit, windows: Windows, call: &Call) -> Result<Vec<CharSpan>> {
        self.check_process()?;
        check_length(text)?;
        let call = &call.with_shutdown(&self.shutdown);
        self.pool.run(call, text.len(), |check| {
            let page = PageText::new(text);
            let units = self.units(&Document::read(text, Format::Text, check)?, unit, check)?;
            Ok(windows.over(&units.spans).into_iter().map(|window| page.chars(window)).collect())
        })
    }

    /// What a text counts in a budget of tokens.
    pub(super) fn budgeted(&self, text: &str, call: &Call) -> Result<usize> {
        call.token_counter().map_or_else(|| self.tokens.budgeted(text), |count| count(text))
    }

    fn units(&self, document: &Document, unit: Unit, check: &Check) -> Result<Units> {
        let text = document.text();
        match unit {
            Unit::Sentence => Units::sentences(text, document.blocks(), document.links(), check),
            Unit::Word => Ok(Units::independent(pieces::words_checked(text, check)?)),
            Unit::Token => Ok(Units::independent(self.tokens.units(text, check)?)),
        }
    }

    /// Cuts a page into units and windows, and indexes its words, and its tokens if static vectors are used.
    fn parse_page(
        &self,
        document: &Document,
        question: &Question,
        has_tokens: bool,
        check: &Check,
    ) -> Result<ParsedPage> {
        check()?;
        let text = document.text();
        let units = self.units(document, question.unit, check)?;
        question.windows.check_total(units.spans.len())?;
        let windows: Vec<Range<usize>> = question.windows.ranges(units.spans.len()).collect();
        let language = guess_language(text);
        let uses_terms = question.lexical_weight.uses_terms();
        let terms = uses_terms.then(|| PageTerms::new_checked(text, &units.spans, language, check)).transpose()?;
        let characters_per_token = if terms.is_some() {
            let stride = question.windows.highlight_length().div_ceil(question.windows.step_size());
            self.tokens.characters_per_token(windows.len(), stride, |window| units.span(&windows[window]).of(text))?
        } else {
            0.0
        };
        let rows = windows.len() + if question.encodes_units() { units.spans.len() } else { 0 };
        let tokens =
            if has_tokens { Some(UnitTokens::new(&self.tokens.of_units(text, &units.spans, check)?)) } else { None };
        Ok(ParsedPage { units, windows, terms, language, characters_per_token, tokens, rows })
    }
}

/// Extracts the text of all sources. Plain text is only borrowed.
pub(super) fn read_documents<'text>(context: &mut CallContext<'_, 'text>) -> Result<Vec<Document<'text>>> {
    context.timed(Stage::Cut, |context| {
        let request = context.request;
        let pages: Vec<(Format, &str)> =
            request.pages.iter().enumerate().map(|(page, source)| (request.format(page), *source)).collect();
        let bytes = pages.iter().filter(|(format, _)| *format != Format::Text).map(|(_, source)| source.len()).sum();
        context.engine.pool.run(context.call, bytes, |check| {
            text_pool::map(&pages, |(format, source)| Document::read(source, *format, check))
        })
    })
}

/// Finds equal pages by their cache keys.
pub(super) fn deduplicate_pages(context: &mut CallContext<'_, '_>, documents: &[Document]) -> Result<DuplicatePages> {
    let pages = documents.len();
    if !context.engine.cache.is_enabled() && pages == 1 {
        return Ok(DuplicatePages { keys: vec![None], first: vec![0], cached: vec![None] });
    }
    context.timed(Stage::Cut, |context| {
        let (question, has_tokens) = (context.question, context.uses_static_vectors());
        let bytes = documents.iter().map(|document| document.text().len()).sum();
        let key = |document: &Document| Ok(Some(CacheKey::of_page(document, question, has_tokens)));
        let keys = context.engine.pool.run(context.call, bytes, |check| {
            text_pool::map(documents, |document| {
                check()?;
                key(document)
            })
        })?;
        let mut first_with: HashMap<CacheKey, usize> = HashMap::with_capacity(pages);
        let each = keys.iter().enumerate();
        let first = each.map(|(page, key)| key.map_or(page, |key| *first_with.entry(key).or_insert(page)));
        let first: Vec<usize> = first.collect();
        let entry = |(page, first): (usize, &usize)| {
            let key = keys[page].filter(|_| *first == page);
            key.and_then(|key| context.engine.cache.page(&key))
        };
        let cached = first.iter().enumerate().map(entry).collect();
        Ok(DuplicatePages { keys, first, cached })
    })
}

/// Parses the pages that are neither cached nor duplicates.
pub(super) fn prepare<'text, 'document>(
    context: &mut CallContext<'_, 'text>,
    documents: &'document [Document<'text>],
    duplicates: &DuplicatePages,
) -> Result<Vec<PreparedPage<'document>>>
where
    'text: 'document,
{
    let began = Instant::now();
    let (engine, question, request) = (context.engine, context.question, context.request);
    let has_tokens = context.uses_static_vectors();
    let DuplicatePages { first, cached, .. } = duplicates;
    let call = context.call;
    let pages: Vec<usize> = (0..documents.len()).collect();
    let new = pages.iter().filter(|page| first[**page] == **page && cached[**page].is_none());
    let bytes = new.map(|page| documents[*page].text().len()).sum();
    let source = |page: usize| {
        let is_extracted = documents[page].format() == Format::Html;
        is_extracted.then(|| PageText::new(request.pages[page]))
    };
    let title = |page: usize| {
        let title = request.titles.get(page).copied().flatten().or_else(|| documents[page].title());
        title.filter(|title| !title.trim().is_empty())
    };
    let parsed = engine.pool.run(context.call, bytes, |check| {
        text_pool::map(&pages, |page| {
            if first[*page] != *page {
                return Ok(None);
            }
            let document = &documents[*page];
            let parsed = match &cached[*page] {
                Some(cached) => Arc::clone(&cached.parsed),
                None => Arc::new(engine.parse_page(document, question, has_tokens, check)?),
            };
            let tokens_before: Arc<[usize]> = if question.bounds.counts_tokens() {
                let count = |text: &str| engine.budgeted(text, call);
                counts_before(document.text(), &parsed.units.spans, count, check)?.into()
            } else {
                Arc::default()
            };
            let (source, title) = (source(*page), title(*page));
            let text = PageText::new(document.text());
            Ok(Some(PreparedPage { document, text, title, source, parsed, tokens_before }))
        })
    })?;
    let mut prepared: Vec<PreparedPage> = Vec::with_capacity(parsed.len());
    for (index, page) in parsed.into_iter().enumerate() {
        let page = page.unwrap_or_else(|| {
            // Equal pages share the text; their sources may differ.
            PreparedPage {
                document: &documents[index],
                title: title(index),
                source: source(index),
                ..prepared[first[index]].clone()
            }
        });
        context.work.windows += page.parsed.rows;
        prepared.push(page);
    }
    context.call.counters().add_windows(context.work.windows);
    context.call.check_windows(context.work.windows)?;
    context.record(Stage::Cut, began);
    Ok(prepared)
}
