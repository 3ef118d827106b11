//! Linear layers: rows times a weight that is packed into panels.
//!
//! A panel has the weights of as many outputs as a few registers hold, word after word. Rows are processed in blocks
//! that stay in the second cache while all panels pass. Within a block, a tile of rows and outputs is summed in
//! registers; the epilogue adds bias and activation before it is written.
//!
//! **int8.** Each output has its own scale, and each row of the input has its own scale and zero point. One scale for a
//! whole batch would cost a cosine of 0.05, and make a row's result depend on its neighbours. Inputs that come from a
//! layer norm are smoothed (<https://arxiv.org/abs/2211.10438>): channels that the norm makes large are divided by a
//! factor that their weights are multiplied by, so that they leave the other channels enough steps. Their bounds come
//! from the norm's own weights, so no samples are needed.
//!
//! AVX2 adds products of bytes by twos in int16, which is a fifth faster for a whole model than to widen the bytes
//! first. So that no sum is cut, inputs end at [`MAX_INPUT`] instead of 255, and an output's scale keeps every two
//! neighbouring weights within [`MAX_PAIR`] together. `bench/notes/int8.md` has the cosines. All sets multiply the same
//! integers.

use pullquote_core::encoder::model::Activation;

use crate::math::{activate, activate_bf16};
use crate::memory::AlignedBuffer;
use crate::product::{Element, Int8, Operand, WordMatrix, product, with_tile};
use crate::vector::portable::round;
use crate::vector::{ByteProduct, MAX_LANES, Simd, Task, Tile};

/// The largest input in int8.
pub const MAX_INPUT: f32 = 225.0;

/// The most that the sizes of two neighbouring weights in int8 add up to: times [`MAX_INPUT`] they fit in int16.
pub const MAX_PAIR: f32 = 145.0;

/// A weight in float32, `[outputs, inputs]`, each dimension padded with zeros.
#[derive(Debug)]
pub struct Weight {
    /// Row by row.
    pub values: Vec<f32>,
    /// A multiple of [`MAX_LANES`].
    pub outputs: usize,
    /// A multiple of twice [`MAX_LANES`], so that rows are whole words of any type.
    pub inputs: usize,
}

/// A linear layer: `input · weightᵀ + bias`, with padded dimensions.
#[derive(Debug)]
pub struct Linear {
    panels: Panels,
    bias: Vec<f32>,
    quantization: Option<Quantization>,
}

#[derive(Debug)]
struct Quantization {
    /// `[inputs]`: inputs are multiplied by this.
    smoothing: Vec<f32>,
    /// `[outputs]`: the value of one step of a weight.
    scales: Vec<f32>,
    /// `[outputs]`: the sum of each output's weights, times its scale.
    sums: Vec<f32>,
}

/// A weight's words, in the order in which they are read.
#[derive(Debug)]
struct Panels {
    /// Panel after panel, each `[words of a row, registers, lanes]`.
    words: AlignedBuffer,
    outputs: usize,
    /// Words of a row of inputs.
    depth: usize,
}

/// Where a layer writes its results, which may be a part of wider rows.
#[derive(Debug)]
pub struct OutputRows<'out, E> {
    /// All rows.
    pub values: &'out mut [E],
    /// Values from one row to the next.
    pub stride: usize,
    /// Where the results begin in a row.
    pub first: usize,
}

/// Buffers for the int8 values of a block of rows.
#[derive(Debug, Default)]
pub struct LinearScratch {
    bytes: AlignedBuffer,
    scales: Vec<f32>,
    zeros: Vec<f32>,
}

impl Linear {
    /// Packs a weight in the type of the activations.
    pub fn new<S: Simd, E: Element>(weight: &Weight, bias: Vec<f32>) -> Self {
        Self { panels: Panels::new::<S, E::Product>(weight, E::PER_WORD, E::word), bias, quantization: None }
    }

    /// Packs a weight in int8. `input_bounds` says how large each input may become, where that is known.
    pub fn quantized<S: Simd>(mut weight: Weight, bias: Vec<f32>, input_bounds: Option<&[f32]>) -> Self {
        let inputs = weight.inputs;
        let mut smoothing = vec![1.0; inputs];
        if let Some(bounds) = input_bounds {
            // The root of the ratio splits the loss evenly between inputs and weights. Their root mean square brings a
            // cosine nearer to that of float32 than their largest does.
            let mut squares = vec![0.0_f32; inputs];
            for row in weight.values.chunks_exact(inputs) {
                squares.iter_mut().zip(row).for_each(|(sum, value)| *sum += value * value);
            }
            #[expect(clippy::cast_precision_loss, reason = "layers are far narrower than float32 counts exactly")]
            let outputs = weight.outputs as f32;
            let ratio = |(input, sum): (&f32, &f32)| input.max(1e-6) / (sum / outputs).sqrt().max(1e-6);
            let factors: Vec<f32> = bounds.iter().zip(&squares).map(|pair| ratio(pair).sqrt()).collect();
            for row in weight.values.chunks_exact_mut(inputs) {
                row.iter_mut().zip(&factors).for_each(|(value, factor)| *value *= factor);
            }
            smoothing = factors.iter().map(|factor| 1.0 / factor).collect();
        }
        let mut scales = Vec::with_capacity(weight.outputs);
        let mut sums = Vec::with_capacity(weight.outputs);
        for row in weight.values.chunks_exact_mut(inputs) {
            let max = row.iter().fold(0.0_f32, |max, value| max.max(value.abs()));
            let pairs = row.chunks_exact(2).map(|pair| pair[0].abs() + pair[1].abs());
            // Rounding adds at most a half to each of both, and the sum is whole.
            let scale = pairs.fold(max / 127.0, |scale, pair| scale.max(pair / (MAX_PAIR - 0.6)));
            let scale = if max > 0.0 { scale } else { 1.0 };
            for value in row.iter_mut() {
                *value = round(*value / scale);
            }
            scales.push(scale);
            sums.push(row.iter().sum::<f32>() * scale);
        }
        let word = match S::BYTE_PRODUCT {
            ByteProduct::Quads | ByteProduct::SignedQuads => word_of_4,
            ByteProduct::Pairs => word_of_2,
        };
        let panels = Panels::new::<S, Int8>(&weight, S::BYTE_PRODUCT.per_word(), word);
        Self { panels, bias, quantization: Some(Quantization { smoothing, scales, sums }) }
    }

    /// Results in a row, with padding.
    pub fn outputs(&self) -> usize {
        self.panels.outputs
    }

    /// Applies the layer and an activation to rows, whose number is a multiple of the tile's rows.
    pub fn apply<S: Simd, E: Element>(
        &self,
        simd: S,
        input: &[E],
        activation: Activation,
        output: OutputRows<'_, E>,
        scratch: &mut LinearScratch,
    ) {
        simd.vectorize(Apply { layer: self, input, activation, output, scratch });
    }
}

/// A word of four weights, which are integers from -127 to 127.
#[expect(clippy::cast_possible_truncation, reason = "they are small integers")]
fn word_of_4(values: &[f32]) -> u32 {
    u32::from_le_bytes([0, 1, 2, 3].map(|index| (values[index] as i8).cast_unsigned()))
}

/// A word of two such weights.
#[expect(clippy::cast_possible_truncation, reason = "they are small integers")]
fn word_of_2(values: &[f32]) -> u32 {
    let [low, high] = [values[0], values[1]].map(|value| u32::from((value as i16).cast_unsigned()));
    low | high << 16
}

impl Panels {
    /// `word` makes one word of `per_word` values.
    fn new<S: Simd, O: Operand>(weight: &Weight, per_word: usize, word: impl Fn(&[f32]) -> u32) -> Self {
        let Weight { values, outputs, inputs } = weight;
        assert!(outputs.is_multiple_of(MAX_LANES) && inputs.is_multiple_of(2 * MAX_LANES), "dimensions are padded");
        let depth = inputs / per_word;
        let width = O::tile::<S>().registers() * S::LANES;
        let mut words = AlignedBuffer::default();
        let panels = words.slice_mut::<u32>(outputs * depth).chunks_mut(width * depth);
        for (panel, rows) in panels.zip(values.chunks(width * inputs)) {
            let lanes = rows.len() / inputs;
            for (lane, row) in rows.chunks_exact(*inputs).enumerate() {
                let slots = panel[lane..].iter_mut().step_by(lanes);
                slots.zip(row.chunks_exact(per_word)).for_each(|(slot, values)| *slot = word(values));
            }
        }
        Self { words, outputs: *outputs, depth }
    }
}

struct Apply<'call, E> {
    layer: &'call Linear,
    input: &'call [E],
    activation: Activation,
    output: OutputRows<'call, E>,
    scratch: &'call mut LinearScratch,
}

impl<E: Element> Task for Apply<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { layer, input, activation, output, scratch } = self;
        let depth = layer.panels.depth;
        let Some(quantization) = &layer.quantization else {
            let words: &[u32] = bytemuck::cast_slice(input);
            let block = block_rows::<S>(depth);
            for (words, values) in words.chunks(block * depth).zip(output.values.chunks_mut(block * output.stride)) {
                let epilogue = FloatEpilogue { bias: &layer.bias, activation };
                multiply::<S, E::Product, E, _>(simd, &layer.panels, words, OutputRows { values, ..output }, &epilogue);
            }
            return;
        };
        let inputs = quantization.smoothing.len();
        let block = block_rows::<S>(inputs);
        for (rows, values) in input.chunks(block * inputs).zip(output.values.chunks_mut(block * output.stride)) {
            quantize(simd, rows, &quantization.smoothing, scratch);
            let epilogue = Int8Epilogue {
                quantization,
                bias: &layer.bias,
                activation,
                scales: &scratch.scales,
                zeros: &scratch.zeros,
            };
            let words = &scratch.bytes.words()[..rows.len() / inputs * depth];
            multiply::<S, Int8, E, _>(simd, &layer.panels, words, OutputRows { values, ..output }, &epilogue);
        }
    }
}

/// Rows of a block: a multiple of the tile's.
fn block_rows<S: Simd>(depth: usize) -> usize {
    let rows = S::TILE.rows();
    (S::BLOCK_WORDS / depth / rows).max(1) * rows
}

/// Turns sums of products into results.
trait Epilogue {
    /// The results for a register of a row's sums, which begins at `output`.
    fn apply<S: Simd, E: Element>(&self, simd: S, sum: S::Floats, row: usize, output: usize) -> S::Floats;
}

#[derive(Clone, Copy)]
struct FloatEpilogue<'layer> {
    bias: &'layer [f32],
    activation: Activation,
}

impl Epilogue for FloatEpilogue<'_> {
    #[inline(always)]
    fn apply<S: Simd, E: Element>(&self, simd: S, sum: S::Floats, _: usize, output: usize) -> S::Floats {
        activate_for::<S, E>(simd, self.activation, simd.add(sum, simd.load(&self.bias[output..])))
    }
}

#[derive(Clone, Copy)]
struct Int8Epilogue<'block> {
    quantization: &'block Quantization,
    bias: &'block [f32],
    activation: Activation,
    scales: &'block [f32],
    zeros: &'block [f32],
}

impl Epilogue for Int8Epilogue<'_> {
    /// `activation((product · scale - zero · sum) · row's scale + bias)`
    #[inline(always)]
    fn apply<S: Simd, E: Element>(&self, simd: S, sum: S::Floats, row: usize, output: usize) -> S::Floats {
        let product = simd.mul(sum, simd.load(&self.quantization.scales[output..]));
        let centred = simd.mul_add(simd.splat(self.zeros[row]), simd.load(&self.quantization.sums[output..]), product);
        let value = simd.mul_add(centred, simd.splat(self.scales[row]), simd.load(&self.bias[output..]));
        activate_for::<S, E>(simd, self.activation, value)
    }
}

/// The activation as precise as the type of the results.
#[inline(always)]
fn activate_for<S: Simd, E: Element>(simd: S, activation: Activation, x: S::Floats) -> S::Floats {
    if E::PER_WORD == 2 { activate_bf16(simd, activation, x) } else { activate(simd, activation, x) }
}

#[inline(always)]
fn multiply<S: Simd, O: Operand, E: Element, P: Epilogue>(
    simd: S,
    panels: &Panels,
    input: &[u32],
    mut output: OutputRows<'_, E>,
    epilogue: &P,
) {
    let Panels { words, outputs, depth } = panels;
    let tile = O::tile::<S>();
    let (rows, width) = (tile.rows(), tile.registers() * S::LANES);
    for (panel, first) in words.words().chunks(width * depth).zip((0..*outputs).step_by(width)) {
        let registers = width.min(outputs - first) / S::LANES;
        for (number, left) in input.chunks_exact(rows * depth).enumerate() {
            let left = WordMatrix { words: left, stride: *depth };
            let right = WordMatrix { words: panel, stride: registers * S::LANES };
            let origin = TileOrigin { row: number * rows, output: first };
            with_tile!(
                tile,
                registers,
                multiply_tile::<S, O, E, P>(simd, left, right, *depth, &mut output, epilogue, origin)
            );
        }
    }
}

/// The first row and output of a tile.
#[derive(Clone, Copy)]
struct TileOrigin {
    row: usize,
    output: usize,
}

#[inline(always)]
fn multiply_tile<S: Simd, O: Operand, E: Element, P: Epilogue, const ROWS: usize, const REGISTERS: usize>(
    simd: S,
    left: WordMatrix<'_>,
    right: WordMatrix<'_>,
    depth: usize,
    output: &mut OutputRows<'_, E>,
    epilogue: &P,
    origin: TileOrigin,
) {
    let sums = product::<S, O, ROWS, REGISTERS>(simd, left, right, depth);
    for (row, sums) in (origin.row..).zip(sums) {
        let results = &mut output.values[row * output.stride + output.first + origin.output..][..REGISTERS * S::LANES];
        for (register, sum) in sums.into_iter().enumerate() {
            let first = origin.output + register * S::LANES;
            let value = epilogue.apply::<S, E>(simd, O::to_floats(simd, sum), row, first);
            E::store(simd, &mut results[register * S::LANES..], value);
        }
    }
}

/// Rows in int8: `value · smoothing = (byte - zero) · scale`, with a scale and a zero point for each row. `zeros` has
/// the zero points negated, plus 128 where bytes are signed.
#[inline(always)]
fn quantize<S: Simd, E: Element>(simd: S, rows: &[E], smoothing: &[f32], scratch: &mut LinearScratch) {
    let width = smoothing.len();
    let count = rows.len() / width;
    scratch.scales.clear();
    scratch.zeros.clear();
    let LinearScratch { bytes, scales, zeros } = scratch;
    let (quads, pairs): (&mut [u8], &mut [i16]) = match S::BYTE_PRODUCT {
        ByteProduct::Quads | ByteProduct::SignedQuads => (bytes.slice_mut(count * width), &mut []),
        ByteProduct::Pairs => (&mut [], bytes.slice_mut(count * width)),
    };
    for (row, values) in rows.chunks_exact(width).enumerate() {
        // The range includes zero, so that zero is exact.
        let (mut min, mut max) = (simd.splat(0.0), simd.splat(0.0));
        // Zero, or NaN where any value is not finite: minimum and maximum would drop it.
        let mut nan_or_zero = simd.splat(0.0);
        for (values, smoothing) in values.chunks_exact(S::LANES).zip(smoothing.chunks_exact(S::LANES)) {
            let value = simd.mul(E::load(simd, values), simd.load(smoothing));
            min = simd.min(value, min);
            max = simd.max(value, max);
            nan_or_zero = simd.mul_add(value, simd.splat(0.0), nan_or_zero);
        }
        let (min, max) = (simd.reduce_min(min), simd.reduce_max(max));
        let scale = if max > min { (max - min) / MAX_INPUT } else { 1.0 };
        let zero = round(-min / scale);
        let signed_offset = if S::BYTE_PRODUCT == ByteProduct::SignedQuads { 128.0 } else { 0.0 };
        zeros.push(signed_offset - zero);
        scales.push(scale + simd.reduce_add(nan_or_zero));
        let (inverse_scale, shift) = (simd.splat(1.0 / scale), simd.splat(zero));
        let registers = values.chunks_exact(S::LANES).zip(smoothing.chunks_exact(S::LANES));
        for ((values, smoothing), first) in registers.zip((row * width..).step_by(S::LANES)) {
            let value = simd.mul(E::load(simd, values), simd.load(smoothing));
            // Two roundings, without a fused one, give the same byte on every set.
            let integer = simd.round(simd.add(simd.mul(value, inverse_scale), shift));
            let byte = simd.min(simd.splat(MAX_INPUT), simd.max(simd.splat(0.0), integer));
            match S::BYTE_PRODUCT {
                ByteProduct::Quads => simd.store_u8(&mut quads[first..], byte),
                ByteProduct::SignedQuads => simd.store_i8(&mut quads[first..], byte),
                ByteProduct::Pairs => simd.store_i16(&mut pairs[first..], byte),
            }
        }
    }
}
