//! Vectors: the conductor, the one thread that owns every device.
//!
//! Where a host lends no thread for it, those who wait for vectors take turns at being it (see [`Conductor::drive`]).
//!
//! It walks the devices serially and submits, then collects in a second pass, writing each row straight into the memory
//! that the caller's array will own. It sleeps when nothing is to be done: jobs, finished batches and the end wake it.
//!
//! From batch to batch it allocates nothing (`tests/allocations.rs`): what it writes batches and targets into is kept. Only
//! jobs are allocated for, when they come.

#[cfg(all(test, feature = "loom"))]
mod models;
mod pending;

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use crate::batches::{Batches, Job, RowSource, RowTarget, check_values};
use crate::call::Call;
use crate::cores::Cores;
use crate::encoder::{Batch, Batching, Encoder, EncoderSpec, Ticket};
use crate::error::{Error, ErrorKind, Result};
use crate::sync::thread::{self, JoinHandle};
use crate::sync::{Condvar, Mutex, MutexGuard};
use pending::Reply;
pub(crate) use pending::{Pending, block_on, breathe};

/// Jobs that may wait for the conductor; callers wait for a place beyond it, until their deadline.
const MAX_WAITING_JOBS: usize = if cfg!(feature = "loom") { 1 } else { 4096 };

/// The longest sleep: an idle conductor looks around once a minute, a busy one often enough to feel a stopped call.
const IDLE: Duration = Duration::from_secs(60);
const BUSY: Duration = Duration::from_millis(50);

/// A list of targets begins with a place for each token of a device's batch, since a row has at least one, so that it need
/// not grow. For what a device may call its batch there is no bound, so there is one here: 1.5 MiB.
const MOST_PLACES: usize = 1 << 16;

/// Handle on the conductor; dropping it ends every unfinished job with [`ErrorKind::Closed`], and the thread where it has one.
pub(crate) struct Conductor {
    inbox: Arc<Inbox>,
    drive: Drive,
}

/// Who runs the conductor's rounds.
enum Drive {
    /// A thread of its own.
    Thread(Option<JoinHandle<()>>),
    /// Whoever waits for vectors, one at a time; nothing once it has ended.
    Callers(Mutex<Option<Box<Round>>>),
}

/// What callers and encoders tell the conductor.
#[derive(Default)]
struct Inbox {
    state: Mutex<InboxState>,
    /// Signalled whenever `state` changes.
    changed: Condvar,
}

#[derive(Default)]
struct InboxState {
    arrived: VecDeque<Job<Reply>>,
    /// Jobs taken in and not ended, those in `arrived` included.
    unfinished: usize,
    /// A batch was finished, or a call stopped, since the conductor last looked.
    woken: bool,
    /// Somebody runs a round. Of no meaning where the conductor has a thread.
    driven: bool,
    closed: bool,
}

impl Conductor {
    /// A conductor that those who wait for vectors drive.
    pub(crate) fn driven(encoder: Box<dyn Encoder>, batching: Batching) -> Self {
        let (encoder, inbox) = with_waker(encoder);
        let round = Round::new(encoder, batching, Arc::clone(&inbox));
        Self { inbox, drive: Drive::Callers(Mutex::new(Some(Box::new(round)))) }
    }

    /// Starts the thread, which owns the encoder from now on.
    pub(crate) fn start(encoder: Box<dyn Encoder>, batching: Batching, cores: Cores) -> Result<Self> {
        let (encoder, inbox) = with_waker(encoder);
        let for_thread = Arc::clone(&inbox);
        let thread = thread::Builder::new()
            .name("pullquote-conductor".to_owned())
            .spawn(move || {
                // They were tried when the engine was made.
                let _ = cores.apply();
                Round::new(encoder, batching, for_thread).run();
            })
            .map_err(|error| Error::new(ErrorKind::Internal, format!("no thread for the conductor: {error}")))?;
        Ok(Self { inbox, drive: Drive::Thread(Some(thread)) })
    }

    /// Hands in rows; their vectors are written one behind the other into one new allocation.
    pub(crate) fn submit(&self, rows: Vec<RowSource>, dimension: usize, call: &Call) -> Result<Pending> {
        let vectors = vec![0.0; rows.len() * dimension];
        let address = vectors.as_ptr() as usize;
        let reply = Reply::default();
        let job = Job {
            rows,
            vectors,
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
        self.inbox.changed.notify_all();
        Ok(Pending::new(reply, Arc::clone(&self.inbox), address))
    }

    /// Whether those who wait for vectors have to [`Conductor::drive`].
    pub(crate) const fn is_driven(&self) -> bool {
        matches!(self.drive, Drive::Callers(_))
    }

    fn driven_inbox(&self) -> Option<Arc<Inbox>> {
        self.is_driven().then(|| Arc::clone(&self.inbox))
    }

    /// Runs a round on the calling thread, unless somebody else does: then sleeps until they are done. Sleeps no longer than
    /// this in either case, and not at all where `is_enough` already holds. An encoder that does not wake is waited for.
    pub(crate) fn drive(&self, is_enough: &dyn Fn() -> bool, longest: Duration) {
        let Drive::Callers(round) = &self.drive else { return };
        let mut state = self.inbox.lock();
        if is_enough() {
            return;
        }
        if state.driven {
            drop(wait(&self.inbox.changed, state, longest));
            return;
        }
        state.driven = true;
        drop(state);
        let _turn = Turn(&self.inbox);
        let mut round = lock(round);
        if round.as_mut().is_some_and(|round| !round.once(longest)) {
            // Its end tells everybody who waits.
            *round = None;
        }
    }

    /// Ends every unfinished job, and the thread as soon as it can.
    pub(crate) fn close(&self) {
        self.inbox.lock().closed = true;
        self.inbox.changed.notify_all();
        if let Drive::Callers(round) = &self.drive
            && let Ok(mut round) = round.try_lock()
        {
            // Whoever is in a round sees that it was the last one.
            *round = None;
        }
    }
}

impl Drop for Conductor {
    fn drop(&mut self) {
        self.close();
        if let Drive::Thread(thread) = &mut self.drive
            && let Some(thread) = thread.take()
            && thread.thread().id() != thread::current().id()
        {
            // A panic of the conductor has been told to its callers already.
            let _ = thread.join();
        }
    }
}

/// Being the one who drives, until it is dropped.
struct Turn<'inbox>(&'inbox Inbox);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.driven = false;
        // A round that panicked is not fit for another.
        state.closed |= std::thread::panicking();
        drop(state);
        self.0.changed.notify_all();
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
        self.lock().woken = true;
        self.changed.notify_all();
    }
}

/// A batch on a device.
struct InFlight {
    ticket: Ticket,
    targets: Vec<RowTarget>,
    /// When it was submitted, to find the oldest over all devices.
    since: Instant,
}

/// The conductor's thread: everything it owns.
struct Round {
    encoder: Box<dyn Encoder>,
    spec: EncoderSpec,
    batching: Batching,
    /// How much longer rows are held back for others, where some are.
    held: Option<Duration>,
    inbox: Arc<Inbox>,
    batches: Batches<Reply>,
    /// For each device what was submitted to it, the oldest first.
    in_flight: Vec<VecDeque<InFlight>>,
    /// Where each batch is written until its encoder has read it; grows to the largest batch of a device.
    batch: Batch,
    /// Lists of targets that are not in flight. There are never more in all than batches fit the devices, and one.
    spare: Vec<Vec<RowTarget>>,
}

impl Round {
    fn new(encoder: Box<dyn Encoder>, batching: Batching, inbox: Arc<Inbox>) -> Self {
        let spec = encoder.spec().clone();
        let in_flight = spec.devices.iter().map(|_| VecDeque::new()).collect();
        let (batch, spare) = (Batch::default(), Vec::new());
        Self { encoder, spec, batching, held: None, inbox, batches: Batches::new(), in_flight, batch, spare }
    }

    fn run(mut self) {
        while self.once(IDLE) {}
    }

    /// One round: waits until there is something to do, no longer than this; takes new jobs in, submits and collects. False when
    /// the end has come.
    fn once(&mut self, longest: Duration) -> bool {
        if !self.take_in(longest) {
            return false;
        }
        for (job, error) in self.batches.take_unwanted() {
            self.end(job, Err(error));
        }
        self.submit_pass();
        self.collect_pass();
        true
    }

    /// Waits until there is something to do, and takes new jobs in; false when the end has come.
    fn take_in(&mut self, longest: Duration) -> bool {
        let mut state = self.inbox.lock();
        let in_flight = self.in_flight.iter().any(|batches| !batches.is_empty());
        let busy = !self.batches.is_empty() || in_flight;
        // An encoder that does not wake is waited for in `collect`.
        let may_sleep = !busy || self.spec.wakes || (self.held.is_some() && !in_flight);
        if may_sleep && state.arrived.is_empty() && !state.woken && !state.closed {
            let longest = if busy { BUSY.min(longest) } else { longest };
            state = wait(&self.inbox.changed, state, self.held.map_or(longest, |held| held.min(longest)));
        }
        state.woken = false;
        if state.closed {
            return false;
        }
        let arrived = std::mem::take(&mut state.arrived);
        drop(state);
        for job in arrived {
            if let Some(empty) = self.batches.push(job) {
                self.end_well(empty);
            }
        }
        true
    }

    /// First pass: walks the devices serially and gives each what it has room for. Nothing here waits for a device.
    fn submit_pass(&mut self) {
        self.held = None;
        for device in 0..self.spec.devices.len() {
            let depth = self.spec.devices[device].depth;
            let budget = self.batching.budget(&self.spec.devices[device]);
            while self.in_flight[device].len() < depth {
                self.held = self.batches.hold(budget, self.batching.timeout);
                if self.held.is_some() {
                    return;
                }
                let mut targets =
                    self.spare.pop().unwrap_or_else(|| Vec::with_capacity(budget.tokens.min(MOST_PLACES)));
                if !self.batches.next_batch(budget, &mut self.batch, &mut targets) {
                    self.spare.push(targets);
                    return;
                }
                match self.encoder.submit(device, &self.batch) {
                    Ok(ticket) => self.in_flight[device].push_back(InFlight { ticket, targets, since: Instant::now() }),
                    Err(error) => {
                        self.fail(&targets, &error);
                        self.spare.push(targets);
                    }
                }
            }
        }
    }

    /// Second pass: walks the devices again and writes what is finished into the callers' memory.
    fn collect_pass(&mut self) {
        let mut collected = false;
        for device in 0..self.in_flight.len() {
            let mut place = 0;
            while place < self.in_flight[device].len() {
                let ticket = self.in_flight[device][place].ticket;
                if self.spec.wakes && self.encoder.is_finished(ticket) {
                    self.collect(device, place);
                    collected = true;
                } else {
                    place += 1;
                }
            }
        }
        if !collected && !self.spec.wakes {
            let oldest = (0..self.in_flight.len())
                .filter_map(|device| self.in_flight[device].front().map(|batch| (batch.since, device)))
                .min();
            if let Some((_, device)) = oldest {
                self.collect(device, 0);
            }
        }
        if collected {
            // There may be room for more on a device.
            self.inbox.lock().woken = true;
        }
    }

    fn collect(&mut self, device: usize, place: usize) {
        let Some(InFlight { ticket, targets, .. }) = self.in_flight[device].remove(place) else { return };
        let batches = &mut self.batches;
        let mut poisoned: Vec<(RowTarget, Error)> = Vec::new();
        let collected = self.encoder.collect(ticket, &mut |row, values| match check_values(values) {
            Ok(()) => batches.write(targets[row], values),
            Err(error) => poisoned.push((targets[row], error)),
        });
        match collected {
            Ok(()) => self.end_finished(&targets, poisoned),
            Err(error) => self.fail(&targets, &error),
        }
        self.spare.push(targets);
    }

    /// Ends the jobs of these rows that are complete, or whose rows cannot be used.
    fn end_finished(&mut self, targets: &[RowTarget], poisoned: Vec<(RowTarget, Error)>) {
        for (target, error) in poisoned {
            if let Some(job) = self.batches.remove(target.job) {
                self.end(job, Err(error));
            }
        }
        for job in self.batches.take_complete(targets) {
            self.end_well(job);
        }
    }

    fn fail(&mut self, targets: &[RowTarget], error: &Error) {
        if let Some(job) = self.batches.batch_failed(targets) {
            self.end(job, Err(error.clone()));
        }
    }

    fn end_well(&mut self, mut job: Job<Reply>) {
        let vectors = std::mem::take(&mut job.vectors);
        self.end(job, Ok(vectors));
    }

    fn end(&mut self, job: Job<Reply>, outcome: Result<Vec<f32>>) {
        self.inbox.lock().unfinished -= 1;
        self.inbox.changed.notify_all();
        // The ids go before the caller hears of the end, so that memory does not depend on who is faster.
        let reply = job.done.clone();
        drop(job);
        reply.write(outcome);
    }
}

impl Drop for Round {
    /// Also runs when the conductor panics: no caller is left waiting.
    fn drop(&mut self) {
        let arrived = {
            let mut state = self.inbox.lock();
            state.closed = true;
            std::mem::take(&mut state.arrived)
        };
        self.inbox.changed.notify_all();
        for job in self.batches.drain().into_iter().chain(arrived) {
            job.done.write(Err(closed()));
        }
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
