//! Source code and configuration without a fence, recognised by the shape of its lines: statements, brackets and keys,
//! with comments, strings and deeper lines between them.

use super::run::{Lines, Run};
use super::statements::{Class, class, is_clause, without_comment};
use crate::text::page::BlockKind;
use crate::text::pieces::lines::{LineShape, indent};

/// Lines of a statement of SQL.
const LONGEST_QUERY: usize = 30;

/// Lines of a formula.
const LONGEST_FORMULA: usize = 30;

/// Blank lines inside code.
const MAX_BLANK_LINES: usize = 3;

/// Words of a command without any mark.
const MAX_COMMAND_WORDS: usize = 4;

/// Spaces before commands: what stands farther from the left edge is a date, a name or the number of a page.
const DEEPEST_COMMANDS: usize = 8;

/// Statements of SQL in lower case, and the word that follows in the same or the next line.
const QUERIES: [(&str, &str); 7] = [
    ("select", "from"),
    ("insert", "into"),
    ("create", "table"),
    ("delete", "from"),
    ("update", "set"),
    ("alter", "table"),
    ("drop", "table"),
];

pub(super) fn run(lines: &Lines<'_>, at: usize) -> Result<Run, usize> {
    let first = lines.get(at).ok_or(at + 1)?;
    if let Some(end) = commands_end(lines, at).or_else(|| formula_end(lines, at)) {
        return Ok(Run { blocks: lines.blocks(at..end, BlockKind::Code).collect(), end });
    }
    let is_head = || lines.get(at + 1) == Some("{");
    let begins = lines.marks.has_code() && class(first) != Class::Other
        || lines.marks.has_quote() && (opens_string(first).is_some() || class(first) == Class::Comment)
        || begins_plainly(first)
        || is_head()
        || starts_query(lines, at);
    if !begins {
        return Err(at + 1);
    }
    let depth = indent(first);
    let (mut line, mut end, mut blanks) = (at, at, 0);
    // A comment below a blank line belongs to the code only if more follows.
    let mut is_pending = false;
    let (mut code, mut others) = (0, 0);
    // What ends the comment or string over several lines.
    let mut closing: Option<&str> = None;
    // SQL may go on without marks of code up to its semicolon.
    let mut in_statement = false;
    // After its first line, each part of a diff goes on with marked lines.
    let mut in_diff = false;
    // Where functions, sections and files of a diff start.
    let mut starts = vec![at];
    while let Some(text) = lines.get(line) {
        let trimmed = text.trim();
        if trimmed.is_empty() {
            blanks += 1;
            if blanks > MAX_BLANK_LINES {
                break;
            }
            in_statement = false;
            line += 1;
            continue;
        }
        let is_inside = closing.is_some();
        let is_deeper = indent(text) > depth && code > 0;
        let is_head = || lines.get(line + 1).is_some_and(|next| next.trim() == "{");
        let class = match class(text) {
            _ if is_inside => Class::Comment,
            Class::Other if in_diff && text.starts_with(['+', '-', ' ', '\\']) => Class::Code,
            Class::Other if is_head() || starts_query(lines, line) => Class::Code,
            // The line that failed, and why: `>       assert gate.is_open`, `E       assert False`.
            Class::Other if code > 0 && (text.starts_with(">   ") || text.starts_with("E   ")) => Class::Code,
            class => class,
        };
        match class {
            Class::Code => code += 1,
            Class::Comment => {}
            Class::Other if opens_string(trimmed).is_some() => {}
            Class::Other if is_deeper || in_statement => others += 1,
            Class::Other => break,
        }
        let is_outer = blanks > 0 && !is_inside && !is_deeper && !closes(trimmed);
        if (is_outer && class != Class::Other) || text.starts_with("diff --git ") {
            starts.push(line);
        }
        in_diff |= text.starts_with("@@ ");
        closing = match closing {
            Some(mark) => Some(mark).filter(|mark| !trimmed.contains(mark)),
            None => opens_string(trimmed),
        };
        in_statement = !trimmed.ends_with(';') && (in_statement || is_clause(trimmed) || starts_query(lines, line));
        line += 1;
        is_pending = class != Class::Code && !is_deeper && (is_pending || blanks > 0);
        blanks = 0;
        if code > 0 && !is_pending {
            end = line;
        }
    }
    let is_code = code > 1 && code * 2 > others && end - at > 1;
    if !is_code {
        return Err(line.max(at + 1));
    }
    starts.retain(|start| *start < end);
    starts.dedup();
    let ends = starts.iter().skip(1).copied().chain([end]);
    let blocks = starts.iter().zip(ends).flat_map(|(start, end)| lines.blocks(*start..end, BlockKind::Code)).collect();
    Ok(Run { blocks, end })
}

/// The end of commands without a prompt: a paragraph in lower case that stands deeper than the one above it, and has no
/// sentence.
fn commands_end(lines: &Lines<'_>, at: usize) -> Option<usize> {
    let depth = indent(lines.get(at)?);
    let is_flatter = |line: &str| indent(line) < depth && depth <= indent(line) + DEEPEST_COMMANDS;
    let is_below =
        at > 1 && lines.is_blank(at - 1) && !lines.is_blank(at - 2) && lines.get(at - 2).is_some_and(is_flatter);
    if !is_below || lines.shape(at) != LineShape::Text {
        return None;
    }
    let mut end = at;
    let mut goes_on = false;
    while let Some(line) = lines.get(end).filter(|_| !lines.is_blank(end)) {
        if indent(line) < depth || !goes_on && !is_command(line.trim()) {
            return None;
        }
        goes_on = line.ends_with('\\');
        end += 1;
    }
    Some(end)
}

/// The end of a formula of LaTeX between `\[` and `\]`, each on a line of its own.
fn formula_end(lines: &Lines<'_>, at: usize) -> Option<usize> {
    let is = |line: usize, mark: &str| lines.get(line).is_some_and(|text| text.trim() == mark);
    let end = |line: &usize| is(*line, "\\]");
    if is(at, "\\[") { (at + 1..at + LONGEST_FORMULA).find(end).map(|end| end + 1) } else { None }
}

/// `docker system df -v | grep web`, `timedatectl status`
fn is_command(line: &str) -> bool {
    let is_short = || line.split(' ').count() <= MAX_COMMAND_WORDS;
    let has_mark =
        || line.contains(" -") || line.contains(" | ") || line.contains(['/', '=', '\\', '_', '<', '>', '&', '$', '@']);
    line.starts_with(|c: char| c.is_ascii_lowercase() || matches!(c, '.' | '/' | '~' | '$'))
        && (!line.ends_with(['.', '!', '?', ':', ',', ';']) || line.ends_with(" ."))
        && (is_short() || has_mark())
}

/// Whether a line only ends what is above: `})`, `end`.
fn closes(text: &str) -> bool {
    text.starts_with(['}', ')', ']', '{']) || matches!(text, "end" | "end;" | "fi" | "done" | "esac" | "*/")
}

/// Whether a line without marks of code may start it: a comment, or a word that needs none.
fn begins_plainly(line: &str) -> bool {
    let text = line.trim_start();
    match text.as_bytes() {
        [b'#' | b'-', ..] => class(line) != Class::Other,
        [first, second, ..] if first.is_ascii_uppercase() => second.is_ascii_uppercase() && is_clause(text),
        _ => {
            let word = text.split(' ').next().unwrap_or_default();
            matches!(
                word,
                "import" | "from" | "package" | "return" | "pass" | "set" | "cd" | "echo" | "fi" | "done" | "then"
            ) && class(line) != Class::Other
        }
    }
}

/// What closes the comment or string that a line opens and leaves open.
fn opens_string(line: &str) -> Option<&'static str> {
    let text = line.trim();
    for mark in ["\"\"\"", "'''"] {
        if text.matches(mark).count() % 2 == 1 {
            return Some(mark);
        }
    }
    let open = text.rfind("/*")?;
    let is_comment = open == 0 || text.as_bytes()[open - 1] == b' ';
    (is_comment && !text[open..].contains("*/")).then_some("*/")
}

/// Whether a statement of SQL in lower case starts with a line and ends with a semicolon.
fn starts_query(lines: &Lines<'_>, line: usize) -> bool {
    let Some(text) = lines.get(line).filter(|text| text.trim_start().starts_with(['s', 'i', 'c', 'd', 'u', 'a']))
    else {
        return false;
    };
    let mut words = text.split_whitespace();
    let first = words.next();
    let Some((_, then)) = QUERIES.iter().find(|(word, _)| first == Some(word)) else { return false };
    let next = lines.get(line + 1).unwrap_or_default();
    let follows = words.chain(next.split_whitespace().take(1)).any(|word| word == *then);
    let end = (line..line + LONGEST_QUERY)
        .take_while(|line| !lines.is_blank(*line))
        .find(|line| lines.get(*line).is_some_and(|text| without_comment(text.trim()).ends_with(';')));
    follows && end.is_some()
}
