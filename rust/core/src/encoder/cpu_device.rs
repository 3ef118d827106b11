//! A CPU as a device: worker threads that each compute whole batches.
//!
//! There is one worker for each core, with one computing thread each: two such workers are faster than one with two
//! threads. `submit` queues a batch and returns. Dropping the device lets running batches finish, discards waiting
//! ones, and joins the workers. Without workers, `collect` computes the batch on the calling thread.
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
use crate::runtime::priority;
use crate::runtime::sync::lock;

/// A model that computes batches on the calling thread.
pub trait Compute: Send + Sync + 'static {
    /// Memory that a thread reuses between batches. After a failed batch it is overwritten before it is read.
    type Workspace: Default + Send;

    /// Called once on each worker thread, before its first batch.
    fn prepare_worker(&self) {}

    /// Computes a checked batch and replaces `values` with its output.
    ///
    /// # Errors
    /// [`ErrorKind::Encoder`] or [`ErrorKind::OutOfMemory`] if the batch cannot be computed.
    fn compute(&self, batch: &Batch, workspace: &mut Self::Workspace, values: &mut Vec<f32>) -> Result<()>;

    /// As [`Self::compute`], on a host's thread. Restores the thread's settings.
    fn compute_for_host(&self, batch: &Batch, workspace: &mut Self::Workspace, values: &mut Vec<f32>) -> Result<()> {
        self.compute(batch, workspace, values)
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

/// Shared by the workers and the device.
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
    /// The numbers of batches submitted and not collected; also few.
    in_flight: Vec<u64>,
    /// Collected and ready for reuse.
    spare: Vec<Slot>,
    /// Of the thread that collects, where there are no workers.
    workspace: Workspace,
    stopping: bool,
}

/// A batch on its way to a worker, and its values on their way back.
///
/// There are as many slots as there ever were batches in flight, at most the device's depth. Each grows to its largest
/// batch: 4 KB of ids and lengths for 512 tokens, and `rows · dimension · 4` bytes of vectors.
#[derive(Default)]
struct Slot {
    number: u64,
    batch: Batch,
    values: Vec<f32>,
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
            in_flight: Vec::new(),
            spare: Vec::new(),
            workspace: C::Workspace::default(),
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

    /// False if `collect` computes batches.
    pub fn has_workers(&self) -> bool {
        !self.workers.is_empty()
    }

    pub fn set_waker(&self, waker: Waker) {
        // The encoder trait promises one call. A second waker would be ignored.
        let _ = self.shared.waker.set(waker);
    }

    /// Queues a copy of a checked batch. `number` is that of its ticket.
    pub fn submit(&self, number: u64, batch: &Batch) {
        let began = Instant::now();
        let mut slot = self.shared.lock().spare.pop().unwrap_or_default();
        slot.number = number;
        slot.batch.copy_from(batch);
        slot.times = BatchTimes { copied_in: BatchTimes::since(began), ..BatchTimes::default() };
        slot.queued = Some(Instant::now());
        let mut state = self.shared.lock();
        state.waiting.push_back(slot);
        state.in_flight.push(number);
        drop(state);
        self.shared.work.notify_one();
    }

    /// Whether `collect` need not wait for a worker. True for an unknown batch, which `collect` rejects.
    pub fn is_finished(&self, number: u64) -> bool {
        let state = self.shared.lock();
        !self.has_workers()
            || state.finished.iter().any(|slot| slot.number == number)
            || !state.in_flight.contains(&number)
    }

    /// Waits for a submitted batch and passes its values to `read`. Returns its times.
    ///
    /// # Errors
    /// The batch's error; [`ErrorKind::Internal`] for one that was not submitted, or was collected before.
    pub fn collect(&self, number: u64, read: impl FnOnce(&[f32])) -> Result<BatchTimes> {
        if !self.has_workers() {
            self.shared.compute_here(number);
        }
        let mut slot = self.shared.wait_for(number)?;
        let (failure, mut times) = (slot.failure.take(), slot.times);
        if failure.is_none() {
            let began = Instant::now();
            read(&slot.values);
            times.copied_out += BatchTimes::since(began);
        }
        self.shared.lock().spare.push(slot);
        failure.map_or(Ok(times), Err)
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
        lock(&self.state)
    }

    fn work(&self) {
        self.model.prepare_worker();
        let mut workspace = C::Workspace::default();
        while let Some(mut slot) = self.next() {
            // Here, because a server is made after the workers of its model.
            priority::lower();
            slot.failure = run(&mut slot, |batch, values| self.model.compute(batch, &mut workspace, values)).err();
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

    /// Computes a waiting batch on the calling thread.
    fn compute_here(&self, number: u64) {
        let mut state = self.lock();
        let index = state.waiting.iter().position(|slot| slot.number == number);
        let Some(mut slot) = index.and_then(|index| state.waiting.remove(index)) else { return };
        let mut workspace = std::mem::take(&mut state.workspace);
        drop(state);
        slot.failure = run(&mut slot, |batch, values| self.model.compute_for_host(batch, &mut workspace, values)).err();
        let mut state = self.lock();
        state.finished.push(slot);
        state.workspace = workspace;
    }

    fn wait_for(&self, number: u64) -> Result<Slot> {
        let mut state = self.lock();
        let Some(index) = state.in_flight.iter().position(|known| *known == number) else {
            return Err(Error::new(ErrorKind::Internal, format!("batch {number} is not in flight")));
        };
        state.in_flight.swap_remove(index);
        loop {
            if let Some(index) = state.finished.iter().position(|slot| slot.number == number) {
                return Ok(state.finished.swap_remove(index));
            }
            // No deadline: the thread that started the batch finishes it, panics included.
            state = self.finished.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// After a panic, the slot and the workspace are overwritten before they are read.
fn run(slot: &mut Slot, compute: impl FnOnce(&Batch, &mut Vec<f32>) -> Result<()>) -> Result<()> {
    let Slot { batch, values, queued, times, .. } = slot;
    times.waited = queued.map_or(0, BatchTimes::since);
    let began = Instant::now();
    let computed = catch_unwind(AssertUnwindSafe(|| compute(batch, values)));
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

        fn compute(&self, batch: &Batch, _: &mut Vec<i32>, values: &mut Vec<f32>) -> Result<()> {
            assert!(!batch.ids.contains(&99), "ninety-nine");
            values.clear();
            values.extend(batch.ids.iter().map(|id| f32::from(i16::try_from(*id).unwrap_or(i16::MAX))));
            if batch.ids.contains(&13) {
                return Err(Error::new(ErrorKind::OutOfMemory, "thirteen"));
            }
            Ok(())
        }

        fn compute_for_host(&self, batch: &Batch, workspace: &mut Vec<i32>, values: &mut Vec<f32>) -> Result<()> {
            self.lent.fetch_add(1, Ordering::SeqCst);
            self.compute(batch, workspace, values)
        }
    }

    fn values(device: &CpuDevice<Ids>, number: u64) -> Result<Vec<f32>> {
        let mut found = Vec::new();
        device.collect(number, |values| found.extend_from_slice(values)).map(|_| found)
    }

    #[test]
    fn batches_come_back_by_ticket_in_any_order() {
        let model = Arc::new(Ids::default());
        let device = CpuDevice::start("cpu", 2, Arc::clone(&model)).unwrap();
        for number in 0..40_u8 {
            device.submit(u64::from(number), &Batch::new(vec![100 + i32::from(number); 3], vec![1; 3]));
        }
        for number in (0..40_u8).rev() {
            assert_eq!(values(&device, u64::from(number)).unwrap(), [100.0 + f32::from(number); 3]);
        }
        assert!(device.is_finished(7), "it was collected");
        assert_eq!(values(&device, 7).unwrap_err().kind(), ErrorKind::Internal);
        drop(device);
        assert_eq!((model.prepared.load(Ordering::SeqCst), model.lent.load(Ordering::SeqCst)), (2, 0));
    }

    #[test]
    fn a_batch_that_fails_or_panics_fails_alone() {
        for workers in [0, 1] {
            let device = CpuDevice::start("cpu", workers, Arc::new(Ids::default())).unwrap();
            for (number, id) in [(0, 99), (1, 13), (2, 7)] {
                device.submit(number, &Batch::new(vec![id], vec![1]));
            }
            let panicked = values(&device, 0).unwrap_err();
            assert!(panicked.kind() == ErrorKind::Encoder && panicked.message().contains("ninety-nine"), "{panicked}");
            assert_eq!(values(&device, 1).unwrap_err().kind(), ErrorKind::OutOfMemory);
            assert_eq!(values(&device, 2).unwrap(), [7.0]);
        }
    }

    #[test]
    fn collect_computes_without_workers() {
        let model = Arc::new(Ids::default());
        let device = CpuDevice::start("cpu", 0, Arc::clone(&model)).unwrap();
        device.submit(0, &Batch::new(vec![1], vec![1]));
        device.submit(1, &Batch::new(vec![2], vec![1]));
        assert!(device.is_finished(0) && device.is_finished(1), "nothing would be waited for");
        assert_eq!(values(&device, 1).unwrap(), [2.0]);
        assert_eq!(model.lent.load(Ordering::SeqCst), 1);
        assert_eq!(values(&device, 0).unwrap(), [1.0]);
        assert_eq!(values(&device, 0).unwrap_err().kind(), ErrorKind::Internal);
    }
}
