//! A transformer's computation as data, which the encoders interpret: none has a file for an architecture.
//!
//! [`Transformer::read`] finds it in `config.json`; `families` interprets the settings of each `model_type`, and
//! `names` has the names of its tensors.

use super::Activation;
use super::names::Names;

/// The sizes and operations of a transformer.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct Transformer {
    /// Width of a token's vector.
    pub hidden: usize,
    /// Width inside the feed-forward layers.
    pub intermediate: usize,
    /// Query heads.
    pub heads: usize,
    /// Heads of keys and values; divides `heads`. Consecutive query heads share one.
    pub key_heads: usize,
    /// Width of a head; `hidden / heads` in most models.
    pub head_width: usize,
    pub layers: usize,
    pub norm: Norm,
    /// Added to the variance in norms.
    pub epsilon: f64,
    pub block: BlockNorms,
    /// Whether the embeddings are normalized before the first layer.
    pub embedding_norm: bool,
    /// The word embeddings are multiplied by it.
    pub embedding_scale: f32,
    /// The row of the position table for a row's first token; `None` without such a table.
    pub first_position: Option<usize>,
    /// Whether the embedding of token type 0 is added to every token.
    pub token_types: bool,
    /// Added to the scores of attention.
    pub bias: Bias,
    /// Norms of queries and keys, before they are rotated.
    pub query_norm: QueryNorm,
    /// Scores are multiplied by it.
    pub attention_scale: f64,
    /// Whether tokens see no later ones.
    pub causal: bool,
    pub attention: Vec<LayerAttention>,
    pub activation: Activation,
    /// Whether the activated values are multiplied by a second projection.
    pub gated: bool,
    pub biases: Biases,
    /// What the tensors may be called: the encoder takes the first whose feed-forward layer is in the file.
    pub names: &'static [Names],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Norm {
    /// To mean 0 and variance 1, then times a weight, plus a bias if `Biases::norms`.
    Layer,
    /// To a mean square of 1, then times a weight. No bias.
    RootMeanSquare {
        /// Added to the stored weight.
        offset: u8,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockNorms {
    /// `x = norm(x + attention(x))`, and the same for the feed-forward layer, as in BERT.
    PostNorm,
    /// `x = x + attention(norm(x))`, and a norm after the last layer.
    PreNorm {
        /// Whether the first attention takes the embeddings without a norm.
        skips_first: bool,
        /// `x = x + norm(attention(norm(x)))`.
        output_norms: bool,
    },
}

/// Added to the score of a query and a key, by their distance; with [`Self::Disentangled`] also by their contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bias {
    None,
    /// A weight for each head and bucket of distances, shared by all layers, as in T5; see [`bucket`].
    Buckets(usize),
    /// The distance times a slope of each head; see [`alibi_slopes`].
    Alibi,
    Disentangled(Disentangled),
}

/// The product of a query with a key of the distance, and that of a key with a query of the distance, as in `DeBERTa`
/// (<https://arxiv.org/abs/2006.03654>, section 3.1). Those keys and queries are projections of a table, which all layers
/// share and which has as many rows for either direction as there are buckets, or else distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct Disentangled {
    /// Farther tokens count as if they were this far.
    pub longest: usize,
    /// Distances share buckets; `None` for a row for each of them.
    pub buckets: Option<usize>,
    /// Whether queries are compared with keys of distances.
    pub keys: bool,
    /// Whether keys are compared with queries of distances.
    pub queries: bool,
    /// Whether those have the projections of the contents.
    pub shares_projections: bool,
    /// Whether the table is normalized.
    pub norm: bool,
}

impl Disentangled {
    /// Rows of the table.
    pub fn rows(self) -> usize {
        2 * self.buckets.unwrap_or(self.longest)
    }

    /// The row of a distance: the query's position minus the key's. Of `buckets`, half have a distance each, and the others
    /// those up to `longest` by their logarithm.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "in float32 and in this order, as the models were trained"
    )]
    pub fn row(self, distance: isize) -> usize {
        let (away, middle) = (distance.unsigned_abs(), self.buckets.map_or(usize::MAX, |buckets| buckets / 2));
        let bucket = if away <= middle {
            distance
        } else {
            let farthest = ((self.longest - 1) as f64 / middle as f64) as f32;
            let place = (away as f32 / middle as f32).ln() / farthest.ln() * (middle - 1) as f32;
            distance.signum() * (place.ceil() as isize).saturating_add(middle.cast_signed())
        };
        let half = (self.rows() / 2).cast_signed();
        bucket.saturating_add(half).clamp(0, 2 * half - 1).unsigned_abs()
    }
}

/// Norms of queries and keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryNorm {
    None,
    /// Norms of each head.
    Heads,
    /// Of all heads of a token together, where [`Names`] has a name for it.
    Rows,
}

/// What differs between the layers of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerAttention {
    /// Tokens see those up to this far before and after them. `None` sees all.
    pub window: Option<usize>,
    /// For pairs of values at `i` and `i + head_width / 2`: radians for each position. Empty without rotary embeddings.
    pub rotary: Vec<f32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct Biases {
    pub qkv: bool,
    pub attention: bool,
    pub up: bool,
    pub down: bool,
    pub norms: bool,
}

impl Biases {
    /// All, as in BERT.
    pub const ALL: Self = Self { qkv: true, attention: true, up: true, down: true, norms: true };
    pub const NONE: Self = Self { qkv: false, attention: false, up: false, down: false, norms: false };
}

/// The bucket of T5's relative positions, without a direction in the first half: `distance` is the key's position minus
/// the query's. Distances from 128 on share a bucket (<https://arxiv.org/abs/1910.10683>, section 2.1).
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "both are small"
)]
pub fn bucket(distance: isize, buckets: usize) -> usize {
    let half = buckets / 2;
    let exact = half / 2;
    let away = distance.unsigned_abs();
    let first = if distance > 0 { half } else { 0 };
    if away < exact {
        return first + away;
    }
    // In float32 and in this order, as the models were trained: some distances lie on a boundary.
    let place = (away as f32 / exact as f32).ln() / (128.0 / exact as f64).ln() as f32 * (half - exact) as f32;
    first + (exact + place as usize).min(half - 1)
}

/// The slopes of `ALiBi` (<https://arxiv.org/abs/2108.12409>): a geometric sequence; heads beyond a power of two take
/// every second slope of the next one.
pub fn alibi_slopes(heads: usize) -> Vec<f32> {
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "both are small")]
    let sequence = |count: usize, step: usize, taken: usize| -> Vec<f32> {
        (0..taken).map(|head| (-8.0 * (head * step + 1) as f64 / count as f64).exp2() as f32).collect()
    };
    let power = if heads.is_power_of_two() { heads } else { heads.next_power_of_two() / 2 };
    [sequence(power, 1, power), sequence(2 * power, 2, heads - power)].concat()
}
