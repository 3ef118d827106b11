//! Elements: what each name of HTML means for the tree and for the text.
//!
//! Follows <https://html.spec.whatwg.org/multipage/parsing.html> (which elements end which) and its chapter on rendering
//! (which are blocks, which are not shown).

use html5gum::State;

/// What an element does in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Part of a line; what nobody knows is one, too.
    Inline,
    /// A link.
    Anchor,
    /// A block that may hold others.
    Block,
    /// `div` or `address`: a block that does not keep a new list item from ending the one around it.
    Division,
    /// A block that begins a part of the page; a heading that was not closed ends before it.
    Section,
    /// `p`.
    Paragraph,
    /// `h1`.
    MainHeading,
    /// `h2` to `h6`.
    Heading,
    /// A list.
    List,
    /// `li`.
    Item,
    /// `dt` or `dd`.
    Term,
    /// `pre` and its forerunners.
    Pre,
    /// `table`.
    Table,
    /// `tbody` and its kind.
    RowGroup,
    /// `tr`.
    Row,
    /// `td` or `th`.
    Cell,
    /// `caption`.
    Caption,
    /// `svg`: a drawing, not shown, with rules of its own for what is in it.
    Drawing,
    /// `math`: with rules of its own for what is in it.
    Math,
    /// `option` or `optgroup`: not shown, and ended by the next one.
    Choice,
    /// Not shown, with all that is in it.
    Hidden,
    /// `title`: not shown, but kept.
    Title,
    /// `br`.
    LineBreak,
    /// `hr`.
    Rule,
    /// Has no content, and shows no text.
    Void,
    /// Where it starts and ends makes no difference: `html`, `head`, `body`.
    Ignored,
}

impl Role {
    /// Whether a new one ends an open paragraph.
    pub(super) const fn ends_paragraph(self) -> bool {
        matches!(
            self,
            Self::Block
                | Self::Division
                | Self::Section
                | Self::Paragraph
                | Self::MainHeading
                | Self::Heading
                | Self::List
                | Self::Item
                | Self::Term
                | Self::Pre
                | Self::Table
                | Self::Rule
        )
    }

    /// Whether an end tag of an inline element reaches behind it.
    pub(super) const fn is_inline(self) -> bool {
        matches!(self, Self::Inline | Self::Anchor)
    }

    /// Whether an item of a list inside it is not one of the list around it.
    pub(super) const fn keeps_items_apart(self) -> bool {
        !self.is_inline() && !matches!(self, Self::Division | Self::Paragraph | Self::Item | Self::Term)
    }

    /// Whether nothing in it is shown.
    pub(super) const fn is_hidden(self) -> bool {
        matches!(self, Self::Drawing | Self::Choice | Self::Hidden | Self::Title)
    }

    /// How many roles there are.
    pub(super) const COUNT: usize = Self::Ignored as usize + 1;
}

/// The role of an element.
pub(super) fn role(name: &[u8]) -> Role {
    match name {
        b"a" => Role::Anchor,
        b"address" | b"div" => Role::Division,
        b"blockquote" | b"center" | b"details" | b"dialog" | b"fieldset" | b"figcaption" | b"figure" | b"form"
        | b"hgroup" | b"legend" | b"marquee" | b"search" | b"summary" => Role::Block,
        b"article" | b"aside" | b"footer" | b"header" | b"main" | b"nav" | b"section" => Role::Section,
        b"p" => Role::Paragraph,
        b"h1" => Role::MainHeading,
        b"h2" | b"h3" | b"h4" | b"h5" | b"h6" => Role::Heading,
        b"dir" | b"dl" | b"menu" | b"ol" | b"ul" => Role::List,
        b"li" => Role::Item,
        b"dd" | b"dt" => Role::Term,
        b"listing" | b"plaintext" | b"pre" | b"xmp" => Role::Pre,
        b"table" => Role::Table,
        b"tbody" | b"tfoot" | b"thead" => Role::RowGroup,
        b"tr" => Role::Row,
        b"td" | b"th" => Role::Cell,
        b"caption" => Role::Caption,
        b"svg" => Role::Drawing,
        b"math" => Role::Math,
        b"optgroup" | b"option" => Role::Choice,
        b"applet" | b"audio" | b"button" | b"canvas" | b"datalist" | b"iframe" | b"meter" | b"noembed"
        | b"noframes" | b"noscript" | b"object" | b"progress" | b"rp" | b"script" | b"select" | b"style"
        | b"template" | b"textarea" | b"video" => Role::Hidden,
        b"title" => Role::Title,
        b"br" => Role::LineBreak,
        b"hr" => Role::Rule,
        b"area" | b"base" | b"basefont" | b"bgsound" | b"col" | b"colgroup" | b"embed" | b"frame" | b"image"
        | b"img" | b"input" | b"keygen" | b"link" | b"meta" | b"param" | b"source" | b"track" | b"wbr" => Role::Void,
        b"body" | b"frameset" | b"head" | b"html" => Role::Ignored,
        _ => Role::Inline,
    }
}

/// How the tokenizer has to read what follows the start tag of an element, unless as always.
pub(super) fn content(name: &[u8]) -> Option<State> {
    match name {
        b"textarea" | b"title" => Some(State::RcData),
        b"iframe" | b"noembed" | b"noframes" | b"noscript" | b"style" | b"xmp" => Some(State::RawText),
        b"script" => Some(State::ScriptData),
        b"plaintext" => Some(State::PlainText),
        _ => None,
    }
}

/// Whether an element inside a drawing or mathematics holds HTML.
pub(super) fn holds_html(name: &[u8], root: Role) -> bool {
    match root {
        Role::Drawing => matches!(name, b"foreignobject" | b"desc" | b"title"),
        _ => matches!(name, b"annotation-xml" | b"mi" | b"mn" | b"mo" | b"ms" | b"mtext"),
    }
}

/// Whether the start tag of an element ends a drawing or mathematics: that one was left open.
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
