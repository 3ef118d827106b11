//! Reranking: the scores of texts for a query.

use std::sync::Arc;

use pullquote_core::error::Result;
use serde::{Deserialize, Serialize};

use crate::call_options::CallOptions;
use crate::client::Client;
use crate::exchange::{Request, compute, json_body};
use crate::raw::bad;
use crate::vectors::Text;

/// The score of a text for a query.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct RerankResult {
    pub index: usize,
    /// A reranker's probability or logit, or the cosine of the vectors.
    pub score: f32,
}

impl Client {
    /// Texts ranked by their relevance to a query, the best first. With `raw_scores`, scores are a reranker's logits.
    ///
    /// # Errors
    /// Those of all calls of a [`Client`].
    pub fn rerank<T: Text>(
        &self,
        query: T,
        texts: Vec<T>,
        top_n: Option<usize>,
        raw_scores: bool,
        call: CallOptions,
    ) -> impl Future<Output = Result<Vec<RerankResult>>> + Send + use<T> {
        let shared = Arc::clone(&self.shared);
        async move {
            #[derive(Serialize)]
            struct RerankBody<'call> {
                query: &'call str,
                texts: Vec<&'call str>,
                #[serde(skip_serializing_if = "std::ops::Not::not")]
                raw_scores: bool,
            }
            let size = texts.iter().map(|text| text.as_ref().len()).sum();
            let body = || {
                let texts = texts.iter().map(AsRef::as_ref).collect();
                json_body(&RerankBody { query: query.as_ref(), texts, raw_scores })
            };
            let answer = shared.fetch(&Request::post("/rerank", compute(size, body)?), call).await?;
            let ranks: Vec<RerankResult> = answer.read_json()?;
            let mut ranks = ranked(ranks, texts.len()).map_err(|error| answer.error(&error))?;
            ranks.sort_by(|a, b| b.score.total_cmp(&a.score));
            ranks.truncate(top_n.unwrap_or(usize::MAX));
            Ok(ranks)
        }
    }
}

/// Checks that each text is ranked once.
fn ranked(ranks: Vec<RerankResult>, texts: usize) -> Result<Vec<RerankResult>> {
    let mut is_ranked = vec![false; texts];
    for RerankResult { index, score } in &ranks {
        match is_ranked.get_mut(*index) {
            Some(ranked) if !*ranked && score.is_finite() => *ranked = true,
            _ => return Err(bad(format!("it ranks text {index} of {texts} with the score {score}, or twice"))),
        }
    }
    if ranks.len() == texts { Ok(ranks) } else { Err(bad(format!("it ranks {} of {texts} texts", ranks.len()))) }
}
