//! Static embeddings: the mean of the vectors of a row's tokens, which are the same in every text.

use pullquote_core::encoder::Batch;
use pullquote_core::error::Result;

use crate::weights::{Tensor, Weights};

/// A vector for each token.
#[derive(Debug)]
pub struct Table {
    /// In the model's file, which is mapped.
    vectors: Tensor,
    /// The vector of each token, where several share one.
    mapping: Option<Vec<usize>>,
    /// Of each token.
    weights: Option<Vec<f32>>,
}

impl Table {
    /// Loads the files of sentence-transformers or model2vec.
    pub fn load(weights: &mut Weights) -> Result<Self> {
        if weights.has("embedding.weight") {
            let vectors = weights.take("embedding.weight", &[None, None])?;
            return Ok(Self { vectors, mapping: None, weights: None });
        }
        let vectors = weights.take("embeddings", &[None, None])?;
        let mapping =
            if weights.has("mapping") { Some(weights.take_indices("mapping", vectors.dim(0))?) } else { None };
        let tokens = mapping.as_ref().map_or(vectors.dim(0), Vec::len);
        let weights =
            if weights.has("weights") { Some(weights.take("weights", &[Some(tokens)])?.values()) } else { None };
        Ok(Self { vectors, mapping, weights })
    }

    pub fn dimension(&self) -> usize {
        self.vectors.dim(1)
    }

    pub fn vocabulary(&self) -> usize {
        self.mapping.as_ref().map_or_else(|| self.vectors.dim(0), Vec::len)
    }

    /// Appends the mean of each row of a batch, whose first id counts for nothing.
    pub fn pool(&self, batch: &Batch, vector: &mut Vec<f32>, rows: &mut Vec<f32>) {
        let dimension = self.dimension();
        vector.clear();
        vector.resize(dimension, 0.0);
        let mut start = 0;
        for length in batch.lengths.iter().map(|length| *length as usize) {
            let ids = &batch.ids[start + 1..start + length];
            let first = rows.len();
            rows.resize(first + dimension, 0.0);
            let sum = &mut rows[first..];
            for id in ids.iter().map(|id| usize::try_from(*id).unwrap_or(0)) {
                self.vectors.read_row(self.mapping.as_ref().map_or(id, |mapping| mapping[id]), vector);
                let weight = self.weights.as_ref().map_or(1.0, |weights| weights[id]);
                sum.iter_mut().zip(&*vector).for_each(|(sum, value)| *sum += weight * value);
            }
            #[expect(clippy::cast_precision_loss, reason = "rows are far shorter than float32 counts exactly")]
            let inverse = 1.0 / ids.len().max(1) as f32;
            for sum in sum.iter_mut() {
                *sum *= inverse;
            }
            start += length;
        }
    }
}
