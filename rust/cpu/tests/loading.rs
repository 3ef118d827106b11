//! Errors of models, devices and dtypes: their kind, and what they name.

mod models;

use models::{Draft, Tensor, draft, load, weights, write, write_small_files};
use pullquote_core::encoder::Encoder;
use pullquote_core::error::{Error, ErrorKind};
use pullquote_cpu::encoder::CpuEncoder;
use pullquote_cpu::instructions::InstructionSet;
use serde_json::json;

fn assert_names(error: &Error, kind: ErrorKind, words: &[&str]) {
    assert_eq!(error.kind(), kind, "{error}");
    for word in words {
        assert!(error.message().contains(word), "{error:?} does not name {word:?}");
    }
}

#[test]
fn unsupported_models_are_named() {
    let cases = [
        ("model_type", json!("t5"), &["\"t5\"", "bert, camembert, deberta-v2, distilbert", "model.pt"][..]),
        ("hidden_act", json!("mish"), &["\"mish\"", "gelu_new", "relu"]),
        ("position_embedding_type", json!("relative_key"), &["\"relative_key\"", "absolute"]),
        ("is_decoder", json!(true), &["is_decoder"]),
        ("auto_map", json!({"AutoModel": "modeling.Mine"}), &["auto_map.AutoModel", "modeling.Mine", "nomic_bert"]),
    ];
    for (key, value, words) in cases {
        let mut draft = draft("bert");
        draft.config[key] = value;
        assert_names(&write(&draft).failure(), ErrorKind::UnsupportedModel, words);
    }
}

#[test]
fn weights_of_wrong_shape_are_named() {
    type Damage = fn(&mut Draft);
    let cases: [(Damage, &[&str]); 5] = [
        (
            |draft| draft.tensors.retain(|(name, _)| name != "encoder.layer.1.output.dense.bias"),
            &["model.safetensors", "lacks the tensor encoder.layer.1.output.dense.bias", "[20]"],
        ),
        (
            |draft| draft.tensors[3].1 = Tensor { values: vec![0.0; 15], shape: vec![15] },
            &["model.safetensors", "embeddings.LayerNorm.weight", "[15]", "[20]"],
        ),
        (
            |draft| draft.tensors[0].1 = Tensor { values: vec![0.0; 400], shape: vec![50, 8] },
            &["embeddings.word_embeddings.weight", "[50, 8]", "[any, 20]"],
        ),
        (
            |draft| draft.tensors[1].1 = Tensor { values: vec![0.0; 180], shape: vec![9, 20] },
            &["embeddings.position_embeddings.weight", "9 positions", "20"],
        ),
        (|draft| draft.config["num_attention_heads"] = json!(3), &["config.json", "20", "3"]),
    ];
    for (damage, words) in cases {
        let mut draft = draft("bert");
        damage(&mut draft);
        assert_names(&write(&draft).failure(), ErrorKind::InvalidModel, words);
    }
    let mut missing = draft("bert");
    missing.config.as_object_mut().expect("it is one").remove("hidden_size");
    assert_names(&write(&missing).failure(), ErrorKind::InvalidModel, &["config.json", "hidden_size is missing"]);
    let mut integers = draft("bert");
    integers.stored = safetensors::Dtype::I32;
    assert_names(&write(&integers).failure(), ErrorKind::UnsupportedModel, &["model.safetensors", "I32", "bfloat16"]);
}

#[test]
fn embedding_table_gives_vocabulary_size() {
    let mut draft = draft("bert");
    draft.config["vocab_size"] = json!(4);
    assert_eq!(load(&write(&draft), &["cpu"], Some(1)).spec().vocabulary, 50);
}

#[test]
fn damaged_files_are_named() {
    let directory = write(&draft("bert"));
    let complete = weights(&draft("bert").tensors, safetensors::Dtype::F32);
    for length in [0, 4, 100, complete.len() / 2, complete.len() - 1] {
        directory.write("model.safetensors", &complete[..length]);
        assert_names(&directory.failure(), ErrorKind::InvalidModel, &["model.safetensors is damaged"]);
    }
    let empty = write_small_files(&draft("bert"));
    assert_names(&empty.failure(), ErrorKind::ModelNotFound, &["lacks", "model.safetensors"]);
    empty.write("model.safetensors.index.json", b"{}");
    assert_names(&empty.failure(), ErrorKind::InvalidModel, &["index.json", "weight_map"]);
    empty.write("model.safetensors.index.json", br#"{"weight_map": {"a": "../a.safetensors"}}"#);
    assert_names(&empty.failure(), ErrorKind::InvalidModel, &["../a.safetensors", "outside"]);
    empty.write("model.safetensors.index.json", br#"{"weight_map": {"a": "a.safetensors"}}"#);
    assert_names(&empty.failure(), ErrorKind::ModelNotFound, &["a.safetensors"]);
}

#[test]
fn unknown_dtypes_and_devices_are_named() {
    let directory = write(&draft("bert"));
    let refused = |devices: &str, dtype: &str| {
        CpuEncoder::load(directory.path(), &[devices.to_owned()], dtype, Some(1)).expect_err("there is none")
    };
    let words = ["\"int4\"", "\"auto\"", "\"bfloat16\"", "\"int8\""];
    assert_names(&refused("cpu", "int4"), ErrorKind::InvalidArgument, &words);
    assert_names(&refused("cuda:0", "auto"), ErrorKind::Device, &["\"cuda:0\"", "\"cpu\""]);
    assert_names(&refused("tpu", "auto"), ErrorKind::Device, &["\"tpu\""]);
}

#[test]
fn dtype_auto_is_int8_only_if_the_model_allows_it() {
    for set in InstructionSet::available() {
        let mut draft = draft("bert");
        let selected = |draft: &Draft| {
            let directory = write(draft);
            let encoder =
                CpuEncoder::load_with(Some(&directory.model()), None, &["cpu".to_owned()], None, Some(1), set);
            encoder.expect("the model is sound").spec().dtype.clone()
        };
        let plain = if set.has_bf16() { "bfloat16" } else { "float32" };
        assert_eq!(selected(&draft), plain, "{}", set.name());
        draft.config["pullquote"] = json!({ "int8": true });
        let measured = if set.has_fast_int8() { "int8" } else { plain };
        assert_eq!(selected(&draft), measured, "{}", set.name());
    }
}
