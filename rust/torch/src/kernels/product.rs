//! The one loop that most of the time is spent in: a few rows of words times a few registers of columns.
//!
//! A word is a float32, or two neighbouring bfloat16, which the processor multiplies and adds in one step. Sums are
//! float32 and are formed from the first word to the last, so a row's sums are the same in any company.

use std::arch::x86_64::{
    __m512, __m512bh, __m512i, _mm512_castsi512_ps, _mm512_dpbf16_ps, _mm512_fmadd_ps, _mm512_loadu_si512,
    _mm512_set1_epi32, _mm512_setzero_ps, _mm512_setzero_si512,
};
use std::mem::transmute;

use super::lanes::{Element, LANES};

/// A table of words in memory.
#[derive(Clone, Copy)]
pub struct Words {
    pub place: *const u32,
    /// Words from one row to the next.
    pub stride: usize,
}

/// How many values make a word.
pub const fn in_a_word<E: Element>() -> usize {
    size_of::<u32>() / size_of::<E>()
}

/// Sums of products of `R` rows of words on the left with `N` registers of each of `depth` rows on the right.
///
/// # Safety
/// The left table must have `R` rows of `depth` words, the right one `depth` rows of `N * 16` words.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
pub unsafe fn product<E: Element, const R: usize, const N: usize>(
    left: Words,
    right: Words,
    depth: usize,
) -> [[__m512; N]; R] {
    let mut sums = [[_mm512_setzero_ps(); N]; R];
    for step in 0..depth {
        let mut columns = [_mm512_setzero_si512(); N];
        for (place, column) in columns.iter_mut().enumerate() {
            // SAFETY: row `step` of the right table has these words.
            *column = unsafe { _mm512_loadu_si512(right.place.add(step * right.stride + place * LANES).cast()) };
        }
        for (row, sums) in sums.iter_mut().enumerate() {
            // SAFETY: row `row` of the left table has this word; two bfloat16 may stand at any even address.
            let word = unsafe { left.place.add(row * left.stride + step).read_unaligned() };
            let word = _mm512_set1_epi32(word.cast_signed());
            for (sum, column) in sums.iter_mut().zip(columns) {
                *sum = multiply_add::<E>(*sum, word, column);
            }
        }
    }
    sums
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
fn multiply_add<E: Element>(sum: __m512, left: __m512i, right: __m512i) -> __m512 {
    if E::NARROW {
        // SAFETY: both types are 64 bytes of plain data.
        let pairs = |words| unsafe { transmute::<__m512i, __m512bh>(words) };
        _mm512_dpbf16_ps(sum, pairs(left), pairs(right))
    } else {
        _mm512_fmadd_ps(_mm512_castsi512_ps(left), _mm512_castsi512_ps(right), sum)
    }
}
