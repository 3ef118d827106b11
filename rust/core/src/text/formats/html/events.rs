//! The visible content of a page as a list: starts and ends of elements, and text.

use super::attributes::WhiteSpace;
use super::elements::ElementRole;
use crate::text::page::ByteSpan;

/// The visible content of a page, in order.
#[derive(Default)]
pub(super) struct Events {
    pub(super) list: Vec<Event>,
    /// The concatenated text of all [`Event::Decoded`].
    pub(super) decoded: String,
    /// The text of the first `title`.
    pub(super) title: Option<String>,
    /// Shown sources into which no element may be put, in order: text that is not searched for tags, formulas, and options.
    pub(super) closed: Vec<ByteSpan>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// An element starts, other than those below.
    Open(ElementRole),
    /// A table starts; `layout` if it only lays out the page.
    OpenTable { layout: bool },
    /// A cell starts; `names` its column or row.
    OpenCell { names: bool, columns: u8, rows: u8 },
    /// A button starts; `discloses` what follows it.
    OpenButton { discloses: bool },
    /// A style starts to apply.
    OpenWhiteSpace(WhiteSpace),
    /// A term starts, not its definition.
    OpenTerm,
    /// The innermost open element ends.
    Close,
    /// Text that is identical in the source.
    Text(ByteSpan),
    /// Text that differs from its source, such as a character reference; `text` is a span of [`Events::decoded`].
    Decoded { source: ByteSpan, text: ByteSpan },
    /// The span of its tag.
    LineBreak(ByteSpan),
    /// A block starts or ends.
    Boundary,
}

impl Event {
    /// Whether it is in a line of text, or the end of something.
    pub(super) const fn is_in_line(&self) -> bool {
        match self {
            Self::Open(role) => role.is_inline(),
            Self::OpenTable { .. } | Self::OpenCell { .. } | Self::OpenTerm | Self::Boundary => false,
            _ => true,
        }
    }
}
