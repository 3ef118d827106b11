//! Raw vectors: the headers that describe them, and the body on its way into the caller's array.
//!
//! A server is not trusted: the headers must name exactly the requested rows, the body must have exactly their length, and
//! every value must be finite. Bytes are copied once, from the network's buffer to their place in the array of float32.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use pullquote_core::error::{Error, ErrorKind, Result};
use reqwest::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap};
use serde::{Deserialize, Serialize};

/// Values of the longest vector. It limits the memory that a server can make a client allocate.
pub(crate) const MAX_DIMENSION: usize = 65_536;

/// The type of values on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Dtype {
    /// Four bytes.
    Float32,
    /// Two bytes, IEEE 754.
    Float16,
    /// Two bytes, the upper half of a float32.
    Bfloat16,
    /// A byte: 127 times the value, rounded.
    Int8,
    /// A bit, 1 above 0; the first of eight is the highest of its byte.
    Binary,
}

/// The description of a body of vectors, from its headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmbeddingHeaders {
    pub rows: usize,
    /// Values of a vector.
    pub dimension: usize,
    pub dtype: Dtype,
    /// Texts that the server truncated at the model's limit, if it counts them.
    pub truncated: usize,
}

impl Dtype {
    pub const ALL: [Self; 5] = [Self::Float32, Self::Float16, Self::Bfloat16, Self::Int8, Self::Binary];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Float32 => "float32",
            Self::Float16 => "float16",
            Self::Bfloat16 => "bfloat16",
            Self::Int8 => "int8",
            Self::Binary => "binary",
        }
    }

    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dtype| dtype.name() == name)
    }

    /// Whether its values convert to float32 without a scale.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::Float32 | Self::Float16 | Self::Bfloat16)
    }

    /// Bytes of a vector.
    pub const fn row_bytes(self, dimension: usize) -> usize {
        match self {
            Self::Float32 => 4 * dimension,
            Self::Float16 | Self::Bfloat16 => 2 * dimension,
            Self::Int8 => dimension,
            Self::Binary => dimension.div_ceil(8),
        }
    }
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
        if text(CONTENT_ENCODING.as_str())?.is_some_and(|encoding| !encoding.eq_ignore_ascii_case("identity")) {
            return Err(bad("its vectors are compressed, which the request does not accept"));
        }
        let wanted = |name: &str| text(name)?.ok_or_else(|| bad(format!("it has raw vectors but no header {name}")));
        let order = wanted("x-embedding-byte-order")?;
        if !order.eq_ignore_ascii_case("little") {
            return Err(bad(format!("it claims the byte order {order:?}; only \"little\" is supported")));
        }
        let named = wanted("x-embedding-dtype")?;
        let dtype =
            Dtype::of_name(named).ok_or_else(|| bad(format!("it claims values of {named:?}, an unknown type")))?;
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

    /// The number of bytes with the next chunk.
    pub(crate) fn filled(&self, filled: usize, chunk: &[u8]) -> Result<usize> {
        let (filled, expected) = (filled + chunk.len(), self.bytes());
        if filled > expected {
            return Err(bad(format!("its body continues after the {expected} bytes of its shape")));
        }
        Ok(filled)
    }

    pub(crate) fn check_length(&self, filled: usize) -> Result<()> {
        let expected = self.bytes();
        if filled != expected {
            return Err(bad(format!("its body ended after {filled} of {expected} bytes")));
        }
        Ok(())
    }

    pub(crate) fn wrong_dtype(&self, asked: Dtype) -> Error {
        bad(format!("it claims values of {} instead of {}", self.dtype.name(), asked.name()))
    }
}

/// Writes a body into its place in the array.
pub struct BodyWriter<'place> {
    headers: EmbeddingHeaders,
    place: &'place mut [f32],
    filled: usize,
    /// The bytes of narrower types, which are converted at the end.
    narrow: Option<Vec<u8>>,
}

impl<'place> BodyWriter<'place> {
    /// A writer into `place`, which must have exactly the body's number of values.
    pub fn new(headers: EmbeddingHeaders, place: &'place mut [f32]) -> Result<Self> {
        if place.len() != headers.rows * headers.dimension {
            let dimension = place.len() / headers.rows.max(1);
            return Err(bad(format!(
                "its vectors have {} values, and others of this call have {dimension}",
                headers.dimension
            )));
        }
        let narrow = (headers.dtype != Dtype::Float32).then(Vec::new);
        Ok(Self { headers, place, filled: 0, narrow })
    }

    /// The place of the whole body, if its bytes need no conversion.
    pub(crate) fn whole_body(&mut self) -> Option<&mut [u8]> {
        self.narrow.is_none().then(|| bytemuck::cast_slice_mut(self.place))
    }

    /// Checks the whole body, after [`BodyWriter::whole_body`] was filled.
    pub(crate) fn finish_whole(mut self) -> Result<()> {
        self.filled = self.headers.bytes();
        self.finish()
    }

    /// Writes the next bytes of the body.
    pub fn write(&mut self, chunk: &[u8]) -> Result<()> {
        let (begin, end) = (self.filled, self.headers.filled(self.filled, chunk)?);
        match &mut self.narrow {
            Some(narrow) => narrow.extend_from_slice(chunk),
            None => bytemuck::cast_slice_mut::<f32, u8>(self.place)[begin..end].copy_from_slice(chunk),
        }
        self.filled = end;
        Ok(())
    }

    /// Checks the whole body.
    pub fn finish(self) -> Result<()> {
        self.headers.check_length(self.filled)?;
        match (self.narrow, self.headers.dtype) {
            (None, _) => to_native_endian(self.place),
            (Some(bytes), Dtype::Float16) => {
                let halves: Vec<f16> = bytes.as_chunks::<2>().0.iter().map(|two| f16::from_le_bytes(*two)).collect();
                halves.convert_to_f32_slice(self.place);
            }
            (Some(bytes), Dtype::Bfloat16) => {
                let halves: Vec<bf16> = bytes.as_chunks::<2>().0.iter().map(|two| bf16::from_le_bytes(*two)).collect();
                halves.convert_to_f32_slice(self.place);
            }
            (Some(_), _) => return Err(self.headers.wrong_dtype(Dtype::Float32)),
        }
        check_finite(self.place, self.headers.dimension)
    }
}

/// Turns little-endian values in memory into native ones.
fn to_native_endian(values: &mut [f32]) {
    if cfg!(target_endian = "big") {
        for value in values {
            *value = f32::from_bits(u32::from_le(value.to_bits()));
        }
    }
}

pub(crate) fn check_finite(values: &[f32], dimension: usize) -> Result<()> {
    // A whole row without a branch, so that the compiler vectorizes it.
    let is_wrong = |row: &[f32]| row.iter().fold(false, |wrong, value| wrong | !value.is_finite());
    match values.chunks(dimension.max(1)).position(is_wrong) {
        None => Ok(()),
        Some(row) => Err(bad(format!("the vector of row {row} has a value that is not finite"))),
    }
}

pub(crate) fn bad(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::BadAnswer, message)
}

/// A count in digits alone: Rust's own parser takes a sign too.
fn count(text: &str) -> Option<usize> {
    let text = text.trim();
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}
