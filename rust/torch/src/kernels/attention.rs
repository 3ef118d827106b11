//! Attention over rows of one length, a head at a time, with everything but queries, keys and values in the first cache.
//!
//! Scores and sums are float32; weights of values are rounded to the activations' type once, before they are multiplied.

use std::arch::x86_64::{
    __m512, __m512i, __mmask16, _mm256_loadu_si256, _mm512_add_ps, _mm512_cvtepu16_epi32, _mm512_loadu_si512,
    _mm512_mask_mov_ps, _mm512_maskz_mov_ps, _mm512_max_ps, _mm512_mul_ps, _mm512_or_si512, _mm512_reduce_add_ps,
    _mm512_reduce_max_ps, _mm512_set1_ps, _mm512_setzero_ps, _mm512_setzero_si512, _mm512_shuffle_i32x4,
    _mm512_slli_epi32, _mm512_storeu_si512, _mm512_sub_ps, _mm512_unpackhi_epi32, _mm512_unpackhi_epi64,
    _mm512_unpacklo_epi32, _mm512_unpacklo_epi64,
};

use super::lanes::{Element, LANES, exp, load, store};
use super::product::{Words, in_a_word, product};

/// Queries that are multiplied at once: six by four registers of sums, and four of keys, are 28 of the 32 there are.
const QUERIES: usize = 6;

/// What rows look like: `length` tokens, each with queries, keys and values of `heads` heads, `width` values a head.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    pub length: usize,
    pub heads: usize,
    pub width: usize,
}

/// Whether a head of this many values can be computed: its words must fill registers.
pub fn fits<E: Element>(width: usize) -> bool {
    width > 0 && (width * size_of::<E>()).is_multiple_of(size_of::<__m512>())
}

/// Places for one head, used again for the next one; as large as the longest row needed.
#[derive(Debug, Default)]
pub struct Scratch<E> {
    /// Words of keys, `[words of a head, keys]`.
    keys: Vec<u32>,
    /// Words of values, `[words of a row of weights, width]`; bfloat16 only.
    values: Vec<u32>,
    /// `[QUERIES, keys]`.
    scores: Vec<f32>,
    /// `[QUERIES, keys]`.
    weights: Vec<E>,
}

/// Attention of all heads of each row, from `[rows, length, 3, heads, width]` to `[rows, length, heads, width]`. Queries
/// come scaled. [`fits`] must have said yes to the width.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
pub fn attend<E: Element>(mixed: &[E], context: &mut [E], sizes: Sizes, scratch: &mut Scratch<E>) {
    let Sizes { length, heads, width } = sizes;
    let hidden = heads * width;
    // Filled up, so that registers are full.
    let padded = length.next_multiple_of(LANES);
    grow(&mut scratch.keys, width * size_of::<E>() / size_of::<u32>() * padded, 0);
    grow(&mut scratch.values, if E::NARROW { padded / 2 * width } else { 0 }, 0);
    grow(&mut scratch.scores, QUERIES * padded, 0.0);
    grow(&mut scratch.weights, QUERIES * padded, E::ZERO);
    assert!(fits::<E>(width), "the width was checked");
    for (mixed, context) in mixed.chunks_exact(length * 3 * hidden).zip(context.chunks_exact_mut(length * hidden)) {
        for head in 0..heads {
            attend_head(&Head { mixed, offset: head * width, sizes }, context, scratch);
        }
    }
}

/// Makes room for so many values. What an earlier row left there is written over before it is read.
fn grow<T: Copy>(places: &mut Vec<T>, count: usize, value: T) {
    if places.len() < count {
        places.resize(count, value);
    }
}

/// One head of one row.
struct Head<'row, E> {
    /// The row: `[length, 3, heads, width]`.
    mixed: &'row [E],
    /// Where the head's values begin among those of all heads.
    offset: usize,
    sizes: Sizes,
}

impl<E: Element> Head<'_, E> {
    /// The row from a token's query (0), key (1) or value (2) on.
    #[inline]
    fn from(&self, token: usize, part: usize) -> &[E] {
        let hidden = self.sizes.heads * self.sizes.width;
        &self.mixed[(3 * token + part) * hidden + self.offset..]
    }

    /// A token's query (0), key (1) or value (2).
    #[inline]
    fn part(&self, token: usize, part: usize) -> &[E] {
        &self.from(token, part)[..self.sizes.width]
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
fn attend_head<E: Element>(head: &Head<'_, E>, context: &mut [E], scratch: &mut Scratch<E>) {
    let length = head.sizes.length;
    lay_out_keys(head, &mut scratch.keys);
    if E::NARROW {
        lay_out_values(head, &mut scratch.values);
    }
    if length < QUERIES {
        for query in 0..length {
            attend_queries::<E, 1>(head, query, context, scratch);
        }
        return;
    }
    for query in (0..length).step_by(QUERIES) {
        // The last ones begin earlier: some are computed twice, to the same result.
        attend_queries::<E, QUERIES>(head, query.min(length - QUERIES), context, scratch);
    }
}

/// `R` queries from this one on.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
fn attend_queries<E: Element, const R: usize>(
    head: &Head<'_, E>,
    query: usize,
    context: &mut [E],
    scratch: &mut Scratch<E>,
) {
    let Sizes { length, heads, width } = head.sizes;
    let hidden = heads * width;
    let words = in_a_word::<E>();
    let padded = length.next_multiple_of(LANES);
    let queries = Words { place: head.from(query, 0).as_ptr().cast(), stride: 3 * hidden / words };
    let mut key = 0;
    while key < padded {
        let keys = Words { place: scratch.keys[key..].as_ptr(), stride: padded };
        let scores = &mut scratch.scores[key..];
        // SAFETY: R queries of the row have `width / words` words each, and so many rows of keys follow one another in
        // scratch, `padded` words each, of which at least 16 or 32 or 64 are left from this key on.
        key += unsafe {
            match padded - key {
                64.. => store_scores(&product::<E, R, 4>(queries, keys, width / words), scores, padded),
                32.. => store_scores(&product::<E, R, 2>(queries, keys, width / words), scores, padded),
                _ => store_scores(&product::<E, R, 1>(queries, keys, width / words), scores, padded),
            }
        };
    }
    let mut shares = [0.0_f32; R];
    for (place, share) in shares.iter_mut().enumerate() {
        let row = place * padded..(place + 1) * padded;
        *share = 1.0 / weigh(&scratch.scores[row.clone()], &mut scratch.weights[row], length);
    }
    let weights = Words { place: scratch.weights.as_ptr().cast(), stride: padded / words };
    for start in (0..width).step_by(2 * LANES) {
        let values = if E::NARROW {
            Words { place: scratch.values[start..].as_ptr(), stride: width }
        } else {
            Words { place: head.from(0, 2)[start..].as_ptr().cast(), stride: 3 * hidden }
        };
        let depth = length.div_ceil(words);
        // SAFETY: R rows of weights have `padded` elements each, which are at least `depth` words; there are `depth` rows
        // of values, in scratch or in the row itself, with 16 or 32 words from here on.
        unsafe {
            if width - start >= 2 * LANES {
                store_context(&product::<E, R, 2>(weights, values, depth), shares, head, query, start, context);
            } else {
                store_context(&product::<E, R, 1>(weights, values, depth), shares, head, query, start, context);
            }
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
fn store_scores<const R: usize, const N: usize>(sums: &[[__m512; N]; R], scores: &mut [f32], padded: usize) -> usize {
    for (row, sums) in sums.iter().enumerate() {
        let places = scores[row * padded..][..N * LANES].as_chunks_mut::<LANES>().0;
        for (place, sum) in places.iter_mut().zip(sums) {
            store(place, *sum);
        }
    }
    N * LANES
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
fn store_context<E: Element, const R: usize, const N: usize>(
    sums: &[[__m512; N]; R],
    shares: [f32; R],
    head: &Head<'_, E>,
    query: usize,
    start: usize,
    context: &mut [E],
) {
    let hidden = head.sizes.heads * head.sizes.width;
    for ((row, sums), share) in sums.iter().enumerate().zip(shares) {
        let place = (query + row) * hidden + head.offset + start;
        let places = context[place..][..N * LANES].as_chunks_mut::<LANES>().0;
        for (place, sum) in places.iter_mut().zip(sums) {
            store(place, _mm512_mul_ps(*sum, _mm512_set1_ps(share)));
        }
    }
}

/// Exponentials of a query's scores, less the highest, and their sum; nothing for what fills up.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
fn weigh<E: Element>(scores: &[f32], weights: &mut [E], length: usize) -> f32 {
    let full = length / LANES;
    let rest: __mmask16 = (1 << (length % LANES)) - 1;
    let scores = scores.as_chunks::<LANES>().0;
    let weights = weights.as_chunks_mut::<LANES>().0;
    let mut highest = _mm512_set1_ps(f32::NEG_INFINITY);
    for scores in &scores[..full] {
        highest = _mm512_max_ps(highest, load(scores));
    }
    if let Some(scores) = scores.get(full) {
        highest = _mm512_max_ps(highest, _mm512_mask_mov_ps(highest, rest, load(scores)));
    }
    let highest = _mm512_set1_ps(_mm512_reduce_max_ps(highest));
    let mut sum = _mm512_setzero_ps();
    for (scores, weights) in scores[..full].iter().zip(&mut *weights) {
        let weight = exp(_mm512_sub_ps(load(scores), highest));
        sum = _mm512_add_ps(sum, weight);
        store(weights, weight);
    }
    if let Some((scores, weights)) = scores.get(full).zip(weights.get_mut(full)) {
        let weight = _mm512_maskz_mov_ps(rest, exp(_mm512_sub_ps(load(scores), highest)));
        sum = _mm512_add_ps(sum, weight);
        store(weights, weight);
    }
    _mm512_reduce_add_ps(sum)
}

/// Turns keys round: word by word, all keys beside each other, zeros behind the last.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
fn lay_out_keys<E: Element>(head: &Head<'_, E>, keys: &mut [u32]) {
    let length = head.sizes.length;
    let padded = length.next_multiple_of(LANES);
    let in_register = size_of::<__m512>() / size_of::<E>();
    for key in (0..padded).step_by(LANES) {
        for (tile, start) in (0..head.sizes.width).step_by(in_register).enumerate() {
            let mut rows = [_mm512_setzero_si512(); LANES];
            for (row, token) in rows.iter_mut().zip(key..length) {
                let place = &head.part(token, 1)[start..][..in_register];
                // SAFETY: `in_register` elements are 64 bytes.
                *row = unsafe { _mm512_loadu_si512(place.as_ptr().cast()) };
            }
            for (word, row) in transpose(&rows).iter().enumerate() {
                let place = &mut keys[(tile * LANES + word) * padded + key..][..LANES];
                // SAFETY: sixteen words are 64 bytes.
                unsafe { _mm512_storeu_si512(place.as_mut_ptr().cast(), *row) };
            }
        }
    }
}

/// Sixteen rows of sixteen words as columns.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
fn transpose(rows: &[__m512i; LANES]) -> [__m512i; LANES] {
    let mut pairs = *rows;
    for four in 0..4 {
        let [a, b, c, d] = [rows[4 * four], rows[4 * four + 1], rows[4 * four + 2], rows[4 * four + 3]];
        let (low, high) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
        let (low_next, high_next) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
        // Of each 128 bits: word `4 * quarter + place` of these four rows.
        pairs[4 * four] = _mm512_unpacklo_epi64(low, low_next);
        pairs[4 * four + 1] = _mm512_unpackhi_epi64(low, low_next);
        pairs[4 * four + 2] = _mm512_unpacklo_epi64(high, high_next);
        pairs[4 * four + 3] = _mm512_unpackhi_epi64(high, high_next);
    }
    let mut columns = *rows;
    for place in 0..4 {
        let [a, b, c, d] = [pairs[place], pairs[4 + place], pairs[8 + place], pairs[12 + place]];
        // Quarters 0 and 2, then 1 and 3, of two registers each.
        let (even, odd) = (_mm512_shuffle_i32x4::<0b10_00_10_00>(a, b), _mm512_shuffle_i32x4::<0b11_01_11_01>(a, b));
        let even_next = _mm512_shuffle_i32x4::<0b10_00_10_00>(c, d);
        let odd_next = _mm512_shuffle_i32x4::<0b11_01_11_01>(c, d);
        columns[place] = _mm512_shuffle_i32x4::<0b10_00_10_00>(even, even_next);
        columns[4 + place] = _mm512_shuffle_i32x4::<0b10_00_10_00>(odd, odd_next);
        columns[8 + place] = _mm512_shuffle_i32x4::<0b11_01_11_01>(even, even_next);
        columns[12 + place] = _mm512_shuffle_i32x4::<0b11_01_11_01>(odd, odd_next);
    }
    columns
}

/// Joins the values of two neighbouring tokens to words; zeros behind the last.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
fn lay_out_values<E: Element>(head: &Head<'_, E>, values: &mut [u32]) {
    let Sizes { length, width, .. } = head.sizes;
    for (row, first) in values.chunks_exact_mut(width).zip((0..length).step_by(2)) {
        let firsts = head.part(first, 2).as_chunks::<LANES>().0;
        let seconds = if first + 1 < length { head.part(first + 1, 2).as_chunks::<LANES>().0 } else { &[] };
        for (block, place) in row.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
            // SAFETY: sixteen elements are at least 32 bytes.
            let widen =
                |values: &[E; LANES]| unsafe { _mm512_cvtepu16_epi32(_mm256_loadu_si256(values.as_ptr().cast())) };
            let low = widen(&firsts[block]);
            let high = seconds.get(block).map_or_else(|| _mm512_setzero_si512(), widen);
            let joined = _mm512_or_si512(low, _mm512_slli_epi32::<16>(high));
            // SAFETY: sixteen words are 64 bytes.
            unsafe { _mm512_storeu_si512(place.as_mut_ptr().cast(), joined) };
        }
    }
}
