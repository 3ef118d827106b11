//! Queries and keys before attention: their norms, and the rotation by their position
//! (<https://arxiv.org/abs/2104.09864>).

use crate::attention::Heads;
use crate::norm::LayerNorm;
use crate::product::Element;
use crate::vector::{Simd, Task};

/// Cosines and sines of every position.
#[derive(Debug)]
pub struct Rotary {
    /// `[positions, pairs]`
    cosines: Vec<f32>,
    sines: Vec<f32>,
    /// Values at `i` and `i + pairs` of a head are a pair.
    pairs: usize,
}

impl Rotary {
    /// For rows of at most `longest` tokens; `frequencies` are the radians of each pair from one position to the next.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "in float32, as models are trained"
    )]
    pub fn new(frequencies: &[f32], longest: usize) -> Self {
        // The angle is rounded to float32, as models were trained; its cosine is exact.
        let angles = (0..longest).flat_map(|position| frequencies.iter().map(move |radians| position as f32 * radians));
        let (sines, cosines) =
            angles.map(|angle| f64::from(angle).sin_cos()).map(|(sine, cosine)| (sine as f32, cosine as f32)).unzip();
        Self { cosines, sines, pairs: frequencies.len() }
    }
}

/// The norms of queries and keys.
#[derive(Debug)]
pub enum HeadNorms {
    None,
    /// For each head: of queries and of keys.
    Heads(LayerNorm, LayerNorm),
    /// Of all heads of a token together.
    Rows(LayerNorm, LayerNorm),
}

/// Normalizes and rotates the queries and keys of a row.
#[derive(Debug)]
pub struct PrepareHeads<'call, E> {
    /// `[length, heads.qkv()]`
    pub qkv: &'call mut [E],
    pub heads: Heads,
    pub head_width: usize,
    pub norms: &'call HeadNorms,
    pub rotary: Option<&'call Rotary>,
    pub scratch: &'call mut Vec<f32>,
}

impl<E: Element> Task for PrepareHeads<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { qkv, heads, head_width, norms, rotary, scratch } = self;
        let Heads { count, keys, width } = heads;
        for (position, token) in qkv.chunks_exact_mut(heads.qkv()).enumerate() {
            let (queries, rest) = token.split_at_mut(count * width);
            for (part, is_query) in [(queries, true), (&mut rest[..keys * width], false)] {
                let norm = match norms {
                    HeadNorms::Rows(query, key) => {
                        normalize_row(simd, part, width, head_width, if is_query { query } else { key }, scratch);
                        None
                    }
                    HeadNorms::Heads(query, key) => Some(if is_query { query } else { key }),
                    HeadNorms::None => None,
                };
                for head in part.chunks_exact_mut(width) {
                    prepare(simd, head, norm, rotary.map(|rotary| (rotary, position)), scratch);
                }
            }
        }
    }
}

/// One head: its norm, and its rotation.
#[inline(always)]
fn prepare<S: Simd, E: Element>(
    simd: S,
    head: &mut [E],
    norm: Option<&LayerNorm>,
    rotary: Option<(&Rotary, usize)>,
    scratch: &mut Vec<f32>,
) {
    if norm.is_none() && rotary.is_none() {
        return;
    }
    scratch.resize(2 * head.len(), 0.0);
    let (values, normalized) = scratch.split_at_mut(head.len());
    let mut total = simd.splat(0.0);
    for (values, head) in values.chunks_exact_mut(S::LANES).zip(head.chunks_exact(S::LANES)) {
        let loaded = E::load(simd, head);
        total = simd.add(total, loaded);
        simd.store(values, loaded);
    }
    let values = match norm {
        Some(norm) => {
            norm.normalize(simd, values, total, normalized);
            normalized
        }
        None => values,
    };
    if let Some((rotary, position)) = rotary {
        rotate(simd, values, rotary, position);
    }
    for (values, head) in values.chunks_exact(S::LANES).zip(head.chunks_exact_mut(S::LANES)) {
        E::store(simd, head, simd.load(values));
    }
}

#[inline(always)]
fn rotate<S: Simd>(simd: S, values: &mut [f32], rotary: &Rotary, position: usize) {
    let pairs = rotary.pairs;
    let cosines = &rotary.cosines[position * pairs..][..pairs];
    let sines = &rotary.sines[position * pairs..][..pairs];
    let (low, high) = values[..2 * pairs].split_at_mut(pairs);
    let full = pairs / S::LANES * S::LANES;
    for first in (0..full).step_by(S::LANES) {
        let (cosine, sine) = (simd.load(&cosines[first..]), simd.load(&sines[first..]));
        let (a, b) = (simd.load(&low[first..]), simd.load(&high[first..]));
        simd.store(&mut low[first..], simd.sub(simd.mul(a, cosine), simd.mul(b, sine)));
        simd.store(&mut high[first..], simd.mul_add(b, cosine, simd.mul(a, sine)));
    }
    for pair in full..pairs {
        let (a, b) = (low[pair], high[pair]);
        low[pair] = a * cosines[pair] - b * sines[pair];
        high[pair] = b * cosines[pair] + a * sines[pair];
    }
}

/// The norm of all heads together, without their padding.
#[inline(always)]
fn normalize_row<S: Simd, E: Element>(
    simd: S,
    heads: &mut [E],
    width: usize,
    head_width: usize,
    norm: &LayerNorm,
    scratch: &mut Vec<f32>,
) {
    let padded = norm.padded_width();
    scratch.clear();
    scratch.resize(2 * padded, 0.0);
    let (values, normalized) = scratch.split_at_mut(padded);
    for (head, values) in heads.chunks_exact(width).zip(values.chunks_exact_mut(head_width)) {
        head.iter().zip(values).for_each(|(head, value)| *value = head.to_f32());
    }
    let total = values.chunks_exact(S::LANES).fold(simd.splat(0.0), |total, values| simd.add(total, simd.load(values)));
    norm.normalize(simd, values, total, normalized);
    for (head, values) in heads.chunks_exact_mut(width).zip(normalized.chunks_exact(head_width)) {
        head.iter_mut().zip(values).for_each(|(head, value)| *head = E::from_f32(*value));
    }
}
