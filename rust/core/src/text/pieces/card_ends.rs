//! Where the section of a bold line ends that stands above short lines, as of an address: it names no text below them.

use std::borrow::Cow;

use super::titles::WIDEST_OF_CARD;
use super::wrapping::{ends_sentence, width};
use crate::text::outline::has_blank_line;
use crate::text::page::{Block, BlockKind, ByteSpan};

/// Ends the section of a bold line above short lines, as of an address, with them: `**Bill to**`.
pub(super) fn with_card_ends<'page>(text: &str, layout: &'page [Block], has_markup: bool) -> Cow<'page, [Block]> {
    let mut layout = Cow::Borrowed(layout);
    let is_gap = |one: &Block, next: &Block| has_blank_line(&text[one.span.end..next.span.start]);
    for place in 0..layout.len() {
        let title = layout[place];
        let is_bold = title.kind == BlockKind::Heading && (has_markup || title.span.of(text).starts_with("**"));
        if !is_bold {
            continue;
        }
        let goes_on = |pair: &&[Block]| !is_gap(&pair[0], &pair[1]) && pair[1].kind == BlockKind::Prose;
        let below = place + 1 + layout[place..].windows(2).take_while(goes_on).count();
        if below == place + 1 || below == layout.len() || !is_gap(&layout[below - 1], &layout[below]) {
            continue;
        }
        let card = ByteSpan { start: layout[place + 1].span.start, end: layout[below - 1].span.end }.of(text);
        let ended = card.lines().filter(|line| ends_sentence(line)).count();
        let are_short = card.lines().count() > 1 && card.lines().all(|line| width(line) <= WIDEST_OF_CARD);
        let is_open = card.lines().next_back().is_some_and(|line| !ends_sentence(line));
        let is_text = !matches!(layout[below].kind, BlockKind::Heading | BlockKind::Item);
        if are_short && is_open && ended * 2 <= card.lines().count() && is_text {
            layout.to_mut()[below].ends = if title.level == 0 { u8::MAX } else { title.level };
        }
    }
    layout
}
