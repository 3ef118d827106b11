//! `POST /prune`: the sentences of texts that answer questions, by the pruner.

use std::borrow::Cow;

use pullquote_core::engine::{PrunedText, Work, join_sentences};
use pullquote_core::error::{Error, ErrorKind};
use pullquote_core::text::page::ByteSpan;
use pullquote_core::text::positions::length;
use pullquote_wire::pruning::{Context, PruneRequest, Pruned, PrunedContext, PrunedSentence};
use serde_json::json;

use super::highlights::API;
use crate::app::App;
use crate::http::failure::{Failure, refused};
use crate::http::input::Input;
use crate::http::reply::Reply;
use crate::routes::item_limits::{check_count, check_lengths, check_query};
use crate::routes::route::Route;
use crate::routes::schemas::Schemas;

pub(super) fn routes(schemas: &mut Schemas) -> Vec<Route> {
    let example = json!({"pairs": [{
        "question": "How is bread made?",
        "context": "Bread is baked from flour. The moon is white.",
    }]});
    vec![
        API.compute_body("/prune", respond, "prune", "Find the sentences of texts that answer questions")
            .described("The pruner of `--pruner` reads each text whole; without one, 400.")
            .reads(schemas.request::<PruneRequest>(), example)
            .writes_json("What the pruner keeps of each text, in order.", schemas.response::<Pruned>()),
    ]
}

fn respond(app: &App, input: &Input) -> Result<Reply, Failure> {
    let PruneRequest { pairs, threshold, offsets } = input.parse()?;
    if app.engine.pruner().is_none() {
        return Err(Error::new(ErrorKind::InvalidArgument, "there is no pruner; start the server with --pruner").into());
    }
    if let Some(threshold) = threshold.filter(|threshold| !(0.0..=1.0).contains(threshold)) {
        return refused("threshold", format!("it must be from 0 to 1, or null for the pruner's, not {threshold}"));
    }
    check_count(pairs.len(), "pairs", app.settings.max_documents)?;
    for (index, pair) in pairs.iter().enumerate() {
        check_query(&pair.question, format!("pairs[{index}].question"), app.settings.max_query_bytes)?;
    }
    let call = input.call(None);
    let contexts: Vec<(Cow<str>, Option<Vec<ByteSpan>>)> = pairs.iter().map(|pair| joined(&pair.context)).collect();
    check_lengths(contexts.iter().map(|(text, _)| text.as_ref()), "pairs", app.settings.max_document_bytes)?;
    let texts = pairs.iter().zip(&contexts).map(|(pair, (text, sentences))| PrunedText {
        query: &pair.question,
        text,
        sentences: sentences.clone(),
    });
    let texts: Vec<PrunedText> = texts.collect();
    let pruned = app.engine.wait(&call, app.engine.prune(&texts, threshold, &call))?;
    let results = pruned.iter().zip(&texts).map(|(pruned, PrunedText { text, .. })| {
        let mut end = 0;
        let sentences = pruned.sentences.iter().zip(&pruned.probabilities).map(|(sentence, probability)| {
            let start = end;
            end += length(sentence.of(text), offsets);
            PrunedSentence { start, end, probability: *probability, kept: *probability >= pruned.least_kept }
        });
        PrunedContext { score: pruned.score, sentences: sentences.collect() }
    });
    Reply::json(input, &Pruned { results: results.collect(), offsets }, Work::default())
}

/// The text, and its sentences if they were sent.
fn joined<'body>(context: &'body Context) -> (Cow<'body, str>, Option<Vec<ByteSpan>>) {
    match context {
        Context::Text(text) => (Cow::Borrowed(text), None),
        Context::Sentences(sentences) => {
            let (text, spans) = join_sentences(sentences);
            (Cow::Owned(text), Some(spans))
        }
    }
}
