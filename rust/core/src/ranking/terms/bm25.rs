//! BM25 of a query over ranges of a page's units.
//!
//! A page is scanned once. A range of units is a document. Document frequencies and lengths are counted over the
//! requested ranges by prefix sums over the units, without reading the text again.
//!
//! The formula is Okapi BM25 (Robertson and Zaragoza 2009, "The Probabilistic Relevance Framework: BM25 and Beyond"),
//! with Lucene's inverse document frequency, which is never negative: `ln(1 + (n - df + 0.5) / (df + 0.5))`.

use std::ops::Range;

use rustc_hash::FxHashSet;

use super::scan::scan;
use super::{Language, QueryTerm, Term};
use crate::error::Result;
use crate::runtime::call::{Check, to_the_end, unstopped};
use crate::text::outline::Breadcrumbs;
use crate::text::page::ByteSpan;

/// Saturation of term frequency.
const K1: f64 = 1.2;

/// Strength of length normalization.
const B: f64 = 0.75;

/// How often a term counts in a range that lacks it, but whose subject it names.
const NAMED: f64 = 0.5;

/// The share of the query that a unit lacks and those have that name its subject.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct AddedCoverage {
    /// The innermost name.
    pub(crate) nearest: f32,
    /// Any of the names.
    pub(crate) any: f32,
    /// The same, but a term weighs as much as it is rare in the language.
    pub(crate) by_language: f32,
}

/// The terms of a page, by unit.
#[derive(Clone, Debug)]
pub struct PageTerms {
    /// Of all units, concatenated.
    terms: Vec<Term>,
    /// The index of each unit's first term; has one entry more than there are units.
    starts: Vec<u32>,
}

impl PageTerms {
    /// Scans a text with sorted, disjoint units, in time linear in the text.
    ///
    /// A term belongs to the unit that contains its first byte, or else to the last unit before it. Text before the
    /// first unit is ignored.
    pub fn new(text: &str, units: &[ByteSpan], language: Language) -> Self {
        to_the_end(|check| Self::new_checked(text, units, language, check))
    }

    /// As [`Self::new`], in a call that may end.
    ///
    /// # Errors
    /// Those of `check`.
    pub fn new_checked(text: &str, units: &[ByteSpan], language: Language, check: &Check) -> Result<Self> {
        let mut terms = Vec::with_capacity(text.len() / 5);
        let mut starts = Vec::with_capacity(units.len() + 1);
        scan(text, language, check, &mut |term, span, _| {
            while units.get(starts.len()).is_some_and(|unit| unit.start <= span.start) {
                starts.push(count(terms.len()));
            }
            if !starts.is_empty() {
                terms.push(term);
            }
        })?;
        starts.resize(units.len() + 1, count(terms.len()));
        Ok(Self { terms, starts })
    }

    const fn units(&self) -> usize {
        self.starts.len() - 1
    }

    pub fn bytes(&self) -> usize {
        size_of_val(self.terms.as_slice()) + size_of_val(self.starts.as_slice())
    }

    /// Finds a query's terms in one pass over the page's terms.
    pub fn find<'page>(&'page self, query: &'page [QueryTerm]) -> QueryPostings<'page> {
        self.find_checked(query, &unstopped)
    }

    /// As [`Self::find`], in a call that may end: then scores are incomplete, and the next check fails too.
    pub fn find_checked<'page>(&'page self, query: &'page [QueryTerm], check: &'page Check) -> QueryPostings<'page> {
        QueryPostings { page: self, query, lists: self.postings(query), check }
    }

    fn postings(&self, query: &[QueryTerm]) -> Vec<PostingList> {
        let mut sorted: Vec<(Term, usize)> = query.iter().enumerate().map(|(i, term)| (term.term, i)).collect();
        sorted.sort_unstable();
        // A Bloom filter of 64 bits rejects most of the page's terms.
        let bit = |term: Term| 1_u64 << (term.0 >> 58);
        let filter = query.iter().fold(0, |filter, term| filter | bit(term.term));
        let mut lists = vec![PostingList::default(); query.len()];
        let mut unit = 0;
        for (i, &term) in self.terms.iter().enumerate() {
            if filter & bit(term) == 0 {
                continue;
            }
            let first = sorted.partition_point(|&(other, _)| other < term);
            for &(_, index) in sorted[first..].iter().take_while(|&&(other, _)| other == term) {
                while self.starts[unit + 1] as usize <= i {
                    unit += 1;
                }
                lists[index].push(count(unit));
            }
        }
        lists
    }
}

/// The units of a page that contain each term of a query.
#[derive(Clone)]
pub struct QueryPostings<'page> {
    page: &'page PageTerms,
    query: &'page [QueryTerm],
    /// For each term of the query.
    lists: Vec<PostingList>,
    check: &'page Check<'page>,
}

#[derive(Clone, Debug, Default)]
struct PostingList {
    /// Sorted; a unit is listed once for each occurrence.
    units: Vec<u32>,
    distinct_units: usize,
}

impl PostingList {
    fn push(&mut self, unit: u32) {
        self.distinct_units += usize::from(self.units.last() != Some(&unit));
        self.units.push(unit);
    }

    fn is_in(&self, units: &Range<usize>) -> bool {
        let first = self.units.partition_point(|unit| (*unit as usize) < units.start);
        self.units.get(first).is_some_and(|unit| (*unit as usize) < units.end)
    }
}

impl QueryPostings<'_> {
    /// Whether the page has any of the query's terms.
    pub fn any(&self) -> bool {
        self.lists.iter().any(|list| list.distinct_units > 0)
    }

    /// For each term of the query, whether the page lacks it.
    pub(crate) fn missing(&self) -> Vec<bool> {
        self.lists.iter().map(|list| list.distinct_units == 0).collect()
    }

    /// The BM25 score of each range of units; 0 for a range without any of the query's terms.
    ///
    /// Takes one step for each range and each term that the page has.
    ///
    /// # Panics
    ///
    /// If a range ends after the last unit.
    pub fn bm25(&self, ranges: &[Range<usize>]) -> Vec<f32> {
        self.bm25_with_names(ranges, &Breadcrumbs::default())
    }

    /// As [`Self::bm25`], but a term that a range lacks, and that names the subject of one of its units, counts
    /// [`NAMED`] times. Otherwise a page's title would tell its first section from the others.
    pub(crate) fn bm25_with_names(&self, ranges: &[Range<usize>], names: &Breadcrumbs) -> Vec<f32> {
        let starts = &self.page.starts;
        let length = |range: &Range<usize>| starts[range.end.max(range.start)] - starts[range.start];
        let total: f64 = ranges.iter().map(|range| f64::from(length(range))).sum();
        let documents = f64::from(count(ranges.len()));
        let average = (total / documents.max(1.0)).max(1.0);
        let norms: Vec<f64> =
            ranges.iter().map(|range| K1 * (1.0 - B + B * f64::from(length(range)) / average)).collect();
        let mut scores = vec![0.0; ranges.len()];
        let mut frequencies = vec![0.0; ranges.len()];
        let mut before = vec![0; starts.len()];
        self.count_in(ranges, |term, list, counts| {
            count_named(list, names, &mut before);
            for ((frequency, range), counted) in frequencies.iter_mut().zip(ranges).zip(counts) {
                let is_named = *counted == 0 && before[range.end.max(range.start)] > before[range.start];
                *frequency = if is_named { NAMED } else { f64::from(*counted) };
            }
            let holding: f64 = frequencies.iter().map(|frequency| frequency.min(1.0)).sum();
            let weight = f64::from(term.weight) * inverse_frequency(documents, holding);
            for ((score, frequency), norm) in scores.iter_mut().zip(&frequencies).zip(&norms) {
                *score += weight * frequency * (K1 + 1.0) / (frequency + norm);
            }
        });
        single(scores)
    }

    /// The share of the query in each range, from 0 to 1: the inverse document frequencies of its terms there, relative
    /// to those of all terms, which the page may have or not.
    ///
    /// For a sentence this tells more than BM25, whose length normalization only adds noise there. It also tells
    /// whether the query is answered at all.
    ///
    /// # Panics
    ///
    /// If a range ends after the last unit.
    pub fn coverage(&self, ranges: &[Range<usize>]) -> Vec<f32> {
        let share = self.shares();
        let mut scores = vec![0.0; ranges.len()];
        self.count_in(ranges, |term, list, counts| {
            let share = share(term, list);
            for (score, &count) in scores.iter_mut().zip(counts) {
                *score += if count > 0 { share } else { 0.0 };
            }
        });
        single(scores)
    }

    /// For each unit the share of the query that it lacks: what its innermost name has, and what any of its names has.
    ///
    /// # Panics
    ///
    /// If a name ends after the last unit.
    #[expect(clippy::cast_possible_truncation, reason = "scores are compared, not summed")]
    pub(crate) fn added_coverage(&self, names: &Breadcrumbs) -> Vec<AddedCoverage> {
        let share = self.shares();
        let mut added = vec![AddedCoverage::default(); self.page.units()];
        let rarity = |term: &QueryTerm| term.weight * term.rarity;
        let all: f32 = self.query.iter().map(rarity).sum();
        for (term, list) in self.found() {
            let share = share(term, list) as f32;
            let nearest = names.nearest(|units| list.is_in(units));
            let mut having = list.units.iter().map(|unit| *unit as usize).peekable();
            for (unit, added) in added.iter_mut().enumerate() {
                while having.next_if(|other| *other < unit).is_some() {}
                let Some(name) = names.innermost(unit).filter(|_| having.peek() != Some(&unit)) else { continue };
                let Some(place) = nearest[name] else { continue };
                added.nearest += if place == name { share } else { 0.0 };
                added.any += share;
                added.by_language += if all > 0.0 { rarity(term) / all } else { 0.0 };
            }
        }
        added
    }

    /// The share of each term in the query, by inverse document frequency.
    fn shares(&self) -> impl Fn(&QueryTerm, &PostingList) -> f64 {
        let units = f64::from(count(self.page.units()));
        let weight = move |term: &QueryTerm, list: &PostingList| {
            f64::from(term.weight) * inverse_frequency(units, f64::from(count(list.distinct_units)))
        };
        let all: f64 = self.query.iter().zip(&self.lists).map(|(term, list)| weight(term, list)).sum();
        move |term, list| weight(term, list) / all
    }

    /// As [`Self::coverage`], but a term weighs as much as it is rare in the language. So it depends on the range and
    /// the query only, and light words of the query count little even if the page has few of them. A term of `title`
    /// counts as covered by `credit` where a range lacks it.
    ///
    /// # Panics
    ///
    /// If a range ends after the last unit.
    pub fn language_coverage(&self, ranges: &[Range<usize>], title: &[Term], credit: f32) -> Vec<f32> {
        let weight = |term: &QueryTerm| term.weight * term.rarity;
        let all: f32 = self.query.iter().map(weight).sum();
        let title: FxHashSet<Term> = title.iter().copied().collect();
        let in_title = |term: &QueryTerm| title.contains(&term.term);
        let given: f32 = self.query.iter().filter(|term| in_title(term)).map(weight).sum::<f32>() * credit;
        // What the title gives is taken back where the range has the term itself.
        let own = |term: &QueryTerm| weight(term) * if in_title(term) { 1.0 - credit } else { 1.0 };
        let mut covered = vec![given; ranges.len()];
        self.count_in(ranges, |term, _, counts| {
            for (covered, &count) in covered.iter_mut().zip(counts) {
                *covered += if count > 0 { own(term) } else { 0.0 };
            }
        });
        covered.into_iter().map(|covered| if all > 0.0 { covered / all } else { 0.0 }).collect()
    }

    /// The terms that the page has, until the call ends.
    fn found(&self) -> impl Iterator<Item = (&QueryTerm, &PostingList)> {
        let terms = self.query.iter().zip(&self.lists).filter(|(_, list)| list.distinct_units > 0);
        terms.take_while(|_| (self.check)().is_ok())
    }

    /// Calls `each` for every term on the page, with the number of its occurrences in each range.
    fn count_in(&self, ranges: &[Range<usize>], mut each: impl FnMut(&QueryTerm, &PostingList, &[u32])) {
        let mut counts = vec![0_u32; ranges.len()];
        let mut before = vec![0_u32; self.page.starts.len()];
        for (term, list) in self.found() {
            prefix_sums(&list.units, &mut before);
            for (range, count) in ranges.iter().zip(&mut counts) {
                *count = before[range.end.max(range.start)] - before[range.start];
            }
            each(term, list, &counts);
        }
    }
}

/// Lucene's inverse document frequency of a term in `holding` of `documents`.
fn inverse_frequency(documents: f64, holding: f64) -> f64 {
    (1.0 + (documents - holding + 0.5) / (holding + 0.5)).ln()
}

#[expect(clippy::cast_possible_truncation, reason = "scores are compared, not summed")]
fn single(scores: Vec<f64>) -> Vec<f32> {
    scores.into_iter().map(|score| score as f32).collect()
}

/// Sets `before[i]` to the number of sorted `units` below `i`.
fn prefix_sums(units: &[u32], before: &mut [u32]) {
    let mut seen = 0;
    for (i, slot) in before.iter_mut().enumerate() {
        *slot = count(seen);
        while units.get(seen).is_some_and(|&unit| unit as usize == i) {
            seen += 1;
        }
    }
}

/// Sets `before[i]` to the number of units below `i` whose subject a term names.
fn count_named(list: &PostingList, names: &Breadcrumbs, before: &mut [u32]) {
    let nearest = names.nearest(|units| list.is_in(units));
    let mut seen = 0;
    for (unit, slot) in before.iter_mut().enumerate() {
        *slot = seen;
        seen += u32::from(names.innermost(unit).is_some_and(|name| nearest[name].is_some()));
    }
}

/// Counts are stored in 32 bits: a page with more terms does not fit in memory.
fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::query_terms;
    use super::*;
    use crate::text::pieces::Units;

    #[test]
    fn names_add_what_a_unit_lacks() {
        let text = "# Harbour dues\n\n## Ferries\n\n- Winter\n  - Cars pay 9.\n";
        let units = Units::sentences(text, None, &[], &unstopped).unwrap();
        let page = PageTerms::new(text, &units.spans, Language::English);
        let unit = units.spans.iter().position(|span| span.of(text).starts_with("- Cars")).unwrap();
        let added = |query: &str| page.find(&query_terms(query, Language::English)).added_coverage(&units.names)[unit];
        let of = |query: &str| (added(query).nearest, added(query).any);
        assert_eq!(
            (of("winter"), of("ferries"), of("harbour"), of("cars")),
            ((1.0, 1.0), (0.0, 1.0), (0.0, 1.0), (0.0, 0.0))
        );
        assert_eq!((of("winter ferries"), of("winter sledges").1 < 0.5, of("")), ((0.5, 1.0), true, (0.0, 0.0)));
    }
    #[test]
    fn a_name_counts_in_all_that_it_names() {
        let text =
            "# Checks before each tour\n\nGuides sign here. It is short.\n\n## Brakes\n\nPads are thick. No oil.\n";
        let units = Units::sentences(text, None, &[], &unstopped).unwrap();
        let page = PageTerms::new(text, &units.spans, Language::English);
        let ranges: Vec<Range<usize>> = units.groups.clone();
        let query = query_terms("checks before a tour", Language::English);
        let plain = page.find(&query).bm25(&ranges);
        let named = page.find(&query).bm25_with_names(&ranges, &units.names);
        assert_eq!(plain.iter().filter(|score| **score > 0.0).count(), 1);
        assert!(named.iter().all(|score| *score > 0.0) && named[0] < plain[0], "{named:?}");
    }
}
