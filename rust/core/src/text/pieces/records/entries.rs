//! Entries of logs and turns of conversations: lines that begin with a time, a level, a speaker, or are objects of JSON.
//!
//! Entries of logs are never cut. Turns consist of sentences, so a long one is cut at their ends.

use super::chat_marks::mark_end;
use super::cuts;
use super::run::{Lines, Run};
use super::speakers::{is_name, is_name_line, label_end, paragraphs, speaker};
use super::stamps::{may_be_stamp, stamp};
use super::traces::{is_source, is_trace};
use crate::text::page::BlockKind;
use crate::text::pieces::lines::indent;

/// Bytes of the longest path of a place.
const LONGEST_PATH: usize = 200;

/// Bytes before the time of an entry of a web server.
const LONGEST_CLIENT: usize = 60;

/// Lines of a turn below its first paragraph.
const MAX_TURN_LINES: usize = 20;

/// Turns before one in which its speaker is looked for.
const MAX_SPEAKERS: usize = 8;

/// Fields of a form, which else looks like what three people say.
const MIN_FIELDS: usize = 3;

/// Words before the level in a line with a time.
const MAX_WORDS_BEFORE_LEVEL: usize = 4;

const LEVELS: [&str; 19] = [
    "TRACE", "DEBUG", "INFO", "NOTICE", "WARN", "WARNING", "ERROR", "ERR", "FATAL", "CRITICAL", "CRIT", "ALERT",
    "SEVERE", "EMERG", "VERBOSE", "INF", "WRN", "DBG", "FTL",
];

/// How entries of one run begin.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    Stamp,
    Level,
    Object,
    Access,
    Pairs,
    Speaker,
    /// A line with the speaker and the time, above the text.
    NameLine,
    /// An error with the calls that led to it.
    Trace,
    /// A command and what it printed.
    Prompt,
    /// A place in a file and what is there.
    Place,
    /// A card or an event: `BEGIN:VCARD`.
    Component,
}

/// The start of an entry.
struct Mark {
    family: Family,
    kind: BlockKind,
    /// The end of what names the speaker and the time.
    end: usize,
    /// Whether it is only a day or a time of day without a bracket, as sentences have.
    is_loose: bool,
}

impl Mark {
    /// Whether all lines up to a blank one belong to the entry.
    fn is_open(&self) -> bool {
        self.kind == BlockKind::Turn || matches!(self.family, Family::Prompt | Family::Component)
    }
}

pub(super) fn run(lines: &Lines<'_>, at: usize) -> Result<Run, usize> {
    let line = lines.get(at).ok_or(at + 1)?;
    let first = first_mark(lines, at, line).ok_or(at + 1)?;
    let depth = indent(line);
    let mut starts = vec![(at, first)];
    let (mut end, mut line) = (at + 1, at + 1);
    // Lines that belong to an entry only if another one follows.
    let (mut is_pending, mut has_gap, mut traces) = (false, false, 0);
    while let Some(text) = lines.get(line) {
        let (_, first) = &starts[0];
        let next = mark_at(lines, line, text).filter(|_| indent(text) == depth);
        if text.is_empty() {
            // Below the line with a name, what is said may be a paragraph.
            let is_name = first.family == Family::NameLine && starts.last().is_some_and(|last| last.0 + 1 == line);
            let goes_on = |after: &usize| is_name || continues_after_blank(lines, *after, &starts);
            let Some(after) = lines.next_text(line).filter(goes_on) else {
                break;
            };
            (has_gap, line) = (true, after);
            continue;
        }
        match next {
            Some(next) if next.family == first.family => {
                starts.push((line, next));
                (end, is_pending) = (line + 1, false);
            }
            Some(_) if starts.len() == 1 && first.family == Family::Speaker => break,
            _ if indent(text) > depth
                || is_trace(text)
                || is_source(text)
                || first.is_open()
                || is_call(lines, line, first) =>
            {
                traces += usize::from(is_trace(text) || is_source(text));
                end = if is_pending { end } else { line + 1 };
            }
            Some(_) if starts.len() == 1 => break,
            _ => is_pending = true,
        }
        line += 1;
    }
    if !is_run(lines, &starts, end, has_gap, traces) {
        return Err(line);
    }
    if let Some(ends) = forms(lines, &starts, end) {
        let begins = [at].into_iter().chain(ends.iter().copied());
        let blocks = begins.zip(&ends).flat_map(|(start, end)| lines.blocks(start..*end, BlockKind::Record)).collect();
        return Ok(Run { blocks, end });
    }
    if is_speech(lines, &starts) {
        return Ok(Run { blocks: vec![lines.block(at..end, BlockKind::Captions, false)], end });
    }
    let mut blocks = Vec::new();
    for (place, (start, mark)) in starts.iter().enumerate() {
        let stop = starts.get(place + 1).map_or(end, |next| next.0);
        match mark.kind {
            BlockKind::Turn => blocks.extend(paragraphs(lines, *start..stop)),
            kind => blocks.extend(lines.blocks(*start..stop, kind)),
        }
    }
    Ok(Run { blocks, end })
}

/// The mark of the first entry of a run.
fn first_mark(lines: &Lines<'_>, at: usize, line: &str) -> Option<Mark> {
    // In a wrapped paragraph, a line may start with a time.
    let above = at.checked_sub(1).and_then(|above| lines.get(above)).unwrap_or_default();
    let is_wrapped = above.ends_with(|c: char| c.is_alphanumeric() || c == ',');
    let found = mark_at(lines, at, line).filter(|found| !found.is_loose || !is_wrapped);
    if found.as_ref().is_some_and(|found| found.family != Family::Speaker) {
        return found;
    }
    let below = lines.get(at + 1).unwrap_or_default();
    let has_trace = || is_trace(line) || (indent(below) > 0 || below.starts_with("stack backtrace")) && is_trace(below);
    let is_error = indent(line) == 0 && has_trace();
    let error = is_error.then_some(Mark { family: Family::Trace, kind: BlockKind::Record, end: 0, is_loose: false });
    error.or(found)
}

/// Whether this line of a stack trace names a function, whose place is below.
fn is_call(lines: &Lines<'_>, line: usize, first: &Mark) -> bool {
    first.family == Family::Trace && lines.get(line + 1).is_some_and(|place| indent(place) > 0)
}

/// Whether an entry may start or go on below a blank line.
fn continues_after_blank(lines: &Lines<'_>, after: usize, starts: &[(usize, Mark)]) -> bool {
    let (_, first) = &starts[0];
    let mark = |line: usize| lines.get(line).and_then(|text| mark_at(lines, line, text));
    let is_next = |line: usize| mark(line).filter(|next| next.family == first.family);
    match first.family {
        Family::Trace => lines.get(after).is_some_and(is_trace),
        _ if is_next(after).is_some() => true,
        Family::NameLine => (after + 1..after + MAX_TURN_LINES).any(|line| is_next(line).is_some()),
        // A further paragraph of a turn, if a known speaker follows.
        Family::Speaker if starts.len() > 1 => (after + 1..after + MAX_TURN_LINES).any(|line| {
            let next = is_next(line).map(|next| name(lines, line, &next));
            next.is_some_and(|next| {
                starts.iter().rev().take(MAX_SPEAKERS).any(|(line, mark)| name(lines, *line, mark) == next)
            })
        }),
        _ => false,
    }
}

/// Whether entries are enough for a run that ends before a line.
fn is_run(lines: &Lines<'_>, starts: &[(usize, Mark)], end: usize, has_gap: bool, traces: usize) -> bool {
    let (at, first) = &starts[0];
    let is_each_line = starts.len() == end - at;
    match first.family {
        Family::Speaker => {
            let mut names: Vec<&str> = starts.iter().map(|(line, mark)| name(lines, *line, mark)).collect();
            names.sort_unstable();
            let repeats = names.windows(2).any(|pair| pair[0] == pair[1]);
            repeats || (starts.len() > 1 && !has_gap && is_each_line)
        }
        Family::Object => true,
        Family::Component => !is_each_line,
        Family::Trace => traces > 1 || (traces > 0 && end - at > 2),
        // Alone it is indented: a price is no command.
        Family::Prompt => starts.len() > 1 || !is_each_line || lines.get(*at).is_some_and(|line| indent(line) > 1),
        Family::NameLine => starts.len() > 1 && starts.windows(2).all(|pair| pair[1].0 > pair[0].0 + 1),
        _ => starts.len() > 1 || traces > 0,
    }
}

/// The ends of forms: paragraphs that have the same first field, and several others, instead of speakers.
fn forms(lines: &Lines<'_>, starts: &[(usize, Mark)], end: usize) -> Option<Vec<usize>> {
    let (first_line, first) = &starts[0];
    if first.family != Family::Speaker {
        return None;
    }
    let is_new = |one: &(usize, Mark), next: &(usize, Mark)| (one.0..next.0).any(|line| lines.is_blank(line));
    let forms: Vec<&[(usize, Mark)]> = starts.chunk_by(|one, next| !is_new(one, next)).collect();
    let field = name(lines, *first_line, first);
    let is_form = |form: &&[(usize, Mark)]| {
        let mut names: Vec<&str> = form.iter().map(|(line, mark)| name(lines, *line, mark)).collect();
        let begins = names[0] == field;
        names.sort_unstable();
        begins && names.len() >= MIN_FIELDS && names.windows(2).all(|pair| pair[0] != pair[1])
    };
    let ends = forms.iter().skip(1).map(|form| form[0].0).chain([end]).collect();
    (forms.len() > 1 && forms.iter().all(is_form)).then_some(ends)
}

/// Whether times interrupt what somebody says, as in `[00:04] old bridge was`: most entries start in lower case.
fn is_speech(lines: &Lines<'_>, starts: &[(usize, Mark)]) -> bool {
    let is_small = |(line, mark): &&(usize, Mark)| {
        let text = lines.get(*line).unwrap_or_default();
        mark.family == Family::Stamp && mark.kind == BlockKind::Turn && {
            let said = text[mark.end..].trim_start();
            text[..mark.end].ends_with([']', ')']) | !text[..mark.end].ends_with([':', '>'])
                && said.starts_with(char::is_lowercase)
        }
    };
    let small = starts.iter().filter(is_small).count();
    small * 2 > starts.len()
}

fn name<'text>(lines: &Lines<'text>, line: usize, mark: &Mark) -> &'text str {
    lines.get(line).unwrap_or_default().get(..mark.end).unwrap_or_default()
}

/// The end of the speaker and time at the start of a turn.
pub(crate) fn turn_label(turn: &str) -> Option<usize> {
    let line = turn.lines().next().unwrap_or_default();
    if has_stamped_name(line) {
        return Some(line.len());
    }
    mark(line).map(|mark| mark.end).filter(|end| *end > 0).or_else(|| label_end(turn))
}

/// The mark of a line, which may have only the time and the speaker of the text below it.
fn mark_at(lines: &Lines<'_>, line: usize, text: &str) -> Option<Mark> {
    let found = mark(text)?;
    let is_above_text = || lines.get(line + 1).is_some_and(|below| !below.is_empty() && mark(below).is_none());
    if found.family == Family::Stamp && has_stamped_name(text) && is_above_text() {
        return Some(Mark { family: Family::NameLine, kind: BlockKind::Turn, end: text.len(), is_loose: false });
    }
    Some(found)
}

/// `00:01:20 ANN LEE`
fn has_stamped_name(line: &str) -> bool {
    let text = line.trim_start();
    let Some(stamp) = stamp(text).filter(|_| text.len() <= LONGEST_CLIENT && may_be_stamp(text)) else { return false };
    let name = text[stamp.end..].trim_start_matches([' ', '\t', '-', '–', '—', '|', ',']);
    is_name(name, false)
}

/// What a line begins with, if that starts an entry.
fn mark(line: &str) -> Option<Mark> {
    let depth = indent(line);
    let text = &line[depth..];
    let of = |family, kind, end: usize| Some(Mark { family, kind, end: depth + end, is_loose: false });
    match *text.as_bytes().first()? {
        b'<' | b'[' if let Some(end) = mark_end(text) => {
            let family = if end == text.len() { Family::NameLine } else { Family::Speaker };
            return of(family, BlockKind::Turn, end);
        }
        b'{' | b'[' if is_object(text) => return of(Family::Object, BlockKind::Record, 0),
        b'B' if text.starts_with("BEGIN:") => return of(Family::Component, BlockKind::Record, 0),
        b'0'..=b'9' if is_access(text) => return of(Family::Access, BlockKind::Record, 0),
        b'0'..=b'9' | b'[' | b'(' | b'A'..=b'Z' if may_be_stamp(text) => {
            if let Some(stamp) = stamp(text) {
                let after = text[stamp.end..].trim_start_matches([' ', '\t', '-', '–', '—', '|', ':', ',']);
                let begin = text.len() - after.len();
                let speaker = speaker(after, !stamp.is_exact()).filter(|_| !has_level(after));
                return match speaker {
                    Some(end) => of(Family::Stamp, BlockKind::Turn, begin + end),
                    None if stamp.is_exact() || has_level(after) => of(Family::Stamp, BlockKind::Record, 0),
                    None => {
                        let is_loose = text.as_bytes()[0].is_ascii_alphanumeric();
                        of(Family::Stamp, BlockKind::Turn, stamp.end).map(|mark| Mark { is_loose, ..mark })
                    }
                };
            }
        }
        // Transcripts of models: `<|im_start|>user`.
        b'<' if text.starts_with("<|") && text.len() <= LONGEST_CLIENT && !text.contains(' ') => {
            return of(Family::NameLine, BlockKind::Turn, text.len());
        }
        b'$' | b'>' if ["$ ", ">>> "].iter().any(|prompt| text.starts_with(prompt)) => {
            return of(Family::Prompt, BlockKind::Code, 0);
        }
        _ if is_place(text) => return of(Family::Place, BlockKind::Record, 0),
        b'a'..=b'z' if is_small_level(text) => return of(Family::Level, BlockKind::Record, 0),
        b'a'..=b'z' if is_pairs(text) => return of(Family::Pairs, BlockKind::Record, 0),
        b'a'..=b'z' if !is_name_line(text) => return None,
        b'"' | b'\'' | b'-' => return None,
        _ => {}
    }
    if begins_with_level(text) {
        return of(Family::Level, BlockKind::Record, 0);
    }
    if let Some(end) = speaker(text, false) {
        // `Ann (10:00):`
        let has_time = text[..end].trim_end_matches(['*', ':']).ends_with([')', ']']);
        return of(if has_time { Family::Stamp } else { Family::Speaker }, BlockKind::Turn, end);
    }
    is_name_line(text).then_some(Mark {
        family: Family::NameLine,
        kind: BlockKind::Turn,
        end: line.len(),
        is_loose: false,
    })
}

/// Whether this is one object or list of JSON.
fn is_object(text: &str) -> bool {
    let inside = text[1..].trim_start();
    text.ends_with(['}', ']', ','])
        && inside.starts_with(['"', '\'', '{', '[', '}'])
        && cuts::is_balanced(text.trim_end_matches(','))
}

/// Whether this is an entry of a web server's log: an address, then a time in brackets.
fn is_access(text: &str) -> bool {
    let address = text.bytes().take_while(|byte| byte.is_ascii_hexdigit() || matches!(byte, b'.' | b':')).count();
    let address = &text.as_bytes()[..address];
    let marks = address.iter().filter(|byte| matches!(byte, b'.' | b':')).count();
    marks >= 3 && text.as_bytes().iter().take(LONGEST_CLIENT).any(|byte| *byte == b'[')
}

/// Whether this is a line of pairs: `level=info msg="…"`.
fn is_pairs(text: &str) -> bool {
    let is_pair = |word: &str| {
        word.split_once('=').is_some_and(|(key, _)| {
            !key.is_empty()
                && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
        })
    };
    let mut words = text.split(' ');
    words.next().is_some_and(is_pair) && words.next().is_some_and(is_pair)
}

/// Whether a compiler or tool says something here: `error: it failed`, `warning[E01]: it may fail`.
fn is_small_level(text: &str) -> bool {
    let length = text.bytes().take_while(u8::is_ascii_lowercase).count();
    matches!(&text[..length], "error" | "warning" | "fatal" | "info" | "debug" | "warn")
        && text[length..].starts_with([':', '['])
}

/// Whether a line starts with a place in a file: `src/main.c:12:5: `.
fn is_place(text: &str) -> bool {
    let path = text.bytes().take(LONGEST_PATH).take_while(|byte| !matches!(byte, b':' | b' ' | b'"')).count();
    let is_path = text.as_bytes()[..path].iter().any(|byte| matches!(byte, b'.' | b'/'));
    let number = text.as_bytes()[path..].iter().skip(1).take_while(|byte| byte.is_ascii_digit()).count();
    is_path && number > 0 && text[path..].starts_with(':') && text.as_bytes().get(path + 1 + number) == Some(&b':')
}

fn is_level(word: &str) -> bool {
    let name = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let is_marked = name.len() < word.len();
    LEVELS.contains(&name) || is_marked && LEVELS.iter().any(|level| level.eq_ignore_ascii_case(name))
}

/// Whether the text after a time has a level near its start.
fn has_level(text: &str) -> bool {
    let mut words = text.split_whitespace().take(MAX_WORDS_BEFORE_LEVEL);
    words.any(|word| is_level(word) || word.rsplit_once('.').is_some_and(|(_, level)| is_level(level)))
}

/// Whether a line starts with a level: `INFO:root:`, `[ERROR] `, `WARN  `.
fn begins_with_level(text: &str) -> bool {
    let start = text.strip_prefix(['[', '<']).unwrap_or(text);
    if !start.as_bytes().get(1).is_some_and(u8::is_ascii_uppercase) {
        return false;
    }
    let length = start.bytes().take_while(u8::is_ascii_alphabetic).count();
    let is_named = LEVELS.contains(&&start[..length]);
    let after = start.as_bytes().get(length);
    is_named
        && if start.len() < text.len() {
            matches!(after, Some(b']' | b'>'))
        } else {
            matches!(after, Some(b':' | b' ' | b'\t'))
        }
}
