//! The letters of a text: what stays the same however it is written.
//!
//! White space, punctuation, case, markup, composed and decomposed characters, and footnote marks go. Letters, digits, and
//! the signs of amounts stay, each with its place. A page and a quote are read alike, so either may have any markup.

use rustc_hash::FxHashMap;
use unicode_normalization::char::{decompose_compatible, is_combining_mark};

use super::markup::{self, Hidden, Markup};
use crate::error::Result;
use crate::runtime::call::{Check, Checkpoints};
use crate::text::page::ByteSpan;
use crate::text::pieces::marks::is_unspaced;

/// A letter, digit or sign in lower case.
#[derive(Clone, Copy, Debug)]
pub(super) struct Letter {
    pub(super) char: char,
    /// First byte of its source.
    start: u32,
    /// Bytes of its source: of a character or a reference.
    length: u8,
    pub(super) starts_word: bool,
    /// A digit of a footnote's number or of a list's mark: text that a quote may lack.
    pub(super) is_note: bool,
}

impl Letter {
    pub(super) const fn start(self) -> usize {
        self.start as usize
    }

    pub(super) const fn end(self) -> usize {
        self.start as usize + self.length as usize
    }
}

/// The source of some letters, from the first to the last.
pub(super) fn span_of(letters: &[Letter]) -> Option<ByteSpan> {
    Some(ByteSpan { start: letters.first()?.start(), end: letters.last()?.end() })
}

/// What stands between two letters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Gap {
    None,
    /// The mark of a number, such as `.` in 1.5.
    InNumber(char),
    /// What may stand inside of a word: hyphens, apostrophes, the marks of Markdown.
    InWord,
    Break,
}

struct Reader<'text> {
    text: &'text str,
    letters: Vec<Letter>,
    gap: Gap,
    is_superscript: bool,
    /// The digits up to here are a note's.
    notes_until: usize,
    /// From where on scripts, styles and comments are not closed, so that their text is read.
    unclosed: [usize; 3],
    /// The text of each reference so far.
    references: FxHashMap<&'text str, Option<String>>,
}

/// The letters of a text.
///
/// # Errors
/// Those of `check`.
pub(super) fn letters(text: &str, check: &Check) -> Result<Vec<Letter>> {
    let letters = Vec::with_capacity(text.len() - text.len() / 8);
    let references = FxHashMap::default();
    let mut reader = Reader {
        text,
        letters,
        gap: Gap::Break,
        is_superscript: false,
        notes_until: 0,
        unclosed: [usize::MAX; 3],
        references,
    };
    let mut checkpoints = Checkpoints::new(check);
    let (bytes, mut at) = (text.as_bytes(), 0);
    while let Some(&byte) = bytes.get(at) {
        checkpoints.reach(at)?;
        at = match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {
                reader.push(byte.to_ascii_lowercase() as char, at, 1, false);
                at + 1
            }
            b'0'..=b'9' => {
                reader.digit(byte as char, at);
                at + 1
            }
            b' ' => {
                reader.gap = Gap::Break;
                at + 1
            }
            0..=0x7f => reader.mark(byte, at),
            _ => reader.character(at),
        };
    }
    Ok(reader.letters)
}

impl Reader<'_> {
    fn push(&mut self, char: char, at: usize, length: usize, is_note: bool) {
        // Numbers next to each other are not one number.
        let between = match self.gap {
            Gap::None => None,
            Gap::InNumber(mark) => Some(mark),
            Gap::InWord | Gap::Break => Some(' '),
        };
        let mut is_apart = self.gap == Gap::Break;
        if let (Some(mark), Some(last)) = (between, self.letters.last())
            && last.char.is_ascii_digit()
            && char.is_ascii_digit()
        {
            // No part of the source, so that a space between digits is the end of none of its characters.
            self.add(mark, last.end(), 0, mark == ' ', false);
            is_apart = mark == ' ';
        }
        let is_alone = is_unspaced(char) || self.letters.last().is_some_and(|last| is_unspaced(last.char));
        let starts_word = is_apart || (is_alone && !is_combining_mark(char));
        self.add(char, at, length, starts_word, is_note);
        self.gap = Gap::None;
    }

    fn add(&mut self, char: char, at: usize, length: usize, starts_word: bool, is_note: bool) {
        let start = u32::try_from(at).unwrap_or(u32::MAX);
        let length = u8::try_from(length).unwrap_or(u8::MAX);
        self.letters.push(Letter { char, start, length, starts_word, is_note });
    }

    fn digit(&mut self, digit: char, at: usize) {
        if at >= self.notes_until && (at == 0 || !self.text.as_bytes()[at - 1].is_ascii_digit()) {
            self.notes_until = markup::note_number_end(self.text, at).unwrap_or(0);
        }
        self.push(digit, at, 1, self.is_superscript || at < self.notes_until);
    }

    fn separate(&mut self, gap: Gap) {
        self.gap = self.gap.max(gap);
    }

    /// Reads an ASCII character that is no letter, or the markup that it begins; returns where the text goes on.
    fn mark(&mut self, mark: u8, at: usize) -> usize {
        match markup::read(self.text, at) {
            Some(Markup::Skipped { end, is_break }) => {
                self.separate(if is_break { Gap::Break } else { self.gap });
                return end;
            }
            Some(Markup::Superscript { end, opens }) => {
                self.is_superscript = opens;
                return end;
            }
            Some(Markup::Reference { end }) if self.reference(at, end) => return end,
            Some(Markup::Hidden { end, element }) => {
                return self.hidden_end(end, element);
            }
            Some(Markup::BrokenWord { end }) => {
                self.separate(Gap::InWord);
                return end;
            }
            Some(Markup::Reference { .. }) | None => self.source_char(mark as char, at, 1),
        }
        at + 1
    }

    /// Where the text goes on after the start of what is not shown.
    fn hidden_end(&mut self, tag_end: usize, element: Hidden) -> usize {
        if !matches!(element, Hidden::Comment) {
            self.separate(Gap::Break);
        }
        let unclosed = &mut self.unclosed[element as usize];
        if tag_end >= *unclosed {
            return tag_end;
        }
        markup::hidden_end(self.text, tag_end, element).unwrap_or_else(|| {
            *unclosed = tag_end;
            tag_end
        })
    }

    /// Reads the text of a reference; returns whether it is one.
    fn reference(&mut self, at: usize, end: usize) -> bool {
        let name = &self.text[at..end];
        let text = self.references.entry(name).or_insert_with(|| markup::referred(name)).clone();
        for char in text.iter().flat_map(|text| text.chars()) {
            self.source_char(char, at, end - at);
        }
        text.is_some()
    }

    fn character(&mut self, at: usize) -> usize {
        let Some(char) = self.text[at..].chars().next() else { return self.text.len() };
        let end = at + char.len_utf8();
        if is_hyphen(char)
            && let Some(end) = markup::line_wrap_end(self.text, end)
        {
            self.separate(Gap::InWord);
            return end;
        }
        self.source_char(char, at, end - at);
        end
    }

    /// A character that stands for itself or was written as a reference.
    fn source_char(&mut self, char: char, at: usize, length: usize) {
        let next = self.text.as_bytes().get(at + length).copied().unwrap_or(b' ');
        let follows_digit = self.letters.last().is_some_and(|last| last.end() == at && last.char.is_ascii_digit());
        match char {
            '.' | ',' if follows_digit && next.is_ascii_digit() => self.separate(Gap::InNumber(char)),
            '-' | '−' | '–' if next.is_ascii_digit() && self.gap == Gap::Break => self.push('-', at, length, false),
            '+' | '#' if self.letters.last().is_some_and(|last| last.end() == at) => self.push(char, at, length, false),
            '<' | '>' | '≤' | '≥' | '±' if markup::compares_number(self.text, at, at + length) => {
                self.push(char, at, length, false);
            }
            '⁄' => self.push('/', at, length, false),
            '½'..='¾' | '⅐'..='⅞' | '¼' => {
                self.separate(Gap::Break);
                self.compatible(char, at, length);
            }
            _ if is_sign(char) => self.push(char, at, length, false),
            _ if is_invisible(char) => {}
            _ if is_hyphen(char) || is_in_word(char) => self.separate(Gap::InWord),
            _ if char.is_alphanumeric() || is_combining_mark(char) => self.compatible(char, at, length),
            _ => self.separate(Gap::Break),
        }
    }

    /// The letters of a character's compatibility form.
    fn compatible(&mut self, char: char, at: usize, length: usize) {
        let is_note = matches!(char, '²' | '³' | '¹' | '⁰'..='⁹');
        decompose_compatible(char, |part| match part {
            '⁄' => self.push('/', at, length, false),
            'ß' | 'ẞ' => {
                self.push('s', at, length, false);
                self.push('s', at, length, false);
            }
            'ς' => self.push('σ', at, length, false),
            _ => {
                for lower in part.to_lowercase() {
                    if lower.is_alphanumeric() || is_combining_mark(lower) {
                        self.push(lower, at, length, is_note);
                    }
                }
            }
        });
    }
}

/// Signs that belong to an amount.
pub(super) const fn is_sign(char: char) -> bool {
    matches!(char, '%' | '‰' | '$' | '¢'..='¥' | '\u{20a0}'..='\u{20cf}')
}

pub(super) const fn is_hyphen(char: char) -> bool {
    matches!(char, '-' | '\u{2010}' | '\u{2011}')
}

const fn is_in_word(char: char) -> bool {
    matches!(char, '\'' | '’' | '‘' | 'ʼ' | '`' | '´' | '*' | '_' | '~' | '\\' | '[' | ']')
}

/// Zero-width characters, soft hyphens, marks of direction, variation selectors, and the Arabic stretch.
const fn is_invisible(char: char) -> bool {
    matches!(
        char,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{640}'
            | '\u{180b}'..='\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{0}'
    )
}
