//! The architecture in `config.json`, checked once.

use serde_json::Value;

use super::{Model, is_roberta};
use crate::error::{Error, ErrorKind, Result};

/// Supported values of `model_type`.
const MODEL_TYPES: [&str; 4] = ["bert", "roberta", "xlm-roberta", "camembert"];

/// The activation of the feed-forward layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// f(x) = x.
    Identity,
    /// With the error function.
    Gelu,
    /// Approximated with tanh.
    GeluTanh,
    /// max(x, 0).
    Relu,
}

/// The sizes of a BERT-like transformer.
#[derive(Clone, Copy, Debug)]
pub struct Transformer {
    /// Width of a token's vector.
    pub hidden: usize,
    /// Width inside the feed-forward layers.
    pub intermediate: usize,
    /// Attention heads; divides `hidden`.
    pub heads: usize,
    /// Number of layers.
    pub layers: usize,
    /// Added to the variance in layer norms.
    pub epsilon: f64,
    /// Applied inside the feed-forward layers.
    pub activation: Activation,
    /// The position of a row's first token.
    pub first_position: usize,
}

impl Transformer {
    /// Reads and checks `config.json`.
    ///
    /// # Errors
    /// [`ErrorKind::UnsupportedModel`] for another architecture, [`ErrorKind::InvalidModel`] for a missing or
    /// impossible number.
    pub fn read(model: &Model) -> Result<Self> {
        let config = &model.config;
        let path = model.file("config.json");
        let unsupported = |what: String| Error::new(ErrorKind::UnsupportedModel, format!("{}: {what}", path.display()));
        if !MODEL_TYPES.contains(&model.model_type.as_str()) {
            let (known, found) = (MODEL_TYPES.join(", "), &model.model_type);
            return Err(unsupported(format!(
                "model_type {found:?} is not known; known are {known}, or any TorchScript module saved as model.pt"
            )));
        }
        let activation = match text(config, "hidden_act").unwrap_or("gelu") {
            "gelu" => Activation::Gelu,
            "gelu_new" | "gelu_pytorch_tanh" => Activation::GeluTanh,
            "relu" => Activation::Relu,
            other => {
                let known = "gelu, gelu_new, gelu_pytorch_tanh and relu";
                return Err(unsupported(format!("hidden_act {other:?} is not known; known are {known}")));
            }
        };
        match text(config, "position_embedding_type").unwrap_or("absolute") {
            "absolute" => {}
            other => {
                return Err(unsupported(format!("position_embedding_type {other:?} is not known; known is absolute")));
            }
        }
        if config.get("is_decoder").and_then(Value::as_bool) == Some(true) {
            return Err(unsupported("is_decoder true is not known; known are encoders".to_owned()));
        }
        let padding = config.get("pad_token_id").and_then(Value::as_u64).and_then(|id| usize::try_from(id).ok());
        let first_position = if is_roberta(&model.model_type) { padding.unwrap_or(1).saturating_add(1) } else { 0 };
        let shape = Self {
            hidden: count(model, "hidden_size")?,
            intermediate: count(model, "intermediate_size")?,
            heads: count(model, "num_attention_heads")?,
            layers: count(model, "num_hidden_layers")?,
            epsilon: config.get("layer_norm_eps").and_then(Value::as_f64).unwrap_or(1e-12),
            activation,
            first_position,
        };
        let Self { hidden, heads, .. } = shape;
        if hidden % heads != 0 {
            let message =
                format!("{}: hidden_size {hidden} is no multiple of num_attention_heads {heads}", path.display());
            return Err(Error::new(ErrorKind::InvalidModel, message));
        }
        Ok(shape)
    }

    /// Width of one attention head.
    #[must_use]
    pub const fn head(&self) -> usize {
        self.hidden / self.heads
    }
}

fn text<'config>(config: &'config Value, key: &str) -> Option<&'config str> {
    config.get(key).and_then(Value::as_str)
}

/// A required number of `config.json`. The upper bound keeps products of two of them within usize.
fn count(model: &Model, key: &str) -> Result<usize> {
    let found = model.config.get(key);
    let number = found.and_then(Value::as_u64).and_then(|number| usize::try_from(number).ok());
    number.filter(|number| (1..1 << 24).contains(number)).ok_or_else(|| {
        let found = found.map_or_else(|| "missing".to_owned(), Value::to_string);
        let path = model.file("config.json");
        Error::new(
            ErrorKind::InvalidModel,
            format!("{}: {key} is {found}; expected a whole number from 1", path.display()),
        )
    })
}
