//! The stages of one call of [`Engine::highlights`](super::Engine::highlights): parse pages, score candidate windows in
//! up to three rounds, choose passages.
//!
//! It is a future, so that any thread can resume it after it waited for vectors (see [`crate::scheduler::block_on`]).
//! It yields between its stages, so that a host's step runs one stage at most.

use super::comparison::{Comparison, score};
use super::context::CallContext;
use super::documents::read_documents;
use super::passages::{SharedPages, passages_of_answers, provisional_passages, prune, rescore};
use super::prepared::prepare;
use super::scale::cosine_scale;
use super::short_texts::encode_queries;
use super::{Answers, Effort, column};
use crate::error::Result;
use crate::ranking::candidates::{select_after_previews, select_contenders, select_likely};
use crate::ranking::prediction::predict;
use crate::ranking::query_match::Matching;
use crate::ranking::ranked_seeds::rank;
use crate::ranking::scored_windows::accept_predictions;
use crate::ranking::shortlist::take_shortlist;
use crate::runtime::tasks::yield_now;
use crate::text::formats::Document;

/// A round of encoding, which selects windows from what the rounds before it have shown.
#[derive(Clone, Copy)]
enum Round {
    Likely,
    AfterPreviews,
    Contenders,
}

pub(super) async fn answer(mut context: CallContext<'_, '_>) -> Result<Answers> {
    let (engine, question, call) = (context.engine, context.question, context.call);
    let read = read_documents(&mut context)?;
    yield_now().await;
    let pages = prepare(&mut context, &read)?;
    yield_now().await;

    let cosine_scale = cosine_scale(&context).await?;
    let static_vectors = if context.parsing.keeps_tokens { Some(engine.static_vectors(&context).await?) } else { None };
    let queries = encode_queries(&mut context, &pages, cosine_scale, static_vectors.as_deref()).await?;
    let matching = Matching {
        tokens: &engine.tokens,
        lexical_weight: question.lexical_weight,
        expands: question.expands(),
        cosine_scale,
        static_vectors: static_vectors.as_deref(),
    };
    let mut predictions = context.ranking(|_| predict(&queries, &pages, &matching, &engine.pool, call))?;
    if let Some(count) = context.shortlist {
        predictions = context.ranking(|_| Ok(take_shortlist(predictions, count)))?;
    }
    yield_now().await;

    let limits = context.limits;
    let mut comparison = Comparison::new(&pages, &read, &queries, &context);
    let mut rankings = Vec::new();
    if question.effort == Effort::Instant {
        rankings = context.ranking(|_| Ok(rank(accept_predictions(&predictions))))?;
    } else {
        for round in [Round::Likely, Round::AfterPreviews, Round::Contenders] {
            let select = |context: &CallContext<'_, '_>| {
                Ok(match round {
                    Round::Likely => Some(select_likely(&predictions, &limits)),
                    Round::AfterPreviews => select_after_previews(&rankings, &limits),
                    Round::Contenders => {
                        let provisional = provisional_passages(context, &rankings, &pages)?;
                        select_contenders(&rankings, &provisional, &limits)
                    }
                })
            };
            let Some(selections) = context.ranking(select)? else { continue };
            let scored = score(&mut context, &mut comparison, &predictions, selections).await?;
            rankings = context.ranking(|_| Ok(rank(scored)))?;
        }
    }

    let mut shared = context.ranking(|context| Ok(SharedPages::of(context, &rankings)))?;
    if engine.reranker().is_some() && question.rerank_top > 0 {
        rescore(&mut context, &mut shared, &pages).await?;
    } else if engine.pruner().is_some() && question.rerank_top > 0 {
        prune(&mut context, &mut shared, &pages).await?;
    }
    let passages = context.ranking(|context| passages_of_answers(context, &shared, &pages))?;
    let answers = context.ranking(|_| Answers::new(&passages, &pages, question, call))?;
    let windows_scored = comparison.finish(&mut context);
    Ok(Answers {
        windows_scored: windows_scored.into_iter().map(column).collect(),
        windows: pages.iter().map(|page| column(page.parsed.rows)).collect(),
        formats: read.documents.iter().map(Document::format).collect(),
        texts: read.documents.into_iter().map(Document::into_extracted).collect(),
        work: context.work,
        ..answers
    })
}
