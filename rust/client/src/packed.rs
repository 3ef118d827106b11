//! Packed vectors: bytes of values that stay as they travelled, for callers who want float16, int8 or bits.
//!
//! What can be checked of them is: that they are of the type that was asked for, exactly as many as claimed, no halves that are
//! no numbers, and no bits where no value is.

use half::{bf16, f16};
use pullquote_core::error::Result;

use crate::raw::{Dtype, EmbeddingHeaders, bad};

/// A body on its way to its place, byte by byte.
pub struct Packing<'place> {
    claim: EmbeddingHeaders,
    place: &'place mut [u8],
    /// Bytes that came.
    filled: usize,
}

impl<'place> Packing<'place> {
    /// A way to a place that has room for exactly what is claimed.
    ///
    /// # Errors
    /// [`pullquote_core::error::ErrorKind::BadAnswer`] where the claim does not fit the place.
    pub fn new(claim: EmbeddingHeaders, place: &'place mut [u8]) -> Result<Self> {
        if place.len() != claim.bytes() {
            return Err(bad(format!(
                "its vectors have {} values, where others of this call have another count",
                claim.dimension
            )));
        }
        Ok(Self { claim, place, filled: 0 })
    }

    /// The next bytes of the body.
    ///
    /// # Errors
    /// [`pullquote_core::error::ErrorKind::BadAnswer`] where there are more than claimed.
    pub fn write(&mut self, chunk: &[u8]) -> Result<()> {
        let (begin, end) = (self.filled, self.claim.filled(self.filled, chunk)?);
        self.place[begin..end].copy_from_slice(chunk);
        self.filled = end;
        Ok(())
    }

    /// The body has ended.
    ///
    /// # Errors
    /// [`pullquote_core::error::ErrorKind::BadAnswer`] where it was too short, or has what its type cannot have.
    pub fn finish(self) -> Result<()> {
        self.claim.ended(self.filled)?;
        let EmbeddingHeaders { dimension, dtype, .. } = self.claim;
        let is_wrong = |row: &[u8]| match dtype {
            Dtype::Float32 => row.as_chunks().0.iter().any(|four| !f32::from_le_bytes(*four).is_finite()),
            Dtype::Float16 => row.as_chunks().0.iter().any(|two| !f16::from_le_bytes(*two).is_finite()),
            Dtype::Bfloat16 => row.as_chunks().0.iter().any(|two| !bf16::from_le_bytes(*two).is_finite()),
            Dtype::Int8 => false,
            Dtype::Binary => row.last().is_some_and(|last| dimension % 8 != 0 && last << (dimension % 8) != 0),
        };
        match self.place.chunks(dtype.row_bytes(dimension).max(1)).position(is_wrong) {
            None => Ok(()),
            Some(row) if dtype == Dtype::Binary => {
                Err(bad(format!("the vector of row {row} has bits behind its {dimension} values")))
            }
            Some(row) => Err(bad(format!("the vector of row {row} has a value that is no finite number"))),
        }
    }
}
