//! Subtitles and transcripts with times on lines of their own: SRT, `WebVTT`, and what video sites show.
//!
//! A caption's number and times interrupt sentences and end none.

use std::ops::Range;

use super::run::{Lines, Run};
use super::stamps::stamp;
use crate::error::Result;
use crate::runtime::call::{Check, Checkpoints};
use crate::text::page::{BlockKind, ByteSpan};

/// Lines of a caption's text.
const MAX_CAPTION_LINES: usize = 6;

/// Lines of a note or of styles.
const MAX_NOTE_LINES: usize = 100;

const DIALOGUE: &str = "Dialogue: ";
const FORMAT: &str = "Format: ";

/// Fields of a line of dialogue, unless the page names them.
const DIALOGUE_FIELDS: usize = 10;

/// Bytes of the longest tag: a voice with its name.
const LONGEST_TAG: usize = 60;

pub(super) fn run(lines: &Lines<'_>, at: usize) -> Result<Run, usize> {
    if lines.get(at).is_some_and(is_dialogue) {
        let mut end = at + 1;
        while lines.get(end).is_some_and(is_dialogue) {
            end += 1;
        }
        let has_text = (at..end).any(|line| lines.get(line).is_some_and(|line| line.starts_with(DIALOGUE)));
        let run = || Run { blocks: vec![lines.block(at..end, BlockKind::Captions, false)], end };
        return if has_text { Ok(run()) } else { Err(end) };
    }
    let is_header = lines.get(at).is_some_and(|line| line.trim_start_matches('\u{feff}').starts_with("WEBVTT"));
    let first = if is_header { (at..at + 40).find(|line| is_time(lines, *line)) } else { cue_start(lines, at) };
    let first = first.ok_or(at + 1)?;
    let (mut end, mut times, mut time, mut has_text) = (at, 0, first, false);
    loop {
        // Now `time` is the line of the times; its text follows.
        times += 1;
        let last = (time + 1..time + 1 + MAX_CAPTION_LINES)
            .take_while(|line| !lines.is_blank(*line) && !is_time(lines, *line));
        let last = last.last().unwrap_or(time);
        has_text |= last > time;
        end = end.max(last + 1);
        let next = lines.next_text(last + 1).and_then(|next| after_notes(lines, next));
        match next {
            Some(next) if next > time => time = next,
            _ => break,
        }
    }
    if times < 2 && !is_header && !lines.get(first).is_some_and(|line| line.contains("-->")) || !has_text {
        return Err(end);
    }
    Ok(Run { blocks: vec![lines.block(at..end, BlockKind::Captions, false)], end })
}

/// The line with the times of the caption that starts here, or below notes and styles that start here.
fn after_notes(lines: &Lines<'_>, at: usize) -> Option<usize> {
    let mut at = at;
    loop {
        if let Some(time) = cue_start(lines, at) {
            return Some(time);
        }
        let note = lines.get(at)?;
        if !is_note(note) {
            return None;
        }
        let blank = (at..=at + MAX_NOTE_LINES).find(|line| lines.is_blank(*line))?;
        at = lines.next_text(blank)?;
    }
}

/// The line with the times of the caption that starts here, which may have a number or name above.
fn cue_start(lines: &Lines<'_>, at: usize) -> Option<usize> {
    if is_time(lines, at) {
        return Some(at);
    }
    let is_named = lines.get(at).is_some_and(|name| name.len() <= 60 && !name.is_empty());
    (is_named && lines.get(at + 1)?.contains("-->") && is_time(lines, at + 1)).then_some(at + 1)
}

fn is_time(lines: &Lines<'_>, line: usize) -> bool {
    lines.get(line).is_some_and(|line| times_end(line).is_some())
}

/// The end of a line's times, if it has nothing else but settings.
fn times_end(line: &str) -> Option<usize> {
    let text = line.trim_start();
    let depth = line.len() - text.len();
    if !text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '[' | '(')) {
        return None;
    }
    let begin = stamp(text)?.end;
    // SubViewer's times have only a comma between them.
    let after = text[begin..].strip_prefix(',').or_else(|| text[begin..].trim_start().strip_prefix("-->"));
    let Some(after) = after else {
        return (begin == text.trim_end().len()).then_some(depth + begin);
    };
    let after = after.trim_start();
    Some(depth + text.len() - after.len() + stamp(after)?.end)
}

/// Whether this is a subtitle of SSA or ASS, or the line that names the fields of those below it.
fn is_dialogue(line: &str) -> bool {
    line.starts_with(DIALOGUE) || line.starts_with("Comment: ") || line.starts_with(FORMAT) && line.ends_with("Text")
}

/// Where the text of such a subtitle starts, and its times.
fn dialogue(line: &str, fields: usize) -> Option<(usize, Range<usize>)> {
    let mut commas = line.match_indices(',').map(|(at, _)| at + 1);
    let start = commas.next()?;
    commas.next()?;
    let end = commas.next()?;
    Some((line.match_indices(',').nth(fields.checked_sub(2)?)?.0 + 1, start..end - 1))
}

fn is_note(line: &str) -> bool {
    ["WEBVTT", "NOTE", "STYLE", "REGION"].iter().any(|name| line.trim_start_matches('\u{feff}').starts_with(name))
}

/// The parts of a run of captions that interrupt its sentences: numbers, times, notes.
#[derive(Default)]
pub(in crate::text::pieces) struct CueMarks {
    /// Sorted and disjoint.
    pub(in crate::text::pieces) spans: Vec<ByteSpan>,
    /// The times, each of which names the text up to the next one.
    pub(in crate::text::pieces) labels: Vec<ByteSpan>,
}

impl CueMarks {
    pub(in crate::text::pieces) fn new(text: &str, captions: ByteSpan, check: &Check) -> Result<Self> {
        let mut checkpoints = Checkpoints::new(check);
        let mut marks = Self::default();
        let mut at = captions.start;
        let is_inline = is_inline(captions.of(text));
        // The line before, which may be the number of a caption.
        let (mut before, mut in_note) = (ByteSpan { start: at, end: at }, false);
        let mut fields = DIALOGUE_FIELDS;
        for line in captions.of(text).split_inclusive(['\n', '\r']) {
            checkpoints.reach(at)?;
            let content = line.trim();
            let start = at + (line.len() - line.trim_start().len());
            let span = ByteSpan { start, end: start + content.len() };
            at += line.len();
            if content.is_empty() {
                in_note &= line == "\n" && before.end + 1 == at;
                continue;
            }
            if is_dialogue(content) {
                if let Some((text_start, times)) = dialogue(content, fields).filter(|_| content.starts_with(DIALOGUE)) {
                    marks.labels.push(ByteSpan { start: start + times.start, end: start + times.end });
                    marks.add(text, ByteSpan { start, end: start + text_start });
                } else {
                    fields = if content.starts_with(FORMAT) { content.matches(',').count() + 1 } else { fields };
                    marks.add(text, span);
                }
                continue;
            }
            in_note |= is_note(content);
            let times = times_end(content);
            let last = marks.spans.last().map_or(captions.start, |mark| mark.end);
            let has_number = times.is_some() && content.contains("-->") && before.start >= last;
            if has_number && is_alone(&text[captions.start..before.start], before) {
                marks.add(text, before);
            }
            let inline = || stamp(content).filter(|_| is_inline).map(|stamp| stamp.end);
            let time = times.or_else(inline).map(|end| ByteSpan { start, end: start + end });
            marks.labels.extend(time);
            if times.is_some() || in_note {
                marks.add(text, span);
            } else if let Some(time) = time {
                marks.add(text, time);
            }
            before = span;
        }
        Ok(marks)
    }

    fn add(&mut self, text: &str, span: ByteSpan) {
        if span.is_empty() {
            return;
        }
        match self.spans.last_mut() {
            Some(last) if text[last.end..span.start].trim().is_empty() => last.end = span.end,
            _ => self.spans.push(span),
        }
    }

    /// The marks that end after a byte.
    pub(in crate::text::pieces) fn after(&self, byte: usize) -> &[ByteSpan] {
        &self.spans[self.spans.partition_point(|mark| mark.end <= byte)..]
    }

    /// A part of the captions with spaces instead of the marks and line ends, and with brackets instead of tags and of
    /// the dashes before what another person says: these belong to the sentence at which they are.
    pub(in crate::text::pieces) fn masked(&self, text: &str, part: ByteSpan) -> String {
        let mut masked = String::with_capacity(part.len());
        let mut at = part.start;
        for mark in self.after(part.start).iter().take_while(|mark| mark.start < part.end) {
            let (start, end) = (mark.start.max(part.start), mark.end.min(part.end));
            masked.push_str(&text[at..start]);
            masked.extend(std::iter::repeat_n(' ', end - start));
            at = end;
        }
        masked.push_str(&text[at..part.end]);
        let masked = masked.replace("\n- ", "\n( ").replace(['\n', '\r'], " ");
        without_tags(&masked)
    }
}

/// A text with brackets instead of its tags: opening ones for `<v Ann>`, closing ones for `</i>`.
fn without_tags(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    let begins = |rest: &str| rest.find('<').into_iter().chain(rest.find("{\\")).min();
    while let Some(start) = begins(rest) {
        let tag = &rest[start..];
        let close = if tag.starts_with('<') { b'>' } else { b'}' };
        let end = tag.bytes().take(LONGEST_TAG).position(|byte| byte == close).map_or(1, |end| end + 1);
        result.push_str(&rest[..start]);
        let bracket = if tag.starts_with("</") { ')' } else { '(' };
        result.extend(std::iter::repeat_n(bracket, end));
        rest = &tag[end..];
    }
    result.push_str(rest);
    result
}

/// Whether each time is at the start of the line with its text: `[00:04] old bridge was`.
fn is_inline(captions: &str) -> bool {
    let first = captions.lines().next().unwrap_or_default().trim();
    !is_note(first) && stamp(first).is_some_and(|stamp| stamp.end < first.len()) && times_end(first).is_none()
}

/// Whether a line is the first of its caption: a blank line or nothing is above.
fn is_alone(above: &str, line: ByteSpan) -> bool {
    let above = above.trim_end_matches([' ', '\t']);
    let ends = above.bytes().rev().take_while(|byte| matches!(byte, b'\n' | b'\r')).count();
    let ends = if above.ends_with("\r\n") { ends / 2 } else { ends };
    !line.is_empty() && (above.is_empty() || ends > 1)
}
