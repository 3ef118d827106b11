//! Where a quote stands in a page, although the writing of both differs.
//!
//! Both texts are reduced to their [`letters`]. `search` finds where letters nearly equal to the quote's end, `alignment` which
//! stand for which, and `differences` says in words what differs. All of it takes time linear in the page.

mod alignment;
pub(crate) mod amounts;
mod differences;
mod edges;
mod letters;
mod markup;
pub(crate) mod negation;
mod search;

use pullquote_wire::quotes::{Difference, DifferenceKind, Located, Place, PlacePart, QuoteStatus};
use pullquote_wire::result::OffsetUnit;

use crate::error::{Error, Result};
use crate::runtime::call::Check;
use crate::text::page::{ByteSpan, PageText};
use crate::text::positions::Positions;
use alignment::align;
use differences::{Comparison, Differing, Side, compare};
use letters::{Letter, letters, span_of};
use search::{LONGEST_QUOTE, ends};

/// The most bytes of a page or a quote, so that a letter's place takes four bytes.
const LONGEST_TEXT: usize = u32::MAX as usize;

/// Bytes of a page that an ellipsis may stand for.
const LONGEST_ELLIPSIS: usize = 2000;

/// Passages of a page that were compared with a quote.
#[derive(Default)]
struct Passages {
    found: Vec<Passage>,
    /// The one with the fewest edits among those that say something else.
    other: Option<Passage>,
}

struct Passage {
    span: ByteSpan,
    distance: usize,
    letters: usize,
    /// With the span of the quote's words in the whole quote.
    differences: Vec<Differing>,
    /// Of a quote with an ellipsis.
    parts: Vec<ByteSpan>,
}

/// The places of a quote in a page.
///
/// # Errors
/// Those of `check`, and `InvalidArgument` for a quote without letters or with too many.
pub fn locate<'text>(
    page: &'text str,
    quote: &'text str,
    offsets: OffsetUnit,
    check: &Check,
) -> Result<Located<'text>> {
    for (name, text) in [("page", page), ("quote", quote)] {
        if text.len() > LONGEST_TEXT {
            return Err(Error::of_field(name, format!("{name}: at most {LONGEST_TEXT} bytes")));
        }
    }
    let of_quote = letters(quote, check)?;
    if of_quote.is_empty() {
        return Err(Error::of_field("quote", format!("quote has no letter and no digit: {quote:.80?}")));
    }
    if of_quote.len() > LONGEST_QUOTE {
        let message =
            format!("quote has {} letters and digits; locate parts of at most {LONGEST_QUOTE}", of_quote.len());
        return Err(Error::of_field("quote", message));
    }
    let of_page = letters(page, check)?;
    let page_side = Side { text: page, letters: &of_page };
    let whole = passages(page_side, Side { text: quote, letters: &of_quote }, check)?;
    let parts = parts(quote, &of_quote);
    let passages = if parts.len() > 1 && whole.found.is_empty() {
        let joined = joined(page_side, quote, &parts, check)?;
        if joined.found.is_empty() && joined.other.is_none() { whole } else { joined }
    } else {
        whole
    };
    Ok(passages.located(page, quote, offsets))
}

/// The passages of a page that nearly are a quote.
fn passages(page: Side<'_>, quote: Side<'_>, check: &Check) -> Result<Passages> {
    let mut passages = Passages::default();
    let marks = Marks::around(quote);
    for end in ends(page.letters, quote.letters, check)? {
        check()?;
        let pairs = align(page.letters, quote.letters, end);
        let Some(pairs) = edges::whole_words(page, quote, edges::anchored(page, quote, pairs)) else { continue };
        let Comparison { differences, distance, letters } = compare(page, quote, &pairs);
        let of_page: Vec<usize> = pairs.iter().filter_map(|pair| pair.page).collect();
        let (Some(&first), Some(&last)) = (of_page.first(), of_page.last()) else { continue };
        let Some(span) = span_of(&page.letters[first..=last]) else { continue };
        let span = marks.with(page.text, span);
        let is_same = are_tolerated(&differences, quote);
        let passage = Passage { span, distance, letters, differences, parts: Vec::new() };
        if is_same {
            passages.found.push(passage);
        } else if passages.other.as_ref().is_none_or(|best| distance < best.distance) {
            passages.other = Some(passage);
        }
    }
    Ok(passages)
}

/// Whether a quote with these differences is still one: with few of them, and none that says something else.
fn are_tolerated(differences: &[Differing], quote: Side<'_>) -> bool {
    let words = quote.letters.iter().filter(|letter| letter.starts_word).count();
    let count = |is_misspelt: bool| -> usize {
        let of_kind = differences.iter().filter(|one| (one.kind == DifferenceKind::Spelling) == is_misspelt);
        of_kind.map(|one| one.words).sum()
    };
    differences.iter().all(|one| one.kind.is_tolerated())
        && count(true) <= 1 + words / WORDS_PER_MISSPELT
        && count(false) <= 1 + words / WORDS_PER_OTHER
}

/// One word may be misspelt, and another one for each four words of the quote.
const WORDS_PER_MISSPELT: usize = 4;

/// One word may be there on one side only, and another one for each twelve words of the quote.
const WORDS_PER_OTHER: usize = 12;

/// Quotation marks, brackets and stops around the letters of a quote, from the letters outwards.
struct Marks {
    before: Vec<char>,
    after: Vec<char>,
}

/// Marks around a quote that are looked for in the page.
const MOST_MARKS: usize = 8;

impl Marks {
    fn around(quote: Side<'_>) -> Self {
        let inner = span_of(quote.letters).unwrap_or(ByteSpan { start: 0, end: 0 });
        let is_mark = |c: &char| !c.is_whitespace();
        Self {
            before: quote.text[..inner.start].chars().rev().filter(is_mark).take(MOST_MARKS).collect(),
            after: quote.text[inner.end..].chars().filter(is_mark).take(MOST_MARKS).collect(),
        }
    }

    /// A span of a page with the marks around it that the quote has too.
    fn with(&self, page: &str, span: ByteSpan) -> ByteSpan {
        let is_same = |pair: &(char, char)| kind_of_mark(pair.0) == kind_of_mark(pair.1);
        let bytes = |pair: (char, char)| pair.0.len_utf8();
        let before = page[..span.start].chars().rev().zip(self.before.iter().copied());
        let after = page[span.end..].chars().zip(self.after.iter().copied());
        ByteSpan {
            start: span.start - before.take_while(is_same).map(bytes).sum::<usize>(),
            end: span.end + after.take_while(is_same).map(bytes).sum::<usize>(),
        }
    }
}

/// One mark for all that are written for each other.
const fn kind_of_mark(mark: char) -> char {
    match mark {
        '“' | '”' | '„' | '«' | '»' | '‘' | '’' | '‚' | '\'' | '`' | '″' => '"',
        '–' | '—' | '‐' | '‑' | '−' => '-',
        _ => mark,
    }
}

/// The letters of the parts between the ellipses of a quote; parts without letters are left out.
fn parts<'quote>(quote: &str, letters: &'quote [Letter]) -> Vec<&'quote [Letter]> {
    let gap = |pair: &[Letter]| &quote[pair[0].end()..pair[1].start().max(pair[0].end())];
    letters.chunk_by(|before, after| !has_ellipsis(gap(&[*before, *after]))).collect()
}

fn has_ellipsis(gap: &str) -> bool {
    gap.contains('…') || gap.contains("...") || gap.contains(". . .")
}

/// The passages that begin with the first part of a quote with ellipses and end with its last one.
fn joined(page: Side<'_>, quote: &str, parts: &[&[Letter]], check: &Check) -> Result<Passages> {
    let mut chains: Vec<Passage> = Vec::new();
    for (number, &letters) in parts.iter().enumerate() {
        let Passages { mut found, other } = passages(page, Side { text: quote, letters }, check)?;
        if found.is_empty() {
            return Ok(Passages { found, other });
        }
        for passage in &mut found {
            passage.parts = vec![passage.span];
        }
        if number == 0 {
            chains = found;
            continue;
        }
        let mut next = found.into_iter().peekable();
        let mut longer: Vec<Passage> = Vec::new();
        for mut chain in chains {
            while next.peek().is_some_and(|passage| passage.span.start < chain.span.end) {
                next.next();
            }
            let Some(passage) = next.peek() else { break };
            if passage.span.start - chain.span.end > LONGEST_ELLIPSIS {
                continue;
            }
            let is_taken = |last: &Passage| last.span.end == passage.span.end;
            // Of two beginnings before the same end, the later one leaves less out.
            if longer.last().is_some_and(is_taken) {
                longer.pop();
            }
            chain.span.end = passage.span.end;
            chain.distance += passage.distance;
            chain.letters += passage.letters;
            chain.parts.push(passage.span);
            let copy =
                |one: &Differing| Differing { kind: one.kind, quote: one.quote, page: one.page, words: one.words };
            chain.differences.extend(passage.differences.iter().map(copy));
            longer.push(chain);
        }
        chains = longer;
    }
    Ok(Passages { found: chains, other: None })
}

impl Passages {
    /// The exact passages, or else all others, the best first.
    fn located<'text>(mut self, page: &'text str, quote: &'text str, offsets: OffsetUnit) -> Located<'text> {
        self.found.sort_by_key(|passage| (passage.distance, passage.span.start));
        let is_exact = self.found.first().is_some_and(|best| best.differences.is_empty());
        self.found.retain(|passage| passage.differences.is_empty() || !is_exact);
        let nearest = self.other.filter(|_| self.found.is_empty());
        let text = PageText::new(page);
        let spans = self.found.iter().chain(&nearest).flat_map(Passage::spans).map(|span| text.chars(span));
        let positions = Positions::of(page, spans.flat_map(|span| [span.start, span.end]).collect());
        let count = |span: ByteSpan| {
            let span = text.chars(span);
            (positions.count(span.start, offsets), positions.count(span.end, offsets))
        };
        let place = |passage: &Passage| passage.place(page, quote, &count);
        Located {
            status: match (self.found.is_empty(), is_exact) {
                (true, _) => QuoteStatus::None,
                (false, true) => QuoteStatus::Exact,
                (false, false) => QuoteStatus::Near,
            },
            places: self.found.iter().map(place).collect(),
            nearest: nearest.as_ref().map(place),
            offsets,
        }
    }
}

impl Passage {
    /// All spans of the page that it names.
    fn spans(&self) -> Vec<ByteSpan> {
        let differences = self.differences.iter().map(|one| one.page);
        std::iter::once(self.span).chain(differences).chain(self.parts.iter().copied()).collect()
    }

    fn place<'text>(
        &self,
        page: &'text str,
        quote: &'text str,
        count: &impl Fn(ByteSpan) -> (usize, usize),
    ) -> Place<'text> {
        let difference = |one: &Differing| {
            let (start, end) = count(one.page);
            let (quote, page) = (one.quote.of(quote).into(), one.page.of(page).into());
            Difference { kind: one.kind, quote, page, start, end }
        };
        let part = |&span: &ByteSpan| {
            let (start, end) = count(span);
            PlacePart { start, end }
        };
        let (start, end) = count(self.span);
        #[expect(clippy::cast_precision_loss, reason = "quotes have at most 20,000 letters")]
        let similarity = 1.0 - self.distance as f32 / self.letters.max(1) as f32;
        Place {
            text: self.span.of(page).into(),
            start,
            end,
            distance: self.distance,
            similarity: similarity.max(0.0),
            differences: self.differences.iter().map(difference).collect(),
            parts: if self.parts.len() > 1 { self.parts.iter().map(part).collect() } else { Vec::new() },
        }
    }
}
