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
    /// Of queries.
    pub count: usize,
    /// Of keys and of values; divides `count`. Consecutive heads of queries share one.
    pub keys: usize,
    /// Values of a head, with padding to whole registers and words.
    pub width: usize,
}

impl Heads {
    /// Values of a token: its queries, keys and values.
    pub const fn qkv(self) -> usize {
        (self.count + 2 * self.keys) * self.width
    }
}

/// How many tokens before and after itself a token sees.
#[derive(Clone, Copy, Debug)]
pub struct Reach {
    pub before: usize,
    pub after: usize,
}

impl Reach {
    /// The keys that some queries see, of `length`: the first, and one past the last.
    #[inline(always)]
    fn keys(self, first: usize, last: usize, length: usize) -> (usize, usize) {
        (first.saturating_sub(self.before), last.saturating_add(self.after).saturating_add(1).min(length))
    }
}

/// Added to scores: a number for each head and distance.
#[derive(Debug)]
pub struct DistanceBias {
    /// `[heads, distances]`, from the key that is farthest before the query.
    values: Vec<f32>,
    longest: usize,
}

impl DistanceBias {
    /// For rows of at most `longest` tokens. `value` is that of a head and a key's position minus the query's.
    pub fn new(heads: usize, longest: usize, value: impl Fn(usize, isize) -> f32) -> Self {
        let mut bias = Self { values: Vec::new(), longest };
        let (stride, farthest) = (bias.stride(), longest.cast_signed() - 1);
        bias.values.reserve(heads * stride);
        for head in 0..heads {
            bias.values.extend((-farthest..=farthest).map(|distance| value(head, distance)));
            bias.values.resize((head + 1) * stride, 0.0);
        }
        bias
    }

    /// Registers are read beyond the last key.
    const fn stride(&self) -> usize {
        2 * self.longest - 1 + MAX_LANES
    }

    /// Of a head's query, from the first key on.
    #[inline(always)]
    fn of_query(&self, head: usize, query: usize) -> &[f32] {
        &self.values[head * self.stride() + self.longest - 1 - query..]
    }
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
    /// `[length, heads.qkv()]`: the heads of queries, of keys, and of values.
    pub qkv: &'call [E],
    /// `[length, heads, width]`
    pub output: &'call mut [E],
    pub heads: Heads,
    pub reach: Reach,
    pub bias: Option<&'call DistanceBias>,
    pub scratch: &'call mut AttentionScratch,
}

impl<E: Element> Task for Attend<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { qkv, output, heads, reach, bias, scratch } = self;
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
        let group = heads.count / heads.keys;
        for number in 0..heads.count {
            let head = AttentionHead { qkv, heads, number, key_number: number / group, length, padded, reach, bias };
            if number % group == 0 {
                head.pack_keys(buffers.keys);
                if words > 1 {
                    head.pack_values(buffers.values);
                }
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

struct AttentionHead<'row, E> {
    /// The row: `[length, heads.qkv()]`.
    qkv: &'row [E],
    heads: Heads,
    number: usize,
    /// Of its keys and values.
    key_number: usize,
    length: usize,
    /// The length with padding to full registers.
    padded: usize,
    reach: Reach,
    bias: Option<&'row DistanceBias>,
}

impl<E: Element> AttentionHead<'_, E> {
    /// Values from one token to the next.
    #[inline(always)]
    fn stride(&self) -> usize {
        self.heads.qkv()
    }

    /// The row from a token's query on.
    #[inline(always)]
    fn query(&self, token: usize) -> &[E] {
        &self.qkv[token * self.stride() + self.number * self.heads.width..]
    }

    /// The row from a token's key on.
    #[inline(always)]
    fn key(&self, token: usize) -> &[E] {
        &self.qkv[token * self.stride() + (self.heads.count + self.key_number) * self.heads.width..]
    }

    /// The row from a token's value on.
    #[inline(always)]
    fn value(&self, token: usize) -> &[E] {
        &self.qkv[token * self.stride() + (self.heads.count + self.heads.keys + self.key_number) * self.heads.width..]
    }

    /// The keys that some queries see, with padding to full registers.
    #[inline(always)]
    fn padded_keys(&self, first: usize, last: usize) -> (usize, usize) {
        let (start, end) = self.reach.keys(first, last, self.length);
        (start / MAX_LANES * MAX_LANES, end.next_multiple_of(MAX_LANES))
    }

    /// Transposes keys: word by word, all keys next to each other, then zeros.
    #[inline(always)]
    fn pack_keys(&self, keys: &mut [u32]) {
        keys.chunks_exact_mut(self.padded).for_each(|row| row[self.length..].fill(0));
        for token in 0..self.length {
            let words: &[u32] = bytemuck::cast_slice(&self.key(token)[..self.heads.width]);
            for (word, row) in words.iter().zip(keys.chunks_exact_mut(self.padded)) {
                row[token] = *word;
            }
        }
    }

    /// Joins the values of two neighbouring tokens into words, then zeros.
    #[inline(always)]
    fn pack_values(&self, values: &mut [u32]) {
        for (row, first) in values.chunks_exact_mut(self.heads.width).zip((0..self.padded).step_by(2)) {
            let values_of = |token: usize| -> &[u16] {
                if token < self.length { bytemuck::cast_slice(&self.value(token)[..self.heads.width]) } else { &[] }
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
    head: &AttentionHead<'_, E>,
    query: usize,
    output: &mut [E],
    buffers: &mut HeadBuffers<'_, E>,
) {
    let keys = head.padded_keys(query, query + S::TILE.rows() - 1);
    for key in (keys.0..keys.1).step_by(S::TILE.registers() * S::LANES) {
        let registers = S::TILE.registers().min((keys.1 - key) / S::LANES);
        with_tile!(S::TILE, registers, score::<S, E>(simd, head, query, key, buffers));
    }
    let mut inverse_sums = [0.0; 8];
    for (row, inverse_sum) in inverse_sums[..S::TILE.rows()].iter_mut().enumerate() {
        *inverse_sum = exponentiate(simd, head, query + row, row, keys, buffers);
    }
    for start in (0..head.heads.width).step_by(S::TILE.registers() * S::LANES) {
        let registers = S::TILE.registers().min((head.heads.width - start) / S::LANES);
        let place = Place { query, keys, start };
        with_tile!(S::TILE, registers, sum_values::<S, E>(simd, head, place, &inverse_sums, output, buffers));
    }
}

#[inline(always)]
fn attend_one<S: Simd, E: Element>(
    simd: S,
    head: &AttentionHead<'_, E>,
    query: usize,
    output: &mut [E],
    buffers: &mut HeadBuffers<'_, E>,
) {
    let keys = head.padded_keys(query, query);
    for key in (keys.0..keys.1).step_by(S::LANES) {
        score::<S, E, 1, 1>(simd, head, query, key, buffers);
    }
    let inverse_sum = exponentiate(simd, head, query, 0, keys, buffers);
    for start in (0..head.heads.width).step_by(S::LANES) {
        let place = Place { query, keys, start };
        sum_values::<S, E, 1, 1>(simd, head, place, &[inverse_sum; 8], output, buffers);
    }
}

/// Dot products of some queries with some keys.
#[inline(always)]
fn score<S: Simd, E: Element, const ROWS: usize, const REGISTERS: usize>(
    simd: S,
    head: &AttentionHead<'_, E>,
    query: usize,
    key: usize,
    buffers: &mut HeadBuffers<'_, E>,
) {
    let queries = WordMatrix { words: bytemuck::cast_slice(head.query(query)), stride: head.stride() / E::PER_WORD };
    let keys = WordMatrix { words: &buffers.keys[key..], stride: head.padded };
    let sums = product::<S, E::Product, ROWS, REGISTERS>(simd, queries, keys, head.heads.width / E::PER_WORD);
    for (row, sums) in sums.into_iter().enumerate() {
        for (register, sum) in sums.into_iter().enumerate() {
            simd.store(
                &mut buffers.scores[row * head.padded + key + register * S::LANES..],
                E::Product::to_floats(simd, sum),
            );
        }
    }
}

/// The softmax of a query's scores, not yet divided: writes exponentials, and returns one over their sum. `row` is the
/// query's among those of the tile.
#[inline(always)]
fn exponentiate<S: Simd, E: Element>(
    simd: S,
    head: &AttentionHead<'_, E>,
    query: usize,
    row: usize,
    keys: (usize, usize),
    buffers: &mut HeadBuffers<'_, E>,
) -> f32 {
    let first = row * head.padded;
    let (scores, weights) = (&mut buffers.scores[first..first + keys.1], &mut buffers.weights[first..first + keys.1]);
    if let Some(bias) = head.bias {
        let bias = bias.of_query(head.number, query);
        for (scores, bias) in scores[keys.0..].chunks_exact_mut(S::LANES).zip(bias[keys.0..].chunks_exact(S::LANES)) {
            let score = simd.add(simd.load(scores), simd.load(bias));
            simd.store(scores, score);
        }
    }
    // The exponential of this is zero.
    let (start, end) = head.reach.keys(query, query, head.length);
    scores[keys.0..start].fill(-1e30);
    scores[end..].fill(-1e30);
    let (scores, weights) = (&scores[keys.0..], &mut weights[keys.0..]);
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

/// A part of a head's results.
#[derive(Clone, Copy)]
struct Place {
    /// The first query.
    query: usize,
    /// The keys that count, with padding.
    keys: (usize, usize),
    /// The first value.
    start: usize,
}

/// Sums of the values, weighted for some queries.
#[inline(always)]
fn sum_values<S: Simd, E: Element, const ROWS: usize, const REGISTERS: usize>(
    simd: S,
    head: &AttentionHead<'_, E>,
    place: Place,
    inverse_sums: &[f32; 8],
    output: &mut [E],
    buffers: &mut HeadBuffers<'_, E>,
) {
    let words = E::PER_WORD;
    let Place { query, keys, start } = place;
    let Heads { count, width, .. } = head.heads;
    let weights: &[u32] = bytemuck::cast_slice(buffers.weights);
    let weights = WordMatrix { words: &weights[keys.0 / words..], stride: head.padded / words };
    let values = if words > 1 {
        WordMatrix { words: &buffers.values[keys.0 / words * width + start..], stride: width }
    } else {
        WordMatrix { words: bytemuck::cast_slice(&head.value(keys.0)[start..]), stride: head.stride() }
    };
    let depth = (keys.1.min(head.length) - keys.0).div_ceil(words);
    let sums = product::<S, E::Product, ROWS, REGISTERS>(simd, weights, values, depth);
    for (row, (sums, inverse_sum)) in sums.into_iter().zip(inverse_sums).enumerate() {
        let first = ((query + row) * count + head.number) * width + start;
        for (register, sum) in sums.into_iter().enumerate() {
            let value = simd.mul(E::Product::to_floats(simd, sum), simd.splat(*inverse_sum));
            E::store(simd, &mut output[first + register * S::LANES..], value);
        }
    }
}
