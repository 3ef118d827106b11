//! Taking weights, checking them, and packing them for an instruction set.

use half::f16;
use pullquote_core::encoder::dtype::Dtype;
use pullquote_core::error::Result;

use crate::linear::{Linear, Weight};
use crate::vector::{Bf16, MAX_LANES, Simd};
use crate::weights::Weights;

/// Rows of activations have a multiple of this many values: whole registers of any type and set.
pub const WIDTH_MULTIPLE: usize = 2 * MAX_LANES;

/// A dimension of a weight, and where its padding goes.
#[derive(Clone, Copy, Debug)]
pub enum PaddedDim {
    /// At the end of the dimension.
    Whole(usize),
    /// At the end of each head.
    Heads { count: usize, width: usize },
}

impl PaddedDim {
    /// Values without the padding.
    const fn values(self) -> usize {
        match self {
            Self::Whole(length) => length,
            Self::Heads { count, width } => count * width,
        }
    }

    pub fn padded(self) -> usize {
        match self {
            Self::Whole(length) => length.next_multiple_of(WIDTH_MULTIPLE),
            Self::Heads { count, width } => count * width.next_multiple_of(WIDTH_MULTIPLE),
        }
    }

    /// Values of a group that padding does not split, and the same with its padding.
    fn group(self) -> (usize, usize) {
        let (Self::Whole(width) | Self::Heads { width, .. }) = self;
        (width, width.next_multiple_of(WIDTH_MULTIPLE))
    }

    fn copy(self, values: &[f32], padded: &mut [f32]) {
        let (group, stride) = self.group();
        for (values, padded) in values.chunks_exact(group).zip(padded.chunks_exact_mut(stride)) {
            padded[..group].copy_from_slice(values);
        }
    }
}

/// Whether activations are bfloat16, which only a set with its instructions has.
pub fn has_bf16_activations<S: Simd>(dtype: Dtype) -> bool {
    S::HAS_BF16 && !matches!(dtype, Dtype::Float32 | Dtype::Float16)
}

/// Takes weights, checks them, and packs them.
#[derive(Debug)]
pub struct Loader<S> {
    pub weights: Weights,
    pub dtype: Dtype,
    simd: std::marker::PhantomData<S>,
}

impl<S: Simd> Loader<S> {
    pub fn new(weights: Weights, dtype: Dtype) -> Self {
        Self { weights, dtype, simd: std::marker::PhantomData }
    }

    pub fn take(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let shape: Vec<Option<usize>> = shape.iter().copied().map(Some).collect();
        Ok(self.weights.take(name, &shape)?.values())
    }

    /// A bias, or zeros where the layer has none.
    pub fn bias(&mut self, name: &str, rows: usize, has_bias: bool) -> Result<Vec<f32>> {
        if has_bias { self.take(&format!("{name}.bias"), &[rows]) } else { Ok(vec![0.0; rows]) }
    }

    /// `bounds` says how large each input may become, where that is known.
    pub fn linear(
        &mut self,
        name: &str,
        outputs: PaddedDim,
        inputs: PaddedDim,
        has_bias: bool,
        bounds: Option<&[f32]>,
    ) -> Result<Linear> {
        let weight = self.take(&format!("{name}.weight"), &[outputs.values(), inputs.values()])?;
        let bias = self.bias(name, outputs.values(), has_bias)?;
        Ok(self.pack(weight, &bias, outputs, inputs, bounds))
    }

    pub fn pack(
        &self,
        weight: Vec<f32>,
        bias: &[f32],
        outputs: PaddedDim,
        inputs: PaddedDim,
        bounds: Option<&[f32]>,
    ) -> Linear {
        Self::pack_as(self.dtype, weight, bias, outputs, inputs, bounds)
    }

    /// As [`Self::pack`], in this type.
    pub fn pack_as(
        dtype: Dtype,
        weight: Vec<f32>,
        bias: &[f32],
        outputs: PaddedDim,
        inputs: PaddedDim,
        bounds: Option<&[f32]>,
    ) -> Linear {
        let columns = weight.len() / bias.len();
        let width = inputs.padded();
        let (group, stride) = outputs.group();
        let mut values = if (group, columns) == (stride, width) {
            weight
        } else {
            let mut values = vec![0.0; outputs.padded() * width];
            for (row, weight) in weight.chunks_exact(columns).enumerate() {
                let padded_row = row / group * stride + row % group;
                inputs.copy(weight, &mut values[padded_row * width..][..width]);
            }
            values
        };
        let mut padded_bias = vec![0.0; outputs.padded()];
        outputs.copy(bias, &mut padded_bias);
        match dtype {
            // A set with bfloat16 instructions rounds when it packs.
            Dtype::BFloat16 if !S::HAS_BF16 => {
                for value in &mut values {
                    *value = Bf16::from_f32(*value).to_f32();
                }
            }
            Dtype::Float16 => {
                for value in &mut values {
                    *value = f16::from_f32(*value).to_f32();
                }
            }
            Dtype::Float32 | Dtype::BFloat16 | Dtype::Int8 => {}
        }
        let weight = Weight { values, outputs: outputs.padded(), inputs: width };
        match dtype {
            Dtype::Int8 => Linear::quantized::<S>(weight, padded_bias, bounds),
            Dtype::BFloat16 if S::HAS_BF16 => Linear::new::<S, Bf16>(&weight, padded_bias),
            _ => Linear::new::<S, f32>(&weight, padded_bias),
        }
    }
}
