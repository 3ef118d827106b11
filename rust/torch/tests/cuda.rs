//! The code for GPUs, run on a CPU: padded shapes, reused staging, scores.
//!
//! Only a GPU could show that copies overlap with our code, and that nothing waits for them.

mod fake_cudart;
mod models;

use std::collections::HashSet;
use std::sync::Arc;

use fake_cudart::{FAKE, staging};
use models::{
    LONGEST, batch, collect, collect_from, collect_values, draft, encode, largest_difference, load, network,
    padded_rows, submit_to, write,
};
use pullquote_core::encoder::cosine::cosines;
use pullquote_core::encoder::dtype::Dtype;
use pullquote_core::encoder::{Batch, Encoder, Output, Ticket};
use pullquote_core::error::ErrorKind;
use pullquote_torch::cuda::device::CudaDevice;
use pullquote_torch::cuda::staging::row_bucket;
use pullquote_torch::encoder::LoadOptions;
use pullquote_torch::ffi::table::encoder_table;
use pullquote_torch::model::varlen::Varlen;
use tch::{Device, Kind};

/// Batches of many shapes; rows of one up to the longest, few and many.
fn lengths() -> Vec<Vec<u32>> {
    let mut all = vec![vec![1], vec![8; 5], vec![20, 1], vec![7; 9], (1..=20).collect(), vec![16; 16], vec![3; 33]];
    for seed in 0..40_u32 {
        all.push((0..=seed % 23).map(|row| 1 + (seed * 7 + row * row * 5) % 20).collect());
    }
    all
}

#[test]
fn cuda_device_gives_the_rows_of_a_cpu_device() {
    for (family, pooling) in [("bert", "mean"), ("bert", "cls"), ("xlm-roberta", "max"), ("bert", "lasttoken")] {
        let mut made = draft(family);
        made.pooling = pooling;
        let directory = write(&made);
        let mut cpu = load(&directory, &["cpu"], 1);
        let mut cuda =
            fake_cudart::load(directory.path(), 2, "float32", LoadOptions::default()).expect("the model is sound");
        assert!(!cuda.capabilities().notifies);
        let batches: Vec<_> = (0..).zip(lengths()).map(|(seed, lengths)| batch(seed, &lengths)).collect();
        // Three in flight on each, collected in another order than they were submitted.
        for group in batches.chunks(6) {
            let submit = |(index, batch)| cuda.submit(index % 2, batch).expect("the batch is sound");
            let tickets: Vec<Ticket> = group.iter().enumerate().map(submit).collect();
            for (batch, ticket) in group.iter().zip(tickets).rev() {
                let difference = largest_difference(&encode(&mut cpu, batch), &collect(&mut cuda, ticket));
                assert!(difference < 1e-5, "{pooling}: {difference} for {:?}", batch.lengths);
            }
        }
        let unknown =
            cuda.collect(Ticket { device: 0, number: 10_000 }, &mut |_| {}).expect_err("there is no such batch");
        assert_eq!(unknown.kind(), ErrorKind::Internal);
    }
}

#[test]
fn padded_batches_have_few_shapes_and_little_padding() {
    for rows in 1_usize..5000 {
        assert!((rows..=rows + rows.div_ceil(4)).contains(&row_bucket(rows)), "{rows} rows in {}", row_bucket(rows));
    }
    assert_eq!((1..5000).map(row_bucket).collect::<HashSet<_>>().len(), 45);
    let mut staging = staging();
    for (seed, lengths) in (0..).zip(lengths()) {
        let batch = batch(seed, &lengths);
        let longest = usize::try_from(LONGEST).expect("it is small");
        let padded = staging.upload_padded(&batch, Device::Cpu, longest).expect("torch has memory");
        let size = padded.ids.size();
        let most = i64::from(*lengths.iter().max().expect("there is a row"));
        assert_eq!(size[0], i64::try_from(row_bucket(lengths.len())).expect("few"));
        assert!(size[1] >= most && size[1] < most + 8 && (size[1] % 8 == 0 || size[1] == LONGEST), "{size:?}");
        let mut start = 0;
        for (row, length) in (0..).zip(&lengths) {
            let own = padded.ids.get(row);
            let ids: Vec<i32> = Vec::try_from(&own).expect("they are int32");
            let length = *length as usize;
            assert_eq!(ids[..length], batch.ids[start..start + length]);
            assert!(ids[length..].iter().all(|id| *id == 0));
            let mask: Vec<bool> = match &padded.mask {
                Some(mask) => Vec::try_from(&mask.get(row)).expect("they are booleans"),
                None => vec![true; ids.len()],
            };
            assert_eq!(mask.iter().filter(|one| **one).count(), length);
            assert!(mask[..length].iter().all(|one| *one));
            start += length;
        }
    }
}

#[test]
fn staging_is_reused() {
    let directory = write(&draft("bert"));
    let network = Arc::new(network(&directory, Dtype::Float32, Kind::Float, Varlen::Cuda));
    let mut cuda = CudaDevice::start("cpu:0", 0, Arc::clone(&network), &FAKE, None).expect("it starts");
    let mut before = None;
    for (ticket, lengths) in (0..).zip(lengths().into_iter().cycle().take(200)) {
        let batch = batch(ticket, &lengths);
        cuda.submit(ticket, &batch);
        // The previous batch, whose staging the next one writes to.
        if let Some((ticket, batch)) = before.replace((ticket, batch)) {
            let mut rows = Vec::new();
            cuda.collect(ticket, |values| rows = values.chunks(network.dimension()).map(<[f32]>::to_vec).collect())
                .expect("the batch is sound");
            assert!(largest_difference(&padded_rows(&network, &batch).expect("they are numbers"), &rows) < 1e-5);
        }
    }
    assert!(cuda.slot_count() <= 2, "{} for two batches in flight", cuda.slot_count());
}

#[test]
fn profile_times_each_stage() {
    let directory = write(&draft("bert"));
    for synchronizes in [false, true] {
        let options = LoadOptions { synchronizes, ..LoadOptions::default() };
        let mut cuda = fake_cudart::load(directory.path(), 1, "float32", options).expect("the model is sound");
        let ticket = cuda.submit(0, &batch(1, &[20; 16])).expect("the batch is sound");
        let times = cuda.collect(ticket, &mut |_| {}).expect("the batch is sound").times;
        assert!(times.copied_in > 0 && times.launched > 0 && times.computed > 0 && times.copied_out > 0, "{times:?}");
    }
}

#[test]
fn rows_that_are_not_finite_spoil_no_other_row() {
    let made = draft("bert");
    let row = made.tensors[0].1.f_narrow(0, 7, 1).and_then(|mut row| row.f_fill_(f64::NAN));
    let _ = row.expect("torch works");
    let directory = write(&made);
    let mut cuda =
        fake_cudart::load(directory.path(), 1, "float32", LoadOptions::default()).expect("the model is sound");
    let bad = Batch::new(vec![1, 7, 2], vec![1, 1, 1]);
    // The scheduler refuses the row that is not finite.
    let rows = encode(&mut cuda, &bad);
    let finite: Vec<bool> = rows.iter().map(|row| row.iter().all(|value| value.is_finite())).collect();
    assert_eq!(finite, [true, false, true]);
    for (row, id) in [(0, 1), (2, 2)] {
        let alone = encode(&mut cuda, &Batch::new(vec![id], vec![1]));
        assert!(largest_difference(&alone, &rows[row..=row]) < 1e-6);
    }
}

/// Vectors of length one, and a zero.
fn queries(count: usize, dimension: usize) -> Vec<f32> {
    let mut vectors = Vec::new();
    for query in 0..count {
        let values = (0..dimension).map(|place| {
            if query == 2 {
                0.0
            } else {
                f32::from(u8::try_from((query * 31 + place * 7) % 13).expect("it is small")) - 5.0
            }
        });
        let values: Vec<f32> = values.collect();
        let length = values.iter().map(|value| value * value).sum::<f32>().sqrt().max(1.0);
        vectors.extend(values.iter().map(|value| value / length));
    }
    vectors
}

/// The scores of rows by the plain formula.
fn scores(rows: &[Vec<f32>], queries: &[f32]) -> Vec<Vec<f32>> {
    let of = |row: &Vec<f32>| queries.chunks(row.len()).flat_map(|query| cosines(query, row)).collect();
    rows.iter().map(of).collect()
}

#[test]
fn queries_are_scored_on_the_device() {
    let directory = write(&draft("bert"));
    let mut cpu = load(&directory, &["cpu"], 1);
    assert!(!cpu.capabilities().cosines);
    let mut cuda =
        fake_cudart::load(directory.path(), 1, "float32", LoadOptions::default()).expect("the model is sound");
    assert!(cuda.capabilities().cosines);
    let dimension = cuda.spec().dimension;
    // Batches with and without queries take turns, in reused memory.
    let mut previous = None;
    for (seed, lengths) in (0..).zip(lengths()) {
        let mut batch = batch(seed, &lengths);
        let rows = encode(&mut cpu, &batch);
        let expected = match usize::try_from(seed % 4).expect("it is small") {
            0 => rows,
            count => {
                (batch.output, batch.queries) = (Output::Cosines, queries(count, dimension));
                scores(&rows, &batch.queries)
            }
        };
        let ticket = cuda.submit(0, &batch).expect("the batch is sound");
        if let Some((ticket, expected)) = previous.replace((ticket, expected)) {
            let (found, expected) = (collect_values(&mut cuda, ticket), expected.concat());
            assert_eq!(found.len(), expected.len());
            assert!(largest_difference(&[found], &[expected]) < 1e-5);
        }
    }
    let mut scored = batch(1, &[3]);
    (scored.output, scored.queries) = (Output::Cosines, queries(1, dimension));
    let refused = cpu.submit(0, &scored).expect_err("it compares nothing");
    assert_eq!(refused.kind(), ErrorKind::Internal);
    scored.queries.pop();
    assert_eq!(cuda.submit(0, &scored).expect_err("one value is missing").kind(), ErrorKind::Encoder);
}

#[test]
fn encoder_table_passes_queries() {
    let directory = write(&draft("bert"));
    let rows = encode(&mut load(&directory, &["cpu"], 1), &batch(4, &[3, 3, 10]));
    let cuda = fake_cudart::load(directory.path(), 1, "float32", LoadOptions::default()).expect("the model is sound");
    let scored = Batch { output: Output::Cosines, queries: queries(2, cuda.spec().dimension), ..batch(4, &[3, 3, 10]) };
    let table = encoder_table(cuda).expect("a spec can be written");
    let (code, number) = submit_to(&table, &scored);
    assert_eq!(code, 0);
    let (code, values, _) = collect_from(&table, number);
    assert_eq!(code, 0);
    assert!(largest_difference(&[values], &[scores(&rows, &scored.queries).concat()]) < 1e-5);
    // SAFETY: nothing uses the state afterwards.
    unsafe { (table.release)(table.state) };
}
