//! Long sentences, cut where that hurts least.
//!
//! A run-on text without marks, a table in one line, a megabyte of base64: no unit may be longer than [`MOST_CHARS`].
//! Thai, Lao, Khmer and Burmese part phrases with spaces and mark no sentences, so theirs are cut at spaces earlier.

use super::graphemes::{Clusters, GRAPHEMES};
use super::links::Links;
use super::marks::is_southeast_asian;
use super::words::WORDS;
use crate::text::page::ByteSpan;

/// The characters of the longest unit; only a single grapheme cluster may be longer.
const MOST_CHARS: usize = 1000;

/// The words of the longest unit.
const MOST_WORDS: usize = 120;

/// The characters of the longest unit in a script without marks, where spaces allow.
const MOST_PHRASE_CHARS: usize = 300;

/// No sentence of fewer bytes can be too long: words take at least a letter and a space.
const SURELY_SHORT: usize = 2 * MOST_WORDS;

/// Adds a sentence to the units, trimmed, in as many parts as its length asks for; nothing where it is white space.
pub(super) fn push_units(text: &str, sentence: ByteSpan, units: &mut Vec<ByteSpan>) {
    let sentence = sentence.trimmed(text);
    if sentence.len() < SURELY_SHORT {
        if !sentence.is_empty() {
            units.push(sentence);
        }
        return;
    }
    let length = Length::of(sentence.of(text));
    if length.southeast_asian * 2 > length.chars && length.chars > MOST_PHRASE_CHARS {
        push_phrases(text, sentence, length, units);
    } else {
        push_parts(text, sentence, length, units);
    }
}

/// How long a text is.
#[derive(Clone, Copy, Default)]
struct Length {
    chars: usize,
    words: usize,
    /// How many of the characters are Thai, Lao, Khmer or Burmese.
    southeast_asian: usize,
}

impl Length {
    fn of(text: &str) -> Self {
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
        self.chars <= MOST_CHARS && self.words <= MOST_WORDS
    }
}

/// How much of what is left the next part may take at most: all that is allowed, or less where the tail would be short.
const fn share(left: usize, most: usize) -> usize {
    let balanced = left * 5 / 8;
    if left > most && balanced < most { balanced } else { most }
}

/// Cuts at spaces, into parts of 80 to 300 characters where the spaces allow; the wider space is the better place.
fn push_phrases(text: &str, sentence: ByteSpan, length: Length, units: &mut Vec<ByteSpan>) {
    let links = Links::of(sentence.of(text));
    let mut part = sentence;
    let mut left = length.chars;
    while left > MOST_PHRASE_CHARS {
        let most = share(left, MOST_PHRASE_CHARS);
        let mut best: Option<Gap> = None;
        for gap in gaps(part.of(text)).filter(|gap| links.around(part.start - sentence.start + gap.start).is_none()) {
            if gap.chars > most && best.is_some() {
                break;
            }
            if best.is_none_or(|best| best.chars < most / 2 || gap.width.min(2) >= best.width.min(2)) {
                best = Some(gap);
            }
        }
        let Some(gap) = best else { break };
        let end = part.start + gap.start;
        push_measured(text, ByteSpan { start: part.start, end }, units);
        part = ByteSpan { start: end, end: sentence.end }.trimmed(text);
        left -= gap.chars + gap.width;
    }
    push_measured(text, part, units);
}

fn push_measured(text: &str, part: ByteSpan, units: &mut Vec<ByteSpan>) {
    push_parts(text, part, Length::of(part.of(text)), units);
}

/// White space between two phrases.
#[derive(Clone, Copy)]
struct Gap {
    /// Its first byte.
    start: usize,
    /// How many characters precede it.
    chars: usize,
    /// How many characters it has.
    width: usize,
}

/// The white space inside a text that has none at its ends.
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

/// Cuts into parts within [`MOST_CHARS`] and [`MOST_WORDS`].
fn push_parts(text: &str, sentence: ByteSpan, length: Length, units: &mut Vec<ByteSpan>) {
    if length.fits() {
        units.push(sentence);
        return;
    }
    let links = Links::of(sentence.of(text));
    let mut part = sentence;
    let mut left = length;
    while !left.fits() {
        let skipped = part.start - sentence.start;
        let around = |at: usize| {
            let link = links.around(skipped + at)?.span;
            Some(ByteSpan { start: link.start.saturating_sub(skipped), end: link.end - skipped })
        };
        let end = part.start + part_end(part.of(text), left, around);
        if end == part.end {
            break;
        }
        let next = ByteSpan { start: end, end: sentence.end }.trimmed(text);
        let taken = Length::of(&text[part.start..next.start]);
        units.push(ByteSpan { start: part.start, end }.trimmed(text));
        // A word that was cut is in both parts.
        let words = left.words - taken.words + usize::from(next.start == end);
        left = Length { chars: left.chars - taken.chars, words, ..left };
        part = next;
    }
    if !part.is_empty() {
        units.push(part);
    }
}

/// The end of the first part of a text that is too long: behind a clause, else a word, else a grapheme cluster. `around`
/// says which link a place lies inside of: one that fits into a part is not cut.
fn part_end(text: &str, left: Length, around: impl Fn(usize) -> Option<ByteSpan>) -> usize {
    let most = Length { chars: share(left.chars, MOST_CHARS), words: share(left.words, MOST_WORDS), ..left };
    let mut taken = Length::default();
    let (mut clause, mut space, mut space_in_link) = (None, None, None);
    let mut clusters = Clusters::new(text);
    let mut window_end = text.len();
    let mut previous = ' ';
    for (at, c) in text.char_indices() {
        let ends_word = c.is_whitespace() && !previous.is_whitespace();
        let is_last = taken.chars == most.chars || (taken.words + 1 == most.words && ends_word);
        if ends_word && !parts_word(previous, c) {
            *(if around(at).is_none() { &mut space } else { &mut space_in_link }) = Some(at);
        }
        if is_last {
            window_end = at;
            break;
        }
        let is_late = taken.chars >= most.chars / 2 || taken.words >= most.words / 2;
        if is_late && ends_clause(previous, c) && clusters.may_cut(at) && around(at).is_none() {
            clause = Some(at);
        }
        taken.words += usize::from(ends_word);
        taken.chars += 1;
        previous = c;
    }
    let beside_link = || {
        let link = around(window_end)?;
        let end = if link.start > 0 { link.start } else { link.end };
        (Length::of(&text[..end]).fits() && Clusters::new(text).may_cut(end)).then_some(end)
    };
    clause
        .or(space)
        .or_else(beside_link)
        .or(space_in_link)
        .unwrap_or_else(|| word_end(text, window_end, |end| around(end).is_none()))
}

/// Whether the white space between two characters parts a word: behind the hyphen at the end of a line.
const fn parts_word(left: char, right: char) -> bool {
    matches!(left, '-' | '\u{2010}' | '\u{ad}') && matches!(right, '\n' | '\r')
}

/// Whether a clause ends between two characters.
const fn ends_clause(left: char, right: char) -> bool {
    match left {
        ';' | ':' | ',' | '—' | '–' | '،' | '؛' | '၊' => right.is_whitespace(),
        '，' | '、' | '；' | '：' => true,
        _ => false,
    }
}

/// The last end of a word within the first `window` bytes of a text; of a grapheme cluster, where there is none.
fn word_end(text: &str, window: usize, may_cut: impl Fn(usize) -> bool) -> usize {
    // Some more text, so that a word at the end of the window is seen whole.
    let seen = text[window..].char_indices().nth(64).map_or(text.len(), |(at, _)| window + at);
    let mut clusters = Clusters::new(&text[..seen]);
    let words = WORDS.segment_str(&text[..seen]).take_while(|&end| end <= window);
    let word = words.filter(|&end| end > 0 && end < seen && may_cut(end) && clusters.may_cut(end)).last();
    word.unwrap_or_else(|| {
        let mut ends = GRAPHEMES.segment_str(text).skip(1);
        let mut end = ends.next().unwrap_or(text.len());
        for next in ends.take_while(|&next| next <= window) {
            end = next;
        }
        end
    })
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
    fn a_run_on_sentence_is_cut_behind_clauses() {
        let text = "and so it went on and on, ".repeat(100);
        let found = parts(&text);
        assert!(found.len() > 4);
        for part in found {
            assert!(part.ends_with(','), "{part}");
            assert!(Length::of(part).fits());
        }
    }

    #[test]
    fn text_without_spaces_is_cut_between_words_or_clusters() {
        for (text, unit) in
            [("我来到北京清华大学".repeat(300), "我"), ("e\u{301}".repeat(2000), "e"), ("x".repeat(5000), "x")]
        {
            let found = parts(&text);
            assert_eq!(found.concat(), text);
            for part in found {
                assert!((300..=1000).contains(&part.chars().count()), "{}", part.chars().count());
                assert!(part.starts_with(unit) || unit == "我", "{part}");
            }
        }
    }

    #[test]
    fn one_cluster_stays_whole_however_long() {
        let text = format!("a{} b", "\u{301}".repeat(3000));
        assert_eq!(parts(&text).len(), 2);
    }

    #[test]
    fn thai_is_cut_at_wide_spaces_first() {
        let phrase = "โรงละครแห่งแรกของวอร์ซอว์".repeat(2);
        let join = |count| vec![phrase.clone(); count].join(" ");
        assert_eq!(parts(&format!("{}  {}", join(3), join(5))), [join(3), join(5)]);
        assert_eq!(parts(&join(5)), [join(5)]);
    }
}
