//! The sentences of texts that answer questions.

use std::sync::Arc;

use pullquote_core::error::Result;
use pullquote_wire::pruning::{Context, PruneRequest, Pruned, PrunedContext};

use crate::call_options::CallOptions;
use crate::client::Client;
use crate::exchange::{Request, compute, json_body};
use crate::raw::bad;

impl Client {
    /// What the server's pruner says of each pair.
    ///
    /// # Errors
    /// Those of all calls of a [`Client`].
    pub fn prune(
        &self,
        request: PruneRequest<'static>,
        call: CallOptions,
    ) -> impl Future<Output = Result<Vec<PrunedContext>>> + Send + use<> {
        let shared = Arc::clone(&self.shared);
        async move {
            let size = |context: &Context| match context {
                Context::Text(text) => text.len(),
                Context::Sentences(sentences) => sentences.iter().map(|sentence| sentence.len()).sum(),
            };
            let size = request.pairs.iter().map(|pair| size(&pair.context)).sum();
            let answer = shared.fetch(&Request::post("/prune", compute(size, || json_body(&request))?), call).await?;
            let Pruned { results, .. } = answer.read_json()?;
            let fits = results.len() == request.pairs.len()
                && results.iter().zip(&request.pairs).all(|(result, pair)| match &pair.context {
                    Context::Text(_) => true,
                    Context::Sentences(sentences) => sentences.len() == result.sentences.len(),
                });
            if fits { Ok(results) } else { Err(answer.error(&bad("it has not each sentence of each text".to_owned()))) }
        }
    }
}
