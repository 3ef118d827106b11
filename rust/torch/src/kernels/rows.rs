//! What is done to each row of activations between two linear layers, in one pass each.
//!
//! A row's result depends on nothing but the row: sums go from left to right in sixteen lanes.

use std::arch::x86_64::{
    __m512, _mm_storeu_si128, _mm512_add_ps, _mm512_cvtps_epi32, _mm512_cvtusepi32_epi8, _mm512_fmadd_ps,
    _mm512_fnmadd_ps, _mm512_max_epi32, _mm512_max_ps, _mm512_min_ps, _mm512_mul_ps, _mm512_reduce_add_ps,
    _mm512_reduce_max_ps, _mm512_reduce_min_ps, _mm512_set1_ps, _mm512_setzero_ps, _mm512_setzero_si512, _mm512_sub_ps,
};

use super::lanes::{Element, LANES, gelu, gelu_tanh, load, relu, store};
use crate::operators::Fused;

/// A layer norm's numbers; `weight` and `bias` are as long as a row.
pub struct Norm<'model, E> {
    pub weight: &'model [E],
    pub bias: &'model [E],
    pub epsilon: f32,
}

/// The layer norm of `rows + residual`, in place; `sums` is a place for one row.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
pub fn add_norm<E: Element>(rows: &mut [E], residual: &[E], norm: &Norm<'_, E>, sums: &mut Vec<f32>) {
    let width = norm.weight.len();
    sums.resize(width, 0.0);
    let (weight, bias) = (norm.weight.as_chunks::<LANES>().0, norm.bias.as_chunks::<LANES>().0);
    let share = 1.0 / width_as_float(width);
    for (row, residual) in rows.chunks_exact_mut(width).zip(residual.chunks_exact(width)) {
        let (row, sums) = (row.as_chunks_mut::<LANES>().0, sums.as_chunks_mut::<LANES>().0);
        let mut total = _mm512_setzero_ps();
        for ((value, residual), sum) in row.iter().zip(residual.as_chunks::<LANES>().0).zip(sums.iter_mut()) {
            let added = _mm512_add_ps(load(value), load(residual));
            store(sum, added);
            total = _mm512_add_ps(total, added);
        }
        let mean = _mm512_set1_ps(_mm512_reduce_add_ps(total) * share);
        let mut squares = _mm512_setzero_ps();
        for sum in sums.iter() {
            let off = _mm512_sub_ps(load(sum), mean);
            squares = _mm512_fmadd_ps(off, off, squares);
        }
        let scale = _mm512_set1_ps(1.0 / (_mm512_reduce_add_ps(squares) * share + norm.epsilon).sqrt());
        for ((value, sum), (weight, bias)) in row.iter_mut().zip(sums.iter()).zip(weight.iter().zip(bias)) {
            let normal = _mm512_mul_ps(_mm512_sub_ps(load(sum), mean), scale);
            store(value, _mm512_fmadd_ps(normal, load(weight), load(bias)));
        }
    }
}

/// Each row as bytes: `value · smoothing = (byte - zero) · scale`, with a scale and a zero for each row.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
pub fn quantize<E: Element>(rows: &[E], smoothing: &[f32], bytes: &mut [u8], scales: &mut [f32], zeros: &mut [f32]) {
    let width = smoothing.len();
    let smoothing = smoothing.as_chunks::<LANES>().0;
    let all = rows.chunks_exact(width).zip(bytes.chunks_exact_mut(width)).zip(scales.iter_mut().zip(zeros));
    for ((row, bytes), (scale, zero)) in all {
        let row = row.as_chunks::<LANES>().0;
        // Zero is always a byte, so that nothing becomes something.
        let (mut least, mut most) = (_mm512_setzero_ps(), _mm512_setzero_ps());
        // Zero, or NaN where anything is no finite number: minimum and maximum would pass over it.
        let mut poison = _mm512_setzero_ps();
        for (value, smoothing) in row.iter().zip(smoothing) {
            let value = _mm512_mul_ps(load(value), load(smoothing));
            least = _mm512_min_ps(least, value);
            most = _mm512_max_ps(most, value);
            poison = _mm512_fmadd_ps(value, _mm512_setzero_ps(), poison);
        }
        let (least, most) = (_mm512_reduce_min_ps(least), _mm512_reduce_max_ps(most));
        let step = if most > least { (most - least) / 255.0 } else { 1.0 };
        *zero = (-least / step).round_ties_even();
        *scale = step + _mm512_reduce_add_ps(poison);
        let (inverse, shift) = (_mm512_set1_ps(1.0 / step), _mm512_set1_ps(*zero));
        for ((value, smoothing), bytes) in row.iter().zip(smoothing).zip(bytes.as_chunks_mut::<LANES>().0) {
            let value = _mm512_mul_ps(load(value), load(smoothing));
            let whole = _mm512_cvtps_epi32(_mm512_fmadd_ps(value, inverse, shift));
            let packed = _mm512_cvtusepi32_epi8(_mm512_max_epi32(whole, _mm512_setzero_si512()));
            // SAFETY: sixteen bytes.
            unsafe { _mm_storeu_si128(bytes.as_mut_ptr().cast(), packed) };
        }
    }
}

/// What [`quantize`] said of the rows, and the layer's own numbers, all as long as a row of results.
pub struct Finish<'layer> {
    pub scales: &'layer [f32],
    pub zeros: &'layer [f32],
    /// The products of a row of ones.
    pub columns: &'layer [f32],
    pub bias: &'layer [f32],
}

/// Products of bytes as results of the layer: `(product - zero · column) · scale + bias`, then the function.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
pub fn finish<E: Element>(products: &[f32], results: &mut [E], finish: &Finish<'_>, fused: Fused) {
    // One loop for each function, so that none is chosen within.
    match fused {
        Fused::Nothing => finish_with(products, results, finish, |x| x),
        Fused::Gelu => finish_with(products, results, finish, |x| gelu(x)),
        Fused::GeluTanh => finish_with(products, results, finish, |x| gelu_tanh(x)),
        Fused::Relu => finish_with(products, results, finish, |x| relu(x)),
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
fn finish_with<E: Element>(
    products: &[f32],
    results: &mut [E],
    finish: &Finish<'_>,
    function: impl Fn(__m512) -> __m512,
) {
    let width = finish.bias.len();
    let (columns, bias) = (finish.columns.as_chunks::<LANES>().0, finish.bias.as_chunks::<LANES>().0);
    let rows = products.chunks_exact(width).zip(results.chunks_exact_mut(width));
    for ((products, results), (scale, zero)) in rows.zip(finish.scales.iter().zip(finish.zeros)) {
        let (scale, zero) = (_mm512_set1_ps(*scale), _mm512_set1_ps(*zero));
        let places = products.as_chunks::<LANES>().0.iter().zip(results.as_chunks_mut::<LANES>().0);
        for ((product, result), (column, bias)) in places.zip(columns.iter().zip(bias)) {
            let centred = _mm512_fnmadd_ps(zero, load(column), load(product));
            store(result, function(_mm512_fmadd_ps(centred, scale, load(bias))));
        }
    }
}

fn width_as_float(width: usize) -> f32 {
    #[expect(clippy::cast_precision_loss, reason = "rows are far shorter than float32 counts exactly")]
    let width = width as f32;
    width
}
