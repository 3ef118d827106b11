//! Sections that end with an element: a box in an article, an entry of a list.

use super::super::elements::ElementRole;
use super::{Frame, Writer};
use crate::text::page::BlockKind;

/// The level of a heading that has none of its own.
const UNKNOWN_LEVEL: u8 = u8::MAX;

/// What blocks an element has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Content {
    None,
    /// Short lines, as the link next to a heading is.
    Lines,
    /// Sentences, items, tables or code.
    Text,
}

/// The headings in an element, and what it has besides.
#[derive(Clone, Copy)]
pub(super) struct Sections {
    /// The outermost level of its headings; 0 without one. The title of a page names all of it.
    level: u8,
    content: Content,
    /// Below its first heading.
    below: Content,
}

/// Sections that end before the next block.
#[derive(Clone, Copy)]
pub(super) struct PendingEnd {
    level: u8,
    /// Of an element that may only lay out the page, the number of open elements around it: its sections end if the text
    /// goes on directly in the innermost one.
    flow: Option<usize>,
}

impl Sections {
    pub(super) const NONE: Self = Self { level: 0, content: Content::None, below: Content::None };

    pub(super) fn add(&mut self, kind: BlockKind, level: u8, is_sentence: bool) {
        let content = match kind {
            BlockKind::Heading if level == 1 => return,
            BlockKind::Heading => {
                let level = if level == 0 { UNKNOWN_LEVEL } else { level };
                self.level = if self.level == 0 { level } else { self.level.min(level) };
                return;
            }
            BlockKind::Prose if !is_sentence => Content::Lines,
            _ => Content::Text,
        };
        self.merge(Self { level: 0, content, below: Content::None });
    }

    /// Adds those of an element inside.
    fn merge(&mut self, inner: Self) {
        if self.level > 0 {
            self.below = self.below.max(inner.content);
        }
        self.below = self.below.max(inner.below);
        self.content = self.content.max(inner.content);
        self.level = match (self.level, inner.level) {
            (0, level) | (level, 0) => level,
            (one, other) => one.min(other),
        };
    }
}

impl PendingEnd {
    /// The level of the sections that end before a block in the open elements; 0 for none.
    pub(super) fn level_in(self, frames: &[Frame]) -> u8 {
        let Some(around) = self.flow else { return self.level };
        let goes_on = match frames.get(around) {
            None => frames.len() == around,
            Some(frame) => !matches!(frame.role, ElementRole::Division | ElementRole::Section | ElementRole::Block),
        };
        if goes_on { self.level } else { 0 }
    }
}

impl Writer<'_> {
    /// Ends the sections of an element that ended.
    pub(super) fn end_sections(&mut self, role: ElementRole, sections: Sections) {
        let is_layout = matches!(role, ElementRole::Division | ElementRole::Block);
        let is_box = matches!(
            role,
            ElementRole::Section
                | ElementRole::Quote
                | ElementRole::Figure
                | ElementRole::Footer
                | ElementRole::Item
                | ElementRole::Term
                | ElementRole::Cell
        );
        let least = if is_layout { Content::Text } else { Content::Lines };
        let ends = sections.level > 0 && sections.below >= least;
        if ends && (is_box || is_layout) {
            let flow = is_layout.then_some(self.frames.len());
            // That of an element around both ends more.
            let is_outer = |end: &PendingEnd| flow.is_some() && end.flow.is_none() && end.level <= sections.level;
            if !self.section_end.as_ref().is_some_and(is_outer) {
                self.section_end = Some(PendingEnd { level: sections.level, flow });
            }
        }
        let ended = ends && is_box;
        self.top_mut().sections.merge(if ended {
            Sections { level: 0, below: Content::None, ..sections }
        } else {
            sections
        });
    }
}
