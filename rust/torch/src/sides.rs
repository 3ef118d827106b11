//! The sides of a tensor, without memory of their own: tch answers with a new `Vec` each time, several times a layer.

use std::ops::Deref;

use tch::{TchError, Tensor};

use crate::failure::TorchResult;

/// No tensor here has more sides: heads of rows, three times.
const MOST: usize = 5;

/// How long each side of a tensor is.
#[derive(Clone, Copy, Debug)]
pub struct Sides {
    lengths: [i64; MOST],
    count: usize,
}

impl Sides {
    /// The same, but for the last one.
    #[must_use]
    pub fn with_last(mut self, length: i64) -> Self {
        if let Some(last) = self.lengths[..self.count].last_mut() {
            *last = length;
        }
        self
    }
}

impl Deref for Sides {
    type Target = [i64];

    fn deref(&self) -> &[i64] {
        &self.lengths[..self.count]
    }
}

/// The sides of a tensor, as [`Tensor::size`] says them.
///
/// # Errors
/// Where it has more than any tensor here.
pub fn sides(tensor: &Tensor) -> TorchResult<Sides> {
    let count = tensor.dim();
    if count > MOST {
        return Err(TchError::Shape(format!("expected at most {MOST} sides, found {count}")));
    }
    let mut lengths = [0; MOST];
    // SAFETY: the tensor is alive, torch only reads it, and writes as many lengths as it has sides, which fit.
    unsafe { torch_sys::at_shape(tensor.as_ptr().cast_mut(), lengths.as_mut_ptr()) };
    Ok(Sides { lengths, count })
}

/// The sides of a table.
///
/// # Errors
/// Where it is none.
pub fn two_sides(tensor: &Tensor) -> TorchResult<(i64, i64)> {
    let sides = sides(tensor)?;
    match *sides {
        [rows, columns] => Ok((rows, columns)),
        _ => Err(TchError::Shape(format!("expected two sides, found {sides:?}"))),
    }
}

/// How many values a tensor has, as [`Tensor::numel`] says it.
///
/// # Errors
/// As [`sides`].
pub fn count(tensor: &Tensor) -> TorchResult<usize> {
    let count: i64 = sides(tensor)?.iter().product();
    usize::try_from(count).map_err(|_| TchError::Shape(format!("{count} is no number of values")))
}
