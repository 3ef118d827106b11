//! Writes the visible text of a page, with its blocks, links and source map.
//!
//! White space is written together with the character after it ([`characters`]). So lines and blocks never end in white
//! space, and the separation of two blocks depends on all elements that ended and started between them.

mod characters;
mod columns;
mod joints;
mod ruby;
mod sections;

use super::Reading;
use super::attributes::WhiteSpace;
use super::elements::ElementRole;
use super::events::{Event, Events};
use crate::error::Result;
use crate::runtime::call::{Check, Checkpoints};
use crate::text::formats::map::SourceMap;
use crate::text::page::{Block, BlockKind, ByteSpan};
use crate::text::pieces::marks::is_terminal;
use characters::White;
use columns::Columns;
use joints::Joint;
use ruby::Readings;
use sections::{PendingEnd, Sections};

/// Bytes of the longest link that is never split; longer ones are linked prose.
const LONGEST_LINK: usize = 200;

/// Bytes of the longest bold line that is a heading.
const LONGEST_BOLD_HEADING: usize = 100;

/// Words of the longest lone button that is part of the page's controls (`Copy`, `Share`), not of its text.
const LONGEST_CONTROL: usize = 3;

/// An event counts as this many bytes of text between two checks.
const BYTES_PER_EVENT: usize = 16;

/// Writes the visible text of a source.
pub(super) fn write(source: &str, events: &Events, check: &Check) -> Result<Reading> {
    let mut writer = Writer { source, frames: vec![Frame::ROOT], ..Writer::default() };
    let (mut by_event, mut by_text) = (Checkpoints::new(check), Checkpoints::new(check));
    for (index, &event) in events.list.iter().enumerate() {
        by_event.reach(index * BYTES_PER_EVENT)?;
        match event {
            Event::Open(role) if role.is_inline() => writer.open_in_line(role),
            Event::Open(role) => writer.open(role),
            Event::OpenTerm => {
                writer.open(ElementRole::Term);
                if writer.top().kind == BlockKind::Item {
                    writer.top_mut().kind = BlockKind::Term;
                }
            }
            Event::OpenTable { layout } => writer.open_table(layout),
            Event::OpenCell { names, columns, rows } => writer.open_cell(names, columns, rows),
            Event::OpenButton { discloses } => {
                writer.open_in_line(ElementRole::Button);
                writer.top_mut().discloses = discloses;
            }
            Event::OpenWhiteSpace(white) => {
                writer.open_in_line(ElementRole::Inline);
                writer.top_mut().white = white;
            }
            Event::Close => writer.close(),
            Event::Text(span) => writer.verbatim(span, &mut by_text)?,
            Event::Decoded { source, text } => writer.decoded(source, text.of(&events.decoded)),
            Event::LineBreak(span) => writer.line_break(span),
            Event::Boundary => writer.separate(writer.top().between),
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
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
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
    /// Whether it is in a cell of a data table: all of that is in one block, with its row.
    in_cell: bool,
    /// The index of the frame of that row.
    row: usize,
    /// Whether its cell names a column or row.
    names: bool,
    /// For a table: whether it has a row yet. For a row in a cell: whether it has a cell yet.
    has_part: bool,
    /// For a row: whether it has text in a cell other than headers.
    has_data: bool,
    /// For an element of a line: its start in the text, and whether a block was open there.
    start: (usize, bool),
    /// The level of the heading that it is inside of, or 0.
    heading_level: u8,
    /// The number of lists that it is in.
    depth: u8,
    white: WhiteSpace,
    in_quote: bool,
    in_ruby: bool,
    /// `rt` or `rp`, if it is in one.
    reading: Option<ElementRole>,
    /// For a button: whether it opens and closes what follows.
    discloses: bool,
    sections: Sections,
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
        in_cell: false,
        row: 0,
        names: false,
        has_part: false,
        has_data: false,
        start: (0, false),
        heading_level: 0,
        depth: 0,
        white: WhiteSpace::Collapsed,
        in_quote: false,
        in_ruby: false,
        reading: None,
        discloses: false,
        sections: Sections::NONE,
    };
}

/// How far elements that follow each other from the start of the open block cover it.
#[derive(Clone, Copy, Default)]
struct Covered {
    strong: usize,
    cite: usize,
    button: usize,
    discloses: bool,
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
    /// The columns of the open data tables that are not in cells.
    columns: Vec<Columns>,
    /// The start of the open block.
    block: Option<usize>,
    /// The end of the text before it, and its separation from that.
    origin: (usize, Separation),
    covered: Covered,
    /// The separator before the next block.
    separation: Separation,
    /// The first white space character since the last other character on the line; becomes one space.
    space: Option<ByteSpan>,
    /// The span of the first line break since the last character, and whether there were more.
    line_break: Option<(ByteSpan, bool)>,
    /// Columns of a row that started since the last character.
    tabs: usize,
    /// White space that stays, since the last character.
    kept_space: Vec<White>,
    joint: Joint,
    readings: Readings,
    /// The end of sections before the next block.
    section_end: Option<PendingEnd>,
}

impl Writer<'_> {
    fn top(&self) -> Frame {
        self.frames.last().copied().unwrap_or(Frame::ROOT)
    }

    fn top_mut(&mut self) -> &mut Frame {
        self.frames.last_mut().expect("the root stays open")
    }

    fn open_in_line(&mut self, role: ElementRole) {
        // The source of a quotation on a line of its own.
        if role == ElementRole::Cite && self.top().in_quote && !self.top().in_cell && self.line_break.is_some() {
            self.boundary(Separation::Line);
        }
        if role == ElementRole::Strong {
            self.end_paragraph();
        }
        let start = (self.text.len(), self.block.is_some());
        let before = self.blocks.len();
        let mut frame =
            Frame { role, start, before, separation: Separation::None, sections: Sections::NONE, ..self.top() };
        match role {
            ElementRole::Ruby => frame.in_ruby = true,
            ElementRole::Reading | ElementRole::Parenthesis => frame.reading = Some(role),
            _ => self.joint = Joint::before(role, self.joint),
        }
        self.frames.push(frame);
    }

    fn open(&mut self, role: ElementRole) {
        let parent = self.top();
        let own = self.frames.len();
        // Blocks inside a heading show that it was not closed.
        let prose = if parent.kind == BlockKind::Heading { BlockKind::Prose } else { parent.kind };
        let mut frame = Frame {
            role,
            has_part: false,
            has_data: false,
            is_data: false,
            separation: parent.between,
            sections: Sections::NONE,
            ..parent
        };
        if role == ElementRole::Pre {
            frame.white = WhiteSpace::Preserved;
        }
        let is_fixed = parent.in_cell || parent.kind == BlockKind::Code;
        match role {
            ElementRole::Row if parent.in_cell => frame.is_data = true,
            _ if is_fixed => {}
            _ if role.heading_level() > 0 => {
                (frame.kind, frame.heading_level) = (BlockKind::Heading, role.heading_level());
                frame.separation = Separation::Paragraph;
            }
            ElementRole::Item | ElementRole::Term => {
                (frame.kind, frame.owner) = (BlockKind::Item, own);
                frame.depth = parent.depth.saturating_add(1);
                (frame.separation, frame.between) = (Separation::Line, Separation::Line);
            }
            // Its summary is a term that the rest defines.
            ElementRole::Details => {
                (frame.kind, frame.owner) = (BlockKind::Item, own);
                frame.depth = parent.depth.saturating_add(1);
                (frame.separation, frame.between) = (Separation::Paragraph, Separation::Paragraph);
            }
            ElementRole::Summary if parent.role == ElementRole::Details => frame.kind = BlockKind::Term,
            ElementRole::Pre => {
                (frame.kind, frame.owner) = (BlockKind::Code, own);
                (frame.separation, frame.between) = (Separation::Paragraph, Separation::Line);
            }
            ElementRole::Row if parent.is_data => {
                (frame.kind, frame.owner, frame.is_data) = (BlockKind::Row, own - 1, true);
                frame.separation = Separation::Line;
            }
            ElementRole::Caption => {
                (frame.kind, frame.separation) = (BlockKind::Caption, Separation::Paragraph);
            }
            ElementRole::FigureCaption if parent.role == ElementRole::Figure => {
                let is_below = self.blocks.len() > parent.before || self.block.is_some();
                frame.kind = if is_below { BlockKind::Source } else { BlockKind::Caption };
            }
            ElementRole::Footer if parent.in_quote => frame.kind = BlockKind::Source,
            ElementRole::Quote => (frame.kind, frame.in_quote) = (prose, true),
            ElementRole::Choice => (frame.kind, frame.separation) = (BlockKind::Rule, Separation::Line),
            ElementRole::Table | ElementRole::Paragraph | ElementRole::Row | ElementRole::Cell => {
                frame.kind = prose;
                frame.separation = Separation::Paragraph;
            }
            ElementRole::Section | ElementRole::Footer | ElementRole::List => frame.kind = prose,
            _ => {}
        }
        self.separate(frame.separation);
        frame.before = self.blocks.len();
        self.frames.push(frame);
    }

    fn open_table(&mut self, layout: bool) {
        self.open(ElementRole::Table);
        if !layout && self.top().kind != BlockKind::Code && !self.top().in_cell {
            self.top_mut().is_data = true;
            self.columns.push(Columns::default());
        }
    }

    fn open_cell(&mut self, names: bool, columns: u8, rows: u8) {
        let parent = self.top();
        if !parent.is_data || parent.kind != BlockKind::Row {
            self.open(ElementRole::Cell);
            return;
        }
        let is_first = !std::mem::replace(&mut self.top_mut().has_part, true);
        // The first cell of a row inside a cell is after a line end.
        if !(parent.in_cell && is_first) {
            self.start_cell();
        }
        self.tabs += match self.columns.last_mut() {
            Some(own) if !parent.in_cell => own.start_cell(columns, rows),
            _ => usize::from(!is_first),
        };
        let row = if parent.in_cell { parent.row } else { self.frames.len() - 1 };
        let names = names || parent.in_cell && parent.names;
        let frame = Frame {
            role: ElementRole::Cell,
            separation: Separation::None,
            in_cell: true,
            row,
            names,
            sections: Sections::NONE,
            ..parent
        };
        self.frames.push(frame);
    }

    fn close(&mut self) {
        let frame = self.top();
        let end = self.text.len();
        match frame.role {
            ElementRole::Anchor => self.end_link(frame.start),
            ElementRole::Strong if frame.before == self.blocks.len() => {
                self.covered.strong = self.cover(self.covered.strong, frame.start.0);
            }
            ElementRole::Cite if frame.in_quote => {
                self.covered.cite = self.cover(self.covered.cite, frame.start.0);
            }
            ElementRole::Button => {
                self.covered.button = self.cover(self.covered.button, frame.start.0);
                self.covered.discloses |= frame.discloses;
            }
            _ => {}
        }
        if frame.separation != Separation::None {
            self.separate(frame.separation);
        }
        self.joint = Joint::after(frame.role, frame.start.0, end, self.joint);
        match frame.role {
            ElementRole::Row if frame.is_data && !frame.in_cell => {
                self.columns.last_mut().into_iter().for_each(Columns::end_row);
            }
            ElementRole::Table if frame.is_data => {
                self.columns.pop();
            }
            ElementRole::Figure => self.end_figure(frame.before),
            _ => {}
        }
        let sections = self.top().sections;
        self.frames.pop();
        self.end_sections(frame.role, sections);
        if frame.has_data && frame.separation == Separation::None {
            self.top_mut().has_data = true;
        }
    }

    /// The end of what covers the open block, after an element that started there.
    fn cover(&self, covered: usize, start: usize) -> usize {
        let Some(block) = self.block else { return covered };
        let covered = covered.max(block);
        let is_next = start <= covered || self.text.get(covered..start).is_some_and(|gap| gap.trim().is_empty());
        if is_next { self.text.len() } else { covered }
    }

    /// The caption of a picture is text.
    fn end_figure(&mut self, before: usize) {
        if let [caption] = &mut self.blocks[before..]
            && caption.kind == BlockKind::Caption
        {
            caption.kind = BlockKind::Prose;
        }
    }

    fn start_cell(&mut self) {
        self.write_readings();
        self.space = None;
        self.line_break = None;
        self.kept_space.clear();
    }

    /// Adds the link if it is short and in one block.
    fn end_link(&mut self, (start, in_block): (usize, bool)) {
        let Some(block) = self.block else { return };
        if in_block && block > start {
            return;
        }
        // Not in a text that was taken back.
        let before = self.text.get(start.min(block)..block);
        let Some(_) = self.text.get(start.max(block)..) else { return };
        let link = ByteSpan { start: start.max(block), end: self.text.len() }.trimmed(&self.text);
        let is_first_block = in_block || before.is_some_and(|before| before.trim().is_empty());
        let is_behind = self.links.last().is_none_or(|last| last.end <= link.start);
        if is_first_block && is_behind && !link.is_empty() && link.len() <= LONGEST_LINK {
            self.links.push(link);
        }
    }

    /// Separates what follows, by a line end in cells.
    fn separate(&mut self, separation: Separation) {
        if !self.top().in_cell {
            self.boundary(separation);
            return;
        }
        self.write_readings();
        self.space = None;
        self.kept_space.clear();
        if self.block.is_some() && self.tabs == 0 {
            let end = self.map.source_end();
            self.line_break.get_or_insert((ByteSpan { start: end, end }, false));
        }
    }

    /// Ends the block, and separates it from the next one.
    fn boundary(&mut self, separation: Separation) {
        self.end_block();
        self.separation = self.separation.max(separation);
        self.space = None;
        self.line_break = None;
        self.tabs = 0;
        self.kept_space.clear();
        self.joint = Joint::default();
    }

    fn end_block(&mut self) {
        self.write_readings();
        let Some(start) = self.block.take() else { return };
        let Frame { kind, owner, heading_level, has_data, depth, .. } = self.top();
        let mut span = ByteSpan { start, end: self.text.len() }.trimmed(&self.text);
        if span.is_empty() {
            return;
        }
        let covered = std::mem::take(&mut self.covered);
        let words = span.of(&self.text).split_whitespace().count();
        let is_control = words <= LONGEST_CONTROL && !span.of(&self.text).ends_with(['?', '？', '؟']);
        let is_text = matches!(kind, BlockKind::Prose | BlockKind::Item);
        if is_text && covered.button >= span.end && is_control && !covered.discloses {
            self.drop_block();
            return;
        }
        let tabs = self.text[start..].bytes().take_while(|byte| *byte == b'\t').count();
        if kind == BlockKind::Row && start + tabs == span.start {
            span.start = start;
        }
        let owner = &mut self.frames[owner];
        let continues = match kind {
            BlockKind::Item | BlockKind::Term | BlockKind::Code => self.blocks.len() > owner.before,
            BlockKind::Row => std::mem::replace(&mut owner.has_part, true),
            _ => false,
        };
        if kind == BlockKind::Heading && heading_level == 1 && self.title.is_none() {
            self.title = Some(collapsed(span.of(&self.text)));
        }
        // One name below those of several columns is that of the rows below it.
        let names_rows =
            |header: &Block| header.span.of(&self.text).contains('\t') && !span.of(&self.text).contains('\t');
        let last_header = self.blocks.last().filter(|last| last.kind == BlockKind::HeaderRow);
        let after_header = last_header.is_some_and(|last| !names_rows(last));
        let is_header = kind == BlockKind::Row && !has_data && (!continues || after_header);
        let level = if kind == BlockKind::Heading { heading_level } else { depth };
        let is_title = covered.strong >= span.end && is_bold_title(span.of(&self.text))
            || covered.button >= span.end && covered.discloses;
        let (kind, level) = match kind {
            _ if is_header => (BlockKind::HeaderRow, level),
            BlockKind::Prose if is_title => (BlockKind::Heading, 0),
            BlockKind::Prose if covered.cite >= span.end && !self.blocks.is_empty() => (BlockKind::Source, level),
            _ => (kind, level),
        };
        let ends = self.section_end.take().map_or(0, |end| end.level_in(&self.frames));
        let is_sentence = span.of(&self.text).ends_with(is_terminal);
        self.top_mut().sections.add(kind, level, is_sentence);
        self.blocks.push(Block { span, kind, continues, level, ends });
    }

    /// Takes back the text of the block, which is a control.
    fn drop_block(&mut self) {
        let (end, separation) = self.origin;
        self.text.truncate(end);
        self.map.truncate(end);
        self.separation = self.separation.max(separation);
        while self.links.pop_if(|link| link.end > end).is_some() {}
    }
}

/// Whether a bold line is a heading: it is short and no sentence.
fn is_bold_title(line: &str) -> bool {
    line.len() <= LONGEST_BOLD_HEADING && !line.ends_with(['.', '!', ':', ';', ',', '…', '。', '！', '：', '।'])
}
