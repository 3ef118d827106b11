//! Readings of words (`ruby`): they follow the word, instead of each of its characters.
//!
//! `<ruby>表<rt>ひょう</rt>示<rt>じ</rt></ruby>` is the word 表示 with its reading, so that the word is found. The
//! parentheses of `rp` stay around the reading; without them, spaces do.

use super::super::elements::ElementRole;
use super::joints::Joint;
use super::{Frame, Writer};
use crate::text::page::ByteSpan;

/// Readings since the last word.
#[derive(Debug, Default)]
pub(super) struct Readings {
    list: Vec<Reading>,
    /// Whether more of the word follows after the first of them in the source.
    is_moved: bool,
}

/// A word of a reading, or a parenthesis around it.
#[derive(Debug)]
struct Reading {
    source: ByteSpan,
    text: String,
    is_parenthesis: bool,
}

impl Writer<'_> {
    /// Keeps text of a reading for later. Returns false if it is no such text.
    pub(super) fn keep_reading(&mut self, source: ByteSpan, text: &str) -> bool {
        let Frame { reading, in_ruby, .. } = self.top();
        let is_parenthesis = reading == Some(ElementRole::Parenthesis);
        if reading.is_none() || !in_ruby && !is_parenthesis {
            return false;
        }
        // Parentheses outside are hidden.
        let words = text.split_ascii_whitespace().filter(|_| in_ruby);
        let is_verbatim = source.of(self.source) == text;
        let mut at = source.start;
        for word in words {
            let start = if is_verbatim { self.source[at..].find(word).map_or(at, |offset| at + offset) } else { at };
            let end = if is_verbatim { start + word.len() } else { source.end };
            at = end;
            self.readings.list.push(Reading { source: ByteSpan { start, end }, text: word.to_owned(), is_parenthesis });
        }
        true
    }

    /// Writes the readings, unless the next text goes on with their word.
    pub(super) fn end_readings_before(&mut self, next: char) {
        if self.readings.list.is_empty() {
            return;
        }
        let is_inside = self.block.is_some() && self.space.is_none() && self.line_break.is_none() && self.tabs == 0;
        if is_inside && self.top().in_ruby && next.is_alphanumeric() {
            self.readings.is_moved = true;
        } else {
            self.write_readings();
        }
    }

    /// Writes the readings of the last word.
    pub(super) fn write_readings(&mut self) {
        if self.readings.list.is_empty() {
            return;
        }
        let Readings { list, is_moved } = std::mem::take(&mut self.readings);
        // White space between the word and its reading is dropped.
        let is_after = |span: &ByteSpan| span.start >= list[list.len() - 1].source.end;
        let space = self.space.take().filter(is_after);
        let line_break = self.line_break.take().filter(|(span, _)| is_after(span));
        let tabs = std::mem::take(&mut self.tabs);
        let has_parentheses = list[0].is_parenthesis && list[list.len() - 1].is_parenthesis;
        if is_moved {
            let source = ByteSpan { start: self.map.source_end(), end: list[list.len() - 1].source.end };
            self.write_reading(source, &joined(&list, has_parentheses), !has_parentheses);
        } else {
            for (index, Reading { source, text, is_parenthesis }) in list.iter().enumerate() {
                if has_parentheses || !is_parenthesis {
                    self.write_reading(*source, text, index == 0 || text.starts_with(is_latin));
                }
            }
        }
        (self.space, self.line_break, self.tabs) = (space, line_break, tabs);
        self.joint = Joint::Words;
    }

    fn write_reading(&mut self, source: ByteSpan, text: &str, is_apart: bool) {
        self.joint = if is_apart { Joint::Words } else { Joint::None };
        self.before_character(text);
        if source.of(self.source) == text {
            self.map.push_verbatim(self.text.len(), source);
        } else {
            self.map.push_whole(self.text.len(), source);
        }
        self.text.push_str(text);
    }
}

/// The readings as one, in the first and the last of their parentheses.
fn joined(list: &[Reading], has_parentheses: bool) -> String {
    let mut text = String::new();
    for (index, reading) in list.iter().enumerate() {
        let is_outer = has_parentheses && (index == 0 || index + 1 == list.len());
        if reading.is_parenthesis && !is_outer {
            continue;
        }
        if text.ends_with(is_latin) && reading.text.starts_with(is_latin) {
            text.push(' ');
        }
        text.push_str(&reading.text);
    }
    text
}

/// Whether words of its script have spaces between them.
fn is_latin(c: char) -> bool {
    c.is_alphabetic() && c < '\u{2e80}'
}
