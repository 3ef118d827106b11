//! Splits long sentences at the best places.
//!
//! Run-on text without marks, a table in one line, a megabyte of base64: no unit is longer than [`MAX_CHARS`]. Thai,
//! Lao, Khmer and Burmese separate phrases by spaces and have no marks between sentences, so theirs are split at spaces
//! earlier.

use super::graphemes::{Clusters, last_cluster_end};
use super::links::Links;
use super::marks::is_southeast_asian;
use super::records::cuts;
use super::words::WORDS;
use crate::text::page::ByteSpan;

/// Characters of the longest unit.
pub(crate) const MAX_CHARS: usize = 1000;

/// Words of the longest unit.
const MAX_WORDS: usize = 120;

/// Characters of the longest unit in scripts without marks, if there are spaces to split at.
const MAX_PHRASE_CHARS: usize = 300;

/// Sentences of fewer bytes are never too long: a word takes at least a letter and a space.
const SURELY_SHORT_BYTES: usize = 2 * MAX_WORDS;

/// Adds a record, a row or a line of code to the units, trimmed, and cut at its joints if it is too long.
pub(super) fn push_record(text: &str, record: ByteSpan, units: &mut Vec<ByteSpan>) {
    let record = record.trimmed(text);
    if record.len() < SURELY_SHORT_BYTES || Length::new(record.of(text)).fits() {
        push_units(text, record, units);
        return;
    }
    let mut clusters = Clusters::new(record.of(text));
    let links = Links::new(record.of(text));
    let mut start = record.start;
    for part in cuts::parts(record.of(text)) {
        let end = record.start + part.end;
        if end == record.end || (links.around(part.end).is_none() && clusters.may_cut(part.end)) {
            push_units(text, ByteSpan { start, end }, units);
            start = end;
        }
    }
}

/// Adds a sentence to the units, trimmed, and split if it is too long. Adds nothing for white space.
pub(super) fn push_units(text: &str, sentence: ByteSpan, units: &mut Vec<ByteSpan>) {
    let sentence = sentence.trimmed(text);
    if sentence.len() < SURELY_SHORT_BYTES {
        if !sentence.is_empty() {
            units.push(sentence);
        }
        return;
    }
    let length = Length::new(sentence.of(text));
    if length.southeast_asian * 2 > length.chars && length.chars > MAX_PHRASE_CHARS {
        push_phrases(text, sentence, length, units);
    } else {
        push_parts(text, sentence, length, units);
    }
}

#[derive(Clone, Copy, Default)]
struct Length {
    chars: usize,
    words: usize,
    /// Characters of Thai, Lao, Khmer or Burmese.
    southeast_asian: usize,
}

impl Length {
    fn new(text: &str) -> Self {
        let mut length = Self::default();
        let mut in_word = false;
        for c in text.chars() {
            let is_space = c.is_whitespace();
            length.chars += 1;
            length.words += usize::from(in_word && is_space);
            length.southeast_asian += usize::from(is_southeast_asian(c));
            in_word = !is_space;
        }
        length.words += usize::from(in_word);
        length
    }

    const fn fits(self) -> bool {
        self.chars <= MAX_CHARS && self.words <= MAX_WORDS
    }
}

/// The upper bound on the next part: `max`, or less if that leaves only a short tail.
const fn part_limit(remaining: usize, max: usize) -> usize {
    let balanced = remaining * 5 / 8;
    if remaining > max && balanced < max { balanced } else { max }
}

/// Splits at spaces into parts of 80 to 300 characters if possible, preferring wide spaces.
fn push_phrases(text: &str, sentence: ByteSpan, length: Length, units: &mut Vec<ByteSpan>) {
    let links = Links::new(sentence.of(text));
    let mut part = sentence;
    let mut remaining = length.chars;
    while remaining > MAX_PHRASE_CHARS {
        let limit = part_limit(remaining, MAX_PHRASE_CHARS);
        let mut best: Option<Gap> = None;
        for gap in gaps(part.of(text)).filter(|gap| links.around(part.start - sentence.start + gap.start).is_none()) {
            if gap.chars > limit && best.is_some() {
                break;
            }
            if best.is_none_or(|best| best.chars < limit / 2 || gap.width.min(2) >= best.width.min(2)) {
                best = Some(gap);
            }
        }
        let Some(gap) = best else { break };
        let end = part.start + gap.start;
        push_measured(text, ByteSpan { start: part.start, end }, units);
        part = ByteSpan { start: end, end: sentence.end }.trimmed(text);
        remaining -= gap.chars + gap.width;
    }
    push_measured(text, part, units);
}

fn push_measured(text: &str, part: ByteSpan, units: &mut Vec<ByteSpan>) {
    push_parts(text, part, Length::new(part.of(text)), units);
}

/// White space between two phrases.
#[derive(Clone, Copy)]
struct Gap {
    /// In bytes.
    start: usize,
    /// Characters before it.
    chars: usize,
    /// Its characters.
    width: usize,
}

/// White space inside a trimmed text.
fn gaps(text: &str) -> impl Iterator<Item = Gap> {
    let mut chars = text.char_indices().enumerate().peekable();
    std::iter::from_fn(move || {
        let (count, (start, _)) = chars.find(|(_, (_, c))| c.is_whitespace())?;
        let mut width = 1;
        while chars.next_if(|(_, (_, c))| c.is_whitespace()).is_some() {
            width += 1;
        }
        Some(Gap { start, chars: count, width })
    })
}

/// Splits into parts within [`MAX_CHARS`] and [`MAX_WORDS`].
fn push_parts(text: &str, sentence: ByteSpan, length: Length, units: &mut Vec<ByteSpan>) {
    if length.fits() {
        units.push(sentence);
        return;
    }
    let links = Links::new(sentence.of(text));
    let mut part = sentence;
    let mut remaining = length;
    while !remaining.fits() {
        let skipped = part.start - sentence.start;
        let around = |at: usize| {
            let link = links.around(skipped + at)?.span;
            Some(ByteSpan { start: link.start.saturating_sub(skipped), end: link.end - skipped })
        };
        let end = part.start + part_end(part.of(text), remaining, around);
        if end == part.end {
            break;
        }
        let next = ByteSpan { start: end, end: sentence.end }.trimmed(text);
        let taken = Length::new(&text[part.start..next.start]);
        units.push(ByteSpan { start: part.start, end }.trimmed(text));
        // A word that was split is in both parts.
        let words = remaining.words - taken.words + usize::from(next.start == end);
        remaining = Length { chars: remaining.chars - taken.chars, words, ..remaining };
        part = next;
    }
    if !part.is_empty() {
        units.push(part);
    }
}

/// The end of the first part of a text that is too long: after a clause, else a word, else a grapheme cluster. `around`
/// returns the link that contains a position; a link that fits into a part is not split.
fn part_end(text: &str, remaining: Length, around: impl Fn(usize) -> Option<ByteSpan>) -> usize {
    let limit = Length {
        chars: part_limit(remaining.chars, MAX_CHARS),
        words: part_limit(remaining.words, MAX_WORDS),
        ..remaining
    };
    let mut taken = Length::default();
    let (mut clause, mut space, mut space_in_link) = (None, None, None);
    let mut clusters = Clusters::new(text);
    let mut window_end = text.len();
    let mut previous = ' ';
    for (at, c) in text.char_indices() {
        let ends_word = c.is_whitespace() && !previous.is_whitespace();
        let is_last = taken.chars == limit.chars || (taken.words + 1 == limit.words && ends_word);
        if ends_word && !splits_word(previous, c) {
            *(if around(at).is_none() { &mut space } else { &mut space_in_link }) = Some(at);
        }
        if is_last {
            window_end = at;
            break;
        }
        let is_late = taken.chars >= limit.chars / 2 || taken.words >= limit.words / 2;
        if is_late && ends_clause(previous, c) && clusters.may_cut(at) && around(at).is_none() {
            clause = Some(at);
        }
        taken.words += usize::from(ends_word);
        taken.chars += 1;
        previous = c;
    }
    let next_to_link = || {
        let link = around(window_end)?;
        let end = if link.start > 0 { link.start } else { link.end };
        (Length::new(&text[..end]).fits() && Clusters::new(text).may_cut(end)).then_some(end)
    };
    clause
        .or(space)
        .or_else(next_to_link)
        .or(space_in_link)
        .unwrap_or_else(|| word_end(text, window_end, |end| around(end).is_none()))
}

/// Whether white space splits a word: after the hyphen at the end of a line.
const fn splits_word(left: char, right: char) -> bool {
    matches!(left, '-' | '\u{2010}' | '\u{ad}') && matches!(right, '\n' | '\r')
}

const fn ends_clause(left: char, right: char) -> bool {
    match left {
        ';' | ':' | ',' | '—' | '–' | '،' | '؛' | '၊' => right.is_whitespace(),
        '，' | '、' | '；' | '：' => true,
        _ => false,
    }
}

/// The last end of a word within the first `window` bytes; of a grapheme cluster if there is none.
fn word_end(text: &str, window: usize, may_cut: impl Fn(usize) -> bool) -> usize {
    // Beyond the window, so that a word at its end is complete.
    let lookahead = text[window..].char_indices().nth(64).map_or(text.len(), |(at, _)| window + at);
    let mut clusters = Clusters::new(&text[..lookahead]);
    let words = WORDS.segment_str(&text[..lookahead]).take_while(|&end| end <= window);
    let word = words.filter(|&end| end > 0 && end < lookahead && may_cut(end) && clusters.may_cut(end)).last();
    word.unwrap_or_else(|| last_cluster_end(text, window))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> Vec<&str> {
        let mut units = Vec::new();
        push_units(text, ByteSpan { start: 0, end: text.len() }, &mut units);
        units.into_iter().map(|unit| unit.of(text)).collect()
    }

    #[test]
    fn text_without_spaces_is_split_between_words_or_clusters() {
        for (text, unit) in
            [("我来到北京清华大学".repeat(300), "我"), ("e\u{301}".repeat(2000), "e"), ("x".repeat(5000), "x")]
        {
            let parts = parts(&text);
            assert_eq!(parts.concat(), text);
            for part in parts {
                assert!((300..=1000).contains(&part.chars().count()), "{}", part.chars().count());
                assert!(part.starts_with(unit) || unit == "我", "{part}");
            }
        }
    }

    #[test]
    fn only_a_cluster_that_is_longer_than_a_unit_is_split() {
        let marked = |marks| format!("a{}", "\u{301}".repeat(marks));
        let word = marked(100);
        assert!(parts(&word.repeat(40)).iter().all(|part| part.len() % word.len() == 0));
        assert!(parts(&marked(3000)).iter().all(|part| part.chars().count() <= MAX_CHARS));
    }

    #[test]
    fn thai_is_split_at_wide_spaces_first() {
        let phrase = "โรงละครแห่งแรกของวอร์ซอว์".repeat(2);
        let join = |count| vec![phrase.clone(); count].join(" ");
        assert_eq!(parts(&format!("{}  {}", join(3), join(5))), [join(3), join(5)]);
        assert_eq!(parts(&join(5)), [join(5)]);
    }
}
