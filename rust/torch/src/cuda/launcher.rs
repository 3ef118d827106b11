//! The thread of a GPU: it queues the kernels of one batch after the other, and waits for none.
//!
//! It is a thread of pullquote's own, so its current GPU, stream, autocast, gradients and OpenMP threads are torch's
//! defaults, whatever the caller's thread has set.

use std::ffi::CString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use pullquote_core::encoder::cpu_device::panic_message;
use pullquote_core::encoder::{Batch, BatchTimes, Output};
use pullquote_core::error::{Error, ErrorKind};
use tch::{Device, Kind, TchError};

use super::graphs::Graphs;
use super::runtime::{CudaError, Event, Runtime};
use super::staging::{RaggedShape, Staging};
use crate::error::{TorchResult, gpu_error, reason};
use crate::model::layout::DeviceBatch;
use crate::model::network::Networks;
use crate::model::pooling::cosines;

/// Rows of a ragged batch: the second dimension of a kernel's grid.
const MAX_RAGGED_ROWS: usize = 65_535;

/// A batch, with its memory, on its way to the GPU's thread, through the GPU, and back.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) number: u64,
    pub(super) batch: Batch,
    pub(super) staging: Staging,
    /// Done when the GPU no longer uses the staging. `None` before the first batch.
    pub(super) event: Option<Event>,
    /// Why the batch was not queued, or not computed.
    pub(super) failure: Option<Error>,
    pub(super) submitted: Instant,
    /// When all kernels were queued.
    pub(super) launched: Instant,
    pub(super) times: BatchTimes,
}

/// What the GPU's thread and the device share.
#[derive(Debug, Default)]
pub(super) struct Flags {
    /// The error that broke the GPU for the rest of the process.
    pub(super) lost: OnceLock<String>,
    /// Wait for the end of each stage, so that each has its own time.
    pub(super) synchronizes: AtomicBool,
    /// The device was dropped: batches are discarded.
    pub(super) stopping: AtomicBool,
    /// Batches that were queued as a CUDA graph.
    pub(super) replayed: AtomicU64,
    /// Why batches are not queued as CUDA graphs any more.
    pub(super) graph_error: OnceLock<CString>,
}

/// How a batch is laid out on the GPU.
#[derive(Clone, Copy, Debug)]
enum Layout {
    Padded,
    Ragged,
    /// Ragged, in this shape, whose graph was captured.
    Graph(RaggedShape),
}

pub(super) struct Launcher {
    pub(super) name: String,
    pub(super) networks: Networks,
    pub(super) runtime: &'static Runtime,
    pub(super) flags: Arc<Flags>,
    /// `None` where they are off.
    pub(super) graphs: Option<Graphs>,
}

impl Slot {
    pub(super) fn new(runtime: &'static Runtime) -> Self {
        let now = Instant::now();
        Self {
            number: 0,
            batch: Batch::default(),
            staging: Staging::new(runtime),
            event: None,
            failure: None,
            submitted: now,
            launched: now,
            times: BatchTimes::default(),
        }
    }

    /// Whether the GPU uses none of its memory. An error means that it may for ever.
    pub(super) fn is_idle(&self) -> bool {
        self.event.as_ref().is_none_or(|event| event.is_done() == Ok(true))
    }

    /// Frees the memory if the GPU does not use it.
    pub(super) fn free(self) {
        if !self.is_idle() {
            self.staging.leak();
        }
    }
}

impl Launcher {
    /// Queues a batch, or notes why it could not be.
    pub(super) fn launch(&mut self, slot: &mut Slot) {
        slot.times = BatchTimes { waited: BatchTimes::since(slot.submitted), ..slot.times };
        if self.flags.lost.get().is_some() {
            slot.failure = Some(self.flags.lost_error(&self.name));
            return;
        }
        let queued = catch_unwind(AssertUnwindSafe(|| self.queue(slot)));
        slot.launched = Instant::now();
        slot.failure = match queued {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(self.classify(&error)),
            Err(panic) => Some(Error::new(ErrorKind::Encoder, format!("the batch failed: {}", panic_message(&*panic)))),
        };
        if slot.failure.is_some() {
            // Some of it may be queued, and read the staging.
            match slot.event.as_ref().map(Event::record) {
                None | Some(Ok(())) => {}
                Some(Err(error)) => slot.failure = Some(self.classify(&error.into())),
            }
        }
    }

    /// Frees what the thread owns, after its last batch.
    pub(super) fn end(self) {
        if let Some(graphs) = self.graphs {
            graphs.end(self.flags.lost.get().is_some());
        }
    }

    fn queue(&mut self, slot: &mut Slot) -> TorchResult<()> {
        if slot.event.is_none() {
            slot.event = Some(Event::new(self.runtime)?);
        }
        let output = slot.batch.output;
        if self.networks.of(output).is_varlen() && RaggedShape::of(&slot.batch).rows <= MAX_RAGGED_ROWS {
            let graphs = self.graphs.as_ref().filter(|_| output != Output::Scores);
            let shape = graphs.and_then(|graphs| graphs.captured_shape(&slot.batch));
            if let Some(shape) = shape {
                match self.queue_in_layout(slot, Layout::Graph(shape)) {
                    Ok(()) => {
                        self.flags.replayed.fetch_add(1, Ordering::Relaxed);
                        return Ok(());
                    }
                    Err(error) => self.give_up_graphs(&error),
                }
            }
            match self.queue_in_layout(slot, Layout::Ragged) {
                // Only the dispatcher's calls fail so, and they give no reason; torch's own errors say that padding
                // would fail too.
                Err(TchError::Kind(_)) if self.free_memory().is_ok() => {}
                queued => return queued,
            }
        }
        self.queue_in_layout(slot, Layout::Padded)
    }

    fn queue_in_layout(&mut self, slot: &mut Slot, layout: Layout) -> TorchResult<()> {
        let (began, synchronizes) = (Instant::now(), self.flags.synchronizes.load(Ordering::Relaxed));
        let Slot { batch, staging, times, .. } = slot;
        let network = self.networks.of(batch.output);
        let device = network.device();
        let uploaded = match layout {
            Layout::Ragged => DeviceBatch::Ragged(staging.upload_ragged(batch, device)?),
            Layout::Padded => DeviceBatch::Padded(staging.upload_padded(batch, device, network.max_tokens())?),
            Layout::Graph(shape) => {
                let graphs = self.graphs.as_mut().ok_or_else(no_graphs)?;
                DeviceBatch::Ragged(graphs.upload(shape, batch, staging)?)
            }
        };
        let queries = staging.upload_queries(&batch.queries, network.dimension(), device)?;
        if synchronizes {
            let _ = uploaded.ids().f_narrow(0, 0, 1)?.f_to_device_(Device::Cpu, Kind::Int, false, true)?;
        }
        times.copied_in += BatchTimes::since(began);
        let normalizes = network.normalizes();
        let began = Instant::now();
        let rows = match layout {
            Layout::Graph(shape) => self.graphs.as_mut().ok_or_else(no_graphs)?.launch(shape)?,
            Layout::Padded | Layout::Ragged => network.encode_uploaded(&uploaded)?,
        };
        let rows = rows.f_narrow(0, 0, i64::try_from(batch.lengths.len()).unwrap_or(i64::MAX))?;
        if let (Layout::Ragged, Some(graphs)) = (layout, &mut self.graphs)
            && batch.output != Output::Scores
            && let Err(error) = graphs.see(batch, staging, network, &rows)
        {
            self.give_up_graphs(&error);
        }
        let rows = match queries {
            Some(queries) => cosines(&rows, &queries, normalizes)?,
            None => rows,
        };
        if synchronizes {
            times.launched = BatchTimes::since(began);
            let began = Instant::now();
            let _ = rows.f_narrow(0, 0, 1)?.f_to_device_(Device::Cpu, Kind::Float, false, true)?;
            times.computed = BatchTimes::since(began);
            staging.download(&rows)?;
        } else {
            staging.download(&rows)?;
            times.launched = BatchTimes::since(began);
        }
        slot.event.as_ref().map_or(Ok(()), Event::record).map_err(TchError::from)
    }

    /// Computes all batches from now on without graphs. What broke the GPU shows when the next kernel is queued.
    fn give_up_graphs(&mut self, error: &TchError) {
        let Some(graphs) = self.graphs.take() else { return };
        self.runtime.clear_error();
        let why = reason(error);
        graphs.warn(&self.name, &why);
        let _ = self.flags.graph_error.set(CString::new(why.replace('\0', " ")).unwrap_or_default());
        graphs.end(false);
    }

    /// Any call shows whether the GPU works: where it is broken, every call returns the error that broke it.
    fn free_memory(&self) -> Result<u64, CudaError> {
        self.runtime.clear_error();
        self.runtime.free_memory()
    }

    fn classify(&self, error: &TchError) -> Error {
        match self.free_memory() {
            Ok(free) => gpu_error(error, free),
            Err(broken) => {
                self.flags.lost.get_or_init(|| reason(&broken.into()));
                self.flags.lost_error(&self.name)
            }
        }
    }
}

fn no_graphs() -> TchError {
    TchError::Kind("there are no graphs".to_owned())
}

impl Flags {
    /// The error of batches on a lost GPU.
    pub(super) fn lost_error(&self, name: &str) -> Error {
        let why = self.lost.get().map_or("its thread ended", String::as_str);
        Error::new(ErrorKind::Device, format!("{name} is lost to this process; restart the process: {why}"))
    }
}
