//! Blocks of `AsciiDoc` between lines of marks: listings (`----`), tables (`|===`), examples and notes (`====`).

use super::run::{Lines, Run};
use crate::text::page::{Block, BlockKind};

/// Marks of the shortest line around a block.
const MIN_MARKS: usize = 4;

/// Lines with the kind and title of a block, above it.
const MAX_NAMES: usize = 3;

pub(super) fn run(lines: &Lines<'_>, at: usize) -> Result<Run, usize> {
    let line = lines.get(at).ok_or(at + 1)?;
    if lines.is_asciidoc && line.strip_prefix("= ").is_some_and(|title| title.starts_with(char::is_uppercase)) {
        return Ok(Run {
            blocks: vec![Block { level: 1, ..lines.block(at..at + 1, BlockKind::Heading, false) }],
            end: at + 1,
        });
    }
    // Without other signs of AsciiDoc, the kind of the block tells.
    let is_source = ["[source", "[listing", "[,", "[literal"].iter().any(|kind| line.starts_with(kind));
    if !lines.is_asciidoc && !is_source {
        return Err(at + 1);
    }
    let is_name = |line: &usize| lines.get(*line).is_some_and(|text| is_attributes(text) || is_block_title(text));
    let open = (at..=at + MAX_NAMES).find(|line| !is_name(line)).ok_or(at + 1)?;
    let marks = lines.get(open).ok_or(at + 1)?;
    if marks == "|===" {
        return table(lines, at, open).ok_or(at + 1);
    }
    let mark = marks.bytes().next().filter(|mark| marks.len() >= MIN_MARKS && marks.bytes().all(|byte| byte == *mark));
    let end = match mark {
        Some(b'-' | b'.' | b'+') => lines.find(open + 1, marks).ok_or(at + 1)? + 1,
        Some(b'=' | b'*' | b'_') if lines.is_asciidoc && open == at => {
            return Ok(Run { blocks: vec![lines.block(at..at + 1, BlockKind::Rule, false)], end: at + 1 });
        }
        _ => return Err(at + 1),
    };
    Ok(Run { blocks: lines.blocks(at..end, BlockKind::Code).collect(), end })
}

/// `[source,python]`, `[cols="1,1"]`
fn is_attributes(line: &str) -> bool {
    line.starts_with('[') && line.ends_with(']') && !line.contains(". ")
}

/// `.Interest on a loan`
fn is_block_title(line: &str) -> bool {
    line.strip_prefix('.').is_some_and(|title| title.starts_with(char::is_alphanumeric))
}

/// A table, whose rows are lines, or cells up to a blank line. A blank line below the first row says that it is a header.
fn table(lines: &Lines<'_>, at: usize, open: usize) -> Option<Run> {
    let close = lines.find(open + 1, "|===")?;
    let mut blocks: Vec<Block> = (at..=open).map(|line| lines.block(line..line + 1, BlockKind::Rule, false)).collect();
    let mut line = lines.next_text(open + 1)?;
    let header_end = line + 1;
    let has_header = lines.is_blank(header_end)
        || (at..open).any(|line| lines.get(line).is_some_and(|names| names.contains("header")));
    let columns = lines.get(line)?.matches('|').count();
    let first = blocks.len();
    while line < close {
        let is_whole = |line: usize| lines.get(line).is_some_and(|text| text.matches('|').count() >= columns);
        let end =
            if is_whole(line) { line + 1 } else { (line..close).find(|line| lines.is_blank(*line)).unwrap_or(close) };
        let continues = blocks.len() > first;
        let kind = if has_header && !continues { BlockKind::HeaderRow } else { BlockKind::Row };
        blocks.push(lines.block(line..end, kind, continues));
        line = lines.next_text(end).unwrap_or(close);
    }
    blocks.push(lines.block(close..close + 1, BlockKind::Rule, false));
    Some(Run { blocks, end: close + 1 })
}
