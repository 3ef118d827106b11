//! The outline: a page as a tree of sections, lists, items, terms and leaves, the same for every format.
//!
//! Formats and lines only say what a block is and how deep it stands ([`crate::text::page::Block`]). The tree follows:
//! a section goes up to the next heading of its level, a list up to the next text outside it. [`together`] reads from
//! the tree which units stay together.

mod breadcrumbs;
mod cards;
mod code;
mod environments;
mod interruptions;
mod pairs;
mod replies;
mod series;
mod short;
mod signs;
mod together;
mod view;

use std::ops::Range;

use crate::text::page::{BlockKind, ByteSpan};

pub(crate) use breadcrumbs::{Breadcrumbs, Name};
pub(crate) use interruptions::goes_on_in_lower_case;
pub(crate) use short::short_paragraphs;
pub(crate) use signs::{is_admonition, is_question, is_quotation, starts_quotation};
pub(crate) use together::joins;

/// Rows from which on a table is one in which people look up a row.
pub(crate) const MIN_NAMED_ROWS: usize = 4;

/// Units of consecutive blocks that form one paragraph, heading, list item, table, or block of code.
#[derive(Debug)]
pub(crate) struct Leaf {
    /// Of a table, [`BlockKind::Row`].
    pub(crate) kind: BlockKind,
    /// See [`crate::text::page::Block::level`].
    pub(crate) level: u8,
    pub(crate) units: Range<usize>,
    /// The end of a table's header, which is empty if the columns have no names.
    pub(crate) header_end: usize,
    /// Whether it continues the list item before it.
    pub(crate) continues: bool,
    /// See [`crate::text::page::Block::ends`].
    pub(crate) ends: u8,
}

/// What a node is. Lists, their items and terms have the depth of their list, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeKind {
    Page,
    /// A heading and the text up to the next one of its level or above.
    Section(u8),
    List(u8),
    Item(u8),
    /// One or several terms and their definition.
    Term(u8),
    /// A paragraph, heading, table or block of code.
    Leaf(BlockKind),
}

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) kind: NodeKind,
    /// Itself for the page.
    pub(crate) parent: usize,
    pub(crate) units: Range<usize>,
}

/// The tree of a page.
#[derive(Debug)]
pub(crate) struct Outline {
    /// Each before what is in it, and in the order of the page.
    nodes: Vec<Node>,
    /// The leaf of each unit.
    leaves: Vec<u32>,
    /// The tables with a header: their first units, and where it ends.
    headers: Vec<(usize, usize)>,
}

/// The level of a heading that has no level of its own: it ends with the next heading of any level.
const UNKNOWN_LEVEL: u8 = u8::MAX;

impl Outline {
    /// Builds the tree. Leaves have units, and are sorted and disjoint.
    pub(crate) fn new(leaves: &[Leaf]) -> Self {
        let mut builder = Builder { nodes: Vec::new(), open: Vec::new(), leaves: Vec::new() };
        builder.open(NodeKind::Page, 0);
        for leaf in leaves.iter().filter(|leaf| !leaf.units.is_empty()) {
            builder.add(leaf);
        }
        let end = builder.leaves.len();
        builder.close(end, |_| true);
        let has_header = |leaf: &&Leaf| leaf.header_end > leaf.units.start;
        let headers = leaves.iter().filter(has_header).map(|leaf| (leaf.units.start, leaf.header_end)).collect();
        Self { nodes: builder.nodes, leaves: builder.leaves, headers }
    }

    /// The leaf of a unit.
    pub(crate) fn leaf(&self, unit: usize) -> usize {
        self.leaves[unit] as usize
    }

    pub(crate) fn node(&self, node: usize) -> &Node {
        &self.nodes[node]
    }

    /// The kind of a unit's leaf.
    pub(crate) fn kind(&self, unit: usize) -> BlockKind {
        match self.nodes[self.leaf(unit)].kind {
            NodeKind::Leaf(kind) => kind,
            _ => BlockKind::Prose,
        }
    }

    /// The end of the header of the table that starts with this unit; the unit without one.
    pub(crate) fn header_end(&self, unit: usize) -> usize {
        let table = self.headers.binary_search_by_key(&unit, |(start, _)| *start);
        table.map_or(unit, |table| self.headers[table].1)
    }

    /// Whether several items are in the list that starts with this unit.
    pub(crate) fn has_items(&self, unit: usize) -> bool {
        let item = self.nodes[self.leaf(unit)].parent;
        let Node { kind, parent, units } = &self.nodes[item];
        matches!(kind, NodeKind::Item(_)) && self.nodes[*parent].units.end > units.end
    }

    /// The headings, the items with others in them, and the terms, which name what is in their sections, items and
    /// definitions.
    pub(crate) fn names(&self) -> Vec<Name> {
        let named = |(place, node): (usize, &Node)| {
            let first = self.nodes.get(place + 1).map(|leaf| leaf.units.clone())?;
            let units = match node.kind {
                NodeKind::Section(_) => first,
                // The term already names what its definition says.
                NodeKind::Item(_) if matches!(self.nodes[node.parent].kind, NodeKind::Term(_)) => return None,
                NodeKind::Item(_) => first.start..first.end.min(first.start + 1),
                NodeKind::Term(_) => {
                    let terms =
                        self.nodes[place + 1..].iter().take_while(|leaf| leaf.kind == NodeKind::Leaf(BlockKind::Term));
                    first.start..terms.last().map_or(first.end, |leaf| leaf.units.end)
                }
                NodeKind::Page | NodeKind::List(_) | NodeKind::Leaf(_) => return None,
            };
            let start =
                if matches!(node.kind, NodeKind::Item(_)) { self.nodes[place + 1].units.end } else { units.end };
            Some(Name { units, scope: start..node.units.end })
        };
        self.nodes.iter().enumerate().filter_map(named).collect()
    }

    /// The outermost list, term or leaf that starts with this unit.
    pub(crate) fn outermost(&self, unit: usize) -> &Node {
        let mut node = &self.nodes[self.leaf(unit)];
        loop {
            let parent = &self.nodes[node.parent];
            let is_inside = matches!(parent.kind, NodeKind::List(_) | NodeKind::Item(_) | NodeKind::Term(_));
            if !is_inside || parent.units.start != unit {
                return node;
            }
            node = parent;
        }
    }
}

struct Builder {
    nodes: Vec<Node>,
    /// Nodes that are not complete, outermost first.
    open: Vec<usize>,
    leaves: Vec<u32>,
}

impl Builder {
    fn add(&mut self, leaf: &Leaf) {
        let start = leaf.units.start;
        let depth = leaf.level;
        if leaf.ends > 0 {
            self.close_sections(start, leaf.ends);
        }
        match leaf.kind {
            BlockKind::Heading => {
                let level = if depth == 0 { UNKNOWN_LEVEL } else { depth };
                self.close_sections(start, level);
                self.open(NodeKind::Section(level), start);
            }
            BlockKind::Item | BlockKind::Term => {
                let depth = depth.max(1);
                let is_term = leaf.kind == BlockKind::Term;
                self.close(start, |kind| is_deeper(kind, depth));
                if !leaf.continues {
                    self.close(start, |kind| kind == NodeKind::Item(depth));
                    let has_definition =
                        self.nodes.last().is_some_and(|last| last.kind != NodeKind::Leaf(BlockKind::Term));
                    self.close(start, |kind| is_term && has_definition && kind == NodeKind::Term(depth));
                }
                let top = self.top();
                let is_open = [NodeKind::List(depth), NodeKind::Item(depth), NodeKind::Term(depth)].contains(&top);
                if !is_open {
                    self.open(NodeKind::List(depth), start);
                }
                if is_term && self.top() != NodeKind::Term(depth) {
                    self.open(NodeKind::Term(depth), start);
                } else if !is_term && self.top() != NodeKind::Item(depth) {
                    self.open(NodeKind::Item(depth), start);
                }
            }
            _ => self.close(start, |kind| is_deeper(kind, depth)),
        }
        self.open(NodeKind::Leaf(leaf.kind), start);
        let number = u32::try_from(self.nodes.len() - 1).unwrap_or(u32::MAX);
        self.leaves.resize(leaf.units.end, number);
        self.close(leaf.units.end, |kind| matches!(kind, NodeKind::Leaf(_)));
    }

    fn top(&self) -> NodeKind {
        self.open.last().map_or(NodeKind::Page, |node| self.nodes[*node].kind)
    }

    fn open(&mut self, kind: NodeKind, start: usize) {
        let parent = self.open.last().copied().unwrap_or(0);
        self.open.push(self.nodes.len());
        self.nodes.push(Node { kind, parent, units: start..start });
    }

    /// Ends the sections of this level or a deeper one, and what is in them.
    fn close_sections(&mut self, end: usize, level: u8) {
        self.close(end, |kind| !matches!(kind, NodeKind::Page | NodeKind::Section(_)));
        self.close(end, |kind| matches!(kind, NodeKind::Section(other) if other >= level));
    }

    /// Ends the innermost nodes as long as they are of this kind.
    fn close(&mut self, end: usize, ends: impl Fn(NodeKind) -> bool) {
        while let Some(node) = self.open.pop_if(|node| ends(self.nodes[*node].kind)) {
            self.nodes[node].units.end = end;
        }
    }
}

/// Whether a node belongs to a list that is nested deeper than this.
fn is_deeper(kind: NodeKind, depth: u8) -> bool {
    matches!(kind, NodeKind::List(other) | NodeKind::Item(other) | NodeKind::Term(other) if other > depth)
}

/// From the start of a run's first unit to the end of its last.
pub(crate) fn span(spans: &[ByteSpan], run: &Range<usize>) -> ByteSpan {
    ByteSpan { start: spans[run.start].start, end: spans[run.end - 1].end }
}

/// Whether the white space between two units has a blank line.
pub(crate) fn has_blank_line(gap: &str) -> bool {
    gap.matches('\n').count() > 1 || gap.contains('\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_become_a_tree() {
        use BlockKind::{Code, Heading, Item, Prose, Term};
        let rows = [
            (Heading, 1),
            (Prose, 0),
            (Heading, 2),
            (Item, 1),
            (Item, 2),
            (Item, 2),
            (Code, 1),
            (Item, 1),
            (Prose, 0),
            (Heading, 2),
            (Term, 1),
            (Item, 1),
            (Item, 1),
            (Term, 1),
            (Item, 1),
        ];
        let leaf = |(unit, (kind, level)): (usize, &(BlockKind, u8))| Leaf {
            kind: *kind,
            level: *level,
            units: unit..unit + 1,
            header_end: unit,
            continues: false,
            ends: 0,
        };
        let leaves: Vec<Leaf> = rows.iter().enumerate().map(leaf).collect();
        let outline = Outline::new(&leaves);
        let inner = |node: &&Node| !matches!(node.kind, NodeKind::Leaf(_));
        let found: Vec<_> = outline.nodes.iter().filter(inner).map(|node| (node.kind, node.units.clone())).collect();
        let expected = [
            (NodeKind::Page, 0..15),
            (NodeKind::Section(1), 0..15),
            (NodeKind::Section(2), 2..9),
            (NodeKind::List(1), 3..8),
            (NodeKind::Item(1), 3..7),
            (NodeKind::List(2), 4..6),
            (NodeKind::Item(2), 4..5),
            (NodeKind::Item(2), 5..6),
            (NodeKind::Item(1), 7..8),
            (NodeKind::Section(2), 9..15),
            (NodeKind::List(1), 10..15),
            (NodeKind::Term(1), 10..13),
            (NodeKind::Item(1), 11..12),
            (NodeKind::Item(1), 12..13),
            (NodeKind::Term(1), 13..15),
            (NodeKind::Item(1), 14..15),
        ];
        assert_eq!(found, expected);
        assert_eq!(outline.outermost(4).units, 4..6, "the nested list");
        assert_eq!(outline.outermost(3).units, 3..8);
        assert_eq!(outline.kind(6), Code);
    }
}
