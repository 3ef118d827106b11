//! Interprets `config.json` of each family. A setting that changes vectors and that no encoder implements is refused,
//! by its name.

mod config;
mod deberta;

use config::{Config, Keys};
use deberta::deberta;
use serde_json::Value;

use super::files::text;
use super::names::{DISTILBERT, GEMMA3, JINA, JINA_QUERY_NORM, JINA_ROBERTA, MODERNBERT, MPNET, NEW, NOMIC, QWEN3};
use super::transformer::{Bias, Biases, BlockNorms, LayerAttention, Norm, QueryNorm, Transformer};
use super::{Activation, Model};
use crate::error::Result;

type Reader = fn(&Config<'_>) -> Result<Transformer>;

/// What reads each supported `model_type`.
const FAMILIES: [(&str, Reader); 14] = [
    ("bert", bert),
    ("camembert", bert),
    ("deberta-v2", deberta),
    ("distilbert", distilbert),
    ("gemma3_text", gemma3),
    ("gte", gte),
    ("modernbert", modernbert),
    ("mpnet", mpnet),
    ("new", gte),
    ("nomic_bert", nomic_bert),
    ("qwen2", qwen),
    ("qwen3", qwen),
    ("roberta", bert),
    ("xlm-roberta", bert),
];

/// The `model_type` of a configuration; where it has none, the one that its own code computes.
pub(super) fn model_type(config: &Value) -> &str {
    let code = config.get("auto_map").and_then(|map| text(map, "AutoConfig"));
    let of_code = if code == Some("configuration_xlm_roberta.XLMRobertaFlashConfig") { "xlm-roberta" } else { "" };
    text(config, "model_type").unwrap_or(of_code)
}

/// Whether positions start after the padding id, as in `RoBERTa`.
pub(super) fn is_roberta(model_type: &str) -> bool {
    matches!(model_type, "roberta" | "xlm-roberta" | "camembert")
}

/// The row of the position table for the first token.
pub(super) fn first_position(model_type: &str, config: &Value) -> usize {
    let padding = config.get("pad_token_id").and_then(Value::as_u64).and_then(|id| usize::try_from(id).ok());
    match model_type {
        // MPNet's is constant in its code.
        "mpnet" => 2,
        other if is_roberta(other) => padding.unwrap_or(1).saturating_add(1),
        _ => 0,
    }
}

impl Transformer {
    /// Reads and checks `config.json`.
    ///
    /// # Errors
    /// [`ErrorKind::UnsupportedModel`] for another architecture, [`ErrorKind::InvalidModel`] for a missing or
    /// impossible number.
    pub fn read(model: &Model) -> Result<Self> {
        let config = Config { model, path: model.file("config.json").display().to_string() };
        let model_type = model.model_type.as_str();
        let of_jina = config.auto_map().any(|class| class.contains("JinaBert"))
            || config.text("position_embedding_type") == Some("alibi");
        if model_type == "bert" && of_jina {
            return jina(&config);
        }
        if let Some((_, read)) = FAMILIES.iter().find(|(name, _)| *name == model_type) {
            return read(&config);
        }
        Err(config.unsupported(&format!(
            "model_type {model_type:?} is not known; known are {}, static embeddings, or any TorchScript module saved as model.pt",
            FAMILIES.map(|(name, _)| name).join(", ")
        )))
    }
}

/// What jina's own code calls XLM-RoBERTa, in which only tensors have other names.
const OF_JINA_ROBERTA: &str = "modeling_xlm_roberta.XLMRobertaModel";

fn bert(config: &Config<'_>) -> Result<Transformer> {
    let of_jina = config.auto_map().any(|class| class == OF_JINA_ROBERTA);
    if !of_jina {
        config.refuse_custom_code()?;
    }
    config.one_of("position_embedding_type", "absolute", &["absolute"])?;
    if config.flag("is_decoder", false) {
        return Err(config.unsupported("is_decoder true is not known; known are encoders"));
    }
    let plain = config.plain(&Keys::BERT)?;
    Ok(if of_jina { Transformer { names: &[JINA_ROBERTA], ..plain } } else { plain })
}

fn mpnet(config: &Config<'_>) -> Result<Transformer> {
    config.refuse_custom_code()?;
    let buckets = config.number_or("relative_attention_num_buckets", 32)?;
    // The code takes 32 of them, however many the table has.
    if buckets != 32 {
        return Err(config.unknown("relative_attention_num_buckets", buckets, "32"));
    }
    let plain = config.plain(&Keys::BERT)?;
    Ok(Transformer { token_types: false, bias: Bias::Buckets(buckets), names: &[MPNET], ..plain })
}

fn distilbert(config: &Config<'_>) -> Result<Transformer> {
    config.refuse_custom_code()?;
    let keys = Keys {
        hidden: "dim",
        intermediate: "hidden_dim",
        heads: "n_heads",
        layers: "n_layers",
        activation: "activation",
        epsilon: "",
        default_epsilon: 1e-12,
    };
    Ok(Transformer { token_types: false, names: &[DISTILBERT], ..config.plain(&keys)? })
}

/// jina-embeddings-v2: BERT with `ALiBi` and a gated feed-forward layer.
fn jina(config: &Config<'_>) -> Result<Transformer> {
    config.one_of("position_embedding_type", "alibi", &["alibi"])?;
    let activation = match config.one_of("feed_forward_type", "geglu", &["geglu", "reglu"])? {
        "reglu" => Activation::Relu,
        _ => Activation::Gelu,
    };
    Ok(Transformer {
        first_position: None,
        bias: Bias::Alibi,
        query_norm: QueryNorm::Rows,
        activation,
        gated: true,
        biases: Biases { up: false, ..Biases::ALL },
        names: &[JINA, JINA_QUERY_NORM],
        ..config.plain(&Keys::BERT)?
    })
}

fn nomic_bert(config: &Config<'_>) -> Result<Transformer> {
    if config.number_or("num_experts", 0)? > 0 && config.number_or("moe_every_n_layers", 0)? > 0 {
        let experts = config.number_or("num_experts", 0)?;
        return Err(config.unknown("num_experts", experts, "0: models without mixtures of experts"));
    }
    for (key, known) in [
        ("prenorm", false),
        ("parallel_block", false),
        ("use_rms_norm", false),
        ("rotary_emb_interleaved", false),
        ("causal", false),
    ] {
        if config.flag(key, known) != known {
            return Err(config.unknown(key, !known, known));
        }
    }
    let keys = Keys {
        hidden: config.first_of("n_embd", "hidden_size"),
        intermediate: config.first_of("n_inner", "intermediate_size"),
        heads: config.first_of("n_head", "num_attention_heads"),
        layers: config.first_of("n_layer", "num_hidden_layers"),
        activation: "",
        epsilon: config.first_of("layer_norm_epsilon", "layer_norm_eps"),
        default_epsilon: 1e-12,
    };
    let own = config.text("activation_function").is_some();
    let activation = if own {
        match config.one_of("activation_function", "swiglu", &["swiglu", "geglu"])? {
            "geglu" => Activation::Gelu,
            _ => Activation::Silu,
        }
    } else {
        config.activation("hidden_act", "silu")?
    };
    let plain = config.plain(&keys)?;
    let fraction = config.float_or("rotary_emb_fraction", 1.0)?;
    if (fraction - 1.0).abs() > f64::EPSILON {
        return Err(config.unknown("rotary_emb_fraction", fraction, "1"));
    }
    let theta =
        if own { config.float_or("rotary_emb_base", 10_000.0)? } else { config.rope(&config.model.config, 1000.0)? };
    Ok(Transformer {
        first_position: None,
        token_types: config.number_or("type_vocab_size", 2)? > 0,
        activation,
        gated: true,
        biases: Biases {
            qkv: config.flag("qkv_proj_bias", false),
            attention: config.flag("qkv_proj_bias", false),
            up: config.flag("mlp_fc1_bias", false),
            down: config.flag("mlp_fc2_bias", false),
            norms: true,
        },
        attention: same_layers(&plain, frequencies(theta, plain.head_width)),
        names: &[NOMIC],
        ..plain
    })
}

/// gte v1.5 and others: `new` with its own code, `gte` in transformers.
fn gte(config: &Config<'_>) -> Result<Transformer> {
    config.one_of("position_embedding_type", "rope", &["rope"])?;
    config.one_of("layer_norm_type", "layer_norm", &["layer_norm"])?;
    for (key, known) in [("logn_attention_scale", false), ("pack_qkv", true)] {
        if config.flag(key, known) != known {
            return Err(config.unknown(key, !known, known));
        }
    }
    let mut plain = config.plain(&Keys::BERT)?;
    let default = if config.model.model_type == "gte" { 160_000.0 } else { 10_000.0 };
    let rotary = if config.value("rope_parameters").is_some() {
        frequencies(config.rope(&config.model.config, default)?, plain.head_width)
    } else {
        config.ntk_frequencies(plain.head_width, default)?
    };
    plain.attention = same_layers(&plain, rotary);
    Ok(Transformer {
        first_position: None,
        token_types: config.number_or("type_vocab_size", 2)? > 0,
        gated: true,
        biases: Biases { up: false, ..Biases::ALL },
        names: &[NEW],
        ..plain
    })
}

fn modernbert(config: &Config<'_>) -> Result<Transformer> {
    config.refuse_custom_code()?;
    let keys = Keys { activation: "hidden_activation", epsilon: "norm_eps", default_epsilon: 1e-5, ..Keys::BERT };
    let plain = config.plain(&keys)?;
    let every = config.number_or("global_attn_every_n_layers", 3)?.max(1);
    let local = config.layer_types(plain.layers, |layer| layer % every != 0)?;
    let attention_bias = config.flag("attention_bias", false);
    let mlp_bias = config.flag("mlp_bias", false);
    Ok(Transformer {
        block: BlockNorms::PreNorm { skips_first: true, output_norms: false },
        first_position: None,
        token_types: false,
        gated: true,
        attention: config.two_kinds(
            &plain,
            &local,
            config.number_or("local_attention", 128)? / 2,
            [("global_rope_theta", 160_000.0), ("local_rope_theta", 10_000.0)],
        )?,
        biases: Biases {
            qkv: attention_bias,
            attention: attention_bias,
            up: mlp_bias,
            down: mlp_bias,
            norms: config.flag("norm_bias", false),
        },
        names: &[MODERNBERT],
        ..plain
    })
}

/// Qwen 2 has biases where Qwen 3 has norms of queries and keys.
fn qwen(config: &Config<'_>) -> Result<Transformer> {
    config.refuse_custom_code()?;
    let is_second = config.model.model_type == "qwen2";
    let keys = Keys { epsilon: "rms_norm_eps", default_epsilon: 1e-6, ..Keys::BERT };
    let (hidden, heads) = (config.number(keys.hidden)?, config.number(keys.heads)?);
    let plain = config.decoder(&keys, "hidden_act", if is_second { hidden / heads } else { 128 })?;
    let theta = config.rope(&config.model.config, 10_000.0)?;
    let window = if config.flag("use_sliding_window", false) { config.number("sliding_window").ok() } else { None };
    let from = config.number_or("max_window_layers", 28)?;
    let local = config.layer_types(plain.layers, |layer| window.is_some() && layer >= from)?;
    let rotary = frequencies(theta, plain.head_width);
    let attention = local.into_iter().map(|is_local| LayerAttention {
        window: window.filter(|_| is_local).map(|window| window.saturating_sub(1)),
        rotary: rotary.clone(),
    });
    Ok(Transformer {
        attention: attention.collect(),
        causal: !config.flag("use_bidirectional_attention", false) && config.flag("is_causal", true),
        query_norm: if is_second { QueryNorm::None } else { plain.query_norm },
        biases: if is_second { Biases { qkv: true, ..Biases::NONE } } else { plain.biases },
        names: &[QWEN3],
        ..plain
    })
}

fn gemma3(config: &Config<'_>) -> Result<Transformer> {
    config.refuse_custom_code()?;
    if let Some(cap) = config.value("attn_logit_softcapping") {
        return Err(config.unknown("attn_logit_softcapping", cap, "null"));
    }
    let keys = Keys { epsilon: "rms_norm_eps", default_epsilon: 1e-6, ..Keys::BERT };
    let plain = config.decoder(&keys, "hidden_activation", 256)?;
    let bidirectional = config.flag("use_bidirectional_attention", false);
    let window = config.number_or("sliding_window", 4096)?;
    // A causal window counts its own token; without a direction, half of it lies on each side.
    let window = if bidirectional { window / 2 } else { window.saturating_sub(1) };
    let pattern = config.value("sliding_window_pattern").or_else(|| config.value("_sliding_window_pattern"));
    let pattern = pattern.and_then(Value::as_u64).and_then(|pattern| usize::try_from(pattern).ok()).unwrap_or(6).max(1);
    let local = config.layer_types(plain.layers, |layer| (layer + 1) % pattern != 0)?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "as the model is computed")]
    let embedding_scale = (plain.hidden as f64).sqrt() as f32;
    Ok(Transformer {
        norm: Norm::RootMeanSquare { offset: 1 },
        block: BlockNorms::PreNorm { skips_first: false, output_norms: true },
        embedding_scale,
        attention_scale: config.float_or("query_pre_attn_scalar", 256.0)?.powf(-0.5),
        attention: config.two_kinds(
            &plain,
            &local,
            window,
            [("rope_theta", 1_000_000.0), ("rope_local_base_freq", 10_000.0)],
        )?,
        causal: !bidirectional,
        names: &[GEMMA3],
        ..plain
    })
}

/// The same rotation in every layer.
fn same_layers(plain: &Transformer, rotary: Vec<f32>) -> Vec<LayerAttention> {
    vec![LayerAttention { window: None, rotary }; plain.layers]
}

/// Radians for each position, for each pair of values in a head (<https://arxiv.org/abs/2104.09864>).
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "in float32, as models are trained")]
fn frequencies(theta: f64, head_width: usize) -> Vec<f32> {
    (0..head_width / 2).map(|pair| 1.0 / theta.powf((2 * pair) as f64 / head_width as f64) as f32).collect()
}
