//! From pooled rows to the model's vectors: dense layers, norms, unit length, and fewer dimensions. All in float32.

use pullquote_core::encoder::model::weight_files::LOGITS;
use pullquote_core::encoder::model::{Activation, Model, Module};
use pullquote_core::error::{Error, ErrorKind, Result};
use tch::{Device, Tensor};

use super::layout::dim;
use super::pooling::normalize;
use super::transformer::activate;
use super::weights::{ANY, Weights};
use crate::error::{TorchResult, torch_error};

/// The word embeddings of language models.
const WORDS: &str = "embed_tokens.weight";

/// The modules, in their order.
#[derive(Debug)]
pub(super) struct Head {
    steps: Vec<HeadStep>,
    dimension: i64,
    truncates: bool,
    normalizes: bool,
}

#[derive(Debug)]
enum HeadStep {
    Dense { weight: Tensor, bias: Option<Tensor>, activation: Activation },
    Norm { weight: Tensor, bias: Option<Tensor>, width: i64, epsilon: f64 },
    Normalize,
}

impl Head {
    /// Loads the modules after pooled rows of a width.
    ///
    /// # Errors
    /// As [`Weights::read`], and [`ErrorKind::InvalidModel`] if a module takes vectors of another width.
    pub(super) fn load(model: &Model, mut width: usize, device: Device) -> Result<Self> {
        // A norm at the end is applied after the vectors are cut, or left out.
        let modules = match model.modules.split_last() {
            Some((Module::Normalize, before)) => before,
            _ => &model.modules,
        };
        let mut steps = Vec::with_capacity(modules.len());
        for module in modules {
            let Some(folder) = module.folder(width)? else {
                steps.push(HeadStep::Normalize);
                continue;
            };
            let mut weights = Weights::read(folder)?;
            let take = |weights: &mut Weights, name: &str, shape: &[i64]| {
                let uploaded = weights.take(name, shape)?.f_to_device_(device, tch::Kind::Float, false, false);
                let what = format!("{}: the weights cannot be brought to {device:?}", folder.display());
                uploaded.map_err(|error| torch_error(ErrorKind::Device, &what, &error))
            };
            match module {
                Module::Dense { name, outputs, bias, activation, .. } => {
                    let weight = take(&mut weights, &format!("{name}.weight"), &[dim(*outputs), dim(width)])?;
                    let bias =
                        bias.then(|| take(&mut weights, &format!("{name}.bias"), &[dim(*outputs)])).transpose()?;
                    steps.push(HeadStep::Dense { weight, bias, activation: *activation });
                    width = *outputs;
                }
                Module::LayerNorm { name, bias, epsilon, .. } => {
                    let weight = take(&mut weights, &format!("{name}.weight"), &[dim(width)])?;
                    let bias = bias.then(|| take(&mut weights, &format!("{name}.bias"), &[dim(width)])).transpose()?;
                    steps.push(HeadStep::Norm { weight, bias, width: dim(width), epsilon: *epsilon });
                }
                Module::TokenLogit { token, minus, .. } => {
                    let failed = |error| torch_error(ErrorKind::InvalidModel, &folder.display().to_string(), &error);
                    let name = if weights.has(LOGITS) { LOGITS } else { WORDS };
                    let table = weights.take(name, &[ANY, dim(width)])?;
                    let row = |token: usize| {
                        table.f_narrow(0, dim(token), 1)?.f_to_device_(device, tch::Kind::Float, false, true)
                    };
                    let mut weight = row(*token).map_err(failed)?;
                    if let Some(minus) = minus {
                        weight = row(*minus).and_then(|other| weight.f_sub(&other)).map_err(failed)?;
                    }
                    steps.push(HeadStep::Dense { weight, bias: None, activation: Activation::Identity });
                    width = 1;
                }
                Module::Normalize => {}
            }
        }
        let dimension = model.truncate_dim.unwrap_or(width);
        if dimension == 0 || dimension > width {
            let message = format!(
                "truncate_dim is {dimension}, but the model's vectors have {width} values; 1 to {width} are allowed"
            );
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        Ok(Self { steps, dimension: dim(dimension), truncates: dimension < width, normalizes: model.normalize })
    }

    pub(super) fn dimension(&self) -> i64 {
        self.dimension
    }

    pub(super) fn normalizes(&self) -> bool {
        self.normalizes
    }

    /// The vectors of pooled rows, float32 `[rows, width]`.
    pub(super) fn apply(&self, mut rows: Tensor) -> TorchResult<Tensor> {
        for step in &self.steps {
            rows = match step {
                HeadStep::Dense { weight, bias, activation } => {
                    activate(rows.f_linear(weight, bias.as_ref())?, *activation)?
                }
                HeadStep::Norm { weight, bias, width, epsilon } => {
                    rows.f_layer_norm(*width, Some(weight), bias.as_ref(), *epsilon, false)?
                }
                HeadStep::Normalize => normalize(&rows)?,
            };
        }
        if self.truncates {
            rows = rows.f_narrow(1, 0, self.dimension)?;
        }
        if self.normalizes { normalize(&rows) } else { rows.f_contiguous() }
    }
}
