//! From token vectors to one vector for each row.
//!
//! Sums are float32 whatever type the tokens have, and so are the rows.

use pullquote_core::encoder::model::Pooling;
use tch::{Kind, TchError, Tensor};

use super::layout::RowOffsets;
use crate::error::TorchResult;

/// The `eps` of `torch.nn.functional.normalize`.
const MIN_NORM: f64 = 1e-12;

/// Pools rows of one length: `[rows, length, dimension]` to float32 `[rows, dimension]`.
fn pool(tokens: &Tensor, pooling: Pooling) -> TorchResult<Tensor> {
    match pooling {
        Pooling::Mean => tokens.f_mean_dim(1_i64, false, Kind::Float),
        Pooling::Cls => tokens.f_select(1, 0)?.f_to_kind(Kind::Float),
        Pooling::Max => tokens.f_amax(1_i64, false)?.f_to_kind(Kind::Float),
        Pooling::Last => tokens.f_select(1, -1)?.f_to_kind(Kind::Float),
        Pooling::MeanSqrtLength | Pooling::WeightedMean => Err(refused()),
    }
}

/// Models with these are refused when they are loaded.
fn refused() -> TchError {
    TchError::Shape("this encoder pools by mean, cls, max and last token".to_owned())
}

/// Pools padded rows, by the mask of [`super::layout::Padded`].
pub(super) fn pool_padded(tokens: &Tensor, mask: Option<&Tensor>, pooling: Pooling) -> TorchResult<Tensor> {
    let Some(mask) = mask else { return pool(tokens, pooling) };
    match pooling {
        Pooling::Mean => {
            let mask = mask.f_to_kind(Kind::Float)?.f_unsqueeze(-1)?;
            let sum = tokens.f_to_kind(Kind::Float)?.f_mul(&mask)?.f_sum_dim_intlist(1_i64, false, Kind::Float)?;
            sum.f_div(&mask.f_sum_dim_intlist(1_i64, false, Kind::Float)?)
        }
        Pooling::Max => {
            let padding = mask.f_logical_not()?.f_unsqueeze(-1)?;
            tokens.f_to_kind(Kind::Float)?.f_masked_fill(&padding, f64::NEG_INFINITY)?.f_amax(1_i64, false)
        }
        Pooling::Last => {
            let last = mask.f_sum_dim_intlist(1_i64, true, Kind::Int64)?.f_sub_scalar(1)?.f_unsqueeze(-1)?;
            let (_, _, width) = tokens.size3()?;
            let last = last.f_expand([-1, 1, width], false)?;
            tokens.f_gather(1, &last, false)?.f_squeeze_dim(1)?.f_to_kind(Kind::Float)
        }
        Pooling::Cls | Pooling::MeanSqrtLength | Pooling::WeightedMean => pool(tokens, pooling),
    }
}

/// Pools ragged rows: `[tokens, dimension]` to float32 `[rows, dimension]`. Tokens of no row are ignored; the results of empty rows
/// are undefined. `unsafe` skips checks of the lengths, for which torch would wait for the device.
pub(super) fn pool_ragged(tokens: &Tensor, rows: &RowOffsets, pooling: Pooling) -> TorchResult<Tensor> {
    let starts = &rows.cumulative_lengths;
    let count = starts.size1()? - 1;
    let reduce = |operation, empty_value: f64| {
        let (tokens, none, is_unsafe) = (tokens.f_to_kind(Kind::Float)?, None, true);
        Tensor::f_segment_reduce(&tokens, operation, none, none, Some(starts), 0, is_unsafe, empty_value)
    };
    match pooling {
        Pooling::Mean => reduce("mean", 0.0),
        Pooling::Max => reduce("max", f64::NEG_INFINITY),
        Pooling::Cls => {
            // An empty row may begin after the last token.
            let first = starts.f_narrow(0, 0, count)?.f_clamp_max(rows.tokens - 1)?;
            tokens.f_index_select(0, &first)?.f_to_kind(Kind::Float)
        }
        Pooling::Last => {
            let last = starts.f_narrow(0, 1, count)?.f_sub_scalar(1)?;
            tokens.f_index_select(0, &last)?.f_to_kind(Kind::Float)
        }
        Pooling::MeanSqrtLength | Pooling::WeightedMean => Err(refused()),
    }
}

/// The cosines of rows `[rows, dimension]` with queries `[queries, dimension]` whose norm is one or zero: float32
/// `[rows, queries]`.
pub(crate) fn cosines(rows: &Tensor, queries: &Tensor) -> TorchResult<Tensor> {
    // Rounding makes some a little more than one.
    normalize(rows)?.f_matmul(&queries.f_transpose(0, 1)?)?.f_clamp(-1, 1)
}

/// Divides rows by their L2 norms.
pub(super) fn normalize(rows: &Tensor) -> TorchResult<Tensor> {
    let norms = rows.f_linalg_norm(2, -1_i64, true, Kind::Float)?;
    rows.f_div(&norms.f_clamp_min(MIN_NORM)?)
}
