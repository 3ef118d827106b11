//! Numbers and letters that markup puts into an element of their own, before the text or title that they count.

use std::borrow::Cow;

use super::list_marks::{Mark, Number, Style, System};
use crate::text::page::{Block, BlockKind, ByteSpan};

/// Bytes of the longest such mark.
const LONGEST: usize = 8;

/// Bytes of the longest number without a mark behind it.
const LONGEST_BARE: usize = 2;

/// The blocks of a page with markup, each lone mark with the one that it counts: a title, or text that becomes an item.
pub(super) fn with_lone_marks<'page>(text: &str, blocks: Cow<'page, [Block]>) -> Cow<'page, [Block]> {
    let lone = |block: &Block| {
        let own = block.span.of(text);
        let may_be = matches!(block.kind, BlockKind::Prose | BlockKind::Item) && own.len() <= LONGEST;
        if may_be { mark(own) } else { None }
    };
    let is_text = |block: &Block| {
        matches!(block.kind, BlockKind::Prose | BlockKind::Heading | BlockKind::Item) && lone(block).is_none()
    };
    // The marks, with their places.
    let mut marks: Vec<(usize, Style<'static>, Number)> = Vec::new();
    for (place, block) in blocks.iter().enumerate() {
        let next = blocks.get(place + 1);
        if let Some((style, number)) = lone(block).filter(|_| next.is_some_and(is_text)) {
            marks.push((place, style, number));
        }
    }
    let follows =
        |one: &(usize, Style<'_>, Number), next: &(usize, Style<'_>, Number)| one.1 == next.1 && next.2.follows(one.2);
    let sequences = marks.chunk_by(follows).filter(|sequence| sequence.len() > 1 && sequence[0].2.is_first());
    let places: Vec<usize> = sequences.flatten().map(|(place, ..)| *place).collect();
    if places.is_empty() {
        return blocks;
    }
    let mut found: Vec<Block> = Vec::with_capacity(blocks.len());
    let mut places = places.into_iter().peekable();
    for (place, block) in blocks.iter().enumerate() {
        let is_marked = place > 0 && places.next_if_eq(&(place - 1)).is_some();
        let Some(mark) = is_marked.then(|| found.pop()).flatten() else {
            found.push(*block);
            continue;
        };
        let is_text = block.kind == BlockKind::Prose;
        found.push(Block {
            span: ByteSpan { start: mark.span.start, end: block.span.end },
            kind: if is_text { BlockKind::Item } else { block.kind },
            level: if is_text { 1 } else { block.level },
            continues: mark.continues,
            ends: mark.ends,
        });
    }
    Cow::Owned(found)
}

/// The style and number of a mark that is all of a text.
fn mark(text: &str) -> Option<(Style<'static>, Number)> {
    // A mark stands before something.
    let text_with_word = format!("{text} A");
    let found = Mark::at_start(&text_with_word)?;
    let is_whole = found.end == text.len() && found.style.label.is_empty() && found.style.system != System::Bullet;
    (is_whole && (!found.is_bare() || text.len() <= LONGEST_BARE)).then(|| (found.style.without_label(), found.number))
}
