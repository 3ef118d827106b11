//! A loaded model: a batch of ids to rows of vectors, on the calling thread.
//!
//! A body computes the vectors of tokens: a transformer, or a table. Pooling makes one vector of a row's, and a head
//! applies the modules after it. Every step is compiled for each instruction set; [`Network`] itself is only numbers.

use pullquote_core::encoder::cpu_device::Compute;
use pullquote_core::encoder::dtype::Dtype;
use pullquote_core::encoder::model::{self, Model, Pooling};
use pullquote_core::encoder::{Batch, Output};
use pullquote_core::error::{Error, ErrorKind, Result};

use crate::head::{Head, HeadScratch};
use crate::instructions::InstructionSet;
use crate::load::{Loader, PaddedDim, has_bf16_activations};
use crate::memory::AlignedBuffer;
use crate::pooling::{Normalize, Pool};
use crate::product::Element;
use crate::table::Table;
use crate::transformer::{TransformerLayers, TransformerScratch};
use crate::vector::{Bf16, Simd, Task};
use crate::weights::Weights;

/// A model in the layout of an instruction set.
#[derive(Debug)]
pub struct Network {
    set: InstructionSet,
    dtype: Dtype,
    body: Body,
    pooling: Vec<Pooling>,
    dimension: usize,
    /// Whether vectors are scaled to unit length after the head, or after pooling without one.
    normalize: bool,
    /// Whether the head is applied to the vectors of tokens, which are all that there is.
    late_interaction: bool,
    head: Head,
    /// Of a pruner.
    labels: Option<Labels>,
}

/// The layers that give each token of a pair two values.
#[derive(Debug)]
struct Labels {
    head: Head,
    before_final_norm: bool,
}

#[derive(Debug)]
enum Body {
    Transformer(Box<TransformerLayers>),
    Table(Table),
}

/// The activations of a thread, kept from batch to batch; they grow to the largest batch.
#[derive(Debug, Default)]
pub struct Workspace {
    hidden: AlignedBuffer,
    transformer: TransformerScratch,
    /// A pooled vector.
    row: Vec<f32>,
    /// The logits of a pruner's pairs.
    logits: Vec<f32>,
    head: HeadScratch,
}

impl Network {
    /// Loads a model.
    ///
    /// # Errors
    /// [`ErrorKind::UnsupportedModel`] if the architecture is another, [`ErrorKind::InvalidModel`] and
    /// [`ErrorKind::ModelNotFound`] if the weights are not what `config.json` says.
    pub fn load(model: &Model, dtype: Dtype, set: InstructionSet) -> Result<Self> {
        set.dispatch(Load { model, dtype, set })
    }

    pub const fn dimension(&self) -> usize {
        self.dimension
    }

    /// Every id must be below it.
    pub fn vocabulary(&self) -> usize {
        match &self.body {
            Body::Transformer(layers) => layers.vocabulary(),
            Body::Table(table) => table.vocabulary(),
        }
    }

    /// Whether there is no vector of a row, only those of its tokens.
    pub const fn late_interaction(&self) -> bool {
        self.late_interaction
    }

    /// The type of weights and activations.
    pub const fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Values in the vector of a token; `None` for a table, whose tokens do not depend on the text around them.
    #[must_use]
    pub fn token_width(&self) -> Option<usize> {
        match &self.body {
            Body::Transformer(_) if self.late_interaction => Some(self.dimension),
            Body::Transformer(layers) => Some(layers.hidden()),
            Body::Table(_) => None,
        }
    }

    /// Replaces `values` with the output of a checked batch: vectors of its rows, or of its tokens before pooling, or a
    /// pruner's labels of its tokens. The vectors of a reranker have one value, the logit.
    pub fn encode(&self, batch: &Batch, workspace: &mut Workspace, values: &mut Vec<f32>) {
        values.clear();
        self.set.dispatch(Encode { network: self, batch, workspace, values });
    }
}

impl Compute for Network {
    type Workspace = Workspace;

    fn compute(&self, batch: &Batch, workspace: &mut Workspace, values: &mut Vec<f32>) -> Result<()> {
        self.encode(batch, workspace, values);
        Ok(())
    }
}

/// Appends the vectors of a batch.
struct Encode<'call> {
    network: &'call Network,
    batch: &'call Batch,
    workspace: &'call mut Workspace,
    values: &'call mut Vec<f32>,
}

impl Task for Encode<'_> {
    type Output = ();

    fn run<S: Simd>(self, simd: S) {
        match &self.network.body {
            Body::Table(table) => self.look_up(simd, table),
            Body::Transformer(layers) => {
                if has_bf16_activations::<S>(self.network.dtype) {
                    self.forward::<S, Bf16>(simd, layers);
                } else {
                    self.forward::<S, f32>(simd, layers);
                }
            }
        }
    }
}

impl Encode<'_> {
    fn forward<S: Simd, E: Element>(self, simd: S, layers: &TransformerLayers) {
        let Self { network, batch, workspace, values } = self;
        let Workspace { hidden, transformer, row, logits, head } = workspace;
        let hidden: &mut [E] = layers.forward(simd, batch, hidden, transformer);
        let (width, tokens) = (layers.padded_width(), batch.ids.len());
        match (&network.labels, batch.output) {
            (Some(labels), Output::Labels) => {
                if labels.before_final_norm && layers.has_final_norm() {
                    copy_rows(transformer.before_final_norm(tokens * width), width, layers.hidden(), values);
                } else {
                    copy_rows(&hidden[..tokens * width], width, layers.hidden(), values);
                }
                labels.apply(simd, tokens, values, head);
                if network.head.is_empty() {
                    return;
                }
                logits.clear();
                network.pool(simd, batch, layers, hidden, row, logits);
                network.finish(simd, batch.lengths.len(), logits, row, head);
                let mut start = 0;
                for (length, logit) in batch.lengths.iter().zip(logits) {
                    values[start] = *logit;
                    start += *length as usize;
                }
            }
            (_, Output::TokenVectors) => {
                copy_rows(&hidden[..tokens * width], width, layers.hidden(), values);
                if network.late_interaction {
                    network.finish(simd, tokens, values, row, head);
                }
            }
            _ => {
                if !network.pool(simd, batch, layers, hidden, row, values) {
                    network.finish(simd, batch.lengths.len(), values, row, head);
                }
            }
        }
    }

    fn look_up<S: Simd>(self, simd: S, table: &Table) {
        let Self { network, batch, workspace, values } = self;
        table.pool(batch, &mut workspace.row, values);
        network.finish(simd, batch.lengths.len(), values, &mut workspace.row, &mut workspace.head);
    }
}

/// Appends the first values of rows that have padding.
fn copy_rows<E: Element>(rows: &[E], padded: usize, width: usize, values: &mut Vec<f32>) {
    for row in rows.chunks_exact(padded) {
        values.extend(row[..width].iter().map(|value| value.to_f32()));
    }
}

impl Labels {
    /// Replaces the vectors of tokens by the logits for keeping them: the second label's value above the first one's.
    fn apply<S: Simd>(&self, simd: S, tokens: usize, values: &mut Vec<f32>, scratch: &mut HeadScratch) {
        self.head.apply(simd, tokens, values, scratch);
        for token in 0..tokens {
            values[token] = values[2 * token + 1] - values[2 * token];
        }
        values.truncate(tokens);
    }
}

impl Network {
    /// Appends the pooled vectors of rows. Returns whether they have unit length, and so are the network's.
    fn pool<S: Simd, E: Element>(
        &self,
        simd: S,
        batch: &Batch,
        layers: &TransformerLayers,
        hidden: &[E],
        row: &mut Vec<f32>,
        values: &mut Vec<f32>,
    ) -> bool {
        let width = layers.padded_width();
        row.clear();
        row.resize(width, 0.0);
        // Pooling scales vectors itself if nothing follows that changes them.
        let is_last = self.head.is_empty() && self.pooling.len() == 1 && self.dimension == layers.hidden();
        let normalize = self.normalize && is_last;
        let mut start = 0;
        for length in batch.lengths.iter().map(|length| *length as usize) {
            let tokens = &hidden[start * width..(start + length) * width];
            for pooling in &self.pooling {
                simd.vectorize(Pool { tokens, vector: row, pooling: *pooling, normalize });
                values.extend_from_slice(&row[..layers.hidden()]);
            }
            start += length;
        }
        normalize
    }

    /// Applies the head to pooled rows, cuts them, and scales them to unit length.
    fn finish<S: Simd>(
        &self,
        simd: S,
        count: usize,
        rows: &mut Vec<f32>,
        row: &mut Vec<f32>,
        scratch: &mut HeadScratch,
    ) {
        self.head.apply(simd, count, rows, scratch);
        let width = rows.len() / count;
        if width > self.dimension {
            for index in 0..count {
                rows.copy_within(index * width..index * width + self.dimension, index * self.dimension);
            }
            rows.truncate(count * self.dimension);
        }
        if self.normalize {
            row.clear();
            row.resize(PaddedDim::Whole(self.dimension).padded(), 0.0);
            for values in rows.chunks_exact_mut(self.dimension) {
                row[..self.dimension].copy_from_slice(values);
                simd.vectorize(Normalize { vector: row });
                values.copy_from_slice(&row[..self.dimension]);
            }
        }
    }
}

struct Load<'model> {
    model: &'model Model,
    dtype: Dtype,
    set: InstructionSet,
}

impl Task for Load<'_> {
    type Output = Result<Network>;

    fn run<S: Simd>(self, simd: S) -> Result<Network> {
        let Self { model, dtype, set } = self;
        let (body, hidden) = match model.body {
            model::Body::Transformer => {
                let config = model::Transformer::read(model)?;
                let hidden = config.hidden;
                let loader = Loader::<S>::new(Weights::read(&model.directory)?, dtype);
                (Body::Transformer(Box::new(TransformerLayers::load(simd, model, config, loader)?)), hidden)
            }
            model::Body::Static { .. } => {
                let table = Table::load(&mut Weights::read(&model.directory)?)?;
                let hidden = table.dimension();
                (Body::Table(table), hidden)
            }
        };
        // A pruner without a logit of pairs has no pooling.
        let width = hidden * model.pooling.len().max(1);
        // A norm at the end is applied after the vectors are cut.
        let modules = match model.modules.split_last() {
            Some((model::Module::Normalize, before)) => before,
            _ => &model.modules,
        };
        let (head, width) = Head::load::<S>(modules, width)?;
        let dimension = model.truncate_dim.unwrap_or(width);
        if dimension == 0 || dimension > width {
            let message = format!(
                "truncate_dim is {dimension}, but the model's vectors have {width} values; 1 to {width} are allowed"
            );
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        // A table is not computed with, so that no narrower type would be faster.
        let dtype = if matches!(body, Body::Table(_)) { Dtype::Float32 } else { dtype };
        let labels = model.labels.as_ref().map(|labels| {
            let (head, _) = Head::load::<S>(&labels.modules, hidden)?;
            Ok(Labels { head, before_final_norm: labels.before_final_norm })
        });
        let (labels, pooling) = (labels.transpose()?, model.pooling.clone());
        let late_interaction = model.late_interaction.is_some();
        // A server leaves the last step to its requests; `MaxSim` needs it.
        let normalize = model.normalize || late_interaction;
        Ok(Network { set, dtype, body, pooling, dimension, normalize, late_interaction, head, labels })
    }
}
