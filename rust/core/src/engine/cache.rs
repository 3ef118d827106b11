//! The cache: what was read of pages, with the vectors of their windows, so that a second query costs only itself.
//!
//! A reading is kept under the hash of all that it depends on: the page's text and layout, and how it was cut. The hash is
//! a cryptographic one, so that no page can be made to stand for another. The model and its type are the engine's own.
//! What was used longest ago goes first when the bytes do not suffice.

use std::sync::{Arc, Mutex, PoisonError};

use lru::LruCache;

use super::Question;
use crate::ranking::reading::PageReading;
use crate::text::formats::Document;

/// How much of the cache one page may fill: a single large page must not drive out all others.
const LARGEST_SHARE: usize = 4;

/// What a reading depends on, hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key([u8; 32]);

/// What was read of pages.
#[derive(Debug)]
pub(super) struct Cache {
    kept: Mutex<State>,
    /// The most bytes; 0 keeps nothing.
    most: usize,
}

#[derive(Debug)]
struct State {
    pages: LruCache<Key, Arc<Kept>>,
    state: CacheState,
}

/// What is kept of a page.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) reading: Arc<PageReading>,
    pub(super) vectors: Vectors,
}

/// Vectors of some of a page's rows.
#[derive(Clone, Debug, Default)]
pub(super) struct Vectors {
    /// Which rows; in order, once they are kept.
    pub(super) rows: Vec<usize>,
    /// A vector for each, one behind the other.
    pub(super) values: Vec<f32>,
    /// Those of the rows that are longer than the model allows.
    pub(super) cut: Vec<usize>,
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
        for number in [
            question.unit as usize,
            usize::from(question.encodes_units()),
            usize::from(question.lexical_weight.may_count()),
        ]
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

impl Kept {
    /// What it takes in memory, nearly.
    fn bytes(&self) -> usize {
        self.reading.bytes() + self.vectors.bytes()
    }
}

impl Vectors {
    /// What so many of them take in memory.
    pub(super) const fn bytes_of(rows: usize, dimension: usize) -> usize {
        rows * (size_of::<usize>() + dimension * size_of::<f32>())
    }

    /// What they take in memory.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(self.rows.as_slice()) + size_of_val(self.values.as_slice()) + size_of_val(self.cut.as_slice())
    }

    /// Which of the vectors is a row's.
    pub(super) fn place(&self, row: usize) -> Option<usize> {
        self.rows.binary_search(&row).ok()
    }

    /// Whether a row is longer than the model allows.
    pub(super) fn is_cut(&self, row: usize) -> bool {
        self.cut.binary_search(&row).is_ok()
    }

    /// These and others, in the order of the rows.
    fn with(self, more: Self) -> Self {
        let rows = [self.rows, more.rows].concat();
        let values = [self.values, more.values].concat();
        let mut cut = [self.cut, more.cut].concat();
        cut.sort_unstable();
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_unstable_by_key(|place| rows[*place]);
        let dimension = values.len() / rows.len().max(1);
        let vector = |place: &usize| values[place * dimension..(place + 1) * dimension].iter().copied();
        let ordered = order.iter().flat_map(vector).collect();
        Self { values: ordered, rows: order.into_iter().map(|place| rows[place]).collect(), cut }
    }
}

impl Cache {
    /// A cache of at most so many bytes.
    pub(super) fn new(most: usize) -> Self {
        Self { kept: Mutex::new(State { pages: LruCache::unbounded(), state: CacheState::default() }), most }
    }

    /// Whether anything is kept at all.
    pub(super) const fn keeps(&self) -> bool {
        self.most > 0
    }

    /// Whether a page of so many bytes would be kept.
    pub(super) const fn has_room_for(&self, bytes: usize) -> bool {
        bytes <= self.most / LARGEST_SHARE
    }

    pub(super) fn get(&self, key: &Key) -> Option<Arc<Kept>> {
        if !self.keeps() {
            return None;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.pages.get(key).cloned();
        let state = &mut kept.state;
        let count = if found.is_some() { &mut state.hits } else { &mut state.misses };
        *count += 1;
        found
    }

    /// Keeps vectors of a page beside those that were known, and lets go of pages that were used longest ago where there is
    /// no room.
    pub(super) fn add(&self, key: Key, known: Option<&Kept>, reading: &Arc<PageReading>, fresh: Vectors) {
        let vectors = known.map(|kept| kept.vectors.clone()).unwrap_or_default().with(fresh);
        let page = Arc::new(Kept { reading: Arc::clone(reading), vectors });
        if !self.has_room_for(page.bytes()) {
            return;
        }
        let mut gone = Vec::new();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.state.bytes += page.bytes();
        gone.extend(kept.pages.push(key, page));
        if let Some((_, replaced)) = gone.first() {
            kept.state.bytes -= replaced.bytes();
        }
        while kept.state.bytes > self.most {
            let Some((key, oldest)) = kept.pages.pop_lru() else { break };
            kept.state.bytes -= oldest.bytes();
            gone.push((key, oldest));
        }
        kept.state.pages = kept.pages.len();
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
        let pages = std::mem::replace(&mut kept.pages, LruCache::unbounded());
        kept.state = CacheState { pages: 0, bytes: 0, ..kept.state };
        drop(kept);
        drop(pages);
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
        let vectors = |rows: usize| Vectors { rows: (0..rows).collect(), values: vec![0.0; rows], cut: Vec::new() };
        let reading = Arc::new(PageReading::default());
        let bytes = reading.bytes() + vectors(1000).bytes();
        let cache = Cache::new(4 * bytes);
        for number in 0..4 {
            cache.add(key(number), None, &reading, vectors(1000));
        }
        assert!(cache.get(&key(0)).is_some());
        cache.add(key(4), None, &reading, vectors(1000));
        assert!(cache.get(&key(1)).is_none(), "it was used longest ago");
        assert!(cache.get(&key(0)).is_some());
        assert_eq!(cache.state(), CacheState { pages: 4, bytes: 4 * bytes, hits: 2, misses: 1 });
        cache.add(key(4), None, &reading, vectors(1000));
        assert_eq!(cache.state().bytes, 4 * bytes, "the same page again takes nothing more");
        cache.add(key(5), None, &reading, vectors(1100));
        assert!(cache.get(&key(5)).is_none(), "it is more than one page may take");
        cache.clear();
        assert_eq!((cache.state().pages, cache.state().bytes), (0, 0));
        let none = Cache::new(0);
        none.add(key(0), None, &reading, vectors(1));
        assert!(none.get(&key(0)).is_none());
        assert_eq!(none.state(), CacheState::default());
    }

    #[test]
    fn vectors_that_come_later_take_their_place_among_those_that_are_known() {
        let known = Vectors { rows: vec![1, 4], values: vec![1.0, 1.5, 4.0, 4.5], cut: vec![4] };
        let more = Vectors { rows: vec![5, 2, 0], values: vec![5.0, 5.5, 2.0, 2.5, 0.0, 0.5], cut: vec![2] };
        let all = known.with(more);
        assert_eq!(all.rows, [0, 1, 2, 4, 5]);
        assert_eq!(all.values, [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 4.0, 4.5, 5.0, 5.5]);
        assert_eq!((all.place(4), all.place(3)), (Some(3), None));
        assert!(all.is_cut(2) && all.is_cut(4) && !all.is_cut(5));
    }
}
