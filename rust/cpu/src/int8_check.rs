//! Whether int8 keeps a model's vectors, which its first load measures: the cosines of texts' vectors in int8 with those in
//! float32, after the mean vector is subtracted. All vectors of some models are alike, and only what is left tells their
//! texts apart. The user's cache keeps the least of these cosines under the model's id.

use pullquote_core::encoder::Batch;
use pullquote_core::encoder::model::Model;
use pullquote_core::encoder::user_cache;
use pullquote_core::error::Result;
use pullquote_core::ranking::labelled_pages::sample_texts;
use pullquote_core::tokens::Tokens;

use crate::network::{Network, Workspace};

/// The least cosine with which int8 is taken.
const LEAST_COSINE: f32 = 0.995;
/// Texts of each role, about: a second of work for a small model.
const SAMPLE: usize = 30;

/// The file that keeps the measurement of a model; `None` for one without an id.
fn file(model: &Model) -> Option<String> {
    Some(format!("int8_cosine-{:.32}-{}", model.id().ok()?, model.truncate_dim.unwrap_or(0)))
}

/// Whether a measurement that was kept allows int8; `None` without one.
pub(crate) fn kept(model: &Model) -> Option<bool> {
    let least: f32 = String::from_utf8(user_cache::read(&file(model)?)?).ok()?.trim().parse().ok()?;
    Some(least > LEAST_COSINE)
}

/// Measures a model with both networks, and keeps the result.
///
/// # Errors
/// Those of the tokenizer.
pub(crate) fn measure(model: &Model, exact: &Network, narrow: &Network) -> Result<bool> {
    let tokens = Tokens::read(model)?;
    tokens.check_vocabulary(exact.vocabulary())?;
    let mut least = 1.0_f32;
    for (role, texts) in sample_texts(SAMPLE) {
        let rows = texts.iter().map(|text| Ok(tokens.text(text, role)?.0)).collect::<Result<Vec<Vec<i32>>>>()?;
        let [exact, narrow] = [exact, narrow].map(|network| vectors(network, &rows));
        least = least.min(least_cosine(&exact, &narrow));
    }
    if let Some(file) = file(model) {
        user_cache::write(&file, least.to_string().as_bytes());
    }
    Ok(least > LEAST_COSINE)
}

fn vectors(network: &Network, rows: &[Vec<i32>]) -> Vec<Vec<f32>> {
    let mut workspace = Workspace::default();
    let vector = |ids: &Vec<i32>| {
        let length = u32::try_from(ids.len()).unwrap_or(u32::MAX);
        let mut values = Vec::new();
        network.encode(&Batch::new(ids.clone(), vec![length]), &mut workspace, &mut values);
        values
    };
    rows.iter().map(vector).collect()
}

/// The least cosine of two vectors of the same text, without the mean of the first vectors.
#[expect(clippy::cast_precision_loss, reason = "hundreds")]
fn least_cosine(exact: &[Vec<f32>], narrow: &[Vec<f32>]) -> f32 {
    let Some(width) = exact.first().map(Vec::len) else { return 1.0 };
    let mean: Vec<f32> =
        (0..width).map(|at| exact.iter().map(|vector| vector[at]).sum::<f32>() / exact.len() as f32).collect();
    let centred = |vector: &[f32]| -> Vec<f32> { vector.iter().zip(&mean).map(|(value, mean)| value - mean).collect() };
    let product = |one: &[f32], other: &[f32]| one.iter().zip(other).map(|(one, other)| one * other).sum::<f32>();
    let cosine = |(exact, narrow): (&Vec<f32>, &Vec<f32>)| {
        let (exact, narrow) = (centred(exact), centred(narrow));
        let lengths = (product(&exact, &exact) * product(&narrow, &narrow)).sqrt();
        // Vectors that are all the same have nothing to keep.
        if lengths > 0.0 { product(&exact, &narrow) / lengths } else { 1.0 }
    };
    exact.iter().zip(narrow).map(cosine).fold(1.0, |least, cosine| if cosine < least { cosine } else { least })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_vectors_share_does_not_hide_an_error() {
        let exact = [vec![10.0, 0.1, 0.0], vec![10.0, -0.1, 0.0], vec![10.0, 0.0, 0.0]];
        assert!(least_cosine(&exact[..2], &exact[..2]) > 0.999);
        let mut narrow = exact.clone();
        narrow[0] = vec![10.0, 0.1, 0.1];
        assert!(least_cosine(&exact, &narrow) < 0.8);
        assert!((least_cosine(&[], &[]) - 1.0).abs() < 1e-6);
        let same = [vec![1.0], vec![1.0]];
        assert!((least_cosine(&same, &same) - 1.0).abs() < 1e-6, "all the same");
    }
}
