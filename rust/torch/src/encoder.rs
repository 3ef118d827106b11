//! The encoder: its devices, and the device of each batch.
//!
//! Each batch is checked here, once, so that no id reads outside the embeddings: torch's CPU kernels would return an
//! error then, and its CUDA kernels would end the whole context.

use std::borrow::Cow;
use std::ffi::CStr;
use std::path::Path;
use std::sync::Arc;

use pullquote_core::encoder::cpu_device::{CpuDevice, panic_message};
use pullquote_core::encoder::device_config::{DeviceConfig, parse_devices};
use pullquote_core::encoder::dtype::Dtype;
use pullquote_core::encoder::model::{Model, ModelOptions};
use pullquote_core::encoder::{
    Batch, Capabilities, Collected, DeviceSpec, Encoder, EncoderSpec, GraphState, Output, PairSpec, Ticket, Waker,
};
use pullquote_core::error::{Error, ErrorKind, Result};
use tch::Device;

use crate::cuda::device::CudaDevice;
use crate::cuda::graphs::CaptureSupport;
use crate::cuda::runtime::Runtime;
use crate::dtype::{default_dtype, torch_kind};
use crate::model::network::{Network, Networks};
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
    submitted: u64,
}

/// How a model is loaded and run.
#[derive(Clone, Copy, Debug)]
pub struct LoadOptions {
    /// Vectors are cut to their first values.
    pub truncate_dim: Option<usize>,
    /// Whether the model's normalization at the end is applied.
    pub normalizes: bool,
    /// What GPUs need to capture CUDA graphs; `None` captures none.
    pub graphs: Option<CaptureSupport>,
    /// Whether GPUs wait at the end of each stage, so that each has its own time.
    pub synchronizes: bool,
    pub varlen: Varlen,
    /// Runs the code for GPUs on CPUs, with this in place of CUDA's library, for tests on machines without a GPU.
    pub runtime_on_cpu: Option<&'static Runtime>,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            truncate_dim: None,
            normalizes: true,
            graphs: None,
            synchronizes: false,
            varlen: Varlen::Cuda,
            runtime_on_cpu: None,
        }
    }
}

#[derive(Debug)]
enum ComputeDevice {
    Cpu(CpuDevice<Networks>),
    Cuda(Box<CudaDevice>),
}

impl TorchEncoder {
    /// Loads a model onto devices; see `load` in Python for what the arguments may be.
    ///
    /// # Errors
    /// The kind says whether an argument, the model or a device is unusable.
    pub fn load(
        directory: &Path,
        devices: &[String],
        dtype: &str,
        threads: Option<usize>,
        options: LoadOptions,
    ) -> Result<Self> {
        Self::load_with(directory, None, devices, dtype, threads, options)
    }

    /// As [`Self::load`], with a reranker that shares devices and number type.
    ///
    /// # Errors
    /// As [`Self::load`] and [`Model::read_reranker`].
    pub fn load_with(
        directory: &Path,
        reranker: Option<&Path>,
        devices: &[String],
        dtype: &str,
        threads: Option<usize>,
        options: LoadOptions,
    ) -> Result<Self> {
        Self::on_loading_thread(|| {
            let places =
                parse_devices(devices, threads, &cuda_device_count).map_err(|error| match driver_problem() {
                    Some(problem) if error.kind() == ErrorKind::Device => {
                        Error::new(ErrorKind::Device, format!("{}; {problem}", error.message()))
                    }
                    _ => error,
                })?;
            let LoadOptions { truncate_dim, normalizes, .. } = options;
            let mut model = Model::read_with(directory, &ModelOptions { truncate_dim, ..ModelOptions::default() })?;
            model.normalize &= normalizes;
            let reranker = reranker.map(Model::read_reranker).transpose()?;
            Self::load_onto(&model, reranker.as_ref(), &places, Dtype::parse(dtype)?, options)
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
        reranker: Option<&Model>,
        places: &[DeviceConfig],
        requested: Option<Dtype>,
        options: LoadOptions,
    ) -> Result<Self> {
        let Some(first) = places.first() else {
            return Err(Error::new(ErrorKind::InvalidArgument, "no devices; name at least one, or \"auto\""));
        };
        let dtype = requested.unwrap_or_else(|| default_dtype(first));
        let mut networks: Vec<(Device, Networks)> = Vec::new();
        let mut devices = Vec::with_capacity(places.len());
        let mut specs = Vec::with_capacity(places.len());
        let mut actual = dtype;
        for (index, place) in places.iter().enumerate() {
            let kind = torch_kind(dtype, place)?;
            let device = match place {
                DeviceConfig::Cpu { .. } => Device::Cpu,
                DeviceConfig::Cuda { index, .. } => Device::Cuda(*index),
            };
            let on_device = if let Some((_, known)) = networks.iter().find(|(known, _)| *known == device) {
                known.clone()
            } else {
                let load = |model: &Model| Network::load(model, device, dtype, kind, options.varlen).map(Arc::new);
                let loaded = Networks::new(load(model)?, reranker.map(load).transpose()?);
                networks.push((device, loaded.clone()));
                loaded
            };
            actual = on_device.of(Output::Vectors).dtype();
            let (device, spec) = start_device(place, index, on_device, options)?;
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
        let on_device = &networks[0].1;
        let network = on_device.of(Output::Vectors);
        let of_pairs = |reranker: &Model| {
            let vocabulary = on_device.of(Output::Scores).vocabulary();
            PairSpec { max_tokens: reranker.max_tokens, vocabulary, is_pruner: false }
        };
        let spec = EncoderSpec {
            dimension: network.dimension(),
            max_tokens: model.max_tokens,
            vocabulary: network.vocabulary(),
            dtype: actual.name().to_owned(),
            devices: specs,
            backend: "torch".to_owned(),
            capabilities: Capabilities {
                notifies: devices.iter().all(|device| matches!(device, ComputeDevice::Cpu(cpu) if cpu.has_workers())),
                cosines: devices.iter().all(|device| matches!(device, ComputeDevice::Cuda(_))),
                pairs: reranker.map(of_pairs),
                ..Capabilities::default()
            },
        };
        let mut encoder = Self { spec, devices, submitted: 0 };
        encoder.warm_up()?;
        for device in &encoder.devices {
            if let ComputeDevice::Cuda(cuda) = device {
                cuda.profile(options.synchronizes);
            }
        }
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
            let results = [largest, smallest].map(|ticket| self.collect(ticket, &mut |_| {}));
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
        Ok(())
    }

    /// Why a device queues no more batches as CUDA graphs, after an error.
    pub fn graph_error(&self, device: usize) -> Option<&CStr> {
        match self.devices.get(device) {
            Some(ComputeDevice::Cuda(cuda)) => cuda.graph_error(),
            _ => None,
        }
    }

    fn device(&mut self, index: usize) -> Result<&mut ComputeDevice> {
        let count = self.devices.len();
        let none = || Error::new(ErrorKind::Internal, format!("no device {index}; there are {count}"));
        self.devices.get_mut(index).ok_or_else(none)
    }
}

/// `index` is the device's place in the list.
fn start_device(
    place: &DeviceConfig,
    index: usize,
    networks: Networks,
    options: LoadOptions,
) -> Result<(ComputeDevice, DeviceSpec)> {
    let padded_rows = !networks.of(Output::Vectors).is_varlen();
    let (name, device, depth, workers, batch_tokens) = match (place, options.runtime_on_cpu) {
        (DeviceConfig::Cpu { name, .. }, Some(runtime)) => {
            let device = CudaDevice::start(name, index, networks, runtime, options.graphs)?;
            (name, ComputeDevice::Cuda(Box::new(device)), CUDA_DEPTH, 1, CPU_BATCH_TOKENS)
        }
        (DeviceConfig::Cpu { name, workers }, None) => {
            let device = CpuDevice::start(name, *workers, Arc::new(networks))?;
            // Without workers, the thread that collects computes one batch at a time.
            (name, ComputeDevice::Cpu(device), workers + 1, (*workers).max(1), CPU_BATCH_TOKENS)
        }
        (DeviceConfig::Cuda { name, index }, _) => {
            let runtime = Runtime::of_torch().ok_or_else(|| {
                let message = format!("device {name:?}: CUDA's runtime library cannot be found in this process");
                Error::new(ErrorKind::Device, message)
            })?;
            let network = networks.of(Output::Vectors);
            let bytes = networks.all().map(|network| network.bytes_per_token(network.max_tokens())).max();
            let (work, max_tokens, bytes) = (network.flops_per_token(), network.max_tokens(), bytes.flatten());
            let device = CudaDevice::start(name, *index, networks, runtime, options.graphs)?;
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
        let number = self.submitted;
        match self.device(device)? {
            ComputeDevice::Cpu(cpu) => cpu.submit(number, batch),
            ComputeDevice::Cuda(cuda) => cuda.submit(number, batch),
        }
        self.submitted += 1;
        Ok(Ticket { device, number })
    }

    fn is_finished(&mut self, Ticket { device, number }: Ticket) -> bool {
        match self.device(device) {
            Ok(ComputeDevice::Cpu(cpu)) => cpu.is_finished(number),
            Ok(ComputeDevice::Cuda(cuda)) => cuda.is_finished(number),
            // Collecting it fails at once.
            Err(_) => true,
        }
    }

    fn collect(&mut self, ticket: Ticket, receive: &mut dyn FnMut(Cow<'_, [f32]>)) -> Result<Collected> {
        let Ticket { device, number } = ticket;
        let receive = |values: &[f32]| receive(Cow::Borrowed(values));
        match self.device(device)? {
            ComputeDevice::Cpu(cpu) => {
                Ok(Collected { times: cpu.collect(number, receive)?, graphs: GraphState::default() })
            }
            ComputeDevice::Cuda(cuda) => {
                let times = cuda.collect(number, receive)?;
                let error = cuda.graph_error().map(|error| error.to_string_lossy().into_owned());
                Ok(Collected { times, graphs: GraphState { replayed: cuda.replayed(), error } })
            }
        }
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
