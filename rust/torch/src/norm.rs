//! Layer norms, alone and of a sum.

use tch::Tensor;

use crate::failure::TorchResult;
use crate::kernels::{Kernels, Scratch};

/// A layer norm.
#[derive(Debug)]
pub struct Norm {
    /// `[width]`, in the activations' type.
    pub weight: Tensor,
    /// `[width]`, in the activations' type.
    pub bias: Tensor,
    /// Values in a row.
    pub width: i64,
    /// Added to the variance.
    pub epsilon: f64,
}

impl Norm {
    /// The norm of `rows + residual`, both `[…, width]`; the rows were made just now, and nobody else has them.
    ///
    /// # Errors
    /// Where torch has no memory.
    pub fn apply_to_sum(
        &self,
        mut rows: Tensor,
        residual: &Tensor,
        kernels: Option<Kernels>,
        scratch: &mut Scratch,
    ) -> TorchResult<Tensor> {
        if let Some(kernels) = kernels {
            kernels.add_norm(&mut rows, residual, self, scratch)?;
            return Ok(rows);
        }
        let _ = rows.f_add_(residual)?;
        rows.f_layer_norm(self.width, Some(&self.weight), Some(&self.bias), self.epsilon, false)
    }
}
