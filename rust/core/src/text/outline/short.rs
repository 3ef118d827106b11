//! Short paragraphs: who quotes a part of one quotes all of it, if the rest is less than another window.

use std::ops::Range;

use super::{Leaf, span};
use crate::text::page::{BlockKind, ByteSpan};
use crate::text::pieces::marks::is_east_asian;

/// Characters of a short paragraph. An East Asian one says as much as three others.
const MAX_CHARS: usize = 300;

/// The units of each short paragraph of several sentences, in order.
pub(crate) fn short_paragraphs(text: &str, spans: &[ByteSpan], leaves: &[Leaf]) -> Vec<Range<usize>> {
    let is_short = |paragraph: &ByteSpan| {
        // At most four bytes each.
        let weight = |c: char| if is_east_asian(c) { 3 } else { 1 };
        paragraph.len() <= 4 * MAX_CHARS && paragraph.of(text).chars().map(weight).sum::<usize>() <= MAX_CHARS
    };
    let paragraphs = leaves.iter().filter(|leaf| leaf.kind == BlockKind::Prose && leaf.units.len() > 1);
    paragraphs.map(|leaf| leaf.units.clone()).filter(|units| is_short(&span(spans, units))).collect()
}
