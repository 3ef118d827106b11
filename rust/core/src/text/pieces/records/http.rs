//! Messages of HTTP: the line of a request or answer with the fields below it, and what `curl -v` shows of both.

use super::run::{Lines, Run};
use crate::text::page::BlockKind;

/// Bytes of the longest name of a field.
const LONGEST_NAME: usize = 40;

pub(super) fn run(lines: &Lines<'_>, at: usize) -> Result<Run, usize> {
    let line = lines.get(at).ok_or(at + 1)?;
    if is_start(line) {
        return message(lines, at);
    }
    if is_shown(line) { exchange(lines, at) } else { Err(at + 1) }
}

/// `HTTP/1.1 404 Not Found`, `GET /gates HTTP/1.1`
fn is_start(line: &str) -> bool {
    let is_version =
        |word: &str| word.strip_prefix("HTTP/").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let mut words = line.split(' ');
    let first = words.next().unwrap_or_default();
    is_version(first) || first.bytes().all(|byte| byte.is_ascii_uppercase()) && words.nth(1).is_some_and(is_version)
}

/// `Retry-After: 120`
fn is_field(line: &str) -> bool {
    let name = line.split(':').next().unwrap_or_default();
    name.len() < line.len().min(LONGEST_NAME)
        && !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

fn message(lines: &Lines<'_>, at: usize) -> Result<Run, usize> {
    let mut end = at + 1;
    while lines.get(end).is_some_and(is_field) {
        end += 1;
    }
    if end == at + 1 {
        return Err(end);
    }
    Ok(Run { blocks: lines.blocks(at..end, BlockKind::Record).collect(), end })
}

/// Whether `curl -v` may show this: what it says (`*`), sends (`>`), reads (`<`), or bytes (`{`, `}`).
fn is_shown(line: &str) -> bool {
    matches!(line.as_bytes(), [b'*' | b'>' | b'<' | b'{' | b'}'] | [b'*' | b'>' | b'<' | b'{' | b'}', b' ', ..])
}

/// Each request with its answer, and single messages of the program.
fn exchange(lines: &Lines<'_>, at: usize) -> Result<Run, usize> {
    let (mut starts, mut end, mut has_start) = (Vec::new(), at, false);
    let mut before = b'*';
    while let Some(line) = lines.get(end).filter(|line| is_shown(line)) {
        let mark = line.as_bytes()[0];
        has_start |= matches!(mark, b'<' | b'>') && is_start(line[1..].trim_start());
        // The answer stays with its request.
        let goes_on = mark == before && matches!(mark, b'<' | b'>') || (before, mark) == (b'>', b'<');
        if !goes_on {
            starts.push(end);
        }
        before = mark;
        end += 1;
    }
    if !has_start {
        return Err(end.max(at + 1));
    }
    let ends = starts.iter().skip(1).copied().chain([end]);
    let blocks =
        starts.iter().zip(ends).flat_map(|(start, end)| lines.blocks(*start..end, BlockKind::Record)).collect();
    Ok(Run { blocks, end })
}
