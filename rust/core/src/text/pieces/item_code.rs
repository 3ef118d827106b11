//! Code between two items of a list, which belongs to the first one although it stands at the left edge: `1. Build:`, a fence,
//! `2. Restart.`

use std::borrow::Cow;

use super::list_marks::Mark;
use crate::text::page::{Block, BlockKind};

/// Gives code between two items with consecutive numbers the level of these.
pub(super) fn with_item_code<'page>(text: &str, layout: &'page [Block]) -> Cow<'page, [Block]> {
    let mut layout = Cow::Borrowed(layout);
    let mut last: Option<Block> = None;
    let mut place = 0;
    while place < layout.len() {
        let block = layout[place];
        let mark = |block: &Block| Mark::at_start(block.span.of(text)).filter(|_| block.kind == BlockKind::Item);
        match block.kind {
            BlockKind::Item if block.continues => {}
            BlockKind::Item => last = Some(block),
            BlockKind::Code if block.level == 0 => {
                let end = place + layout[place..].iter().take_while(|block| block.kind == BlockKind::Code).count();
                let next = layout.get(end).and_then(mark);
                let is_next = |mark: Mark<'_>| {
                    next.is_some_and(|next| next.style == mark.style && next.number.follows(mark.number))
                };
                if let Some(item) = last.filter(|item| mark(item).is_some_and(is_next)) {
                    layout.to_mut()[place..end].iter_mut().for_each(|code| code.level = item.level);
                }
                place = end;
                continue;
            }
            _ => last = None,
        }
        place += 1;
    }
    layout
}
