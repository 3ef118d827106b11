//! SIMD registers, and the operations of each instruction set on them.
//!
//! The kernels of this crate are written once, against [`Simd`], and each instruction set implements it once. Only
//! `detect` makes a value of such a type, so the value proves that this processor has the instructions, and its methods
//! are safe to call. They become single instructions only where they are inlined into [`Simd::vectorize`], which is
//! compiled for the set. So everything that a [`Task`] calls with its registers is `#[inline(always)]`.

/// Implements the methods of a set by its instructions.
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
macro_rules! instructions {
    ($($name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? $body:block)*) => {$(
        #[inline(always)]
        #[allow(unused_unsafe, reason = "a few are safe by themselves")]
        fn $name(self, $($argument: $type),*) $(-> $result)? {
            // SAFETY: `self` proves that the processor has the instructions. Each slice is checked to hold as many
            // values as are read or written.
            unsafe { $body }
        }
    )*};
}

#[cfg(target_arch = "aarch64")]
pub mod neon;
pub mod portable;
#[cfg(target_arch = "x86_64")]
pub mod x86;

/// A bfloat16, as its bits: the upper half of a float32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub struct Bf16(pub u16);

impl Bf16 {
    /// Rounds to nearest even; NaN stays NaN. As `half` rounds, in a form that compilers turn into vector instructions.
    #[inline]
    pub fn from_f32(value: f32) -> Self {
        let bits = value.to_bits();
        let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1));
        Self(((if value.is_nan() { bits | 0x40_0000 } else { rounded }) >> 16) as u16)
    }

    /// Widens, which is exact.
    #[inline]
    pub fn to_f32(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }
}

/// Work that is compiled for each instruction set.
pub trait Task {
    type Output;

    /// Runs the task. Implementations are `#[inline(always)]`.
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

/// An instruction set. Methods use the first [`Simd::LANES`] values of a slice, and panic where it has fewer.
pub trait Simd: Copy + Send + Sync + std::fmt::Debug + 'static {
    /// float32 in a register; never more than [`MAX_LANES`].
    const LANES: usize;
    /// The tile of a product that fills the registers: rows on the left, and registers on the right.
    const TILE: Tile;
    /// Whether bfloat16 is multiplied in pairs by one instruction.
    const HAS_BF16: bool;
    /// How int8 is multiplied.
    const BYTE_PRODUCT: ByteProduct;
    /// Words of a block of rows that stays in the second cache while all weights pass: a quarter of 512 KiB.
    const BLOCK_WORDS: usize = 32 * 1024;
    /// The tile of products of bytes; its rows divide those of [`Simd::TILE`].
    const BYTE_TILE: Tile = Self::TILE;

    /// [`Simd::LANES`] float32.
    type Floats: Copy;
    /// [`Simd::LANES`] words of 32 bits: values of a narrower type side by side, or an int32.
    type Words: Copy;

    /// Runs a task in code that is compiled for this set.
    fn vectorize<T: Task>(self, task: T) -> T::Output;

    /// The same value in all lanes.
    fn splat(self, value: f32) -> Self::Floats;
    fn load(self, values: &[f32]) -> Self::Floats;
    fn store(self, out: &mut [f32], values: Self::Floats);
    /// Reads bfloat16, widened.
    fn load_bf16(self, values: &[Bf16]) -> Self::Floats;
    /// Writes bfloat16, rounded to nearest even.
    fn store_bf16(self, out: &mut [Bf16], values: Self::Floats);
    /// Writes integers from 0 to 255 as bytes.
    fn store_u8(self, out: &mut [u8], values: Self::Floats);
    /// Writes integers from 0 to 255, less 128, as bytes; only for [`ByteProduct::SignedQuads`].
    fn store_i8(self, out: &mut [u8], values: Self::Floats);
    /// Writes integers as int16.
    fn store_i16(self, out: &mut [i16], values: Self::Floats);

    fn add(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    fn sub(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    fn mul(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    fn div(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a · b + c`, rounded once where the set has an instruction for it.
    fn mul_add(self, a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats;
    /// The larger of both; `b` where either is NaN.
    fn max(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// The smaller of both; `b` where either is NaN.
    fn min(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// Rounds to the nearest even integer. The values lie within ±2²².
    fn round(self, a: Self::Floats) -> Self::Floats;
    /// 2 to the power of integers from -126 to 127.
    fn exp2_integer(self, a: Self::Floats) -> Self::Floats;
    /// `negative` in the lanes where `of` is below zero, `otherwise` in the others.
    fn select_negative(self, of: Self::Floats, negative: Self::Floats, otherwise: Self::Floats) -> Self::Floats;
    /// The sum of all lanes, always in the same order.
    fn reduce_add(self, a: Self::Floats) -> f32;
    /// The largest lane.
    fn reduce_max(self, a: Self::Floats) -> f32;
    /// The smallest lane.
    fn reduce_min(self, a: Self::Floats) -> f32;

    /// The same word in all lanes.
    fn splat_word(self, word: u32) -> Self::Words;
    fn load_words(self, words: &[u32]) -> Self::Words;
    /// Words that are float32.
    fn words_as_floats(self, words: Self::Words) -> Self::Floats;
    /// Words that are int32, converted.
    fn words_to_floats(self, words: Self::Words) -> Self::Floats;
    /// `c` plus the products of two pairs of bfloat16.
    fn dot_bf16(self, a: Self::Words, b: Self::Words, c: Self::Floats) -> Self::Floats;
    /// The int32 `c` plus the products of bytes, in the form of [`Simd::BYTE_PRODUCT`]; exact.
    fn dot_bytes(self, a: Self::Words, b: Self::Words, c: Self::Words) -> Self::Words;

    /// Prefetches a cache line that will be read.
    fn prefetch(self, out: *const u32) {
        let _ = out;
    }
}

/// The most lanes of any set. Rows of activations have a multiple of it, so that every set reads full registers.
pub const MAX_LANES: usize = 16;

/// How many sums of a product are kept in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tile {
    /// 8 rows by 3 registers: 24 sums, 3 of the right and one of the left are 28 of 32 registers.
    EightByThree,
    /// 6 rows by 2 registers: 12 sums, 2 of the right and one of the left are 15 of 16 registers.
    SixByTwo,
    /// 3 rows by 3 registers, where a product of bytes needs a register of its own and one of ones.
    ThreeByThree,
    /// 4 rows by 2 registers: for code in which the compiler chooses the registers.
    FourByTwo,
}

impl Tile {
    /// Rows on the left.
    pub const fn rows(self) -> usize {
        match self {
            Self::EightByThree => 8,
            Self::SixByTwo => 6,
            Self::ThreeByThree => 3,
            Self::FourByTwo => 4,
        }
    }

    /// Registers on the right.
    pub const fn registers(self) -> usize {
        match self {
            Self::EightByThree | Self::ThreeByThree => 3,
            Self::SixByTwo | Self::FourByTwo => 2,
        }
    }
}

/// How an instruction set multiplies activations of 0 to [`MAX_INPUT`](crate::linear::MAX_INPUT) with weights of -127
/// to 127.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteProduct {
    /// Four unsigned with four signed bytes in a word. Without VNNI they are added in int16 by twos first, which
    /// [`MAX_PAIR`](crate::linear::MAX_PAIR) keeps exact.
    Quads,
    /// Four signed with four signed bytes in a word: activations come less 128 (NEON's dot product).
    SignedQuads,
    /// Both widened to int16, two in a word.
    Pairs,
}

impl ByteProduct {
    /// Values in a word.
    pub const fn per_word(self) -> usize {
        match self {
            Self::Quads | Self::SignedQuads => 4,
            Self::Pairs => 2,
        }
    }
}
