//! The cosine of vectors. It stands with the encoder because a device may compare rows with queries itself.

/// The cosine of a query with each of the vectors that lie one behind the other in `vectors`.
///
/// A vector of length zero is like nothing: its cosine is 0.
#[must_use]
pub fn cosines(query: &[f32], vectors: &[f32]) -> Vec<f32> {
    let length = dot(query, query).sqrt();
    vectors.chunks_exact(query.len()).map(|vector| cosine(query, length, vector)).collect()
}

/// The cosine of a query of this length with a vector.
pub(crate) fn cosine(query: &[f32], length: f32, vector: &[f32]) -> f32 {
    let lengths = length * dot(vector, vector).sqrt();
    if lengths > 0.0 { (dot(query, vector) / lengths).clamp(-1.0, 1.0) } else { 0.0 }
}

/// The dot product, with sixteen running sums so that the compiler can use the widest registers.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    const LANES: usize = 16;
    let mut sums = [0.0_f32; LANES];
    let (a_lanes, b_lanes) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest: f32 = a_lanes.remainder().iter().zip(b_lanes.remainder()).map(|(x, y)| x * y).sum();
    for (x, y) in a_lanes.zip(b_lanes) {
        for lane in 0..LANES {
            sums[lane] += x[lane] * y[lane];
        }
    }
    sums.iter().sum::<f32>() + rest
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
            let found = cosines(&query, &vectors.concat());
            prop_assert_eq!(found.len(), vectors.len());
            for (vector, cosine) in vectors.iter().zip(found) {
                let lengths = (plain(&query, &query) * plain(vector, vector)).sqrt();
                let expected = if lengths > 0.0 { plain(&query, vector) / lengths } else { 0.0 };
                prop_assert!((f64::from(cosine) - expected).abs() < 1e-4);
            }
        }
    }

    #[test]
    fn a_zero_vector_is_like_nothing() {
        assert_eq!(cosines(&[1.0, 0.0], &[0.0, 0.0, 2.0, 0.0]), [0.0, 1.0]);
        assert_eq!(cosines(&[0.0, 0.0], &[1.0, 0.0]), [0.0]);
    }
}
