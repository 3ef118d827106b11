//! Where the section of a bold line ends that stands above short lines, as of an address: it names no text below them.

use std::borrow::Cow;

use super::wrapping::{ends_sentence, width};
use crate::text::outline::has_blank_line;
use crate::text::page::{Block, BlockKind};

/// Characters of the widest line of a card.
const WIDEST_OF_CARD: usize = 60;

/// Ends the section of a bold line above short lines, as of an address, with them: `**Bill to**`.
pub(super) fn with_card_ends<'page>(text: &str, layout: &'page [Block], has_markup: bool) -> Cow<'page, [Block]> {
    let mut layout = Cow::Borrowed(layout);
    for place in 2..layout.len() {
        let [title, card, below] = [layout[place - 2], layout[place - 1], layout[place]];
        let is_gap = |one: Block, next: Block| has_blank_line(&text[one.span.end..next.span.start]);
        let is_bold = title.kind == BlockKind::Heading && (has_markup || title.span.of(text).starts_with("**"));
        if !is_bold || card.kind != BlockKind::Prose || is_gap(title, card) || !is_gap(card, below) {
            continue;
        }
        let lines = || card.span.of(text).lines();
        let are_short = lines().count() > 1 && lines().all(|line| width(line) <= WIDEST_OF_CARD);
        let is_open = lines().next_back().is_some_and(|line| !ends_sentence(line))
            && lines().filter(|line| ends_sentence(line)).count() * 2 <= lines().count();
        if are_short && is_open && !matches!(below.kind, BlockKind::Heading | BlockKind::Item) {
            let level = if title.level == 0 { u8::MAX } else { title.level };
            layout.to_mut()[place].ends = level;
        }
    }
    layout
}
