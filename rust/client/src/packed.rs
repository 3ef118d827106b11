//! Packed vectors: values that stay bytes, for callers who want float16, int8 or bits.
//!
//! The body must have exactly the length of its headers. Floats must be finite, and bits after the last value must be zero.

use half::{bf16, f16};
use pullquote_core::error::Result;

use crate::raw::{Dtype, EmbeddingHeaders, bad};

/// Writes a body into its place in the array.
pub struct PackedBodyWriter<'place> {
    headers: EmbeddingHeaders,
    place: &'place mut [u8],
    filled: usize,
}

impl<'place> PackedBodyWriter<'place> {
    /// A writer into `place`, which must have exactly the body's length.
    pub fn new(headers: EmbeddingHeaders, place: &'place mut [u8]) -> Result<Self> {
        if place.len() != headers.bytes() {
            return Err(bad(format!(
                "its vectors have {} values, and others of this call have another number",
                headers.dimension
            )));
        }
        Ok(Self { headers, place, filled: 0 })
    }

    /// Writes the next bytes of the body.
    pub fn write(&mut self, chunk: &[u8]) -> Result<()> {
        let (begin, end) = (self.filled, self.headers.filled(self.filled, chunk)?);
        self.place[begin..end].copy_from_slice(chunk);
        self.filled = end;
        Ok(())
    }

    /// Checks the whole body.
    pub fn finish(self) -> Result<()> {
        self.headers.check_length(self.filled)?;
        let EmbeddingHeaders { dimension, dtype, .. } = self.headers;
        let is_invalid = |row: &[u8]| match dtype {
            Dtype::Float32 => row.as_chunks().0.iter().any(|four| !f32::from_le_bytes(*four).is_finite()),
            Dtype::Float16 => row.as_chunks().0.iter().any(|two| !f16::from_le_bytes(*two).is_finite()),
            Dtype::Bfloat16 => row.as_chunks().0.iter().any(|two| !bf16::from_le_bytes(*two).is_finite()),
            Dtype::Int8 => false,
            Dtype::Binary => row.last().is_some_and(|last| dimension % 8 != 0 && last << (dimension % 8) != 0),
        };
        match self.place.chunks(dtype.row_bytes(dimension).max(1)).position(is_invalid) {
            None => Ok(()),
            Some(row) if dtype == Dtype::Binary => {
                Err(bad(format!("the vector of row {row} has bits after its {dimension} values")))
            }
            Some(row) => Err(bad(format!("the vector of row {row} has a value that is not finite"))),
        }
    }
}
