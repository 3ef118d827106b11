//! One call of [`Engine::highlights`]: pages go through in groups, rows in jobs, and answers come out in order.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::answers::choose_answers;
use super::titles::Titles;
use super::{Answers, Engine, Pairing, Question, Request, Work, all_rows, token_count};
use crate::batches::RowSource;
use crate::call::{self, Call};
use crate::error::Result;
use crate::formats::{Document, Format};
use crate::page::Page;
use crate::pieces::Units;
use crate::pool;
use crate::scores::cosines;
use crate::terms::{Language, PageTerms, guess_language};
use crate::tokens::{Role, TokenPage};
use crate::vectors::{Conductor, Pending};

/// Bytes of text that are cut and tokenized before their rows are handed in.
const GROUP_BYTES: usize = 256 * 1024;

/// Rows of one job: their vectors are held until they are scored.
const JOB_ROWS: usize = 4096;

/// Jobs of one call that may be unfinished; beyond it the caller waits before it cuts more.
const JOBS_IN_FLIGHT: usize = 4;

/// A page that was cut, tokenized and read for its words.
pub(super) struct Prepared<'text> {
    pub(super) document: &'text Document<'text>,
    pub(super) page: Page<'text>,
    /// The source, where that is not the text.
    pub(super) source: Option<Page<'text>>,
    /// The page's units.
    pub(super) units: Units,
    /// The windows over them.
    pub(super) ranges: Vec<Range<usize>>,
    /// The page's words, where they count.
    pub(super) terms: Option<PageTerms>,
    pub(super) language: Language,
    /// Tokens before each unit, and in all; empty where tokens are not bounded.
    pub(super) tokens_before: Vec<usize>,
    /// The ids of the windows, then those of the units where these are encoded too.
    pub(super) tokens: Arc<TokenPage>,
    cutting: Duration,
    tokenizing: Duration,
}

/// Rows of one page in a job: the page's index, and how many.
type Share = (usize, usize);

/// One call of [`Engine::highlights`].
pub(super) struct Run<'run, 'text> {
    pub(super) engine: &'run Engine,
    pub(super) conductor: Arc<Conductor>,
    pub(super) request: &'run Request<'text>,
    pub(super) question: &'run Question,
    pub(super) call: &'run Call<'run>,
    pub(super) work: Work,
}

/// A page that waits for its scores.
pub(super) struct Open<'text> {
    pub(super) prepared: Prepared<'text>,
    /// For each query that goes with the page, its index and the cosines so far, in the order of the rows.
    pub(super) cosines: Vec<(usize, Vec<f32>)>,
}

impl<'text> Run<'_, 'text> {
    /// Group after group: cut and tokenize, hand in, and take back what is finished. Then choose: what a score means
    /// depends on all the pages.
    pub(super) fn answer(mut self) -> Result<Answers> {
        let queries = self.encode(self.request.queries, Role::Query)?;
        let documents = self.read()?;
        let titles = self.titles(&documents, &queries)?;
        let mut open: Vec<Open> = Vec::with_capacity(documents.len());
        let mut jobs: VecDeque<(Vec<Share>, Pending)> = VecDeque::new();
        for group in groups(&documents) {
            let first = group.start;
            for (offset, prepared) in self.prepare(&documents, group)?.into_iter().enumerate() {
                let queries = self.request.queries_of(first + offset);
                open.push(Open { prepared, cosines: queries.map(|query| (query, Vec::new())).collect() });
            }
            for (shares, rows) in jobs_of(open.iter().enumerate().skip(first)) {
                while jobs.len() >= JOBS_IN_FLIGHT {
                    self.take_back(&mut jobs, &mut open, &queries)?;
                }
                self.work.tokens += token_count(&rows);
                let pending = self.conductor.submit(rows, self.engine.spec.dimension, self.call)?;
                jobs.push_back((shares, pending));
            }
        }
        while !jobs.is_empty() {
            self.take_back(&mut jobs, &mut open, &queries)?;
        }
        let began = Instant::now();
        let mut answers = choose_answers(&open, &titles, self.request, self.question, &self.engine.tokens)?;
        self.work.choosing += began.elapsed();
        answers.work = self.work;
        drop(open);
        answers.formats = documents.iter().map(Document::format).collect();
        answers.texts = documents.into_iter().map(Document::into_extracted).collect();
        Ok(answers)
    }

    /// Reads the sources; plain text costs nothing.
    fn read(&mut self) -> Result<Vec<Document<'text>>> {
        let Request { pages, format, .. } = *self.request;
        let bytes = if format == Format::Text { 0 } else { pages.iter().map(|source| source.len()).sum() };
        let (stop, deadline) = (self.call.stop().clone(), self.call.deadline());
        let began = Instant::now();
        let documents = self.engine.pool.run(self.call, bytes, || {
            pool::map(pages, |source| {
                call::check(&stop, deadline)?;
                Ok(Document::read(source, format))
            })
        });
        self.work.cutting += began.elapsed();
        documents
    }

    /// The vectors of a few short texts.
    fn encode(&mut self, texts: &[&str], role: Role) -> Result<Vec<Vec<f32>>> {
        let began = Instant::now();
        let page = self.engine.tokens.texts(texts, role, &|| Ok(()))?;
        let rows = all_rows(&Arc::new(page));
        self.work.tokens += token_count(&rows);
        self.work.tokenizing += began.elapsed();
        let dimension = self.engine.spec.dimension;
        let began = Instant::now();
        let vectors = self.conductor.submit(rows, dimension, self.call)?.wait(self.call)?;
        self.work.encoding += began.elapsed();
        Ok(vectors.chunks_exact(dimension).map(<[f32]>::to_vec).collect())
    }

    /// What the pages' titles say of each query; nothing where there are none to compare.
    fn titles(&mut self, documents: &[Document], queries: &[Vec<f32>]) -> Result<Titles> {
        let titled: Vec<(usize, &str)> = self.request.titled(documents);
        if titled.len() < 2 || self.request.pairing == Pairing::Each {
            return Ok(Titles::default());
        }
        let texts: Vec<&str> = titled.iter().map(|(_, title)| *title).collect();
        let vectors = self.encode(&texts, Role::Passage)?.concat();
        let cosines = queries.iter().map(|query| cosines(query, &vectors)).collect();
        Ok(Titles::read(&titled, cosines, self.request, self.question))
    }

    /// Cuts, tokenizes and reads a group of pages.
    fn prepare<'document>(
        &mut self,
        documents: &'document [Document<'text>],
        group: Range<usize>,
    ) -> Result<Vec<Prepared<'document>>>
    where
        'text: 'document,
    {
        let pages: Vec<(&Document, &str)> =
            documents[group.clone()].iter().zip(self.request.pages[group].iter().copied()).collect();
        let bytes = pages.iter().map(|(document, _)| document.text().len()).sum();
        let (engine, question) = (self.engine, self.question);
        let (stop, deadline) = (self.call.stop().clone(), self.call.deadline());
        let began = Instant::now();
        let prepared = engine.pool.run(self.call, bytes, || {
            pool::map(&pages, |(document, source)| {
                call::check(&stop, deadline)?;
                let began = Instant::now();
                let text = document.text();
                let page = Page::new(text);
                let source = (document.format() == Format::Html).then(|| Page::new(source));
                let go_on = || call::check(&stop, deadline);
                let units = engine.units(document, question.unit, &go_on)?;
                let ranges: Vec<Range<usize>> = question.windows.ranges(units.spans.len()).collect();
                let mut pieces = question.windows.over(&units.spans);
                if question.encodes_units() {
                    pieces.extend(&units.spans);
                }
                let cut = Instant::now();
                let tokens = Arc::new(engine.tokens.page(text, &pieces, &go_on)?);
                let language = guess_language(text);
                let terms = question.lexical.may_count().then(|| PageTerms::new(text, &units.spans, language));
                let tokens_before = if question.bounds.counts_tokens() {
                    engine.tokens.counts_before(text, &units.spans, &go_on)?
                } else {
                    Vec::new()
                };
                let tokenizing = cut.elapsed();
                Ok(Prepared {
                    document,
                    page,
                    source,
                    units,
                    ranges,
                    terms,
                    language,
                    tokens_before,
                    tokens,
                    cutting: cut - began,
                    tokenizing,
                })
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
            self.work.pieces += page.tokens.len();
            self.work.truncated += page.tokens.truncated;
        }
        Ok(prepared)
    }

    /// Waits for the oldest job and scores its rows.
    fn take_back(
        &mut self,
        jobs: &mut VecDeque<(Vec<Share>, Pending)>,
        open: &mut [Open],
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
            for (query, scores) in &mut open[page].cosines {
                scores.extend(cosines(&queries[*query], mine));
            }
        }
        self.work.choosing += began.elapsed();
        Ok(())
    }
}

/// Runs of neighbouring pages of about [`GROUP_BYTES`].
fn groups(documents: &[Document]) -> Vec<Range<usize>> {
    let mut groups = Vec::new();
    let (mut first, mut bytes) = (0, 0);
    for (page, document) in documents.iter().enumerate() {
        bytes += document.text().len();
        if bytes >= GROUP_BYTES || page + 1 == documents.len() {
            groups.push(first..page + 1);
            (first, bytes) = (page + 1, 0);
        }
    }
    groups
}

/// The rows of pages in jobs of at most [`JOB_ROWS`].
fn jobs_of<'open, 'text: 'open>(
    pages: impl Iterator<Item = (usize, &'open Open<'text>)>,
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
                shares.push((page, rows.len()));
                filled.append(&mut rows);
            }
            rows = rest;
        }
    }
    jobs
}
