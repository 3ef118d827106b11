//! A page: one text, the two ways to count in it, and the blocks it is laid out in.
//!
//! Rust counts bytes, Python counts characters (Unicode code points). [`ByteSpan`] and [`CharSpan`] are two types so
//! that they cannot be mixed; [`Page`] turns one into the other in constant time.

/// A range of UTF-8 bytes; both ends lie on character boundaries of the page it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSpan {
    /// The first byte.
    pub start: usize,
    /// The byte after the last one.
    pub end: usize,
}

/// A range of characters (Unicode code points), as Python's `text[start:end]` counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CharSpan {
    /// The first character.
    pub start: usize,
    /// The character after the last one.
    pub end: usize,
}

/// A stretch of a page that no sentence leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Where it lies; blocks are ordered, disjoint, and cover all that is not white space.
    pub span: ByteSpan,
    /// What it holds.
    pub kind: BlockKind,
    /// Whether it goes on with what the block before it began: a further row of its table, a further line of its code, a
    /// further paragraph of its list item.
    pub goes_on: bool,
}

/// What a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// Sentences.
    Prose,
    /// Sentences that belong to one item of a list.
    Item,
    /// A heading: one unit, which stands for nothing without what follows it.
    Heading,
    /// A row of a table: one unit. The first one of a table is its header.
    Row,
    /// A line of code: one unit.
    Code,
    /// A rule, the empty line of a quote, a page's number or running head: one unit that says nothing.
    Rule,
}

impl BlockKind {
    /// Whether the block is one unit, and no sentences are looked for in it.
    #[must_use]
    pub const fn is_whole(self) -> bool {
        !matches!(self, Self::Prose | Self::Item)
    }
}

impl ByteSpan {
    /// How many bytes.
    #[must_use]
    pub const fn len(self) -> usize {
        self.end - self.start
    }

    /// Whether it spans nothing.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// Whether the two share a byte.
    #[must_use]
    pub const fn overlaps(self, other: Self) -> bool {
        self.start < other.end && other.start < self.end
    }

    /// This span of `text`.
    #[must_use]
    pub fn of(self, text: &str) -> &str {
        &text[self.start..self.end]
    }

    /// The span without the white space at its ends; empty where there is nothing else.
    #[must_use]
    pub fn trimmed(self, text: &str) -> Self {
        let piece = self.of(text);
        let start = self.start + (piece.len() - piece.trim_start().len());
        let end = (self.end - (piece.len() - piece.trim_end().len())).max(start);
        Self { start, end }
    }
}

impl CharSpan {
    /// How many characters.
    #[must_use]
    pub const fn len(self) -> usize {
        self.end - self.start
    }

    /// Whether it spans nothing.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.start == self.end
    }
}

/// One text and an index from its bytes to its characters.
#[derive(Clone, Debug)]
pub struct Page<'text> {
    text: &'text str,
    /// How many characters start before byte `i * STRIDE`; `None` where every character is one byte.
    checkpoints: Option<Vec<usize>>,
}

/// Bytes between two checkpoints: counting this many takes a few nanoseconds.
const STRIDE: usize = 256;

impl<'text> Page<'text> {
    /// The page of a text; walks the text once.
    #[must_use]
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

    /// The text.
    #[must_use]
    pub const fn text(&self) -> &'text str {
        self.text
    }

    /// How many characters it has.
    #[must_use]
    pub fn char_count(&self) -> usize {
        self.char_offset(self.text.len())
    }

    /// A span of bytes in characters.
    #[must_use]
    pub fn chars(&self, span: ByteSpan) -> CharSpan {
        CharSpan { start: self.char_offset(span.start), end: self.char_offset(span.end) }
    }

    fn char_offset(&self, byte: usize) -> usize {
        let Some(checkpoints) = &self.checkpoints else { return byte };
        // The end of a text whose length is a multiple of the stride has no checkpoint of its own.
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
        fn characters_are_counted_as_python_counts_them(text in "\\PC{0,400}|[aé漢🎉 ]{0,900}") {
            let page = Page::new(&text);
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
