//! Raw vectors: what the headers of an answer claim, and rows that land where they belong.
//!
//! Nothing that a server says is believed: the claim must be for exactly the rows that were asked for, the body must be
//! exactly as long as the claim, and every value must be a number. Bytes go from the network's buffer to their place in the
//! caller's array; there they are little-endian float32, which is what that array holds.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use pullquote_core::error::{Error, ErrorKind, Result};
use reqwest::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap};
use serde::{Deserialize, Serialize};

/// Values of the longest vector that is believed in: it bounds the memory that a server can make a client ask for.
pub(crate) const LONGEST: usize = 65_536;

/// How values travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Dtype {
    /// Four bytes, as they are.
    Float32,
    /// Two bytes, IEEE 754.
    Float16,
    /// Two bytes, the upper half of a float32.
    Bfloat16,
    /// A byte: 127 times the value, rounded.
    Int8,
    /// A bit, 1 where the value is above 0; eight in a byte, the first in the highest.
    Binary,
}

/// The claim of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmbeddingHeaders {
    /// Rows of the body.
    pub rows: usize,
    /// Values of a row.
    pub dimension: usize,
    /// What a value is.
    pub dtype: Dtype,
    /// How many texts the server cut at the model's limit, where it says so.
    pub truncated: usize,
}

impl Dtype {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Float32, Self::Float16, Self::Bfloat16, Self::Int8, Self::Binary];

    /// As it is written.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Float32 => "float32",
            Self::Float16 => "float16",
            Self::Bfloat16 => "bfloat16",
            Self::Int8 => "int8",
            Self::Binary => "binary",
        }
    }

    /// The type of this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dtype| dtype.name() == name)
    }

    /// Whether its bytes become float32 again as they are.
    #[must_use]
    pub const fn is_float(self) -> bool {
        matches!(self, Self::Float32 | Self::Float16 | Self::Bfloat16)
    }

    /// The bytes of a vector of so many values.
    #[must_use]
    pub const fn row_bytes(self, dimension: usize) -> usize {
        match self {
            Self::Float32 => 4 * dimension,
            Self::Float16 | Self::Bfloat16 => 2 * dimension,
            Self::Int8 => dimension,
            Self::Binary => dimension.div_ceil(8),
        }
    }
}

/// What vectors come as where they come as they are.
pub(crate) const OCTETS: &str = "application/octet-stream";

/// Whether this is how raw vectors name their type, with or without parameters.
pub(crate) fn is_octets(kind: &str) -> bool {
    kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(OCTETS)
}

impl EmbeddingHeaders {
    /// Reads the claim of an answer to so many rows; `None` where its body is something else than raw vectors.
    ///
    /// # Errors
    /// [`ErrorKind::BadAnswer`], saying which claim cannot be.
    pub fn read(headers: &HeaderMap, rows: usize) -> Result<Option<Self>> {
        let text = |name: &str| match headers.get(name) {
            None => Ok(None),
            Some(value) => {
                value.to_str().map(|text| Some(text.trim())).map_err(|_| bad(format!("its header {name} is no text")))
            }
        };
        let kind = text(CONTENT_TYPE.as_str())?.unwrap_or_default();
        if !is_octets(kind) {
            return Ok(None);
        }
        if text(CONTENT_ENCODING.as_str())?.is_some_and(|encoding| !encoding.eq_ignore_ascii_case("identity")) {
            return Err(bad("its vectors are compressed, which nobody asked for"));
        }
        let wanted = |name: &str| text(name)?.ok_or_else(|| bad(format!("it has raw vectors but no header {name}")));
        let order = wanted("x-embedding-byte-order")?;
        if !order.eq_ignore_ascii_case("little") {
            return Err(bad(format!("it claims the byte order {order:?}, where only \"little\" is read")));
        }
        let named = wanted("x-embedding-dtype")?;
        let dtype = Dtype::of_name(named)
            .ok_or_else(|| bad(format!("it claims values of {named:?}, of which no vector is")))?;
        let shape = wanted("x-embedding-shape")?;
        let (claimed, dimension) = shape
            .split_once(',')
            .and_then(|(rows, dimension)| Some((count(rows)?, count(dimension)?)))
            .ok_or_else(|| bad(format!("it claims the shape {shape:?}, which is no pair of counts")))?;
        if claimed != rows {
            return Err(bad(format!("it claims {claimed} rows for {rows} texts")));
        }
        if !(1..=LONGEST).contains(&dimension) {
            return Err(bad(format!("it claims vectors of {dimension} values, where 1 to {LONGEST} can be")));
        }
        let truncated = text("x-truncated")?.and_then(count).unwrap_or_default().min(rows);
        let claim = Self { rows, dimension, dtype, truncated };
        if let Some(length) = text(CONTENT_LENGTH.as_str())? {
            let expected = claim.bytes();
            if count(length) != Some(expected) {
                return Err(bad(format!("it claims {length} bytes for the shape {shape}, which has {expected}")));
            }
        }
        Ok(Some(claim))
    }

    /// Bytes of the body.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.rows * self.dtype.row_bytes(self.dimension)
    }

    /// How many bytes there are with the next ones.
    pub(crate) fn filled(&self, filled: usize, chunk: &[u8]) -> Result<usize> {
        let (filled, claimed) = (filled + chunk.len(), self.bytes());
        if filled > claimed {
            return Err(bad(format!("its body goes on behind the {claimed} bytes of its shape")));
        }
        Ok(filled)
    }

    /// Whether these are all.
    pub(crate) fn ended(&self, filled: usize) -> Result<()> {
        let claimed = self.bytes();
        if filled != claimed {
            return Err(bad(format!("its body ended after {filled} of {claimed} bytes")));
        }
        Ok(())
    }

    /// That its values are of another type than was asked for.
    pub(crate) fn other_dtype(&self, asked: Dtype) -> Error {
        bad(format!("it claims values of {}, where {} was asked for", self.dtype.name(), asked.name()))
    }
}

/// A body on its way to its place.
pub struct BodyWriter<'place> {
    claim: EmbeddingHeaders,
    place: &'place mut [f32],
    /// Bytes that came.
    filled: usize,
    /// Values of other types than the place's are gathered first; so is everything where copying is asked for.
    gathered: Option<Vec<u8>>,
}

impl<'place> BodyWriter<'place> {
    /// A landing in a place that has room for exactly what is claimed.
    ///
    /// # Errors
    /// [`ErrorKind::BadAnswer`] where the claim does not fit the place.
    pub fn new(claim: EmbeddingHeaders, place: &'place mut [f32], copying: bool) -> Result<Self> {
        if place.len() != claim.rows * claim.dimension {
            let dimension = place.len() / claim.rows.max(1);
            return Err(bad(format!(
                "its vectors have {} values, where others of this call have {dimension}",
                claim.dimension
            )));
        }
        let gathered = (copying || claim.dtype != Dtype::Float32).then(Vec::new);
        Ok(Self { claim, place, filled: 0, gathered })
    }

    /// The place of all bytes, where they may be written to it as they are.
    pub(crate) fn whole(&mut self) -> Option<&mut [u8]> {
        (self.filled == 0 && self.gathered.is_none()).then(|| bytemuck::cast_slice_mut(self.place))
    }

    /// The body is in its place: what [`BodyWriter::whole`] gave was filled.
    pub(crate) fn landed(mut self) -> Result<()> {
        self.filled = self.claim.bytes();
        self.finish()
    }

    /// The next bytes of the body.
    ///
    /// # Errors
    /// [`ErrorKind::BadAnswer`] where there are more than claimed.
    pub fn write(&mut self, chunk: &[u8]) -> Result<()> {
        let (begin, end) = (self.filled, self.claim.filled(self.filled, chunk)?);
        match &mut self.gathered {
            Some(gathered) => gathered.extend_from_slice(chunk),
            // From floats to bytes no alignment can be wrong; `cast_slice_mut` checks it all the same.
            None => bytemuck::cast_slice_mut::<f32, u8>(self.place)[begin..end].copy_from_slice(chunk),
        }
        self.filled = end;
        Ok(())
    }

    /// The body has ended.
    ///
    /// # Errors
    /// [`ErrorKind::BadAnswer`] where it was too short, or a value is no number.
    pub fn finish(self) -> Result<()> {
        self.claim.ended(self.filled)?;
        match (self.gathered, self.claim.dtype) {
            (None, _) => in_native_order(self.place),
            (Some(bytes), Dtype::Float32) => {
                for (value, four) in self.place.iter_mut().zip(bytes.as_chunks::<4>().0) {
                    *value = f32::from_le_bytes(*four);
                }
            }
            (Some(bytes), Dtype::Float16) => {
                let halves: Vec<f16> = bytes.as_chunks::<2>().0.iter().map(|two| f16::from_le_bytes(*two)).collect();
                halves.convert_to_f32_slice(self.place);
            }
            (Some(bytes), Dtype::Bfloat16) => {
                let halves: Vec<bf16> = bytes.as_chunks::<2>().0.iter().map(|two| bf16::from_le_bytes(*two)).collect();
                halves.convert_to_f32_slice(self.place);
            }
            (Some(_), Dtype::Int8 | Dtype::Binary) => return Err(self.claim.other_dtype(Dtype::Float32)),
        }
        check_finite(self.place, self.claim.dimension)
    }
}

/// Values that lie in memory as they came; only where that is another order is there something to do.
fn in_native_order(values: &mut [f32]) {
    if cfg!(target_endian = "big") {
        for value in values {
            *value = f32::from_bits(u32::from_le(value.to_bits()));
        }
    }
}

/// Whether every value is a number.
pub(crate) fn check_finite(values: &[f32], dimension: usize) -> Result<()> {
    // All of a row at once, so that the compiler may take many values at a time.
    let is_wrong = |row: &[f32]| row.iter().fold(false, |wrong, value| wrong | !value.is_finite());
    match values.chunks(dimension.max(1)).position(is_wrong) {
        None => Ok(()),
        Some(row) => Err(bad(format!("the vector of row {row} has a value that is no finite number"))),
    }
}

pub(crate) fn bad(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::BadAnswer, message)
}

/// A count in digits alone: neither a sign nor anything else that Rust would read.
fn count(text: &str) -> Option<usize> {
    let text = text.trim();
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}
