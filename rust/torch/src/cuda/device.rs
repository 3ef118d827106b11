//! A GPU as a device.
//!
//! Each GPU has one thread ([`super::launcher`]) and one stream: batches are queued one after the other, and several
//! GPUs are fed at the same time. `submit` hands a copy of the batch to that thread. Each batch ends with an event,
//! which the scheduler polls without waiting; a GPU cannot notify it (see `notifies` in `Capabilities`). An event also
//! reports the GPU's errors.
//!
//! An error that breaks CUDA on one GPU marks that GPU as lost. Its memory stays allocated, since the GPU may never say
//! that it is done with it, and batches there fail at once, so that the scheduler computes them elsewhere.
//!
//! The network decides which device it is. The tests run all of this on a CPU, with a runtime library of their own.

use std::ffi::{CStr, CString};
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SendError, Sender, TryRecvError, channel};
use std::thread::{Builder, JoinHandle, sleep};
use std::time::{Duration, Instant};

use pullquote_core::encoder::{Batch, BatchTimes, Output};
use pullquote_core::error::{Error, ErrorKind, Result};
use tch::TchError;

use super::graphs::{CaptureSupport, Graphs};
use super::launcher::{Flags, Launcher, Slot};
use super::runtime::Runtime;
use crate::error::{batch_error, reason};
use crate::model::network::Networks;
use crate::threads::use_one_thread;

const POLL_INTERVAL: Duration = Duration::from_micros(50);
/// How long dropping a device waits for its batches before it leaks their memory.
const DROP_TIMEOUT: Duration = Duration::from_millis(500);

/// One GPU, or one of several queues on the same.
#[derive(Debug)]
pub struct CudaDevice {
    name: String,
    /// The number that CUDA gives the GPU.
    index: usize,
    runtime: &'static Runtime,
    flags: Arc<Flags>,
    /// `None` once the device is being dropped.
    to_thread: Option<Sender<Slot>>,
    /// Batches that the thread has queued, or could not.
    launched: Receiver<Slot>,
    thread: Option<JoinHandle<()>>,
    /// Batches that came back from the thread: no more than the device's depth.
    running: Vec<Slot>,
    /// Collected batches. Those that failed may still be in use by the GPU.
    spare: Vec<Slot>,
    /// Batches that the thread has.
    queued: usize,
    /// Bytes when the device was started.
    free_memory: u64,
    /// The process that started the thread. After a fork the child has neither thread nor CUDA.
    process: u32,
}

impl CudaDevice {
    /// Starts the thread of the GPU that has the networks. `index` is the number that CUDA gives the GPU. With `graphs`, the
    /// thread captures CUDA graphs of batches of vectors.
    ///
    /// # Errors
    /// [`ErrorKind::Device`] if there is no thread, or the GPU cannot be used.
    pub fn start(
        name: &str,
        index: usize,
        networks: impl Into<Networks>,
        runtime: &'static Runtime,
        graphs: Option<CaptureSupport>,
    ) -> Result<Self> {
        let flags = Arc::new(Flags::default());
        let (to_thread, submitted) = channel::<Slot>();
        let (to_device, finished) = channel();
        let (usable, is_usable) = channel();
        let networks: Networks = networks.into();
        let network = networks.of(Output::Vectors);
        let graphs = graphs.filter(|_| network.is_varlen());
        let graphs = graphs.map(|support| Graphs::new(support, runtime, index, network));
        let flags_of_thread = Arc::clone(&flags);
        let mut launcher = Launcher { name: name.to_owned(), networks, runtime, flags: flags_of_thread, graphs };
        let work = move || {
            use_one_thread();
            // For an error that says more than "no device".
            let free = runtime.use_device(index).and_then(|()| runtime.free_memory());
            let failed = free.is_err();
            let _ = usable.send(free);
            if failed {
                return;
            }
            tch::no_grad(|| {
                for mut slot in submitted {
                    if launcher.flags.stopping.load(Ordering::Relaxed) {
                        continue;
                    }
                    launcher.launch(&mut slot);
                    if to_device.send(slot).is_err() {
                        break;
                    }
                }
                launcher.end();
            });
        };
        let failed = |error: String| Error::new(ErrorKind::Device, format!("device {name:?}: {error}"));
        let thread = Builder::new().name(format!("pullquote-{name}")).spawn(work);
        let thread = thread.map_err(|error| failed(format!("no thread: {error}")))?;
        let free_memory = match is_usable.recv() {
            Ok(Ok(free)) => free,
            Ok(Err(error)) => return Err(failed(reason(&error.into()))),
            Err(_) => return Err(failed("its thread ended".to_owned())),
        };
        Ok(Self {
            name: name.to_owned(),
            index,
            runtime,
            flags,
            to_thread: Some(to_thread),
            launched: finished,
            thread: Some(thread),
            running: Vec::new(),
            spare: Vec::new(),
            queued: 0,
            free_memory,
            process: std::process::id(),
        })
    }

    /// With `synchronizes`, the GPU waits at the end of each stage of a batch, so that each has its own time.
    pub fn profile(&self, synchronizes: bool) {
        self.flags.synchronizes.store(synchronizes, Ordering::Relaxed);
    }

    /// Hands a checked batch to the GPU's thread. Its errors are those of [`Self::collect`].
    pub fn submit(&mut self, number: u64, batch: &Batch) {
        let began = Instant::now();
        // A lost GPU is sent nothing, so a batch that fails may use any slot.
        let is_lost = self.flags.lost.get().is_some();
        let spare =
            self.spare.iter().position(|slot| is_lost || slot.is_idle()).map(|spare| self.spare.swap_remove(spare));
        let mut slot = spare.unwrap_or_else(|| Slot::new(self.runtime));
        slot.number = number;
        slot.failure = None;
        slot.batch.copy_from(batch);
        slot.times = BatchTimes { copied_in: BatchTimes::since(began), ..BatchTimes::default() };
        slot.submitted = Instant::now();
        // There is a thread until the device is dropped.
        let Some(thread) = &self.to_thread else { return };
        if let Err(SendError(mut slot)) = thread.send(slot) {
            slot.failure = Some(self.flags.lost_error(&self.name));
            self.running.push(slot);
        } else {
            self.queued += 1;
        }
    }

    /// Free bytes of the GPU's memory when the device was started.
    pub const fn free_memory(&self) -> u64 {
        self.free_memory
    }

    /// Batches that were queued as a CUDA graph.
    pub fn replayed(&self) -> u64 {
        self.flags.replayed.load(Ordering::Relaxed)
    }

    /// Why batches are not queued as CUDA graphs any more.
    pub fn graph_error(&self) -> Option<&CStr> {
        self.flags.graph_error.get().map(CString::as_c_str)
    }

    /// The number of slots: the peak number of batches in flight.
    pub fn slot_count(&self) -> usize {
        self.queued + self.running.len() + self.spare.len()
    }

    /// Whether `collect` would return without waiting. True for an unknown batch, which `collect` rejects.
    pub fn is_finished(&mut self, number: u64) -> bool {
        loop {
            match self.launched.try_recv() {
                Ok(slot) => {
                    self.queued -= 1;
                    self.running.push(slot);
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    self.queued = 0;
                    break;
                }
            }
        }
        match self.running.iter().position(|slot| slot.number == number) {
            Some(position) => self.has_ended(position),
            // It is with the thread, unless there is no such batch.
            None => self.queued == 0,
        }
    }

    /// Whether a batch failed, or its event is done. Notes the event's error.
    fn has_ended(&mut self, position: usize) -> bool {
        let slot = &mut self.running[position];
        let Some(event) = slot.event.as_ref().filter(|_| slot.failure.is_none()) else { return true };
        match event.is_done() {
            Ok(done) => done,
            Err(error) => {
                // An error that stays after it was cleared is the GPU's for the rest of the process.
                let error = TchError::from(error);
                let is_lost = event.is_done().is_err();
                slot.failure = Some(if is_lost {
                    self.flags.lost.get_or_init(|| reason(&error));
                    self.flags.lost_error(&self.name)
                } else {
                    batch_error(&error)
                });
                true
            }
        }
    }

    /// Waits for a batch, passes its values to `receive`, and returns its times. Without a profile, the time between
    /// launching and collecting counts as computing.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`] where the GPU has no memory for it, [`ErrorKind::Device`] if the GPU failed,
    /// [`ErrorKind::Encoder`] for anything else.
    pub fn collect(&mut self, number: u64, receive: impl FnOnce(&[f32])) -> Result<BatchTimes> {
        while !self.is_finished(number) {
            sleep(POLL_INTERVAL);
        }
        let position = self.running.iter().position(|slot| slot.number == number);
        let position =
            position.ok_or_else(|| Error::new(ErrorKind::Internal, format!("no batch {number} on this device")))?;
        let mut slot = self.running.swap_remove(position);
        if let Some(error) = slot.failure.take() {
            self.spare.push(slot);
            return Err(error);
        }
        let arrived = Instant::now();
        let waited = BatchTimes::of(arrived.saturating_duration_since(slot.launched));
        let mut times = slot.times;
        if self.flags.synchronizes.load(Ordering::Relaxed) {
            times.copied_out = waited;
        } else {
            times.computed = waited;
        }
        receive(slot.staging.values());
        times.copied_out += BatchTimes::since(arrived);
        self.spare.push(slot);
        Ok(times)
    }
}

impl Drop for CudaDevice {
    fn drop(&mut self) {
        let slots = self.running.drain(..).chain(self.spare.drain(..));
        if std::process::id() != self.process {
            // A forked process has neither the thread nor CUDA.
            slots.for_each(std::mem::forget);
            self.thread.take().map(std::mem::forget).unwrap_or_default();
            return;
        }
        let mut slots: Vec<Slot> = slots.collect();
        self.flags.stopping.store(true, Ordering::Relaxed);
        self.to_thread = None;
        let deadline = Instant::now() + DROP_TIMEOUT;
        let ended = loop {
            match self.launched.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(slot) => slots.push(slot),
                Err(error) => break error == RecvTimeoutError::Disconnected,
            }
        };
        // A thread blocked by a broken GPU ends later, or with the process.
        if let Some(thread) = self.thread.take().filter(|_| ended) {
            let _ = thread.join();
        }
        let is_lost = self.flags.lost.get().is_some();
        while !is_lost && Instant::now() < deadline && !slots.iter().all(Slot::is_idle) {
            sleep(POLL_INTERVAL);
        }
        // On a thread of their own: freeing makes a context on the thread's current GPU, and the calling thread's may
        // be another. If there is no thread, the memory stays allocated.
        let slots = ManuallyDrop::new(slots);
        let (runtime, index) = (self.runtime, self.index);
        let free = move || {
            let _ = runtime.use_device(index);
            ManuallyDrop::into_inner(slots).into_iter().for_each(Slot::free);
        };
        if let Ok(thread) = Builder::new().name(format!("pullquote-{}", self.name)).spawn(free) {
            let _ = thread.join();
        }
    }
}
