//! A linear layer, in one of four forms that compute the same: torch's plain one, weights laid out for oneDNN or for our
//! own kernels, and bytes.
//!
//! In bytes each output of the weight has a scale of its own, and so has each row of the input, with a zero point: one
//! scale for a whole batch costs a cosine of 0.05, and makes a row's result depend on its neighbours. Inputs that come
//! from a layer norm are smoothed: channels that the norm makes large are divided by what their weights are multiplied
//! by, so that they do not use up the bytes of all others (<https://arxiv.org/abs/2211.10438>, with the norm's own numbers
//! instead of samples).

use tch::{Kind, TchError, Tensor};

use crate::failure::TorchResult;
use crate::kernels::{Bytes, Kernels, Layer, Results};
use crate::means::Means;
use crate::operators::{Fused, Neutral, linear, multiply_bytes, prepack, prepack_bytes};
use crate::sides::sides;

/// A layer: `input · weightᵀ + bias`.
#[derive(Debug)]
pub struct Linear {
    form: Form,
}

#[derive(Debug)]
enum Form {
    Plain { weight: Tensor, bias: Tensor },
    LaidOut { weight: Tensor, bias: Tensor },
    Kernel(Layer, Kernels),
    Bytes(InBytes),
}

#[derive(Debug)]
struct InBytes {
    weight: ByteWeight,
    /// `float32 [inputs]`: what inputs are multiplied by.
    smoothing: Tensor,
    /// `float32 [outputs]`: what a byte of the weight stands for.
    scales: Tensor,
    results: Results,
    kind: Kind,
    kernels: Option<Kernels>,
}

#[derive(Debug)]
enum ByteWeight {
    LaidOut(Tensor, Neutral),
    /// Whole numbers in float32.
    Plain(Tensor),
}

impl Linear {
    /// From a weight `[outputs, inputs]` and a bias `[outputs]`, in float32 on the CPU. `reach` says how large each input
    /// may become, `float32 [inputs]`, where that is known.
    ///
    /// # Errors
    /// Where torch has no memory.
    pub fn new(weight: &Tensor, bias: &Tensor, reach: Option<&Tensor>, means: Means) -> TorchResult<Self> {
        if means.bytes {
            return Ok(Self { form: Form::Bytes(InBytes::new(weight, bias, reach, means)?) });
        }
        if let Some(kernels) = means.multiplying {
            let weight = weight.f_to_kind(means.kind)?.f_contiguous()?;
            return Ok(Self { form: Form::Kernel(kernels.lay_out(&weight, &bias.f_contiguous()?)?, kernels) });
        }
        let (weight, bias) = (weight.f_to_kind(means.kind)?, bias.f_to_kind(means.kind)?);
        let form =
            if means.onednn { Form::LaidOut { weight: prepack(&weight)?, bias } } else { Form::Plain { weight, bias } };
        Ok(Self { form })
    }

    /// A plain layer of weights that are on their device already.
    #[must_use]
    pub fn plain(weight: Tensor, bias: Tensor) -> Self {
        Self { form: Form::Plain { weight, bias } }
    }

    /// The results for an input `[tokens, inputs]` or `[rows, longest, inputs]`, with a function applied.
    ///
    /// # Errors
    /// Where torch has no memory.
    pub fn apply(&self, input: &Tensor, fused: Fused) -> TorchResult<Tensor> {
        match &self.form {
            Form::Plain { weight, bias } => activated(input.f_linear(weight, Some(bias))?, fused),
            Form::LaidOut { weight, bias } => linear(input, weight, bias, fused),
            Form::Kernel(layer, kernels) => kernels.linear(&input.f_contiguous()?, layer, fused),
            Form::Bytes(layer) => {
                let sides = sides(input)?;
                match *sides {
                    [_, _] => layer.apply(input, fused),
                    [rows, longest, width] => {
                        layer.apply(&input.f_reshape([-1, width])?, fused)?.f_view_([rows, longest, -1])
                    }
                    _ => Err(TchError::Shape(format!("expected two or three sides, found {sides:?}"))),
                }
            }
        }
    }
}

fn activated(mut values: Tensor, fused: Fused) -> TorchResult<Tensor> {
    match fused {
        Fused::Nothing => Ok(values),
        Fused::Gelu => values.f_gelu_("none"),
        Fused::GeluTanh => values.f_gelu_("tanh"),
        Fused::Relu => values.f_relu_(),
    }
}

impl InBytes {
    fn new(weight: &Tensor, bias: &Tensor, reach: Option<&Tensor>, means: Means) -> TorchResult<Self> {
        // Half the trouble to the inputs, half to the weights: the root of how much larger one is than the other.
        let most = weight.f_abs()?.f_amax(0_i64, false)?.f_clamp_min(1e-6)?;
        let factors = match reach {
            Some(reach) => reach.f_clamp_min(1e-6)?.f_div(&most)?.f_sqrt()?,
            None => most.f_ones_like()?,
        };
        let weight = weight.f_mul(&factors)?;
        let scales = weight.f_abs()?.f_amax(1_i64, true)?.f_div_scalar(127)?;
        let scales = scales.f_where_self(&scales.f_gt(0)?, &scales.f_ones_like()?)?;
        let whole = weight.f_div(&scales)?.f_round()?;
        let scales = scales.f_view(-1)?;
        let columns = whole.f_sum_dim_intlist(1_i64, false, Kind::Float)?.f_mul(&scales)?;
        let results = Results { columns, bias: bias.f_contiguous()? };
        let outputs = whole.size2()?.0;
        let weight = if means.onednn {
            ByteWeight::LaidOut(prepack_bytes(&whole.f_to_kind(Kind::Int8)?)?, Neutral::new(outputs)?)
        } else {
            ByteWeight::Plain(whole)
        };
        let smoothing = factors.f_reciprocal()?;
        Ok(Self { weight, smoothing, scales, results, kind: means.kind, kernels: means.kernels })
    }

    fn apply(&self, input: &Tensor, fused: Fused) -> TorchResult<Tensor> {
        let bytes = match self.kernels {
            Some(kernels) => kernels.quantize(&input.f_contiguous()?, &self.smoothing)?,
            None => quantize(input, &self.smoothing)?,
        };
        let products = match &self.weight {
            ByteWeight::LaidOut(weight, neutral) => multiply_bytes(&bytes.values, weight, &self.scales, neutral)?,
            ByteWeight::Plain(weight) => {
                let none: Option<Tensor> = None;
                bytes.values.f_to_kind(Kind::Float)?.f_linear(weight, none)?.f_mul(&self.scales)?
            }
        };
        match self.kernels {
            Some(kernels) => kernels.finish(&products, &bytes, &self.results, fused),
            None => finish(&products, &bytes, &self.results, fused)?.f_to_kind(self.kind),
        }
    }
}

/// What [`Kernels::quantize`] does, in plain operators.
fn quantize(input: &Tensor, smoothing: &Tensor) -> TorchResult<Bytes> {
    let values = input.f_to_kind(Kind::Float)?.f_mul(smoothing)?;
    // Zero is always a byte, so that nothing becomes something.
    let least = values.f_amin(-1_i64, true)?.f_clamp_max(0)?;
    let most = values.f_amax(-1_i64, true)?.f_clamp_min(0)?;
    let span = most.f_sub(&least)?.f_div_scalar(255)?;
    // Where all is zero any scale will do; NaN stays.
    let scales = span.f_where_self(&span.f_ne(0)?, &span.f_ones_like()?)?;
    let zeros = least.f_neg()?.f_div(&scales)?.f_round()?;
    let bytes = values.f_div(&scales)?.f_add(&zeros)?.f_round()?.f_clamp(0, 255)?;
    Ok(Bytes { values: bytes.f_to_kind(Kind::Uint8)?, scales, zeros })
}

/// What [`Kernels::finish`] does, in plain operators and float32.
fn finish(products: &Tensor, bytes: &Bytes, results: &Results, fused: Fused) -> TorchResult<Tensor> {
    let centred = products.f_sub(&bytes.zeros.f_mul(&results.columns)?)?;
    activated(centred.f_mul(&bytes.scales)?.f_add(&results.bias)?, fused)
}
