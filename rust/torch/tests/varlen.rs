//! Batches without padding, as a graphics card with variable-length attention gets them, run on a CPU: torch's dispatcher calls
//! a kernel of our own ([`flash`]).
//!
//! What a card alone could show is not shown here: what torch's own kernel does, and that nothing is waited for.
#![cfg(target_os = "linux")]

mod flash;
mod models;

use std::collections::HashSet;
use std::sync::Arc;

use flash::{Manner, assert_no_complaints, behave, calls, register};
use models::{
    LONGEST, Sizes, VOCABULARY, batch, calm, collect, draft, least_cosine, load, padded_rows, trace, write,
    write_small_files,
};
use pullquote_core::encoder::dtype::Dtype;
use pullquote_core::encoder::{Batch, Encoder, Ticket};
use pullquote_core::error::ErrorKind;
use pullquote_torch::cuda::CudaDevice;
use pullquote_torch::encoder::TorchEncoder;
use pullquote_torch::layout::Sent;
use pullquote_torch::network::{Network, copy_rows};
use pullquote_torch::staging::{Staging, places, token_places};
use pullquote_torch::varlen::Varlen;
use serde_json::json;
use tch::{Device, Kind, Tensor};

const POOLINGS: [&str; 4] = ["mean", "cls", "max", "lasttoken"];
const FAMILIES: [&str; 4] = ["bert", "roberta", "xlm-roberta", "camembert"];
const NARROW: [Dtype; 2] = [Dtype::Float16, Dtype::BFloat16];

/// Layers of every model here.
const LAYERS: usize = 2;

const SIZES: Sizes = Sizes { hidden: 32, intermediate: 48, heads: 2, longest: LONGEST };

/// Batches of many shapes: few and many rows, tokens that fill up and none, rows that fill up behind tokens that do not.
fn lengths() -> Vec<Vec<u32>> {
    let mut all = vec![vec![1], vec![8; 5], vec![20, 1], vec![16; 16], vec![3; 33], vec![4, 4, 4, 4, 4, 4, 4, 2, 2]];
    for seed in 0..30_u32 {
        all.push((0..=seed % 23).map(|row| 1 + (seed * 7 + row * row * 5) % 20).collect());
    }
    all
}

/// The kernel is there, and this test computes on its own thread: several with several threads each would wait for each other.
fn begin() {
    register();
    pullquote_torch::threads::compute_alone();
}

fn network_of(family: &str, pooling: &'static str, dtype: Dtype, varlen: Varlen) -> Network {
    models::network(&write(&drafted(family, pooling)), dtype, kind(dtype), varlen)
}

fn kind(dtype: Dtype) -> Kind {
    match dtype {
        Dtype::Float16 => Kind::Half,
        Dtype::BFloat16 => Kind::BFloat16,
        _ => Kind::Float,
    }
}

fn drafted(family: &str, pooling: &'static str) -> models::Draft {
    let mut draft = calm(family, SIZES, "gelu");
    draft.pooling = pooling;
    draft
}

/// How close rows in a narrow type come to those in float32.
fn least(dtype: Dtype) -> f32 {
    if dtype == Dtype::Float16 { 0.99999 } else { 0.9995 }
}

#[test]
fn batches_have_few_shapes_and_waste_little() {
    for tokens in 1_usize..=16_384 {
        let filled = token_places(tokens);
        assert!(filled.is_multiple_of(16) && filled >= tokens, "{tokens} tokens in {filled}");
        assert!(filled - tokens <= (tokens / 16).max(15), "{tokens} tokens in {filled}");
    }
    assert_eq!((1..=16_384).map(token_places).collect::<HashSet<_>>().len(), 112);
    let mut staging = Staging::default();
    for (seed, lengths) in (0..).zip(lengths()) {
        let batch = batch(seed, &lengths);
        // Memory is used again, also behind a table.
        staging.send(&batch, Device::Cpu, 20).expect("torch has memory");
        let sent = staging.send_ragged(&batch, Device::Cpu).expect("torch has memory");
        let values = |tensor: &Tensor| Vec::<i32>::try_from(tensor).expect("they are int32");
        let tokens = batch.ids.len();
        let mut ids = batch.ids.clone();
        ids.resize(token_places(tokens), 0);
        assert_eq!(values(&sent.ids), ids);
        let mut positions: Vec<i32> = lengths.iter().flat_map(|length| 0..length.cast_signed()).collect();
        positions.resize(ids.len(), 0);
        assert_eq!(values(&sent.positions), positions);
        let ends = values(&sent.rows.cumulative_lengths);
        assert_eq!(ends.len(), places(lengths.len()) + 1);
        let found: Vec<u32> = ends.windows(2).map(|ends| (ends[1] - ends[0]).cast_unsigned()).collect();
        assert_eq!(found[..lengths.len()], lengths);
        assert!(found[lengths.len()..].iter().all(|length| *length == 0));
        assert_eq!((ends[0], i64::from(ends[ends.len() - 1])), (0, sent.rows.tokens));
        assert_eq!(Some(sent.rows.longest), lengths.iter().max().map(|longest| i64::from(*longest)));
    }
}

#[test]
fn rows_without_padding_are_rows_with_padding() {
    begin();
    for (family, pooling) in FAMILIES.into_iter().flat_map(|family| POOLINGS.map(|pooling| (family, pooling))) {
        for dtype in NARROW {
            let network = network_of(family, pooling, dtype, Varlen::Anywhere);
            assert!(network.is_varlen());
            let exact = network_of(family, pooling, Dtype::Float32, Varlen::Nowhere);
            let mut staging = Staging::default();
            for (seed, lengths) in (0..).zip(lengths()) {
                let batch = batch(seed, &lengths);
                let sent = staging.send_ragged(&batch, Device::Cpu).expect("torch has memory");
                // Not by a card, which would pad where this fails.
                let rows = tch::no_grad(|| network.encode_sent(&Sent::Ragged(sent)));
                let rows = rows.expect("nothing fails").narrow(0, 0, i64::try_from(lengths.len()).expect("few"));
                let mut values = Vec::new();
                copy_rows(&rows, &mut values).expect("they are numbers");
                let found: Vec<Vec<f32>> = values.chunks(network.dimension()).map(<[f32]>::to_vec).collect();
                let expected = padded_rows(&exact, &batch).expect("they are numbers");
                let cosine = least_cosine(&found, &expected);
                assert!(cosine > least(dtype), "{family} {pooling} {dtype:?} {lengths:?}: {cosine}");
            }
        }
    }
    assert_no_complaints();
}

#[test]
fn cards_without_padding_say_what_a_processor_says() {
    begin();
    for (family, pooling) in [("bert", "mean"), ("xlm-roberta", "cls"), ("bert", "max"), ("roberta", "lasttoken")] {
        let directory = write(&drafted(family, pooling));
        let mut processor = load(&directory, &["cpu"], 1);
        for dtype in NARROW {
            let cards = TorchEncoder::load_as_cards(directory.path(), 2, dtype.name(), Varlen::Anywhere);
            let mut cards = cards.expect("the model is sound");
            let batches: Vec<Batch> = (0..).zip(lengths()).map(|(seed, lengths)| batch(seed, &lengths)).collect();
            calls();
            // Three in flight on each, collected in another order than they were submitted.
            for group in batches.chunks(6) {
                let submit = |(index, batch)| cards.submit(index % 2, batch).expect("the batch is sound");
                let tickets: Vec<Ticket> = group.iter().enumerate().map(submit).collect();
                for (batch, ticket) in group.iter().zip(tickets).rev() {
                    let expected = models::encode(&mut processor, batch);
                    let cosine = least_cosine(&collect(&mut cards, ticket), &expected);
                    assert!(cosine > least(dtype), "{pooling} {dtype:?}: {cosine} for {:?}", batch.lengths);
                }
            }
            assert_eq!(calls(), LAYERS * batches.len(), "all went without padding");
        }
    }
    assert_no_complaints();
}

#[test]
fn where_attention_fails_the_batch_is_padded() {
    begin();
    let network = Arc::new(network_of("bert", "mean", Dtype::Float16, Varlen::Anywhere));
    let exact = network_of("bert", "mean", Dtype::Float32, Varlen::Nowhere);
    let mut card = CudaDevice::new(Arc::clone(&network), 20);
    for (ticket, lengths) in (0..).zip(lengths()) {
        let batch = batch(ticket, &lengths);
        calls();
        let fails = ticket % 3 == 1;
        behave(if fails { Manner::FailsOnce } else { Manner::Right });
        card.submit(ticket, &batch).expect("the batch is sound");
        assert_eq!(calls(), if fails { 1 } else { LAYERS }, "the next one goes without padding again");
        let mut rows = Vec::new();
        card.collect(ticket, |values| rows = values.chunks(network.dimension()).map(<[f32]>::to_vec).collect())
            .expect("the batch is sound");
        let cosine = least_cosine(&rows, &padded_rows(&exact, &batch).expect("they are numbers"));
        assert!(cosine > least(Dtype::Float16), "{lengths:?}: {cosine}");
    }
    // What fails both ways fails for the reason of the plain one, which torch tells.
    behave(Manner::Fails);
    let outside = Batch::new(vec![i32::try_from(VOCABULARY).expect("it is small")], vec![1]);
    let error = card.submit(1000, &outside).expect_err("there is no such id");
    assert!(error.kind() == ErrorKind::Encoder && !error.message().contains("stderr"), "{error}");
    behave(Manner::Right);
    assert_no_complaints();
}

#[test]
fn what_says_anything_else_is_not_used() {
    begin();
    for dtype in NARROW {
        for manner in [
            Manner::Fails,
            Manner::OwnScale,
            Manner::Causal,
            Manner::Joined,
            Manner::Late,
            Manner::OneBlock,
            Manner::Inexact,
            Manner::NoNumbers,
        ] {
            behave(manner);
            calls();
            let network = network_of("bert", "mean", dtype, Varlen::Anywhere);
            assert_eq!((network.is_varlen(), calls()), (false, 1), "{manner:?}");
        }
        behave(Manner::Right);
        assert!(network_of("bert", "mean", dtype, Varlen::Anywhere).is_varlen());
        assert_eq!(calls(), 1);
    }
    assert_no_complaints();
}

#[test]
fn it_is_tried_only_where_it_could_work() {
    begin();
    calls();
    assert!(!network_of("bert", "mean", Dtype::Float32, Varlen::Anywhere).is_varlen());
    for varlen in [Varlen::OnCards, Varlen::Nowhere] {
        assert!(!network_of("bert", "mean", Dtype::Float16, varlen).is_varlen(), "on a CPU a test must ask");
    }
    let odd = write(&calm("bert", Sizes { hidden: 24, heads: 2, ..SIZES }, "gelu"));
    let network = models::network(&odd, Dtype::Float16, Kind::Half, Varlen::Anywhere);
    assert!(!network.is_varlen(), "heads of 12 values are not for it");
    let mut module = draft("something-else");
    module.config["vocab_size"] = json!(30);
    let directory = write_small_files(&module);
    trace(false).save(directory.path().join("model.pt")).expect("a module can be saved");
    let network = models::network(&directory, Dtype::Float16, Kind::Half, Varlen::Anywhere);
    assert!(!network.is_varlen(), "a module takes tables");
    assert_eq!(calls(), 0);
}

#[test]
fn it_needs_no_memory_for_scores() {
    begin();
    let padded = network_of("bert", "mean", Dtype::Float16, Varlen::Nowhere);
    let ragged = network_of("bert", "mean", Dtype::Float16, Varlen::Anywhere);
    // 12 · 32 + 2 · 48 values, and for each of two heads two scores of each token, or a float32.
    assert_eq!(padded.bytes_per_token(512), Some(2 * (480 + 2 * 2 * 512)));
    assert_eq!(ragged.bytes_per_token(512), Some(2 * (480 + 2 * 2)));
}

/// The limit on this process's memory, which is why it is one of its own.
#[test]
fn memory_is_given_back_and_its_lack_is_told() {
    const ALONE: &str = "PULLQUOTE_TEST_WITH_LITTLE_MEMORY";
    if std::env::var_os(ALONE).is_some() {
        return with_little_memory();
    }
    let name = "memory_is_given_back_and_its_lack_is_told";
    let test = std::env::current_exe().expect("it runs");
    let run = std::process::Command::new(test).args(["--exact", name]).env(ALONE, "1").output().expect("it starts");
    assert!(run.status.success(), "{}{}", String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
}

fn with_little_memory() {
    const SPARE: u64 = 24 << 20;
    begin();
    behave(Manner::Heavy);
    let directory = write(&calm("bert", Sizes { longest: 600, ..SIZES }, "gelu"));
    let network = models::network(&directory, Dtype::Float16, Kind::Half, Varlen::Anywhere);
    let mut card = CudaDevice::new(Arc::new(network), 600);
    let few = batch(1, &[80; 128]);
    let mut encode = |ticket: u64, batch: &Batch| {
        card.submit(ticket, batch)?;
        card.collect(ticket, |rows| assert_eq!(rows.len(), batch.lengths.len() * 32))
    };
    encode(0, &few).expect("there is memory");
    limit_memory(SPARE);
    // Of these calls the queries, keys and values alone would take 252 MB, each of the results 84 MB or more.
    for ticket in 1..=64 {
        encode(ticket, &few).expect("nothing is kept");
    }
    // 3,599 tokens, or a table of 1.8 million places.
    let mut lengths = vec![1; 3000];
    lengths[7] = 600;
    behave(Manner::Fails);
    let error = encode(1000, &batch(2, &lengths)).expect_err("a table does not fit");
    assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
    behave(Manner::Right);
    encode(1001, &batch(2, &lengths)).expect("without padding it fits");
    assert_no_complaints();
}

/// Lets this process have so much memory more than it has.
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
