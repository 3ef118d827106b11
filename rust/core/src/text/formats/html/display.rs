//! How the style of an element changes what it is: a block or a part of a line, a part of a table, code.

use super::attributes::{Attributes, Display, WhiteSpace};
use super::elements::ElementRole;
use super::events::Event;

/// What a browser shows an element as.
pub(super) struct Shown {
    pub(super) role: ElementRole,
    /// Whether it is a part of a line in a block of its own.
    pub(super) is_boxed: bool,
    /// The start event of its white space.
    pub(super) white_space: Option<Event>,
}

impl Shown {
    /// `in_flex`: whether the element around it makes blocks of its children.
    pub(super) fn new(name: &[u8], role: ElementRole, attributes: &Attributes, in_flex: bool) -> Self {
        let Attributes { display, white_space, is_monospace, .. } = *attributes;
        let is_in_line = role.is_inline() || role == ElementRole::Button;
        let is_block = in_flex || matches!(display, Some(Display::Block | Display::Flex));
        let is_plain = matches!(role, ElementRole::Inline | ElementRole::Block | ElementRole::Division);
        let role = match display {
            _ if role == ElementRole::Pre && white_space == Some(WhiteSpace::Collapsed) => ElementRole::Block,
            Some(Display::Table) if is_plain => ElementRole::Table,
            Some(Display::Row) if is_plain => ElementRole::Row,
            Some(Display::Cell) if is_plain => ElementRole::Cell,
            Some(Display::Inline) if role.ends_paragraph() && !in_flex => ElementRole::Inline,
            _ => role,
        };
        let is_code = is_monospace || matches!(name, b"code" | b"kbd" | b"samp" | b"tt");
        let white_space = match white_space {
            Some(WhiteSpace::Preserved) if is_code && (!is_in_line || is_block) => Some(Event::Open(ElementRole::Pre)),
            kept => kept.filter(|_| role != ElementRole::Pre).map(Event::OpenWhiteSpace),
        };
        // A part of a table is a block itself.
        let is_boxed = is_in_line && is_block && (role.is_inline() || role == ElementRole::Button);
        Self { role, is_boxed, white_space }
    }
}
