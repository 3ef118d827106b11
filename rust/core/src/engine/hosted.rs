//! Hosted calls: batches out, vectors in, for a host with a model and a scheduler of its own, such as vLLM.
//!
//! The host takes batches from a call, encodes them in any order and together with other work, and returns their
//! vectors until the call is answered. Each call has its own scheduler, which the host drives. So its batches never mix
//! with another call's, and dropping a call affects no other.

use std::borrow::Cow;
use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use super::drivers::DrivenCall;
use super::{Answers, Engine, Question, Request, VectorSource};
use crate::encoder::{Batch, Collected, DeviceSpec, Encoder, EncoderSpec, Ticket, Waker};
use crate::error::{Error, ErrorKind, Result};
use crate::runtime::call::{Call, CallProgress};
use crate::runtime::sync::lock;
use crate::scheduler::device_stats::DeviceStats;
use crate::scheduler::{Scheduler, Telemetry};

/// Tokens of a batch for the host. The host forms batches of its own, so this only sets how often it is called.
const BATCH_TOKENS: usize = 4096;

/// How long a round waits for the scores of pairs, which the host does not compute.
const MAX_WAIT: Duration = Duration::from_millis(50);

/// A call whose rows its host encodes. It ends with a `T`.
pub struct Hosted<T = Answers> {
    /// `None` once the call has ended.
    driven: Option<DrivenCall<T>>,
    engine: Arc<Engine>,
    call: Arc<Call<'static>>,
    scheduler: Arc<Scheduler>,
    queue: Arc<HostQueue>,
    dimension: usize,
}

/// Stands in for an encoder in an engine whose host encodes: it has a spec and cannot compute.
#[derive(Debug)]
pub struct HostEncoder(EncoderSpec);

/// Batches on their way to the host, and vectors on their way back.
#[derive(Debug, Default)]
struct HostQueue(Mutex<HostQueueState>);

#[derive(Debug, Default)]
struct HostQueueState {
    /// Batches that the host has not taken.
    submitted: Vec<(Ticket, Batch)>,
    /// The number of rows of each batch without vectors.
    row_counts: HashMap<Ticket, usize>,
    /// Vectors that the scheduler has not collected.
    finished: HashMap<Ticket, Vec<f32>>,
}

/// The encoder of one call: it queues batches for the host.
struct QueueEncoder {
    spec: EncoderSpec,
    queue: Arc<HostQueue>,
    next: u64,
}

impl HostQueue {
    fn lock(&self) -> MutexGuard<'_, HostQueueState> {
        // No holder panics halfway through a change.
        lock(&self.0)
    }
}

impl HostEncoder {
    /// `max_tokens` and `vocabulary` are the limits of the host's model.
    pub fn new(name: String, dimension: usize, max_tokens: usize, vocabulary: usize) -> Self {
        Self(EncoderSpec::new("host", dimension, max_tokens, vocabulary, vec![DeviceSpec::new(name, 1, BATCH_TOKENS)]))
    }
}

impl Encoder for HostEncoder {
    fn spec(&self) -> &EncoderSpec {
        &self.0
    }

    fn set_waker(&mut self, _: Waker) {}

    fn submit(&mut self, _: usize, _: &Batch) -> Result<Ticket> {
        Err(Error::new(ErrorKind::Internal, "this engine's rows are encoded by its host"))
    }

    fn is_finished(&mut self, _: Ticket) -> bool {
        true
    }

    fn collect(&mut self, _: Ticket, _: &mut dyn FnMut(Cow<'_, [f32]>)) -> Result<Collected> {
        Err(Error::new(ErrorKind::Internal, "this engine's rows are encoded by its host"))
    }
}

impl Encoder for QueueEncoder {
    fn spec(&self) -> &EncoderSpec {
        &self.spec
    }

    // No scheduler sleeps that a waker could wake: the host drives it after it has returned vectors.
    fn set_waker(&mut self, _: Waker) {}

    fn submit(&mut self, device: usize, batch: &Batch) -> Result<Ticket> {
        self.next += 1;
        let ticket = Ticket { device, number: self.next };
        let mut state = self.queue.lock();
        state.row_counts.insert(ticket, batch.lengths.len());
        state.submitted.push((ticket, batch.clone()));
        Ok(ticket)
    }

    fn is_finished(&mut self, ticket: Ticket) -> bool {
        self.queue.lock().finished.contains_key(&ticket)
    }

    fn collect(&mut self, ticket: Ticket, receive: &mut dyn FnMut(Cow<'_, [f32]>)) -> Result<Collected> {
        let missing = || Error::new(ErrorKind::Internal, "a batch whose vectors are not back");
        let vectors = self.queue.lock().finished.remove(&ticket).ok_or_else(missing)?;
        receive(Cow::Owned(vectors));
        Ok(Collected::default())
    }
}

impl<T: Send + 'static> Hosted<T> {
    /// A call for highlights, as [`Self::of_call`].
    ///
    /// # Errors
    /// As [`Self::of_call`], and as [`Engine::highlights`] for invalid requests.
    pub fn new<Text: AsRef<str> + Send + Sync + 'static>(
        engine: Arc<Engine>,
        request: Arc<Request<Text>>,
        question: Question,
        call: Call<'static>,
        depth: usize,
    ) -> Result<Self>
    where
        T: From<Answers>,
    {
        request.check()?;
        Self::of_call(engine, call, depth, |engine, vectors, call| async move {
            engine.highlights_with(&vectors, &request, &question, &call).await.map(T::from)
        })
    }

    /// A call of an engine that was made with a [`HostEncoder`], with at most `depth` batches at the host. Its work is a
    /// future that takes its vectors from a source of its own, and starts with the first [`Hosted::advance`].
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a depth of 0; [`ErrorKind::Closed`], [`ErrorKind::Forked`].
    pub fn of_call<F: Future<Output = Result<T>> + Send + 'static>(
        engine: Arc<Engine>,
        call: Call<'static>,
        depth: usize,
        work: impl FnOnce(Arc<Engine>, VectorSource, Arc<Call<'static>>) -> F,
    ) -> Result<Self> {
        // Fails in a closed engine or a forked process.
        let of_engine = engine.scheduler()?;
        if depth == 0 {
            return Err(Error::new(ErrorKind::InvalidArgument, "depth must be at least 1, not 0"));
        }
        let mut spec = engine.spec.clone();
        spec.devices.iter_mut().for_each(|device| device.depth = depth);
        let (queue, dimension) = (Arc::new(HostQueue::default()), spec.dimension);
        let device_stats = Arc::new(DeviceStats::new(&spec));
        let telemetry = Telemetry { device_stats, profiler: Arc::clone(&engine.profiler) };
        let encoder = QueueEncoder { spec, queue: Arc::clone(&queue), next: 0 };
        let scheduler = Scheduler::stepped(Box::new(encoder), engine.batching, telemetry);
        let scheduler = Arc::new(scheduler.with_scores(of_engine.scores().cloned()));
        let call = Arc::new(call);
        let future = work(Arc::clone(&engine), VectorSource(Arc::clone(&scheduler)), Arc::clone(&call));
        let driven = Some(DrivenCall::new(Arc::clone(&call), future));
        Ok(Self { driven, engine, call, scheduler, queue, dimension })
    }

    /// Runs the call until it ends or needs more vectors; returns `None` while it waits for the host. Waits for the scores
    /// of a reranker.
    ///
    /// # Errors
    /// Those of its work, and the call has ended then; [`ErrorKind::InvalidArgument`] if it had ended before.
    pub fn advance(&mut self) -> Result<Option<T>> {
        let Some(mut driven) = self.driven.take() else {
            return Err(Error::new(ErrorKind::InvalidArgument, "this call has ended"));
        };
        self.engine.scheduler()?;
        loop {
            self.call.check()?;
            if driven.is_woken() {
                if let Some(output) = driven.poll() {
                    return output.map(Some);
                }
                continue;
            }
            // The first round collects, which makes room on the device; the second one submits.
            for _ in 0..2 {
                self.scheduler.step(Duration::ZERO);
            }
            if !driven.is_woken() && self.scheduler.is_scoring() {
                self.scheduler.step(MAX_WAIT);
            } else if !driven.is_woken() {
                self.driven = Some(driven);
                return Ok(None);
            }
        }
    }

    /// Takes the batches that were submitted since the last call of this.
    pub fn take_batches(&mut self) -> Vec<(Ticket, Batch)> {
        std::mem::take(&mut self.queue.lock().submitted)
    }

    /// Returns the concatenated vectors of a batch. Batches may come back in any order.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a batch without missing vectors, [`ErrorKind::Encoder`] for a wrong number of
    /// values, after which the batch still needs its vectors.
    pub fn return_vectors(&mut self, ticket: Ticket, vectors: Vec<f32>) -> Result<()> {
        let mut state = self.queue.lock();
        let Some(rows) = state.row_counts.get(&ticket).copied() else {
            let message =
                format!("batch {} is not in flight: it has its vectors, or was never requested", ticket.number);
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        };
        if vectors.len() != rows * self.dimension {
            let message = format!(
                "batch {} has {rows} rows, so it needs {} values, not {}",
                ticket.number,
                rows * self.dimension,
                vectors.len()
            );
            return Err(Error::new(ErrorKind::Encoder, message));
        }
        state.row_counts.remove(&ticket);
        state.finished.insert(ticket, vectors);
        Ok(())
    }

    /// Work done so far, also after an error.
    pub fn progress(&self) -> CallProgress {
        self.call.progress()
    }
}
