//! Cosine similarity and unit length. They belong to the encoder because devices may compare rows with queries
//! themselves.

/// The cosine of a query with each of the concatenated `vectors`; 0 for a zero vector.
pub fn cosines(query: &[f32], vectors: &[f32]) -> Vec<f32> {
    let norm = dot(query, query).sqrt();
    vectors.chunks_exact(query.len()).map(|vector| cosine(query, norm, vector)).collect()
}

/// `norm` is the query's length.
pub(crate) fn cosine(query: &[f32], norm: f32, vector: &[f32]) -> f32 {
    let norms = norm * dot(vector, vector).sqrt();
    if norms > 0.0 { (dot(query, vector) / norms).clamp(-1.0, 1.0) } else { 0.0 }
}

/// Scales concatenated vectors to unit length; a zero vector stays.
pub fn normalize(vectors: &mut [f32], dimension: usize) {
    for vector in vectors.chunks_exact_mut(dimension) {
        let norm = dot(vector, vector).sqrt();
        if norm > 0.0 {
            for value in vector {
                *value /= norm;
            }
        }
    }
}

/// Sixteen partial sums let the compiler use the widest vector registers.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    const LANES: usize = 16;
    let mut sums = [0.0_f32; LANES];
    let (a_lanes, b_lanes) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let tail: f32 = a_lanes.remainder().iter().zip(b_lanes.remainder()).map(|(x, y)| x * y).sum();
    for (x, y) in a_lanes.zip(b_lanes) {
        for lane in 0..LANES {
            sums[lane] += x[lane] * y[lane];
        }
    }
    sums.iter().sum::<f32>() + tail
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn cosines_are_those_of_the_plain_formula(
            (query, vectors) in (1..40_usize).prop_flat_map(|n| (
                proptest::collection::vec(-1.0..1.0_f32, n),
                proptest::collection::vec(proptest::collection::vec(-1.0..1.0_f32, n), 0..5),
            ))
        ) {
            let plain = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>();
            let cosines = cosines(&query, &vectors.concat());
            prop_assert_eq!(cosines.len(), vectors.len());
            for (vector, cosine) in vectors.iter().zip(cosines) {
                let norms = (plain(&query, &query) * plain(vector, vector)).sqrt();
                let expected = if norms > 0.0 { plain(&query, vector) / norms } else { 0.0 };
                prop_assert!((f64::from(cosine) - expected).abs() < 1e-4);
            }
        }
    }

    #[test]
    fn the_cosine_with_a_zero_vector_is_zero() {
        assert_eq!(cosines(&[1.0, 0.0], &[0.0, 0.0, 2.0, 0.0]), [0.0, 1.0]);
        assert_eq!(cosines(&[0.0, 0.0], &[1.0, 0.0]), [0.0]);
    }
}
