//! Billions of products a second of linear layers alone, for each instruction set that this processor has.
//!
//!     cargo run --release -p pullquote-cpu --example linear -- [set…]

use std::time::Instant;

use pullquote_core::encoder::model::Activation;
use pullquote_cpu::instructions::InstructionSet;
use pullquote_cpu::linear::{Linear, LinearScratch, OutputRows, Weight};
use pullquote_cpu::product::Element;
use pullquote_cpu::vector::{Bf16, Simd, Task};

/// Outputs and inputs of a small model's layers.
const SHAPES: [(usize, usize); 4] = [(1152, 384), (384, 384), (1536, 384), (384, 1536)];
/// Tokens of a batch.
const TOKENS: usize = 512;

fn main() {
    let names: Vec<String> = std::env::args().skip(1).collect();
    for set in InstructionSet::available() {
        if names.is_empty() || names.iter().any(|name| name == set.name()) {
            set.dispatch(Measure(set.name()));
        }
    }
}

struct Measure(&'static str);

impl Task for Measure {
    type Output = ();

    fn run<S: Simd>(self, simd: S) {
        for (outputs, inputs) in SHAPES {
            let weight = || Weight { values: numbers(outputs * inputs), outputs, inputs };
            let bias = || vec![0.0; outputs];
            let of_f32 = speed::<S, f32>(simd, &Linear::new::<S, f32>(&weight(), bias()), inputs);
            let quantized = Linear::quantized::<S>(weight(), bias(), None);
            let (of_bf16, of_int8) = if S::HAS_BF16 {
                let layer = Linear::new::<S, Bf16>(&weight(), bias());
                (speed::<S, Bf16>(simd, &layer, inputs), speed::<S, Bf16>(simd, &quantized, inputs))
            } else {
                (of_f32, speed::<S, f32>(simd, &quantized, inputs))
            };
            let name = self.0;
            println!(
                "{name:10} {outputs:5} x {inputs:4}  float32 {of_f32:6.1}  bfloat16 {of_bf16:6.1}  int8 {of_int8:6.1}"
            );
        }
    }
}

fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|place| f32::from(u8::try_from(place * 31 % 251).expect("it is small")) / 125.0 - 1.0).collect()
}

/// Billions of multiplications a second.
fn speed<S: Simd, E: Element>(simd: S, layer: &Linear, inputs: usize) -> f64 {
    let tokens = TOKENS.next_multiple_of(S::TILE.rows());
    let input: Vec<E> = numbers(tokens * inputs).into_iter().map(E::from_f32).collect();
    let mut results = vec![E::ZERO; tokens * layer.outputs()];
    let mut scratch = LinearScratch::default();
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        let (began, mut count) = (Instant::now(), 0.0);
        while began.elapsed().as_secs_f64() < 0.1 {
            let rows = OutputRows { values: &mut results, stride: layer.outputs(), first: 0 };
            layer.apply(simd, &input, Activation::Identity, rows, &mut scratch);
            count += 1.0;
        }
        best = best.min(began.elapsed().as_secs_f64() / count);
    }
    #[expect(clippy::cast_precision_loss, reason = "it is small")]
    let products = (tokens * inputs * layer.outputs()) as f64;
    products / best / 1e9
}
