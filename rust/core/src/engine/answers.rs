//! Answers: from the cosines and the words of all pages to the columns that Python gets.

use std::borrow::Cow;
use std::ops::Range;

use super::prepared::Prepared;
use super::spoken::{Inquiry, Spoken};
use super::{Pairing, Question, Request, Work, column};
use crate::error::Result;
use crate::formats::Format;
use crate::highlights::{Judged, Passage, Seeds, choose_passages};
use crate::pieces::Unit;
use crate::scores::relevance::score;
use crate::terms::terms;
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
    pub pieces: Vec<i64>,
    /// For each page how many of them were compared with a query.
    pub compared: Vec<i64>,
    /// For each highlight its score, from 0 to 1 (see [`crate::scores::relevance`]).
    pub scores: Vec<f32>,
    /// For each highlight the best cosine of the pieces in it.
    pub cosines: Vec<f32>,
    /// For each highlight the best BM25 of the pieces in it; 0 where words did not count.
    pub lexicals: Vec<f32>,
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

impl Question {
    /// Whether passages grow from sentences, instead of windows being returned as they are. Who skips text means the windows.
    pub(super) fn grows(&self) -> bool {
        self.grow && self.unit == Unit::Sentence && self.windows.step_size() <= self.windows.highlight_length()
    }

    /// Whether units are encoded beside the windows. Where words count, these tell the units of a window apart as well, for
    /// nothing; where windows are the units, once is enough.
    pub(super) fn encodes_units(&self) -> bool {
        self.grows()
            && !self.lexical.may_count()
            && (self.windows.highlight_length(), self.windows.step_size()) != (1, 1)
    }

    /// The units of the longest passage: as far as the windows around one unit reach.
    fn longest(&self) -> usize {
        self.windows.highlight_length().saturating_mul(2) - 1
    }
}

/// A page, and what speaks for each query that it has to answer at once.
struct Asked<'inquiry, 'page, 'text> {
    /// Each with its query.
    spoken: Vec<(usize, &'inquiry Spoken<'page, 'text>)>,
    /// The best relevance of each seed.
    relevance: Cow<'inquiry, [f32]>,
    /// The best of what the page's title adds.
    title: f32,
}

/// Chooses on all pages, query after query.
pub(super) fn choose_answers(
    inquiries: &[Inquiry],
    request: &Request,
    question: &Question,
    tokens: &Tokens,
) -> Result<Answers> {
    let mut answers = Answers::default();
    if request.pairing == Pairing::Fused {
        let mut fused = Asked::pages(&inquiries[0]);
        for inquiry in &inquiries[1..] {
            fused.iter_mut().zip(&inquiry.spoken).for_each(|(asked, spoken)| asked.add(inquiry.query, spoken));
        }
        answers.choose(&fused, question, tokens)?;
    } else {
        for inquiry in inquiries {
            answers.choose(&Asked::pages(inquiry), question, tokens)?;
        }
    }
    Ok(answers)
}

/// The best passages of a page by itself, of what was looked at.
pub(super) fn passages_of(spoken: &Spoken, question: &Question) -> Vec<Passage> {
    let is_seen = spoken.is_seen();
    let seeds = spoken.relevance.iter().enumerate();
    let relevance: Vec<f32> =
        seeds.map(|(seed, relevance)| if is_seen(seed) { *relevance } else { f32::NEG_INFINITY }).collect();
    let judged = judged(spoken, &relevance, 0.0, question);
    let mut chosen = choose_passages(&[judged], &question.bounds).pop().unwrap_or_default();
    chosen.retain(|passage| passage.relevance.is_finite());
    chosen
}

fn judged<'judged>(
    spoken: &'judged Spoken,
    relevance: &'judged [f32],
    title: f32,
    question: &Question,
) -> Judged<'judged> {
    let Prepared { page, reading, tokens_before, .. } = spoken.prepared;
    let seeds = if question.grows() { Seeds::Units(question.longest()) } else { Seeds::Windows(&reading.ranges) };
    Judged { page, units: &reading.units, seeds, relevance, title, tokens_before, language: reading.language }
}

impl<'inquiry, 'page, 'text> Asked<'inquiry, 'page, 'text> {
    /// Each page of an inquiry.
    fn pages(inquiry: &'inquiry Inquiry<'page, 'text>) -> Vec<Self> {
        let by = |spoken: &'inquiry Spoken<'page, 'text>| Self {
            title: spoken.title,
            spoken: vec![(inquiry.query, spoken)],
            relevance: Cow::Borrowed(spoken.relevance.as_slice()),
        };
        inquiry.spoken.iter().map(by).collect()
    }

    /// One more query; a seed is worth what it is to the query that it answers best.
    fn add(&mut self, query: usize, spoken: &'inquiry Spoken<'page, 'text>) {
        for (best, relevance) in self.relevance.to_mut().iter_mut().zip(&spoken.relevance) {
            *best = best.max(*relevance);
        }
        self.title = self.title.max(spoken.title);
        self.spoken.push((query, spoken));
    }

    /// What speaks for the query that a seed answers best.
    fn best(&self, seed: usize) -> (usize, &'inquiry Spoken<'page, 'text>) {
        let is_best = |(_, spoken): &&(usize, &Spoken)| spoken.relevance.get(seed) == self.relevance.get(seed);
        *self.spoken.iter().find(is_best).unwrap_or(&self.spoken[0])
    }
}

impl Answers {
    /// Chooses on pages that share bounds, and appends an answer for each.
    fn choose(&mut self, asked: &[Asked], question: &Question, tokens: &Tokens) -> Result<()> {
        let judged: Vec<Judged> =
            asked.iter().map(|asked| judged(asked.spoken[0].1, &asked.relevance, asked.title, question)).collect();
        let mut chosen = choose_passages(&judged, &question.bounds);
        if question.bounds.counts_tokens() {
            let count = |page: usize, run: &Range<usize>| {
                let prepared = asked[page].spoken[0].1.prepared;
                tokens.count(prepared.reading.units.span(run).of(prepared.page.text()))
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

    fn write(&mut self, (query, spoken): (usize, &Spoken), passage: &Passage, question: &Question) {
        let prepared = spoken.prepared;
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
        let (cosine, lexical) = spoken.evidence(passage.seed);
        self.cosines.push(cosine);
        self.lexicals.push(lexical);
        self.pages.push(column(spoken.page));
        self.queries.push(column(query));
        if question.explain {
            self.explain(spoken, run);
        }
    }

    /// Finds the words of a passage that the query has too; of a compound and its parts the longest that does.
    fn explain(&mut self, spoken: &Spoken, run: &Range<usize>) {
        let prepared = spoken.prepared;
        let span = prepared.reading.units.span(run);
        let first_word = self.matches.query_words.len();
        self.matches.query_words.extend(spoken.terms.iter().map(|term| term.text.clone()));
        let mut read_to = 0;
        for found in terms(span.of(prepared.page.text()), prepared.reading.language) {
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
