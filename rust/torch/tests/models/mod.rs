//! Tiny models, written as Hugging Face would, and batches for them.

#![allow(dead_code, reason = "each test uses a part of this")]

use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use pullquote_core::encoder::abi::{BatchArrays, BatchReport, EncoderTable};
use pullquote_core::encoder::dtype::Dtype;
use pullquote_core::encoder::model::Model;
use pullquote_core::encoder::{Batch, BatchTimes, Encoder, Ticket};
use pullquote_core::error::Result;
use pullquote_torch::encoder::{LoadOptions, TorchEncoder};
use pullquote_torch::model::layout::PaddingBuffer;
use pullquote_torch::model::network::{Network, copy_rows};
use pullquote_torch::model::varlen::Varlen;
use serde_json::{Value, json};
use tch::{CModule, Device, Kind, Tensor};

pub const HIDDEN: i64 = 16;
pub const INTERMEDIATE: i64 = 24;
pub const VOCABULARY: i64 = 50;
pub const LONGEST: i64 = 20;

/// A model before it is written, so that tests can change it.
pub struct Draft {
    pub config: Value,
    pub pooling: &'static str,
    pub tensors: Vec<(String, Tensor)>,
}

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
}

/// Sizes of a model with two layers.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    pub hidden: i64,
    pub intermediate: i64,
    pub heads: i64,
    pub longest: i64,
}

/// A tiny model, whose sizes fill no register of any cpu.
pub fn draft(family: &str) -> Draft {
    sized_draft(family, Sizes { hidden: HIDDEN, intermediate: INTERMEDIATE, heads: 2, longest: LONGEST })
}

/// Weights of two layers, the same in every run; `RoBERTa` has two more position embeddings.
pub fn sized_draft(family: &str, sizes: Sizes) -> Draft {
    let Sizes { hidden, intermediate, heads, longest } = sizes;
    let offset = if family == "bert" { 0 } else { 2 };
    let config = json!({
        "model_type": family, "hidden_size": hidden, "intermediate_size": intermediate, "num_attention_heads": heads,
        "num_hidden_layers": 2, "vocab_size": VOCABULARY, "max_position_embeddings": longest + offset,
        "pad_token_id": 1, "hidden_act": "gelu", "layer_norm_eps": 1e-12, "type_vocab_size": 2,
    });
    let mut state = 1;
    let mut random = |shape: &[i64]| random_tensor(&mut state, shape);
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
            tensors.push((format!("encoder.layer.{layer}.{name}.weight"), random(&[outputs, inputs])));
            tensors.push((format!("encoder.layer.{layer}.{name}.bias"), random(&[outputs])));
        }
        for name in ["attention.output.LayerNorm", "output.LayerNorm"] {
            tensors.push((format!("encoder.layer.{layer}.{name}.weight"), random(&[hidden])));
            tensors.push((format!("encoder.layer.{layer}.{name}.bias"), random(&[hidden])));
        }
    }
    Draft { config, pooling: "mean", tensors }
}

/// Other layers than BERT's: `modernbert` has pre-norm, gates, rotary positions, and a window in its second layer;
/// `qwen3` also has root mean square norms, norms of heads, fewer key heads than heads, and sees no later tokens.
pub fn other_draft(family: &str) -> Draft {
    let (hidden, inside): (i64, i64) = (32, 48);
    let (mut state, mut tensors) = (1, Vec::new());
    #[expect(clippy::cast_precision_loss, reason = "it is small")]
    let mut add = |name: &str, shape: &[i64]| {
        let random = random_tensor(&mut state, shape);
        let scaled = match shape {
            // The weight of a norm, and a layer that keeps the scale of its inputs.
            [_] => random.f_mul_scalar(0.2).and_then(|tensor| tensor.f_add_scalar(1)),
            _ => random.f_mul_scalar((3.0 / shape[1] as f64).sqrt()),
        };
        tensors.push((format!("{name}.weight"), scaled.expect("torch works")));
    };
    let mut config = json!({
        "model_type": family, "hidden_size": hidden, "intermediate_size": inside, "num_hidden_layers": 2,
        "vocab_size": VOCABULARY, "max_position_embeddings": LONGEST,
    });
    let own = if family == "modernbert" {
        add("embeddings.tok_embeddings", &[VOCABULARY, hidden]);
        add("embeddings.norm", &[hidden]);
        add("final_norm", &[hidden]);
        for layer in 0..2 {
            let mut add = |part: &str, shape: &[i64]| add(&format!("layers.{layer}.{part}"), shape);
            if layer > 0 {
                add("attn_norm", &[hidden]);
            }
            add("attn.Wqkv", &[3 * hidden, hidden]);
            add("attn.Wo", &[hidden, hidden]);
            add("mlp_norm", &[hidden]);
            add("mlp.Wi", &[2 * inside, hidden]);
            add("mlp.Wo", &[hidden, inside]);
        }
        json!({"num_attention_heads": 2, "global_attn_every_n_layers": 2, "local_attention": 6})
    } else {
        let (heads, key_heads, width) = (4, 2, 16);
        add("embed_tokens", &[VOCABULARY, hidden]);
        add("norm", &[hidden]);
        for layer in 0..2 {
            let mut add = |part: &str, shape: &[i64]| add(&format!("layers.{layer}.{part}"), shape);
            for (part, count) in [("q", heads), ("k", key_heads), ("v", key_heads)] {
                add(&format!("self_attn.{part}_proj"), &[count * width, hidden]);
            }
            add("self_attn.q_norm", &[width]);
            add("self_attn.k_norm", &[width]);
            add("self_attn.o_proj", &[hidden, heads * width]);
            add("input_layernorm", &[hidden]);
            add("post_attention_layernorm", &[hidden]);
            add("mlp.gate_proj", &[inside, hidden]);
            add("mlp.up_proj", &[inside, hidden]);
            add("mlp.down_proj", &[hidden, inside]);
        }
        json!({"num_attention_heads": heads, "num_key_value_heads": key_heads, "head_dim": width})
    };
    config.as_object_mut().expect("it is one").extend(own.as_object().expect("it is one").clone());
    Draft { config, pooling: "mean", tensors }
}

/// A model whose linear layers keep the scale of their inputs.
pub fn scaled_draft(family: &str, sizes: Sizes, activation: &str) -> Draft {
    let mut draft = sized_draft(family, sizes);
    draft.config["hidden_act"] = json!(activation);
    for (name, tensor) in &mut draft.tensors {
        if let (true, [_, inputs]) = (name.starts_with("encoder"), tensor.size().as_slice()) {
            #[expect(clippy::cast_precision_loss, reason = "it is small")]
            let scaled = tensor.f_mul_scalar((3.0 / *inputs as f64).sqrt());
            *tensor = scaled.expect("torch works");
        }
    }
    draft
}

/// A module that returns each token's id plus 0, 1 and 2, or the sums of that over each row.
pub fn trace(pooled: bool) -> CModule {
    let shape = [2, 4];
    let inputs = [
        Tensor::f_ones(shape, (Kind::Int64, Device::Cpu)).expect("torch works"),
        Tensor::f_ones(shape, (Kind::Int64, Device::Cpu)).expect("torch works"),
    ];
    let offsets = Tensor::f_from_slice(&[0.0_f32, 1.0, 2.0]).expect("torch works");
    let forward = |inputs: &[Tensor]| {
        let tokens = inputs[0].f_to_kind(Kind::Float)?.f_unsqueeze(-1)?.f_add(&offsets)?;
        let masked = tokens.f_mul(&inputs[1].f_to_kind(Kind::Float)?.f_unsqueeze(-1)?)?;
        if pooled { masked.f_sum_dim_intlist(1_i64, false, Kind::Float) } else { Ok::<_, tch::TchError>(masked) }
    };
    let mut closure = |inputs: &[Tensor]| vec![forward(inputs).expect("torch works")];
    CModule::create_by_tracing("Module", "forward", &inputs, &mut closure).expect("the closure can be traced")
}

/// Values between -1 and 1.
fn random_tensor(state: &mut u64, shape: &[i64]) -> Tensor {
    let values: Vec<f32> = (0..shape.iter().product())
        .map(|_: i64| f32::from(u16::try_from(next(state) % 2001).expect("it is below 2001")) / 1000.0 - 1.0)
        .collect();
    Tensor::f_from_slice(&values).and_then(|tensor| tensor.f_view(shape)).expect("torch works")
}

/// Knuth's linear congruential generator; its high bits.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

/// A directory with the small files of a draft and no weights.
pub fn write_small_files(draft: &Draft) -> ModelDirectory {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name = format!("pullquote-torch-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
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

pub fn write(draft: &Draft) -> ModelDirectory {
    let directory = write_small_files(draft);
    Tensor::write_safetensors(&draft.tensors, directory.path().join("model.safetensors"))
        .expect("weights can be written");
    directory
}

/// Loads in float32.
pub fn load(directory: &ModelDirectory, devices: &[&str], threads: usize) -> TorchEncoder {
    let devices: Vec<String> = devices.iter().map(|device| (*device).to_owned()).collect();
    TorchEncoder::load(directory.path(), &devices, "float32", (threads > 0).then_some(threads), LoadOptions::default())
        .expect("the model is sound")
}

/// Rows of these lengths; the same seed chooses the same ids.
pub fn batch(seed: u64, lengths: &[u32]) -> Batch {
    let mut state = seed;
    let total: u32 = lengths.iter().sum();
    let ids = (0..total)
        .map(|_| i32::try_from(next(&mut state) % VOCABULARY.unsigned_abs()).expect("the vocabulary is small"));
    Batch::new(ids.collect(), lengths.to_vec())
}

/// The network of a model on a CPU.
pub fn network(directory: &ModelDirectory, dtype: Dtype, kind: Kind, varlen: Varlen) -> Network {
    let model = Model::read(directory.path()).expect("the model is sound");
    tch::no_grad(|| Network::load(&model, Device::Cpu, dtype, kind, varlen)).expect("the model is sound")
}

/// Rows in the padded layout.
pub fn padded_rows(network: &Network, batch: &Batch) -> Result<Vec<Vec<f32>>> {
    let rows = network.encode(batch, &mut PaddingBuffer::default()).expect("torch has memory");
    rows_of(network, &rows)
}

fn rows_of(network: &Network, rows: &Tensor) -> Result<Vec<Vec<f32>>> {
    let mut values = vec![1.0; 7]; // is overwritten
    copy_rows(rows, &mut values)?;
    Ok(values.chunks(network.dimension()).map(<[f32]>::to_vec).collect())
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

/// The values of a batch that is sound.
pub fn collect_values(encoder: &mut TorchEncoder, ticket: Ticket) -> Vec<f32> {
    let mut collected = Vec::new();
    encoder.collect(ticket, &mut |values| collected = values.into_owned()).expect("the batch is sound");
    collected
}

pub fn collect(encoder: &mut TorchEncoder, ticket: Ticket) -> Vec<Vec<f32>> {
    let dimension = encoder.spec().dimension;
    collect_values(encoder, ticket).chunks(dimension).map(<[f32]>::to_vec).collect()
}

unsafe extern "C" fn receive(context: *mut c_void, values: *const f32, count: usize) {
    // SAFETY: `collect_from` passes this type, and `values` has `count` values.
    unsafe { (*context.cast::<Vec<f32>>()).extend_from_slice(std::slice::from_raw_parts(values, count)) };
}

/// Submits to the first device of a table. Returns the code and the batch's number.
pub fn submit_to(table: &EncoderTable, batch: &Batch) -> (i32, u64) {
    let (Batch { ids, lengths, queries, .. }, mut number) = (batch, 0);
    let arrays = BatchArrays {
        output: batch.output as u32,
        ids: ids.as_ptr(),
        id_count: ids.len(),
        lengths: lengths.as_ptr(),
        row_count: lengths.len(),
        queries: queries.as_ptr(),
        seconds: std::ptr::null(),
        query_values: queries.len(),
    };
    // SAFETY: the tests release the state last; pointers and counts belong together.
    (unsafe { (table.submit)(table.state, 0, &raw const arrays, &raw mut number) }, number)
}

/// Collects from the first device of a table: the code, the values, and the report.
pub fn collect_from(table: &EncoderTable, number: u64) -> (i32, Vec<f32>, BatchReport) {
    let mut values: Vec<f32> = Vec::new();
    let mut report = BatchReport { times: BatchTimes::default(), graphs_replayed: 0, graphs_error: std::ptr::null() };
    let context = (&raw mut values).cast();
    // SAFETY: the tests release the state last; the context is what `receive` expects.
    let code = unsafe { (table.collect)(table.state, 0, number, receive, context, &raw mut report) };
    (code, values, report)
}

pub fn encode(encoder: &mut TorchEncoder, batch: &Batch) -> Vec<Vec<f32>> {
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
