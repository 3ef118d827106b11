//! One call of [`Engine::highlights`]: pages go through in groups, rows in jobs, and answers come out in order.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use super::answers::choose_answers;
use super::cache::Key;
use super::reading::Reading;
use super::titles::Titles;
use super::{Answers, Engine, Pairing, Question, Request, Work, all_rows, token_count};
use crate::batches::RowSource;
use crate::call::{self, Call};
use crate::error::Result;
use crate::formats::{Document, Format};
use crate::page::Page;
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

/// A page as a call has it.
pub(super) struct Prepared<'text> {
    pub(super) document: &'text Document<'text>,
    pub(super) page: Page<'text>,
    /// The source, where that is not the text.
    pub(super) source: Option<Page<'text>>,
    pub(super) reading: Arc<Reading>,
    /// Tokens before each unit, and in all; empty where tokens are not bounded.
    pub(super) tokens_before: Arc<[usize]>,
    /// What has to be encoded; nothing where the vectors are known, or will be.
    tokens: Option<Arc<TokenPage>>,
}

/// Which pages of a call are the same.
struct Sames {
    /// For each page what it is kept under, where anything is kept or may be the same.
    keys: Vec<Option<Key>>,
    /// For each page the first one that is the same, if that is another.
    first: Vec<Option<usize>>,
    /// For each page the queries that it and those that are the same have to answer.
    queries: Vec<Vec<usize>>,
}

/// Which rows of a job are whose: a page, and for each of its next rows the one of the job.
type Share = (usize, Vec<usize>);

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
    /// The vectors so far, where they will be kept.
    vectors: Option<Vec<f32>>,
}

impl<'text> Run<'_, 'text> {
    /// Group after group: cut and tokenize, hand in, and take back what is finished. Then choose: what a score means
    /// depends on all the pages.
    pub(super) fn answer(mut self) -> Result<Answers> {
        let queries = self.encode(self.request.queries, Role::Query)?;
        let documents = self.read()?;
        let titles = self.titles(&documents, &queries)?;
        let mut open: Vec<Open> = Vec::with_capacity(documents.len());
        let sames = self.sames(&documents)?;
        let mut jobs: VecDeque<(Vec<Share>, Pending)> = VecDeque::new();
        for group in groups(&documents) {
            let first = group.start;
            self.prepare(&documents, group, &sames, &queries, &mut open)?;
            for (shares, rows) in jobs_of(open.iter().enumerate().skip(first)) {
                while jobs.len() >= JOBS_IN_FLIGHT {
                    self.take_back(&mut jobs, &mut open, &queries)?;
                }
                self.work.encoded += rows.len();
                self.work.tokens += token_count(&rows);
                let pending = self.conductor.submit(rows, self.engine.spec.dimension, self.call)?;
                jobs.push_back((shares, pending));
            }
        }
        while !jobs.is_empty() {
            self.take_back(&mut jobs, &mut open, &queries)?;
        }
        self.keep(&sames, &mut open);
        let began = Instant::now();
        let mut answers = choose_answers(&open, &titles, self.request, self.question, &self.engine.tokens)?;
        self.work.choosing += began.elapsed();
        answers.work = self.work;
        drop(open);
        answers.formats = documents.iter().map(Document::format).collect();
        answers.texts = documents.into_iter().map(Document::into_extracted).collect();
        Ok(answers)
    }

    /// Keeps what was read and encoded, and gives the pages that are the same as others what those have.
    fn keep(&mut self, sames: &Sames, open: &mut [Open]) {
        for page in 0..open.len() {
            let Open { prepared, vectors, .. } = &mut open[page];
            if let (Some(key), Some(vectors)) = (sames.keys[page], vectors.take()) {
                let reading = Reading { vectors: Some(vectors), ..Reading::clone(&prepared.reading) };
                self.engine.cache.insert(key, Arc::new(reading));
            }
            if let Some(same) = sames.first[page] {
                let mine = self.request.queries_of(page);
                open[page].cosines =
                    open[same].cosines.iter().filter(|(query, _)| mine.contains(query)).cloned().collect();
            }
        }
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

    /// Finds the pages that are the same: those are read and encoded once.
    fn sames(&mut self, documents: &[Document]) -> Result<Sames> {
        let pages = documents.len();
        let mut queries: Vec<Vec<usize>> = (0..pages).map(|page| self.request.queries_of(page).collect()).collect();
        if !self.engine.cache.keeps() && pages == 1 {
            return Ok(Sames { keys: vec![None], first: vec![None], queries });
        }
        let (question, began) = (self.question, Instant::now());
        let bytes = documents.iter().map(|document| document.text().len()).sum();
        let key = |document: &Document| Ok(Some(Key::of(document, question)));
        let keys = self.engine.pool.run(self.call, bytes, || pool::map(documents, key))?;
        let mut first_with: HashMap<Key, usize> = HashMap::with_capacity(pages);
        let mut first = vec![None; pages];
        for (page, key) in keys.iter().enumerate() {
            let known = key.map_or(page, |key| *first_with.entry(key).or_insert(page));
            if known != page {
                first[page] = Some(known);
                let more = std::mem::take(&mut queries[page]);
                queries[known].extend(more);
                queries[known].sort_unstable();
                queries[known].dedup();
            }
        }
        self.work.cutting += began.elapsed();
        Ok(Sames { keys, first, queries })
    }

    /// Cuts, tokenizes and reads a group of pages, where they are not known, and opens them.
    fn prepare<'document>(
        &mut self,
        documents: &'document [Document<'text>],
        group: Range<usize>,
        sames: &Sames,
        queries: &[Vec<f32>],
        open: &mut Vec<Open<'document>>,
    ) -> Result<()>
    where
        'text: 'document,
    {
        let unknown = |page: usize| sames.first[page].is_none();
        let kept = |page: usize| {
            let key = sames.keys[page].filter(|_| unknown(page));
            (page, key.and_then(|key| self.engine.cache.get(&key)))
        };
        let pages: Vec<(usize, Option<Arc<Reading>>)> = group.map(kept).collect();
        let bytes = pages.iter().map(|(page, _)| documents[*page].text().len()).sum();
        let (engine, question) = (self.engine, self.question);
        let (stop, deadline) = (self.call.stop().clone(), self.call.deadline());
        let go_on = || call::check(&stop, deadline);
        let began = Instant::now();
        let read = engine.pool.run(self.call, bytes, || {
            pool::map(&pages, |(page, kept)| match kept {
                None if unknown(*page) => engine.read(&documents[*page], question, &go_on).map(Some),
                _ => Ok(None),
            })
        })?;
        // The pages' own times add up over threads; they share out the caller's.
        let (mut cutting, mut tokenizing) = (Duration::ZERO, Duration::ZERO);
        for ((number, kept), fresh) in pages.into_iter().zip(read) {
            let (document, mut tokens) = (&documents[number], None);
            let reading = match (fresh, kept, sames.first[number]) {
                (Some(fresh), ..) => {
                    cutting += fresh.cutting;
                    tokenizing += fresh.tokenizing;
                    tokens = Some(fresh.tokens);
                    Arc::new(fresh.reading)
                }
                (_, Some(kept), _) => kept,
                (_, _, Some(same)) => Arc::clone(&open[same].prepared.reading),
                (None, None, None) => Arc::default(),
            };
            self.work.pieces += reading.rows;
            self.work.truncated += reading.truncated;
            let tokens_before = match sames.first[number] {
                Some(same) => Arc::clone(&open[same].prepared.tokens_before),
                None if question.bounds.counts_tokens() => {
                    engine.tokens.counts_before(document.text(), &reading.units.spans, &go_on)?.into()
                }
                None => Arc::default(),
            };
            let page = Page::new(document.text());
            let source = (document.format() == Format::Html).then(|| Page::new(self.request.pages[number]));
            let prepared = Prepared { document, page, source, reading, tokens_before, tokens };
            open.push(self.open(prepared, &sames.queries[number], queries));
        }
        let elapsed = began.elapsed();
        let share = cutting.as_secs_f64() / (cutting + tokenizing).as_secs_f64().max(1e-9);
        self.work.cutting += elapsed.mul_f64(share);
        self.work.tokenizing += elapsed.mul_f64(1.0 - share);
        Ok(())
    }

    /// A page whose cosines are to come, or come from the vectors that were kept.
    fn open<'document>(&self, prepared: Prepared<'document>, asked: &[usize], queries: &[Vec<f32>]) -> Open<'document> {
        let Reading { vectors, rows, .. } = &*prepared.reading;
        let score =
            |query: &usize| (*query, vectors.as_ref().map_or(Vec::new(), |kept| cosines(&queries[*query], kept)));
        let cosines = asked.iter().map(score).collect();
        let cache = &self.engine.cache;
        let bytes = prepared.reading.bytes() + rows * self.engine.spec.dimension * size_of::<f32>();
        let is_kept = prepared.tokens.is_some() && cache.keeps() && cache.has_room_for(bytes);
        Open { prepared, cosines, vectors: is_kept.then(Vec::new) }
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
        let dimension = self.engine.spec.dimension;
        for (page, rows) in shares {
            let page = &mut open[page];
            for run in rows.chunk_by(|row, next| row + 1 == *next) {
                let mine = &vectors[run[0] * dimension..(run[0] + run.len()) * dimension];
                for (query, scores) in &mut page.cosines {
                    scores.extend(cosines(&queries[*query], mine));
                }
                if let Some(vectors) = &mut page.vectors {
                    vectors.extend(mine);
                }
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

/// The rows of pages in jobs of at most [`JOB_ROWS`]; rows of a job that are equal are encoded once.
fn jobs_of<'open, 'text: 'open>(
    pages: impl Iterator<Item = (usize, &'open Open<'text>)>,
) -> Vec<(Vec<Share>, Vec<RowSource>)> {
    let mut jobs: Vec<(Vec<Share>, Vec<RowSource>)> = Vec::new();
    let mut known: FxHashMap<Vec<i32>, usize> = FxHashMap::default();
    for (page, Open { prepared, .. }) in pages {
        let Some(tokens) = &prepared.tokens else { continue };
        let mut is_new = true;
        for window in 0..tokens.len() {
            if jobs.last().is_none_or(|(_, rows)| rows.len() == JOB_ROWS) {
                jobs.push((Vec::new(), Vec::new()));
                known.clear();
                is_new = true;
            }
            let Some((shares, rows)) = jobs.last_mut() else { continue };
            let row = *known.entry(tokens.row(window)).or_insert_with(|| {
                rows.push(RowSource { page: Arc::clone(tokens), window });
                rows.len() - 1
            });
            match shares.last_mut() {
                Some((_, share)) if !is_new => share.push(row),
                _ => shares.push((page, vec![row])),
            }
            is_new = false;
        }
    }
    jobs
}
