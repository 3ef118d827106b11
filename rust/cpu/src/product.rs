//! The innermost loop of all matrix products: a few rows of words on the left times a few registers of columns on the
//! right.
//!
//! A word is 32 bits: one float32, two bfloat16, or int8 in the form of [`Simd::BYTE_PRODUCT`]. Sums run from the first
//! word to the last, so a row's sums do not depend on the other rows of its batch.

use std::slice;

use crate::vector::{Bf16, Simd, Tile};

/// What the words of a product hold.
pub trait Operand {
    /// A register of sums.
    type Sum<S: Simd>: Copy;

    /// Rows and registers of a tile of sums.
    fn tile<S: Simd>() -> Tile {
        S::TILE
    }

    /// A sum of nothing.
    fn zero<S: Simd>(simd: S) -> Self::Sum<S>;

    /// `left · right + sum`, lane by lane.
    fn mul_add<S: Simd>(simd: S, left: S::Words, right: S::Words, sum: Self::Sum<S>) -> Self::Sum<S>;

    /// Sums as float32.
    fn to_floats<S: Simd>(simd: S, sum: Self::Sum<S>) -> S::Floats;
}

/// A type of activations.
pub trait Element: bytemuck::Pod + Send + Sync + std::fmt::Debug {
    /// How its words are multiplied.
    type Product: Operand;
    const ZERO: Self;
    /// Values in a word.
    const PER_WORD: usize = size_of::<u32>() / size_of::<Self>();

    /// Rounded to this type.
    fn from_f32(value: f32) -> Self;
    /// Widened, which is exact.
    fn to_f32(self) -> f32;
    /// A word of as many values as it holds, rounded to this type.
    fn word(values: &[f32]) -> u32;
    /// Reads a register of values.
    fn load<S: Simd>(simd: S, values: &[Self]) -> S::Floats;
    /// Writes a register of values.
    fn store<S: Simd>(simd: S, out: &mut [Self], values: S::Floats);
}

/// Words of one float32.
#[derive(Debug)]
pub struct Float32;

/// Words of two bfloat16.
#[derive(Debug)]
pub struct Bfloat16;

/// Words of int8, in the form of [`Simd::BYTE_PRODUCT`].
#[derive(Debug)]
pub struct Int8;

impl Operand for Float32 {
    type Sum<S: Simd> = S::Floats;

    #[inline(always)]
    fn zero<S: Simd>(simd: S) -> S::Floats {
        simd.splat(0.0)
    }

    #[inline(always)]
    fn mul_add<S: Simd>(simd: S, left: S::Words, right: S::Words, sum: S::Floats) -> S::Floats {
        simd.mul_add(simd.words_as_floats(left), simd.words_as_floats(right), sum)
    }

    #[inline(always)]
    fn to_floats<S: Simd>(_: S, sum: S::Floats) -> S::Floats {
        sum
    }
}

impl Operand for Bfloat16 {
    type Sum<S: Simd> = S::Floats;

    #[inline(always)]
    fn zero<S: Simd>(simd: S) -> S::Floats {
        simd.splat(0.0)
    }

    #[inline(always)]
    fn mul_add<S: Simd>(simd: S, left: S::Words, right: S::Words, sum: S::Floats) -> S::Floats {
        simd.dot_bf16(left, right, sum)
    }

    #[inline(always)]
    fn to_floats<S: Simd>(_: S, sum: S::Floats) -> S::Floats {
        sum
    }
}

impl Operand for Int8 {
    type Sum<S: Simd> = S::Words;

    fn tile<S: Simd>() -> Tile {
        S::BYTE_TILE
    }

    #[inline(always)]
    fn zero<S: Simd>(simd: S) -> S::Words {
        simd.splat_word(0)
    }

    #[inline(always)]
    fn mul_add<S: Simd>(simd: S, left: S::Words, right: S::Words, sum: S::Words) -> S::Words {
        simd.dot_bytes(left, right, sum)
    }

    #[inline(always)]
    fn to_floats<S: Simd>(simd: S, sum: S::Words) -> S::Floats {
        simd.words_to_floats(sum)
    }
}

impl Element for f32 {
    type Product = Float32;
    const ZERO: Self = 0.0;

    fn from_f32(value: f32) -> Self {
        value
    }

    fn to_f32(self) -> f32 {
        self
    }

    fn word(values: &[f32]) -> u32 {
        values[0].to_bits()
    }

    #[inline(always)]
    fn load<S: Simd>(simd: S, values: &[Self]) -> S::Floats {
        simd.load(values)
    }

    #[inline(always)]
    fn store<S: Simd>(simd: S, out: &mut [Self], values: S::Floats) {
        simd.store(out, values);
    }
}

impl Element for Bf16 {
    type Product = Bfloat16;
    const ZERO: Self = Self(0);

    fn from_f32(value: f32) -> Self {
        Self::from_f32(value)
    }

    fn to_f32(self) -> f32 {
        Self::to_f32(self)
    }

    fn word(values: &[f32]) -> u32 {
        let [low, high] = [values[0], values[1]].map(|value| u32::from(Self::from_f32(value).0));
        low | high << 16
    }

    #[inline(always)]
    fn load<S: Simd>(simd: S, values: &[Self]) -> S::Floats {
        simd.load_bf16(values)
    }

    #[inline(always)]
    fn store<S: Simd>(simd: S, out: &mut [Self], values: S::Floats) {
        simd.store_bf16(out, values);
    }
}

#[derive(Clone, Copy, Debug)]
pub struct WordMatrix<'words> {
    /// The words, from the matrix's first on.
    pub words: &'words [u32],
    /// Words from one row to the next.
    pub stride: usize,
}

/// Sums of products of `ROWS` rows of words on the left with `REGISTERS` registers of each of `depth` rows on the
/// right.
///
/// # Panics
/// Where a matrix is too short.
#[inline(always)]
pub fn product<S: Simd, O: Operand, const ROWS: usize, const REGISTERS: usize>(
    simd: S,
    left: WordMatrix<'_>,
    right: WordMatrix<'_>,
    depth: usize,
) -> [[O::Sum<S>; REGISTERS]; ROWS] {
    assert!((ROWS - 1) * left.stride + depth <= left.words.len(), "the left matrix is too short");
    assert!(
        depth == 0 || (depth - 1) * right.stride + REGISTERS * S::LANES <= right.words.len(),
        "the right matrix is too short"
    );
    let mut sums = [[O::zero(simd); REGISTERS]; ROWS];
    // Pointers, because the checks of indexes for overflow cost a third of the loop where two threads share a core.
    let (mut left_at, mut right_at) = (left.words.as_ptr(), right.words.as_ptr());
    for _ in 0..depth {
        let mut columns = [simd.splat_word(0); REGISTERS];
        for (register, column) in columns.iter_mut().enumerate() {
            // SAFETY: checked above.
            *column = simd.load_words(unsafe { slice::from_raw_parts(right_at.add(register * S::LANES), S::LANES) });
        }
        for (row, sums) in sums.iter_mut().enumerate() {
            // SAFETY: checked above.
            let word = simd.splat_word(unsafe { *left_at.add(row.wrapping_mul(left.stride)) });
            for (sum, column) in sums.iter_mut().zip(columns) {
                *sum = O::mul_add(simd, word, column, *sum);
            }
        }
        (left_at, right_at) = (left_at.wrapping_add(1), right_at.wrapping_add(right.stride));
    }
    sums
}

/// Calls `$function::<…, ROWS, REGISTERS>` with the rows of the set's tile and this number of registers.
macro_rules! with_tile {
    ($tile:expr, $registers:expr, $function:ident::<$($type:ty),*>($($argument:expr),* $(,)?)) => {
        match ($tile, $registers) {
            (Tile::EightByThree, 3) => $function::<$($type,)* 8, 3>($($argument),*),
            (Tile::EightByThree, 2) => $function::<$($type,)* 8, 2>($($argument),*),
            (Tile::EightByThree, _) => $function::<$($type,)* 8, 1>($($argument),*),
            (Tile::SixByTwo, 2) => $function::<$($type,)* 6, 2>($($argument),*),
            (Tile::SixByTwo, _) => $function::<$($type,)* 6, 1>($($argument),*),
            (Tile::ThreeByThree, 3) => $function::<$($type,)* 3, 3>($($argument),*),
            (Tile::ThreeByThree, 2) => $function::<$($type,)* 3, 2>($($argument),*),
            (Tile::ThreeByThree, _) => $function::<$($type,)* 3, 1>($($argument),*),
            (Tile::FourByTwo, 2) => $function::<$($type,)* 4, 2>($($argument),*),
            (Tile::FourByTwo, _) => $function::<$($type,)* 4, 1>($($argument),*),
        }
    };
}
pub(crate) use with_tile;
