//! What `config.json` says of BERT and its relatives: kinds and sizes, checked once.

use pullquote_core::error::{Error, ErrorKind, Result};
use pullquote_core::model::{Model, is_roberta};
use serde_json::Value;

use crate::operators::Fused;

/// What `model_type` may be.
pub const KNOWN: [&str; 4] = ["bert", "roberta", "xlm-roberta", "camembert"];

/// The numbers of `config.json`.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Values in a token's vector.
    pub hidden: i64,
    /// Values in the middle of a layer.
    pub intermediate: i64,
    /// Attention heads; `hidden` is a multiple of them.
    pub heads: i64,
    /// Layers.
    pub layers: i64,
    /// Added to variances.
    pub epsilon: f64,
    /// What is applied in the middle of a layer.
    pub activation: Fused,
    /// Where the position table begins to count.
    pub first_position: i64,
}

impl Shape {
    /// Reads and checks them.
    ///
    /// # Errors
    /// [`ErrorKind::UnsupportedModel`] where the architecture is another, [`ErrorKind::InvalidModel`] where a number is
    /// missing or makes no sense.
    pub fn read(model: &Model) -> Result<Self> {
        let config = &model.config;
        let unsupported = |what: String| {
            let path = model.file("config.json");
            Error::new(ErrorKind::UnsupportedModel, format!("{}: {what}", path.display()))
        };
        if !KNOWN.contains(&model.model_type.as_str()) {
            let known = KNOWN.join(", ");
            let found = &model.model_type;
            return Err(unsupported(format!(
                "model_type {found:?} is not known; known are {known}, or any TorchScript module saved as model.pt"
            )));
        }
        let activation = match text(config, "hidden_act").unwrap_or("gelu") {
            "gelu" => Fused::Gelu,
            "gelu_new" | "gelu_pytorch_tanh" => Fused::GeluTanh,
            "relu" => Fused::Relu,
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
        let shape = Self {
            hidden: count(model, "hidden_size")?,
            intermediate: count(model, "intermediate_size")?,
            heads: count(model, "num_attention_heads")?,
            layers: count(model, "num_hidden_layers")?,
            epsilon: config.get("layer_norm_eps").and_then(Value::as_f64).unwrap_or(1e-12),
            activation,
            first_position: if is_roberta(&model.model_type) {
                config.get("pad_token_id").and_then(Value::as_u64).map_or(1, u64_to_i64) + 1
            } else {
                0
            },
        };
        if shape.hidden % shape.heads != 0 {
            let Self { hidden, heads, .. } = shape;
            let path = model.file("config.json");
            let message =
                format!("{}: hidden_size {hidden} is no multiple of num_attention_heads {heads}", path.display());
            return Err(Error::new(ErrorKind::InvalidModel, message));
        }
        Ok(shape)
    }
}

fn text<'config>(config: &'config Value, key: &str) -> Option<&'config str> {
    config.get(key).and_then(Value::as_str)
}

/// A number of `config.json` that must be there; the bound keeps products of two of them within `i64`.
fn count(model: &Model, key: &str) -> Result<i64> {
    let found = model.config.get(key);
    found.and_then(Value::as_i64).filter(|number| (1..1 << 24).contains(number)).ok_or_else(|| {
        let found = found.map_or_else(|| "missing".to_owned(), Value::to_string);
        let path = model.file("config.json");
        Error::new(
            ErrorKind::InvalidModel,
            format!("{}: {key} is {found}; expected a whole number from 1", path.display()),
        )
    })
}

fn u64_to_i64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX - 1)
}
