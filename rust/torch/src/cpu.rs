//! A CPU as a device: workers that each run whole batches.
//!
//! One worker for each core, one computing thread each: two such workers are faster than one with two threads. Submitting
//! puts a batch into a queue and returns; workers sleep while it is empty. The device owns its threads: dropping it
//! lets running batches end, throws waiting ones away, and joins.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{Builder, JoinHandle};

use pullquote_core::encoder::{Batch, Waker};
use pullquote_core::error::{Error, ErrorKind, Result};

use crate::failure::{panic_message, torch_failed};
use crate::network::{Network, copy_rows};
use crate::threads::compute_alone;

/// A share of the processor's cores.
#[derive(Debug)]
pub struct CpuDevice {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    /// The process that has the workers: one forked from it has only their names.
    process: u32,
}

/// What the workers and the owner share.
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
    waiting: VecDeque<(u64, Batch)>,
    /// Finished and not collected.
    finished: HashMap<u64, Result<Vec<f32>>>,
    stopping: bool,
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

    /// Sets what is called when a batch is finished.
    pub fn set_waker(&self, waker: Waker) {
        // The seam says once; a second one would be the caller's fault, and the first stays.
        let _ = self.shared.waker.set(waker);
    }

    /// Queues a batch, which must have been checked.
    pub fn submit(&self, ticket: u64, batch: Batch) {
        self.shared.lock().waiting.push_back((ticket, batch));
        self.shared.work.notify_one();
    }

    /// Whether a batch is finished.
    #[must_use]
    pub fn is_finished(&self, ticket: u64) -> bool {
        self.shared.lock().finished.contains_key(&ticket)
    }

    /// Waits for a batch that was submitted here and not collected yet.
    ///
    /// # Errors
    /// [`ErrorKind::Encoder`] where it failed.
    pub fn collect(&self, ticket: u64) -> Result<Vec<f32>> {
        let mut state = self.shared.lock();
        loop {
            if let Some(rows) = state.finished.remove(&ticket) {
                return rows;
            }
            // Without a deadline: a worker ends every batch it begins, panics included.
            state = self.shared.finished.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
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
        while let Some((ticket, batch)) = self.next() {
            let rows = self.run(&batch);
            self.lock().finished.insert(ticket, rows);
            self.finished.notify_all();
            if let Some(waker) = self.waker.get() {
                waker();
            }
        }
    }

    fn next(&self) -> Option<(u64, Batch)> {
        let mut state = self.lock();
        loop {
            if state.stopping {
                return None;
            }
            if let Some(job) = state.waiting.pop_front() {
                return Some(job);
            }
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn run(&self, batch: &Batch) -> Result<Vec<f32>> {
        let encode = || {
            let rows = self.network.encode(batch);
            copy_rows(&rows.map_err(|error| torch_failed(ErrorKind::Encoder, "the batch failed", &error))?)
        };
        catch_unwind(AssertUnwindSafe(encode)).unwrap_or_else(|panic| {
            let message = format!("the batch failed: a worker panicked: {}", panic_message(&*panic));
            Err(Error::new(ErrorKind::Encoder, message))
        })
    }
}
