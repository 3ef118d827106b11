//! Runs of lines, and the lines that finders of runs read.

use std::ops::Range;

use crate::text::page::{Block, BlockKind, ByteSpan};
use crate::text::pieces::lines::{Line, LineShape};

/// Separators in a line that prose may have.
pub(super) const MAX_SEPARATORS_IN_PROSE: usize = 2;

/// Consecutive lines that are no prose, as blocks.
pub(in crate::text::pieces) struct Run {
    pub(in crate::text::pieces) blocks: Vec<Block>,
    /// The number of the line after the last one.
    pub(in crate::text::pieces) end: usize,
}

/// The lines of a page, up to the next form feed or heading of Org mode.
pub(super) struct Lines<'text> {
    text: &'text str,
    all: &'text [Line],
    shapes: &'text [LineShape],
    end: usize,
    /// Whether `== Title` says that this is `AsciiDoc`, in which rules are marks of blocks.
    pub(super) is_asciidoc: bool,
    /// Of the line with which a run may begin.
    pub(super) marks: Marks,
}

/// The kinds of characters of a line: most finders need no more to tell prose.
#[derive(Clone, Copy, Default)]
pub(super) struct Marks {
    all: u8,
    pairs: u8,
    has_tight: bool,
}

const SPACE: u8 = 1;
const SEPARATOR: u8 = 2;
const TAB: u8 = 4;
const DIGIT: u8 = 8;
const COLON: u8 = 16;
const CODE: u8 = 32;
const DOT: u8 = 64;
const QUOTE: u8 = 128;

const CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let kinds: [(&[u8], u8); 8] = [
        (b" ", SPACE),
        (b",;", SEPARATOR),
        (b"\t", TAB),
        (b"0123456789", DIGIT),
        (b":", COLON),
        (b"{}()[]=<>;$@\\/*", CODE),
        (b".", DOT),
        (b"\"'`", QUOTE),
    ];
    let mut kind = 0;
    while kind < kinds.len() {
        let mut at = 0;
        while at < kinds[kind].0.len() {
            classes[kinds[kind].0[at] as usize] |= kinds[kind].1;
            at += 1;
        }
        kind += 1;
    }
    classes
};

impl Marks {
    pub(super) fn of(line: &str) -> Self {
        let mut marks = Self::default();
        let (mut before, mut tight) = (0, 0);
        for byte in line.trim_start().bytes() {
            let class = CLASSES[usize::from(byte)];
            marks.all |= class;
            marks.pairs |= class & before;
            tight |= before & !((class & SPACE) << 1);
            before = class;
        }
        marks.has_tight = tight & SEPARATOR != 0;
        marks
    }

    /// Whether it has a wide gap between words: two spaces, a tab, or a leader of dots.
    pub(super) const fn has_gap(self) -> bool {
        self.pairs & (SPACE | DOT) != 0 || self.has_tab()
    }

    pub(super) const fn has_tab(self) -> bool {
        self.all & TAB != 0
    }

    /// Whether a separator of fields has no space behind it.
    pub(super) const fn has_tight_separator(self) -> bool {
        self.has_tight
    }

    pub(super) const fn has_digit(self) -> bool {
        self.all & DIGIT != 0
    }

    /// Whether it has a character that statements and settings have.
    pub(super) const fn has_code(self) -> bool {
        self.all & (CODE | COLON) != 0
    }

    pub(super) const fn has_quote(self) -> bool {
        self.all & QUOTE != 0
    }
}

impl<'text> Lines<'text> {
    pub(super) fn new(text: &'text str, lines: &'text [Line], shapes: &'text [LineShape]) -> Self {
        let is_title =
            |(line, shape): (&Line, &LineShape)| *shape == LineShape::Heading && is_section_title(line.span().of(text));
        let is_asciidoc = lines.iter().zip(shapes).any(is_title);
        Self { text, all: lines, shapes, is_asciidoc, end: 0, marks: Marks { all: 0, pairs: 0, has_tight: false } }
    }

    pub(super) fn shape(&self, line: usize) -> LineShape {
        self.shapes[line]
    }

    /// Moves to a line: finds its marks, and the end of the part of the page that it is in.
    pub(super) fn reach(&mut self, line: usize) {
        if line >= self.end {
            let is_title = |line: usize| matches!(self.shapes.get(line), Some(LineShape::Title(_)));
            let ends = |end: &usize| self.all[*end - 1].hard || is_title(*end);
            self.end = (line + 1..self.all.len()).find(ends).unwrap_or(self.all.len());
        }
        self.marks = self.get(line).map(Marks::of).unwrap_or_default();
    }

    /// Whether a line is a bold title of the page.
    pub(super) fn is_bold_title(&self, line: usize) -> bool {
        matches!(self.all[line].shape, LineShape::Title(_)) && self.get(line).is_some_and(|text| text.starts_with("**"))
    }

    /// The line after the last one.
    pub(super) const fn end(&self) -> usize {
        self.end
    }

    /// A line with its indentation; empty for a blank one, `None` after the last one.
    pub(super) fn get(&self, line: usize) -> Option<&'text str> {
        (line < self.end).then(|| self.span(line..line + 1).of(self.text))
    }

    pub(super) fn start(&self, line: usize) -> usize {
        self.all[line].start()
    }

    /// At most `max` bytes from the start of a line.
    pub(super) fn bytes(&self, line: usize, max: usize) -> &'text [u8] {
        let end = self.all[self.end - 1].end();
        &self.text.as_bytes()[self.start(line)..end.min(self.start(line).saturating_add(max))]
    }

    /// The first line, from this one, that starts at or after a byte.
    pub(super) fn line_from(&self, line: usize, byte: usize) -> usize {
        line + self.all[line..self.end].iter().take_while(|line| line.start() < byte).count()
    }

    /// Whether a line is the first, or stands below a blank one or a rule.
    pub(super) fn begins_part(&self, line: usize) -> bool {
        line.checked_sub(1).is_none_or(|above| self.is_blank(above) || self.is_rule(above))
    }

    pub(super) fn is_rule(&self, line: usize) -> bool {
        line < self.end && matches!(self.shapes[line], LineShape::Rule { .. })
    }

    pub(super) fn is_blank(&self, line: usize) -> bool {
        self.get(line).is_none_or(str::is_empty)
    }

    /// The first line from here that has only this.
    pub(super) fn find(&self, line: usize, text: &str) -> Option<usize> {
        (line..self.end).find(|line| self.get(*line) == Some(text))
    }

    /// The first line from here that is not blank.
    pub(super) fn next_text(&self, line: usize) -> Option<usize> {
        (line..self.end).find(|line| !self.is_blank(*line))
    }

    /// From the start of the first line to the end of the last one.
    pub(super) fn span(&self, lines: Range<usize>) -> ByteSpan {
        ByteSpan { start: self.all[lines.start].start(), end: self.all[lines.end - 1].end() }
    }

    pub(super) fn block(&self, lines: Range<usize>, kind: BlockKind, continues: bool) -> Block {
        Block { span: self.span(lines), kind, continues, level: 0, ends: 0 }
    }

    /// A block for each line that is not blank; all but the first continue.
    pub(super) fn blocks(&self, lines: Range<usize>, kind: BlockKind) -> impl Iterator<Item = Block> {
        let first = lines.start;
        let texts = lines.filter(|line| !self.is_blank(*line));
        texts.map(move |line| self.block(line..line + 1, kind, line > first))
    }
}

/// Whether a line is a title of `AsciiDoc`: `== Install`.
fn is_section_title(line: &str) -> bool {
    line.trim_start_matches('=').starts_with(' ') && line.starts_with("==") && !line.ends_with('=')
}
