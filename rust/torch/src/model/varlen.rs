//! Variable-length attention: rows of any lengths one after the other, each attending to itself, by torch's fused
//! kernel for GPUs (`aten::_flash_attention_forward` with cumulative lengths). So a GPU computes no padding.
//!
//! tch has no function for it, so the `dispatcher` calls it. It takes float16 and bfloat16, and heads of a multiple of
//! 8 values up to 256, on GPUs from Ampere on. Loading a model checks whether it works: [`matches_reference`] compares
//! a few rows with plain attention. Where they differ or it fails, batches are padded, as they are on a CPU, for which
//! torch has no such kernel.
//!
//! On a GPU nothing of this has run yet: neither torch's own kernel, nor [`matches_reference`] on it, nor a batch.
//! `tests/varlen.rs` brings a kernel for CPUs that computes the same by plain operators and demands what torch's does.

use pullquote_core::encoder::model::Transformer;
use tch::{Device, Kind, Tensor};

use super::dispatcher::{Argument, Value, call, new_reference};
use super::layout::{RowOffsets, dim};
use crate::error::TorchResult;

/// The devices on which variable-length attention is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Varlen {
    Off,
    /// GPUs; on a CPU torch has no kernel for it, and says so on stderr.
    Cuda,
    /// CPUs too, for tests that bring a kernel.
    Everywhere,
}

/// Which tokens a token sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reach {
    /// How far away they may be; `None` sees all.
    pub(super) window: Option<i64>,
    /// None that come later.
    pub(super) causal: bool,
}

impl Reach {
    pub(super) const ALL: Self = Self { window: None, causal: false };
}

impl Varlen {
    /// Whether this device is one of them, and variable-length attention works on it with all of a model's reaches.
    pub(super) fn is_usable(self, device: Device, kind: Kind, config: &Transformer, reaches: &[Reach]) -> bool {
        let is_tried = match self {
            Self::Off => false,
            Self::Cuda => device != Device::Cpu,
            Self::Everywhere => true,
        };
        is_tried && reaches.iter().all(|reach| matches_reference(device, kind, config, *reach))
    }
}

/// Attention within each row: queries `[tokens, heads, width]`, which are scaled already, keys and values
/// `[tokens, key heads, width]`, to `[tokens, heads · width]`. Every token is in a row.
///
/// # Errors
/// If torch has no kernel for these types and sizes on this device, only stderr has the reason.
pub(super) fn attend(
    queries: &Tensor,
    keys: &Tensor,
    values: &Tensor,
    rows: &RowOffsets,
    reach: Reach,
) -> TorchResult<Tensor> {
    let (tokens, heads, width) = queries.size3()?;
    let tensor = |tensor: &Tensor| TorchResult::Ok(Argument::Plain(Value::Tensor(new_reference(tensor)?)));
    let lengths = || TorchResult::Ok(Argument::Optional(Some(Value::Tensor(new_reference(&rows.cumulative_lengths)?))));
    let window = |far| Argument::Optional(reach.window.map(|window| Value::Int(if far { window } else { 0 })));
    let arguments = [
        tensor(queries)?,
        tensor(keys)?,
        tensor(values)?,
        lengths()?,
        lengths()?,
        Argument::Plain(Value::Int(rows.longest)),
        Argument::Plain(Value::Int(rows.longest)),
        Argument::Plain(Value::Float(0.0)),          // dropout_p
        Argument::Plain(Value::Bool(reach.causal)),  // is_causal
        Argument::Plain(Value::Bool(false)),         // return_debug_mask
        Argument::Optional(Some(Value::Float(1.0))), // scale
        window(true),                                // window_size_left
        window(!reach.causal),                       // window_size_right
        Argument::NONE,                              // seqused_k
        Argument::NONE,                              // alibi_slopes
    ];
    // SAFETY: torch 2.11's schema is (Tensor query, Tensor key, Tensor value, Tensor? cum_seq_q, Tensor? cum_seq_k,
    // SymInt max_q, SymInt max_k, float dropout_p, bool is_causal, bool return_debug_mask, *, float? scale,
    // SymInt? window_size_left, SymInt? window_size_right, Tensor? seqused_k, Tensor? alibi_slopes) -> (Tensor output,
    // Tensor softmax_logsumexp, Tensor rng_state, Tensor unused, Tensor debug_attn_mask).
    let results: TorchResult<[Tensor; 5]> = unsafe { call(c"aten::_flash_attention_forward", arguments) };
    match results {
        Ok([context, ..]) => context.f_reshape([tokens, heads * width]),
        Err(unexplained) => {
            // The dispatcher gives no reason. If it was memory, this fails too, and says so: it needs more than the
            // kernel's results.
            let _ = Tensor::f_empty([3, tokens, heads, width], (queries.f_kind()?, queries.device()))?;
            Err(unexplained)
        }
    }
}

/// Whether [`attend`] works for a model's heads on this device, and agrees with plain attention. Waits for the device.
fn matches_reference(device: Device, kind: Kind, config: &Transformer, reach: Reach) -> bool {
    // Checked here, because the kernel would complain on stderr.
    let width = config.head_width;
    // Values are at most 1, and so are their means. The means' weights are rounded, and the means again: each time by
    // at most 1/2048 of themselves in float16 and 1/256 in bfloat16. Twice the sum of both leaves room for sums in
    // another order. Mixed-up rows, or another scale, differ by tenths.
    let tolerance = match kind {
        Kind::Half => 4.0 / 2048.0,
        Kind::BFloat16 => 4.0 / 256.0,
        _ => return false,
    };
    width.is_multiple_of(8)
        && width <= 256
        && max_difference(device, kind, config, reach).is_ok_and(|difference| difference <= tolerance)
}

/// The largest difference of [`attend`] from plain attention in float32; NaN where a value is NaN.
fn max_difference(device: Device, kind: Kind, config: &Transformer, reach: Reach) -> TorchResult<f64> {
    // More than one block of the kernel, parts of blocks, a single token, and an empty row.
    const LENGTHS: [i32; 6] = [3, 1, 150, 64, 17, 0];
    // So narrow that the rows above show it.
    let reach = Reach { window: reach.window.map(|window| window.min(40)), ..reach };
    let [heads, key_heads, width] = [config.heads, config.key_heads, config.head_width].map(dim);
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
    let qkv = sample_qkv(rows.tokens, [heads, key_heads, width])?.f_to_kind(kind)?;
    let parts = |qkv: &Tensor| {
        let part = |first, count| qkv.f_narrow(1, first, count);
        TorchResult::Ok([part(0, heads)?, part(heads, key_heads)?, part(heads + key_heads, key_heads)?])
    };
    let [queries, keys, values] = parts(&qkv.f_to_device(device)?)?;
    let found = attend(&queries, &keys, &values, &rows, reach)?.f_to_device(Device::Cpu)?.f_to_kind(Kind::Float)?;
    let parts = parts(&qkv.f_to_kind(Kind::Float)?)?;
    let (mut max, mut start) = (0.0_f64, 0);
    for length in LENGTHS.into_iter().map(i64::from).filter(|length| *length > 0) {
        let expected = attend_plainly(&parts, start, length, reach)?;
        let difference = found.f_narrow(0, start, length)?.f_sub(&expected)?.f_abs()?.f_max()?.f_double_value(&[])?;
        // Not `f64::max`, which would drop NaN.
        max = if difference <= max { max } else { difference };
        start += length;
    }
    Ok(max)
}

/// Float32 `[tokens, heads + 2 · key heads, width]` on the CPU: unordered values between -1 and 1, with queries so
/// large that a row attends to few of its tokens. torch's random numbers belong to the host.
fn sample_qkv(tokens: i64, [heads, key_heads, width]: [i64; 3]) -> TorchResult<Tensor> {
    let all = heads + 2 * key_heads;
    let indices = Tensor::f_arange(tokens * all * width, (Kind::Double, Device::Cpu))?;
    let samples = indices.f_square()?.f_mul_scalar(0.618_033_988_75)?.f_sin()?.f_to_kind(Kind::Float)?;
    #[expect(clippy::cast_precision_loss, reason = "heads are narrow: their width is exact in f64")]
    let scale = 4.0 / (width as f64).sqrt();
    let samples = samples.f_view_([tokens, all, width])?;
    let _ = samples.f_narrow(1, 0, heads)?.f_mul_scalar_(scale)?;
    Ok(samples)
}

/// Attention over one row, in float32, by operators that every torch has.
fn attend_plainly(parts: &[Tensor; 3], start: i64, length: i64, reach: Reach) -> TorchResult<Tensor> {
    let (_, heads, width) = parts[0].size3()?;
    // [heads, length, width]; consecutive query heads share a key head.
    let own = |part: &Tensor| {
        let shared = heads / part.size3()?.1;
        part.f_narrow(0, start, length)?.f_repeat_interleave_self_int(shared, 1, None)?.f_transpose(0, 1)
    };
    let [queries, keys, values] = [own(&parts[0])?, own(&parts[1])?, own(&parts[2])?];
    let window = reach.window.unwrap_or(length);
    let near = Tensor::f_ones([length, length], (Kind::Bool, Device::Cpu))?;
    let near = near.f_triu(-window)?.f_tril(if reach.causal { 0 } else { window })?;
    let scores =
        queries.f_matmul(&keys.f_transpose(1, 2)?)?.f_masked_fill(&near.f_logical_not()?, f64::NEG_INFINITY)?;
    scores.f_softmax(-1, None)?.f_matmul(&values)?.f_transpose(0, 1)?.f_reshape([length, heads * width])
}
