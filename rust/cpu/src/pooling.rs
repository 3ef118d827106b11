//! From the vectors of a row's tokens to one vector, in float32 whatever type they have, and to unit length.

use pullquote_core::encoder::model::Pooling;

use crate::product::Element;
use crate::vector::{Simd, Task};

/// The `eps` of `torch.nn.functional.normalize`.
const MIN_NORM: f32 = 1e-12;

/// Pools a row's tokens.
#[derive(Debug)]
pub struct Pool<'call, E> {
    /// `[length, padded width]`
    pub tokens: &'call [E],
    /// `[padded width]`
    pub vector: &'call mut [f32],
    pub pooling: Pooling,
    /// Divide the vector by its L2 norm.
    pub normalize: bool,
}

impl<E: Element> Task for Pool<'_, E> {
    type Output = ();

    #[inline(always)]
    #[expect(clippy::cast_precision_loss, reason = "rows are far shorter than float32 counts exactly")]
    fn run<S: Simd>(self, simd: S) {
        let Self { tokens, vector, pooling, normalize } = self;
        let width = vector.len();
        let count = tokens.len() / width;
        let divisor = match pooling {
            Pooling::MeanSqrtLength => (count as f32).sqrt(),
            Pooling::WeightedMean => (count * (count + 1) / 2) as f32,
            Pooling::Mean | Pooling::Cls | Pooling::Max | Pooling::Last => count as f32,
        };
        let inverse = simd.splat(1.0 / divisor);
        let mut squares = simd.splat(0.0);
        for (start, out) in (0..).step_by(S::LANES).zip(vector.chunks_exact_mut(S::LANES)) {
            let token = |token: usize| E::load(simd, &tokens[token * width + start..]);
            let pooled = match pooling {
                Pooling::Mean | Pooling::MeanSqrtLength => {
                    simd.mul((1..count).fold(token(0), |sum, next| simd.add(sum, token(next))), inverse)
                }
                Pooling::WeightedMean => {
                    let add = |sum, next: usize| simd.mul_add(token(next), simd.splat((next + 1) as f32), sum);
                    simd.mul((1..count).fold(token(0), add), inverse)
                }
                Pooling::Max => {
                    let max = (1..count).fold(token(0), |max, next| simd.max(max, token(next)));
                    // Zero, or NaN where any value is: the maximum would drop it.
                    let nan_or_zero = |sum, next| simd.mul_add(token(next), simd.splat(0.0), sum);
                    simd.add(max, (0..count).fold(simd.splat(0.0), nan_or_zero))
                }
                Pooling::Cls => token(0),
                Pooling::Last => token(count - 1),
            };
            simd.store(out, pooled);
            squares = simd.mul_add(pooled, pooled, squares);
        }
        if normalize {
            scale_to_unit(simd, vector, squares);
        }
    }
}

/// Divides a vector, padded with zeros, by its L2 norm.
#[derive(Debug)]
pub struct Normalize<'call> {
    pub vector: &'call mut [f32],
}

impl Task for Normalize<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let add = |squares, values: &[f32]| simd.mul_add(simd.load(values), simd.load(values), squares);
        let squares = self.vector.chunks_exact(S::LANES).fold(simd.splat(0.0), add);
        scale_to_unit(simd, self.vector, squares);
    }
}

/// `squares` adds up to the square of the norm.
#[inline(always)]
fn scale_to_unit<S: Simd>(simd: S, vector: &mut [f32], squares: S::Floats) {
    let scale = simd.splat(1.0 / simd.reduce_add(squares).sqrt().max(MIN_NORM));
    for values in vector.chunks_exact_mut(S::LANES) {
        let scaled = simd.mul(simd.load(values), scale);
        simd.store(values, scaled);
    }
}
