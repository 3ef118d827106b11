//! Batches that failed: out of memory, on a broken device, or because of their rows.

use std::time::Instant;

use super::{Round, SubmittedBatch};
use crate::error::{Error, ErrorKind};

impl Round {
    /// Handles a failed batch: retries its rows where that can help; otherwise their jobs fail, or each is retried
    /// alone.
    pub(super) fn fail(&mut self, device: usize, batch: SubmittedBatch, error: &Error) {
        let SubmittedBatch { rows, tokens, mut failed_devices } = batch;
        let targets = &rows.targets;
        if error.kind() == ErrorKind::OutOfMemory && targets.len() > 1 {
            self.devices.on_out_of_memory(device, tokens, error);
            self.batches.retry(targets, failed_devices);
            self.spare.push(rows);
            return;
        }
        failed_devices.push(device);
        // An `Encoder` error on two devices blames the rows. A broken device says nothing about them, however many
        // break.
        let may_retry = error.kind() != ErrorKind::Encoder || failed_devices.len() < 2;
        if may_retry && failed_devices.len() < self.devices.len() {
            self.devices.on_failure(device, error, error.kind() != ErrorKind::OutOfMemory, Instant::now());
            self.batches.retry(targets, failed_devices);
        } else {
            self.devices.on_failure(device, error, error.kind() == ErrorKind::Device, Instant::now());
            if error.kind() == ErrorKind::Encoder {
                for device in failed_devices {
                    self.devices.clear_failure(device);
                }
            }
            if let Some(job) = self.batches.batch_failed(targets) {
                self.finish(job, Err(error.clone()));
            }
        }
        self.spare.push(rows);
    }
}
