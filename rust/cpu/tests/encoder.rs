//! The encoder through the trait: order, devices, failures, and its end.

mod models;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use models::{ODD, batch, collect, draft, encode, load, write};
use pullquote_core::encoder::{Batch, Encoder, Output, Ticket};
use pullquote_core::error::ErrorKind;

#[test]
fn two_devices_match_one() {
    let directory = write(&draft("bert"));
    let mut one = load(&directory, &["cpu"], Some(1));
    let mut two = load(&directory, &["cpu:0", "cpu:1"], Some(3));
    let depths: Vec<usize> = two.spec().devices.iter().map(|device| device.depth).collect();
    assert_eq!(depths, [3, 2], "three threads are two and one");
    let batches: Vec<Batch> = (0..12).map(|seed| batch(seed, &[4, 4, 17, 9])).collect();
    let submit = |(index, batch)| two.submit(index % 2, batch).expect("the batch is sound");
    let tickets: Vec<Ticket> = batches.iter().enumerate().map(submit).collect();
    for (batch, ticket) in batches.iter().zip(tickets) {
        assert_eq!(encode(&mut one, batch), collect(&mut two, ticket));
    }
}

#[test]
fn batches_are_collected_in_any_order_with_one_wake_each() {
    let directory = write(&draft("bert"));
    let mut encoder = load(&directory, &["cpu"], Some(2));
    let woken = Arc::new(AtomicUsize::new(0));
    let waker = Arc::clone(&woken);
    encoder.set_waker(Arc::new(move || {
        waker.fetch_add(1, Ordering::SeqCst);
    }));
    assert!(encoder.capabilities().notifies && !encoder.capabilities().cosines);
    let batches: Vec<Batch> = (0..20).map(|seed| batch(seed, &[5, 11])).collect();
    let tickets: Vec<Ticket> =
        batches.iter().map(|batch| encoder.submit(0, batch).expect("the batch is sound")).collect();
    let mut rows: Vec<_> = tickets.iter().rev().map(|ticket| collect(&mut encoder, *ticket)).collect();
    rows.reverse();
    for (batch, rows) in batches.iter().zip(&rows) {
        assert_eq!(*rows, encode(&mut encoder, batch));
    }
    let ticket = encoder.submit(0, &batches[0]).expect("the batch is sound");
    assert!(encoder.collect(ticket, &mut |_| {}).expect("the batch is sound").times.computed > 0);
    drop(encoder);
    assert_eq!(woken.load(Ordering::SeqCst), 41, "twenty batches, each encoded twice, and one more");
}

#[test]
fn invalid_batch_fails_alone() {
    let directory = write(&draft("bert"));
    let mut encoder = load(&directory, &["cpu"], Some(1));
    let good = batch(1, &[8]);
    let ticket = encoder.submit(0, &good).expect("the batch is sound");
    let cases = [
        (Batch::new(vec![1, 50], vec![2]), &["id 50", "50 ids"][..]),
        (Batch::new(vec![-1, 5], vec![2]), &["id -1"]),
        (Batch::new(vec![], vec![]), &["rows"]),
        (Batch::new(vec![1], vec![1, 0]), &["row 1", "0 ids"]),
        (batch(1, &[21]), &["21 ids", "20"]),
        (Batch::new(vec![1, 2], vec![3]), &["2 ids", "3"]),
    ];
    for (bad, names) in cases {
        let error = encoder.submit(0, &bad).expect_err("the batch is bad");
        assert_eq!(error.kind(), ErrorKind::Encoder);
        assert!(names.iter().all(|name| error.message().contains(name)), "{error}");
    }
    assert_eq!(collect(&mut encoder, ticket).len(), 1);
    let again = encoder.collect(ticket, &mut |_| {}).expect_err("it was collected");
    assert_eq!(again.kind(), ErrorKind::Internal);
    assert!(encoder.submit(7, &good).is_err());
    let scored = Batch { output: Output::Cosines, queries: vec![0.0; ODD.hidden], ..good };
    assert_eq!(encoder.submit(0, &scored).expect_err("it compares nothing").kind(), ErrorKind::Internal);
}

#[test]
fn rows_that_are_not_finite_spoil_no_other_row() {
    let mut draft = draft("bert");
    draft.tensors[0].1.values[7 * ODD.hidden..8 * ODD.hidden].fill(f32::NAN);
    let mut encoder = load(&write(&draft), &["cpu"], Some(1));
    // The scheduler refuses the row that is not finite.
    let rows = encode(&mut encoder, &Batch::new(vec![1, 7, 8], vec![1, 1, 1]));
    assert!(!rows[1].iter().all(|value| value.is_finite()));
    assert_eq!(
        [&rows[0], &rows[2]],
        [1, 8].map(|id| encode(&mut encoder, &Batch::new(vec![id], vec![1])).remove(0)).each_ref()
    );
}

#[test]
fn drop_with_batches_in_flight() {
    let directory = write(&draft("xlm-roberta"));
    let started = Instant::now();
    for workers in 0..4 {
        let mut encoder = load(&directory, &["cpu"], Some(workers));
        for seed in 0..200 {
            encoder.submit(0, &batch(seed, &[20; 16])).expect("the batch is sound");
        }
    }
    assert!(started.elapsed() < Duration::from_secs(60), "waiting batches are dropped");
}

#[test]
fn without_threads_collect_computes() {
    let directory = write(&draft("bert"));
    let mut encoder = load(&directory, &["cpu"], Some(0));
    assert!(!encoder.capabilities().notifies && load(&directory, &["cpu"], Some(1)).capabilities().notifies);
    let batches: Vec<Batch> = (0..10).map(|seed| batch(seed, &[5, 20])).collect();
    let tickets: Vec<Ticket> =
        batches.iter().map(|batch| encoder.submit(0, batch).expect("the batch is sound")).collect();
    assert!(tickets.iter().all(|ticket| encoder.is_finished(*ticket)), "nothing would be waited for");
    let mut other = load(&directory, &["cpu"], Some(1));
    for (batch, ticket) in batches.iter().zip(tickets).rev() {
        assert_eq!(collect(&mut encoder, ticket), encode(&mut other, batch));
    }
}

#[test]
fn token_vectors_pool_to_the_rows() {
    let mut draft = draft("bert");
    draft.pooling = "cls";
    let mut encoder = load(&write(&draft), &["cpu"], Some(1));
    assert_eq!(encoder.capabilities().token_width, Some(ODD.hidden));
    let lengths = [5, 20, 1];
    let batch = batch(3, &lengths);
    let rows = encode(&mut encoder, &batch);
    let tokens = encode(&mut encoder, &Batch { output: Output::TokenVectors, ..batch.clone() });
    assert_eq!(tokens.len(), batch.ids.len());
    let mut first = 0;
    for (row, length) in rows.iter().zip(lengths) {
        let token = &tokens[first];
        let norm = token.iter().map(|value| value * value).sum::<f32>().sqrt();
        assert!(row.iter().zip(token).all(|(row, value)| (row - value / norm).abs() < 1e-6));
        first += length as usize;
    }
    assert_eq!(encode(&mut encoder, &batch), rows, "the next batch is one of rows again");
}
