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

use super::attributes::{Attributes, Display};
use super::copies::{self, Candidate, Progress};
use super::display::Shown;
use super::elements::{self, ElementRole};
use super::events::{Event, Events};
use super::tables::OpenTable;
use crate::text::page::{ByteSpan, boundary_from};

pub(super) struct StartTag<'tag> {
    pub(super) name: &'tag [u8],
    pub(super) attributes: Attributes,
    /// Whether it is written `<a/>`; only matters in `svg` and `math`.
    pub(super) self_closing: bool,
    pub(super) span: ByteSpan,
}

impl StartTag<'_> {
    /// Whether it hides its element.
    fn hides(&self, role: ElementRole) -> bool {
        let Attributes { hides, is_aria_hidden, is_icon, is_overlay, is_open, .. } = self.attributes;
        // Scripts open dialogs, and those and menus may be hidden from screen readers because style sheets hide them.
        let is_closed = match self.name {
            b"dialog" => !is_open,
            b"nav" => is_aria_hidden,
            _ => is_aria_hidden && (is_overlay || is_icon),
        };
        hides || is_closed || role.is_hidden()
    }
}

/// Bytes of a source that tell whether it is XHTML.
const START_BYTES: usize = 1024;

/// The open elements, outermost first. A *depth* is an index into this list.
pub(super) struct Tree<'source> {
    source: &'source str,
    /// Whether `<script/>` has no content: XML says so, HTML does not.
    is_xhtml: bool,
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
    /// The depths at which `visibility` changes, and whether text is shown from there.
    visibility: Vec<(usize, bool)>,
    /// The visible open tables.
    tables: Vec<OpenTable>,
    /// The `aria-hidden` children of open elements.
    candidates: Vec<Candidate>,
    /// Formulas, and elements for screen readers only, so far.
    spoken: usize,
}

/// Whether a source begins as XHTML does.
fn is_xhtml(source: &str) -> bool {
    let start = &source[..boundary_from(source, START_BYTES)];
    start.trim_start_matches('\u{feff}').starts_with("<?xml") || start.contains("=\"http://www.w3.org/1999/xhtml\"")
}

struct Open {
    /// The number of the name.
    name: usize,
    role: ElementRole,
    /// The number of its start events.
    events: usize,
    /// What the page had before it.
    start: Progress,
    /// Whether its children are blocks.
    is_flex: bool,
    is_table: bool,
}

impl<'source> Tree<'source> {
    pub(super) fn new(source: &'source str) -> Self {
        Self {
            source,
            is_xhtml: is_xhtml(source),
            done: Events::default(),
            open: Vec::new(),
            names: HashMap::new(),
            elements: Vec::new(),
            by_role: std::array::from_fn(|_| Vec::new()),
            blocks: Vec::new(),
            item_bounds: Vec::new(),
            html_in_foreign: Vec::new(),
            hidden: None,
            is_raw: false,
            visibility: Vec::new(),
            tables: Vec::new(),
            candidates: Vec::new(),
            spoken: 0,
        }
    }

    /// Closes all elements at the end of the source.
    pub(super) fn into_events(mut self) -> Events {
        self.truncate(0);
        self.remove_copies(0, Progress::default());
        self.done
    }

    fn progress(&self) -> Progress {
        Progress { events: self.done.list.len(), spoken: self.spoken }
    }

    /// Removes those `aria-hidden` elements of a depth that are copies of the rest of the element around them.
    fn remove_copies(&mut self, depth: usize, parent: Progress) {
        let first = self.candidates.iter().rposition(|candidate| candidate.depth < depth).map_or(0, |last| last + 1);
        if first < self.candidates.len() {
            let candidates = self.candidates.split_off(first);
            let end = self.progress();
            copies::remove(&mut self.done, self.source, parent, end, &candidates);
        }
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
        let is_closed = [ElementRole::Math, ElementRole::Choice].iter().any(|role| self.last(*role).is_some());
        if self.is_raw || is_closed {
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
        let is_shown = self.hidden.is_none() && self.visibility.last().is_none_or(|(_, is_shown)| *is_shown);
        if is_shown && let Some(table) = self.tables.last_mut() {
            table.add(text.split_ascii_whitespace().map(|word| word.chars().count() + 1).sum());
        }
        is_shown
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
        let content = elements::content(tag.name);
        if tag.self_closing && self.is_xhtml && content.is_some() {
            return None;
        }
        match role {
            ElementRole::Ignored | ElementRole::Void => return None,
            ElementRole::Drawing | ElementRole::Math if tag.self_closing => return None,
            ElementRole::LineBreak if tag.attributes.hides => return None,
            ElementRole::LineBreak => {
                self.line_break(tag.span);
                return None;
            }
            ElementRole::RowGroup | ElementRole::Row | ElementRole::Cell | ElementRole::Caption => {
                self.start_in_table(tag, name, role);
                return None;
            }
            _ => self.end_implied(role),
        }
        if role == ElementRole::Rule {
            if let Some(table) = self.tables.last_mut() {
                table.has_sections = true;
            }
            self.boundary();
            return None;
        }
        let is_first_title = self.hidden.is_none() && self.done.title.is_none();
        match role {
            ElementRole::Title if is_first_title => {
                self.done.title = Some(String::new());
                self.push(tag, name, role);
            }
            ElementRole::Title => self.push(tag, name, ElementRole::Hidden),
            _ => self.push(tag, name, role),
        }
        content
    }

    /// Ends the elements whose end tags are optional before this one.
    fn end_implied(&mut self, role: ElementRole) {
        let last = self.last(role);
        match role {
            ElementRole::Item | ElementRole::Term if last > self.item_bounds.last().copied() => self.truncate_to(last),
            ElementRole::Anchor if last > self.blocks.last().copied() => self.truncate_to(last),
            ElementRole::Button if last > self.bound() => self.truncate_to(last),
            ElementRole::Reading | ElementRole::Parenthesis => {
                let open = self.last(ElementRole::Reading).max(self.last(ElementRole::Parenthesis));
                if open > self.last(ElementRole::Ruby) {
                    self.truncate_to(open);
                }
            }
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
    fn start_in_table(&mut self, tag: &StartTag<'_>, name: usize, role: ElementRole) {
        // A fragment may have rows without a table.
        let Some(table) = self.last(ElementRole::Table) else { return self.boundary() };
        let row = self.last(ElementRole::Row).filter(|&row| row > table);
        match (role, row) {
            (ElementRole::Cell, Some(row)) => self.truncate(row + 1),
            _ => self.truncate(table + 1),
        }
        if role == ElementRole::Cell && row.is_none() {
            let name = self.number(b"tr");
            let row = StartTag { name: b"tr", attributes: Attributes::default(), ..*tag };
            self.push(&row, name, ElementRole::Row);
        }
        if role != ElementRole::RowGroup {
            self.push(tag, name, role);
        } else if self.hidden.is_none()
            && let Some(table) = self.tables.last_mut()
        {
            table.in_head = tag.name == b"thead";
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
        let mut attributes = tag.attributes;
        attributes.hides |= root == ElementRole::Math && tag.name.starts_with(b"annotation");
        if elements::holds_html(tag.name, root) {
            self.html_in_foreign.push(self.open.len());
        }
        self.push(&StartTag { attributes, ..*tag }, name, ElementRole::Inline);
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
            _ if role.is_inline() => (last, self.blocks.last().copied()),
            ElementRole::Item => (last, self.bound().max(self.last(ElementRole::List))),
            _ if role.heading_level() > 0 => {
                (ElementRole::HEADINGS.into_iter().filter_map(|role| self.last(role)).max(), self.bound())
            }
            ElementRole::RowGroup | ElementRole::Row | ElementRole::Cell | ElementRole::Caption if table.is_none() => {
                return self.boundary();
            }
            ElementRole::RowGroup => {
                if let Some(table) = self.tables.last_mut() {
                    table.in_head = false;
                }
                (table.map(|table| table + 1), None)
            }
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

    /// The same for the ends of paragraphs, which buttons and hidden elements also stop.
    fn paragraph_bound(&self) -> Option<usize> {
        self.bound().max(self.last(ElementRole::Hidden)).max(self.last(ElementRole::Button))
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

    fn push(&mut self, tag: &StartTag<'_>, name: usize, role: ElementRole) {
        let depth = self.open.len();
        let Attributes { is_visible, display, is_aria_hidden, is_for_screen_readers, .. } = tag.attributes;
        if tag.hides(role) {
            self.hidden.get_or_insert(depth);
        }
        self.spoken += usize::from(self.hidden.is_none() && (is_for_screen_readers || role == ElementRole::Math));
        let start = self.progress();
        if is_aria_hidden && self.hidden.is_none() {
            self.candidates.push(Candidate { depth, start, end: None });
        }
        let is_shown = self.visibility.last().is_none_or(|(_, is_shown)| *is_shown);
        match (is_visible, role) {
            (Some(is_visible), _) => self.visibility.push((depth, is_visible)),
            (_, ElementRole::Select) => self.visibility.push((depth, false)),
            // As visible as its `select`.
            (_, ElementRole::Choice) => {
                let outer = self.visibility.iter().rev().nth(1).is_none_or(|(_, is_shown)| *is_shown);
                self.visibility.push((depth, is_shown || outer));
            }
            _ => {}
        }
        let is_table = self.hidden.is_none() && self.push_events(tag, role);
        let events = self.done.list.len() - start.events;
        self.elements[name].1.push(depth);
        self.by_role[role as usize].push(depth);
        if !role.is_inline() {
            self.blocks.push(depth);
        }
        if role.keeps_items_apart() {
            self.item_bounds.push(depth);
        }
        let is_flex = display == Some(Display::Flex);
        self.open.push(Open { name, role, events, start, is_flex, is_table });
    }

    /// Adds the start events of a visible element. Returns whether it is a table.
    fn push_events(&mut self, tag: &StartTag<'_>, role: ElementRole) -> bool {
        let in_flex = self.open.last().is_some_and(|open| open.is_flex);
        let Shown { role: shown, is_boxed, white_space } = Shown::new(tag.name, role, &tag.attributes, in_flex);
        self.count_table_part(shown, tag);
        let in_head = self.tables.last().is_some_and(|table| table.in_head);
        let Attributes { discloses, columns, rows, .. } = tag.attributes;
        let event = match shown {
            ElementRole::Inline | ElementRole::Math | ElementRole::Select => None,
            ElementRole::Table => Some(Event::OpenTable { layout: false }),
            ElementRole::Cell => Some(Event::OpenCell { names: tag.name == b"th" || in_head, columns, rows }),
            ElementRole::Term if tag.name == b"dt" => Some(Event::OpenTerm),
            ElementRole::Button => Some(Event::OpenButton { discloses: discloses && !self.is_in_menu() }),
            _ => Some(Event::Open(shown)),
        };
        let bold = (tag.attributes.is_bold && role.may_be_title()).then_some(Event::Open(ElementRole::Strong));
        let events = [is_boxed.then_some(Event::Open(ElementRole::Block)), event, white_space, bold];
        self.done.list.extend(events.into_iter().flatten());
        shown == ElementRole::Table
    }

    /// Whether a button here belongs to the page's menus.
    fn is_in_menu(&self) -> bool {
        [b"nav".as_slice(), b"header"]
            .iter()
            .any(|name| self.names.get(*name).is_some_and(|number| !self.elements[*number].1.is_empty()))
    }

    /// Notes the parts of tables.
    fn count_table_part(&mut self, shown: ElementRole, tag: &StartTag<'_>) {
        if let Some(table) = self.tables.last_mut() {
            table.has_blocks |= shown.ends_paragraph();
            table.has_table |= shown == ElementRole::Table;
            table.has_sections |= shown == ElementRole::Section || shown.heading_level() > 0;
        }
        if shown == ElementRole::Table {
            self.tables.push(OpenTable::new(self.done.list.len(), tag.attributes.is_presentation));
        }
        let Some(table) = self.tables.last_mut() else { return };
        match shown {
            ElementRole::Row => table.start_row(),
            ElementRole::Cell => {
                table.start_cell();
                table.is_named |= tag.name == b"th" || table.in_head;
            }
            ElementRole::Caption => table.is_named = true,
            _ => {}
        }
    }

    fn truncate_to(&mut self, depth: Option<usize>) {
        if let Some(depth) = depth {
            self.truncate(depth);
        }
    }

    /// Ends all elements at this depth or deeper.
    fn truncate(&mut self, depth: usize) {
        while self.open.len() > depth
            && let Some(Open { name, role, events, start, is_table, .. }) = self.open.pop()
        {
            let depth = self.open.len();
            let own = [&mut self.elements[name].1, &mut self.by_role[role as usize]];
            let shared = [&mut self.blocks, &mut self.item_bounds, &mut self.html_in_foreign];
            for depths in own.into_iter().chain(shared) {
                depths.pop_if(|last| *last == depth);
            }
            self.visibility.pop_if(|(last, _)| *last == depth);
            if self.hidden == Some(depth) {
                self.hidden = None;
            }
            self.remove_copies(depth + 1, start);
            self.done.list.extend((0..events).map(|_| Event::Close));
            if is_table && let Some(table) = self.tables.pop() {
                self.done.list[table.event] = Event::OpenTable { layout: table.is_layout() };
            }
            let end = self.progress();
            if let Some(candidate) = self.candidates.last_mut().filter(|last| last.depth == depth && last.end.is_none())
            {
                candidate.end = Some(end);
                if copies::is_decoration(&self.done, self.source, candidate.start.events) {
                    self.done.list.truncate(candidate.start.events);
                    self.candidates.pop();
                }
            }
        }
    }
}
