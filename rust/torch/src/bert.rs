//! BERT and its relatives: token ids to token vectors.
//!
//! `RoBERTa`, `XLM-R` and `CamemBERT` compute the same; only their position table starts behind the padding id. There are two
//! versions without padding: over [`Packed`] rows, for the CPU, and over [`Ragged`] ones, for graphics cards with
//! variable-length attention. The third, over [`Padded`] rows and without the [`Means`] that a CPU may have, is for all other
//! cards; it is the plain one, and all others are tested against it.
//!
//! Three things are done once, at loading, in float32: the token type's vector is added to the position table (there is
//! only type 0), queries are scaled by the root of the head's width, and queries, keys and values share one matrix.

use pullquote_core::error::{Error, ErrorKind, Result};
use pullquote_core::model::Model;
use tch::{Device, Kind, Tensor};

use crate::devices::Precision;
use crate::failure::{TorchResult, torch_failed};
use crate::kernels::Scratch;
use crate::layout::{Group, Packed, Padded, Ragged};
use crate::linear::Linear;
use crate::means::{Allowed, Means};
use crate::norm::Norm;
use crate::operators::Fused;
use crate::shape::Shape;
use crate::sides::{sides, two_sides};
use crate::varlen;
use crate::weights::{ANY, Weights};

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
    means: Means,
}

#[derive(Debug)]
struct Layer {
    query_key_value: QueryKeyValue,
    context: Linear,
    context_norm: Norm,
    up: Linear,
    down: Linear,
    norm: Norm,
}

/// What makes queries, keys and values, side by side.
#[derive(Debug)]
enum QueryKeyValue {
    /// One layer of three times the outputs.
    Joined(Linear),
    /// One for each: in bytes they smooth their common input in ways of their own, which brings the least cosine of 500
    /// real pieces from 0.9952 to 0.9964 and costs 3 % of the speed.
    Apart([Linear; 3]),
}

impl QueryKeyValue {
    fn apply(&self, hidden: &Tensor) -> TorchResult<Tensor> {
        match self {
            Self::Joined(layer) => layer.apply(hidden, Fused::Nothing),
            Self::Apart(layers) => {
                // Not `f_cat`, which copies as much and makes a list besides.
                let sides = sides(hidden)?;
                let width = sides.last().copied().unwrap_or(0);
                let joined = Tensor::f_empty(&*sides.with_last(3 * width), (hidden.f_kind()?, hidden.device()))?;
                for (part, layer) in (0..).zip(layers) {
                    joined.f_narrow(-1, part * width, width)?.f_copy_(&layer.apply(hidden, Fused::Nothing)?)?;
                }
                Ok(joined)
            }
        }
    }
}

impl Bert {
    /// Loads a model onto a device.
    ///
    /// # Errors
    /// [`ErrorKind::UnsupportedModel`] where the architecture is another, [`ErrorKind::InvalidModel`] and
    /// [`ErrorKind::ModelNotFound`] where the weights are not what `config.json` says.
    pub fn load(model: &Model, device: Device, precision: Precision, allowed: Allowed) -> Result<Self> {
        let shape = Shape::read(model)?;
        let means = Means::find(device, precision, &shape, allowed);
        let mut loader = Loader { weights: Weights::read(&model.directory)?, device, means, reach: None };
        let hidden = shape.hidden;
        let words = loader.take("embeddings.word_embeddings.weight", &[ANY, hidden])?;
        let positions = loader.positions(model, &shape)?;
        let norm = loader.norm("embeddings.LayerNorm", &shape)?;
        let layers = (0..shape.layers).map(|layer| loader.layer(layer, &shape)).collect::<Result<_>>()?;
        Ok(Self { words: loader.place(&words)?, positions, norm, layers, shape, means })
    }

    /// Values in a token's vector.
    #[must_use]
    pub fn dimension(&self) -> i64 {
        self.shape.hidden
    }

    /// Whether rows need no padding on the card it is on; see [`Self::forward_ragged`].
    #[must_use]
    pub fn is_varlen(&self) -> bool {
        self.means.varlen
    }

    /// Values that a token has at once, at most, while a layer is computed on a card.
    #[must_use]
    pub fn values_per_token(&self, longest: u64) -> u64 {
        let Shape { hidden, intermediate, heads, .. } = self.shape;
        let [hidden, intermediate, heads] = [hidden, intermediate, heads].map(i64::unsigned_abs);
        // The layer's input and output, queries, keys and values and their copies by head, and the context; both sides of the
        // activation; the scores of all heads and their softmax, where no fused kernel takes the attention. Variable-length
        // attention is such a kernel: it keeps a float32 for each head.
        let scores = if self.means.varlen { 2 * heads } else { 2 * heads * longest };
        12 * hidden + 2 * intermediate + scores
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
    pub fn forward_packed(&self, batch: &Packed<'_>, scratch: &mut Scratch) -> TorchResult<Tensor> {
        let hidden = self.embed(&batch.ids, &batch.positions, scratch)?;
        self.layers.iter().try_fold(hidden, |hidden, layer| {
            self.apply(layer, &hidden, scratch, |mixed, scratch| self.attend_packed(mixed, batch.groups, scratch))
        })
    }

    /// Token vectors `[tokens, dimension]` of rows one behind the other; those of tokens of no row mean nothing.
    ///
    /// # Errors
    /// Where torch has no memory, or no variable-length attention.
    pub fn forward_ragged(&self, batch: &Ragged, scratch: &mut Scratch) -> TorchResult<Tensor> {
        let hidden = self.embed(&batch.ids, &batch.positions, scratch)?;
        self.layers.iter().try_fold(hidden, |hidden, layer| {
            self.apply(layer, &hidden, scratch, |mixed, _| varlen::attend(mixed, self.shape.heads, &batch.rows))
        })
    }

    /// What goes into the first layer, for ids and positions `[tokens]`.
    fn embed(&self, ids: &Tensor, positions: &Tensor, scratch: &mut Scratch) -> TorchResult<Tensor> {
        let positions = self.positions.f_index_select(0, positions)?;
        let words = self.words.f_index_select(0, ids)?;
        self.norm.apply_to_sum(words, &positions, self.means.kernels, scratch)
    }

    /// Token vectors `[rows, longest, dimension]` of padded rows; those of filled-up places mean nothing.
    ///
    /// # Errors
    /// Where torch has no memory.
    pub fn forward_padded(&self, batch: &Padded, scratch: &mut Scratch) -> TorchResult<Tensor> {
        let (rows, longest) = two_sides(&batch.ids)?;
        let positions = self.positions.f_narrow(0, 0, longest)?;
        let words = self.words.f_index_select(0, &batch.ids.f_view_(-1)?)?;
        let words = words.f_view_([rows, longest, self.shape.hidden])?;
        // The same positions for all rows, which the kernels do not know.
        let hidden = self.norm.apply_to_sum(words, &positions, None, scratch)?;
        // [rows, 1, 1, longest]: the same for all heads and all queries.
        let mask = batch.mask.as_ref().map(|mask| mask.f_view_([rows, 1, 1, longest])).transpose()?;
        self.layers.iter().try_fold(hidden, |hidden, layer| {
            self.apply(layer, &hidden, scratch, |mixed, _| self.attend(mixed, rows, longest, mask.as_ref()))
        })
    }

    fn apply(
        &self,
        layer: &Layer,
        hidden: &Tensor,
        scratch: &mut Scratch,
        attend: impl Fn(&Tensor, &mut Scratch) -> TorchResult<Tensor>,
    ) -> TorchResult<Tensor> {
        let kernels = self.means.kernels;
        let mixed = layer.query_key_value.apply(hidden)?;
        let context = layer.context.apply(&attend(&mixed, scratch)?, Fused::Nothing)?;
        let context = layer.context_norm.apply_to_sum(context, hidden, kernels, scratch)?;
        let wide = layer.up.apply(&context, self.shape.activation)?;
        let out = layer.down.apply(&wide, Fused::Nothing)?;
        layer.norm.apply_to_sum(out, &context, kernels, scratch)
    }

    /// Attention within each group of equally long rows: no padding, no mask. Tokens of no group become zeros.
    fn attend_packed(&self, mixed: &Tensor, groups: &[Group], scratch: &mut Scratch) -> TorchResult<Tensor> {
        if let Some(kernels) = self.means.kernels {
            return kernels.attend(mixed, groups, self.shape.heads, scratch);
        }
        let attend = |group: &Group| {
            let own = mixed.f_narrow(0, group.start, group.tokens())?;
            self.attend(&own, group.rows, group.length, None)?.f_view_([group.tokens(), self.shape.hidden])
        };
        let (tokens, _) = two_sides(mixed)?;
        let context = Tensor::f_zeros([tokens, self.shape.hidden], (mixed.f_kind()?, mixed.device()))?;
        for group in groups {
            context.f_narrow(0, group.start, group.tokens())?.f_copy_(&attend(group)?)?;
        }
        Ok(context)
    }

    /// Attention over rows of one length, from queries, keys and values side by side.
    fn attend(&self, mixed: &Tensor, rows: i64, length: i64, mask: Option<&Tensor>) -> TorchResult<Tensor> {
        let Shape { heads, hidden, .. } = self.shape;
        // Three times [rows, heads, length, width].
        let parts = mixed.f_view_([rows, length, 3, heads, hidden / heads])?.f_permute([2, 0, 3, 1, 4])?;
        let (queries, keys, values) = (parts.f_select(0, 0)?, parts.f_select(0, 1)?, parts.f_select(0, 2)?);
        // Short rows on a CPU: three plain operators beat the fused one by 6 to 15 % in bfloat16 (Zen 5, one core, rows of
        // 16 to 128 tokens), are its equal in float32, and lose from 256 tokens on.
        let context = if mask.is_none() && length <= SHORT && mixed.device() == Device::Cpu {
            let flat = [rows * heads, length, hidden / heads];
            let scores = queries.f_reshape(flat)?.f_bmm(&keys.f_reshape(flat)?.f_transpose(1, 2)?)?;
            let context = scores.f_softmax(-1, None)?.f_bmm(&values.f_reshape(flat)?)?;
            context.f_view_([rows, heads, length, hidden / heads])?
        } else {
            Tensor::f_scaled_dot_product_attention(&queries, &keys, &values, mask, 0.0, false, 1.0, false)?
        };
        context.f_transpose(1, 2)?.f_reshape([rows, length, hidden])
    }
}

/// Takes weights, checks them, and brings them to the device.
struct Loader {
    weights: Weights,
    device: Device,
    means: Means,
    /// How large each channel of the last norm that was loaded may become, `float32 [hidden]`; taken by the layer it feeds.
    reach: Option<Tensor>,
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
            .f_to_device_(self.device, self.means.kind, false, false)
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
        // In the order of computing: what feeds a layer is loaded before it.
        Ok(Layer {
            query_key_value: self.query_key_value(&name("attention.self"), shape)?,
            context: self.linear(&name("attention.output.dense"), hidden, hidden)?,
            context_norm: self.norm(&name("attention.output.LayerNorm"), shape)?,
            up: self.linear(&name("intermediate.dense"), intermediate, hidden)?,
            down: self.linear(&name("output.dense"), hidden, intermediate)?,
            norm: self.norm(&name("output.LayerNorm"), shape)?,
        })
    }

    fn query_key_value(&mut self, name: &str, shape: &Shape) -> Result<QueryKeyValue> {
        let hidden = shape.hidden;
        #[expect(clippy::cast_precision_loss, reason = "heads are narrow: their width is exact in f64")]
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
        let reach = self.reach.take();
        if self.means.bytes {
            let part = |part: usize| self.build(&weights[part], &biases[part], reach.as_ref());
            return Ok(QueryKeyValue::Apart([part(0)?, part(1)?, part(2)?]));
        }
        let weight = Tensor::f_cat(&weights, 0).map_err(|error| self.failed(&error))?;
        let bias = Tensor::f_cat(&biases, 0).map_err(|error| self.failed(&error))?;
        Ok(QueryKeyValue::Joined(self.build(&weight, &bias, None)?))
    }

    fn linear(&mut self, name: &str, outputs: i64, inputs: i64) -> Result<Linear> {
        let weight = self.take(&format!("{name}.weight"), &[outputs, inputs])?;
        let bias = self.take(&format!("{name}.bias"), &[outputs])?;
        let reach = self.reach.take();
        self.build(&weight, &bias, reach.as_ref())
    }

    fn build(&self, weight: &Tensor, bias: &Tensor, reach: Option<&Tensor>) -> Result<Linear> {
        if self.device == Device::Cpu {
            return Linear::new(weight, bias, reach, self.means).map_err(|error| self.failed(&error));
        }
        Ok(Linear::plain(self.place(weight)?, self.place(bias)?))
    }

    fn norm(&mut self, name: &str, shape: &Shape) -> Result<Norm> {
        let weight = self.take(&format!("{name}.weight"), &[shape.hidden])?;
        let bias = self.take(&format!("{name}.bias"), &[shape.hidden])?;
        // Normal values seldom lie beyond three.
        let reach = weight.f_abs().and_then(|weight| weight.f_mul_scalar(3)?.f_add(&bias.f_abs()?));
        self.reach = Some(reach.map_err(|error| self.failed(&error))?);
        let (weight, bias) = (self.place(&weight)?, self.place(&bias)?);
        Ok(Norm { weight, bias, width: shape.hidden, epsilon: shape.epsilon })
    }
}
