//! The encoder: devices, and who has which batch.
//!
//! Implements the seam of `pullquote_core::encoder`. A batch is checked here, once, so that nothing behind can read
//! outside a table: torch's CPU kernels would return an error then, its CUDA kernels would end the whole context.

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

use crate::cuda::CudaDevice;
use crate::devices::{automatic, kind_of};
use crate::network::Network;
use crate::script::FILE;
use crate::threads::compute_alone;
use crate::varlen::Varlen;

/// Tokens a batch should have on one worker of one thread.
const CPU_BATCH_TOKENS: usize = 512;
/// Tokens a batch should have on a graphics card.
const CUDA_BATCH_TOKENS: usize = 16_384;
/// One batch runs on a card while the next is being queued.
const CUDA_DEPTH: usize = 2;

/// A model on one or more devices.
#[derive(Debug)]
pub struct TorchEncoder {
    spec: EncoderSpec,
    devices: Vec<Computer>,
    /// Each batch that was submitted and not collected: few enough to look through.
    in_flight: Vec<InFlight>,
    next_ticket: u64,
    /// What the batch took that was collected last.
    times: Option<BatchTimes>,
}

/// Says how many bytes of a card's memory are free; nothing where nobody knows.
pub type FreeMemory<'host> = &'host (dyn Fn(usize) -> Option<u64> + Sync);

#[derive(Debug)]
struct InFlight {
    ticket: u64,
    device: usize,
    /// Values that come back of a row.
    width: usize,
}

/// How places are computed on.
#[derive(Clone, Copy, Debug)]
struct Way {
    /// Whether a CPU does what is done for a card.
    cards_on_cpu: bool,
    varlen: Varlen,
}

#[derive(Debug)]
enum Computer {
    Cpu(CpuDevice<Network>),
    Cuda(Box<CudaDevice>),
}

impl TorchEncoder {
    /// Loads a model onto devices; see `load` in Python for what the arguments may be.
    ///
    /// # Errors
    /// Where an argument, the model or a device is not usable; the kind says which.
    pub fn load(directory: &Path, devices: &[String], dtype: &str, threads: Option<usize>) -> Result<Self> {
        Self::load_where(directory, devices, dtype, threads, &|_| None)
    }

    /// The same, with batches on cards that are as large as their free memory allows.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn load_where(
        directory: &Path,
        devices: &[String],
        dtype: &str,
        threads: Option<usize>,
        free: FreeMemory<'_>,
    ) -> Result<Self> {
        Self::load_alone(|| {
            let places = parse_devices(devices, threads, &cuda_devices)?;
            let way = Way { cards_on_cpu: false, varlen: Varlen::OnCards };
            Self::load_onto(&Model::read(directory)?, &places, Dtype::parse(dtype)?, way, free)
        })
    }

    /// A model on a CPU that takes the way of a graphics card, on this many devices: what the tests of that way run, since most
    /// machines have no card.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn load_as_cards(directory: &Path, count: usize, dtype: &str, varlen: Varlen) -> Result<Self> {
        Self::load_alone(|| {
            let place = |index| DeviceConfig::Cpu { name: format!("cpu:{index}"), workers: 0, depth: CUDA_DEPTH };
            let places: Vec<DeviceConfig> = (0..count).map(place).collect();
            let way = Way { cards_on_cpu: true, varlen };
            Self::load_onto(&Model::read(directory)?, &places, Dtype::parse(dtype)?, way, &|_| None)
        })
    }

    fn load_alone(load: impl FnOnce() -> Result<Self> + Send) -> Result<Self> {
        let load = || {
            // So that loading starts no threads in the host's name, which would make its forks unsafe.
            compute_alone();
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
        asked: Option<Dtype>,
        way: Way,
        free: FreeMemory<'_>,
    ) -> Result<Self> {
        let Some(first) = places.first() else {
            return Err(Error::new(ErrorKind::InvalidArgument, "no devices; name at least one, or \"auto\""));
        };
        let dtype = asked.unwrap_or_else(|| automatic(first));
        let mut networks: Vec<(Device, Arc<Network>)> = Vec::new();
        let mut devices = Vec::with_capacity(places.len());
        let mut specs = Vec::with_capacity(places.len());
        let mut found = dtype;
        for place in places {
            let kind = kind_of(dtype, place)?;
            let device = match place {
                DeviceConfig::Cpu { .. } => Device::Cpu,
                DeviceConfig::Cuda { index, .. } => Device::Cuda(*index),
            };
            let network = if let Some((_, network)) = networks.iter().find(|(known, _)| *known == device) {
                Arc::clone(network)
            } else {
                let network = Arc::new(Network::load(model, device, dtype, kind, way.varlen)?);
                networks.push((device, Arc::clone(&network)));
                network
            };
            found = network.dtype();
            let (computer, spec) = start(place, network, model.max_tokens, way, free)?;
            devices.push(computer);
            specs.push(spec);
        }
        if asked.is_some() && found != dtype {
            let path = model.file(FILE);
            let (found, asked) = (found.name(), dtype.name());
            let message = format!(
                "{}: it was exported in {found} and cannot compute in {asked}; use dtype \"auto\"",
                path.display()
            );
            return Err(Error::new(ErrorKind::UnsupportedModel, message));
        }
        let network = &networks[0].1;
        let spec = EncoderSpec {
            dimension: network.dimension(),
            max_tokens: model.max_tokens,
            vocabulary: network.vocabulary(),
            dtype: found.name().to_owned(),
            notifies: devices.iter().all(|device| matches!(device, Computer::Cpu(_))),
            needs_polling: true,
            scores: devices.iter().all(|device| matches!(device, Computer::Cuda(_))),
            backend: "torch".to_owned(),
            devices: specs,
        };
        Ok(Self { spec, devices, in_flight: Vec::new(), next_ticket: 0, times: None })
    }

    fn place(&self, ticket: Ticket) -> Option<usize> {
        self.in_flight.iter().position(|flight| flight.ticket == ticket.0)
    }
}

fn start(
    place: &DeviceConfig,
    network: Arc<Network>,
    longest: usize,
    way: Way,
    free: FreeMemory<'_>,
) -> Result<(Computer, DeviceSpec)> {
    match place {
        DeviceConfig::Cpu { name, .. } if way.cards_on_cpu => {
            let spec = DeviceSpec { name: name.clone(), depth: CUDA_DEPTH, batch_tokens: CPU_BATCH_TOKENS };
            Ok((Computer::Cuda(Box::new(CudaDevice::new(network, longest))), spec))
        }
        DeviceConfig::Cpu { name, workers, depth } => {
            let device = CpuDevice::start(name, *workers, network)?;
            let spec = DeviceSpec { name: name.clone(), depth: *depth, batch_tokens: CPU_BATCH_TOKENS };
            Ok((Computer::Cpu(device), spec))
        }
        DeviceConfig::Cuda { name, index } => {
            let batch_tokens = card_batch_tokens(network.bytes_per_token(longest), free(*index), longest);
            let spec = DeviceSpec { name: name.clone(), depth: CUDA_DEPTH, batch_tokens };
            Ok((Computer::Cuda(Box::new(CudaDevice::new(network, longest))), spec))
        }
    }
}

/// Tokens of a card's batch: what it wants, or what fits a quarter of its free memory. The rest is for tables that are filled
/// up, for what torch's allocator cannot use, and for others. What does not fit all the same is found out by halving.
fn card_batch_tokens(bytes_per_token: Option<u64>, free: Option<u64>, longest: usize) -> usize {
    let (Some(bytes), Some(free)) = (bytes_per_token, free) else { return CUDA_BATCH_TOKENS };
    let fits = usize::try_from(free / 4 / bytes.max(1)).unwrap_or(usize::MAX);
    fits.clamp(longest.min(CUDA_BATCH_TOKENS), CUDA_BATCH_TOKENS)
}

/// How many CUDA devices torch finds.
#[must_use]
pub fn cuda_devices() -> usize {
    usize::try_from(tch::Cuda::device_count()).unwrap_or(0)
}

impl Encoder for TorchEncoder {
    fn spec(&self) -> &EncoderSpec {
        &self.spec
    }

    fn set_waker(&mut self, waker: Waker) {
        for device in &self.devices {
            if let Computer::Cpu(cpu) = device {
                cpu.set_waker(Arc::clone(&waker));
            }
        }
    }

    fn submit(&mut self, device: usize, batch: &Batch) -> Result<Ticket> {
        self.spec.check(batch)?;
        let dimension = self.spec.dimension;
        let width = if batch.queries.is_empty() { dimension } else { batch.queries.len() / dimension };
        let count = self.devices.len();
        let Some(computer) = self.devices.get_mut(device) else {
            return Err(Error::new(ErrorKind::Internal, format!("no device {device}; there are {count}")));
        };
        let ticket = self.next_ticket;
        match computer {
            Computer::Cpu(_) if !batch.queries.is_empty() => {
                let message = "this encoder compares no rows with queries; its spec says so";
                return Err(Error::new(ErrorKind::Internal, message));
            }
            Computer::Cpu(cpu) => cpu.submit(ticket, batch),
            Computer::Cuda(cuda) => cuda.submit(ticket, batch)?,
        }
        self.next_ticket += 1;
        self.in_flight.push(InFlight { ticket, device, width });
        Ok(Ticket(ticket))
    }

    fn is_finished(&mut self, ticket: Ticket) -> bool {
        match self.place(ticket).and_then(|place| self.devices.get_mut(self.in_flight[place].device)) {
            Some(Computer::Cpu(cpu)) => cpu.is_finished(ticket.0),
            Some(Computer::Cuda(cuda)) => cuda.is_finished(ticket.0),
            // It is an error at once.
            None => true,
        }
    }

    fn collect(&mut self, ticket: Ticket, row: &mut dyn FnMut(usize, &[f32])) -> Result<()> {
        let Some(place) = self.place(ticket) else {
            return Err(Error::new(ErrorKind::Internal, format!("batch {} is not in flight", ticket.0)));
        };
        let InFlight { device, width, .. } = self.in_flight.swap_remove(place);
        let take = |rows: &[f32]| for_each_row(rows, width, row);
        let times = match &mut self.devices[device] {
            Computer::Cpu(cpu) => cpu.collect(ticket.0, take),
            Computer::Cuda(cuda) => cuda.collect(ticket.0, take),
        };
        times.map(|times| self.times = Some(times))
    }

    fn profile(&mut self, synchronizes: bool) {
        for device in &mut self.devices {
            if let Computer::Cuda(cuda) = device {
                cuda.profile(synchronizes);
            }
        }
    }

    fn times(&mut self) -> Option<BatchTimes> {
        self.times
    }

    fn batch_runner(&self) -> Option<BatchRunner> {
        let helping = |device: &Computer| match device {
            Computer::Cpu(cpu) => cpu.batch_runner(),
            Computer::Cuda(_) => None,
        };
        let helping: Vec<CpuBatchRunner<Network>> = self.devices.iter().filter_map(helping).collect();
        (!helping.is_empty()).then(|| Arc::new(move || helping.iter().any(CpuBatchRunner::run_one)) as BatchRunner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cards_batches_fit_its_free_memory() {
        let gibibyte = 1 << 30;
        // MiniLM in float16: 12 · 384 + 2 · 1536 + 2 · 12 · 512 values.
        let bytes = Some(2 * (12 * 384 + 2 * 1536 + 2 * 12 * 512));
        assert_eq!(card_batch_tokens(bytes, Some(70 * gibibyte), 512), CUDA_BATCH_TOKENS);
        assert_eq!(card_batch_tokens(bytes, Some(gibibyte), 512), 6721);
        assert_eq!(card_batch_tokens(bytes, Some(1000), 512), 512, "a row must fit, whatever comes of it");
        assert_eq!(card_batch_tokens(None, Some(1000), 512), CUDA_BATCH_TOKENS);
        assert_eq!(card_batch_tokens(bytes, None, 512), CUDA_BATCH_TOKENS);
    }
}
