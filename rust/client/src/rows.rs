//! Vectors in JSON, as lists of numbers or as base64, in the formats of Text Embeddings Inference and of `OpenAI`.
//!
//! An answer must have one row for each text, all of one length, each index once, and only finite values.

use std::borrow::Cow;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pullquote_core::error::Result;
use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};

use crate::raw::{MAX_DIMENSION, bad, not_finite};

/// Vectors that came as JSON.
#[derive(Debug)]
pub struct Rows {
    /// One vector after the other.
    pub values: Vec<f32>,
    pub dimension: usize,
}

/// A body: a list of vectors, or an object with them.
struct JsonBody<'body>(Vec<JsonRow<'body>>);

/// A vector, and its index if the body has one.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'body, Vector<'body>: Deserialize<'de>"))]
struct JsonRow<'body> {
    index: Option<usize>,
    embedding: Vector<'body>,
}

/// The body of `OpenAI`'s format.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'body, Vector<'body>: Deserialize<'de>"))]
struct EmbeddingsBody<'body> {
    #[serde(default)]
    data: Vec<JsonRow<'body>>,
}

enum Vector<'body> {
    Numbers(Vec<f32>),
    Base64(Cow<'body, str>),
}

/// Reads the vectors of this number of texts.
pub fn read_rows(body: &[u8], rows: usize) -> Result<Rows> {
    let body: JsonBody =
        serde_json::from_slice(body).map_err(|error| bad(format!("its vectors cannot be read: {error}")))?;
    if body.0.len() != rows {
        return Err(bad(format!("it has {} vectors for {rows} texts", body.0.len())));
    }
    let dimension = body.0.first().map_or(0, |row| row.embedding.dimension());
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
        row.embedding.write(&mut values[index * dimension..][..dimension], index)?;
    }
    let is_wrong = |row: &[f32]| row.iter().any(|value| !value.is_finite());
    if let Some(row) = values.chunks(dimension.max(1)).position(is_wrong) {
        return Err(not_finite(row));
    }
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

impl<'de> Deserialize<'de> for JsonBody<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bodies;
        impl<'de> Visitor<'de> for Bodies {
            type Value = JsonBody<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of vectors, or an object with data")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<JsonBody<'de>, A::Error> {
                let vectors = Vec::deserialize(SeqAccessDeserializer::new(list))?.into_iter();
                Ok(JsonBody(vectors.map(|embedding| JsonRow { index: None, embedding }).collect()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<JsonBody<'de>, A::Error> {
                EmbeddingsBody::deserialize(MapAccessDeserializer::new(map)).map(|body| JsonBody(body.data))
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

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Vector<'de>, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list)).map(Vector::Numbers)
            }
        }
        deserializer.deserialize_any(VectorVisitor)
    }
}
