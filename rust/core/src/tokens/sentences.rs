//! Sentences as a pruner reads them: those of a text, in rows with a query.

use std::ops::Range;

use super::{Check, PairTokens, TokenPage};
use crate::encoder::model::{Pruner, PrunerLayout};
use crate::error::Result;
use crate::text::page::ByteSpan;

/// A pruner's tokenizer, and how it reads sentences.
#[derive(Debug)]
pub struct PrunerTokens {
    pairs: PairTokens,
    layout: PrunerLayout,
    threshold: f32,
    ranks: bool,
    name: String,
    licence: Option<String>,
}

/// The tokens of a text's sentences.
#[derive(Clone, Debug, Default)]
pub struct SentenceIds {
    ids: Vec<i32>,
    /// For each sentence, the end of its tokens.
    ends: Vec<usize>,
    /// Where each token stands in the text, if spans of them are read.
    spans: Vec<ByteSpan>,
}

/// The fewest tokens of a part of a long sentence.
const FEWEST_TOKENS: usize = 16;

impl PrunerTokens {
    /// Reads the tokenizer of a pruner.
    ///
    /// # Errors
    /// As [`PairTokens::read`].
    pub fn read(pruner: &Pruner) -> Result<Self> {
        let pairs = PairTokens::read(&pruner.model)?;
        Ok(Self {
            pairs: if pruner.layout == PrunerLayout::Provence { pairs.as_one_text() } else { pairs },
            layout: pruner.layout,
            threshold: pruner.threshold,
            ranks: pruner.ranks(),
            name: pruner.name.clone(),
            licence: pruner.licence.clone(),
        })
    }

    pub const fn pairs(&self) -> &PairTokens {
        &self.pairs
    }

    /// The probability from which sentences are kept.
    pub const fn threshold(&self) -> f32 {
        self.threshold
    }

    /// Whether it gives a pair of texts a logit.
    pub const fn ranks(&self) -> bool {
        self.ranks
    }

    /// In the hub, or that of its directory.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// As the model's card names it.
    pub fn licence(&self) -> Option<&str> {
        self.licence.as_deref()
    }

    pub const fn layout(&self) -> PrunerLayout {
        self.layout
    }

    /// The ids of a query, as [`PairTokens::slice_query`].
    ///
    /// # Errors
    /// Those of the tokenizer and of `check`.
    pub fn query(&self, text: &str, check: &Check) -> Result<Vec<i32>> {
        if self.layout != PrunerLayout::Provence {
            return self.pairs.slice_query(text, check);
        }
        let plain = text.to_lowercase().replace(|char: char| char.is_ascii_punctuation(), "");
        self.pairs.slice_query(&plain.split_whitespace().collect::<Vec<_>>().join(" "), check)
    }

    /// The tokens of sentences, which are sorted and cover the text.
    ///
    /// # Errors
    /// Those of the tokenizer and of `check`.
    pub fn sentences(&self, text: &str, sentences: &[ByteSpan], check: &Check) -> Result<SentenceIds> {
        let tokens = &self.pairs.tokens;
        let mut read = SentenceIds::default();
        if matches!(self.layout, PrunerLayout::OpenProvence | PrunerLayout::SentenceTagger) {
            for sentence in sentences {
                check()?;
                read.ids.extend(tokens.first_ids(sentence.of(text), usize::MAX, check)?);
                read.ends.push(read.ids.len());
            }
            return Ok(read);
        }
        let SentenceIds { ids, ends, spans } = &mut read;
        tokens.visit(text, false, check, &mut |token| {
            let span = token.span.unwrap_or(ByteSpan { start: 0, end: 0 });
            // A token may begin with the space before its word, and so in the sentence before.
            while sentences.get(ends.len()).is_some_and(|sentence| sentence.end < span.end) {
                ends.push(ids.len());
            }
            ids.push(token.id);
            spans.push(span);
            Ok(())
        })?;
        ends.resize(sentences.len(), ids.len());
        Ok(read)
    }

    /// The rows of a query with as many sentences each as fit, and the tokens of each row. Together they have all tokens.
    pub fn rows(&self, query: &[i32], sentences: &SentenceIds) -> (TokenPage, Vec<Range<usize>>) {
        let room = self.pairs.slice_room(query.len());
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for part in sentences.parts(self.longest_part(query.len())) {
            match ranges.last_mut().filter(|row| part.end - row.start <= room) {
                Some(row) => row.end = part.end,
                None => ranges.push(part),
            }
        }
        let slices = ranges.iter().map(|range| &sentences.ids[range.clone()]);
        (self.pairs.slice_rows(query, slices), ranges)
    }

    /// Tokens of a sentence that stay together after a query of this number of ids. `OpenProvence` cuts sentences that are
    /// longer than half a row.
    pub fn longest_part(&self, query: usize) -> usize {
        let room = self.pairs.slice_room(query);
        match self.layout {
            PrunerLayout::OpenProvence => (self.pairs.max_tokens() / 2).max(FEWEST_TOKENS).min(room),
            PrunerLayout::Provence | PrunerLayout::SentenceTagger | PrunerLayout::TokenClassifier => room,
        }
        .max(1)
    }
}

impl SentenceIds {
    /// Where each token stands in the text; empty if the layout reads no spans.
    pub fn spans(&self) -> &[ByteSpan] {
        &self.spans
    }

    pub const fn len(&self) -> usize {
        self.ids.len()
    }

    pub const fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// The tokens of each sentence.
    pub fn ranges(&self) -> impl Iterator<Item = Range<usize>> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| start..*end)
    }

    /// The tokens of each sentence in parts of at most `longest`.
    fn parts(&self, longest: usize) -> impl Iterator<Item = Range<usize>> {
        self.ranges().flat_map(move |range| {
            let end = range.end;
            range.step_by(longest).map(move |start| start..(start + longest).min(end))
        })
    }
}
