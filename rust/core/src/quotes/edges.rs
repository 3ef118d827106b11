//! Where a place begins and ends: at whole words, and at the first and last words of the quote.

use unicode_normalization::char::is_combining_mark;

use super::alignment::Pair;
use super::differences::Side;
use super::letters::{Letter, is_hyphen, span_of};
use super::negation;
use super::search::most_edits;

/// A quote with fewer letters neither begins nor ends within a word.
const SHORTEST_CUT: usize = 16;

/// Letters of the page that a quote may lack after its first words, and before its last ones.
const LONGEST_GAP: usize = 40;

/// Letters in a row that are equal by no chance.
const SURE_RUN: usize = 8;

/// Moves the first and the last words of a quote to where they stand in the page. The fewest edits put other words there, if
/// the quote lacks a word that is longer than those.
pub(super) fn anchored(page: Side<'_>, quote: Side<'_>, pairs: Vec<Pair>) -> Vec<Pair> {
    let anchor = Anchor { page: page.letters, quote: quote.letters };
    let pairs = anchor.with_end(&pairs).unwrap_or(pairs);
    anchor.with_start(&pairs).unwrap_or(pairs)
}

struct Anchor<'text> {
    page: &'text [Letter],
    quote: &'text [Letter],
}

impl Anchor<'_> {
    /// The pairs with the last words of the quote where they stand; `None` if they do already, or do not stand near.
    fn with_end(&self, pairs: &[Pair]) -> Option<Vec<Pair>> {
        let tail = pairs.windows(SURE_RUN).rposition(|run| run.iter().all(|pair| self.is_equal(*pair)))? + SURE_RUN;
        let (of_quote, of_page) = pairs[tail - 1].quote.zip(pairs[tail - 1].page)?;
        let (from, after) = (of_quote + 1, of_page + 1);
        let more =
            self.quote[from..].iter().zip(&self.page[after..]).take_while(|(ours, theirs)| ours.char == theirs.char);
        let more = more.count();
        let mut kept: Vec<Pair> = pairs[..tail].iter().copied().chain(matched(from, after, more)).collect();
        // The run may go on by chance into a word that is another one.
        let (mut from, mut after) = (from + more, after + more);
        while !self.quote.get(from)?.starts_word {
            let last = kept.pop()?;
            (from, after) = (last.quote.unwrap_or(from), last.page.unwrap_or(after));
        }
        let length = self.quote.len() - from;
        let last = (after + LONGEST_GAP + 1).min((self.page.len() + 1).saturating_sub(length));
        let at = (after + 1..last).find(|&at| self.is_place(from, at, length))?;
        if self.quote[from..].iter().all(|letter| letter.is_note) {
            return None;
        }
        kept.extend((after..at).map(only_page).chain(matched(from, at, length)));
        Some(kept)
    }

    /// The same for the first words of the quote.
    fn with_start(&self, pairs: &[Pair]) -> Option<Vec<Pair>> {
        let head = pairs.windows(SURE_RUN).position(|run| run.iter().all(|pair| self.is_equal(*pair)))?;
        let (of_quote, of_page) = pairs[head].quote.zip(pairs[head].page)?;
        let before = self.quote[..of_quote].iter().rev().zip(self.page[..of_page].iter().rev());
        let more = before.take_while(|(ours, theirs)| ours.char == theirs.char).count();
        let kept: Vec<Pair> =
            matched(of_quote - more, of_page - more, more).chain(pairs[head..].iter().copied()).collect();
        let starts = |letters: &[Letter], at: Option<usize>| at.is_some_and(|at| letters[at].starts_word);
        let begin = kept.iter().position(|pair| starts(self.quote, pair.quote) && starts(self.page, pair.page))?;
        let (length, end) = kept[begin].quote.zip(kept[begin].page)?;
        let first = end.saturating_sub(LONGEST_GAP + length);
        let at = (first..end.saturating_sub(length)).rev().find(|&at| self.is_place(0, at, length))?;
        let between = (at + length..end).map(only_page);
        Some(matched(0, at, length).chain(between).chain(kept[begin..].iter().copied()).collect())
    }

    fn is_equal(&self, pair: Pair) -> bool {
        pair.quote.zip(pair.page).is_some_and(|(quote, page)| self.quote[quote].char == self.page[page].char)
    }

    /// Whether letters of the quote stand at a place of the page as whole words.
    fn is_place(&self, from: usize, at: usize, length: usize) -> bool {
        length > 0
            && self.page[at].starts_word
            && self.page.get(at + length).is_none_or(|next| next.starts_word)
            && self.page[at..at + length].iter().zip(&self.quote[from..]).all(|(page, quote)| page.char == quote.char)
    }
}

/// Letters of the quote and of the page that stand for each other, one by one.
fn matched(quote: usize, page: usize, length: usize) -> impl Iterator<Item = Pair> {
    (0..length).map(move |step| Pair { quote: Some(quote + step), page: Some(page + step) })
}

const fn only_page(at: usize) -> Pair {
    Pair { quote: None, page: Some(at) }
}

/// Extends an alignment to whole words of the page. A quote may begin and end at a hyphen, a long one within a word. `None` if
/// a short quote is a part of a longer word.
pub(super) fn whole_words(page: Side<'_>, quote: Side<'_>, mut pairs: Vec<Pair>) -> Option<Vec<Pair>> {
    let first = pairs.iter().find_map(|pair| pair.page)?;
    let last = pairs.iter().rev().find_map(|pair| pair.page)?;
    let is_short = most_edits(quote.letters.len()) == 0;
    let farthest = first.saturating_sub(LONGEST_WORD);
    let start = (farthest..=first).rev().find(|&at| page.letters[at].starts_word).unwrap_or(farthest);
    let after = last + 1..page.letters.len();
    let end = after.clone().take(LONGEST_WORD).find(|&at| page.letters[at].starts_word);
    let end = end.unwrap_or(after.end.min(last + 1 + LONGEST_WORD));
    if is_short && (start < first || end > last + 1) {
        return None;
    }
    let inner = span_of(quote.letters)?;
    let is_cut = |rest: &[Letter], is_at_edge: bool, meets: char, denies: fn(&str) -> bool| {
        let Some(span) = span_of(rest) else { return true };
        let has_letters = rest.iter().all(|letter| letter.char.is_alphabetic() || is_combining_mark(letter.char));
        let is_long = is_at_edge && quote.letters.len() >= SHORTEST_CUT;
        let is_cut = has_letters && (is_long || is_hyphen(meets)) && !denies(span.of(page.text));
        is_cut || rest.iter().all(|letter| letter.is_note)
    };
    let before = page.text[..page.letters[first].start()].chars().next_back().unwrap_or(' ');
    let behind = page.text[page.letters[last].end()..].chars().next().unwrap_or(' ');
    if !is_cut(&page.letters[start..first], inner.start == 0, before, negation::is_prefix) {
        pairs = (start..first).map(only_page).chain(pairs).collect();
    }
    if !is_cut(&page.letters[last + 1..end], inner.end == quote.text.len(), behind, negation::is_suffix) {
        pairs.extend((last + 1..end).map(only_page));
    }
    Some(pairs)
}

/// Letters of a word that a place is extended by.
const LONGEST_WORD: usize = 100;
