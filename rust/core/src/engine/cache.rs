//! The cache: parsed pages and the vectors of their windows, so that a second query on a page encodes only the query;
//! and vectors of queries and titles, so that the same query is encoded once.
//!
//! The key is a hash of all that the entry depends on: the page's text and layout, and how it is cut; the token ids of
//! a query, with its prompt and truncated. The hash is cryptographic, so that no page can be crafted to collide with
//! another. Each engine has its own cache, for its model and dtype. The least recently used entries are evicted first.

use std::sync::{Arc, Mutex, MutexGuard};

use lru::LruCache;
use rustc_hash::FxHashMap;

use crate::error::Result;
use crate::ranking::maxsim::WindowTokens;
use crate::ranking::parsed_page::{ParsedPage, Parsing};
use crate::runtime::sync::lock;
use crate::text::formats::Document;

/// One entry may fill at most a quarter of the cache, so that a large page does not evict all others.
const ENTRY_FRACTION: usize = 4;

/// Keeps the hashes of rows apart from those of pages.
const ROW_CONTEXT: &str = "pullquote 2026-11-23 vector of a row of token ids";

/// And those of the rows of a reranker or a pruner, whose ids are of another tokenizer.
const PAIR_CONTEXT: &str = "pullquote 2026-11-26 values of a pair of texts";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct CacheKey([u8; 32]);

#[derive(Debug)]
pub(super) struct Cache {
    entries: Mutex<Entries>,
    /// 0 disables the cache.
    max_bytes: usize,
}

#[derive(Debug)]
struct Entries {
    by_key: LruCache<CacheKey, Entry>,
    state: CacheState,
}

#[derive(Debug)]
enum Entry {
    Page(Arc<CachedPage>),
    /// Of a query or a title; or a pair's score or labels.
    Vector(Arc<[f32]>),
}

#[derive(Clone, Debug)]
pub(super) struct CachedPage {
    pub(super) parsed: Arc<ParsedPage>,
    pub(super) vectors: RowVectors,
}

/// Vectors of some of a page's rows, or with late interaction those of their tokens.
#[derive(Clone, Debug, Default)]
pub(super) struct RowVectors {
    /// The rows' indexes; sorted once they are cached.
    pub(super) rows: Vec<usize>,
    /// Concatenated vectors, in the order of `rows`; empty with late interaction.
    pub(super) values: Vec<f32>,
    /// In the order of `rows`; empty without late interaction.
    pub(super) tokens: Vec<Arc<WindowTokens>>,
    /// The rows longer than the model's limit; sorted once they are cached.
    pub(super) truncated: Vec<usize>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheState {
    pub pages: usize,
    /// Cached vectors of queries and titles, and scores or labels of pairs.
    pub queries: usize,
    /// The approximate size of both in memory.
    pub bytes: usize,
    pub hits: u64,
    pub misses: u64,
}

impl CacheKey {
    pub(super) fn of_row(ids: &[i32]) -> Self {
        Self::of_ids(ROW_CONTEXT, ids)
    }

    pub(super) fn of_pair(ids: &[i32]) -> Self {
        Self::of_ids(PAIR_CONTEXT, ids)
    }

    fn of_ids(context: &str, ids: &[i32]) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key(context);
        for id in ids {
            hasher.update(&id.to_le_bytes());
        }
        Self(*hasher.finalize().as_bytes())
    }

    pub(super) fn of_page(document: &Document, parsing: Parsing) -> Self {
        let mut hasher = blake3::Hasher::new();
        let Parsing { unit, windows, encodes_units, uses_terms, keeps_tokens } = parsing;
        for number in [
            unit as usize,
            usize::from(encodes_units),
            usize::from(uses_terms),
            usize::from(keeps_tokens),
            windows.highlight_length(),
            windows.step_size(),
        ] {
            hasher.update(&(number as u64).to_le_bytes());
        }
        // The same text is cut differently if its source lays it out differently.
        hasher.update(&[document.format() as u8]);
        for block in document.blocks().unwrap_or_default() {
            hasher.update(&[block.kind as u8, u8::from(block.continues)]);
            hasher.update(&(block.span.start as u64).to_le_bytes()).update(&(block.span.end as u64).to_le_bytes());
        }
        for link in document.links() {
            hasher.update(&(link.start as u64).to_le_bytes()).update(&(link.end as u64).to_le_bytes());
        }
        hasher.update(document.text().as_bytes());
        Self(*hasher.finalize().as_bytes())
    }
}

impl Entry {
    fn bytes(&self) -> usize {
        match self {
            Self::Page(page) => page.parsed.bytes() + page.vectors.bytes(),
            Self::Vector(values) => size_of::<CacheKey>() + size_of_val(values.as_ref()),
        }
    }
}

impl Entries {
    fn add(&mut self, bytes: usize, is_page: bool) {
        let CacheState { pages, queries, bytes: all, .. } = &mut self.state;
        *if is_page { pages } else { queries } += 1;
        *all += bytes;
    }

    fn remove(&mut self, entry: &Entry) {
        let CacheState { pages, queries, bytes, .. } = &mut self.state;
        *if matches!(entry, Entry::Page(_)) { pages } else { queries } -= 1;
        *bytes -= entry.bytes();
    }
}

impl RowVectors {
    /// The size in memory of this number of rows.
    pub(super) const fn bytes_of(rows: usize, dimension: usize) -> usize {
        rows * (size_of::<usize>() + dimension * size_of::<f32>())
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(self.rows.as_slice())
            + size_of_val(self.values.as_slice())
            + self.tokens.iter().map(|tokens| size_of_val(tokens) + tokens.bytes()).sum::<usize>()
            + size_of_val(self.truncated.as_slice())
    }

    pub(super) fn position(&self, row: usize) -> Option<usize> {
        self.rows.binary_search(&row).ok()
    }

    pub(super) fn is_truncated(&self, row: usize) -> bool {
        self.truncated.binary_search(&row).is_ok()
    }

    /// Joins two sets of rows and sorts them.
    fn merge(self, more: Self) -> Self {
        let rows = [self.rows, more.rows].concat();
        let values = [self.values, more.values].concat();
        let tokens = [self.tokens, more.tokens].concat();
        let mut truncated = [self.truncated, more.truncated].concat();
        truncated.sort_unstable();
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_unstable_by_key(|index| rows[*index]);
        let dimension = values.len() / rows.len().max(1);
        let vector = |index: &usize| values[index * dimension..(index + 1) * dimension].iter().copied();
        let values = order.iter().flat_map(vector).collect();
        let tokens = order.iter().filter_map(|index| tokens.get(*index).cloned()).collect();
        Self { values, tokens, rows: order.into_iter().map(|index| rows[index]).collect(), truncated }
    }
}

impl Cache {
    pub(super) fn new(max_bytes: usize) -> Self {
        let entries = Entries { by_key: LruCache::unbounded(), state: CacheState::default() };
        Self { entries: Mutex::new(entries), max_bytes }
    }

    pub(super) const fn is_enabled(&self) -> bool {
        self.max_bytes > 0
    }

    /// Whether an entry of this size may be cached.
    pub(super) const fn admits(&self, bytes: usize) -> bool {
        bytes <= self.max_bytes / ENTRY_FRACTION
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        lock(&self.entries)
    }

    pub(super) fn page(&self, key: &CacheKey) -> Option<Arc<CachedPage>> {
        if !self.is_enabled() {
            return None;
        }
        let mut entries = self.lock();
        let page = match entries.by_key.get(key) {
            Some(Entry::Page(page)) => Some(Arc::clone(page)),
            _ => None,
        };
        let state = &mut entries.state;
        let count = if page.is_some() { &mut state.hits } else { &mut state.misses };
        *count += 1;
        page
    }

    /// The vectors of rows, each of its width. `encode` makes those that are not cached: concatenated, for these indexes
    /// of `keys`.
    pub(super) async fn vectors(
        &self,
        keys: &[CacheKey],
        width: impl Fn(usize) -> usize,
        encode: impl AsyncFnOnce(&[usize]) -> Result<Vec<f32>>,
    ) -> Result<Vec<Arc<[f32]>>> {
        let mut by_key: FxHashMap<CacheKey, Option<Arc<[f32]>>> = FxHashMap::default();
        let mut missing = Vec::new();
        for (row, key) in keys.iter().enumerate() {
            by_key.entry(*key).or_insert_with(|| {
                let cached = self.vector(key);
                missing.extend(cached.is_none().then_some(row));
                cached
            });
        }
        if !missing.is_empty() {
            let encoded = encode(&missing).await?;
            let mut rest = encoded.as_slice();
            for row in missing {
                let (values, later) = rest.split_at(width(row).min(rest.len()));
                rest = later;
                let values: Arc<[f32]> = values.into();
                self.insert(keys[row], Entry::Vector(Arc::clone(&values)));
                by_key.insert(keys[row], Some(values));
            }
        }
        Ok(keys.iter().filter_map(|key| by_key[key].clone()).collect())
    }

    fn vector(&self, key: &CacheKey) -> Option<Arc<[f32]>> {
        match self.lock().by_key.get(key) {
            Some(Entry::Vector(values)) => Some(Arc::clone(values)),
            _ => None,
        }
    }

    /// Caches a page with its known and new vectors, if it is admitted.
    pub(super) fn insert_page(
        &self,
        key: CacheKey,
        known: Option<&CachedPage>,
        parsed: &Arc<ParsedPage>,
        new: RowVectors,
    ) {
        let vectors = known.map(|page| page.vectors.clone()).unwrap_or_default().merge(new);
        self.insert(key, Entry::Page(Arc::new(CachedPage { parsed: Arc::clone(parsed), vectors })));
    }

    /// Evicts the least recently used entries to make room.
    fn insert(&self, key: CacheKey, entry: Entry) {
        if !self.admits(entry.bytes()) {
            return;
        }
        let mut evicted = Vec::new();
        let mut entries = self.lock();
        entries.add(entry.bytes(), matches!(entry, Entry::Page(_)));
        if let Some((_, replaced)) = entries.by_key.push(key, entry) {
            entries.remove(&replaced);
            evicted.push(replaced);
        }
        while entries.state.bytes > self.max_bytes {
            let Some((_, oldest)) = entries.by_key.pop_lru() else { break };
            entries.remove(&oldest);
            evicted.push(oldest);
        }
        drop(entries);
        // Large pages are freed without the lock.
        drop(evicted);
    }

    pub(super) fn state(&self) -> CacheState {
        self.lock().state
    }

    pub(super) fn clear(&self) {
        let mut entries = self.lock();
        let cleared = std::mem::replace(&mut entries.by_key, LruCache::unbounded());
        entries.state = CacheState { pages: 0, queries: 0, bytes: 0, ..entries.state };
        drop(entries);
        drop(cleared);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u8) -> CacheKey {
        CacheKey([number; 32])
    }

    #[test]
    fn the_least_recently_used_page_is_evicted_and_bytes_are_counted() {
        let vectors =
            |rows: usize| RowVectors { rows: (0..rows).collect(), values: vec![0.0; rows], ..RowVectors::default() };
        let parsed = Arc::new(ParsedPage::default());
        let bytes = parsed.bytes() + vectors(1000).bytes();
        let cache = Cache::new(4 * bytes);
        for number in 0..4 {
            cache.insert_page(key(number), None, &parsed, vectors(1000));
        }
        assert!(cache.page(&key(0)).is_some());
        cache.insert_page(key(4), None, &parsed, vectors(1000));
        assert!(cache.page(&key(1)).is_none(), "it was the least recently used");
        assert!(cache.page(&key(0)).is_some());
        assert_eq!(cache.state(), CacheState { pages: 4, queries: 0, bytes: 4 * bytes, hits: 2, misses: 1 });
        cache.insert_page(key(4), None, &parsed, vectors(1000));
        assert_eq!(cache.state().bytes, 4 * bytes, "a replaced page counts once");
        cache.insert_page(key(5), None, &parsed, vectors(1100));
        assert!(cache.page(&key(5)).is_none(), "it is larger than a page may be");
        cache.clear();
        assert_eq!((cache.state().pages, cache.state().bytes), (0, 0));
        let disabled = Cache::new(0);
        disabled.insert_page(key(0), None, &parsed, vectors(1));
        assert!(disabled.page(&key(0)).is_none());
        assert_eq!(disabled.state(), CacheState::default());
    }

    #[test]
    fn vectors_and_pages_share_the_budget() {
        let parsed = Arc::new(ParsedPage::default());
        let of_row = |number: u8| (CacheKey::of_row(&[number.into()]), Arc::<[f32]>::from([f32::from(number); 120]));
        let bytes = size_of::<CacheKey>() + 480;
        let cache = Cache::new(ENTRY_FRACTION * bytes);
        for (row, values) in [1, 2, 3, 4].map(of_row) {
            cache.insert(row, Entry::Vector(values));
        }
        assert_eq!(cache.state(), CacheState { queries: 4, bytes: 4 * bytes, ..CacheState::default() });
        assert!(cache.vector(&of_row(1).0).is_some());
        cache.insert_page(key(0), None, &parsed, RowVectors::default());
        assert_eq!(cache.vector(&of_row(1).0), Some(of_row(1).1));
        assert_eq!(cache.vector(&of_row(2).0), None, "it was the least recently used");
        assert!(cache.page(&key(0)).is_some());
        assert_eq!((cache.state().pages, cache.state().queries), (1, 3));
        cache.clear();
        assert_eq!(cache.vector(&of_row(1).0), None);
        assert_eq!(cache.state(), CacheState { hits: 1, ..CacheState::default() });
    }

    #[test]
    fn merged_vectors_are_sorted_by_row() {
        let known = RowVectors {
            rows: vec![1, 4],
            values: vec![1.0, 1.5, 4.0, 4.5],
            truncated: vec![4],
            ..RowVectors::default()
        };
        let values = vec![5.0, 5.5, 2.0, 2.5, 0.0, 0.5];
        let more = RowVectors { rows: vec![5, 2, 0], values, truncated: vec![2], ..RowVectors::default() };
        let all = known.merge(more);
        assert_eq!(all.rows, [0, 1, 2, 4, 5]);
        assert_eq!(all.values, [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 4.0, 4.5, 5.0, 5.5]);
        assert_eq!((all.position(4), all.position(3)), (Some(3), None));
        assert!(all.is_truncated(2) && all.is_truncated(4) && !all.is_truncated(5));
    }
}
