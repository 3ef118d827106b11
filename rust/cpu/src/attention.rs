//! Attention within a row, one head at a time, so that its scores, keys and values stay in the first cache.
//!
//! Scores and sums are float32. The weights of the values are rounded once to the activations' type, before they are multiplied.
//! Memory grows with the length of a row, not with its square.

use crate::math::exp;
use crate::memory::AlignedBuffer;
use crate::product::{Element, Operand, WordMatrix, product, with_tile};
use crate::vector::{MAX_LANES, Simd, Task, Tile};

/// The attention heads of a layer.
#[derive(Clone, Copy, Debug)]
pub struct Heads {
    pub count: usize,
    /// Values of a head, with padding to whole registers and words.
    pub width: usize,
}

/// Buffers for one head, used again for the next one.
#[derive(Debug, Default)]
pub struct AttentionScratch {
    /// Words of keys, `[words of a head, keys]`.
    keys: AlignedBuffer,
    /// Words of values, `[words of a row of weights, width]`, where a word holds more than one.
    values: AlignedBuffer,
    /// `[rows of a tile, keys]`, and so are `weights`.
    scores: AlignedBuffer,
    weights: AlignedBuffer,
}

/// Attention of all heads within one row. The queries are scaled already.
#[derive(Debug)]
pub struct Attend<'call, E> {
    /// `[length, 3, heads, width]`
    pub qkv: &'call [E],
    /// `[length, heads, width]`
    pub output: &'call mut [E],
    pub heads: Heads,
    pub scratch: &'call mut AttentionScratch,
}

impl<E: Element> Task for Attend<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { qkv, output, heads, scratch } = self;
        let width = heads.width;
        let length = output.len() / (heads.count * width);
        let padded = length.next_multiple_of(MAX_LANES);
        let tile = S::TILE.rows();
        let words = E::PER_WORD;
        let mut buffers = HeadBuffers {
            keys: scratch.keys.slice_mut(width / words * padded),
            values: scratch.values.slice_mut(if words > 1 { padded / words * width } else { 0 }),
            scores: scratch.scores.slice_mut(tile * padded),
            weights: scratch.weights.slice_mut(tile * padded),
        };
        for head in 0..heads.count {
            let head = Head { qkv, offset: head * width, length, padded, heads: heads.count, width };
            head.pack_keys(buffers.keys);
            if words > 1 {
                head.pack_values(buffers.values);
            }
            if length < tile {
                for query in 0..length {
                    attend_one::<S, E>(simd, &head, query, output, &mut buffers);
                }
            } else {
                for query in (0..length).step_by(tile) {
                    // The last tile begins earlier: some queries are computed twice, to the same result.
                    attend_tile::<S, E>(simd, &head, query.min(length - tile), output, &mut buffers);
                }
            }
        }
    }
}

struct HeadBuffers<'scratch, E> {
    keys: &'scratch mut [u32],
    values: &'scratch mut [u32],
    scores: &'scratch mut [f32],
    weights: &'scratch mut [E],
}

/// One head of one row.
struct Head<'row, E> {
    /// The row: `[length, 3, heads, width]`.
    qkv: &'row [E],
    /// Where the head's values begin among those of all heads.
    offset: usize,
    length: usize,
    /// The length with padding to full registers.
    padded: usize,
    heads: usize,
    width: usize,
}

impl<E: Element> Head<'_, E> {
    /// Values from one token to the next.
    #[inline(always)]
    fn stride(&self) -> usize {
        3 * self.heads * self.width
    }

    /// The row from a token's query (`part` 0), key (1) or value (2) on.
    #[inline(always)]
    fn row_part(&self, token: usize, part: usize) -> &[E] {
        &self.qkv[token * self.stride() + part * self.heads * self.width + self.offset..]
    }

    /// Transposes keys: word by word, all keys next to each other, then zeros.
    #[inline(always)]
    fn pack_keys(&self, keys: &mut [u32]) {
        keys.chunks_exact_mut(self.padded).for_each(|row| row[self.length..].fill(0));
        for token in 0..self.length {
            let words: &[u32] = bytemuck::cast_slice(&self.row_part(token, 1)[..self.width]);
            for (word, row) in words.iter().zip(keys.chunks_exact_mut(self.padded)) {
                row[token] = *word;
            }
        }
    }

    /// Joins the values of two neighbouring tokens into words, then zeros.
    #[inline(always)]
    fn pack_values(&self, values: &mut [u32]) {
        for (row, first) in values.chunks_exact_mut(self.width).zip((0..self.padded).step_by(2)) {
            let values_of = |token: usize| -> &[u16] {
                if token < self.length { bytemuck::cast_slice(&self.row_part(token, 2)[..self.width]) } else { &[] }
            };
            match (values_of(first), values_of(first + 1)) {
                ([], _) => row.fill(0),
                (low, []) => row.iter_mut().zip(low).for_each(|(word, low)| *word = u32::from(*low)),
                (low, high) => {
                    let pairs = low.iter().zip(high);
                    row.iter_mut()
                        .zip(pairs)
                        .for_each(|(word, (low, high))| *word = u32::from(*low) | u32::from(*high) << 16);
                }
            }
        }
    }
}

/// Attention of the queries of one tile.
#[inline(always)]
fn attend_tile<S: Simd, E: Element>(
    simd: S,
    head: &Head<'_, E>,
    query: usize,
    output: &mut [E],
    buffers: &mut HeadBuffers<'_, E>,
) {
    for key in (0..head.padded).step_by(S::TILE.registers() * S::LANES) {
        let registers = S::TILE.registers().min((head.padded - key) / S::LANES);
        with_tile!(S::TILE, registers, score::<S, E>(simd, head, query, key, buffers));
    }
    let mut inverse_sums = [0.0; 8];
    for (row, inverse_sum) in inverse_sums[..S::TILE.rows()].iter_mut().enumerate() {
        *inverse_sum = exponentiate(simd, head, row, buffers);
    }
    for start in (0..head.width).step_by(S::TILE.registers() * S::LANES) {
        let registers = S::TILE.registers().min((head.width - start) / S::LANES);
        with_tile!(S::TILE, registers, sum_values::<S, E>(simd, head, query, start, &inverse_sums, output, buffers));
    }
}

#[inline(always)]
fn attend_one<S: Simd, E: Element>(
    simd: S,
    head: &Head<'_, E>,
    query: usize,
    output: &mut [E],
    buffers: &mut HeadBuffers<'_, E>,
) {
    for key in (0..head.padded).step_by(S::LANES) {
        score::<S, E, 1, 1>(simd, head, query, key, buffers);
    }
    let inverse_sum = exponentiate(simd, head, 0, buffers);
    for start in (0..head.width).step_by(S::LANES) {
        sum_values::<S, E, 1, 1>(simd, head, query, start, &[inverse_sum; 8], output, buffers);
    }
}

/// Dot products of some queries with some keys.
#[inline(always)]
fn score<S: Simd, E: Element, const ROWS: usize, const REGISTERS: usize>(
    simd: S,
    head: &Head<'_, E>,
    query: usize,
    key: usize,
    buffers: &mut HeadBuffers<'_, E>,
) {
    let queries =
        WordMatrix { words: bytemuck::cast_slice(head.row_part(query, 0)), stride: head.stride() / E::PER_WORD };
    let keys = WordMatrix { words: &buffers.keys[key..], stride: head.padded };
    let sums = product::<S, E::Product, ROWS, REGISTERS>(simd, queries, keys, head.width / E::PER_WORD);
    for (row, sums) in sums.into_iter().enumerate() {
        for (register, sum) in sums.into_iter().enumerate() {
            simd.store(
                &mut buffers.scores[row * head.padded + key + register * S::LANES..],
                E::Product::to_floats(simd, sum),
            );
        }
    }
}

/// The softmax of a query's scores, not yet divided: writes exponentials, and returns one over their sum.
#[inline(always)]
fn exponentiate<S: Simd, E: Element>(simd: S, head: &Head<'_, E>, row: usize, buffers: &mut HeadBuffers<'_, E>) -> f32 {
    let row = row * head.padded..(row + 1) * head.padded;
    let (scores, weights) = (&mut buffers.scores[row.clone()], &mut buffers.weights[row]);
    // The exponential of this is zero.
    scores[head.length..].fill(-1e30);
    let mut max = simd.splat(f32::NEG_INFINITY);
    for scores in scores.chunks_exact(S::LANES) {
        max = simd.max(max, simd.load(scores));
    }
    let max = simd.splat(simd.reduce_max(max));
    let mut sum = simd.splat(0.0);
    for (scores, weights) in scores.chunks_exact(S::LANES).zip(weights.chunks_exact_mut(S::LANES)) {
        let weight = exp(simd, simd.sub(simd.load(scores), max));
        sum = simd.add(sum, weight);
        E::store(simd, weights, weight);
    }
    1.0 / simd.reduce_add(sum)
}

/// Sums of the values, weighted for some queries.
#[inline(always)]
fn sum_values<S: Simd, E: Element, const ROWS: usize, const REGISTERS: usize>(
    simd: S,
    head: &Head<'_, E>,
    query: usize,
    start: usize,
    inverse_sums: &[f32; 8],
    output: &mut [E],
    buffers: &mut HeadBuffers<'_, E>,
) {
    let words = E::PER_WORD;
    let weights = WordMatrix { words: bytemuck::cast_slice(buffers.weights), stride: head.padded / words };
    let values = if words > 1 {
        WordMatrix { words: &buffers.values[start..], stride: head.width }
    } else {
        WordMatrix { words: bytemuck::cast_slice(&head.row_part(0, 2)[start..]), stride: head.stride() }
    };
    let sums = product::<S, E::Product, ROWS, REGISTERS>(simd, weights, values, head.length.div_ceil(words));
    for (row, (sums, inverse_sum)) in sums.into_iter().zip(inverse_sums).enumerate() {
        let first = (query + row) * head.heads * head.width + head.offset + start;
        for (register, sum) in sums.into_iter().enumerate() {
            let value = simd.mul(E::Product::to_floats(simd, sum), simd.splat(*inverse_sum));
            E::store(simd, &mut output[first + register * S::LANES..], value);
        }
    }
}
