//! BERT and its relatives: token ids to token vectors.
//!
//! `RoBERTa`, `XLM-R` and `CamemBERT` compute the same; only their position embeddings start after the padding id. There are two
//! versions: over [`Ragged`] batches, for GPUs with variable-length attention, and over [`Padded`] ones, for everything else. The
//! padded one is the reference for the other, and for `rust/cpu`.
//!
//! Three things are done once, at loading, in float32: the token type's vector is added to the position embeddings (there is only
//! type 0), queries are divided by the root of the head's width, and queries, keys and values share one matrix.

use pullquote_core::encoder::model::{Activation, Model, Transformer};
use pullquote_core::error::{Error, ErrorKind, Result};
use tch::{Device, Kind, Tensor};

use super::layout::{Padded, Ragged, dim};
use super::varlen::{self, Varlen};
use super::weights::{ANY, Weights};
use crate::error::{TorchResult, torch_error};

/// A loaded transformer.
#[derive(Debug)]
pub(super) struct Bert {
    word_embeddings: Tensor,
    /// Row 0 is the first token's in every family; the token type's vector is in it.
    position_embeddings: Tensor,
    embedding_norm: LayerNorm,
    layers: Vec<Layer>,
    config: Transformer,
    is_varlen: bool,
}

#[derive(Debug)]
struct Layer {
    qkv: Linear,
    attention_output: Linear,
    attention_norm: LayerNorm,
    up: Linear,
    down: Linear,
    output_norm: LayerNorm,
}

/// A linear layer: `input · weightᵀ + bias`.
#[derive(Debug)]
struct Linear {
    weight: Tensor,
    bias: Tensor,
}

#[derive(Debug)]
struct LayerNorm {
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
            Activation::Silu => values.f_silu_(),
            Activation::Tanh => values.f_tanh_(),
            Activation::Sigmoid => values.f_sigmoid_(),
        }
    }
}

impl LayerNorm {
    /// The norm of `rows + residual`. Writes to the rows, which no one else may refer to.
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
    pub(super) fn load(model: &Model, device: Device, kind: Kind, varlen: Varlen) -> Result<Self> {
        let config = Transformer::read(model)?;
        if !config.is_bert() {
            let (path, found) = (model.file("config.json"), &model.model_type);
            let message = format!(
                "{}: the libtorch encoder computes BERT, RoBERTa, XLM-RoBERTa and CamemBERT, but model_type is {found:?}; the \
                 CPU encoder computes it: devices=\"cpu\"",
                path.display()
            );
            return Err(Error::new(ErrorKind::UnsupportedModel, message));
        }
        let is_varlen = varlen.is_usable(device, kind, &config);
        let mut loader = Loader { weights: Weights::read(&model.directory)?, device, kind };
        let word_embeddings = loader.take("embeddings.word_embeddings.weight", &[ANY, dim(config.hidden)])?;
        let word_embeddings = loader.upload(&word_embeddings)?;
        let position_embeddings = loader.position_embeddings(model, &config)?;
        let embedding_norm = loader.norm("embeddings.LayerNorm", &config)?;
        let layers = (0..config.layers).map(|layer| loader.layer(layer, &config)).collect::<Result<_>>()?;
        Ok(Self { word_embeddings, position_embeddings, embedding_norm, layers, config, is_varlen })
    }

    /// Values in a token's vector.
    pub(super) fn dimension(&self) -> i64 {
        dim(self.config.hidden)
    }

    /// Whether [`Self::forward_ragged`] works on this device.
    pub(super) fn is_varlen(&self) -> bool {
        self.is_varlen
    }

    /// The most values that exist at once for a token, while a GPU computes a layer.
    pub(super) fn peak_values_per_token(&self, max_tokens: u64) -> u64 {
        let Transformer { hidden, intermediate, heads, .. } = self.config;
        let [hidden, intermediate, heads] = [hidden, intermediate, heads].map(|count| count as u64);
        // The layer's input and output, queries, keys and values and their copies by head, and the context; both sides of the
        // activation; and, where no fused kernel computes the attention, the scores of all heads and their softmax.
        // Variable-length attention is fused: it keeps a float32 for each head.
        let scores = if self.is_varlen { 2 * heads } else { 2 * heads * max_tokens };
        12 * hidden + 2 * intermediate + scores
    }

    /// Rows of the word embeddings.
    pub(super) fn vocabulary(&self) -> i64 {
        self.word_embeddings.size().first().copied().unwrap_or(0)
    }

    /// Token vectors `[tokens, dimension]`; those of tokens of no row are undefined.
    ///
    /// # Errors
    /// Where torch has no memory, or no variable-length attention.
    pub(super) fn forward_ragged(&self, batch: &Ragged) -> TorchResult<Tensor> {
        let positions = self.position_embeddings.f_index_select(0, &batch.positions)?;
        let words = self.word_embeddings.f_index_select(0, &batch.ids)?;
        let hidden = self.embedding_norm.apply_to_sum(words, &positions)?;
        self.layers.iter().try_fold(hidden, |hidden, layer| {
            self.apply(layer, &hidden, |qkv| varlen::attend(qkv, dim(self.config.heads), &batch.rows))
        })
    }

    /// Token vectors `[rows, longest, dimension]`; those of padding are undefined.
    ///
    /// # Errors
    /// Where torch has no memory.
    pub(super) fn forward_padded(&self, batch: &Padded) -> TorchResult<Tensor> {
        let (rows, longest) = batch.ids.size2()?;
        let positions = self.position_embeddings.f_narrow(0, 0, longest)?;
        let words = self.word_embeddings.f_index_select(0, &batch.ids.f_view_(-1)?)?;
        let words = words.f_view_([rows, longest, dim(self.config.hidden)])?;
        let hidden = self.embedding_norm.apply_to_sum(words, &positions)?;
        // [rows, 1, 1, longest]: the same for all heads and all queries.
        let mask = batch.mask.as_ref().map(|mask| mask.f_view_([rows, 1, 1, longest])).transpose()?;
        self.layers.iter().try_fold(hidden, |hidden, layer| {
            self.apply(layer, &hidden, |qkv| self.attend(qkv, rows, longest, mask.as_ref()))
        })
    }

    fn apply(
        &self,
        layer: &Layer,
        hidden: &Tensor,
        attend: impl Fn(&Tensor) -> TorchResult<Tensor>,
    ) -> TorchResult<Tensor> {
        let qkv = layer.qkv.apply(hidden, Activation::Identity)?;
        let attended = layer.attention_output.apply(&attend(&qkv)?, Activation::Identity)?;
        let attended = layer.attention_norm.apply_to_sum(attended, hidden)?;
        let intermediate = layer.up.apply(&attended, self.config.activation)?;
        let output = layer.down.apply(&intermediate, Activation::Identity)?;
        layer.output_norm.apply_to_sum(output, &attended)
    }

    /// Attention over rows of one length, `[rows, length, 3 · hidden]` to `[rows, length, hidden]`.
    fn attend(&self, qkv: &Tensor, rows: i64, length: i64, mask: Option<&Tensor>) -> TorchResult<Tensor> {
        let (heads, width) = (dim(self.config.heads), dim(self.config.head_width));
        // [3, rows, heads, length, width]
        let parts = qkv.f_view_([rows, length, 3, heads, width])?.f_permute([2, 0, 3, 1, 4])?;
        let (queries, keys, values) = (parts.f_select(0, 0)?, parts.f_select(0, 1)?, parts.f_select(0, 2)?);
        let context = Tensor::f_scaled_dot_product_attention(&queries, &keys, &values, mask, 0.0, false, 1.0, false)?;
        context.f_transpose(1, 2)?.f_reshape([rows, length, heads * width])
    }
}

/// Takes weights, checks them, and uploads them to the device.
struct Loader {
    weights: Weights,
    device: Device,
    kind: Kind,
}

impl Loader {
    /// A weight in float32, on the CPU.
    fn take(&mut self, name: &str, shape: &[i64]) -> Result<Tensor> {
        let tensor = self.weights.take(name, shape)?;
        tensor.f_to_kind(Kind::Float).map_err(|error| self.device_error(&error))
    }

    fn upload(&self, tensor: &Tensor) -> Result<Tensor> {
        tensor
            .f_to_device_(self.device, self.kind, false, false)
            .and_then(|tensor| tensor.f_contiguous())
            .map_err(|error| self.device_error(&error))
    }

    fn device_error(&self, error: &tch::TchError) -> Error {
        let what = format!("{}: the weights cannot be brought to {:?}", self.weights.source().display(), self.device);
        torch_error(ErrorKind::Device, &what, error)
    }

    fn position_embeddings(&mut self, model: &Model, config: &Transformer) -> Result<Tensor> {
        let name = "embeddings.position_embeddings.weight";
        let (hidden, first) = (dim(config.hidden), dim(config.first_position.unwrap_or(0)));
        let table = self.take(name, &[ANY, hidden])?;
        let types = self.take("embeddings.token_type_embeddings.weight", &[ANY, hidden])?;
        let rows = table.size().first().copied().unwrap_or(0).saturating_sub(first);
        if usize::try_from(rows).unwrap_or(0) < model.max_tokens {
            let source = self.weights.source().display();
            let max_tokens = model.max_tokens;
            let message =
                format!("{source}: the tensor {name} is good for {rows} tokens, but config.json asks for {max_tokens}");
            return Err(Error::new(ErrorKind::InvalidModel, message));
        }
        let summed = table
            .f_narrow(0, first, rows)
            .and_then(|table| table.f_add(&types.f_narrow(0, 0, 1)?))
            .map_err(|error| self.device_error(&error))?;
        self.upload(&summed)
    }

    fn layer(&mut self, index: usize, config: &Transformer) -> Result<Layer> {
        let name = |part: &str| format!("encoder.layer.{index}.{part}");
        let (hidden, intermediate) = (dim(config.hidden), dim(config.intermediate));
        Ok(Layer {
            qkv: self.qkv(&name("attention.self"), config)?,
            attention_output: self.linear(&name("attention.output.dense"), hidden, hidden)?,
            attention_norm: self.norm(&name("attention.output.LayerNorm"), config)?,
            up: self.linear(&name("intermediate.dense"), intermediate, hidden)?,
            down: self.linear(&name("output.dense"), hidden, intermediate)?,
            output_norm: self.norm(&name("output.LayerNorm"), config)?,
        })
    }

    fn qkv(&mut self, name: &str, config: &Transformer) -> Result<Linear> {
        let hidden = dim(config.hidden);
        #[expect(clippy::cast_precision_loss, reason = "heads are narrow: their width is exact in f64")]
        let scale = 1.0 / (config.head_width as f64).sqrt();
        let mut weights = Vec::with_capacity(3);
        let mut biases = Vec::with_capacity(3);
        for part in ["query", "key", "value"] {
            let mut weight = self.take(&format!("{name}.{part}.weight"), &[hidden, hidden])?;
            let mut bias = self.take(&format!("{name}.{part}.bias"), &[hidden])?;
            if part == "query" {
                let scaled = weight.f_mul_scalar_(scale).and_then(|_| bias.f_mul_scalar_(scale));
                let _ = scaled.map_err(|error| self.device_error(&error))?;
            }
            weights.push(weight);
            biases.push(bias);
        }
        let weight = Tensor::f_cat(&weights, 0).map_err(|error| self.device_error(&error))?;
        let bias = Tensor::f_cat(&biases, 0).map_err(|error| self.device_error(&error))?;
        Ok(Linear { weight: self.upload(&weight)?, bias: self.upload(&bias)? })
    }

    fn linear(&mut self, name: &str, outputs: i64, inputs: i64) -> Result<Linear> {
        let weight = self.take(&format!("{name}.weight"), &[outputs, inputs])?;
        let bias = self.take(&format!("{name}.bias"), &[outputs])?;
        Ok(Linear { weight: self.upload(&weight)?, bias: self.upload(&bias)? })
    }

    fn norm(&mut self, name: &str, config: &Transformer) -> Result<LayerNorm> {
        let width = dim(config.hidden);
        let weight = self.take(&format!("{name}.weight"), &[width])?;
        let bias = self.take(&format!("{name}.bias"), &[width])?;
        Ok(LayerNorm { weight: self.upload(&weight)?, bias: self.upload(&bias)?, width, epsilon: config.epsilon })
    }
}
