//! The names of each family's tensors, without the outer module's name.

/// The names of a transformer's tensors; weights and biases follow after a dot. Empty where there is none.
#[derive(Debug, PartialEq, Eq)]
pub struct Names {
    /// `[vocabulary, hidden]`
    pub words: &'static str,
    /// `[positions, hidden]`
    pub positions: &'static str,
    /// `[types, hidden]`
    pub token_types: &'static str,
    pub embedding_norm: &'static str,
    /// `[buckets, heads]`; with [`Bias::Disentangled`](super::transformer::Bias), `[distances, hidden]`.
    pub relative_bias: &'static str,
    /// Of that table.
    pub relative_norm: &'static str,
    /// Before the names of a layer's tensors; `{}` is its number.
    pub layer: &'static str,
    /// Queries, keys and values: three, or one that has them one after the other.
    pub qkv: &'static [&'static str],
    /// Queries and keys of distances, where they have weights of their own.
    pub relative_qk: [&'static str; 2],
    pub query_norm: &'static str,
    pub key_norm: &'static str,
    pub attention_output: &'static str,
    /// After attention with [`BlockNorms::PostNorm`](super::transformer::BlockNorms), else before it.
    pub attention_norm: &'static str,
    pub attention_output_norm: &'static str,
    /// Into the feed-forward layer. If it is gated: the activated projection and the other one, or one that has both.
    pub up: &'static [&'static str],
    /// In one that has both: whether the activated one is the first.
    pub activated_first: bool,
    /// Out of the feed-forward layer.
    pub down: &'static str,
    /// As `attention_norm`, for the feed-forward layer.
    pub mlp_norm: &'static str,
    pub mlp_output_norm: &'static str,
    pub final_norm: &'static str,
}

impl Names {
    /// The name of a tensor's module in a layer.
    pub fn of_layer(&self, layer: usize, part: &str) -> String {
        format!("{}{part}", self.layer.replace("{}", &layer.to_string()))
    }
}

pub(super) const BERT: Names = Names {
    words: "embeddings.word_embeddings",
    positions: "embeddings.position_embeddings",
    token_types: "embeddings.token_type_embeddings",
    embedding_norm: "embeddings.LayerNorm",
    relative_bias: "",
    relative_norm: "",
    layer: "encoder.layer.{}.",
    qkv: &["attention.self.query", "attention.self.key", "attention.self.value"],
    relative_qk: ["", ""],
    query_norm: "",
    key_norm: "",
    attention_output: "attention.output.dense",
    attention_norm: "attention.output.LayerNorm",
    attention_output_norm: "",
    up: &["intermediate.dense"],
    activated_first: true,
    down: "output.dense",
    mlp_norm: "output.LayerNorm",
    mlp_output_norm: "",
    final_norm: "",
};

pub(super) const MPNET: Names = Names {
    relative_bias: "encoder.relative_attention_bias",
    qkv: &["attention.attn.q", "attention.attn.k", "attention.attn.v"],
    attention_output: "attention.attn.o",
    attention_norm: "attention.LayerNorm",
    ..BERT
};

pub(super) const DEBERTA: Names = Names {
    relative_bias: "encoder.rel_embeddings",
    relative_norm: "encoder.LayerNorm",
    qkv: &["attention.self.query_proj", "attention.self.key_proj", "attention.self.value_proj"],
    relative_qk: ["attention.self.pos_query_proj", "attention.self.pos_key_proj"],
    ..BERT
};

pub(super) const DISTILBERT: Names = Names {
    layer: "transformer.layer.{}.",
    qkv: &["attention.q_lin", "attention.k_lin", "attention.v_lin"],
    attention_output: "attention.out_lin",
    attention_norm: "sa_layer_norm",
    up: &["ffn.lin1"],
    down: "ffn.lin2",
    mlp_norm: "output_layer_norm",
    ..BERT
};

/// jina-bert-implementation.
pub(super) const JINA: Names = Names { up: &["mlp.gated_layers"], down: "mlp.wo", mlp_norm: "mlp.layernorm", ..BERT };

/// jina-bert-v2-qk-post-norm.
pub(super) const JINA_QUERY_NORM: Names = Names {
    query_norm: "attention.self.layer_norm_q",
    key_norm: "attention.self.layer_norm_k",
    attention_norm: "layer_norm_1",
    up: &["mlp.up_gated_layer"],
    activated_first: false,
    down: "mlp.down_layer",
    mlp_norm: "layer_norm_2",
    ..BERT
};

/// XLM-RoBERTa in jina's own code.
pub(super) const JINA_ROBERTA: Names = Names {
    embedding_norm: "emb_ln",
    layer: "encoder.layers.{}.",
    qkv: &["mixer.Wqkv"],
    attention_output: "mixer.out_proj",
    attention_norm: "norm1",
    up: &["mlp.fc1"],
    down: "mlp.fc2",
    mlp_norm: "norm2",
    ..BERT
};

/// nomic-bert-2048; transformers saves `nomic_bert` with these names.
pub(super) const NOMIC: Names = Names {
    embedding_norm: "emb_ln",
    layer: "encoder.layers.{}.",
    qkv: &["attn.Wqkv"],
    attention_output: "attn.out_proj",
    attention_norm: "norm1",
    up: &["mlp.fc12", "mlp.fc11"],
    down: "mlp.fc2",
    mlp_norm: "norm2",
    ..BERT
};

/// Alibaba-NLP/new-impl; transformers saves `gte` with these names.
pub(super) const NEW: Names = Names {
    qkv: &["attention.qkv_proj"],
    attention_output: "attention.o_proj",
    attention_norm: "attn_ln",
    up: &["mlp.up_gate_proj"],
    activated_first: false,
    down: "mlp.down_proj",
    mlp_norm: "mlp_ln",
    ..BERT
};

pub(super) const MODERNBERT: Names = Names {
    words: "embeddings.tok_embeddings",
    embedding_norm: "embeddings.norm",
    layer: "layers.{}.",
    qkv: &["attn.Wqkv"],
    attention_output: "attn.Wo",
    attention_norm: "attn_norm",
    up: &["mlp.Wi"],
    down: "mlp.Wo",
    mlp_norm: "mlp_norm",
    final_norm: "final_norm",
    ..BERT
};

pub(super) const QWEN3: Names = Names {
    words: "embed_tokens",
    layer: "layers.{}.",
    qkv: &["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
    query_norm: "self_attn.q_norm",
    key_norm: "self_attn.k_norm",
    attention_output: "self_attn.o_proj",
    attention_norm: "input_layernorm",
    up: &["mlp.gate_proj", "mlp.up_proj"],
    down: "mlp.down_proj",
    mlp_norm: "post_attention_layernorm",
    final_norm: "norm",
    ..BERT
};

pub(super) const GEMMA3: Names = Names {
    attention_output_norm: "post_attention_layernorm",
    mlp_norm: "pre_feedforward_layernorm",
    mlp_output_norm: "post_feedforward_layernorm",
    ..QWEN3
};
