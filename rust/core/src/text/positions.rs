//! Offsets of answers: the same place of a text counted in code points, UTF-16 units or bytes.
//!
//! Answers count code points, as Python does. JavaScript, Java and C# count UTF-16 units, Rust and Go bytes of UTF-8.

use pullquote_wire::result::OffsetUnit;

/// How long a text is.
pub fn length(text: &str, unit: OffsetUnit) -> usize {
    match unit {
        OffsetUnit::Codepoint => text.chars().count(),
        OffsetUnit::Utf16 => text.chars().map(char::len_utf16).sum(),
        OffsetUnit::Byte => text.len(),
    }
}

/// A place in each unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Position {
    codepoint: usize,
    utf16: usize,
    byte: usize,
}

/// Places of a text that are known by their code points.
#[derive(Debug)]
pub struct Positions<'text> {
    text: &'text str,
    /// In order; none where every character is one byte, and all counts are the same.
    known: Vec<Position>,
}

impl<'text> Positions<'text> {
    /// Looks these places up, in one walk through the text.
    pub fn of(text: &'text str, mut wanted: Vec<usize>) -> Self {
        if text.is_ascii() {
            return Self { text, known: Vec::new() };
        }
        wanted.sort_unstable();
        wanted.dedup();
        let mut at = Position::default();
        let walk = |codepoint: usize| {
            let rest = &text[at.byte..];
            let passed = rest.char_indices().nth(codepoint - at.codepoint).map_or(rest.len(), |(byte, _)| byte);
            let utf16: usize = rest[..passed].chars().map(char::len_utf16).sum();
            at = Position { codepoint, utf16: at.utf16 + utf16, byte: at.byte + passed };
            at
        };
        let known = wanted.into_iter().map(walk).collect();
        Self { text, known }
    }

    /// A known place in another unit.
    pub fn count(&self, codepoint: usize, offsets: OffsetUnit) -> usize {
        let place = self.place(codepoint);
        match offsets {
            OffsetUnit::Codepoint => place.codepoint,
            OffsetUnit::Utf16 => place.utf16,
            OffsetUnit::Byte => place.byte,
        }
    }

    /// The text between two known places.
    pub fn between(&self, start: usize, end: usize) -> &'text str {
        &self.text[self.place(start).byte..self.place(end).byte]
    }

    fn place(&self, codepoint: usize) -> Position {
        let found = self.known.binary_search_by_key(&codepoint, |place| place.codepoint);
        found.map_or(Position { codepoint, utf16: codepoint, byte: codepoint }, |index| self.known[index])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_in_each_unit_match_recount() {
        for text in ["plain", "a🎉é漢b", "🎉", "漢字", ""] {
            let chars = text.chars().count();
            let places = Positions::of(text, (0..=chars).rev().chain(0..=chars).collect());
            for (codepoint, byte) in text.char_indices().map(|(byte, _)| byte).chain([text.len()]).enumerate() {
                assert_eq!(places.count(codepoint, OffsetUnit::Codepoint), codepoint);
                assert_eq!(places.count(codepoint, OffsetUnit::Byte), byte);
                assert_eq!(places.count(codepoint, OffsetUnit::Utf16), text[..byte].encode_utf16().count());
                assert_eq!(places.between(0, codepoint), &text[..byte]);
            }
        }
    }
}
