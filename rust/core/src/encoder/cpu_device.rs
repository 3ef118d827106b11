//! A CPU as a device: worker threads that each compute whole batches.
//!
//! There is one worker for each core, with one computing thread each: two such workers are faster than one with two
//! threads. `submit` queues a batch and returns. Dropping the device lets running batches finish, discards waiting
//! ones, and joins the workers. Without workers, threads that call [`CpuBatchRunner::run_one`] compute batches, several
//! at the same time; `collect` computes a batch that none of them has started.
//!
//! A batch travels in a `Slot`, which is reused after `collect`, so nothing is allocated for each batch.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

use super::{Batch, BatchTimes, Waker};
use crate::error::{Error, ErrorKind, Result};

/// A model that computes batches on the calling thread.
pub trait Compute: Send + Sync + 'static {
    /// Memory that a thread reuses between batches. After a failed batch it is overwritten before it is read.
    type Workspace: Default + Send;

    /// Called once on each worker thread, before its first batch.
    fn prepare_worker(&self) {}

    /// Computes a checked batch and replaces `rows` with its vectors: float32 `[rows, dimension]`.
    ///
    /// # Errors
    /// [`ErrorKind::Encoder`] or [`ErrorKind::OutOfMemory`] if the batch cannot be computed.
    fn compute(&self, batch: &Batch, workspace: &mut Self::Workspace, rows: &mut Vec<f32>) -> Result<()>;

    /// As [`Self::compute`], on a caller's thread. Restores the thread's settings.
    fn compute_for_caller(&self, batch: &Batch, workspace: &mut Self::Workspace, rows: &mut Vec<f32>) -> Result<()> {
        self.compute(batch, workspace, rows)
    }
}

/// A share of the processor's cores.
#[derive(Debug)]
pub struct CpuDevice<C: Compute> {
    shared: Arc<DeviceQueue<C>>,
    workers: Vec<JoinHandle<()>>,
    /// The process that started the workers. After a fork the child has no workers.
    process: u32,
}

/// Computes a device's batches on other threads. It stays usable after the device was dropped.
#[derive(Debug)]
pub struct CpuBatchRunner<C: Compute>(Arc<DeviceQueue<C>>);

/// Shared by the workers, the device and its runners.
struct DeviceQueue<C: Compute> {
    model: Arc<C>,
    state: Mutex<BatchQueue<C::Workspace>>,
    /// Notified when a batch is queued, and when the workers must stop.
    work: Condvar,
    /// Notified when a batch is finished.
    finished: Condvar,
    /// Set once, before the first `submit`.
    waker: OnceLock<Waker>,
}

impl<C: Compute> std::fmt::Debug for DeviceQueue<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeviceQueue").finish_non_exhaustive()
    }
}

struct BatchQueue<Workspace> {
    /// Submitted and not started; at most the device's depth, which the scheduler enforces.
    waiting: VecDeque<Slot>,
    /// Finished and not collected, in any order; few enough for a linear search.
    finished: Vec<Slot>,
    /// Collected and ready for reuse.
    spare: Vec<Slot>,
    /// Workspaces of runners: as many as ever computed at the same time.
    workspaces: Vec<Workspace>,
    stopping: bool,
}

/// A batch on its way to a worker, and its rows on their way back.
///
/// There are as many slots as there ever were batches in flight, at most the device's depth. Each grows to its largest
/// batch: 4 KB of ids and lengths for 512 tokens, and `rows · dimension · 4` bytes of rows.
#[derive(Default)]
struct Slot {
    ticket: u64,
    batch: Batch,
    rows: Vec<f32>,
    failure: Option<Error>,
    queued: Option<Instant>,
    times: BatchTimes,
}

impl<C: Compute> CpuDevice<C> {
    /// Starts the workers; `name` appears in thread names and errors.
    ///
    /// # Errors
    /// [`ErrorKind::Device`] if the system cannot start a thread.
    pub fn start(name: &str, workers: usize, model: Arc<C>) -> Result<Self> {
        let state = BatchQueue {
            waiting: VecDeque::new(),
            finished: Vec::new(),
            spare: Vec::new(),
            workspaces: Vec::new(),
            stopping: false,
        };
        let shared = Arc::new(DeviceQueue {
            model,
            state: Mutex::new(state),
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

    /// False if batches need a thread of a caller.
    pub fn has_workers(&self) -> bool {
        !self.workers.is_empty()
    }

    /// Lets other threads compute batches; `None` if the device has workers.
    pub fn batch_runner(&self) -> Option<CpuBatchRunner<C>> {
        (!self.has_workers()).then(|| CpuBatchRunner(Arc::clone(&self.shared)))
    }

    pub fn set_waker(&self, waker: Waker) {
        // The encoder trait promises one call. A second waker would be ignored.
        let _ = self.shared.waker.set(waker);
    }

    /// Queues a copy of a checked batch.
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

    /// True between the end of the computation and `collect`.
    pub fn is_finished(&self, ticket: u64) -> bool {
        self.shared.lock().finished.iter().any(|slot| slot.ticket == ticket)
    }

    /// Waits for a submitted batch and passes its concatenated rows to `read`. Returns its times.
    pub fn collect(&self, ticket: u64, read: impl FnOnce(&[f32])) -> Result<BatchTimes> {
        // Without workers, a batch that no thread has started would never finish.
        while !self.has_workers() && !self.is_finished(ticket) && self.shared.run_one() {}
        let mut slot = self.shared.wait_for(ticket);
        let (failure, mut times) = (slot.failure.take(), slot.times);
        if failure.is_none() {
            let began = Instant::now();
            read(&slot.rows);
            times.copied_out += BatchTimes::since(began);
        }
        self.shared.lock().spare.push(slot);
        failure.map_or(Ok(times), Err)
    }
}

impl<C: Compute> Clone for CpuBatchRunner<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<C: Compute> CpuBatchRunner<C> {
    /// Computes one waiting batch on the calling thread and restores the thread's settings. Returns false if none
    /// waits.
    pub fn run_one(&self) -> bool {
        self.0.run_one()
    }
}

impl<C: Compute> Drop for CpuDevice<C> {
    fn drop(&mut self) {
        if std::process::id() != self.process {
            // The workers do not exist in a forked process, and one may have held the lock.
            self.workers.drain(..).for_each(std::mem::forget);
            return;
        }
        let mut state = self.shared.lock();
        state.stopping = true;
        state.waiting.clear();
        drop(state);
        self.shared.work.notify_all();
        for worker in self.workers.drain(..) {
            // A worker that panicked has ended too.
            let _ = worker.join();
        }
    }
}

impl<C: Compute> DeviceQueue<C> {
    /// No holder of the lock panics halfway through a change.
    fn lock(&self) -> MutexGuard<'_, BatchQueue<C::Workspace>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        self.model.prepare_worker();
        let mut workspace = C::Workspace::default();
        while let Some(mut slot) = self.next() {
            slot.failure = run(&mut slot, |batch, rows| self.model.compute(batch, &mut workspace, rows)).err();
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

    /// Computes the batch that has waited longest, on the calling thread. Returns false if none waits.
    fn run_one(&self) -> bool {
        let mut state = self.lock();
        let Some(mut slot) = state.waiting.pop_front() else { return false };
        let mut workspace = state.workspaces.pop().unwrap_or_default();
        drop(state);
        slot.failure = run(&mut slot, |batch, rows| self.model.compute_for_caller(batch, &mut workspace, rows)).err();
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
            if let Some(index) = state.finished.iter().position(|slot| slot.ticket == ticket) {
                return state.finished.swap_remove(index);
            }
            // No deadline: the thread that started the batch finishes it, panics included.
            state = self.finished.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// After a panic, the slot and the workspace are overwritten before they are read.
fn run(slot: &mut Slot, compute: impl FnOnce(&Batch, &mut Vec<f32>) -> Result<()>) -> Result<()> {
    let Slot { batch, rows, queued, times, .. } = slot;
    times.waited = queued.map_or(0, BatchTimes::since);
    let began = Instant::now();
    let computed = catch_unwind(AssertUnwindSafe(|| compute(batch, rows)));
    times.computed = BatchTimes::since(began);
    computed.unwrap_or_else(|panic| {
        let message = format!("the batch failed: a worker panicked: {}", panic_message(&*panic));
        Err(Error::new(ErrorKind::Encoder, message))
    })
}

pub fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message").to_owned()
}

/// Rejects values that are not finite, which show a type too narrow for the model.
///
/// # Errors
/// [`ErrorKind::Encoder`] if a value is NaN or infinite.
pub fn check_rows(values: &[f32]) -> Result<()> {
    if values.iter().all(|value| value.is_finite()) {
        return Ok(());
    }
    let message = "the model returned values that are not finite; try dtype \"float32\", or check its weights";
    Err(Error::new(ErrorKind::Encoder, message))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Returns each id as a row of one value; fails on id 13 and panics on id 99.
    #[derive(Default)]
    struct Ids {
        prepared: AtomicUsize,
        lent: AtomicUsize,
    }

    impl Compute for Ids {
        type Workspace = Vec<i32>;

        fn prepare_worker(&self) {
            self.prepared.fetch_add(1, Ordering::SeqCst);
        }

        fn compute(&self, batch: &Batch, _: &mut Vec<i32>, rows: &mut Vec<f32>) -> Result<()> {
            assert!(!batch.ids.contains(&99), "ninety-nine");
            rows.clear();
            rows.extend(batch.ids.iter().map(|id| f32::from(i16::try_from(*id).unwrap_or(i16::MAX))));
            if batch.ids.contains(&13) {
                return Err(Error::new(ErrorKind::OutOfMemory, "thirteen"));
            }
            Ok(())
        }

        fn compute_for_caller(&self, batch: &Batch, workspace: &mut Vec<i32>, rows: &mut Vec<f32>) -> Result<()> {
            self.lent.fetch_add(1, Ordering::SeqCst);
            self.compute(batch, workspace, rows)
        }
    }

    fn rows(device: &CpuDevice<Ids>, ticket: u64) -> Result<Vec<f32>> {
        let mut found = Vec::new();
        device.collect(ticket, |rows| found.extend_from_slice(rows)).map(|_| found)
    }

    #[test]
    fn batches_come_back_by_ticket_in_any_order() {
        let model = Arc::new(Ids::default());
        let device = CpuDevice::start("cpu", 2, Arc::clone(&model)).unwrap();
        for ticket in 0..40_u8 {
            device.submit(u64::from(ticket), &Batch::new(vec![100 + i32::from(ticket); 3], vec![1; 3]));
        }
        for ticket in (0..40_u8).rev() {
            assert_eq!(rows(&device, u64::from(ticket)).unwrap(), [100.0 + f32::from(ticket); 3]);
        }
        drop(device);
        assert_eq!((model.prepared.load(Ordering::SeqCst), model.lent.load(Ordering::SeqCst)), (2, 0));
    }

    #[test]
    fn a_batch_that_fails_or_panics_fails_alone() {
        for workers in [0, 1] {
            let device = CpuDevice::start("cpu", workers, Arc::new(Ids::default())).unwrap();
            for (ticket, id) in [(0, 99), (1, 13), (2, 7)] {
                device.submit(ticket, &Batch::new(vec![id], vec![1]));
            }
            let panicked = rows(&device, 0).unwrap_err();
            assert!(panicked.kind() == ErrorKind::Encoder && panicked.message().contains("ninety-nine"), "{panicked}");
            assert_eq!(rows(&device, 1).unwrap_err().kind(), ErrorKind::OutOfMemory);
            assert_eq!(rows(&device, 2).unwrap(), [7.0]);
        }
    }

    #[test]
    fn batch_runners_compute_without_workers() {
        let model = Arc::new(Ids::default());
        let device = CpuDevice::start("cpu", 0, Arc::clone(&model)).unwrap();
        let helping = device.batch_runner().expect("it has no workers");
        assert!(!helping.run_one(), "nothing waits");
        device.submit(0, &Batch::new(vec![1], vec![1]));
        device.submit(1, &Batch::new(vec![2], vec![1]));
        assert!(helping.run_one());
        assert!(device.is_finished(0) && !device.is_finished(1));
        assert_eq!(rows(&device, 1).unwrap(), [2.0], "collect computes");
        assert_eq!(rows(&device, 0).unwrap(), [1.0]);
        assert_eq!(model.lent.load(Ordering::SeqCst), 2);
        assert!(CpuDevice::start("cpu", 1, model).unwrap().batch_runner().is_none());
    }

    #[test]
    fn rows_must_be_finite() {
        assert!(check_rows(&[0.0, -1.0]).is_ok());
        assert_eq!(check_rows(&[0.0, f32::NAN]).unwrap_err().kind(), ErrorKind::Encoder);
        assert!(check_rows(&[f32::INFINITY]).is_err());
    }
}
