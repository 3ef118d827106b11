//! The types in which vectors are sent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::client::WireDtype;

/// Type of a vector's numbers, in bytes or base64; float32 by default. int8 is 127 times the value, rounded (halves to
/// even), from -127 to 127. binary is one bit for each value, 1 where it is above 0; eight in a byte, the first in the
/// highest bit. Numbers in JSON are always float32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum EmbeddingDtype {
    #[default]
    Float32,
    Float16,
    Bfloat16,
    /// Made for values from -1 to 1.
    Int8,
    /// As numpy's `packbits`.
    Binary,
}

impl From<WireDtype> for EmbeddingDtype {
    fn from(dtype: WireDtype) -> Self {
        match dtype {
            WireDtype::Float32 => Self::Float32,
            WireDtype::Float16 => Self::Float16,
            WireDtype::Bfloat16 => Self::Bfloat16,
        }
    }
}

impl EmbeddingDtype {
    pub const ALL: [Self; 5] = [Self::Float32, Self::Float16, Self::Bfloat16, Self::Int8, Self::Binary];

    /// As in the option `embedding_dtype`.
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

    pub const fn row_bytes(self, dimension: usize) -> usize {
        match self {
            Self::Float32 => 4 * dimension,
            Self::Float16 | Self::Bfloat16 => 2 * dimension,
            Self::Int8 => dimension,
            Self::Binary => dimension.div_ceil(8),
        }
    }
}
