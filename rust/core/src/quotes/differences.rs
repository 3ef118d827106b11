//! What differs between a quote and a place of a page, in words.

use pullquote_wire::quotes::DifferenceKind;

use super::alignment::Pair;
use super::letters::{Letter, is_sign};
use super::{amounts, negation};
use crate::text::page::ByteSpan;
use crate::text::pieces::marks::is_unspaced;

/// A quote compared with a place.
pub(super) struct Comparison {
    pub(super) differences: Vec<Differing>,
    /// Edits of letters within the differences.
    pub(super) distance: usize,
    /// Letters of the longer of both.
    pub(super) letters: usize,
}

/// A [`pullquote_wire::quotes::Difference`] by its places.
pub(super) struct Differing {
    pub(super) kind: DifferenceKind,
    pub(super) quote: ByteSpan,
    pub(super) page: ByteSpan,
    /// Words of the longer of both.
    pub(super) words: usize,
}

/// A text with its letters.
#[derive(Clone, Copy)]
pub(super) struct Side<'text> {
    pub(super) text: &'text str,
    pub(super) letters: &'text [Letter],
}

/// A word of one of both, in its letters.
struct Word {
    letters: String,
    span: ByteSpan,
}

/// Words that stand for each other, as ranges of a quote's and a page's words.
struct Step {
    quote: Option<usize>,
    page: Option<usize>,
    kind: StepKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum StepKind {
    Equal,
    Similar,
    Other,
}

/// Compares letters that stand for each other.
pub(super) fn compare(page: Side<'_>, quote: Side<'_>, pairs: &[Pair]) -> Comparison {
    let count = |has: fn(&Pair) -> bool| pairs.iter().filter(|pair| has(pair)).count();
    let letters = count(|pair| pair.quote.is_some()).max(count(|pair| pair.page.is_some()));
    let mut comparison = Comparison { differences: Vec::new(), distance: 0, letters };
    let edited = |pair: &Pair| match (pair.quote, pair.page) {
        (Some(of_quote), Some(of_page)) => quote.letters[of_quote].char != page.letters[of_page].char,
        (Some(of_quote), None) => !quote.letters[of_quote].is_note,
        (None, Some(of_page)) => !page.letters[of_page].is_note,
        (None, None) => false,
    };
    let starts = |side: Side<'_>, at: Option<usize>| at.is_none_or(|at| side.letters[at].starts_word);
    let next = |from: usize, of: fn(&Pair) -> Option<usize>| pairs[from..].iter().take(LONGEST_GAP).find_map(of);
    // The differing words so far, and where the page's letters before them end.
    let mut at = next(0, |pair| pair.page).map_or(0, |first| page.letters[first].start());
    let (mut group, mut group_at, mut start) = (0..0, at, 0);
    for end in 1..=pairs.len() {
        let is_cut = starts(quote, next(end, |pair| pair.quote)) && starts(page, next(end, |pair| pair.page));
        if end < pairs.len() && !is_cut {
            continue;
        }
        let part = &pairs[start..end];
        if part.iter().any(edited) {
            if group.is_empty() {
                (group, group_at) = (start..start, at);
            }
            group.end = end;
        } else {
            comparison.add(page, quote, &pairs[std::mem::take(&mut group)], group_at, &edited);
        }
        at = part.iter().rev().find_map(|pair| pair.page).map_or(at, |last| page.letters[last].end());
        start = end;
    }
    comparison.add(page, quote, &pairs[group], group_at, &edited);
    // Where a quote begins or ends with a word more, the page has another one.
    let edge = [pairs.first(), pairs.last()].map(|pair| pair.and_then(|pair| pair.quote).map(|at| quote.letters[at]));
    for one in &mut comparison.differences {
        let is_edge =
            edge.iter().flatten().any(|letter| one.quote.start <= letter.start() && letter.end() <= one.quote.end);
        if one.kind == DifferenceKind::Added && is_edge {
            one.kind = DifferenceKind::Replaced;
        }
    }
    comparison
}

/// Letters after which the next one of the other text is not looked for any more.
const LONGEST_GAP: usize = 500;

impl Comparison {
    /// Adds what differs in neighbouring words; `at` is the end of the page's letters before them.
    fn add(&mut self, page: Side<'_>, quote: Side<'_>, group: &[Pair], at: usize, edited: &impl Fn(&Pair) -> bool) {
        if group.is_empty() {
            return;
        }
        let of_quote = words(quote.letters, group.iter().map(|pair| (pair.quote, pair.page.is_some())));
        let of_page = words(page.letters, group.iter().map(|pair| (pair.page, pair.quote.is_some())));
        let before = self.differences.len();
        let (ours, theirs) = (texts(&of_quote), texts(&of_page));
        if amounts::are_equal(&ours, &theirs) && amounts::without_digits(&ours) == amounts::without_digits(&theirs) {
            return;
        }
        if ours.len() != theirs.len() && is_misspelt(&ours.concat(), &theirs.concat()) {
            self.push(page, quote, DifferenceKind::Spelling, &of_quote, &of_page, at);
        } else {
            self.add_steps(page, quote, &of_quote, &of_page, at);
        }
        if self.differences.len() > before {
            self.distance += group.iter().filter(|pair| edited(pair)).count();
        }
    }

    /// Adds each misspelt word, and each run of words that do not stand for each other.
    fn add_steps(&mut self, page: Side<'_>, quote: Side<'_>, of_quote: &[Word], of_page: &[Word], mut at: usize) {
        let steps = steps(of_quote, of_page);
        let mut from = 0;
        while from < steps.len() {
            let kind = steps[from].kind;
            let length = if kind == StepKind::Other {
                steps[from..].iter().take_while(|step| step.kind == kind).count()
            } else {
                1
            };
            let run = &steps[from..from + length];
            let range = |of: fn(&Step) -> Option<usize>| {
                let first = run.iter().find_map(of).unwrap_or(0);
                first..first + run.iter().filter(|step| of(step).is_some()).count()
            };
            let (ours, theirs) = (&of_quote[range(|step| step.quote)], &of_page[range(|step| step.page)]);
            match kind {
                StepKind::Equal => {}
                StepKind::Similar => self.push(page, quote, DifferenceKind::Spelling, ours, theirs, at),
                StepKind::Other if theirs.is_empty() => {
                    self.push(page, quote, DifferenceKind::Added, ours, theirs, at);
                }
                StepKind::Other if ours.is_empty() => {
                    self.push(page, quote, DifferenceKind::Missing, ours, theirs, at);
                }
                StepKind::Other => self.push(page, quote, DifferenceKind::Replaced, ours, theirs, at),
            }
            at = theirs.last().map_or(at, |word| word.span.end);
            from += length;
        }
    }

    /// Adds a difference, whose kind is another one if it is of numbers or of negations. `at` is where it stands if the page
    /// has none of it.
    fn push(
        &mut self,
        page: Side<'_>,
        quote: Side<'_>,
        kind: DifferenceKind,
        ours: &[Word],
        theirs: &[Word],
        at: usize,
    ) {
        let span = |words: &[Word], at: usize| match (words.first(), words.last()) {
            (Some(first), Some(last)) => ByteSpan { start: first.span.start, end: last.span.end },
            _ => ByteSpan { start: at, end: at },
        };
        let (of_quote, of_page) = (span(ours, 0), span(theirs, at));
        let denies = |words: &[Word], text: &str| {
            let single = words.iter().filter(|word| negation::is_negation(word.span.of(text))).count();
            if single > 0 { single } else { usize::from(negation::has_unspaced(span(words, 0).of(text))) }
        };
        let has_amount = |words: &[Word]| words.iter().any(|word| word.letters.contains(is_amount));
        let (our_texts, their_texts) = (texts(ours), texts(theirs));
        // A long word that is misspelt denies what it denied before.
        let is_slip = kind == DifferenceKind::Spelling
            && our_texts.iter().chain(&their_texts).any(|word| word.chars().count() > LONGEST_SHORT_WORD);
        let kind = if (!is_slip && denies(ours, quote.text) != denies(theirs, page.text))
            || negation::is_negated(&our_texts.concat(), &their_texts.concat())
        {
            DifferenceKind::Negation
        } else if (has_amount(ours) || has_amount(theirs)) && !amounts::are_equal(&our_texts, &their_texts) {
            DifferenceKind::Number
        } else {
            kind
        };
        let words = ours.len().max(theirs.len());
        self.differences.push(Differing { kind, quote: of_quote, page: of_page, words });
    }
}

fn texts(words: &[Word]) -> Vec<&str> {
    words.iter().map(|word| word.letters.as_str()).collect()
}

fn is_amount(char: char) -> bool {
    char.is_numeric() || is_sign(char) || matches!(char, '<' | '>' | '≤' | '≥' | '±')
}

/// The words of letters; a note that only one of both has is no word.
fn words(letters: &[Letter], indices: impl Iterator<Item = (Option<usize>, bool)>) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    let mut starts = true;
    for (index, is_paired) in indices {
        let Some(letter) = index.map(|index| letters[index]) else { continue };
        starts |= letter.starts_word;
        if letter.char == ' ' || (letter.is_note && !is_paired) {
            continue;
        }
        match words.last_mut() {
            Some(word) if !starts => {
                word.letters.push(letter.char);
                word.span.end = letter.end();
            }
            _ => words.push(Word {
                letters: letter.char.into(),
                span: ByteSpan { start: letter.start(), end: letter.end() },
            }),
        }
        starts = false;
    }
    words
}

/// The cheapest way from the words of a quote to those of a page.
fn steps(ours: &[Word], theirs: &[Word]) -> Vec<Step> {
    if ours.len() * theirs.len() > MOST_WORD_PAIRS {
        let all = |count: usize| (0..count).map(Some);
        let of_quote = all(ours.len()).map(|quote| Step { quote, page: None, kind: StepKind::Other });
        return of_quote
            .chain(all(theirs.len()).map(|page| Step { quote: None, page, kind: StepKind::Other }))
            .collect();
    }
    let kind = |quote: usize, page: usize| {
        let (quote, page) = (&ours[quote].letters, &theirs[page].letters);
        if quote == page {
            StepKind::Equal
        } else if is_misspelt(quote, page) {
            StepKind::Similar
        } else {
            StepKind::Other
        }
    };
    let price = |kind: StepKind| match kind {
        StepKind::Equal => 0,
        StepKind::Similar => 1,
        StepKind::Other => 3,
    };
    let width = theirs.len() + 1;
    let mut costs = vec![0_usize; (ours.len() + 1) * width];
    for row in (0..=ours.len()).rev() {
        for column in (0..=theirs.len()).rev() {
            let at = row * width + column;
            costs[at] = match (row < ours.len(), column < theirs.len()) {
                (false, false) => 0,
                (true, false) => costs[at + width] + GAP,
                (false, true) => costs[at + 1] + GAP,
                (true, true) => {
                    let paired = costs[at + width + 1] + price(kind(row, column));
                    paired.min(costs[at + width] + GAP).min(costs[at + 1] + GAP)
                }
            };
        }
    }
    let (mut row, mut column, mut steps) = (0, 0, Vec::new());
    while row < ours.len() || column < theirs.len() {
        let at = row * width + column;
        let both = row < ours.len() && column < theirs.len();
        if both && costs[at] == costs[at + width + 1] + price(kind(row, column)) {
            steps.push(Step { quote: Some(row), page: Some(column), kind: kind(row, column) });
            (row, column) = (row + 1, column + 1);
        } else if row < ours.len() && costs[at] == costs[at + width] + GAP {
            steps.push(Step { quote: Some(row), page: None, kind: StepKind::Other });
            row += 1;
        } else {
            steps.push(Step { quote: None, page: Some(column), kind: StepKind::Other });
            column += 1;
        }
    }
    steps
}

/// The price of a word that only one of both has.
const GAP: usize = 2;
const MOST_WORD_PAIRS: usize = 4096;

/// Whether a word is probably the other one with a slip of the pen: a letter in four to seven, two in eight to eleven, or
/// two letters swapped in a shorter one. Words with digits never are.
fn is_misspelt(first: &str, second: &str) -> bool {
    let length = first.chars().count().max(second.chars().count());
    let has_other = |word: &str| word.is_empty() || word.contains(|c: char| is_amount(c) || is_unspaced(c));
    if length > LONGEST_WORD || has_other(first) || has_other(second) {
        return false;
    }
    let edits = strsim::osa_distance(first, second);
    if length < 4 {
        let sorted = |word: &str| {
            let mut letters: Vec<char> = word.chars().collect();
            letters.sort_unstable();
            letters
        };
        return edits == 1 && length > 1 && sorted(first) == sorted(second);
    }
    let is_same_start = first.chars().next() == second.chars().next();
    edits <= length / 4 && (is_same_start || (edits == 1 && length > 4))
}

/// Letters of a word of which one letter makes another one.
const LONGEST_SHORT_WORD: usize = 4;

/// Letters of a word that may be misspelt.
const LONGEST_WORD: usize = 60;
