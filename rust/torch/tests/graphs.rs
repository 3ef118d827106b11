//! CUDA graphs on a CPU: a runtime library of the tests captures nothing, and runs a graph's kernels when it is
//! launched (`fake_cudart`).
//!
//! Only a GPU could show that torch's operators can be captured, and that a launch is faster.
#![cfg(target_os = "linux")]

mod fake_cudart;
mod flash;
mod models;

use std::ffi::{CStr, c_int};
use std::sync::Arc;

use fake_cudart::{
    CAPTURE_INVALIDATED, CAPTURE_UNSUPPORTED, FAKE, GRAPHS, GraphCall, ILLEGAL_ADDRESS, Mode, graph_leaks, last_error,
    launches, leaks, on_capture, set_mode, staging, warnings,
};
use flash::{KernelMode, assert_no_violations, register, take_any_type};
use models::{
    Sizes, batch, collect_from, largest_difference, min_cosine, other_draft, padded_rows, scaled_draft, submit_to,
    write,
};
use pullquote_core::encoder::cosine::cosines;
use pullquote_core::encoder::dtype::Dtype;
use pullquote_core::encoder::{Batch, Encoder, GraphState};
use pullquote_core::error::ErrorKind;
use pullquote_torch::cuda::device::CudaDevice;
use pullquote_torch::cuda::graphs::bucket;
use pullquote_torch::cuda::staging::RaggedShape;
use pullquote_torch::encoder::{LoadOptions, TorchEncoder};
use pullquote_torch::ffi::table::encoder_table;
use pullquote_torch::model::layout::{DeviceBatch, Ragged};
use pullquote_torch::model::network::{Network, copy_rows};
use pullquote_torch::model::varlen::Varlen;
use serde_json::json;
use tch::{Device, Kind, Tensor};

const SIZES: Sizes = Sizes { hidden: 32, intermediate: 48, heads: 2, longest: 128 };
const MAX_TOKENS: usize = 128;

/// Rows of these lengths: batches of three shapes, and one that fits none.
const SHAPES: [&[u32]; 4] = [&[7, 20, 1], &[5; 60], &[100; 25], &[1; 3000]];

/// Registers the kernel for one test, which computes on one thread.
fn set_up() -> std::sync::MutexGuard<'static, ()> {
    pullquote_torch::threads::use_one_thread();
    register()
}

/// A network without padding, and the same in float32.
fn networks() -> (Arc<Network>, Network) {
    let directory = write(&scaled_draft("bert", SIZES, "gelu"));
    let exact = models::network(&directory, Dtype::Float32, Kind::Float, Varlen::Off);
    (Arc::new(models::network(&directory, Dtype::Float16, Kind::Half, Varlen::Everywhere)), exact)
}

/// A device of the runtime; each test has other numbers.
fn start(index: usize, network: &Arc<Network>) -> CudaDevice {
    CudaDevice::start(&format!("cuda:{index}"), index, Arc::clone(network), &FAKE, Some(GRAPHS)).expect("it starts")
}

fn rows(device: &mut CudaDevice, ticket: u64, width: usize) -> Vec<Vec<f32>> {
    let mut rows = Vec::new();
    device
        .collect(ticket, |values| rows = values.chunks(width).map(<[f32]>::to_vec).collect())
        .expect("the batch is sound");
    rows
}

/// Encodes a batch, and checks its rows.
fn assert_works(device: &mut CudaDevice, seed: u64, lengths: &[u32], exact: &Network) {
    let batch = batch(seed, lengths);
    device.submit(seed, &batch);
    let cosine =
        min_cosine(&rows(device, seed, exact.dimension()), &padded_rows(exact, &batch).expect("they are numbers"));
    assert!(cosine > 0.99999, "{lengths:?}: {cosine}");
}

#[test]
fn padding_to_a_bucket_changes_no_row() {
    let _kernel = set_up();
    take_any_type();
    let mut families: Vec<models::Draft> =
        ["bert", "roberta", "xlm-roberta", "camembert"].map(|family| scaled_draft(family, SIZES, "gelu")).into();
    families.extend(["modernbert", "qwen3"].map(|family| {
        let mut draft = other_draft(family);
        draft.config["max_position_embeddings"] = json!(MAX_TOKENS);
        draft
    }));
    for mut draft in families {
        for pooling in ["mean", "cls", "max", "lasttoken", "mean_sqrt_len_tokens", "weightedmean"] {
            draft.pooling = pooling;
            let network = models::network(&write(&draft), Dtype::Float32, Kind::Float, Varlen::Off);
            let mut staging = staging();
            // The same memory for all batches of a shape, as a graph has it.
            let mut inputs: Vec<(RaggedShape, Tensor)> = Vec::new();
            for (seed, lengths) in (0..).zip([&[7, 20, 1], SHAPES[1], &[20, 19], &[13; 75], &[1], &[100, 3], &[9; 40]])
            {
                let batch = batch(seed, lengths);
                let shape = bucket(&batch, MAX_TOKENS, usize::MAX).expect("it fits");
                assert!(shape.tokens > batch.ids.len() && shape.rows > lengths.len(), "{shape:?}");
                if inputs.iter().all(|(known, _)| *known != shape) {
                    let values = i64::try_from(shape.values()).expect("few");
                    inputs.push((shape, Tensor::zeros([values], (Kind::Int, Device::Cpu))));
                }
                let (_, inputs) = inputs.iter().find(|(known, _)| *known == shape).expect("it was added");
                staging.upload_bucketed(&batch, shape, inputs).expect("torch has memory");
                let padded = encode(&network, shape.view(inputs).expect("torch has memory"), lengths.len());
                let own = encode(
                    &network,
                    staging.upload_ragged(&batch, Device::Cpu).expect("torch has memory"),
                    lengths.len(),
                );
                let difference = largest_difference(&padded, &own);
                let family = &draft.config["model_type"];
                assert!(difference < 1e-6, "{family} {pooling} {lengths:?}: {difference}");
            }
            assert!(inputs.len() >= 2, "several shapes, and several batches of one");
        }
    }
    assert_no_violations();
}

fn encode(network: &Network, batch: Ragged, count: usize) -> Vec<Vec<f32>> {
    let rows = tch::no_grad(|| network.encode_uploaded(&DeviceBatch::Ragged(batch))).expect("nothing fails");
    let mut values = Vec::new();
    // It refuses NaN.
    copy_rows(&rows.narrow(0, 0, i64::try_from(count).expect("few")), &mut values).expect("they are numbers");
    values.chunks(network.dimension()).map(<[f32]>::to_vec).collect()
}

#[test]
fn graphs_give_the_rows_of_batches_without() {
    let _kernel = set_up();
    let (network, exact) = networks();
    let mut device = start(10, &network);
    for round in 0..4 {
        for (shape, lengths) in (0..).zip(SHAPES) {
            assert_works(&mut device, round * 10 + shape, lengths, &exact);
        }
    }
    // Seen, captured with a launch to compare, and two replays; the last shape fits no graph.
    assert_eq!((device.replayed(), launches(10)), (2 * 3, 3 * 3));
    // Batches of one graph in flight at once: its inputs and output are the same memory for all.
    let batches: Vec<Batch> = (100..110).zip(1..).map(|(seed, tokens)| batch(seed, &[tokens; 30])).collect();
    for (ticket, batch) in (100..).zip(&batches) {
        device.submit(ticket, batch);
    }
    for (ticket, batch) in (100..).zip(&batches) {
        let found = rows(&mut device, ticket, exact.dimension());
        assert!(min_cosine(&found, &padded_rows(&exact, batch).expect("they are numbers")) > 0.99999);
    }
    assert!(device.replayed() > 6);
    assert_eq!((device.graph_error(), warnings("cuda:10"), last_error()), (None, vec![], 0));
    drop(device);
    assert_eq!((leaks(10), graph_leaks(10)), ((0, 0), (0, 0)));
    assert_no_violations();
}

#[test]
fn graphs_take_queries() {
    let _kernel = set_up();
    let (network, exact) = networks();
    let mut device = start(11, &network);
    for (seed, queries) in (0..).zip([0, 1, 2, 0, 3]) {
        let mut batch = batch(seed, &[7, 20, 1, 4]);
        let expected = padded_rows(&exact, &batch).expect("they are numbers");
        let query: Vec<f32> = expected[..queries].concat();
        let scores: Vec<Vec<f32>> = expected
            .iter()
            .map(|row| query.chunks(row.len()).flat_map(|query| cosines(query, row)).collect())
            .collect();
        batch.queries = query;
        device.submit(seed, &batch);
        let width = if queries == 0 { exact.dimension() } else { queries };
        let found = rows(&mut device, seed, width);
        let expected = if queries == 0 { &expected } else { &scores };
        assert!(largest_difference(&found, expected) < 1e-2, "{queries} queries");
    }
    assert_eq!((device.replayed(), device.graph_error()), (3, None));
}

/// An error, and what the device says of it.
const FAILURES: [(GraphCall, c_int, &str); 8] = [
    (GraphCall::CreateStream, CAPTURE_UNSUPPORTED, "not permitted"),
    (GraphCall::Memory, 1, "its own allocator"),
    (GraphCall::Begin, CAPTURE_UNSUPPORTED, "not permitted"),
    (GraphCall::Leave, 1, "the pool cannot be left"),
    (GraphCall::End, CAPTURE_INVALIDATED, "previous error during capture"),
    (GraphCall::Instantiate, fake_cudart::OUT_OF_MEMORY, "out of memory"),
    (GraphCall::Launch, fake_cudart::LAUNCH_OUT_OF_RESOURCES, "too many resources"),
    // Rows stay NaN.
    (GraphCall::Lost, 0, "differ"),
];

#[test]
fn an_error_in_a_capture_turns_graphs_off_and_costs_no_batch() {
    let _kernel = set_up();
    let (network, exact) = networks();
    for (index, (call, code, text)) in (20..).zip(FAILURES) {
        let mut device = start(index, &network);
        assert_works(&mut device, 0, SHAPES[0], &exact);
        set_mode(index, Mode::Graphs(call, code));
        assert_works(&mut device, 1, SHAPES[0], &exact);
        assert_off(&device, index, text);
        set_mode(index, Mode::Works);
        for seed in 2..6 {
            assert_works(&mut device, seed, SHAPES[0], &exact);
        }
        assert_eq!(device.replayed(), 0, "{call:?}: no graph is tried again");
        assert_off(&device, index, text);
        drop(device);
        assert_eq!((leaks(index), graph_leaks(index)), ((0, 0), (0, 0)), "{call:?}");
    }
    assert_no_violations();
}

/// There is one warning, with the reason.
fn assert_off(device: &CudaDevice, index: usize, text: &str) {
    let error = device.graph_error().map(CStr::to_string_lossy).expect("graphs are off");
    assert!(error.contains(text), "{error}");
    let warnings = warnings(&format!("cuda:{index}"));
    assert!(warnings.len() == 1 && warnings[0].contains(text), "{warnings:?}");
}

#[test]
fn a_kernel_that_fails_in_a_capture_turns_graphs_off() {
    let _kernel = set_up();
    let (network, exact) = networks();
    let mut device = start(30, &network);
    assert_works(&mut device, 0, SHAPES[0], &exact);
    on_capture(|| flash::set_mode(KernelMode::FailsOnce));
    assert_works(&mut device, 1, SHAPES[0], &exact);
    assert_off(&device, 30, "flash_attention_forward");
    assert_works(&mut device, 2, SHAPES[0], &exact);
    drop(device);
    assert_eq!((leaks(30), graph_leaks(30)), ((0, 0), (0, 0)));
}

#[test]
fn an_error_in_a_launch_turns_graphs_off_and_costs_no_batch() {
    let _kernel = set_up();
    let (network, exact) = networks();
    let mut device = start(31, &network);
    for seed in 0..4 {
        assert_works(&mut device, seed, SHAPES[0], &exact);
        assert_works(&mut device, 10 + seed, SHAPES[1], &exact);
    }
    assert_eq!(device.replayed(), 4);
    set_mode(31, Mode::Graphs(GraphCall::Launch, fake_cudart::LAUNCH_OUT_OF_RESOURCES));
    assert_works(&mut device, 20, SHAPES[1], &exact);
    assert_off(&device, 31, "too many resources");
    assert_eq!(graph_leaks(31), (0, 0), "the other graph is gone too");
    set_mode(31, Mode::Works);
    for seed in 30..33 {
        assert_works(&mut device, seed, SHAPES[0], &exact);
    }
    assert_eq!((device.replayed(), last_error()), (4, 0));
}

#[test]
fn an_error_that_breaks_the_gpu_in_a_launch_leaks_its_graphs() {
    let _kernel = set_up();
    let (network, exact) = networks();
    let (mut broken, mut healthy) = (start(32, &network), start(33, &network));
    for seed in 0..3 {
        assert_works(&mut broken, seed, SHAPES[0], &exact);
        assert_works(&mut healthy, seed, SHAPES[0], &exact);
    }
    set_mode(32, Mode::Sticky(ILLEGAL_ADDRESS));
    broken.submit(10, &batch(10, SHAPES[0]));
    let error = broken.collect(10, |_| {}).expect_err("the device is broken");
    assert!(error.kind() == ErrorKind::Device && error.message().contains("cuda:32 is lost"), "{error}");
    drop(broken);
    assert_eq!(graph_leaks(32), (1, 1), "its GPU may never be done with them");
    assert_works(&mut healthy, 10, SHAPES[0], &exact);
    assert_eq!(healthy.replayed(), 2);
    drop(healthy);
    assert_eq!(graph_leaks(33), (0, 0));
}

#[test]
fn graphs_in_use_are_leaked_when_their_device_hangs() {
    let _kernel = set_up();
    let (network, exact) = networks();
    let mut device = start(34, &network);
    for seed in 0..3 {
        assert_works(&mut device, seed, SHAPES[0], &exact);
    }
    set_mode(34, Mode::Hangs);
    device.submit(10, &batch(10, SHAPES[0]));
    drop(device);
    assert_eq!(graph_leaks(34), (1, 1), "the GPU may still come to them");
}

#[test]
fn padded_rows_have_no_graphs() {
    let _kernel = set_up();
    let directory = write(&scaled_draft("bert", SIZES, "gelu"));
    let network = Arc::new(models::network(&directory, Dtype::Float32, Kind::Float, Varlen::Off));
    let mut device = start(35, &network);
    for seed in 0..4 {
        assert_works(&mut device, seed, SHAPES[0], &network);
    }
    assert_eq!((device.replayed(), device.graph_error(), launches(35)), (0, None, 0));
    assert!(warnings("cuda:35").is_empty(), "nothing failed");
}

#[test]
fn encoder_reports_graphs() {
    let _kernel = set_up();
    let directory = write(&scaled_draft("bert", SIZES, "gelu"));
    let load = |graphs| {
        let options = LoadOptions { varlen: Varlen::Everywhere, graphs, ..LoadOptions::default() };
        fake_cudart::load(directory.path(), 1, "float16", options).expect("the model is sound")
    };
    let mut without = load(None);
    let mut with = load(Some(GRAPHS));
    let collected = |encoder: &mut TorchEncoder, seed| {
        let ticket = encoder.submit(0, &batch(seed, SHAPES[1])).expect("the batch is sound");
        let mut values = Vec::new();
        let graphs = encoder.collect(ticket, &mut |rows| values = rows.into_owned()).expect("it is sound").graphs;
        (values.chunks(encoder.spec().dimension).map(<[f32]>::to_vec).collect::<Vec<_>>(), graphs)
    };
    for seed in 0..4 {
        let (expected, none) = collected(&mut without, seed);
        assert_eq!(none, GraphState::default());
        let (rows, graphs) = collected(&mut with, seed);
        assert!(min_cosine(&rows, &expected) > 0.99999);
        assert_eq!(graphs, GraphState { replayed: seed.saturating_sub(1), error: None });
    }
    set_mode(0, Mode::Graphs(GraphCall::Launch, fake_cudart::LAUNCH_OUT_OF_RESOURCES));
    let (_, state) = collected(&mut with, 9);
    set_mode(0, Mode::Works);
    assert!(state.replayed == 2 && state.error.as_ref().is_some_and(|error| error.contains("too many")), "{state:?}");
    let table = encoder_table(with).expect("a spec can be written");
    let (code, number) = submit_to(&table, &batch(1, SHAPES[1]));
    assert_eq!(code, 0);
    let (code, _, report) = collect_from(&table, number);
    assert_eq!((code, report.graphs_replayed), (0, 2));
    // SAFETY: the text lives as long as the state, which nothing uses after its release.
    unsafe {
        let error = CStr::from_ptr(report.graphs_error).to_string_lossy().into_owned();
        (table.release)(table.state);
        assert_eq!(Some(error), state.error);
    }
}
