//! A graphics card as a device.
//!
//! Kernels are queued on the calling thread and run by themselves, and so do the copies before and behind them
//! ([`crate::staging`]): submitting waits for nothing. One thread and one stream for each card: more would split torch's
//! caching allocator into pieces. tch knows no events, so a batch ends with a mark that the card writes to the host's
//! memory behind the rows: looking at it says whether a batch is done, without waiting for those that were queued later,
//! as a copy asked for at that time would. Nobody can be woken; see `needs_polling` in the seam. Where a mark does not come for
//! long, torch is asked, which knows whether the card failed: by a thread made for it, since a card that hangs does not answer.
//!
//! The network decides which device it is. The tests run all of this on a CPU, where everything is done at once.

use std::sync::Arc;
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use pullquote_core::encoder::workers::check_rows;
use pullquote_core::encoder::{Batch, BatchTimes};
use pullquote_core::error::{Error, ErrorKind, Result};
use tch::Device;

use crate::failure::{TorchResult, batch_failed};
use crate::layout::Sent;
use crate::network::Network;
use crate::pooling::cosines;
use crate::staging::{Returning, Staging};

/// How long to sleep between two looks at a batch, and after how long to ask torch.
const LOOK: Duration = Duration::from_micros(50);
const PATIENCE: Duration = Duration::from_secs(2);

/// One card, or one of several queues on the same.
#[derive(Debug)]
pub struct CudaDevice {
    network: Arc<Network>,
    /// The longest row of the model.
    longest: usize,
    /// Batches that are computed or will be: no more than the device's depth.
    running: Vec<Running>,
    /// Stagings of batches that were collected.
    spare: Vec<Staging>,
    /// Whether stages are waited for, so that each has its own time.
    synchronizes: bool,
}

/// A batch on the card.
#[derive(Debug)]
struct Running {
    ticket: u64,
    staging: Staging,
    returning: Returning,
    times: BatchTimes,
    /// When submitting it had ended.
    submitted: Instant,
    /// Asks torch what became of it; there once it was overdue.
    asking: Option<JoinHandle<TorchResult<()>>>,
}

impl CudaDevice {
    /// A device that runs batches on the network's card; rows are at most so long.
    #[must_use]
    pub fn new(network: Arc<Network>, longest: usize) -> Self {
        Self { network, longest, running: Vec::new(), spare: Vec::new(), synchronizes: false }
    }

    /// Whether to wait for each stage.
    pub fn profile(&mut self, synchronizes: bool) {
        self.synchronizes = synchronizes;
    }

    /// Queues the kernels of a batch, which must have been checked.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`] where the card has no memory for it, [`ErrorKind::Device`] where an earlier kernel failed,
    /// [`ErrorKind::Encoder`] for anything else.
    pub fn submit(&mut self, ticket: u64, batch: &Batch) -> Result<()> {
        let mut staging = self.spare.pop().unwrap_or_default();
        let queued = tch::no_grad(|| self.queue(batch, &mut staging));
        // Where it fails the staging goes too: what was sent may still be read, and torch keeps such memory until it was.
        let (returning, times) = queued.map_err(|error| batch_failed(&error))?;
        self.running.push(Running { ticket, staging, returning, times, submitted: Instant::now(), asking: None });
        Ok(())
    }

    fn queue(&self, batch: &Batch, staging: &mut Staging) -> TorchResult<(Returning, BatchTimes)> {
        if self.network.is_varlen() {
            let queued = self.queue_as(batch, staging, true);
            if queued.is_ok() {
                return queued;
            }
            // Of variable-length attention torch says only that it failed. The plain way needs it not, or says why it fails too.
            // What was sent may still be read: writing over it could bring ids from outside the tables to the device.
            *staging = Staging::default();
        }
        self.queue_as(batch, staging, false)
    }

    fn queue_as(&self, batch: &Batch, staging: &mut Staging, ragged: bool) -> TorchResult<(Returning, BatchTimes)> {
        let (began, mut times) = (Instant::now(), BatchTimes::default());
        let device = self.network.device();
        let sent = if ragged {
            Sent::Ragged(staging.send_ragged(batch, device)?)
        } else {
            Sent::Padded(staging.send(batch, device, self.longest)?)
        };
        let queries = staging.send_queries(&batch.queries, self.network.dimension(), device)?;
        if self.synchronizes {
            let _ = sent.ids().f_narrow(0, 0, 1)?.f_to_device_(Device::Cpu, tch::Kind::Int, false, true)?;
        }
        times.copied_in = BatchTimes::since(began);
        let began = Instant::now();
        let count = i64::try_from(batch.lengths.len()).unwrap_or(i64::MAX);
        let rows = self.network.encode_sent(&sent)?.f_narrow(0, 0, count)?;
        let rows = match queries {
            Some(queries) => cosines(&rows, &queries)?,
            None => rows,
        };
        if self.synchronizes {
            let _ = rows.f_narrow(0, 0, 1)?.f_to_device_(Device::Cpu, tch::Kind::Float, false, true)?;
            times.computed = BatchTimes::since(began);
        }
        Ok((Returning::send(&rows)?, times))
    }

    /// How many stagings there are: one for each batch that was ever in flight beside the others.
    #[must_use]
    pub fn stagings(&self) -> usize {
        self.running.len() + self.spare.len()
    }

    fn place(&self, ticket: u64) -> Option<usize> {
        self.running.iter().position(|running| running.ticket == ticket)
    }

    /// Whether a batch's rows are here or will never be; also where there is no such batch, which is an error at once.
    #[must_use]
    pub fn is_finished(&mut self, ticket: u64) -> bool {
        self.place(ticket).is_none_or(|place| self.running[place].is_finished())
    }

    /// Waits for a batch and hands out its rows. Says what it took: without a profile the time between submitting and
    /// collecting counts as computing.
    ///
    /// # Errors
    /// As [`Self::submit`].
    pub fn collect(&mut self, ticket: u64, take: impl FnOnce(&[f32])) -> Result<BatchTimes> {
        let place = self.place(ticket);
        let place =
            place.ok_or_else(|| Error::new(ErrorKind::Internal, format!("no batch {ticket} on this device")))?;
        let mut running = self.running.swap_remove(place);
        while !running.is_finished() {
            sleep(LOOK);
        }
        let Running { staging, returning, mut times, submitted, asking, .. } = running;
        if !returning.is_here() {
            return Err(reason(asking));
        }
        let arrived = Instant::now();
        let waited = BatchTimes::of(arrived.saturating_duration_since(submitted));
        if self.synchronizes {
            times.copied_out = waited;
        } else {
            times.computed = waited;
        }
        // Its ids have arrived as well.
        self.spare.push(staging);
        let values = returning.values();
        check_rows(values)?;
        take(values);
        times.copied_out += BatchTimes::since(arrived);
        Ok(times)
    }
}

impl Running {
    /// Whether its rows are here, or it is known why they never will be.
    fn is_finished(&mut self) -> bool {
        if self.returning.is_here() {
            return true;
        }
        match &self.asking {
            Some(asking) => asking.is_finished(),
            None if self.submitted.elapsed() > PATIENCE => {
                let question = self.returning.question();
                self.asking = thread::Builder::new().name("pullquote-asking".to_owned()).spawn(question).ok();
                false
            }
            None => false,
        }
    }
}

/// Why rows have not come, by whoever asked.
fn reason(asking: Option<JoinHandle<TorchResult<()>>>) -> Error {
    let lost =
        || Error::new(ErrorKind::Device, "the batch failed: the device is done with it, and its rows have not come");
    match asking.map(JoinHandle::join) {
        Some(Ok(Err(error))) => batch_failed(&error),
        _ => lost(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    /// A batch whose rows do not come, and of which torch was asked this.
    fn overdue(question: impl FnOnce() -> TorchResult<()> + Send + 'static) -> Running {
        Running {
            ticket: 0,
            staging: Staging::default(),
            returning: Returning::lost(),
            times: BatchTimes::default(),
            submitted: Instant::now(),
            asking: Some(thread::spawn(question)),
        }
    }

    #[test]
    fn rows_that_do_not_come_are_asked_about_and_what_torch_says_is_told() {
        let (answer, asked) = channel();
        let mut hanging = overdue(move || asked.recv().unwrap_or(Ok(())));
        assert!(!hanging.is_finished(), "the card does not answer, and nobody waits for it");
        answer
            .send(Err(tch::TchError::Torch("CUDA error: an illegal memory access was encountered".to_owned())))
            .unwrap();
        while !hanging.is_finished() {
            sleep(LOOK);
        }
        let error = reason(hanging.asking);
        assert_eq!(error.kind(), ErrorKind::Device);
        assert!(error.message().contains("illegal memory access"), "{error}");
    }

    #[test]
    fn rows_that_a_device_lost_are_its_failure() {
        let mut lost = overdue(Returning::lost().question());
        while !lost.is_finished() {
            sleep(LOOK);
        }
        assert_eq!(reason(lost.asking).kind(), ErrorKind::Device);
    }
}
