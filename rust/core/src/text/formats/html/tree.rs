//! The tree: which elements are open, which of them end which, and what is not shown.
//!
//! Not a tree in memory, but its walk: a list of [`Event`]s whose ends match their starts. The rules are the standard's,
//! but for what only shows in the look of a page: text in a table outside its cells stays where it is, and formatting
//! that was not closed is not taken up again in the next block.
//!
//! Browsers look through all open elements for the one that an end tag closes. Here every name knows where it is open,
//! so that a page of a hundred thousand unclosed elements takes no longer than another one of its length.

use std::collections::HashMap;

use html5gum::State;

use super::elements::{self, Role};
use crate::text::page::ByteSpan;

/// What is shown of a page, in order.
#[derive(Default)]
pub(super) struct Events {
    pub(super) list: Vec<Event>,
    /// The text of all [`Event::Decoded`], one behind the other.
    pub(super) decoded: String,
    /// The text of `title`.
    pub(super) title: Option<String>,
}

/// A step through what is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// An element starts.
    Open(Role),
    /// A table starts. It may be there only to lay out the page.
    OpenTable { layout: bool },
    /// The last element that started and did not end yet ends.
    Close,
    /// Text of the source as it is.
    Text(ByteSpan),
    /// Text that stands for something else in the source.
    Decoded { source: ByteSpan, text: ByteSpan },
    /// The tag of a line break.
    LineBreak(ByteSpan),
    /// A block starts or ends here.
    Boundary,
}

/// A start tag.
pub(super) struct StartTag<'tag> {
    pub(super) name: &'tag [u8],
    /// Whether its attributes hide the element.
    pub(super) hides: bool,
    /// Whether it is written as one without content; means nothing but in drawings and mathematics.
    pub(super) self_closing: bool,
    pub(super) span: ByteSpan,
}

/// A cell of more characters than this is there for the layout of the page.
const LONGEST_CELL: usize = 400;

/// The open elements, from the outermost to the innermost. A *depth* is a place in this list.
#[derive(Default)]
pub(super) struct Tree {
    done: Events,
    open: Vec<Open>,
    /// The number of each name that was seen. Strangers choose the names, so they are hashed with a key.
    names: HashMap<Box<[u8]>, usize>,
    /// For each name: what it means, and the depths where it is open.
    elements: Vec<(Role, Vec<usize>)>,
    /// For each role: the depths where it is open.
    by_role: [Vec<usize>; Role::COUNT],
    /// The depths of all that is not inline.
    blocks: Vec<usize>,
    /// The depths of all that keeps list items apart.
    item_bounds: Vec<usize>,
    /// The depths of elements in drawings and mathematics that hold HTML again.
    html_in_foreign: Vec<usize>,
    /// The depth of the outermost element that is not shown.
    hidden: Option<usize>,
    /// For each open cell that is shown: where its table starts, and how many characters it has.
    cells: Vec<(usize, usize)>,
}

struct Open {
    /// The number of its name.
    name: usize,
    role: Role,
    /// Where it starts in the events, if it is there.
    event: Option<usize>,
}

impl Tree {
    /// What is shown, when the source has ended.
    pub(super) fn into_events(mut self) -> Events {
        self.truncate(0);
        self.done
    }

    /// Text of the source as it is.
    pub(super) fn text(&mut self, span: ByteSpan, text: &str) {
        if self.is_shown(text) {
            self.done.list.push(Event::Text(span));
        }
    }

    /// Text that stands for something else in the source.
    pub(super) fn decoded(&mut self, source: ByteSpan, text: &str) {
        if self.is_shown(text) {
            let start = self.done.decoded.len();
            self.done.decoded.push_str(text);
            let text = ByteSpan { start, end: self.done.decoded.len() };
            self.done.list.push(Event::Decoded { source, text });
        }
    }

    /// Whether text that comes now is shown; counts it if it is, keeps it if it is the title.
    fn is_shown(&mut self, text: &str) -> bool {
        if let (Some(title), Some(Role::Title)) = (&mut self.done.title, self.open.last().map(|open| open.role)) {
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

    /// A start tag; returns how what follows has to be read, unless as always.
    pub(super) fn start(&mut self, tag: &StartTag<'_>) -> Option<State> {
        if self.is_foreign() {
            if !elements::ends_foreign(tag.name) {
                self.start_foreign(tag);
                return None;
            }
            let root = self.last(Role::Drawing).max(self.last(Role::Math));
            self.truncate(root.unwrap_or_default());
        }
        let name = self.number(tag.name);
        let role = self.elements[name].0;
        match role {
            Role::Ignored | Role::Void => return None,
            Role::Drawing | Role::Math if tag.self_closing => return None,
            Role::LineBreak => {
                self.line_break(tag.span);
                return None;
            }
            Role::RowGroup | Role::Row | Role::Cell | Role::Caption => {
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
        if role == Role::Rule {
            self.boundary();
            return None;
        }
        let is_first_title = self.hidden.is_none() && self.done.title.is_none();
        match role {
            Role::Title if is_first_title => {
                self.done.title = Some(String::new());
                self.push(name, role, tag.hides);
            }
            Role::Title => self.push(name, Role::Hidden, tag.hides),
            _ => self.push(name, role, tag.hides),
        }
        elements::content(tag.name)
    }

    /// Ends what the start of an element ends without an end tag.
    fn end_implied(&mut self, role: Role) {
        let last = self.last(role);
        match role {
            Role::Item | Role::Term if last > self.item_bounds.last().copied() => self.truncate_to(last),
            Role::Anchor if last > self.blocks.last().copied() => self.truncate_to(last),
            _ => {}
        }
        if role.ends_paragraph() {
            self.end_paragraph();
        }
        let top = self.open.last().map(|open| open.role);
        match (role, top) {
            (Role::MainHeading | Role::Heading, Some(Role::MainHeading | Role::Heading))
            | (Role::Choice, Some(Role::Choice)) => self.truncate(self.open.len() - 1),
            // A table right in a table is one behind it.
            (Role::Table, _) if last > self.last(Role::Cell).max(self.last(Role::Caption)) => self.truncate_to(last),
            _ => {}
        }
    }

    /// Starts a part of a table, and the row that a cell without one has.
    fn start_in_table(&mut self, name: usize, role: Role, hides: bool) {
        // A fragment may have rows without a table.
        let Some(table) = self.last(Role::Table) else { return self.boundary() };
        let row = self.last(Role::Row).filter(|&row| row > table);
        match (role, row) {
            (Role::Cell, Some(row)) => self.truncate(row + 1),
            _ => self.truncate(table + 1),
        }
        if role == Role::Cell && row.is_none() {
            let row = self.number(b"tr");
            self.push(row, Role::Row, false);
        }
        if role != Role::RowGroup {
            self.push(name, role, hides);
        }
    }

    /// Starts an element of a drawing or of mathematics.
    fn start_foreign(&mut self, tag: &StartTag<'_>) {
        if tag.self_closing {
            return;
        }
        let root = if self.last(Role::Drawing) > self.last(Role::Math) { Role::Drawing } else { Role::Math };
        let name = self.number(tag.name);
        let is_annotation = root == Role::Math && tag.name.starts_with(b"annotation");
        if elements::holds_html(tag.name, root) {
            self.html_in_foreign.push(self.open.len());
        }
        self.push(name, Role::Inline, tag.hides || is_annotation);
    }

    /// An end tag.
    pub(super) fn end(&mut self, name: &[u8], span: ByteSpan) {
        let number = self.number(name);
        let role = self.elements[number].0;
        let last = self.elements[number].1.last().copied();
        let table = self.last(Role::Table);
        let (last, bound) = match role {
            Role::LineBreak => return self.line_break(span),
            Role::Ignored | Role::Void | Role::Rule => return,
            Role::Paragraph if last > self.paragraph_bound() => (last, None),
            // A browser makes an empty paragraph of it.
            Role::Paragraph => return self.boundary(),
            Role::Inline | Role::Anchor => (last, self.blocks.last().copied()),
            Role::Item => (last, self.bound().max(self.last(Role::List))),
            Role::MainHeading | Role::Heading => {
                (self.last(Role::MainHeading).max(self.last(Role::Heading)), self.bound())
            }
            Role::RowGroup | Role::Row | Role::Cell | Role::Caption if table.is_none() => return self.boundary(),
            Role::RowGroup => (table.map(|table| table + 1), None),
            Role::Row | Role::Cell | Role::Caption => (self.last(role), table),
            Role::Table | Role::Drawing | Role::Math => (last, None),
            _ => (last, self.bound()),
        };
        if last > bound {
            self.truncate_to(last);
        }
    }

    /// Whether the innermost open element is one of a drawing or of mathematics.
    pub(super) fn is_foreign(&self) -> bool {
        self.last(Role::Drawing).max(self.last(Role::Math)) > self.html_in_foreign.last().copied()
    }

    /// The depth of the innermost element that end tags inside it do not reach behind.
    fn bound(&self) -> Option<usize> {
        let roles = [Role::Table, Role::Cell, Role::Caption, Role::Drawing, Role::Math];
        roles.into_iter().map(|role| self.last(role)).max().flatten().max(self.html_in_foreign.last().copied())
    }

    /// The same for the ends of paragraphs: what is in a button ends none around it.
    fn paragraph_bound(&self) -> Option<usize> {
        self.bound().max(self.last(Role::Hidden))
    }

    fn end_paragraph(&mut self) {
        let last = self.last(Role::Paragraph);
        if last > self.paragraph_bound() {
            self.truncate_to(last);
        }
    }

    fn last(&self, role: Role) -> Option<usize> {
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

    fn push(&mut self, name: usize, role: Role, hides: bool) {
        let depth = self.open.len();
        if hides || role.is_hidden() {
            self.hidden.get_or_insert(depth);
        }
        let has_event = self.hidden.is_none() && !matches!(role, Role::Inline | Role::Math);
        let event = has_event.then_some(self.done.list.len());
        if has_event {
            let table = Event::OpenTable { layout: false };
            self.done.list.push(if role == Role::Table { table } else { Event::Open(role) });
        }
        if role == Role::Cell && has_event {
            let table = self.last(Role::Table).and_then(|table| self.open[table].event);
            // Whatever holds something that is shown is shown.
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

    /// Ends all elements from this depth on.
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
                if role == Role::Cell {
                    self.cells.pop();
                }
            }
        }
    }
}
