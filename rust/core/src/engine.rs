//! The engine: from queries and pages to highlights, for many callers at the same time.
//!
//! The caller's thread cuts pages and indexes their words (large texts on the engine's pool). It tokenizes the
//! candidate windows and submits them to the scheduler in jobs (see `comparison`). Once the vectors are back, it
//! chooses passages. Pages compete for windows that are encoded, so every page is indexed before any is ranked.

// The request.
pub mod option_values;
pub mod options;
mod request;

// The run of a call.
mod answers;
mod cache;
mod comparison;
mod context;
mod documents;
mod passages;
mod prepared;
mod prune;
mod rerank;
mod rows;
mod run;
mod scale;
mod short_texts;
mod static_vectors;

// What runs calls.
mod drivers;
mod hosted;
mod pairs;
mod steps;
mod streamed;

// Vectors alone.
mod embed;
mod token_vectors;

use std::process;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use crate::encoder::model::{Model, Prompts};
use crate::encoder::{Batching, Encoder, EncoderSpec};
use crate::error::{Error, ErrorKind, Result};
pub use crate::ranking::Effort;
use crate::ranking::cosine_scale::CosineScale;
use crate::ranking::static_vectors::StaticVectors;
use crate::runtime::affinity::CpuAffinity;
use crate::runtime::call::{Call, ShutdownToken};
use crate::runtime::profiling::Profiler;
use crate::runtime::tasks::Tasks;
use crate::runtime::text_pool::TextPool;
use crate::scheduler::batches::RowSource;
pub use crate::scheduler::device_stats::DeviceState;
use crate::scheduler::device_stats::DeviceStats;
use crate::scheduler::{Scheduler, Telemetry};
pub use crate::tokens::PairLimits;
use crate::tokens::{PairTokens, PrunerTokens, Tokens};
pub use answers::{Answers, Matches, note};
use cache::Cache;
pub use cache::CacheState;
use context::CallContext;
pub use embed::{Embeddings, StreamedEmbedding};
pub use hosted::{HostEncoder, Hosted};
pub use options::Question;
pub use pairs::Pair;
pub use prune::{Pruned, PrunedText, join_sentences};
use request::check_length;
pub use request::{MAX_TEXT_BYTES, MEMORY_OF_TEXT, Pairing, Request, Work};
pub use rerank::PairScores;
pub use rows::{Rows, number, pair};
use static_vectors::StaticVectorsFile;
pub use steps::{Finished, Steps};
pub use streamed::StreamedHighlights;

/// A model, its devices, and the scheduler that owns them.
pub struct Engine {
    tokens: Tokens,
    spec: EncoderSpec,
    reranker: Option<PairTokens>,
    pruner: Option<(PrunerTokens, Model)>,
    pruner_id: OnceLock<String>,
    reranker_id: OnceLock<String>,
    /// What has the id of the reranker's files.
    reranker_model: Option<Model>,
    /// Set by the model, or measured in the first call.
    cosine_scale: OnceLock<CosineScale>,
    /// Read or made in the first call with [`Effort::Instant`].
    static_vectors: OnceLock<Arc<StaticVectors>>,
    static_vectors_file: Option<StaticVectorsFile>,
    /// `None` if its vectors come from a host or a function, whose weights are unknown.
    model: Option<Model>,
    model_id: OnceLock<String>,
    pool: TextPool,
    tasks: Tasks,
    cache: Cache,
    batching: Batching,
    device_stats: Arc<DeviceStats>,
    /// Of the devices that score pairs, where those of vectors do not.
    score_stats: Option<Arc<DeviceStats>>,
    profiler: Arc<Profiler>,
    cores: CpuAffinity,
    /// Whether a host's steps run the scheduler, instead of a thread.
    is_stepped: bool,
    scheduler: RwLock<SchedulerState>,
    /// Triggered by `close`; ends every call, wherever it waits.
    shutdown: ShutdownToken,
    /// The process that made the engine. Its threads do not exist in a fork.
    process: u32,
}

/// What computes vectors, and what scores pairs where that does not.
struct Encoders {
    vectors: Box<dyn Encoder>,
    scores: Option<Box<dyn Encoder>>,
}

/// What computes the vectors of a call: the engine's encoder, or the host of a [`Hosted`] call.
#[derive(Clone)]
pub struct VectorSource(Arc<Scheduler>);

enum SchedulerState {
    /// Before the first call; the encoders move to their schedulers then.
    Idle(Mutex<Option<Encoders>>),
    Running(Arc<Scheduler>),
    Closed,
}

impl Engine {
    /// Joins a model's tokenizer with the encoder that has its weights. Parsed pages, their vectors and those of
    /// queries are cached in at most `cache_bytes`. Starts no thread.
    ///
    /// # Errors
    /// As [`Tokens::read`]; [`ErrorKind::InvalidModel`] if tokenizer and encoder belong to different models.
    pub fn new(model: &Model, encoder: Box<dyn Encoder>, threads: Option<usize>, cache_bytes: usize) -> Result<Self> {
        let spec = encoder.spec().clone();
        let tokens = Tokens::read(model)?;
        tokens.check_vocabulary(spec.vocabulary)?;
        if tokens.is_late_interaction() != spec.capabilities.late_interaction {
            let message = "a late-interaction model has a vector for each token, which only the CPU encoder computes: \
                           devices=\"cpu\", and no encoder of your own";
            return Err(Error::new(ErrorKind::UnsupportedModel, message));
        }
        let scheduler =
            RwLock::new(SchedulerState::Idle(Mutex::new(Some(Encoders { vectors: encoder, scores: None }))));
        let (pool, cache) = (TextPool::new(threads), Cache::new(cache_bytes));
        let tasks = Tasks::new(pool.threads(), CpuAffinity::default());
        let (batching, cores) = (Batching::default(), CpuAffinity::default());
        Ok(Self {
            tokens,
            device_stats: Arc::new(DeviceStats::new(&spec)),
            score_stats: None,
            profiler: Arc::default(),
            static_vectors: OnceLock::new(),
            static_vectors_file: StaticVectorsFile::new(model, &spec),
            model: (!["host", "python"].contains(&spec.backend.as_str())).then(|| model.clone()),
            model_id: OnceLock::new(),
            spec,
            reranker: None,
            pruner: None,
            pruner_id: OnceLock::new(),
            reranker_id: OnceLock::new(),
            reranker_model: None,
            cosine_scale: CosineScale::of_model(model).map(OnceLock::from).unwrap_or_default(),
            pool,
            tasks,
            cache,
            batching,
            cores,
            is_stepped: false,
            scheduler,
            shutdown: ShutdownToken::default(),
            process: process::id(),
        })
    }

    /// Replaces the devices' own settings for batches.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a limit of 0.
    pub fn with_batching(mut self, batching: Batching) -> Result<Self> {
        let Batching { max_tokens, max_rows, depth, .. } = batching;
        for (name, value) in [("max_batch_tokens", max_tokens), ("max_batch_size", max_rows), ("depth", depth)] {
            if value == Some(0) {
                return Err(Error::new(ErrorKind::InvalidArgument, format!("{name} must be at least 1, not 0")));
            }
        }
        self.batching = batching;
        Ok(self)
    }

    pub fn with_affinity(mut self, cores: &CpuAffinity) -> Self {
        self.pool.set_affinity(cores.clone());
        self.tasks = Tasks::new(self.pool.threads(), cores.clone());
        self.cores = cores.clone();
        self
    }

    /// Starts no scheduler thread, for [`Steps`] and [`Hosted`]; other calls fail.
    pub fn stepped(mut self) -> Self {
        self.is_stepped = true;
        self
    }

    pub const fn spec(&self) -> &EncoderSpec {
        &self.spec
    }

    /// A hash of the model's weights, tokenizer and configuration; `None` if vectors come from a host or a function, whose
    /// weights are unknown. The first call may read all weights.
    ///
    /// # Errors
    /// As [`Model::id`].
    pub fn model_id(&self) -> Result<Option<&str>> {
        let Some(model) = &self.model else { return Ok(None) };
        if self.model_id.get().is_none() {
            let _ = self.model_id.set(model.id()?);
        }
        Ok(self.model_id.get().map(String::as_str))
    }

    pub const fn batching(&self) -> Batching {
        self.batching
    }

    /// The state of each device, in the order of [`EncoderSpec::devices`]; last those that only score pairs.
    pub fn devices(&self) -> Vec<DeviceState> {
        let scores = self.score_stats.iter().flat_map(|stats| stats.states());
        self.device_stats.states().into_iter().chain(scores).collect()
    }

    /// Times of all stages since the engine was made.
    pub fn profiler(&self) -> &Profiler {
        &self.profiler
    }

    pub const fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    /// The longest window in token ids.
    pub const fn max_tokens(&self) -> usize {
        self.tokens.max_tokens()
    }

    /// What precedes queries and passages.
    pub const fn prompts(&self) -> &Prompts {
        self.tokens.prompts()
    }

    pub fn cache(&self) -> CacheState {
        self.cache.state()
    }

    /// Evicts all pages and vectors of queries; the hit counts stay.
    pub fn clear_cache(&self) {
        self.cache.clear();
    }

    /// Chooses the best passages of pages, as a future that a driver runs (see `drivers`).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidText`] for a text over [`MAX_TEXT_BYTES`];
    /// [`ErrorKind::InvalidArgument`] if the numbers of queries, pages, formats and titles do not match; errors of the
    /// encoder and of [`Call::check`].
    pub async fn highlights<Text: AsRef<str>>(
        &self,
        request: &Request<Text>,
        question: &Question,
        call: &Call<'_>,
    ) -> Result<Answers> {
        self.highlights_with(&self.vector_source()?, request, question, call).await
    }

    /// Its own encoder.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`], [`ErrorKind::Forked`].
    pub fn vector_source(&self) -> Result<VectorSource> {
        self.scheduler().map(VectorSource)
    }

    /// As [`Self::highlights`], with vectors from this source.
    ///
    /// # Errors
    /// As [`Self::highlights`].
    pub async fn highlights_with<Text: AsRef<str>>(
        &self,
        VectorSource(scheduler): &VectorSource,
        request: &Request<Text>,
        question: &Question,
        call: &Call<'_>,
    ) -> Result<Answers> {
        request.check()?;
        let (request, call) = (&request.borrowed(), &call.with_shutdown(&self.shutdown));
        run::answer(CallContext::new(self, Arc::clone(scheduler), request, question, call)).await
    }

    /// Ends every call in flight with [`ErrorKind::Closed`] and stops the devices. A forked process closes nothing.
    pub fn close(&self) {
        if self.process == process::id() {
            self.shutdown.trigger();
            let state = std::mem::replace(
                &mut *self.scheduler.write().unwrap_or_else(PoisonError::into_inner),
                SchedulerState::Closed,
            );
            self.cache.clear();
            self.tasks.close();
            if let SchedulerState::Running(scheduler) = state {
                // Calls in flight hold the scheduler too. The last one drops it and waits for running batches.
                scheduler.close();
            }
        }
    }

    fn check_process(&self) -> Result<()> {
        if self.process == process::id() {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Forked,
            format!(
                "this highlighter was made in process {}, before process {} was forked from it; a fork has no threads. Make a new one after the fork, or start processes by spawn",
                self.process,
                process::id()
            ),
        ))
    }

    /// Starts the scheduler's thread, which the first call would start with its own priority.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`], [`ErrorKind::Forked`]; [`ErrorKind::Internal`] if the system cannot start a thread.
    pub fn start(&self) -> Result<()> {
        self.scheduler().map(drop)
    }

    fn scheduler(&self) -> Result<Arc<Scheduler>> {
        self.check_process()?;
        if let SchedulerState::Running(scheduler) = &*self.scheduler.read().unwrap_or_else(PoisonError::into_inner) {
            return Ok(Arc::clone(scheduler));
        }
        let mut state = self.scheduler.write().unwrap_or_else(PoisonError::into_inner);
        let closed = || Error::new(ErrorKind::Closed, "the highlighter was closed; make a new one");
        match &mut *state {
            SchedulerState::Running(scheduler) => Ok(Arc::clone(scheduler)),
            SchedulerState::Closed => Err(closed()),
            SchedulerState::Idle(encoder) => {
                let taken = encoder.get_mut().unwrap_or_else(PoisonError::into_inner).take();
                let Encoders { vectors, scores } = taken.ok_or_else(closed)?;
                let scores = scores.zip(self.score_stats.as_ref());
                let scores = scores.map(|(encoder, stats)| self.start_scheduler(encoder, stats)).transpose()?;
                let scheduler = self.start_scheduler(vectors, &self.device_stats)?;
                let scheduler = Arc::new(scheduler.with_scores(scores.map(Arc::new)));
                *state = SchedulerState::Running(Arc::clone(&scheduler));
                Ok(scheduler)
            }
        }
    }

    fn start_scheduler(&self, encoder: Box<dyn Encoder>, stats: &Arc<DeviceStats>) -> Result<Scheduler> {
        let telemetry = Telemetry { device_stats: Arc::clone(stats), profiler: Arc::clone(&self.profiler) };
        if self.is_stepped {
            return Ok(Scheduler::stepped(encoder, self.batching, telemetry));
        }
        Scheduler::start(encoder, self.batching, telemetry, self.cores.clone())
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if self.process != process::id() {
            // The scheduler's thread runs in the parent, and dropping what it owns may need locks that it holds.
            let state = std::mem::replace(
                self.scheduler.get_mut().unwrap_or_else(PoisonError::into_inner),
                SchedulerState::Closed,
            );
            std::mem::forget(state);
            std::mem::forget(std::mem::replace(&mut self.pool, TextPool::new(Some(1))));
            std::mem::forget(std::mem::replace(&mut self.tasks, Tasks::new(1, CpuAffinity::default())));
        }
    }
}

fn token_count(rows: &[RowSource]) -> usize {
    rows.iter().map(|row| row.page.row_len(row.window)).sum()
}

/// Converts a count or an index to numpy's default integer.
fn column(value: usize) -> i64 {
    i64::try_from(value).expect("nothing in memory has 2^63 parts")
}
