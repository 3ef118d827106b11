//! aarch64: NEON, which all of them have, with and without dot products of bytes.

use std::arch::aarch64::*;
use std::arch::asm;

use super::{Bf16, ByteProduct, Simd, Task, Tile};

/// NEON. `DOT` adds dot products of bytes (`FEAT_DotProd`): Graviton 2, Apple M1 and later.
#[derive(Clone, Copy, Debug)]
pub struct Neon<const DOT: bool>(());

impl<const DOT: bool> Neon<DOT> {
    /// The instruction set, if this processor has it.
    pub fn detect() -> Option<Self> {
        let found = std::arch::is_aarch64_feature_detected!("neon")
            && (!DOT || std::arch::is_aarch64_feature_detected!("dotprod"));
        found.then_some(Self(()))
    }
}

impl<const DOT: bool> Simd for Neon<DOT> {
    const LANES: usize = 4;
    const TILE: Tile = Tile::EightByThree;
    const HAS_BF16: bool = false;
    const BYTE_PRODUCT: ByteProduct = if DOT { ByteProduct::SignedQuads } else { ByteProduct::Pairs };

    type Floats = float32x4_t;
    type Words = uint32x4_t;

    #[inline(always)]
    fn vectorize<T: Task>(self, task: T) -> T::Output {
        #[target_feature(enable = "neon,dotprod")]
        fn with_dot<S: Simd, T: Task>(simd: S, task: T) -> T::Output {
            task.run(simd)
        }
        // SAFETY: `self` is the proof that the processor has the instructions.
        if DOT { unsafe { with_dot(self, task) } } else { task.run(self) }
    }

    instructions! {
        splat(value: f32) -> float32x4_t { vdupq_n_f32(value) }
        load(values: &[f32]) -> float32x4_t { vld1q_f32(values[..4].as_ptr()) }
        store(out: &mut [f32], values: float32x4_t) { vst1q_f32(out[..4].as_mut_ptr(), values) }
        load_bf16(values: &[Bf16]) -> float32x4_t {
            vreinterpretq_f32_u32(vshll_n_u16::<16>(vld1_u16(values[..4].as_ptr().cast())))
        }
        store_bf16(out: &mut [Bf16], values: float32x4_t) {
            // Half of the last bit that stays, less one where that bit is even; NaN keeps its upper half.
            let bits = vreinterpretq_u32_f32(values);
            let odd = vandq_u32(vshrq_n_u32::<16>(bits), vdupq_n_u32(1));
            let rounded = vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
            let quiet = vorrq_u32(bits, vdupq_n_u32(0x0040_0000));
            let kept = vbslq_u32(vceqq_f32(values, values), rounded, quiet);
            vst1_u16(out[..4].as_mut_ptr().cast(), vshrn_n_u32::<16>(kept));
        }
        store_u8(out: &mut [u8], values: float32x4_t) {
            let halves = vmovn_u32(vcvtnq_u32_f32(values));
            let bytes = vmovn_u16(vcombine_u16(halves, halves));
            vst1_lane_u32::<0>(out[..4].as_mut_ptr().cast(), vreinterpret_u32_u8(bytes));
        }
        store_i8(out: &mut [u8], values: float32x4_t) {
            let halves = vmovn_u32(vcvtnq_u32_f32(values));
            let bytes = veor_u8(vmovn_u16(vcombine_u16(halves, halves)), vdup_n_u8(0x80));
            vst1_lane_u32::<0>(out[..4].as_mut_ptr().cast(), vreinterpret_u32_u8(bytes));
        }
        store_i16(out: &mut [i16], values: float32x4_t) {
            vst1_s16(out[..4].as_mut_ptr(), vmovn_s32(vcvtnq_s32_f32(values)));
        }

        add(a: float32x4_t, b: float32x4_t) -> float32x4_t { vaddq_f32(a, b) }
        sub(a: float32x4_t, b: float32x4_t) -> float32x4_t { vsubq_f32(a, b) }
        mul(a: float32x4_t, b: float32x4_t) -> float32x4_t { vmulq_f32(a, b) }
        div(a: float32x4_t, b: float32x4_t) -> float32x4_t { vdivq_f32(a, b) }
        mul_add(a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t { vfmaq_f32(c, a, b) }
        max(a: float32x4_t, b: float32x4_t) -> float32x4_t { vbslq_f32(vcgtq_f32(a, b), a, b) }
        min(a: float32x4_t, b: float32x4_t) -> float32x4_t { vbslq_f32(vcltq_f32(a, b), a, b) }
        round(a: float32x4_t) -> float32x4_t { vrndnq_f32(a) }
        exp2_integer(a: float32x4_t) -> float32x4_t {
            let biased = vaddq_s32(vcvtnq_s32_f32(a), vdupq_n_s32(127));
            vreinterpretq_f32_s32(vshlq_n_s32::<23>(biased))
        }
        select_negative(of: float32x4_t, negative: float32x4_t, otherwise: float32x4_t) -> float32x4_t {
            vbslq_f32(vcltzq_f32(of), negative, otherwise)
        }
        reduce_add(a: float32x4_t) -> f32 { vaddvq_f32(a) }
        reduce_max(a: float32x4_t) -> f32 { vmaxvq_f32(a) }
        reduce_min(a: float32x4_t) -> f32 { vminvq_f32(a) }

        splat_word(word: u32) -> uint32x4_t { vdupq_n_u32(word) }
        load_words(words: &[u32]) -> uint32x4_t { vld1q_u32(words[..4].as_ptr()) }
        words_as_floats(words: uint32x4_t) -> float32x4_t { vreinterpretq_f32_u32(words) }
        words_to_floats(words: uint32x4_t) -> float32x4_t { vcvtq_f32_s32(vreinterpretq_s32_u32(words)) }
        dot_bf16(a: uint32x4_t, b: uint32x4_t, c: float32x4_t) -> float32x4_t {
            let low = |words| vreinterpretq_f32_u32(vshlq_n_u32::<16>(words));
            let high = |words| vreinterpretq_f32_u32(vandq_u32(words, vdupq_n_u32(0xffff_0000)));
            vfmaq_f32(vfmaq_f32(c, low(a), low(b)), high(a), high(b))
        }
        dot_bytes(a: uint32x4_t, b: uint32x4_t, c: uint32x4_t) -> uint32x4_t {
            if DOT {
                let mut sums = c;
                // Rust's own name for this instruction is not stable yet.
                asm!(
                    "sdot {sums:v}.4s, {a:v}.16b, {b:v}.16b",
                    sums = inout(vreg) sums,
                    a = in(vreg) a,
                    b = in(vreg) b,
                    options(pure, nomem, nostack, preserves_flags),
                );
                return sums;
            }
            let (a, b) = (vreinterpretq_s16_u32(a), vreinterpretq_s16_u32(b));
            let products = vpaddq_s32(vmull_s16(vget_low_s16(a), vget_low_s16(b)), vmull_high_s16(a, b));
            vreinterpretq_u32_s32(vaddq_s32(vreinterpretq_s32_u32(c), products))
        }
    }
}
