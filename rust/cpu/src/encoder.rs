//! The encoder: a model on a processor's cores, behind the trait of `pullquote_core::encoder`.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use pullquote_core::encoder::cpu_device::{CpuBatchRunner, CpuDevice, check_rows};
use pullquote_core::encoder::device_config::{DeviceConfig, parse_devices};
use pullquote_core::encoder::dtype::Dtype;
use pullquote_core::encoder::model::Model;
use pullquote_core::encoder::{
    Batch, BatchRunner, BatchTimes, DeviceSpec, Encoder, EncoderSpec, Ticket, TokenEncoder, Waker, for_each_row,
};
use pullquote_core::error::{Error, ErrorKind, Result};

use crate::instructions::InstructionSet;
use crate::network::{Network, Workspace};

/// Tokens a batch should have: fewer read the weights too often, more overflow the second cache.
const BATCH_TOKENS: usize = 512;

/// A model on one or more shares of the processor's cores.
#[derive(Debug)]
pub struct CpuEncoder {
    spec: EncoderSpec,
    network: Arc<Network>,
    devices: Vec<CpuDevice<Network>>,
    /// Each batch that was submitted and not collected, with its device: few enough for a linear search.
    in_flight: Vec<(Ticket, usize)>,
    next_ticket: u64,
    /// Of the batch that was collected last.
    times: Option<BatchTimes>,
}

impl CpuEncoder {
    /// Loads a model. `devices` are names as in [`parse_devices`], `dtype` is a name or `auto`, and `threads` is the
    /// number of workers of all devices; `None` is one for each core.
    ///
    /// # Errors
    /// The kind says whether an argument, the model or a device is unusable.
    pub fn load(directory: &Path, devices: &[String], dtype: &str, threads: Option<usize>) -> Result<Self> {
        let dtype = Dtype::parse(dtype)?;
        Self::load_with(&Model::read(directory)?, devices, dtype, threads, InstructionSet::selected()?)
    }

    /// Loads a model for an instruction set.
    pub fn load_with(
        model: &Model,
        devices: &[String],
        dtype: Option<Dtype>,
        threads: Option<usize>,
        set: InstructionSet,
    ) -> Result<Self> {
        let places = parse_devices(devices, threads, &|| 0)?;
        let network = Arc::new(Network::load(model, dtype.unwrap_or_else(|| default_dtype(model, set)), set)?);
        let mut started = Vec::with_capacity(places.len());
        let mut specs = Vec::with_capacity(places.len());
        for place in places {
            let DeviceConfig::Cpu { name, workers, depth } = place else {
                return Err(Error::new(ErrorKind::Internal, "this encoder has no GPUs"));
            };
            started.push(CpuDevice::start(&name, workers, Arc::clone(&network))?);
            // Without workers, waiting callers compute as many as they are.
            let workers = if workers == 0 { depth } else { workers };
            specs.push(DeviceSpec { workers, ..DeviceSpec::new(name, depth, BATCH_TOKENS) });
        }
        let spec = EncoderSpec {
            dimension: network.dimension(),
            max_tokens: model.max_tokens,
            vocabulary: network.vocabulary(),
            dtype: network.dtype().name().to_owned(),
            devices: specs,
            notifies: true,
            needs_polling: true,
            scores: false,
            backend: set.name().to_owned(),
        };
        Ok(Self { spec, network, devices: started, in_flight: Vec::new(), next_ticket: 0, times: None })
    }

    fn position(&self, ticket: Ticket) -> Option<usize> {
        self.in_flight.iter().position(|(known, _)| *known == ticket)
    }
}

/// The fastest type that keeps the quality. int8 is only for a model whose `config.json` says that it keeps the
/// quality: that has to be measured for each model (`bench/quality.py --dtype int8`).
fn default_dtype(model: &Model, set: InstructionSet) -> Dtype {
    if set.has_fast_int8() && model.config["pullquote"]["int8"] == true {
        Dtype::Int8
    } else if set.has_bf16() {
        Dtype::BFloat16
    } else {
        Dtype::Float32
    }
}

impl Encoder for CpuEncoder {
    fn spec(&self) -> &EncoderSpec {
        &self.spec
    }

    fn set_waker(&mut self, waker: Waker) {
        self.devices.iter().for_each(|device| device.set_waker(Arc::clone(&waker)));
    }

    fn submit(&mut self, device: usize, batch: &Batch) -> Result<Ticket> {
        self.spec.check(batch)?;
        if !batch.queries.is_empty() {
            let message = "this encoder compares no rows with queries; its spec says so";
            return Err(Error::new(ErrorKind::Internal, message));
        }
        let count = self.devices.len();
        let Some(cpu) = self.devices.get(device) else {
            return Err(Error::new(ErrorKind::Internal, format!("no device {device}; there are {count}")));
        };
        let ticket = Ticket(self.next_ticket);
        cpu.submit(ticket.0, batch);
        self.next_ticket += 1;
        self.in_flight.push((ticket, device));
        Ok(ticket)
    }

    fn is_finished(&mut self, ticket: Ticket) -> bool {
        // Collecting a ticket that is not in flight fails at once.
        self.position(ticket).is_none_or(|position| self.devices[self.in_flight[position].1].is_finished(ticket.0))
    }

    fn collect(&mut self, ticket: Ticket, row: &mut dyn FnMut(usize, &[f32])) -> Result<()> {
        let Some(position) = self.position(ticket) else {
            return Err(Error::new(ErrorKind::Internal, format!("batch {} is not in flight", ticket.0)));
        };
        let (_, device) = self.in_flight.swap_remove(position);
        let times = self.devices[device].collect(ticket.0, |rows| for_each_row(rows, self.spec.dimension, row))?;
        self.times = Some(times);
        Ok(())
    }

    fn times(&mut self) -> Option<BatchTimes> {
        self.times
    }

    fn batch_runner(&self) -> Option<BatchRunner> {
        let runners: Vec<CpuBatchRunner<Network>> = self.devices.iter().filter_map(CpuDevice::batch_runner).collect();
        (!runners.is_empty()).then(|| Arc::new(move || runners.iter().any(CpuBatchRunner::run_one)) as BatchRunner)
    }

    fn token_encoder(&self) -> Option<TokenEncoder> {
        let width = self.network.token_width()?;
        // Weak, so that the weights are freed with the encoder.
        let (network, spec) = (Arc::downgrade(&self.network), self.spec.clone());
        // As many as ever computed at the same time.
        let workspaces: Mutex<Vec<Workspace>> = Mutex::default();
        let encode = move |batch: &Batch, vectors: &mut Vec<f32>| {
            spec.check(batch)?;
            let closed = || Error::new(ErrorKind::Closed, "the encoder was closed; make a new one");
            let network = network.upgrade().ok_or_else(closed)?;
            // No holder of the lock panics.
            let lock = || workspaces.lock().unwrap_or_else(PoisonError::into_inner);
            let mut workspace = lock().pop().unwrap_or_default();
            let first = vectors.len();
            network.encode_tokens(batch, &mut workspace, vectors);
            lock().push(workspace);
            check_rows(&vectors[first..])
        };
        Some(TokenEncoder { width, encode: Arc::new(encode) })
    }
}
