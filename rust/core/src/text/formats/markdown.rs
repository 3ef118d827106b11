//! Markdown: the text is the source, and `pulldown-cmark` finds its structure.
//!
//! Every leaf of the structure, such as a paragraph or a table, has its own lines. So a block consists of whole lines,
//! including the marks of the lists and quotes around it. Lines that the parser does not report (rules, link
//! definitions, the empty lines of a quote) become blocks of their own, so that the blocks cover the whole source.

mod front_matter;
mod nesting;
mod pieces;
mod raw_html;
pub(super) mod shown;

use pulldown_cmark::{Event, HeadingLevel, Options, Tag, TagEnd};

use crate::error::Result;
use crate::runtime::call::{Check, Checkpoints};
use crate::text::page::{Block, BlockKind, ByteSpan, marked_level};

/// Supported extensions of `CommonMark`.
const EXTENSIONS: Options =
    Options::ENABLE_TABLES.union(Options::ENABLE_STRIKETHROUGH).union(Options::ENABLE_FOOTNOTES);

pub(super) struct Layout {
    pub(super) blocks: Vec<Block>,
    pub(super) links: Vec<ByteSpan>,
    pub(super) title: Option<String>,
}

pub(super) fn layout(source: &str, check: &Check) -> Result<Layout> {
    layout_in_pieces(source, pieces::PIECE_BYTES, check)
}

fn layout_in_pieces(source: &str, piece_bytes: usize, check: &Check) -> Result<Layout> {
    let front_matter = front_matter::find(source);
    let mut blocks = Blocks { source, done: Vec::new(), covered: 0 };
    if let Some(front_matter) = &front_matter {
        blocks.add(front_matter.span, LeafBlocks::Lines(BlockKind::Code), 0);
    }
    // To the parser a byte order mark is text; the first block includes it with its line.
    let body = blocks.covered.max(if source.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 });
    let leaves = pieces::leaves(source, body, piece_bytes, check)?;
    let mut checkpoints = Checkpoints::new(check);
    for FoundLeaf { span, blocks: form, depth } in leaves.found {
        checkpoints.reach(span.start)?;
        blocks.add(span, form, depth);
    }
    blocks.add_rules(source.len());
    let title = front_matter.and_then(|front_matter| front_matter.title);
    // Some white space ends a block here but not in the parser. A link across such an end is dropped.
    let mut links = leaves.links;
    links.retain(|link| {
        let block = blocks.done.partition_point(|block| block.span.end < link.end);
        blocks.done.get(block).is_some_and(|block| block.span.start <= link.start)
    });
    Ok(Layout { blocks: blocks.done, links, title: title.or(leaves.title.into_found()) })
}

/// The blocks of a leaf.
#[derive(Clone, Copy)]
enum LeafBlocks {
    /// One block: its kind, and whether it continues the block before it.
    Whole(BlockKind, bool),
    /// A block of this kind for each line; all but the first continue.
    Lines(BlockKind),
    /// The blocks of `raw_html`.
    RawHtml,
}

/// A leaf of the structure.
struct FoundLeaf {
    span: ByteSpan,
    blocks: LeafBlocks,
    /// The number of lists that it is in.
    depth: u8,
}

/// Collects the leaves of the structure from the parser's events.
#[derive(Default)]
struct Leaves {
    found: Vec<FoundLeaf>,
    links: Vec<ByteSpan>,
    title: Title,
    /// For each open list item: the number of leaves before it.
    items: Vec<usize>,
    /// Whether the current events are inside a leaf that was already added.
    in_leaf: bool,
    /// The text of a tight list item, for which the parser reports no paragraph.
    tight: Option<ByteSpan>,
}

impl Leaves {
    fn add(&mut self, event: &Event<'_>, span: ByteSpan) {
        match event {
            Event::Start(tag) => self.start(tag, span),
            Event::End(end) => self.end(*end),
            Event::Text(text) => {
                self.title.push(text);
                self.extend_tight(span);
            }
            Event::Code(text) => {
                self.title.push(text);
                self.link(span);
                self.extend_tight(span);
            }
            Event::FootnoteReference(_) => {
                self.link(span);
                self.extend_tight(span);
            }
            Event::SoftBreak | Event::HardBreak => self.title.push(" "),
            Event::Rule => self.end_tight(),
            Event::InlineHtml(_) => self.extend_tight(span),
            // Parts of leaves, and events of disabled extensions.
            Event::Html(_) | Event::TaskListMarker(_) | Event::InlineMath(_) | Event::DisplayMath(_) => {}
        }
    }

    fn start(&mut self, tag: &Tag<'_>, span: ByteSpan) {
        let form = match tag {
            Tag::Paragraph => self.prose(),
            Tag::Heading { level, .. } => {
                self.title.start(*level, span.start);
                LeafBlocks::Whole(BlockKind::Heading, false)
            }
            Tag::CodeBlock(_) => LeafBlocks::Lines(BlockKind::Code),
            Tag::HtmlBlock => LeafBlocks::RawHtml,
            Tag::Table(_) => LeafBlocks::Lines(BlockKind::Row),
            Tag::TableHead | Tag::TableRow | Tag::TableCell => return,
            Tag::Item => {
                self.end_tight();
                self.items.push(self.found.len());
                return;
            }
            Tag::BlockQuote(_)
            | Tag::List(_)
            | Tag::FootnoteDefinition(_)
            | Tag::DefinitionList
            | Tag::DefinitionListTitle
            | Tag::DefinitionListDefinition
            | Tag::MetadataBlock(_) => return self.end_tight(),
            Tag::Link { .. } | Tag::Image { .. } => {
                self.link(span);
                return self.extend_tight(span);
            }
            Tag::Emphasis | Tag::Strong | Tag::Strikethrough | Tag::Superscript | Tag::Subscript => {
                return self.extend_tight(span);
            }
        };
        self.end_tight();
        self.in_leaf = true;
        self.push(span, form);
    }

    fn end(&mut self, end: TagEnd) {
        match end {
            TagEnd::Paragraph | TagEnd::CodeBlock | TagEnd::HtmlBlock | TagEnd::Table => self.in_leaf = false,
            TagEnd::Heading(_) => {
                self.in_leaf = false;
                self.title.end();
            }
            TagEnd::Item => {
                self.end_tight();
                self.items.pop();
            }
            _ => {}
        }
    }

    /// The form of a paragraph: in a list item or outside.
    fn prose(&self) -> LeafBlocks {
        match self.items.last() {
            Some(&before) => LeafBlocks::Whole(BlockKind::Item, self.found.len() > before),
            None => LeafBlocks::Whole(BlockKind::Prose, false),
        }
    }

    fn push(&mut self, span: ByteSpan, blocks: LeafBlocks) {
        let depth = u8::try_from(self.items.len()).unwrap_or(u8::MAX);
        self.found.push(FoundLeaf { span, blocks, depth });
    }

    fn extend_tight(&mut self, span: ByteSpan) {
        if !self.in_leaf {
            let start = self.tight.map_or(span.start, |tight| tight.start);
            self.tight = Some(ByteSpan { start, end: span.end });
        }
    }

    fn end_tight(&mut self) {
        if let Some(span) = self.tight.take() {
            self.push(span, self.prose());
        }
    }

    /// Adds a link unless it is inside another one.
    fn link(&mut self, span: ByteSpan) {
        if self.links.last().is_none_or(|last| last.end <= span.start) {
            self.links.push(span);
        }
    }
}

/// The first heading of level one that is not empty.
#[derive(Default)]
enum Title {
    #[default]
    Wanted,
    Open(String, usize),
    /// With the start of the heading.
    Found(String, usize),
}

impl Title {
    fn start(&mut self, level: HeadingLevel, at: usize) {
        if level == HeadingLevel::H1 && matches!(self, Self::Wanted) {
            *self = Self::Open(String::new(), at);
        }
    }

    /// Drops a heading that starts at this position or later.
    fn rewind(&mut self, to: usize) {
        if matches!(self, Self::Open(_, at) | Self::Found(_, at) if *at >= to) {
            *self = Self::Wanted;
        }
    }

    fn push(&mut self, piece: &str) {
        if let Self::Open(text, _) = self {
            text.push_str(piece);
        }
    }

    fn end(&mut self) {
        if let Self::Open(text, at) = self {
            let (text, at) = (text.trim(), *at);
            *self = if text.is_empty() { Self::Wanted } else { Self::Found(text.to_owned(), at) };
        }
    }

    fn into_found(self) -> Option<String> {
        match self {
            Self::Found(text, _) => Some(text),
            Self::Wanted | Self::Open(..) => None,
        }
    }
}

/// Builds the blocks of a source line by line.
struct Blocks<'source> {
    source: &'source str,
    done: Vec<Block>,
    /// The end of the last block's lines; the start of a line.
    covered: usize,
}

impl Blocks<'_> {
    /// Adds a leaf, and the unreported lines before it.
    fn add(&mut self, leaf: ByteSpan, blocks: LeafBlocks, depth: u8) {
        let leaf = leaf.trimmed(self.source);
        if leaf.is_empty() || leaf.start < self.covered {
            return;
        }
        let before = &self.source[self.covered..leaf.start];
        self.add_rules(self.covered + before.rfind(LINE_ENDS).map_or(0, |end| end + 1));
        let after = &self.source[leaf.end..];
        let lines =
            ByteSpan { start: self.covered, end: leaf.end + after.find(LINE_ENDS).map_or(after.len(), |end| end + 1) };
        self.covered = lines.end;
        match blocks {
            LeafBlocks::Whole(kind, continues) => self.push(lines, kind, continues, depth),
            LeafBlocks::Lines(kind) => {
                let first = self.done.len();
                for line in split_lines(self.source, lines) {
                    let continues = self.done.len() > first;
                    let is_header = kind == BlockKind::Row && !continues;
                    self.push(line, if is_header { BlockKind::HeaderRow } else { kind }, continues, depth);
                }
            }
            LeafBlocks::RawHtml => {
                for block in raw_html::blocks(self.source, lines) {
                    let depth = if block.kind == BlockKind::Heading { 0 } else { depth };
                    let level = block.level.saturating_add(depth);
                    self.done.push(Block { span: block.span.trimmed(self.source), level, ..block });
                }
            }
        }
    }

    /// Adds the unreported lines up to `end`.
    fn add_rules(&mut self, end: usize) {
        for line in split_lines(self.source, ByteSpan { start: self.covered, end }) {
            self.push(line, BlockKind::Rule, false, 0);
        }
        self.covered = end;
    }

    fn push(&mut self, span: ByteSpan, kind: BlockKind, continues: bool, depth: u8) {
        let span = span.trimmed(self.source);
        if !span.is_empty() {
            let level = if kind == BlockKind::Heading { marked_level(span.of(self.source)) } else { depth };
            self.done.push(Block { span, kind, continues, level, ends: 0 });
        }
    }
}

const LINE_ENDS: [char; 2] = ['\n', '\r'];

/// The lines of a span, with their line ends.
fn split_lines(source: &str, span: ByteSpan) -> impl Iterator<Item = ByteSpan> {
    let mut start = span.start;
    span.of(source).split_inclusive(LINE_ENDS).map(move |line| {
        let line = ByteSpan { start, end: start + line.len() };
        start = line.end;
        line
    })
}

#[cfg(test)]
mod tests;
