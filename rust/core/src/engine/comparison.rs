//! Rows: the windows that are looked at, tokenized, handed to the devices, and compared with the queries when they are back.
//!
//! They go through in parts, so that devices are busy while the next part is being tokenized, and memory is bounded by
//! the parts in flight and not by the pages.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use rustc_hash::FxHashMap;

use super::cache::Vectors;
use super::context::CallContext;
use super::prepared::{DuplicatePages, Prepared};
use super::token_count;
use crate::encoder::EncoderSpec;
use crate::encoder::cosine::cosines;
use crate::error::Result;
use crate::ranking::evidence::QueryEvidence;
use crate::runtime::call;
use crate::runtime::profiling::Stage;
use crate::runtime::tasks::yield_now;
use crate::runtime::text_pool;
use crate::scheduler::Pending;
use crate::scheduler::batches::{Queries, RowSource};
use crate::text::page::ByteSpan;
use crate::tokens::TokenPage;

/// Bytes of windows that are tokenized before they are handed in.
const PART_BYTES: usize = 512 * 1024;

/// Rows of one job, and of a page that are tokenized together: their vectors are held until they are compared.
const JOB_ROWS: usize = 4096;

/// Queries, for each value of a vector, that devices compare rows with: with more there is more to send than vectors have.
const QUERIES_A_VALUE: usize = 8;

/// Jobs of one call that may be unfinished, one that is encoded and one so that it never waits; beyond it the caller waits
/// before it tokenizes more. Jobs take turns on the devices, so what comes behind a large call waits for a batch of each of these.
pub(super) const JOBS_IN_FLIGHT: usize = 2;

/// Pages, and the queries that they are compared with.
pub(super) struct Comparison<'page, 'text> {
    pub(super) pages: &'page [Prepared<'text>],
    duplicates: &'page DuplicatePages,
    queries: &'page [Vec<f32>],
    pub(super) all_evidence: Vec<QueryEvidence<'page, 'text>>,
    /// For each page who asks it, or one that is the same: a query, and which of its pages that is.
    askers: Vec<Vec<(usize, usize)>>,
    /// For each page what was seen of it; of pages that are the same, the first one.
    seen: Vec<ScoredRows>,
    /// The queries, where devices are asked to compare rows with them.
    asking: Option<Arc<Queries>>,
}

/// Rows that the scheduler has.
struct InFlightJob {
    shares: Vec<PageRows>,
    /// Whether their scores will come, and not their vectors.
    scored: bool,
    pending: Pending,
}

/// What a call has seen of a page.
struct ScoredRows {
    /// Which of its rows were compared with the queries.
    rows: Vec<bool>,
    /// How many of these are longer than the model allows.
    cut: usize,
    /// The vectors that were encoded for it, where they will be kept.
    fresh: Option<Vectors>,
}

/// Rows of a page that are tokenized together.
struct Part {
    page: usize,
    rows: Vec<usize>,
}

/// Rows of a page, and which rows of a job have their vectors.
struct PageRows {
    page: usize,
    /// Pairs of both, in order.
    rows: Vec<(usize, usize)>,
}

impl<'page, 'text> Comparison<'page, 'text> {
    /// Nothing was compared yet.
    pub(super) fn new(
        pages: &'page [Prepared<'text>],
        duplicates: &'page DuplicatePages,
        queries: &'page [Vec<f32>],
        all_evidence: Vec<QueryEvidence<'page, 'text>>,
        spec: &EncoderSpec,
    ) -> Self {
        let mut askers = vec![Vec::new(); pages.len()];
        for (number, query_evidence) in all_evidence.iter().enumerate() {
            for (place, evidence) in query_evidence.evidence.iter().enumerate() {
                askers[duplicates.first[evidence.index]].push((number, place));
            }
        }
        let nothing = |page: &Prepared| ScoredRows { rows: vec![false; page.reading.rows], cut: 0, fresh: None };
        let asks = spec.scores && queries.len() * QUERIES_A_VALUE <= spec.dimension;
        let asking = asks.then(|| Arc::new(Queries::new(queries)));
        Self { pages, duplicates, queries, askers, seen: pages.iter().map(nothing).collect(), all_evidence, asking }
    }

    /// For each page how many of its rows were compared with a query.
    pub(super) fn compared(&self) -> Vec<usize> {
        let count = |first: &usize| self.seen[*first].rows.iter().filter(|seen| **seen).count();
        self.duplicates.first.iter().map(count).collect()
    }

    /// How many of them are longer than the model allows.
    pub(super) fn truncated(&self) -> usize {
        self.duplicates.first.iter().map(|first| self.seen[*first].cut).sum()
    }

    /// For each page the rows that queries are to be compared with and were not, which now count as seen.
    fn wanted(&mut self) -> Vec<Vec<usize>> {
        let mut wanted = vec![Vec::new(); self.pages.len()];
        for evidence in self.all_evidence.iter().flat_map(|query_evidence| &query_evidence.evidence) {
            let page = self.duplicates.first[evidence.index];
            for row in evidence.view.rows(self.pages[page].reading.rows) {
                if !std::mem::replace(&mut self.seen[page].rows[row], true) {
                    wanted[page].push(row);
                }
            }
        }
        for rows in &mut wanted {
            rows.sort_unstable();
        }
        wanted
    }

    /// Compares those rows of a page whose vectors are kept, and returns the others.
    fn compare_kept(&mut self, page: usize, rows: Vec<usize>) -> Vec<usize> {
        let Some(kept) = &self.pages[page].kept else { return rows };
        let (mut known, mut left) = (Vec::new(), Vec::new());
        for row in rows {
            match kept.vectors.place(row) {
                Some(place) => known.push((row, place)),
                None => left.push(row),
            }
        }
        self.seen[page].cut += known.iter().filter(|(row, _)| kept.vectors.is_cut(*row)).count();
        self.compare(page, &known, &kept.vectors.values);
        left
    }

    /// The queries for a job, if nobody wants to keep its vectors.
    fn asking(&self, shares: &[PageRows]) -> Option<Arc<Queries>> {
        let is_kept = |share: &PageRows| self.seen[share.page].fresh.is_some();
        self.asking.clone().filter(|_| !shares.iter().any(is_kept))
    }

    /// Takes over how rows of a page, whose scores lie at these places, compare with the queries that it has to answer.
    fn take_scores(&mut self, page: usize, rows: &[(usize, usize)], scores: &[f32]) {
        let count = self.queries.len();
        for (query_evidence, place) in &self.askers[page] {
            let QueryEvidence { query, evidence } = &mut self.all_evidence[*query_evidence];
            for (row, at) in rows {
                evidence[*place].cosine[*row] = scores[at * count + *query];
            }
        }
    }

    /// Compares rows of a page, whose vectors lie at these places, with all queries that it has to answer.
    fn compare(&mut self, page: usize, rows: &[(usize, usize)], vectors: &[f32]) {
        let runs = || rows.chunk_by(|one, next| (one.0 + 1, one.1 + 1) == *next);
        for (query_evidence, place) in &self.askers[page] {
            let QueryEvidence { query, evidence } = &mut self.all_evidence[*query_evidence];
            let (query, cosine) = (&self.queries[*query], &mut evidence[*place].cosine);
            for run in runs() {
                let (row, place) = run[0];
                let values = &vectors[place * query.len()..(place + run.len()) * query.len()];
                cosine[row..row + run.len()].copy_from_slice(&cosines(query, values));
            }
        }
    }
}

/// Compares the queries with all windows that they are to be compared with, as far as it was not done before.
pub(super) async fn score_candidates(
    context: &mut CallContext<'_, '_>,
    comparison: &mut Comparison<'_, '_>,
) -> Result<()> {
    let began = Instant::now();
    let mut parts = Vec::new();
    for (page, rows) in comparison.wanted().into_iter().enumerate() {
        let rows = comparison.compare_kept(page, rows);
        plan_to_keep(context, &comparison.pages[page], rows.len(), &mut comparison.seen[page].fresh);
        parts.extend(rows.chunks(JOB_ROWS).map(|rows| Part { page, rows: rows.to_vec() }));
    }
    context.spend(Stage::Choose, began);
    let mut jobs: VecDeque<InFlightJob> = VecDeque::new();
    let mut parts = parts.as_slice();
    while !parts.is_empty() {
        let (parts_within_byte_budget, later) = parts.split_at(parts_within_byte_budget(parts, comparison.pages));
        parts = later;
        let tokens = tokenize(context, parts_within_byte_budget, comparison.pages)?;
        yield_now().await;
        for (part, tokens) in parts_within_byte_budget.iter().zip(&tokens) {
            let seen = &mut comparison.seen[part.page];
            seen.cut += tokens.cut.len();
            if let Some(fresh) = &mut seen.fresh {
                fresh.cut.extend(tokens.cut.iter().map(|row| part.rows[*row]));
            }
        }
        for (shares, rows) in jobs_of(parts_within_byte_budget, &tokens) {
            while jobs.len() >= JOBS_IN_FLIGHT {
                take_back(context, &mut jobs, comparison).await?;
            }
            context.work.encoded += rows.len();
            context.work.tokens += token_count(&rows);
            context.call.allow_tokens(context.work.tokens)?;
            let asking = comparison.asking(&shares);
            let scored = asking.is_some();
            let pending = context.scheduler.submit_with_queries(rows, asking, context.call)?;
            jobs.push_back(InFlightJob { shares, scored, pending });
        }
    }
    while !jobs.is_empty() {
        take_back(context, &mut jobs, comparison).await?;
    }
    Ok(())
}

/// Makes room for vectors that are to be kept, where the cache has room for them.
fn plan_to_keep(context: &CallContext<'_, '_>, page: &Prepared, rows: usize, fresh: &mut Option<Vectors>) {
    let known = page.kept.as_ref().map_or(0, |kept| kept.vectors.bytes()) + fresh.as_ref().map_or(0, Vectors::bytes);
    let bytes = page.reading.bytes() + known + Vectors::bytes_of(rows, context.engine.spec.dimension);
    let cache = &context.engine.cache;
    if !cache.keeps() || !cache.has_room_for(bytes) {
        *fresh = None;
    } else if rows > 0 {
        fresh.get_or_insert_default();
    }
}

fn tokenize(context: &mut CallContext<'_, '_>, parts: &[Part], pages: &[Prepared]) -> Result<Vec<Arc<TokenPage>>> {
    let began = Instant::now();
    let (stop, deadline) = (context.call.stop().clone(), context.call.deadline());
    let bytes = parts.iter().map(|part| part.bytes(pages)).sum();
    let tokens = &context.engine.tokens;
    let tokenized = context.engine.pool.run(context.call, bytes, || {
        text_pool::map(parts, |part| {
            let page = &pages[part.page];
            let spans: Vec<ByteSpan> = part.rows.iter().map(|row| page.reading.row(*row)).collect();
            // The ids of a window are those of its text alone, so what lies around all of them need not be looked at.
            let start = spans.iter().map(|span| span.start).min().unwrap_or(0);
            let end = spans.iter().map(|span| span.end).max().unwrap_or(0);
            let inside = |span: &ByteSpan| ByteSpan { start: span.start - start, end: span.end - start };
            let spans: Vec<ByteSpan> = spans.iter().map(inside).collect();
            let text = &page.page.text()[start..end];
            Ok(Arc::new(tokens.page(text, &spans, &|| call::check(&stop, deadline))?))
        })
    });
    context.spend(Stage::Tokenize, began);
    tokenized
}

/// Waits for the oldest job and compares its rows, where that was not done for us.
async fn take_back(
    context: &mut CallContext<'_, '_>,
    jobs: &mut VecDeque<InFlightJob>,
    comparison: &mut Comparison<'_, '_>,
) -> Result<()> {
    let Some(InFlightJob { shares, scored, pending }) = jobs.pop_front() else { return Ok(()) };
    let began = Instant::now();
    let vectors = pending.await?;
    context.spend(Stage::Wait, began);
    let began = Instant::now();
    let dimension = context.engine.spec.dimension;
    for PageRows { page, rows } in shares {
        if scored {
            comparison.take_scores(page, &rows, &vectors);
            continue;
        }
        comparison.compare(page, &rows, &vectors);
        if let Some(fresh) = &mut comparison.seen[page].fresh {
            for (row, place) in rows {
                fresh.rows.push(row);
                fresh.values.extend(&vectors[place * dimension..(place + 1) * dimension]);
            }
        }
    }
    context.spend(Stage::Choose, began);
    Ok(())
}

/// Keeps what was read and encoded of the pages.
pub(super) fn keep(context: &CallContext<'_, '_>, comparison: Comparison) {
    let Comparison { pages, duplicates, seen, .. } = comparison;
    for ((page, key), seen) in pages.iter().zip(&duplicates.keys).zip(seen) {
        if let (Some(key), Some(fresh)) = (key, seen.fresh) {
            context.engine.cache.add(*key, page.kept.as_deref(), &page.reading, fresh);
        }
    }
}

impl Part {
    fn bytes(&self, pages: &[Prepared]) -> usize {
        self.rows.iter().map(|row| pages[self.page].reading.row(*row).len()).sum()
    }
}

/// How many of the next parts are tokenized together: about [`PART_BYTES`].
fn parts_within_byte_budget(parts: &[Part], pages: &[Prepared]) -> usize {
    let mut bytes = 0;
    let many = parts.iter().take_while(|part| {
        let fits = bytes < PART_BYTES;
        bytes += part.bytes(pages);
        fits
    });
    many.count()
}

/// The rows of parts in jobs of at most [`JOB_ROWS`]; rows of a job that are equal are encoded once.
fn jobs_of(parts: &[Part], tokens: &[Arc<TokenPage>]) -> Vec<(Vec<PageRows>, Vec<RowSource>)> {
    let mut jobs: Vec<(Vec<PageRows>, Vec<RowSource>)> = Vec::new();
    let mut known: FxHashMap<Vec<i32>, usize> = FxHashMap::default();
    for (part, tokens) in parts.iter().zip(tokens) {
        let mut is_new = true;
        for (window, row) in part.rows.iter().enumerate() {
            if jobs.last().is_none_or(|(_, rows)| rows.len() == JOB_ROWS) {
                jobs.push((Vec::new(), Vec::new()));
                known.clear();
                is_new = true;
            }
            let Some((shares, rows)) = jobs.last_mut() else { continue };
            let place = *known.entry(tokens.row(window)).or_insert_with(|| {
                rows.push(RowSource { page: Arc::clone(tokens), window });
                rows.len() - 1
            });
            match shares.last_mut() {
                Some(share) if !is_new => share.rows.push((*row, place)),
                _ => shares.push(PageRows { page: part.page, rows: vec![(*row, place)] }),
            }
            is_new = false;
        }
    }
    jobs
}
