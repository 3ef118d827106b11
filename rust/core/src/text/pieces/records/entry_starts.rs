//! What starts an entry of a log or a turn of a conversation: the line, and the lines next to it.

use super::chat_marks::mark_end;
use super::entry_marks::{
    LONGEST_CLIENT, begins_with_level, has_level, is_access, is_component, is_object, is_pairs, is_place, is_prompt,
    is_small_level,
};
use super::name_lines::{is_attribution, is_byline, is_name, is_name_line};
use super::run::Lines;
use super::speakers::{label_end, speaker};
use super::stamps::{may_be_stamp, stamp};
use super::steps::{is_commit, is_listing, is_step, numbered};
use crate::text::page::BlockKind;
use crate::text::pieces::lines::indent;
use crate::text::pieces::wrapping::ends_sentence;

/// Bytes of the title of a post.
const LONGEST_TITLE: usize = 80;

/// How entries of one run begin.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
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
    /// A step of a build or test, or a file, and what was printed for it.
    Step,
    /// A step whose number all of its lines start with.
    Numbered,
    /// A commit and its message.
    Commit,
    /// A card, an event or an entry of a list of sources: `BEGIN:VCARD`, `TY  - JOUR`.
    Component,
}

/// The start of an entry.
pub(super) struct Mark {
    pub(super) family: Family,
    pub(super) kind: BlockKind,
    /// The end of what names the speaker and the time.
    pub(super) end: usize,
    /// Whether it is only a day or a time of day without a bracket, as sentences have.
    pub(super) is_loose: bool,
}

impl Mark {
    /// Whether all lines up to a blank one belong to the entry.
    pub(super) fn is_open(&self) -> bool {
        self.kind == BlockKind::Turn
            || matches!(self.family, Family::Prompt | Family::Component | Family::Step | Family::Numbered)
    }
}

/// The number of the step that a line belongs to.
pub(super) fn step_of<'text>(lines: &Lines<'text>, line: usize) -> Option<&'text str> {
    lines.get(line).map(str::trim_start).and_then(numbered)
}

/// The end of the speaker and time at the start of a turn.
pub(crate) fn turn_label(turn: &str) -> Option<usize> {
    let mut lines = turn.split_inclusive('\n');
    let (first, second) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default().trim_end());
    let line = first.trim_end();
    if has_stamped_name(line) {
        return Some(line.len());
    }
    let is_byline = || mark(second).is_some_and(|mark| mark.family == Family::NameLine);
    if mark(line).is_none() && line.len() <= LONGEST_TITLE && is_byline() {
        return Some(first.len() + second.len());
    }
    mark(line).map(|mark| mark.end).filter(|end| *end > 0).or_else(|| label_end(turn))
}

/// The mark of a line, which may have only the time and the speaker of the text below it.
pub(super) fn mark_at(lines: &Lines<'_>, line: usize, text: &str) -> Option<Mark> {
    if is_listing(text, lines.get(line + 1).unwrap_or_default()) {
        return Some(Mark { family: Family::Step, kind: BlockKind::Record, end: 0, is_loose: false });
    }
    // `Version 2.1 (2024-05-01)`, a title.
    if lines.is_rule(line + 1) {
        return None;
    }
    let Some(found) = mark(text) else {
        return is_title_of_post(lines, line, text).then_some(Mark {
            family: Family::NameLine,
            kind: BlockKind::Turn,
            end: text.len(),
            is_loose: false,
        });
    };
    let goes_on = || line.checked_sub(1).is_some_and(|above| step_of(lines, above) == step_of(lines, line));
    if found.family == Family::Numbered && goes_on() {
        return None;
    }
    let is_above_text = || lines.get(line + 1).is_some_and(|below| !below.is_empty() && mark(below).is_none());
    if found.family == Family::Stamp && has_stamped_name(text) && is_above_text() {
        return Some(Mark { family: Family::NameLine, kind: BlockKind::Turn, end: text.len(), is_loose: false });
    }
    Some(found)
}

/// Whether a line is the title of a post or a review, above who wrote it: `Great kettle`, then `Reviewed by Ann on 3 May 2024`.
pub(super) fn is_title_of_post(lines: &Lines<'_>, line: usize, text: &str) -> bool {
    let is_byline = |below: &str| is_byline(below) || is_attribution(below);
    (1..=LONGEST_TITLE).contains(&text.len())
        && lines.begins_part(line)
        && indent(text) == 0
        && lines.get(line + 1).is_some_and(is_byline)
        && !ends_sentence(text)
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
        _ if is_prompt(text) => return of(Family::Prompt, BlockKind::Code, 0),
        // Its label is no speaker: `Autor: ann | 03-06-2022, 17:40`.
        _ if is_byline(text) => return of(Family::NameLine, BlockKind::Turn, text.len()),
        b'<' | b'[' if let Some(end) = mark_end(text) => {
            let family = if end == text.len() { Family::NameLine } else { Family::Speaker };
            return of(family, BlockKind::Turn, end);
        }
        b'[' | b'S' | b'=' | b'#' | b':' | b'>' | b'@' | b'd' | 0xe2 if is_step(text) => {
            return of(Family::Step, BlockKind::Record, 0);
        }
        b'#' if numbered(text).is_some() => return of(Family::Numbered, BlockKind::Record, 0),
        b'c' if is_commit(text) => return of(Family::Commit, BlockKind::Turn, text.len()),
        b'{' | b'[' if is_object(text) => return of(Family::Object, BlockKind::Record, 0),
        b'B' | b'T' | b'P' | b'%' if is_component(text) => return of(Family::Component, BlockKind::Record, 0),
        // Of an examination in court: `Q.   Who had the keys?`
        b'Q' | b'A' if text[1..].starts_with(".  ") || text[1..].starts_with(".\t") => {
            return of(Family::Speaker, BlockKind::Turn, 2);
        }
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
        let name = text[..end].trim_end_matches(['*', ':', '：', ' ']);
        let has_time =
            name.rfind(['(', '[']).is_some_and(|time| name.ends_with([')', ']']) && stamp(&name[time..]).is_some());
        return of(if has_time { Family::Stamp } else { Family::Speaker }, BlockKind::Turn, end);
    }
    is_name_line(text).then_some(Mark {
        family: Family::NameLine,
        kind: BlockKind::Turn,
        end: line.len(),
        is_loose: false,
    })
}
