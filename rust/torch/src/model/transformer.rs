//! The layers of a transformer, built from its description: token ids to token vectors.
//!
//! Tokens stand one after the other, `[tokens, hidden]`, in both layouts: linear layers and norms do not see rows. Only
//! attention does: over [`Ragged`] batches by variable-length attention, for GPUs, and over [`Padded`] ones for
//! everything else. The padded one is the reference for the other, and for `rust/cpu`.
//!
//! A GPU spends as long on small kernels as on matrix products, so there are few of them. A layer's output is added to
//! what came before by the product itself, and GELU is the product's epilogue in half precision. Done once, at loading,
//! in float32 (`load`): the vector of token type 0 is added to the position embeddings, or to the word embeddings
//! without those; the scale of attention is multiplied into the queries' weights or their norm;
//! queries, keys and values share one matrix; and the biases of products that add to what came before move into the
//! norm before them.

mod load;

use pullquote_core::encoder::model::transformer::{Bias, BlockNorms, LayerAttention, QueryNorm};
use pullquote_core::encoder::model::{Activation, Transformer};
use tch::{Device, Kind, Tensor};

use super::dispatcher::linear_gelu;
use super::layout::{DeviceBatch, Padded, Ragged, dim};
use super::varlen::{self, Reach};
use crate::error::TorchResult;

#[derive(Debug)]
pub(super) struct TransformerLayers {
    config: Transformer,
    word_embeddings: Tensor,
    /// Row 0 is the first token's in every family.
    position_embeddings: Option<Tensor>,
    /// From the vector of token type 0 to that of type 1, `[hidden]`.
    second_type: Option<Tensor>,
    embedding_norm: Option<Norm>,
    layers: Vec<Layer>,
    final_norm: Option<Norm>,
    /// The rotations of layers, which share them.
    rotaries: Vec<Rotary>,
    /// Added to scores: `[heads, 2 · longest - 1]`, by the key's position minus the query's.
    distance_bias: Option<Tensor>,
    is_varlen: bool,
}

#[derive(Debug)]
struct Layer {
    qkv: Linear,
    /// Of queries and of keys.
    head_norms: Option<(Norm, Norm)>,
    /// In `rotaries`.
    rotary: Option<usize>,
    reach: Reach,
    attention_output: Linear,
    /// `None` where a layer's input is normalized already.
    attention_norm: Option<Norm>,
    attention_output_norm: Option<Norm>,
    /// The activated projection.
    up: Linear,
    /// What it is multiplied by, in gated layers.
    gate: Option<Linear>,
    down: Linear,
    mlp_norm: Norm,
    mlp_output_norm: Option<Norm>,
}

/// A linear layer: `input · weightᵀ + bias`.
#[derive(Debug)]
struct Linear {
    weight: Tensor,
    /// A view of the weight, `[inputs, outputs]`.
    transposed: Tensor,
    bias: Option<Tensor>,
}

#[derive(Debug)]
struct Norm {
    weight: Tensor,
    bias: Option<Tensor>,
    width: i64,
    epsilon: f64,
    /// The norm of the mean square, instead of mean and variance.
    is_root_mean_square: bool,
}

/// Cosines and sines of every position, `[positions, head width]`; the sines of the first half are negative.
#[derive(Debug)]
struct Rotary {
    cosines: Tensor,
    sines: Tensor,
}

/// A function of each value, in place.
pub(super) fn activate(mut values: Tensor, activation: Activation) -> TorchResult<Tensor> {
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

impl Linear {
    fn apply(&self, input: &Tensor) -> TorchResult<Tensor> {
        input.f_linear(&self.weight, self.bias.as_ref())
    }

    fn apply_activated(&self, input: &Tensor, activation: Activation) -> TorchResult<Tensor> {
        let bias = self.bias.as_ref().filter(|_| has_gelu_epilogue(input, activation));
        match bias.and_then(|bias| linear_gelu(input, &self.transposed, bias)) {
            Some(activated) => Ok(activated),
            // Also where it failed, so that the error has a reason.
            None => activate(self.apply(input)?, activation),
        }
    }

    /// Adds the layer's output to the sum of those before it, which no other tensor may share.
    fn add_to(&self, sum: &mut Tensor, input: &Tensor) -> TorchResult<()> {
        let _ = sum.f_addmm_(input, &self.transposed)?;
        if let Some(bias) = &self.bias {
            let _ = sum.f_add_(bias)?;
        }
        Ok(())
    }
}

/// Whether the matrix product computes GELU too. On GPUs it uses the tanh approximation, whose error is below half
/// precision's: the least cosine of 120 pieces with the error function's was 0.9999983. On CPUs GELU uses the error
/// function.
fn has_gelu_epilogue(input: &Tensor, activation: Activation) -> bool {
    let is_half = matches!(input.kind(), Kind::Half | Kind::BFloat16);
    let is_gelu = match activation {
        Activation::Gelu => true,
        Activation::GeluTanh => input.device() != Device::Cpu,
        _ => false,
    };
    is_half && is_gelu
}

impl Norm {
    fn apply(&self, values: &Tensor) -> TorchResult<Tensor> {
        if self.is_root_mean_square {
            values.f_rms_norm(self.width, Some(&self.weight), self.epsilon)
        } else {
            values.f_layer_norm(self.width, Some(&self.weight), self.bias.as_ref(), self.epsilon, false)
        }
    }
}

impl Rotary {
    /// Rotates heads `[tokens, heads, width]` by their positions' cosines and sines, `[tokens, 1, width]`.
    fn rotate(heads: &Tensor, (cosines, sines): &(Tensor, Tensor)) -> TorchResult<Tensor> {
        let half = heads.size().last().copied().unwrap_or(0) / 2;
        let swapped = Tensor::f_cat(&[heads.f_narrow(-1, half, half)?, heads.f_narrow(-1, 0, half)?], -1)?;
        heads.f_mul(cosines)?.f_addcmul_(&swapped, sines)
    }
}

/// The inputs of attention other than tokens, made once for all layers of a batch.
struct AttentionContext<'batch> {
    batch: &'batch DeviceBatch,
    /// Of the tokens, one for each of `rotaries`.
    rotations: Vec<(Tensor, Tensor)>,
    /// Added to scores in the padded layout, `[rows or 1, heads or 1, longest or 1, longest]`, for each reach.
    masks: Vec<(Reach, Option<Tensor>)>,
}

impl TransformerLayers {
    /// Values in a token's vector.
    pub(super) fn dimension(&self) -> i64 {
        dim(self.config.hidden)
    }

    /// Whether [`Self::forward`] takes ragged batches on this device.
    pub(super) fn is_varlen(&self) -> bool {
        self.is_varlen
    }

    /// The most values that exist at once for a token, while a GPU computes a layer.
    pub(super) fn peak_values_per_token(&self, max_tokens: u64) -> u64 {
        let Transformer { hidden, intermediate, heads, key_heads, head_width, gated, bias, .. } = self.config;
        let inner = (heads + 2 * key_heads) * head_width / 3;
        let sides = if gated { 3 } else { 2 };
        let [width, intermediate, heads] = [hidden.max(inner), intermediate, heads].map(|count| count as u64);
        // The layer's input and output, queries, keys and values and their copies by head, and the context; the sides
        // of the activation; and, where no fused kernel computes the attention, the scores of all heads and their
        // softmax, and the bias. Variable-length attention is fused: it keeps a float32 for each head.
        let scores = match (self.is_varlen, bias) {
            (true, _) => 2 * heads,
            (false, Bias::None) => 2 * heads * max_tokens,
            (false, _) => 3 * heads * max_tokens,
        };
        12 * width + sides * intermediate + scores
    }

    /// Multiplications and additions for a token, without attention's over a row.
    pub(super) fn flops_per_token(&self) -> u64 {
        let Transformer { hidden, intermediate, heads, key_heads, head_width, gated, layers, .. } = self.config;
        let attention = hidden * head_width * (2 * heads + 2 * key_heads);
        let mlp = hidden * intermediate * if gated { 3 } else { 2 };
        (2 * layers * (attention + mlp)) as u64
    }

    /// Rows of the word embeddings.
    pub(super) fn vocabulary(&self) -> i64 {
        self.word_embeddings.size().first().copied().unwrap_or(0)
    }

    /// Token vectors: `[tokens, dimension]`, or `[rows, longest, dimension]` for a padded batch, where those of padding
    /// are undefined.
    pub(super) fn forward(&self, batch: &DeviceBatch) -> TorchResult<Tensor> {
        let context = self.context(batch)?;
        let embedded = self.embed(batch)?;
        let tokens = match self.config.block {
            BlockNorms::PostNorm => self.forward_post_norm(embedded, &context)?,
            BlockNorms::PreNorm { .. } => self.forward_pre_norm(embedded, &context)?,
        };
        match batch {
            DeviceBatch::Ragged(_) => Ok(tokens),
            DeviceBatch::Padded(padded) => {
                let (rows, longest) = padded.ids.size2()?;
                tokens.f_view_([rows, longest, self.dimension()])
            }
        }
    }

    fn embed(&self, batch: &DeviceBatch) -> TorchResult<Tensor> {
        let mut words = self.word_embeddings.f_index_select(0, &batch.ids().f_view_(-1)?)?;
        match (&self.position_embeddings, batch) {
            (None, _) => {}
            (Some(table), DeviceBatch::Ragged(ragged)) => {
                let _ = words.f_add_(&table.f_index_select(0, &ragged.positions)?)?;
            }
            (Some(table), DeviceBatch::Padded(padded)) => {
                let (rows, longest) = padded.ids.size2()?;
                let mut by_row = words.f_view_([rows, longest, self.dimension()])?;
                let _ = by_row.f_add_(&table.f_narrow(0, 0, longest)?)?;
            }
        }
        if let (Some(second), Some(types)) = (&self.second_type, batch.types()) {
            let _ = words.f_addcmul_(&types.f_view_([-1, 1])?.f_to_kind(words.f_kind()?)?, second)?;
        }
        match &self.embedding_norm {
            Some(norm) => norm.apply(&words),
            None => Ok(words),
        }
    }

    fn forward_post_norm(&self, mut hidden: Tensor, context: &AttentionContext<'_>) -> TorchResult<Tensor> {
        for layer in &self.layers {
            let attended = self.attend(layer, &hidden, context)?;
            layer.attention_output.add_to(&mut hidden, &attended)?;
            if let Some(norm) = &layer.attention_norm {
                hidden = norm.apply(&hidden)?;
            }
            let inside = layer.mlp_inside(&hidden, self.config.activation)?;
            layer.down.add_to(&mut hidden, &inside)?;
            hidden = layer.mlp_norm.apply(&hidden)?;
        }
        Ok(hidden)
    }

    fn forward_pre_norm(&self, mut sum: Tensor, context: &AttentionContext<'_>) -> TorchResult<Tensor> {
        let add = |sum: &mut Tensor, linear: &Linear, norm: &Option<Norm>, input: &Tensor| match norm {
            None => linear.add_to(sum, input),
            Some(norm) => sum.f_add_(&norm.apply(&linear.apply(input)?)?).map(drop),
        };
        for layer in &self.layers {
            let normalized = layer.attention_norm.as_ref().map(|norm| norm.apply(&sum)).transpose()?;
            let attended = self.attend(layer, normalized.as_ref().unwrap_or(&sum), context)?;
            drop(normalized);
            add(&mut sum, &layer.attention_output, &layer.attention_output_norm, &attended)?;
            let inside = layer.mlp_inside(&layer.mlp_norm.apply(&sum)?, self.config.activation)?;
            add(&mut sum, &layer.down, &layer.mlp_output_norm, &inside)?;
        }
        match &self.final_norm {
            Some(norm) => norm.apply(&sum),
            None => Ok(sum),
        }
    }

    fn context<'batch>(&self, batch: &'batch DeviceBatch) -> TorchResult<AttentionContext<'batch>> {
        let rotate = |rotary: &Rotary| {
            let of_tokens = |table: &Tensor| match batch {
                DeviceBatch::Ragged(ragged) => table.f_index_select(0, &ragged.positions)?.f_unsqueeze(1),
                DeviceBatch::Padded(padded) => {
                    let (rows, longest) = padded.ids.size2()?;
                    table.f_narrow(0, 0, longest)?.f_repeat([rows, 1])?.f_unsqueeze(1)
                }
            };
            TorchResult::Ok((of_tokens(&rotary.cosines)?, of_tokens(&rotary.sines)?))
        };
        let rotations = self.rotaries.iter().map(rotate).collect::<TorchResult<_>>()?;
        let mut masks: Vec<(Reach, Option<Tensor>)> = Vec::new();
        if let DeviceBatch::Padded(padded) = batch {
            for layer in &self.layers {
                if masks.iter().all(|(reach, _)| *reach != layer.reach) {
                    masks.push((layer.reach, self.padded_mask(padded, layer.reach)?));
                }
            }
        }
        Ok(AttentionContext { batch, rotations, masks })
    }

    /// What is added to the scores of padded rows: minus infinity for padding and for tokens out of reach, and the bias
    /// by distance.
    fn padded_mask(&self, batch: &Padded, reach: Reach) -> TorchResult<Option<Tensor>> {
        let (rows, longest) = batch.ids.size2()?;
        let (kind, device) = (self.word_embeddings.f_kind()?, batch.ids.device());
        let visible = batch.mask.as_ref().map(|mask| mask.f_view_([rows, 1, 1, longest])).transpose()?;
        let has_distances = self.distance_bias.is_some() || reach != Reach::ALL;
        let distances = || {
            // The key's position minus the query's, [longest, longest].
            let positions = Tensor::f_arange(longest, (Kind::Int64, device))?;
            positions.f_unsqueeze(0)?.f_sub(&positions.f_unsqueeze(1)?)
        };
        let distances = if has_distances { Some(distances()?) } else { None };
        let allowed = match (&distances, visible) {
            (Some(distances), visible) if reach != Reach::ALL => {
                let (before, after) = reach.bounds(longest);
                let near = distances.f_ge(-before)?.f_logical_and(&distances.f_le(after)?)?;
                match visible {
                    None => Some(near),
                    // Padding may have no token in reach but itself, and a softmax over none is NaN.
                    Some(visible) => Some(visible.f_logical_and(&near)?.f_logical_or(&distances.f_eq(0)?)?),
                }
            }
            (_, visible) => visible,
        };
        let bias = match (&self.distance_bias, &distances) {
            (Some(table), Some(distances)) => {
                let places = distances.f_add_scalar(table.size2()?.1 / 2)?.f_view_(-1)?;
                Some(table.f_index_select(1, &places)?.f_view_([1, dim(self.config.heads), longest, longest])?)
            }
            _ => None,
        };
        let Some(allowed) = allowed else { return Ok(bias) };
        let hidden = allowed.f_logical_not()?;
        let bias = bias.map_or_else(|| Tensor::f_zeros(hidden.size(), (kind, device)), Ok)?;
        bias.f_masked_fill(&hidden, f64::NEG_INFINITY).map(Some)
    }

    /// Attention over `[tokens, hidden]`, before its output layer: `[tokens, heads · width]`.
    fn attend(&self, layer: &Layer, hidden: &Tensor, context: &AttentionContext<'_>) -> TorchResult<Tensor> {
        let Transformer { heads, key_heads, head_width, .. } = self.config;
        let [heads, key_heads, width] = [heads, key_heads, head_width].map(dim);
        let qkv = layer.qkv.apply(hidden)?.f_view_([-1, heads + 2 * key_heads, width])?;
        let values = qkv.f_narrow(1, heads + key_heads, key_heads)?;
        let rotation = layer.rotary.map(|rotary| &context.rotations[rotary]);
        let (queries, keys) = match (&layer.head_norms, rotation) {
            (None, rotation) => {
                let rotated =
                    rotation.map(|rotation| Rotary::rotate(&qkv.f_narrow(1, 0, heads + key_heads)?, rotation));
                let rotated = rotated.transpose()?;
                let rotated = rotated.as_ref().unwrap_or(&qkv);
                (rotated.f_narrow(1, 0, heads)?, rotated.f_narrow(1, heads, key_heads)?)
            }
            (Some((of_queries, of_keys)), rotation) => {
                let prepare = |first, count, norm: &Norm| {
                    let part = qkv.f_narrow(1, first, count)?;
                    let normalized = match self.config.query_norm {
                        QueryNorm::Rows => norm.apply(&part.f_reshape([-1, count * width])?)?,
                        QueryNorm::Heads | QueryNorm::None => norm.apply(&part)?,
                    };
                    let normalized = normalized.f_view_([-1, count, width])?;
                    match rotation {
                        Some(rotation) => Rotary::rotate(&normalized, rotation),
                        None => Ok(normalized),
                    }
                };
                (prepare(0, heads, of_queries)?, prepare(heads, key_heads, of_keys)?)
            }
        };
        match context.batch {
            DeviceBatch::Ragged(Ragged { rows, .. }) => varlen::attend(&queries, &keys, &values, rows, layer.reach),
            DeviceBatch::Padded(padded) => {
                let mask = context.masks.iter().find(|(reach, _)| *reach == layer.reach);
                let mask = mask.and_then(|(_, mask)| mask.as_ref());
                let (rows, longest) = padded.ids.size2()?;
                // [rows, heads, longest, width]
                let by_row = |part: &Tensor| part.f_unflatten(0, [rows, longest])?.f_transpose(1, 2);
                let [queries, keys, values] = [by_row(&queries)?, by_row(&keys)?, by_row(&values)?];
                let attended = attend_padded(&queries, &keys, &values, mask)?;
                attended.f_transpose(1, 2)?.f_reshape([rows * longest, heads * width])
            }
        }
    }
}

/// Attention over rows of one length, `[rows, heads, length, width]`. Queries are scaled already.
fn attend_padded(queries: &Tensor, keys: &Tensor, values: &Tensor, mask: Option<&Tensor>) -> TorchResult<Tensor> {
    let (rows, heads, length, _) = queries.size4()?;
    let is_grouped = keys.size4()?.1 != heads;
    let is_half = matches!(queries.f_kind()?, Kind::Half | Kind::BFloat16);
    // torch would take cuDNN's, which compiles a plan for every new shape: 0.4 seconds each.
    if let (Some(mask), true) = (mask, is_half && !is_grouped && length % 8 == 0 && queries.device() != Device::Cpu) {
        let mask = mask.f_expand([rows, heads, length, length], false)?;
        let attended = Tensor::f_internal_scaled_dot_product_efficient_attention(
            queries,
            keys,
            values,
            Some(&mask),
            false,
            0.0,
            false,
            1.0,
        );
        if let Ok((attended, ..)) = attended {
            return Ok(attended);
        }
    }
    Tensor::f_scaled_dot_product_attention(queries, keys, values, mask, 0.0, false, 1.0, is_grouped)
}

impl Layer {
    fn mlp_inside(&self, input: &Tensor, activation: Activation) -> TorchResult<Tensor> {
        let mut inside = self.up.apply_activated(input, activation)?;
        if let Some(gate) = &self.gate {
            let _ = inside.f_mul_(&gate.apply(input)?)?;
        }
        Ok(inside)
    }
}

impl Reach {
    /// What a layer's tokens see.
    fn of(attention: &LayerAttention, causal: bool) -> Self {
        Self { window: attention.window.map(dim), causal }
    }

    /// The attention window of a token: the number of tokens before it, and after it.
    fn bounds(self, longest: i64) -> (i64, i64) {
        let window = self.window.unwrap_or(longest);
        (window, if self.causal { 0 } else { window })
    }
}
