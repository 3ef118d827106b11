//! A graphics card as a device.
//!
//! Kernels are queued on the calling thread and run by themselves: submitting returns while they run, collecting copies
//! their rows back and so waits for them. One thread and one stream for each card: more would split torch's caching
//! allocator into pieces. tch knows no events, so nobody can be woken; see `wakes` in the seam.

use std::sync::Arc;

use pullquote_core::encoder::Batch;
use pullquote_core::error::{Error, ErrorKind, Result};
use tch::Tensor;

use crate::failure::torch_failed;
use crate::network::{Network, copy_rows};
use crate::workspace::Workspace;

/// One card, or one of several queues on the same.
#[derive(Debug)]
pub struct CudaDevice {
    network: Arc<Network>,
    /// Rows that are computed or will be, with their tickets: no more than the device's depth.
    running: Vec<(u64, Tensor)>,
    workspace: Workspace,
    /// Where rows are copied to; as large as the largest batch's.
    rows: Vec<f32>,
}

impl CudaDevice {
    /// A device that runs batches on the network's card.
    #[must_use]
    pub fn new(network: Arc<Network>) -> Self {
        Self { network, running: Vec::new(), workspace: Workspace::default(), rows: Vec::new() }
    }

    /// Queues the kernels of a batch, which must have been checked.
    ///
    /// # Errors
    /// [`ErrorKind::Encoder`] where they cannot be queued: out of memory, or an earlier kernel failed.
    pub fn submit(&mut self, ticket: u64, batch: &Batch) -> Result<()> {
        let rows = self.network.encode(batch, &mut self.workspace);
        let rows = rows.map_err(|error| torch_failed(ErrorKind::Encoder, "the batch could not be started", &error))?;
        self.running.push((ticket, rows));
        Ok(())
    }

    /// Waits for a batch, copies its rows back and hands them out.
    ///
    /// # Errors
    /// [`ErrorKind::Encoder`] where it failed.
    pub fn collect(&mut self, ticket: u64, take: impl FnOnce(&[f32])) -> Result<()> {
        let place = self.running.iter().position(|(running, _)| *running == ticket);
        let place =
            place.ok_or_else(|| Error::new(ErrorKind::Internal, format!("no batch {ticket} on this device")))?;
        let (_, rows) = self.running.swap_remove(place);
        copy_rows(&rows, &mut self.rows)?;
        take(&self.rows);
        Ok(())
    }
}
