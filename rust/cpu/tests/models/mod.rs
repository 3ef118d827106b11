//! Tiny models, written as Hugging Face would, and batches for them.

#![allow(dead_code, reason = "each test uses a part of this")]

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use half::{bf16, f16};
use pullquote_core::encoder::dtype::Dtype;
use pullquote_core::encoder::model::Model;
use pullquote_core::encoder::{Batch, Encoder, Ticket};
use pullquote_core::error::Error;
use pullquote_cpu::encoder::CpuEncoder;
use pullquote_cpu::instructions::InstructionSet;
use pullquote_cpu::network::{Network, Workspace};
use safetensors::tensor::TensorView;
use serde_json::{Value, json};

pub const VOCABULARY: usize = 50;
pub const LONGEST: usize = 20;

/// A model before it is written, so that tests can change it.
pub struct Draft {
    pub config: Value,
    pub pooling: &'static str,
    pub tensors: Vec<(String, Tensor)>,
    /// The type in the file.
    pub stored: safetensors::Dtype,
}

#[derive(Clone)]
pub struct Tensor {
    pub values: Vec<f32>,
    pub shape: Vec<usize>,
}

/// Sizes of a model with two layers.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    pub hidden: usize,
    pub intermediate: usize,
    pub heads: usize,
    pub longest: usize,
}

/// Sizes that fill no register of any processor.
pub const ODD: Sizes = Sizes { hidden: 20, intermediate: 36, heads: 5, longest: LONGEST };
/// Sizes that fill all registers.
pub const EVEN: Sizes = Sizes { hidden: 64, intermediate: 160, heads: 2, longest: 300 };

/// A temporary directory.
pub struct ModelDirectory(PathBuf);

impl Drop for ModelDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl ModelDirectory {
    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn write(&self, name: &str, content: &[u8]) {
        std::fs::write(self.0.join(name), content).expect("the temporary directory is writable");
    }

    pub fn model(&self) -> Model {
        Model::read(&self.0).expect("the small files are sound")
    }

    pub fn network(&self, dtype: Dtype, set: InstructionSet) -> Network {
        Network::load(&self.model(), dtype, set).expect("the model is sound")
    }

    pub fn failure(&self) -> Error {
        CpuEncoder::load(self.path(), &["cpu".to_owned()], "float32", Some(1)).expect_err("the model is bad")
    }
}

pub fn draft(family: &str) -> Draft {
    sized_draft(family, ODD)
}

/// Weights of two layers, the same in every run, that keep the scale of their inputs; `RoBERTa` has two more position
/// embeddings.
pub fn sized_draft(family: &str, sizes: Sizes) -> Draft {
    let Sizes { hidden, intermediate, heads, longest } = sizes;
    let offset = if family == "bert" { 0 } else { 2 };
    let config = json!({
        "model_type": family, "hidden_size": hidden, "intermediate_size": intermediate, "num_attention_heads": heads,
        "num_hidden_layers": 2, "vocab_size": VOCABULARY, "max_position_embeddings": longest + offset,
        "pad_token_id": 1, "hidden_act": "gelu", "layer_norm_eps": 1e-12, "type_vocab_size": 2,
    });
    let mut state = 1;
    let mut random = |shape: &[usize]| random_tensor(&mut state, shape);
    let mut tensors = vec![
        ("embeddings.word_embeddings.weight".to_owned(), random(&[VOCABULARY, hidden])),
        ("embeddings.position_embeddings.weight".to_owned(), random(&[longest + offset, hidden])),
        ("embeddings.token_type_embeddings.weight".to_owned(), random(&[2, hidden])),
        ("embeddings.LayerNorm.weight".to_owned(), random(&[hidden])),
        ("embeddings.LayerNorm.bias".to_owned(), random(&[hidden])),
    ];
    for layer in 0..2 {
        let linears = [
            ("attention.self.query", hidden, hidden),
            ("attention.self.key", hidden, hidden),
            ("attention.self.value", hidden, hidden),
            ("attention.output.dense", hidden, hidden),
            ("intermediate.dense", intermediate, hidden),
            ("output.dense", hidden, intermediate),
        ];
        for (name, outputs, inputs) in linears {
            let mut weight = random(&[outputs, inputs]);
            #[expect(clippy::cast_precision_loss, reason = "it is small")]
            let scale = (3.0 / inputs as f32).sqrt();
            weight.values.iter_mut().for_each(|value| *value *= scale);
            tensors.push((format!("encoder.layer.{layer}.{name}.weight"), weight));
            tensors.push((format!("encoder.layer.{layer}.{name}.bias"), random(&[outputs])));
        }
        for name in ["attention.output.LayerNorm", "output.LayerNorm"] {
            tensors.push((format!("encoder.layer.{layer}.{name}.weight"), random(&[hidden])));
            tensors.push((format!("encoder.layer.{layer}.{name}.bias"), random(&[hidden])));
        }
    }
    Draft { config, pooling: "mean", tensors, stored: safetensors::Dtype::F32 }
}

/// Values between -1 and 1.
fn random_tensor(state: &mut u64, shape: &[usize]) -> Tensor {
    let count = shape.iter().product();
    let values = (0..count).map(|_| f32::from(u16::try_from(next(state) % 2001).expect("below 2001")) / 1000.0 - 1.0);
    Tensor { values: values.collect(), shape: shape.to_vec() }
}

/// Knuth's linear congruential generator; its high bits.
pub fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

/// A directory with the small files of a draft and no weights.
pub fn write_small_files(draft: &Draft) -> ModelDirectory {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name = format!("pullquote-cpu-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let directory = ModelDirectory(std::env::temp_dir().join(name));
    std::fs::create_dir_all(directory.path().join("1_Pooling")).expect("the temporary directory is writable");
    let modules = json!([
        {"type": "sentence_transformers.models.Transformer", "path": ""},
        {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"},
        {"type": "sentence_transformers.models.Normalize", "path": "2_Normalize"},
    ]);
    directory.write("config.json", draft.config.to_string().as_bytes());
    directory.write("modules.json", modules.to_string().as_bytes());
    directory.write("1_Pooling/config.json", json!({"pooling_mode": draft.pooling}).to_string().as_bytes());
    directory
}

/// Tensors as a safetensors file.
pub fn weights(tensors: &[(String, Tensor)], stored: safetensors::Dtype) -> Vec<u8> {
    let bytes = |values: &[f32]| -> Vec<u8> {
        match stored {
            safetensors::Dtype::F16 => values.iter().flat_map(|value| f16::from_f32(*value).to_le_bytes()).collect(),
            safetensors::Dtype::BF16 => values.iter().flat_map(|value| bf16::from_f32(*value).to_le_bytes()).collect(),
            safetensors::Dtype::I32 => values.iter().flat_map(|_| 1_i32.to_le_bytes()).collect(),
            _ => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
        }
    };
    let data: Vec<Vec<u8>> = tensors.iter().map(|(_, tensor)| bytes(&tensor.values)).collect();
    let views = tensors.iter().zip(&data).map(|((name, tensor), data)| {
        (name.clone(), TensorView::new(stored, tensor.shape.clone(), data).expect("sizes are right"))
    });
    safetensors::serialize(views.collect::<HashMap<_, _>>(), None).expect("tensors can be written")
}

pub fn write(draft: &Draft) -> ModelDirectory {
    let directory = write_small_files(draft);
    directory.write("model.safetensors", &weights(&draft.tensors, draft.stored));
    directory
}

/// Rows of these lengths; the same seed chooses the same ids.
pub fn batch(seed: u64, lengths: &[u32]) -> Batch {
    let mut state = seed;
    let total: u32 = lengths.iter().sum();
    let vocabulary = VOCABULARY as u64;
    let ids = (0..total).map(|_| i32::try_from(next(&mut state) % vocabulary).expect("the vocabulary is small"));
    Batch::new(ids.collect(), lengths.to_vec())
}

/// A network's rows of a batch.
pub fn rows(network: &Network, batch: &Batch) -> Vec<Vec<f32>> {
    let (mut workspace, mut rows) = (Workspace::default(), vec![1.0; 7]);
    network.encode(batch, &mut workspace, &mut rows);
    assert_eq!(rows.len(), batch.lengths.len() * network.dimension(), "earlier values are overwritten");
    rows.chunks(network.dimension()).map(<[f32]>::to_vec).collect()
}

/// Each row of a batch as a batch.
pub fn single_rows(batch: &Batch) -> Vec<Batch> {
    let mut start = 0;
    let mut rows = Vec::new();
    for length in &batch.lengths {
        let end = start + *length as usize;
        rows.push(Batch::new(batch.ids[start..end].to_vec(), vec![*length]));
        start = end;
    }
    rows
}

pub fn load(directory: &ModelDirectory, devices: &[&str], threads: Option<usize>) -> CpuEncoder {
    let devices: Vec<String> = devices.iter().map(|device| (*device).to_owned()).collect();
    CpuEncoder::load(directory.path(), &devices, "float32", threads).expect("the model is sound")
}

pub fn collect(encoder: &mut CpuEncoder, ticket: Ticket) -> Vec<Vec<f32>> {
    let (mut rows, dimension) = (Vec::new(), encoder.spec().dimension);
    let receive = &mut |values: Cow<'_, [f32]>| rows = values.chunks(dimension).map(<[f32]>::to_vec).collect();
    encoder.collect(ticket, receive).expect("the batch is sound");
    rows
}

pub fn encode(encoder: &mut CpuEncoder, batch: &Batch) -> Vec<Vec<f32>> {
    let ticket = encoder.submit(0, batch).expect("the batch is sound");
    collect(encoder, ticket)
}

pub fn largest_difference(left: &[Vec<f32>], right: &[Vec<f32>]) -> f32 {
    assert_eq!(left.len(), right.len());
    let pairs = left.iter().flatten().zip(right.iter().flatten());
    pairs.map(|(left, right)| (left - right).abs()).fold(0.0, f32::max)
}

pub fn min_cosine(left: &[Vec<f32>], right: &[Vec<f32>]) -> f32 {
    assert_eq!(left.len(), right.len());
    let cosines = left.iter().zip(right).map(|(left, right)| left.iter().zip(right).map(|(a, b)| a * b).sum());
    cosines.fold(f32::INFINITY, f32::min)
}
