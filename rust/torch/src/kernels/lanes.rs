//! Sixteen numbers at a time: to and from memory in either type, and the functions that AVX-512 lacks.
//!
//! All of it computes in float32. A bfloat16 in memory is the upper half of a float32.

use std::arch::x86_64::{
    __m256bh, __m256i, __m512, _CMP_LT_OQ, _MM_FROUND_NO_EXC, _MM_FROUND_TO_NEAREST_INT, _mm256_loadu_si256,
    _mm256_storeu_si256, _mm512_abs_ps, _mm512_add_ps, _mm512_castsi512_ps, _mm512_cmp_ps_mask, _mm512_cvtepu16_epi32,
    _mm512_cvtneps_pbh, _mm512_div_ps, _mm512_fmadd_ps, _mm512_fnmadd_ps, _mm512_loadu_ps, _mm512_mask_sub_ps,
    _mm512_max_ps, _mm512_min_ps, _mm512_mul_ps, _mm512_roundscale_ps, _mm512_scalef_ps, _mm512_set1_ps,
    _mm512_setzero_ps, _mm512_slli_epi32, _mm512_storeu_ps, _mm512_sub_ps,
};
use std::mem::transmute;

use tch::Kind;

/// How many float32 a register holds.
pub const LANES: usize = 16;

/// A bfloat16, as its bits.
#[derive(Clone, Copy, Debug, Default)]
#[repr(transparent)]
pub struct Narrow(u16);

/// Either of the types that activations have. Any bits are a value of it.
pub trait Element: Copy + 'static {
    /// As torch calls it.
    const KIND: Kind;
    /// Whether it is [`Narrow`], or else `f32`.
    const NARROW: bool;
    /// Nothing.
    const ZERO: Self;
}

impl Element for f32 {
    const KIND: Kind = Kind::Float;
    const NARROW: bool = false;
    const ZERO: Self = 0.0;
}

impl Element for Narrow {
    const KIND: Kind = Kind::BFloat16;
    const NARROW: bool = true;
    const ZERO: Self = Self(0);
}

/// Reads sixteen values.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
pub fn load<E: Element>(place: &[E; LANES]) -> __m512 {
    let place = place.as_ptr();
    if E::NARROW {
        // SAFETY: sixteen of two bytes are 32 bytes.
        let halves = unsafe { _mm256_loadu_si256(place.cast()) };
        _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(halves)))
    } else {
        // SAFETY: sixteen of four bytes are 64 bytes.
        unsafe { _mm512_loadu_ps(place.cast()) }
    }
}

/// Writes sixteen values, rounded to nearest.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
pub fn store<E: Element>(place: &mut [E; LANES], values: __m512) {
    let place = place.as_mut_ptr();
    if E::NARROW {
        // SAFETY: both types are 32 bytes of plain data.
        let halves = unsafe { transmute::<__m256bh, __m256i>(_mm512_cvtneps_pbh(values)) };
        // SAFETY: sixteen of two bytes are 32 bytes.
        unsafe { _mm256_storeu_si256(place.cast(), halves) };
    } else {
        // SAFETY: sixteen of four bytes are 64 bytes.
        unsafe { _mm512_storeu_ps(place.cast(), values) };
    }
}

/// e to the power of x, to the last bit or two; zero far below, NaN of NaN.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
pub fn exp(x: __m512) -> __m512 {
    // 2^(n + f) with n whole and f at most a half away; for f the first terms of the exponential's series.
    let power = _mm512_mul_ps(x, _mm512_set1_ps(std::f32::consts::LOG2_E));
    let whole = _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(power);
    let rest = _mm512_sub_ps(power, whole);
    let mut sum = _mm512_set1_ps(1.540_353e-4);
    for term in [1.333_355_8e-3, 9.618_129e-3, 5.550_411e-2, 2.402_265e-1, std::f32::consts::LN_2, 1.0] {
        sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(term));
    }
    _mm512_scalef_ps(sum, whole)
}

/// x times the normal distribution's share below x; Abramowitz and Stegun 7.1.26, good to 1.5e-7.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
pub fn gelu(x: __m512) -> __m512 {
    let one = _mm512_set1_ps(1.0);
    let z = _mm512_mul_ps(_mm512_abs_ps(x), _mm512_set1_ps(std::f32::consts::FRAC_1_SQRT_2));
    let t = _mm512_div_ps(one, _mm512_fmadd_ps(z, _mm512_set1_ps(0.327_591_1), one));
    let mut sum = _mm512_set1_ps(1.061_405_4);
    for term in [-1.453_152, 1.421_413_7, -0.284_496_74, 0.254_829_6] {
        sum = _mm512_fmadd_ps(sum, t, _mm512_set1_ps(term));
    }
    // Half of what lies beyond |x|, on either side.
    let square = _mm512_mul_ps(z, z);
    let tail = _mm512_mul_ps(_mm512_mul_ps(sum, t), exp(_mm512_sub_ps(_mm512_setzero_ps(), square)));
    let beyond = _mm512_mul_ps(tail, _mm512_set1_ps(0.5));
    let negative = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(x, _mm512_setzero_ps());
    // Below zero the share is the tail, above it is one less the tail.
    let share = _mm512_mask_sub_ps(_mm512_sub_ps(one, beyond), negative, beyond, _mm512_setzero_ps());
    _mm512_mul_ps(x, share)
}

/// [`gelu`] where bfloat16 comes of it: good to 6e-5, which that type cannot tell from 0.015 on, in a third of the steps.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
pub fn gelu_narrow(x: __m512) -> __m512 {
    // The distribution's share is a half and an odd polynomial, the best of nine terms up to 4.5 where the error times x
    // counts; beyond, it is as good as 0 or 1. NaN is carried by the last factor.
    let end = _mm512_set1_ps(4.5);
    let near = _mm512_max_ps(_mm512_min_ps(x, end), _mm512_sub_ps(_mm512_setzero_ps(), end));
    let square = _mm512_mul_ps(near, near);
    let mut sum = _mm512_set1_ps(3.036_423_5e-11);
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
        sum = _mm512_fmadd_ps(sum, square, _mm512_set1_ps(term));
    }
    _mm512_mul_ps(x, _mm512_fmadd_ps(near, sum, _mm512_set1_ps(0.5)))
}

/// [`gelu`] by the hyperbolic tangent, as `gelu_new` has it.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
pub fn gelu_tanh(x: __m512) -> __m512 {
    // x (1 + tanh u) / 2 = x (1 - 1 / (1 + e^2u)), with u = sqrt(2 / pi) (x + 0.044715 x^3).
    let one = _mm512_set1_ps(1.0);
    let square = _mm512_mul_ps(x, x);
    let inner = _mm512_mul_ps(x, _mm512_fmadd_ps(square, _mm512_set1_ps(0.044_715), one));
    let power = exp(_mm512_mul_ps(inner, _mm512_set1_ps(2.0 * 0.797_884_6)));
    _mm512_fnmadd_ps(x, _mm512_div_ps(one, _mm512_add_ps(one, power)), x)
}

/// Negative values become zero, NaN stays.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
pub fn relu(x: __m512) -> __m512 {
    // The second operand is returned where either is no number.
    _mm512_max_ps(_mm512_setzero_ps(), x)
}

#[cfg(test)]
mod tests {
    use super::{LANES, exp, gelu, gelu_narrow, gelu_tanh, load, store};

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
    fn all(x: [f32; LANES]) -> [[f32; LANES]; 4] {
        let mut results = [[0.0; LANES]; 4];
        store(&mut results[0], exp(load(&x)));
        store(&mut results[1], gelu(load(&x)));
        store(&mut results[2], gelu_tanh(load(&x)));
        store(&mut results[3], gelu_narrow(load(&x)));
        results
    }

    /// The error function by its series, which is exact enough up to five; beyond, it is one.
    fn erf(x: f64) -> f64 {
        if x.abs() > 5.0 {
            return x.signum();
        }
        let terms = (0..200).scan(x, |term, n| {
            let n = f64::from(n);
            let found = *term / (2.0 * n + 1.0);
            *term *= -x * x / (n + 1.0);
            Some(found)
        });
        terms.sum::<f64>() * std::f64::consts::FRAC_2_SQRT_PI
    }

    #[test]
    fn functions_are_good_to_a_few_units_of_the_last_place() {
        if !is_x86_feature_detected!("avx512bf16") || !is_x86_feature_detected!("avx512vl") {
            return;
        }
        for step in -8_000..8_000_i16 {
            let x = f32::from(step) / 400.0;
            // SAFETY: processors with AVX-512 BF16 and VL have the others.
            let [found_exp, found_gelu, found_tanh, found_narrow] = unsafe { all([x; LANES]) };
            let (wide, close) = (f64::from(x), |found: f32, exact: f64, scale: f64| {
                (f64::from(found) - exact).abs() <= 1e-6 * scale.max(1e-30)
            });
            // The power's rounding grows with it.
            assert!(close(found_exp[0], wide.exp(), wide.exp() * wide.abs().max(1.0)), "exp {x}: {}", found_exp[0]);
            let exact = wide / 2.0 * (1.0 + erf(wide / 2.0_f64.sqrt()));
            assert!(close(found_gelu[3], exact, wide.abs().max(1.0)), "gelu {x}: {} {exact}", found_gelu[3]);
            assert!((f64::from(found_narrow[7]) - exact).abs() < 6e-5, "gelu_narrow {x}: {} {exact}", found_narrow[7]);
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (wide + 0.044_715 * wide.powi(3));
            let exact = wide / 2.0 * (1.0 + inner.tanh());
            assert!(close(found_tanh[15], exact, wide.abs().max(1.0)), "gelu_tanh {x}: {} {exact}", found_tanh[15]);
        }
    }
}
