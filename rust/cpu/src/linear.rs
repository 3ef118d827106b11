//! Linear layers: rows times a weight that was laid out in panels, a panel at a time.
//!
//! A panel is what a few registers of outputs need, word after word. Rows are taken in blocks that stay in the second cache while
//! all panels pass; within a block a tile of rows and registers is summed up in registers, and bias and activation are applied
//! on the way to memory.
//!
//! In bytes each output of the weight has a scale of its own, and so has each row of the input, with a zero point: one scale for a
//! whole batch costs a cosine of 0.05, and makes a row's result depend on its neighbours. Inputs that come from a layer norm are
//! smoothed: channels that the norm makes large are divided by what their weights are multiplied by, so that they do not use up
//! the bytes of all others (<https://arxiv.org/abs/2211.10438>, with the norm's own numbers instead of samples).

use pullquote_core::encoder::model::Activation;

use crate::math::{activate, activate_bf16};
use crate::memory::Aligned;
use crate::product::{Bytes, Element, Operand, Table, product, with_tile};
use crate::vector::portable::round;
use crate::vector::{ByteProduct, MAX_LANES, Simd, Task, Tile};

/// Words of a block of rows: a quarter of a second cache of 512 KiB.
const BLOCK_WORDS: usize = 32 * 1024;

/// A weight in float32, `[outputs, inputs]`, each side filled up with zeros to what the kernels need.
#[derive(Debug)]
pub struct Weight {
    /// Row by row.
    pub values: Vec<f32>,
    /// Rows: a multiple of [`MAX_LANES`].
    pub outputs: usize,
    /// Columns: a multiple of twice [`MAX_LANES`], so that they are whole words of any type.
    pub inputs: usize,
}

/// A linear layer: `input · weightᵀ + bias`, with sides that are filled up.
#[derive(Debug)]
pub struct Linear {
    panels: Panels,
    bias: Vec<f32>,
    quantized: Option<Quantized>,
}

/// What bytes need beside their products.
#[derive(Debug)]
struct Quantized {
    /// `[inputs]`: what inputs are multiplied by.
    smoothing: Vec<f32>,
    /// `[outputs]`: what one of a weight's bytes stands for.
    scales: Vec<f32>,
    /// `[outputs]`: the sum of each output's weights, times its scale.
    sums: Vec<f32>,
}

/// A weight's words, in the order in which they are read.
#[derive(Debug)]
struct Panels {
    /// Panels, one behind the other; of each `[words of a row, registers, lanes]`.
    words: Aligned,
    outputs: usize,
    /// Words of a row of inputs.
    depth: usize,
}

/// Rows that results are written to: those of one layer may be a part of wider ones.
#[derive(Debug)]
pub struct Rows<'place, E> {
    /// All rows.
    pub values: &'place mut [E],
    /// Values from one row to the next.
    pub stride: usize,
    /// Where in a row results begin.
    pub first: usize,
}

/// Places for the bytes of a block of rows.
#[derive(Debug, Default)]
pub struct Scratch {
    bytes: Aligned,
    scales: Vec<f32>,
    zeros: Vec<f32>,
}

impl Linear {
    /// Lays out a weight in the type of the activations.
    #[must_use]
    pub fn new<S: Simd, E: Element>(weight: &Weight, bias: Vec<f32>) -> Self {
        Self { panels: Panels::new::<S>(weight, E::IN_A_WORD, E::word), bias, quantized: None }
    }

    /// Lays out a weight in bytes. `reach` says how large each input may become, where that is known.
    #[must_use]
    pub fn quantized<S: Simd>(mut weight: Weight, bias: Vec<f32>, reach: Option<&[f32]>) -> Self {
        let inputs = weight.inputs;
        let mut smoothing = vec![1.0; inputs];
        if let Some(reach) = reach {
            // Half the trouble to the inputs, half to the weights: the root of how much larger one is than the other.
            let mut most = vec![1e-6_f32; inputs];
            for row in weight.values.chunks_exact(inputs) {
                most.iter_mut().zip(row).for_each(|(most, value)| *most = most.max(value.abs()));
            }
            let factors: Vec<f32> =
                reach.iter().zip(&most).map(|(reach, most)| (reach.max(1e-6) / most).sqrt()).collect();
            for row in weight.values.chunks_exact_mut(inputs) {
                row.iter_mut().zip(&factors).for_each(|(value, factor)| *value *= factor);
            }
            smoothing = factors.iter().map(|factor| 1.0 / factor).collect();
        }
        let mut scales = Vec::with_capacity(weight.outputs);
        let mut sums = Vec::with_capacity(weight.outputs);
        for row in weight.values.chunks_exact_mut(inputs) {
            let most = row.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
            let scale = if most > 0.0 { most / 127.0 } else { 1.0 };
            for value in row.iter_mut() {
                *value = round(*value / scale);
            }
            scales.push(scale);
            sums.push(row.iter().sum::<f32>() * scale);
        }
        let word = match S::BYTES {
            ByteProduct::Quads | ByteProduct::SignedQuads => quad,
            ByteProduct::Pairs => pair,
        };
        let panels = Panels::new::<S>(&weight, S::BYTES.in_a_word(), word);
        Self { panels, bias, quantized: Some(Quantized { smoothing, scales, sums }) }
    }

    /// Results in a row, with those that fill up.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.panels.outputs
    }

    /// The results for rows of inputs, with a function applied. There must be a multiple of the tile's rows.
    pub fn apply<S: Simd, E: Element>(
        &self,
        simd: S,
        input: &[E],
        activation: Activation,
        results: Rows<'_, E>,
        scratch: &mut Scratch,
    ) {
        simd.vectorize(Apply { layer: self, input, activation, results, scratch });
    }
}

/// A word of four weights, which are whole, from -127 to 127.
#[expect(clippy::cast_possible_truncation, reason = "they are whole, and small")]
fn quad(values: &[f32]) -> u32 {
    u32::from_le_bytes([0, 1, 2, 3].map(|place| (values[place] as i8).cast_unsigned()))
}

/// A word of two such weights.
#[expect(clippy::cast_possible_truncation, reason = "they are whole, and small")]
fn pair(values: &[f32]) -> u32 {
    let [low, high] = [values[0], values[1]].map(|value| u32::from((value as i16).cast_unsigned()));
    low | high << 16
}

impl Panels {
    /// `word` makes a word of the values that stand in one.
    fn new<S: Simd>(weight: &Weight, in_a_word: usize, word: impl Fn(&[f32]) -> u32) -> Self {
        let Weight { values, outputs, inputs } = weight;
        assert!(outputs.is_multiple_of(MAX_LANES) && inputs.is_multiple_of(2 * MAX_LANES), "sides are filled up");
        let depth = inputs / in_a_word;
        let width = S::TILE.registers() * S::LANES;
        let mut words = Aligned::default();
        let panels = words.take::<u32>(outputs * depth).chunks_mut(width * depth);
        for (panel, rows) in panels.zip(values.chunks(width * inputs)) {
            let lanes = rows.len() / inputs;
            for (lane, row) in rows.chunks_exact(*inputs).enumerate() {
                let places = panel[lane..].iter_mut().step_by(lanes);
                places.zip(row.chunks_exact(in_a_word)).for_each(|(place, values)| *place = word(values));
            }
        }
        Self { words, outputs: *outputs, depth }
    }
}

struct Apply<'call, E> {
    layer: &'call Linear,
    input: &'call [E],
    activation: Activation,
    results: Rows<'call, E>,
    scratch: &'call mut Scratch,
}

impl<E: Element> Task for Apply<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { layer, input, activation, results, scratch } = self;
        let depth = layer.panels.depth;
        let Some(quantized) = &layer.quantized else {
            let words: &[u32] = bytemuck::cast_slice(input);
            let block = block_rows::<S>(depth);
            for (words, values) in words.chunks(block * depth).zip(results.values.chunks_mut(block * results.stride)) {
                let finish = Float { bias: &layer.bias, activation };
                multiply::<S, E::Product, E, _>(simd, &layer.panels, words, Rows { values, ..results }, &finish);
            }
            return;
        };
        let inputs = quantized.smoothing.len();
        let block = block_rows::<S>(inputs);
        for (rows, values) in input.chunks(block * inputs).zip(results.values.chunks_mut(block * results.stride)) {
            quantize(simd, rows, &quantized.smoothing, scratch);
            let finish = Dequantize {
                layer: quantized,
                bias: &layer.bias,
                activation,
                scales: &scratch.scales,
                zeros: &scratch.zeros,
            };
            let words = &scratch.bytes.words()[..rows.len() / inputs * depth];
            multiply::<S, Bytes, E, _>(simd, &layer.panels, words, Rows { values, ..results }, &finish);
        }
    }
}

/// Rows of a block: a multiple of the tile's.
fn block_rows<S: Simd>(depth: usize) -> usize {
    let rows = S::TILE.rows();
    (BLOCK_WORDS / depth / rows).max(1) * rows
}

/// What becomes of sums.
trait Finish {
    /// Results for a register of sums: a row's, for outputs from this one on.
    fn finish<S: Simd, E: Element>(&self, simd: S, sum: S::Floats, row: usize, output: usize) -> S::Floats;
}

#[derive(Clone, Copy)]
struct Float<'layer> {
    bias: &'layer [f32],
    activation: Activation,
}

impl Finish for Float<'_> {
    #[inline(always)]
    fn finish<S: Simd, E: Element>(&self, simd: S, sum: S::Floats, _: usize, output: usize) -> S::Floats {
        activated::<S, E>(simd, self.activation, simd.add(sum, simd.load(&self.bias[output..])))
    }
}

#[derive(Clone, Copy)]
struct Dequantize<'block> {
    layer: &'block Quantized,
    bias: &'block [f32],
    activation: Activation,
    scales: &'block [f32],
    zeros: &'block [f32],
}

impl Finish for Dequantize<'_> {
    /// `(product · scale - zero · sum) · row's scale + bias`, then the function.
    #[inline(always)]
    fn finish<S: Simd, E: Element>(&self, simd: S, sum: S::Floats, row: usize, output: usize) -> S::Floats {
        let product = simd.mul(sum, simd.load(&self.layer.scales[output..]));
        let centred = simd.mul_add(simd.splat(self.zeros[row]), simd.load(&self.layer.sums[output..]), product);
        let value = simd.mul_add(centred, simd.splat(self.scales[row]), simd.load(&self.bias[output..]));
        activated::<S, E>(simd, self.activation, value)
    }
}

#[inline(always)]
fn activated<S: Simd, E: Element>(simd: S, activation: Activation, x: S::Floats) -> S::Floats {
    if E::IN_A_WORD == 2 { activate_bf16(simd, activation, x) } else { activate(simd, activation, x) }
}

#[inline(always)]
fn multiply<S: Simd, O: Operand, E: Element, F: Finish>(
    simd: S,
    panels: &Panels,
    input: &[u32],
    mut results: Rows<'_, E>,
    finish: &F,
) {
    let Panels { words, outputs, depth } = panels;
    let width = S::TILE.registers() * S::LANES;
    let rows = S::TILE.rows();
    for (panel, first) in words.words().chunks(width * depth).zip((0..*outputs).step_by(width)) {
        let registers = width.min(outputs - first) / S::LANES;
        for (number, left) in input.chunks_exact(rows * depth).enumerate() {
            let left = Table { words: left, stride: *depth };
            let right = Table { words: panel, stride: registers * S::LANES };
            let place = Place { row: number * rows, output: first };
            with_tile!(S::TILE, registers, tile::<S, O, E, F>(simd, left, right, *depth, &mut results, finish, place));
        }
    }
}

/// Which results a tile computes.
#[derive(Clone, Copy)]
struct Place {
    row: usize,
    output: usize,
}

#[inline(always)]
fn tile<S: Simd, O: Operand, E: Element, F: Finish, const ROWS: usize, const REGISTERS: usize>(
    simd: S,
    left: Table<'_>,
    right: Table<'_>,
    depth: usize,
    results: &mut Rows<'_, E>,
    finish: &F,
    place: Place,
) {
    let sums = product::<S, O, ROWS, REGISTERS>(simd, left, right, depth);
    for (row, sums) in (place.row..).zip(sums) {
        let results =
            &mut results.values[row * results.stride + results.first + place.output..][..REGISTERS * S::LANES];
        for (register, sum) in sums.into_iter().enumerate() {
            let value = finish.finish::<S, E>(simd, O::to_floats(simd, sum), row, place.output + register * S::LANES);
            E::store(simd, &mut results[register * S::LANES..], value);
        }
    }
}

/// Rows as bytes: `value · smoothing = (byte - zero) · scale`, with a scale and a zero point for each row. Zero points come with
/// the other sign, and less 128 where bytes are signed.
#[inline(always)]
fn quantize<S: Simd, E: Element>(simd: S, rows: &[E], smoothing: &[f32], scratch: &mut Scratch) {
    let width = smoothing.len();
    let count = rows.len() / width;
    scratch.scales.clear();
    scratch.zeros.clear();
    let Scratch { bytes, scales, zeros } = scratch;
    let (narrow, wide): (&mut [u8], &mut [i16]) = match S::BYTES {
        ByteProduct::Quads | ByteProduct::SignedQuads => (bytes.take(count * width), &mut []),
        ByteProduct::Pairs => (&mut [], bytes.take(count * width)),
    };
    for (row, values) in rows.chunks_exact(width).enumerate() {
        // Zero is always a byte, so that nothing becomes something.
        let (mut least, mut most) = (simd.splat(0.0), simd.splat(0.0));
        // Zero, or NaN where anything is no finite number: minimum and maximum would pass over it.
        let mut poison = simd.splat(0.0);
        for (values, smoothing) in values.chunks_exact(S::LANES).zip(smoothing.chunks_exact(S::LANES)) {
            let value = simd.mul(E::load(simd, values), simd.load(smoothing));
            least = simd.min(value, least);
            most = simd.max(value, most);
            poison = simd.mul_add(value, simd.splat(0.0), poison);
        }
        let (least, most) = (simd.reduce_min(least), simd.reduce_max(most));
        let step = if most > least { (most - least) / 255.0 } else { 1.0 };
        let zero = round(-least / step);
        let signed = if S::BYTES == ByteProduct::SignedQuads { 128.0 } else { 0.0 };
        zeros.push(signed - zero);
        scales.push(step + simd.reduce_add(poison));
        let (inverse, shift) = (simd.splat(1.0 / step), simd.splat(zero));
        let pairs = values.chunks_exact(S::LANES).zip(smoothing.chunks_exact(S::LANES));
        for ((values, smoothing), place) in pairs.zip((row * width..).step_by(S::LANES)) {
            let value = simd.mul(E::load(simd, values), simd.load(smoothing));
            // Rounded twice, and so to the same byte by every set.
            let whole = simd.round(simd.add(simd.mul(value, inverse), shift));
            let byte = simd.min(simd.splat(255.0), simd.max(simd.splat(0.0), whole));
            match S::BYTES {
                ByteProduct::Quads => simd.store_u8(&mut narrow[place..], byte),
                ByteProduct::SignedQuads => simd.store_i8(&mut narrow[place..], byte),
                ByteProduct::Pairs => simd.store_i16(&mut wide[place..], byte),
            }
        }
    }
}
