//! x86-64: AVX2 with FMA, and AVX-512, each with and without dot products of bytes; AVX-512 also with those of
//! bfloat16.

use std::arch::x86_64::*;

use super::{Bf16, ByteProduct, Simd, Task, Tile};

/// AVX2 and FMA: Haswell, Zen and later. `VNNI` adds AVX-VNNI: Alder Lake, Zen 5 and later.
#[derive(Clone, Copy, Debug)]
pub struct Avx2<const VNNI: bool>(());

/// AVX-512 F, BW, VL and DQ: Skylake-X and later. `VNNI` adds dot products of bytes: Cascade Lake, Zen 4 and later;
/// `BF16` those of bfloat16: Cooper Lake, Zen 4 and later.
#[derive(Clone, Copy, Debug)]
pub struct Avx512<const VNNI: bool, const BF16: bool>(());

impl<const VNNI: bool> Avx2<VNNI> {
    /// The instruction set, if this processor has it.
    pub fn detect() -> Option<Self> {
        let found = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && (!VNNI || is_x86_feature_detected!("avxvnni"));
        found.then_some(Self(()))
    }
}

impl<const VNNI: bool, const BF16: bool> Avx512<VNNI, BF16> {
    /// The instruction set, if this processor has it.
    pub fn detect() -> Option<Self> {
        let found = Avx2::<false>::detect().is_some()
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512dq")
            && (!VNNI || is_x86_feature_detected!("avx512vnni"))
            && (!BF16 || is_x86_feature_detected!("avx512bf16"));
        found.then_some(Self(()))
    }
}

impl<const VNNI: bool> Simd for Avx2<VNNI> {
    const LANES: usize = 8;
    const TILE: Tile = Tile::SixByTwo;
    const HAS_BF16: bool = false;
    const BYTE_PRODUCT: ByteProduct = ByteProduct::Quads;
    const BYTE_TILE: Tile = if VNNI { Self::TILE } else { Tile::ThreeByThree };

    type Floats = __m256;
    type Words = __m256i;

    #[inline(always)]
    fn vectorize<T: Task>(self, task: T) -> T::Output {
        #[target_feature(enable = "avx2,fma")]
        fn plain<S: Simd, T: Task>(simd: S, task: T) -> T::Output {
            task.run(simd)
        }
        #[target_feature(enable = "avx2,fma,avxvnni")]
        fn with_vnni<S: Simd, T: Task>(simd: S, task: T) -> T::Output {
            task.run(simd)
        }
        // SAFETY: `self` is the proof that the processor has the instructions.
        unsafe { if VNNI { with_vnni(self, task) } else { plain(self, task) } }
    }

    instructions! {
        splat(value: f32) -> __m256 { _mm256_set1_ps(value) }
        load(values: &[f32]) -> __m256 { _mm256_loadu_ps(values[..8].as_ptr()) }
        store(out: &mut [f32], values: __m256) { _mm256_storeu_ps(out[..8].as_mut_ptr(), values) }
        load_bf16(values: &[Bf16]) -> __m256 {
            let halves = _mm_loadu_si128(values[..8].as_ptr().cast());
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(halves)))
        }
        store_bf16(out: &mut [Bf16], values: __m256) {
            // Half of the last bit that stays, less one where that bit is even; NaN keeps its upper half.
            let bits = _mm256_castps_si256(values);
            let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
            let rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
            let quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x0040_0000));
            let is_nan = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(values, values));
            let halves = _mm256_srli_epi32::<16>(_mm256_blendv_epi8(rounded, quiet, is_nan));
            let packed = _mm256_permute4x64_epi64::<0b1000>(_mm256_packus_epi32(halves, halves));
            _mm_storeu_si128(out[..8].as_mut_ptr().cast(), _mm256_castsi256_si128(packed));
        }
        store_u8(out: &mut [u8], values: __m256) {
            let whole = _mm256_cvtps_epi32(values);
            let pairs = _mm_packs_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256::<1>(whole));
            _mm_storel_epi64(out[..8].as_mut_ptr().cast(), _mm_packus_epi16(pairs, pairs));
        }
        store_i8(out: &mut [u8], values: __m256) {
            let _ = (out, values);
            unreachable!("no set of x86-64 multiplies signed bytes only")
        }
        store_i16(out: &mut [i16], values: __m256) {
            let whole = _mm256_cvtps_epi32(values);
            let pairs = _mm_packs_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256::<1>(whole));
            _mm_storeu_si128(out[..8].as_mut_ptr().cast(), pairs);
        }

        add(a: __m256, b: __m256) -> __m256 { _mm256_add_ps(a, b) }
        sub(a: __m256, b: __m256) -> __m256 { _mm256_sub_ps(a, b) }
        mul(a: __m256, b: __m256) -> __m256 { _mm256_mul_ps(a, b) }
        div(a: __m256, b: __m256) -> __m256 { _mm256_div_ps(a, b) }
        mul_add(a: __m256, b: __m256, c: __m256) -> __m256 { _mm256_fmadd_ps(a, b, c) }
        max(a: __m256, b: __m256) -> __m256 { _mm256_max_ps(a, b) }
        min(a: __m256, b: __m256) -> __m256 { _mm256_min_ps(a, b) }
        round(a: __m256) -> __m256 { _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a) }
        exp2_integer(a: __m256) -> __m256 {
            let biased = _mm256_add_epi32(_mm256_cvtps_epi32(a), _mm256_set1_epi32(127));
            _mm256_castsi256_ps(_mm256_slli_epi32::<23>(biased))
        }
        select_negative(of: __m256, negative: __m256, otherwise: __m256) -> __m256 {
            _mm256_blendv_ps(otherwise, negative, _mm256_cmp_ps::<_CMP_LT_OQ>(of, _mm256_setzero_ps()))
        }
        reduce_add(a: __m256) -> f32 {
            let halves = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let quarters = _mm_add_ps(halves, _mm_movehl_ps(halves, halves));
            _mm_cvtss_f32(_mm_add_ss(quarters, _mm_movehdup_ps(quarters)))
        }
        reduce_max(a: __m256) -> f32 {
            let halves = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let quarters = _mm_max_ps(halves, _mm_movehl_ps(halves, halves));
            _mm_cvtss_f32(_mm_max_ss(quarters, _mm_movehdup_ps(quarters)))
        }
        reduce_min(a: __m256) -> f32 {
            let halves = _mm_min_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let quarters = _mm_min_ps(halves, _mm_movehl_ps(halves, halves));
            _mm_cvtss_f32(_mm_min_ss(quarters, _mm_movehdup_ps(quarters)))
        }

        splat_word(word: u32) -> __m256i { _mm256_set1_epi32(word.cast_signed()) }
        load_words(words: &[u32]) -> __m256i { _mm256_loadu_si256(words[..8].as_ptr().cast()) }
        words_as_floats(words: __m256i) -> __m256 { _mm256_castsi256_ps(words) }
        words_to_floats(words: __m256i) -> __m256 { _mm256_cvtepi32_ps(words) }
        dot_bf16(a: __m256i, b: __m256i, c: __m256) -> __m256 {
            let low = |words| _mm256_castsi256_ps(_mm256_slli_epi32::<16>(words));
            let high = |words| _mm256_castsi256_ps(_mm256_and_si256(words, _mm256_set1_epi32(-0x1_0000)));
            _mm256_fmadd_ps(high(a), high(b), _mm256_fmadd_ps(low(a), low(b), c))
        }
        dot_bytes(a: __m256i, b: __m256i, c: __m256i) -> __m256i {
            if VNNI {
                _mm256_dpbusd_avx_epi32(c, a, b)
            } else {
                let pairs = _mm256_maddubs_epi16(a, b);
                _mm256_add_epi32(c, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
            }
        }
        prefetch(out: *const u32) { _mm_prefetch::<_MM_HINT_T1>(out.cast()) }
    }
}

impl<const VNNI: bool, const BF16: bool> Simd for Avx512<VNNI, BF16> {
    const LANES: usize = 16;
    const TILE: Tile = Tile::EightByThree;
    // Half of 1 MiB. On Xeons the weights of wide layers come from a slow third cache, once for each block.
    const BLOCK_WORDS: usize = 128 * 1024;
    const HAS_BF16: bool = BF16;
    const BYTE_PRODUCT: ByteProduct = ByteProduct::Quads;

    type Floats = __m512;
    type Words = __m512i;

    #[inline(always)]
    fn vectorize<T: Task>(self, task: T) -> T::Output {
        #[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512vl,avx512dq")]
        fn plain<S: Simd, T: Task>(simd: S, task: T) -> T::Output {
            task.run(simd)
        }
        #[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
        fn with_vnni<S: Simd, T: Task>(simd: S, task: T) -> T::Output {
            task.run(simd)
        }
        #[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx512bf16")]
        fn with_bf16<S: Simd, T: Task>(simd: S, task: T) -> T::Output {
            task.run(simd)
        }
        // SAFETY: `self` is the proof that the processor has the instructions; BF16 is never without VNNI.
        unsafe {
            if BF16 {
                with_bf16(self, task)
            } else if VNNI {
                with_vnni(self, task)
            } else {
                plain(self, task)
            }
        }
    }

    instructions! {
        splat(value: f32) -> __m512 { _mm512_set1_ps(value) }
        load(values: &[f32]) -> __m512 { _mm512_loadu_ps(values[..16].as_ptr()) }
        store(out: &mut [f32], values: __m512) { _mm512_storeu_ps(out[..16].as_mut_ptr(), values) }
        load_bf16(values: &[Bf16]) -> __m512 {
            let halves = _mm256_loadu_si256(values[..16].as_ptr().cast());
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(halves)))
        }
        store_bf16(out: &mut [Bf16], values: __m512) {
            let out = out[..16].as_mut_ptr().cast();
            if BF16 {
                // Both types are 32 bytes of plain data.
                let halves = std::mem::transmute::<__m256bh, __m256i>(_mm512_cvtneps_pbh(values));
                _mm256_storeu_si256(out, halves);
                return;
            }
            // As for AVX2.
            let bits = _mm512_castps_si512(values);
            let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
            let rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
            let is_nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(values, values);
            let kept = _mm512_mask_or_epi32(rounded, is_nan, bits, _mm512_set1_epi32(0x0040_0000));
            _mm256_storeu_si256(out, _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(kept)));
        }
        store_u8(out: &mut [u8], values: __m512) {
            _mm_storeu_si128(out[..16].as_mut_ptr().cast(), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(values)));
        }
        store_i8(out: &mut [u8], values: __m512) {
            let _ = (out, values);
            unreachable!("no set of x86-64 multiplies signed bytes only")
        }
        store_i16(out: &mut [i16], values: __m512) {
            _mm256_storeu_si256(out[..16].as_mut_ptr().cast(), _mm512_cvtepi32_epi16(_mm512_cvtps_epi32(values)));
        }

        add(a: __m512, b: __m512) -> __m512 { _mm512_add_ps(a, b) }
        sub(a: __m512, b: __m512) -> __m512 { _mm512_sub_ps(a, b) }
        mul(a: __m512, b: __m512) -> __m512 { _mm512_mul_ps(a, b) }
        div(a: __m512, b: __m512) -> __m512 { _mm512_div_ps(a, b) }
        mul_add(a: __m512, b: __m512, c: __m512) -> __m512 { _mm512_fmadd_ps(a, b, c) }
        max(a: __m512, b: __m512) -> __m512 { _mm512_max_ps(a, b) }
        min(a: __m512, b: __m512) -> __m512 { _mm512_min_ps(a, b) }
        round(a: __m512) -> __m512 { _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a) }
        exp2_integer(a: __m512) -> __m512 {
            let biased = _mm512_add_epi32(_mm512_cvtps_epi32(a), _mm512_set1_epi32(127));
            _mm512_castsi512_ps(_mm512_slli_epi32::<23>(biased))
        }
        select_negative(of: __m512, negative: __m512, otherwise: __m512) -> __m512 {
            _mm512_mask_mov_ps(otherwise, _mm512_cmp_ps_mask::<_CMP_LT_OQ>(of, _mm512_setzero_ps()), negative)
        }
        reduce_add(a: __m512) -> f32 { _mm512_reduce_add_ps(a) }
        reduce_max(a: __m512) -> f32 { _mm512_reduce_max_ps(a) }
        reduce_min(a: __m512) -> f32 { _mm512_reduce_min_ps(a) }

        splat_word(word: u32) -> __m512i { _mm512_set1_epi32(word.cast_signed()) }
        load_words(words: &[u32]) -> __m512i { _mm512_loadu_si512(words[..16].as_ptr().cast()) }
        words_as_floats(words: __m512i) -> __m512 { _mm512_castsi512_ps(words) }
        words_to_floats(words: __m512i) -> __m512 { _mm512_cvtepi32_ps(words) }
        dot_bf16(a: __m512i, b: __m512i, c: __m512) -> __m512 {
            if BF16 {
                // Both types are 64 bytes of plain data.
                let pairs = |words| std::mem::transmute::<__m512i, __m512bh>(words);
                return _mm512_dpbf16_ps(c, pairs(a), pairs(b));
            }
            let low = |words| _mm512_castsi512_ps(_mm512_slli_epi32::<16>(words));
            let high = |words| _mm512_castsi512_ps(_mm512_and_si512(words, _mm512_set1_epi32(-0x1_0000)));
            _mm512_fmadd_ps(high(a), high(b), _mm512_fmadd_ps(low(a), low(b), c))
        }
        dot_bytes(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
            if VNNI {
                _mm512_dpbusd_epi32(c, a, b)
            } else {
                let pairs = _mm512_maddubs_epi16(a, b);
                _mm512_add_epi32(c, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)))
            }
        }
        prefetch(out: *const u32) { _mm_prefetch::<_MM_HINT_T1>(out.cast()) }
    }
}
