//! Attention within a row, one head at a time, so that its scores, keys and values stay in the first caches.
//!
//! Scores and sums are float32. The weights of the values are rounded once to the activations' type, before they are
//! multiplied. Long rows are processed in blocks of keys, with the largest score so far
//! (<https://arxiv.org/abs/1805.02867>): a block is read by several tiles of queries while it is in the second cache,
//! and memory grows with the length of a row, not with its square.

use crate::bias::{BiasScratch, HeadBias, ScoreBias};
use crate::math::exp;
use crate::memory::AlignedBuffer;
use crate::product::{Element, Operand, WordMatrix, product, with_tile};
use crate::vector::{MAX_LANES, Simd, Task, Tile};

/// Keys of a block. Most rows are one block.
const BLOCK: usize = 512;
/// Tiles of queries that read a block of keys one after the other.
const TILES: usize = 8;

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

/// Buffers for one head, used again for the next one.
#[derive(Debug, Default)]
pub struct AttentionScratch {
    /// Words of keys, block after block, each `[words of a head, keys of a block]`.
    keys: AlignedBuffer,
    /// Words of values, `[words of a row of weights, width]`.
    values: AlignedBuffer,
    /// `[rows of a tile, keys of a block]`, and so are `weights`.
    scores: AlignedBuffer,
    weights: AlignedBuffer,
    /// Weighted sums of the values of earlier blocks, `[tiles, rows of a tile, width]`.
    sums: AlignedBuffer,
    bias: BiasScratch,
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
    /// How many of the last tokens no token attends to; fewer than there are.
    pub unattended: usize,
    pub bias: Option<ScoreBias<'call>>,
    pub scratch: &'call mut AttentionScratch,
}

impl<E: Element> Task for Attend<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { qkv, output, heads, reach, unattended, bias, scratch } = self;
        let width = heads.width;
        let length = output.len() / (heads.count * width);
        // Of the keys. A query that reaches none of them stays at zero.
        let attended = length - unattended;
        if unattended > 0 {
            output.fill(E::ZERO);
        }
        let padded = attended.next_multiple_of(MAX_LANES);
        let block = padded.min(BLOCK);
        let tile = S::TILE.rows();
        let words = E::PER_WORD;
        // One more register keeps the words of a key out of each other's lines in the first cache.
        let stride = block + MAX_LANES;
        let mut buffers = HeadBuffers {
            keys: scratch.keys.slice_mut(padded.div_ceil(block) * (width / words) * stride),
            values: scratch.values.slice_mut(padded / words * width),
            scores: scratch.scores.slice_mut(tile * block),
            weights: scratch.weights.slice_mut(tile * block),
            sums: scratch.sums.slice_mut(TILES * tile * width),
            states: [State::default(); TILES * MAX_ROWS],
        };
        let group = heads.count / heads.keys;
        for number in 0..heads.count {
            let key_number = number / group;
            let mut head = AttentionHead {
                qkv,
                heads,
                number,
                key_number,
                length: attended,
                padded,
                block,
                stride,
                reach,
                bias: HeadBias::None,
            };
            if let Some(bias) = bias {
                let [queries, keys] = [(head.query(0), length), (head.key(0), attended)].map(|(row, count)| {
                    (WordMatrix { words: bytemuck::cast_slice(row), stride: head.stride() / words }, count)
                });
                head.bias = bias.of_head::<S, E>(simd, number, queries, keys, &mut scratch.bias);
            }
            if number % group == 0 {
                head.pack_keys(buffers.keys);
                head.pack_values(buffers.values);
            }
            if length < tile {
                for query in 0..length {
                    attend_one::<S, E>(simd, &head, query, output, &mut buffers);
                }
                continue;
            }
            for first in (0..length).step_by(TILES * tile) {
                let last = (first + TILES * tile).min(length) - 1;
                let (start, end) = head.padded_keys(first.min(length - tile), last);
                for number in start / block..end.div_ceil(block) {
                    for (slot, query) in (first..=last).step_by(tile).enumerate() {
                        // The last tile begins earlier: some queries are computed twice, to the same result.
                        let query = query.min(length - tile);
                        attend_tile::<S, E>(simd, &head, query, slot, number, output, &mut buffers);
                    }
                }
            }
        }
    }
}

/// Of any tile.
const MAX_ROWS: usize = 8;

/// A query's softmax over the blocks of keys so far.
#[derive(Clone, Copy, Default)]
struct State {
    /// The largest score.
    max: f32,
    /// The sum of the exponentials of the others' distances from it.
    total: f32,
    /// What the sums of earlier blocks are multiplied by, as the largest score has grown.
    factor: f32,
}

/// A part of a row's keys.
#[derive(Clone, Copy)]
struct Block {
    /// Its keys that a tile sees, with padding: the first, and one past the last.
    keys: (usize, usize),
    /// The first key that it has room for.
    origin: usize,
    /// Whether it is the first or the last that the tile sees.
    is_first: bool,
    is_last: bool,
}

struct HeadBuffers<'scratch, E> {
    keys: &'scratch mut [u32],
    values: &'scratch mut [u32],
    scores: &'scratch mut [f32],
    weights: &'scratch mut [E],
    sums: &'scratch mut [f32],
    /// Of each query of the tiles.
    states: [State; TILES * MAX_ROWS],
}

struct AttentionHead<'row, E> {
    /// The row: `[length, heads.qkv()]`.
    qkv: &'row [E],
    heads: Heads,
    number: usize,
    /// Of its keys and values.
    key_number: usize,
    /// The number of keys.
    length: usize,
    /// The length with padding to full registers.
    padded: usize,
    /// Keys of a block.
    block: usize,
    /// Words from one of a key's words to its next.
    stride: usize,
    reach: Reach,
    bias: HeadBias<'row>,
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

    /// The part of a block that the queries of a tile see, if any.
    #[inline(always)]
    fn block(&self, number: usize, first: usize, last: usize) -> Option<Block> {
        let (start, end) = self.padded_keys(first, last);
        let (origin, limit) = (number * self.block, (number + 1) * self.block);
        let keys = (start.max(origin), end.min(limit));
        (keys.0 < keys.1).then_some(Block { keys, origin, is_first: start >= origin, is_last: end <= limit })
    }

    /// Transposes the keys of each block: word by word, all keys next to each other, then zeros.
    #[inline(always)]
    fn pack_keys(&self, keys: &mut [u32]) {
        let words = self.heads.width / E::PER_WORD;
        for (keys, first) in keys.chunks_exact_mut(words * self.stride).zip((0..self.length).step_by(self.block)) {
            let count = self.block.min(self.length - first);
            keys.chunks_exact_mut(self.stride).for_each(|row| row[count..].fill(0));
            for token in 0..count {
                let words: &[u32] = bytemuck::cast_slice(&self.key(first + token)[..self.heads.width]);
                for (word, row) in words.iter().zip(keys.chunks_exact_mut(self.stride)) {
                    row[token] = *word;
                }
            }
        }
    }

    /// Copies values next to each other, then zeros. Where words hold two, those of two neighbouring tokens are joined.
    #[inline(always)]
    fn pack_values(&self, values: &mut [u32]) {
        if E::PER_WORD == 1 {
            for (token, row) in values.chunks_exact_mut(self.heads.width).enumerate() {
                if token < self.length {
                    row.copy_from_slice(bytemuck::cast_slice(&self.value(token)[..self.heads.width]));
                } else {
                    row.fill(0);
                }
            }
            return;
        }
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

/// Attention of the queries of one tile to a block of keys; `slot` is the tile's among those that read the block.
#[inline(always)]
fn attend_tile<S: Simd, E: Element>(
    simd: S,
    head: &AttentionHead<'_, E>,
    query: usize,
    slot: usize,
    number: usize,
    output: &mut [E],
    buffers: &mut HeadBuffers<'_, E>,
) {
    let Some(block) = head.block(number, query, query + S::TILE.rows() - 1) else { return };
    for key in (block.keys.0..block.keys.1).step_by(S::TILE.registers() * S::LANES) {
        let registers = S::TILE.registers().min((block.keys.1 - key) / S::LANES);
        with_tile!(S::TILE, registers, score::<S, E>(simd, head, query, key, block, buffers));
    }
    for row in 0..S::TILE.rows() {
        exponentiate(simd, head, query + row, slot, row, block, buffers);
    }
    for start in (0..head.heads.width).step_by(S::TILE.registers() * S::LANES) {
        let registers = S::TILE.registers().min((head.heads.width - start) / S::LANES);
        let place = Place { query, slot, start };
        with_tile!(S::TILE, registers, sum_values::<S, E>(simd, head, place, block, output, buffers));
    }
}

/// Attention of one query of a row that is shorter than a tile, and so one block.
#[inline(always)]
fn attend_one<S: Simd, E: Element>(
    simd: S,
    head: &AttentionHead<'_, E>,
    query: usize,
    output: &mut [E],
    buffers: &mut HeadBuffers<'_, E>,
) {
    let Some(block) = head.block(0, query, query) else { return };
    for key in (block.keys.0..block.keys.1).step_by(S::LANES) {
        score::<S, E, 1, 1>(simd, head, query, key, block, buffers);
    }
    exponentiate(simd, head, query, 0, 0, block, buffers);
    for start in (0..head.heads.width).step_by(S::LANES) {
        let place = Place { query, slot: 0, start };
        sum_values::<S, E, 1, 1>(simd, head, place, block, output, buffers);
    }
}

/// Dot products of some queries with some keys.
#[inline(always)]
fn score<S: Simd, E: Element, const ROWS: usize, const REGISTERS: usize>(
    simd: S,
    head: &AttentionHead<'_, E>,
    query: usize,
    key: usize,
    block: Block,
    buffers: &mut HeadBuffers<'_, E>,
) {
    let words = head.heads.width / E::PER_WORD;
    let column = key - block.origin;
    let first = block.origin / head.block * words * head.stride + column;
    let queries = WordMatrix { words: bytemuck::cast_slice(head.query(query)), stride: head.stride() / E::PER_WORD };
    let keys = WordMatrix { words: &buffers.keys[first..], stride: head.stride };
    let sums = product::<S, E::Product, ROWS, REGISTERS>(simd, queries, keys, words);
    for (row, sums) in sums.into_iter().enumerate() {
        for (register, sum) in sums.into_iter().enumerate() {
            simd.store(
                &mut buffers.scores[row * head.block + column + register * S::LANES..],
                E::Product::to_floats(simd, sum),
            );
        }
    }
}

/// The softmax of a query's scores in a block, not yet divided: writes exponentials, and brings the query's state up to
/// date.
#[inline(always)]
fn exponentiate<S: Simd, E: Element>(
    simd: S,
    head: &AttentionHead<'_, E>,
    query: usize,
    slot: usize,
    row: usize,
    block: Block,
    buffers: &mut HeadBuffers<'_, E>,
) {
    let Block { keys: (start, end), origin, is_first, .. } = block;
    let columns = row * head.block + start - origin..row * head.block + end - origin;
    let (scores, weights) = (&mut buffers.scores[columns.clone()], &mut buffers.weights[columns]);
    head.bias.add(simd, query, start, scores);
    // The exponential of this is zero, or is multiplied by zero after a block that the query sees.
    let (seen, unseen) = head.reach.keys(query, query, head.length);
    scores[..seen.clamp(start, end) - start].fill(-1e30);
    scores[unseen.clamp(start, end) - start..].fill(-1e30);
    let state = &mut buffers.states[slot * MAX_ROWS + row];
    let mut max = simd.splat(f32::NEG_INFINITY);
    for scores in scores.chunks_exact(S::LANES) {
        max = simd.max(max, simd.load(scores));
    }
    let mut max = simd.splat(simd.reduce_max(max));
    if !is_first {
        let earlier = simd.splat(state.max);
        max = simd.max(earlier, max);
        state.factor = simd.reduce_max(exp(simd, simd.sub(earlier, max)));
    }
    let mut sum = simd.splat(0.0);
    for (scores, weights) in scores.chunks_exact(S::LANES).zip(weights.chunks_exact_mut(S::LANES)) {
        let weight = exp(simd, simd.sub(simd.load(scores), max));
        sum = simd.add(sum, weight);
        E::store(simd, weights, weight);
    }
    if unseen <= seen {
        weights.fill(E::ZERO);
    }
    let sum = simd.reduce_add(sum);
    state.total = if is_first { sum } else { state.total * state.factor + sum };
    state.max = simd.reduce_max(max);
}

/// A part of a head's results.
#[derive(Clone, Copy)]
struct Place {
    /// The first query.
    query: usize,
    /// The tile's among those that read a block.
    slot: usize,
    /// The first value.
    start: usize,
}

/// Sums of the values of the blocks so far, weighted for some queries; after the last block, their results.
#[inline(always)]
fn sum_values<S: Simd, E: Element, const ROWS: usize, const REGISTERS: usize>(
    simd: S,
    head: &AttentionHead<'_, E>,
    place: Place,
    block: Block,
    output: &mut [E],
    buffers: &mut HeadBuffers<'_, E>,
) {
    let words = E::PER_WORD;
    let Place { query, slot, start } = place;
    let Block { keys, origin, is_first, is_last } = block;
    let Heads { count, width, .. } = head.heads;
    let weights: &[u32] = bytemuck::cast_slice(buffers.weights);
    let weights = WordMatrix { words: &weights[(keys.0 - origin) / words..], stride: head.block / words };
    let values = WordMatrix { words: &buffers.values[keys.0 / words * width + start..], stride: width };
    let depth = (keys.1.min(head.length) - keys.0).div_ceil(words);
    let sums = product::<S, E::Product, ROWS, REGISTERS>(simd, weights, values, depth);
    for (row, sums) in sums.into_iter().enumerate() {
        let state = buffers.states[slot * MAX_ROWS + row];
        let first = ((query + row) * count + head.number) * width + start;
        let earlier = &mut buffers.sums[(slot * S::TILE.rows() + row) * width + start..];
        for (register, sum) in sums.into_iter().enumerate() {
            let earlier = &mut earlier[register * S::LANES..];
            let mut sum = E::Product::to_floats(simd, sum);
            if !is_first {
                sum = simd.mul_add(simd.load(earlier), simd.splat(state.factor), sum);
            }
            if is_last {
                let value = simd.mul(sum, simd.splat(1.0 / state.total));
                E::store(simd, &mut output[first + register * S::LANES..], value);
            } else {
                simd.store(earlier, sum);
            }
        }
    }
}
