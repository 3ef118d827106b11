//! A graphics card as a device.
//!
//! Kernels are queued on the calling thread and run by themselves: submitting returns while they run, collecting copies
//! their rows back and so waits for them. One thread and one stream for each card: more would split torch's caching
//! allocator into pieces. tch knows no events, so nobody can be woken; see `wakes` in the seam.

use std::collections::HashMap;
use std::sync::Arc;

use pullquote_core::encoder::Batch;
use pullquote_core::error::{Error, ErrorKind, Result};
use tch::Tensor;

use crate::failure::torch_failed;
use crate::network::{Network, copy_rows};

/// One card, or one of several queues on the same.
#[derive(Debug)]
pub struct CudaDevice {
    network: Arc<Network>,
    /// Rows that are computed or will be, by ticket.
    running: HashMap<u64, Tensor>,
}

impl CudaDevice {
    /// A device that runs batches on the network's card.
    #[must_use]
    pub fn new(network: Arc<Network>) -> Self {
        Self { network, running: HashMap::new() }
    }

    /// Queues the kernels of a batch, which must have been checked.
    ///
    /// # Errors
    /// [`ErrorKind::Encoder`] where they cannot be queued: out of memory, or an earlier kernel failed.
    pub fn submit(&mut self, ticket: u64, batch: &Batch) -> Result<()> {
        let rows = self.network.encode(batch);
        let rows = rows.map_err(|error| torch_failed(ErrorKind::Encoder, "the batch could not be started", &error))?;
        self.running.insert(ticket, rows);
        Ok(())
    }

    /// Waits for a batch and copies its rows back.
    ///
    /// # Errors
    /// [`ErrorKind::Encoder`] where it failed.
    pub fn collect(&mut self, ticket: u64) -> Result<Vec<f32>> {
        let rows = self.running.remove(&ticket);
        copy_rows(&rows.ok_or_else(|| Error::new(ErrorKind::Internal, format!("no batch {ticket} on this device")))?)
    }
}
