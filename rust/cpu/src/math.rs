//! The functions that no processor has an instruction for.

use pullquote_core::encoder::model::Activation;

use crate::vector::Simd;

/// e to the power of x, to the last bit or two; zero from -87.3 down, NaN of NaN.
#[inline(always)]
pub fn exp<S: Simd>(simd: S, x: S::Floats) -> S::Floats {
    // 2^(n + f) with n whole and f at most a half away; for f the first terms of the exponential's series. What is NaN comes
    // back in `rest`: the second operand of `max` and `min`.
    let power = simd.mul(x, simd.splat(std::f32::consts::LOG2_E));
    let power = simd.min(simd.splat(127.0), simd.max(simd.splat(-127.0), power));
    let whole = simd.round(power);
    let rest = simd.sub(power, whole);
    let mut sum = simd.splat(1.540_353e-4);
    for term in [1.333_355_8e-3, 9.618_129e-3, 5.550_411e-2, 2.402_265e-1, std::f32::consts::LN_2, 1.0] {
        sum = simd.mul_add(sum, rest, simd.splat(term));
    }
    simd.mul(sum, simd.exp2_whole(whole))
}

/// An activation, in float32's precision.
#[inline(always)]
pub fn activate<S: Simd>(simd: S, activation: Activation, x: S::Floats) -> S::Floats {
    match activation {
        Activation::Identity => x,
        Activation::Gelu => gelu(simd, x),
        Activation::GeluTanh => gelu_tanh(simd, x),
        // The second operand is what NaN leaves.
        Activation::Relu => simd.max(simd.splat(0.0), x),
    }
}

/// An activation where bfloat16 comes of it.
#[inline(always)]
pub fn activate_bf16<S: Simd>(simd: S, activation: Activation, x: S::Floats) -> S::Floats {
    match activation {
        Activation::Gelu => gelu_bf16(simd, x),
        other => activate(simd, other, x),
    }
}

/// x times the normal distribution's share below x; Abramowitz and Stegun 7.1.26, good to 1.5e-7.
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
    // Half of what lies beyond |x|, on either side.
    let tail = simd.mul(simd.mul(sum, t), exp(simd, simd.sub(zero, simd.mul(z, z))));
    let beyond = simd.mul(tail, simd.splat(0.5));
    // Below zero the share is the tail, above it is one less the tail.
    simd.mul(x, simd.select_negative(x, beyond, simd.sub(one, beyond)))
}

/// [`gelu`] where bfloat16 comes of it: good to 6e-5, which that type cannot tell from 0.015 on, in a third of the steps.
#[inline(always)]
pub fn gelu_bf16<S: Simd>(simd: S, x: S::Floats) -> S::Floats {
    // The distribution's share is a half and an odd polynomial, the best of nine terms up to 4.5 where the error times x
    // counts; beyond, it is as good as 0 or 1. NaN is carried by the last factor.
    let near = simd.max(simd.splat(-4.5), simd.min(simd.splat(4.5), x));
    let square = simd.mul(near, near);
    let mut sum = simd.splat(3.036_423_5e-11);
    for term in [
        -3.314_664_5e-9,
        1.590_998_7e-7,
        -4.451_733e-6,
        8.142_520_5e-5,
        -1.037_591_6e-3,
        9.585_204e-3,
        -6.598_466e-2,
        3.987_126e-1,
    ] {
        sum = simd.mul_add(sum, square, simd.splat(term));
    }
    simd.mul(x, simd.mul_add(near, sum, simd.splat(0.5)))
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
