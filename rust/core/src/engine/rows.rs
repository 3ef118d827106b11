//! Rows: the windows that are looked at, tokenized, handed to the devices, and compared with the queries when they are back.
//!
//! They go through in parts, so that devices are busy while the next part is being tokenized, and memory is bounded by
//! the parts in flight and not by the pages.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use rustc_hash::FxHashMap;

use super::cache::Vectors;
use super::prepared::{Prepared, Sames};
use super::run::Run;
use super::spoken::Inquiry;
use super::token_count;
use crate::batches::{Queries, RowSource};
use crate::call;
use crate::encoder::EncoderSpec;
use crate::error::Result;
use crate::page::ByteSpan;
use crate::pool;
use crate::scores::cosines;
use crate::stages::Stage;
use crate::tokens::TokenPage;
use crate::vectors::{Pending, breathe};

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
    pages: &'page [Prepared<'text>],
    sames: &'page Sames,
    queries: &'page [Vec<f32>],
    pub(super) inquiries: Vec<Inquiry<'page, 'text>>,
    /// For each page who asks it, or one that is the same: an inquiry, and which of its pages that is.
    askers: Vec<Vec<(usize, usize)>>,
    /// For each page what was seen of it; of pages that are the same, the first one.
    seen: Vec<Seen>,
    /// The queries, where devices are asked to compare rows with them.
    asking: Option<Arc<Queries>>,
}

/// Rows that the conductor has.
struct Handed {
    shares: Vec<Share>,
    /// Whether their scores will come, and not their vectors.
    scored: bool,
    pending: Pending,
}

/// What a call has seen of a page.
struct Seen {
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
struct Share {
    page: usize,
    /// Pairs of both, in order.
    rows: Vec<(usize, usize)>,
}

impl<'page, 'text> Comparison<'page, 'text> {
    /// Nothing was compared yet.
    pub(super) fn new(
        pages: &'page [Prepared<'text>],
        sames: &'page Sames,
        queries: &'page [Vec<f32>],
        inquiries: Vec<Inquiry<'page, 'text>>,
        spec: &EncoderSpec,
    ) -> Self {
        let mut askers = vec![Vec::new(); pages.len()];
        for (number, inquiry) in inquiries.iter().enumerate() {
            for (place, spoken) in inquiry.spoken.iter().enumerate() {
                askers[sames.first[spoken.page]].push((number, place));
            }
        }
        let nothing = |page: &Prepared| Seen { rows: vec![false; page.reading.rows], cut: 0, fresh: None };
        let asks = spec.scores && queries.len() * QUERIES_A_VALUE <= spec.dimension;
        let asking = asks.then(|| Arc::new(Queries::new(queries)));
        Self { pages, sames, queries, askers, seen: pages.iter().map(nothing).collect(), inquiries, asking }
    }

    /// For each page how many of its rows were compared with a query.
    pub(super) fn compared(&self) -> Vec<usize> {
        let count = |first: &usize| self.seen[*first].rows.iter().filter(|seen| **seen).count();
        self.sames.first.iter().map(count).collect()
    }

    /// How many of them are longer than the model allows.
    pub(super) fn truncated(&self) -> usize {
        self.sames.first.iter().map(|first| self.seen[*first].cut).sum()
    }

    /// For each page the rows that queries are to be compared with and were not, which now count as seen.
    fn wanted(&mut self) -> Vec<Vec<usize>> {
        let mut wanted = vec![Vec::new(); self.pages.len()];
        for spoken in self.inquiries.iter().flat_map(|inquiry| &inquiry.spoken) {
            let page = self.sames.first[spoken.page];
            for row in spoken.view.rows(self.pages[page].reading.rows) {
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
    fn asking(&self, shares: &[Share]) -> Option<Arc<Queries>> {
        let is_kept = |share: &Share| self.seen[share.page].fresh.is_some();
        self.asking.clone().filter(|_| !shares.iter().any(is_kept))
    }

    /// Takes over how rows of a page, whose scores lie at these places, compare with the queries that it has to answer.
    fn take_scores(&mut self, page: usize, rows: &[(usize, usize)], scores: &[f32]) {
        let count = self.queries.len();
        for (inquiry, place) in &self.askers[page] {
            let Inquiry { query, spoken } = &mut self.inquiries[*inquiry];
            for (row, at) in rows {
                spoken[*place].cosine[*row] = scores[at * count + *query];
            }
        }
    }

    /// Compares rows of a page, whose vectors lie at these places, with all queries that it has to answer.
    fn compare(&mut self, page: usize, rows: &[(usize, usize)], vectors: &[f32]) {
        let runs = || rows.chunk_by(|one, next| (one.0 + 1, one.1 + 1) == *next);
        for (inquiry, place) in &self.askers[page] {
            let Inquiry { query, spoken } = &mut self.inquiries[*inquiry];
            let (query, cosine) = (&self.queries[*query], &mut spoken[*place].cosine);
            for run in runs() {
                let (row, place) = run[0];
                let values = &vectors[place * query.len()..(place + run.len()) * query.len()];
                cosine[row..row + run.len()].copy_from_slice(&cosines(query, values));
            }
        }
    }
}

impl Run<'_, '_> {
    /// Compares the queries with all windows that they are to be compared with, as far as it was not done before.
    pub(super) async fn look(&mut self, comparison: &mut Comparison<'_, '_>) -> Result<()> {
        let began = Instant::now();
        let mut parts = Vec::new();
        for (page, rows) in comparison.wanted().into_iter().enumerate() {
            let rows = comparison.compare_kept(page, rows);
            self.plan_to_keep(&comparison.pages[page], rows.len(), &mut comparison.seen[page].fresh);
            parts.extend(rows.chunks(JOB_ROWS).map(|rows| Part { page, rows: rows.to_vec() }));
        }
        self.spend(Stage::Choose, began);
        let mut jobs: VecDeque<Handed> = VecDeque::new();
        let mut parts = parts.as_slice();
        while !parts.is_empty() {
            let (together, later) = parts.split_at(together(parts, comparison.pages));
            parts = later;
            let tokens = self.tokenize(together, comparison.pages)?;
            breathe().await;
            for (part, tokens) in together.iter().zip(&tokens) {
                let seen = &mut comparison.seen[part.page];
                seen.cut += tokens.cut.len();
                if let Some(fresh) = &mut seen.fresh {
                    fresh.cut.extend(tokens.cut.iter().map(|row| part.rows[*row]));
                }
            }
            for (shares, rows) in jobs_of(together, &tokens) {
                while jobs.len() >= JOBS_IN_FLIGHT {
                    self.take_back(&mut jobs, comparison).await?;
                }
                self.work.encoded += rows.len();
                self.work.tokens += token_count(&rows);
                self.call.allow_tokens(self.work.tokens)?;
                let asking = comparison.asking(&shares);
                let scored = asking.is_some();
                let pending = self.conductor.submit_asking(rows, asking, self.call)?;
                jobs.push_back(Handed { shares, scored, pending });
            }
        }
        while !jobs.is_empty() {
            self.take_back(&mut jobs, comparison).await?;
        }
        Ok(())
    }

    /// Makes room for vectors that are to be kept, where the cache has room for them.
    fn plan_to_keep(&self, page: &Prepared, rows: usize, fresh: &mut Option<Vectors>) {
        let known =
            page.kept.as_ref().map_or(0, |kept| kept.vectors.bytes()) + fresh.as_ref().map_or(0, Vectors::bytes);
        let bytes = page.reading.bytes() + known + Vectors::bytes_of(rows, self.engine.spec.dimension);
        let cache = &self.engine.cache;
        if !cache.keeps() || !cache.has_room_for(bytes) {
            *fresh = None;
        } else if rows > 0 {
            fresh.get_or_insert_default();
        }
    }

    fn tokenize(&mut self, parts: &[Part], pages: &[Prepared]) -> Result<Vec<Arc<TokenPage>>> {
        let began = Instant::now();
        let (stop, deadline) = (self.call.stop().clone(), self.call.deadline());
        let bytes = parts.iter().map(|part| part.bytes(pages)).sum();
        let tokens = &self.engine.tokens;
        let tokenized = self.engine.pool.run(self.call, bytes, || {
            pool::map(parts, |part| {
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
        self.spend(Stage::Tokenize, began);
        tokenized
    }

    /// Waits for the oldest job and compares its rows, where that was not done for us.
    async fn take_back(&mut self, jobs: &mut VecDeque<Handed>, comparison: &mut Comparison<'_, '_>) -> Result<()> {
        let Some(Handed { shares, scored, pending }) = jobs.pop_front() else { return Ok(()) };
        let began = Instant::now();
        let vectors = pending.await?;
        self.spend(Stage::Wait, began);
        let began = Instant::now();
        let dimension = self.engine.spec.dimension;
        for Share { page, rows } in shares {
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
        self.spend(Stage::Choose, began);
        Ok(())
    }

    /// Keeps what was read and encoded of the pages.
    pub(super) fn keep(&self, comparison: Comparison) {
        let Comparison { pages, sames, seen, .. } = comparison;
        for ((page, key), seen) in pages.iter().zip(&sames.keys).zip(seen) {
            if let (Some(key), Some(fresh)) = (key, seen.fresh) {
                self.engine.cache.add(*key, page.kept.as_deref(), &page.reading, fresh);
            }
        }
    }
}

impl Part {
    fn bytes(&self, pages: &[Prepared]) -> usize {
        self.rows.iter().map(|row| pages[self.page].reading.row(*row).len()).sum()
    }
}

/// How many of the next parts are tokenized together: about [`PART_BYTES`].
fn together(parts: &[Part], pages: &[Prepared]) -> usize {
    let mut bytes = 0;
    let many = parts.iter().take_while(|part| {
        let fits = bytes < PART_BYTES;
        bytes += part.bytes(pages);
        fits
    });
    many.count()
}

/// The rows of parts in jobs of at most [`JOB_ROWS`]; rows of a job that are equal are encoded once.
fn jobs_of(parts: &[Part], tokens: &[Arc<TokenPage>]) -> Vec<(Vec<Share>, Vec<RowSource>)> {
    let mut jobs: Vec<(Vec<Share>, Vec<RowSource>)> = Vec::new();
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
                _ => shares.push(Share { page: part.page, rows: vec![(*row, place)] }),
            }
            is_new = false;
        }
    }
    jobs
}
