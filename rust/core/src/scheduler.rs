//! The scheduler: one thread owns every device and forms batches over all waiting jobs.
//!
//! It submits batches to all devices first, then collects finished ones and writes each row into the array that the
//! caller will own. Without work it sleeps; new jobs, finished batches and `close` wake it. Where a host drives an engine
//! or a call, its steps run the rounds instead.
//!
//! From batch to batch it allocates nothing (`rust/core/tests/allocations.rs`): batches and their row targets reuse
//! their buffers. Only a new job allocates.

pub(crate) mod batches;
pub(crate) mod device_stats;
mod devices;
pub mod fair_queue;
#[cfg(all(test, feature = "loom"))]
mod loom_models;
mod pending;
mod round;

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use crate::encoder::{Batching, Encoder};
use crate::error::{Error, ErrorKind, Result};
use crate::runtime::affinity::CpuAffinity;
use crate::runtime::call::Call;
use crate::runtime::profiling::Profiler;
use crate::runtime::sync::thread::{self, JoinHandle};
use crate::runtime::sync::{Condvar, Mutex, MutexGuard};
use crate::scheduler::batches::{Job, RowSource, Wanted};
use crate::scheduler::device_stats::DeviceStats;
use pending::Reply;
pub(crate) use pending::{Pending, block_on};
use round::Round;

/// Jobs queued at the scheduler. Further callers wait for space until their deadline.
const MAX_WAITING_JOBS: usize = if cfg!(feature = "loom") { 1 } else { 4096 };

/// How long a step waits for pairs while vectors are awaited too.
const BOTH_BUSY_WAIT: Duration = Duration::from_millis(1);

/// Dropping it ends every unfinished job with [`ErrorKind::Closed`], and joins the thread if there is one.
pub(crate) struct Scheduler {
    inbox: Arc<Inbox>,
    drive: Drive,
    /// Scores pairs of texts, where the devices of vectors do not.
    scores: Option<Arc<Scheduler>>,
}

/// What the scheduler reports to other threads.
pub(crate) struct Telemetry {
    pub(crate) device_stats: Arc<DeviceStats>,
    pub(crate) profiler: Arc<Profiler>,
}

/// Which threads run the scheduler's rounds.
enum Drive {
    Thread(Option<JoinHandle<()>>),
    /// The thread that calls [`Scheduler::step`]. `None` after the end.
    Steps(Mutex<Option<Box<Round>>>),
}

/// Messages from callers and encoders to the scheduler.
#[derive(Default)]
struct Inbox {
    state: Mutex<InboxState>,
    /// Notified at every change of `state`: wakes the scheduler's thread, and callers that wait for space in the queue.
    changed: Condvar,
}

#[derive(Default)]
struct InboxState {
    arrived: VecDeque<Job<Reply>>,
    /// Jobs accepted and not finished, including those in `arrived`.
    unfinished: usize,
    /// Set by a finished batch or a dropped call; cleared when a round starts.
    woken: bool,
    closed: bool,
}

impl Scheduler {
    /// A scheduler without a thread, whose rounds [`Self::step`] runs.
    pub(crate) fn stepped(encoder: Box<dyn Encoder>, batching: Batching, telemetry: Telemetry) -> Self {
        let (encoder, inbox) = with_waker(encoder);
        let round = Round::new(encoder, batching, telemetry, Arc::clone(&inbox));
        Self { inbox, drive: Drive::Steps(Mutex::new(Some(Box::new(round)))), scores: None }
    }

    /// Waits at most `timeout` for something to do, and runs a round. An encoder without threads computes in it.
    pub(crate) fn step(&self, timeout: Duration) {
        let Some(scores) = self.scores.as_ref().filter(|scores| scores.is_busy()) else {
            return self.step_own(timeout);
        };
        self.step_own(Duration::ZERO);
        scores.step_own(if self.is_busy() { timeout.min(BOTH_BUSY_WAIT) } else { timeout });
    }

    /// Whether jobs are unfinished.
    fn is_busy(&self) -> bool {
        self.inbox.lock().unfinished > 0
    }

    /// Whether a step can do more although no vector has come: pairs are scored.
    pub(crate) fn is_scoring(&self) -> bool {
        self.scores.as_ref().is_some_and(|scores| scores.is_busy())
    }

    fn step_own(&self, timeout: Duration) {
        let Drive::Steps(round) = &self.drive else { return };
        let mut round = lock(round);
        // A round that ends or panics is dropped, which replies to all callers.
        if let Some(mut open) = round.take()
            && open.once(timeout)
        {
            *round = Some(open);
        }
    }

    /// Starts the thread, which owns the encoder from now on.
    pub(crate) fn start(
        encoder: Box<dyn Encoder>,
        batching: Batching,
        telemetry: Telemetry,
        cores: CpuAffinity,
    ) -> Result<Self> {
        let (encoder, inbox) = with_waker(encoder);
        let for_thread = Arc::clone(&inbox);
        let thread = thread::Builder::new()
            .name("pullquote-scheduler".to_owned())
            .spawn(move || {
                // `CpuAffinity::new` checked these cores.
                let _ = cores.apply();
                Round::new(encoder, batching, telemetry, for_thread).run();
            })
            .map_err(|error| Error::new(ErrorKind::Internal, format!("no thread for the scheduler: {error}")))?;
        Ok(Self { inbox, drive: Drive::Thread(Some(thread)), scores: None })
    }

    /// Gives the pairs of texts to another scheduler, whose devices score them.
    pub(crate) fn with_scores(mut self, scores: Option<Arc<Self>>) -> Self {
        self.scores = scores;
        self
    }

    /// Where pairs of texts are scored, if that is another scheduler.
    pub(crate) const fn scores(&self) -> Option<&Arc<Self>> {
        self.scores.as_ref()
    }

    /// Queues rows. Their vectors come in one allocation, in the order of `rows`.
    pub(crate) fn submit(&self, rows: Vec<RowSource>, call: &Call) -> Result<Pending> {
        self.submit_for(Wanted::Vector, rows, call)
    }

    /// As [`Self::submit`], for other values than vectors.
    pub(crate) fn submit_for(&self, wanted: Wanted, rows: Vec<RowSource>, call: &Call) -> Result<Pending> {
        if let (Wanted::Score | Wanted::Labels, Some(scores)) = (&wanted, &self.scores) {
            return scores.submit_for(wanted, rows, call);
        }
        let reply = Reply::default();
        let job = Job {
            rows,
            wanted,
            values: Vec::new(),
            stop: call.stop().clone(),
            deadline: call.deadline(),
            priority: call.priority(),
            progress: call.counters().clone(),
            reply: reply.clone(),
        };
        let mut state = self.inbox.lock();
        // Where steps run the rounds, waiting here would block those that make space. Hosts limit their requests
        // instead.
        while state.unfinished >= MAX_WAITING_JOBS && !state.closed && !self.is_stepped() {
            state = wait(&self.inbox.changed, state, call.poll_interval());
            call.check()?;
        }
        if state.closed {
            return Err(closed());
        }
        state.unfinished += 1;
        state.arrived.push_back(job);
        drop(state);
        self.inbox.changed.notify_all();
        Ok(Pending::new(reply, Arc::clone(&self.inbox)))
    }

    const fn is_stepped(&self) -> bool {
        matches!(self.drive, Drive::Steps(_))
    }

    /// Ends every unfinished job and, after its current round, the thread; also of the scheduler of pairs.
    pub(crate) fn close(&self) {
        self.close_own();
        if let Some(scores) = &self.scores {
            scores.close();
        }
    }

    fn close_own(&self) {
        self.inbox.close();
        // A step that runs sees that the inbox is closed.
        if let Drive::Steps(round) = &self.drive
            && let Ok(mut round) = round.try_lock()
        {
            *round = None;
        }
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        // Others may use the scheduler of pairs.
        self.close_own();
        if let Drive::Thread(thread) = &mut self.drive
            && let Some(thread) = thread.take()
            && thread.thread().id() != thread::current().id()
        {
            // If the scheduler panicked, its callers already received the error.
            let _ = thread.join();
        }
    }
}

/// Connects the encoder's waker to a new inbox.
fn with_waker(mut encoder: Box<dyn Encoder>) -> (Box<dyn Encoder>, Arc<Inbox>) {
    let inbox = Arc::new(Inbox::default());
    let for_waker = Arc::clone(&inbox);
    encoder.set_waker(Arc::new(move || for_waker.wake()));
    (encoder, inbox)
}

impl Inbox {
    fn lock(&self) -> MutexGuard<'_, InboxState> {
        lock(&self.state)
    }

    fn wake(&self) {
        let mut state = self.lock();
        state.woken = true;
        drop(state);
        self.changed.notify_all();
    }

    /// Rejects new jobs and wakes all callers.
    fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        drop(state);
        self.changed.notify_all();
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the highlighter was closed; make a new one")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No holder of these mutexes panics halfway through a change.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wait<'guard, T>(changed: &Condvar, guard: MutexGuard<'guard, T>, timeout: Duration) -> MutexGuard<'guard, T> {
    changed.wait_timeout(guard, timeout).unwrap_or_else(PoisonError::into_inner).0
}
