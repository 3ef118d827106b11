//! Answers: from the cosines and the words of all pages to the columns that Python gets.

use std::borrow::Cow;
use std::ops::Range;

use super::prepared::Prepared;
use super::{Pairing, Question, Request, Work, column};
use crate::error::Result;
use crate::highlights::{Passage, RankedPage, Seeds, choose_passages, keep_tokens};
use crate::ranking::evidence::{PageEvidence, QueryEvidence};
use crate::ranking::relevance::score;
use crate::ranking::terms::terms;
use crate::text::formats::Format;
use crate::tokens::Tokens;

/// All answers of a call, as columns, and what it took.
///
/// Answer `i` is rows `ends[i - 1]..ends[i]` of the columns. Where every query goes with every page, the answers of the first
/// query's pages come first, then the second's; else answer `i` is page `i`'s.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// For each answer the row behind its last one.
    pub ends: Vec<i64>,
    /// For each highlight its start and its end in characters, one behind the other.
    pub spans: Vec<i64>,
    /// The same in bytes of UTF-8; empty where the answers came from a server.
    pub byte_spans: Vec<i64>,
    /// For each highlight the start and the end of it and the units around it.
    pub contexts: Vec<i64>,
    /// For each highlight the start and the end of what it was read from, in characters of the source.
    pub sources: Vec<i64>,
    /// For each page its text, where that is not the source.
    pub texts: Vec<Option<String>>,
    /// For each page what it was read as.
    pub formats: Vec<Format>,
    /// For each page how many windows it has, and units where these are encoded too.
    pub windows: Vec<i64>,
    /// For each page how many of them were compared with a query.
    pub windows_scored: Vec<i64>,
    /// For each highlight its score, from 0 to 1 (see [`crate::ranking::relevance`]).
    pub scores: Vec<f32>,
    /// For each highlight the best cosine of the windows in it.
    pub cosines: Vec<f32>,
    /// For each highlight the best BM25 of the windows in it; 0 where words did not count.
    pub bm25_scores: Vec<f32>,
    /// For each highlight the index of its page.
    pub pages: Vec<i64>,
    /// For each highlight the index of its query.
    pub queries: Vec<i64>,
    /// The words that matched, where they were asked for.
    pub matches: Matches,
    /// What was done.
    pub work: Work,
}

/// Words of pages that matched words of queries.
#[derive(Clone, Debug, Default)]
pub struct Matches {
    /// For each highlight the match behind its last one; empty where nobody asked.
    pub ends: Vec<i64>,
    /// For each match its start and its end in characters.
    pub spans: Vec<i64>,
    /// For each match which of `words` it matched.
    pub words: Vec<i64>,
    /// The words of all queries, as these have them.
    pub query_words: Vec<String>,
}

/// A page, and the evidence for each query that it answers at once.
struct PageQueries<'query_evidence, 'page, 'text> {
    /// Each with its query.
    evidence: Vec<(usize, &'query_evidence PageEvidence<'page, 'text>)>,
    /// The best relevance of each seed.
    relevance: Cow<'query_evidence, [f32]>,
    /// The best of what the page's title adds.
    title: f32,
}

/// Chooses on all pages, query after query.
pub(super) fn choose_answers(
    all_evidence: &[QueryEvidence],
    pages: &[Prepared],
    request: &Request,
    question: &Question,
    tokens: &Tokens,
) -> Result<Answers> {
    let mut answers = Answers::default();
    if request.pairing == Pairing::Fused {
        let mut fused = PageQueries::pages(&all_evidence[0]);
        for query_evidence in &all_evidence[1..] {
            fused
                .iter_mut()
                .zip(&query_evidence.evidence)
                .for_each(|(asked, evidence)| asked.add(query_evidence.query, evidence));
        }
        answers.choose(&fused, pages, question, tokens)?;
    } else {
        for query_evidence in all_evidence {
            answers.choose(&PageQueries::pages(query_evidence), pages, question, tokens)?;
        }
    }
    Ok(answers)
}

/// The best passages of a page by itself, of what was looked at.
pub(super) fn passages_of(evidence: &PageEvidence, page: &Prepared, question: &Question) -> Vec<Passage> {
    let is_seen = evidence.is_seen();
    let seeds = evidence.relevance.iter().enumerate();
    let relevance: Vec<f32> =
        seeds.map(|(seed, relevance)| if is_seen(seed) { *relevance } else { f32::NEG_INFINITY }).collect();
    let ranked = ranked(page, &relevance, 0.0, question);
    let mut chosen = choose_passages(&[ranked], &question.bounds).pop().unwrap_or_default();
    chosen.retain(|passage| passage.relevance.is_finite());
    chosen
}

fn ranked<'ranked>(
    prepared: &'ranked Prepared,
    relevance: &'ranked [f32],
    title: f32,
    question: &Question,
) -> RankedPage<'ranked> {
    let Prepared { page, reading, tokens_before, .. } = prepared;
    let seeds = if question.grows() { Seeds::Units(question.longest()) } else { Seeds::Windows(&reading.ranges) };
    RankedPage { page, units: &reading.units, seeds, relevance, title, tokens_before, language: reading.language }
}

impl<'query_evidence, 'page, 'text> PageQueries<'query_evidence, 'page, 'text> {
    /// Each page of an inquiry.
    fn pages(query_evidence: &'query_evidence QueryEvidence<'page, 'text>) -> Vec<Self> {
        let by = |evidence: &'query_evidence PageEvidence<'page, 'text>| Self {
            title: evidence.title,
            evidence: vec![(query_evidence.query, evidence)],
            relevance: Cow::Borrowed(evidence.relevance.as_slice()),
        };
        query_evidence.evidence.iter().map(by).collect()
    }

    /// One more query; a seed is worth what it is to the query that it answers best.
    fn add(&mut self, query: usize, evidence: &'query_evidence PageEvidence<'page, 'text>) {
        for (best, relevance) in self.relevance.to_mut().iter_mut().zip(&evidence.relevance) {
            *best = best.max(*relevance);
        }
        self.title = self.title.max(evidence.title);
        self.evidence.push((query, evidence));
    }

    /// What speaks for the query that a seed answers best.
    fn best(&self, seed: usize) -> (usize, &'query_evidence PageEvidence<'page, 'text>) {
        let is_best =
            |(_, evidence): &&(usize, &PageEvidence)| evidence.relevance.get(seed) == self.relevance.get(seed);
        *self.evidence.iter().find(is_best).unwrap_or(&self.evidence[0])
    }
}

impl Answers {
    /// Chooses on pages that share bounds, and appends an answer for each.
    fn choose(
        &mut self,
        asked: &[PageQueries],
        pages: &[Prepared],
        question: &Question,
        tokens: &Tokens,
    ) -> Result<()> {
        let page_of = |asked: &PageQueries| &pages[asked.evidence[0].1.index];
        let each = asked.iter().map(|asked| ranked(page_of(asked), &asked.relevance, asked.title, question));
        let mut chosen = choose_passages(&each.collect::<Vec<RankedPage>>(), &question.bounds);
        if question.bounds.counts_tokens() {
            let count = |page: usize, run: &Range<usize>| {
                let prepared = page_of(&asked[page]);
                tokens.count(prepared.reading.units.span(run).of(prepared.page.text()))
            };
            keep_tokens(&question.bounds, &mut chosen, count)?;
        }
        for (asked, passages) in asked.iter().zip(chosen) {
            for passage in passages {
                self.write(asked.best(passage.seed), page_of(asked), &passage, question);
            }
            self.ends.push(column(self.scores.len()));
        }
        Ok(())
    }

    fn write(
        &mut self,
        (query, evidence): (usize, &PageEvidence),
        prepared: &Prepared,
        passage: &Passage,
        question: &Question,
    ) {
        let (units, run) = (&prepared.reading.units, &passage.units);
        let push = |columns: &mut Vec<i64>, run: &Range<usize>| {
            let span = prepared.page.chars(units.span(run));
            columns.extend([column(span.start), column(span.end)]);
        };
        push(&mut self.spans, run);
        let bytes = units.span(run);
        self.byte_spans.extend([column(bytes.start), column(bytes.end)]);
        let around = run.start.saturating_sub(question.context)
            ..(run.end.saturating_add(question.context)).min(units.spans.len());
        push(&mut self.contexts, &around);
        let source = prepared.document.source_span(units.span(run));
        let source = prepared.source.as_ref().unwrap_or(&prepared.page).chars(source);
        self.sources.extend([column(source.start), column(source.end)]);
        self.scores.push(score(passage.relevance));
        let (cosine, bm25) = evidence.best_scores(passage.seed);
        self.cosines.push(cosine);
        self.bm25_scores.push(bm25);
        self.pages.push(column(evidence.index));
        self.queries.push(column(query));
        if question.explain {
            self.explain(evidence, prepared, run);
        }
    }

    /// Finds the words of a passage that the query has too; of a compound and its parts the longest that does.
    fn explain(&mut self, evidence: &PageEvidence, prepared: &Prepared, run: &Range<usize>) {
        let span = prepared.reading.units.span(run);
        let first_word = self.matches.query_words.len();
        self.matches.query_words.extend(evidence.terms.iter().map(|term| term.text.clone()));
        let mut read_to = 0;
        for found in terms(span.of(prepared.page.text()), prepared.reading.language) {
            let Some(word) = evidence.terms.iter().position(|term| term.term == found.term) else { continue };
            if found.span.start < read_to {
                continue;
            }
            read_to = found.span.end;
            let start = span.start + found.span.start;
            let chars = prepared.page.chars(crate::text::page::ByteSpan { start, end: span.start + found.span.end });
            self.matches.spans.extend([column(chars.start), column(chars.end)]);
            self.matches.words.push(column(first_word + word));
        }
        self.matches.ends.push(column(self.matches.words.len()));
    }
}
