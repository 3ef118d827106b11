//! From the vectors of a row's tokens to one vector, in float32 whatever type they have.

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
    fn run<S: Simd>(self, simd: S) {
        let Self { tokens, vector, pooling, normalize } = self;
        let width = vector.len();
        let count = tokens.len() / width;
        #[expect(clippy::cast_precision_loss, reason = "rows are far shorter than float32 counts exactly")]
        let inverse_count = simd.splat(1.0 / count as f32);
        let mut squares = simd.splat(0.0);
        for (start, out) in (0..).step_by(S::LANES).zip(vector.chunks_exact_mut(S::LANES)) {
            let token = |token: usize| E::load(simd, &tokens[token * width + start..]);
            let pooled = match pooling {
                Pooling::Mean => {
                    simd.mul((1..count).fold(token(0), |sum, next| simd.add(sum, token(next))), inverse_count)
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
            let scale = simd.splat(1.0 / simd.reduce_add(squares).sqrt().max(MIN_NORM));
            for values in vector.chunks_exact_mut(S::LANES) {
                let scaled = simd.mul(simd.load(values), scale);
                simd.store(values, scaled);
            }
        }
    }
}
