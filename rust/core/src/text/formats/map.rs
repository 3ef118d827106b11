//! Maps positions of a text to positions of its source.

use crate::text::page::ByteSpan;

/// The source of each part of a text.
#[derive(Clone, Debug, Default)]
pub(super) struct SourceMap {
    /// In the order of both text and source; they cover the text.
    stretches: Vec<Stretch>,
}

/// A part of the text and its part of the source.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    /// Its first byte in the text; it ends at the start of the next one.
    text: usize,
    source: ByteSpan,
    /// Whether both are the same bytes. Otherwise they only correspond as a whole: a character to its reference, white
    /// space to other white space or to nothing.
    verbatim: bool,
}

impl SourceMap {
    /// Adds text at `text` that is identical to its source.
    pub(super) fn push_verbatim(&mut self, text: usize, source: ByteSpan) {
        match self.stretches.last_mut() {
            // The two are adjacent in the text and in the source.
            Some(last) if last.verbatim && last.source.end == source.start => last.source.end = source.end,
            _ => self.stretches.push(Stretch { text, source, verbatim: true }),
        }
    }

    /// Adds text at `text` that corresponds to a part of the source only as a whole.
    pub(super) fn push_whole(&mut self, text: usize, source: ByteSpan) {
        self.stretches.push(Stretch { text, source, verbatim: false });
    }

    /// Forgets the text from this byte on, where a part starts.
    pub(super) fn truncate(&mut self, text: usize) {
        self.stretches.truncate(self.stretches.partition_point(|stretch| stretch.text < text));
    }

    /// The end of the last part of the source.
    pub(super) fn source_end(&self) -> usize {
        self.stretches.last().map_or(0, |last| last.source.end)
    }

    /// See [`super::Document::source_span`].
    pub(super) fn source_span(&self, span: ByteSpan) -> ByteSpan {
        let Some(first) = self.stretch(span.start) else { return ByteSpan { start: 0, end: 0 } };
        let start = if first.verbatim { first.source.start + (span.start - first.text) } else { first.source.start };
        // Beyond the last part only if the span is empty and at the end of the text.
        let start = start.min(first.source.end);
        if span.is_empty() {
            return ByteSpan { start, end: start };
        }
        let last = self.stretch(span.end - 1).unwrap_or(first);
        let end = if last.verbatim { last.source.start + (span.end - last.text) } else { last.source.end };
        ByteSpan { start, end }
    }

    /// The parts of the source of a span of the text, with their text; none for white space that the source does not have.
    pub(super) fn parts(&self, span: ByteSpan) -> impl Iterator<Item = (ByteSpan, ByteSpan)> + '_ {
        let first = self.stretches.partition_point(|stretch| stretch.text <= span.start).saturating_sub(1);
        (first..self.stretches.len()).map_while(move |index| {
            let Stretch { text, source, verbatim } = self.stretches[index];
            if text >= span.end {
                return None;
            }
            let end = self.stretches.get(index + 1).map_or(span.end, |next| next.text.min(span.end));
            let part = ByteSpan { start: text.max(span.start), end };
            let start = source.start + part.start - text;
            Some((part, if verbatim { ByteSpan { start, end: start + part.len() } } else { source }))
        })
    }

    /// The part that contains a byte of the text.
    fn stretch(&self, byte: usize) -> Option<Stretch> {
        let after = self.stretches.partition_point(|stretch| stretch.text <= byte);
        after.checked_sub(1).map(|index| self.stretches[index])
    }
}
