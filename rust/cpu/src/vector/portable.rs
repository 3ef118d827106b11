//! Any processor: plain loops over arrays, the reference for the other sets.

use super::{Bf16, ByteProduct, Simd, Task, Tile};

/// As in the registers that x86-64 and aarch64 always have.
const LANES: usize = 4;

/// No instructions beyond those that the compiler chooses.
#[derive(Clone, Copy, Debug)]
pub struct Portable;

#[inline(always)]
fn map<T: Copy, U>(function: impl Fn(T) -> U, a: [T; LANES]) -> [U; LANES] {
    a.map(function)
}

#[inline(always)]
fn zip_map<T: Copy, U: Copy, V>(function: impl Fn(T, U) -> V, a: [T; LANES], b: [U; LANES]) -> [V; LANES] {
    std::array::from_fn(|lane| function(a[lane], b[lane]))
}

/// Rounds to the nearest even integer, for values within ±2²²; without SSE4.1 `round_ties_even` is a call.
#[inline(always)]
pub(crate) fn round(value: f32) -> f32 {
    // From 2²³ on a float32 has no digits after the point, so adding and subtracting 1.5 · 2²³ rounds.
    const SHIFT: f32 = 12_582_912.0;
    (value + SHIFT) - SHIFT
}

impl Simd for Portable {
    const LANES: usize = LANES;
    const TILE: Tile = Tile::FourByTwo;
    const HAS_BF16: bool = false;
    const BYTE_PRODUCT: ByteProduct = ByteProduct::Pairs;

    type Floats = [f32; LANES];
    type Words = [u32; LANES];

    #[inline(always)]
    fn vectorize<T: Task>(self, task: T) -> T::Output {
        task.run(self)
    }

    #[inline(always)]
    fn splat(self, value: f32) -> Self::Floats {
        [value; LANES]
    }

    #[inline(always)]
    fn load(self, values: &[f32]) -> Self::Floats {
        std::array::from_fn(|lane| values[lane])
    }

    #[inline(always)]
    fn store(self, out: &mut [f32], values: Self::Floats) {
        out[..LANES].copy_from_slice(&values);
    }

    #[inline(always)]
    fn load_bf16(self, values: &[Bf16]) -> Self::Floats {
        std::array::from_fn(|lane| values[lane].to_f32())
    }

    #[inline(always)]
    fn store_bf16(self, out: &mut [Bf16], values: Self::Floats) {
        out[..LANES].copy_from_slice(&map(Bf16::from_f32, values));
    }

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the values are whole, from 0 to 255")]
    fn store_u8(self, out: &mut [u8], values: Self::Floats) {
        out[..LANES].copy_from_slice(&map(|value| value as u8, values));
    }

    #[inline(always)]
    fn store_i8(self, out: &mut [u8], values: Self::Floats) {
        self.store_u8(out, values);
        out[..LANES].iter_mut().for_each(|byte| *byte ^= 0x80);
    }

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the values are whole, from 0 to 255")]
    fn store_i16(self, out: &mut [i16], values: Self::Floats) {
        out[..LANES].copy_from_slice(&map(|value| value as i16, values));
    }

    #[inline(always)]
    fn add(self, a: Self::Floats, b: Self::Floats) -> Self::Floats {
        zip_map(|a, b| a + b, a, b)
    }

    #[inline(always)]
    fn sub(self, a: Self::Floats, b: Self::Floats) -> Self::Floats {
        zip_map(|a, b| a - b, a, b)
    }

    #[inline(always)]
    fn mul(self, a: Self::Floats, b: Self::Floats) -> Self::Floats {
        zip_map(|a, b| a * b, a, b)
    }

    #[inline(always)]
    fn div(self, a: Self::Floats, b: Self::Floats) -> Self::Floats {
        zip_map(|a, b| a / b, a, b)
    }

    #[inline(always)]
    fn mul_add(self, a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats {
        self.add(self.mul(a, b), c)
    }

    #[inline(always)]
    fn max(self, a: Self::Floats, b: Self::Floats) -> Self::Floats {
        zip_map(|a, b| if a > b { a } else { b }, a, b)
    }

    #[inline(always)]
    fn min(self, a: Self::Floats, b: Self::Floats) -> Self::Floats {
        zip_map(|a, b| if a < b { a } else { b }, a, b)
    }

    #[inline(always)]
    fn round(self, a: Self::Floats) -> Self::Floats {
        map(round, a)
    }

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the values are whole, from -126 to 127")]
    fn exp2_integer(self, a: Self::Floats) -> Self::Floats {
        map(|a| f32::from_bits(((a as i32 + 127) << 23).cast_unsigned()), a)
    }

    #[inline(always)]
    fn select_negative(self, of: Self::Floats, negative: Self::Floats, otherwise: Self::Floats) -> Self::Floats {
        std::array::from_fn(|lane| if of[lane] < 0.0 { negative[lane] } else { otherwise[lane] })
    }

    #[inline(always)]
    fn reduce_add(self, a: Self::Floats) -> f32 {
        a.iter().sum()
    }

    #[inline(always)]
    fn reduce_max(self, a: Self::Floats) -> f32 {
        a.into_iter().fold(f32::NEG_INFINITY, f32::max)
    }

    #[inline(always)]
    fn reduce_min(self, a: Self::Floats) -> f32 {
        a.into_iter().fold(f32::INFINITY, f32::min)
    }

    #[inline(always)]
    fn splat_word(self, word: u32) -> Self::Words {
        [word; LANES]
    }

    #[inline(always)]
    fn load_words(self, words: &[u32]) -> Self::Words {
        std::array::from_fn(|lane| words[lane])
    }

    #[inline(always)]
    fn words_as_floats(self, words: Self::Words) -> Self::Floats {
        map(f32::from_bits, words)
    }

    #[inline(always)]
    #[expect(clippy::cast_precision_loss, reason = "as all sets convert")]
    fn words_to_floats(self, words: Self::Words) -> Self::Floats {
        map(|word| word.cast_signed() as f32, words)
    }

    #[inline(always)]
    fn dot_bf16(self, a: Self::Words, b: Self::Words, c: Self::Floats) -> Self::Floats {
        let low = |words| map(|word: u32| f32::from_bits(word << 16), words);
        let high = |words| map(|word: u32| f32::from_bits(word & 0xffff_0000), words);
        self.mul_add(high(a), high(b), self.mul_add(low(a), low(b), c))
    }

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "a word has two halves")]
    fn dot_bytes(self, a: Self::Words, b: Self::Words, c: Self::Words) -> Self::Words {
        let half = |word: u32, half: u32| i32::from(((word >> half) as u16).cast_signed());
        let product = |a, b, at| half(a, at).wrapping_mul(half(b, at));
        std::array::from_fn(|lane| {
            let (a, b) = (a[lane], b[lane]);
            let sum = c[lane].cast_signed().wrapping_add(product(a, b, 0)).wrapping_add(product(a, b, 16));
            sum.cast_unsigned()
        })
    }
}
