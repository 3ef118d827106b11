//! The modules after pooling, or with late interaction those of each token: dense layers, norms, and unit length in
//! between. All in float32.

use pullquote_core::encoder::dtype::Dtype;
use pullquote_core::encoder::model::weight_files::LOGITS;
use pullquote_core::encoder::model::{Activation, Module, Residual};
use pullquote_core::error::{Error, ErrorKind, Result};

use crate::linear::{Linear, LinearScratch, OutputRows};
use crate::load::{Loader, PaddedDim};
use crate::memory::AlignedBuffer;
use crate::norm::{LayerNorm, NormRow};
use crate::pooling::Normalize;
use crate::vector::Simd;
use crate::weights::Weights;

/// The word embeddings of language models.
const WORDS: &str = "embed_tokens.weight";

/// The modules, in their order.
#[derive(Debug)]
pub struct Head(Vec<Step>);

#[derive(Debug)]
enum Step {
    Dense { layer: Linear, activation: Activation, outputs: usize, residual: Addend },
    Norm(LayerNorm),
    Normalize,
}

/// What is added to the output of a dense layer.
#[derive(Debug)]
enum Addend {
    Nothing,
    Input,
    Projected(Box<Linear>),
}

/// Buffers for the rows of a batch.
#[derive(Debug, Default)]
pub struct HeadScratch {
    input: AlignedBuffer,
    output: AlignedBuffer,
    residual: AlignedBuffer,
    linear: LinearScratch,
}

impl Head {
    /// Loads the modules after vectors of a width, and returns the width after them.
    ///
    /// # Errors
    /// As `Weights::read`, and [`ErrorKind::InvalidModel`](pullquote_core::error::ErrorKind::InvalidModel) if a module
    /// takes vectors of another width.
    pub fn load<S: Simd>(modules: &[Module], mut width: usize) -> Result<(Self, usize)> {
        let mut steps = Vec::with_capacity(modules.len());
        for module in modules {
            let Some(folder) = module.folder(width)? else {
                steps.push(Step::Normalize);
                continue;
            };
            let mut loader = Loader::<S>::new(Weights::read(folder)?, Dtype::Float32);
            let whole = PaddedDim::Whole(width);
            match module {
                Module::Dense { name, outputs, bias, activation, residual, .. } => {
                    let layer = loader.linear(name, PaddedDim::Whole(*outputs), whole, *bias, None)?;
                    let residual = match residual {
                        Residual::None => Addend::Nothing,
                        Residual::Input => Addend::Input,
                        Residual::Projected => {
                            let outputs = PaddedDim::Whole(*outputs);
                            Addend::Projected(Box::new(loader.linear("residual", outputs, whole, false, None)?))
                        }
                    };
                    steps.push(Step::Dense { layer, activation: *activation, outputs: *outputs, residual });
                    width = *outputs;
                }
                Module::LayerNorm { name, bias, epsilon, .. } => {
                    let weight = loader.take(&format!("{name}.weight"), &[width])?;
                    let bias = loader.bias(name, width, *bias)?;
                    #[expect(clippy::cast_possible_truncation, reason = "an epsilon is a small number")]
                    steps.push(Step::Norm(LayerNorm::new(weight, bias, *epsilon as f32, whole.padded())));
                }
                Module::TokenLogit { token, minus, .. } => {
                    let row = token_row(&mut loader.weights, width, *token, *minus)?;
                    let layer = loader.pack(row, &[0.0], PaddedDim::Whole(1), whole, None);
                    let (activation, residual) = (Activation::Identity, Addend::Nothing);
                    steps.push(Step::Dense { layer, activation, outputs: 1, residual });
                    width = 1;
                }
                Module::Normalize => {}
            }
        }
        Ok((Self(steps), width))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Replaces `count` rows, which have no padding.
    pub fn apply<S: Simd>(&self, simd: S, count: usize, rows: &mut Vec<f32>, scratch: &mut HeadScratch) {
        let HeadScratch { input, output, residual: added, linear } = scratch;
        for step in &self.0 {
            let width = rows.len() / count;
            let padded = PaddedDim::Whole(width).padded();
            let input: &mut [f32] = input.slice_mut(count.next_multiple_of(S::TILE.rows()) * padded);
            input.fill(0.0);
            for (input, row) in input.chunks_exact_mut(padded).zip(rows.chunks_exact(width)) {
                input[..width].copy_from_slice(row);
            }
            let (results, stride, width): (&[f32], usize, usize) = match step {
                Step::Dense { layer, activation, outputs, residual } => {
                    let stride = layer.outputs();
                    let values: &mut [f32] = output.slice_mut(input.len() / padded * stride);
                    let into = OutputRows { values, stride, first: 0 };
                    layer.apply(simd, input, *activation, into, linear);
                    let added: &[f32] = match residual {
                        Addend::Nothing => &[],
                        Addend::Input => input,
                        Addend::Projected(layer) => {
                            let values: &mut [f32] = added.slice_mut(input.len() / padded * stride);
                            let into = OutputRows { values, stride, first: 0 };
                            layer.apply(simd, input, Activation::Identity, into, linear);
                            values
                        }
                    };
                    let values: &mut [f32] = output.slice_mut(count * stride);
                    values.iter_mut().zip(added).for_each(|(value, added)| *value += added);
                    (values, stride, *outputs)
                }
                Step::Norm(norm) => {
                    let values: &mut [f32] = output.slice_mut(count * padded);
                    for (input, output) in input.chunks_exact(padded).zip(values.chunks_exact_mut(padded)) {
                        simd.vectorize(NormRow { input, output, norm });
                    }
                    (values, padded, width)
                }
                Step::Normalize => {
                    let rows = input.chunks_exact_mut(padded).take(count);
                    rows.for_each(|vector| simd.vectorize(Normalize { vector }));
                    (input, padded, width)
                }
            };
            rows.clear();
            results.chunks_exact(stride).take(count).for_each(|row| rows.extend_from_slice(&row[..width]));
        }
    }
}

/// The weights of a token's logit, minus those of another one's.
fn token_row(weights: &mut Weights, width: usize, token: usize, minus: Option<usize>) -> Result<Vec<f32>> {
    let name = if weights.has(LOGITS) { LOGITS } else { WORDS };
    let table = weights.take(name, &[None, Some(width)])?;
    let row = |token: usize| {
        if token >= table.dim(0) {
            let (source, rows) = (weights.source().display(), table.dim(0));
            let message = format!("{source}: the tensor {name} has {rows} rows, and none for the token {token}");
            return Err(Error::new(ErrorKind::InvalidModel, message));
        }
        let mut values = vec![0.0; width];
        table.read_row(token, &mut values);
        Ok(values)
    };
    let mut values = row(token)?;
    if let Some(minus) = minus {
        values.iter_mut().zip(row(minus)?).for_each(|(value, other)| *value -= other);
    }
    Ok(values)
}
