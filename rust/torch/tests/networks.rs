//! What models compute: rows of a batch and single rows, families, files, and modules.

mod models;

use models::{batch, draft, encode, largest_difference, load, single_rows, trace, write, write_small_files};
use pullquote_core::encoder::{Batch, Encoder};
use pullquote_torch::encoder::{LoadOptions, TorchEncoder};
use serde_json::json;
use tch::Tensor;

const TOLERANCE: f32 = 1e-5;

#[test]
fn a_row_does_not_depend_on_its_batch() {
    let directory = write(&draft("bert"));
    let mut encoder = load(&directory, &["cpu"], 2);
    let together = batch(5, &[9, 2, 20, 9, 1]);
    let rows = encode(&mut encoder, &together);
    let single: Vec<Vec<f32>> = single_rows(&together).iter().flat_map(|row| encode(&mut encoder, row)).collect();
    assert!(largest_difference(&rows, &single) < TOLERANCE);
    let difference = largest_difference(&rows[..1], &rows[3..4]);
    assert!(difference > 0.01, "different rows of one length differ, not by {difference}");
}

#[test]
fn roberta_is_bert_with_positions_after_the_padding_id() {
    let mut roberta = draft("xlm-roberta");
    let mut bert = draft("bert");
    bert.tensors = roberta.tensors.iter().map(|(name, tensor)| (name.clone(), tensor.shallow_clone())).collect();
    let table = bert.tensors[1].1.f_narrow(0, 2, models::LONGEST).and_then(|table| table.f_contiguous());
    bert.tensors[1].1 = table.expect("torch works");
    // Names as XLM-R checkpoints have them, so that prefixes are tested as well.
    roberta.tensors.iter_mut().for_each(|(name, _)| *name = format!("roberta.{name}"));
    let batch = batch(3, &[4, 20]);
    let rows = encode(&mut load(&write(&roberta), &["cpu"], 1), &batch);
    assert!(largest_difference(&rows, &encode(&mut load(&write(&bert), &["cpu"], 1), &batch)) < TOLERANCE);
}

#[test]
fn sharded_weights_are_equal() {
    let draft = draft("bert");
    let whole = write(&draft);
    let parts = write_small_files(&draft);
    let (first, second) = draft.tensors.split_at(9);
    let mut map = serde_json::Map::new();
    for (file, tensors) in [("a.safetensors", first), ("b.safetensors", second)] {
        Tensor::write_safetensors(tensors, parts.path().join(file)).expect("weights can be written");
        map.extend(tensors.iter().map(|(name, _)| (name.clone(), json!(file))));
    }
    parts.write("model.safetensors.index.json", json!({"weight_map": map}).to_string().as_bytes());
    let batch = batch(8, &[6, 13]);
    let rows = encode(&mut load(&whole, &["cpu"], 1), &batch);
    assert!(largest_difference(&rows, &encode(&mut load(&parts, &["cpu"], 1), &batch)) < 1e-6);
}

#[test]
fn half_precision_stays_close() {
    let directory = write(&draft("bert"));
    let batch = batch(2, &[12, 7]);
    let exact = encode(&mut load(&directory, &["cpu"], 1), &batch);
    for dtype in ["bfloat16", "float16"] {
        let encoder = TorchEncoder::load(directory.path(), &["cpu".to_owned()], dtype, Some(1), LoadOptions::default());
        let mut encoder = encoder.expect("the model is sound");
        assert_eq!(encoder.spec().dtype, dtype);
        for (exact, narrow) in exact.iter().zip(encode(&mut encoder, &batch)) {
            let cosine: f32 = exact.iter().zip(&narrow).map(|(left, right)| left * right).sum();
            assert!(cosine > 0.995, "{dtype}: {cosine}");
        }
    }
}

#[test]
fn torch_script_vectors_are_pooled_unless_they_are_row_vectors() {
    for pooled in [false, true] {
        let mut draft = draft("something-else");
        draft.config["vocab_size"] = json!(30);
        let directory = write_small_files(&draft);
        trace(pooled).save(directory.path().join("model.pt")).expect("a module can be saved");
        let narrow =
            TorchEncoder::load(directory.path(), &["cpu".to_owned()], "bfloat16", Some(1), LoadOptions::default())
                .expect_err("it is float32");
        assert!(["float32", "bfloat16"].iter().all(|dtype| narrow.message().contains(dtype)), "{narrow}");
        let mut encoder = load(&directory, &["cpu"], 1);
        assert_eq!((encoder.spec().dimension, encoder.spec().vocabulary), (3, 30));
        // Means 2 and 7 to 9, sums 6 and 7 to 9: of length one all the same direction as means, for these rows.
        let rows = encode(&mut encoder, &Batch::new(vec![1, 2, 3, 7], vec![3, 1]));
        for (row, first) in rows.iter().zip([2.0_f32, 7.0]) {
            let expected = [first, first + 1.0, first + 2.0];
            let length = expected.iter().map(|value| value * value).sum::<f32>().sqrt();
            for (value, expected) in row.iter().zip(expected) {
                assert!((value - expected / length).abs() < TOLERANCE, "{rows:?}");
            }
        }
    }
}
