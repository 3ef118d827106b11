//! The encoder: a model on a processor's cores, behind the trait of `pullquote_core::encoder`.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use pullquote_core::encoder::cpu_device::{Compute, CpuDevice};
use pullquote_core::encoder::device_config::{DeviceConfig, parse_devices};
use pullquote_core::encoder::dtype::Dtype;
use pullquote_core::encoder::model::{Body, Model};
use pullquote_core::encoder::{
    Batch, Capabilities, Collected, DeviceSpec, Encoder, EncoderSpec, Output, PairSpec, Ticket, Waker,
};
use pullquote_core::error::{Error, ErrorKind, Result};
use pullquote_core::tokens::Tokens;

use crate::instructions::InstructionSet;
use crate::int8_check;
use crate::network::{Network, Workspace};

/// Tokens a batch should have: fewer read the weights too often, more overflow the second cache.
const BATCH_TOKENS: usize = 512;

/// A model on one or more shares of the processor's cores.
#[derive(Debug)]
pub struct CpuEncoder {
    spec: EncoderSpec,
    devices: Vec<CpuDevice<Networks>>,
    submitted: u64,
}

/// A model, or one of pairs (a reranker or a pruner), or both, which share workers.
#[derive(Debug)]
struct Networks {
    vectors: Option<Network>,
    pairs: Option<Network>,
}

impl Compute for Networks {
    type Workspace = Workspace;

    fn compute(&self, batch: &Batch, workspace: &mut Workspace, values: &mut Vec<f32>) -> Result<()> {
        let network = match batch.output {
            Output::Scores | Output::Labels => self.pairs.as_ref(),
            _ => self.vectors.as_ref(),
        };
        let none = || Error::new(ErrorKind::Internal, "this encoder has no model for this output");
        network.ok_or_else(none)?.compute(batch, workspace, values)
    }
}

impl CpuEncoder {
    /// Loads a model. `devices` are names as in [`parse_devices`], `dtype` is a name or `auto`, and `threads` is the
    /// number of workers of all devices; `None` is one for each core.
    ///
    /// # Errors
    /// The kind says whether an argument, the model or a device is unusable.
    pub fn load(directory: &Path, devices: &[String], dtype: &str, threads: Option<usize>) -> Result<Self> {
        let dtype = Dtype::parse(dtype)?;
        Self::load_with(Some(&Model::read(directory)?), None, devices, dtype, threads, InstructionSet::selected()?)
    }

    /// Loads a model of pairs alone, for hosts and functions that compute vectors.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn load_pairs(pairs: &Model, threads: Option<usize>) -> Result<Self> {
        let devices = ["cpu".to_owned()];
        let mut loaded = Self::load_with(None, Some(pairs), &devices, None, threads, InstructionSet::selected()?)?;
        let name = if pairs.labels.is_some() { "pruner" } else { "reranker" };
        loaded.spec.devices.iter_mut().for_each(|device| name.clone_into(&mut device.name));
        Ok(loaded)
    }

    /// Loads a model and perhaps one of pairs, or that alone, for an instruction set.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn load_with(
        model: Option<&Model>,
        pairs: Option<&Model>,
        devices: &[String],
        dtype: Option<Dtype>,
        threads: Option<usize>,
        set: InstructionSet,
    ) -> Result<Self> {
        let places = parse_devices(devices, threads, &|| 0)?;
        let load = |model: &Model| Network::load(model, dtype.unwrap_or_else(|| default_dtype(model, set)), set);
        let measured = |model: &Model| {
            if dtype.is_none() && may_take_int8(model, set) { load_measured(model, set) } else { load(model) }
        };
        let networks =
            Arc::new(Networks { vectors: model.map(measured).transpose()?, pairs: pairs.map(load).transpose()? });
        let mut started = Vec::with_capacity(places.len());
        let mut specs = Vec::with_capacity(places.len());
        for place in places {
            let DeviceConfig::Cpu { name, workers } = place else {
                return Err(Error::new(ErrorKind::Internal, "this encoder has no GPUs"));
            };
            started.push(CpuDevice::start(&name, workers, Arc::clone(&networks))?);
            // Without workers, the thread that collects computes one batch at a time.
            specs.push(DeviceSpec { workers: workers.max(1), ..DeviceSpec::new(name, workers + 1, BATCH_TOKENS) });
        }
        let Networks { vectors, pairs: of_pairs } = &*networks;
        let none = || Error::new(ErrorKind::Internal, "an encoder without a model");
        let network = vectors.as_ref().or(of_pairs.as_ref()).ok_or_else(none)?;
        let max_tokens = model.or(pairs).map_or(0, |model| model.max_tokens);
        let pairs = pairs.zip(of_pairs.as_ref()).map(|(model, network)| PairSpec {
            max_tokens: model.max_tokens,
            vocabulary: network.vocabulary(),
            is_pruner: model.labels.is_some(),
        });
        let spec = EncoderSpec {
            dimension: network.dimension(),
            max_tokens,
            vocabulary: network.vocabulary(),
            dtype: network.dtype().name().to_owned(),
            devices: specs,
            backend: set.name().to_owned(),
            capabilities: Capabilities {
                notifies: started.iter().all(CpuDevice::has_workers),
                token_width: vectors.as_ref().and_then(Network::token_width),
                late_interaction: vectors.as_ref().is_some_and(Network::late_interaction),
                pairs,
                ..Capabilities::default()
            },
        };
        Ok(Self { spec, devices: started, submitted: 0 })
    }

    fn device(&self, index: usize) -> Result<&CpuDevice<Networks>> {
        let count = self.devices.len();
        let none = || Error::new(ErrorKind::Internal, format!("no device {index}; there are {count}"));
        self.devices.get(index).ok_or_else(none)
    }
}

/// Whether nothing says if int8 keeps the vectors of a model that could take it.
fn may_take_int8(model: &Model, set: InstructionSet) -> bool {
    let is_said = model.config["pullquote"]["int8"].is_boolean();
    // It is measured by vectors of texts, which late interaction has not.
    let has_vectors = model.late_interaction.is_none() && !matches!(model.body, Body::Static { .. });
    set.has_fast_int8() && !is_said && has_vectors
}

/// In int8 if that keeps the vectors, otherwise in the default type.
fn load_measured(model: &Model, set: InstructionSet) -> Result<Network> {
    let default = || Network::load(model, default_dtype(model, set), set);
    let narrow = || Network::load(model, Dtype::Int8, set);
    match int8_check::kept(model) {
        Some(true) => return narrow(),
        Some(false) => return default(),
        None => {}
    }
    // Some tokenizers take as long to read as both networks.
    let networks = || Ok((Network::load(model, Dtype::Float32, set)?, narrow()?));
    let (networks, tokens) = int8_check::join(networks, || Tokens::read(model));
    let (exact, narrow) = networks?;
    // A tokenizer that cannot be read is an error of the engine, which says more of it.
    if tokens.and_then(|tokens| int8_check::measure(model, &tokens, &exact, &narrow)).unwrap_or(false) {
        return Ok(narrow);
    }
    drop(narrow);
    if set.has_bf16() { default() } else { Ok(exact) }
}

/// The fastest type that keeps the quality. int8 is only for a model whose `config.json` says so, and for one by whose
/// vectors it was measured ([`int8_check`]).
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
        let number = self.submitted;
        self.device(device)?.submit(number, batch);
        self.submitted += 1;
        Ok(Ticket { device, number })
    }

    fn is_finished(&mut self, Ticket { device, number }: Ticket) -> bool {
        // Collecting a ticket of an unknown device fails at once.
        self.device(device).map_or(true, |device| device.is_finished(number))
    }

    fn collect(&mut self, ticket: Ticket, receive: &mut dyn FnMut(Cow<'_, [f32]>)) -> Result<Collected> {
        let Ticket { device, number } = ticket;
        let times = self.device(device)?.collect(number, |values| receive(Cow::Borrowed(values)))?;
        Ok(Collected { times, ..Collected::default() })
    }
}
