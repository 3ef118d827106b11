//! Answers: from the cosines and the words of all pages to the columns that Python gets.

use std::ops::Range;

use super::run::Open;
use super::titles::Titles;
use super::{Answers, Pairing, Question, Request};
use crate::error::Result;
use crate::highlights::{Judged, Passage, Seeds, choose_passages};
use crate::pieces::Unit;
use crate::scores::relevance::{BM25, COSINE, Evidence, Prior, Scale, join, score};
use crate::terms::{QueryTerm, query_terms, terms};
use crate::tokens::Tokens;

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
    query: usize,
    open: &'open Open<'text>,
    terms: Vec<QueryTerm>,
    cosine: Evidence,
    lexical: Evidence,
    /// Of each seed of passages.
    relevance: Vec<f32>,
    /// What the page's title adds to all of them.
    title: f32,
}

/// A page, and what speaks for each query that it has to answer at once.
struct Asked<'open, 'text> {
    spoken: Vec<Spoken<'open, 'text>>,
    /// The best of them for each seed.
    relevance: Vec<f32>,
    /// The best of what the page's title adds.
    title: f32,
}

/// Chooses on all pages, query after query.
pub(super) fn choose_answers(
    open: &[Open],
    titles: &Titles,
    request: &Request,
    question: &Question,
    tokens: &Tokens,
) -> Result<Answers> {
    let mut answers = Answers::default();
    let pages = |query: usize| if request.pairing == Pairing::Each { query..query + 1 } else { 0..open.len() };
    let all = (0..request.queries.len()).map(|query| {
        spoken(&open[pages(query)], pages(query).start, (query, request.queries[query]), titles, question)
    });
    if request.pairing == Pairing::Fused {
        let mut asked: Vec<Asked> = open
            .iter()
            .map(|_| Asked { spoken: Vec::new(), relevance: Vec::new(), title: f32::NEG_INFINITY })
            .collect();
        for (page, spoken) in all.flat_map(|spoken| spoken.into_iter().map(|spoken| (spoken.page, spoken))) {
            asked[page].add(spoken);
        }
        answers.choose(&asked, question, tokens)?;
    } else {
        for spoken in all {
            let asked: Vec<Asked> = spoken.into_iter().map(Asked::by).collect();
            answers.choose(&asked, question, tokens)?;
        }
    }
    Ok(answers)
}

/// What speaks for a query on these pages, the first of which has this number.
fn spoken<'open, 'text>(
    open: &'open [Open<'text>],
    first: usize,
    (query, text): (usize, &str),
    titles: &Titles,
    question: &Question,
) -> Vec<Spoken<'open, 'text>> {
    let mut all: Vec<Spoken> = (first..)
        .zip(open)
        .filter_map(|(page, open)| {
            let (_, cosines) = open.cosines.iter().find(|(asked, _)| *asked == query)?;
            let (windows, units) = cosines.split_at(open.prepared.ranges.len());
            let cosine = Evidence { windows: windows.to_vec(), units: units.to_vec() };
            let terms = query_terms(text, open.prepared.language);
            let lexical = lexical(open, &terms, question);
            Some(Spoken { page, query, open, terms, cosine, lexical, relevance: Vec::new(), title: 0.0 })
        })
        .collect();
    // Scales are those of all pages together, so that scores can be compared between them.
    let cosine = scales(all.iter().map(|spoken| &spoken.cosine), COSINE);
    let lexical = scales(all.iter().map(|spoken| &spoken.lexical), BM25);
    for spoken in &mut all {
        let ranges = &spoken.open.prepared.ranges;
        let mut relevance = spoken.cosine.scaled(ranges, cosine.0, cosine.1);
        if question.lexical.may_count() {
            let weight = question.lexical.weight(spoken.open.prepared.tokens.characters_per_token);
            relevance = join(&relevance, &spoken.lexical.scaled(ranges, lexical.0, lexical.1), weight);
        }
        spoken.relevance = relevance;
        spoken.title = titles.of(query, spoken.page);
    }
    all
}

/// BM25 of the windows, and of the units where these are looked at.
fn lexical(open: &Open, query: &[QueryTerm], question: &Question) -> Evidence {
    let prepared = &open.prepared;
    let Some(terms) = &prepared.terms else { return Evidence::default() };
    let units = if question.looks_at_units() { prepared.units.spans.len() } else { 0 };
    let units: Vec<Range<usize>> = (0..units).map(|unit| unit..unit + 1).collect();
    Evidence { windows: terms.bm25(query, &prepared.ranges), units: terms.bm25(query, &units) }
}

fn scales<'evidence>(evidence: impl Iterator<Item = &'evidence Evidence> + Clone, prior: Prior) -> (Scale, Scale) {
    let windows = Scale::of(evidence.clone().flat_map(|evidence| &evidence.windows), prior);
    (windows, Scale::of(evidence.flat_map(|evidence| &evidence.units), prior))
}

impl<'open, 'text> Asked<'open, 'text> {
    fn by(mut spoken: Spoken<'open, 'text>) -> Self {
        let relevance = std::mem::take(&mut spoken.relevance);
        Self { title: spoken.title, spoken: vec![spoken], relevance }
    }

    /// One more query; a seed is worth what it is to the query that it answers best.
    fn add(&mut self, spoken: Spoken<'open, 'text>) {
        if self.spoken.is_empty() {
            self.relevance.clone_from(&spoken.relevance);
        }
        for (best, relevance) in self.relevance.iter_mut().zip(&spoken.relevance) {
            *best = best.max(*relevance);
        }
        self.title = self.title.max(spoken.title);
        self.spoken.push(spoken);
    }

    /// What speaks for the query that a seed answers best.
    fn best(&self, seed: usize) -> &Spoken<'open, 'text> {
        let is_best = |spoken: &&Spoken| spoken.relevance.get(seed) == self.relevance.get(seed);
        self.spoken.iter().find(is_best).unwrap_or(&self.spoken[0])
    }
}

impl Answers {
    /// Chooses on pages that share bounds, and appends an answer for each.
    fn choose(&mut self, asked: &[Asked], question: &Question, tokens: &Tokens) -> Result<()> {
        let judged: Vec<Judged> = asked
            .iter()
            .map(|asked| {
                let prepared = &asked.spoken[0].open.prepared;
                let seeds = if question.grows() {
                    Seeds::Units(question.windows.highlight_length())
                } else {
                    Seeds::Windows(&prepared.ranges)
                };
                Judged {
                    page: &prepared.page,
                    units: &prepared.units,
                    seeds,
                    relevance: &asked.relevance,
                    title: asked.title,
                    tokens_before: &prepared.tokens_before,
                    language: prepared.language,
                }
            })
            .collect();
        let mut chosen = choose_passages(&judged, &question.bounds);
        if question.bounds.counts_tokens() {
            let count = |page: usize, run: &Range<usize>| {
                let prepared = &asked[page].spoken[0].open.prepared;
                tokens.count(prepared.units.span(run).of(prepared.page.text()))
            };
            question.bounds.keep_tokens(&mut chosen, count)?;
        }
        for (asked, passages) in asked.iter().zip(chosen) {
            for passage in passages {
                self.write(asked.best(passage.seed), &passage, question);
            }
            self.ends.push(column(self.scores.len()));
        }
        Ok(())
    }

    fn write(&mut self, spoken: &Spoken, passage: &Passage, question: &Question) {
        let prepared = &spoken.open.prepared;
        let (units, run) = (&prepared.units, &passage.units);
        let push = |columns: &mut Vec<i64>, run: &Range<usize>| {
            let span = prepared.page.chars(units.span(run));
            columns.extend([column(span.start), column(span.end)]);
        };
        push(&mut self.spans, run);
        let around = run.start.saturating_sub(question.context)
            ..(run.end.saturating_add(question.context)).min(units.spans.len());
        push(&mut self.contexts, &around);
        self.scores.push(score(passage.relevance));
        let (cosine, lexical) = if question.grows() {
            (spoken.cosine.within(run, &prepared.ranges), spoken.lexical.within(run, &prepared.ranges))
        } else {
            let lexical = spoken.lexical.windows.get(passage.seed);
            (spoken.cosine.windows[passage.seed], lexical.copied().unwrap_or(0.0))
        };
        self.cosines.push(cosine);
        self.lexicals.push(lexical);
        self.pages.push(column(spoken.page));
        self.queries.push(column(spoken.query));
        if question.explain {
            self.explain(spoken, run);
        }
    }

    /// Finds the words of a passage that the query has too; of a compound and its parts the longest that does.
    fn explain(&mut self, spoken: &Spoken, run: &Range<usize>) {
        let prepared = &spoken.open.prepared;
        let span = prepared.units.span(run);
        let first_word = self.matches.query_words.len();
        self.matches.query_words.extend(spoken.terms.iter().map(|term| term.text.clone()));
        let mut read_to = 0;
        for found in terms(span.of(prepared.page.text()), prepared.language) {
            let Some(word) = spoken.terms.iter().position(|term| term.term == found.term) else { continue };
            if found.span.start < read_to {
                continue;
            }
            read_to = found.span.end;
            let start = span.start + found.span.start;
            let chars = prepared.page.chars(crate::page::ByteSpan { start, end: span.start + found.span.end });
            self.matches.spans.extend([column(chars.start), column(chars.end)]);
            self.matches.words.push(column(first_word + word));
        }
        self.matches.ends.push(column(self.matches.words.len()));
    }
}

/// A count or an index, as numpy's default integer.
fn column(value: usize) -> i64 {
    i64::try_from(value).expect("nothing in memory has 2^63 parts")
}
