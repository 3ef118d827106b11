//! The encoder through the trait and through the C table: order, devices, failures, and its end.

mod models;

use std::ffi::{CStr, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use models::{ModelDirectory, batch, collect, collect_from, draft, encode, largest_difference, load, submit_to, write};
use pullquote_core::encoder::{Batch, Encoder, Ticket};
use pullquote_core::error::ErrorKind;
use pullquote_torch::encoder::{LoadOptions, TorchEncoder};
use pullquote_torch::ffi::table::encoder_table;
use tch::Tensor;

fn load_without_threads(directory: &ModelDirectory, devices: &[&str]) -> TorchEncoder {
    let devices: Vec<String> = devices.iter().map(|name| (*name).to_owned()).collect();
    TorchEncoder::load(directory.path(), &devices, "float32", Some(0), LoadOptions::default())
        .expect("the model is sound")
}

#[test]
fn devices_give_equal_rows() {
    let directory = write(&draft("bert"));
    let mut one = load(&directory, &["cpu"], 1);
    let mut two = load(&directory, &["cpu:0", "cpu:1"], 3);
    let depths: Vec<usize> = two.spec().devices.iter().map(|device| device.depth).collect();
    assert_eq!(depths, [3, 2], "three threads are two and one");
    let batches: Vec<Batch> = (0..12).map(|seed| batch(seed, &[4, 4, 17, 9])).collect();
    let tickets: Vec<Ticket> = batches
        .iter()
        .enumerate()
        .map(|(index, batch)| two.submit(index % 2, batch).expect("the batch is sound"))
        .collect();
    for (batch, ticket) in batches.iter().zip(tickets) {
        assert!(largest_difference(&encode(&mut one, batch), &collect(&mut two, ticket)) < 1e-5);
    }
}

#[test]
fn collect_works_in_any_order_and_each_batch_wakes_once() {
    let directory = write(&draft("bert"));
    let mut encoder = load(&directory, &["cpu"], 2);
    let woken = Arc::new(AtomicUsize::new(0));
    let waker = Arc::clone(&woken);
    encoder.set_waker(Arc::new(move || {
        waker.fetch_add(1, Ordering::SeqCst);
    }));
    assert!(encoder.capabilities().notifies);
    let batches: Vec<Batch> = (0..20).map(|seed| batch(seed, &[5, 11])).collect();
    let tickets: Vec<Ticket> =
        batches.iter().map(|batch| encoder.submit(0, batch).expect("the batch is sound")).collect();
    let mut rows: Vec<_> = tickets.iter().rev().map(|ticket| collect(&mut encoder, *ticket)).collect();
    rows.reverse();
    for (batch, rows) in batches.iter().zip(&rows) {
        assert!(largest_difference(rows, &encode(&mut encoder, batch)) < 1e-6);
    }
    drop(encoder);
    assert_eq!(woken.load(Ordering::SeqCst), 40, "twenty batches, each encoded twice");
}

#[test]
fn submit_rejects_bad_batches_and_no_others() {
    let directory = write(&draft("bert"));
    let mut encoder = load(&directory, &["cpu"], 1);
    let good = batch(1, &[8]);
    let ticket = encoder.submit(0, &good).expect("the batch is sound");
    let cases = [
        (Batch::new(vec![1, 50], vec![2]), ["id 50", "of 50"]),
        (Batch::new(vec![-1, 5], vec![2]), ["id -1", "of 50"]),
        (Batch::new(vec![], vec![]), ["batch", "no rows"]),
        (Batch::new(vec![1], vec![1, 0]), ["row 1", "0 ids"]),
        (batch(1, &[21]), ["21 ids", "20"]),
        (Batch::new(vec![1, 2], vec![3]), ["2 ids", "3"]),
    ];
    for (bad, expected) in cases {
        let error = encoder.submit(0, &bad).expect_err("the batch is bad");
        assert_eq!(error.kind(), ErrorKind::Encoder);
        assert!(expected.iter().all(|named| error.message().contains(named)), "{error}");
    }
    assert_eq!(collect(&mut encoder, ticket).len(), 1);
    let again = encoder.collect(ticket, &mut |_| {}).expect_err("it was collected");
    assert_eq!(again.kind(), ErrorKind::Internal);
    assert!(encoder.submit(7, &good).is_err());
}

#[test]
fn drop_ends_with_batches_in_flight() {
    let directory = write(&draft("xlm-roberta"));
    let started = Instant::now();
    for workers in 1..4 {
        let mut encoder = load(&directory, &["cpu"], workers);
        for seed in 0..200 {
            encoder.submit(0, &batch(seed, &[20; 16])).expect("the batch is sound");
        }
    }
    assert!(started.elapsed() < Duration::from_secs(20), "waiting batches are dropped");
}

unsafe extern "C" fn count_wake(context: *const c_void) {
    // SAFETY: the test below passes this type, and keeps it until after `release`.
    unsafe { &*context.cast::<AtomicUsize>() }.fetch_add(1, Ordering::SeqCst);
}

#[test]
fn encoder_table_gives_the_same_rows_and_error_codes() {
    let directory = write(&draft("bert"));
    let sound = batch(4, &[3, 3, 10]);
    let expected = encode(&mut load(&directory, &["cpu"], 1), &sound);
    let table = encoder_table(load(&directory, &["cpu"], 1)).expect("a spec can be written");
    assert_eq!(table.size, size_of_val(&table));
    let last_error = || {
        // SAFETY: the state is live, and the message is copied before the next call.
        let message = unsafe { CStr::from_ptr((table.last_error)(table.state)) };
        message.to_str().expect("it is UTF-8").to_owned()
    };
    let woken = AtomicUsize::new(0);
    // SAFETY: the state is live; the context lives until after `release`.
    unsafe { (table.set_waker)(table.state, count_wake, (&raw const woken).cast()) };
    let (code, number) = submit_to(&table, &sound);
    assert_eq!(code, 0);
    let (code, values, report) = collect_from(&table, number);
    assert_eq!(code, 0);
    assert!(largest_difference(&[values], &[expected.concat()]) < 1e-6);
    assert!(report.times.computed > 0 && report.graphs_error.is_null(), "{report:?}");
    assert_eq!(submit_to(&table, &Batch::new(vec![99], vec![1])).0, ErrorKind::Encoder.code());
    assert!(last_error().contains("id 99"), "{}", last_error());
    assert_eq!(collect_from(&table, 77).0, ErrorKind::Internal.code());
    assert!(last_error().contains("77"), "{}", last_error());
    // SAFETY: the state is live, and nothing uses it afterwards.
    unsafe { (table.release)(table.state) };
    assert_eq!(woken.load(Ordering::SeqCst), 1);
}

#[test]
fn the_hosts_thread_settings_stay() {
    let directory = write(&draft("bert"));
    let before = tch::get_num_threads();
    let mut encoder = load(&directory, &["cpu"], 2);
    encode(&mut encoder, &batch(1, &[20; 8]));
    assert_eq!(tch::get_num_threads(), before);
    // Gradients, like threads, are a setting of each thread.
    assert!(Tensor::f_ones(1_i64, (tch::Kind::Float, tch::Device::Cpu)).is_ok_and(|tensor| {
        tensor
            .f_set_requires_grad(true)
            .and_then(|tensor| tensor.f_mul_scalar(2))
            .is_ok_and(|twice| twice.requires_grad())
    }));
}

/// This thread's number of threads, and whether it records gradients.
fn settings() -> (i32, bool) {
    let one = Tensor::f_ones(1_i64, (tch::Kind::Float, tch::Device::Cpu)).and_then(|one| one.f_set_requires_grad(true));
    (tch::get_num_threads(), one.and_then(|one| one.f_mul_scalar(2)).expect("torch works").requires_grad())
}

#[test]
fn without_threads_collect_computes_and_restores_the_hosts_settings() {
    let directory = write(&draft("bert"));
    let batches: Vec<Batch> = (0..10).map(|seed| batch(seed, &[4, 4, 17, 9])).collect();
    let mut one_worker = load(&directory, &["cpu"], 1);
    for devices in [&["cpu"][..], &["cpu:0", "cpu:1"]] {
        let mut encoder = load_without_threads(&directory, devices);
        assert!(!encoder.capabilities().notifies);
        let submit = |(index, batch): (usize, &Batch)| encoder.submit(index % devices.len(), batch);
        let tickets: Vec<Ticket> =
            batches.iter().enumerate().map(submit).collect::<Result<_, _>>().expect("the batches are sound");
        let before = settings();
        for (batch, ticket) in batches.iter().zip(tickets) {
            assert!(encoder.is_finished(ticket), "nothing would be waited for");
            assert!(largest_difference(&collect(&mut encoder, ticket), &encode(&mut one_worker, batch)) < 1e-5);
        }
        assert_eq!(settings(), before);
        encoder.submit(0, &batches[0]).expect("the batch is sound");
    }
}
