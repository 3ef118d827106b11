//! Reads a long source piece by piece.
//!
//! The parser reads all of its input before its first event. So it gets the source in pieces, between which the call
//! may end. A piece begins where a block begins that is in no list item: nothing before it matters there. A block that
//! is longer than a piece is cut. The rows of a table, lines of code and raw HTML continue after the cut, because their
//! first line stands before the next piece, too.

use std::collections::HashSet;

use pulldown_cmark::{BrokenLink, CowStr, Event, Parser, Tag, TagEnd};

use super::nesting::limited;
use super::{BlockKind, EXTENSIONS, FoundLeaf, LINE_ENDS, LeafBlocks, Leaves};
use crate::error::Result;
use crate::runtime::call::{Check, Checkpoints};
use crate::text::page::{ByteSpan, boundary_from};

/// Bytes of a piece. The parser needs 3 ms for a piece of prose, and less than 50 ms for the slowest ones.
pub(super) const PIECE_BYTES: usize = 256 * 1024;

/// Bytes of the first lines of a block that are repeated after a cut.
const LONGEST_PREFIX: usize = 4096;

/// The leaves of a source from `body` on, read in pieces of `piece_bytes`.
pub(super) fn leaves(source: &str, body: usize, piece_bytes: usize, check: &Check) -> Result<Leaves> {
    let mut checkpoints = Checkpoints::new(check);
    let mut leaves = Leaves::default();
    let labels = if source.len() - body > piece_bytes { labels(source) } else { HashSet::new() };
    // A piece that continues a leaf has that leaf's first lines before it.
    let (mut start, mut prefix, mut continues) = (body, "", false);
    while start < source.len() {
        let end = piece_end(source, start, piece_bytes);
        let first = leaves.found.len();
        let next = read_piece(source, ByteSpan { start, end }, prefix, &labels, &mut leaves, &mut checkpoints)?;
        if continues {
            leaves.join(source, first);
        }
        // The last line only shows whether the block before it goes on.
        let read = source[..end].strip_suffix('\n').unwrap_or(&source[..end]);
        let last_line = read.rfind('\n').map_or(0, |end| end + 1);
        start = match next {
            _ if end == source.len() => end,
            Some(line) => line,
            None if last_line > start => last_line,
            None => end,
        };
        continues = leaves.cut(start) && next.is_none();
        let cut = leaves.found.last().filter(|_| continues);
        prefix = cut.map_or("", |leaf| first_lines(source, leaf.span, leaf.blocks));
    }
    Ok(leaves)
}

/// Adds the leaves of a piece. Returns the start of the last line after its first one that a piece may begin with.
fn read_piece(
    source: &str,
    piece: ByteSpan,
    prefix: &str,
    labels: &HashSet<String>,
    leaves: &mut Leaves,
    checkpoints: &mut Checkpoints,
) -> Result<Option<usize>> {
    checkpoints.reach(piece.start)?;
    let text = if prefix.is_empty() { piece.of(source) } else { &format!("{prefix}{}", piece.of(source)) };
    let text = limited(text);
    // Definitions are in any piece.
    let resolve = |link: BrokenLink<'_>| {
        let is_defined = !labels.is_empty() && labels.contains(&normalized(&link.reference));
        is_defined.then_some((CowStr::Borrowed(""), CowStr::Borrowed("")))
    };
    let (mut next, mut open_items) = (None, 0_usize);
    // The start of the last block's line: many blocks may begin in one.
    let (mut line, mut searched) = (piece.start, piece.start);
    for (event, range) in Parser::new_with_broken_link_callback(&text, EXTENSIONS, Some(resolve)).into_offset_iter() {
        let place = |offset: usize| piece.start + offset.saturating_sub(prefix.len());
        let span = ByteSpan { start: place(range.start), end: place(range.end) };
        checkpoints.reach(span.start)?;
        match &event {
            Event::Start(tag) if begins_block(tag) => {
                if open_items == 0 {
                    let between = &source[searched.min(span.start)..span.start];
                    line = between.rfind(LINE_ENDS).map_or(line, |end| span.start - between.len() + end + 1);
                    searched = span.start;
                    next = Some(line).filter(|line| *line > piece.start).or(next);
                }
                open_items += usize::from(matches!(tag, Tag::Item | Tag::FootnoteDefinition(_)));
            }
            Event::End(tag) => open_items -= usize::from(matches!(tag, TagEnd::Item | TagEnd::FootnoteDefinition)),
            _ if range.end <= prefix.len() => continue,
            _ => {}
        }
        leaves.add(&event, span);
    }
    leaves.end_tight();
    Ok(next)
}

/// Whether an element begins on a line of its own, or with the mark of an item.
const fn begins_block(tag: &Tag) -> bool {
    matches!(
        tag,
        Tag::Paragraph
            | Tag::Heading { .. }
            | Tag::BlockQuote(_)
            | Tag::CodeBlock(_)
            | Tag::HtmlBlock
            | Tag::List(_)
            | Tag::Item
            | Tag::FootnoteDefinition(_)
            | Tag::Table(_)
    )
}

/// The end of the piece that begins at `start`: of its last line, unless a line is longer than a piece.
fn piece_end(source: &str, start: usize, piece_bytes: usize) -> usize {
    let limit = boundary_from(source, start.saturating_add(piece_bytes));
    if limit == source.len() {
        return limit;
    }
    match source[start..limit].rfind('\n') {
        Some(end) => start + end + 1,
        None => limit,
    }
}

/// The first lines of a leaf that tell what its other lines are; empty if they are long.
fn first_lines(source: &str, leaf: ByteSpan, blocks: LeafBlocks) -> &str {
    let lines = match blocks {
        // The names of columns, and the line below them.
        LeafBlocks::Lines(BlockKind::Row) => 2,
        LeafBlocks::Lines(_) | LeafBlocks::RawHtml => 1,
        LeafBlocks::Whole(..) => 0,
    };
    // A line that begins farther away is too long.
    let from = leaf.start.saturating_sub(LONGEST_PREFIX + 1);
    let line_end = source.as_bytes()[from..leaf.start].iter().rposition(|byte| matches!(byte, b'\n' | b'\r'));
    let start = match line_end {
        Some(end) => from + end + 1,
        None if from == 0 => 0,
        None => return "",
    };
    let length: usize = source[start..].split_inclusive('\n').take(lines).map(str::len).sum();
    if length <= LONGEST_PREFIX { &source[start..start + length] } else { "" }
}

/// The labels of all lines that may define a link.
fn labels(source: &str) -> HashSet<String> {
    let label = |line: &str| {
        let label = line.trim_start_matches([' ', '\t', '>']).strip_prefix('[')?;
        Some(normalized(&label[..label.find("]:")?]))
    };
    source.split(LINE_ENDS).filter_map(label).collect()
}

/// Labels match whatever their case and white space.
fn normalized(label: &str) -> String {
    label.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

impl Leaves {
    /// Drops what was found from a line on. Returns whether a leaf was cut.
    fn cut(&mut self, line: usize) -> bool {
        self.links.truncate(self.links.partition_point(|link| link.start < line));
        self.found.truncate(self.found.partition_point(|leaf| leaf.span.start < line));
        self.title.rewind(line);
        let Some(leaf) = self.found.last_mut().filter(|leaf| leaf.span.end > line) else { return false };
        leaf.span.end = line;
        true
    }

    /// Joins the leaf that was cut, the last one before `first`, with the rest of it, if that comes next.
    fn join(&mut self, source: &str, first: usize) {
        let Some([cut, rest]) = self.found.get(first - 1..=first) else { return };
        let is_one_kind = std::mem::discriminant(&cut.blocks) == std::mem::discriminant(&rest.blocks);
        let (cut, rest): (&FoundLeaf, ByteSpan) = (cut, rest.span);
        let begins_with = source[cut.span.end..rest.start.max(cut.span.end)].trim().is_empty();
        if is_one_kind && begins_with {
            self.found[first - 1].span.end = rest.end;
            self.found.remove(first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Layout, layout_in_pieces};

    fn assert_same(source: &str, piece_bytes: usize) {
        let layout =
            |bytes| layout_in_pieces(source, bytes, &crate::runtime::call::unstopped).expect("nothing stops it");
        let (whole, pieces): (Layout, Layout) = (layout(usize::MAX), layout(piece_bytes));
        let cut = |layout: &Layout| -> Vec<String> {
            layout.blocks.iter().map(|block| format!("{block:?} {:?}", block.span.of(source))).collect()
        };
        for (piece, whole) in cut(&pieces).iter().zip(cut(&whole)) {
            assert_eq!(*piece, whole, "in pieces of {piece_bytes} bytes");
        }
        assert_eq!(pieces.blocks.len(), whole.blocks.len(), "{piece_bytes}");
        assert_eq!((pieces.links, pieces.title), (whole.links, whole.title), "{piece_bytes}");
    }

    #[test]
    fn pieces_are_read_as_the_whole() {
        let page = "---\ntitle: t\n---\n# A *b* [c]\n\nSome [text. More.][ref] and `code. Here`.\n\n> A quote\nthat goes \
                    on. [x](y)\n>\n> - in it\n> - items\n\n- One\n- Two\n\n  more of two\n    - deeper\n\n      code\n- \
                    Three\n\n| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n\n```\ncode\n\n# no heading\n```\n\n<div>\n\
                    <p>html</p>\n</div>\n\n1. x\n2. y\n\nTitle\n===\n\n    indented\n\n    more\n\n---\n\nEnd.\n\n"
            .repeat(3)
            + "[ref]: http://a.b\n[C]: d\n";
        for piece_bytes in (150..1000).step_by(7) {
            assert_same(&page, piece_bytes);
        }
    }

    #[test]
    fn blocks_longer_than_a_piece_go_on_after_a_cut() {
        for (first, line, last) in [
            ("| a | b |\n|---|---|\n", "| 1 | 2 |\n", ""),
            ("```\n", "# code\n\n- more\n", "```\n"),
            ("<pre>\n", "# text\n\n", "</pre>\n"),
            ("> ```\n", "> # code\n", ""),
            ("", "- an item\n  with more\n", ""),
            ("", "> a quote\n\n> another\n", ""),
            ("", "a line\n", ""),
            ("- ```\n", "  # code\n", ""),
        ] {
            let page = format!("Before.\n\n{first}{}{last}\nAfter.\n", line.repeat(100));
            for piece_bytes in [64, 100, 333] {
                assert_same(&page, piece_bytes);
            }
        }
    }

    #[test]
    fn references_find_definitions_in_other_pieces() {
        let text = format!("[One. Two.][Far  AWAY]\n\n{}\n[far away]: http://a.b\n", "Text.\n\n".repeat(100));
        assert_same(&text, 64);
    }
}
