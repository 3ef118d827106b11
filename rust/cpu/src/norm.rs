//! Layer norms: of a sum, and of the embeddings.

use crate::product::Element;
use crate::vector::{MAX_LANES, Simd, Task};

/// A layer norm over rows that are padded with zeros.
#[derive(Debug)]
pub struct LayerNorm {
    /// Zero for the padding, and so is `bias`.
    weight: Vec<f32>,
    bias: Vec<f32>,
    /// Values in a row, without padding.
    width: usize,
    epsilon: f32,
}

impl LayerNorm {
    pub fn new(mut weight: Vec<f32>, mut bias: Vec<f32>, epsilon: f32, padded_width: usize) -> Self {
        let width = weight.len();
        weight.resize(padded_width, 0.0);
        bias.resize(padded_width, 0.0);
        Self { weight, bias, width, epsilon }
    }

    /// How large each output may become: normalized values seldom lie beyond three.
    pub fn output_bounds(&self) -> Vec<f32> {
        self.weight.iter().zip(&self.bias).map(|(weight, bias)| 3.0 * weight.abs() + bias.abs()).collect()
    }

    pub fn padded_width(&self) -> usize {
        self.weight.len()
    }

    /// The norm of a row of sums; the lanes of `total` add up to the sum of the row.
    #[inline(always)]
    fn normalize<S: Simd, E: Element>(&self, simd: S, sums: &[f32], total: S::Floats, row: &mut [E]) {
        #[expect(clippy::cast_precision_loss, reason = "rows are far shorter than float32 counts exactly")]
        let inverse_width = 1.0 / self.width as f32;
        let mean = simd.splat(simd.reduce_add(total) * inverse_width);
        let mut squares = simd.splat(0.0);
        let full = self.width / S::LANES * S::LANES;
        for sums in sums[..full].chunks_exact(S::LANES) {
            let centred = simd.sub(simd.load(sums), mean);
            squares = simd.mul_add(centred, centred, squares);
        }
        let mut squares = simd.reduce_add(squares);
        if full < self.width {
            let mut centred = [0.0; MAX_LANES];
            simd.store(&mut centred, simd.sub(simd.load(&sums[full..]), mean));
            squares += centred[..self.width - full].iter().map(|value| value * value).sum::<f32>();
        }
        let scale = simd.splat(1.0 / (squares * inverse_width + self.epsilon).sqrt());
        let parameters = self.weight.chunks_exact(S::LANES).zip(self.bias.chunks_exact(S::LANES));
        for ((values, sums), (weight, bias)) in
            row.chunks_exact_mut(S::LANES).zip(sums.chunks_exact(S::LANES)).zip(parameters)
        {
            let normalized = simd.mul(simd.sub(simd.load(sums), mean), scale);
            E::store(simd, values, simd.mul_add(normalized, simd.load(weight), simd.load(bias)));
        }
    }
}

/// The norm of `rows + residual`, written over the rows.
#[derive(Debug)]
pub struct AddNorm<'call, E> {
    pub rows: &'call mut [E],
    pub residual: &'call [E],
    pub norm: &'call LayerNorm,
    /// Scratch space for one row.
    pub sums: &'call mut Vec<f32>,
}

impl<E: Element> Task for AddNorm<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { rows, residual, norm, sums } = self;
        let width = norm.padded_width();
        sums.resize(width, 0.0);
        for (row, residual) in rows.chunks_exact_mut(width).zip(residual.chunks_exact(width)) {
            let mut total = simd.splat(0.0);
            let pairs = row.chunks_exact(S::LANES).zip(residual.chunks_exact(S::LANES));
            for ((value, residual), sum) in pairs.zip(sums.chunks_exact_mut(S::LANES)) {
                let added = simd.add(E::load(simd, value), E::load(simd, residual));
                simd.store(sum, added);
                total = simd.add(total, added);
            }
            norm.normalize(simd, sums, total, row);
        }
    }
}

/// The norm of a row of float32, padded with zeros.
#[derive(Debug)]
pub struct NormRow<'call, E> {
    pub input: &'call [f32],
    pub output: &'call mut [E],
    pub norm: &'call LayerNorm,
}

impl<E: Element> Task for NormRow<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { input, output, norm } = self;
        let add = |total, values: &[f32]| simd.add(total, simd.load(values));
        let total = input.chunks_exact(S::LANES).fold(simd.splat(0.0), add);
        norm.normalize(simd, input, total, output);
    }
}
