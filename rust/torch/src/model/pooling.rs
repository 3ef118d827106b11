//! From token vectors to one vector for each row.
//!
//! Sums are float32 whatever type the tokens have, and so are the rows.

use pullquote_core::encoder::model::Pooling;
use tch::{Kind, Tensor};

use super::layout::{Padded, Ragged};
use crate::error::TorchResult;

/// The `eps` of `torch.nn.functional.normalize`.
const MIN_NORM: f64 = 1e-12;

/// Pools padded rows: `[rows, longest, dimension]` to float32 `[rows, dimension]`.
pub(super) fn pool_padded(tokens: &Tensor, batch: &Padded, pooling: Pooling) -> TorchResult<Tensor> {
    let sum = |values: &Tensor| values.f_sum_dim_intlist(1_i64, false, Kind::Float);
    let (Some(mask), true) = (&batch.mask, pooling != Pooling::Cls) else {
        return match pooling {
            Pooling::Mean => tokens.f_mean_dim(1_i64, false, Kind::Float),
            Pooling::Cls => tokens.f_select(1, 0)?.f_to_kind(Kind::Float),
            Pooling::Max => tokens.f_amax(1_i64, false)?.f_to_kind(Kind::Float),
            Pooling::Last => tokens.f_select(1, -1)?.f_to_kind(Kind::Float),
            Pooling::MeanSqrtLength | Pooling::WeightedMean => pool_padded(tokens, &batch.with_mask()?, pooling),
        };
    };
    // [rows, longest, 1]
    let mask = mask.f_unsqueeze(-1)?;
    match pooling {
        Pooling::Mean | Pooling::MeanSqrtLength | Pooling::WeightedMean => {
            let mut weights = mask.f_to_kind(Kind::Float)?;
            if pooling == Pooling::WeightedMean {
                let (_, longest, _) = tokens.size3()?;
                let positions = Tensor::f_arange_start(1, longest + 1, (Kind::Float, tokens.device()))?;
                weights = weights.f_mul(&positions.f_view_([1, longest, 1])?)?;
            }
            let pooled = sum(&tokens.f_to_kind(Kind::Float)?.f_mul(&weights)?)?;
            let total = sum(&weights)?;
            pooled.f_div(&if pooling == Pooling::MeanSqrtLength { total.f_sqrt()? } else { total })
        }
        Pooling::Max => {
            let padding = mask.f_logical_not()?;
            tokens.f_to_kind(Kind::Float)?.f_masked_fill(&padding, f64::NEG_INFINITY)?.f_amax(1_i64, false)
        }
        Pooling::Last | Pooling::Cls => {
            let last = mask.f_sum_dim_intlist(1_i64, true, Kind::Int64)?.f_sub_scalar(1)?;
            let (_, _, width) = tokens.size3()?;
            let last = last.f_expand([-1, 1, width], false)?;
            tokens.f_gather(1, &last, false)?.f_squeeze_dim(1)?.f_to_kind(Kind::Float)
        }
    }
}

/// Pools ragged rows: `[tokens, dimension]` to float32 `[rows, dimension]`; the results of empty rows are undefined.
/// `unsafe` skips checks of the lengths, for which torch would wait for the device.
pub(super) fn pool_ragged(tokens: &Tensor, batch: &Ragged, pooling: Pooling) -> TorchResult<Tensor> {
    let starts = &batch.rows.cumulative_lengths;
    let count = starts.size1()? - 1;
    let first = || starts.f_narrow(0, 0, count);
    let end = || starts.f_narrow(0, 1, count);
    let lengths = || end()?.f_sub(&first()?)?.f_to_kind(Kind::Float)?.f_unsqueeze(-1);
    let reduce = |tokens: &Tensor, operation, empty_value: f64| {
        let (none, is_unsafe) = (None, true);
        Tensor::f_segment_reduce(tokens, operation, none, none, Some(starts), 0, is_unsafe, empty_value)
    };
    let values = || tokens.f_to_kind(Kind::Float);
    match pooling {
        Pooling::Mean => reduce(&values()?, "mean", 0.0),
        Pooling::Max => reduce(&values()?, "max", f64::NEG_INFINITY),
        Pooling::MeanSqrtLength => reduce(&values()?, "sum", 0.0)?.f_div(&lengths()?.f_sqrt()?),
        Pooling::WeightedMean => {
            let weights = batch.positions.f_to_kind(Kind::Float)?.f_add_scalar(1)?.f_unsqueeze(-1)?;
            let lengths = lengths()?;
            // 1 + 2 + … + length
            let total = lengths.f_square()?.f_add(&lengths)?.f_mul_scalar(0.5)?;
            reduce(&values()?.f_mul(&weights)?, "sum", 0.0)?.f_div(&total)
        }
        // An empty row begins after the last token.
        Pooling::Cls => tokens.f_index_select(0, &first()?.f_clamp_max(batch.rows.tokens - 1)?)?.f_to_kind(Kind::Float),
        Pooling::Last => tokens.f_index_select(0, &end()?.f_sub_scalar(1)?)?.f_to_kind(Kind::Float),
    }
}

/// The cosines of rows `[rows, dimension]` with queries `[queries, dimension]` whose norm is one or zero: float32
/// `[rows, queries]`. `have_unit_length` says whether the rows' norms are one.
pub(crate) fn cosines(rows: &Tensor, queries: &Tensor, have_unit_length: bool) -> TorchResult<Tensor> {
    let normalized = if have_unit_length { None } else { Some(normalize(rows)?) };
    // Rounding makes some a little more than one.
    normalized.as_ref().unwrap_or(rows).f_matmul(&queries.f_transpose(0, 1)?)?.f_clamp(-1, 1)
}

pub(super) fn normalize(rows: &Tensor) -> TorchResult<Tensor> {
    let norms = rows.f_linalg_norm(2, -1_i64, true, Kind::Float)?;
    rows.f_div(&norms.f_clamp_min(MIN_NORM)?)
}
