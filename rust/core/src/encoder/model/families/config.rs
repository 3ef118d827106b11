//! A `config.json` as the families read it, with errors that name its fields.

use serde_json::Value;

use super::{first_position, frequencies};
use crate::encoder::model::names::BERT;
use crate::encoder::model::transformer::{Bias, Biases, BlockNorms, LayerAttention, Norm, QueryNorm, Transformer};
use crate::encoder::model::{Activation, Model};
use crate::error::{Error, ErrorKind, Result};

/// A family's names for its sizes; empty if it has no such setting.
pub(super) struct Keys {
    pub(super) hidden: &'static str,
    pub(super) intermediate: &'static str,
    pub(super) heads: &'static str,
    pub(super) layers: &'static str,
    pub(super) activation: &'static str,
    pub(super) epsilon: &'static str,
    /// Without that setting.
    pub(super) default_epsilon: f64,
}

impl Keys {
    pub(super) const BERT: Self = Self {
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
pub(super) struct Config<'model> {
    pub(super) model: &'model Model,
    pub(super) path: String,
}

impl Config<'_> {
    /// BERT with sizes of these names.
    pub(super) fn plain(&self, keys: &Keys) -> Result<Transformer> {
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
    pub(super) fn decoder(&self, keys: &Keys, activation: &'static str, head_width: usize) -> Result<Transformer> {
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
    pub(super) fn two_kinds(
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
    pub(super) fn layer_types(&self, layers: usize, rule: impl Fn(usize) -> bool) -> Result<Vec<bool>> {
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
    pub(super) fn rope(&self, parameters: &Value, default: f64) -> Result<f64> {
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
    pub(super) fn refuse_scaling(&self, parameters: &Value) -> Result<()> {
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
    pub(super) fn ntk_frequencies(&self, head_width: usize, default: f64) -> Result<Vec<f32>> {
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

    pub(super) fn activation(&self, key: &str, default: &str) -> Result<Activation> {
        let name = self.text(key).unwrap_or(default);
        Activation::parse(name)
            .ok_or_else(|| self.unknown(key, name, Activation::NAMES.map(|(name, _)| name).join(", ")))
    }

    /// Whether another code computes the model than the one that its type names.
    pub(super) fn refuse_custom_code(&self) -> Result<()> {
        let class = self.value("auto_map").and_then(|map| map.get("AutoModel")).and_then(Value::as_str);
        class.map_or(Ok(()), |class| {
            let known =
                "JinaBertModel for bert, modeling_xlm_roberta.XLMRobertaModel, and the code of nomic_bert and new";
            Err(self.unknown("auto_map.AutoModel", class, known))
        })
    }

    pub(super) fn auto_map(&self) -> impl Iterator<Item = &str> {
        let classes = self.value("auto_map").and_then(Value::as_object);
        classes.into_iter().flat_map(|classes| classes.values().filter_map(Value::as_str))
    }

    /// A value that is neither missing nor null.
    pub(super) fn value(&self, key: &str) -> Option<&Value> {
        self.model.config.get(key).filter(|value| !value.is_null())
    }

    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.value(key).and_then(Value::as_str)
    }

    pub(super) fn flag(&self, key: &str, default: bool) -> bool {
        self.value(key).and_then(Value::as_bool).unwrap_or(default)
    }

    pub(super) fn first_of(&self, key: &'static str, other: &'static str) -> &'static str {
        if self.value(key).is_some() { key } else { other }
    }

    pub(super) fn one_of<'value>(
        &'value self,
        key: &str,
        default: &'static str,
        known: &[&str],
    ) -> Result<&'value str> {
        let found = self.text(key).unwrap_or(default);
        if known.contains(&found) { Ok(found) } else { Err(self.unknown(key, found, known.join(", "))) }
    }

    /// A required number. The upper bound keeps products of two of them within usize.
    pub(super) fn number(&self, key: &str) -> Result<usize> {
        let found = self.value(key);
        let number = found.and_then(Value::as_u64).and_then(|number| usize::try_from(number).ok());
        number.filter(|number| (1..1 << 24).contains(number)).ok_or_else(|| {
            let found = found.map_or_else(|| "missing".to_owned(), Value::to_string);
            self.invalid(&format!("{key} is {found}, expected a whole number from 1"))
        })
    }

    pub(super) fn number_or(&self, key: &str, default: usize) -> Result<usize> {
        match self.value(key) {
            Some(value) if value.as_u64() == Some(0) => Ok(0),
            Some(_) => self.number(key),
            None => Ok(default),
        }
    }

    pub(super) fn float_or(&self, key: &str, default: f64) -> Result<f64> {
        match self.value(key) {
            None => Ok(default),
            Some(value) => value
                .as_f64()
                .filter(|value| *value > 0.0)
                .ok_or_else(|| self.invalid(&format!("{key} is {value}, expected a positive number"))),
        }
    }

    pub(super) fn unknown(&self, key: &str, found: impl std::fmt::Display, known: impl std::fmt::Display) -> Error {
        self.unsupported(&format!("{key} {:?} is not known; known are {known}", found.to_string().trim_matches('"')))
    }

    pub(super) fn unsupported(&self, what: &str) -> Error {
        Error::new(ErrorKind::UnsupportedModel, format!("{}: {what}", self.path))
    }

    pub(super) fn invalid(&self, what: &str) -> Error {
        Error::new(ErrorKind::InvalidModel, format!("{}: {what}", self.path))
    }
}

#[expect(clippy::cast_precision_loss, reason = "heads are narrow: their width is exact in float32")]
pub(super) fn scale(head_width: usize) -> f64 {
    f64::from(1.0 / (head_width as f32).sqrt())
}
