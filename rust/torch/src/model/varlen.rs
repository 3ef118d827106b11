//! Variable-length attention: rows of any lengths one after the other, each attending to itself, by torch's fused kernel for GPUs
//! (`aten::_flash_attention_forward` with cumulative lengths). So a GPU computes no padding.
//!
//! tch has no function for it, so the `dispatcher` calls it. It takes float16 and bfloat16, and heads of a multiple of 8 values up to
//! 256, on GPUs from Ampere on. Loading a model checks whether it works: [`matches_reference`] compares a few rows with plain
//! attention. Where they differ or it fails, batches are padded, as they are on a CPU, for which torch has no such kernel.
//!
//! On a GPU nothing of this has run yet: neither torch's own kernel, nor [`matches_reference`] on it, nor a batch. `tests/varlen.rs`
//! brings a kernel for CPUs that computes the same by plain operators and demands what torch's does.

use pullquote_core::encoder::model::Transformer;
use tch::{Device, Kind, Tensor};

use super::dispatcher::{Argument, Value, call, new_reference};
use super::layout::{RowOffsets, dim};
use crate::error::TorchResult;

/// The devices on which variable-length attention is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Varlen {
    /// None.
    Off,
    /// GPUs; on a CPU torch has no kernel for it, and says so on stderr.
    Cuda,
    /// CPUs too, for tests that bring a kernel.
    Everywhere,
}

impl Varlen {
    /// Whether this device is one of them, and variable-length attention works on it.
    pub(super) fn is_usable(self, device: Device, kind: Kind, config: &Transformer) -> bool {
        let is_tried = match self {
            Self::Off => false,
            Self::Cuda => device != Device::Cpu,
            Self::Everywhere => true,
        };
        is_tried && matches_reference(device, kind, config)
    }
}

/// Attention within each row, `[tokens, 3 · hidden]` to `[tokens, hidden]`. Queries are scaled already. Tokens of no row get zeros.
///
/// # Errors
/// Where torch has no memory, or no kernel for these types and sizes on this device; only stderr says which.
pub(super) fn attend(qkv: &Tensor, heads: i64, rows: &RowOffsets) -> TorchResult<Tensor> {
    let (tokens, width) = qkv.size2()?;
    let hidden = width / 3;
    let parts = qkv.f_view_([tokens, 3, heads, hidden / heads])?;
    let part = |index| TorchResult::Ok(Argument::Plain(Value::Tensor(parts.f_select(1, index)?)));
    let lengths = || TorchResult::Ok(Argument::Optional(Some(Value::Tensor(new_reference(&rows.cumulative_lengths)?))));
    let arguments = [
        part(0)?,
        part(1)?,
        part(2)?,
        lengths()?,
        lengths()?,
        Argument::Plain(Value::Int(rows.longest)),
        Argument::Plain(Value::Int(rows.longest)),
        Argument::Plain(Value::Float(0.0)),          // dropout_p
        Argument::Plain(Value::Bool(false)),         // is_causal
        Argument::Plain(Value::Bool(false)),         // return_debug_mask
        Argument::Optional(Some(Value::Float(1.0))), // scale
        Argument::NONE,                              // window_size_left
        Argument::NONE,                              // window_size_right
        Argument::NONE,                              // seqused_k
        Argument::NONE,                              // alibi_slopes
    ];
    // SAFETY: torch 2.11's schema is (Tensor query, Tensor key, Tensor value, Tensor? cum_seq_q, Tensor? cum_seq_k,
    // SymInt max_q, SymInt max_k, float dropout_p, bool is_causal, bool return_debug_mask, *, float? scale,
    // SymInt? window_size_left, SymInt? window_size_right, Tensor? seqused_k, Tensor? alibi_slopes) -> (Tensor output,
    // Tensor softmax_logsumexp, Tensor rng_state, Tensor unused, Tensor debug_attn_mask).
    let results: TorchResult<[Tensor; 5]> = unsafe { call(c"aten::_flash_attention_forward", arguments) };
    let [context, ..] = results?;
    let context = context.f_reshape([tokens, hidden])?;
    // The kernel leaves uninitialized memory there. NaN would stay through all layers: no row reads it, but every later kernel
    // would have to promise that.
    if tokens > rows.tokens {
        let _ = context.f_narrow(0, rows.tokens, tokens - rows.tokens)?.f_zero_()?;
    }
    Ok(context)
}

/// Whether [`attend`] works for a model's heads on this device, and agrees with plain attention. Waits for the device.
fn matches_reference(device: Device, kind: Kind, config: &Transformer) -> bool {
    // Checked here, because the kernel would complain on stderr.
    let width = config.head_width;
    // Values are at most 1, and so are their means. The means' weights are rounded, and the means again: each time by at most
    // 1/2048 of themselves in float16 and 1/256 in bfloat16. Twice the sum of both leaves room for sums in another order. Mixed-up
    // rows, or another scale, differ by tenths.
    let tolerance = match kind {
        Kind::Half => 4.0 / 2048.0,
        Kind::BFloat16 => 4.0 / 256.0,
        _ => return false,
    };
    width.is_multiple_of(8)
        && width <= 256
        && max_difference(device, kind, config).is_ok_and(|difference| difference <= tolerance)
}

/// The largest difference of [`attend`] from plain attention in float32; NaN where a value is NaN.
fn max_difference(device: Device, kind: Kind, config: &Transformer) -> TorchResult<f64> {
    // More than one block of the kernel, parts of blocks, a single token, and an empty row.
    const LENGTHS: [i32; 6] = [3, 1, 150, 64, 17, 0];
    const TOKENS: i64 = 240;
    let (heads, hidden) = (dim(config.heads), dim(config.hidden));
    let mut cumulative_lengths = vec![0];
    cumulative_lengths.extend(LENGTHS.iter().scan(0, |end, length| {
        *end += length;
        Some(*end)
    }));
    let rows = RowOffsets {
        cumulative_lengths: Tensor::f_from_slice(&cumulative_lengths)?.f_to_device(device)?,
        longest: LENGTHS.into_iter().max().map_or(0, i64::from),
        tokens: LENGTHS.into_iter().map(i64::from).sum(),
    };
    let qkv = sample_qkv(TOKENS, hidden, hidden / heads)?.f_to_kind(kind)?;
    let found = attend(&qkv.f_to_device(device)?, heads, &rows)?.f_to_device(Device::Cpu)?.f_to_kind(Kind::Float)?;
    let qkv = qkv.f_to_kind(Kind::Float)?;
    let (mut max, mut start) = (0.0_f64, 0);
    for length in LENGTHS.into_iter().map(i64::from).filter(|length| *length > 0) {
        let expected = attend_plainly(&qkv.f_narrow(0, start, length)?, heads)?;
        let difference = found.f_narrow(0, start, length)?.f_sub(&expected)?.f_abs()?.f_max()?.f_double_value(&[])?;
        // Not `f64::max`, which would drop NaN.
        max = if difference <= max { max } else { difference };
        start += length;
    }
    Ok(max)
}

/// Float32 `[tokens, 3 · hidden]` on the CPU: unordered values between -1 and 1, with queries so large that a row attends to few of
/// its tokens. torch's random numbers belong to the host.
fn sample_qkv(tokens: i64, hidden: i64, width: i64) -> TorchResult<Tensor> {
    let indices = Tensor::f_arange(tokens * 3 * hidden, (Kind::Double, Device::Cpu))?;
    let samples = indices.f_square()?.f_mul_scalar(0.618_033_988_75)?.f_sin()?.f_to_kind(Kind::Float)?;
    #[expect(clippy::cast_precision_loss, reason = "heads are narrow: their width is exact in f64")]
    let scale = 4.0 / (width as f64).sqrt();
    let _ = samples.f_view_([tokens, 3, hidden])?.f_select(1, 0)?.f_mul_scalar_(scale)?;
    samples.f_view_([tokens, 3 * hidden])
}

/// Attention over one row, in float32, by operators that every torch has.
fn attend_plainly(qkv: &Tensor, heads: i64) -> TorchResult<Tensor> {
    let (length, width) = qkv.size2()?;
    // [3, heads, length, width]
    let parts = qkv.f_view_([length, 3, heads, width / 3 / heads])?.f_permute([1, 2, 0, 3])?;
    let (queries, keys, values) = (parts.f_select(0, 0)?, parts.f_select(0, 1)?, parts.f_select(0, 2)?);
    let weights = queries.f_matmul(&keys.f_transpose(1, 2)?)?.f_softmax(-1, None)?;
    weights.f_matmul(&values)?.f_transpose(0, 1)?.f_reshape([length, width / 3])
}
