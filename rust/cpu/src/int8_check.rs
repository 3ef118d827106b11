//! Whether int8 keeps a model's vectors, which its first load measures: the cosines of texts' vectors in int8 with those in
//! float32, after the mean vector is subtracted. All vectors of some models are alike, and only what is left tells their
//! texts apart. The user's cache keeps the cosine that nearly all texts reach, under the model's id.

use std::panic::resume_unwind;
use std::thread;

use pullquote_core::encoder::Batch;
use pullquote_core::encoder::model::Model;
use pullquote_core::encoder::user_cache;
use pullquote_core::error::Result;
use pullquote_core::ranking::labelled_pages::sample_texts;
use pullquote_core::tokens::Tokens;

use crate::network::{Network, Workspace};

/// The cosine with which int8 is taken, if all texts but one of [`ODD_ONE_OF`] reach it: one odd text of sixty says little, and
/// the default model has one too.
const ENOUGH: f32 = 0.995;
const ODD_ONE_OF: usize = 20;
/// Texts of each role, about: a second of work for a small model.
const SAMPLE: usize = 30;

/// The file that keeps the measurement of a model; `None` for one without an id.
fn file(model: &Model) -> Option<String> {
    Some(format!("int8_reached-{:.32}-{}", model.id().ok()?, model.truncate_dim.unwrap_or(0)))
}

/// Whether a measurement that was kept allows int8; `None` without one.
pub(crate) fn kept(model: &Model) -> Option<bool> {
    let reached: f32 = String::from_utf8(user_cache::read(&file(model)?)?).ok()?.trim().parse().ok()?;
    Some(reached > ENOUGH)
}

/// Runs both at once, the second on a thread of its own.
pub(crate) fn join<A, B: Send>(first: impl FnOnce() -> A, second: impl FnOnce() -> B + Send) -> (A, B) {
    thread::scope(|scope| {
        let second = scope.spawn(second);
        (first(), second.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })
}

/// Measures a model with both networks, each on a thread of its own, and keeps the result.
///
/// # Errors
/// Those of the tokenizer.
pub(crate) fn measure(model: &Model, tokens: &Tokens, exact: &Network, narrow: &Network) -> Result<bool> {
    tokens.check_vocabulary(exact.vocabulary())?;
    let mut cosines = Vec::new();
    for (role, texts) in sample_texts(SAMPLE) {
        let rows = texts.iter().map(|text| Ok(tokens.text(text, role)?.0)).collect::<Result<Vec<Vec<i32>>>>()?;
        let (exact, narrow) = join(|| vectors(exact, &rows), || vectors(narrow, &rows));
        cosines.extend(centred_cosines(&exact, &narrow));
    }
    let reached = reached_by_nearly_all(cosines);
    if let Some(file) = file(model) {
        user_cache::write(&file, reached.to_string().as_bytes());
    }
    Ok(reached > ENOUGH)
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

/// The cosine of the two vectors of each text, without the mean of the first vectors.
#[expect(clippy::cast_precision_loss, reason = "hundreds")]
fn centred_cosines(exact: &[Vec<f32>], narrow: &[Vec<f32>]) -> Vec<f32> {
    let width = exact.first().map_or(0, Vec::len);
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
    exact.iter().zip(narrow).map(cosine).collect()
}

/// The greatest value that all but one of [`ODD_ONE_OF`] reach; 1 without values.
fn reached_by_nearly_all(mut values: Vec<f32>) -> f32 {
    values.sort_by(f32::total_cmp);
    values.get(values.len() / ODD_ONE_OF).copied().unwrap_or(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_vectors_share_does_not_hide_an_error() {
        let exact = [vec![10.0, 0.1, 0.0], vec![10.0, -0.1, 0.0], vec![10.0, 0.0, 0.0]];
        assert!(centred_cosines(&exact[..2], &exact[..2])[0] > 0.999);
        let mut narrow = exact.clone();
        narrow[0] = vec![10.0, 0.1, 0.1];
        assert!(centred_cosines(&exact, &narrow)[0] < 0.8);
        assert!(centred_cosines(&[], &[]).is_empty());
        let same = [vec![1.0], vec![1.0]];
        assert!((centred_cosines(&same, &same)[0] - 1.0).abs() < 1e-6, "all the same");
    }

    #[test]
    fn one_odd_text_of_twenty_decides_nothing_and_two_do() {
        let cosines = |odd: usize| [vec![0.9; odd], vec![0.999; 20 - odd]].concat();
        assert!(reached_by_nearly_all(cosines(1)) > ENOUGH && reached_by_nearly_all(cosines(2)) < ENOUGH);
        assert!(reached_by_nearly_all(Vec::new()) > ENOUGH);
    }
}
