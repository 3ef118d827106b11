//! Answers: from the cosines and the words of all pages to the columns that Python gets.

use std::ops::Range;

use super::run::Open;
use super::{Answers, Pairing, Question};
use crate::highlights::{choose, choose_passages};
use crate::page::ByteSpan;
use crate::pieces::Unit;
use crate::scores::relevance::{BM25, COSINE, Evidence, Prior, Scale, join, score};
use crate::terms::query_terms;

impl Question {
    /// Whether passages grow from sentences, instead of windows being returned as they are. Who skips text means the windows.
    fn grows(&self) -> bool {
        self.grow && self.unit == Unit::Sentence && self.windows.step_size() <= self.windows.highlight_length()
    }

    /// Whether units are encoded beside the windows. Where windows are the units, once is enough.
    pub(super) fn looks_at_units(&self) -> bool {
        self.grows() && (self.windows.highlight_length(), self.windows.step_size()) != (1, 1)
    }
}

/// What speaks for a query on a page.
struct Spoken<'open, 'text> {
    page: usize,
    open: &'open Open<'text>,
    cosine: Evidence,
    lexical: Evidence,
}

/// A run of units that was chosen, and what is said of it.
struct Row {
    units: Range<usize>,
    relevance: f32,
    cosine: f32,
    lexical: f32,
}

/// Chooses on all pages, query after query.
pub(super) fn choose_answers(open: &[Open], queries: &[&str], pairing: Pairing, question: &Question) -> Answers {
    let mut answers = Answers::default();
    for (number, query) in queries.iter().enumerate() {
        let pages = if pairing == Pairing::EachItsOwn { number..number + 1 } else { 0..open.len() };
        let spoken: Vec<Spoken> = pages
            .filter_map(|page| {
                let open = &open[page];
                let (_, cosines) = open.cosines.iter().find(|(asked, _)| *asked == number)?;
                let (windows, units) = cosines.split_at(open.prepared.ranges.len());
                let cosine = Evidence { windows: windows.to_vec(), units: units.to_vec() };
                Some(Spoken { page, open, cosine, lexical: lexical(open, query, question) })
            })
            .collect();
        // Scales are those of all pages together, so that scores can be compared between them.
        let cosine = scales(spoken.iter().map(|spoken| &spoken.cosine), COSINE);
        let lexical = scales(spoken.iter().map(|spoken| &spoken.lexical), BM25);
        for spoken in &spoken {
            let ranges = &spoken.open.prepared.ranges;
            let mut relevance = spoken.cosine.scaled(ranges, cosine.0, cosine.1);
            if question.lexical.may_count() {
                let weight = question.lexical.weight(spoken.open.prepared.tokens.characters_per_token);
                relevance = join(&relevance, &spoken.lexical.scaled(ranges, lexical.0, lexical.1), weight);
            }
            let rows = if question.grows() {
                passages(spoken, &relevance, question)
            } else {
                windows(spoken, &relevance, question)
            };
            write(&mut answers, spoken, number, rows);
        }
    }
    answers
}

/// BM25 of the windows, and of the units where these are looked at.
fn lexical(open: &Open, query: &str, question: &Question) -> Evidence {
    let prepared = &open.prepared;
    let Some((terms, language)) = &prepared.terms else { return Evidence::default() };
    let query = query_terms(query, *language);
    let units = if question.looks_at_units() { prepared.units.len() } else { 0 };
    let units: Vec<Range<usize>> = (0..units).map(|unit| unit..unit + 1).collect();
    Evidence { windows: terms.bm25(&query, &prepared.ranges), units: terms.bm25(&query, &units) }
}

fn scales<'evidence>(evidence: impl Iterator<Item = &'evidence Evidence> + Clone, prior: Prior) -> (Scale, Scale) {
    let windows = Scale::of(evidence.clone().flat_map(|evidence| &evidence.windows), prior);
    (windows, Scale::of(evidence.flat_map(|evidence| &evidence.units), prior))
}

fn passages(spoken: &Spoken, relevance: &[f32], question: &Question) -> Vec<Row> {
    let prepared = &spoken.open.prepared;
    let longest = question.windows.highlight_length();
    choose_passages(&prepared.page, &prepared.units, relevance, longest, &question.bounds)
        .into_iter()
        .map(|passage| Row {
            relevance: passage.relevance,
            cosine: spoken.cosine.within(&passage.units, &prepared.ranges),
            lexical: spoken.lexical.within(&passage.units, &prepared.ranges),
            units: passage.units,
        })
        .collect()
}

fn windows(spoken: &Spoken, relevance: &[f32], question: &Question) -> Vec<Row> {
    let prepared = &spoken.open.prepared;
    let spans: Vec<ByteSpan> = prepared.ranges.iter().map(|range| span(&prepared.units, range)).collect();
    choose(&prepared.page, &spans, relevance, &question.bounds)
        .into_iter()
        .map(|chosen| Row {
            units: prepared.ranges[chosen.piece].clone(),
            relevance: chosen.relevance,
            cosine: spoken.cosine.windows[chosen.piece],
            lexical: spoken.lexical.windows.get(chosen.piece).copied().unwrap_or(0.0),
        })
        .collect()
}

fn write(answers: &mut Answers, spoken: &Spoken, query: usize, rows: Vec<Row>) {
    let prepared = &spoken.open.prepared;
    for row in rows {
        let span = prepared.page.chars(span(&prepared.units, &row.units));
        answers.spans.extend([column(span.start), column(span.end)]);
        answers.scores.push(score(row.relevance));
        answers.cosines.push(row.cosine);
        answers.lexicals.push(row.lexical);
        answers.pages.push(column(spoken.page));
        answers.queries.push(column(query));
    }
    answers.ends.push(column(answers.scores.len()));
}

/// From the first unit's start to the last one's end.
fn span(units: &[ByteSpan], run: &Range<usize>) -> ByteSpan {
    ByteSpan { start: units[run.start].start, end: units[run.end - 1].end }
}

/// A count or an index, as numpy's default integer.
fn column(value: usize) -> i64 {
    i64::try_from(value).expect("nothing in memory has 2^63 parts")
}
