//! The way back: from a place of a text to the place of the source it was read from.

use crate::text::page::ByteSpan;

/// Where each stretch of a text was read from.
#[derive(Clone, Debug, Default)]
pub(super) struct SourceMap {
    /// In the order of the text, and of the source; together they cover the text.
    stretches: Vec<Stretch>,
}

/// A stretch of the text that was read from one stretch of the source.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    /// Its first byte in the text; it ends where the next one starts.
    text: usize,
    /// Where it was read from.
    source: ByteSpan,
    /// Whether text and source are the same bytes. Otherwise one stands for the other as a whole: a character for its
    /// reference, white space for other white space or for nothing.
    verbatim: bool,
}

impl SourceMap {
    /// Adds text of the same bytes as its source, which starts at `text`.
    pub(super) fn push_verbatim(&mut self, text: usize, source: ByteSpan) {
        match self.stretches.last_mut() {
            // Neither the text nor the source has anything between the two.
            Some(last) if last.verbatim && last.source.end == source.start => last.source.end = source.end,
            _ => self.stretches.push(Stretch { text, source, verbatim: true }),
        }
    }

    /// Adds text that stands for a stretch of the source as a whole, and starts at `text`.
    pub(super) fn push_whole(&mut self, text: usize, source: ByteSpan) {
        self.stretches.push(Stretch { text, source, verbatim: false });
    }

    /// Where the source of the text so far ends.
    pub(super) fn source_end(&self) -> usize {
        self.stretches.last().map_or(0, |last| last.source.end)
    }

    /// The stretch of the source that a span of the text was read from.
    pub(super) fn source_span(&self, span: ByteSpan) -> ByteSpan {
        let Some(first) = self.stretch(span.start) else { return ByteSpan { start: 0, end: 0 } };
        let start = if first.verbatim { first.source.start + (span.start - first.text) } else { first.source.start };
        // Past the last stretch only where the span is empty and lies at the end of the text.
        let start = start.min(first.source.end);
        if span.is_empty() {
            return ByteSpan { start, end: start };
        }
        let last = self.stretch(span.end - 1).unwrap_or(first);
        let end = if last.verbatim { last.source.start + (span.end - last.text) } else { last.source.end };
        ByteSpan { start, end }
    }

    /// The stretch that a byte of the text belongs to.
    fn stretch(&self, byte: usize) -> Option<Stretch> {
        let after = self.stretches.partition_point(|stretch| stretch.text <= byte);
        after.checked_sub(1).map(|index| self.stretches[index])
    }
}
