//! Rows of answers as the highlights that HTTP, Python, tables and agents read: texts in place of spans.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use pullquote_wire::result::{Breadcrumb, Highlight, Match, OffsetUnit, Twin};

use super::Answers;
use crate::text::positions::Positions;

/// Some rows of answers. The text of a page with rows is walked through once.
#[derive(Debug)]
pub struct Rows<'call> {
    answers: &'call Answers,
    /// Of each page with rows or twins: positions in its text, and in its source if that differs.
    pages: BTreeMap<usize, (Positions<'call>, Option<Positions<'call>>)>,
}

impl<'call> Rows<'call> {
    /// `source` has the source of each page that a row is of; where `answers` have no text of a page, that is its text.
    pub fn new(
        answers: &'call Answers,
        rows: impl IntoIterator<Item = usize>,
        source: impl Fn(usize) -> &'call str,
    ) -> Self {
        let mut wanted: BTreeMap<usize, (Vec<usize>, Vec<usize>)> = BTreeMap::new();
        for row in rows {
            let (of_text, of_source) = wanted.entry(number(answers.pages[row])).or_default();
            for spans in [&answers.spans, &answers.contexts, &answers.headers] {
                of_text.extend(pair(spans, row));
            }
            of_text.extend(answers.matches_of(row).flat_map(|found| pair(&answers.matches.spans, found)));
            of_text.extend(of_list(&answers.breadcrumb_ends, row).flat_map(|one| pair(&answers.breadcrumbs, one)));
            of_source.extend(pair(&answers.sources, row));
            for twin in answers.twins_of(row) {
                let (of_text, _) = wanted.entry(number(answers.twin_pages[twin])).or_default();
                of_text.extend(pair(&answers.twins, twin));
            }
        }
        let positions = |(page, (of_text, of_source)): (usize, (Vec<usize>, Vec<usize>))| {
            let source = source(page);
            let positions = match answers.texts.get(page).and_then(Option::as_deref) {
                Some(text) => (Positions::of(text, of_text), Some(Positions::of(source, of_source))),
                None => (Positions::of(source, of_text), None),
            };
            (page, positions)
        };
        Self { answers, pages: wanted.into_iter().map(positions).collect() }
    }

    /// A row's highlight with everything that the core knows; `query` is up to the list that it stands in.
    pub fn highlight(&self, row: usize, unit: OffsetUnit) -> Highlight<'call> {
        let answers = self.answers;
        let (text, source) = &self.pages[&number(answers.pages[row])];
        let ([start, end], [first, last]) = (pair(&answers.spans, row), pair(&answers.contexts, row));
        let ([names, names_end], [source_start, source_end]) =
            (pair(&answers.headers, row), pair(&answers.sources, row));
        let count = |place| text.count(place, unit);
        let between = |start, end| Cow::Borrowed(text.between(start, end));
        let of_source = |place| Some(source.as_ref().unwrap_or(text).count(place, unit));
        let matched = |found: usize| {
            let [start, end] = pair(&answers.matches.spans, found);
            let word = &answers.matches.query_words[number(answers.matches.words[found])];
            Match { word: word.into(), start: count(start), end: count(end) }
        };
        let breadcrumb = |one: usize| {
            let [start, end] = pair(&answers.breadcrumbs, one);
            Breadcrumb { text: between(start, end), start: count(start), end: count(end) }
        };
        let breadcrumbs: Vec<Breadcrumb> = of_list(&answers.breadcrumb_ends, row).map(breadcrumb).collect();
        let twin = |one: usize| {
            let page = number(answers.twin_pages[one]);
            let [start, end] = pair(&answers.twins, one).map(|place| self.pages[&page].0.count(place, unit));
            Twin { page, start, end }
        };
        let twins: Vec<Twin> = answers.twins_of(row).map(twin).collect();
        let is_explained = !answers.matches.ends.is_empty();
        Highlight {
            text: between(start, end),
            start: count(start),
            end: count(end),
            score: answers.scores[row],
            cosine: answers.cosines[row],
            bm25: answers.bm25_scores[row],
            before: Some(between(first, start)),
            after: Some(between(end, last)),
            header: (names < names_end).then(|| between(names, names_end)),
            header_start: (names < names_end).then(|| count(names)),
            breadcrumbs: (!breadcrumbs.is_empty()).then_some(breadcrumbs),
            matches: is_explained.then(|| answers.matches_of(row).map(matched).collect()),
            source_start: of_source(source_start),
            source_end: of_source(source_end),
            twins: (!twins.is_empty()).then_some(twins),
            ..Highlight::default()
        }
    }

    /// Positions in the text of a row's page.
    pub fn positions(&self, row: usize) -> &Positions<'call> {
        &self.pages[&number(self.answers.pages[row])].0
    }
}

impl Answers {
    /// The rows of an answer.
    pub fn rows_of(&self, answer: usize) -> Range<usize> {
        of_list(&self.ends, answer)
    }

    /// The twins of a row, as rows of their columns.
    pub fn twins_of(&self, row: usize) -> Range<usize> {
        of_list(&self.twin_ends, row)
    }

    /// The matches of a row, as rows of their columns.
    pub fn matches_of(&self, row: usize) -> Range<usize> {
        of_list(&self.matches.ends, row)
    }
}

/// The rows of a list, of which each has its end.
fn of_list(ends: &[i64], list: usize) -> Range<usize> {
    let end = |list: usize| ends.get(list).map_or(0, |end| number(*end));
    (if list == 0 { 0 } else { end(list - 1) })..end(list)
}

/// A row's start and end in a column of spans.
pub fn pair(spans: &[i64], row: usize) -> [usize; 2] {
    [number(spans[2 * row]), number(spans[2 * row + 1])]
}

/// A column's value, which counts something in memory.
pub fn number(value: i64) -> usize {
    usize::try_from(value).unwrap_or_default()
}
