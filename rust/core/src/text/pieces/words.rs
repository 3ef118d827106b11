//! Words, each with the punctuation attached to it.
//!
//! Unicode's rules (UAX #29) find the words; dictionaries find them in Chinese, Japanese, Thai, Lao, Khmer and Burmese.
//! ICU also has neural models for the last four: they agree on most words and are several times slower.

use std::sync::LazyLock;

use icu_segmenter::options::WordBreakInvariantOptions;
use icu_segmenter::{WordSegmenter, WordSegmenterBorrowed};

use super::graphemes::Clusters;
use super::marks::is_opening;
use crate::text::page::ByteSpan;

pub(super) static WORDS: LazyLock<WordSegmenterBorrowed<'static>> =
    LazyLock::new(|| WordSegmenter::new_dictionary(WordBreakInvariantOptions::default()));

/// The words of a text.
///
/// Punctuation belongs to the word that it follows without a space; opening quotes and brackets, and whatever stands
/// at the start of a run of text, to the word behind. A run of symbols between white space is a word of its own.
/// Words are ordered, disjoint, trimmed, none is empty, they cover everything that is not white space, and none ends
/// inside a grapheme cluster.
#[must_use]
pub fn words(text: &str) -> Vec<ByteSpan> {
    let mut found = Vec::new();
    let mut clusters = Clusters::new(text);
    let mut run = Run::default();
    let mut start = 0;
    for (end, kind) in WORDS.segment_str(text).iter_with_word_type().skip(1) {
        if !clusters.may_cut(end) {
            run.holds_word |= kind.is_word_like();
            continue;
        }
        let segment = &text[start..end];
        let inked = segment.trim_start();
        if inked.len() < segment.len() {
            run.end(text, start, &mut found);
            run = Run { start: end - inked.len(), ..Run::default() };
        }
        if kind.is_word_like() {
            if run.holds_word && inked.len() == segment.len() {
                let cut = run.opening.unwrap_or(start);
                run.end(text, cut, &mut found);
                run.start = cut;
            }
            run.holds_word = true;
            run.opening = None;
        } else if !inked.is_empty() && inked.chars().all(is_opening) {
            run.opening = run.opening.or(Some(end - inked.len()));
        } else {
            run.opening = None;
        }
        start = end;
    }
    run.end(text, text.len(), &mut found);
    found
}

/// The word being gathered.
#[derive(Default)]
struct Run {
    start: usize,
    /// Whether a word proper was seen since `start`: the next one begins a new unit.
    holds_word: bool,
    /// Where the opening quotes and brackets begin that end what was gathered so far.
    opening: Option<usize>,
}

impl Run {
    fn end(&self, text: &str, end: usize, found: &mut Vec<ByteSpan>) {
        let word = ByteSpan { start: self.start, end }.trimmed(text);
        if !word.is_empty() {
            found.push(word);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn punctuation_goes_with_its_word() {
        let cases: [(&str, &[&str]); 12] = [
            ("Hello, world!", &["Hello,", "world!"]),
            (" “Well,” he said (softly).", &["“Well,”", "he", "said", "(softly)."]),
            ("well-known (a)(b)", &["well-", "known", "(a)", "(b)"]),
            ("it's 3.14 -- or — 2,000?", &["it's", "3.14", "--", "or", "—", "2,000?"]),
            ("a\u{a0}b\tc\r\nd", &["a", "b", "c", "d"]),
            ("👩🏽‍🚀🇩🇪 ok👍", &["👩🏽‍🚀🇩🇪", "ok👍"]),
            ("e\u{301}te\u{301} \u{301}x", &["e\u{301}te\u{301}", "\u{301}x"]),
            ("我来到北京清华大学。", &["我来", "到", "北京", "清华大学。"]),
            ("東京都に「住む」人", &["東京", "都", "に", "「住む」", "人"]),
            ("ภาษาไทยง่าย มาก", &["ภาษา", "ไทย", "ง่าย", "มาก"]),
            ("세종대왕이 만든 글자.", &["세종대왕이", "만든", "글자."]),
            ("", &[]),
        ];
        for (text, expected) in cases {
            let found: Vec<&str> = words(text).into_iter().map(|word| word.of(text)).collect();
            assert_eq!(found, expected, "{text:?}");
        }
    }
}
