//! What CUDA answers, played by a runtime library of the tests: success, slowness, and every error. An error of one
//! device costs no other device anything.

mod fake_cudart;
mod models;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fake_cudart::{
    FAKE, ILLEGAL_ADDRESS, INVALID_DEVICE, LAUNCH_FAILURE, LAUNCH_OUT_OF_RESOURCES, Mode, UNCORRECTABLE_ECC,
    last_error, leaks, set_mode,
};
use models::{ModelDirectory, batch, draft, largest_difference, network, padded_rows, write};
use pullquote_core::encoder::dtype::Dtype;
use pullquote_core::encoder::model::Model;
use pullquote_core::encoder::{Batch, Encoder};
use pullquote_core::engine::Engine;
use pullquote_core::error::{ErrorKind, Result};
use pullquote_core::runtime::call::Call;
use pullquote_core::tokens::Role;
use pullquote_torch::cuda::device::CudaDevice;
use pullquote_torch::cuda::runtime::Runtime;
use pullquote_torch::encoder::{LoadOptions, TorchEncoder};
use pullquote_torch::model::network::Network;
use pullquote_torch::model::varlen::Varlen;
use serde_json::json;
use tch::Kind;

fn loaded() -> Arc<Network> {
    Arc::new(network(&write(&draft("bert")), Dtype::Float32, Kind::Float, Varlen::Off))
}

/// A device of the runtime; each test has other numbers.
fn start(index: usize, network: &Arc<Network>) -> CudaDevice {
    CudaDevice::start(&format!("cuda:{index}"), index, Arc::clone(network), &FAKE, None).expect("it starts")
}

fn rows(device: &mut CudaDevice, ticket: u64, network: &Network) -> Result<Vec<Vec<f32>>> {
    let mut rows = Vec::new();
    device.collect(ticket, |values| rows = values.chunks(network.dimension()).map(<[f32]>::to_vec).collect())?;
    Ok(rows)
}

/// Encodes a batch and checks its rows.
fn assert_works(device: &mut CudaDevice, ticket: u64, network: &Network) {
    let batch = batch(ticket, &[7, 20, 1]);
    device.submit(ticket, &batch);
    let found = rows(device, ticket, network).expect("the device works");
    assert!(largest_difference(&found, &padded_rows(network, &batch).expect("they are numbers")) < 1e-5);
}

#[test]
fn submit_waits_for_no_event_and_collect_for_its_own() {
    let network = loaded();
    let mut device = start(10, &network);
    assert_works(&mut device, 0, &network);
    let delay = Duration::from_millis(40);
    set_mode(10, Mode::Slow(delay));
    let batches: Vec<Batch> = (1..4).map(|seed| batch(seed, &[5, 11])).collect();
    let began = Instant::now();
    for (ticket, batch) in (1..).zip(&batches) {
        device.submit(ticket, batch);
    }
    assert!(began.elapsed() < delay && !device.is_finished(3), "{:?}", began.elapsed());
    for (ticket, batch) in (1..).zip(&batches) {
        let found = rows(&mut device, ticket, &network).expect("the device works");
        assert!(largest_difference(&found, &padded_rows(&network, batch).expect("they are numbers")) < 1e-5);
    }
    assert!(began.elapsed() >= delay);
    assert_eq!(last_error(), 0, "torch would take it for an error of its own");
    drop(device);
    assert_eq!(leaks(10), (0, 0));
}

#[test]
fn a_sticky_error_costs_its_own_device_and_no_other() {
    let network = loaded();
    for (index, (code, text)) in (12..).step_by(2).zip([
        (ILLEGAL_ADDRESS, "illegal memory access"),
        (UNCORRECTABLE_ECC, "uncorrectable ECC error"),
        (LAUNCH_FAILURE, "unspecified launch failure"),
    ]) {
        let (mut broken, mut healthy) = (start(index, &network), start(index + 1, &network));
        set_mode(index, Mode::Slow(Duration::from_secs(60)));
        broken.submit(1, &batch(1, &[4, 4]));
        broken.submit(2, &batch(2, &[9]));
        // Both are on the device: each has memory for ids and for rows.
        while leaks(index).0 < 4 {
            std::thread::yield_now();
        }
        assert!(!broken.is_finished(1));
        set_mode(index, Mode::Sticky(code));
        for ticket in [1, 2, 3] {
            if ticket == 3 {
                broken.submit(ticket, &batch(3, &[2]));
            }
            let error = rows(&mut broken, ticket, &network).expect_err("the device is broken");
            assert_eq!(error.kind(), ErrorKind::Device, "{error}");
            assert!(error.message().contains(&format!("cuda:{index} is lost")), "{error}");
            assert!(error.message().contains(text), "{error}");
        }
        assert_eq!(last_error(), 0);
        // Lost for good: nothing is sent there, whatever the runtime says next.
        set_mode(index, Mode::Works);
        broken.submit(4, &batch(4, &[2]));
        assert_eq!(rows(&mut broken, 4, &network).expect_err("it is lost").kind(), ErrorKind::Device);
        assert_works(&mut healthy, 5, &network);
        let slots = broken.slot_count();
        set_mode(index, Mode::Sticky(code));
        for ticket in 10..20 {
            broken.submit(ticket, &batch(ticket, &[2]));
            assert!(rows(&mut broken, ticket, &network).is_err());
        }
        assert_eq!(broken.slot_count(), slots, "failed batches use the slots of earlier ones");
        drop(broken);
        assert_ne!(leaks(index).0, 0, "its GPU may never be done with its memory");
        assert_works(&mut healthy, 6, &network);
        drop(healthy);
        assert_eq!(leaks(index + 1), (0, 0));
    }
}

#[test]
fn an_error_while_launching_breaks_the_device_too() {
    let network = loaded();
    let mut device = start(20, &network);
    set_mode(20, Mode::Sticky(ILLEGAL_ADDRESS));
    device.submit(1, &batch(1, &[4]));
    let error = rows(&mut device, 1, &network).expect_err("the device is broken");
    assert!(error.kind() == ErrorKind::Device && error.message().contains("illegal memory access"), "{error}");
}

#[test]
fn an_error_that_passes_costs_one_batch() {
    let network = loaded();
    let mut device = start(21, &network);
    set_mode(21, Mode::FailsOnce(LAUNCH_OUT_OF_RESOURCES));
    device.submit(1, &batch(1, &[4]));
    let error = rows(&mut device, 1, &network).expect_err("its event failed");
    assert!(error.kind() == ErrorKind::Device && error.message().contains("too many resources"), "{error}");
    assert_works(&mut device, 2, &network);
    drop(device);
    assert_eq!(leaks(21), (0, 0));
}

#[test]
fn no_pinned_memory_is_out_of_memory() {
    let network = loaded();
    let mut device = start(22, &network);
    set_mode(22, Mode::NoHostMemory);
    device.submit(1, &batch(1, &[4]));
    assert_eq!(rows(&mut device, 1, &network).expect_err("no memory").kind(), ErrorKind::OutOfMemory);
    set_mode(22, Mode::Works);
    assert_works(&mut device, 2, &network);
    drop(device);
    assert_eq!(leaks(22), (0, 0));
}

#[test]
fn a_device_that_hangs_holds_nothing_up() {
    let network = loaded();
    let mut device = start(23, &network);
    set_mode(23, Mode::Hangs);
    device.submit(1, &batch(1, &[4]));
    let began = Instant::now();
    assert!(!device.is_finished(1));
    while leaks(23).1 == 0 {
        std::thread::yield_now();
    }
    drop(device);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_ne!(leaks(23).0, 0, "the GPU may still write to it");
}

#[test]
fn a_device_that_does_not_exist_is_an_error() {
    let error = CudaDevice::start("cuda:99", 99, loaded(), &FAKE, None).expect_err("there is no such device");
    assert_eq!(error.kind(), ErrorKind::Device);
    let code = format!("({INVALID_DEVICE})");
    assert!(["cuda:99", "invalid device ordinal", &code].iter().all(|word| error.message().contains(word)), "{error}");
}

#[test]
fn a_driver_older_than_the_runtime_is_named() {
    let problem = FAKE.driver_problem().expect("12.2 is older than 13.0");
    assert!(problem.contains("CUDA 12.2") && problem.contains("CUDA 13.0"), "{problem}");
}

/// The functions' names and types, on a machine that need not have a GPU.
#[test]
fn the_runtime_of_torch_answers() {
    let Some(runtime) = Runtime::of_torch() else {
        assert_eq!(pullquote_torch::encoder::cuda_device_count(), 0);
        return;
    };
    let free = runtime.use_device(0).and_then(|()| runtime.free_memory());
    if pullquote_torch::encoder::cuda_device_count() > 0 {
        assert!(free.is_ok_and(|free| free > 0));
    } else {
        let error = format!("{:?}", free.expect_err("there is no device"));
        assert!(error.contains("driver") || error.contains("device"), "{error}");
    }
}

/// The encoders number their devices from 0, so one test at a time has them.
static ENCODERS: Mutex<()> = Mutex::new(());

fn encoder(directory: &ModelDirectory, count: usize) -> Result<TorchEncoder> {
    let options = LoadOptions { varlen: Varlen::Off, ..LoadOptions::default() };
    fake_cudart::load(directory.path(), count, "float32", options)
}

#[test]
fn loading_warms_each_device_up() {
    let _one = ENCODERS.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = write(&draft("bert"));
    let warm = encoder(&directory, 2).expect("the model is sound");
    assert!(leaks(0).0 > 0 && leaks(1).0 > 0, "each has run a batch");
    assert!(warm.spec().devices.iter().all(|device| device.padded_rows && device.batch_tokens == 512));
    drop(warm);
    assert_eq!((leaks(0), leaks(1)), ((0, 0), (0, 0)));
    for (mode, kind, word) in [
        (Mode::NoHostMemory, ErrorKind::OutOfMemory, "out of memory"),
        (Mode::FailsOnce(LAUNCH_OUT_OF_RESOURCES), ErrorKind::Device, "too many resources"),
    ] {
        set_mode(1, mode);
        let error = encoder(&directory, 2).expect_err("the second device cannot run the model");
        set_mode(1, Mode::Works);
        assert_eq!(error.kind(), kind, "{error}");
        assert!(
            error.message().contains("\"cpu:1\" cannot run the model") && error.message().contains(word),
            "{error}"
        );
    }
}

#[test]
fn other_devices_compute_the_batches_of_a_lost_one() {
    let _one = ENCODERS.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = write(&draft("bert"));
    let names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"];
    let vocabulary: serde_json::Map<_, _> =
        (0..40).map(|id| (names.get(id).map_or(format!("w{id}"), |name| (*name).to_owned()), json!(id))).collect();
    let special = |id: usize| json!({"SpecialToken": {"id": names[id], "type_id": 0}});
    let entry = |id: usize| json!({"id": names[id], "ids": [id], "tokens": [names[id]]});
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "decoder": null, "normalizer": null,
        "added_tokens": (0..4).map(|id| json!({"id": id, "content": names[id], "special": true, "single_word": false,
            "lstrip": false, "rstrip": false, "normalized": false})).collect::<Vec<_>>(),
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [special(2), {"Sequence": {"id": "A", "type_id": 0}}, special(3)],
            "pair": [special(2), {"Sequence": {"id": "A", "type_id": 0}}, special(3), {"Sequence": {"id": "B", "type_id": 0}}, special(3)],
            "special_tokens": {"[CLS]": entry(2), "[SEP]": entry(3)},
        },
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": vocabulary},
    });
    directory.write("tokenizer.json", tokenizer.to_string().as_bytes());
    let model = Model::read(directory.path()).expect("the model is sound");
    let start = |count| {
        Engine::new(&model, Box::new(encoder(&directory, count).expect("it loads")), Some(2), 0).expect("it starts")
    };
    let texts: Vec<String> = (0..600).map(|n| format!("w{} ", 4 + n % 36).repeat(1 + n % 17)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let call = Call::default();
    let embed = |engine: &Engine| {
        engine.wait(&call, engine.embed(&texts, Role::Passage, &call)).expect("a device works").vectors
    };
    let expected = embed(&start(1));
    let engine = start(3);
    // It breaks with batches in flight.
    set_mode(1, Mode::Slow(Duration::from_millis(30)));
    std::thread::scope(|scope| {
        let call = scope.spawn(|| embed(&engine));
        while engine.devices()[1].outstanding_tokens == 0 && !call.is_finished() {
            std::thread::yield_now();
        }
        set_mode(1, Mode::Sticky(ILLEGAL_ADDRESS));
        let found = call.join().expect("it answers");
        let difference = found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(found.len() == expected.len() && difference < 1e-5, "{difference}");
    });
    let states = engine.devices();
    let working: Vec<bool> = states.iter().map(|state| state.is_working).collect();
    assert_eq!(working, [true, false, true], "{states:?}");
    assert!(states[1].last_error.as_ref().is_some_and(|error| error.contains("illegal memory access")), "{states:?}");
    assert_eq!(embed(&engine).len(), expected.len(), "two devices go on");
    drop(engine);
    set_mode(1, Mode::Works);
}
