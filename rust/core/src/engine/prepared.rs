//! Parses the pages of a call, and cuts texts into windows alone.

use std::sync::Arc;
use std::time::Instant;

use super::Engine;
use super::context::CallContext;
use super::documents::ReadPages;
use super::request::check_length;
use crate::error::Result;
use crate::ranking::parsed_page::{ParsedPage, PreparedPage, units};
use crate::runtime::call::Call;
use crate::runtime::profiling::Stage;
use crate::runtime::text_pool;
use crate::text::formats::{Document, Format};
use crate::text::page::{CharSpan, PageText};
use crate::text::pieces::{Unit, Windows};
use crate::tokens::counts_before;

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
            let document = Document::read(text, Format::Text, check)?;
            let units = units(&document, unit, &self.tokens, check)?;
            Ok(units.windows(windows).iter().map(|window| page.chars(units.span(window))).collect())
        })
    }

    /// What a text counts in a budget of tokens.
    pub(super) fn budgeted(&self, text: &str, call: &Call) -> Result<usize> {
        call.token_counter().map_or_else(|| self.tokens.budgeted(text), |count| count(text))
    }
}

/// Parses the pages that are neither cached nor duplicates.
pub(super) fn prepare<'text, 'document>(
    context: &mut CallContext<'_, 'text>,
    read: &'document ReadPages<'text>,
) -> Result<Vec<PreparedPage<'document>>>
where
    'text: 'document,
{
    let began = Instant::now();
    let (engine, question, request) = (context.engine, context.question, context.request);
    let ReadPages { documents, first, cached, .. } = read;
    let (call, parsing) = (context.call, context.parsing);
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
                None => Arc::new(ParsedPage::new(document, parsing, &engine.tokens, check)?),
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
