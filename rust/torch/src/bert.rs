//! BERT and its relatives: token ids to token vectors.
//!
//! `RoBERTa`, `XLM-R` and `CamemBERT` compute the same; only their position table starts after the padding id. There are two
//! versions: over [`Ragged`] rows, for graphics cards with variable-length attention, and over [`Padded`] ones, for everything
//! else; that is the plain one, which the other and `rust/cpu` are tested against.
//!
//! Three things are done once, at loading, in float32: the token type's vector is added to the position table (there is
//! only type 0), queries are scaled by the root of the head's width, and queries, keys and values share one matrix.

use pullquote_core::encoder::model::{Activation, Model, Transformer};
use pullquote_core::error::{Error, ErrorKind, Result};
use tch::{Device, Kind, Tensor};

use crate::failure::{TorchResult, torch_failed};
use crate::layout::{Padded, Ragged, side};
use crate::varlen::{self, Varlen};
use crate::weights::{ANY, Weights};

/// A loaded transformer.
#[derive(Debug)]
pub struct Bert {
    words: Tensor,
    /// Row 0 is the first token's, whatever the family; the token type's vector is in it.
    positions: Tensor,
    norm: Norm,
    layers: Vec<Layer>,
    shape: Transformer,
    /// Whether rows need no padding on this device.
    varlen: bool,
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

/// A linear layer: `input · weightᵀ + bias`.
#[derive(Debug)]
struct Linear {
    weight: Tensor,
    bias: Tensor,
}

/// A layer norm.
#[derive(Debug)]
struct Norm {
    weight: Tensor,
    bias: Tensor,
    width: i64,
    epsilon: f64,
}

impl Linear {
    fn apply(&self, input: &Tensor, activation: Activation) -> TorchResult<Tensor> {
        let mut values = input.f_linear(&self.weight, Some(&self.bias))?;
        match activation {
            Activation::Identity => Ok(values),
            Activation::Gelu => values.f_gelu_("none"),
            Activation::GeluTanh => values.f_gelu_("tanh"),
            Activation::Relu => values.f_relu_(),
        }
    }
}

impl Norm {
    /// The norm of `rows + residual`; the rows were made just now, and nothing else refers to them.
    fn apply_to_sum(&self, mut rows: Tensor, residual: &Tensor) -> TorchResult<Tensor> {
        let _ = rows.f_add_(residual)?;
        rows.f_layer_norm(self.width, Some(&self.weight), Some(&self.bias), self.epsilon, false)
    }
}

impl Bert {
    /// Loads a model onto a device.
    ///
    /// # Errors
    /// [`ErrorKind::UnsupportedModel`] where the architecture is another, [`ErrorKind::InvalidModel`] and
    /// [`ErrorKind::ModelNotFound`] where the weights are not what `config.json` says.
    pub fn load(model: &Model, device: Device, kind: Kind, varlen: Varlen) -> Result<Self> {
        let shape = Transformer::read(model)?;
        let varlen = varlen.works(device, kind, &shape);
        let mut loader = Loader { weights: Weights::read(&model.directory)?, device, kind };
        let hidden = side(shape.hidden);
        let words = loader.take("embeddings.word_embeddings.weight", &[ANY, hidden])?;
        let positions = loader.positions(model, &shape)?;
        let norm = loader.norm("embeddings.LayerNorm", &shape)?;
        let layers = (0..shape.layers).map(|layer| loader.layer(layer, &shape)).collect::<Result<_>>()?;
        Ok(Self { words: loader.place(&words)?, positions, norm, layers, shape, varlen })
    }

    /// Values in a token's vector.
    #[must_use]
    pub fn dimension(&self) -> i64 {
        side(self.shape.hidden)
    }

    /// Whether rows need no padding on the card it is on; see [`Self::forward_ragged`].
    #[must_use]
    pub fn is_varlen(&self) -> bool {
        self.varlen
    }

    /// Values that a token has at once, at most, while a layer is computed on a card.
    #[must_use]
    pub fn values_per_token(&self, longest: u64) -> u64 {
        let Transformer { hidden, intermediate, heads, .. } = self.shape;
        let [hidden, intermediate, heads] = [hidden, intermediate, heads].map(|count| count as u64);
        // The layer's input and output, queries, keys and values and their copies by head, and the context; both sides of the
        // activation; the scores of all heads and their softmax, where no fused kernel takes the attention. Variable-length
        // attention is such a kernel: it keeps a float32 for each head.
        let scores = if self.varlen { 2 * heads } else { 2 * heads * longest };
        12 * hidden + 2 * intermediate + scores
    }

    /// Rows of the embedding table.
    #[must_use]
    pub fn vocabulary(&self) -> i64 {
        self.words.size().first().copied().unwrap_or(0)
    }

    /// Token vectors `[tokens, dimension]` of rows one after the other; those of tokens of no row mean nothing.
    ///
    /// # Errors
    /// Where torch has no memory, or no variable-length attention.
    pub fn forward_ragged(&self, batch: &Ragged) -> TorchResult<Tensor> {
        let positions = self.positions.f_index_select(0, &batch.positions)?;
        let hidden = self.norm.apply_to_sum(self.words.f_index_select(0, &batch.ids)?, &positions)?;
        self.layers.iter().try_fold(hidden, |hidden, layer| {
            self.apply(layer, &hidden, |mixed| varlen::attend(mixed, side(self.shape.heads), &batch.rows))
        })
    }

    /// Token vectors `[rows, longest, dimension]` of padded rows; those of filled-up places mean nothing.
    ///
    /// # Errors
    /// Where torch has no memory.
    pub fn forward_padded(&self, batch: &Padded) -> TorchResult<Tensor> {
        let (rows, longest) = batch.ids.size2()?;
        let positions = self.positions.f_narrow(0, 0, longest)?;
        let words = self.words.f_index_select(0, &batch.ids.f_view_(-1)?)?;
        let words = words.f_view_([rows, longest, side(self.shape.hidden)])?;
        let hidden = self.norm.apply_to_sum(words, &positions)?;
        // [rows, 1, 1, longest]: the same for all heads and all queries.
        let mask = batch.mask.as_ref().map(|mask| mask.f_view_([rows, 1, 1, longest])).transpose()?;
        self.layers.iter().try_fold(hidden, |hidden, layer| {
            self.apply(layer, &hidden, |mixed| self.attend(mixed, rows, longest, mask.as_ref()))
        })
    }

    fn apply(
        &self,
        layer: &Layer,
        hidden: &Tensor,
        attend: impl Fn(&Tensor) -> TorchResult<Tensor>,
    ) -> TorchResult<Tensor> {
        let mixed = layer.query_key_value.apply(hidden, Activation::Identity)?;
        let context = layer.context.apply(&attend(&mixed)?, Activation::Identity)?;
        let context = layer.context_norm.apply_to_sum(context, hidden)?;
        let wide = layer.up.apply(&context, self.shape.activation)?;
        let out = layer.down.apply(&wide, Activation::Identity)?;
        layer.norm.apply_to_sum(out, &context)
    }

    /// Attention over rows of one length, from queries, keys and values side by side.
    fn attend(&self, mixed: &Tensor, rows: i64, length: i64, mask: Option<&Tensor>) -> TorchResult<Tensor> {
        let (heads, width) = (side(self.shape.heads), side(self.shape.head()));
        // Three times [rows, heads, length, width].
        let parts = mixed.f_view_([rows, length, 3, heads, width])?.f_permute([2, 0, 3, 1, 4])?;
        let (queries, keys, values) = (parts.f_select(0, 0)?, parts.f_select(0, 1)?, parts.f_select(0, 2)?);
        let context = Tensor::f_scaled_dot_product_attention(&queries, &keys, &values, mask, 0.0, false, 1.0, false)?;
        context.f_transpose(1, 2)?.f_reshape([rows, length, heads * width])
    }
}

/// Takes weights, checks them, and brings them to the device.
struct Loader {
    weights: Weights,
    device: Device,
    /// The type to compute in.
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

    fn positions(&mut self, model: &Model, shape: &Transformer) -> Result<Tensor> {
        let name = "embeddings.position_embeddings.weight";
        let (hidden, first) = (side(shape.hidden), side(shape.first_position));
        let table = self.take(name, &[ANY, hidden])?;
        let types = self.take("embeddings.token_type_embeddings.weight", &[ANY, hidden])?;
        let rows = table.size().first().copied().unwrap_or(0).saturating_sub(first);
        if usize::try_from(rows).unwrap_or(0) < model.max_tokens {
            let source = self.weights.source().display();
            let longest = model.max_tokens;
            let message =
                format!("{source}: the tensor {name} is good for {rows} tokens, but config.json asks for {longest}");
            return Err(Error::new(ErrorKind::InvalidModel, message));
        }
        let summed = table
            .f_narrow(0, first, rows)
            .and_then(|table| table.f_add(&types.f_narrow(0, 0, 1)?))
            .map_err(|error| self.failed(&error))?;
        self.place(&summed)
    }

    fn layer(&mut self, index: usize, shape: &Transformer) -> Result<Layer> {
        let name = |part: &str| format!("encoder.layer.{index}.{part}");
        let (hidden, intermediate) = (side(shape.hidden), side(shape.intermediate));
        Ok(Layer {
            query_key_value: self.query_key_value(&name("attention.self"), shape)?,
            context: self.linear(&name("attention.output.dense"), hidden, hidden)?,
            context_norm: self.norm(&name("attention.output.LayerNorm"), shape)?,
            up: self.linear(&name("intermediate.dense"), intermediate, hidden)?,
            down: self.linear(&name("output.dense"), hidden, intermediate)?,
            norm: self.norm(&name("output.LayerNorm"), shape)?,
        })
    }

    fn query_key_value(&mut self, name: &str, shape: &Transformer) -> Result<Linear> {
        let hidden = side(shape.hidden);
        #[expect(clippy::cast_precision_loss, reason = "heads are narrow: their width is exact in f64")]
        let scale = 1.0 / (shape.head() as f64).sqrt();
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

    fn norm(&mut self, name: &str, shape: &Transformer) -> Result<Norm> {
        let width = side(shape.hidden);
        let weight = self.take(&format!("{name}.weight"), &[width])?;
        let bias = self.take(&format!("{name}.bias"), &[width])?;
        Ok(Norm { weight: self.place(&weight)?, bias: self.place(&bias)?, width, epsilon: shape.epsilon })
    }
}
