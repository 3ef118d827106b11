//! Norms of tokens: of a sum, of the embeddings, and before or after a layer.

use crate::product::Element;
use crate::vector::{MAX_LANES, Simd, Task};

/// A norm over rows that are padded with zeros: a layer norm, or by the root of the mean square.
#[derive(Debug)]
pub struct LayerNorm {
    /// Zero for the padding, and so is `bias`.
    weight: Vec<f32>,
    bias: Vec<f32>,
    /// Values in a row, without padding.
    width: usize,
    epsilon: f32,
    /// Whether the mean is subtracted.
    centres: bool,
}

impl LayerNorm {
    pub fn new(mut weight: Vec<f32>, mut bias: Vec<f32>, epsilon: f32, padded_width: usize) -> Self {
        let width = weight.len();
        weight.resize(padded_width, 0.0);
        bias.resize(padded_width, 0.0);
        Self { weight, bias, width, epsilon, centres: true }
    }

    /// By the root of the mean square, without subtracting the mean, and without a bias.
    pub fn root_mean_square(weight: Vec<f32>, epsilon: f32, padded_width: usize) -> Self {
        let bias = vec![0.0; weight.len()];
        Self { centres: false, ..Self::new(weight, bias, epsilon, padded_width) }
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
    pub(crate) fn normalize<S: Simd, E: Element>(&self, simd: S, sums: &[f32], total: S::Floats, row: &mut [E]) {
        #[expect(clippy::cast_precision_loss, reason = "rows are far shorter than float32 counts exactly")]
        let inverse_width = 1.0 / self.width as f32;
        let mean = if self.centres { simd.splat(simd.reduce_add(total) * inverse_width) } else { simd.splat(0.0) };
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

/// The norm of each row of float32, or the rows themselves without one.
#[derive(Debug)]
pub struct NormRows<'call, E> {
    pub input: &'call [f32],
    pub output: &'call mut [E],
    pub norm: Option<&'call LayerNorm>,
    /// Values in a row, with padding.
    pub width: usize,
}

impl<E: Element> Task for NormRows<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { input, output, norm, width } = self;
        for (input, output) in input.chunks_exact(width).zip(output.chunks_exact_mut(width)) {
            if let Some(norm) = norm {
                NormRow { input, output, norm }.run(simd);
            } else {
                let registers = output.chunks_exact_mut(S::LANES).zip(input.chunks_exact(S::LANES));
                registers.for_each(|(output, input)| E::store(simd, output, simd.load(input)));
            }
        }
    }
}

/// Adds rows, or their norms, to a sum in float32.
#[derive(Debug)]
pub struct AddRows<'call, E> {
    pub rows: &'call [E],
    pub sum: &'call mut [f32],
    pub norm: Option<&'call LayerNorm>,
    /// Values in a row, with padding.
    pub width: usize,
    /// Scratch space for two rows.
    pub scratch: &'call mut Vec<f32>,
}

impl<E: Element> Task for AddRows<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { rows, sum, norm, width, scratch } = self;
        scratch.resize(2 * width, 0.0);
        let (input, normalized) = scratch.split_at_mut(width);
        for (row, sum) in rows.chunks_exact(width).zip(sum.chunks_exact_mut(width)) {
            for (values, input) in row.chunks_exact(S::LANES).zip(input.chunks_exact_mut(S::LANES)) {
                simd.store(input, E::load(simd, values));
            }
            let added = match norm {
                Some(norm) => {
                    NormRow { input, output: normalized, norm }.run(simd);
                    &*normalized
                }
                None => &*input,
            };
            for (sum, added) in sum.chunks_exact_mut(S::LANES).zip(added.chunks_exact(S::LANES)) {
                let value = simd.add(simd.load(sum), simd.load(added));
                simd.store(sum, value);
            }
        }
    }
}
