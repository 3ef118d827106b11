//! Words, each with its attached punctuation.
//!
//! Unicode's rules (UAX #29) find the words; dictionaries find them in Chinese, Japanese, Thai, Lao, Khmer and Burmese.
//! ICU also has neural models for the last four. They agree on most words and are several times slower.

use std::sync::LazyLock;

use icu_segmenter::options::WordBreakInvariantOptions;
use icu_segmenter::{WordSegmenter, WordSegmenterBorrowed};

use super::graphemes::{Clusters, push_word};
use super::marks::is_opening;
use crate::error::Result;
use crate::runtime::call::{Check, to_the_end};
use crate::text::page::{ByteSpan, boundary_from};

pub(super) static WORDS: LazyLock<WordSegmenterBorrowed<'static>> =
    LazyLock::new(|| WordSegmenter::new_dictionary(WordBreakInvariantOptions::default()));

/// The words of a text.
///
/// Punctuation belongs to the word before it if there is no space between. Opening quotes and brackets, and punctuation
/// after white space, belong to the word after it. Symbols between white space are a word. Words are sorted, disjoint,
/// trimmed and not empty, cover all that is not white space, and end at grapheme clusters.
pub fn words(text: &str) -> Vec<ByteSpan> {
    to_the_end(|check| words_checked(text, check))
}

/// As [`words`], in a call that may end.
///
/// # Errors
/// Those of `check`.
pub fn words_checked(text: &str, check: &Check) -> Result<Vec<ByteSpan>> {
    let mut all = Vec::new();
    let mut clusters = Clusters::new(text);
    let mut run = WordRun::default();
    let (mut start, mut part_start) = (0, 0);
    while part_start < text.len() {
        check()?;
        let part_end = part_end(text, part_start);
        for (end, kind) in WORDS.segment_str(&text[part_start..part_end]).iter_with_word_type().skip(1) {
            let end = part_start + end;
            if !clusters.may_cut(end) {
                run.has_word |= kind.is_word_like();
                continue;
            }
            let segment = &text[start..end];
            let trimmed = segment.trim_start();
            if trimmed.len() < segment.len() {
                run.push_to(&mut all, text, start);
                run = WordRun { start: end - trimmed.len(), ..WordRun::default() };
            }
            if kind.is_word_like() {
                if run.has_word && trimmed.len() == segment.len() {
                    let cut = run.opening.unwrap_or(start);
                    run.push_to(&mut all, text, cut);
                    run.start = cut;
                }
                run.has_word = true;
                run.opening = None;
            } else if !trimmed.is_empty() && trimmed.chars().all(is_opening) {
                run.opening = run.opening.or(Some(end - trimmed.len()));
            } else {
                run.opening = None;
            }
            start = end;
        }
        part_start = part_end;
    }
    run.push_to(&mut all, text, text.len());
    Ok(all)
}

/// Bytes that are segmented together, if there is a place to cut within as many more.
const PART_BYTES: usize = 64 * 1024;

/// The end of a part: after white space or a mark, before a letter or digit, where no word depends on the other side.
fn part_end(text: &str, start: usize) -> usize {
    let (from, to) = (start.saturating_add(PART_BYTES), start.saturating_add(2 * PART_BYTES));
    if to >= text.len() {
        return text.len();
    }
    let (from, to) = (boundary_from(text, from), boundary_from(text, to));
    let mut before = 'a';
    for (at, c) in text[from..to].char_indices() {
        if c.is_alphanumeric() && (before.is_whitespace() || matches!(before, '。' | '、' | '！' | '？')) {
            return from + at;
        }
        before = c;
    }
    to
}

/// A word so far, with its punctuation.
#[derive(Default)]
struct WordRun {
    start: usize,
    /// Whether letters or digits came since `start`, so that the next ones start another word.
    has_word: bool,
    /// The start of the opening quotes and brackets at its end.
    opening: Option<usize>,
}

impl WordRun {
    fn push_to(&self, words: &mut Vec<ByteSpan>, text: &str, end: usize) {
        push_word(text, ByteSpan { start: self.start, end }, words);
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
            let words: Vec<&str> = words(text).into_iter().map(|word| word.of(text)).collect();
            assert_eq!(words, expected, "{text:?}");
        }
    }
}
