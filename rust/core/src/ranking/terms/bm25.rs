//! BM25 of a query over ranges of a page's units.
//!
//! A page is read once. A range of units is a document; how often documents hold a term, and how long they are, is
//! counted over exactly the ranges that are asked for, by running sums over the units: the text is never read again.
//!
//! The score is Okapi's (Robertson and Zaragoza 2009, "The Probabilistic Relevance Framework: BM25 and Beyond"), with
//! the inverse document frequency that is never negative, `ln(1 + (n - df + 0.5) / (df + 0.5))`, as Lucene has it.

use std::ops::Range;

use super::scan::scan;
use super::{Language, QueryTerm, Term};
use crate::text::page::ByteSpan;

/// How soon more of one term stops to count.
const K1: f64 = 1.2;

/// How much longer documents are held back.
const B: f64 = 0.75;

/// The terms of a page, unit by unit.
#[derive(Clone, Debug)]
pub struct PageTerms {
    /// The terms of all units, one behind the other.
    terms: Vec<Term>,
    /// Where the terms of each unit start in `terms`; one more than there are units.
    starts: Vec<u32>,
}

impl PageTerms {
    /// Reads a text whose units are ordered and disjoint; takes time linear in the text.
    ///
    /// A term belongs to the unit that its first byte lies in, or else to the last unit before it; text in front of the
    /// first unit is left out.
    #[must_use]
    pub fn new(text: &str, units: &[ByteSpan], language: Language) -> Self {
        let mut terms = Vec::with_capacity(text.len() / 5);
        let mut starts = Vec::with_capacity(units.len() + 1);
        scan(text, language, &mut |term, span, _| {
            while units.get(starts.len()).is_some_and(|unit| unit.start <= span.start) {
                starts.push(count(terms.len()));
            }
            if !starts.is_empty() {
                terms.push(term);
            }
        });
        starts.resize(units.len() + 1, count(terms.len()));
        Self { terms, starts }
    }

    /// How many units the page has.
    #[must_use]
    pub const fn units(&self) -> usize {
        self.starts.len() - 1
    }

    /// What it takes in memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of_val(self.terms.as_slice()) + size_of_val(self.starts.as_slice())
    }

    /// Where a page has the terms of a query. Takes one walk over the page's terms.
    #[must_use]
    pub fn find<'page>(&'page self, query: &'page [QueryTerm]) -> Found<'page> {
        Found { page: self, query, postings: self.postings(query) }
    }

    fn postings(&self, query: &[QueryTerm]) -> Vec<Posting> {
        let mut wanted: Vec<(Term, usize)> = query.iter().enumerate().map(|(i, term)| (term.term, i)).collect();
        wanted.sort_unstable();
        // One bit for each of 64 kinds of terms: most of the page's are turned away by it.
        let kind = |term: Term| 1_u64 << (term.0 >> 58);
        let kinds = query.iter().fold(0, |kinds, term| kinds | kind(term.term));
        let mut postings = vec![Posting::default(); query.len()];
        let mut unit = 0;
        for (i, &term) in self.terms.iter().enumerate() {
            if kinds & kind(term) == 0 {
                continue;
            }
            let first = wanted.partition_point(|&(other, _)| other < term);
            for &(_, asked) in wanted[first..].iter().take_while(|&&(other, _)| other == term) {
                while self.starts[unit + 1] as usize <= i {
                    unit += 1;
                }
                postings[asked].add(count(unit));
            }
        }
        postings
    }
}

/// Where a page has the terms of a query.
#[derive(Clone, Debug)]
pub struct Found<'page> {
    page: &'page PageTerms,
    query: &'page [QueryTerm],
    /// For each of the query's terms.
    postings: Vec<Posting>,
}

/// Where a page has a term.
#[derive(Clone, Debug, Default)]
struct Posting {
    /// The units that hold it, in order, once for each time that they do.
    units: Vec<u32>,
    /// How many different ones these are.
    different: usize,
}

impl Posting {
    fn add(&mut self, unit: u32) {
        self.different += usize::from(self.units.last() != Some(&unit));
        self.units.push(unit);
    }
}

impl Found<'_> {
    /// Whether the page has any of the query's terms.
    #[must_use]
    pub fn any(&self) -> bool {
        self.postings.iter().any(|posting| posting.different > 0)
    }

    /// The BM25 of each range of units: 0 where none of the query's terms is, and higher for more and rarer ones.
    ///
    /// Takes a step for each range and each of the query's terms that the page has.
    ///
    /// # Panics
    ///
    /// Where a range ends behind the last unit.
    #[must_use]
    pub fn bm25(&self, ranges: &[Range<usize>]) -> Vec<f32> {
        let starts = &self.page.starts;
        let length = |range: &Range<usize>| starts[range.end.max(range.start)] - starts[range.start];
        let total: f64 = ranges.iter().map(|range| f64::from(length(range))).sum();
        let documents = f64::from(count(ranges.len()));
        let average = (total / documents.max(1.0)).max(1.0);
        let norms: Vec<f64> =
            ranges.iter().map(|range| K1 * (1.0 - B + B * f64::from(length(range)) / average)).collect();
        let mut scores = vec![0.0; ranges.len()];
        self.count_in(ranges, |term, _, counts| {
            let holding = counts.iter().filter(|counted| **counted > 0).count();
            let weight = f64::from(term.weight) * rarity(documents, f64::from(count(holding)));
            for ((score, &counted), norm) in scores.iter_mut().zip(counts).zip(&norms) {
                let counted = f64::from(counted);
                *score += weight * counted * (K1 + 1.0) / (counted + norm);
            }
        });
        single(scores)
    }

    /// How much of the query each range of units holds: the rarity of the terms that are in it against that of all the
    /// query's terms, whether the page has them or not; from 0 to 1.
    ///
    /// For something as short as a sentence this tells more than BM25 does, whose norm for lengths only adds noise there, and
    /// it says whether the query is answered at all.
    ///
    /// # Panics
    ///
    /// Where a range ends behind the last unit.
    #[must_use]
    pub fn coverage(&self, ranges: &[Range<usize>]) -> Vec<f32> {
        let units = f64::from(count(self.page.units()));
        let weight = |term: &QueryTerm, posting: &Posting| {
            f64::from(term.weight) * rarity(units, f64::from(count(posting.different)))
        };
        let all: f64 = self.query.iter().zip(&self.postings).map(|(term, posting)| weight(term, posting)).sum();
        let mut scores = vec![0.0; ranges.len()];
        self.count_in(ranges, |term, posting, counts| {
            let weight = weight(term, posting) / all;
            for (score, &counted) in scores.iter_mut().zip(counts) {
                *score += if counted > 0 { weight } else { 0.0 };
            }
        });
        single(scores)
    }

    /// For each term that the page has, how often each range holds it.
    fn count_in(&self, ranges: &[Range<usize>], mut counted: impl FnMut(&QueryTerm, &Posting, &[u32])) {
        let mut counts = vec![0_u32; ranges.len()];
        let mut before = vec![0_u32; self.page.starts.len()];
        for (term, posting) in self.query.iter().zip(&self.postings).filter(|(_, posting)| posting.different > 0) {
            sum_up(&posting.units, &mut before);
            for (range, count) in ranges.iter().zip(&mut counts) {
                *count = before[range.end.max(range.start)] - before[range.start];
            }
            counted(term, posting, &counts);
        }
    }
}

/// How much a term tells that so many of the documents hold.
fn rarity(documents: f64, holding: f64) -> f64 {
    (1.0 + (documents - holding + 0.5) / (holding + 0.5)).ln()
}

#[expect(clippy::cast_possible_truncation, reason = "scores are compared, not added up")]
fn single(scores: Vec<f64>) -> Vec<f32> {
    scores.into_iter().map(|score| score as f32).collect()
}

/// Sets `before[i]` to how many of the ordered `units` lie below `i`.
fn sum_up(units: &[u32], before: &mut [u32]) {
    let mut seen = 0;
    for (i, slot) in before.iter_mut().enumerate() {
        *slot = count(seen);
        while units.get(seen).is_some_and(|&unit| unit as usize == i) {
            seen += 1;
        }
    }
}

/// A count as it is kept: a page of four billion terms does not fit in memory.
fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
