//! The encoder: its devices, and the device of each batch.
//!
//! Each batch is checked here, once, so that no id reads outside the embeddings: torch's CPU kernels would return an
//! error then, and its CUDA kernels would end the whole context.

use std::ffi::CStr;
use std::path::Path;
use std::sync::Arc;

use pullquote_core::encoder::cpu_device::{CpuBatchRunner, CpuDevice, panic_message};
use pullquote_core::encoder::device_config::{DeviceConfig, parse_devices};
use pullquote_core::encoder::dtype::Dtype;
use pullquote_core::encoder::model::{Model, ModelOptions};
use pullquote_core::encoder::{
    Batch, BatchRunner, BatchTimes, DeviceSpec, Encoder, EncoderSpec, GraphState, Ticket, Waker, for_each_row,
};
use pullquote_core::error::{Error, ErrorKind, Result};
use tch::Device;

use crate::cuda::device::CudaDevice;
use crate::cuda::graphs::CaptureSupport;
use crate::cuda::runtime::Runtime;
use crate::dtype::{default_dtype, torch_kind};
use crate::model::network::Network;
use crate::model::script::SCRIPT_FILE;
use crate::model::varlen::Varlen;
use crate::threads::use_one_thread;

/// Tokens a batch should have on a worker of one thread.
const CPU_BATCH_TOKENS: usize = 512;
/// Tokens a batch should have on a GPU, at least: queueing its kernels takes a millisecond, whatever its size.
const MIN_CUDA_BATCH_TOKENS: usize = 16_384;
/// And at most: an urgent request waits for two such batches.
const MAX_CUDA_BATCH_TOKENS: usize = 65_536;
/// The work of a GPU's batch between those: a few milliseconds of a large GPU, several times what its thread needs to
/// queue it.
const CUDA_BATCH_FLOPS: u64 = 1_300_000_000_000;
/// One batch runs on a GPU while the next is being queued.
const CUDA_DEPTH: usize = 2;

/// A model on one or more devices.
#[derive(Debug)]
pub struct TorchEncoder {
    spec: EncoderSpec,
    devices: Vec<ComputeDevice>,
    /// Each batch that was submitted and not collected: few enough for a linear search.
    in_flight: Vec<InFlightTicket>,
    next_ticket: u64,
    /// Of the batch that was collected last.
    times: Option<BatchTimes>,
}

#[derive(Clone, Copy, Debug)]
pub struct VectorOptions {
    /// They are cut to their first values.
    pub truncate_dim: Option<usize>,
    /// Whether the model's normalization at the end is applied.
    pub normalizes: bool,
}

#[derive(Debug)]
struct InFlightTicket {
    ticket: u64,
    device: usize,
    /// Values of a result row.
    width: usize,
}

#[derive(Clone, Copy, Debug)]
struct LoadOptions {
    /// Use [`CudaDevice`] on CPUs too, with this runtime.
    cuda_path_on_cpu: Option<&'static Runtime>,
    varlen: Varlen,
    graphs: Option<CaptureSupport>,
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
    /// The kind says whether an argument, the model or a device is unusable.
    pub fn load(directory: &Path, devices: &[String], dtype: &str, threads: Option<usize>) -> Result<Self> {
        Self::load_with(
            directory,
            devices,
            dtype,
            threads,
            VectorOptions { truncate_dim: None, normalizes: true },
            None,
        )
    }

    /// As [`Self::load`], with other vectors than the model's own, and with CUDA graphs if `graphs` is given.
    pub fn load_with(
        directory: &Path,
        devices: &[String],
        dtype: &str,
        threads: Option<usize>,
        vectors: VectorOptions,
        graphs: Option<CaptureSupport>,
    ) -> Result<Self> {
        Self::on_loading_thread(|| {
            let places =
                parse_devices(devices, threads, &cuda_device_count).map_err(|error| match driver_problem() {
                    Some(problem) if error.kind() == ErrorKind::Device => {
                        Error::new(ErrorKind::Device, format!("{}; {problem}", error.message()))
                    }
                    _ => error,
                })?;
            let options = LoadOptions { cuda_path_on_cpu: None, varlen: Varlen::Cuda, graphs };
            let truncated = ModelOptions { truncate_dim: vectors.truncate_dim, ..ModelOptions::default() };
            let mut model = Model::read_with(directory, &truncated)?;
            model.normalize &= vectors.normalizes;
            Self::load_onto(&model, &places, Dtype::parse(dtype)?, options)
        })
    }

    /// Loads a model onto `count` devices that run the code for GPUs on a CPU, for tests on machines without a GPU.
    /// `runtime` is what they take for CUDA's, whose devices they number from 0.
    pub fn load_cuda_path_on_cpu(
        directory: &Path,
        count: usize,
        dtype: &str,
        varlen: Varlen,
        runtime: &'static Runtime,
        graphs: Option<CaptureSupport>,
    ) -> Result<Self> {
        Self::on_loading_thread(|| {
            let device = |index| DeviceConfig::Cpu { name: format!("cpu:{index}"), workers: 0, depth: CUDA_DEPTH };
            let places: Vec<DeviceConfig> = (0..count).map(device).collect();
            let options = LoadOptions { cuda_path_on_cpu: Some(runtime), varlen, graphs };
            Self::load_onto(&Model::read(directory)?, &places, Dtype::parse(dtype)?, options)
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
    ) -> Result<Self> {
        let Some(first) = places.first() else {
            return Err(Error::new(ErrorKind::InvalidArgument, "no devices; name at least one, or \"auto\""));
        };
        let dtype = requested.unwrap_or_else(|| default_dtype(first));
        let mut networks: Vec<(Device, Arc<Network>)> = Vec::new();
        let mut devices = Vec::with_capacity(places.len());
        let mut specs = Vec::with_capacity(places.len());
        let mut actual = dtype;
        for (index, place) in places.iter().enumerate() {
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
            let (device, spec) = start_device(place, index, network, model.max_tokens, options)?;
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
        let mut encoder = Self { spec, devices, in_flight: Vec::new(), next_ticket: 0, times: None };
        encoder.warm_up()?;
        Ok(encoder)
    }

    /// Runs the largest batch and a batch of one row on each GPU, all GPUs at once: so they load their kernels and
    /// libraries now, torch's allocator takes its largest blocks first, and a GPU that cannot compute the model fails
    /// here. Where the largest batch does not fit, its size is halved.
    fn warm_up(&mut self) -> Result<()> {
        let longest = self.spec.max_tokens;
        let gpus: Vec<usize> =
            (0..self.devices.len()).filter(|device| matches!(self.devices[*device], ComputeDevice::Cuda(_))).collect();
        let submit_both = |encoder: &mut Self, device: usize| {
            let tokens = encoder.spec.devices[device].batch_tokens;
            let mut lengths = vec![longest.min(tokens); tokens.div_ceil(longest).max(1)];
            if let (Some(last), rest @ 1..) = (lengths.last_mut(), tokens % longest) {
                *last = rest;
            }
            let batch = |lengths: &[usize]| {
                let counts = lengths.iter().map(|length| u32::try_from(*length).unwrap_or(u32::MAX)).collect();
                Batch::new(vec![0; lengths.iter().sum()], counts)
            };
            let largest = encoder.submit(device, &batch(&lengths))?;
            Ok((device, largest, encoder.submit(device, &batch(&[longest.min(8)]))?))
        };
        let mut submitted = gpus.iter().map(|device| submit_both(self, *device)).collect::<Result<Vec<_>>>()?;
        while let Some((device, largest, smallest)) = submitted.pop() {
            let results = [largest, smallest].map(|ticket| self.collect(ticket, &mut |_, _| {}));
            let tokens = &mut self.spec.devices[device].batch_tokens;
            match results.into_iter().find_map(Result::err) {
                None => {}
                Some(error) if error.kind() == ErrorKind::OutOfMemory && *tokens > longest => {
                    *tokens = (*tokens / 2).max(longest);
                    submitted.push(submit_both(self, device)?);
                }
                Some(error) => {
                    let message =
                        format!("{:?} cannot run the model: {}", self.spec.devices[device].name, error.message());
                    return Err(Error::new(error.kind(), message));
                }
            }
        }
        self.times = None;
        Ok(())
    }

    /// Batches that a device queued as CUDA graphs, and why it queues no more, after an error.
    pub fn graph_counts(&self, device: usize) -> (u64, Option<&CStr>) {
        match self.devices.get(device) {
            Some(ComputeDevice::Cuda(cuda)) => (cuda.replayed(), cuda.graph_error()),
            _ => (0, None),
        }
    }

    fn position(&self, ticket: Ticket) -> Option<usize> {
        self.in_flight.iter().position(|flight| flight.ticket == ticket.0)
    }
}

/// `index` is the device's place in the list.
fn start_device(
    place: &DeviceConfig,
    index: usize,
    network: Arc<Network>,
    max_tokens: usize,
    options: LoadOptions,
) -> Result<(ComputeDevice, DeviceSpec)> {
    let padded_rows = !network.is_varlen();
    let (name, device, depth, workers, batch_tokens) = match (place, options.cuda_path_on_cpu) {
        (DeviceConfig::Cpu { name, .. }, Some(runtime)) => {
            let device = CudaDevice::start(name, index, network, max_tokens, runtime, options.graphs)?;
            (name, ComputeDevice::Cuda(Box::new(device)), CUDA_DEPTH, 1, CPU_BATCH_TOKENS)
        }
        (DeviceConfig::Cpu { name, workers, depth }, None) => {
            let device = CpuDevice::start(name, *workers, network)?;
            // Without workers, each waiting caller computes a batch.
            let at_once = if *workers == 0 { *depth } else { *workers };
            (name, ComputeDevice::Cpu(device), *depth, at_once, CPU_BATCH_TOKENS)
        }
        (DeviceConfig::Cuda { name, index }, _) => {
            let runtime = Runtime::of_torch().ok_or_else(|| {
                let message = format!("device {name:?}: CUDA's runtime library cannot be found in this process");
                Error::new(ErrorKind::Device, message)
            })?;
            let (work, bytes) = (network.flops_per_token(), network.bytes_per_token(max_tokens));
            let device = CudaDevice::start(name, *index, network, max_tokens, runtime, options.graphs)?;
            let batch_tokens = gpu_batch_tokens(work, bytes, Some(device.free_memory()), max_tokens);
            (name, ComputeDevice::Cuda(Box::new(device)), CUDA_DEPTH, 1, batch_tokens)
        }
    };
    Ok((device, DeviceSpec { name: name.clone(), depth, workers, batch_tokens, padded_rows }))
}

/// Tokens of a GPU's batch: by the model's work, and at most what fits a quarter of the GPU's free memory. The rest is
/// for padding, for fragments of torch's allocator, and for other programs. If a batch does not fit all the same, the
/// scheduler halves it.
fn gpu_batch_tokens(
    flops_per_token: Option<u64>,
    bytes_per_token: Option<u64>,
    free: Option<u64>,
    max_tokens: usize,
) -> usize {
    let tokens = |total: u64, per_token: u64| usize::try_from(total / per_token.max(1)).unwrap_or(usize::MAX);
    let by_work = flops_per_token.map_or(MIN_CUDA_BATCH_TOKENS, |flops| tokens(CUDA_BATCH_FLOPS, flops));
    let by_work = by_work.clamp(MIN_CUDA_BATCH_TOKENS, MAX_CUDA_BATCH_TOKENS);
    let (Some(bytes), Some(free)) = (bytes_per_token, free) else { return by_work };
    tokens(free / 4, bytes).clamp(max_tokens.min(by_work), by_work)
}

pub fn cuda_device_count() -> usize {
    // In a program without Python, this loads torch's CUDA library, which the linker leaves out.
    let _ = Runtime::of_torch();
    usize::try_from(tch::Cuda::device_count()).unwrap_or(0)
}

/// Why torch finds no CUDA device although NVIDIA's driver is there; `None` where it finds one, or there is no driver.
pub fn driver_problem() -> Option<String> {
    let runtime = Runtime::of_torch()?;
    if cuda_device_count() > 0 { None } else { runtime.driver_problem() }
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
            ComputeDevice::Cuda(cuda) => cuda.submit(ticket, batch),
        }
        self.next_ticket += 1;
        self.in_flight.push(InFlightTicket { ticket, device, width });
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
        let InFlightTicket { device, width, .. } = self.in_flight.swap_remove(position);
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

    fn graphs(&mut self, device: usize) -> GraphState {
        let (replayed, error) = self.graph_counts(device);
        GraphState { replayed, error: error.map(|error| error.to_string_lossy().into_owned()) }
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
    fn gpu_batch_tokens_follow_the_work_and_fit_the_free_memory() {
        let gibibyte = 1 << 30;
        // MiniLM and BERT-base: twice the weights of their layers.
        let minilm = Some(2 * 6 * (4 * 384 * 384 + 2 * 384 * 1536));
        let base = Some(2 * 12 * (4 * 768 * 768 + 2 * 768 * 3072));
        assert_eq!(gpu_batch_tokens(minilm, None, None, 512), 61_223);
        assert_eq!(gpu_batch_tokens(base, None, None, 512), MIN_CUDA_BATCH_TOKENS);
        assert_eq!(gpu_batch_tokens(Some(1), None, None, 512), MAX_CUDA_BATCH_TOKENS);
        assert_eq!(gpu_batch_tokens(None, None, None, 512), MIN_CUDA_BATCH_TOKENS);
        // MiniLM in float16, padded: 12 · 384 + 2 · 1536 + 2 · 12 · 512 values.
        let bytes = Some(2 * (12 * 384 + 2 * 1536 + 2 * 12 * 512));
        assert_eq!(gpu_batch_tokens(minilm, bytes, Some(70 * gibibyte), 512), 61_223);
        assert_eq!(gpu_batch_tokens(minilm, bytes, Some(gibibyte), 512), 6721);
        assert_eq!(gpu_batch_tokens(minilm, bytes, Some(1000), 512), 512, "a batch holds the max_tokens row");
    }
}
