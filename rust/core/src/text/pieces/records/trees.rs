//! Folders and files as programs draw them: `├── src/`. Each is an item of the folder that it is in.

use super::run::{Lines, Run};
use crate::text::page::{Block, BlockKind};

/// Lines of the smallest tree.
const MIN_LINES: usize = 3;

/// Columns of a folder's branch.
const BRANCH: usize = 4;

pub(super) fn run(lines: &Lines<'_>, at: usize) -> Result<Run, usize> {
    let branch = |line: usize| lines.get(line).and_then(depth);
    let is_root = branch(at).is_none();
    let first = at + usize::from(is_root);
    if branch(first).is_none() || is_root && lines.get(at).is_none_or(|root| root.is_empty() || root.contains(' ')) {
        return Err(at + 1);
    }
    let below = (first..lines.end()).map_while(|line| Some(usize::from(is_root) + branch(line)?));
    let depths: Vec<usize> = is_root.then_some(1).into_iter().chain(below).collect();
    let end = at + depths.len();
    if depths.len() < MIN_LINES {
        return Err(end);
    }
    let item = |(line, depth): (usize, usize)| Block {
        level: u8::try_from(depth).unwrap_or(u8::MAX),
        ..lines.block(line..line + 1, BlockKind::Item, false)
    };
    Ok(Run { blocks: (at..end).zip(depths).map(item).collect(), end })
}

/// How deep a line of a tree stands, from 1.
fn depth(line: &str) -> Option<usize> {
    let is_branch = |c: char| matches!(c, '│' | '├' | '└' | '|' | '`' | '+' | ' ' | '\u{a0}');
    let name = line.trim_start_matches(is_branch);
    let before = &line[..line.len() - name.len()];
    let forks = before.ends_with(['├', '└', '|', '`', '+']) && (name.starts_with("── ") || name.starts_with("-- "));
    forks.then(|| before.chars().count() / BRANCH + 1)
}
