//! Where in a page letters nearly equal to those of a quote end, in time linear in the page.
//!
//! Stretches of the page that share enough sequences of letters with the quote are found first (Ukkonen's q-gram filter); in
//! these, Myers' bit-parallel algorithm in Hyyrö's form for long patterns gives the edit distance at each position.

use rustc_hash::FxHashMap;

use super::letters::Letter;
use crate::error::Result;
use crate::runtime::call::{Check, Checkpoints};

/// The most letters that a quote may have; each 64 of them cost another step for each letter of a stretch.
pub(super) const LONGEST_QUOTE: usize = 20_000;

/// The most edits that are looked for, which bounds the memory of an alignment.
const MOST_EDITS: usize = 400;

/// Quotes with fewer letters stand only where all of them do.
const SHORTEST_NEAR: usize = 8;

/// Edits that a quote may be away from a place.
pub(super) fn most_edits(quote: usize) -> usize {
    if quote < SHORTEST_NEAR { 0 } else { (quote / 3).min(MOST_EDITS) }
}

/// A place's last letter, exclusive, and its edits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) at: usize,
    pub(super) edits: usize,
}

/// The ends of all places within [`most_edits`], in the order of the page.
///
/// # Errors
/// Those of `check`.
pub(super) fn ends(page: &[Letter], quote: &[Letter], check: &Check) -> Result<Vec<End>> {
    let limit = most_edits(quote.len());
    let mut found = Vec::new();
    for (start, end) in stretches(page, quote, check)? {
        Distances::new(quote).ends(&page[start..end], start, limit, check, &mut found)?;
    }
    Ok(found)
}

/// Sorted, disjoint parts of the page that have enough of the quote's sequences of letters.
fn stretches(page: &[Letter], quote: &[Letter], check: &Check) -> Result<Vec<(usize, usize)>> {
    let (limit, length) = (most_edits(quote.len()), if quote.len() < 64 { 4 } else { 6 });
    if quote.len() < SHORTEST_NEAR {
        return Ok(vec![(0, page.len())]);
    }
    let grams = quote.len() + 1 - length;
    let bits = (grams * 64).next_power_of_two().max(1 << 12);
    let mut known = vec![0_u64; bits / 64];
    let place = |hash: u64| usize::try_from(hash >> (64 - bits.trailing_zeros())).unwrap_or_default();
    let mut window = Window::new(length);
    for letter in quote {
        if let Some(hash) = window.push(letter.char) {
            known[place(hash) / 64] |= 1 << (place(hash) % 64);
        }
    }
    // An edit destroys up to `length` sequences, but edits of one word stand together.
    let needed = (grams * 7 / 20).max(1);
    let span = quote.len() + quote.len() / 4;
    let (mut window, mut hits, mut count) = (Window::new(length), vec![false; page.len()], 0);
    let (mut found, mut checkpoints): (Vec<(usize, usize)>, _) = (Vec::new(), Checkpoints::new(check));
    for (at, letter) in page.iter().enumerate() {
        checkpoints.reach(at)?;
        let is_hit =
            window.push(letter.char).is_some_and(|hash| known[place(hash) / 64] >> (place(hash) % 64) & 1 == 1);
        hits[at] = is_hit;
        count += usize::from(is_hit);
        if at >= span && hits[at - span] {
            count -= 1;
        }
        if is_hit && count >= needed {
            let (start, end) = (at.saturating_sub(span + limit), (at + span + limit).min(page.len()));
            match found.last_mut() {
                Some(last) if start <= last.1 => last.1 = end,
                _ => found.push((start, end)),
            }
        }
    }
    Ok(found)
}

/// The hashes of each few letters in a row.
struct Window {
    length: usize,
    recent: [u64; 8],
    seen: usize,
    hash: u64,
    /// The factor that the oldest letter has by the time it leaves.
    oldest: u64,
}

const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

impl Window {
    fn new(length: usize) -> Self {
        let oldest = (0..length).fold(1_u64, |power, _| power.wrapping_mul(FACTOR));
        Self { length, recent: [0; 8], seen: 0, hash: 0, oldest }
    }

    /// The hash of the last letters, once there are enough.
    fn push(&mut self, char: char) -> Option<u64> {
        let left = self.recent[(self.seen + 8 - self.length) % 8];
        self.recent[self.seen % 8] = u64::from(char);
        self.seen += 1;
        self.hash = self.hash.wrapping_mul(FACTOR).wrapping_add(u64::from(char));
        self.hash = self.hash.wrapping_sub(left.wrapping_mul(self.oldest));
        (self.seen >= self.length).then(|| self.hash.wrapping_mul(FACTOR))
    }
}

/// The last column of the matrix of edit distances, as differences of one, 64 in a word.
struct Distances {
    /// Where each character stands in the quote.
    matches: FxHashMap<char, Vec<u64>>,
    plus: Vec<u64>,
    minus: Vec<u64>,
    length: usize,
}

impl Distances {
    fn new(quote: &[Letter]) -> Self {
        let blocks = quote.len().div_ceil(64);
        let mut matches: FxHashMap<char, Vec<u64>> = FxHashMap::default();
        for (at, letter) in quote.iter().enumerate() {
            matches.entry(letter.char).or_insert_with(|| vec![0; blocks])[at / 64] |= 1 << (at % 64);
        }
        Self { matches, plus: vec![u64::MAX; blocks], minus: vec![0; blocks], length: quote.len() }
    }

    /// Adds the best end of each place of a stretch.
    fn ends(
        mut self,
        stretch: &[Letter],
        offset: usize,
        limit: usize,
        check: &Check,
        found: &mut Vec<End>,
    ) -> Result<()> {
        let none = vec![0; self.plus.len()];
        let (mut edits, mut best): (usize, Option<(End, bool)>) = (self.length, None);
        let mut checkpoints = Checkpoints::new(check);
        let mut step = 0;
        for (at, letter) in stretch.iter().enumerate() {
            step += self.plus.len();
            checkpoints.reach(step)?;
            let change =
                advance(&mut self.plus, &mut self.minus, self.matches.get(&letter.char).unwrap_or(&none), self.length);
            edits = edits.saturating_add_signed(change);
            let end = End { at: offset + at + 1, edits };
            // Of ends with as many edits, one of a whole word is better.
            let is_in_word = stretch.get(at + 1).is_some_and(|next| !next.starts_word);
            // The next place ends at least as many letters later as it has in common with the quote.
            let is_apart = best.is_some_and(|(best, _)| end.at >= best.at + self.length - limit);
            if is_apart {
                found.extend(best.take().map(|(best, _)| best));
            }
            if edits <= limit && best.is_none_or(|(best, in_word)| (edits, is_in_word) < (best.edits, in_word)) {
                best = Some((end, is_in_word));
            }
        }
        found.extend(best.map(|(best, _)| best));
        Ok(())
    }
}

/// Moves the column by one letter of the page; returns the change of its last distance.
fn advance(plus: &mut [u64], minus: &mut [u64], matches: &[u64], length: usize) -> isize {
    let mut carried: isize = 0;
    let last = plus.len() - 1;
    for (block, ((plus, minus), &equal)) in plus.iter_mut().zip(minus).zip(matches).enumerate() {
        let top = if block == last { 1_u64 << ((length - 1) % 64) } else { 1 << 63 };
        let vertical = equal | *minus;
        let equal = equal | u64::from(carried < 0);
        let horizontal = ((equal & *plus).wrapping_add(*plus) ^ *plus) | equal;
        let (mut up, mut down) = (*minus | !(horizontal | *plus), *plus & horizontal);
        let change = isize::from(up & top != 0) - isize::from(down & top != 0);
        up = up << 1 | u64::from(carried > 0);
        down = down << 1 | u64::from(carried < 0);
        *plus = down | !(vertical | up);
        *minus = up & vertical;
        carried = change;
    }
    carried
}
