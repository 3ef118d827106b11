//! The encoder allocates nothing from batch to batch: counts all allocations of this process while workers compute
//! batches.
//!
//! If this fails, remove `.testing()`: `dhat-heap.json` then names the code that allocates.

mod models;

use std::collections::VecDeque;

use models::{Sizes, batch, load, sized_draft, write};
use pullquote_core::encoder::cpu_device::Compute;
use pullquote_core::encoder::dtype::Dtype;
use pullquote_core::encoder::{Batch, Encoder, Ticket};
use pullquote_cpu::instructions::InstructionSet;
use pullquote_cpu::network::Workspace;

#[global_allocator]
static COUNTED: dhat::Alloc = dhat::Alloc;

/// Batches in flight at once.
const DEPTH: usize = 3;

/// One length, several in order and out of order, and a row of one token.
fn batches() -> Vec<Batch> {
    let lengths = [&[64; 8][..], &[3, 9, 9, 30, 64], &[64, 3, 30, 9, 3, 64], &[1], &[5; 100]];
    lengths.iter().zip(0..).map(|(lengths, seed)| batch(seed, lengths)).collect()
}

/// The number of allocations, on any thread.
fn count(work: impl FnOnce()) -> u64 {
    let profiler = dhat::Profiler::builder().testing().build();
    work();
    let count = dhat::HeapStats::get().total_blocks;
    drop(profiler);
    count
}

/// Without Rust's harness, whose main thread allocates now and then while a test runs.
fn main() {
    let batches = batches();
    let directory = write(&sized_draft("bert", Sizes { hidden: 64, intermediate: 128, heads: 2, longest: 64 }));
    for set in InstructionSet::available() {
        for dtype in Dtype::ALL {
            let network = directory.network(dtype, set);
            let (mut workspace, mut rows) = (Workspace::default(), Vec::new());
            let mut encode_all = || {
                for batch in &batches {
                    network.compute(batch, &mut workspace, &mut rows).expect("the batch is sound");
                }
            };
            encode_all();
            assert_eq!(count(encode_all), 0, "{} {dtype:?}", set.name());
        }
    }

    let mut encoder = load(&directory, &["cpu"], Some(1));
    let mut in_flight: VecDeque<Ticket> = VecDeque::with_capacity(DEPTH);
    let mut sum = 0.0;
    let mut run = |batches: &[Batch], rounds: usize| {
        for batch in batches.iter().cycle().take(rounds * batches.len()) {
            if in_flight.len() == DEPTH {
                let ticket = in_flight.pop_front().expect("it has some");
                encoder.collect(ticket, &mut |values| sum += values[0].abs()).expect("the batch is sound");
            }
            in_flight.push_back(encoder.submit(0, batch).expect("the batch is sound"));
        }
        while let Some(ticket) = in_flight.pop_front() {
            encoder.collect(ticket, &mut |values| sum += values[0].abs()).expect("the batch is sound");
        }
    };
    // Warm-up: each slot and the worker grow to each batch.
    for batch in &batches {
        run(std::slice::from_ref(batch), 20);
    }
    let allocations = count(|| run(&batches, 50));
    assert_eq!(allocations, 0, "in {} batches", 50 * batches.len());
    assert!(sum > 0.0);
    println!("batches were encoded without allocating");
}
