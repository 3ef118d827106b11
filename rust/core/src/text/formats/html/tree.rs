//! Tracks the open elements, the elements they end, and hidden content.
//!
//! Stores no tree, but the list of [`Event`]s of a walk, in which every start has its end. The rules are the
//! standard's, except where only the look of a page differs: text in a table outside its cells stays in place, and
//! unclosed formatting does not continue in the next block.
//!
//! A browser searches all open elements for the one that an end tag closes. Here every name has a list of its open
//! elements, so that a hundred thousand unclosed elements still take linear time.

use std::collections::HashMap;

use html5gum::State;

use super::elements::{self, ElementRole};
use crate::text::page::ByteSpan;

/// The visible content of a page, in order.
#[derive(Default)]
pub(super) struct Events {
    pub(super) list: Vec<Event>,
    /// The concatenated text of all [`Event::Decoded`].
    pub(super) decoded: String,
    /// The text of the first `title`.
    pub(super) title: Option<String>,
    /// Shown sources into which no element may be put, in order: text that is not searched for tags, and formulas.
    pub(super) closed: Vec<ByteSpan>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// An element starts, other than a table or a header cell.
    Open(ElementRole),
    /// A table starts; `layout` if it only lays out the page.
    OpenTable { layout: bool },
    /// A cell starts that names its column or row.
    OpenHeaderCell,
    /// A term starts, not its definition.
    OpenTerm,
    /// The innermost open element ends.
    Close,
    /// Text that is identical in the source.
    Text(ByteSpan),
    /// Text that differs from its source, such as a character reference; `text` is a span of [`Events::decoded`].
    Decoded { source: ByteSpan, text: ByteSpan },
    /// The span of its tag.
    LineBreak(ByteSpan),
    /// A block starts or ends.
    Boundary,
}

pub(super) struct StartTag<'tag> {
    pub(super) name: &'tag [u8],
    /// Whether an attribute hides the element.
    pub(super) hides: bool,
    /// Whether it is written `<a/>`; only matters in `svg` and `math`.
    pub(super) self_closing: bool,
    pub(super) span: ByteSpan,
}

/// Characters of the longest cell of a data table; a longer one makes it a layout table.
const LONGEST_CELL: usize = 400;

/// The open elements, outermost first. A *depth* is an index into this list.
#[derive(Default)]
pub(super) struct Tree {
    done: Events,
    open: Vec<Open>,
    /// The number of each name. Names come from untrusted pages, so the map hashes them with a random key.
    names: HashMap<Box<[u8]>, usize>,
    /// For each name: its role, and the depths at which it is open.
    elements: Vec<(ElementRole, Vec<usize>)>,
    /// For each role: the depths at which it is open.
    by_role: [Vec<usize>; ElementRole::COUNT],
    /// The depths of elements that are not inline.
    blocks: Vec<usize>,
    /// The depths of elements that separate list items.
    item_bounds: Vec<usize>,
    /// The depths of elements in `svg` or `math` that contain HTML.
    html_in_foreign: Vec<usize>,
    /// The depth of the outermost hidden element.
    hidden: Option<usize>,
    /// Whether tags here are text, as in `xmp`.
    is_raw: bool,
    /// For each visible open cell: the event of its table, and its characters so far.
    cells: Vec<(usize, usize)>,
}

struct Open {
    /// The number of the name.
    name: usize,
    role: ElementRole,
    /// The index of its start event; `None` without one.
    event: Option<usize>,
}

impl Tree {
    /// Closes all elements at the end of the source.
    pub(super) fn into_events(mut self) -> Events {
        self.truncate(0);
        self.done
    }

    /// Text that is identical in the source.
    pub(super) fn text(&mut self, span: ByteSpan, text: &str) {
        if self.is_shown(text) {
            self.done.list.push(Event::Text(span));
            self.close_source(span);
        }
    }

    /// Notes shown text into which no element may be put.
    fn close_source(&mut self, source: ByteSpan) {
        if self.is_raw || self.last(ElementRole::Math).is_some() {
            self.done.closed.push(source);
        }
    }

    /// Text that differs from its source, such as a character reference.
    pub(super) fn decoded(&mut self, source: ByteSpan, text: &str) {
        if self.is_shown(text) {
            let start = self.done.decoded.len();
            self.done.decoded.push_str(text);
            let text = ByteSpan { start, end: self.done.decoded.len() };
            self.done.list.push(Event::Decoded { source, text });
            self.close_source(source);
        }
    }

    /// Whether text here is visible. Counts visible text of cells, and stores the text of the title.
    fn is_shown(&mut self, text: &str) -> bool {
        if let (Some(title), Some(ElementRole::Title)) = (&mut self.done.title, self.open.last().map(|open| open.role))
        {
            title.push_str(text);
        }
        if self.hidden.is_none()
            && let Some((table, count)) = self.cells.last_mut()
        {
            *count += text.split_ascii_whitespace().map(|word| word.chars().count() + 1).sum::<usize>();
            if *count > LONGEST_CELL {
                self.done.list[*table] = Event::OpenTable { layout: true };
            }
        }
        self.hidden.is_none()
    }

    /// Handles a start tag. Returns the next state of the tokenizer, `None` for the usual one.
    pub(super) fn start(&mut self, tag: &StartTag<'_>) -> Option<State> {
        let content = self.start_element(tag);
        self.is_raw = content.is_some();
        content
    }

    fn start_element(&mut self, tag: &StartTag<'_>) -> Option<State> {
        if self.is_foreign() {
            if !elements::ends_foreign(tag.name) {
                self.start_foreign(tag);
                return None;
            }
            let root = self.last(ElementRole::Drawing).max(self.last(ElementRole::Math));
            self.truncate(root.unwrap_or_default());
        }
        let name = self.number(tag.name);
        let role = self.elements[name].0;
        match role {
            ElementRole::Ignored | ElementRole::Void => return None,
            ElementRole::Drawing | ElementRole::Math if tag.self_closing => return None,
            ElementRole::LineBreak => {
                self.line_break(tag.span);
                return None;
            }
            ElementRole::RowGroup | ElementRole::Row | ElementRole::Cell | ElementRole::Caption => {
                self.start_in_table(name, role, tag.hides);
                return None;
            }
            _ => self.end_implied(role),
        }
        if role.ends_paragraph()
            && self.hidden.is_none()
            && let Some(&(table, _)) = self.cells.last()
        {
            self.done.list[table] = Event::OpenTable { layout: true };
        }
        if role == ElementRole::Rule {
            self.boundary();
            return None;
        }
        let is_first_title = self.hidden.is_none() && self.done.title.is_none();
        match role {
            ElementRole::Title if is_first_title => {
                self.done.title = Some(String::new());
                self.push(name, role, tag.hides);
            }
            ElementRole::Title => self.push(name, ElementRole::Hidden, tag.hides),
            _ => self.push(name, role, tag.hides),
        }
        elements::content(tag.name)
    }

    /// Ends the elements whose end tags are optional before this one.
    fn end_implied(&mut self, role: ElementRole) {
        let last = self.last(role);
        match role {
            ElementRole::Item | ElementRole::Term if last > self.item_bounds.last().copied() => self.truncate_to(last),
            ElementRole::Anchor if last > self.blocks.last().copied() => self.truncate_to(last),
            _ => {}
        }
        if role.ends_paragraph() {
            self.end_paragraph();
        }
        let top = self.open.last().map(|open| open.role);
        match (role, top) {
            (ElementRole::Choice, Some(ElementRole::Choice)) => self.truncate(self.open.len() - 1),
            (_, Some(open)) if role.heading_level() > 0 && open.heading_level() > 0 => {
                self.truncate(self.open.len() - 1);
            }
            // A table directly in a table, outside its cells, follows it.
            (ElementRole::Table, _) if last > self.last(ElementRole::Cell).max(self.last(ElementRole::Caption)) => {
                self.truncate_to(last);
            }
            _ => {}
        }
    }

    /// Starts a part of a table, with a row for a cell outside rows.
    fn start_in_table(&mut self, name: usize, role: ElementRole, hides: bool) {
        // A fragment may have rows without a table.
        let Some(table) = self.last(ElementRole::Table) else { return self.boundary() };
        let row = self.last(ElementRole::Row).filter(|&row| row > table);
        match (role, row) {
            (ElementRole::Cell, Some(row)) => self.truncate(row + 1),
            _ => self.truncate(table + 1),
        }
        if role == ElementRole::Cell && row.is_none() {
            let row = self.number(b"tr");
            self.push(row, ElementRole::Row, false);
        }
        if role != ElementRole::RowGroup {
            self.push(name, role, hides);
        }
    }

    /// Starts an element inside `svg` or `math`.
    fn start_foreign(&mut self, tag: &StartTag<'_>) {
        if tag.self_closing {
            return;
        }
        let root = if self.last(ElementRole::Drawing) > self.last(ElementRole::Math) {
            ElementRole::Drawing
        } else {
            ElementRole::Math
        };
        let name = self.number(tag.name);
        let is_annotation = root == ElementRole::Math && tag.name.starts_with(b"annotation");
        if elements::holds_html(tag.name, root) {
            self.html_in_foreign.push(self.open.len());
        }
        self.push(name, ElementRole::Inline, tag.hides || is_annotation);
    }

    pub(super) fn end(&mut self, name: &[u8], span: ByteSpan) {
        self.is_raw = false;
        let number = self.number(name);
        let role = self.elements[number].0;
        let last = self.elements[number].1.last().copied();
        let table = self.last(ElementRole::Table);
        let (last, bound) = match role {
            ElementRole::LineBreak => return self.line_break(span),
            ElementRole::Ignored | ElementRole::Void | ElementRole::Rule => return,
            ElementRole::Paragraph if last > self.paragraph_bound() => (last, None),
            // A browser adds an empty paragraph.
            ElementRole::Paragraph => return self.boundary(),
            ElementRole::Inline | ElementRole::Anchor => (last, self.blocks.last().copied()),
            ElementRole::Item => (last, self.bound().max(self.last(ElementRole::List))),
            _ if role.heading_level() > 0 => {
                (ElementRole::HEADINGS.into_iter().filter_map(|role| self.last(role)).max(), self.bound())
            }
            ElementRole::RowGroup | ElementRole::Row | ElementRole::Cell | ElementRole::Caption if table.is_none() => {
                return self.boundary();
            }
            ElementRole::RowGroup => (table.map(|table| table + 1), None),
            ElementRole::Row | ElementRole::Cell | ElementRole::Caption => (self.last(role), table),
            ElementRole::Table | ElementRole::Drawing | ElementRole::Math => (last, None),
            _ => (last, self.bound()),
        };
        if last > bound {
            self.truncate_to(last);
        }
    }

    /// Whether the innermost open element is of `svg` or `math`.
    pub(super) fn is_foreign(&self) -> bool {
        self.last(ElementRole::Drawing).max(self.last(ElementRole::Math)) > self.html_in_foreign.last().copied()
    }

    /// The depth of the innermost element that end tags inside it do not cross.
    fn bound(&self) -> Option<usize> {
        let roles =
            [ElementRole::Table, ElementRole::Cell, ElementRole::Caption, ElementRole::Drawing, ElementRole::Math];
        roles.into_iter().map(|role| self.last(role)).max().flatten().max(self.html_in_foreign.last().copied())
    }

    /// The same for the ends of paragraphs, which hidden elements such as buttons also stop.
    fn paragraph_bound(&self) -> Option<usize> {
        self.bound().max(self.last(ElementRole::Hidden))
    }

    fn end_paragraph(&mut self) {
        let last = self.last(ElementRole::Paragraph);
        if last > self.paragraph_bound() {
            self.truncate_to(last);
        }
    }

    fn last(&self, role: ElementRole) -> Option<usize> {
        self.by_role[role as usize].last().copied()
    }

    fn number(&mut self, name: &[u8]) -> usize {
        if let Some(&number) = self.names.get(name) {
            return number;
        }
        let number = self.elements.len();
        self.names.insert(name.into(), number);
        self.elements.push((elements::role(name), Vec::new()));
        number
    }

    fn line_break(&mut self, span: ByteSpan) {
        if self.hidden.is_none() {
            self.done.list.push(Event::LineBreak(span));
        }
    }

    fn boundary(&mut self) {
        if self.hidden.is_none() {
            self.done.list.push(Event::Boundary);
        }
    }

    fn push(&mut self, name: usize, role: ElementRole, hides: bool) {
        let depth = self.open.len();
        if hides || role.is_hidden() {
            self.hidden.get_or_insert(depth);
        }
        let has_event = self.hidden.is_none() && !matches!(role, ElementRole::Inline | ElementRole::Math);
        let event = has_event.then_some(self.done.list.len());
        if has_event {
            let table = Event::OpenTable { layout: false };
            self.done.list.push(match role {
                ElementRole::Table => table,
                ElementRole::Cell if Some(&name) == self.names.get(b"th".as_slice()) => Event::OpenHeaderCell,
                ElementRole::Term if Some(&name) == self.names.get(b"dt".as_slice()) => Event::OpenTerm,
                _ => Event::Open(role),
            });
        }
        if role == ElementRole::Cell && has_event {
            let table = self.last(ElementRole::Table).and_then(|table| self.open[table].event);
            // The table is visible because its cell is.
            self.cells.push((table.unwrap_or_default(), 0));
        }
        self.elements[name].1.push(depth);
        self.by_role[role as usize].push(depth);
        if !role.is_inline() {
            self.blocks.push(depth);
        }
        if role.keeps_items_apart() {
            self.item_bounds.push(depth);
        }
        self.open.push(Open { name, role, event });
    }

    fn truncate_to(&mut self, depth: Option<usize>) {
        if let Some(depth) = depth {
            self.truncate(depth);
        }
    }

    /// Ends all elements at this depth or deeper.
    fn truncate(&mut self, depth: usize) {
        while self.open.len() > depth
            && let Some(Open { name, role, event }) = self.open.pop()
        {
            let depth = self.open.len();
            let own = [&mut self.elements[name].1, &mut self.by_role[role as usize]];
            let shared = [&mut self.blocks, &mut self.item_bounds, &mut self.html_in_foreign];
            for depths in own.into_iter().chain(shared) {
                depths.pop_if(|last| *last == depth);
            }
            if self.hidden == Some(depth) {
                self.hidden = None;
            }
            if event.is_some() {
                self.done.list.push(Event::Close);
                if role == ElementRole::Cell {
                    self.cells.pop();
                }
            }
        }
    }
}
