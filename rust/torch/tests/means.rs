//! Each way to compute a model against the plain one, whatever this machine has.

mod models;

use models::{Draft, Sizes, alone, batch, calm, largest_difference, least_cosine, packed_rows, padded_rows, write};
use pullquote_core::encoder::Batch;
use pullquote_core::model::Model;
use pullquote_torch::devices::Precision;
use pullquote_torch::means::Allowed;
use pullquote_torch::network::Network;
use tch::Device;

const WAYS: [Allowed; 4] = [
    Allowed::PLAIN,
    Allowed { onednn: true, ..Allowed::PLAIN },
    Allowed { kernels: true, ..Allowed::PLAIN },
    Allowed::ALL,
];

/// Heads of 32 and 64 values, of 16 (which are half a register in bfloat16), and sizes that fill no register.
const SIZES: [Sizes; 5] = [
    Sizes { hidden: 64, intermediate: 128, heads: 2, longest: 300 },
    Sizes { hidden: 128, intermediate: 80, heads: 2, longest: 300 },
    Sizes { hidden: 96, intermediate: 64, heads: 1, longest: 70 },
    Sizes { hidden: 48, intermediate: 96, heads: 3, longest: 70 },
    Sizes { hidden: 20, intermediate: 12, heads: 2, longest: 70 },
];

fn network(draft: &Draft, precision: Precision, allowed: Allowed) -> Network {
    // Tests compute on their own threads: several of them with several threads each would wait for each other.
    pullquote_torch::threads::compute_alone();
    let directory = write(draft);
    let model = Model::read(directory.path()).expect("the model is sound");
    Network::load(&model, Device::Cpu, precision, allowed).expect("the model is sound")
}

fn encode(network: &Network, batch: &Batch) -> Vec<Vec<f32>> {
    packed_rows(network, batch).expect("the model is sound")
}

/// All lengths up to 70, then some around multiples of registers and blocks.
fn lengths(longest: i64) -> Vec<u32> {
    let longest = u32::try_from(longest).expect("it is small");
    let few = [71, 79, 80, 81, 95, 96, 97, 127, 128, 129, 191, 255, 256, 257, 299, 300];
    (1..=70).chain(few).filter(|length| *length <= longest).collect()
}

#[test]
fn every_way_computes_the_same() {
    for sizes in SIZES {
        for activation in ["gelu", "gelu_new", "relu"] {
            let draft = calm("bert", sizes, activation);
            let batch = batch(3, &lengths(sizes.longest));
            let plain = network(&draft, Precision::Float32, Allowed::PLAIN);
            let exact = padded_rows(&plain, &batch).expect("the model is sound");
            for allowed in WAYS {
                let of = |precision| encode(&network(&draft, precision, allowed), &batch);
                let case = format!("{sizes:?} {activation} {allowed:?}");
                let difference = largest_difference(&of(Precision::Float32), &exact);
                assert!(difference < 1e-5, "float32 {case}: {difference}");
                let cosine = least_cosine(&of(Precision::BFloat16), &exact);
                assert!(cosine > 0.9995, "bfloat16 {case}: {cosine}");
                let cosine = least_cosine(&of(Precision::Int8), &exact);
                assert!(cosine > 0.995, "int8 {case}: {cosine}");
            }
        }
    }
}

#[test]
fn a_row_is_the_same_in_any_batch() {
    let draft = calm("bert", SIZES[0], "gelu");
    let together = batch(9, &[5, 64, 5, 1, 17, 64, 33, 128, 300, 6]);
    for (precision, tolerance) in [(Precision::Float32, 1e-6), (Precision::BFloat16, 0.0), (Precision::Int8, 0.0)] {
        for allowed in [Allowed::PLAIN, Allowed::ALL] {
            let network = network(&draft, precision, allowed);
            let rows = encode(&network, &together);
            let single: Vec<Vec<f32>> = alone(&together).iter().flat_map(|row| encode(&network, row)).collect();
            let difference = largest_difference(&rows, &single);
            assert!(difference <= tolerance, "{precision:?} {allowed:?}: {difference}");
        }
    }
}

#[test]
fn what_is_no_number_is_seen_in_every_precision() {
    // One that the residual carries to the end, and two that only the next layer's input shows.
    for name in [
        "embeddings.word_embeddings.weight",
        "encoder.layer.0.attention.self.value.bias",
        "encoder.layer.1.intermediate.dense.bias",
    ] {
        for broken in [f64::NAN, f64::INFINITY] {
            // Not relu: of what is no number oneDNN makes zero there.
            let draft = calm("bert", SIZES[0], "gelu");
            let (_, tensor) = draft.tensors.iter().find(|(found, _)| found == name).expect("it is there");
            let row = tensor.f_narrow(0, 7, 1).and_then(|mut row| row.f_fill_(broken));
            let _ = row.expect("torch works");
            for precision in [Precision::Float32, Precision::BFloat16, Precision::Int8] {
                for allowed in [Allowed::PLAIN, Allowed::ALL] {
                    let network = network(&draft, precision, allowed);
                    let rows = packed_rows(&network, &Batch::new(vec![1, 7, 2], vec![3]));
                    assert!(rows.is_err(), "{name} {precision:?} {allowed:?} {broken}");
                }
            }
        }
    }
}
