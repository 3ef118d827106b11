//! Ragged batches, as for a GPU with variable-length attention, run on a CPU: torch's dispatcher calls a kernel of our
//! own ([`flash`]).
//!
//! Only a GPU could show what torch's own kernel does, and that nothing waits.
#![cfg(target_os = "linux")]

mod fake_cudart;
mod flash;
mod models;

use std::collections::HashSet;
use std::sync::Arc;

use fake_cudart::{FAKE, staging};
use flash::{KernelMode, assert_no_violations, calls, register, set_mode};
use models::{
    LONGEST, Sizes, VOCABULARY, batch, collect, draft, load, min_cosine, other_draft, padded_rows, scaled_draft, trace,
    write, write_small_files,
};
use pullquote_core::encoder::dtype::Dtype;
use pullquote_core::encoder::{Batch, Encoder, Ticket};
use pullquote_core::error::ErrorKind;
use pullquote_torch::cuda::device::CudaDevice;
use pullquote_torch::cuda::staging::{row_bucket, token_bucket};
use pullquote_torch::encoder::LoadOptions;
use pullquote_torch::model::layout::DeviceBatch;
use pullquote_torch::model::network::{Network, copy_rows};
use pullquote_torch::model::varlen::Varlen;
use serde_json::json;
use tch::{Device, Kind, Tensor};

const POOLINGS: [&str; 4] = ["mean", "cls", "max", "lasttoken"];
const FAMILIES: [&str; 4] = ["bert", "roberta", "xlm-roberta", "camembert"];
const HALF_PRECISION: [Dtype; 2] = [Dtype::Float16, Dtype::BFloat16];

/// Layers of every model here.
const LAYERS: usize = 2;

const SIZES: Sizes = Sizes { hidden: 32, intermediate: 48, heads: 2, longest: LONGEST };

/// Batches of many shapes: few and many rows, with and without padding tokens, with padding rows but no padding tokens.
fn lengths() -> Vec<Vec<u32>> {
    let mut all = vec![vec![1], vec![8; 5], vec![20, 1], vec![16; 16], vec![3; 33], vec![4, 4, 4, 4, 4, 4, 4, 2, 2]];
    for seed in 0..30_u32 {
        all.push((0..=seed % 23).map(|row| 1 + (seed * 7 + row * row * 5) % 20).collect());
    }
    all
}

/// Registers the kernel for one test, which computes on one thread.
fn set_up() -> std::sync::MutexGuard<'static, ()> {
    pullquote_torch::threads::use_one_thread();
    register()
}

fn network_of(family: &str, pooling: &'static str, dtype: Dtype, varlen: Varlen) -> Network {
    models::network(&write(&pooled_draft(family, pooling)), dtype, kind(dtype), varlen)
}

fn kind(dtype: Dtype) -> Kind {
    match dtype {
        Dtype::Float16 => Kind::Half,
        Dtype::BFloat16 => Kind::BFloat16,
        _ => Kind::Float,
    }
}

fn pooled_draft(family: &str, pooling: &'static str) -> models::Draft {
    let mut draft = scaled_draft(family, SIZES, "gelu");
    draft.pooling = pooling;
    draft
}

/// The cosine that rows in half precision reach with those in float32.
fn required_cosine(dtype: Dtype) -> f32 {
    if dtype == Dtype::Float16 { 0.99999 } else { 0.9995 }
}

#[test]
fn ragged_batches_have_few_shapes_and_little_padding() {
    for tokens in 1_usize..=65_536 {
        let filled = token_bucket(tokens);
        assert!(filled.is_multiple_of(16) && filled >= tokens, "{tokens} tokens in {filled}");
        assert!(filled - tokens <= (tokens / 16).max(15), "{tokens} tokens in {filled}");
    }
    assert_eq!((1..=65_536).map(token_bucket).collect::<HashSet<_>>().len(), 144);
    let mut staging = staging();
    for (seed, lengths) in (0..).zip(lengths()) {
        let batch = batch(seed, &lengths);
        // After a padded batch, in the same memory.
        staging.upload_padded(&batch, Device::Cpu, 20).expect("torch has memory");
        let uploaded = staging.upload_ragged(&batch, Device::Cpu).expect("torch has memory");
        let values = |tensor: &Tensor| Vec::<i32>::try_from(tensor).expect("they are int32");
        let tokens = batch.ids.len();
        let mut ids = batch.ids.clone();
        ids.resize(token_bucket(tokens), 0);
        assert_eq!(values(&uploaded.ids), ids);
        let ends = values(&uploaded.rows.cumulative_lengths);
        let found: Vec<u32> = ends.windows(2).map(|ends| (ends[1] - ends[0]).cast_unsigned()).collect();
        assert_eq!(found[..lengths.len()], lengths);
        let positions: Vec<i32> = found.iter().flat_map(|length| 0..length.cast_signed()).collect();
        assert_eq!(values(&uploaded.positions), positions);
        // Padding has rows of its own, none longer than the longest, and few of them.
        let longest = lengths.iter().copied().max().expect("there is a row");
        let padding = &found[lengths.len()..];
        assert!(padding.iter().all(|length| *length <= longest), "{found:?}");
        let rows = lengths.len() + (ids.len() - tokens).div_ceil(longest as usize);
        assert_eq!(found.len(), row_bucket(rows));
        assert_eq!((ends[0], i64::from(ends[ends.len() - 1])), (0, i64::try_from(ids.len()).expect("few")));
        assert_eq!(usize::try_from(uploaded.rows.tokens), Ok(ids.len()));
        assert_eq!(Some(uploaded.rows.longest), lengths.iter().max().map(|longest| i64::from(*longest)));
    }
}

#[test]
fn ragged_rows_are_padded_rows() {
    let _kernel = set_up();
    for (family, pooling) in FAMILIES.into_iter().flat_map(|family| POOLINGS.map(|pooling| (family, pooling))) {
        for dtype in HALF_PRECISION {
            let network = network_of(family, pooling, dtype, Varlen::Everywhere);
            assert!(network.is_varlen());
            let exact = network_of(family, pooling, Dtype::Float32, Varlen::Off);
            let mut staging = staging();
            for (seed, lengths) in (0..).zip(lengths()) {
                let batch = batch(seed, &lengths);
                let uploaded = staging.upload_ragged(&batch, Device::Cpu).expect("torch has memory");
                // Not through a device, which would pad the batch if this failed.
                let rows = tch::no_grad(|| network.encode_uploaded(&DeviceBatch::Ragged(uploaded)));
                let rows = rows.expect("nothing fails").narrow(0, 0, i64::try_from(lengths.len()).expect("few"));
                let mut values = Vec::new();
                copy_rows(&rows, &mut values).expect("they are numbers");
                let found: Vec<Vec<f32>> = values.chunks(network.dimension()).map(<[f32]>::to_vec).collect();
                let expected = padded_rows(&exact, &batch).expect("they are numbers");
                let cosine = min_cosine(&found, &expected);
                assert!(cosine > required_cosine(dtype), "{family} {pooling} {dtype:?} {lengths:?}: {cosine}");
            }
        }
    }
    assert_no_violations();
}

#[test]
fn other_families_run_without_padding() {
    let _kernel = set_up();
    // Windows and none; a window's reach is checked by itself.
    for (family, references) in [("modernbert", 2), ("qwen3", 1)] {
        let mut draft = other_draft(family);
        for pooling in ["mean", "lasttoken", "mean_sqrt_len_tokens", "weightedmean"] {
            draft.pooling = pooling;
            let directory = write(&draft);
            let exact = models::network(&directory, Dtype::Float32, Kind::Float, Varlen::Off);
            for dtype in HALF_PRECISION {
                calls();
                let network = models::network(&directory, dtype, kind(dtype), Varlen::Everywhere);
                assert_eq!((network.is_varlen(), calls()), (true, references), "{family}");
                let mut staging = staging();
                for (seed, lengths) in (0..).zip(lengths()) {
                    let batch = batch(seed, &lengths);
                    let uploaded =
                        DeviceBatch::Ragged(staging.upload_ragged(&batch, Device::Cpu).expect("torch has memory"));
                    let rows = tch::no_grad(|| network.encode_uploaded(&uploaded)).expect("nothing fails");
                    let mut values = Vec::new();
                    copy_rows(&rows.narrow(0, 0, i64::try_from(lengths.len()).expect("few")), &mut values)
                        .expect("they are numbers");
                    let found: Vec<Vec<f32>> = values.chunks(network.dimension()).map(<[f32]>::to_vec).collect();
                    let expected = padded_rows(&exact, &batch).expect("they are numbers");
                    let cosine = min_cosine(&found, &expected);
                    let required = if dtype == Dtype::Float16 { 0.9999 } else { 0.998 };
                    assert!(cosine > required, "{family} {pooling} {dtype:?} {lengths:?}: {cosine}");
                }
            }
        }
    }
    assert_no_violations();
}

#[test]
fn cuda_device_gives_the_rows_of_a_cpu_device_without_padding() {
    let _kernel = set_up();
    for (family, pooling) in [("bert", "mean"), ("xlm-roberta", "cls"), ("bert", "max"), ("roberta", "lasttoken")] {
        let directory = write(&pooled_draft(family, pooling));
        let mut cpu = load(&directory, &["cpu"], 1);
        for dtype in HALF_PRECISION {
            let options = LoadOptions { varlen: Varlen::Everywhere, ..LoadOptions::default() };
            let mut cuda = fake_cudart::load(directory.path(), 2, dtype.name(), options).expect("the model is sound");
            let batches: Vec<Batch> = (0..).zip(lengths()).map(|(seed, lengths)| batch(seed, &lengths)).collect();
            assert_eq!(calls(), 1 + 2 * 2 * LAYERS, "the reference, and two batches to warm up each device");
            assert!(cuda.spec().devices.iter().all(|device| !device.padded_rows));
            // Three in flight on each, collected in another order than they were submitted.
            for group in batches.chunks(6) {
                let submit = |(index, batch)| cuda.submit(index % 2, batch).expect("the batch is sound");
                let tickets: Vec<Ticket> = group.iter().enumerate().map(submit).collect();
                for (batch, ticket) in group.iter().zip(tickets).rev() {
                    let expected = models::encode(&mut cpu, batch);
                    let cosine = min_cosine(&collect(&mut cuda, ticket), &expected);
                    assert!(cosine > required_cosine(dtype), "{pooling} {dtype:?}: {cosine} for {:?}", batch.lengths);
                }
            }
            assert_eq!(calls(), LAYERS * batches.len(), "none was padded");
        }
    }
    assert_no_violations();
}

#[test]
fn a_batch_is_padded_where_varlen_attention_fails() {
    let _kernel = set_up();
    let network = Arc::new(network_of("bert", "mean", Dtype::Float16, Varlen::Everywhere));
    let exact = network_of("bert", "mean", Dtype::Float32, Varlen::Off);
    let mut cuda = CudaDevice::start("cpu:0", 0, Arc::clone(&network), &FAKE, None).expect("it starts");
    for (ticket, lengths) in (0..).zip(lengths()) {
        let mut batch = batch(ticket, &lengths);
        // Pairs of texts, whose second ones have a type of their own.
        if ticket % 2 == 0 {
            batch.seconds = lengths.iter().map(|length| length / 2).collect();
        }
        calls();
        let fails = ticket % 3 == 1;
        set_mode(if fails { KernelMode::FailsOnce } else { KernelMode::Right });
        cuda.submit(ticket, &batch);
        let mut rows = Vec::new();
        cuda.collect(ticket, |values| rows = values.chunks(network.dimension()).map(<[f32]>::to_vec).collect())
            .expect("the batch is sound");
        assert_eq!(calls(), if fails { 1 } else { LAYERS }, "the next batch is ragged again");
        let cosine = min_cosine(&rows, &padded_rows(&exact, &batch).expect("they are numbers"));
        assert!(cosine > required_cosine(Dtype::Float16), "{lengths:?}: {cosine}");
    }
    // If both attempts fail, the error is that of the padded one, which has a reason.
    set_mode(KernelMode::Fails);
    let outside = Batch::new(vec![i32::try_from(VOCABULARY).expect("it is small")], vec![1]);
    cuda.submit(1000, &outside);
    let error = cuda.collect(1000, |_| {}).expect_err("there is no such id");
    assert!(error.kind() == ErrorKind::Encoder && !error.message().contains("stderr"), "{error}");
    set_mode(KernelMode::Right);
    assert_no_violations();
}

#[test]
fn a_kernel_that_differs_from_the_reference_is_not_used() {
    let _kernel = set_up();
    for dtype in HALF_PRECISION {
        for mode in [
            KernelMode::Fails,
            KernelMode::DefaultScale,
            KernelMode::Causal,
            KernelMode::Joined,
            KernelMode::Late,
            KernelMode::OneBlock,
            KernelMode::Inexact,
            KernelMode::Nan,
        ] {
            set_mode(mode);
            calls();
            let network = network_of("bert", "mean", dtype, Varlen::Everywhere);
            assert_eq!((network.is_varlen(), calls()), (false, 1), "{mode:?}");
        }
        set_mode(KernelMode::Right);
        assert!(network_of("bert", "mean", dtype, Varlen::Everywhere).is_varlen());
        assert_eq!(calls(), 1);
    }
    assert_no_violations();
}

#[test]
fn varlen_is_tried_only_where_it_could_work() {
    let _kernel = set_up();
    calls();
    assert!(!network_of("bert", "mean", Dtype::Float32, Varlen::Everywhere).is_varlen());
    for varlen in [Varlen::Cuda, Varlen::Off] {
        assert!(!network_of("bert", "mean", Dtype::Float16, varlen).is_varlen(), "a CPU needs `Everywhere`");
    }
    let odd = write(&scaled_draft("bert", Sizes { hidden: 24, heads: 2, ..SIZES }, "gelu"));
    let network = models::network(&odd, Dtype::Float16, Kind::Half, Varlen::Everywhere);
    assert!(!network.is_varlen(), "the kernel takes no heads of 12 values");
    let mut module = draft("something-else");
    module.config["vocab_size"] = json!(30);
    let directory = write_small_files(&module);
    trace(false).save(directory.path().join("model.pt")).expect("a module can be saved");
    let network = models::network(&directory, Dtype::Float16, Kind::Half, Varlen::Everywhere);
    assert!(!network.is_varlen(), "a module takes padded batches");
    assert_eq!(calls(), 0);
}

#[test]
fn varlen_needs_no_memory_for_scores() {
    let _kernel = set_up();
    let padded = network_of("bert", "mean", Dtype::Float16, Varlen::Off);
    let ragged = network_of("bert", "mean", Dtype::Float16, Varlen::Everywhere);
    // 12 · 32 + 2 · 48 values, and for each of two heads two scores of each token, or a float32.
    assert_eq!(padded.bytes_per_token(512), Some(2 * (480 + 2 * 2 * 512)));
    assert_eq!(ragged.bytes_per_token(512), Some(2 * (480 + 2 * 2)));
}

/// In a process of its own, whose memory is limited.
#[test]
fn varlen_leaks_nothing_and_reports_out_of_memory() {
    const IN_OWN_PROCESS: &str = "PULLQUOTE_TEST_WITH_LITTLE_MEMORY";
    if std::env::var_os(IN_OWN_PROCESS).is_some() {
        return with_little_memory();
    }
    let name = "varlen_leaks_nothing_and_reports_out_of_memory";
    let test = std::env::current_exe().expect("it runs");
    let run =
        std::process::Command::new(test).args(["--exact", name]).env(IN_OWN_PROCESS, "1").output().expect("it starts");
    assert!(run.status.success(), "{}{}", String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
}

fn with_little_memory() {
    const SPARE: u64 = 24 << 20;
    let _kernel = set_up();
    set_mode(KernelMode::Heavy);
    let directory = write(&scaled_draft("bert", Sizes { longest: 600, ..SIZES }, "gelu"));
    let network = models::network(&directory, Dtype::Float16, Kind::Half, Varlen::Everywhere);
    let mut cuda = CudaDevice::start("cpu:0", 0, Arc::new(network), &FAKE, None).expect("it starts");
    let few = batch(1, &[80; 128]);
    let mut encode = |ticket: u64, batch: &Batch| {
        cuda.submit(ticket, batch);
        cuda.collect(ticket, |rows| assert_eq!(rows.len(), batch.lengths.len() * 32))
    };
    encode(0, &few).expect("there is memory");
    limit_memory(SPARE);
    // If these calls leaked their queries, keys and values, that would be 252 MB; each of the results 84 MB or more.
    for ticket in 1..=64 {
        encode(ticket, &few).expect("nothing leaks");
    }
    // 3,599 tokens, or 1.8 million with padding.
    let mut lengths = vec![1; 3000];
    lengths[7] = 600;
    set_mode(KernelMode::Fails);
    let error = encode(1000, &batch(2, &lengths)).expect_err("the padded batch does not fit");
    assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
    set_mode(KernelMode::Right);
    encode(1001, &batch(2, &lengths)).expect("without padding it fits");
    assert_no_violations();
}

/// Limits this process to this much more memory than it has.
fn limit_memory(spare: u64) {
    #[repr(C)]
    struct Limit {
        soft: u64,
        hard: u64,
    }
    unsafe extern "C" {
        fn setrlimit(resource: i32, limit: *const Limit) -> i32;
    }
    const ADDRESS_SPACE: i32 = 9;
    let sizes = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
    let pages: u64 = sizes.split(' ').next().and_then(|pages| pages.parse().ok()).expect("it is a number");
    let most = pages * 4096 + spare;
    // SAFETY: the limit is one as POSIX has it.
    assert_eq!(unsafe { setrlimit(ADDRESS_SPACE, &Limit { soft: most, hard: most }) }, 0);
}
