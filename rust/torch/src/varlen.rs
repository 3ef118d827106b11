//! Variable-length attention: rows of any lengths one behind the other, each attending to itself, by torch's fused kernel for
//! graphics cards (`aten::_flash_attention_forward` with cumulative lengths). So a card computes no padding.
//!
//! tch has no function for it, so it is called by the [`crate::dispatcher`]. It is for float16 and bfloat16, for heads of a
//! multiple of 8 values up to 256, and for cards from Ampere on. Whether it works is found out when a model is loaded:
//! [`agrees`] has it attend to a few rows and compares what comes out with plain attention. Where it fails or says anything
//! else, batches are padded ([`crate::cuda`]), as they are on a CPU, for which torch has no such kernel.
//!
//! On a card nothing of this has run yet: neither torch's own kernel, nor [`agrees`] on it, nor a batch that was sent to it.
//! `tests/varlen.rs` brings a kernel for CPUs that computes the same by plain operators and demands what torch's does.

use pullquote_core::encoder::model::Transformer;
use tch::{Device, Kind, Tensor};

use crate::dispatcher::{Argument, Value, call, share};
use crate::failure::TorchResult;
use crate::layout::{Rows, side};

/// Where variable-length attention may be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Varlen {
    /// Nowhere.
    Nowhere,
    /// On graphics cards: on a CPU torch has no kernel for it, and says so on stderr.
    OnCards,
    /// On CPUs as well: for tests that bring a kernel.
    Anywhere,
}

impl Varlen {
    /// Whether rows need no padding on this device, because attention without it is allowed and [`agrees`].
    #[must_use]
    pub fn works(self, device: Device, kind: Kind, shape: &Transformer) -> bool {
        let tried = match self {
            Self::Nowhere => false,
            Self::OnCards => device != Device::Cpu,
            Self::Anywhere => true,
        };
        tried && agrees(device, kind, shape)
    }
}

/// Attention within each row, from queries, keys and values side by side, `[tokens, 3 · hidden]`, to `[tokens, hidden]`. Queries
/// are scaled already. What tokens of no row get is zero.
///
/// # Errors
/// Where torch has no memory, or no kernel for these types and sizes on this device; which of them, only stderr says.
pub fn attend(mixed: &Tensor, heads: i64, rows: &Rows) -> TorchResult<Tensor> {
    let (tokens, width) = mixed.size2()?;
    let hidden = width / 3;
    let parts = mixed.f_view_([tokens, 3, heads, hidden / heads])?;
    let part = |index| TorchResult::Ok(Argument::Plain(Value::Tensor(parts.f_select(1, index)?)));
    let lengths = || TorchResult::Ok(Argument::Optional(Some(Value::Tensor(share(&rows.cumulative_lengths)?))));
    let arguments = [
        part(0)?,
        part(1)?,
        part(2)?,
        lengths()?,
        lengths()?,
        Argument::Plain(Value::Int(rows.longest)),
        Argument::Plain(Value::Int(rows.longest)),
        Argument::Plain(Value::Float(0.0)),          // dropout
        Argument::Plain(Value::Bool(false)),         // causal
        Argument::Plain(Value::Bool(false)),         // a mask to look at
        Argument::Optional(Some(Value::Float(1.0))), // scale
        Argument::ABSENT,                            // a window to the left
        Argument::ABSENT,                            // and to the right
        Argument::ABSENT,                            // keys that are used
        Argument::ABSENT,                            // biases by distance
    ];
    // SAFETY: torch 2.11's schema is (Tensor query, Tensor key, Tensor value, Tensor? cum_seq_q, Tensor? cum_seq_k,
    // SymInt max_q, SymInt max_k, float dropout_p, bool is_causal, bool return_debug_mask, *, float? scale,
    // SymInt? window_size_left, SymInt? window_size_right, Tensor? seqused_k, Tensor? alibi_slopes) -> (Tensor output,
    // Tensor softmax_logsumexp, Tensor rng_state, Tensor unused, Tensor debug_attn_mask).
    let results: TorchResult<[Tensor; 5]> = unsafe { call(c"aten::_flash_attention_forward", arguments) };
    let [context, ..] = results?;
    let context = context.f_reshape([tokens, hidden])?;
    // The kernel leaves there what was in memory. What is no number would stay so through all layers: no row reads it, but that
    // would be a promise of each kernel behind.
    if tokens > rows.tokens {
        let _ = context.f_narrow(0, rows.tokens, tokens - rows.tokens)?.f_zero_()?;
    }
    Ok(context)
}

/// Whether [`attend`] works for a model's heads on this device: runs, and says what plain attention says. Waits for the device.
#[must_use]
pub fn agrees(device: Device, kind: Kind, shape: &Transformer) -> bool {
    // What the kernel asks for, so that it does not complain on stderr.
    let width = shape.head();
    // Values are at most 1, and so are their means, by weights that are rounded, and the means are rounded again: each time by
    // at most 1/2048 of themselves in float16 and 1/256 in bfloat16. Twice both leaves room for sums in another order. Rows that
    // are mixed up, or another scale, are off by tenths.
    let tolerance = match kind {
        Kind::Half => 4.0 / 2048.0,
        Kind::BFloat16 => 4.0 / 256.0,
        _ => return false,
    };
    width.is_multiple_of(8)
        && width <= 256
        && difference(device, kind, shape).is_ok_and(|difference| difference <= tolerance)
}

/// By how much [`attend`] differs from plain attention in float32, at most; NaN where it says anything that is no number.
fn difference(device: Device, kind: Kind, shape: &Transformer) -> TorchResult<f64> {
    // More than one block of the kernel, parts of blocks, a single token, and a row that fills up.
    const LENGTHS: [i32; 6] = [3, 1, 150, 64, 17, 0];
    const TOKENS: i64 = 240;
    let (heads, hidden) = (side(shape.heads), side(shape.hidden));
    let mut ends = vec![0];
    ends.extend(LENGTHS.iter().scan(0, |end, length| {
        *end += length;
        Some(*end)
    }));
    let rows = Rows {
        cumulative_lengths: Tensor::f_from_slice(&ends)?.f_to_device(device)?,
        longest: LENGTHS.into_iter().max().map_or(0, i64::from),
        tokens: LENGTHS.into_iter().map(i64::from).sum(),
    };
    let mixed = samples(TOKENS, hidden, hidden / heads)?.f_to_kind(kind)?;
    let found = attend(&mixed.f_to_device(device)?, heads, &rows)?.f_to_device(Device::Cpu)?.f_to_kind(Kind::Float)?;
    let mixed = mixed.f_to_kind(Kind::Float)?;
    let (mut most, mut start) = (0.0_f64, 0);
    for length in LENGTHS.into_iter().map(i64::from).filter(|length| *length > 0) {
        let expected = attend_plainly(&mixed.f_narrow(0, start, length)?, heads)?;
        let difference = found.f_narrow(0, start, length)?.f_sub(&expected)?.f_abs()?.f_max()?.f_double_value(&[])?;
        // Not `max`, which would pass over NaN.
        most = if difference <= most { most } else { difference };
        start += length;
    }
    Ok(most)
}

/// Queries, keys and values side by side, `[tokens, 3 · hidden]` in float32 on the CPU: values between -1 and 1 without order,
/// queries so large that a row attends to few of its tokens. torch's random numbers are the host's.
fn samples(tokens: i64, hidden: i64, width: i64) -> TorchResult<Tensor> {
    let places = Tensor::f_arange(tokens * 3 * hidden, (Kind::Double, Device::Cpu))?;
    let samples = places.f_square()?.f_mul_scalar(0.618_033_988_75)?.f_sin()?.f_to_kind(Kind::Float)?;
    #[expect(clippy::cast_precision_loss, reason = "heads are narrow: their width is exact in f64")]
    let scale = 4.0 / (width as f64).sqrt();
    let _ = samples.f_view_([tokens, 3, hidden])?.f_select(1, 0)?.f_mul_scalar_(scale)?;
    samples.f_view_([tokens, 3 * hidden])
}

/// Attention over one row, in float32, by operators that every torch has.
fn attend_plainly(mixed: &Tensor, heads: i64) -> TorchResult<Tensor> {
    let (length, width) = mixed.size2()?;
    // Three times [heads, length, width].
    let parts = mixed.f_view_([length, 3, heads, width / 3 / heads])?.f_permute([1, 2, 0, 3])?;
    let (queries, keys, values) = (parts.f_select(0, 0)?, parts.f_select(0, 1)?, parts.f_select(0, 2)?);
    let weights = queries.f_matmul(&keys.f_transpose(1, 2)?)?.f_softmax(-1, None)?;
    weights.f_matmul(&values)?.f_transpose(0, 1)?.f_reshape([length, width / 3])
}
