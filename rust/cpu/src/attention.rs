//! Attention within a row, a head at a time, with everything but queries, keys and values in the first cache.
//!
//! Scores and sums are float32; weights of values are rounded to the activations' type once, before they are multiplied. Memory
//! grows with the length of a row, not with its square.

use crate::math::exp;
use crate::memory::Aligned;
use crate::product::{Element, Operand, Table, product, with_tile};
use crate::vector::{MAX_LANES, Simd, Task, Tile};

/// What rows look like: each token has queries, keys and values of `heads` heads, `width` values a head.
#[derive(Clone, Copy, Debug)]
pub struct Heads {
    /// How many heads.
    pub heads: usize,
    /// Values of a head, with those that fill up: whole registers, and whole words of them.
    pub width: usize,
}

/// Places for one head, used again for the next one; as large as the longest row needed.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Words of keys, `[words of a head, keys]`.
    keys: Aligned,
    /// Words of values, `[words of a row of weights, width]`, where a word holds more than one.
    values: Aligned,
    /// `[rows of a tile, keys]`.
    scores: Aligned,
    /// The same in the activations' type.
    weights: Aligned,
}

/// Attention of all heads within one row, from `[length, 3, heads, width]` to `[length, heads, width]`. Queries come scaled.
#[derive(Debug)]
pub struct Attend<'call, E> {
    /// Queries, keys and values.
    pub mixed: &'call [E],
    /// Where the sums of values go.
    pub context: &'call mut [E],
    /// The sizes.
    pub heads: Heads,
    /// Places.
    pub scratch: &'call mut Scratch,
}

impl<E: Element> Task for Attend<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { mixed, context, heads: Heads { heads, width }, scratch } = self;
        let length = context.len() / (heads * width);
        // Filled up, so that registers are full.
        let padded = length.next_multiple_of(MAX_LANES);
        let tile = S::TILE.rows();
        let words = E::IN_A_WORD;
        let mut places = Places {
            keys: scratch.keys.take(width / words * padded),
            values: scratch.values.take(if words > 1 { padded / words * width } else { 0 }),
            scores: scratch.scores.take(tile * padded),
            weights: scratch.weights.take(tile * padded),
        };
        for head in 0..heads {
            let head = Head { mixed, offset: head * width, length, padded, heads, width };
            head.lay_out_keys(places.keys);
            if words > 1 {
                head.lay_out_values(places.values);
            }
            if length < tile {
                for query in 0..length {
                    attend_one::<S, E>(simd, &head, query, context, &mut places);
                }
            } else {
                for query in (0..length).step_by(tile) {
                    // The last ones begin earlier: some are computed twice, to the same result.
                    attend_tile::<S, E>(simd, &head, query.min(length - tile), context, &mut places);
                }
            }
        }
    }
}

struct Places<'scratch, E> {
    keys: &'scratch mut [u32],
    values: &'scratch mut [u32],
    scores: &'scratch mut [f32],
    weights: &'scratch mut [E],
}

/// One head of one row.
struct Head<'row, E> {
    /// The row: `[length, 3, heads, width]`.
    mixed: &'row [E],
    /// Where the head's values begin among those of all heads.
    offset: usize,
    length: usize,
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

    /// The row from a token's query (0), key (1) or value (2) on.
    #[inline(always)]
    fn from(&self, token: usize, part: usize) -> &[E] {
        &self.mixed[token * self.stride() + part * self.heads * self.width + self.offset..]
    }

    /// Turns keys round: word by word, all keys next to each other, zeros after the last.
    #[inline(always)]
    fn lay_out_keys(&self, keys: &mut [u32]) {
        keys.chunks_exact_mut(self.padded).for_each(|row| row[self.length..].fill(0));
        for token in 0..self.length {
            let words: &[u32] = bytemuck::cast_slice(&self.from(token, 1)[..self.width]);
            for (word, row) in words.iter().zip(keys.chunks_exact_mut(self.padded)) {
                row[token] = *word;
            }
        }
    }

    /// Joins the values of neighbouring tokens to words; zeros after the last.
    #[inline(always)]
    fn lay_out_values(&self, values: &mut [u32]) {
        for (row, first) in values.chunks_exact_mut(self.width).zip((0..self.padded).step_by(2)) {
            let part = |token: usize| -> &[u16] {
                if token < self.length { bytemuck::cast_slice(&self.from(token, 2)[..self.width]) } else { &[] }
            };
            match (part(first), part(first + 1)) {
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

#[inline(always)]
fn attend_tile<S: Simd, E: Element>(
    simd: S,
    head: &Head<'_, E>,
    query: usize,
    context: &mut [E],
    places: &mut Places<'_, E>,
) {
    for key in (0..head.padded).step_by(S::TILE.registers() * S::LANES) {
        let registers = S::TILE.registers().min((head.padded - key) / S::LANES);
        with_tile!(S::TILE, registers, score::<S, E>(simd, head, query, key, places));
    }
    let mut shares = [0.0; 8];
    for (row, share) in shares[..S::TILE.rows()].iter_mut().enumerate() {
        *share = weigh(simd, head, row, places);
    }
    for start in (0..head.width).step_by(S::TILE.registers() * S::LANES) {
        let registers = S::TILE.registers().min((head.width - start) / S::LANES);
        with_tile!(S::TILE, registers, mix::<S, E>(simd, head, query, start, &shares, context, places));
    }
}

/// As [`attend_tile`], for a single query.
#[inline(always)]
fn attend_one<S: Simd, E: Element>(
    simd: S,
    head: &Head<'_, E>,
    query: usize,
    context: &mut [E],
    places: &mut Places<'_, E>,
) {
    for key in (0..head.padded).step_by(S::LANES) {
        score::<S, E, 1, 1>(simd, head, query, key, places);
    }
    let share = weigh(simd, head, 0, places);
    for start in (0..head.width).step_by(S::LANES) {
        mix::<S, E, 1, 1>(simd, head, query, start, &[share; 8], context, places);
    }
}

/// Scores of some queries with some keys.
#[inline(always)]
fn score<S: Simd, E: Element, const ROWS: usize, const REGISTERS: usize>(
    simd: S,
    head: &Head<'_, E>,
    query: usize,
    key: usize,
    places: &mut Places<'_, E>,
) {
    let queries = Table { words: bytemuck::cast_slice(head.from(query, 0)), stride: head.stride() / E::IN_A_WORD };
    let keys = Table { words: &places.keys[key..], stride: head.padded };
    let sums = product::<S, E::Product, ROWS, REGISTERS>(simd, queries, keys, head.width / E::IN_A_WORD);
    for (row, sums) in sums.into_iter().enumerate() {
        for (register, sum) in sums.into_iter().enumerate() {
            simd.store(
                &mut places.scores[row * head.padded + key + register * S::LANES..],
                E::Product::to_floats(simd, sum),
            );
        }
    }
}

/// Exponentials of a query's scores, less the highest, as weights; zero for what fills up. Returns one over their sum.
#[inline(always)]
fn weigh<S: Simd, E: Element>(simd: S, head: &Head<'_, E>, row: usize, places: &mut Places<'_, E>) -> f32 {
    let row = row * head.padded..(row + 1) * head.padded;
    let (scores, weights) = (&mut places.scores[row.clone()], &mut places.weights[row]);
    // Whose exponential is nothing.
    scores[head.length..].fill(-1e30);
    let mut highest = simd.splat(f32::NEG_INFINITY);
    for scores in scores.chunks_exact(S::LANES) {
        highest = simd.max(highest, simd.load(scores));
    }
    let highest = simd.splat(simd.reduce_max(highest));
    let mut sum = simd.splat(0.0);
    for (scores, weights) in scores.chunks_exact(S::LANES).zip(weights.chunks_exact_mut(S::LANES)) {
        let weight = exp(simd, simd.sub(simd.load(scores), highest));
        sum = simd.add(sum, weight);
        E::store(simd, weights, weight);
    }
    1.0 / simd.reduce_add(sum)
}

/// Sums of some values, by the weights of some queries.
#[inline(always)]
fn mix<S: Simd, E: Element, const ROWS: usize, const REGISTERS: usize>(
    simd: S,
    head: &Head<'_, E>,
    query: usize,
    start: usize,
    shares: &[f32; 8],
    context: &mut [E],
    places: &mut Places<'_, E>,
) {
    let words = E::IN_A_WORD;
    let weights = Table { words: bytemuck::cast_slice(places.weights), stride: head.padded / words };
    let values = if words > 1 {
        Table { words: &places.values[start..], stride: head.width }
    } else {
        Table { words: bytemuck::cast_slice(&head.from(0, 2)[start..]), stride: head.stride() }
    };
    let sums = product::<S, E::Product, ROWS, REGISTERS>(simd, weights, values, head.length.div_ceil(words));
    for (row, (sums, share)) in sums.into_iter().zip(shares).enumerate() {
        let place = (query + row) * head.heads * head.width + head.offset + start;
        for (register, sum) in sums.into_iter().enumerate() {
            let value = simd.mul(E::Product::to_floats(simd, sum), simd.splat(*share));
            E::store(simd, &mut context[place + register * S::LANES..], value);
        }
    }
}
