//! The encoder through the trait and through the C table: order, devices, failures, and its end.

mod models;

use std::ffi::{CStr, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use models::{ModelDirectory, batch, collect, draft, encode, largest_difference, load, write};
use pullquote_core::encoder::{Batch, BatchTimes, Encoder, Ticket};
use pullquote_core::error::ErrorKind;
use pullquote_torch::encoder::TorchEncoder;
use pullquote_torch::ffi::table::encoder_table;
use tch::Tensor;

fn load_without_threads(directory: &ModelDirectory, devices: &[&str]) -> TorchEncoder {
    let devices: Vec<String> = devices.iter().map(|name| (*name).to_owned()).collect();
    TorchEncoder::load(directory.path(), &devices, "float32", Some(0)).expect("the model is sound")
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
    assert!(encoder.spec().notifies);
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
    let again = encoder.collect(ticket, &mut |_, _| {}).expect_err("it was collected");
    assert_eq!(again.kind(), ErrorKind::Internal);
    assert!(encoder.submit(7, &good).is_err());
}

#[test]
fn non_finite_vectors_fail_their_batch() {
    let draft = draft("bert");
    let row = draft.tensors[0].1.f_narrow(0, 7, 1).and_then(|mut row| row.f_fill_(f64::NAN));
    let _ = row.expect("torch works");
    let mut encoder = load(&write(&draft), &["cpu"], 1);
    let bad = encoder.submit(0, &Batch::new(vec![1, 7], vec![1, 1])).expect("its ids are sound");
    let error = encoder.collect(bad, &mut |_, _| panic!("no row of a failed batch")).expect_err("it has no numbers");
    assert_eq!(error.kind(), ErrorKind::Encoder);
    assert_eq!(encode(&mut encoder, &Batch::new(vec![1, 8], vec![1, 1])).len(), 2);
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

unsafe extern "C" fn push_row(context: *mut c_void, index: usize, values: *const f32) {
    // SAFETY: the test below passes this type, and `values` has `dimension` values.
    let (rows, values) = unsafe {
        let (rows, dimension) = &mut *context.cast::<(Vec<Vec<f32>>, usize)>();
        (rows, std::slice::from_raw_parts(values, *dimension))
    };
    assert_eq!(index, rows.len());
    rows.push(values.to_vec());
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
    assert!(table.run_batch.is_none(), "it has a worker");
    let woken = AtomicUsize::new(0);
    let mut ticket = 0;
    let submit = |batch: &Batch, ticket: &mut u64| {
        let (ids, lengths, queries) = (&batch.ids, &batch.lengths, std::ptr::null());
        // SAFETY: the state is live, pointers and counts belong together.
        unsafe {
            (table.submit)(table.state, 0, ids.as_ptr(), ids.len(), lengths.as_ptr(), lengths.len(), queries, 0, ticket)
        }
    };
    let last_error = || {
        // SAFETY: the state is live, and the message is copied before the next call.
        let message = unsafe { CStr::from_ptr((table.last_error)(table.state)) };
        message.to_str().expect("it is UTF-8").to_owned()
    };
    // SAFETY: the state is live; the context lives until after `release`.
    unsafe { (table.set_waker)(table.state, count_wake, (&raw const woken).cast()) };
    assert_eq!(submit(&sound, &mut ticket), 0);
    let mut rows = (Vec::new(), usize::try_from(models::HIDDEN).expect("it is small"));
    // SAFETY: the state is live; the context is what `push_row` expects.
    let collect = |ticket, rows: *mut (Vec<Vec<f32>>, usize)| unsafe {
        (table.collect)(table.state, ticket, push_row, rows.cast())
    };
    assert_eq!(collect(ticket, &raw mut rows), 0);
    assert!(largest_difference(&rows.0, &expected) < 1e-6);
    let mut times = BatchTimes::default();
    // SAFETY: the state is live, and there is a place to write to.
    assert!(unsafe { table.times.expect("it measures")(table.state, &raw mut times) });
    assert!(times.computed > 0, "{times:?}");
    assert_eq!(submit(&Batch::new(vec![99], vec![1]), &mut ticket), ErrorKind::Encoder.code());
    assert!(last_error().contains("id 99"), "{}", last_error());
    assert_eq!(collect(77, &raw mut rows), ErrorKind::Internal.code());
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
fn batch_runner_runs_on_several_threads_and_restores_their_settings() {
    let directory = write(&draft("bert"));
    let batches: Vec<Batch> = (0..40).map(|seed| batch(seed, &[4, 4, 17, 9])).collect();
    let mut one_worker = load(&directory, &["cpu"], 1);
    let expected: Vec<_> = batches.iter().map(|batch| encode(&mut one_worker, batch)).collect();
    assert!(one_worker.batch_runner().is_none());
    for devices in [&["cpu"][..], &["cpu:0", "cpu:1"]] {
        let mut encoder = load_without_threads(&directory, devices);
        assert!(encoder.spec().notifies);
        let run_batch = encoder.batch_runner().expect("it has no threads");
        assert!(!run_batch(), "nothing was submitted");
        let submit = |(index, batch): (usize, &Batch)| encoder.submit(index % devices.len(), batch);
        let tickets: Vec<Ticket> =
            batches.iter().enumerate().map(submit).collect::<Result<_, _>>().expect("the batches are sound");
        assert!(!encoder.is_finished(tickets[0]));
        // The threads begin together, and each takes waiting batches.
        let barrier = std::sync::Barrier::new(3);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let before = settings();
                    barrier.wait();
                    while run_batch() {}
                    assert_eq!(settings(), before);
                });
            }
        });
        for (ticket, expected) in tickets.into_iter().zip(&expected) {
            assert!(encoder.is_finished(ticket));
            assert!(largest_difference(&collect(&mut encoder, ticket), expected) < 1e-5);
        }
        // `collect` computes a batch that no thread has begun.
        assert!(largest_difference(&encode(&mut encoder, &batches[7]), &expected[7]) < 1e-5);
        encoder.submit(0, &batches[0]).expect("the batch is sound");
        drop(encoder);
        assert!(!run_batch(), "waiting batches are gone with the encoder");
    }
}

#[test]
fn encoder_table_runs_batches_on_the_callers_thread() {
    let directory = write(&draft("bert"));
    let sound = batch(4, &[3, 3, 10]);
    let table = encoder_table(load_without_threads(&directory, &["cpu"])).expect("a spec can be written");
    let run_batch = table.run_batch.expect("it has no threads");
    let mut ticket = 0;
    let (ids, lengths) = (&sound.ids, &sound.lengths);
    // SAFETY: the state is live until the end of this test, pointers and counts belong together, and the contexts are
    // what the functions expect.
    unsafe {
        let (ids, id_count, lengths, row_count) = (ids.as_ptr(), ids.len(), lengths.as_ptr(), lengths.len());
        let none = std::ptr::null();
        assert_eq!((table.submit)(table.state, 0, ids, id_count, lengths, row_count, none, 0, &raw mut ticket), 0);
        assert!(!(table.is_finished)(table.state, ticket));
        assert!(run_batch(table.state));
        assert!(!run_batch(table.state));
        assert!((table.is_finished)(table.state, ticket));
        (table.release)(table.state);
    }
}
