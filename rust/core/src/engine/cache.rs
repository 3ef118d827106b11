//! The cache: what was read of pages, with the vectors of their windows, so that a second query costs only itself.
//!
//! A reading is kept under the hash of all that it depends on: the page's text and layout, and how it was cut. The hash is
//! a cryptographic one, so that no page can be made to stand for another. The model and its type are the engine's own.
//! What was used longest ago goes first when the bytes do not suffice.

use std::sync::{Arc, Mutex, PoisonError};

use lru::LruCache;

use super::Question;
use super::reading::Reading;
use crate::formats::Document;

/// How much of the cache one page may fill: a single large page must not drive out all others.
const LARGEST_SHARE: usize = 4;

/// What a reading depends on, hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key([u8; 32]);

/// What was read of pages.
#[derive(Debug)]
pub(super) struct Cache {
    kept: Mutex<Kept>,
    /// The most bytes; 0 keeps nothing.
    most: usize,
}

#[derive(Debug)]
struct Kept {
    readings: LruCache<Key, Arc<Reading>>,
    state: CacheState,
}

/// How full a cache is, and how often it helped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheState {
    /// Pages that are kept.
    pub pages: usize,
    /// What they take.
    pub bytes: usize,
    /// Pages that were asked for and there.
    pub hits: u64,
    /// Pages that were asked for and not there.
    pub misses: u64,
}

impl Key {
    /// The key of a page that is cut in this way.
    pub(super) fn of(document: &Document, question: &Question) -> Self {
        let mut hasher = blake3::Hasher::new();
        let windows = [question.windows.highlight_length(), question.windows.step_size()];
        for number in
            [question.unit as usize, usize::from(question.encodes_units()), usize::from(question.lexical.may_count())]
                .into_iter()
                .chain(windows)
        {
            hasher.update(&(number as u64).to_le_bytes());
        }
        // The same text is cut in other ways where its source lays it out in others.
        hasher.update(&[document.format() as u8]);
        for block in document.blocks().unwrap_or_default() {
            hasher.update(&[block.kind as u8, u8::from(block.goes_on)]);
            hasher.update(&(block.span.start as u64).to_le_bytes()).update(&(block.span.end as u64).to_le_bytes());
        }
        for link in document.links() {
            hasher.update(&(link.start as u64).to_le_bytes()).update(&(link.end as u64).to_le_bytes());
        }
        hasher.update(document.text().as_bytes());
        Self(*hasher.finalize().as_bytes())
    }
}

impl Cache {
    /// A cache of at most so many bytes.
    pub(super) fn new(most: usize) -> Self {
        Self { kept: Mutex::new(Kept { readings: LruCache::unbounded(), state: CacheState::default() }), most }
    }

    /// Whether anything is kept at all.
    pub(super) const fn keeps(&self) -> bool {
        self.most > 0
    }

    /// Whether a page of so many bytes would be kept.
    pub(super) const fn has_room_for(&self, bytes: usize) -> bool {
        bytes <= self.most / LARGEST_SHARE
    }

    pub(super) fn get(&self, key: &Key) -> Option<Arc<Reading>> {
        if !self.keeps() {
            return None;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.readings.get(key).cloned();
        let state = &mut kept.state;
        let count = if found.is_some() { &mut state.hits } else { &mut state.misses };
        *count += 1;
        found
    }

    /// Keeps a reading, and lets go of those that were used longest ago where it does not fit beside them.
    pub(super) fn insert(&self, key: Key, reading: Arc<Reading>) {
        if !self.has_room_for(reading.bytes()) {
            return;
        }
        let mut gone = Vec::new();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.state.bytes += reading.bytes();
        gone.extend(kept.readings.push(key, reading));
        if let Some((_, replaced)) = gone.first() {
            kept.state.bytes -= replaced.bytes();
        }
        while kept.state.bytes > self.most {
            let Some((key, oldest)) = kept.readings.pop_lru() else { break };
            kept.state.bytes -= oldest.bytes();
            gone.push((key, oldest));
        }
        kept.state.pages = kept.readings.len();
        drop(kept);
        // Freed here, where nobody waits for the lock.
        drop(gone);
    }

    pub(super) fn state(&self) -> CacheState {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).state
    }

    /// Lets go of everything.
    pub(super) fn clear(&self) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let readings = std::mem::replace(&mut kept.readings, LruCache::unbounded());
        kept.state = CacheState { pages: 0, bytes: 0, ..kept.state };
        drop(kept);
        drop(readings);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u8) -> Key {
        Key([number; 32])
    }

    #[test]
    fn what_was_used_longest_ago_goes_first_and_the_bytes_are_kept() {
        let reading = || Arc::new(Reading { vectors: Some(vec![0.0; 1000]), ..Reading::default() });
        let bytes = reading().bytes();
        let cache = Cache::new(4 * bytes);
        for number in 0..4 {
            cache.insert(key(number), reading());
        }
        assert!(cache.get(&key(0)).is_some());
        cache.insert(key(4), reading());
        assert!(cache.get(&key(1)).is_none(), "it was used longest ago");
        assert!(cache.get(&key(0)).is_some());
        assert_eq!(cache.state(), CacheState { pages: 4, bytes: 4 * bytes, hits: 2, misses: 1 });
        cache.insert(key(4), reading());
        assert_eq!(cache.state().bytes, 4 * bytes, "the same page again takes nothing more");
        let large = Arc::new(Reading { vectors: Some(vec![0.0; 1100]), ..Reading::default() });
        cache.insert(key(5), large);
        assert!(cache.get(&key(5)).is_none(), "it is more than one page may take");
        cache.clear();
        assert_eq!((cache.state().pages, cache.state().bytes), (0, 0));
        let none = Cache::new(0);
        none.insert(key(0), reading());
        assert!(none.get(&key(0)).is_none());
        assert_eq!(none.state(), CacheState::default());
    }
}
