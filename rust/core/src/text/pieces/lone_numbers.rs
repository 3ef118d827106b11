//! Numbers that markup puts into an element of their own, before the text or title that they count.

use std::borrow::Cow;

use crate::text::page::{Block, BlockKind, ByteSpan};

/// Digits of the longest such number.
const MAX_DIGITS: usize = 2;

/// The blocks of a page with markup, each lone number with the one that it counts: a title, or text that becomes an item.
pub(super) fn with_lone_numbers<'page>(text: &str, blocks: Cow<'page, [Block]>) -> Cow<'page, [Block]> {
    let number = |block: &Block| {
        let digits = block.span.of(text).trim_end_matches(['.', ')']);
        let is_number = block.kind == BlockKind::Prose && (1..=MAX_DIGITS).contains(&digits.len());
        digits.parse::<u8>().ok().filter(|_| is_number && block.level == 0)
    };
    let counts = |place: &usize| {
        let next = blocks.get(place + 1);
        number(&blocks[*place]).is_some()
            && next.is_some_and(|next| {
                matches!(next.kind, BlockKind::Prose | BlockKind::Heading) && number(next).is_none()
            })
    };
    let places: Vec<usize> = (0..blocks.len()).filter(counts).collect();
    let value = |place: usize| number(&blocks[place]).unwrap_or(0);
    let is_sequence = places.len() > 1
        && value(places[0]) == 1
        && places.windows(2).all(|pair| value(pair[1]) == value(pair[0]).saturating_add(1));
    if !is_sequence {
        return blocks;
    }
    let mut found: Vec<Block> = Vec::with_capacity(blocks.len());
    let mut places = places.into_iter().peekable();
    for (place, block) in blocks.iter().enumerate() {
        let own = found.last().copied().filter(|_| place > 0 && places.next_if_eq(&(place - 1)).is_some());
        let Some(mark) = own else {
            found.push(*block);
            continue;
        };
        found.pop();
        let is_text = block.kind == BlockKind::Prose;
        found.push(Block {
            span: ByteSpan { start: mark.span.start, end: block.span.end },
            kind: if is_text { BlockKind::Item } else { block.kind },
            level: if is_text { 1 } else { block.level },
            ends: mark.ends,
            ..*block
        });
    }
    Cow::Owned(found)
}
