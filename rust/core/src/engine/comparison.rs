//! Tokenizes candidate windows, submits them in jobs, and scores them against the queries when their vectors are back:
//! by cosine, or with late interaction by `MaxSim`, which scores their units too.
//!
//! Jobs are pipelined: devices encode one while the caller tokenizes the next. So memory is bounded by the jobs in
//! flight, not by the pages.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use rustc_hash::FxHashMap;

use super::cache::RowVectors;
use super::context::CallContext;
use super::documents::ReadPages;
use super::token_count;
use crate::encoder::cosine::cosines;
use crate::error::Result;
use crate::ranking::maxsim::{QueryTokens, WindowTokens};
use crate::ranking::parsed_page::PreparedPage;
use crate::ranking::prediction::Prediction;
use crate::ranking::query_match::Query;
use crate::ranking::scored_windows::ScoredWindows;
use crate::ranking::selection::Selection;
use crate::runtime::profiling::Stage;
use crate::runtime::tasks::yield_now;
use crate::runtime::text_pool;
use crate::scheduler::Pending;
use crate::scheduler::batches::{BatchQueries, RowSource, Wanted};
use crate::text::page::ByteSpan;
use crate::tokens::{Check, PlacedRows, TokenPlace, Tokens};

/// Bytes of windows that are tokenized together, and then submitted.
const TOKENIZE_BYTES: usize = 512 * 1024;

/// Rows of one job, and of one page in it. Their vectors are held until they are scored.
const JOB_ROWS: usize = 4096;

/// The same with late interaction, where each row has many vectors.
const LATE_JOB_ROWS: usize = 256;

/// Bytes of text that make a token, at least: for the size of vectors that are not there yet.
const LEAST_TOKEN_BYTES: usize = 3;

/// Devices compute cosines only if the queries are at most one for each of this number of dimensions. Beyond that, the
/// queries that go with every batch are larger than the vectors they save.
const DIMENSIONS_PER_QUERY: usize = 8;

/// Unfinished jobs of one call: one that is encoded, and one that is ready when it ends. With more the caller waits
/// before it tokenizes on. Jobs take turns on the devices, so a later call waits for one batch of each of these.
pub(super) const JOBS_IN_FLIGHT: usize = 2;

/// The cosines of a call's rows with its queries, as far as rows are scored.
pub(super) struct Comparison<'page> {
    pages: &'page [PreparedPage<'page>],
    read: &'page ReadPages<'page>,
    queries: &'page [Query<'page>],
    /// For each page. Duplicates share the first one's entry.
    scored: Vec<ScoredRows>,
    /// The queries, if devices compute the cosines.
    device_queries: Option<Arc<BatchQueries>>,
    /// The tokens of each query with late interaction; otherwise empty.
    query_tokens: Vec<QueryTokens>,
    /// Values of a vector.
    dimension: usize,
}

struct InFlightJob {
    pages: Vec<PageRows>,
    /// Whether it returns cosines instead of vectors.
    returns_cosines: bool,
    /// With late interaction the number of tokens before each row; otherwise empty.
    token_starts: Vec<usize>,
    pending: Pending,
}

struct ScoredRows {
    is_scored: Vec<bool>,
    /// For each query that searches the page or a duplicate, in order.
    cosines: Vec<QueryCosines>,
    /// The number of them longer than the model's limit.
    truncated: usize,
    /// The vectors encoded for this call, if they are to be cached.
    new_vectors: Option<RowVectors>,
}

struct QueryCosines {
    query: usize,
    /// For each row of the page, and with late interaction after them for each unit; NaN for those without a score.
    rows: Vec<f32>,
}

struct RowChunk {
    page: usize,
    rows: Vec<usize>,
}

struct PageRows {
    page: usize,
    /// Pairs of the page's row and the job's row, in order. Equal rows share a row of the job.
    rows: Vec<(usize, usize)>,
    /// With late interaction the places of each row's tokens; otherwise empty.
    places: Vec<Vec<TokenPlace>>,
}

/// The pages and the rows of a job.
type NewJob = (Vec<PageRows>, Vec<RowSource>);

impl<'page> Comparison<'page> {
    pub(super) fn new(
        pages: &'page [PreparedPage<'page>],
        read: &'page ReadPages<'page>,
        queries: &'page [Query<'page>],
        context: &CallContext<'_, '_>,
    ) -> Self {
        let spec = &context.engine.spec;
        let is_late = context.engine.is_late_interaction();
        let unscored = |page: &PreparedPage| ScoredRows {
            is_scored: vec![false; page.parsed.rows],
            cosines: Vec::new(),
            truncated: 0,
            new_vectors: None,
        };
        let device_computes = spec.capabilities.cosines && queries.len() * DIMENSIONS_PER_QUERY <= spec.dimension;
        let device_queries = device_computes
            .then(|| Arc::new(BatchQueries::new(queries.iter().map(|query| &*query.vector), spec.dimension)));
        let dimension = spec.dimension;
        let tokens = queries.iter().filter(|_| is_late).map(|query| QueryTokens::new(&query.vector, dimension));
        let (query_tokens, scored) = (tokens.collect(), pages.iter().map(unscored).collect());
        Self { pages, read, queries, scored, device_queries, query_tokens, dimension }
    }

    /// Caches what was encoded, and counts the rows that were scored. Returns their number for each page.
    pub(super) fn finish(self, context: &mut CallContext<'_, '_>) -> Vec<usize> {
        let Self { pages, read, scored, .. } = self;
        let count = |first: &usize| scored[*first].is_scored.iter().filter(|is_scored| **is_scored).count();
        let rows_scored: Vec<usize> = read.first.iter().map(count).collect();
        context.work.windows_scored = rows_scored.iter().sum();
        context.work.truncated = read.first.iter().map(|first| scored[*first].truncated).sum();
        let firsts = scored.into_iter().enumerate().filter(|(page, _)| read.first[*page] == *page);
        for (page, scored) in firsts {
            let cached = &read.cached[page];
            // Of pages that were not encoded, only the parsed page is kept.
            let parsed_only = || (context.parsing.keeps_tokens && cached.is_none()).then(RowVectors::default);
            if let (Some(key), Some(new)) = (read.keys[page], scored.new_vectors.or_else(parsed_only)) {
                context.engine.cache.insert_page(key, cached.as_deref(), &pages[page].parsed, new);
            }
        }
        rows_scored
    }

    /// For each page, the selected rows without a score, sorted. They count as scored from now on.
    fn take_unscored(&mut self, predictions: &[Vec<Prediction>], selections: &[Vec<Selection>]) -> Vec<Vec<usize>> {
        let mut unscored = vec![Vec::new(); self.pages.len()];
        let is_late = self.is_late();
        for (query, (searched, selections)) in predictions.iter().zip(selections).enumerate() {
            for (prediction, selection) in searched.iter().zip(selections) {
                let page = self.read.first[prediction.page()];
                let (rows, scored) = (self.pages[page].parsed.rows, &mut self.scored[page]);
                let scores_units = is_late && prediction.matched.has_unit_seeds();
                if scored.cosines.last().is_none_or(|last| last.query < query) {
                    let units = if scores_units { prediction.matched.seed_count() } else { 0 };
                    scored.cosines.push(QueryCosines { query, rows: vec![f32::NAN; rows + units] });
                }
                for row in selection.windows.rows(rows) {
                    if !std::mem::replace(&mut scored.is_scored[row], true) {
                        unscored[page].push(row);
                    }
                }
            }
        }
        for rows in &mut unscored {
            rows.sort_unstable();
        }
        unscored
    }

    /// The cosines of selected windows, which are all scored.
    fn scored_windows<'query>(
        &self,
        query: usize,
        prediction: &'query Prediction<'query>,
        selection: Selection,
    ) -> ScoredWindows<'query> {
        let cosines = &self.scored[self.read.first[prediction.page()]].cosines;
        let position = cosines.partition_point(|of| of.query < query);
        ScoredWindows::new(prediction, selection, &cosines[position].rows)
    }

    fn is_late(&self) -> bool {
        !self.query_tokens.is_empty()
    }

    /// Scores the rows of a page whose vectors are cached, and returns the others.
    fn score_cached(&mut self, context: &CallContext<'_, '_>, page: usize, rows: Vec<usize>) -> Result<Vec<usize>> {
        let Some(cached) = &self.read.cached[page] else { return Ok(rows) };
        let (mut hits, mut misses) = (Vec::new(), Vec::new());
        for row in rows {
            match cached.vectors.position(row) {
                Some(position) => hits.push((row, position)),
                None => misses.push(row),
            }
        }
        self.scored[page].truncated += hits.iter().filter(|(row, _)| cached.vectors.is_truncated(*row)).count();
        if self.is_late() {
            let tokens: Vec<(usize, Arc<WindowTokens>)> =
                hits.into_iter().map(|(row, position)| (row, Arc::clone(&cached.vectors.tokens[position]))).collect();
            self.score_tokens(context, page, &tokens)?;
        } else {
            self.score(page, &hits, &cached.vectors.values);
        }
        Ok(misses)
    }

    /// Collects this call's vectors of a page for the cache, if the cache would admit them.
    fn plan_caching(&mut self, context: &CallContext<'_, '_>, page: usize, rows: &[usize]) {
        let size = if self.is_late() {
            let bytes: usize = rows.iter().map(|row| self.pages[page].parsed.row(*row).len()).sum();
            WindowTokens::bytes_of(bytes / LEAST_TOKEN_BYTES, self.dimension)
        } else {
            RowVectors::bytes_of(rows.len(), self.dimension)
        };
        let (cached, new) = (&self.read.cached[page], &mut self.scored[page].new_vectors);
        let known =
            cached.as_ref().map_or(0, |cached| cached.vectors.bytes()) + new.as_ref().map_or(0, RowVectors::bytes);
        let bytes = self.pages[page].parsed.bytes() + known + size;
        let cache = &context.engine.cache;
        if !cache.is_enabled() || !cache.admits(bytes) {
            *new = None;
        } else if !rows.is_empty() {
            new.get_or_insert_default();
        }
    }

    /// Tokenizes rows and distributes them over jobs of at most [`JOB_ROWS`]. Equal rows of a job are encoded once.
    fn build_jobs(&mut self, context: &mut CallContext<'_, '_>, chunks: &[RowChunk]) -> Result<Vec<NewJob>> {
        let began = Instant::now();
        let bytes = chunks.iter().map(|chunk| chunk.bytes(self.pages)).sum();
        let engine = context.engine;
        let is_late = self.is_late();
        let job_rows = if is_late { LATE_JOB_ROWS } else { JOB_ROWS };
        let tokenized = engine.pool.run(context.call, bytes, |check| {
            text_pool::map(chunks, |chunk| {
                let rows = chunk.tokenize(self.pages, &engine.tokens, is_late, check)?;
                Ok((Arc::new(rows.0), rows.1))
            })
        });
        context.record(Stage::Tokenize, began);
        let mut jobs: Vec<NewJob> = Vec::new();
        let mut job_row_of: FxHashMap<Vec<i32>, usize> = FxHashMap::default();
        for (chunk, (tokens, mut places)) in chunks.iter().zip(tokenized?) {
            self.scored[chunk.page].add_truncated(chunk, &tokens.truncated);
            let mut is_new = true;
            for (window, row) in chunk.rows.iter().enumerate() {
                if jobs.last().is_none_or(|(_, rows)| rows.len() == job_rows) {
                    jobs.push((Vec::new(), Vec::new()));
                    job_row_of.clear();
                    is_new = true;
                }
                let Some((pages, rows)) = jobs.last_mut() else { continue };
                let job_row = *job_row_of.entry(tokens.row(window)).or_insert_with(|| {
                    rows.push(RowSource { page: Arc::clone(&tokens), window });
                    rows.len() - 1
                });
                if is_new {
                    pages.push(PageRows { page: chunk.page, rows: Vec::new(), places: Vec::new() });
                    is_new = false;
                }
                let Some(page) = pages.last_mut() else { continue };
                page.rows.push((*row, job_row));
                page.places.extend(places.get_mut(window).map(std::mem::take));
            }
        }
        Ok(jobs)
    }

    /// The queries for a job that may return cosines: none of its vectors is to be cached.
    fn device_queries(&self, pages: &[PageRows]) -> Option<Arc<BatchQueries>> {
        let is_cached = |rows: &PageRows| self.scored[rows.page].new_vectors.is_some();
        self.device_queries.clone().filter(|_| !pages.iter().any(is_cached))
    }

    /// Stores cosines that a device computed. `rows` pairs rows of the page with rows of the job.
    fn set_cosines(&mut self, page: usize, rows: &[(usize, usize)], cosines: &[f32]) {
        let count = self.queries.len();
        for QueryCosines { query, rows: scored } in &mut self.scored[page].cosines {
            for (row, job_row) in rows {
                scored[*row] = cosines[job_row * count + *query];
            }
        }
    }

    /// Scores vectors of a page. `rows` pairs rows of the page with positions in `vectors`.
    fn score(&mut self, page: usize, rows: &[(usize, usize)], vectors: &[f32]) {
        let runs = || rows.chunk_by(|one, next| (one.0 + 1, one.1 + 1) == *next);
        for QueryCosines { query, rows: scored } in &mut self.scored[page].cosines {
            let query = &*self.queries[*query].vector;
            for run in runs() {
                let (row, position) = run[0];
                let values = &vectors[position * query.len()..(position + run.len()) * query.len()];
                scored[row..row + run.len()].copy_from_slice(&cosines(query, values));
            }
        }
    }
}

impl Comparison<'_> {
    /// Scores rows of a page by the vectors of their tokens, and the units in them: a unit has the best score of the windows
    /// around it.
    fn score_tokens(
        &mut self,
        context: &CallContext<'_, '_>,
        page: usize,
        rows: &[(usize, Arc<WindowTokens>)],
    ) -> Result<()> {
        let Self { pages, scored, query_tokens, .. } = self;
        let (parsed, of_page) = (&pages[page].parsed, &mut scored[page]);
        let queries: Vec<&QueryTokens> = of_page.cosines.iter().map(|of| &query_tokens[of.query]).collect();
        let work = rows.iter().map(|(_, tokens)| tokens.bytes()).sum::<usize>() * queries.len();
        let scores = context.engine.pool.run(context.call, work, |check| {
            text_pool::map(rows, |(row, tokens)| {
                check()?;
                let units = parsed.windows[*row].len();
                Ok(queries.iter().map(|query| query.scores(tokens, units)).collect::<Vec<_>>())
            })
        })?;
        for ((row, _), of_row) in rows.iter().zip(scores) {
            let first = parsed.rows + parsed.windows[*row].start;
            for (QueryCosines { rows: scored, .. }, scores) in of_page.cosines.iter_mut().zip(of_row) {
                scored[*row] = scores.window;
                // Without seeds that are units, there are none.
                for (unit, score) in scored.iter_mut().skip(first).zip(scores.units) {
                    *unit = unit.max(score);
                }
            }
        }
        Ok(())
    }

    /// Scores the rows of a page in a job, whose vectors these are, and keeps them for the cache.
    fn receive_tokens(
        &mut self,
        context: &CallContext<'_, '_>,
        rows: PageRows,
        starts: &[usize],
        vectors: &[f32],
    ) -> Result<()> {
        let PageRows { page, rows, places } = rows;
        let width = self.dimension;
        let tokens = |((row, job_row), places): ((usize, usize), Vec<TokenPlace>)| {
            let vectors = &vectors[starts[job_row] * width..starts[job_row + 1] * width];
            (row, Arc::new(WindowTokens::new(vectors, width, &places)))
        };
        let rows: Vec<(usize, Arc<WindowTokens>)> = rows.into_iter().zip(places).map(tokens).collect();
        self.score_tokens(context, page, &rows)?;
        if let Some(new) = &mut self.scored[page].new_vectors {
            for (row, tokens) in rows {
                new.rows.push(row);
                new.tokens.push(tokens);
            }
        }
        Ok(())
    }
}

/// Scores the selected windows of each query's pages. Those scored for an earlier selection are not encoded again.
pub(super) async fn score<'query>(
    context: &mut CallContext<'_, '_>,
    comparison: &mut Comparison<'_>,
    predictions: &'query [Vec<Prediction<'query>>],
    selections: Vec<Vec<Selection>>,
) -> Result<Vec<Vec<ScoredWindows<'query>>>> {
    let began = Instant::now();
    let mut chunks = Vec::new();
    for (page, rows) in comparison.take_unscored(predictions, &selections).into_iter().enumerate() {
        let rows = comparison.score_cached(context, page, rows)?;
        comparison.plan_caching(context, page, &rows);
        chunks.extend(rows.chunks(JOB_ROWS).map(|rows| RowChunk { page, rows: rows.to_vec() }));
    }
    context.record(Stage::Choose, began);
    encode_chunks(context, comparison, &chunks).await?;
    let scored = predictions.iter().zip(selections).enumerate().map(|(query, (searched, selections))| {
        let pages = searched.iter().zip(selections);
        pages.map(|(page, selection)| comparison.scored_windows(query, page, selection)).collect()
    });
    Ok(context.timed(Stage::Choose, |_| scored.collect()))
}

/// Encodes rows in pipelined jobs, and scores them.
async fn encode_chunks(
    context: &mut CallContext<'_, '_>,
    comparison: &mut Comparison<'_>,
    mut waiting: &[RowChunk],
) -> Result<()> {
    let mut jobs: VecDeque<InFlightJob> = VecDeque::new();
    while !waiting.is_empty() {
        let (chunks, later) = waiting.split_at(chunks_within_byte_budget(waiting, comparison.pages));
        waiting = later;
        let jobs_of_chunks = comparison.build_jobs(context, chunks)?;
        yield_now().await;
        for (pages, rows) in jobs_of_chunks {
            while jobs.len() >= JOBS_IN_FLIGHT {
                finish_oldest(context, &mut jobs, comparison).await?;
            }
            context.work.encoded += rows.len();
            context.work.tokens += token_count(&rows);
            context.call.check_tokens(context.work.tokens)?;
            let queries = comparison.device_queries(&pages);
            let returns_cosines = queries.is_some();
            let is_late = comparison.is_late();
            let wanted = if is_late { Wanted::TokenVectors } else { queries.map_or(Wanted::Vector, Wanted::Cosines) };
            let token_starts = if is_late { token_starts(&rows) } else { Vec::new() };
            let pending = context.scheduler.submit_for(wanted, rows, context.call)?;
            jobs.push_back(InFlightJob { pages, returns_cosines, token_starts, pending });
        }
    }
    while !jobs.is_empty() {
        finish_oldest(context, &mut jobs, comparison).await?;
    }
    Ok(())
}

/// Waits for the oldest job, and scores its rows unless the devices did.
async fn finish_oldest(
    context: &mut CallContext<'_, '_>,
    jobs: &mut VecDeque<InFlightJob>,
    comparison: &mut Comparison<'_>,
) -> Result<()> {
    let Some(InFlightJob { pages, returns_cosines, token_starts, pending }) = jobs.pop_front() else { return Ok(()) };
    let began = Instant::now();
    let values = pending.await?;
    context.record(Stage::Wait, began);
    let began = Instant::now();
    let dimension = context.engine.spec.dimension;
    for rows in pages {
        if comparison.is_late() {
            comparison.receive_tokens(context, rows, &token_starts, &values)?;
            continue;
        }
        let PageRows { page, rows, .. } = rows;
        if returns_cosines {
            comparison.set_cosines(page, &rows, &values);
            continue;
        }
        comparison.score(page, &rows, &values);
        if let Some(new) = &mut comparison.scored[page].new_vectors {
            for (row, job_row) in rows {
                new.rows.push(row);
                new.values.extend(&values[job_row * dimension..(job_row + 1) * dimension]);
            }
        }
    }
    context.record(Stage::Choose, began);
    Ok(())
}

impl ScoredRows {
    /// Counts rows of a chunk that are longer than the model's limit.
    fn add_truncated(&mut self, chunk: &RowChunk, truncated: &[usize]) {
        self.truncated += truncated.len();
        if let Some(new) = &mut self.new_vectors {
            new.truncated.extend(truncated.iter().map(|row| chunk.rows[*row]));
        }
    }
}

/// The number of tokens before each row, and last that of all rows.
fn token_starts(rows: &[RowSource]) -> Vec<usize> {
    let mut starts = vec![0];
    for row in rows {
        starts.push(starts[starts.len() - 1] + row.len());
    }
    starts
}

impl RowChunk {
    /// The rows' ids, and with late interaction the places of their tokens.
    fn tokenize(&self, pages: &[PreparedPage], tokens: &Tokens, is_late: bool, check: &Check) -> Result<PlacedRows> {
        let page = &pages[self.page];
        if is_late {
            let windows = self.rows.iter().map(|row| {
                let units = &page.parsed.windows[*row];
                (page.parsed.units.span(units), &page.parsed.units.spans[units.clone()])
            });
            return tokens.late_page(page.text.text(), &windows.collect::<Vec<_>>(), check);
        }
        let spans: Vec<ByteSpan> = self.rows.iter().map(|row| page.parsed.row(*row)).collect();
        // A window's ids depend on its own text only, so tokenizing skips the text around all of them.
        let start = spans.iter().map(|span| span.start).min().unwrap_or(0);
        let end = spans.iter().map(|span| span.end).max().unwrap_or(0);
        let shift = |span: &ByteSpan| ByteSpan { start: span.start - start, end: span.end - start };
        let spans: Vec<ByteSpan> = spans.iter().map(shift).collect();
        Ok((tokens.page(&page.text.text()[start..end], &spans, check)?, Vec::new()))
    }

    fn bytes(&self, pages: &[PreparedPage]) -> usize {
        self.rows.iter().map(|row| pages[self.page].parsed.row(*row).len()).sum()
    }
}

/// The number of chunks to tokenize next: about [`TOKENIZE_BYTES`].
fn chunks_within_byte_budget(chunks: &[RowChunk], pages: &[PreparedPage]) -> usize {
    let mut bytes = 0;
    let within = chunks.iter().take_while(|chunk| {
        let fits = bytes < TOKENIZE_BYTES;
        bytes += chunk.bytes(pages);
        fits
    });
    within.count()
}
