//! Tokens a second of one core, for each instruction set and type that this processor has.
//!
//!     cargo run --release -p pullquote-cpu --example encode -- MODEL_DIRECTORY [row length] [set…]

use std::time::Instant;

use pullquote_core::encoder::Batch;
use pullquote_core::encoder::dtype::Dtype;
use pullquote_core::encoder::model::Model;
use pullquote_cpu::instructions::InstructionSet;
use pullquote_cpu::network::{Network, Workspace};

/// Tokens of a batch.
const TOKENS: usize = 512;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory, rest @ ..] = &arguments[..] else { panic!("name a model's directory") };
    let length: usize = rest.first().map_or(64, |length| length.parse().expect("the length is a number"));
    let model = Model::read(directory).expect("the model is sound");
    let mut state = 1_u64;
    let ids: Vec<i32> = (0..TOKENS / length * length)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            i32::try_from(1000 + (state >> 33) % 28_000).expect("it is small")
        })
        .collect();
    let batch = Batch::new(ids, vec![u32::try_from(length).expect("it is small"); TOKENS / length]);
    let mut exact: Vec<f32> = Vec::new();
    for set in InstructionSet::available() {
        if rest.len() > 1 && !rest[1..].iter().any(|name| name == set.name()) {
            continue;
        }
        for dtype in [Dtype::Float32, Dtype::BFloat16, Dtype::Int8] {
            let began = Instant::now();
            let network = Network::load(&model, dtype, set).expect("the model is sound");
            let loading = began.elapsed();
            let (mut workspace, mut rows) = (Workspace::default(), Vec::new());
            network.encode(&batch, &mut workspace, &mut rows);
            if exact.is_empty() {
                exact.clone_from(&rows);
            }
            let dimension = network.dimension();
            let cosine = |(left, right): (&[f32], &[f32])| left.iter().zip(right).map(|(a, b)| a * b).sum::<f32>();
            let cosines = rows.chunks(dimension).zip(exact.chunks(dimension)).map(cosine);
            let least = cosines.fold(f32::INFINITY, f32::min);
            let mut best = f64::INFINITY;
            for _ in 0..5 {
                let (began, mut count) = (Instant::now(), 0.0);
                while began.elapsed().as_secs_f64() < 0.3 {
                    network.encode(&batch, &mut workspace, &mut rows);
                    count += 1.0;
                }
                best = best.min(began.elapsed().as_secs_f64() / count);
            }
            #[expect(clippy::cast_precision_loss, reason = "it is small")]
            let speed = batch.ids.len() as f64 / best;
            println!(
                "{:10} {:8} rows of {length}: {speed:8.0} tokens/s, loading {:4.0} ms, least cosine {least:.6}",
                set.name(),
                dtype.name(),
                loading.as_secs_f64() * 1e3,
            );
        }
    }
}
