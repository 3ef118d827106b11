//! Raw vectors: the headers that describe them, and the body on its way into the caller's array.
//!
//! A server is not trusted: the headers must name exactly the requested rows, the body must have exactly their length,
//! and every value must be finite. Bytes are copied once, from the network's buffer to their place in the array of
//! float32.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use pullquote_core::error::{Error, ErrorKind, Result};
use pullquote_wire::embedding_dtype::EmbeddingDtype;
use reqwest::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap};

/// Values of the longest vector. It limits the memory that a server can make a client allocate.
pub(crate) const MAX_DIMENSION: usize = 65_536;

/// The description of a body of vectors, from its headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmbeddingHeaders {
    pub rows: usize,
    pub dimension: usize,
    pub dtype: EmbeddingDtype,
    /// Texts that the server truncated at the model's limit, if it counts them.
    pub truncated: usize,
}

pub(crate) const OCTETS: &str = "application/octet-stream";

/// Whether this is the content type of raw vectors, with or without parameters.
pub(crate) fn is_octets(kind: &str) -> bool {
    kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(OCTETS)
}

impl EmbeddingHeaders {
    /// Reads the headers of an answer with this number of rows; `None` if its body is not raw vectors.
    pub fn read(headers: &HeaderMap, rows: usize) -> Result<Option<Self>> {
        let text = |name: &str| match headers.get(name) {
            None => Ok(None),
            Some(value) => {
                value.to_str().map(|text| Some(text.trim())).map_err(|_| bad(format!("its header {name} is not text")))
            }
        };
        let kind = text(CONTENT_TYPE.as_str())?.unwrap_or_default();
        if !is_octets(kind) {
            return Ok(None);
        }
        let is_encoded = |encoding: &&str| !encoding.eq_ignore_ascii_case("identity");
        if let Some(encoding) = text(CONTENT_ENCODING.as_str())?.filter(is_encoded) {
            return Err(bad(format!("its vectors are compressed by {encoding}, which the request does not accept")));
        }
        let wanted = |name: &str| text(name)?.ok_or_else(|| bad(format!("it has raw vectors but no header {name}")));
        let order = wanted("x-embedding-byte-order")?;
        if !order.eq_ignore_ascii_case("little") {
            return Err(bad(format!("it claims the byte order {order:?}; only \"little\" is supported")));
        }
        let named = wanted("x-embedding-dtype")?;
        let dtype = EmbeddingDtype::of_name(named)
            .ok_or_else(|| bad(format!("it claims values of {named:?}, an unknown type")))?;
        let shape = wanted("x-embedding-shape")?;
        let (stated, dimension) = shape
            .split_once(',')
            .and_then(|(rows, dimension)| Some((count(rows)?, count(dimension)?)))
            .ok_or_else(|| bad(format!("it claims the shape {shape:?}, which is not two counts")))?;
        if stated != rows {
            return Err(bad(format!("it claims {stated} rows for {rows} texts")));
        }
        if !(1..=MAX_DIMENSION).contains(&dimension) {
            return Err(bad(format!("it claims vectors of {dimension} values; 1 to {MAX_DIMENSION} are possible")));
        }
        let truncated = text("x-truncated")?.and_then(count).unwrap_or_default().min(rows);
        let headers = Self { rows, dimension, dtype, truncated };
        if let Some(length) = text(CONTENT_LENGTH.as_str())? {
            let expected = headers.bytes();
            if count(length) != Some(expected) {
                return Err(bad(format!("it claims {length} bytes for the shape {shape}, which needs {expected}")));
            }
        }
        Ok(Some(headers))
    }

    pub const fn bytes(&self) -> usize {
        self.rows * self.dtype.row_bytes(self.dimension)
    }

    /// Checks the values of a whole body: floats must be finite, and bits after the last value must be zero.
    pub fn check_values(&self, body: &[u8]) -> Result<()> {
        let Self { dimension, dtype, .. } = *self;
        // A whole row without a branch, so that the compiler vectorizes it.
        let is_invalid = |row: &[u8]| match dtype {
            EmbeddingDtype::Float32 => {
                row.as_chunks().0.iter().fold(false, |wrong, four| wrong | !f32::from_le_bytes(*four).is_finite())
            }
            EmbeddingDtype::Float16 => {
                row.as_chunks().0.iter().fold(false, |wrong, two| wrong | !f16::from_le_bytes(*two).is_finite())
            }
            EmbeddingDtype::Bfloat16 => {
                row.as_chunks().0.iter().fold(false, |wrong, two| wrong | !bf16::from_le_bytes(*two).is_finite())
            }
            EmbeddingDtype::Int8 => false,
            EmbeddingDtype::Binary => row.last().is_some_and(|last| dimension % 8 != 0 && last << (dimension % 8) != 0),
        };
        match body.chunks(dtype.row_bytes(dimension).max(1)).position(is_invalid) {
            None => Ok(()),
            Some(row) if dtype == EmbeddingDtype::Binary => {
                Err(bad(format!("the vector of row {row} has bits after its {dimension} values")))
            }
            Some(row) => Err(not_finite(row)),
        }
    }

    pub(crate) fn wrong_dtype(&self, requested: EmbeddingDtype) -> Error {
        bad(format!("it claims values of {} instead of {}", self.dtype.name(), requested.name()))
    }
}

/// Writes a body into its place in the array, and checks it.
pub struct BodyWriter<'place> {
    headers: EmbeddingHeaders,
    place: &'place mut [u8],
    filled: usize,
}

impl<'place> BodyWriter<'place> {
    /// A writer into `place`, which must have exactly the body's length.
    pub fn new(headers: EmbeddingHeaders, place: &'place mut [u8]) -> Result<Self> {
        if place.len() != headers.bytes() {
            let dimension = headers.dimension;
            return Err(bad(format!(
                "its vectors have {dimension} values, and others of this call have another number"
            )));
        }
        Ok(Self { headers, place, filled: 0 })
    }

    pub fn write(&mut self, chunk: &[u8]) -> Result<()> {
        let expected = self.place.len();
        let Some(place) = self.place.get_mut(self.filled..self.filled + chunk.len()) else {
            return Err(bad(format!("its body continues after the {expected} bytes of its shape")));
        };
        place.copy_from_slice(chunk);
        self.filled += chunk.len();
        Ok(())
    }

    pub fn finish(self) -> Result<()> {
        let (filled, expected) = (self.filled, self.place.len());
        if filled != expected {
            return Err(bad(format!("its body ended after {filled} of {expected} bytes")));
        }
        self.headers.check_values(self.place)
    }
}

/// Widens a body of float16 or bfloat16 that was checked.
pub fn widen(dtype: EmbeddingDtype, body: &[u8], values: &mut [f32]) {
    let halves = body.as_chunks::<2>().0.iter();
    if dtype == EmbeddingDtype::Float16 {
        halves.map(|two| f16::from_le_bytes(*two)).collect::<Vec<_>>().convert_to_f32_slice(values);
    } else {
        halves.map(|two| bf16::from_le_bytes(*two)).collect::<Vec<_>>().convert_to_f32_slice(values);
    }
}

/// Turns little-endian values in memory into native ones.
pub(crate) fn to_native_endian(values: &mut [f32]) {
    if cfg!(target_endian = "big") {
        for value in values {
            *value = f32::from_bits(u32::from_le(value.to_bits()));
        }
    }
}

pub(crate) fn not_finite(row: usize) -> Error {
    bad(format!("the vector of row {row} has a value that is not finite"))
}

pub(crate) fn bad(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::BadAnswer, message)
}

/// A count in digits alone: Rust's own parser takes a sign too.
fn count(text: &str) -> Option<usize> {
    let text = text.trim();
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}
