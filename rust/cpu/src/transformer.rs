//! The layers of a transformer, as its description says.
//!
//! Rows stand one after the other, in the batch's own order and without padding: linear layers run over all tokens at
//! once, attention over one row at a time. Layers that add to what came before keep that sum in float32.
//!
//! Done once, at loading, in float32: the token type's vector is added to the position embeddings (there is only type
//! 0), the scale of attention is multiplied into the queries' weights or their norm, and queries, keys and values share
//! one matrix. Dimensions that do not fill registers are padded with zeros.

use std::collections::HashMap;
use std::sync::Arc;

use pullquote_core::encoder::Batch;
use pullquote_core::encoder::dtype::Dtype;
use pullquote_core::encoder::model::names::Names;
use pullquote_core::encoder::model::transformer::{Bias, BlockNorms, Norm, QueryNorm, alibi_slopes, bucket};
use pullquote_core::encoder::model::{Activation, Model, Transformer};
use pullquote_core::error::{Error, ErrorKind, Result};

use crate::attention::{Attend, AttentionScratch, DistanceBias, Heads, Reach};
use crate::linear::{Linear, LinearScratch, OutputRows};
use crate::load::{Loader, PaddedDim, WIDTH_MULTIPLE};
use crate::math::Multiply;
use crate::memory::AlignedBuffer;
use crate::norm::{AddNorm, AddRows, LayerNorm, NormRows};
use crate::product::Element;
use crate::rotary::{HeadNorms, PrepareHeads, Rotary};
use crate::vector::Simd;
use crate::weights::Tensor;

/// A transformer in the layout of an instruction set.
#[derive(Debug)]
pub struct TransformerLayers {
    config: Transformer,
    heads: Heads,
    /// In the model's file, which is mapped.
    word_embeddings: Tensor,
    /// Added to the word embeddings, `[max tokens, padded width]`, or one row for all, or nothing. The vector of token
    /// type 0 is in it.
    position_embeddings: Vec<f32>,
    /// From the vector of token type 0 to that of type 1; empty without a second type.
    second_type: Vec<f32>,
    embedding_norm: Option<LayerNorm>,
    bias: Option<DistanceBias>,
    layers: Vec<Layer>,
    final_norm: Option<LayerNorm>,
}

#[derive(Debug)]
struct Layer {
    /// One fused layer; or for int8 three, each of which smooths the common input in its own way: that brings the least
    /// cosine of 500 real windows from 0.9952 to 0.9964 and costs 3 % of the speed.
    qkv: Vec<Linear>,
    head_norms: HeadNorms,
    rotary: Option<Arc<Rotary>>,
    reach: Reach,
    attention_output: Linear,
    /// `None` where a layer's input is normalized already.
    attention_norm: Option<LayerNorm>,
    attention_output_norm: Option<LayerNorm>,
    /// The activated projection.
    up: Linear,
    /// What it is multiplied by, in gated layers.
    gate: Option<Linear>,
    down: Linear,
    mlp_norm: LayerNorm,
    mlp_output_norm: Option<LayerNorm>,
}

/// The activations of a thread, kept from batch to batch; they grow to the largest batch.
#[derive(Debug, Default)]
pub struct TransformerScratch {
    qkv: AlignedBuffer,
    context: AlignedBuffer,
    attended: AlignedBuffer,
    intermediate: AlignedBuffer,
    /// What gated layers multiply it by.
    gates: AlignedBuffer,
    /// The sum of all layers so far, in float32, where layers add to it.
    stream: AlignedBuffer,
    /// A row or two in float32.
    row: Vec<f32>,
    linear: LinearScratch,
    attention: AttentionScratch,
}

impl TransformerScratch {
    /// The vectors of the last batch's tokens before the norm after the last layer, `[tokens, padded width]`.
    pub fn before_final_norm(&mut self, values: usize) -> &[f32] {
        self.stream.slice_mut(values)
    }
}

impl TransformerLayers {
    /// Whether there is a norm after the last layer.
    pub fn has_final_norm(&self) -> bool {
        self.final_norm.is_some()
    }

    /// Width of a token's vector.
    pub fn hidden(&self) -> usize {
        self.config.hidden
    }

    pub fn padded_width(&self) -> usize {
        PaddedDim::Whole(self.config.hidden).padded()
    }

    /// Every id must be below it.
    pub fn vocabulary(&self) -> usize {
        self.word_embeddings.dim(0)
    }

    /// The vectors of a batch's tokens, `[tokens, padded width]`, and of as many more as fill the last tile.
    pub fn forward<'buffer, S: Simd, E: Element>(
        &self,
        simd: S,
        batch: &Batch,
        hidden: &'buffer mut AlignedBuffer,
        scratch: &mut TransformerScratch,
    ) -> &'buffer mut [E] {
        let tokens = batch.ids.len().next_multiple_of(S::TILE.rows());
        let width = self.padded_width();
        let hidden: &mut [E] = hidden.slice_mut(tokens * width);
        match self.config.block {
            BlockNorms::PostNorm => self.forward_post_norm(simd, batch, hidden, scratch),
            BlockNorms::PreNorm { .. } => self.forward_pre_norm(simd, batch, hidden, scratch),
        }
        hidden
    }

    fn forward_post_norm<S: Simd, E: Element>(
        &self,
        simd: S,
        batch: &Batch,
        hidden: &mut [E],
        scratch: &mut TransformerScratch,
    ) {
        let width = self.padded_width();
        self.embed(simd, batch, hidden, &mut scratch.row);
        for layer in &self.layers {
            self.attend(simd, layer, batch, hidden, scratch);
            let attended: &mut [E] = scratch.attended.slice_mut(hidden.len());
            if let Some(norm) = &layer.attention_norm {
                simd.vectorize(AddNorm { rows: attended, residual: hidden, norm, sums: &mut scratch.row });
            }
            let intermediate: &mut [E] = scratch.intermediate.slice_mut(hidden.len() / width * layer.up.outputs());
            let inside = (intermediate, &mut scratch.gates);
            layer.feed_forward(simd, self.config.activation, attended, inside, hidden, &mut scratch.linear);
            let norm = &layer.mlp_norm;
            simd.vectorize(AddNorm { rows: hidden, residual: attended, norm, sums: &mut scratch.row });
        }
    }

    fn forward_pre_norm<S: Simd, E: Element>(
        &self,
        simd: S,
        batch: &Batch,
        hidden: &mut [E],
        scratch: &mut TransformerScratch,
    ) {
        let width = self.padded_width();
        // Taken out, so that the rest of the scratch space can be borrowed.
        let mut stream = std::mem::take(&mut scratch.stream);
        let sum: &mut [f32] = stream.slice_mut(hidden.len());
        self.embed(simd, batch, sum, &mut scratch.row);
        for layer in &self.layers {
            let norm = layer.attention_norm.as_ref();
            simd.vectorize(NormRows { input: sum, output: hidden, norm, width });
            self.attend(simd, layer, batch, hidden, scratch);
            let attended: &mut [E] = scratch.attended.slice_mut(hidden.len());
            let norm = layer.attention_output_norm.as_ref();
            simd.vectorize(AddRows { rows: attended, sum, norm, width, scratch: &mut scratch.row });
            simd.vectorize(NormRows { input: sum, output: hidden, norm: Some(&layer.mlp_norm), width });
            let intermediate: &mut [E] = scratch.intermediate.slice_mut(hidden.len() / width * layer.up.outputs());
            let inside = (intermediate, &mut scratch.gates);
            layer.feed_forward(simd, self.config.activation, hidden, inside, attended, &mut scratch.linear);
            let norm = layer.mlp_output_norm.as_ref();
            simd.vectorize(AddRows { rows: attended, sum, norm, width, scratch: &mut scratch.row });
        }
        simd.vectorize(NormRows { input: sum, output: hidden, norm: self.final_norm.as_ref(), width });
        scratch.stream = stream;
    }

    /// Writes a layer's attention over `hidden` to `attended`.
    fn attend<S: Simd, E: Element>(
        &self,
        simd: S,
        layer: &Layer,
        batch: &Batch,
        hidden: &[E],
        scratch: &mut TransformerScratch,
    ) {
        let TransformerScratch { qkv, context, attended, row, linear, attention, .. } = scratch;
        let (heads, width) = (self.heads, self.padded_width());
        let tokens = hidden.len() / width;
        let (stride, inner) = (heads.qkv(), heads.count * heads.width);
        let qkv: &mut [E] = qkv.slice_mut(tokens * stride);
        let context: &mut [E] = context.slice_mut(tokens * inner);
        let mut first = 0;
        for part in &layer.qkv {
            let output = OutputRows { values: qkv, stride, first };
            part.apply(simd, hidden, Activation::Identity, output, linear);
            first += part.outputs();
        }
        let is_prepared = layer.rotary.is_none() && matches!(layer.head_norms, HeadNorms::None);
        let mut start = 0;
        // Batches in which every token is attended to say nothing.
        let unattended = batch.unattended.iter().map(|last| *last as usize).chain(std::iter::repeat(0));
        for (length, unattended) in batch.lengths.iter().map(|length| *length as usize).zip(unattended) {
            let end = start + length;
            let qkv = &mut qkv[start * stride..end * stride];
            if !is_prepared {
                simd.vectorize(PrepareHeads {
                    qkv,
                    heads,
                    head_width: self.config.head_width,
                    norms: &layer.head_norms,
                    rotary: layer.rotary.as_deref(),
                    scratch: row,
                });
            }
            simd.vectorize(Attend {
                qkv,
                output: &mut context[start * inner..end * inner],
                heads,
                reach: layer.reach,
                unattended,
                bias: self.bias.as_ref(),
                scratch: attention,
            });
            start = end;
        }
        let attended: &mut [E] = attended.slice_mut(tokens * width);
        layer.attention_output.apply(simd, context, Activation::Identity, full_rows(attended, width), linear);
    }

    /// Writes the embeddings, and zeros for the tokens that fill the last tile.
    fn embed<S: Simd, E: Element>(&self, simd: S, batch: &Batch, hidden: &mut [E], row: &mut Vec<f32>) {
        let width = self.padded_width();
        row.clear();
        row.resize(width, 0.0);
        // Batches of single texts have no second texts.
        let seconds = batch.seconds.iter().map(|second| *second as usize).chain(std::iter::repeat(usize::MAX));
        let of_row = |(length, second): (&u32, usize)| (0..*length as usize).map(move |at| (at, at >= second));
        let positions = batch.lengths.iter().zip(seconds).flat_map(of_row);
        let (tokens, padding) = hidden.split_at_mut(batch.ids.len() * width);
        let scale = self.config.embedding_scale;
        for ((id, (position, is_second)), output) in batch.ids.iter().zip(positions).zip(tokens.chunks_exact_mut(width))
        {
            self.word_embeddings.read_row(usize::try_from(*id).unwrap_or(0), row);
            #[expect(clippy::float_cmp, reason = "it is exactly 1 where nothing is scaled")]
            if scale != 1.0 {
                for value in row.iter_mut() {
                    *value *= scale;
                }
            }
            let added = &self.position_embeddings;
            let first = if added.len() > width { position * width } else { 0 };
            row.iter_mut().zip(&added[first..]).for_each(|(value, added)| *value += added);
            if is_second {
                row.iter_mut().zip(&self.second_type).for_each(|(value, added)| *value += added);
            }
            simd.vectorize(NormRows { input: row, output, norm: self.embedding_norm.as_ref(), width });
        }
        padding.fill(E::ZERO);
    }
}

impl Layer {
    fn feed_forward<S: Simd, E: Element>(
        &self,
        simd: S,
        activation: Activation,
        input: &[E],
        (intermediate, gates): (&mut [E], &mut AlignedBuffer),
        output: &mut [E],
        linear: &mut LinearScratch,
    ) {
        let inside = self.up.outputs();
        self.up.apply(simd, input, activation, full_rows(intermediate, inside), linear);
        if let Some(gate) = &self.gate {
            let factors: &mut [E] = gates.slice_mut(intermediate.len());
            gate.apply(simd, input, Activation::Identity, full_rows(factors, inside), linear);
            simd.vectorize(Multiply { values: intermediate, by: factors });
        }
        let width = self.down.outputs();
        self.down.apply(simd, intermediate, Activation::Identity, full_rows(output, width), linear);
    }
}

fn full_rows<E>(values: &mut [E], stride: usize) -> OutputRows<'_, E> {
    OutputRows { values, stride, first: 0 }
}

impl TransformerLayers {
    pub fn load<S: Simd>(model: &Model, config: Transformer, mut loader: Loader<S>) -> Result<Self> {
        let names = select_names(&config, &loader);
        let hidden = config.hidden;
        let word_embeddings = loader.weights.take(&format!("{}.weight", names.words), &[None, Some(hidden)])?;
        let mut load =
            LoadLayers { longest: model.max_tokens, names, config: &config, loader, rotaries: HashMap::new() };
        let (position_embeddings, second_type) = load.position_embeddings()?;
        let embedding_norm =
            if config.embedding_norm { Some(load.norm(names.embedding_norm, hidden, 1.0)?) } else { None };
        let mut layers = Vec::with_capacity(config.layers);
        // How large the input of the next layer may become, where norms come last.
        let mut bounds = embedding_norm.as_ref().map(LayerNorm::output_bounds);
        for index in 0..config.layers {
            let layer = load.layer(index, bounds.as_deref())?;
            bounds = Some(layer.mlp_norm.output_bounds());
            layers.push(layer);
        }
        let final_norm = match config.block {
            BlockNorms::PostNorm => None,
            BlockNorms::PreNorm { .. } => Some(load.norm(names.final_norm, hidden, 1.0)?),
        };
        let bias = load.bias()?;
        let heads = Heads {
            count: config.heads,
            keys: config.key_heads,
            width: config.head_width.next_multiple_of(WIDTH_MULTIPLE),
        };
        Ok(Self {
            config,
            heads,
            word_embeddings,
            position_embeddings,
            second_type,
            embedding_norm,
            bias,
            layers,
            final_norm,
        })
    }
}

/// The names whose feed-forward layer is in the file, or the first for an error that names it.
fn select_names<S: Simd>(config: &Transformer, loader: &Loader<S>) -> &'static Names {
    let is_there = |names: &&Names| loader.weights.has(&format!("{}.weight", names.of_layer(0, names.up[0])));
    config.names.iter().find(is_there).unwrap_or(&config.names[0])
}

struct LoadLayers<'model, S> {
    /// Tokens of the longest row.
    longest: usize,
    names: &'static Names,
    config: &'model Transformer,
    loader: Loader<S>,
    /// By the bits of their frequencies: layers share them.
    rotaries: HashMap<Vec<u32>, Arc<Rotary>>,
}

impl<S: Simd> LoadLayers<'_, S> {
    /// What is added to the word embeddings, and what is added where the token type is 1.
    fn position_embeddings(&mut self) -> Result<(Vec<f32>, Vec<f32>)> {
        let Transformer { hidden, first_position, token_types, .. } = *self.config;
        let width = PaddedDim::Whole(hidden).padded();
        let (mut token_type, mut second_type) = (vec![0.0; hidden], Vec::new());
        let weights = &mut self.loader.weights;
        let table = match first_position {
            Some(_) => Some(weights.take(&format!("{}.weight", self.names.positions), &[None, Some(hidden)])?),
            None => None,
        };
        if token_types {
            let table = weights.take(&format!("{}.weight", self.names.token_types), &[None, Some(hidden)])?;
            table.read_row(0, &mut token_type);
            if table.dim(0) > 1 {
                second_type.resize(hidden, 0.0);
                table.read_row(1, &mut second_type);
                second_type.iter_mut().zip(&token_type).for_each(|(second, first)| *second -= first);
            }
        }
        let (Some(table), Some(first_position)) = (table, first_position) else {
            token_type.resize(width, 0.0);
            return Ok((if token_types { token_type } else { Vec::new() }, second_type));
        };
        let rows = table.dim(0).saturating_sub(first_position);
        if rows < self.longest {
            let (source, name, longest) = (weights.source().display(), self.names.positions, self.longest);
            let message =
                format!("{source}: the tensor {name}.weight has {rows} positions, but config.json asks for {longest}");
            return Err(Error::new(ErrorKind::InvalidModel, message));
        }
        let mut embeddings = vec![0.0; self.longest * width];
        for (position, row) in (first_position..).zip(embeddings.chunks_exact_mut(width)) {
            table.read_row(position, row);
            row.iter_mut().zip(&token_type).for_each(|(value, of_type)| *value += of_type);
        }
        Ok((embeddings, second_type))
    }

    /// A norm, with what its weight and bias are multiplied by.
    fn norm(&mut self, name: &str, width: usize, scale: f32) -> Result<LayerNorm> {
        let mut weight = self.loader.take(&format!("{name}.weight"), &[width])?;
        #[expect(clippy::cast_possible_truncation, reason = "an epsilon is a small number")]
        let epsilon = self.config.epsilon as f32;
        let padded = PaddedDim::Whole(width).padded();
        match self.config.norm {
            Norm::Layer => {
                let mut bias = self.loader.bias(name, width, self.config.biases.norms)?;
                #[expect(clippy::float_cmp, reason = "it is exactly 1 where nothing is scaled")]
                if scale != 1.0 {
                    weight.iter_mut().chain(&mut bias).for_each(|value| *value *= scale);
                }
                Ok(LayerNorm::new(weight, bias, epsilon, padded))
            }
            Norm::RootMeanSquare { offset } => {
                for value in &mut weight {
                    *value = (*value + f32::from(offset)) * scale;
                }
                Ok(LayerNorm::root_mean_square(weight, epsilon, padded))
            }
        }
    }

    fn optional_norm(&mut self, index: usize, part: &str) -> Result<Option<LayerNorm>> {
        let name = self.names.of_layer(index, part);
        if part.is_empty() { Ok(None) } else { self.norm(&name, self.config.hidden, 1.0).map(Some) }
    }

    /// `bounds` says how large each of the layer's inputs may become, where norms come last.
    fn layer(&mut self, index: usize, bounds: Option<&[f32]>) -> Result<Layer> {
        let (names, biases) = (self.names, self.config.biases);
        let Transformer { hidden, intermediate, heads, head_width, block, .. } = *self.config;
        let (whole, middle) = (PaddedDim::Whole(hidden), PaddedDim::Whole(intermediate));
        let inner = PaddedDim::Heads { count: heads, width: head_width };
        let has_norm = !matches!(block, BlockNorms::PreNorm { skips_first: true, .. }) || index > 0;
        let attention_norm = if has_norm { self.optional_norm(index, names.attention_norm)? } else { None };
        let mlp_norm = self.norm(&names.of_layer(index, names.mlp_norm), hidden, 1.0)?;
        let own_bounds = attention_norm.as_ref().map(LayerNorm::output_bounds);
        let mlp_bounds = mlp_norm.output_bounds();
        let (qkv_bounds, up_bounds) = match block {
            BlockNorms::PostNorm => (bounds, own_bounds.as_deref()),
            BlockNorms::PreNorm { .. } => (own_bounds.as_deref().or(bounds), Some(&*mlp_bounds)),
        };
        let (qkv, head_norms) = self.qkv(index, qkv_bounds)?;
        let output = names.of_layer(index, names.attention_output);
        let attention_output = self.loader.linear(&output, whole, inner, biases.attention, None)?;
        let (up, gate) = self.up(index, up_bounds)?;
        let down = names.of_layer(index, names.down);
        let down = self.loader.linear(&down, whole, middle, biases.down, None)?;
        let attention = &self.config.attention[index];
        let window = attention.window.unwrap_or(usize::MAX);
        Ok(Layer {
            qkv,
            head_norms,
            rotary: self.rotary(&attention.rotary),
            reach: Reach { before: window, after: if self.config.causal { 0 } else { window } },
            attention_output,
            attention_norm,
            attention_output_norm: self.optional_norm(index, names.attention_output_norm)?,
            up,
            gate,
            down,
            mlp_norm,
            mlp_output_norm: self.optional_norm(index, names.mlp_output_norm)?,
        })
    }

    /// Queries, keys and values, and the norms of the first two.
    fn qkv(&mut self, index: usize, bounds: Option<&[f32]>) -> Result<(Vec<Linear>, HeadNorms)> {
        let names = self.names;
        let Transformer { hidden, heads, key_heads, head_width, attention_scale, .. } = *self.config;
        #[expect(clippy::cast_possible_truncation, reason = "it was computed in float32")]
        let scale = attention_scale as f32;
        let counts = [heads, key_heads, key_heads];
        let [mut weights, mut biases] = [Vec::with_capacity(3), Vec::with_capacity(3)];
        if let [fused] = names.qkv {
            let name = names.of_layer(index, fused);
            let rows = (heads + 2 * key_heads) * head_width;
            let mut weight = self.loader.take(&format!("{name}.weight"), &[rows, hidden])?;
            let mut bias = self.loader.bias(&name, rows, self.config.biases.qkv)?;
            for count in counts {
                let (rest, rest_of_bias) =
                    (weight.split_off(count * head_width * hidden), bias.split_off(count * head_width));
                weights.push(std::mem::replace(&mut weight, rest));
                biases.push(std::mem::replace(&mut bias, rest_of_bias));
            }
        } else {
            for (part, count) in names.qkv.iter().zip(counts) {
                let name = names.of_layer(index, part);
                weights.push(self.loader.take(&format!("{name}.weight"), &[count * head_width, hidden])?);
                biases.push(self.loader.bias(&name, count * head_width, self.config.biases.qkv)?);
            }
        }
        let norms = match self.config.query_norm {
            QueryNorm::Heads => Some((head_width, head_width)),
            QueryNorm::Rows if !names.query_norm.is_empty() => Some((heads * head_width, key_heads * head_width)),
            _ => None,
        };
        let norms = if let Some((of_queries, of_keys)) = norms {
            let query = self.norm(&names.of_layer(index, names.query_norm), of_queries, scale)?;
            let key = self.norm(&names.of_layer(index, names.key_norm), of_keys, 1.0)?;
            let is_of_heads = self.config.query_norm == QueryNorm::Heads;
            if is_of_heads { HeadNorms::Heads(query, key) } else { HeadNorms::Rows(query, key) }
        } else {
            weights[0].iter_mut().chain(&mut biases[0]).for_each(|value| *value *= scale);
            HeadNorms::None
        };
        let inputs = PaddedDim::Whole(hidden);
        let dim = |count| PaddedDim::Heads { count, width: head_width };
        if self.loader.dtype == Dtype::Int8 {
            let parts = weights.into_iter().zip(&biases).zip(counts);
            let pack = |((weight, bias), count): ((_, &Vec<f32>), _)| {
                self.loader.pack(weight, bias, dim(count), inputs, bounds)
            };
            return Ok((parts.map(pack).collect(), norms));
        }
        let fused = self.loader.pack(weights.concat(), &biases.concat(), dim(heads + 2 * key_heads), inputs, None);
        Ok((vec![fused], norms))
    }

    /// The activated projection, and what it is multiplied by in gated layers.
    fn up(&mut self, index: usize, bounds: Option<&[f32]>) -> Result<(Linear, Option<Linear>)> {
        let names = self.names;
        let Transformer { hidden, intermediate, biases, gated, .. } = *self.config;
        let (whole, middle) = (PaddedDim::Whole(hidden), PaddedDim::Whole(intermediate));
        let (first, second) = match names.up {
            [fused] if gated => {
                let name = names.of_layer(index, fused);
                let mut weight = self.loader.take(&format!("{name}.weight"), &[2 * intermediate, hidden])?;
                let mut bias = self.loader.bias(&name, 2 * intermediate, biases.up)?;
                let (rest, rest_of_bias) = (weight.split_off(intermediate * hidden), bias.split_off(intermediate));
                let halves = [(weight, bias), (rest, rest_of_bias)];
                let mut halves =
                    halves.map(|(weight, bias)| self.loader.pack(weight, &bias, middle, whole, bounds)).into_iter();
                let (first, second) = (halves.next(), halves.next());
                if names.activated_first { (first, second) } else { (second, first) }
            }
            parts => {
                let mut load = |part: &&str| {
                    let name = names.of_layer(index, part);
                    self.loader.linear(&name, middle, whole, biases.up, bounds)
                };
                (parts.first().map(&mut load).transpose()?, parts.get(1).map(&mut load).transpose()?)
            }
        };
        let up = first.ok_or_else(|| Error::new(ErrorKind::Internal, "a feed-forward layer without a name"))?;
        Ok((up, second))
    }

    fn rotary(&mut self, frequencies: &[f32]) -> Option<Arc<Rotary>> {
        if frequencies.is_empty() {
            return None;
        }
        let bits = frequencies.iter().map(|frequency| frequency.to_bits()).collect();
        let longest = self.longest;
        Some(Arc::clone(self.rotaries.entry(bits).or_insert_with(|| Arc::new(Rotary::new(frequencies, longest)))))
    }

    fn bias(&mut self) -> Result<Option<DistanceBias>> {
        let heads = self.config.heads;
        Ok(match self.config.bias {
            Bias::None => None,
            Bias::Buckets(buckets) => {
                let name = format!("{}.weight", self.names.relative_bias);
                let table = self.loader.take(&name, &[buckets, heads])?;
                let value = |head, distance| table[bucket(distance, buckets) * heads + head];
                Some(DistanceBias::new(heads, self.longest, value))
            }
            Bias::Alibi => {
                let slopes = alibi_slopes(heads);
                #[expect(clippy::cast_precision_loss, reason = "rows are far shorter than float32 counts exactly")]
                let value = |head: usize, distance: isize| -slopes[head] * distance.unsigned_abs() as f32;
                Some(DistanceBias::new(heads, self.longest, value))
            }
        })
    }
}
