//! One call of [`Engine::highlights`]: pages go through in groups, rows in jobs, and answers come out in order.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Answers, Engine, Pairing, Question, Work, all_rows, token_count};
use crate::batches::RowSource;
use crate::call::{self, Call};
use crate::error::Result;
use crate::highlights::{Scored, choose};
use crate::page::{ByteSpan, Page};
use crate::pool;
use crate::scores::cosines;
use crate::tokens::{Role, TokenPage};
use crate::vectors::{Conductor, Pending};

/// Bytes of text that are cut and tokenized before their rows are handed in.
const GROUP_BYTES: usize = 256 * 1024;

/// Rows of one job: their vectors are held until they are scored.
const JOB_ROWS: usize = 4096;

/// Jobs of one call that may be unfinished; beyond it the caller waits before it cuts more.
const JOBS_IN_FLIGHT: usize = 4;

/// A page that was cut and tokenized.
struct Prepared<'text> {
    page: Page<'text>,
    pieces: Vec<ByteSpan>,
    tokens: Arc<TokenPage>,
    cutting: Duration,
    tokenizing: Duration,
}

/// Rows of one page in a job: the page's index, and how many.
type Share = (usize, usize);

/// One call of [`Engine::highlights`].
pub(super) struct Run<'run, 'text> {
    pub(super) engine: &'run Engine,
    pub(super) conductor: Arc<Conductor>,
    pub(super) pages: &'run [&'text str],
    pub(super) pairing: Pairing,
    pub(super) question: &'run Question,
    pub(super) call: &'run Call<'run>,
    pub(super) work: Work,
}

/// A page that waits for its scores.
struct Open<'text> {
    prepared: Prepared<'text>,
    /// For each query that goes with the page, its index and the scores so far.
    scores: Vec<(usize, Vec<f32>)>,
}

impl<'text> Run<'_, 'text> {
    pub(super) fn encode_queries(&mut self, queries: &[&str]) -> Result<Vec<Vec<f32>>> {
        let began = Instant::now();
        let page = self.engine.tokens.texts(queries, Role::Query, &|| Ok(()))?;
        let rows = all_rows(&Arc::new(page));
        self.work.tokens += token_count(&rows);
        self.work.tokenizing += began.elapsed();
        let dimension = self.engine.spec.dimension;
        let began = Instant::now();
        let vectors = self.conductor.submit(rows, dimension, self.call)?.wait(self.call)?;
        self.work.encoding += began.elapsed();
        Ok(vectors.chunks_exact(dimension).map(<[f32]>::to_vec).collect())
    }

    /// Group after group: cut and tokenize, hand in, and take back what is finished.
    pub(super) fn answer(&mut self, queries: &[Vec<f32>]) -> Result<Answers> {
        let mut open: VecDeque<(usize, Open<'text>)> = VecDeque::new();
        let mut jobs: VecDeque<(Vec<Share>, Pending)> = VecDeque::new();
        let mut answers = Answers::default();
        for group in groups(self.pages) {
            let first = group.start;
            for (offset, prepared) in self.prepare(group)?.into_iter().enumerate() {
                let page = first + offset;
                let scores = self.queries_of(page, queries.len()).map(|query| (query, Vec::new())).collect();
                open.push_back((page, Open { prepared, scores }));
            }
            let from = open.len() - open.iter().rev().take_while(|(page, _)| *page >= first).count();
            for (shares, rows) in jobs_of(open.iter().skip(from)) {
                while jobs.len() >= JOBS_IN_FLIGHT {
                    self.take_back(&mut jobs, &mut open, queries)?;
                }
                self.work.tokens += token_count(&rows);
                let pending = self.conductor.submit(rows, self.engine.spec.dimension, self.call)?;
                jobs.push_back((shares, pending));
            }
            self.close_complete(&mut open, &mut answers);
        }
        while !jobs.is_empty() {
            self.take_back(&mut jobs, &mut open, queries)?;
            self.close_complete(&mut open, &mut answers);
        }
        self.close_complete(&mut open, &mut answers);
        Ok(answers)
    }

    fn prepare(&mut self, group: Range<usize>) -> Result<Vec<Prepared<'text>>> {
        let texts = &self.pages[group];
        let bytes = texts.iter().map(|text| text.len()).sum();
        let (engine, question) = (self.engine, self.question);
        let (stop, deadline) = (self.call.stop().clone(), self.call.deadline());
        let began = Instant::now();
        let prepared = engine.pool.run(self.call, bytes, || {
            pool::map(texts, |text| {
                call::check(&stop, deadline)?;
                let began = Instant::now();
                let page = Page::new(text);
                let pieces = engine.cut(text, question.unit, question.windows)?;
                let cut = Instant::now();
                let go_on = || call::check(&stop, deadline);
                let tokens = Arc::new(engine.tokens.page(text, &pieces, &go_on)?);
                Ok(Prepared { page, pieces, tokens, cutting: cut - began, tokenizing: cut.elapsed() })
            })
        })?;
        // The pages' own times add up over threads; they share out the caller's.
        let (cutting, tokenizing) =
            prepared.iter().fold((Duration::ZERO, Duration::ZERO), |(cutting, tokenizing), page| {
                (cutting + page.cutting, tokenizing + page.tokenizing)
            });
        let elapsed = began.elapsed();
        let share = cutting.as_secs_f64() / (cutting + tokenizing).as_secs_f64().max(1e-9);
        self.work.cutting += elapsed.mul_f64(share);
        self.work.tokenizing += elapsed.mul_f64(1.0 - share);
        for page in &prepared {
            self.work.pieces += page.pieces.len();
            self.work.truncated += page.tokens.truncated;
        }
        Ok(prepared)
    }

    fn queries_of(&self, page: usize, queries: usize) -> Range<usize> {
        match self.pairing {
            Pairing::OneQuery => 0..1,
            Pairing::EachItsOwn => page..page + 1,
            Pairing::OnePage => 0..queries,
        }
    }

    /// Waits for the oldest job and scores its rows.
    fn take_back(
        &mut self,
        jobs: &mut VecDeque<(Vec<Share>, Pending)>,
        open: &mut VecDeque<(usize, Open<'text>)>,
        queries: &[Vec<f32>],
    ) -> Result<()> {
        let Some((shares, pending)) = jobs.pop_front() else { return Ok(()) };
        let began = Instant::now();
        let vectors = pending.wait(self.call)?;
        self.work.encoding += began.elapsed();
        let began = Instant::now();
        let mut rest = vectors.as_slice();
        for (page, rows) in shares {
            let (mine, others) = rest.split_at(rows * self.engine.spec.dimension);
            rest = others;
            let first = open.front().map_or(0, |(first, _)| *first);
            for (query, scores) in &mut open[page - first].1.scores {
                scores.extend(cosines(&queries[*query], mine));
            }
        }
        self.work.choosing += began.elapsed();
        Ok(())
    }

    /// Chooses on the pages at the front that have all their scores.
    fn close_complete(&mut self, open: &mut VecDeque<(usize, Open<'text>)>, answers: &mut Answers) {
        let began = Instant::now();
        while open
            .front()
            .is_some_and(|(_, page)| page.scores.iter().all(|(_, scores)| scores.len() == page.prepared.pieces.len()))
        {
            let Some((page, Open { prepared, scores })) = open.pop_front() else { break };
            for (query, scores) in scores {
                let chosen = choose(&prepared.page, &prepared.pieces, &scores, &self.question.bounds);
                for Scored { span, score } in chosen {
                    let span = prepared.page.chars(span);
                    answers.spans.extend([column(span.start), column(span.end)]);
                    answers.scores.push(score);
                    answers.pages.push(column(page));
                    answers.queries.push(column(query));
                }
                answers.ends.push(column(answers.scores.len()));
            }
        }
        self.work.choosing += began.elapsed();
    }
}

/// Runs of neighbouring pages of about [`GROUP_BYTES`].
fn groups(pages: &[&str]) -> Vec<Range<usize>> {
    let mut groups = Vec::new();
    let (mut first, mut bytes) = (0, 0);
    for (page, text) in pages.iter().enumerate() {
        bytes += text.len();
        if bytes >= GROUP_BYTES || page + 1 == pages.len() {
            groups.push(first..page + 1);
            (first, bytes) = (page + 1, 0);
        }
    }
    groups
}

/// The rows of pages in jobs of at most [`JOB_ROWS`].
fn jobs_of<'open, 'text: 'open>(
    pages: impl Iterator<Item = &'open (usize, Open<'text>)>,
) -> Vec<(Vec<Share>, Vec<RowSource>)> {
    let mut jobs: Vec<(Vec<Share>, Vec<RowSource>)> = Vec::new();
    for (page, Open { prepared, .. }) in pages {
        let mut rows = all_rows(&prepared.tokens);
        while !rows.is_empty() {
            let room = match jobs.last() {
                Some((_, filled)) if filled.len() < JOB_ROWS => JOB_ROWS - filled.len(),
                _ => {
                    jobs.push((Vec::new(), Vec::new()));
                    JOB_ROWS
                }
            };
            let rest = rows.split_off(room.min(rows.len()));
            if let Some((shares, filled)) = jobs.last_mut() {
                shares.push((*page, rows.len()));
                filled.append(&mut rows);
            }
            rows = rest;
        }
    }
    jobs
}

/// A count or an index, as numpy's default integer.
fn column(value: usize) -> i64 {
    i64::try_from(value).expect("nothing in memory has 2^63 parts")
}
