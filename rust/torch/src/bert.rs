//! BERT and its relatives: token ids to token vectors.
//!
//! `RoBERTa`, `XLM-R` and `CamemBERT` compute the same; only their position table starts behind the padding id. There are two
//! versions: over [`Packed`] rows, for the CPU, and over [`Padded`] ones, for graphics cards. The second is the plain
//! one, and the first is tested against it.
//!
//! Three things are done once, at loading, in float32: the token type's vector is added to the position table (there is
//! only type 0), queries are scaled by the root of the head's width, and queries, keys and values share one matrix.

use pullquote_core::error::{Error, ErrorKind, Result};
use pullquote_core::model::{Model, is_roberta};
use serde_json::Value;
use tch::{Device, Kind, Tensor};

use crate::failure::{TorchResult, torch_failed};
use crate::layout::{Group, Packed, Padded};
use crate::weights::{ANY, Weights};

/// What `model_type` may be.
pub const KNOWN: [&str; 4] = ["bert", "roberta", "xlm-roberta", "camembert"];

/// Rows up to this length are attended to with plain operators.
const SHORT: i64 = 128;

/// A loaded transformer.
#[derive(Debug)]
pub struct Bert {
    words: Tensor,
    /// Row 0 is the first token's, whatever the family; the token type's vector is in it.
    positions: Tensor,
    norm: Norm,
    layers: Vec<Layer>,
    shape: Shape,
}

/// The numbers of `config.json`.
#[derive(Clone, Copy, Debug)]
struct Shape {
    hidden: i64,
    intermediate: i64,
    heads: i64,
    layers: i64,
    epsilon: f64,
    activation: Activation,
    first_position: i64,
}

#[derive(Clone, Copy, Debug)]
enum Activation {
    Gelu,
    GeluTanh,
    Relu,
}

#[derive(Debug)]
struct Layer {
    query_key_value: Linear,
    context: Linear,
    context_norm: Norm,
    up: Linear,
    down: Linear,
    norm: Norm,
}

#[derive(Debug)]
struct Linear {
    weight: Tensor,
    bias: Tensor,
}

#[derive(Debug)]
struct Norm {
    weight: Tensor,
    bias: Tensor,
    width: i64,
    epsilon: f64,
}

impl Bert {
    /// Loads a model onto a device.
    ///
    /// # Errors
    /// [`ErrorKind::UnsupportedModel`] where the architecture is another, [`ErrorKind::InvalidModel`] and
    /// [`ErrorKind::ModelNotFound`] where the weights are not what `config.json` says.
    pub fn load(model: &Model, device: Device, kind: Kind) -> Result<Self> {
        let shape = Shape::read(model)?;
        let mut loader = Loader { weights: Weights::read(&model.directory)?, device, kind };
        let hidden = shape.hidden;
        let words = loader.take("embeddings.word_embeddings.weight", &[ANY, hidden])?;
        let positions = loader.positions(model, &shape)?;
        let norm = loader.norm("embeddings.LayerNorm", &shape)?;
        let layers = (0..shape.layers).map(|layer| loader.layer(layer, &shape)).collect::<Result<_>>()?;
        Ok(Self { words: loader.place(&words)?, positions, norm, layers, shape })
    }

    /// Values in a token's vector.
    #[must_use]
    pub fn dimension(&self) -> i64 {
        self.shape.hidden
    }

    /// Rows of the embedding table.
    #[must_use]
    pub fn vocabulary(&self) -> i64 {
        self.words.size().first().copied().unwrap_or(0)
    }

    /// Token vectors `[tokens, dimension]` of packed rows.
    ///
    /// # Errors
    /// Where torch has no memory.
    pub fn forward_packed(&self, batch: &Packed) -> TorchResult<Tensor> {
        let positions = self.positions.f_index_select(0, &batch.positions)?;
        let mut hidden = self.words.f_index_select(0, &batch.ids)?;
        let _ = hidden.f_add_(&positions)?;
        self.layers.iter().try_fold(self.norm.apply(&hidden)?, |hidden, layer| {
            layer.apply(&hidden, self.shape.activation, |mixed| self.attend_packed(mixed, &batch.groups))
        })
    }

    /// Token vectors `[rows, longest, dimension]` of padded rows; those of filled-up places mean nothing.
    ///
    /// # Errors
    /// Where torch has no memory.
    pub fn forward_padded(&self, batch: &Padded) -> TorchResult<Tensor> {
        let (rows, longest) = batch.ids.size2()?;
        let positions = self.positions.f_narrow(0, 0, longest)?;
        let words = self.words.f_index_select(0, &batch.ids.f_view(-1)?)?;
        let hidden = words.f_view([rows, longest, self.shape.hidden])?.f_add(&positions)?;
        // [rows, 1, 1, longest]: the same for all heads and all queries.
        let mask = batch.mask.as_ref().map(|mask| mask.f_view([rows, 1, 1, longest])).transpose()?;
        self.layers.iter().try_fold(self.norm.apply(&hidden)?, |hidden, layer| {
            layer.apply(&hidden, self.shape.activation, |mixed| self.attend(mixed, rows, longest, mask.as_ref()))
        })
    }

    /// Attention within each group of equally long rows: no padding, no mask.
    fn attend_packed(&self, mixed: &Tensor, groups: &[Group]) -> TorchResult<Tensor> {
        let attend = |group: &Group| {
            let own = mixed.f_narrow(0, group.start, group.tokens())?;
            self.attend(&own, group.rows, group.length, None)?.f_view([group.tokens(), self.shape.hidden])
        };
        match groups {
            [only] => attend(only),
            _ => Tensor::f_cat(&groups.iter().map(attend).collect::<TorchResult<Vec<_>>>()?, 0),
        }
    }

    /// Attention over rows of one length, from queries, keys and values side by side.
    fn attend(&self, mixed: &Tensor, rows: i64, length: i64, mask: Option<&Tensor>) -> TorchResult<Tensor> {
        let Shape { heads, hidden, .. } = self.shape;
        // Three times [rows, heads, length, width].
        let parts = mixed.f_view([rows, length, 3, heads, hidden / heads])?.f_permute([2, 0, 3, 1, 4])?;
        let (queries, keys, values) = (parts.f_select(0, 0)?, parts.f_select(0, 1)?, parts.f_select(0, 2)?);
        // Short rows on a CPU: three plain operators beat the fused one by 6 to 15 % in bfloat16 (Zen 5, one core, rows of
        // 16 to 128 tokens), are its equal in float32, and lose from 256 tokens on.
        let context = if mask.is_none() && length <= SHORT && mixed.device() == Device::Cpu {
            let flat = [rows * heads, length, hidden / heads];
            let scores = queries.f_reshape(flat)?.f_bmm(&keys.f_reshape(flat)?.f_transpose(1, 2)?)?;
            let context = scores.f_softmax(-1, None)?.f_bmm(&values.f_reshape(flat)?)?;
            context.f_view([rows, heads, length, hidden / heads])?
        } else {
            Tensor::f_scaled_dot_product_attention(&queries, &keys, &values, mask, 0.0, false, 1.0, false)?
        };
        context.f_transpose(1, 2)?.f_reshape([rows, length, hidden])
    }
}

impl Shape {
    fn read(model: &Model) -> Result<Self> {
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

impl Layer {
    fn apply(
        &self,
        hidden: &Tensor,
        activation: Activation,
        attend: impl Fn(&Tensor) -> TorchResult<Tensor>,
    ) -> TorchResult<Tensor> {
        let mut context = self.context.apply(&attend(&self.query_key_value.apply(hidden)?)?)?;
        let _ = context.f_add_(hidden)?;
        let context = self.context_norm.apply(&context)?;
        let mut wide = self.up.apply(&context)?;
        let _ = match activation {
            Activation::Gelu => wide.f_gelu_("none")?,
            Activation::GeluTanh => wide.f_gelu_("tanh")?,
            Activation::Relu => wide.f_relu_()?,
        };
        let mut out = self.down.apply(&wide)?;
        let _ = out.f_add_(&context)?;
        self.norm.apply(&out)
    }
}

impl Linear {
    fn apply(&self, input: &Tensor) -> TorchResult<Tensor> {
        input.f_linear(&self.weight, Some(&self.bias))
    }
}

impl Norm {
    fn apply(&self, input: &Tensor) -> TorchResult<Tensor> {
        input.f_layer_norm(self.width, Some(&self.weight), Some(&self.bias), self.epsilon, false)
    }
}

/// Takes weights, checks them, and brings them to the device.
struct Loader {
    weights: Weights,
    device: Device,
    kind: Kind,
}

impl Loader {
    /// A weight in float32, on the CPU.
    fn take(&mut self, name: &str, shape: &[i64]) -> Result<Tensor> {
        let tensor = self.weights.take(name, shape)?;
        tensor.f_to_kind(Kind::Float).map_err(|error| self.failed(&error))
    }

    /// To the device, in the type to compute in.
    fn place(&self, tensor: &Tensor) -> Result<Tensor> {
        tensor
            .f_to_device_(self.device, self.kind, false, false)
            .and_then(|tensor| tensor.f_contiguous())
            .map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &tch::TchError) -> Error {
        let what = format!("{}: the weights cannot be brought to {:?}", self.weights.source().display(), self.device);
        torch_failed(ErrorKind::Device, &what, error)
    }

    fn positions(&mut self, model: &Model, shape: &Shape) -> Result<Tensor> {
        let name = "embeddings.position_embeddings.weight";
        let table = self.take(name, &[ANY, shape.hidden])?;
        let types = self.take("embeddings.token_type_embeddings.weight", &[ANY, shape.hidden])?;
        let rows = table.size().first().copied().unwrap_or(0).saturating_sub(shape.first_position);
        if usize::try_from(rows).unwrap_or(0) < model.max_tokens {
            let source = self.weights.source().display();
            let longest = model.max_tokens;
            let message =
                format!("{source}: the tensor {name} is good for {rows} tokens, but config.json asks for {longest}");
            return Err(Error::new(ErrorKind::InvalidModel, message));
        }
        let summed = table
            .f_narrow(0, shape.first_position, rows)
            .and_then(|table| table.f_add(&types.f_narrow(0, 0, 1)?))
            .map_err(|error| self.failed(&error))?;
        self.place(&summed)
    }

    fn layer(&mut self, index: i64, shape: &Shape) -> Result<Layer> {
        let name = |part: &str| format!("encoder.layer.{index}.{part}");
        let (hidden, intermediate) = (shape.hidden, shape.intermediate);
        Ok(Layer {
            query_key_value: self.query_key_value(&name("attention.self"), shape)?,
            context: self.linear(&name("attention.output.dense"), hidden, hidden)?,
            context_norm: self.norm(&name("attention.output.LayerNorm"), shape)?,
            up: self.linear(&name("intermediate.dense"), intermediate, hidden)?,
            down: self.linear(&name("output.dense"), hidden, intermediate)?,
            norm: self.norm(&name("output.LayerNorm"), shape)?,
        })
    }

    fn query_key_value(&mut self, name: &str, shape: &Shape) -> Result<Linear> {
        let hidden = shape.hidden;
        // Heads are narrow: their width is exact in f64.
        #[allow(clippy::cast_precision_loss)]
        let scale = 1.0 / ((hidden / shape.heads) as f64).sqrt();
        let mut weights = Vec::with_capacity(3);
        let mut biases = Vec::with_capacity(3);
        for part in ["query", "key", "value"] {
            let mut weight = self.take(&format!("{name}.{part}.weight"), &[hidden, hidden])?;
            let mut bias = self.take(&format!("{name}.{part}.bias"), &[hidden])?;
            if part == "query" {
                let scaled = weight.f_mul_scalar_(scale).and_then(|_| bias.f_mul_scalar_(scale));
                let _ = scaled.map_err(|error| self.failed(&error))?;
            }
            weights.push(weight);
            biases.push(bias);
        }
        let weight = Tensor::f_cat(&weights, 0).map_err(|error| self.failed(&error))?;
        let bias = Tensor::f_cat(&biases, 0).map_err(|error| self.failed(&error))?;
        Ok(Linear { weight: self.place(&weight)?, bias: self.place(&bias)? })
    }

    fn linear(&mut self, name: &str, outputs: i64, inputs: i64) -> Result<Linear> {
        let weight = self.take(&format!("{name}.weight"), &[outputs, inputs])?;
        let bias = self.take(&format!("{name}.bias"), &[outputs])?;
        Ok(Linear { weight: self.place(&weight)?, bias: self.place(&bias)? })
    }

    fn norm(&mut self, name: &str, shape: &Shape) -> Result<Norm> {
        let weight = self.take(&format!("{name}.weight"), &[shape.hidden])?;
        let bias = self.take(&format!("{name}.bias"), &[shape.hidden])?;
        let (weight, bias) = (self.place(&weight)?, self.place(&bias)?);
        Ok(Norm { weight, bias, width: shape.hidden, epsilon: shape.epsilon })
    }
}
