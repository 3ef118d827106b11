//! The attributes of a start tag that change what a browser shows, among them the declarations of `style`.

/// What the attributes of one element say.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Attributes {
    /// Whether neither the element nor what is in it is shown.
    pub(super) hides: bool,
    /// `visibility`, which an element inside may set again.
    pub(super) is_visible: Option<bool>,
    pub(super) display: Option<Display>,
    pub(super) white_space: Option<WhiteSpace>,
    pub(super) is_monospace: bool,
    /// Whether its style, class or role shows it as a title is shown.
    pub(super) is_bold: bool,
    /// `aria-hidden`: not for screen readers, but shown.
    pub(super) is_aria_hidden: bool,
    /// Whether its class says that only screen readers have it.
    pub(super) is_for_screen_readers: bool,
    /// Whether its class says that it is a picture, whose text names a glyph.
    pub(super) is_icon: bool,
    /// Whether it opens and closes what follows it, as the header of an accordion does.
    pub(super) discloses: bool,
    /// Whether its role says that a table only lays out the page.
    pub(super) is_presentation: bool,
    /// Whether its role is a window or menu over the page.
    pub(super) is_overlay: bool,
    pub(super) is_open: bool,
    /// The columns and rows of a cell.
    pub(super) columns: u8,
    pub(super) rows: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Display {
    Inline,
    Block,
    /// Its children are blocks.
    Flex,
    Table,
    Row,
    Cell,
}

/// What becomes of white space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum WhiteSpace {
    /// It is one space.
    #[default]
    Collapsed,
    /// Line ends stay.
    Lines,
    /// All of it stays.
    Preserved,
}

/// Parts of the classes of fonts of pictures.
const ICON_CLASSES: [&[u8]; 3] = [b"icon", b"symbols", b"glyph"];

/// Parts of the classes of buttons that show what follows them.
const DISCLOSURE_CLASSES: [&[u8]; 4] = [b"accordion", b"collaps", b"faq", b"disclosure"];

/// Ends of the classes of titles.
const TITLE_CLASSES: [&[u8]; 3] = [b"title", b"heading", b"headline"];

/// Columns or rows of one cell that count.
const MAX_SPAN: u16 = 32;

/// Whether an attribute is read at all.
pub(super) fn is_read(name: &[u8]) -> bool {
    matches!(
        name,
        b"aria-expanded"
            | b"aria-controls"
            | b"aria-hidden"
            | b"class"
            | b"colspan"
            | b"data-bs-toggle"
            | b"data-toggle"
            | b"hidden"
            | b"open"
            | b"popover"
            | b"role"
            | b"rowspan"
            | b"style"
    )
}

impl Attributes {
    /// Adds an attribute that [`is_read`].
    pub(super) fn add(&mut self, name: &[u8], value: &[u8]) {
        let word = value.trim_ascii();
        match name {
            b"aria-expanded" | b"aria-controls" => self.discloses = true,
            b"data-toggle" | b"data-bs-toggle" => self.discloses |= is_any(word, &[b"collapse"]),
            b"aria-hidden" => self.is_aria_hidden = word.eq_ignore_ascii_case(b"true"),
            b"class" => {
                let classes = || word.split(u8::is_ascii_whitespace);
                self.is_for_screen_readers = classes().any(is_for_screen_readers);
                self.is_bold |= classes().any(|class| TITLE_CLASSES.iter().any(|end| class.ends_with(end)));
            }
            b"colspan" => self.columns = number(word),
            // A search of the page opens what is hidden until found.
            b"hidden" => self.hides |= !word.eq_ignore_ascii_case(b"until-found"),
            b"open" => self.is_open = true,
            b"popover" => self.hides = true,
            b"role" => {
                self.is_presentation = is_any(word, &[b"presentation", b"none"]);
                self.is_bold |= is_any(word, &[b"heading"]);
                self.is_overlay = is_any(word, &[b"dialog", b"alertdialog", b"menu", b"navigation", b"tooltip"]);
            }
            b"rowspan" => self.rows = number(word),
            b"style" => self.add_style(value),
            _ => {}
        }
    }

    /// Reads the parts of a class's names that matter for few elements.
    pub(super) fn add_class_parts(&mut self, name: &[u8], class: &[u8]) {
        self.is_icon = self.is_aria_hidden && has_any(class, &ICON_CLASSES);
        self.discloses |= name == b"button" && has_any(class, &DISCLOSURE_CLASSES);
    }

    fn add_style(&mut self, style: &[u8]) {
        for declaration in style.split(|&byte| byte == b';') {
            let mut sides = declaration.splitn(2, |&byte| byte == b':').map(<[u8]>::trim_ascii);
            let (Some(property), Some(value)) = (sides.next(), sides.next()) else { continue };
            let value = value.split(|&byte| byte == b'!').next().unwrap_or(value).trim_ascii_end();
            let is = |names: &[&[u8]]| is_any(value, names);
            match property.to_ascii_lowercase().as_slice() {
                b"display" => {
                    self.hides |= is(&[b"none"]);
                    self.display = display(value);
                }
                b"visibility" => self.is_visible = Some(!is(&[b"hidden", b"collapse"])),
                b"content-visibility" => self.hides |= is(&[b"hidden"]),
                b"white-space" | b"white-space-collapse" => {
                    self.white_space = if is(&[b"pre", b"pre-wrap", b"break-spaces", b"preserve"]) {
                        Some(WhiteSpace::Preserved)
                    } else if is(&[b"pre-line", b"preserve-breaks"]) {
                        Some(WhiteSpace::Lines)
                    } else {
                        is(&[b"normal", b"nowrap", b"collapse", b"initial"]).then_some(WhiteSpace::Collapsed)
                    };
                }
                b"font-weight" => self.is_bold |= is(&[b"bold", b"bolder", b"600", b"700", b"800", b"900"]),
                b"font" | b"font-family" => self.is_monospace |= has_any(value, &[b"monospace"]),
                _ => {}
            }
        }
    }
}

fn display(value: &[u8]) -> Option<Display> {
    // `inline flex` is `inline-flex`.
    let value = value.to_ascii_lowercase();
    Some(match value.as_slice() {
        b"block" | b"flow-root" | b"list-item" | b"-webkit-box" => Display::Block,
        b"flex" | b"grid" => Display::Flex,
        b"table" => Display::Table,
        b"table-row" => Display::Row,
        b"table-cell" => Display::Cell,
        b"contents" => Display::Inline,
        value if value.starts_with(b"inline") => Display::Inline,
        _ => return None,
    })
}

fn is_for_screen_readers(class: &[u8]) -> bool {
    matches!(
        class,
        b"sr-only"
            | b"visually-hidden"
            | b"visuallyhidden"
            | b"screen-reader-text"
            | b"screen-reader-only"
            | b"screenreader-only"
            | b"a11y-hidden"
            | b"a-offscreen"
            | b"u-hiddenVisually"
            | b"assistive-text"
    )
}

fn is_any(value: &[u8], names: &[&[u8]]) -> bool {
    names.iter().any(|name| value.eq_ignore_ascii_case(name))
}

fn has_any(value: &[u8], parts: &[&[u8]]) -> bool {
    parts.iter().any(|part| value.windows(part.len()).any(|window| window.eq_ignore_ascii_case(part)))
}

/// The columns or rows of a cell.
fn number(value: &[u8]) -> u8 {
    let digits = value.iter().take_while(|byte| byte.is_ascii_digit()).take(4);
    let number = digits.fold(0, |number, digit| number * 10 + u16::from(digit - b'0'));
    u8::try_from(number.min(MAX_SPAN)).unwrap_or_default()
}
