//! The documents of a call: the text of each page, which pages are equal, and which are cached.

use std::collections::HashMap;
use std::sync::Arc;

use super::cache::{CacheKey, CachedPage};
use super::context::CallContext;
use crate::error::Result;
use crate::runtime::profiling::Stage;
use crate::runtime::text_pool;
use crate::text::formats::{Document, Format};

/// A call's pages as read. Of equal ones, only the first is parsed and encoded.
pub(super) struct ReadPages<'text> {
    /// Plain text is only borrowed.
    pub(super) documents: Vec<Document<'text>>,
    /// Each page's cache key. `None` for a single page without a cache.
    pub(super) keys: Vec<Option<CacheKey>>,
    /// The first page equal to each page, often itself.
    pub(super) first: Vec<usize>,
    /// Each page's cache entry; `None` for duplicates.
    pub(super) cached: Vec<Option<Arc<CachedPage>>>,
}

/// Extracts the text of all sources, and finds equal and cached pages by their keys.
pub(super) fn read_documents<'text>(context: &mut CallContext<'_, 'text>) -> Result<ReadPages<'text>> {
    context.timed(Stage::Cut, |context| {
        let (request, cache, parsing) = (context.request, &context.engine.cache, context.parsing);
        let has_keys = cache.is_enabled() || request.pages.len() > 1;
        let pages: Vec<(Format, &str)> =
            request.pages.iter().enumerate().map(|(page, source)| (request.format(page), *source)).collect();
        let bytes = pages.iter().filter(|(format, _)| has_keys || *format != Format::Text).map(|(_, text)| text.len());
        let read = context.engine.pool.run(context.call, bytes.sum(), |check| {
            text_pool::map(&pages, |(format, source)| {
                check()?;
                let document = Document::read(source, *format, check)?;
                let key = has_keys.then(|| CacheKey::of_page(&document, parsing));
                Ok((document, key))
            })
        })?;
        let (documents, keys): (Vec<Document>, Vec<Option<CacheKey>>) = read.into_iter().unzip();
        let mut first_with: HashMap<CacheKey, usize> = HashMap::with_capacity(keys.len());
        let each = keys.iter().enumerate();
        let first = each.map(|(page, key)| key.map_or(page, |key| *first_with.entry(key).or_insert(page)));
        let first: Vec<usize> = first.collect();
        let entry =
            |(page, first): (usize, &usize)| keys[page].filter(|_| *first == page).and_then(|key| cache.page(&key));
        let cached = first.iter().enumerate().map(entry).collect();
        Ok(ReadPages { documents, keys, first, cached })
    })
}
