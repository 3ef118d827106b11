//! The stages of one call of [`Engine::highlights`](super::Engine::highlights): parse pages, score candidate windows in
//! up to three rounds, choose passages.
//!
//! It is a future, so that any thread can resume it after it waited for vectors (see [`crate::scheduler::block_on`]).
//! It yields between its stages, so that a host's step runs one stage at most.

use super::comparison::{Comparison, cache_vectors, score};
use super::context::CallContext;
use super::passages::{passages_of_answers, provisional_passages};
use super::prepared::{deduplicate_pages, prepare, read_documents};
use super::short_texts::{cosine_scale, encode, titles};
use super::{Answers, Effort, column};
use crate::error::Result;
use crate::ranking::candidates::{select_after_previews, select_contenders, select_likely};
use crate::ranking::parsed_page::{ParsedPage, PreparedPage};
use crate::ranking::prediction::Prediction;
use crate::ranking::probability::CosineScale;
use crate::ranking::query_match::{Matching, PageMatch, WordMatch};
use crate::ranking::ranked_seeds::rank;
use crate::ranking::scored_windows::accept_predictions;
use crate::ranking::shortlist::take_shortlist;
use crate::ranking::static_vectors::StaticVectors;
use crate::ranking::titles::Titles;
use crate::runtime::tasks::yield_now;
use crate::runtime::text_pool;
use crate::text::formats::Document;
use crate::tokens::Role;

/// A round of encoding, which selects windows from what the rounds before it have shown.
#[derive(Clone, Copy)]
enum Round {
    Likely,
    AfterPreviews,
    Contenders,
}

pub(super) async fn answer(mut context: CallContext<'_, '_>) -> Result<Answers> {
    let (engine, request, question) = (context.engine, context.request, context.question);
    let is_instant = question.effort == Effort::Instant;
    let cosine_scale = cosine_scale(&context).await?;
    let queries = encode(&mut context, &request.queries, Role::Query).await?;
    let static_vectors =
        if context.uses_static_vectors() { Some(engine.static_vectors(&context).await?) } else { None };
    let documents = read_documents(&mut context)?;
    let duplicates = deduplicate_pages(&mut context, &documents)?;
    yield_now().await;
    let pages = prepare(&mut context, &documents, &duplicates)?;
    yield_now().await;

    let titles = titles(&mut context, &pages, &queries, static_vectors.as_deref().filter(|_| is_instant)).await?;
    let matches = context.ranking(|context| match_words(context, &pages, &titles, cosine_scale))?;
    let mut predictions = context.ranking(|context| predict(context, matches, &queries, static_vectors.as_deref()))?;
    if let Some(count) = context.shortlist {
        predictions = context.ranking(|_| Ok(take_shortlist(predictions, count)))?;
    }
    yield_now().await;

    let (limits, mut comparison) =
        (question.candidate_limits(), Comparison::new(&pages, &duplicates, &queries, &engine.spec));
    let mut rankings = Vec::new();
    if is_instant {
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

    let passages = context.ranking(|context| passages_of_answers(context, &rankings, &pages))?;
    let answers = context.ranking(|context| Answers::new(&passages, &pages, question, context.call))?;
    let rows_scored = comparison.rows_scored();
    context.work.windows_scored = rows_scored.iter().sum();
    context.work.truncated = comparison.truncated();
    cache_vectors(&context, comparison);
    Ok(Answers {
        windows_scored: rows_scored.into_iter().map(column).collect(),
        windows: pages.iter().map(|page| column(page.parsed.rows)).collect(),
        formats: documents.iter().map(Document::format).collect(),
        texts: documents.into_iter().map(Document::into_extracted).collect(),
        work: context.work,
        ..answers
    })
}

/// Matches the words of each query with those of its pages.
fn match_words<'page>(
    context: &CallContext<'_, '_>,
    pages: &'page [PreparedPage<'page>],
    titles: &Titles,
    cosine_scale: CosineScale,
) -> Result<Vec<Vec<PageMatch<'page>>>> {
    let CallContext { engine, request, question, call, .. } = context;
    let (tokens, lexical_weight, expands) = (&engine.tokens, question.lexical_weight, question.expands());
    let matching = Matching { tokens, lexical_weight, expands, cosine_scale };
    let queries = 0..request.queries.len();
    let pairs = queries.flat_map(|query| request.pages_of(query).map(move |page| (query, page)));
    let pairs: Vec<(usize, usize)> = pairs.collect();
    let bytes = pairs.iter().map(|(_, page)| pages[*page].text.text().len()).sum();
    let matches = engine.pool.run(call, bytes, |check| {
        text_pool::map(&pairs, |(query, index)| {
            let title_relevance = titles.relevance(*query, *index);
            let page = &pages[*index];
            let words = WordMatch::new(request.queries[*query], *index, page, title_relevance, &matching, check)?;
            Ok(PageMatch::new(words, lexical_weight))
        })
    })?;
    let mut matches = matches.into_iter();
    Ok((0..request.queries.len()).map(|query| matches.by_ref().take(request.pages_of(query).len()).collect()).collect())
}

/// Predicts the cosines of all windows, from words and static vectors.
fn predict<'page>(
    context: &CallContext<'_, '_>,
    matches: Vec<Vec<PageMatch<'page>>>,
    queries: &[Vec<f32>],
    static_vectors: Option<&StaticVectors>,
) -> Result<Vec<Vec<Prediction<'page>>>> {
    let mut means = Vec::new();
    if let Some(vectors) = static_vectors {
        let pages = matches.iter().zip(queries);
        let pages: Vec<(&PageMatch, &Vec<f32>)> =
            pages.flat_map(|(pages, query)| pages.iter().map(move |page| (page, query))).collect();
        let bytes = pages.iter().map(|(page, _)| page.words.page.text.text().len()).sum();
        means = context.engine.pool.run(context.call, bytes, |check| {
            text_pool::map(&pages, |(page, query)| {
                let ParsedPage { tokens, windows, .. } = &*page.words.page.parsed;
                tokens.as_ref().map_or_else(|| Ok(Vec::new()), |tokens| vectors.means(query, tokens, windows, check))
            })
        })?;
    }
    let mut means = means.into_iter();
    let mut predict = |page| Prediction::new(page, means.next().unwrap_or_default());
    Ok(matches.into_iter().map(|pages| pages.into_iter().map(&mut predict).collect()).collect())
}
