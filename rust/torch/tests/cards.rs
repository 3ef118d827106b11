//! The way of a graphics card, run on a CPU: tables in steps, staging that is used again, marks behind rows.
//!
//! What a card alone could show is not shown here: that copies go on while we do, and that nothing is waited for.

mod models;

use std::collections::HashSet;
use std::ffi::c_void;
use std::sync::Arc;

use models::{LONGEST, batch, collect, draft, encode, largest_difference, load, network, padded_rows, write};
use pullquote_core::encoder::cosine::cosines;
use pullquote_core::encoder::dtype::Dtype;
use pullquote_core::encoder::{Encoder, Ticket};
use pullquote_core::error::ErrorKind;
use pullquote_torch::capsule::encoder_table;
use pullquote_torch::cuda::CudaDevice;
use pullquote_torch::encoder::TorchEncoder;
use pullquote_torch::staging::{Staging, places};
use pullquote_torch::varlen::Varlen;
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
fn a_card_says_what_a_processor_says() {
    for (family, pooling) in [("bert", "mean"), ("bert", "cls"), ("xlm-roberta", "max"), ("bert", "lasttoken")] {
        let mut made = draft(family);
        made.pooling = pooling;
        let directory = write(&made);
        let mut processor = load(&directory, &["cpu"], 1);
        let mut cards =
            TorchEncoder::load_as_cards(directory.path(), 2, "float32", Varlen::OnCards).expect("the model is sound");
        assert!(!cards.spec().notifies);
        let batches: Vec<_> = (0..).zip(lengths()).map(|(seed, lengths)| batch(seed, &lengths)).collect();
        // Three in flight on each, collected in another order than they were submitted.
        for group in batches.chunks(6) {
            let submit = |(index, batch)| cards.submit(index % 2, batch).expect("the batch is sound");
            let tickets: Vec<Ticket> = group.iter().enumerate().map(submit).collect();
            for (batch, ticket) in group.iter().zip(tickets).rev() {
                assert!(cards.is_finished(ticket));
                let difference = largest_difference(&encode(&mut processor, batch), &collect(&mut cards, ticket));
                assert!(difference < 1e-5, "{pooling}: {difference} for {:?}", batch.lengths);
            }
        }
        let unknown = cards.collect(Ticket(10_000), &mut |_, _| {}).expect_err("there is no such batch");
        assert_eq!(unknown.kind(), ErrorKind::Internal);
    }
}

#[test]
fn tables_have_few_shapes_and_waste_little() {
    for rows in 1_usize..5000 {
        assert!((rows..=rows + rows.div_ceil(4)).contains(&places(rows)), "{rows} rows in {}", places(rows));
    }
    assert_eq!((1..5000).map(places).collect::<HashSet<_>>().len(), 45);
    let mut staging = Staging::default();
    for (seed, lengths) in (0..).zip(lengths()) {
        let batch = batch(seed, &lengths);
        let longest = usize::try_from(LONGEST).expect("it is small");
        let padded = staging.send(&batch, Device::Cpu, longest).expect("torch has memory");
        let size = padded.ids.size();
        let most = i64::from(*lengths.iter().max().expect("there is a row"));
        assert_eq!(size[0], i64::try_from(places(lengths.len())).expect("few"));
        assert!(size[1] >= most && size[1] < most + 8 && (size[1] % 8 == 0 || size[1] == LONGEST), "{size:?}");
        let mut start = 0;
        for (row, length) in (0..).zip(&lengths) {
            let own = padded.ids.get(row);
            let ids: Vec<i32> = Vec::try_from(&own).expect("they are int32");
            let length = *length as usize;
            assert_eq!(ids[..length], batch.ids[start..start + length]);
            assert!(ids[length..].iter().all(|id| *id == 0));
            let mask: Vec<bool> = match &padded.mask {
                Some(mask) => Vec::try_from(&mask.get(row)).expect("they are truths"),
                None => vec![true; ids.len()],
            };
            assert_eq!(mask.iter().filter(|one| **one).count(), length);
            assert!(mask[..length].iter().all(|one| *one));
            start += length;
        }
    }
}

#[test]
fn staging_is_used_again() {
    let directory = write(&draft("bert"));
    let network = Arc::new(network(&directory, Dtype::Float32, Kind::Float, Varlen::OnCards));
    let mut card = CudaDevice::new(Arc::clone(&network), 20);
    let mut before = None;
    for (ticket, lengths) in (0..).zip(lengths().into_iter().cycle().take(200)) {
        let batch = batch(ticket, &lengths);
        card.submit(ticket, &batch).expect("the batch is sound");
        assert!(card.is_finished(ticket));
        // The one before, whose staging the next one writes to.
        if let Some((ticket, batch)) = before.replace((ticket, batch)) {
            let mut rows = Vec::new();
            card.collect(ticket, |values| rows = values.chunks(network.dimension()).map(<[f32]>::to_vec).collect())
                .expect("the batch is sound");
            assert!(largest_difference(&padded_rows(&network, &batch).expect("they are numbers"), &rows) < 1e-5);
        }
    }
    assert!(card.stagings() <= 2, "{} for two batches in flight", card.stagings());
}

#[test]
fn a_profile_has_a_time_for_each_stage() {
    let directory = write(&draft("bert"));
    let mut cards =
        TorchEncoder::load_as_cards(directory.path(), 1, "float32", Varlen::OnCards).expect("the model is sound");
    assert_eq!(cards.times(), None);
    for synchronizes in [false, true] {
        cards.profile(synchronizes);
        encode(&mut cards, &batch(1, &[20; 16]));
        let times = cards.times().expect("a batch was collected");
        assert!(times.copied_in > 0 && times.computed > 0 && times.copied_out > 0, "{times:?}");
    }
}

#[test]
fn values_that_are_no_numbers_fail_their_batch_and_no_other() {
    let made = draft("bert");
    let row = made.tensors[0].1.f_narrow(0, 7, 1).and_then(|mut row| row.f_fill_(f64::NAN));
    let _ = row.expect("torch works");
    let directory = write(&made);
    let mut cards =
        TorchEncoder::load_as_cards(directory.path(), 1, "float32", Varlen::OnCards).expect("the model is sound");
    let bad = pullquote_core::encoder::Batch::new(vec![1, 7], vec![1, 1]);
    let ticket = cards.submit(0, &bad).expect("nobody looks at it yet");
    let error = cards.collect(ticket, &mut |_, _| panic!("no row of a failed batch")).expect_err("it has no numbers");
    assert_eq!(error.kind(), ErrorKind::Encoder);
    assert_eq!(encode(&mut cards, &batch(3, &[1])).len(), 1);
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

/// What comes back of each row where a batch has queries, by the plain formula from its vector.
fn compared(rows: &[Vec<f32>], queries: &[f32]) -> Vec<Vec<f32>> {
    let of = |row: &Vec<f32>| queries.chunks(row.len()).flat_map(|query| cosines(query, row)).collect();
    rows.iter().map(of).collect()
}

#[test]
fn rows_are_compared_with_queries_where_they_are_computed() {
    let directory = write(&draft("bert"));
    let mut processor = load(&directory, &["cpu"], 1);
    assert!(!processor.spec().scores);
    let mut cards =
        TorchEncoder::load_as_cards(directory.path(), 1, "float32", Varlen::OnCards).expect("the model is sound");
    assert!(cards.spec().scores);
    let dimension = cards.spec().dimension;
    // Batches with and without queries, one behind the other, in memory that is used again.
    let mut flying = None;
    for (seed, lengths) in (0..).zip(lengths()) {
        let mut asked = batch(seed, &lengths);
        let rows = encode(&mut processor, &asked);
        let expected = match usize::try_from(seed % 4).expect("it is small") {
            0 => rows,
            count => {
                asked.queries = queries(count, dimension);
                compared(&rows, &asked.queries)
            }
        };
        let ticket = cards.submit(0, &asked).expect("the batch is sound");
        if let Some((ticket, expected)) = flying.replace((ticket, expected)) {
            let found = collect(&mut cards, ticket);
            assert!(largest_difference(&found, &expected) < 1e-5, "{found:?} {expected:?}");
            assert_eq!(found[0].len(), expected[0].len());
        }
    }
    let mut asked = batch(1, &[3]);
    asked.queries = queries(1, dimension);
    let refused = processor.submit(0, &asked).expect_err("it compares nothing");
    assert_eq!(refused.kind(), ErrorKind::Internal);
    asked.queries.pop();
    assert_eq!(cards.submit(0, &asked).expect_err("one value is missing").kind(), ErrorKind::Encoder);
}

unsafe extern "C" fn push_scores(context: *mut c_void, index: usize, values: *const f32) {
    // SAFETY: the test below passes this type, and `values` has as many values as the batch had queries.
    let (rows, values) = unsafe {
        let (rows, width) = &mut *context.cast::<(Vec<Vec<f32>>, usize)>();
        (rows, std::slice::from_raw_parts(values, *width))
    };
    assert_eq!(index, rows.len());
    rows.push(values.to_vec());
}

#[test]
fn queries_go_through_the_table_of_c_functions() {
    let directory = write(&draft("bert"));
    let rows = encode(&mut load(&directory, &["cpu"], 1), &batch(4, &[3, 3, 10]));
    let cards =
        TorchEncoder::load_as_cards(directory.path(), 1, "float32", Varlen::OnCards).expect("the model is sound");
    let queries = queries(2, cards.spec().dimension);
    let table = encoder_table(cards).expect("a spec can be written");
    let asked = batch(4, &[3, 3, 10]);
    let mut ticket = 0;
    let mut found: (Vec<Vec<f32>>, usize) = (Vec::new(), 2);
    // SAFETY: the state is live until it is released; pointers and counts belong together; the context is what `push_scores`
    // expects.
    unsafe {
        let (ids, lengths) = (asked.ids.as_ptr(), asked.lengths.as_ptr());
        let queries = queries.as_ptr();
        assert_eq!((table.submit)(table.state, 0, ids, 16, lengths, 3, queries, 2, &raw mut ticket), 0);
        assert_eq!((table.collect)(table.state, ticket, push_scores, (&raw mut found).cast()), 0);
        (table.release)(table.state);
    }
    assert!(largest_difference(&found.0, &compared(&rows, &queries)) < 1e-5);
}
