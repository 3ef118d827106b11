//! The elements of HTML and their effects on tree and text.
//!
//! Follows <https://html.spec.whatwg.org/multipage/parsing.html> (which elements end which) and its chapter on
//! rendering (which are blocks, which are hidden).

use html5gum::State;

/// The effect of an element on the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ElementRole {
    /// Part of a line; also every unknown element.
    Inline,
    /// `a`.
    Anchor,
    /// `b` or `strong`.
    Strong,
    Cite,
    /// `sup`.
    Superscript,
    /// `sub`.
    Subscript,
    Ruby,
    /// `rt` or `rtc`: how the text before it in `ruby` is read.
    Reading,
    /// `rp`: the parenthesis around a reading, which a browser shows as layout.
    Parenthesis,
    Button,
    /// `select`, of which only its options are shown.
    Select,
    /// `option` or `optgroup`, which the next one ends.
    Choice,
    /// A block that may contain others.
    Block,
    /// `blockquote`.
    Quote,
    /// `details`, and the same for its content.
    Details,
    Summary,
    Figure,
    /// `figcaption`.
    FigureCaption,
    /// `footer`.
    Footer,
    /// `div` or `address`: a block inside which a new list item still ends the open one.
    Division,
    /// A block that starts a section of the page, and ends an unclosed heading before it.
    Section,
    /// `p`.
    Paragraph,
    Heading1,
    Heading2,
    Heading3,
    Heading4,
    Heading5,
    Heading6,
    /// `ul`, `ol`, `dl` and the like.
    List,
    /// `li`.
    Item,
    /// `dt` or `dd`.
    Term,
    /// `pre` and its obsolete variants.
    Pre,
    Table,
    /// `tbody`, `thead` or `tfoot`.
    RowGroup,
    /// `tr`.
    Row,
    /// `td` or `th`.
    Cell,
    Caption,
    /// `svg`: hidden, with parsing rules of its own for its content.
    Drawing,
    /// `math`: with parsing rules of its own for its content.
    Math,
    /// Hidden with its content.
    Hidden,
    /// `title`: hidden, but stored.
    Title,
    /// `br`.
    LineBreak,
    /// `hr`.
    Rule,
    /// Has no content and no text.
    Void,
    /// `html`, `head`, `body`: ignored wherever it starts and ends.
    Ignored,
}

impl ElementRole {
    /// Whether its start ends an open paragraph.
    pub(super) const fn ends_paragraph(self) -> bool {
        matches!(
            self,
            Self::Block
                | Self::Quote
                | Self::Details
                | Self::Summary
                | Self::Figure
                | Self::FigureCaption
                | Self::Footer
                | Self::Division
                | Self::Section
                | Self::Paragraph
                | Self::List
                | Self::Item
                | Self::Term
                | Self::Pre
                | Self::Table
                | Self::Rule
        ) || self.heading_level() > 0
    }

    /// The level of a heading, from 1; else 0.
    pub(super) const fn heading_level(self) -> u8 {
        match self {
            Self::Heading1 => 1,
            Self::Heading2 => 2,
            Self::Heading3 => 3,
            Self::Heading4 => 4,
            Self::Heading5 => 5,
            Self::Heading6 => 6,
            _ => 0,
        }
    }

    /// Whether end tags of inline elements may close elements outside it.
    pub(super) const fn is_inline(self) -> bool {
        matches!(
            self,
            Self::Inline
                | Self::Anchor
                | Self::Strong
                | Self::Cite
                | Self::Superscript
                | Self::Subscript
                | Self::Ruby
                | Self::Reading
                | Self::Parenthesis
        )
    }

    /// Whether it is a title if it looks like one.
    pub(super) const fn may_be_title(self) -> bool {
        matches!(self, Self::Inline | Self::Anchor | Self::Division | Self::Paragraph)
    }

    /// Whether a list item inside it leaves a list item around it open.
    pub(super) const fn keeps_items_apart(self) -> bool {
        !self.is_inline() && !matches!(self, Self::Division | Self::Paragraph | Self::Item | Self::Term)
    }

    /// Whether its content is invisible.
    pub(super) const fn is_hidden(self) -> bool {
        matches!(self, Self::Drawing | Self::Hidden | Self::Title)
    }

    pub(super) const HEADINGS: [Self; 6] =
        [Self::Heading1, Self::Heading2, Self::Heading3, Self::Heading4, Self::Heading5, Self::Heading6];

    pub(super) const COUNT: usize = Self::Ignored as usize + 1;
}

/// Maps the name of an element to its role.
pub(super) fn role(name: &[u8]) -> ElementRole {
    match name {
        b"a" => ElementRole::Anchor,
        b"address" | b"div" => ElementRole::Division,
        b"b" | b"strong" => ElementRole::Strong,
        b"cite" => ElementRole::Cite,
        b"sup" => ElementRole::Superscript,
        b"sub" => ElementRole::Subscript,
        b"ruby" => ElementRole::Ruby,
        b"rt" | b"rtc" => ElementRole::Reading,
        b"rp" => ElementRole::Parenthesis,
        b"button" => ElementRole::Button,
        b"select" => ElementRole::Select,
        b"blockquote" => ElementRole::Quote,
        b"details" => ElementRole::Details,
        b"summary" => ElementRole::Summary,
        b"figure" => ElementRole::Figure,
        b"figcaption" => ElementRole::FigureCaption,
        b"footer" => ElementRole::Footer,
        b"center" | b"dialog" | b"fieldset" | b"form" | b"header" | b"hgroup" | b"legend" | b"marquee" | b"search" => {
            ElementRole::Block
        }
        b"article" | b"aside" | b"main" | b"nav" | b"section" => ElementRole::Section,
        b"p" => ElementRole::Paragraph,
        b"h1" => ElementRole::Heading1,
        b"h2" => ElementRole::Heading2,
        b"h3" => ElementRole::Heading3,
        b"h4" => ElementRole::Heading4,
        b"h5" => ElementRole::Heading5,
        b"h6" => ElementRole::Heading6,
        b"dir" | b"dl" | b"menu" | b"ol" | b"ul" => ElementRole::List,
        b"li" => ElementRole::Item,
        b"dd" | b"dt" => ElementRole::Term,
        b"listing" | b"plaintext" | b"pre" | b"xmp" => ElementRole::Pre,
        b"table" => ElementRole::Table,
        b"tbody" | b"tfoot" | b"thead" => ElementRole::RowGroup,
        b"tr" => ElementRole::Row,
        b"td" | b"th" => ElementRole::Cell,
        b"caption" => ElementRole::Caption,
        b"svg" => ElementRole::Drawing,
        b"math" => ElementRole::Math,
        b"optgroup" | b"option" => ElementRole::Choice,
        b"applet" | b"audio" | b"canvas" | b"datalist" | b"iframe" | b"meter" | b"noembed" | b"noframes"
        | b"noscript" | b"object" | b"progress" | b"script" | b"style" | b"template" | b"textarea" | b"video" => {
            ElementRole::Hidden
        }
        b"title" => ElementRole::Title,
        b"br" => ElementRole::LineBreak,
        b"hr" => ElementRole::Rule,
        b"area" | b"base" | b"basefont" | b"bgsound" | b"col" | b"colgroup" | b"embed" | b"frame" | b"image"
        | b"img" | b"input" | b"keygen" | b"link" | b"meta" | b"param" | b"source" | b"track" | b"wbr" => {
            ElementRole::Void
        }
        b"body" | b"frameset" | b"head" | b"html" => ElementRole::Ignored,
        _ => ElementRole::Inline,
    }
}

/// The state of the tokenizer after the element's start tag; `None` for the usual one.
pub(super) fn content(name: &[u8]) -> Option<State> {
    match name {
        b"textarea" | b"title" => Some(State::RcData),
        b"iframe" | b"noembed" | b"noframes" | b"noscript" | b"style" | b"xmp" => Some(State::RawText),
        b"script" => Some(State::ScriptData),
        b"plaintext" => Some(State::PlainText),
        _ => None,
    }
}

/// Whether an element inside `svg` or `math` contains HTML.
pub(super) fn holds_html(name: &[u8], root: ElementRole) -> bool {
    match root {
        ElementRole::Drawing => matches!(name, b"foreignobject" | b"desc" | b"title"),
        _ => matches!(name, b"annotation-xml" | b"mi" | b"mn" | b"mo" | b"ms" | b"mtext"),
    }
}

/// Whether the start tag of an element ends an unclosed `svg` or `math`.
pub(super) fn ends_foreign(name: &[u8]) -> bool {
    matches!(
        name,
        b"b" | b"big"
            | b"blockquote"
            | b"body"
            | b"br"
            | b"center"
            | b"code"
            | b"dd"
            | b"div"
            | b"dl"
            | b"dt"
            | b"em"
            | b"embed"
            | b"h1"
            | b"h2"
            | b"h3"
            | b"h4"
            | b"h5"
            | b"h6"
            | b"head"
            | b"hr"
            | b"i"
            | b"img"
            | b"li"
            | b"listing"
            | b"menu"
            | b"meta"
            | b"nobr"
            | b"ol"
            | b"p"
            | b"pre"
            | b"ruby"
            | b"s"
            | b"small"
            | b"span"
            | b"strong"
            | b"strike"
            | b"sub"
            | b"sup"
            | b"table"
            | b"tt"
            | b"u"
            | b"ul"
            | b"var"
    )
}
