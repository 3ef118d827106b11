//! Writes the visible text of a page, with its blocks, links and source map.
//!
//! White space is written together with the character after it. So lines and blocks never end in white space, and the
//! separation of two blocks depends on all elements that ended and started between them.

use super::Reading;
use super::elements::ElementRole;
use super::tree::{Event, Events};
use crate::error::Result;
use crate::runtime::call::{Check, Checkpoints};
use crate::text::formats::map::SourceMap;
use crate::text::page::{Block, BlockKind, ByteSpan};

/// Bytes of the longest link that is never split; longer ones are linked prose.
const LONGEST_LINK: usize = 200;

/// An event counts as this many bytes of text between two checks.
const BYTES_PER_EVENT: usize = 16;

/// Writes the visible text of a source.
pub(super) fn write(source: &str, events: &Events, check: &Check) -> Result<Reading> {
    let mut writer = Writer { source, frames: vec![Frame::ROOT], ..Writer::default() };
    let (mut by_event, mut by_text) = (Checkpoints::new(check), Checkpoints::new(check));
    for (index, &event) in events.list.iter().enumerate() {
        by_event.reach(index * BYTES_PER_EVENT)?;
        match event {
            Event::Open(role) => {
                writer.top_mut().has_data |= role == ElementRole::Cell;
                writer.open(role, false);
            }
            Event::OpenHeaderCell => writer.open(ElementRole::Cell, false),
            Event::OpenTerm => {
                writer.open(ElementRole::Term, false);
                writer.top_mut().kind = BlockKind::Term;
            }
            Event::OpenTable { layout } => writer.open(ElementRole::Table, layout),
            Event::Close => writer.close(),
            Event::Text(span) => writer.verbatim(span, &mut by_text)?,
            Event::Decoded { source, text } => writer.decoded(source, text.of(&events.decoded)),
            Event::LineBreak(span) => writer.line_break(span),
            Event::Boundary => writer.boundary(writer.top().between),
        }
    }
    writer.end_block();
    let title = events.title.as_deref().map(collapsed).filter(|title| !title.is_empty()).or(writer.title);
    Ok(Reading { text: writer.text, blocks: writer.blocks, links: writer.links, title, map: writer.map })
}

/// Replaces white space with single spaces.
fn collapsed(text: &str) -> String {
    text.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}

/// The separator between two blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Separation {
    /// None: it is the same block.
    #[default]
    None,
    Line,
    Paragraph,
}

/// An open element.
#[derive(Clone, Copy)]
struct Frame {
    role: ElementRole,
    /// The kind of blocks directly in it.
    kind: BlockKind,
    /// The index of the frame that those blocks continue: an item, code or a table.
    owner: usize,
    /// The number of blocks before it.
    before: usize,
    /// The separator before and after it.
    separation: Separation,
    /// The separator between blocks in it: a line end in list items.
    between: Separation,
    /// Whether it belongs to a data table, not to a layout table.
    is_data: bool,
    /// For a table: whether it has a row yet. For a row: whether it has a cell yet.
    has_part: bool,
    /// For a row: whether it has a cell other than headers.
    has_data: bool,
    /// For a link: its start in the text, and whether a block was open there.
    link: (usize, bool),
    /// The level of the heading that it is inside of, or 0.
    heading_level: u8,
    /// The number of lists that it is in.
    depth: u8,
}

impl Frame {
    const ROOT: Self = Self {
        role: ElementRole::Ignored,
        kind: BlockKind::Prose,
        owner: 0,
        before: 0,
        separation: Separation::None,
        between: Separation::Paragraph,
        is_data: false,
        has_part: false,
        has_data: false,
        link: (0, false),
        heading_level: 0,
        depth: 0,
    };
}

/// White space of code, written before the next character.
#[derive(Clone, Copy)]
struct White {
    source: ByteSpan,
    /// The character to write instead; `None` to copy the source.
    decoded: Option<char>,
}

#[derive(Default)]
struct Writer<'source> {
    source: &'source str,
    text: String,
    map: SourceMap,
    blocks: Vec<Block>,
    links: Vec<ByteSpan>,
    title: Option<String>,
    /// The root and the open elements.
    frames: Vec<Frame>,
    /// The start of the open block.
    block: Option<usize>,
    /// The separator before the next block.
    separation: Separation,
    /// The first white space character since the last other character on the line; becomes one space.
    space: Option<ByteSpan>,
    /// The span of the first line break since the last character, and whether there were more.
    line_break: Option<(ByteSpan, bool)>,
    /// Cells of a row that started since the last character.
    tabs: usize,
    /// Since the last character.
    code_space: Vec<White>,
}

impl Writer<'_> {
    fn top(&self) -> Frame {
        self.frames.last().copied().unwrap_or(Frame::ROOT)
    }

    fn top_mut(&mut self) -> &mut Frame {
        self.frames.last_mut().expect("the root stays open")
    }

    fn open(&mut self, role: ElementRole, layout: bool) {
        let parent = self.top();
        if role == ElementRole::Anchor {
            self.frames.push(Frame { role, link: (self.text.len(), self.block.is_some()), ..parent });
            return;
        }
        let is_code = parent.kind == BlockKind::Code;
        // Blocks inside a heading show that it was not closed.
        let prose = if parent.kind == BlockKind::Heading { BlockKind::Prose } else { parent.kind };
        let own = self.frames.len();
        let in_data = parent.is_data;
        let mut frame =
            Frame { role, has_part: false, has_data: false, is_data: false, separation: parent.between, ..parent };
        match role {
            _ if role.heading_level() > 0 => {
                (frame.kind, frame.heading_level) = (BlockKind::Heading, role.heading_level());
                frame.separation = Separation::Paragraph;
            }
            ElementRole::Item | ElementRole::Term => {
                (frame.kind, frame.owner) = (BlockKind::Item, own);
                frame.depth = parent.depth.saturating_add(1);
                (frame.separation, frame.between) = (Separation::Line, Separation::Line);
            }
            ElementRole::Pre => {
                (frame.kind, frame.owner) = (BlockKind::Code, own);
                (frame.separation, frame.between) = (Separation::Paragraph, Separation::Line);
            }
            ElementRole::Table => {
                (frame.kind, frame.is_data) = (prose, !layout);
                frame.separation = Separation::Paragraph;
            }
            ElementRole::Row if in_data => {
                (frame.kind, frame.owner, frame.is_data) = (BlockKind::Row, own - 1, true);
                frame.separation = Separation::Line;
            }
            ElementRole::Cell if in_data => {
                frame.is_data = true;
                frame.separation = Separation::None;
            }
            ElementRole::Caption => {
                (frame.kind, frame.separation) = (BlockKind::Caption, Separation::Paragraph);
            }
            ElementRole::Paragraph | ElementRole::Row | ElementRole::Cell => {
                frame.kind = prose;
                frame.separation = Separation::Paragraph;
            }
            ElementRole::Section | ElementRole::List => frame.kind = prose,
            _ => {}
        }
        if is_code {
            (frame.kind, frame.owner) = (parent.kind, parent.owner);
            (frame.separation, frame.between) = (parent.between, parent.between);
        }
        if frame.separation == Separation::None {
            self.start_cell();
        } else {
            self.boundary(frame.separation);
        }
        frame.before = self.blocks.len();
        self.frames.push(frame);
    }

    fn close(&mut self) {
        let frame = self.top();
        match frame.role {
            ElementRole::Anchor => self.end_link(frame.link),
            _ if frame.separation == Separation::None => {}
            _ => self.boundary(frame.separation),
        }
        self.frames.pop();
    }

    fn start_cell(&mut self) {
        self.space = None;
        self.line_break = None;
        if let Some(row) = self.frames.last_mut()
            && std::mem::replace(&mut row.has_part, true)
        {
            self.tabs += 1;
        }
    }

    /// Adds the link if it is short and in one block.
    fn end_link(&mut self, (start, in_block): (usize, bool)) {
        let Some(block) = self.block else { return };
        if in_block && block > start {
            return;
        }
        let link = ByteSpan { start: start.max(block), end: self.text.len() }.trimmed(&self.text);
        let is_first_block = in_block || self.text[start..block].trim().is_empty();
        let is_behind = self.links.last().is_none_or(|last| last.end <= link.start);
        if is_first_block && is_behind && !link.is_empty() && link.len() <= LONGEST_LINK {
            self.links.push(link);
        }
    }

    /// Ends the block, and separates it from the next one.
    fn boundary(&mut self, separation: Separation) {
        self.end_block();
        self.separation = self.separation.max(separation);
        self.space = None;
        self.line_break = None;
        self.tabs = 0;
        self.code_space.clear();
    }

    fn end_block(&mut self) {
        let Some(start) = self.block.take() else { return };
        let span = ByteSpan { start, end: self.text.len() }.trimmed(&self.text);
        if span.is_empty() {
            return;
        }
        let Frame { kind, owner, heading_level, has_data, depth, .. } = self.top();
        let owner = &mut self.frames[owner];
        let continues = match kind {
            BlockKind::Item | BlockKind::Term | BlockKind::Code => self.blocks.len() > owner.before,
            BlockKind::Row => std::mem::replace(&mut owner.has_part, true),
            _ => false,
        };
        if kind == BlockKind::Heading && heading_level == 1 && self.title.is_none() {
            self.title = Some(collapsed(span.of(&self.text)));
        }
        let after_header = self.blocks.last().is_some_and(|last| last.kind == BlockKind::HeaderRow);
        let is_header = kind == BlockKind::Row && !has_data && (!continues || after_header);
        let level = if kind == BlockKind::Heading { heading_level } else { depth };
        let kind = if is_header { BlockKind::HeaderRow } else { kind };
        self.blocks.push(Block { span, kind, continues, level });
    }

    fn line_break(&mut self, span: ByteSpan) {
        if self.top().kind == BlockKind::Code {
            self.code_white(White { source: span, decoded: Some('\n') });
        } else {
            self.space = None;
            self.line_break = Some(self.line_break.map_or((span, false), |(first, _)| (first, true)));
        }
    }

    /// Writes text that is identical in the source.
    fn verbatim(&mut self, span: ByteSpan, checkpoints: &mut Checkpoints) -> Result<()> {
        let is_code = self.top().kind == BlockKind::Code;
        let mut start = span.start;
        while start < span.end {
            checkpoints.reach(start)?;
            let rest = &self.source[start..span.end];
            let word = rest.find(is_white).unwrap_or(rest.len());
            if word > 0 {
                self.before_character();
                self.map.push_verbatim(self.text.len(), ByteSpan { start, end: start + word });
                self.text.push_str(&rest[..word]);
            }
            let rest = &rest[word..];
            let white = rest.find(|c| !is_white(c)).unwrap_or(rest.len());
            start += word;
            let source = ByteSpan { start, end: start + white };
            start = source.end;
            if white == 0 {
                continue;
            }
            if is_code {
                self.code_white(White { source, decoded: None });
            } else {
                self.white(ByteSpan { start: source.start, end: source.start + 1 });
            }
        }
        Ok(())
    }

    /// Writes text that differs from its source: one character, or the two of one reference.
    fn decoded(&mut self, source: ByteSpan, text: &str) {
        match text.chars().next().filter(|&first| is_white(first)) {
            Some(white) if self.top().kind == BlockKind::Code => {
                self.code_white(White { source, decoded: Some(white) });
            }
            Some(_) => self.white(source),
            None => {
                self.before_character();
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

    /// Notes white space of code; a line end ends the block.
    fn code_white(&mut self, white: White) {
        let has_line_end = white.decoded.map_or_else(|| white.source.of(self.source).contains('\n'), |c| c == '\n');
        if has_line_end {
            self.end_block();
        }
        self.code_space.push(white);
    }

    /// Writes the white space before a character, and starts a block if none is open.
    fn before_character(&mut self) {
        let kind = self.top().kind;
        if let Some((_, true)) = self.line_break
            && !kind.is_whole()
            && self.block.is_some()
        {
            self.boundary(Separation::Paragraph);
        }
        if kind == BlockKind::Code {
            self.write_code_space();
        } else if self.block.is_none() {
            self.write_separation();
        } else if self.tabs > 0 {
            for _ in 0..self.tabs {
                self.insert('\t');
            }
        } else if let Some((line_break, _)) = self.line_break {
            self.write_for(line_break, '\n');
        } else if let Some(space) = self.space {
            if space.of(self.source) == " " {
                self.map.push_verbatim(self.text.len(), space);
                self.text.push(' ');
            } else {
                self.write_for(space, ' ');
            }
        }
        (self.tabs, self.space, self.line_break) = (0, None, None);
        self.block.get_or_insert(self.text.len());
    }

    /// Writes the white space of code. At the start of code, drops the lines before the first one with text.
    fn write_code_space(&mut self) {
        let mut white = std::mem::take(&mut self.code_space);
        if self.block.is_none() && (self.separation != Separation::None || self.text.is_empty()) {
            let line_end = |white: &White| match white.decoded {
                Some(c) => (c == '\n').then_some(white.source.end),
                None => white.source.of(self.source).rfind('\n').map(|end| white.source.start + end + 1),
            };
            if let Some((index, end)) = white.iter().enumerate().rev().find_map(|(i, w)| Some((i, line_end(w)?))) {
                white.drain(..index);
                white[0].source.start = end;
            }
            self.write_separation();
        }
        for White { source, decoded } in white {
            match decoded {
                _ if source.is_empty() => {}
                Some(c) => self.write_for(source, c),
                None => {
                    self.map.push_verbatim(self.text.len(), source);
                    self.text.push_str(source.of(self.source));
                }
            }
        }
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

/// White space that HTML collapses into one space.
fn is_white(c: char) -> bool {
    c.is_ascii_whitespace()
}
