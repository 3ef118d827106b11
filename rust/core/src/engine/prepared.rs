//! Pages as a call has them: read, cut, with their words and what is kept of them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use super::cache::{Kept, Key};
use super::reading::Reading;
use super::run::Run;
use crate::call;
use crate::error::Result;
use crate::formats::{Document, Format};
use crate::page::{ByteSpan, Page};
use crate::pool;
use crate::stages::Stage;

/// A page as a call has it.
pub(super) struct Prepared<'text> {
    pub(super) document: &'text Document<'text>,
    pub(super) page: Page<'text>,
    /// The source, where that is not the text.
    pub(super) source: Option<Page<'text>>,
    pub(super) reading: Arc<Reading>,
    /// The vectors that are known of it.
    pub(super) kept: Option<Arc<Kept>>,
    /// Tokens before each unit, and in all; empty where tokens are not bounded.
    pub(super) tokens_before: Arc<[usize]>,
}

/// Which pages of a call are the same.
pub(super) struct Sames {
    /// For each page what it is kept under, where anything is kept or may be the same.
    pub(super) keys: Vec<Option<Key>>,
    /// For each page the first one that is the same: often itself.
    pub(super) first: Vec<usize>,
}

impl Prepared<'_> {
    /// How many characters its text has.
    pub(super) fn chars(&self) -> usize {
        self.page.chars(ByteSpan { start: 0, end: self.page.text().len() }).len()
    }
}

impl<'text> Run<'_, 'text> {
    /// Reads the sources; plain text costs nothing.
    pub(super) fn read(&mut self) -> Result<Vec<Document<'text>>> {
        let request = self.request;
        let pages: Vec<(Format, &str)> =
            request.pages.iter().enumerate().map(|(page, source)| (request.format(page), *source)).collect();
        let bytes = pages.iter().filter(|(format, _)| *format != Format::Text).map(|(_, source)| source.len()).sum();
        let (stop, deadline) = (self.call.stop().clone(), self.call.deadline());
        let began = Instant::now();
        let documents = self.engine.pool.run(self.call, bytes, || {
            pool::map(&pages, |(format, source)| {
                call::check(&stop, deadline)?;
                Ok(Document::read(source, *format))
            })
        });
        self.spend(Stage::Cut, began);
        documents
    }

    /// Finds the pages that are the same: those are read and encoded once.
    pub(super) fn sames(&mut self, documents: &[Document]) -> Result<Sames> {
        let pages = documents.len();
        if !self.engine.cache.keeps() && pages == 1 {
            return Ok(Sames { keys: vec![None], first: vec![0] });
        }
        let (question, began) = (self.question, Instant::now());
        let bytes = documents.iter().map(|document| document.text().len()).sum();
        let key = |document: &Document| Ok(Some(Key::of(document, question)));
        let keys = self.engine.pool.run(self.call, bytes, || pool::map(documents, key))?;
        let mut first_with: HashMap<Key, usize> = HashMap::with_capacity(pages);
        let each = keys.iter().enumerate();
        let first = each.map(|(page, key)| key.map_or(page, |key| *first_with.entry(key).or_insert(page))).collect();
        self.spend(Stage::Cut, began);
        Ok(Sames { keys, first })
    }

    /// Cuts the pages and reads their words, where they are not known.
    pub(super) fn prepare<'document>(
        &mut self,
        documents: &'document [Document<'text>],
        sames: &Sames,
    ) -> Result<Vec<Prepared<'document>>>
    where
        'text: 'document,
    {
        let began = Instant::now();
        let (engine, question, request) = (self.engine, self.question, self.request);
        let kept = |(page, first): (usize, &usize)| {
            let key = sames.keys[page].filter(|_| *first == page);
            (page, key.and_then(|key| engine.cache.get(&key)))
        };
        let pages: Vec<(usize, Option<Arc<Kept>>)> = sames.first.iter().enumerate().map(kept).collect();
        let is_fresh = |page: usize, kept: &Option<Arc<Kept>>| sames.first[page] == page && kept.is_none();
        let fresh = pages.iter().filter(|(page, kept)| is_fresh(*page, kept));
        let bytes = fresh.map(|(page, _)| documents[*page].text().len()).sum();
        let (stop, deadline) = (self.call.stop().clone(), self.call.deadline());
        let go_on = || call::check(&stop, deadline);
        let source = |page: usize| {
            let is_other = documents[page].format() == Format::Html;
            is_other.then(|| Page::new(request.pages[page]))
        };
        let read = engine.pool.run(self.call, bytes, || {
            pool::map(&pages, |(page, kept)| {
                if sames.first[*page] != *page {
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
                let Prepared { page: text, reading, tokens_before, .. } = &prepared[sames.first[page]];
                Prepared {
                    document: &documents[page],
                    page: text.clone(),
                    source: source(page),
                    reading: Arc::clone(reading),
                    kept: None,
                    tokens_before: Arc::clone(tokens_before),
                }
            });
            self.work.pieces += read.reading.rows;
            prepared.push(read);
        }
        self.call.progress().add_pieces(self.work.pieces);
        self.call.allow_pieces(self.work.pieces)?;
        self.spend(Stage::Cut, began);
        Ok(prepared)
    }
}
