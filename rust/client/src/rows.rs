//! Vectors in JSON, as lists of numbers or as base64, in the formats of Text Embeddings Inference and of `OpenAI`.
//!
//! An answer must have one row for each text, all of one length, each index once, and only finite values.

use std::borrow::Cow;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pullquote_core::error::Result;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::raw::{MAX_DIMENSION, bad, check_finite};

/// Vectors that came as JSON.
#[derive(Debug)]
pub struct Rows {
    /// One vector after the other.
    pub values: Vec<f32>,
    /// Values of a vector.
    pub dimension: usize,
}

/// A body: a list of vectors, or an object with them.
struct Body<'body>(Vec<Row<'body>>);

/// A vector, and its index if the body has one.
struct Row<'body> {
    index: Option<usize>,
    vector: Vector<'body>,
}

enum Vector<'body> {
    Numbers(Vec<f32>),
    Base64(Cow<'body, str>),
}

/// A row of `OpenAI`'s format.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'body, Vector<'body>: Deserialize<'de>"))]
struct OpenAiRow<'body> {
    #[serde(default)]
    index: Option<usize>,
    embedding: Vector<'body>,
}

/// Reads the vectors of this number of texts.
pub fn read_rows(body: &[u8], rows: usize) -> Result<Rows> {
    let body: Body =
        serde_json::from_slice(body).map_err(|error| bad(format!("its vectors cannot be read: {error}")))?;
    if body.0.len() != rows {
        return Err(bad(format!("it has {} vectors for {rows} texts", body.0.len())));
    }
    let dimension = body.0.first().map_or(0, |row| row.vector.dimension());
    if rows > 0 && !(1..=MAX_DIMENSION).contains(&dimension) {
        return Err(bad(format!("its first vector has {dimension} values; 1 to {MAX_DIMENSION} are possible")));
    }
    let mut values = vec![0.0; rows * dimension];
    let mut is_filled = vec![false; rows];
    for (position, row) in body.0.iter().enumerate() {
        let index = row.index.unwrap_or(position);
        match is_filled.get_mut(index) {
            None => return Err(bad(format!("it names row {index} of {rows}"))),
            Some(true) => return Err(bad(format!("it has row {index} twice"))),
            Some(filled) => *filled = true,
        }
        row.vector.write(&mut values[index * dimension..][..dimension], index)?;
    }
    check_finite(&values, dimension)?;
    Ok(Rows { values, dimension })
}

impl Vector<'_> {
    /// Its number of values, before it is decoded.
    fn dimension(&self) -> usize {
        match self {
            Self::Numbers(numbers) => numbers.len(),
            Self::Base64(text) => text.trim_end_matches('=').len() * 3 / 4 / 4,
        }
    }

    fn write(&self, place: &mut [f32], row: usize) -> Result<()> {
        let length = |found: usize| {
            bad(format!("the vector of row {row} has {found} values, and the first has {}", place.len()))
        };
        match self {
            Self::Numbers(numbers) if numbers.len() == place.len() => place.copy_from_slice(numbers),
            Self::Numbers(numbers) => return Err(length(numbers.len())),
            Self::Base64(text) => {
                let bytes = place.len() * 4;
                if text.trim_end_matches('=').len() * 3 / 4 != bytes {
                    return Err(length(self.dimension()));
                }
                // Not into `place`: `decode_slice` panics on invalid base64 that needs a longer slice.
                let decoded = STANDARD.decode(text.as_bytes()).ok().filter(|decoded| decoded.len() == bytes);
                let decoded = decoded.ok_or_else(|| bad(format!("the vector of row {row} is not base64")))?;
                for (value, four) in place.iter_mut().zip(decoded.as_chunks::<4>().0) {
                    *value = f32::from_le_bytes(*four);
                }
            }
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for Body<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bodies;
        impl<'de> Visitor<'de> for Bodies {
            type Value = Body<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of vectors, or an object with data")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Body<'de>, A::Error> {
                let mut rows = Vec::new();
                while let Some(vector) = list.next_element()? {
                    rows.push(Row { index: None, vector });
                }
                Ok(Body(rows))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Body<'de>, A::Error> {
                let mut rows = Vec::new();
                while let Some(key) = map.next_key::<Cow<str>>()? {
                    if key == "data" {
                        let listed = map.next_value::<Vec<OpenAiRow>>()?.into_iter();
                        rows = listed.map(|OpenAiRow { index, embedding }| Row { index, vector: embedding }).collect();
                    } else {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(Body(rows))
            }
        }
        deserializer.deserialize_any(Bodies)
    }
}

impl<'de: 'body, 'body> Deserialize<'de> for Vector<'body> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct VectorVisitor;
        impl<'de> Visitor<'de> for VectorVisitor {
            type Value = Vector<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of numbers, or base64")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Vector<'de>, E> {
                Ok(Vector::Base64(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Vector<'de>, E> {
                Ok(Vector::Base64(Cow::Owned(text.to_owned())))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vector<'de>, A::Error> {
                let mut numbers = Vec::new();
                while let Some(number) = list.next_element()? {
                    numbers.push(number);
                }
                Ok(Vector::Numbers(numbers))
            }
        }
        deserializer.deserialize_any(VectorVisitor)
    }
}
