//! Questions and texts from Python for a pruner, and what it says of them.

use std::borrow::Cow;

use numpy::PyArray1;
use pullquote_core::engine::{Engine, PrunedText, join_sentences};
use pullquote_core::error::Result;
use pullquote_core::runtime::call::Call;
use pullquote_core::text::page::ByteSpan;
use pullquote_core::text::positions::length;
use pullquote_wire::pruning::{Context, PruneRequest, PrunedContext, PrunedPair};
use pullquote_wire::result::OffsetUnit;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::PyString;

use crate::texts;

/// Pairs of a question and a text.
pub(crate) struct PruneCall(Vec<(PyBackedStr, ContextText)>);

enum ContextText {
    Whole(PyBackedStr),
    Joined(String, Vec<ByteSpan>),
}

/// What a pruner says of a text.
pub(crate) struct PrunedCall {
    /// Of each sentence, in characters.
    ends: Vec<usize>,
    probabilities: Vec<f32>,
    /// The text's probability, if the pruner ranks.
    score: Option<f32>,
    least_kept: f32,
}

/// The same as Python reads it.
pub(crate) type PrunedTuple<'py> = (Vec<usize>, Bound<'py, PyArray1<f32>>, Option<f32>, f32);

impl FromPyObject<'_, '_> for PruneCall {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let pairs: Vec<(Bound<'_, PyAny>, Bound<'_, PyAny>)> = object.extract()?;
        let read = |(question, context): &(Bound<'_, PyAny>, Bound<'_, PyAny>)| {
            Ok((texts::one(question, "question")?, ContextText::read(context)?))
        };
        Ok(Self(pairs.iter().map(read).collect::<PyResult<_>>()?))
    }
}

impl ContextText {
    fn read(context: &Bound<'_, PyAny>) -> PyResult<Self> {
        if context.is_instance_of::<PyString>() {
            return Ok(Self::Whole(texts::one(context, "context")?));
        }
        let (text, spans) = join_sentences(texts::many(context, "context")?);
        Ok(Self::Joined(text, spans))
    }

    fn with<'call>(&'call self, query: &'call str) -> PrunedText<'call> {
        match self {
            Self::Whole(text) => PrunedText { query, text, sentences: None },
            Self::Joined(text, spans) => PrunedText { query, text, sentences: Some(spans.clone()) },
        }
    }

    fn into_wire(self) -> Context<'static> {
        match self {
            Self::Whole(text) => Context::Text(Cow::Owned(text.to_string())),
            Self::Joined(text, spans) => {
                Context::Sentences(spans.iter().map(|span| Cow::Owned(span.of(&text).to_owned())).collect())
            }
        }
    }
}

impl PruneCall {
    pub(crate) async fn run(
        &self,
        engine: &Engine,
        threshold: Option<f32>,
        call: &Call<'_>,
    ) -> Result<Vec<PrunedCall>> {
        let texts: Vec<PrunedText> = self.0.iter().map(|(query, context)| context.with(query)).collect();
        let pruned = engine.prune(&texts, threshold, call).await?;
        let result = |(pruned, text): (pullquote_core::engine::Pruned, &PrunedText)| PrunedCall {
            ends: ends(text.text, &pruned.sentences),
            probabilities: pruned.probabilities,
            score: pruned.score,
            least_kept: pruned.least_kept,
        };
        Ok(pruned.into_iter().zip(&texts).map(result).collect())
    }

    /// As the body of a request.
    pub(crate) fn into_wire(self, threshold: Option<f32>) -> PruneRequest<'static> {
        let pair = |(question, context): (PyBackedStr, ContextText)| PrunedPair {
            question: Cow::Owned(question.to_string()),
            context: context.into_wire(),
        };
        let pairs = self.0.into_iter().map(pair).collect();
        PruneRequest { pairs, threshold, offsets: OffsetUnit::Codepoint }
    }
}

impl From<PrunedContext> for PrunedCall {
    fn from(PrunedContext { score, sentences }: PrunedContext) -> Self {
        let kept = sentences.iter().filter(|sentence| sentence.kept).map(|sentence| sentence.probability);
        Self {
            least_kept: kept.fold(f32::INFINITY, f32::min),
            ends: sentences.iter().map(|sentence| sentence.end).collect(),
            probabilities: sentences.iter().map(|sentence| sentence.probability).collect(),
            score,
        }
    }
}

fn ends(text: &str, sentences: &[ByteSpan]) -> Vec<usize> {
    let end = |end: &mut usize, sentence: &ByteSpan| {
        *end += length(sentence.of(text), OffsetUnit::Codepoint);
        Some(*end)
    };
    sentences.iter().scan(0, end).collect()
}

pub(crate) fn results(py: Python<'_>, pruned: Vec<PrunedCall>) -> Vec<PrunedTuple<'_>> {
    let result = |one: PrunedCall| (one.ends, PyArray1::from_vec(py, one.probabilities), one.score, one.least_kept);
    pruned.into_iter().map(result).collect()
}
