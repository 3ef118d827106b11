//! The types of vectors on the wire, and the conversion of float32 into each.
//!
//! As float32, the server sends the memory that the encoder wrote. Every other type is one pass over it.

use bytemuck::NoUninit;
use bytes::Bytes;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use pullquote_wire::embedding_dtype::EmbeddingDtype;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(not(target_endian = "little"))]
compile_error!("vectors are sent as they lie in memory, and the wire is little-endian");

/// Byte order of numbers in bytes or base64; `native` is little-endian.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(crate) enum Endianness {
    #[default]
    Native,
    Little,
    Big,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NumberFormat {
    pub(crate) dtype: EmbeddingDtype,
    pub(crate) endianness: Endianness,
}

impl NumberFormat {
    pub(crate) const fn byte_order(self) -> &'static str {
        match self.endianness {
            Endianness::Big => "big",
            Endianness::Native | Endianness::Little => "little",
        }
    }

    pub(crate) fn pack(self, vectors: Vec<f32>, dimension: usize) -> Bytes {
        let little = pack(self.dtype, vectors, dimension);
        // Eight bits are one byte in either order.
        let width = self.dtype.row_bytes(1);
        if self.endianness != Endianness::Big || width == 1 {
            return little;
        }
        let mut big = Vec::from(little);
        big.chunks_exact_mut(width).for_each(<[u8]>::reverse);
        big.into()
    }
}

impl From<EmbeddingDtype> for NumberFormat {
    fn from(dtype: EmbeddingDtype) -> Self {
        Self { dtype, endianness: Endianness::Native }
    }
}

const INT8_UNIT: f32 = 127.0;

/// Little-endian bytes; of float32, the vectors' own memory.
pub(crate) fn pack(dtype: EmbeddingDtype, vectors: Vec<f32>, dimension: usize) -> Bytes {
    match dtype {
        EmbeddingDtype::Float32 => owned(vectors),
        EmbeddingDtype::Float16 => {
            let mut halves = vec![f16::ZERO; vectors.len()];
            halves.convert_from_f32_slice(&vectors);
            owned(halves)
        }
        EmbeddingDtype::Bfloat16 => {
            let mut halves = vec![bf16::ZERO; vectors.len()];
            halves.convert_from_f32_slice(&vectors);
            owned(halves)
        }
        EmbeddingDtype::Int8 => owned(vectors.iter().map(|value| int8(*value)).collect()),
        EmbeddingDtype::Binary => vectors.chunks_exact(dimension).flat_map(|row| row.chunks(8).map(bits)).collect(),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a cast from float32 to int8 ends at its bounds, and so is meant")]
pub(crate) fn int8(value: f32) -> i8 {
    ((value * INT8_UNIT).round_ties_even() as i8).max(-i8::MAX)
}

/// Up to eight values as bits, the first one the highest.
fn bits(values: &[f32]) -> u8 {
    let each = values.iter().enumerate();
    each.fold(0, |byte, (place, value)| byte | (u8::from(*value > 0.0) << (7 - place)))
}

/// The longest float32 in JSON: `-1.1754944e-38`, and a comma.
pub(crate) const NUMBER_BYTES: usize = 16;

/// Memory of a value in an answer: a float32 and its JSON.
pub(crate) const VALUE_BYTES: usize = size_of::<f32>() + NUMBER_BYTES;

/// Appends a vector as a list of JSON. The engine has checked that its values are finite.
///
/// `serde_json` writes each number by the same crate, but with as much again around it.
pub(crate) fn write_list(json: &mut Vec<u8>, vector: &[f32]) {
    json.reserve(vector.len() * NUMBER_BYTES + 2);
    let mut buffer = zmij::Buffer::new();
    write_entries(json, vector, |json, value| json.extend_from_slice(buffer.format_finite(*value).as_bytes()));
}

/// Appends a list of JSON; `write` appends an entry.
pub(crate) fn write_entries<T>(
    json: &mut Vec<u8>,
    entries: impl IntoIterator<Item = T>,
    mut write: impl FnMut(&mut Vec<u8>, T),
) {
    json.push(b'[');
    for (place, entry) in entries.into_iter().enumerate() {
        if place > 0 {
            json.push(b',');
        }
        write(json, entry);
    }
    json.push(b']');
}

struct Owned<T>(Vec<T>);

impl<T: NoUninit> AsRef<[u8]> for Owned<T> {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

fn owned<T: NoUninit + Send + 'static>(numbers: Vec<T>) -> Bytes {
    Bytes::from_owner(Owned(numbers))
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUES: [f32; 10] = [0.5, -0.25, 0.0, 1.0, -1.0, 1.5, -1.5, 0.004, -0.0, 1e-9];

    #[test]
    fn float32_is_the_vectors_own_memory() {
        let vectors = VALUES.to_vec();
        let address = vectors.as_ptr().cast::<u8>();
        let packed = pack(EmbeddingDtype::Float32, vectors, 5);
        assert_eq!(packed.as_ptr(), address);
        assert_eq!(packed.len(), 40);
        assert_eq!(packed[..8], [0, 0, 0, 0x3f, 0, 0, 0x80, 0xbe]);
    }

    #[test]
    fn json_numbers_match_serde_json() {
        let mut values: Vec<f32> = (0..=u16::MAX).map(|half| f32::from_bits(u32::from(half) << 16 | 0x1234)).collect();
        values.retain(|value| value.is_finite());
        values.extend(VALUES);
        let mut json = Vec::new();
        write_list(&mut json, &values);
        assert_eq!(String::from_utf8(json).unwrap(), serde_json::to_string(&values).unwrap());
    }

    #[test]
    fn big_endian_reverses_each_number() {
        let big = |dtype| NumberFormat { dtype, endianness: Endianness::Big }.pack(vec![1.0, -2.0], 2);
        assert_eq!(big(EmbeddingDtype::Float32)[..], [0x3f, 0x80, 0, 0, 0xc0, 0, 0, 0]);
        assert_eq!(big(EmbeddingDtype::Float16)[..], [0x3c, 0, 0xc0, 0]);
        assert_eq!(big(EmbeddingDtype::Int8), pack(EmbeddingDtype::Int8, vec![1.0, -2.0], 2));
    }

    #[test]
    fn narrow_dtypes_round_to_nearest() {
        let signed = |byte: &u8| i8::from_ne_bytes([*byte]);
        let bytes = pack(EmbeddingDtype::Int8, VALUES.to_vec(), 5);
        assert_eq!(bytes.iter().map(signed).collect::<Vec<_>>(), [64, -32, 0, 127, -127, 127, -127, 1, 0, 0]);
        assert_eq!(pack(EmbeddingDtype::Binary, VALUES.to_vec(), 10)[..], [0b1001_0101, 0b0100_0000]);
        assert_eq!(pack(EmbeddingDtype::Binary, VALUES.to_vec(), 5)[..], [0b1001_0000, 0b1010_1000]);
        assert_eq!(pack(EmbeddingDtype::Float16, vec![1.0, -2.0], 2)[..], [0, 0x3c, 0, 0xc0]);
        assert_eq!(pack(EmbeddingDtype::Bfloat16, vec![1.0, -2.0], 2)[..], [0x80, 0x3f, 0, 0xc0]);
        for dtype in EmbeddingDtype::ALL {
            assert_eq!(pack(dtype, VALUES.to_vec(), 5).len(), 2 * dtype.row_bytes(5), "{dtype:?}");
        }
    }
}
