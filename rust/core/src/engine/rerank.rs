//! Scores of pairs: a reranker reads a query and a passage together. Its rows go through the scheduler of the model of
//! vectors, whose workers compute both; or through a scheduler of its own, where a host or a function computes vectors.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::cache::CacheKey;
use super::context::CallContext;
use super::{Engine, SchedulerState, check_length, token_count};
use crate::encoder::model::Model;
use crate::encoder::{Encoder, PairSpec};
use crate::error::{Error, ErrorKind, Result};
use crate::ranking::probability;
use crate::runtime::call::Call;
use crate::runtime::profiling::Stage;
use crate::runtime::text_pool;
use crate::scheduler::Scheduler;
use crate::scheduler::batches::{RowSource, Wanted};
use crate::scheduler::device_stats::DeviceStats;
use crate::tokens::{PairLimits, PairRows, PairTokens, Role, RowOptions, TextOrIds, TokenPage, TruncationSide};

/// Tokens of a pair whose passage is one of a page's; the rest of a longer one is not read.
const PASSAGE_TOKENS: usize = 512;

/// The scores of passages for queries.
#[derive(Clone, Debug, Default)]
pub struct PairScores {
    /// For each passage, the logit of its best window; [`crate::ranking::probability::score`] makes a probability of it.
    pub logits: Vec<f32>,
    /// Rows that were encoded, and their token ids, special tokens included. Cached ones are not.
    pub encoded: usize,
    pub tokens: usize,
    /// The first query that is longer than a row.
    pub truncated_query: Option<usize>,
    pub tokenizing: Duration,
}

/// A query with passages of a call's pages.
pub(super) struct QueryPassages<'call> {
    pub(super) query: &'call str,
    pub(super) passages: Vec<String>,
}

impl Engine {
    /// Adds the tokenizer of a reranker whose weights the encoder has, or else `scores`: an encoder that only computes
    /// pairs, with devices of its own.
    ///
    /// # Errors
    /// As [`PairTokens::read`]; [`ErrorKind::Internal`] if neither has its weights.
    pub fn with_reranker(mut self, reranker: &Model, scores: Option<Box<dyn Encoder>>) -> Result<Self> {
        let pairs = self.add_pairs(scores)?;
        let tokens = PairTokens::read(reranker)?;
        tokens.check_vocabulary(pairs.vocabulary)?;
        self.reranker = Some(tokens);
        self.reranker_model = Some(reranker.clone());
        Ok(self)
    }

    /// Adds an encoder of pairs, if there is one apart from that of vectors, and returns what pairs may be.
    pub(super) fn add_pairs(&mut self, scores: Option<Box<dyn Encoder>>) -> Result<PairSpec> {
        let of_scores = scores.as_ref().map(|encoder| encoder.spec());
        let pairs = of_scores.unwrap_or(&self.spec).capabilities.pairs;
        let pairs = pairs.ok_or_else(|| Error::new(ErrorKind::Internal, "no encoder has the weights for pairs"))?;
        self.score_stats = of_scores.map(|spec| Arc::new(DeviceStats::new(spec)));
        if let SchedulerState::Idle(encoders) = self.scheduler.get_mut().unwrap_or_else(PoisonError::into_inner)
            && let Some(encoders) = encoders.get_mut().unwrap_or_else(PoisonError::into_inner)
        {
            encoders.scores = scores;
        }
        Ok(pairs)
    }

    /// A hash of the reranker's weights, tokenizer and configuration, if there is one. The first call may read all weights.
    ///
    /// # Errors
    /// As [`Model::id`].
    pub fn reranker_id(&self) -> Result<Option<&str>> {
        let Some(model) = &self.reranker_model else { return Ok(None) };
        if self.reranker_id.get().is_none() {
            let _ = self.reranker_id.set(model.id()?);
        }
        Ok(self.reranker_id.get().map(String::as_str))
    }

    /// The name of the reranker, if there is one.
    pub fn reranker_name(&self) -> Option<String> {
        self.reranker_model.as_ref().map(Model::name)
    }

    /// What its files call the reranker's only label, if they name it.
    pub fn reranker_label(&self) -> Option<&str> {
        self.reranker_model.as_ref()?.config.get("id2label")?.get("0")?.as_str()
    }

    /// The tokenizer of the reranker, if there is one.
    pub const fn reranker(&self) -> Option<&PairTokens> {
        self.reranker.as_ref()
    }

    /// Scores each query's passages with the reranker, as a future that a driver runs; without a query, passages alone. A
    /// passage that is longer than a row is read in overlapping windows, and has the score of the best.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] without a reranker, and without a query for one that is a language model; [`ErrorKind::InvalidText`] for a text over
    /// [`MAX_TEXT_BYTES`](super::MAX_TEXT_BYTES); errors of the encoder and of [`Call::check`].
    pub async fn score_passages(
        &self,
        asked: &[(Option<&str>, &[&str])],
        limits: PairLimits,
        call: &Call<'_>,
    ) -> Result<PairScores> {
        let scheduler = self.scheduler()?;
        let call = &call.with_shutdown(&self.shutdown);
        let tokens = self.reranker.as_ref().ok_or_else(no_reranker)?;
        let texts = || asked.iter().flat_map(|(query, passages)| passages.iter().chain(query));
        texts().try_for_each(|text| check_length(text))?;
        let began = Instant::now();
        let read = self.pool.run(call, texts().map(|text| text.len()).sum(), |check| {
            text_pool::map(asked, |(query, passages)| {
                let PairRows { page, counts, is_query_cut } = tokens.rows(*query, passages, limits, check)?;
                Ok((Arc::new(page), counts, is_query_cut))
            })
        })?;
        let truncated_query = read.iter().position(|(.., is_truncated)| *is_truncated);
        let tokenizing = self.profiler.record_call(Stage::Tokenize, began);
        let mut scored = PairScores { truncated_query, tokenizing, ..PairScores::default() };
        let began = Instant::now();
        let pages = read.iter().map(|(page, ..)| Arc::clone(page)).collect();
        let logits = self.encode_pairs(&scheduler, Wanted::Score, pages, call, |rows, tokens| {
            (scored.encoded, scored.tokens) = (rows, tokens);
            call.check_tokens(tokens)
        });
        let mut logits = logits.await?.into_iter().map(|values| values[0]);
        self.profiler.record_call(Stage::Wait, began);
        let best = |windows: &usize| logits.by_ref().take(*windows).fold(f32::NEG_INFINITY, f32::max);
        scored.logits = read.iter().flat_map(|(_, counts, _)| counts).map(best).collect();
        Ok(scored)
    }

    /// How relevant texts are to a query: the reranker's probabilities, or without one the `MaxSim` of late interaction, the mean
    /// over the query's tokens. Raw scores are logits, and sums.
    ///
    /// # Errors
    /// As [`Self::score_passages`], also without either.
    pub async fn relevance(&self, query: &str, texts: &[&str], is_raw: bool, call: &Call<'_>) -> Result<Vec<f32>> {
        if self.reranker.is_some() || !self.is_late_interaction() {
            let scored = self.score_passages(&[(Some(query), texts)], PairLimits::NONE, call).await?;
            let score = if is_raw { |logit| logit } else { probability::score };
            return Ok(scored.logits.into_iter().map(score).collect());
        }
        let options = RowOptions { max_tokens: usize::MAX, side: TruncationSide::Right, adds_special_tokens: true };
        let Some(query) = self.rows(&[TextOrIds::Text(query)], Role::Query, &options, call)?.pop() else {
            return Ok(Vec::new());
        };
        let texts = self.passage_windows(texts, PairLimits::NONE, call)?;
        Ok(self.maxsim(vec![(query, texts)], is_raw, call).await?.0)
    }

    /// The values of all rows, in one job: a score, or labels of tokens. Equal and cached ones are not computed again;
    /// `count` learns the rows and tokens that are.
    pub(super) async fn encode_pairs(
        &self,
        scheduler: &Scheduler,
        wanted: Wanted,
        pages: Vec<Arc<TokenPage>>,
        call: &Call<'_>,
        count: impl FnOnce(usize, usize) -> Result<()>,
    ) -> Result<Vec<Arc<[f32]>>> {
        let rows =
            pages.iter().flat_map(|page| (0..page.len()).map(|window| RowSource { page: Arc::clone(page), window }));
        let rows: Vec<RowSource> = rows.collect();
        let keys: Vec<CacheKey> = rows.iter().map(|row| CacheKey::of_pair(&row.page.row(row.window))).collect();
        let encode = async |missing: &[usize]| {
            let rows: Vec<RowSource> = missing.iter().map(|row| rows[*row].clone()).collect();
            count(rows.len(), token_count(&rows))?;
            scheduler.submit_for(wanted.clone(), rows, call)?.await
        };
        let width = |row: usize| match wanted {
            Wanted::Labels => rows[row].page.row_len(rows[row].window),
            _ => 1,
        };
        self.cache.vectors(&keys, width, encode).await
    }
}

fn no_reranker() -> Error {
    Error::new(ErrorKind::InvalidArgument, "there is no reranker; name one with reranker=")
}

/// The reranker's logits of all passages of a call, in one job.
pub(super) async fn score(context: &mut CallContext<'_, '_>, queries: &[QueryPassages<'_>]) -> Result<Vec<Vec<f32>>> {
    let engine = context.engine;
    let tokens = engine.reranker.as_ref().ok_or_else(no_reranker)?;
    let began = Instant::now();
    let bytes = queries.iter().flat_map(|of_query| &of_query.passages).map(String::len).sum();
    let pages = engine.pool.run(context.call, bytes, |check| {
        let of_query = |of_query: &QueryPassages<'_>| {
            let passages: Vec<&str> = of_query.passages.iter().map(String::as_str).collect();
            tokens.starts(of_query.query, &passages, PASSAGE_TOKENS, check).map(Arc::new)
        };
        queries.iter().map(of_query).collect::<Result<Vec<_>>>()
    })?;
    context.record(Stage::Tokenize, began);
    let began = Instant::now();
    let scheduler = Arc::clone(&context.scheduler);
    let (work, call) = (&mut context.work, context.call);
    let count = |_: usize, tokens: usize| {
        work.tokens += tokens;
        call.check_tokens(work.tokens)
    };
    let logits = engine.encode_pairs(&scheduler, Wanted::Score, pages.clone(), call, count).await?;
    context.record(Stage::Wait, began);
    let mut logits = logits.into_iter().map(|values| values[0]);
    Ok(pages.iter().map(|page| logits.by_ref().take(page.len()).collect()).collect())
}
