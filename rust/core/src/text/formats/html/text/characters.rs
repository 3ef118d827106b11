//! Writes characters, and the white space before them.

use super::{Covered, Separation, Writer, is_bold_title};
use crate::error::Result;
use crate::runtime::call::Checkpoints;
use crate::text::formats::html::attributes::WhiteSpace;
use crate::text::formats::html::text::joints::Joint;
use crate::text::page::{BlockKind, ByteSpan};

/// White space that stays, written before the next character.
#[derive(Clone, Copy)]
pub(super) struct White {
    source: ByteSpan,
    /// The character to write instead; `None` to copy the source.
    decoded: Option<char>,
}

impl Writer<'_> {
    pub(super) fn line_break(&mut self, span: ByteSpan) {
        self.write_readings();
        if self.top().white == WhiteSpace::Preserved {
            self.keep_white(White { source: span, decoded: Some('\n') });
        } else {
            self.break_line(span);
        }
    }

    /// Ends the line. A bold one at the start of a block is a heading.
    fn break_line(&mut self, span: ByteSpan) {
        let is_title = self.block.is_some_and(|block| {
            self.covered.strong > block && self.covered.strong >= self.text.len() && is_bold_title(&self.text[block..])
        });
        if is_title && self.top().kind == BlockKind::Prose && self.line_break.is_none() {
            self.boundary(Separation::Line);
            return;
        }
        self.space = None;
        self.line_break = Some(self.line_break.map_or((span, false), |(first, _)| (first, true)));
    }

    /// Writes text that is identical in the source.
    pub(super) fn verbatim(&mut self, span: ByteSpan, checkpoints: &mut Checkpoints) -> Result<()> {
        if self.keep_reading(span, span.of(self.source)) {
            return Ok(());
        }
        let white_space = self.top().white;
        let mut start = span.start;
        while start < span.end {
            checkpoints.reach(start)?;
            let rest = &self.source[start..span.end];
            let word = rest.find(is_white).unwrap_or(rest.len());
            if word > 0 {
                self.before_character(&rest[..word]);
                self.map.push_verbatim(self.text.len(), ByteSpan { start, end: start + word });
                self.text.push_str(&rest[..word]);
            }
            let rest = &rest[word..];
            let white = rest.find(|c| !is_white(c)).unwrap_or(rest.len());
            start += word;
            let source = ByteSpan { start, end: start + white };
            start = source.end;
            match white_space {
                _ if white == 0 => {}
                WhiteSpace::Preserved => self.keep_white(White { source, decoded: None }),
                WhiteSpace::Lines if rest[..white].contains('\n') => self.keep_line_ends(source),
                _ => self.white(ByteSpan { start: source.start, end: source.start + 1 }),
            }
        }
        Ok(())
    }

    /// Writes text that differs from its source: one character, or the two of one reference.
    pub(super) fn decoded(&mut self, source: ByteSpan, text: &str) {
        if self.keep_reading(source, text) {
            return;
        }
        match (text.chars().next().filter(|&first| is_white(first)), self.top().white) {
            (Some(white), WhiteSpace::Preserved) => self.keep_white(White { source, decoded: Some(white) }),
            (Some('\n'), WhiteSpace::Lines) => self.break_line(source),
            (Some(_), _) => self.white(source),
            (None, _) => {
                self.before_character(text);
                self.map.push_whole(self.text.len(), source);
                self.text.push_str(text);
            }
        }
    }

    /// Notes white space, which becomes one space, or nothing at the start of a line.
    fn white(&mut self, source: ByteSpan) {
        if self.block.is_some() && self.line_break.is_none() && self.tabs == 0 {
            self.space.get_or_insert(source);
        }
    }

    /// Notes white space that stays; in code, a line end ends the block.
    fn keep_white(&mut self, white: White) {
        if self.top().kind == BlockKind::Code && white.line_ends(self.source) > 0 {
            self.end_block();
        }
        self.kept_space.push(white);
    }

    /// Notes white space of which only the line ends stay.
    fn keep_line_ends(&mut self, source: ByteSpan) {
        let line_ends = source.of(self.source).bytes().enumerate().filter(|(_, byte)| *byte == b'\n').take(2);
        for (at, _) in line_ends {
            let start = source.start + at;
            self.break_line(ByteSpan { start, end: start + 1 });
        }
    }

    /// Writes the white space before a word, and starts a block if none is open.
    pub(super) fn before_character(&mut self, word: &str) {
        let next = word.chars().next().unwrap_or_default();
        self.end_readings_before(next);
        let top = self.top();
        self.end_paragraph();
        if top.in_cell && !top.names {
            self.frames[top.row].has_data = true;
        }
        let is_new = self.block.is_none();
        let is_first = is_new && (self.separation != Separation::None || self.text.is_empty());
        if is_first || self.tabs > 0 || self.line_break.is_some() {
            self.drop_blank_lines();
        }
        if is_new {
            self.origin = (self.text.len(), self.separation);
            self.covered = Covered::default();
            self.write_separation();
        }
        let start = self.text.len();
        if self.tabs > 0 {
            for _ in 0..self.tabs {
                self.insert('\t');
            }
        } else if is_new {
            // A line starts without a space.
        } else if let Some((line_break, _)) = self.line_break {
            self.write_for(line_break, '\n');
        } else if let Some(space) = self.space {
            if space.of(self.source) == " " {
                self.map.push_verbatim(self.text.len(), space);
                self.text.push(' ');
            } else {
                self.write_for(space, ' ');
            }
        } else if self.kept_space.is_empty() && self.joint.separates(&self.text, word) {
            self.insert(' ');
        }
        self.write_kept_space();
        self.block.get_or_insert(if self.tabs > 0 { start } else { self.text.len() });
        (self.tabs, self.space, self.line_break, self.joint) = (0, None, None, Joint::None);
    }

    /// Ends the block if a blank line is to be written.
    pub(super) fn end_paragraph(&mut self) {
        let has_blank_line = || {
            let line_ends = self.kept_space.iter().map(|white| white.line_ends(self.source)).sum::<usize>();
            matches!(self.line_break, Some((_, true))) || line_ends > 1
        };
        if self.block.is_some() && !self.top().kind.is_whole() && has_blank_line() {
            let kept = std::mem::take(&mut self.kept_space);
            self.boundary(Separation::Paragraph);
            self.kept_space = kept;
        }
    }

    /// Drops the lines of kept white space before the first one with text.
    fn drop_blank_lines(&mut self) {
        let line_end = |white: &White| match white.decoded {
            Some(c) => (c == '\n').then_some(white.source.end),
            None => white.source.of(self.source).rfind('\n').map(|end| white.source.start + end + 1),
        };
        let last = self.kept_space.iter().enumerate().rev().find_map(|(i, white)| Some((i, line_end(white)?)));
        if let Some((index, end)) = last {
            self.kept_space.drain(..index);
            self.kept_space[0].source.start = end;
        }
    }

    fn write_kept_space(&mut self) {
        let mut kept = std::mem::take(&mut self.kept_space);
        for White { source, decoded } in kept.drain(..) {
            match decoded {
                _ if source.is_empty() => {}
                Some(c) => self.write_for(source, c),
                None => {
                    self.map.push_verbatim(self.text.len(), source);
                    self.text.push_str(source.of(self.source));
                }
            }
        }
        self.kept_space = kept;
    }

    fn write_separation(&mut self) {
        let lines = match std::mem::take(&mut self.separation) {
            _ if self.text.is_empty() => 0,
            Separation::None => 0,
            Separation::Line => 1,
            Separation::Paragraph => 2,
        };
        for _ in 0..lines {
            self.insert('\n');
        }
    }

    /// Writes a character that the source does not contain.
    fn insert(&mut self, white: char) {
        let end = self.map.source_end();
        self.write_for(ByteSpan { start: end, end }, white);
    }

    /// Writes white space that replaces a part of the source.
    fn write_for(&mut self, source: ByteSpan, white: char) {
        self.map.push_whole(self.text.len(), source);
        self.text.push(white);
    }
}

impl White {
    fn line_ends(self, source: &str) -> usize {
        match self.decoded {
            Some(c) => usize::from(c == '\n'),
            None => bytecount::count(self.source.of(source).as_bytes(), b'\n'),
        }
    }
}

/// White space that HTML collapses into one space.
fn is_white(c: char) -> bool {
    c.is_ascii_whitespace()
}
