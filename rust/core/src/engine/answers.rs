//! Builds the columns of answers from the evidence for all pages.

use std::borrow::Cow;
use std::ops::Range;

use super::prepared::PreparedPage;
use super::{Pairing, Question, Request, Work, column};
use crate::error::Result;
use crate::highlights::{Passage, RankedPage, SeedScores, Seeds, choose_passages, enforce_token_limits};
use crate::ranking::evidence::{PageEvidence, QueryEvidence};
use crate::ranking::probability::score;
use crate::ranking::terms::terms;
use crate::text::formats::Format;
use crate::tokens::Tokens;

/// All answers of a call as columns, which Python takes over as arrays.
///
/// Answer `i` is rows `ends[i - 1]..ends[i]` of the columns. If every query is paired with every page, the answers for
/// the first query come first, one for each page, then those for the second. Otherwise answer `i` belongs to page `i`.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// For each answer, the end of its rows.
    pub ends: Vec<i64>,
    /// For each highlight, its start and end in characters of the page's text.
    pub spans: Vec<i64>,
    /// As `spans`, in bytes of UTF-8. Empty for answers from a server.
    pub byte_spans: Vec<i64>,
    /// As `spans`, widened by [`Question::context`] units on both sides.
    pub contexts: Vec<i64>,
    /// As `spans`: the names of the columns above a passage that begins in the rows of a table; empty for others.
    pub headers: Vec<i64>,
    /// As `spans`, in characters of the source.
    pub sources: Vec<i64>,
    /// For each page, the extracted text; `None` if the source is the text.
    pub texts: Vec<Option<String>>,
    /// For each page, its format; detected ones are resolved.
    pub formats: Vec<Format>,
    /// For each page, the number of windows, plus units if they are encoded too.
    pub windows: Vec<i64>,
    /// For each page, how many of them were scored against a query.
    pub windows_scored: Vec<i64>,
    /// For each highlight, its score from 0 to 1 (see [`crate::ranking::probability`]).
    pub scores: Vec<f32>,
    /// For each highlight, the best cosine of the windows around its seed.
    pub cosines: Vec<f32>,
    /// For each highlight, the best BM25 score of those windows; 0 with a lexical weight of 0.
    pub bm25_scores: Vec<f32>,
    pub pages: Vec<i64>,
    pub queries: Vec<i64>,
    pub matches: Matches,
    pub work: Work,
}

/// Words of highlights that match words of their queries.
#[derive(Clone, Debug, Default)]
pub struct Matches {
    /// For each highlight, the end of its matches. Empty without [`Question::explain`].
    pub ends: Vec<i64>,
    /// For each match, its start and end in characters of the page's text.
    pub spans: Vec<i64>,
    /// For each match, the index of the query's word in `query_words`.
    pub words: Vec<i64>,
    /// Words as written in the queries, repeated for each highlight.
    pub query_words: Vec<String>,
}

/// A page with the evidence of all queries that share one answer for it.
struct PageQueries<'evidence, 'page, 'text> {
    /// Pairs of a query's index and its evidence.
    evidence: Vec<(usize, &'evidence PageEvidence<'page, 'text>)>,
    /// The best relevance of each seed over the queries.
    relevance: Cow<'evidence, [f32]>,
    /// The best order and logit of each seed over the queries.
    order: Cow<'evidence, [f32]>,
    logits: Cow<'evidence, [f32]>,
    /// The best title relevance over the queries.
    title: f32,
}

/// Chooses passages on all pages, for one query after another, or for all queries together with [`Pairing::Fused`].
pub(super) fn choose_answers(
    all_evidence: &[QueryEvidence],
    pages: &[PreparedPage],
    request: &Request<&str>,
    question: &Question,
    tokens: &Tokens,
) -> Result<Answers> {
    let mut answers = Answers::default();
    if request.pairing == Pairing::Fused {
        let mut fused = PageQueries::pages(&all_evidence[0]);
        for query in &all_evidence[1..] {
            fused
                .iter_mut()
                .zip(&query.pages)
                .for_each(|(page_queries, evidence)| page_queries.add(query.query, evidence));
        }
        answers.choose(&fused, pages, question, tokens)?;
    } else {
        for query in all_evidence {
            answers.choose(&PageQueries::pages(query), pages, question, tokens)?;
        }
    }
    Ok(answers)
}

/// The order of the best passages of one page among the windows scored so far.
pub(super) fn scored_passages(evidence: &PageEvidence, page: &PreparedPage, question: &Question) -> Vec<f32> {
    let is_scored = evidence.is_scored();
    let scored = |values: &[f32]| -> Vec<f32> {
        let seeds = values.iter().enumerate();
        seeds.map(|(seed, value)| if is_scored(seed) { *value } else { f32::NEG_INFINITY }).collect()
    };
    let (relevance, order, logits) = (scored(&evidence.relevance), scored(&evidence.order), scored(&evidence.logits));
    let ranked = ranked(page, SeedScores { relevance: &relevance, order: &order, logits: &logits }, 0.0, question);
    let chosen = choose_passages(&[ranked], &question.bounds).pop().unwrap_or_default();
    chosen.into_iter().map(|passage| order[passage.seed]).filter(|order| order.is_finite()).collect()
}

fn ranked<'ranked>(
    prepared: &'ranked PreparedPage,
    scores: SeedScores<'ranked>,
    title: f32,
    question: &Question,
) -> RankedPage<'ranked> {
    let PreparedPage { page, parsed, tokens_before, .. } = prepared;
    let seeds =
        if question.expands() { Seeds::Units(question.max_passage_units()) } else { Seeds::Windows(&parsed.windows) };
    RankedPage { page, units: &parsed.units, seeds, scores, title, tokens_before, language: parsed.language }
}

impl<'evidence, 'page, 'text> PageQueries<'evidence, 'page, 'text> {
    fn pages(query: &'evidence QueryEvidence<'page, 'text>) -> Vec<Self> {
        let single = |evidence: &'evidence PageEvidence<'page, 'text>| Self {
            title: evidence.title,
            evidence: vec![(query.query, evidence)],
            relevance: Cow::Borrowed(evidence.relevance.as_slice()),
            order: Cow::Borrowed(evidence.order.as_slice()),
            logits: Cow::Borrowed(evidence.logits.as_slice()),
        };
        query.pages.iter().map(single).collect()
    }

    /// Adds a query. The evidence for a seed becomes that for the query it answers best.
    fn add(&mut self, query: usize, evidence: &'evidence PageEvidence<'page, 'text>) {
        let raise = |best: &mut [f32], values: &[f32]| {
            best.iter_mut().zip(values).for_each(|(best, value)| *best = best.max(*value));
        };
        raise(self.relevance.to_mut(), &evidence.relevance);
        raise(self.order.to_mut(), &evidence.order);
        raise(self.logits.to_mut(), &evidence.logits);
        self.title = self.title.max(evidence.title);
        self.evidence.push((query, evidence));
    }

    fn scores(&self) -> SeedScores<'_> {
        SeedScores { relevance: &self.relevance, order: &self.order, logits: &self.logits }
    }

    /// The query that a seed answers best, and its evidence.
    fn best(&self, seed: usize) -> (usize, &'evidence PageEvidence<'page, 'text>) {
        let is_best = |(_, evidence): &&(usize, &PageEvidence)| evidence.order.get(seed) == self.order.get(seed);
        *self.evidence.iter().find(is_best).unwrap_or(&self.evidence[0])
    }
}

impl Answers {
    /// Chooses passages on pages that share bounds, and appends one answer for each page.
    fn choose(
        &mut self,
        queries: &[PageQueries],
        pages: &[PreparedPage],
        question: &Question,
        tokens: &Tokens,
    ) -> Result<()> {
        let page_of = |queries: &PageQueries| &pages[queries.evidence[0].1.index];
        let each = queries.iter().map(|queries| ranked(page_of(queries), queries.scores(), queries.title, question));
        let mut chosen = choose_passages(&each.collect::<Vec<RankedPage>>(), &question.bounds);
        if question.bounds.counts_tokens() {
            let count = |page: usize, run: &Range<usize>| {
                let prepared = page_of(&queries[page]);
                tokens.count(prepared.parsed.units.span(run).of(prepared.page.text()))
            };
            enforce_token_limits(&question.bounds, &mut chosen, count)?;
        }
        for (queries, passages) in queries.iter().zip(chosen) {
            for passage in passages {
                self.push(queries.best(passage.seed), page_of(queries), &passage, question);
            }
            self.ends.push(column(self.scores.len()));
        }
        Ok(())
    }

    fn push(
        &mut self,
        (query, evidence): (usize, &PageEvidence),
        prepared: &PreparedPage,
        passage: &Passage,
        question: &Question,
    ) {
        let (units, run) = (&prepared.parsed.units, &passage.units);
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
        let header = units.header(run).map_or((0, 0), |header| {
            let header = prepared.page.chars(header);
            (column(header.start), column(header.end))
        });
        self.headers.extend([header.0, header.1]);
        let source = prepared.document.source_span(units.span(run));
        let source = prepared.source.as_ref().unwrap_or(&prepared.page).chars(source);
        self.sources.extend([column(source.start), column(source.end)]);
        self.scores.push(score(passage.logit));
        let (cosine, bm25) = evidence.best_scores(passage.seed);
        self.cosines.push(cosine);
        self.bm25_scores.push(bm25);
        self.pages.push(column(evidence.index));
        self.queries.push(column(query));
        if question.explain {
            self.explain(evidence, prepared, run);
        }
    }

    /// Finds the passage's words that are in the query too. Of a compound and its parts, only the longest match counts.
    fn explain(&mut self, evidence: &PageEvidence, prepared: &PreparedPage, run: &Range<usize>) {
        let span = prepared.parsed.units.span(run);
        let first_word = self.matches.query_words.len();
        self.matches.query_words.extend(evidence.terms.iter().map(|term| term.text.clone()));
        let mut matched_to = 0;
        for word in terms(span.of(prepared.page.text()), prepared.parsed.language) {
            let Some(index) = evidence.terms.iter().position(|term| term.term == word.term) else { continue };
            if word.span.start < matched_to {
                continue;
            }
            matched_to = word.span.end;
            let start = span.start + word.span.start;
            let chars = prepared.page.chars(crate::text::page::ByteSpan { start, end: span.start + word.span.end });
            self.matches.spans.extend([column(chars.start), column(chars.end)]);
            self.matches.words.push(column(first_word + index));
        }
        self.matches.ends.push(column(self.matches.words.len()));
    }
}
