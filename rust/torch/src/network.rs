//! A loaded model: a batch of ids to rows of vectors, on one device.
//!
//! Whichever architecture it is, rows come out in float32, pooled, and of length one where the model says so. It has no
//! state but its weights: several threads may use it at once, each with a workspace of its own.

use pullquote_core::encoder::Batch;
use pullquote_core::encoder::dtype::Dtype;
use pullquote_core::encoder::model::{Model, Pooling};
use pullquote_core::encoder::workers::{Compute, check_rows};
use pullquote_core::error::Result;
use tch::{Device, Kind, TchError, Tensor};

use crate::bert::Bert;
use crate::devices::dtype_of;
use crate::failure::{TorchResult, batch_failed};
use crate::layout::{Padding, Sent};
use crate::pooling::{normalize, pool_padded, pool_ragged};
use crate::script::{FILE, Script};
use crate::threads::{Alone, compute_alone};
use crate::varlen::Varlen;
use crate::weights::{INDEX, WHOLE};

/// A model on a device.
#[derive(Debug)]
pub struct Network {
    body: Body,
    device: Device,
    pooling: Pooling,
    normalize: bool,
    vocabulary: usize,
    dtype: Dtype,
}

#[derive(Debug)]
enum Body {
    Bert(Bert),
    Script(Script),
}

// SAFETY: tch's `Tensor` lacks `Sync` because its methods may write through `&self`. No method of `Network` writes to one
// of its tensors: the `f_..._` methods in `bert` are called on results only, before anybody else has seen them. libtorch
// allows any number of threads to read a tensor (its reference counts are atomic). `CModule` is `Sync` by itself.
unsafe impl Sync for Network {}

impl Network {
    /// Loads a model onto a device, to compute in this type, which torch calls `kind`. A module computes in its own type, whatever is
    /// asked for; see [`Self::dtype`].
    ///
    /// # Errors
    /// Where the model is not there, damaged, or of a kind that is not known.
    pub fn load(model: &Model, device: Device, dtype: Dtype, kind: Kind, varlen: Varlen) -> Result<Self> {
        let (body, vocabulary, dtype) = if is_script(model) {
            let script = Script::load(model, device)?;
            // A module does not say how large its table is: without a number in config.json any id may be right.
            let dtype = dtype_of(script.kind());
            (Body::Script(script), model.vocabulary.unwrap_or(i32::MAX as usize), dtype)
        } else {
            let bert = Bert::load(model, device, kind, varlen)?;
            let vocabulary = usize::try_from(bert.vocabulary()).unwrap_or(0);
            (Body::Bert(bert), vocabulary, dtype)
        };
        Ok(Self { body, device, pooling: model.pooling, normalize: model.normalize, vocabulary, dtype })
    }

    /// Values in a vector.
    #[must_use]
    pub fn dimension(&self) -> usize {
        let dimension = match &self.body {
            Body::Bert(bert) => bert.dimension(),
            Body::Script(script) => script.dimension(),
        };
        usize::try_from(dimension).unwrap_or(0)
    }

    /// Every id must be below it.
    #[must_use]
    pub fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    /// Where it computes.
    #[must_use]
    pub fn device(&self) -> Device {
        self.device
    }

    /// Bytes of a card's memory that a token of a batch takes at most while it is computed; nothing where it is not known.
    #[must_use]
    pub fn bytes_per_token(&self, longest: usize) -> Option<u64> {
        let Body::Bert(bert) = &self.body else { return None };
        let value = if self.dtype == Dtype::Float32 { 4 } else { 2 };
        Some(bert.values_per_token(u64::try_from(longest).unwrap_or(u64::MAX)).saturating_mul(value))
    }

    /// What it computes in.
    #[must_use]
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Whether it takes batches without padding from [`crate::staging`].
    #[must_use]
    pub fn is_varlen(&self) -> bool {
        matches!(&self.body, Body::Bert(bert) if bert.is_varlen())
    }

    /// The rows of a checked batch, float32 `[rows, dimension]`, on the device: the plain way, with rows filled up to the longest.
    ///
    /// # Errors
    /// Where torch has no memory, or a module fails.
    pub fn encode(&self, batch: &Batch, padding: &mut Padding) -> TorchResult<Tensor> {
        tch::no_grad(|| {
            let padded = padding.pad(batch, self.device)?;
            self.encode_sent(&Sent::Padded(padded))
        })
    }

    /// The rows of a batch that is on the device, and behind them those that fill up.
    ///
    /// # Errors
    /// As [`Self::encode`]; and where a batch has no padding, but [`Self::is_varlen`] is false.
    pub fn encode_sent(&self, sent: &Sent) -> TorchResult<Tensor> {
        let rows = match (sent, &self.body) {
            (Sent::Ragged(ragged), Body::Bert(bert)) => {
                pool_ragged(&bert.forward_ragged(ragged)?, &ragged.rows, self.pooling)?
            }
            (Sent::Ragged(_), Body::Script(_)) => {
                return Err(TchError::Shape("a module takes tables only".to_owned()));
            }
            (Sent::Padded(padded), Body::Bert(bert)) => {
                pool_padded(&bert.forward_padded(padded)?, padded.mask.as_ref(), self.pooling)?
            }
            (Sent::Padded(padded), Body::Script(script)) => {
                let tokens = script.forward(padded)?;
                if tokens.dim() == 2 {
                    tokens.f_to_kind(Kind::Float)?
                } else {
                    pool_padded(&tokens, padded.mask.as_ref(), self.pooling)?
                }
            }
        };
        if self.normalize { normalize(&rows) } else { Ok(rows) }
    }
}

/// Whether a directory holds a `TorchScript` module instead of weights.
fn is_script(model: &Model) -> bool {
    !model.file(WHOLE).exists() && !model.file(INDEX).exists() && model.file(FILE).exists()
}

/// On a CPU a worker computes on its own thread alone.
impl Compute for Network {
    type Workspace = Padding;

    fn prepare_worker(&self) {
        compute_alone();
    }

    fn compute(&self, batch: &Batch, padding: &mut Padding, rows: &mut Vec<f32>) -> Result<()> {
        let encoded = self.encode(batch, padding).map_err(|error| batch_failed(&error))?;
        copy_rows(&encoded, rows)
    }

    fn compute_for_caller(&self, batch: &Batch, padding: &mut Padding, rows: &mut Vec<f32>) -> Result<()> {
        let _alone = Alone::here();
        self.compute(batch, padding, rows)
    }
}

/// Copies rows out of torch, in the place of what `values` held, and checks them, as [`check_rows`] does.
///
/// # Errors
/// As [`check_rows`], and where torch fails now or failed before on this device.
pub fn copy_rows(rows: &Tensor, values: &mut Vec<f32>) -> Result<()> {
    let failed = |error: TchError| batch_failed(&error);
    let rows = rows.f_to_device(Device::Cpu).and_then(|rows| rows.f_contiguous()).map_err(failed)?;
    let count = rows.numel();
    values.resize(count, 0.0);
    rows.f_copy_data(values, count).map_err(failed)?;
    check_rows(values)
}
