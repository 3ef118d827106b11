//! The engine: from queries and pages to highlights, for many callers at once.
//!
//! A caller's thread cuts pages and reads their words (large texts on the engine's own pool), tokenizes the windows that
//! these point at (see `effort`) and hands them to the conductor, part after part (see `rows`), and chooses when their
//! vectors are back. What a score means depends on all pages of a call, so all are read before any is judged.

mod answers;
mod cache;
mod effort;
mod hosted;
mod owned;
mod pairs;
mod parts;
mod prepared;
mod reading;
mod request;
mod rows;
mod run;
mod spoken;
mod steps;
mod titles;

use std::process;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use crate::batches::RowSource;
use crate::board::Board;
pub use crate::board::DeviceState;
use crate::call::{self, Call, End};
use crate::cores::Cores;
use crate::encoder::{Batching, Encoder, EncoderSpec};
use crate::error::{Error, ErrorKind, Result};
use crate::formats::{Document, Format};
use crate::highlights::Bounds;
use crate::model::Model;
use crate::page::{CharSpan, Page};
use crate::pieces::{self, Unit, Units, Windows};
use crate::pool::Pool;
use crate::scores::relevance::Lexical;
use crate::stages::{Stage, Stages};
use crate::tasks::Tasks;
use crate::tokens::{GoOn, Role, TokenPage, Tokens};
use crate::vectors::{Conductor, Watched, block_on};
pub use answers::{Answers, Matches};
use cache::Cache;
pub use cache::CacheState;
pub use effort::Effort;
pub use hosted::{HostEncoder, Hosted};
pub use owned::OwnedRequest;
pub use pairs::Pair;
pub use parts::Parts;
use request::check_length;
use run::Run;
pub use steps::{Finished, Steps};

/// The longest text: positions of tokens are counted in 32 bits.
pub const MAX_TEXT_BYTES: usize = 1 << 30;

/// A model, its devices, and the thread that owns them.
pub struct Engine {
    tokens: Tokens,
    spec: EncoderSpec,
    pool: Pool,
    tasks: Tasks,
    cache: Cache,
    batching: Batching,
    /// What is known of the devices.
    board: Arc<Board>,
    /// Where time goes.
    stages: Arc<Stages>,
    /// Where its threads run.
    cores: Cores,
    /// Whether those who wait for vectors do the conductor's work, instead of a thread.
    is_driven: bool,
    conductor: RwLock<ConductorState>,
    /// What tells calls that they end with the engine, wherever they are.
    end: End,
    /// The process the engine was made in: its threads do not exist in a fork of it.
    process: u32,
}

enum ConductorState {
    /// No call has come yet; the encoder waits for its thread.
    Idle(Mutex<Option<Box<dyn Encoder>>>),
    Running(Arc<Conductor>),
    Closed,
}

/// Which query goes with which page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairing {
    /// Every query with every page; each query has its own answers.
    All,
    /// Every query with every page; a unit is worth what it is to the query that it answers best.
    Fused,
    /// Query `i` with page `i`.
    Each,
}

/// Queries and pages of a call.
#[derive(Clone, Copy, Debug)]
pub struct Request<'text> {
    /// What is asked.
    pub queries: &'text [&'text str],
    /// The sources of the pages.
    pub pages: &'text [&'text str],
    /// What these are written in: one for all of them, or one for each.
    pub formats: &'text [Format],
    /// A title for each page, where there is one; or empty.
    pub titles: &'text [Option<&'text str>],
    /// Which query goes with which page.
    pub pairing: Pairing,
}

/// What is asked about the pages.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// What windows count in.
    pub unit: Unit,
    /// How long windows are and how far apart.
    pub windows: Windows,
    /// Whether sentences are ranked and passages grown from them, or windows are returned as they are. Only sentences grow.
    pub grow: bool,
    /// How much words count against meaning.
    pub lexical: Lexical,
    /// How much of the pages is encoded.
    pub effort: Effort,
    /// How many units on each side of a highlight are reported beside it.
    pub context: usize,
    /// Whether the words that matched are reported.
    pub explain: bool,
    /// What highlights are bound by.
    pub bounds: Bounds,
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

/// What a call took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Work {
    /// Windows of the pages, and sentences where these are encoded too.
    pub pieces: usize,
    /// How many of them queries were compared with (see [`Effort`]).
    pub compared: usize,
    /// How many of these were encoded: not those that are kept, nor those that are equal to others.
    pub encoded: usize,
    /// Token ids encoded, special ones and the queries' included.
    pub tokens: usize,
    /// Windows that were compared and are longer than the model allows: no vector saw their end.
    pub truncated: usize,
    /// Time the caller spent cutting pages.
    pub cutting: Duration,
    /// Time the caller spent tokenizing.
    pub tokenizing: Duration,
    /// Time the caller spent waiting for vectors; devices also worked while it cut and tokenized.
    pub encoding: Duration,
    /// Time the caller spent scoring and choosing.
    pub choosing: Duration,
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
        let conductor = RwLock::new(ConductorState::Idle(Mutex::new(Some(encoder))));
        let (pool, cache) = (Pool::new(threads), Cache::new(cache_bytes));
        let tasks = Tasks::new(pool.threads(), Cores::default());
        let (batching, cores) = (Batching::default(), Cores::default());
        Ok(Self {
            tokens,
            board: Arc::new(Board::new(&spec)),
            stages: Arc::default(),
            spec,
            pool,
            tasks,
            cache,
            batching,
            cores,
            is_driven: false,
            conductor,
            end: End::default(),
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

    /// The same engine, whose devices wait at the end of each stage (see [`Stages`]), or which remembers what it does.
    #[must_use]
    pub fn profiled(mut self, synchronizes: bool, has_trace: bool) -> Self {
        let names = || self.spec.devices.iter().map(|device| device.name.clone()).collect();
        self.stages = Arc::new(Stages::new(synchronizes, has_trace.then(names)));
        self
    }

    /// The same engine with its threads on certain cores.
    #[must_use]
    pub fn on_cores(mut self, cores: &Cores) -> Self {
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
    pub fn stages(&self) -> &Stages {
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
                &mut *self.conductor.write().unwrap_or_else(PoisonError::into_inner),
                ConductorState::Closed,
            );
            self.cache.clear();
            self.tasks.close();
            if let ConductorState::Running(conductor) = state {
                // Calls in flight hold the conductor too; the last of them waits for the batches that run.
                conductor.close();
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
        let conductor = self.conductor()?;
        block_on(self.embedded(texts, role, call), &conductor, call)
    }

    async fn embedded(&self, texts: &[&str], role: Role, call: &Call<'_>) -> Result<Embedded> {
        let conductor = self.conductor()?;
        let call = &call.inside(&self.end);
        let (lane, began) = (self.stages.lane(), Instant::now());
        let (rows, truncated) = self.rows_of_texts(texts, role, call)?;
        self.stages.call(Stage::Tokenize, &lane, began);
        let tokens = token_count(&rows);
        call.allow_tokens(tokens)?;
        let began = Instant::now();
        let mut pending = conductor.submit(rows, call)?;
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
        let conductor = self.conductor()?;
        block_on(self.answers(request, question, call), &conductor, call)
    }

    async fn answers(&self, request: &Request<'_>, question: &Question, call: &Call<'_>) -> Result<Answers> {
        let conductor = self.conductor()?;
        request.check()?;
        self.answers_through(conductor, request, question, call).await
    }

    /// The answers to a request that was checked, with vectors by this conductor.
    async fn answers_through(
        &self,
        conductor: Arc<Conductor>,
        request: &Request<'_>,
        question: &Question,
        call: &Call<'_>,
    ) -> Result<Answers> {
        let (lane, call) = (self.stages.lane(), &call.inside(&self.end));
        Run { engine: self, conductor, request, question, call, lane, work: Work::default() }.answer().await
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

    fn conductor(&self) -> Result<Arc<Conductor>> {
        self.check_process()?;
        if let ConductorState::Running(conductor) = &*self.conductor.read().unwrap_or_else(PoisonError::into_inner) {
            return Ok(Arc::clone(conductor));
        }
        let mut state = self.conductor.write().unwrap_or_else(PoisonError::into_inner);
        let closed = || Error::new(ErrorKind::Closed, "the highlighter was closed; make a new one");
        match &mut *state {
            ConductorState::Running(conductor) => Ok(Arc::clone(conductor)),
            ConductorState::Closed => Err(closed()),
            ConductorState::Idle(encoder) => {
                let encoder = encoder.get_mut().unwrap_or_else(PoisonError::into_inner).take().ok_or_else(closed)?;
                let watched = Watched { board: Arc::clone(&self.board), stages: Arc::clone(&self.stages) };
                let conductor = Arc::new(if self.is_driven {
                    Conductor::driven(encoder, self.batching, watched)
                } else {
                    Conductor::start(encoder, self.batching, watched, self.cores.clone())?
                });
                *state = ConductorState::Running(Arc::clone(&conductor));
                Ok(conductor)
            }
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if self.process != process::id() {
            // The thread to be joined is in the parent; freeing what it owns could touch locks it holds.
            let state = std::mem::replace(
                self.conductor.get_mut().unwrap_or_else(PoisonError::into_inner),
                ConductorState::Closed,
            );
            std::mem::forget(state);
            std::mem::forget(std::mem::replace(&mut self.pool, Pool::new(Some(1))));
            std::mem::forget(std::mem::replace(&mut self.tasks, Tasks::new(1, Cores::default())));
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
