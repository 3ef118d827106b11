//! Loads a transformer's weights onto a device.
//!
//! Everything that can be computed once is, in float32 on the CPU; see [`super`].

use pullquote_core::encoder::model::names::Names;
use pullquote_core::encoder::model::transformer::{self, Bias, BlockNorms, QueryNorm, alibi_slopes, bucket};
use pullquote_core::encoder::model::{Model, Transformer};
use pullquote_core::error::{Error, ErrorKind, Result};
use tch::{Device, Kind, TchError, Tensor};

use super::{Layer, Linear, Norm, Reach, Rotary, TransformerLayers};
use crate::error::{TorchResult, torch_error};
use crate::model::layout::dim;
use crate::model::varlen::Varlen;
use crate::model::weights::{ANY, Weights};

/// Weights in float32 on the CPU, before they go to a device.
struct HostLinear {
    /// `[outputs, inputs]`
    weight: Tensor,
    bias: Option<Tensor>,
}

struct HostNorm {
    weight: Tensor,
    bias: Option<Tensor>,
    width: usize,
}

struct HostLayer {
    qkv: HostLinear,
    head_norms: Option<(HostNorm, HostNorm)>,
    attention_output: HostLinear,
    attention_norm: Option<HostNorm>,
    attention_output_norm: Option<HostNorm>,
    up: HostLinear,
    gate: Option<HostLinear>,
    down: HostLinear,
    mlp_norm: HostNorm,
    mlp_output_norm: Option<HostNorm>,
}

impl TransformerLayers {
    /// Loads a model onto a device.
    ///
    /// # Errors
    /// [`ErrorKind::UnsupportedModel`] if the architecture is another, [`ErrorKind::InvalidModel`] and
    /// [`ErrorKind::ModelNotFound`] if the weights are not what `config.json` says.
    pub(in crate::model) fn load(model: &Model, device: Device, kind: Kind, varlen: Varlen) -> Result<Self> {
        let config = Transformer::read(model)?;
        if matches!(config.bias, Bias::Disentangled(_)) {
            let message = format!(
                "{}: attention that compares contents with distances (DeBERTa) is computed by the CPU encoder: devices=\"cpu\"",
                model.root.display()
            );
            return Err(Error::new(ErrorKind::UnsupportedModel, message));
        }
        let weights = Weights::read(&model.directory)?;
        let is_there = |names: &&Names| weights.has(&format!("{}.weight", names.of_layer(0, names.up[0])));
        // The first, for an error that names its tensors.
        let names = config.names.iter().find(is_there).unwrap_or(&config.names[0]);
        let longest = model.max_tokens;
        let mut loader = Loader { weights, device, kind, names, config: &config, longest };
        let (word_embeddings, position_embeddings, second_type) = loader.embeddings()?;
        let mut before =
            if config.embedding_norm { Some(loader.norm(names.embedding_norm, config.hidden, 1.0)?) } else { None };
        let mut embedding_norm = None;
        let mut layers: Vec<Layer> = Vec::with_capacity(config.layers);
        let mut rotaries: Vec<(&[f32], Rotary)> = Vec::new();
        let mut reaches: Vec<Reach> = Vec::new();
        for (index, attention) in config.attention.iter().enumerate() {
            let mut host = loader.layer(index)?;
            if config.block == BlockNorms::PostNorm {
                let HostLayer { qkv, attention_output, attention_norm, up, gate, down, .. } = &mut host;
                let failed = |error| loader.device_error(&error);
                move_bias(attention_output, before.as_mut(), [Some(qkv), None]).map_err(failed)?;
                move_bias(down, attention_norm.as_mut(), [Some(up), gate.as_mut()]).map_err(failed)?;
            }
            // Complete now that its bias has what this layer moved into it.
            let norm = before.take().map(|norm| loader.upload_norm(&norm)).transpose()?;
            match (norm, layers.last_mut()) {
                (norm, None) => embedding_norm = norm,
                (Some(norm), Some(layer)) => layer.mlp_norm = norm,
                (None, Some(_)) => {}
            }
            let rotary = rotaries.iter().position(|(known, _)| *known == attention.rotary);
            let rotary = match rotary {
                None if attention.rotary.is_empty() => None,
                None => {
                    rotaries.push((&attention.rotary, loader.rotary(&attention.rotary)?));
                    Some(rotaries.len() - 1)
                }
                known => known,
            };
            let reach = Reach::of(attention, config.causal);
            if !reaches.contains(&reach) {
                reaches.push(reach);
            }
            layers.push(loader.upload_layer(&host, rotary, reach)?);
            if config.block == BlockNorms::PostNorm {
                before = Some(host.mlp_norm);
            }
        }
        if let (Some(norm), Some(layer)) = (before, layers.last_mut()) {
            layer.mlp_norm = loader.upload_norm(&norm)?;
        }
        let final_norm = match config.block {
            BlockNorms::PostNorm => None,
            BlockNorms::PreNorm { .. } => {
                let norm = loader.norm(names.final_norm, config.hidden, 1.0)?;
                Some(loader.upload_norm(&norm)?)
            }
        };
        let distance_bias = loader.distance_bias()?;
        // The kernel has no bias; asking it would only make it complain on stderr.
        let is_varlen = distance_bias.is_none() && varlen.is_usable(device, kind, &config, &reaches);
        let rotaries = rotaries.into_iter().map(|(_, rotary)| rotary).collect();
        Ok(Self {
            config,
            word_embeddings,
            position_embeddings,
            second_type,
            embedding_norm,
            layers,
            final_norm,
            rotaries,
            distance_bias,
            is_varlen,
        })
    }
}

/// Moves the bias of a layer whose output is added to a norm's: into that norm, and out of the layers that read the
/// norm. Exact but for rounding: those read `x + b`, and `W · (x + b) + (c - W · b)` is `W · x + c`.
fn move_bias(
    added: &mut HostLinear,
    norm: Option<&mut HostNorm>,
    readers: [Option<&mut HostLinear>; 2],
) -> TorchResult<()> {
    let Some(norm) = norm else { return Ok(()) };
    let Some(bias) = added.bias.take() else { return Ok(()) };
    let plus = |own: Option<&Tensor>, moved: Tensor| own.map_or(moved.f_alias(), |own| own.f_add(&moved));
    for reader in readers.into_iter().flatten() {
        let moved = reader.weight.f_mv(&bias)?.f_neg()?;
        reader.bias = Some(plus(reader.bias.as_ref(), moved)?);
    }
    norm.bias = Some(plus(norm.bias.as_ref(), bias)?);
    Ok(())
}

/// Takes weights, checks them, and uploads them to the device.
struct Loader<'model> {
    weights: Weights,
    device: Device,
    kind: Kind,
    names: &'static Names,
    config: &'model Transformer,
    /// Tokens of the longest row.
    longest: usize,
}

impl Loader<'_> {
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

    fn device_error(&self, error: &TchError) -> Error {
        let what = format!("{}: the weights cannot be brought to {:?}", self.weights.source().display(), self.device);
        torch_error(ErrorKind::Device, &what, error)
    }

    /// The word embeddings; the position embeddings, and the difference of token types, where the model has them.
    fn embeddings(&mut self) -> Result<(Tensor, Option<Tensor>, Option<Tensor>)> {
        let Transformer { hidden, first_position, token_types, embedding_scale, .. } = *self.config;
        let width = dim(hidden);
        let mut words = self.take(&format!("{}.weight", self.names.words), &[ANY, width])?;
        let mut table = match first_position {
            Some(first) => Some(self.positions(first)?),
            None => None,
        };
        let failed = |error| torch_error(ErrorKind::Device, "the embeddings cannot be prepared", &error);
        let mut second_type = None;
        #[expect(clippy::float_cmp, reason = "it is exactly 1 where nothing is scaled")]
        if embedding_scale != 1.0 {
            words = words.f_mul_scalar(f64::from(embedding_scale)).map_err(failed)?;
        }
        if token_types {
            let types = self.take(&format!("{}.weight", self.names.token_types), &[ANY, width])?;
            let first = types.f_narrow(0, 0, 1).map_err(failed)?;
            let added_to = table.as_mut().unwrap_or(&mut words);
            *added_to = added_to.f_add(&first).map_err(failed)?;
            if types.size().first().is_some_and(|rows| *rows > 1) {
                let difference = types.f_select(0, 1).and_then(|second| second.f_sub(&first.f_view_(-1)?));
                second_type = Some(difference.map_err(failed)?);
            }
        }
        let upload = |tensor: Option<Tensor>| tensor.map(|tensor| self.upload(&tensor)).transpose();
        Ok((self.upload(&words)?, upload(table)?, upload(second_type)?))
    }

    fn positions(&mut self, first: usize) -> Result<Tensor> {
        let name = format!("{}.weight", self.names.positions);
        let table = self.take(&name, &[ANY, dim(self.config.hidden)])?;
        let rows = table.size().first().copied().unwrap_or(0).saturating_sub(dim(first));
        if rows < dim(self.longest) {
            let (source, longest) = (self.weights.source().display(), self.longest);
            let message =
                format!("{source}: the tensor {name} has {rows} positions, but config.json asks for {longest}");
            return Err(Error::new(ErrorKind::InvalidModel, message));
        }
        table.f_narrow(0, dim(first), rows).map_err(|error| self.device_error(&error))
    }

    fn layer(&mut self, index: usize) -> Result<HostLayer> {
        let names = self.names;
        let Transformer { hidden, intermediate, heads, head_width, biases, .. } = *self.config;
        let skips = matches!(self.config.block, BlockNorms::PreNorm { skips_first: true, .. }) && index == 0;
        let (qkv, head_norms) = self.qkv(index)?;
        let output = names.of_layer(index, names.attention_output);
        let attention_output = self.linear(&output, hidden, heads * head_width, biases.attention)?;
        let attention_norm = if skips { None } else { self.optional_norm(index, names.attention_norm)? };
        let (up, gate) = self.up(index)?;
        let down = self.linear(&names.of_layer(index, names.down), hidden, intermediate, biases.down)?;
        Ok(HostLayer {
            qkv,
            head_norms,
            attention_output,
            attention_norm,
            attention_output_norm: self.optional_norm(index, names.attention_output_norm)?,
            up,
            gate,
            down,
            mlp_norm: self.norm(&names.of_layer(index, names.mlp_norm), hidden, 1.0)?,
            mlp_output_norm: self.optional_norm(index, names.mlp_output_norm)?,
        })
    }

    /// Queries, keys and values, and the norms of the first two.
    fn qkv(&mut self, index: usize) -> Result<(HostLinear, Option<(HostNorm, HostNorm)>)> {
        let names = self.names;
        let Transformer { hidden, heads, key_heads, head_width, attention_scale, query_norm, biases, .. } =
            *self.config;
        let counts = [heads, key_heads, key_heads].map(|count| count * head_width);
        let fused = if let [fused] = names.qkv {
            self.linear(&names.of_layer(index, fused), counts.iter().sum(), hidden, biases.qkv)?
        } else {
            let (mut weights, mut all_biases) = (Vec::with_capacity(3), Vec::with_capacity(3));
            for (part, rows) in names.qkv.iter().zip(counts) {
                let HostLinear { weight, bias } =
                    self.linear(&names.of_layer(index, part), rows, hidden, biases.qkv)?;
                weights.push(weight);
                all_biases.extend(bias);
            }
            let join = |parts: &[Tensor]| Tensor::f_cat(parts, 0).map_err(|error| self.device_error(&error));
            let bias = if all_biases.is_empty() { None } else { Some(join(&all_biases)?) };
            HostLinear { weight: join(&weights)?, bias }
        };
        let norms = match query_norm {
            QueryNorm::Heads => Some((head_width, head_width)),
            QueryNorm::Rows if !names.query_norm.is_empty() => Some((counts[0], counts[1])),
            _ => None,
        };
        if let Some((of_queries, of_keys)) = norms {
            let query = self.norm(&names.of_layer(index, names.query_norm), of_queries, attention_scale)?;
            let key = self.norm(&names.of_layer(index, names.key_norm), of_keys, 1.0)?;
            return Ok((fused, Some((query, key))));
        }
        let scale = |tensor: &Tensor| tensor.f_narrow(0, 0, dim(counts[0]))?.f_mul_scalar_(attention_scale).map(drop);
        let scaled = scale(&fused.weight).and_then(|()| fused.bias.as_ref().map_or(Ok(()), scale));
        scaled.map_err(|error| self.device_error(&error))?;
        Ok((fused, None))
    }

    /// The activated projection, and what it is multiplied by in gated layers.
    fn up(&mut self, index: usize) -> Result<(HostLinear, Option<HostLinear>)> {
        let names = self.names;
        let Transformer { hidden, intermediate, biases, gated, .. } = *self.config;
        let mut load = |part: &str, rows| self.linear(&names.of_layer(index, part), rows, hidden, biases.up);
        match names.up {
            [fused] if gated => {
                let both = load(fused, 2 * intermediate)?;
                let half = |first: usize| {
                    let rows = |tensor: &Tensor| tensor.f_narrow(0, dim(first), dim(intermediate));
                    TorchResult::Ok(HostLinear {
                        weight: rows(&both.weight)?,
                        bias: both.bias.as_ref().map(rows).transpose()?,
                    })
                };
                let (activated, other) = if names.activated_first { (0, intermediate) } else { (intermediate, 0) };
                let halves = half(activated).and_then(|up| Ok((up, Some(half(other)?))));
                halves.map_err(|error| self.device_error(&error))
            }
            parts => {
                let up = load(parts[0], intermediate)?;
                Ok((up, parts.get(1).map(|part| load(part, intermediate)).transpose()?))
            }
        }
    }

    fn linear(&mut self, name: &str, outputs: usize, inputs: usize, has_bias: bool) -> Result<HostLinear> {
        let weight = self.take(&format!("{name}.weight"), &[dim(outputs), dim(inputs)])?;
        let bias = if has_bias { Some(self.take(&format!("{name}.bias"), &[dim(outputs)])?) } else { None };
        Ok(HostLinear { weight, bias })
    }

    /// A norm, with what its weight and bias are multiplied by.
    fn norm(&mut self, name: &str, width: usize, scale: f64) -> Result<HostNorm> {
        let weight = self.take(&format!("{name}.weight"), &[dim(width)])?;
        let (offset, has_bias) = match self.config.norm {
            transformer::Norm::Layer => (0, self.config.biases.norms),
            transformer::Norm::RootMeanSquare { offset } => (i64::from(offset), false),
        };
        let bias = if has_bias { Some(self.take(&format!("{name}.bias"), &[dim(width)])?) } else { None };
        let scaled = |tensor: &Tensor| tensor.f_mul_scalar(scale);
        let weight = weight.f_add_scalar(offset).and_then(|weight| scaled(&weight));
        let weight = weight.map_err(|error| self.device_error(&error))?;
        let bias = bias.map(|bias| scaled(&bias)).transpose().map_err(|error| self.device_error(&error))?;
        Ok(HostNorm { weight, bias, width })
    }

    fn optional_norm(&mut self, index: usize, part: &str) -> Result<Option<HostNorm>> {
        let name = self.names.of_layer(index, part);
        if part.is_empty() { Ok(None) } else { self.norm(&name, self.config.hidden, 1.0).map(Some) }
    }

    fn upload_linear(&self, linear: &HostLinear) -> Result<Linear> {
        let weight = self.upload(&linear.weight)?;
        let transposed = weight.f_tr().map_err(|error| self.device_error(&error))?;
        Ok(Linear { weight, transposed, bias: linear.bias.as_ref().map(|bias| self.upload(bias)).transpose()? })
    }

    fn upload_norm(&self, norm: &HostNorm) -> Result<Norm> {
        Ok(Norm {
            weight: self.upload(&norm.weight)?,
            bias: norm.bias.as_ref().map(|bias| self.upload(bias)).transpose()?,
            width: dim(norm.width),
            epsilon: self.config.epsilon,
            is_root_mean_square: self.config.norm != transformer::Norm::Layer,
        })
    }

    /// The norm after the layer is uploaded once more, when its bias is complete.
    fn upload_layer(&self, host: &HostLayer, rotary: Option<usize>, reach: Reach) -> Result<Layer> {
        let norm = |norm: &Option<HostNorm>| norm.as_ref().map(|norm| self.upload_norm(norm)).transpose();
        let head_norms = match &host.head_norms {
            Some((query, key)) => Some((self.upload_norm(query)?, self.upload_norm(key)?)),
            None => None,
        };
        Ok(Layer {
            qkv: self.upload_linear(&host.qkv)?,
            head_norms,
            rotary,
            reach,
            attention_output: self.upload_linear(&host.attention_output)?,
            attention_norm: norm(&host.attention_norm)?,
            attention_output_norm: norm(&host.attention_output_norm)?,
            up: self.upload_linear(&host.up)?,
            gate: host.gate.as_ref().map(|gate| self.upload_linear(gate)).transpose()?,
            down: self.upload_linear(&host.down)?,
            mlp_norm: self.upload_norm(&host.mlp_norm)?,
            mlp_output_norm: norm(&host.mlp_output_norm)?,
        })
    }

    /// Angles are rounded to float32, as models were trained.
    fn rotary(&self, frequencies: &[f32]) -> Result<Rotary> {
        let tables = || {
            let positions = Tensor::f_arange(dim(self.longest), (Kind::Float, Device::Cpu))?.f_unsqueeze(1)?;
            let angles = positions.f_mul(&Tensor::f_from_slice(frequencies)?)?.f_to_kind(Kind::Double)?;
            let (cosines, sines) = (angles.f_cos()?, angles.f_sin()?);
            TorchResult::Ok((Tensor::f_cat(&[&cosines, &cosines], 1)?, Tensor::f_cat(&[&sines.f_neg()?, &sines], 1)?))
        };
        let (cosines, sines) = tables().map_err(|error| self.device_error(&error))?;
        Ok(Rotary { cosines: self.upload(&cosines)?, sines: self.upload(&sines)? })
    }

    /// The bias of every distance, from the first token as seen by the last to the last as seen by the first.
    fn distance_bias(&mut self) -> Result<Option<Tensor>> {
        let (heads, longest) = (self.config.heads, self.longest.cast_signed());
        let distances = || 1 - longest..longest;
        let values = match self.config.bias {
            // `load` refuses the second.
            Bias::None | Bias::Disentangled(_) => return Ok(None),
            Bias::Buckets(buckets) => {
                let name = format!("{}.weight", self.names.relative_bias);
                let table = self.take(&name, &[dim(buckets), dim(heads)])?;
                let places: Vec<i64> = distances().map(|distance| dim(bucket(distance, buckets))).collect();
                let places = Tensor::f_from_slice(&places);
                places.and_then(|places| table.f_index_select(0, &places)?.f_tr())
            }
            Bias::Alibi => {
                #[expect(clippy::cast_precision_loss, reason = "rows are far shorter than float32 counts exactly")]
                let away: Vec<f32> = distances().map(|distance| -(distance.unsigned_abs() as f32)).collect();
                let slopes = Tensor::f_from_slice(&alibi_slopes(heads)).and_then(|slopes| slopes.f_unsqueeze(1));
                slopes.and_then(|slopes| slopes.f_mul(&Tensor::f_from_slice(&away)?))
            }
        };
        let values = values.map_err(|error| self.device_error(&error))?;
        self.upload(&values).map(Some)
    }
}
