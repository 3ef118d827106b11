//! Interprets `config.json` of each family. A setting that changes vectors and that no encoder implements is refused,
//! by its name.

use serde_json::Value;

use super::names::{BERT, DISTILBERT, GEMMA3, JINA, JINA_QUERY_NORM, MODERNBERT, MPNET, NEW, NOMIC, QWEN3};
use super::transformer::{Bias, Biases, BlockNorms, LayerAttention, Norm, QueryNorm, Transformer};
use super::{Activation, Model};
use crate::error::{Error, ErrorKind, Result};

type Reader = fn(&Config<'_>) -> Result<Transformer>;

/// What reads each supported `model_type`.
const FAMILIES: [(&str, Reader); 13] = [
    ("bert", bert),
    ("camembert", bert),
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

fn bert(config: &Config<'_>) -> Result<Transformer> {
    config.refuse_custom_code()?;
    config.one_of("position_embedding_type", "absolute", &["absolute"])?;
    if config.flag("is_decoder", false) {
        return Err(config.unsupported("is_decoder true is not known; known are encoders"));
    }
    config.plain(&Keys::BERT)
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

/// A family's names for its sizes; empty if it has no such setting.
struct Keys {
    hidden: &'static str,
    intermediate: &'static str,
    heads: &'static str,
    layers: &'static str,
    activation: &'static str,
    epsilon: &'static str,
    /// Without that setting.
    default_epsilon: f64,
}

impl Keys {
    const BERT: Self = Self {
        hidden: "hidden_size",
        intermediate: "intermediate_size",
        heads: "num_attention_heads",
        layers: "num_hidden_layers",
        activation: "hidden_act",
        epsilon: "layer_norm_eps",
        default_epsilon: 1e-12,
    };
}

/// A `config.json`, with errors that name its fields.
struct Config<'model> {
    model: &'model Model,
    path: String,
}

impl Config<'_> {
    /// BERT with sizes of these names.
    fn plain(&self, keys: &Keys) -> Result<Transformer> {
        let (hidden, heads) = (self.number(keys.hidden)?, self.number(keys.heads)?);
        let layers = self.number(keys.layers)?;
        if hidden % heads != 0 {
            return Err(self.invalid(&format!("{} {hidden} is not a multiple of {} {heads}", keys.hidden, keys.heads)));
        }
        Ok(Transformer {
            hidden,
            intermediate: self.number(keys.intermediate)?,
            heads,
            key_heads: heads,
            head_width: hidden / heads,
            layers,
            norm: Norm::Layer,
            epsilon: self.float_or(keys.epsilon, keys.default_epsilon)?,
            block: BlockNorms::PostNorm,
            embedding_norm: true,
            embedding_scale: 1.0,
            first_position: Some(first_position(&self.model.model_type, &self.model.config)),
            token_types: true,
            bias: Bias::None,
            query_norm: QueryNorm::None,
            attention_scale: scale(hidden / heads),
            causal: false,
            attention: vec![LayerAttention { window: None, rotary: Vec::new() }; layers],
            activation: self.activation(keys.activation, "gelu")?,
            gated: false,
            biases: Biases::ALL,
            names: &[BERT],
        })
    }

    /// A decoder of the kind that Llama began, with norms of queries and keys.
    fn decoder(&self, keys: &Keys, activation: &'static str, head_width: usize) -> Result<Transformer> {
        let heads = self.number(keys.heads)?;
        let key_heads = self.number_or("num_key_value_heads", heads)?;
        if key_heads == 0 || heads % key_heads != 0 {
            return Err(
                self.invalid(&format!("num_attention_heads {heads} is no multiple of num_key_value_heads {key_heads}"))
            );
        }
        let head_width = self.number_or("head_dim", head_width)?;
        if head_width == 0 || head_width % 2 != 0 {
            return Err(self.invalid(&format!("head_dim is {head_width}, which is not even")));
        }
        let layers = self.number(keys.layers)?;
        let biases = self.flag("attention_bias", false);
        Ok(Transformer {
            hidden: self.number(keys.hidden)?,
            intermediate: self.number(keys.intermediate)?,
            heads,
            key_heads,
            head_width,
            layers,
            norm: Norm::RootMeanSquare { offset: 0 },
            epsilon: self.float_or(keys.epsilon, keys.default_epsilon)?,
            block: BlockNorms::PreNorm { skips_first: false, output_norms: false },
            embedding_norm: false,
            embedding_scale: 1.0,
            first_position: None,
            token_types: false,
            bias: Bias::None,
            query_norm: QueryNorm::Heads,
            attention_scale: scale(head_width),
            causal: true,
            attention: Vec::new(),
            activation: self
                .activation(activation, if activation == "hidden_act" { "silu" } else { "gelu_pytorch_tanh" })?,
            gated: true,
            biases: Biases { qkv: biases, attention: biases, ..Biases::NONE },
            names: &[],
        })
    }

    /// Layers with windows and layers without, each with a rotation of its own. `thetas` are names and defaults of
    /// both, those without a window first.
    fn two_kinds(
        &self,
        plain: &Transformer,
        local: &[bool],
        window: usize,
        thetas: [(&'static str, f64); 2],
    ) -> Result<Vec<LayerAttention>> {
        let parameters = self.value("rope_parameters");
        let mut rotary = Vec::with_capacity(2);
        for ((key, default), kind) in thetas.into_iter().zip(["full_attention", "sliding_attention"]) {
            let theta = if let Some(of_kind) = parameters.and_then(|parameters| parameters.get(kind)) {
                self.rope(of_kind, default)?
            } else {
                self.refuse_scaling(&self.model.config)?;
                self.float_or(key, default)?
            };
            rotary.push(frequencies(theta, plain.head_width));
        }
        let layer = |is_local: &bool| LayerAttention {
            window: is_local.then_some(window),
            rotary: rotary[usize::from(*is_local)].clone(),
        };
        Ok(local.iter().map(layer).collect())
    }

    /// Which layers see only a window: by `layer_types`, or by the rule of older files.
    fn layer_types(&self, layers: usize, rule: impl Fn(usize) -> bool) -> Result<Vec<bool>> {
        let Some(types) = self.value("layer_types").and_then(Value::as_array) else {
            return Ok((0..layers).map(rule).collect());
        };
        if types.len() != layers {
            return Err(self.invalid(&format!("layer_types has {} layers, not {layers}", types.len())));
        }
        let is_local = |kind: &Value| match kind.as_str() {
            Some("sliding_attention") => Ok(true),
            Some("full_attention") => Ok(false),
            _ => Err(self.unknown("layer_types", kind, "full_attention and sliding_attention")),
        };
        types.iter().map(is_local).collect()
    }

    /// The base of rotary embeddings, in `parameters` of transformers 4 or 5.
    fn rope(&self, parameters: &Value, default: f64) -> Result<f64> {
        let nested = parameters.get("rope_parameters").filter(|nested| nested.is_object());
        self.refuse_scaling(nested.unwrap_or(parameters))?;
        let theta = nested.and_then(|nested| nested.get("rope_theta")).or_else(|| parameters.get("rope_theta"));
        match theta.map(|theta| theta.as_f64().filter(|theta| *theta > 0.0)) {
            None => Ok(default),
            Some(Some(theta)) => Ok(theta),
            Some(None) => Err(self.invalid("rope_theta is not a positive number")),
        }
    }

    /// Refuses rotary embeddings that are stretched.
    fn refuse_scaling(&self, parameters: &Value) -> Result<()> {
        let scaling = parameters.get("rope_scaling").filter(|scaling| !scaling.is_null()).unwrap_or(parameters);
        let kind =
            scaling.get("rope_type").or_else(|| scaling.get("type")).and_then(Value::as_str).unwrap_or("default");
        let fraction = scaling.get("partial_rotary_factor").and_then(Value::as_f64).unwrap_or(1.0);
        if kind != "default" {
            return Err(self.unknown("rope_type", kind, "default"));
        }
        if (fraction - 1.0).abs() > f64::EPSILON {
            return Err(self.unknown("partial_rotary_factor", fraction, "1"));
        }
        Ok(())
    }

    /// Frequencies with the fixed scaling of Alibaba-NLP/new-impl (<https://kexue.fm/archives/9706>, formula 6).
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "in float32, as models are trained"
    )]
    fn ntk_frequencies(&self, head_width: usize, default: f64) -> Result<Vec<f32>> {
        let theta = self.float_or("rope_theta", default)?;
        let Some(scaling) = self.value("rope_scaling") else { return Ok(frequencies(theta, head_width)) };
        let kind = scaling.get("type").and_then(Value::as_str).unwrap_or_default();
        if kind != "ntk" {
            return Err(self.unknown("rope_scaling", scaling, "null and type \"ntk\""));
        }
        if scaling.get("mixed_b").is_some_and(|mixed| !mixed.is_null()) {
            return Err(self.unknown("rope_scaling.mixed_b", &scaling["mixed_b"], "null"));
        }
        let factor = scaling.get("factor").and_then(Value::as_f64).unwrap_or(1.0);
        if factor <= 1.0 {
            return Ok(frequencies(theta, head_width));
        }
        let stretch = factor.powf(2.0 / head_width as f64) as f32;
        Ok(frequencies(theta * factor, head_width).into_iter().map(|frequency| frequency / stretch).collect())
    }

    fn activation(&self, key: &str, default: &str) -> Result<Activation> {
        let name = self.text(key).unwrap_or(default);
        Activation::parse(name)
            .ok_or_else(|| self.unknown(key, name, Activation::NAMES.map(|(name, _)| name).join(", ")))
    }

    /// Whether another code computes the model than the one that its type names.
    fn refuse_custom_code(&self) -> Result<()> {
        let class = self.value("auto_map").and_then(|map| map.get("AutoModel")).and_then(Value::as_str);
        class.map_or(Ok(()), |class| {
            let known = "JinaBertModel for bert, and the code of nomic_bert and new";
            Err(self.unknown("auto_map.AutoModel", class, known))
        })
    }

    fn auto_map(&self) -> impl Iterator<Item = &str> {
        let classes = self.value("auto_map").and_then(Value::as_object);
        classes.into_iter().flat_map(|classes| classes.values().filter_map(Value::as_str))
    }

    /// A value that is neither missing nor null.
    fn value(&self, key: &str) -> Option<&Value> {
        self.model.config.get(key).filter(|value| !value.is_null())
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.value(key).and_then(Value::as_str)
    }

    fn flag(&self, key: &str, default: bool) -> bool {
        self.value(key).and_then(Value::as_bool).unwrap_or(default)
    }

    fn first_of(&self, key: &'static str, other: &'static str) -> &'static str {
        if self.value(key).is_some() { key } else { other }
    }

    fn one_of<'value>(&'value self, key: &str, default: &'static str, known: &[&str]) -> Result<&'value str> {
        let found = self.text(key).unwrap_or(default);
        if known.contains(&found) { Ok(found) } else { Err(self.unknown(key, found, known.join(", "))) }
    }

    /// A required number. The upper bound keeps products of two of them within usize.
    fn number(&self, key: &str) -> Result<usize> {
        let found = self.value(key);
        let number = found.and_then(Value::as_u64).and_then(|number| usize::try_from(number).ok());
        number.filter(|number| (1..1 << 24).contains(number)).ok_or_else(|| {
            let found = found.map_or_else(|| "missing".to_owned(), Value::to_string);
            self.invalid(&format!("{key} is {found}, expected a whole number from 1"))
        })
    }

    fn number_or(&self, key: &str, default: usize) -> Result<usize> {
        match self.value(key) {
            Some(value) if value.as_u64() == Some(0) => Ok(0),
            Some(_) => self.number(key),
            None => Ok(default),
        }
    }

    fn float_or(&self, key: &str, default: f64) -> Result<f64> {
        match self.value(key) {
            None => Ok(default),
            Some(value) => value
                .as_f64()
                .filter(|value| *value > 0.0)
                .ok_or_else(|| self.invalid(&format!("{key} is {value}, expected a positive number"))),
        }
    }

    fn unknown(&self, key: &str, found: impl std::fmt::Display, known: impl std::fmt::Display) -> Error {
        self.unsupported(&format!("{key} {:?} is not known; known are {known}", found.to_string().trim_matches('"')))
    }

    fn unsupported(&self, what: &str) -> Error {
        Error::new(ErrorKind::UnsupportedModel, format!("{}: {what}", self.path))
    }

    fn invalid(&self, what: &str) -> Error {
        Error::new(ErrorKind::InvalidModel, format!("{}: {what}", self.path))
    }
}

#[expect(clippy::cast_precision_loss, reason = "heads are narrow: their width is exact in float32")]
fn scale(head_width: usize) -> f64 {
    f64::from(1.0 / (head_width as f32).sqrt())
}
