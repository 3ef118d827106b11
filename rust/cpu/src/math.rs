//! The functions that no processor has an instruction for.

use pullquote_core::encoder::model::Activation;

use crate::product::Element;
use crate::vector::{Simd, Task};

/// Multiplies values by others, as gated layers do. In the linear layer's epilogue it would cost a quarter of the time
/// of layers that are not gated: their sums would leave the registers.
#[derive(Debug)]
pub struct Multiply<'call, E> {
    /// A multiple of the registers' lanes, and so is `by`.
    pub values: &'call mut [E],
    /// As many values.
    pub by: &'call [E],
}

impl<E: Element> Task for Multiply<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        for (values, by) in self.values.chunks_exact_mut(S::LANES).zip(self.by.chunks_exact(S::LANES)) {
            let product = simd.mul(E::load(simd, values), E::load(simd, by));
            E::store(simd, values, product);
        }
    }
}

/// e to the power of x, to the last bit or two; zero from -87.3 down, NaN of NaN.
#[inline(always)]
pub fn exp<S: Simd>(simd: S, x: S::Floats) -> S::Floats {
    // 2^(n + f) with integer n and |f| at most a half; for f the first terms of the exponential's series. NaN passes
    // through `max` and `min` as their second operand, and so into `fraction`.
    let power = simd.mul(x, simd.splat(std::f32::consts::LOG2_E));
    let power = simd.min(simd.splat(127.0), simd.max(simd.splat(-127.0), power));
    let integer = simd.round(power);
    let fraction = simd.sub(power, integer);
    let mut sum = simd.splat(1.540_353e-4);
    for term in [1.333_355_8e-3, 9.618_129e-3, 5.550_411e-2, 2.402_265e-1, std::f32::consts::LN_2, 1.0] {
        sum = simd.mul_add(sum, fraction, simd.splat(term));
    }
    simd.mul(sum, simd.exp2_integer(integer))
}

/// An activation in the precision of float32.
#[inline(always)]
pub fn activate<S: Simd>(simd: S, activation: Activation, x: S::Floats) -> S::Floats {
    match activation {
        Activation::Identity => x,
        Activation::Gelu => gelu(simd, x),
        Activation::GeluTanh => gelu_tanh(simd, x),
        // NaN passes through as the second operand.
        Activation::Relu => simd.max(simd.splat(0.0), x),
        Activation::Silu => simd.mul(x, sigmoid(simd, x)),
        // tanh x = 2 sigmoid 2x - 1.
        Activation::Tanh => {
            let doubled = sigmoid(simd, simd.add(x, x));
            simd.sub(simd.add(doubled, doubled), simd.splat(1.0))
        }
        Activation::Sigmoid => sigmoid(simd, x),
    }
}

/// 1 / (1 + e^-x)
#[inline(always)]
fn sigmoid<S: Simd>(simd: S, x: S::Floats) -> S::Floats {
    let one = simd.splat(1.0);
    simd.div(one, simd.add(one, exp(simd, simd.sub(simd.splat(0.0), x))))
}

/// An activation whose result is rounded to bfloat16.
#[inline(always)]
pub fn activate_bf16<S: Simd>(simd: S, activation: Activation, x: S::Floats) -> S::Floats {
    match activation {
        Activation::Gelu => gelu_bf16(simd, x),
        other => activate(simd, other, x),
    }
}

/// x times the normal distribution function of x, by Abramowitz and Stegun 7.1.26, good to 1.5e-7.
#[inline(always)]
pub fn gelu<S: Simd>(simd: S, x: S::Floats) -> S::Floats {
    let one = simd.splat(1.0);
    let zero = simd.splat(0.0);
    let distance = simd.select_negative(x, simd.sub(zero, x), x);
    let z = simd.mul(distance, simd.splat(std::f32::consts::FRAC_1_SQRT_2));
    let t = simd.div(one, simd.mul_add(z, simd.splat(0.327_591_1), one));
    let mut sum = simd.splat(1.061_405_4);
    for term in [-1.453_152, 1.421_413_7, -0.284_496_74, 0.254_829_6] {
        sum = simd.mul_add(sum, t, simd.splat(term));
    }
    // Half of the error function's complement: what lies beyond |x| on one side.
    let tail = simd.mul(simd.mul(sum, t), exp(simd, simd.sub(zero, simd.mul(z, z))));
    let beyond = simd.mul(tail, simd.splat(0.5));
    // The distribution function is that tail below zero, and one minus it above.
    simd.mul(x, simd.select_negative(x, beyond, simd.sub(one, beyond)))
}

/// [`gelu`] for a result in bfloat16: good to 6e-5, a step of that type at 0.015, in a third of the operations.
#[inline(always)]
pub fn gelu_bf16<S: Simd>(simd: S, x: S::Floats) -> S::Floats {
    // The distribution is a half plus an odd polynomial: the best of nine terms for |x| up to 4.5, by error times x.
    // Beyond, it is as good as 0 or 1. The last factor carries NaN.
    let clamped = simd.max(simd.splat(-4.5), simd.min(simd.splat(4.5), x));
    let square = simd.mul(clamped, clamped);
    let mut sum = simd.splat(3.036_423_5e-11);
    for term in [
        -3.314_664_5e-9, 1.590_998_7e-7, -4.451_733e-6, 8.142_520_5e-5, -1.037_591_6e-3, 9.585_204e-3, -6.598_466e-2,
        3.987_126e-1,
    ] {
        sum = simd.mul_add(sum, square, simd.splat(term));
    }
    simd.mul(x, simd.mul_add(clamped, sum, simd.splat(0.5)))
}

/// [`gelu`] by the hyperbolic tangent, as `gelu_new` has it.
#[inline(always)]
pub fn gelu_tanh<S: Simd>(simd: S, x: S::Floats) -> S::Floats {
    // x (1 + tanh u) / 2 = x (1 - 1 / (1 + e^2u)), with u = sqrt(2 / pi) (x + 0.044715 x^3).
    let one = simd.splat(1.0);
    let inner = simd.mul(x, simd.mul_add(simd.mul(x, x), simd.splat(0.044_715), one));
    let power = exp(simd, simd.mul(inner, simd.splat(2.0 * 0.797_884_6)));
    simd.sub(x, simd.div(x, simd.add(one, power)))
}
