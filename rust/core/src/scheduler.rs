//! The scheduler: one thread owns every device and forms batches over all waiting jobs.
//!
//! It submits batches to all devices first, then collects finished ones and writes each row into the array that the
//! caller will own. Without work it sleeps; new jobs, finished batches and `close` wake it. With `threads="caller"` the
//! callers that wait for vectors run its rounds instead (see `callers`).
//!
//! From batch to batch it allocates nothing (`tests/allocations.rs`): batches and their row targets reuse their
//! buffers. Only a new job allocates.

pub(crate) mod batches;
mod callers;
pub(crate) mod device_stats;
mod devices;
pub mod fair_queue;
#[cfg(all(test, feature = "loom"))]
mod loom_models;
mod pending;
mod round;

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use crate::encoder::{Batching, Encoder};
use crate::error::{Error, ErrorKind, Result};
use crate::runtime::affinity::CpuAffinity;
use crate::runtime::call::Call;
use crate::runtime::profiling::Profiler;
use crate::runtime::sync::thread::{self, JoinHandle};
use crate::runtime::sync::{Condvar, Mutex, MutexGuard};
use crate::scheduler::batches::{BatchQueries, Job, RowSource};
use crate::scheduler::device_stats::DeviceStats;
use callers::{Callers, ParkingSlot};
use pending::Reply;
pub(crate) use pending::{Pending, block_on};
use round::Round;

/// Jobs queued at the scheduler. Further callers wait for space until their deadline.
const MAX_WAITING_JOBS: usize = if cfg!(feature = "loom") { 1 } else { 4096 };

/// Dropping it ends every unfinished job with [`ErrorKind::Closed`], and joins the thread if there is one.
pub(crate) struct Scheduler {
    inbox: Arc<Inbox>,
    drive: Drive,
}

/// What the scheduler reports to other threads.
pub(crate) struct Telemetry {
    pub(crate) device_stats: Arc<DeviceStats>,
    pub(crate) profiler: Arc<Profiler>,
}

/// Which threads run the scheduler's rounds.
enum Drive {
    Thread(Option<JoinHandle<()>>),
    /// The callers that wait for vectors.
    Callers(Callers),
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
    // The fields below are used only where callers run the rounds.
    round_running: bool,
    /// Submitted batches that no caller has started to compute.
    unclaimed_batches: usize,
    next_poll: NextPoll,
    /// Callers that wait for vectors, parked or not.
    waiting_callers: usize,
    /// The parked ones, in the order in which they parked. A caller that is woken is removed first.
    parked: Vec<ParkingSlot>,
}

/// When a round is due even if no event arrives.
#[derive(Default)]
struct NextPoll {
    deadline: Option<Instant>,
    /// Whether a parked caller wakes at `deadline`.
    has_waiter: bool,
}

impl Scheduler {
    /// A scheduler without a thread: callers that wait for vectors run its rounds.
    pub(crate) fn by_callers(encoder: Box<dyn Encoder>, batching: Batching, telemetry: Telemetry) -> Self {
        let (encoder, inbox) = with_waker(encoder);
        let round = Round::new(encoder, batching, telemetry, Arc::clone(&inbox));
        Self { inbox, drive: Drive::Callers(Callers::new(round)) }
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
        Ok(Self { inbox, drive: Drive::Thread(Some(thread)) })
    }

    /// Queues rows. Their vectors come in one allocation, in the order of `rows`.
    pub(crate) fn submit(&self, rows: Vec<RowSource>, call: &Call) -> Result<Pending> {
        self.submit_with_queries(rows, None, call)
    }

    /// As [`Self::submit`]. With queries, each row returns its cosine with every query instead of its vector.
    pub(crate) fn submit_with_queries(
        &self,
        rows: Vec<RowSource>,
        queries: Option<Arc<BatchQueries>>,
        call: &Call,
    ) -> Result<Pending> {
        let reply = Reply::default();
        let job = Job {
            rows,
            queries,
            vectors: Vec::new(),
            stop: call.stop().clone(),
            deadline: call.deadline(),
            priority: call.priority(),
            progress: call.counters().clone(),
            reply: reply.clone(),
        };
        let mut state = self.inbox.lock();
        // With callers as the scheduler, waiting here would block the rounds that make space. Hosts limit their
        // requests instead.
        while state.unfinished >= MAX_WAITING_JOBS && !state.closed && !self.is_driven_by_callers() {
            state = wait(&self.inbox.changed, state, call.poll_interval());
            call.check()?;
        }
        if state.closed {
            return Err(closed());
        }
        state.unfinished += 1;
        state.arrived.push_back(job);
        state.wake_for_work();
        drop(state);
        self.inbox.changed.notify_all();
        Ok(Pending::new(reply, Arc::clone(&self.inbox)))
    }

    /// Whether callers must call [`WaitingCaller::drive`](callers::WaitingCaller::drive) to make progress.
    pub(crate) const fn is_driven_by_callers(&self) -> bool {
        matches!(self.drive, Drive::Callers(_))
    }

    fn inbox_for_callers(&self) -> Option<Arc<Inbox>> {
        self.is_driven_by_callers().then(|| Arc::clone(&self.inbox))
    }

    /// Ends every unfinished job and, after its current round, the thread.
    pub(crate) fn close(&self) {
        self.inbox.close();
        if let Drive::Callers(callers) = &self.drive {
            callers.close();
        }
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.close();
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
        state.wake_for_work();
        drop(state);
        self.changed.notify_all();
    }

    /// Rejects new jobs and wakes all callers.
    fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.wake_all();
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
