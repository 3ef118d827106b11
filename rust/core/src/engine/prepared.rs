//! Pages as a call has them: read, cut, with their words and what is kept of them.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use super::cache::{Kept, Key};
use super::context::CallContext;
use super::{Engine, Question};
use crate::error::Result;
use crate::ranking::reading::PageReading;
use crate::ranking::terms::{PageTerms, guess_language};
use crate::runtime::call;
use crate::runtime::profiling::Stage;
use crate::runtime::text_pool;
use crate::text::formats::{Document, Format};
use crate::text::page::Page;
use crate::tokens::GoOn;

/// A page as a call has it.
pub(super) struct Prepared<'text> {
    pub(super) document: &'text Document<'text>,
    pub(super) page: Page<'text>,
    /// The source, where that is not the text.
    pub(super) source: Option<Page<'text>>,
    pub(super) reading: Arc<PageReading>,
    /// The vectors that are known of it.
    pub(super) kept: Option<Arc<Kept>>,
    /// Tokens before each unit, and in all; empty where tokens are not bounded.
    pub(super) tokens_before: Arc<[usize]>,
}

/// Which pages of a call are the same.
pub(super) struct DuplicatePages {
    /// For each page what it is kept under, where anything is kept or may be the same.
    pub(super) keys: Vec<Option<Key>>,
    /// For each page the first one that is the same: often itself.
    pub(super) first: Vec<usize>,
}

impl Engine {
    /// Cuts a page and reads its words.
    pub(super) fn read(&self, document: &Document, question: &Question, go_on: &GoOn) -> Result<PageReading> {
        go_on()?;
        let text = document.text();
        let units = self.units(document, question.unit, go_on)?;
        let ranges: Vec<Range<usize>> = question.windows.ranges(units.spans.len()).collect();
        let language = guess_language(text);
        let terms = question.lexical_weight.may_count().then(|| PageTerms::new(text, &units.spans, language));
        let characters_per_token = if terms.is_some() {
            let apart = question.windows.highlight_length().div_ceil(question.windows.step_size());
            self.tokens.characters_per_token(ranges.len(), apart, |window| units.span(&ranges[window]).of(text))?
        } else {
            0.0
        };
        let rows = ranges.len() + if question.encodes_units() { units.spans.len() } else { 0 };
        Ok(PageReading { units, ranges, terms, language, characters_per_token, rows })
    }
}

/// Reads the sources; plain text costs nothing.
pub(super) fn read<'text>(context: &mut CallContext<'_, 'text>) -> Result<Vec<Document<'text>>> {
    let request = context.request;
    let pages: Vec<(Format, &str)> =
        request.pages.iter().enumerate().map(|(page, source)| (request.format(page), *source)).collect();
    let bytes = pages.iter().filter(|(format, _)| *format != Format::Text).map(|(_, source)| source.len()).sum();
    let (stop, deadline) = (context.call.stop().clone(), context.call.deadline());
    let began = Instant::now();
    let documents = context.engine.pool.run(context.call, bytes, || {
        text_pool::map(&pages, |(format, source)| {
            call::check(&stop, deadline)?;
            Ok(Document::read(source, *format))
        })
    });
    context.spend(Stage::Cut, began);
    documents
}

/// Finds the pages that are the same: those are read and encoded once.
pub(super) fn deduplicate_pages(context: &mut CallContext<'_, '_>, documents: &[Document]) -> Result<DuplicatePages> {
    let pages = documents.len();
    if !context.engine.cache.keeps() && pages == 1 {
        return Ok(DuplicatePages { keys: vec![None], first: vec![0] });
    }
    let (question, began) = (context.question, Instant::now());
    let bytes = documents.iter().map(|document| document.text().len()).sum();
    let key = |document: &Document| Ok(Some(Key::of(document, question)));
    let keys = context.engine.pool.run(context.call, bytes, || text_pool::map(documents, key))?;
    let mut first_with: HashMap<Key, usize> = HashMap::with_capacity(pages);
    let each = keys.iter().enumerate();
    let first = each.map(|(page, key)| key.map_or(page, |key| *first_with.entry(key).or_insert(page))).collect();
    context.spend(Stage::Cut, began);
    Ok(DuplicatePages { keys, first })
}

/// Cuts the pages and reads their words, where they are not known.
pub(super) fn prepare<'text, 'document>(
    context: &mut CallContext<'_, 'text>,
    documents: &'document [Document<'text>],
    duplicates: &DuplicatePages,
) -> Result<Vec<Prepared<'document>>>
where
    'text: 'document,
{
    let began = Instant::now();
    let (engine, question, request) = (context.engine, context.question, context.request);
    let kept = |(page, first): (usize, &usize)| {
        let key = duplicates.keys[page].filter(|_| *first == page);
        (page, key.and_then(|key| engine.cache.get(&key)))
    };
    let pages: Vec<(usize, Option<Arc<Kept>>)> = duplicates.first.iter().enumerate().map(kept).collect();
    let is_fresh = |page: usize, kept: &Option<Arc<Kept>>| duplicates.first[page] == page && kept.is_none();
    let fresh = pages.iter().filter(|(page, kept)| is_fresh(*page, kept));
    let bytes = fresh.map(|(page, _)| documents[*page].text().len()).sum();
    let (stop, deadline) = (context.call.stop().clone(), context.call.deadline());
    let go_on = || call::check(&stop, deadline);
    let source = |page: usize| {
        let is_other = documents[page].format() == Format::Html;
        is_other.then(|| Page::new(request.pages[page]))
    };
    let read = engine.pool.run(context.call, bytes, || {
        text_pool::map(&pages, |(page, kept)| {
            if duplicates.first[*page] != *page {
                return Ok(None);
            }
            let document = &documents[*page];
            let reading = match kept {
                Some(kept) => Arc::clone(&kept.reading),
                None => Arc::new(engine.read(document, question, &go_on)?),
            };
            let tokens_before: Arc<[usize]> = if question.bounds.counts_tokens() {
                engine.tokens.counts_before(document.text(), &reading.units.spans, &go_on)?.into()
            } else {
                Arc::default()
            };
            let source = source(*page);
            let (page, kept) = (Page::new(document.text()), kept.clone());
            Ok(Some(Prepared { document, page, source, reading, kept, tokens_before }))
        })
    })?;
    let mut prepared: Vec<Prepared> = Vec::with_capacity(read.len());
    for (page, read) in read.into_iter().enumerate() {
        let read = read.unwrap_or_else(|| {
            // The first one with this text stands before it; where it came from may be another source.
            let Prepared { page: text, reading, tokens_before, .. } = &prepared[duplicates.first[page]];
            Prepared {
                document: &documents[page],
                page: text.clone(),
                source: source(page),
                reading: Arc::clone(reading),
                kept: None,
                tokens_before: Arc::clone(tokens_before),
            }
        });
        context.work.windows += read.reading.rows;
        prepared.push(read);
    }
    context.call.progress().add_windows(context.work.windows);
    context.call.allow_windows(context.work.windows)?;
    context.spend(Stage::Cut, began);
    Ok(prepared)
}
