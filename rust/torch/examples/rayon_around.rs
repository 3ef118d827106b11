//! A counterexample for `bench/gpu_memory.py`: what rayon's iterators around the encoder do to GPU memory.
//!
//! Any thread encodes any batch, so as many batches are on the device at once as there are threads, with blocks of every size in
//! torch's allocator. The product never does this: see `docs/decisions/0003-one-thread-owns-every-device.md`.
//!
//!     cargo run --release -p pullquote-torch --no-default-features --example rayon_around -- MODEL cuda:0|cpu REQUESTS
//!
//! Reads a line before each request, and writes one after it: the rows encoded so far.

#![allow(clippy::print_stdout, reason = "what it prints is its result")]

use std::error::Error;
use std::io::{Write, stdin, stdout};
use std::path::Path;

use pullquote_core::encoder::Batch;
use pullquote_core::encoder::dtype::Dtype;
use pullquote_core::encoder::model::Model;
use pullquote_torch::encoder::cuda_device_count;
use pullquote_torch::model::layout::PaddingBuffer;
use pullquote_torch::model::network::{Network, copy_rows};
use pullquote_torch::model::varlen::Varlen;
use rayon::prelude::*;
use tch::{Device, Kind};

const BATCH_TOKENS: usize = 16_384;

/// The lengths of a request's rows: few or thousands, short or long, by Knuth's generator.
fn lengths(state: &mut u64, longest: u64) -> Vec<u32> {
    let mut random = |below: u64| {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) % below
    };
    let doublings = random(11);
    let rows = 1 + random(1 << doublings);
    let most = 4 + random(longest - 4);
    (0..rows).map(|_| u32::try_from(4 + random(most)).unwrap_or(4)).map(|length| length.min(512)).collect()
}

fn batches(lengths: &[u32]) -> Vec<Batch> {
    let mut made: Vec<Batch> = Vec::new();
    for length in lengths {
        let ids = *length as usize;
        if made.last().is_none_or(|batch| batch.ids.len() + ids > BATCH_TOKENS) {
            made.push(Batch::default());
        }
        if let Some(batch) = made.last_mut() {
            batch.ids.extend((0..*length).map(|id| 1000 + i32::try_from(id).unwrap_or(0)));
            batch.lengths.push(*length);
        }
    }
    made
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, device, requests] = arguments.as_slice() else {
        return Err("expected: MODEL cuda:0|cpu REQUESTS".into());
    };
    let (device, dtype, kind) = match device.as_str() {
        "cpu" => (Device::Cpu, Dtype::Float32, Kind::Float),
        // Counting them loads torch's CUDA library, which the linker leaves out.
        _ if cuda_device_count() == 0 => return Err("torch finds no CUDA device".into()),
        _ => (Device::Cuda(0), Dtype::Float16, Kind::Half),
    };
    let model = Model::read(Path::new(model))?;
    let network = Network::load(&model, device, dtype, kind, Varlen::Cuda)?;
    let (mut state, mut rows) = (7, 0);
    for _ in 0..requests.parse()? {
        let mut line = String::new();
        stdin().read_line(&mut line)?;
        let lengths = lengths(&mut state, model.max_tokens as u64);
        let encoded: Result<Vec<usize>, String> = batches(&lengths)
            .par_iter()
            .map_init(
                || (PaddingBuffer::default(), Vec::new()),
                |(padding, values), batch| {
                    let encoded = network.encode(batch, padding).map_err(|error| error.to_string())?;
                    copy_rows(&encoded, values).map_err(|error| error.to_string())?;
                    Ok(batch.lengths.len())
                },
            )
            .collect();
        match encoded {
            Ok(encoded) => rows += encoded.iter().sum::<usize>(),
            Err(error) => println!("failed: {}", error.lines().next().unwrap_or_default()),
        }
        println!("{rows}");
        stdout().flush()?;
    }
    Ok(())
}
