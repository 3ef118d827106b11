//! Texts and their sentences from Python for a pruner, and what it says of them.

use numpy::PyArray1;
use pullquote_core::engine;
use pullquote_core::text::page::ByteSpan;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;

use crate::texts;

/// Pairs of a query and the sentences of a text.
pub(crate) struct SentencesCall(Vec<SentencesOfText>);

struct SentencesOfText {
    query: PyBackedStr,
    text: String,
    sentences: Vec<ByteSpan>,
}

/// A probability for each sentence, that of the text if the pruner ranks, and that from which sentences are kept.
pub(crate) type PrunedText<'py> = (Bound<'py, PyArray1<f32>>, Option<f32>, f32);

impl FromPyObject<'_, '_> for SentencesCall {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let pairs: Vec<(Bound<'_, PyAny>, Bound<'_, PyAny>)> = object.extract()?;
        let read = |(query, sentences): &(Bound<'_, PyAny>, Bound<'_, PyAny>)| {
            let query = texts::one(query, "question")?;
            let (mut text, mut spans) = (String::new(), Vec::new());
            for sentence in texts::many(sentences, "context")? {
                let start = text.len();
                text.push_str(&sentence);
                spans.push(ByteSpan { start, end: text.len() });
            }
            Ok(SentencesOfText { query, text, sentences: spans })
        };
        Ok(Self(pairs.iter().map(read).collect::<PyResult<_>>()?))
    }
}

impl SentencesCall {
    pub(crate) fn borrowed(&self) -> Vec<engine::PrunedText<'_>> {
        let texts = self.0.iter().map(|SentencesOfText { query, text, sentences }| engine::PrunedText {
            query: query.as_ref(),
            text,
            sentences: sentences.clone(),
        });
        texts.collect()
    }
}

pub(crate) fn results(py: Python<'_>, pruned: Vec<engine::Pruned>) -> Vec<PrunedText<'_>> {
    let result = |one: engine::Pruned| (PyArray1::from_vec(py, one.probabilities), one.score, one.least_kept);
    pruned.into_iter().map(result).collect()
}
