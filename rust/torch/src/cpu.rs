//! A CPU as a device: workers that each run whole batches.
//!
//! One worker for each core, one computing thread each: two such workers are faster than one with two threads. Submitting
//! puts a batch into a queue and returns; workers sleep while it is empty. The device owns its threads: dropping it
//! lets running batches end, throws waiting ones away, and joins. Without workers, whoever [helps](Helping) runs batches,
//! each on its own thread, several at once; and whoever collects one that nobody has begun.
//!
//! A batch travels in a [`Slot`], which is used again when it is collected: from batch to batch nothing is allocated.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

use pullquote_core::encoder::{Batch, BatchTimes, Waker};
use pullquote_core::error::{Error, ErrorKind, Result};

use crate::failure::{batch_failed, panic_message};
use crate::network::{Network, copy_rows};
use crate::threads::{Alone, compute_alone};
use crate::workspace::Workspace;

/// A share of the processor's cores.
#[derive(Debug)]
pub struct CpuDevice {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    /// The process that has the workers: one forked from it has only their names.
    process: u32,
}

/// A CPU device to which threads can be lent, also when its owner has let go of it.
#[derive(Clone, Debug)]
pub struct Helping(Arc<Shared>);

/// What the workers, the owner and those who help share.
struct Shared {
    network: Arc<Network>,
    state: Mutex<State>,
    /// Told when a batch waits, or all shall stop.
    work: Condvar,
    /// Told when a batch is finished.
    finished: Condvar,
    /// Called when a batch is finished; set once, before the first is submitted.
    waker: OnceLock<Waker>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

#[derive(Default)]
struct State {
    /// Submitted and not begun. The seam bounds it: the caller keeps no more in flight than the device's depth.
    waiting: VecDeque<Slot>,
    /// Finished and not collected, in no order: few enough to look through.
    finished: Vec<Slot>,
    /// Collected, to be used again.
    spare: Vec<Slot>,
    /// What batches are run with where there are no workers: as many as threads ever helped at once.
    workspaces: Vec<Workspace>,
    stopping: bool,
}

/// A batch on its way to a worker, and its rows on their way back.
///
/// There are as many slots as batches were ever in flight at once, the device's depth. Each grows to the largest batch it
/// carried: ids and lengths are 4 KB for 512 tokens, rows `rows · dimension · 4` bytes.
#[derive(Default)]
struct Slot {
    ticket: u64,
    batch: Batch,
    rows: Vec<f32>,
    /// Why the batch failed.
    failure: Option<Error>,
    /// When it was queued; none before.
    queued: Option<Instant>,
    times: BatchTimes,
}

impl CpuDevice {
    /// Starts the workers; `name` is the device's.
    ///
    /// # Errors
    /// [`ErrorKind::Device`] where the system has no more threads.
    pub fn start(name: &str, workers: usize, network: Arc<Network>) -> Result<Self> {
        let shared = Arc::new(Shared {
            network,
            state: Mutex::default(),
            work: Condvar::new(),
            finished: Condvar::new(),
            waker: OnceLock::new(),
        });
        let mut device = Self { shared, workers: Vec::with_capacity(workers), process: std::process::id() };
        for worker in 0..workers {
            let shared = Arc::clone(&device.shared);
            let thread = Builder::new().name(format!("pullquote-{name}.{worker}")).spawn(move || shared.work());
            let thread = thread.map_err(|error| {
                Error::new(
                    ErrorKind::Device,
                    format!("device {name:?}: no thread for worker {worker} of {workers}: {error}"),
                )
            })?;
            device.workers.push(thread);
        }
        Ok(device)
    }

    /// Whether batches run by themselves.
    #[must_use]
    pub fn has_workers(&self) -> bool {
        !self.workers.is_empty()
    }

    /// Where batches do not run by themselves, who else may run them.
    #[must_use]
    pub fn helping(&self) -> Option<Helping> {
        (!self.has_workers()).then(|| Helping(Arc::clone(&self.shared)))
    }

    /// Sets what is called when a worker has finished a batch.
    pub fn set_waker(&self, waker: Waker) {
        // The seam says once; a second one would be the caller's fault, and the first stays.
        let _ = self.shared.waker.set(waker);
    }

    /// Queues a copy of a batch, which must have been checked.
    pub fn submit(&self, ticket: u64, batch: &Batch) {
        let began = Instant::now();
        let mut slot = self.shared.lock().spare.pop().unwrap_or_default();
        slot.ticket = ticket;
        slot.batch.ids.clone_from(&batch.ids);
        slot.batch.lengths.clone_from(&batch.lengths);
        slot.times = BatchTimes { copied_in: BatchTimes::since(began), ..BatchTimes::default() };
        slot.queued = Some(Instant::now());
        self.shared.lock().waiting.push_back(slot);
        self.shared.work.notify_one();
    }

    /// Whether a batch is finished.
    #[must_use]
    pub fn is_finished(&self, ticket: u64) -> bool {
        self.shared.lock().finished.iter().any(|slot| slot.ticket == ticket)
    }

    /// Waits for a batch that was submitted here and not collected yet, and hands out its rows. Says what it took.
    ///
    /// # Errors
    /// [`ErrorKind::Encoder`] where it failed.
    pub fn collect(&self, ticket: u64, take: impl FnOnce(&[f32])) -> Result<BatchTimes> {
        // What nobody has begun would never be finished.
        while !self.has_workers() && !self.is_finished(ticket) && self.shared.run_one() {}
        let mut slot = self.shared.wait_for(ticket);
        let (failure, mut times) = (slot.failure.take(), slot.times);
        if failure.is_none() {
            let began = Instant::now();
            take(&slot.rows);
            times.copied_out += BatchTimes::since(began);
        }
        self.shared.lock().spare.push(slot);
        failure.map_or(Ok(times), Err)
    }
}

impl Helping {
    /// Runs a batch that waits on the calling thread, which has its own settings again when this returns; false where none waits.
    #[must_use]
    pub fn run_one(&self) -> bool {
        self.0.run_one()
    }
}

impl Drop for CpuDevice {
    fn drop(&mut self) {
        if std::process::id() != self.process {
            // In a forked process the workers do not exist, and one may have held the lock.
            self.workers.drain(..).for_each(std::mem::forget);
            return;
        }
        let mut state = self.shared.lock();
        state.stopping = true;
        state.waiting.clear();
        drop(state);
        self.shared.work.notify_all();
        for worker in self.workers.drain(..) {
            // A worker that panicked has ended as well.
            let _ = worker.join();
        }
    }
}

impl Shared {
    /// Nothing that holds the lock can leave the state half changed, so a panic under it does no harm.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a worker does all its life.
    fn work(&self) {
        compute_alone();
        let mut workspace = Workspace::default();
        while let Some(mut slot) = self.next() {
            slot.failure = self.run(&mut slot, &mut workspace).err();
            self.lock().finished.push(slot);
            self.finished.notify_all();
            if let Some(waker) = self.waker.get() {
                waker();
            }
        }
    }

    fn next(&self) -> Option<Slot> {
        let mut state = self.lock();
        loop {
            if state.stopping {
                return None;
            }
            if let Some(slot) = state.waiting.pop_front() {
                return Some(slot);
            }
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Runs what has waited longest on this thread, alone; false where nothing waits.
    fn run_one(&self) -> bool {
        let mut state = self.lock();
        let Some(mut slot) = state.waiting.pop_front() else { return false };
        let mut workspace = state.workspaces.pop().unwrap_or_default();
        drop(state);
        let alone = Alone::here();
        slot.failure = self.run(&mut slot, &mut workspace).err();
        drop(alone);
        let mut state = self.lock();
        state.finished.push(slot);
        state.workspaces.push(workspace);
        drop(state);
        self.finished.notify_all();
        true
    }

    fn wait_for(&self, ticket: u64) -> Slot {
        let mut state = self.lock();
        loop {
            if let Some(place) = state.finished.iter().position(|slot| slot.ticket == ticket) {
                return state.finished.swap_remove(place);
            }
            // Without a deadline: a worker, or who helps, ends every batch that it begins, panics included.
            state = self.finished.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// What a panic leaves in the slot and the workspace is written over before it is read.
    fn run(&self, slot: &mut Slot, workspace: &mut Workspace) -> Result<()> {
        slot.times.waited = slot.queued.map_or(0, BatchTimes::since);
        let encode = || {
            let began = Instant::now();
            let rows = self.network.encode(&slot.batch, workspace);
            let rows = rows.map_err(|error| batch_failed(&error))?;
            slot.times.computed = BatchTimes::since(began);
            let began = Instant::now();
            let copied = copy_rows(&rows, &mut slot.rows);
            slot.times.copied_out = BatchTimes::since(began);
            copied
        };
        catch_unwind(AssertUnwindSafe(encode)).unwrap_or_else(|panic| {
            let message = format!("the batch failed: a worker panicked: {}", panic_message(&*panic));
            Err(Error::new(ErrorKind::Encoder, message))
        })
    }
}
