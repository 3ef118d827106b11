//! The encoder: its devices, and the device of each batch.
//!
//! Each batch is checked here, once, so that no id reads outside the embeddings: torch's CPU kernels would return an error then, and
//! its CUDA kernels would end the whole context.

use std::path::Path;
use std::sync::Arc;

use pullquote_core::encoder::device_config::{DeviceConfig, parse_devices};
use pullquote_core::encoder::dtype::Dtype;
use pullquote_core::encoder::model::Model;
use pullquote_core::encoder::workers::{CpuBatchRunner, CpuDevice, panic_message};
use pullquote_core::encoder::{
    Batch, BatchRunner, BatchTimes, DeviceSpec, Encoder, EncoderSpec, Ticket, Waker, for_each_row,
};
use pullquote_core::error::{Error, ErrorKind, Result};
use tch::Device;

use crate::cuda::device::CudaDevice;
use crate::dtype::{default_dtype, torch_kind};
use crate::model::network::Network;
use crate::model::script::SCRIPT_FILE;
use crate::model::varlen::Varlen;
use crate::threads::use_one_thread;

/// Tokens a batch should have on a worker of one thread.
const CPU_BATCH_TOKENS: usize = 512;
/// Tokens a batch should have on a GPU.
const CUDA_BATCH_TOKENS: usize = 16_384;
/// One batch runs on a GPU while the next is being queued.
const CUDA_DEPTH: usize = 2;

/// A model on one or more devices.
#[derive(Debug)]
pub struct TorchEncoder {
    spec: EncoderSpec,
    devices: Vec<ComputeDevice>,
    /// Each batch that was submitted and not collected: few enough for a linear search.
    in_flight: Vec<InFlight>,
    next_ticket: u64,
    /// Of the batch that was collected last.
    times: Option<BatchTimes>,
}

/// How many bytes of a GPU's memory are free; `None` where that is not known.
pub type FreeMemory<'host> = &'host (dyn Fn(usize) -> Option<u64> + Sync);

#[derive(Debug)]
struct InFlight {
    ticket: u64,
    device: usize,
    /// Values of a result row.
    width: usize,
}

#[derive(Clone, Copy, Debug)]
struct LoadOptions {
    /// Use [`CudaDevice`] on CPUs too.
    cuda_path_on_cpu: bool,
    varlen: Varlen,
}

#[derive(Debug)]
enum ComputeDevice {
    Cpu(CpuDevice<Network>),
    Cuda(Box<CudaDevice>),
}

impl TorchEncoder {
    /// Loads a model onto devices; see `load` in Python for what the arguments may be.
    ///
    /// # Errors
    /// Where an argument, the model or a device is not usable; the kind says which.
    pub fn load(directory: &Path, devices: &[String], dtype: &str, threads: Option<usize>) -> Result<Self> {
        Self::load_with_free_memory(directory, devices, dtype, threads, true, &|_| None)
    }

    /// Loads a model, with batches on GPUs as large as their free memory allows. Without `normalizes`, the vectors are those
    /// before the normalization at the model's end.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn load_with_free_memory(
        directory: &Path,
        devices: &[String],
        dtype: &str,
        threads: Option<usize>,
        normalizes: bool,
        free: FreeMemory<'_>,
    ) -> Result<Self> {
        Self::on_loading_thread(|| {
            let places = parse_devices(devices, threads, &cuda_device_count)?;
            let options = LoadOptions { cuda_path_on_cpu: false, varlen: Varlen::Cuda };
            let mut model = Model::read(directory)?;
            model.normalize &= normalizes;
            Self::load_onto(&model, &places, Dtype::parse(dtype)?, options, free)
        })
    }

    /// Loads a model onto `count` devices that run the code for GPUs on a CPU, for tests on machines without a GPU.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn load_cuda_path_on_cpu(directory: &Path, count: usize, dtype: &str, varlen: Varlen) -> Result<Self> {
        Self::on_loading_thread(|| {
            let device = |index| DeviceConfig::Cpu { name: format!("cpu:{index}"), workers: 0, depth: CUDA_DEPTH };
            let places: Vec<DeviceConfig> = (0..count).map(device).collect();
            let options = LoadOptions { cuda_path_on_cpu: true, varlen };
            Self::load_onto(&Model::read(directory)?, &places, Dtype::parse(dtype)?, options, &|_| None)
        })
    }

    fn on_loading_thread(load: impl FnOnce() -> Result<Self> + Send) -> Result<Self> {
        let load = || {
            // Otherwise torch would start threads, which make the host's forks unsafe.
            use_one_thread();
            tch::no_grad(load)
        };
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("pullquote-load".to_owned()).spawn_scoped(scope, load);
            let thread =
                thread.map_err(|error| Error::new(ErrorKind::Device, format!("no thread to load with: {error}")))?;
            thread.join().unwrap_or_else(|panic| {
                Err(Error::new(ErrorKind::Internal, format!("loading panicked: {}", panic_message(&*panic))))
            })
        })
    }

    fn load_onto(
        model: &Model,
        places: &[DeviceConfig],
        requested: Option<Dtype>,
        options: LoadOptions,
        free: FreeMemory<'_>,
    ) -> Result<Self> {
        let Some(first) = places.first() else {
            return Err(Error::new(ErrorKind::InvalidArgument, "no devices; name at least one, or \"auto\""));
        };
        let dtype = requested.unwrap_or_else(|| default_dtype(first));
        let mut networks: Vec<(Device, Arc<Network>)> = Vec::new();
        let mut devices = Vec::with_capacity(places.len());
        let mut specs = Vec::with_capacity(places.len());
        let mut actual = dtype;
        for place in places {
            let kind = torch_kind(dtype, place)?;
            let device = match place {
                DeviceConfig::Cpu { .. } => Device::Cpu,
                DeviceConfig::Cuda { index, .. } => Device::Cuda(*index),
            };
            let network = if let Some((_, network)) = networks.iter().find(|(known, _)| *known == device) {
                Arc::clone(network)
            } else {
                let network = Arc::new(Network::load(model, device, dtype, kind, options.varlen)?);
                networks.push((device, Arc::clone(&network)));
                network
            };
            actual = network.dtype();
            let (device, spec) = start_device(place, network, model.max_tokens, options, free)?;
            devices.push(device);
            specs.push(spec);
        }
        if requested.is_some() && actual != dtype {
            let path = model.file(SCRIPT_FILE);
            let (actual, dtype) = (actual.name(), dtype.name());
            let message = format!(
                "{}: it was exported in {actual} and cannot compute in {dtype}; use dtype \"auto\"",
                path.display()
            );
            return Err(Error::new(ErrorKind::UnsupportedModel, message));
        }
        let network = &networks[0].1;
        let spec = EncoderSpec {
            dimension: network.dimension(),
            max_tokens: model.max_tokens,
            vocabulary: network.vocabulary(),
            dtype: actual.name().to_owned(),
            notifies: devices.iter().all(|device| matches!(device, ComputeDevice::Cpu(_))),
            needs_polling: true,
            scores: devices.iter().all(|device| matches!(device, ComputeDevice::Cuda(_))),
            backend: "torch".to_owned(),
            devices: specs,
        };
        Ok(Self { spec, devices, in_flight: Vec::new(), next_ticket: 0, times: None })
    }

    fn position(&self, ticket: Ticket) -> Option<usize> {
        self.in_flight.iter().position(|flight| flight.ticket == ticket.0)
    }
}

fn start_device(
    place: &DeviceConfig,
    network: Arc<Network>,
    max_tokens: usize,
    options: LoadOptions,
    free: FreeMemory<'_>,
) -> Result<(ComputeDevice, DeviceSpec)> {
    match place {
        DeviceConfig::Cpu { name, .. } if options.cuda_path_on_cpu => {
            let spec = DeviceSpec { name: name.clone(), depth: CUDA_DEPTH, batch_tokens: CPU_BATCH_TOKENS };
            Ok((ComputeDevice::Cuda(Box::new(CudaDevice::new(network, max_tokens))), spec))
        }
        DeviceConfig::Cpu { name, workers, depth } => {
            let device = CpuDevice::start(name, *workers, network)?;
            let spec = DeviceSpec { name: name.clone(), depth: *depth, batch_tokens: CPU_BATCH_TOKENS };
            Ok((ComputeDevice::Cpu(device), spec))
        }
        DeviceConfig::Cuda { name, index } => {
            let batch_tokens = gpu_batch_tokens(network.bytes_per_token(max_tokens), free(*index), max_tokens);
            let spec = DeviceSpec { name: name.clone(), depth: CUDA_DEPTH, batch_tokens };
            Ok((ComputeDevice::Cuda(Box::new(CudaDevice::new(network, max_tokens))), spec))
        }
    }
}

/// Tokens of a GPU's batch: at most what fits a quarter of its free memory. The rest is for padding, for fragments of torch's
/// allocator, and for other programs. If a batch does not fit all the same, the scheduler halves it.
fn gpu_batch_tokens(bytes_per_token: Option<u64>, free: Option<u64>, max_tokens: usize) -> usize {
    let (Some(bytes), Some(free)) = (bytes_per_token, free) else { return CUDA_BATCH_TOKENS };
    let fits = usize::try_from(free / 4 / bytes.max(1)).unwrap_or(usize::MAX);
    fits.clamp(max_tokens.min(CUDA_BATCH_TOKENS), CUDA_BATCH_TOKENS)
}

/// The number of CUDA devices that torch finds.
#[must_use]
pub fn cuda_device_count() -> usize {
    usize::try_from(tch::Cuda::device_count()).unwrap_or(0)
}

impl Encoder for TorchEncoder {
    fn spec(&self) -> &EncoderSpec {
        &self.spec
    }

    fn set_waker(&mut self, waker: Waker) {
        for device in &self.devices {
            if let ComputeDevice::Cpu(cpu) = device {
                cpu.set_waker(Arc::clone(&waker));
            }
        }
    }

    fn submit(&mut self, device: usize, batch: &Batch) -> Result<Ticket> {
        self.spec.check(batch)?;
        let dimension = self.spec.dimension;
        let width = if batch.queries.is_empty() { dimension } else { batch.queries.len() / dimension };
        let count = self.devices.len();
        let Some(device_of_batch) = self.devices.get_mut(device) else {
            return Err(Error::new(ErrorKind::Internal, format!("no device {device}; there are {count}")));
        };
        let ticket = self.next_ticket;
        match device_of_batch {
            ComputeDevice::Cpu(_) if !batch.queries.is_empty() => {
                let message = "this encoder compares no rows with queries; its spec says so";
                return Err(Error::new(ErrorKind::Internal, message));
            }
            ComputeDevice::Cpu(cpu) => cpu.submit(ticket, batch),
            ComputeDevice::Cuda(cuda) => cuda.submit(ticket, batch)?,
        }
        self.next_ticket += 1;
        self.in_flight.push(InFlight { ticket, device, width });
        Ok(Ticket(ticket))
    }

    fn is_finished(&mut self, ticket: Ticket) -> bool {
        match self.position(ticket).and_then(|position| self.devices.get_mut(self.in_flight[position].device)) {
            Some(ComputeDevice::Cpu(cpu)) => cpu.is_finished(ticket.0),
            Some(ComputeDevice::Cuda(cuda)) => cuda.is_finished(ticket.0),
            // Collecting it fails at once.
            None => true,
        }
    }

    fn collect(&mut self, ticket: Ticket, row: &mut dyn FnMut(usize, &[f32])) -> Result<()> {
        let Some(position) = self.position(ticket) else {
            return Err(Error::new(ErrorKind::Internal, format!("batch {} is not in flight", ticket.0)));
        };
        let InFlight { device, width, .. } = self.in_flight.swap_remove(position);
        let receive = |rows: &[f32]| for_each_row(rows, width, row);
        let times = match &mut self.devices[device] {
            ComputeDevice::Cpu(cpu) => cpu.collect(ticket.0, receive),
            ComputeDevice::Cuda(cuda) => cuda.collect(ticket.0, receive),
        };
        times.map(|times| self.times = Some(times))
    }

    fn profile(&mut self, synchronizes: bool) {
        for device in &mut self.devices {
            if let ComputeDevice::Cuda(cuda) = device {
                cuda.profile(synchronizes);
            }
        }
    }

    fn times(&mut self) -> Option<BatchTimes> {
        self.times
    }

    fn batch_runner(&self) -> Option<BatchRunner> {
        let helping = |device: &ComputeDevice| match device {
            ComputeDevice::Cpu(cpu) => cpu.batch_runner(),
            ComputeDevice::Cuda(_) => None,
        };
        let helping: Vec<CpuBatchRunner<Network>> = self.devices.iter().filter_map(helping).collect();
        (!helping.is_empty()).then(|| Arc::new(move || helping.iter().any(CpuBatchRunner::run_one)) as BatchRunner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpu_batch_tokens_fit_the_free_memory() {
        let gibibyte = 1 << 30;
        // MiniLM in float16: 12 · 384 + 2 · 1536 + 2 · 12 · 512 values.
        let bytes = Some(2 * (12 * 384 + 2 * 1536 + 2 * 12 * 512));
        assert_eq!(gpu_batch_tokens(bytes, Some(70 * gibibyte), 512), CUDA_BATCH_TOKENS);
        assert_eq!(gpu_batch_tokens(bytes, Some(gibibyte), 512), 6721);
        assert_eq!(gpu_batch_tokens(bytes, Some(1000), 512), 512, "a batch holds the max_tokens row");
        assert_eq!(gpu_batch_tokens(None, Some(1000), 512), CUDA_BATCH_TOKENS);
        assert_eq!(gpu_batch_tokens(bytes, None, 512), CUDA_BATCH_TOKENS);
    }
}
