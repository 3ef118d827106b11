//! Layer norms: of a sum, and of what goes into the first layer.

use crate::product::Element;
use crate::vector::{MAX_LANES, Simd, Task};

/// A layer norm over rows that are filled up with zeros.
#[derive(Debug)]
pub struct Norm {
    /// What normal values are multiplied by; zero for what fills up.
    weight: Vec<f32>,
    /// What is added then; zero for what fills up.
    bias: Vec<f32>,
    /// Values in a row, without those that fill up.
    width: usize,
    /// Added to the variance.
    epsilon: f32,
}

impl Norm {
    /// From what a model's file says; rows will be `filled` long.
    #[must_use]
    pub fn new(mut weight: Vec<f32>, mut bias: Vec<f32>, epsilon: f32, filled: usize) -> Self {
        let width = weight.len();
        weight.resize(filled, 0.0);
        bias.resize(filled, 0.0);
        Self { weight, bias, width, epsilon }
    }

    /// How large each value may become: normal ones seldom lie beyond three.
    #[must_use]
    pub fn reach(&self) -> Vec<f32> {
        self.weight.iter().zip(&self.bias).map(|(weight, bias)| 3.0 * weight.abs() + bias.abs()).collect()
    }

    /// Values in a row, with those that fill up.
    #[must_use]
    pub fn filled(&self) -> usize {
        self.weight.len()
    }

    /// The norm of a row of sums, of which `total` is the sum of all lanes.
    #[inline(always)]
    pub(crate) fn normalize<S: Simd, E: Element>(&self, simd: S, sums: &[f32], total: S::Floats, row: &mut [E]) {
        #[expect(clippy::cast_precision_loss, reason = "rows are far shorter than float32 counts exactly")]
        let share = 1.0 / self.width as f32;
        let mean = simd.splat(simd.reduce_add(total) * share);
        let mut squares = simd.splat(0.0);
        let full = self.width / S::LANES * S::LANES;
        for sums in sums[..full].chunks_exact(S::LANES) {
            let off = simd.sub(simd.load(sums), mean);
            squares = simd.mul_add(off, off, squares);
        }
        let mut squares = simd.reduce_add(squares);
        if full < self.width {
            let mut off = [0.0; MAX_LANES];
            simd.store(&mut off, simd.sub(simd.load(&sums[full..]), mean));
            squares += off[..self.width - full].iter().map(|off| off * off).sum::<f32>();
        }
        let scale = simd.splat(1.0 / (squares * share + self.epsilon).sqrt());
        let numbers = self.weight.chunks_exact(S::LANES).zip(self.bias.chunks_exact(S::LANES));
        for ((values, sums), (weight, bias)) in
            row.chunks_exact_mut(S::LANES).zip(sums.chunks_exact(S::LANES)).zip(numbers)
        {
            let normal = simd.mul(simd.sub(simd.load(sums), mean), scale);
            E::store(simd, values, simd.mul_add(normal, simd.load(weight), simd.load(bias)));
        }
    }
}

/// The norm of `rows + residual`, in the place of the rows.
#[derive(Debug)]
pub struct AddNorm<'call, E> {
    /// The rows.
    pub rows: &'call mut [E],
    /// As long as the rows.
    pub residual: &'call [E],
    /// The norm.
    pub norm: &'call Norm,
    /// A place for one row.
    pub sums: &'call mut Vec<f32>,
}

impl<E: Element> Task for AddNorm<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { rows, residual, norm, sums } = self;
        sums.resize(norm.filled(), 0.0);
        for (row, residual) in rows.chunks_exact_mut(norm.filled()).zip(residual.chunks_exact(norm.filled())) {
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

/// The norm of a row of float32, which is filled up with zeros.
#[derive(Debug)]
pub struct NormOf<'call, E> {
    /// The row.
    pub sums: &'call [f32],
    /// Where its norm goes.
    pub row: &'call mut [E],
    /// The norm.
    pub norm: &'call Norm,
}

impl<E: Element> Task for NormOf<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { sums, row, norm } = self;
        let add = |total, sums: &[f32]| simd.add(total, simd.load(sums));
        let total = sums.chunks_exact(S::LANES).fold(simd.splat(0.0), add);
        norm.normalize(simd, sums, total, row);
    }
}
