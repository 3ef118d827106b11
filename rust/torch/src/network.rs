//! A loaded model: a batch of ids to rows of vectors, on one device.
//!
//! Whichever architecture it is, rows come out in float32, pooled, and of length one where the model says so. It has no
//! state but its weights: several threads may use it at once, each with a workspace of its own.

use pullquote_core::encoder::Batch;
use pullquote_core::error::{Error, ErrorKind, Result};
use pullquote_core::model::{Model, Pooling};
use tch::{Device, Kind, TchError, Tensor};

use crate::bert::Bert;
use crate::devices::Precision;
use crate::failure::TorchResult;
use crate::kernels::Scratch;
use crate::layout::Sent;
use crate::means::Allowed;
use crate::pooling::{normalize, pool, pool_padded, pool_ragged};
use crate::script::{FILE, Script};
use crate::sides::count;
use crate::weights::{INDEX, WHOLE};
use crate::workspace::Workspace;

/// A model on a device.
#[derive(Debug)]
pub struct Network {
    body: Body,
    device: Device,
    pooling: Pooling,
    normalize: bool,
    vocabulary: usize,
    precision: Precision,
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
    /// Loads a model onto a device. A module computes in its own type, whatever is asked for; see [`Self::precision`].
    ///
    /// # Errors
    /// Where the model is not there, damaged, or of a kind that is not known.
    pub fn load(model: &Model, device: Device, precision: Precision, allowed: Allowed) -> Result<Self> {
        let (body, vocabulary, precision) = if is_script(model) {
            let script = Script::load(model, device)?;
            // A module does not say how large its table is: without a number in config.json any id may be right.
            let precision = Precision::of(script.kind());
            (Body::Script(script), model.vocabulary.unwrap_or(i32::MAX as usize), precision)
        } else {
            let bert = Bert::load(model, device, precision, allowed)?;
            let vocabulary = usize::try_from(bert.vocabulary()).unwrap_or(0);
            (Body::Bert(bert), vocabulary, precision)
        };
        Ok(Self { body, device, pooling: model.pooling, normalize: model.normalize, vocabulary, precision })
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
        let value = if self.precision == Precision::Float32 { 4 } else { 2 };
        Some(bert.values_per_token(u64::try_from(longest).unwrap_or(u64::MAX)).saturating_mul(value))
    }

    /// What it computes in.
    #[must_use]
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Whether it takes batches without padding from [`crate::staging`].
    #[must_use]
    pub fn is_varlen(&self) -> bool {
        matches!(&self.body, Body::Bert(bert) if bert.is_varlen())
    }

    /// The rows of a batch, float32 `[rows, dimension]`, on the device. The batch must have been checked.
    ///
    /// # Errors
    /// Where torch has no memory, or a module fails.
    pub fn encode(&self, batch: &Batch, workspace: &mut Workspace) -> TorchResult<Tensor> {
        match (&self.body, self.device) {
            (Body::Bert(_), Device::Cpu) => self.encode_packed(batch, workspace),
            _ => self.encode_padded(batch, workspace),
        }
    }

    /// [`Self::encode`] without padding; modules, which know only tables, are given one.
    ///
    /// # Errors
    /// As [`Self::encode`].
    pub fn encode_packed(&self, batch: &Batch, workspace: &mut Workspace) -> TorchResult<Tensor> {
        let Body::Bert(bert) = &self.body else { return self.encode_padded(batch, workspace) };
        tch::no_grad(|| {
            let packed = workspace.packing.pack(batch)?;
            let tokens = bert.forward_packed(&packed, &mut workspace.scratch)?;
            let dimension = bert.dimension();
            let count = packed.groups.iter().map(|group| group.rows).sum::<i64>();
            let rows = Tensor::f_empty([count, dimension], (Kind::Float, Device::Cpu))?;
            let mut row = 0;
            for group in packed.groups {
                let own = tokens.f_narrow(0, group.start, group.tokens())?;
                let pooled = pool(&own.f_view_([group.rows, group.length, dimension])?, self.pooling)?;
                rows.f_narrow(0, row, group.rows)?.f_copy_(&pooled)?;
                row += group.rows;
            }
            let rows = if self.normalize { normalize(&rows)? } else { rows };
            match &packed.moved {
                Some(places) => rows.f_index_select(0, places),
                None => Ok(rows),
            }
        })
    }

    /// [`Self::encode`] with rows filled up to the longest: what the packed version is tested against.
    ///
    /// # Errors
    /// As [`Self::encode`].
    pub fn encode_padded(&self, batch: &Batch, workspace: &mut Workspace) -> TorchResult<Tensor> {
        tch::no_grad(|| {
            let padded = workspace.padding.pad(batch, self.device)?;
            self.encode_sent(&Sent::Padded(padded), &mut workspace.scratch)
        })
    }

    /// The rows of a batch that is on the device, and behind them those that fill up.
    ///
    /// # Errors
    /// As [`Self::encode`]; and where a batch has no padding, but [`Self::is_varlen`] is false.
    pub fn encode_sent(&self, sent: &Sent, scratch: &mut Scratch) -> TorchResult<Tensor> {
        let rows = match (sent, &self.body) {
            (Sent::Ragged(ragged), Body::Bert(bert)) => {
                pool_ragged(&bert.forward_ragged(ragged, scratch)?, &ragged.rows, self.pooling)?
            }
            (Sent::Ragged(_), Body::Script(_)) => {
                return Err(TchError::Shape("a module takes tables only".to_owned()));
            }
            (Sent::Padded(padded), Body::Bert(bert)) => {
                pool_padded(&bert.forward_padded(padded, scratch)?, padded.mask.as_ref(), self.pooling)?
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

/// Copies rows out of torch, in the place of what `values` held, and looks at them, as [`check_rows`] does.
///
/// # Errors
/// [`ErrorKind::Encoder`] where torch fails now or failed before on this device, or where values are no numbers.
pub fn copy_rows(rows: &Tensor, values: &mut Vec<f32>) -> Result<()> {
    let failed = |error: tch::TchError| crate::failure::batch_failed(&error);
    let rows = rows.f_to_device(Device::Cpu).and_then(|rows| rows.f_contiguous()).map_err(failed)?;
    let count = count(&rows).map_err(failed)?;
    values.resize(count, 0.0);
    rows.f_copy_data(values, count).map_err(failed)?;
    check_rows(values)
}

/// Looks at rows: a type that is too narrow for a model shows as infinities.
///
/// # Errors
/// [`ErrorKind::Encoder`] where values are no numbers.
pub fn check_rows(values: &[f32]) -> Result<()> {
    if values.iter().all(|value| value.is_finite()) {
        Ok(())
    } else {
        let message =
            "the model returned values that are no finite numbers; try dtype \"float32\", or look at its weights";
        Err(Error::new(ErrorKind::Encoder, message))
    }
}
