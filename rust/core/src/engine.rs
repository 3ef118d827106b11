//! The engine: from queries and pages to highlights, for many callers at once.
//!
//! A caller's thread cuts pages and reads their words (large texts on the engine's own pool), tokenizes the windows that
//! these point at (see `effort`) and hands them to the scheduler, part after part (see `rows`), and chooses when their
//! vectors are back. What a score means depends on all pages of a call, so all are read before any is judged.

mod answers;
mod cache;
mod comparison;
mod context;
mod hosted;
pub mod option_values;
pub mod options;
mod owned;
mod pairs;
mod parts;
mod prepared;
mod request;

mod run;
mod steps;

use std::process;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;

use crate::encoder::model::Model;
use crate::encoder::{Batching, Encoder, EncoderSpec};
use crate::error::{Error, ErrorKind, Result};
pub use crate::ranking::Effort;
use crate::runtime::affinity::CpuAffinity;
use crate::runtime::call::{self, Call, ShutdownToken};
use crate::runtime::profiling::{Profiler, Stage};
use crate::runtime::tasks::Tasks;
use crate::runtime::text_pool::Pool;
use crate::scheduler::batches::RowSource;
pub use crate::scheduler::device_stats::DeviceState;
use crate::scheduler::device_stats::DeviceStats;
use crate::scheduler::{Scheduler, Telemetry, block_on};
use crate::text::formats::{Document, Format};
use crate::text::page::{CharSpan, Page};
use crate::text::pieces::{self, Unit, Units, Windows};
use crate::tokens::{GoOn, Role, TokenPage, Tokens};
pub use answers::{Answers, Matches};
use cache::Cache;
pub use cache::CacheState;
use context::CallContext;
pub use hosted::{HostEncoder, Hosted};
pub use owned::OwnedRequest;
pub use pairs::Pair;
pub use parts::Parts;
use request::check_length;
pub use request::{MAX_TEXT_BYTES, Pairing, Question, Request, Work};
pub use steps::{Finished, Steps};

/// A model, its devices, and the thread that owns them.
pub struct Engine {
    tokens: Tokens,
    spec: EncoderSpec,
    pool: Pool,
    tasks: Tasks,
    cache: Cache,
    batching: Batching,
    /// What is known of the devices.
    board: Arc<DeviceStats>,
    /// Where time goes.
    stages: Arc<Profiler>,
    /// Where its threads run.
    cores: CpuAffinity,
    /// Whether those who wait for vectors do the scheduler's work, instead of a thread.
    is_driven: bool,
    scheduler: RwLock<SchedulerState>,
    /// What tells calls that they end with the engine, wherever they are.
    end: ShutdownToken,
    /// The process the engine was made in: its threads do not exist in a fork of it.
    process: u32,
}

enum SchedulerState {
    /// No call has come yet; the encoder waits for its thread.
    Idle(Mutex<Option<Box<dyn Encoder>>>),
    Running(Arc<Scheduler>),
    Closed,
}

/// The vectors of texts.
#[derive(Clone, Debug)]
pub struct Embedded {
    /// One vector behind the other.
    pub vectors: Vec<f32>,
    /// Token ids encoded, special ones and prompts included.
    pub tokens: usize,
    /// How many texts were longer than the model allows.
    pub truncated: usize,
    /// Where in memory the collect pass wrote them: the address of `vectors`, as long as nobody copies it.
    pub written_at: usize,
}

impl Engine {
    /// An engine for a model and the encoder that has its weights, which keeps what it read of pages in at most so many bytes.
    /// Starts no thread.
    ///
    /// # Errors
    /// As [`Tokens::read`], and where the tokenizer and the encoder belong to different models.
    pub fn new(model: &Model, encoder: Box<dyn Encoder>, threads: Option<usize>, cache_bytes: usize) -> Result<Self> {
        let spec = encoder.spec().clone();
        let tokens = Tokens::read(model)?;
        tokens.check_vocabulary(spec.vocabulary)?;
        let scheduler = RwLock::new(SchedulerState::Idle(Mutex::new(Some(encoder))));
        let (pool, cache) = (Pool::new(threads), Cache::new(cache_bytes));
        let tasks = Tasks::new(pool.threads(), CpuAffinity::default());
        let (batching, cores) = (Batching::default(), CpuAffinity::default());
        Ok(Self {
            tokens,
            board: Arc::new(DeviceStats::new(&spec)),
            stages: Arc::default(),
            spec,
            pool,
            tasks,
            cache,
            batching,
            cores,
            is_driven: false,
            scheduler,
            end: ShutdownToken::default(),
            process: process::id(),
        })
    }

    /// The same engine with batches as a host wants them.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] where a batch could hold nothing.
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

    /// The same engine, whose devices wait at the end of each stage (see [`Profiler`]), or which remembers what it does.
    #[must_use]
    pub fn profiled(mut self, synchronizes: bool, has_trace: bool) -> Self {
        let names = || self.spec.devices.iter().map(|device| device.name.clone()).collect();
        self.stages = Arc::new(Profiler::new(synchronizes, has_trace.then(names)));
        self
    }

    /// The same engine with its threads on certain cores.
    #[must_use]
    pub fn on_cores(mut self, cores: &CpuAffinity) -> Self {
        self.pool.keep_on(cores.clone());
        self.tasks = Tasks::new(self.pool.threads(), cores.clone());
        self.cores = cores.clone();
        self
    }

    /// The same engine without a thread of its own for the devices: those who wait for vectors do what it would do.
    #[must_use]
    pub fn driven_by_callers(mut self) -> Self {
        self.is_driven = true;
        self
    }

    /// What the encoder is.
    #[must_use]
    pub const fn spec(&self) -> &EncoderSpec {
        &self.spec
    }

    /// What the host said about batches.
    #[must_use]
    pub const fn batching(&self) -> Batching {
        self.batching
    }

    /// What each device does, and whether it works.
    #[must_use]
    pub fn devices(&self) -> Vec<DeviceState> {
        self.board.states()
    }

    /// Where time goes.
    #[must_use]
    pub fn stages(&self) -> &Profiler {
        &self.stages
    }

    /// The model's tokenizer.
    #[must_use]
    pub const fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    /// The longest window in token ids.
    #[must_use]
    pub const fn max_tokens(&self) -> usize {
        self.tokens.max_tokens()
    }

    /// How full the cache of pages is, and how often it helped.
    #[must_use]
    pub fn cache(&self) -> CacheState {
        self.cache.state()
    }

    /// Lets go of all pages that are kept.
    pub fn clear_cache(&self) {
        self.cache.clear();
    }

    /// Stops the devices and ends every call in flight with [`ErrorKind::Closed`].
    pub fn close(&self) {
        if self.process == process::id() {
            self.end.end();
            let state = std::mem::replace(
                &mut *self.scheduler.write().unwrap_or_else(PoisonError::into_inner),
                SchedulerState::Closed,
            );
            self.cache.clear();
            self.tasks.close();
            if let SchedulerState::Running(scheduler) = state {
                // Calls in flight hold the scheduler too; the last of them waits for the batches that run.
                scheduler.close();
            }
        }
    }

    /// The windows of a text, in characters.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidText`] for a text that is too long.
    pub fn parse_pieces(&self, text: &str, unit: Unit, windows: Windows, call: &Call) -> Result<Vec<CharSpan>> {
        self.check_process()?;
        check_length(text)?;
        let call = &call.inside(&self.end);
        let (stop, deadline) = (call.stop().clone(), call.deadline());
        self.pool.run(call, text.len(), || {
            let page = Page::new(text);
            let pieces = windows
                .over(&self.units(&Document::read(text, Format::Text), unit, &|| call::check(&stop, deadline))?.spans);
            Ok(pieces.into_iter().map(|piece| page.chars(piece)).collect())
        })
    }

    /// The vectors of texts.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidText`] for a text that is too long; what the encoder says; what ends the call.
    pub fn embed(&self, texts: &[&str], role: Role, call: &Call) -> Result<Embedded> {
        let scheduler = self.scheduler()?;
        block_on(self.embedded(texts, role, call), &scheduler, call)
    }

    async fn embedded(&self, texts: &[&str], role: Role, call: &Call<'_>) -> Result<Embedded> {
        let scheduler = self.scheduler()?;
        let call = &call.inside(&self.end);
        let (lane, began) = (self.stages.lane(), Instant::now());
        let (rows, truncated) = self.rows_of_texts(texts, role, call)?;
        self.stages.call(Stage::Tokenize, &lane, began);
        let tokens = token_count(&rows);
        call.allow_tokens(tokens)?;
        let began = Instant::now();
        let mut pending = scheduler.submit(rows, call)?;
        let vectors = (&mut pending).await?;
        self.stages.call(Stage::Wait, &lane, began);
        Ok(Embedded { vectors, tokens, truncated, written_at: pending.address() })
    }

    /// The best passages of pages.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidText`] for a text that is too long, [`ErrorKind::InvalidArgument`] where queries, pages and titles do not
    /// go together; what the encoder says; what ends the call.
    pub fn highlights(&self, request: &Request, question: &Question, call: &Call) -> Result<Answers> {
        let scheduler = self.scheduler()?;
        block_on(self.answers(request, question, call), &scheduler, call)
    }

    async fn answers(&self, request: &Request<'_>, question: &Question, call: &Call<'_>) -> Result<Answers> {
        let scheduler = self.scheduler()?;
        request.check()?;
        self.answers_through(scheduler, request, question, call).await
    }

    /// The answers to a request that was checked, with vectors by this scheduler.
    async fn answers_through(
        &self,
        scheduler: Arc<Scheduler>,
        request: &Request<'_>,
        question: &Question,
        call: &Call<'_>,
    ) -> Result<Answers> {
        let (lane, call) = (self.stages.lane(), &call.inside(&self.end));
        let work = Work::default();
        run::answer(CallContext { engine: self, scheduler, request, question, call, lane, work }).await
    }

    fn units(&self, document: &Document, unit: Unit, go_on: &GoOn) -> Result<Units> {
        let text = document.text();
        match unit {
            Unit::Sentence => Ok(Units::sentences(text, document.blocks(), document.links())),
            Unit::Word => Ok(Units::apart(pieces::words(text))),
            Unit::Token => Ok(Units::apart(self.tokens.units(text, go_on)?)),
        }
    }

    fn check_process(&self) -> Result<()> {
        if self.process == process::id() {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Forked,
            format!(
                "this highlighter was made in process {}, of which process {} is a fork; its threads are not here. Make a new one after the fork, or start processes by spawn",
                self.process,
                process::id()
            ),
        ))
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
                let encoder = encoder.get_mut().unwrap_or_else(PoisonError::into_inner).take().ok_or_else(closed)?;
                let watched = Telemetry { board: Arc::clone(&self.board), stages: Arc::clone(&self.stages) };
                let scheduler = Arc::new(if self.is_driven {
                    Scheduler::driven(encoder, self.batching, watched)
                } else {
                    Scheduler::start(encoder, self.batching, watched, self.cores.clone())?
                });
                *state = SchedulerState::Running(Arc::clone(&scheduler));
                Ok(scheduler)
            }
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if self.process != process::id() {
            // The thread to be joined is in the parent; freeing what it owns could touch locks it holds.
            let state = std::mem::replace(
                self.scheduler.get_mut().unwrap_or_else(PoisonError::into_inner),
                SchedulerState::Closed,
            );
            std::mem::forget(state);
            std::mem::forget(std::mem::replace(&mut self.pool, Pool::new(Some(1))));
            std::mem::forget(std::mem::replace(&mut self.tasks, Tasks::new(1, CpuAffinity::default())));
        }
    }
}

fn all_rows(page: &Arc<TokenPage>) -> Vec<RowSource> {
    (0..page.len()).map(|window| RowSource { page: Arc::clone(page), window }).collect()
}

fn token_count(rows: &[RowSource]) -> usize {
    rows.iter().map(|row| row.page.row_len(row.window)).sum()
}

/// A count or an index, as numpy's default integer.
fn column(value: usize) -> i64 {
    i64::try_from(value).expect("nothing in memory has 2^63 parts")
}
