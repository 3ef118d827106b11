//! Tables of `MediaWiki`: `{|`, rows from one `|-` to the next, `|}`.

use super::run::{Lines, Run};
use crate::text::page::{Block, BlockKind};

pub(super) fn run(lines: &Lines<'_>, at: usize) -> Result<Run, usize> {
    let begins = |line: usize, mark: &str| lines.get(line).is_some_and(|text| text.starts_with(mark));
    if !begins(at, "{|") {
        return Err(at + 1);
    }
    let close = lines.find(at + 1, "|}").ok_or(at + 1)?;
    let mut starts: Vec<usize> = (at + 1..close).filter(|line| begins(*line, "|-")).collect();
    // Before the first mark of a row, the names of the columns or a row may stand below the caption.
    let first = (at + 1..close).find(|line| begins(*line, "!") || begins(*line, "|") && !begins(*line, "|+"));
    starts.extend(first);
    starts.sort_unstable();
    starts.dedup();
    let begin = starts.first().copied().unwrap_or(close);
    let mut blocks = vec![lines.block(at..at + 1, BlockKind::Rule, false)];
    if begin > at + 1 {
        blocks.push(lines.block(at + 1..begin, BlockKind::Caption, false));
    }
    let before = blocks.len();
    for (place, start) in starts.iter().enumerate() {
        let end = starts.get(place + 1).copied().unwrap_or(close);
        // In other rows, the first cell may be a name.
        let is_header = (*start..end).all(|line| begins(line, "|-") || begins(line, "!"));
        let is_empty = (*start..end).all(|line| begins(line, "|-"));
        let continues = blocks.len() > before;
        let kind = match blocks.last() {
            Some(Block { kind: BlockKind::Row, .. }) => BlockKind::Row,
            _ if is_empty => BlockKind::Rule,
            _ if is_header => BlockKind::HeaderRow,
            _ => BlockKind::Row,
        };
        blocks.push(lines.block(*start..end, kind, continues));
    }
    blocks.push(lines.block(close..close + 1, BlockKind::Rule, false));
    Ok(Run { blocks, end: close + 1 })
}
