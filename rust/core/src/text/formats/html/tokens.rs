//! Splits a source into markup and text with `html5gum`, and finds their positions.
//!
//! The tokenizer reports decoded bytes and how far it has read. Comparing them with the source shows which text is
//! identical there and which is a character reference.

use html5gum::{Emitter, Error, State, Tokenizer};

use super::attributes::{self, Attributes};
use super::events::Events;
use super::tree::{StartTag, Tree};
use crate::error::Result;
use crate::runtime::call::{Check, Checkpoints};
use crate::text::page::ByteSpan;

/// Runs the tokenizer and the tree over a source.
pub(super) fn read(source: &str, check: &Check) -> Result<Events> {
    let mut checkpoints = Checkpoints::new(check);
    let mut tree = Tree::new(source);
    // The text does not include a byte order mark.
    let start = if source.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let tokens = TreeEmitter {
        source,
        tree: &mut tree,
        position: start,
        reported: start,
        text_start: start,
        markup_start: start,
        run: ByteSpan { start, end: start },
        tag: Tag::default(),
        last_start: Vec::new(),
    };
    for position in Tokenizer::new_with_emitter(&source[start..], tokens) {
        let Ok(position) = position;
        checkpoints.reach(position)?;
    }
    Ok(tree.into_events())
}

/// Bytes after which the tokenizer pauses, so that the call may end.
const PAUSE_BYTES: usize = 4096;

struct TreeEmitter<'source, 'tree> {
    source: &'source str,
    tree: &'tree mut Tree<'source>,
    /// The offset the tokenizer has reached.
    position: usize,
    /// The offset at its last pause.
    reported: usize,
    /// The start of the next text, unless something unreported comes first.
    text_start: usize,
    /// The start of the current tag or comment.
    markup_start: usize,
    /// Text identical in the source. Emitted as a whole run, because the tokenizer may split a character.
    run: ByteSpan,
    tag: Tag,
    /// The name of the last start tag; only its end tag ends a script.
    last_start: Vec<u8>,
}

#[derive(Default)]
struct Tag {
    is_end: bool,
    self_closing: bool,
    name: Vec<u8>,
    attribute: Vec<u8>,
    /// The value of the attribute, if it is read.
    value: Vec<u8>,
    class: Vec<u8>,
    attributes: Attributes,
    /// The attributes that were read: only the first one of each name counts.
    seen: Vec<Box<[u8]>>,
}

impl Tag {
    fn restart(&mut self, is_end: bool) {
        self.is_end = is_end;
        self.self_closing = false;
        self.name.clear();
        self.attribute.clear();
        self.value.clear();
        self.class.clear();
        self.attributes = Attributes::default();
        self.seen.clear();
    }

    fn end_attribute(&mut self) {
        let name = self.attribute.as_slice();
        if attributes::is_read(name) && !self.seen.iter().any(|seen| **seen == *name) {
            self.seen.push(name.into());
            self.attributes.add(name, &self.value);
            if name == b"class" {
                self.class.clone_from(&self.value);
            }
        }
        self.attribute.clear();
        self.value.clear();
    }
}

impl TreeEmitter<'_, '_> {
    /// Passes the run of text to the tree.
    fn end_run(&mut self) {
        if !self.run.is_empty() {
            // Always `Some`: text between two tags or references is whole characters. If a bug of the tokenizer breaks
            // that, the call loses a word instead of failing.
            if let Some(text) = self.source.get(self.run.start..self.run.end) {
                self.tree.text(self.run, text);
            }
        }
        self.run = ByteSpan { start: self.position, end: self.position };
    }

    /// Passes text that differs from its source to the tree.
    fn decoded(&mut self, source: ByteSpan, text: &[u8]) {
        self.end_run();
        self.tree.decoded(source, &String::from_utf8_lossy(text));
        self.run = ByteSpan { start: source.end, end: source.end };
    }

    /// Ends a tag, comment or doctype.
    fn end_markup(&mut self) {
        self.end_run();
        self.text_start = self.position;
    }
}

impl Emitter for TreeEmitter<'_, '_> {
    /// The tokenizer's position at a pause.
    type Token = usize;

    fn move_position(&mut self, offset: isize) {
        self.position = self.position.saturating_add_signed(offset);
    }

    fn init_string(&mut self) {
        self.text_start = self.position;
    }

    fn emit_string(&mut self, text: &[u8]) {
        let gap = ByteSpan { start: self.text_start, end: self.position };
        self.text_start = self.position;
        let before = gap.end.saturating_sub(text.len()).max(gap.start);
        let source = self.source.as_bytes();
        let is_verbatim = source.get(before..gap.end) == Some(text);
        let is_whole_gap = is_verbatim && before == gap.start;
        let is_reference = source.get(gap.start) == Some(&b'&') && !is_whole_gap;
        if text.is_empty() || text == b"\0" {
            // A browser shows no NUL.
        } else if is_verbatim && !is_reference {
            if self.run.end != before {
                self.end_run();
                self.run.start = before;
            }
            self.run.end = gap.end;
        } else if is_reference {
            self.decoded(gap, text);
        } else {
            // One character that is replaced: a line end, or NUL.
            self.decoded(ByteSpan { start: gap.end.saturating_sub(1).max(gap.start), end: gap.end }, text);
        }
    }

    fn emit_eof(&mut self) {
        self.end_markup();
    }

    fn start_open_tag(&mut self) {
        self.markup_start = self.position.saturating_sub(1);
    }

    fn init_start_tag(&mut self) {
        self.tag.restart(false);
    }

    fn init_end_tag(&mut self) {
        self.tag.restart(true);
    }

    fn push_tag_name(&mut self, name: &[u8]) {
        self.tag.name.extend_from_slice(name);
    }

    fn set_self_closing(&mut self) {
        self.tag.self_closing = true;
    }

    fn init_attribute(&mut self) {
        self.tag.end_attribute();
    }

    fn push_attribute_name(&mut self, name: &[u8]) {
        self.tag.attribute.extend_from_slice(name);
    }

    fn push_attribute_value(&mut self, value: &[u8]) {
        if attributes::is_read(&self.tag.attribute) {
            self.tag.value.extend_from_slice(value);
        }
    }

    fn emit_current_tag(&mut self) -> Option<State> {
        self.end_markup();
        self.tag.end_attribute();
        let Tag { is_end, self_closing, name, attributes, class, .. } = &mut self.tag;
        attributes.add_class_parts(name, class);
        let span = ByteSpan { start: self.markup_start, end: self.position };
        if *is_end {
            self.tree.end(name, span);
            return None;
        }
        self.last_start.clone_from(name);
        self.tree.start(&StartTag { name, attributes: *attributes, self_closing: *self_closing, span })
    }

    fn current_is_appropriate_end_tag_token(&mut self) -> bool {
        self.tag.is_end && !self.last_start.is_empty() && self.last_start == self.tag.name
    }

    fn adjusted_current_node_present_but_not_in_html_namespace(&mut self) -> bool {
        self.tree.is_foreign()
    }

    fn init_comment(&mut self) {
        self.end_run();
    }

    fn emit_current_comment(&mut self) {
        self.end_markup();
    }

    fn init_doctype(&mut self) {
        self.end_run();
    }

    fn emit_current_doctype(&mut self) {
        self.end_markup();
    }

    fn pop_token(&mut self) -> Option<usize> {
        let pauses = self.position >= self.reported + PAUSE_BYTES;
        pauses.then(|| {
            self.reported = self.position;
            self.position
        })
    }

    fn should_emit_errors(&mut self) -> bool {
        false
    }

    // Unused callbacks.
    fn set_last_start_tag(&mut self, _: Option<&[u8]>) {}
    fn emit_error(&mut self, _: Error) {}
    fn push_comment(&mut self, _: &[u8]) {}
    fn set_force_quirks(&mut self) {}
    fn push_doctype_name(&mut self, _: &[u8]) {}
    fn set_doctype_public_identifier(&mut self, _: &[u8]) {}
    fn set_doctype_system_identifier(&mut self, _: &[u8]) {}
    fn push_doctype_public_identifier(&mut self, _: &[u8]) {}
    fn push_doctype_system_identifier(&mut self, _: &[u8]) {}
}
