//! From token vectors to one vector for each row.
//!
//! Sums are taken in float32 whatever the tokens came in; rows come out in float32.

use pullquote_core::encoder::model::Pooling;
use tch::{Kind, Tensor};

use crate::failure::TorchResult;
use crate::layout::Rows;

/// What `torch.nn.functional.normalize` takes for the least length.
const LEAST_LENGTH: f64 = 1e-12;

/// Pools rows of one length: `[rows, length, dimension]` to float32 `[rows, dimension]`.
///
/// # Errors
/// Where torch has no memory.
pub fn pool(tokens: &Tensor, pooling: Pooling) -> TorchResult<Tensor> {
    match pooling {
        Pooling::Mean => tokens.f_mean_dim(1_i64, false, Kind::Float),
        Pooling::Cls => tokens.f_select(1, 0)?.f_to_kind(Kind::Float),
        Pooling::Max => tokens.f_amax(1_i64, false)?.f_to_kind(Kind::Float),
        Pooling::Last => tokens.f_select(1, -1)?.f_to_kind(Kind::Float),
    }
}

/// Pools rows that were filled up: the mask `[rows, longest]` says which tokens count.
///
/// # Errors
/// Where torch has no memory.
pub fn pool_padded(tokens: &Tensor, mask: Option<&Tensor>, pooling: Pooling) -> TorchResult<Tensor> {
    let Some(mask) = mask else { return pool(tokens, pooling) };
    match pooling {
        Pooling::Mean => {
            let mask = mask.f_to_kind(Kind::Float)?.f_unsqueeze(-1)?;
            let sum = tokens.f_to_kind(Kind::Float)?.f_mul(&mask)?.f_sum_dim_intlist(1_i64, false, Kind::Float)?;
            sum.f_div(&mask.f_sum_dim_intlist(1_i64, false, Kind::Float)?)
        }
        Pooling::Max => {
            let outside = mask.f_logical_not()?.f_unsqueeze(-1)?;
            tokens.f_to_kind(Kind::Float)?.f_masked_fill(&outside, f64::NEG_INFINITY)?.f_amax(1_i64, false)
        }
        Pooling::Last => {
            let last = mask.f_sum_dim_intlist(1_i64, true, Kind::Int64)?.f_sub_scalar(1)?.f_unsqueeze(-1)?;
            let (_, _, width) = tokens.size3()?;
            let last = last.f_expand([-1, 1, width], false)?;
            tokens.f_gather(1, &last, false)?.f_squeeze_dim(1)?.f_to_kind(Kind::Float)
        }
        Pooling::Cls => pool(tokens, pooling),
    }
}

/// How like rows `[rows, dimension]` are to queries `[queries, dimension]` of length one, or zero: float32 `[rows, queries]`.
///
/// # Errors
/// Where torch has no memory.
pub fn cosines(rows: &Tensor, queries: &Tensor) -> TorchResult<Tensor> {
    // Rounding makes some a little more than one.
    normalize(rows)?.f_matmul(&queries.f_transpose(0, 1)?)?.f_clamp(-1, 1)
}

/// Pools rows that stand one behind the other: `[tokens, dimension]` to float32 `[rows, dimension]`. Tokens of no row are not
/// looked at; what rows of no tokens become means nothing. Waits for nothing: `unsafe` leaves out checks of the lengths, for
/// which torch would wait for the device.
///
/// # Errors
/// Where torch has no memory.
pub fn pool_ragged(tokens: &Tensor, rows: &Rows, pooling: Pooling) -> TorchResult<Tensor> {
    let starts = &rows.cumulative_lengths;
    let count = starts.size1()? - 1;
    let reduce = |what, of_nothing: f64| {
        let (tokens, none) = (tokens.f_to_kind(Kind::Float)?, None);
        Tensor::f_segment_reduce(&tokens, what, none, none, Some(starts), 0, true, of_nothing)
    };
    match pooling {
        Pooling::Mean => reduce("mean", 0.0),
        Pooling::Max => reduce("max", f64::NEG_INFINITY),
        Pooling::Cls => {
            // A row of no tokens may begin where there is no token.
            let first = starts.f_narrow(0, 0, count)?.f_clamp_max(rows.tokens - 1)?;
            tokens.f_index_select(0, &first)?.f_to_kind(Kind::Float)
        }
        Pooling::Last => {
            let last = starts.f_narrow(0, 1, count)?.f_sub_scalar(1)?;
            tokens.f_index_select(0, &last)?.f_to_kind(Kind::Float)
        }
    }
}

/// Brings rows to length one.
///
/// # Errors
/// Where torch has no memory.
pub fn normalize(rows: &Tensor) -> TorchResult<Tensor> {
    let lengths = rows.f_linalg_norm(2, -1_i64, true, Kind::Float)?;
    rows.f_div(&lengths.f_clamp_min(LEAST_LENGTH)?)
}
