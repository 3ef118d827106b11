//! A page: one text, its offsets in bytes and in characters, and the blocks of its layout.
//!
//! Rust counts bytes, Python counts characters (Unicode code points). [`ByteSpan`] and [`CharSpan`] are two types, so
//! that the compiler keeps them apart; [`PageText`] converts one to the other in constant time.

/// A range of UTF-8 bytes. Both ends are on character boundaries of their page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSpan {
    pub start: usize,
    /// The byte after the last one.
    pub end: usize,
}

/// A range of characters (Unicode code points), as in Python's `text[start:end]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CharSpan {
    pub start: usize,
    /// The character after the last one.
    pub end: usize,
}

/// A part of a page that sentences never cross.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Blocks are sorted, disjoint, and cover all that is not white space.
    pub span: ByteSpan,
    pub kind: BlockKind,
    /// Whether it continues the block before it: a further row of a table, line of code, or paragraph of a list item.
    pub continues: bool,
    /// Of a heading whose markup says it: its level, from 1. Of anything else: how many lists it is in. Otherwise 0.
    pub level: u8,
    /// The outermost level of the sections that end before it because their element does, as in a box inside an article.
    /// 0 for none.
    pub ends: u8,
}

/// The kind of content of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// Sentences.
    Prose,
    /// Sentences of one list item, or of the definition of a term.
    Item,
    /// A term that the items after it define: one unit.
    Term,
    /// The title of the table or figure next to it.
    Caption,
    /// The source of the quotation above it, or the caption of the figure above it.
    Source,
    /// A line of an entry of a log, or data in one line: one unit, unless it is too long.
    Record,
    /// Sentences of one turn of a conversation.
    Turn,
    /// Sentences of subtitles, which numbers and times interrupt.
    Captions,
    /// One unit, grouped with the block after it.
    Heading,
    /// A table row that names the columns of the rows after it: one unit.
    HeaderRow,
    /// Any other table row: one unit.
    Row,
    /// A line of code: one unit.
    Code,
    /// A rule, the empty line of a quote, a page number, header or footer: one unit, which is never highlighted for
    /// itself.
    Rule,
}

/// The level that the marks of a heading say: the number of `#` before it, of `=` around it, or 1 and 2 for `=` and `-`
/// below it, the command of LaTeX. Without such marks 0.
pub fn marked_level(heading: &str) -> u8 {
    let text = heading.trim_start_matches(['>', ' ']);
    if let Some(command) = text.strip_prefix('\\') {
        return latex_level(command);
    }
    let hashes = text.len() - text.trim_start_matches('#').len();
    let marks = if hashes > 0 { hashes } else { marks_around(text) };
    let below = text.lines().skip(1).last().map(|line| line.trim_start_matches(['>', ' ']));
    match (marks, below.and_then(|line| line.chars().next())) {
        (1..=6, _) => u8::try_from(marks).unwrap_or(0),
        (_, Some('=')) => 1,
        (_, Some('-')) => 2,
        _ => 0,
    }
}

/// The level of `section{Title}` and its like, which are all of a line.
fn latex_level(command: &str) -> u8 {
    let level = |(name, level): (&str, u8)| {
        let title = command.strip_prefix(name)?;
        title.trim_start_matches('*').starts_with('{').then_some(level)
    };
    let levels = [("part", 1), ("chapter", 1), ("section", 2), ("subsection", 3), ("subsubsection", 4)]
        .into_iter()
        .find_map(level);
    levels.filter(|_| command.ends_with('}')).unwrap_or(0)
}

/// How many `=` stand both before and after a title: `== History ==`, also with spaces between them. 0 for other lines.
pub(crate) fn marks_around(line: &str) -> usize {
    let count = |marks: &mut dyn Iterator<Item = char>| {
        marks.take_while(|mark| matches!(mark, '=' | ' ')).filter(|mark| *mark == '=').count()
    };
    let before = count(&mut line.chars());
    let is_title = before > 0 && before == count(&mut line.chars().rev()) && line.contains(char::is_alphanumeric);
    if is_title && before <= 6 { before } else { 0 }
}

impl BlockKind {
    /// Whether the block is one unit instead of sentences.
    pub const fn is_whole(self) -> bool {
        !matches!(self, Self::Prose | Self::Item | Self::Caption | Self::Source | Self::Turn | Self::Captions)
    }
}

impl ByteSpan {
    pub const fn len(self) -> usize {
        self.end - self.start
    }

    pub const fn is_empty(self) -> bool {
        self.start == self.end
    }

    pub fn of(self, text: &str) -> &str {
        &text[self.start..self.end]
    }

    /// The span without white space at its ends; empty if there is nothing else.
    pub fn trimmed(self, text: &str) -> Self {
        let inside = self.of(text);
        let start = self.start + (inside.len() - inside.trim_start().len());
        let end = (self.end - (inside.len() - inside.trim_end().len())).max(start);
        Self { start, end }
    }
}

/// The first character boundary at or after a byte.
pub(crate) fn boundary_from(text: &str, byte: usize) -> usize {
    (byte.min(text.len())..=text.len()).find(|&at| text.is_char_boundary(at)).unwrap_or(text.len())
}

impl CharSpan {
    pub const fn len(self) -> usize {
        self.end - self.start
    }

    pub const fn is_empty(self) -> bool {
        self.start == self.end
    }
}

/// A text with an index from bytes to characters.
#[derive(Clone, Debug)]
pub struct PageText<'text> {
    text: &'text str,
    /// Characters before byte `i * STRIDE`; `None` for ASCII.
    checkpoints: Option<Vec<usize>>,
}

/// Counting the characters between two checkpoints takes a few nanoseconds.
const STRIDE: usize = 256;

impl<'text> PageText<'text> {
    /// Builds the index in one pass.
    pub fn new(text: &'text str) -> Self {
        if text.is_ascii() {
            return Self { text, checkpoints: None };
        }
        let mut counted = 0;
        let checkpoints = text
            .as_bytes()
            .chunks(STRIDE)
            .map(|chunk| {
                let before = counted;
                counted += bytecount::num_chars(chunk);
                before
            })
            .collect();
        Self { text, checkpoints: Some(checkpoints) }
    }

    /// As passed to [`Self::new`].
    pub const fn text(&self) -> &'text str {
        self.text
    }

    /// Characters of the whole text.
    pub fn char_count(&self) -> usize {
        self.char_offset(self.text.len())
    }

    pub fn chars(&self, span: ByteSpan) -> CharSpan {
        CharSpan { start: self.char_offset(span.start), end: self.char_offset(span.end) }
    }

    fn char_offset(&self, byte: usize) -> usize {
        let Some(checkpoints) = &self.checkpoints else { return byte };
        // A text whose length is a multiple of the stride has no checkpoint at its end.
        let block = (byte / STRIDE).min(checkpoints.len() - 1);
        checkpoints[block] + bytecount::num_chars(&self.text.as_bytes()[block * STRIDE..byte])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
    fn characters_are_counted_as_in_python(text in "\\PC{0,400}|[aé漢🎉 ]{0,900}") {
            let page = PageText::new(&text);
            for (chars, (byte, _)) in text.char_indices().enumerate() {
                prop_assert_eq!(page.char_offset(byte), chars);
            }
            prop_assert_eq!(page.char_offset(text.len()), text.chars().count());
        }
    }

    #[test]
    fn trimming_white_space_alone_leaves_an_empty_span() {
        assert!(ByteSpan { start: 1, end: 4 }.trimmed("a \n b").is_empty());
        assert_eq!(ByteSpan { start: 0, end: 8 }.trimmed(" 漢 \u{3000}").of(" 漢 \u{3000}"), "漢");
    }
}
