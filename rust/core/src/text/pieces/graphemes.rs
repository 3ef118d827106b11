//! Grapheme clusters: what readers see as one character. No unit ends inside one that has a size for readers, and very
//! long words are split between them.

use icu_segmenter::iterators::GraphemeClusterBreakIterator;
use icu_segmenter::scaffold::Utf8;
use icu_segmenter::{GraphemeClusterSegmenter, GraphemeClusterSegmenterBorrowed};

use crate::text::page::{ByteSpan, boundary_from};

/// Bytes of the longest word or token that is a unit: more than links usually have. A megabyte of base64 is one word, and
/// for some tokenizers one token.
const MAX_WORD_BYTES: usize = 256;

static GRAPHEMES: GraphemeClusterSegmenterBorrowed<'static> = GraphemeClusterSegmenter::new();

/// Finds whether a grapheme cluster ends at a position. Positions must not decrease.
///
/// Clusters are segmented only where the two neighbouring characters do not decide, and each at most once.
pub(super) struct Clusters<'text> {
    text: &'text str,
    /// A cluster boundary at or before all later positions.
    known: usize,
    /// Boundaries after `known`, relative to it; `None` until needed.
    walk: Option<GraphemeClusterBreakIterator<'static, 'text, Utf8>>,
    /// The last boundary that the walk returned.
    reached: usize,
}

impl<'text> Clusters<'text> {
    pub(super) fn new(text: &'text str) -> Self {
        Self { text, known: 0, walk: None, reached: 0 }
    }

    /// Whether the text may be cut here: between two clusters, or next to white space, which units never start or end
    /// with.
    pub(super) fn may_cut(&mut self, position: usize) -> bool {
        let (before, after) = self.text.split_at(position);
        let (Some(left), Some(right)) = (before.chars().next_back(), after.chars().next()) else { return true };
        if left.is_whitespace() || right.is_whitespace() || (left.is_ascii() && right.is_ascii()) {
            (self.known, self.walk) = (position, None);
            return true;
        }
        let known = self.known;
        let walk = self.walk.get_or_insert_with(|| {
            self.reached = known;
            GRAPHEMES.segment_str(&self.text[known..])
        });
        while self.reached < position {
            let Some(next) = walk.next() else { break };
            self.reached = known + next;
        }
        self.reached == position
    }
}

/// The last end of a cluster within the first `limit` bytes. A longer cluster is cut there: a letter with a million marks
/// is nothing that readers see.
pub(super) fn last_cluster_end(text: &str, limit: usize) -> usize {
    if limit >= text.len() {
        return text.len();
    }
    // The character after the limit decides whether a cluster ends there.
    let seen = &text[..boundary_from(text, limit + 1)];
    let end = GRAPHEMES.segment_str(seen).take_while(|&end| end <= limit).last().filter(|&end| end > 0);
    end.or_else(|| (1..=limit).rev().find(|&at| text.is_char_boundary(at))).unwrap_or(seen.len())
}

/// Adds a word or a token to the units, in parts of at most [`MAX_WORD_BYTES`]. Adds nothing for white space.
pub(crate) fn push_word(text: &str, word: ByteSpan, units: &mut Vec<ByteSpan>) {
    let mut rest = word.trimmed(text);
    while rest.len() > MAX_WORD_BYTES {
        let end = last_cluster_end(rest.of(text), MAX_WORD_BYTES);
        let part = ByteSpan { start: rest.start, end: rest.start + end };
        rest = ByteSpan { start: part.end, ..rest }.trimmed(text);
        units.push(part.trimmed(text));
    }
    if !rest.is_empty() {
        units.push(rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn cuts_away_from_white_space_are_cluster_boundaries(
            text in "\\PC{0,60}|[ae\u{301}\u{200d}👩🏽🇩🇪한각क्ष \r\n]{0,60}",
        ) {
            let boundaries: Vec<usize> = GRAPHEMES.segment_str(&text).collect();
            let mut clusters = Clusters::new(&text);
            for (position, right) in text.char_indices().skip(1) {
                let at_space = right.is_whitespace() || text[..position].ends_with(char::is_whitespace);
                let expected = at_space || boundaries.contains(&position);
                prop_assert_eq!(clusters.may_cut(position), expected, "at {}", position);
            }
        }
    }
}
