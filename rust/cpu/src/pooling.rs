//! From the vectors of a row's tokens to one vector, in float32 whatever they came in.

use pullquote_core::encoder::model::Pooling;

use crate::product::Element;
use crate::vector::{Simd, Task};

/// What `torch.nn.functional.normalize` takes for the least length.
const LEAST_LENGTH: f32 = 1e-12;

/// Pools a row's tokens.
#[derive(Debug)]
pub struct Pool<'call, E> {
    /// `[length, filled]`
    pub tokens: &'call [E],
    /// `[filled]`
    pub vector: &'call mut [f32],
    /// How.
    pub pooling: Pooling,
    /// Whether the vector is brought to length one.
    pub normalize: bool,
}

impl<E: Element> Task for Pool<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { tokens, vector, pooling, normalize } = self;
        let filled = vector.len();
        let count = tokens.len() / filled;
        #[expect(clippy::cast_precision_loss, reason = "rows are far shorter than float32 counts exactly")]
        let share = simd.splat(1.0 / count as f32);
        let mut squares = simd.splat(0.0);
        for (start, place) in (0..).step_by(S::LANES).zip(vector.chunks_exact_mut(S::LANES)) {
            let token = |token: usize| E::load(simd, &tokens[token * filled + start..]);
            let pooled = match pooling {
                Pooling::Mean => simd.mul((1..count).fold(token(0), |sum, next| simd.add(sum, token(next))), share),
                Pooling::Max => {
                    let most = (1..count).fold(token(0), |most, next| simd.max(most, token(next)));
                    // Zero, or NaN where any is: the maximum would pass over it.
                    let poison = |sum, next| simd.mul_add(token(next), simd.splat(0.0), sum);
                    simd.add(most, (0..count).fold(simd.splat(0.0), poison))
                }
                Pooling::Cls => token(0),
                Pooling::Last => token(count - 1),
            };
            simd.store(place, pooled);
            squares = simd.mul_add(pooled, pooled, squares);
        }
        if normalize {
            let scale = simd.splat(1.0 / simd.reduce_add(squares).sqrt().max(LEAST_LENGTH));
            for place in vector.chunks_exact_mut(S::LANES) {
                let scaled = simd.mul(simd.load(place), scale);
                simd.store(place, scaled);
            }
        }
    }
}
