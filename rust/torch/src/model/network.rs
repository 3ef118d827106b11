//! A loaded model: a batch of ids to rows of vectors, on one device.
//!
//! For every architecture, rows are float32, pooled, and of norm one where the model says so. A network has no state
//! but its weights: several threads may use it at once, each with its own buffer.

use std::sync::Arc;

use pullquote_core::encoder::cpu_device::Compute;
use pullquote_core::encoder::dtype::Dtype;
use pullquote_core::encoder::model::weight_files::{INDEX_FILE, SINGLE_FILE};
use pullquote_core::encoder::model::{Body, Model, Pooling};
use pullquote_core::encoder::{Batch, Output};
use pullquote_core::error::{Error, ErrorKind, Result};
use tch::{Device, Kind, TchError, Tensor};

use super::head::Head;
use super::layout::{DeviceBatch, PaddingBuffer};
use super::pooling::{pool_padded, pool_ragged};
use super::script::{SCRIPT_FILE, Script};
use super::transformer::TransformerLayers;
use super::varlen::Varlen;
use crate::dtype::dtype_of_module;
use crate::error::{TorchResult, batch_error};
use crate::threads::{OneThreadGuard, use_one_thread};

#[derive(Debug)]
pub struct Network {
    architecture: Architecture,
    device: Device,
    /// The vectors of several are concatenated.
    pooling: Vec<Pooling>,
    head: Head,
    vocabulary: usize,
    /// Of a row.
    max_tokens: usize,
    dtype: Dtype,
}

/// A model, and perhaps a reranker, on the same device.
#[derive(Clone, Debug)]
pub struct Networks {
    vectors: Arc<Network>,
    scores: Option<Arc<Network>>,
}

#[derive(Debug)]
enum Architecture {
    Transformer(Box<TransformerLayers>),
    Script(Script),
}

// SAFETY: tch's `Tensor` lacks `Sync` because its methods may write through `&self`. No method of `Network` writes to
// one of its tensors: `transformer` calls the `f_..._` methods only on results that no other thread has seen. libtorch
// allows any number of threads to read a tensor (its reference counts are atomic). `CModule` is `Sync` by itself.
unsafe impl Sync for Network {}

impl Network {
    /// Loads a model onto a device, to compute in `dtype`, torch's `kind`. A module computes in its own type instead;
    /// see [`Self::dtype`].
    ///
    /// # Errors
    /// [`ErrorKind::ModelNotFound`], [`ErrorKind::InvalidModel`] or [`ErrorKind::UnsupportedModel`].
    pub fn load(model: &Model, device: Device, dtype: Dtype, kind: Kind, varlen: Varlen) -> Result<Self> {
        if model.body != Body::Transformer {
            let message = format!(
                "{}: static embeddings are a table, which the CPU encoder reads fastest: devices=\"cpu\"",
                model.directory.display()
            );
            return Err(Error::new(ErrorKind::UnsupportedModel, message));
        }
        if model.late_interaction.is_some() {
            let message = format!(
                "{}: late interaction, for which each token has a vector, is computed by the CPU encoder: devices=\"cpu\"",
                model.root.display()
            );
            return Err(Error::new(ErrorKind::UnsupportedModel, message));
        }
        let (architecture, vocabulary, dtype) = if is_script(model) {
            let script = Script::load(model, device)?;
            // A module does not say how many embeddings it has: without a number in config.json any id may be right.
            let vocabulary = model.vocabulary.unwrap_or(i32::MAX as usize);
            let dtype = dtype_of_module(script.kind());
            (Architecture::Script(script), vocabulary, dtype)
        } else {
            let layers = TransformerLayers::load(model, device, kind, varlen)?;
            let vocabulary = usize::try_from(layers.vocabulary()).unwrap_or(0);
            (Architecture::Transformer(Box::new(layers)), vocabulary, dtype)
        };
        let (width, poolings) = match &architecture {
            Architecture::Transformer(layers) => (layers.dimension(), model.pooling.len()),
            Architecture::Script(script) if script.is_pooled() => (script.dimension(), 1),
            Architecture::Script(script) => (script.dimension(), model.pooling.len()),
        };
        let head = Head::load(model, usize::try_from(width).unwrap_or(0) * poolings, device)?;
        let (pooling, max_tokens) = (model.pooling.clone(), model.max_tokens);
        Ok(Self { architecture, device, pooling, head, vocabulary, max_tokens, dtype })
    }

    pub fn dimension(&self) -> usize {
        usize::try_from(self.head.dimension()).unwrap_or(0)
    }

    pub fn normalizes(&self) -> bool {
        self.head.normalizes()
    }

    /// Every id must be below it.
    pub fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    /// The longest row.
    pub fn max_tokens(&self) -> usize {
        self.max_tokens
    }

    pub fn device(&self) -> Device {
        self.device
    }

    /// The most GPU memory that a token of a batch takes, in bytes; `None` where it is not known.
    pub fn bytes_per_token(&self, max_tokens: usize) -> Option<u64> {
        let Architecture::Transformer(layers) = &self.architecture else { return None };
        let bytes_per_value = if self.dtype == Dtype::Float32 { 4 } else { 2 };
        let values = layers.peak_values_per_token(u64::try_from(max_tokens).unwrap_or(u64::MAX));
        Some(values.saturating_mul(bytes_per_value))
    }

    /// The work of a token: multiplications and additions of linear layers; `None` where they are not known.
    pub fn flops_per_token(&self) -> Option<u64> {
        let Architecture::Transformer(layers) = &self.architecture else { return None };
        Some(layers.flops_per_token())
    }

    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Whether it takes ragged batches.
    pub fn is_varlen(&self) -> bool {
        matches!(&self.architecture, Architecture::Transformer(layers) if layers.is_varlen())
    }

    /// The rows of a checked batch in the padded layout: float32 `[rows, dimension]`, on the device.
    pub fn encode(&self, batch: &Batch, buffer: &mut PaddingBuffer) -> TorchResult<Tensor> {
        tch::no_grad(|| {
            let padded = buffer.pad(batch, self.device)?;
            self.encode_uploaded(&DeviceBatch::Padded(padded))
        })
    }

    /// The rows of a batch on the device, and those of its padding rows.
    ///
    /// # Errors
    /// A ragged batch fails unless [`Self::is_varlen`].
    pub fn encode_uploaded(&self, batch: &DeviceBatch) -> TorchResult<Tensor> {
        let tokens = match (batch, &self.architecture) {
            (_, Architecture::Transformer(layers)) => layers.forward(batch)?,
            (DeviceBatch::Padded(padded), Architecture::Script(script)) => script.forward(padded)?,
            (DeviceBatch::Ragged(_), Architecture::Script(_)) => {
                return Err(TchError::Shape("a module takes padded batches only".to_owned()));
            }
        };
        let pool = |pooling: &Pooling| match batch {
            DeviceBatch::Ragged(ragged) => pool_ragged(&tokens, ragged, *pooling),
            DeviceBatch::Padded(padded) => pool_padded(&tokens, padded, *pooling),
        };
        let rows = match (batch, self.pooling.as_slice()) {
            // A module has pooled them.
            (DeviceBatch::Padded(_), _) if tokens.dim() == 2 => tokens.f_to_kind(Kind::Float)?,
            (_, [only]) => pool(only)?,
            (_, several) => Tensor::f_cat(&several.iter().map(pool).collect::<TorchResult<Vec<_>>>()?, 1)?,
        };
        self.head.apply(rows)
    }
}

impl Networks {
    /// A model without a reranker has none of the output `Scores`.
    pub const fn new(vectors: Arc<Network>, scores: Option<Arc<Network>>) -> Self {
        Self { vectors, scores }
    }

    /// The one that computes an output.
    pub fn of(&self, output: Output) -> &Arc<Network> {
        self.scores.as_ref().filter(|_| output == Output::Scores).unwrap_or(&self.vectors)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Network> {
        std::iter::once(&*self.vectors).chain(self.scores.as_deref())
    }
}

impl From<Arc<Network>> for Networks {
    fn from(vectors: Arc<Network>) -> Self {
        Self::new(vectors, None)
    }
}

/// Whether a directory has a `TorchScript` module instead of weights.
fn is_script(model: &Model) -> bool {
    !model.file(SINGLE_FILE).exists() && !model.file(INDEX_FILE).exists() && model.file(SCRIPT_FILE).exists()
}

impl Compute for Networks {
    type Workspace = PaddingBuffer;

    fn prepare_worker(&self) {
        use_one_thread();
    }

    fn compute(&self, batch: &Batch, buffer: &mut PaddingBuffer, rows: &mut Vec<f32>) -> Result<()> {
        let encoded = self.of(batch.output).encode(batch, buffer).map_err(|error| batch_error(&error))?;
        copy_rows(&encoded, rows)
    }

    fn compute_for_host(&self, batch: &Batch, buffer: &mut PaddingBuffer, rows: &mut Vec<f32>) -> Result<()> {
        let _guard = OneThreadGuard::new();
        self.compute(batch, buffer, rows)
    }
}

/// Replaces `values` with rows from torch.
///
/// # Errors
/// torch's; those of earlier work on the device appear here too.
pub fn copy_rows(rows: &Tensor, values: &mut Vec<f32>) -> Result<()> {
    let failed = |error: TchError| batch_error(&error);
    let rows = rows.f_to_device(Device::Cpu).and_then(|rows| rows.f_contiguous()).map_err(failed)?;
    let count = rows.numel();
    values.resize(count, 0.0);
    rows.f_copy_data(values, count).map_err(failed)
}
