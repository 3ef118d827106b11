//! The sentences of blocks: long blocks are read in parts, so that a call may end between two of them.
//! [`super::sentence_ends`] says where a sentence ends.

use std::borrow::Cow;

use super::blocks::blocks;
use super::captions::Captions;
use super::line_numbers::{with_line_numbers, without_line_numbers};
use super::lines::bold_line_end;
use super::long::{push_record, push_units};
use super::marks::{has_capitals, has_substitutes};
use super::records::{CueMarks, starts_speech, turn_label};
use super::references::is_reference;
use super::sentence_ends::{Prose, Script};
use crate::error::Result;
use crate::runtime::call::{Check, Checkpoints};
use crate::text::page::{Block, BlockKind, ByteSpan, boundary_from};

/// Bytes of a block that are split together. A call may end between two parts.
const PART_BYTES: usize = 256 * 1024;

/// Bytes after a sentence that may matter for its end: more than the longest link has.
const LOOKAHEAD_BYTES: usize = 4096;

/// The sentences of a text.
///
/// A heading, a line of code and a table row are one sentence each; a list item starts one. Sentences over 1,000
/// characters or 120 words are split. Sentences are sorted, disjoint, trimmed and not empty, and cover all that is not
/// white space. None ends inside a grapheme cluster, nor inside a link or code span within those limits.
///
/// # Errors
/// Those of `check`.
pub fn sentences(text: &str, check: &Check) -> Result<Vec<ByteSpan>> {
    let masked = without_line_numbers(text);
    let page = masked.as_deref().unwrap_or(text);
    let mut all = Vec::new();
    for_each_block(page, &blocks(page, check)?, check, |_, sentences, _| all.append(sentences))?;
    if masked.is_some() {
        with_line_numbers(text, &mut all);
    }
    Ok(all)
}

/// Calls `each` with every block, its sentences, and the marks of subtitles, in order.
pub(super) fn for_each_block(
    text: &str,
    blocks: &[Block],
    check: &Check,
    mut each: impl FnMut(&Block, &mut Vec<ByteSpan>, Option<&CueMarks>),
) -> Result<()> {
    let mut checkpoints = Checkpoints::new(check);
    let script = Script { has_capitals: has_capitals(text), has_substitutes: has_substitutes(text) };
    let mut sentences = Vec::new();
    for block in blocks {
        let (mut start, mut bytes) = (block.span.start, PART_BYTES);
        let is_entry = matches!(block.kind, BlockKind::Prose | BlockKind::Item) && is_reference(block.span.of(text));
        let kind = if is_entry { BlockKind::Record } else { block.kind };
        let marks = (kind == BlockKind::Captions).then(|| CueMarks::new(text, block.span, check)).transpose()?;
        while start < block.span.end {
            checkpoints.reach(start)?;
            let end = boundary_from(text, start.saturating_add(bytes).min(block.span.end));
            let is_last = end == block.span.end;
            let part = ByteSpan { start, end };
            let next = push_part(text, part, is_last, (kind, marks.as_ref()), script, &mut sentences);
            // A longer part, if this is not even one unit.
            bytes = if next == start { bytes.saturating_mul(2) } else { PART_BYTES };
            start = next;
        }
        each(block, &mut sentences, marks.as_ref());
        sentences.clear();
    }
    Ok(())
}

/// Adds the units of a part of a block. Returns where the next part starts: with the first sentence that may continue
/// after this one, or with the first unit of it that may, if it is the only one.
fn push_part(
    text: &str,
    part: ByteSpan,
    is_last: bool,
    (kind, marks): (BlockKind, Option<&CueMarks>),
    script: Script,
    units: &mut Vec<ByteSpan>,
) -> usize {
    let is_complete = |span: &ByteSpan| is_last || span.end + LOOKAHEAD_BYTES <= part.end;
    let mut open: Option<ByteSpan> = None;
    let captions = marks.map(|marks| Captions::new(text, part, marks));
    let push = |sentence: ByteSpan, units: &mut Vec<ByteSpan>| match &captions {
        Some(captions) => captions.push_units(sentence, units),
        None if kind.is_whole() => push_record(text, sentence, units),
        None => push_units(text, sentence, units),
    };
    if kind.is_whole() {
        open = Some(part);
    } else {
        let unwrapped = match &captions {
            Some(captions) => Cow::Borrowed(captions.masked()),
            None => unwrapped(part.of(text)),
        };
        let is_item = kind == BlockKind::Item;
        // The name of a speaker ends no sentence.
        let label = match kind {
            BlockKind::Turn => turn_label(part.of(text)),
            BlockKind::Prose => starts_speech(&unwrapped).or_else(|| bold_line_end(part.of(text))),
            _ => None,
        };
        let prose = Prose::new(&unwrapped, script, is_item, label.unwrap_or(0));
        prose.split(|start, end| {
            let sentence = ByteSpan { start: part.start + start, end: part.start + end };
            if open.is_none() && is_complete(&sentence) {
                push(sentence, units);
            } else {
                open.get_or_insert(sentence);
            }
        });
    }
    let Some(open) = open else { return part.end };
    if open.start > part.start {
        return open.start;
    }
    let first = units.len();
    push(open, units);
    let complete = first + units[first..].partition_point(is_complete);
    let next = units.get(complete).map_or(open.end, |unit| unit.start);
    units.truncate(complete);
    next
}

/// Replaces line ends, which are all soft inside a block, with spaces. Offsets stay the same.
fn unwrapped(block: &str) -> Cow<'_, str> {
    if block.contains(['\n', '\r']) { Cow::Owned(block.replace(['\n', '\r'], " ")) } else { Cow::Borrowed(block) }
}
