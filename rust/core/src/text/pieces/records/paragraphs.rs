//! Records in the paragraphs of a page with markup, which no fence or `pre` says to be data: a log, a chat, CSV.

use std::ops::Range;

use super::Runs;
use super::run::Run;
use crate::error::Result;
use crate::runtime::call::{Check, Checkpoints};
use crate::text::outline::has_blank_line;
use crate::text::page::{Block, BlockKind, ByteSpan};
use crate::text::pieces::lines::{Line, LineShape, text_lines};

/// The blocks of a page with markup, with those of the records that its paragraphs have.
pub(in crate::text::pieces) fn with_records(text: &str, blocks: &[Block], check: &Check) -> Result<Vec<Block>> {
    let mut checkpoints = Checkpoints::new(check);
    let mut lines: Vec<Line> = Vec::new();
    // The lines of each block.
    let mut of_blocks: Vec<Range<usize>> = Vec::with_capacity(blocks.len());
    for block in blocks {
        let start = block.span.start;
        checkpoints.reach(start)?;
        let first = lines.len();
        if block.kind != BlockKind::Prose || block.level > 0 {
            if let Some(last) = lines.last_mut() {
                last.hard = true;
            }
            of_blocks.push(first..first);
            continue;
        }
        if lines.last().is_some_and(|last| !last.hard && has_blank_line(&text[last.end()..start])) {
            lines.push(Line::new(ByteSpan { start, end: start }, LineShape::Blank));
        }
        let first = lines.len();
        lines.extend(text_lines(block.span.of(text)).map(|line| line.moved(start)));
        of_blocks.push(first..lines.len());
    }
    let mut found: Vec<(usize, Run)> = Vec::new();
    let shapes: Vec<LineShape> = lines.iter().map(|line| line.shape).collect();
    let mut runs = Runs::in_markup(text, &lines, &shapes);
    let mut number = 0;
    while let Some(line) = lines.get(number) {
        checkpoints.reach(line.start())?;
        let run = runs.at(number);
        let next = run.as_ref().map_or(number + 1, |run| run.end);
        found.extend(run.map(|run| (number, run)));
        number = next;
    }
    if found.is_empty() {
        return Ok(blocks.to_vec());
    }
    let mut result: Vec<Block> = Vec::with_capacity(blocks.len());
    let mut found = found.into_iter().peekable();
    // The end of the last run.
    let mut covered = 0;
    for (block, of_block) in blocks.iter().zip(of_blocks) {
        let has_run = covered > of_block.start || found.peek().is_some_and(|(first, _)| *first < of_block.end);
        if of_block.is_empty() || !has_run {
            result.push(*block);
            continue;
        }
        let first_part = result.len();
        let mut at = of_block.start.max(covered);
        while let Some((first, run)) = found.next_if(|(first, _)| *first < of_block.end) {
            result.extend(prose(text, &lines[at..first]));
            result.extend(run.blocks);
            at = run.end;
        }
        result.extend(prose(text, &lines[at.min(of_block.end)..of_block.end]));
        covered = at;
        if let Some(first) = result.get_mut(first_part) {
            first.ends = block.ends;
        }
    }
    Ok(result)
}

/// The lines of a paragraph that are no records.
fn prose(text: &str, lines: &[Line]) -> Option<Block> {
    let (start, end) = (lines.first()?.start(), lines.last()?.end());
    let span = ByteSpan { start, end }.trimmed(text);
    (!span.is_empty()).then_some(Block { span, kind: BlockKind::Prose, continues: false, level: 0, ends: 0 })
}
