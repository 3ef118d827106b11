//! A GPU as a device.
//!
//! Submitting only queues kernels and copies ([`super::staging`], `super::readback`), so it waits for nothing. Each GPU has one
//! thread and one stream: more would split torch's caching allocator. tch exposes no CUDA events, so each batch ends with a
//! completion flag that the GPU writes to pinned memory after the rows. Reading it does not wait for batches that were queued
//! later, as a copy queued at that time would. A GPU cannot notify the scheduler; see `needs_polling` in `EncoderSpec`.
//!
//! If a flag is overdue, a thread asks torch whether the GPU failed. It is a thread of its own because a GPU that hangs does not
//! answer.
//!
//! The network decides which device it is. The tests run all of this on a CPU, where every operation ends before it returns.

use std::sync::Arc;
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use pullquote_core::encoder::workers::check_rows;
use pullquote_core::encoder::{Batch, BatchTimes};
use pullquote_core::error::{Error, ErrorKind, Result};
use tch::Device;

use super::readback::Readback;
use super::staging::Staging;
use crate::error::{TorchResult, batch_error};
use crate::model::layout::DeviceBatch;
use crate::model::network::Network;
use crate::model::pooling::cosines;

const POLL_INTERVAL: Duration = Duration::from_micros(50);
/// How long a flag may take before torch is asked.
const FLAG_TIMEOUT: Duration = Duration::from_secs(2);

/// One GPU, or one of several queues on the same.
#[derive(Debug)]
pub struct CudaDevice {
    network: Arc<Network>,
    max_tokens: usize,
    /// Batches that are queued or computed: no more than the device's depth.
    running: Vec<RunningBatch>,
    /// Stagings of collected batches.
    spare: Vec<Staging>,
    /// Wait for the end of each stage, so that each has its own time.
    synchronizes: bool,
}

#[derive(Debug)]
struct RunningBatch {
    ticket: u64,
    staging: Staging,
    readback: Readback,
    times: BatchTimes,
    /// When `submit` returned.
    submitted: Instant,
    /// Asks torch for an error; started when the flag is overdue.
    error_probe: Option<JoinHandle<TorchResult<()>>>,
}

impl CudaDevice {
    /// A device that runs batches on the network's GPU; a row has at most `max_tokens`.
    #[must_use]
    pub fn new(network: Arc<Network>, max_tokens: usize) -> Self {
        Self { network, max_tokens, running: Vec::new(), spare: Vec::new(), synchronizes: false }
    }

    /// See [`pullquote_core::encoder::Encoder::profile`].
    pub fn profile(&mut self, synchronizes: bool) {
        self.synchronizes = synchronizes;
    }

    /// Queues the kernels of a batch, which must have been checked.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`] where the GPU has no memory for it, [`ErrorKind::Device`] where an earlier kernel failed,
    /// [`ErrorKind::Encoder`] for anything else.
    pub fn submit(&mut self, ticket: u64, batch: &Batch) -> Result<()> {
        let mut staging = self.spare.pop().unwrap_or_default();
        let queued = tch::no_grad(|| self.queue(batch, &mut staging));
        // On a failure the staging is dropped: the GPU may still read it, and torch keeps such memory until it has.
        let (readback, times) = queued.map_err(|error| batch_error(&error))?;
        self.running.push(RunningBatch {
            ticket,
            staging,
            readback,
            times,
            submitted: Instant::now(),
            error_probe: None,
        });
        Ok(())
    }

    fn queue(&self, batch: &Batch, staging: &mut Staging) -> TorchResult<(Readback, BatchTimes)> {
        if self.network.is_varlen() {
            let queued = self.queue_in_layout(batch, staging, true);
            if queued.is_ok() {
                return queued;
            }
            // Variable-length attention fails without a reason. Padded attention works, or says why it fails too. The GPU may
            // still read the staging: writing over it could send ids from outside the vocabulary.
            *staging = Staging::default();
        }
        self.queue_in_layout(batch, staging, false)
    }

    fn queue_in_layout(
        &self,
        batch: &Batch,
        staging: &mut Staging,
        is_ragged: bool,
    ) -> TorchResult<(Readback, BatchTimes)> {
        let (began, mut times) = (Instant::now(), BatchTimes::default());
        let device = self.network.device();
        let uploaded = if is_ragged {
            DeviceBatch::Ragged(staging.upload_ragged(batch, device)?)
        } else {
            DeviceBatch::Padded(staging.upload_padded(batch, device, self.max_tokens)?)
        };
        let queries = staging.upload_queries(&batch.queries, self.network.dimension(), device)?;
        if self.synchronizes {
            let _ = uploaded.ids().f_narrow(0, 0, 1)?.f_to_device_(Device::Cpu, tch::Kind::Int, false, true)?;
        }
        times.copied_in = BatchTimes::since(began);
        let began = Instant::now();
        let count = i64::try_from(batch.lengths.len()).unwrap_or(i64::MAX);
        let rows = self.network.encode_uploaded(&uploaded)?.f_narrow(0, 0, count)?;
        let rows = match queries {
            Some(queries) => cosines(&rows, &queries)?,
            None => rows,
        };
        if self.synchronizes {
            let _ = rows.f_narrow(0, 0, 1)?.f_to_device_(Device::Cpu, tch::Kind::Float, false, true)?;
            times.computed = BatchTimes::since(began);
        }
        Ok((Readback::start(&rows)?, times))
    }

    /// The number of stagings, which is the most batches that were ever in flight at once.
    #[must_use]
    pub fn staging_count(&self) -> usize {
        self.running.len() + self.spare.len()
    }

    fn position(&self, ticket: u64) -> Option<usize> {
        self.running.iter().position(|running| running.ticket == ticket)
    }

    /// Whether `collect` would return without waiting. True for an unknown ticket, which `collect` rejects.
    #[must_use]
    pub fn is_finished(&mut self, ticket: u64) -> bool {
        self.position(ticket).is_none_or(|position| self.running[position].is_finished())
    }

    /// Waits for a batch, passes its rows to `receive`, and returns its times. Without a profile, the time between submitting and
    /// collecting counts as computing.
    ///
    /// # Errors
    /// As [`Self::submit`].
    pub fn collect(&mut self, ticket: u64, receive: impl FnOnce(&[f32])) -> Result<BatchTimes> {
        let unknown = || Error::new(ErrorKind::Internal, format!("no batch {ticket} on this device"));
        let position = self.position(ticket).ok_or_else(unknown)?;
        let mut running = self.running.swap_remove(position);
        while !running.is_finished() {
            sleep(POLL_INTERVAL);
        }
        let RunningBatch { staging, readback, mut times, submitted, error_probe, .. } = running;
        if !readback.is_ready() {
            return Err(lost_batch_error(error_probe));
        }
        let arrived = Instant::now();
        let waited = BatchTimes::of(arrived.saturating_duration_since(submitted));
        if self.synchronizes {
            times.copied_out = waited;
        } else {
            times.computed = waited;
        }
        // The rows are here, so the GPU has read the staging.
        self.spare.push(staging);
        let values = readback.values();
        check_rows(values)?;
        receive(values);
        times.copied_out += BatchTimes::since(arrived);
        Ok(times)
    }
}

impl RunningBatch {
    /// Whether its rows are here, or torch has said that they never will be.
    fn is_finished(&mut self) -> bool {
        if self.readback.is_ready() {
            return true;
        }
        match &self.error_probe {
            Some(probe) => probe.is_finished(),
            None if self.submitted.elapsed() > FLAG_TIMEOUT => {
                let probe = self.readback.error_probe();
                self.error_probe = thread::Builder::new().name("pullquote-probe".to_owned()).spawn(probe).ok();
                false
            }
            None => false,
        }
    }
}

fn lost_batch_error(error_probe: Option<JoinHandle<TorchResult<()>>>) -> Error {
    match error_probe.map(JoinHandle::join) {
        Some(Ok(Err(error))) => batch_error(&error),
        _ => Error::new(ErrorKind::Device, "the batch failed: the device finished, but its rows did not arrive"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    /// A batch whose rows do not arrive, with a running probe.
    fn overdue(probe: impl FnOnce() -> TorchResult<()> + Send + 'static) -> RunningBatch {
        RunningBatch {
            ticket: 0,
            staging: Staging::default(),
            readback: Readback::lost(),
            times: BatchTimes::default(),
            submitted: Instant::now(),
            error_probe: Some(thread::spawn(probe)),
        }
    }

    #[test]
    fn error_probe_reports_why_rows_do_not_arrive() {
        let (answer, answered) = channel();
        let mut hanging = overdue(move || answered.recv().unwrap_or(Ok(())));
        assert!(!hanging.is_finished(), "polling does not wait for the probe");
        answer
            .send(Err(tch::TchError::Torch("CUDA error: an illegal memory access was encountered".to_owned())))
            .unwrap();
        while !hanging.is_finished() {
            sleep(POLL_INTERVAL);
        }
        let error = lost_batch_error(hanging.error_probe);
        assert_eq!(error.kind(), ErrorKind::Device);
        assert!(error.message().contains("illegal memory access"), "{error}");
    }

    #[test]
    fn rows_lost_without_an_error_are_a_device_error() {
        let mut lost = overdue(Readback::lost().error_probe());
        while !lost.is_finished() {
            sleep(POLL_INTERVAL);
        }
        assert_eq!(lost_batch_error(lost.error_probe).kind(), ErrorKind::Device);
    }
}
