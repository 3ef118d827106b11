//! `POST /predict`: the scores of pairs by the reranker, as Text Embeddings Inference returns those of a classifier.

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

/// Pairs of a query and a text.
#[derive(Deserialize, JsonSchema)]
#[serde(expecting = "an object with inputs")]
pub(crate) struct PredictRequest {
    inputs: Pairs,
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

/// A pair, or a list of pairs.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged, expecting = "must be a pair of texts, or a list of such pairs")]
#[schemars(inline)]
enum Pairs {
    One(#[schemars(inner(length(max = MAX_DOCUMENT_BYTES)))] [String; 2]),
    Many(#[schemars(length(min = 1, max = MAX_INPUTS))] Vec<[String; 2]>),
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Prediction {
    score: f32,
    /// The only label of a reranker.
    label: &'static str,
}

pub(super) fn predict(app: &App, input: &Input) -> Result<Reply, Failure> {
    if app.engine.reranker().is_none() {
        let message = "the model gives one vector for each text, which POST /embed returns; start the server with --reranker to score pairs";
        return Err(Failure::new(Cause::OtherModel, message));
    }
    let request: PredictRequest = input.parse()?;
    let (pairs, is_one) = match request.inputs {
        Pairs::One(pair) => (vec![pair], true),
        Pairs::Many(pairs) => (pairs, false),
    };
    check_count(pairs.len(), "inputs", app.settings.max_inputs)?;
    let texts = || pairs.iter().flatten().map(String::as_str);
    check_lengths(texts(), "inputs", app.settings.max_document_bytes)?;
    let passages: Vec<[&str; 1]> = pairs.iter().map(|[_, text]| [text.as_str()]).collect();
    let asked = pairs.iter().zip(&passages).map(|([query, _], text)| (query.as_str(), text.as_slice()));
    let asked: Vec<(&str, &[&str])> = asked.collect();
    let truncation = Truncation::new(app, request.truncate.unwrap_or(true), request.truncation_direction);
    let scored = by_reranker(app, &asked, truncation, PairLimits::NONE, request.raw_scores, ("inputs", input))?;
    let compute = Compute::of(&app.engine, texts(), scored.tokenization);
    let predictions: Vec<[Prediction; 1]> =
        scored.scores.into_iter().map(|score| [Prediction { score, label: "LABEL_0" }]).collect();
    let reply = match predictions.first() {
        Some(only) if is_one => Reply::json(input, only, scored.work),
        _ => Reply::json(input, &predictions, scored.work),
    };
    Ok(reply?.computed(compute))
}
