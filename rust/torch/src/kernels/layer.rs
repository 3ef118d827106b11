//! Linear layers: rows times a weight that was laid out in panels, a panel at a time.
//!
//! A panel is what 48 outputs need, word after word: three registers for each word of a row. Eight rows by three registers
//! of sums, three of the panel and one of the row are 28 of the 32 registers, and 24 products for eleven loads. A panel of
//! 384 inputs in bfloat16 is 37 KB; it comes from the second cache once for every eight rows, which the processor hides.

use std::arch::x86_64::{__m512, _MM_HINT_T1, _mm_prefetch, _mm512_add_ps};

use super::lanes::{Element, LANES, gelu, gelu_narrow, gelu_tanh, load, relu, store};
use super::product::{Words, in_a_word, product};
use crate::operators::Fused;

/// Rows that are multiplied at once.
const ROWS: usize = 8;
/// Registers of outputs that are multiplied at once.
const REGISTERS: usize = 3;

/// A register's worth of words where a register is loaded fastest.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line(#[expect(dead_code, reason = "read as memory only")] [u32; LANES]);

/// A layer's numbers, laid out.
#[derive(Debug)]
pub struct Layer {
    /// Panels, one behind the other; of each `[words of a row, registers]`.
    lines: Vec<Line>,
    bias: Vec<f32>,
    /// Words of a row of inputs.
    depth: usize,
}

impl Layer {
    /// Lays out a weight `[outputs, inputs]`. Outputs must fill registers, and inputs words.
    pub fn new<E: Element>(weight: &[E], bias: &[f32]) -> Self {
        let (outputs, words) = (bias.len(), weight.len() / in_a_word::<E>());
        let depth = words / outputs.max(1);
        assert!(outputs.is_multiple_of(LANES), "the sizes were checked");
        // SAFETY: so many words are there, and any bits are one; a copy is made at once because of the address.
        let word = |place: usize| unsafe { weight.as_ptr().cast::<u32>().add(place).read_unaligned() };
        let mut lines = Vec::with_capacity(words / LANES);
        for panel in (0..outputs).step_by(REGISTERS * LANES) {
            let registers = REGISTERS.min((outputs - panel) / LANES);
            for step in 0..depth {
                let line = |register: usize| {
                    let first = panel + register * LANES;
                    Line(std::array::from_fn(|lane| word((first + lane) * depth + step)))
                };
                lines.extend((0..registers).map(line));
            }
        }
        Self { lines, bias: bias.to_vec(), depth }
    }

    /// Results in a row.
    pub fn outputs(&self) -> usize {
        self.bias.len()
    }

    /// Values in a row of inputs.
    pub fn inputs<E: Element>(&self) -> usize {
        self.depth * in_a_word::<E>()
    }
}

/// `rows · weightᵀ + bias`, then the function, from `[rows, inputs]` to `[rows, outputs]`, of the type the layer was laid
/// out for.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
pub fn apply<E: Element>(layer: &Layer, rows: &[E], results: &mut [E], fused: Fused) {
    // One loop for each function, so that none is chosen within.
    match fused {
        Fused::Nothing => apply_with(layer, rows, results, |x| x),
        Fused::Gelu if E::NARROW => apply_with(layer, rows, results, |x| gelu_narrow(x)),
        Fused::Gelu => apply_with(layer, rows, results, |x| gelu(x)),
        Fused::GeluTanh => apply_with(layer, rows, results, |x| gelu_tanh(x)),
        Fused::Relu => apply_with(layer, rows, results, |x| relu(x)),
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
fn apply_with<E: Element>(layer: &Layer, rows: &[E], results: &mut [E], function: impl Fn(__m512) -> __m512 + Copy) {
    let outputs = layer.outputs();
    let mut lines = layer.lines.as_slice();
    for first in (0..outputs).step_by(REGISTERS * LANES) {
        let registers = REGISTERS.min((outputs - first) / LANES);
        let (panel, rest) = lines.split_at(registers * layer.depth);
        lines = rest;
        let next = &rest[..rest.len().min(panel.len())];
        let panel = Panel { lines: panel, next, bias: &layer.bias[first..], first, outputs, depth: layer.depth };
        match registers {
            REGISTERS => panel.multiply::<E, REGISTERS>(rows, results, function),
            2 => panel.multiply::<E, 2>(rows, results, function),
            _ => panel.multiply::<E, 1>(rows, results, function),
        }
    }
}

/// Asks for lines that will be needed: from the third cache or memory the first rows would wait for each panel.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
fn fetch(lines: &[Line]) {
    for line in lines {
        _mm_prefetch::<_MM_HINT_T1>(std::ptr::from_ref(line).cast());
    }
}

/// Some outputs of a layer.
struct Panel<'layer> {
    lines: &'layer [Line],
    /// What comes after it.
    next: &'layer [Line],
    bias: &'layer [f32],
    /// The first of its outputs.
    first: usize,
    outputs: usize,
    depth: usize,
}

impl Panel<'_> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
    fn multiply<E: Element, const N: usize>(
        &self,
        rows: &[E],
        results: &mut [E],
        function: impl Fn(__m512) -> __m512 + Copy,
    ) {
        let inputs = self.depth * in_a_word::<E>();
        let mut rows = rows.chunks_exact(ROWS * inputs);
        let mut results = results.chunks_exact_mut(ROWS * self.outputs);
        let share = self.next.len().div_ceil(rows.len().max(1)).max(1);
        let mut shares = self.next.chunks(share);
        for (rows, results) in rows.by_ref().zip(results.by_ref()) {
            fetch(shares.next().unwrap_or_default());
            self.multiply_rows::<E, ROWS, N>(rows, results, function);
        }
        let rest = results.into_remainder().chunks_exact_mut(self.outputs);
        for (row, results) in rows.remainder().chunks_exact(inputs).zip(rest) {
            self.multiply_rows::<E, 1, N>(row, results, function);
        }
    }

    /// `R` rows, which are all there are.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
    fn multiply_rows<E: Element, const R: usize, const N: usize>(
        &self,
        rows: &[E],
        results: &mut [E],
        function: impl Fn(__m512) -> __m512,
    ) {
        assert!(rows.len() == R * self.depth * in_a_word::<E>() && self.lines.len() == N * self.depth);
        let left = Words { place: rows.as_ptr().cast(), stride: self.depth };
        let right = Words { place: self.lines.as_ptr().cast(), stride: N * LANES };
        // SAFETY: there are R rows of `depth` words, and `depth` times N lines of sixteen words.
        let sums = unsafe { product::<E, R, N>(left, right, self.depth) };
        let bias = self.bias.as_chunks::<LANES>().0;
        for (sums, results) in sums.iter().zip(results.chunks_exact_mut(self.outputs)) {
            let places = results[self.first..].as_chunks_mut::<LANES>().0;
            for ((sum, bias), place) in sums.iter().zip(bias).zip(places) {
                store(place, function(_mm512_add_ps(*sum, load(bias))));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Layer, apply};
    use crate::operators::Fused;

    /// Whole numbers, of which sums are exact in any order.
    fn numbers(count: usize, seed: usize) -> Vec<f32> {
        (0..count).map(|place| f32::from(i8::try_from((place * 31 + seed) % 15).expect("it is small") - 7)).collect()
    }

    #[test]
    fn any_number_of_rows_and_registers_is_multiplied() {
        if !is_x86_feature_detected!("avx512bf16") || !is_x86_feature_detected!("avx512vl") {
            return;
        }
        for (inputs, outputs) in [(16, 16), (48, 32), (16, 48), (80, 64), (32, 80), (16, 192)] {
            let (weight, bias) = (numbers(inputs * outputs, 3), numbers(outputs, 5));
            let layer = Layer::new(&weight, &bias);
            for count in [0, 1, 7, 8, 9, 16, 23] {
                let rows = numbers(count * inputs, count);
                let mut results = vec![f32::NAN; count * outputs];
                // SAFETY: processors with AVX-512 BF16 and VL have the others.
                unsafe { apply(&layer, &rows, &mut results, Fused::Relu) };
                for (row, results) in rows.chunks_exact(inputs).zip(results.chunks_exact(outputs)) {
                    for ((weight, bias), result) in weight.chunks_exact(inputs).zip(&bias).zip(results) {
                        let sum: f32 = row.iter().zip(weight).map(|(value, weight)| value * weight).sum();
                        assert_eq!((sum + bias).max(0.0).to_bits(), result.to_bits(), "{inputs} {outputs} {count}");
                    }
                }
            }
        }
    }
}
