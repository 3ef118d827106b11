//! Tables of `MediaWiki`: `{|`, rows from one `|-` to the next, `|}`.

use super::run::{Lines, Run};
use crate::text::page::{Block, BlockKind};

pub(super) fn run(lines: &Lines<'_>, at: usize) -> Result<Run, usize> {
    let begins = |line: usize, mark: &str| lines.get(line).is_some_and(|text| text.starts_with(mark));
    if !begins(at, "{|") {
        return Err(at + 1);
    }
    // No table below is closed either.
    let close = lines.find(at + 1, "|}").ok_or(lines.end())?;
    // Below the caption, the names of the columns or the first row may stand without a mark of their own.
    let first = (at + 1..close).find(|line| begins(*line, "!") || begins(*line, "|") && !begins(*line, "|+"));
    let begin = first.unwrap_or(close);
    let marked = (begin + 1..close).filter(|line| begins(*line, "|-"));
    let starts: Vec<usize> = first.into_iter().chain(marked).collect();
    let mut blocks = vec![lines.block(at..at + 1, BlockKind::Rule, false)];
    if begin > at + 1 {
        blocks.push(lines.block(at + 1..begin, BlockKind::Caption, false));
    }
    let before = blocks.len();
    for (place, start) in starts.iter().enumerate() {
        let end = starts.get(place + 1).copied().unwrap_or(close);
        // Below the first row, a line of names begins a row.
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
