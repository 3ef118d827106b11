//! Short paragraphs: who quotes the start of one goes on to its end, if that is less than another window.

use std::ops::Range;

use super::{Leaf, span};
use crate::text::page::{BlockKind, ByteSpan};
use crate::text::pieces::marks::is_east_asian;

/// Characters of a short paragraph. An East Asian one says as much as three others.
const MAX_CHARS: usize = 300;

/// The units of each short paragraph of several sentences, in order. The only paragraph of a page says nothing about what
/// belongs together.
pub(crate) fn short_paragraphs(text: &str, spans: &[ByteSpan], leaves: &[Leaf]) -> Vec<Range<usize>> {
    let is_short = |paragraph: &ByteSpan| {
        // At most four bytes each.
        let weight = |c: char| if is_east_asian(c) { 3 } else { 1 };
        paragraph.len() <= 4 * MAX_CHARS && paragraph.of(text).chars().map(weight).sum::<usize>() <= MAX_CHARS
    };
    let paragraphs = leaves.iter().filter(|leaf| leaf.kind == BlockKind::Prose && leaf.units.len() > 1);
    let units = paragraphs.map(|leaf| leaf.units.clone()).filter(|units| units.len() < spans.len());
    units.filter(|units| is_short(&span(spans, units))).collect()
}
