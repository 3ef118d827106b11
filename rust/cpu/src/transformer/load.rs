//! Loads the layers of a transformer: takes its tensors by their names, checks them, and packs them.

use std::collections::HashMap;
use std::sync::Arc;

use pullquote_core::encoder::dtype::Dtype;
use pullquote_core::encoder::model::names::Names;
use pullquote_core::encoder::model::transformer::{
    Bias, BlockNorms, Disentangled, Norm, QueryNorm, alibi_slopes, bucket,
};
use pullquote_core::encoder::model::{Activation, Model, Transformer};
use pullquote_core::error::{Error, ErrorKind, Result};

use super::{Layer, TransformerLayers};
use crate::attention::{Heads, Reach};
use crate::bias::{DistanceBias, DistanceTables, TableRows};
use crate::linear::{Linear, LinearScratch, OutputRows};
use crate::load::{Loader, PaddedDim, WIDTH_MULTIPLE, has_bf16_activations};
use crate::norm::{LayerNorm, NormRows};
use crate::rotary::{HeadNorms, Rotary};
use crate::vector::{Bf16, Simd};

impl TransformerLayers {
    pub fn load<S: Simd>(simd: S, model: &Model, config: Transformer, mut loader: Loader<S>) -> Result<Self> {
        let names = select_names(&config, &loader);
        let hidden = config.hidden;
        let word_embeddings = loader.weights.take(&format!("{}.weight", names.words), &[None, Some(hidden)])?;
        let longest = model.max_tokens;
        let mut load =
            LoadLayers { simd, longest, names, config: &config, loader, distances: None, rotaries: HashMap::new() };
        load.distances = load.distances()?;
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
    simd: S,
    /// Tokens of the longest row.
    longest: usize,
    names: &'static Names,
    config: &'model Transformer,
    loader: Loader<S>,
    /// With [`Bias::Disentangled`].
    distances: Option<Distances>,
    /// By the bits of their frequencies: layers share them.
    rotaries: HashMap<Vec<u32>, Arc<Rotary>>,
}

/// The table whose projections are the keys and queries of distances.
struct Distances {
    kind: Disentangled,
    /// `[rows, padded width]`, and zeros for the rows that fill the last tile.
    table: Vec<f32>,
    rows: Arc<TableRows>,
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
        let (qkv, head_norms, distances) = self.qkv(index, qkv_bounds)?;
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
            distances,
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

    /// Queries, keys and values, the norms of the first two, and the keys and queries of distances.
    fn qkv(
        &mut self,
        index: usize,
        bounds: Option<&[f32]>,
    ) -> Result<(Vec<Linear>, HeadNorms, Option<DistanceTables>)> {
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
        let distances = self.distance_tables(index, scale, [(&weights[0], &biases[0]), (&weights[1], &biases[1])])?;
        let inputs = PaddedDim::Whole(hidden);
        let dim = |count| PaddedDim::Heads { count, width: head_width };
        if self.loader.dtype == Dtype::Int8 {
            let parts = weights.into_iter().zip(&biases).zip(counts);
            let pack = |((weight, bias), count): ((_, &Vec<f32>), _)| {
                self.loader.pack(weight, bias, dim(count), inputs, bounds)
            };
            return Ok((parts.map(pack).collect(), norms, distances));
        }
        let fused = self.loader.pack(weights.concat(), &biases.concat(), dim(heads + 2 * key_heads), inputs, None);
        Ok((vec![fused], norms, distances))
    }

    /// The queries and keys of distances. `projections` are those of contents, of queries and of keys, scaled already.
    fn distance_tables(
        &mut self,
        index: usize,
        scale: f32,
        projections: [(&[f32], &[f32]); 2],
    ) -> Result<Option<DistanceTables>> {
        let Some(Distances { kind, rows, .. }) = &self.distances else { return Ok(None) };
        let (kind, rows) = (*kind, Arc::clone(rows));
        let Transformer { hidden, heads, head_width, .. } = *self.config;
        let mut tables = [None, None];
        let parts =
            [kind.queries, kind.keys].into_iter().zip(projections).zip(self.names.relative_qk).zip([scale, 1.0]);
        for (table, (((is_there, (weight, bias)), name), scale)) in tables.iter_mut().zip(parts) {
            if !is_there {
                continue;
            }
            if kind.shares_projections {
                *table = Some(self.project(weight.to_vec(), bias));
                continue;
            }
            let name = self.names.of_layer(index, name);
            let mut weight = self.loader.take(&format!("{name}.weight"), &[heads * head_width, hidden])?;
            let mut bias = self.loader.bias(&name, heads * head_width, true)?;
            weight.iter_mut().chain(&mut bias).for_each(|value| *value *= scale);
            *table = Some(self.project(weight, &bias));
        }
        let heads = Heads { count: heads, keys: heads, width: head_width.next_multiple_of(WIDTH_MULTIPLE) };
        let is_narrow = has_bf16_activations::<S>(self.loader.dtype);
        let new = if is_narrow { DistanceTables::new::<Bf16> } else { DistanceTables::new::<f32> };
        Ok(Some(new(heads, &tables, rows)))
    }

    /// The projections of the table of distances: `[rows, heads, padded width]`.
    fn project(&self, weight: Vec<f32>, bias: &[f32]) -> Vec<f32> {
        let Transformer { hidden, heads, head_width, .. } = *self.config;
        let table = self.distances.as_ref().map_or(&[][..], |distances| &distances.table);
        let outputs = PaddedDim::Heads { count: heads, width: head_width };
        let layer = Loader::<S>::pack_as(Dtype::Float32, weight, bias, outputs, PaddedDim::Whole(hidden), None);
        let stride = layer.outputs();
        let mut values = vec![0.0; table.len() / PaddedDim::Whole(hidden).padded() * stride];
        let output = OutputRows { values: &mut values, stride, first: 0 };
        layer.apply(self.simd, table, Activation::Identity, output, &mut LinearScratch::default());
        values
    }

    fn distances(&mut self) -> Result<Option<Distances>> {
        let Bias::Disentangled(kind) = self.config.bias else { return Ok(None) };
        let hidden = self.config.hidden;
        let values = self.loader.take(&format!("{}.weight", self.names.relative_bias), &[kind.rows(), hidden])?;
        let width = PaddedDim::Whole(hidden).padded();
        let mut table = vec![0.0; kind.rows().next_multiple_of(S::TILE.rows()) * width];
        let norm = if kind.norm { Some(self.norm(self.names.relative_norm, hidden, 1.0)?) } else { None };
        for (row, output) in values.chunks_exact(hidden).zip(table.chunks_exact_mut(width)) {
            let mut input = row.to_vec();
            input.resize(width, 0.0);
            self.simd.vectorize(NormRows { input: &input, output, norm: norm.as_ref(), width });
        }
        let rows = TableRows::new(self.longest, |distance| kind.row(distance));
        Ok(Some(Distances { kind, table, rows: Arc::new(rows) }))
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
            Bias::None | Bias::Disentangled(_) => None,
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
