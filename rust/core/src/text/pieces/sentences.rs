//! Sentences: where the full stops of a block end one.
//!
//! Unicode's rules (UAX #29, by ICU) propose the ends; here they are moved behind footnote markers, dropped behind
//! abbreviations, and added where those rules see none: on pages without capital letters, before numbers, behind an
//! ellipsis, behind a Greek question mark. Every look around an end is bounded, so all of it is linear.

use std::borrow::Cow;
use std::cell::LazyCell;
use std::sync::LazyLock;

use icu_segmenter::options::SentenceBreakInvariantOptions;
use icu_segmenter::{SentenceSegmenter, SentenceSegmenterBorrowed};

use super::abbreviations::{self, Ends, last_word};
use super::attached::attached_end;
use super::blocks::blocks;
use super::graphemes::Clusters;
use super::links::Links;
use super::long::push_units;
use super::marks::{has_capitals, is_east_asian, is_opening, is_terminal};
use crate::text::page::{Block, ByteSpan};

static SENTENCES: LazyLock<SentenceSegmenterBorrowed<'static>> =
    LazyLock::new(|| SentenceSegmenter::new(SentenceBreakInvariantOptions::default()));

/// The closing quote that stands behind a space in French.
const SPACED_CLOSING: char = '»';

/// The characters behind a mark that are looked through for what is attached to it.
const FAR_ATTACHED: usize = 64;

/// The sentences of a text.
///
/// A heading, a line of code and a row of a table are one each; an item of a list starts one. What is longer than
/// 1,000 characters or 120 words is cut where that hurts least. Sentences are ordered, disjoint, trimmed, none is
/// empty, they cover everything that is not white space, and none ends inside a grapheme cluster, or inside a link or a
/// span of code that is no longer than that.
#[must_use]
pub fn sentences(text: &str) -> Vec<ByteSpan> {
    let mut found = Vec::new();
    cut_blocks(text, &blocks(text), |_, sentences| found.append(sentences));
    found
}

/// Hands over the sentences of each block, in order.
pub(super) fn cut_blocks(text: &str, blocks: &[Block], mut found: impl FnMut(&Block, &mut Vec<ByteSpan>)) {
    let has_capitals = has_capitals(text);
    let mut sentences = Vec::new();
    for block in blocks {
        if block.kind.is_whole() {
            push_units(text, block.span, &mut sentences);
        } else {
            let prose = Prose { text: &unwrapped(block.span.of(text)), has_capitals };
            prose.cut(|start, end| {
                let sentence = ByteSpan { start: block.span.start + start, end: block.span.start + end };
                push_units(text, sentence, &mut sentences);
            });
        }
        found(block, &mut sentences);
        sentences.clear();
    }
}

/// The block with spaces for its line ends, all of which are soft; no offset changes.
fn unwrapped(block: &str) -> Cow<'_, str> {
    if block.contains(['\n', '\r']) { Cow::Owned(block.replace(['\n', '\r'], " ")) } else { Cow::Borrowed(block) }
}

/// The links of a block: most blocks hold one sentence, and need none.
type LazyLinks<'text> = LazyCell<Links, Box<dyn FnOnce() -> Links + 'text>>;

/// A block of running text in which every line end is a space.
struct Prose<'text> {
    text: &'text str,
    /// Whether the page has capital letters.
    has_capitals: bool,
}

impl Prose<'_> {
    /// Hands over the start and the end of each sentence, in order, with the white space between them.
    fn cut(&self, mut sentence: impl FnMut(usize, usize)) {
        let mut clusters = Clusters::new(self.text);
        let links: LazyLinks = LazyCell::new(Box::new(|| Links::of(self.text)));
        let mut start = 0;
        let mut cut = |seen: usize| {
            if seen <= start || seen == self.text.len() {
                return;
            }
            let Some(end) = links.outside(seen).filter(|&end| end < self.text.len()) else { return };
            if self.ends_sentence(start, end, &links) && clusters.may_cut(end) {
                sentence(start, end);
                start = end;
            }
        };
        let mut proposed = 0;
        for end in SENTENCES.segment_str(self.text).skip(1) {
            self.propose_more(proposed, end, &links, &mut cut);
            cut(self.settled(end));
            proposed = end;
        }
        if start < self.text.len() {
            sentence(start, self.text.len());
        }
    }

    /// Proposes the ends inside a stretch that Unicode's rules take for one sentence.
    fn propose_more(&self, from: usize, to: usize, links: &LazyLinks, propose: &mut impl FnMut(usize)) {
        let bytes = self.text.as_bytes();
        let mut at = from;
        while let Some(step) = bytes[at..to].iter().position(|byte| matches!(byte, b'.' | b';' | 0xe2 | 0xcd)) {
            at += step;
            let mark_end = match bytes[at..to] {
                [b'.' | b';', ..] => at + 1,
                // U+037E, the Greek question mark, and U+2026, the ellipsis.
                [0xcd, 0xbe, ..] => at + 2,
                [0xe2, 0x80, 0xa6, ..] => at + 3,
                _ => {
                    at += 1;
                    continue;
                }
            };
            let mut end = attached_end(self.text, mark_end);
            if self.text[..end].ends_with(']') {
                end = links.outside(end).unwrap_or(end);
            }
            let next = self.text[end..].trim_start();
            if next.len() < self.text.len() - end && self.is_missed(at, mark_end, end, next) {
                propose(end);
            }
            at = mark_end;
        }
    }

    /// Whether Unicode's rules miss the end of a sentence at this mark, which white space and `next` follow.
    fn is_missed(&self, mark: usize, mark_end: usize, attached_end: usize, next: &str) -> bool {
        let Some(first) = next.trim_start_matches(is_opening).chars().next() else { return false };
        match &self.text[mark..mark_end] {
            "." if attached_end > mark_end && first.is_uppercase() => true,
            "." if first.is_ascii_digit() => is_plain_word(last_word(&self.text[..mark])),
            "." => !self.has_capitals && first.is_lowercase(),
            "…" => first.is_alphabetic() && !first.is_lowercase(),
            _ => {
                let is_greek = |c: char| matches!(c, '\u{370}'..='\u{3ff}' | '\u{1f00}'..='\u{1fff}');
                self.text[..mark].ends_with(is_greek) && is_greek(first) && first.is_uppercase()
            }
        }
    }

    /// An end as Unicode's rules propose it, moved to where a reader sees it.
    ///
    /// They let opening quotes and brackets pass for closing ones (`。「|`, `.[|12]`), and do not know that French sets
    /// a space before a closing quote (`? |»`); German opens quotes with the same mark, but sets no space behind it.
    fn settled(&self, proposed: usize) -> usize {
        let before = &self.text[..proposed];
        if before.ends_with(char::is_whitespace) {
            let after = &self.text[proposed..];
            let closes = match after.strip_prefix(SPACED_CLOSING) {
                Some(behind) => behind.chars().next().is_none_or(char::is_whitespace),
                None => after == "\"",
            };
            return if closes { proposed + after.chars().next().map_or(0, char::len_utf8) } else { proposed };
        }
        attached_end(self.text, before.trim_end_matches(is_opening).len())
    }

    /// Whether the sentence from `start` ends here, given that a mark is before `end`.
    fn ends_sentence(&self, start: usize, end: usize, links: &LazyLinks) -> bool {
        let (before, after) = (self.text[start..end].trim_end(), self.text[end..].trim_start());
        let Some(next) = after.chars().next() else { return false };
        let parted = start + before.len() < end || after.len() < self.text.len() - end;
        // A link that ends where the sentence starts is no part of it.
        let before = match links.ending_at(start + before.len()).filter(|link| link.text_end > start) {
            Some(link) => self.text[start..link.text_end].trim_end(),
            None => before,
        };
        let body = before.strip_suffix(SPACED_CLOSING).map_or(before, str::trim_end);
        let body = &body[..mark_end(body)];
        let closed = body.len() < before.len();
        let goes_on = self.has_capitals && next.is_lowercase();
        // Nothing but marks so far: `!!! note`, `[...] and`.
        if body.chars().take(FAR_ATTACHED).all(|c| is_opening(c) || is_terminal(c)) {
            return false;
        }
        match body.chars().next_back() {
            Some('.' | '!' | '?') if !parted && is_picture(next) => true,
            Some('.') if !parted => is_east_asian(next) && self.full_stop_ends(&body[..body.len() - 1], after),
            Some('.') if body.ends_with("..") || closed => !(goes_on || closed && quotes(after)),
            Some('.') => self.full_stop_ends(&body[..body.len() - 1], after),
            // A title inside a Japanese sentence: `『PUSH!!』に`.
            Some('!' | '?') if !parted => (!closed && is_east_asian(next)) || (is_opening(next) && !next.is_ascii()),
            Some('!' | '?') if closed => !goes_on && !quotes(after),
            Some('…') => !goes_on,
            // Burmese: a comma.
            Some('၊') => false,
            // Khmer: `។ល។`, and so on.
            Some('។') if after.starts_with("ល។") => false,
            // A quote inside a Japanese sentence: `「行く。」と言った。`
            Some('。' | '！' | '？') if closed && !parted => {
                !['と', 'っ', 'の', 'が', 'は', 'を', 'に', 'で', 'も'].contains(&next)
            }
            _ => true,
        }
    }

    /// Whether a full stop ends the sentence before it, given what comes behind it and white space.
    fn full_stop_ends(&self, sentence: &str, after: &str) -> bool {
        let word = last_word(sentence);
        // Nothing but a number so far: `1. Introduction`.
        let is_first = sentence[..sentence.len() - word.len()].trim_end().is_empty();
        let is_marker = is_first && is_numbering(word);
        let counts = word.len() <= 2 && word.bytes().all(|byte| byte.is_ascii_digit()) || is_roman(word);
        let is_ordinal = !word.is_empty() && counts && abbreviations::is_counted(after);
        // `ש"ח`: the last letter of an acronym is no initial.
        let is_acronym = sentence[..sentence.len() - word.len()]
            .strip_suffix(['"', '\'', '’'])
            .is_some_and(|before| before.ends_with(|c| matches!(c, '\u{5d0}'..='\u{5ea}')));
        if is_acronym {
            return true;
        }
        if is_marker || is_ordinal || abbreviations::ends_in_consonants(sentence) {
            return false;
        }
        if is_plain_letter(sentence, word) {
            // `à 10 h. 30`
            return !after.starts_with(|c: char| c.is_ascii_digit());
        }
        match abbreviations::ends(word) {
            None => true,
            Some(Ends::Never) => false,
            Some(Ends::UnlessNumber) => !after.starts_with(|c: char| c.is_ascii_digit()),
            Some(Ends::BeforeOpener) if self.has_capitals => abbreviations::opens_sentence(word, after),
            Some(Ends::BeforeOpener) => abbreviations::opens_sentence(word, &capitalized(after)),
        }
    }
}

/// Where the mark ends that ends a text, without what is attached to it; the text's end where there is no mark.
fn mark_end(text: &str) -> usize {
    let mark = text.char_indices().rev().take(FAR_ATTACHED).find(|&(_, c)| is_terminal(c));
    let mark_end = mark.map(|(at, c)| at + c.len_utf8());
    mark_end.filter(|&end| attached_end(text, end) == text.len()).unwrap_or(text.len())
}

/// Whether this is a pictograph, which may follow a full stop without a space.
const fn is_picture(c: char) -> bool {
    matches!(c, '\u{2600}'..='\u{27bf}' | '\u{1f000}'..='\u{1faff}')
}

/// Whether a number behind this word and its full stop opens a sentence: it is no abbreviation, known or not.
fn is_plain_word(word: &str) -> bool {
    // `last_word` gives up on long words: those are no abbreviations.
    if word.is_empty() {
        return true;
    }
    let letters = word.chars().filter(|c| c.is_alphabetic()).count();
    let digits = word.chars().filter(char::is_ascii_digit).count();
    abbreviations::ends(word).is_none() && (letters >= 4 || digits >= 3)
}

/// Whether the letter that a sentence ends with is no abbreviation: `at 5 h`, `Israel's`, `c’è`.
fn is_plain_letter(sentence: &str, letter: &str) -> bool {
    let before = &sentence[..sentence.len() - letter.len()];
    let is_single = letter.starts_with(char::is_lowercase) && letter.chars().nth(1).is_none();
    let is_measure = matches!(letter, "h" | "m" | "s" | "g" | "l" | "t");
    is_single && before.ends_with(['\'', '’'])
        || is_measure && before.trim_end_matches(' ').ends_with(|c: char| c.is_ascii_digit())
}

/// Whether this numbers what follows: `12`, `1.2`, `IV`, `B`.
fn is_numbering(word: &str) -> bool {
    let digits = word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') && word.len() <= 6;
    !word.is_empty() && (digits || is_roman(word) || (word.len() == 1 && word.as_bytes()[0].is_ascii_alphabetic()))
}

/// Whether this is a small Roman number, or nothing.
fn is_roman(word: &str) -> bool {
    word.bytes().all(|byte| b"IVX".contains(&byte)) && word.len() <= 5
}

/// Whether a Korean text goes on with who said what was quoted before it.
fn quotes(text: &str) -> bool {
    ["라고", "라는", "라며", "라면서", "이라고", "이라는", "이라며", "하고", "하며"]
        .iter()
        .any(|said| text.starts_with(said))
}

/// The first word of a text with a capital letter, enough to look it up.
fn capitalized(text: &str) -> String {
    let mut chars = text.chars().take(16);
    chars.next().into_iter().flat_map(char::to_uppercase).chain(chars).collect()
}
