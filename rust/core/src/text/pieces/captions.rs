//! The units of subtitles: sentences, which run over numbers and times, and these marks between them.

use super::long::push_units;
use super::records::CueMarks;
use crate::text::page::ByteSpan;

/// Bytes of a sentence over several captions. Longer ones are captions without marks of sentences, and are cut at times.
const LONGEST_CAPTIONS: usize = 700;

/// Bytes of captions that such a cut leaves together.
const SHORTEST_CAPTIONS: usize = 150;

/// A part of subtitles, whose marks belong to no sentence.
pub(super) struct Captions<'text> {
    text: &'text str,
    start: usize,
    marks: &'text CueMarks,
    masked: String,
}

impl<'text> Captions<'text> {
    pub(super) fn new(text: &'text str, part: ByteSpan, marks: &'text CueMarks) -> Self {
        Self { text, start: part.start, marks, masked: marks.masked(text, part) }
    }

    /// The part with spaces instead of the marks.
    pub(super) fn masked(&self) -> &str {
        &self.masked
    }

    /// Adds the marks before and after a sentence, and the sentence; one that is too long is cut at marks.
    pub(super) fn push_units(&self, sentence: ByteSpan, units: &mut Vec<ByteSpan>) {
        let ByteSpan { start, end } = sentence;
        let inside = ByteSpan { start: start - self.start, end: end - self.start }.trimmed(&self.masked);
        let words = ByteSpan { start: self.start + inside.start, end: self.start + inside.end };
        let is_long = words.len() > LONGEST_CAPTIONS;
        let mut at = words.start;
        for mark in self.marks.after(start) {
            if mark.start >= end {
                break;
            }
            let mark = ByteSpan { start: mark.start.max(start), end: mark.end.min(end) };
            let is_outside = inside.is_empty() || mark.end <= words.start || mark.start >= words.end;
            let is_joint = is_long && mark.start >= at + SHORTEST_CAPTIONS;
            if mark.start >= words.end && at < words.end {
                push_units(self.text, ByteSpan { start: at, end: words.end }, units);
                at = words.end;
            }
            if is_outside {
                units.push(mark);
            } else if is_joint {
                push_units(self.text, ByteSpan { start: at, end: mark.start }, units);
                units.push(mark);
                at = mark.end;
            }
        }
        if at < words.end {
            push_units(self.text, ByteSpan { start: at, end: words.end }, units);
        }
    }
}
