//! Errors of models, devices and dtypes: their kind, and what they name.

mod models;

use models::{Draft, ModelDirectory, draft, write, write_small_files};
use pullquote_core::encoder::Encoder;
use pullquote_core::error::{Error, ErrorKind};
use pullquote_torch::encoder::{LoadOptions, TorchEncoder};
use serde_json::json;
use tch::{Device, Kind, Tensor};

fn failure(directory: &ModelDirectory) -> Error {
    TorchEncoder::load(directory.path(), &["cpu".to_owned()], "float32", Some(1), LoadOptions::default())
        .expect_err("the model is bad")
}

fn assert_error(error: &Error, kind: ErrorKind, words: &[&str]) {
    assert_eq!(error.kind(), kind, "{error}");
    for word in words {
        assert!(error.message().contains(word), "{error:?} does not name {word:?}");
    }
}

#[test]
fn unsupported_config_values_are_named() {
    let cases = [
        ("model_type", json!("t5"), &["\"t5\"", "bert, camembert, deberta-v2, distilbert", "model.pt"][..]),
        ("model_type", json!("model2vec"), &["static embeddings", "CPU encoder"]),
        ("hidden_act", json!("mish"), &["\"mish\"", "gelu_new", "relu"]),
        ("position_embedding_type", json!("relative_key"), &["\"relative_key\"", "absolute"]),
        ("is_decoder", json!(true), &["is_decoder"]),
    ];
    for (key, value, words) in cases {
        let mut draft = draft("bert");
        draft.config[key] = value;
        assert_error(&failure(&write(&draft)), ErrorKind::UnsupportedModel, words);
    }
}

#[test]
fn weights_of_another_shape_are_named() {
    type Damage = fn(&mut Draft);
    let cases: [(Damage, &[&str]); 5] = [
        (
            |draft| draft.tensors.retain(|(name, _)| name != "encoder.layer.1.output.dense.bias"),
            &["model.safetensors", "lacks the tensor encoder.layer.1.output.dense.bias", "[16]"],
        ),
        (
            |draft| draft.tensors[3].1 = Tensor::f_zeros([15], (Kind::Float, Device::Cpu)).expect("torch works"),
            &["model.safetensors", "embeddings.LayerNorm.weight", "[15]", "[16]"],
        ),
        (
            |draft| draft.tensors[0].1 = Tensor::f_zeros([50, 8], (Kind::Float, Device::Cpu)).expect("torch works"),
            &["embeddings.word_embeddings.weight", "[50, 8]", "[any, 16]"],
        ),
        (
            |draft| draft.tensors[1].1 = Tensor::f_zeros([9, 16], (Kind::Float, Device::Cpu)).expect("torch works"),
            &["embeddings.position_embeddings.weight", "9 positions", "20"],
        ),
        (|draft| draft.config["num_attention_heads"] = json!(3), &["config.json", "16", "3"]),
    ];
    for (damage, words) in cases {
        let mut draft = draft("bert");
        damage(&mut draft);
        assert_error(&failure(&write(&draft)), ErrorKind::InvalidModel, words);
    }
    let mut draft = draft("bert");
    draft.config.as_object_mut().expect("it is one").remove("hidden_size");
    assert_error(&failure(&write(&draft)), ErrorKind::InvalidModel, &["config.json", "hidden_size is missing"]);
}

#[test]
fn vocabulary_is_that_of_the_word_embeddings() {
    let mut draft = draft("bert");
    draft.config["vocab_size"] = json!(4);
    assert_eq!(models::load(&write(&draft), &["cpu"], 1).spec().vocabulary, 50);
}

#[test]
fn damaged_files_are_named() {
    let directory = write(&draft("bert"));
    let whole = std::fs::read(directory.path().join("model.safetensors")).expect("it was written");
    for length in [0, 4, 100, whole.len() / 2, whole.len() - 1] {
        directory.write("model.safetensors", &whole[..length]);
        assert_error(&failure(&directory), ErrorKind::InvalidModel, &["model.safetensors is damaged"]);
    }
    let empty = write_small_files(&draft("bert"));
    assert_error(&failure(&empty), ErrorKind::ModelNotFound, &["lacks", "model.safetensors", "model.pt"]);
    empty.write("model.safetensors.index.json", b"{}");
    assert_error(&failure(&empty), ErrorKind::InvalidModel, &["index.json", "weight_map"]);
    empty.write("model.safetensors.index.json", br#"{"weight_map": {"a": "../a.safetensors"}}"#);
    assert_error(&failure(&empty), ErrorKind::InvalidModel, &["../a.safetensors", "outside"]);
    empty.write("model.safetensors.index.json", br#"{"weight_map": {"a": "a.safetensors"}}"#);
    assert_error(&failure(&empty), ErrorKind::ModelNotFound, &["a.safetensors"]);
    let script = write_small_files(&draft("bert"));
    script.write("model.pt", b"no module");
    let error = failure(&script);
    assert_error(&error, ErrorKind::InvalidModel, &["model.pt"]);
    assert!(!error.message().contains('\n'), "{error}");
}

#[test]
fn unknown_dtypes_are_named() {
    let directory = write(&draft("bert"));
    let error = TorchEncoder::load(directory.path(), &["cpu".to_owned()], "int4", Some(1), LoadOptions::default())
        .expect_err("there is none");
    assert_error(&error, ErrorKind::InvalidArgument, &["\"int4\"", "\"auto\"", "\"float16\"", "\"int8\""]);
    let error = TorchEncoder::load(directory.path(), &["cpu".to_owned()], "int8", Some(1), LoadOptions::default())
        .expect_err("it has no bytes");
    assert_error(&error, ErrorKind::InvalidArgument, &["int8", "\"cpu\"", "own encoder"]);
}
