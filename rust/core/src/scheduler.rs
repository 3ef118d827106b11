//! Vectors: the scheduler, the one thread that owns every device.
//!
//! Where a host lends no thread for it, those who wait for vectors take turns at being it (see `callers`).
//!
//! It walks the devices serially and submits, then collects in a second pass, writing each row straight into the memory
//! that the caller's array will own. It sleeps when nothing is to be done: jobs, finished batches and the end wake it.
//!
//! From batch to batch it allocates nothing (`tests/allocations.rs`): what it writes batches and targets into is kept. Only
//! jobs are allocated for, when they come.

pub(crate) mod batches;
mod callers;
pub(crate) mod device_stats;
mod devices;
pub mod fair_queue;
#[cfg(all(test, feature = "loom"))]
mod models;
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
use crate::scheduler::batches::{Job, Queries, RowSource, Written};
use crate::scheduler::device_stats::DeviceStats;
use callers::{Callers, ParkingSlot};
use pending::Reply;
pub(crate) use pending::{Pending, block_on};
use round::Round;

/// Jobs that may wait for the scheduler; callers wait for a place beyond it, until their deadline.
const MAX_WAITING_JOBS: usize = if cfg!(feature = "loom") { 1 } else { 4096 };

/// Handle on the scheduler; dropping it ends every unfinished job with [`ErrorKind::Closed`], and the thread where it has one.
pub(crate) struct Scheduler {
    inbox: Arc<Inbox>,
    drive: Drive,
}

/// Where others see what the scheduler does.
pub(crate) struct Telemetry {
    pub(crate) board: Arc<DeviceStats>,
    pub(crate) stages: Arc<Profiler>,
}

/// Who runs the scheduler's rounds.
enum Drive {
    /// A thread of its own.
    Thread(Option<JoinHandle<()>>),
    /// Those who wait for vectors.
    Callers(Callers),
}

/// What callers and encoders tell the scheduler.
#[derive(Default)]
struct Inbox {
    state: Mutex<InboxState>,
    /// Signalled whenever `state` changes: to the scheduler's thread, where it has one, and to who waits for a place.
    changed: Condvar,
}

#[derive(Default)]
struct InboxState {
    arrived: VecDeque<Job<Reply>>,
    /// Jobs taken in and not ended, those in `arrived` included.
    unfinished: usize,
    /// A batch was finished, or a call stopped, since the scheduler last looked.
    woken: bool,
    closed: bool,
    // What follows is of no meaning where the scheduler has a thread.
    /// Somebody runs a round.
    driven: bool,
    /// Batches that wait for a thread to be computed on, and that nobody has taken.
    offered: usize,
    look: NextPoll,
    /// How many wait for vectors, whatever they do meanwhile.
    attending: usize,
    /// Where those of them sleep who do, the last one last. Who is woken is taken out.
    asleep: Vec<ParkingSlot>,
}

/// The next round that is due though nothing happens.
#[derive(Default)]
struct NextPoll {
    /// When it is.
    by: Option<Instant>,
    /// Whether somebody sleeps no longer than until then.
    has_waiter: bool,
}

impl Scheduler {
    /// A scheduler that those who wait for vectors drive.
    pub(crate) fn driven(encoder: Box<dyn Encoder>, batching: Batching, watched: Telemetry) -> Self {
        let (encoder, inbox) = with_waker(encoder);
        let round = Round::new(encoder, batching, watched, Arc::clone(&inbox));
        Self { inbox, drive: Drive::Callers(Callers::new(round)) }
    }

    /// Starts the thread, which owns the encoder from now on.
    pub(crate) fn start(
        encoder: Box<dyn Encoder>,
        batching: Batching,
        watched: Telemetry,
        cores: CpuAffinity,
    ) -> Result<Self> {
        let (encoder, inbox) = with_waker(encoder);
        let for_thread = Arc::clone(&inbox);
        let thread = thread::Builder::new()
            .name("pullquote-scheduler".to_owned())
            .spawn(move || {
                // They were tried when the engine was made.
                let _ = cores.apply();
                Round::new(encoder, batching, watched, for_thread).run();
            })
            .map_err(|error| Error::new(ErrorKind::Internal, format!("no thread for the scheduler: {error}")))?;
        Ok(Self { inbox, drive: Drive::Thread(Some(thread)) })
    }

    /// Hands in rows; their vectors come one behind the other in one allocation.
    pub(crate) fn submit(&self, rows: Vec<RowSource>, call: &Call) -> Result<Pending> {
        self.submit_with_queries(rows, None, call)
    }

    /// The same, with queries: the scores of each row, one for each query, come in the place of its vector.
    pub(crate) fn submit_with_queries(
        &self,
        rows: Vec<RowSource>,
        queries: Option<Arc<Queries>>,
        call: &Call,
    ) -> Result<Pending> {
        let reply = Reply::default();
        let job = Job {
            rows,
            queries,
            vectors: Written::default(),
            stop: call.stop().clone(),
            deadline: call.deadline(),
            priority: call.priority(),
            progress: call.progress().clone(),
            done: reply.clone(),
        };
        let mut state = self.inbox.lock();
        // Who drives cannot wait for itself; a host's step knows how many requests it has taken in.
        while state.unfinished >= MAX_WAITING_JOBS && !state.closed && !self.is_driven() {
            state = wait(&self.inbox.changed, state, call.patience());
            call.check()?;
        }
        if state.closed {
            return Err(closed());
        }
        state.unfinished += 1;
        state.arrived.push_back(job);
        state.pass_on();
        drop(state);
        self.inbox.changed.notify_all();
        Ok(Pending::new(reply, Arc::clone(&self.inbox)))
    }

    /// Whether those who wait for vectors have to [drive](callers::Attendant::drive).
    pub(crate) const fn is_driven(&self) -> bool {
        matches!(self.drive, Drive::Callers(_))
    }

    fn driven_inbox(&self) -> Option<Arc<Inbox>> {
        self.is_driven().then(|| Arc::clone(&self.inbox))
    }

    /// Ends every unfinished job, and the thread as soon as it can.
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
            // A panic of the scheduler has been told to its callers already.
            let _ = thread.join();
        }
    }
}

/// The encoder, which wakes whoever looks into the inbox.
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
        state.pass_on();
        drop(state);
        self.changed.notify_all();
    }

    /// Takes nothing in any more, and tells everybody.
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
    // What the mutexes here guard is never left half-changed, so a panic elsewhere does not spoil it.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wait<'guard, T>(changed: &Condvar, guard: MutexGuard<'guard, T>, longest: Duration) -> MutexGuard<'guard, T> {
    changed.wait_timeout(guard, longest).unwrap_or_else(PoisonError::into_inner).0
}
