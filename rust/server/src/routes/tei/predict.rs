//! `POST /predict`: the scores of pairs and of texts by the reranker, as Text Embeddings Inference returns those of a
//! classifier.

use pullquote_core::engine::PairLimits;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::http::failure::{Cause, Failure};
use crate::http::input::Input;
use crate::http::reply::Reply;
use crate::http::tei_headers::Compute;
use crate::routes::item_limits::{check_count, check_lengths};
use crate::routes::rerank::scores::by_reranker;
use crate::routes::schema_placeholders::{MAX_DOCUMENT_BYTES, MAX_INPUTS};
use crate::routes::vectors::{Direction, Truncation};

/// Pairs of a query and a text, and texts alone.
#[derive(Deserialize, JsonSchema)]
#[serde(expecting = "an object with inputs")]
pub(crate) struct PredictRequest {
    inputs: Inputs,
    /// Return logits instead of probabilities.
    #[serde(default)]
    raw_scores: bool,
    /// False refuses a query over the reranker's limit instead of cutting it. Texts are read in windows.
    #[serde(default, alias = "auto_truncate")]
    truncate: Option<bool>,
    /// Which end of a long query is dropped.
    #[serde(default)]
    truncation_direction: Direction,
}

/// A text, a pair of texts, or a list of lists of one or two texts. Rerankers that are language models read pairs only.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged, expecting = "must be a text, a pair of texts, or a list of lists of one or two texts")]
#[schemars(inline)]
enum Inputs {
    Text(#[schemars(length(max = MAX_DOCUMENT_BYTES))] String),
    One(Sequence),
    Many(#[schemars(length(min = 1, max = MAX_INPUTS))] Vec<Sequence>),
}

#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
enum Sequence {
    Text(#[schemars(inner(length(max = MAX_DOCUMENT_BYTES)))] [String; 1]),
    Pair(#[schemars(inner(length(max = MAX_DOCUMENT_BYTES)))] [String; 2]),
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Prediction<'app> {
    score: f32,
    /// What the files of the reranker call its only label.
    label: &'app str,
}

impl Sequence {
    /// The query, if there is one, and the text.
    fn parts(&self) -> (Option<&str>, &str) {
        match self {
            Self::Text([text]) => (None, text),
            Self::Pair([query, text]) => (Some(query), text),
        }
    }
}

pub(super) fn predict(app: &App, input: &Input) -> Result<Reply, Failure> {
    if app.engine.reranker().is_none() {
        let message = "the model gives one vector for each text, which POST /embed returns; start the server with --reranker to score pairs";
        return Err(Failure::new(Cause::OtherModel, message));
    }
    let request: PredictRequest = input.parse()?;
    let (sequences, is_one) = match request.inputs {
        Inputs::Text(text) => (vec![Sequence::Text([text])], true),
        Inputs::One(sequence) => (vec![sequence], true),
        Inputs::Many(sequences) => (sequences, false),
    };
    check_count(sequences.len(), "inputs", app.settings.max_inputs)?;
    let (queries, texts): (Vec<Option<&str>>, Vec<&str>) = sequences.iter().map(Sequence::parts).unzip();
    let all = || queries.iter().flatten().chain(&texts).copied();
    check_lengths(all(), "inputs", app.settings.max_document_bytes)?;
    let asked: Vec<(Option<&str>, &[&str])> = queries.iter().copied().zip(texts.chunks(1)).collect();
    let truncation = Truncation::new(app, request.truncate.unwrap_or(true), request.truncation_direction);
    let scored = by_reranker(app, &asked, truncation, PairLimits::NONE, request.raw_scores, ("inputs", input))?;
    let compute = Compute::of(&app.engine, all(), scored.tokenization);
    let label = app.engine.reranker_label().unwrap_or("LABEL_0");
    let predictions: Vec<[Prediction; 1]> =
        scored.scores.into_iter().map(|score| [Prediction { score, label }]).collect();
    let reply = match predictions.first() {
        Some(only) if is_one => Reply::json(input, only, scored.work),
        _ => Reply::json(input, &predictions, scored.work),
    };
    Ok(reply?.computed(compute))
}
