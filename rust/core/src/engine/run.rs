//! One call of [`Engine::highlights`]: pages are read, then looked at in one round or two, then passages are chosen.
//!
//! It is a future so that it can be left where it waits for vectors, and taken up again, by any thread (see
//! [`crate::scheduler::block_on`]). Between its stages it breathes: what a host's step does at a time is one stage at most.

use std::sync::Arc;
use std::time::Instant;

use rustc_hash::FxHashMap;

use super::answers::{choose_answers, passages_of};
use super::comparison::{Comparison, keep, score_candidates};
use super::context::CallContext;
use super::prepared::{Prepared, deduplicate_pages, prepare, read};
use super::{Answers, Pairing, all_rows, column, token_count};
use crate::encoder::cosine::cosines;
use crate::error::Result;
use crate::ranking::candidates::{first_views, second_views, take_samples};
use crate::ranking::evidence::{PageEvidence, QueryEvidence};
use crate::ranking::titles::Titles;
use crate::ranking::views::View;
use crate::runtime::call::{self};
use crate::runtime::profiling::Stage;
use crate::runtime::tasks::yield_now;
use crate::runtime::text_pool;
use crate::text::formats::Document;
use crate::tokens::Role;

pub(super) async fn answer(mut context: CallContext<'_, '_>) -> Result<Answers> {
    let request = context.request;
    let queries = encode(&mut context, request.queries, Role::Query).await?;
    let documents = read(&mut context)?;
    let titles = titles(&mut context, &documents, &queries).await?;
    let duplicates = deduplicate_pages(&mut context, &documents)?;
    yield_now().await;
    let pages = prepare(&mut context, &documents, &duplicates)?;
    yield_now().await;
    let all_evidence = all_evidence(&mut context, &pages, &titles)?;
    yield_now().await;
    let mut comparison = Comparison::new(&pages, &duplicates, &queries, all_evidence, &context.engine.spec);
    score_candidates(&mut context, &mut comparison).await?;
    if expand_candidates(&mut context, &mut comparison) {
        score_candidates(&mut context, &mut comparison).await?;
        rank(&mut context, &mut comparison);
    }
    let began = Instant::now();
    let mut answers =
        choose_answers(&comparison.all_evidence, &pages, context.request, context.question, &context.engine.tokens)?;
    context.spend(Stage::Choose, began);
    let compared = comparison.compared();
    context.work.windows_scored = compared.iter().sum();
    context.work.truncated = comparison.truncated();
    keep(&context, comparison);
    answers.work = context.work;
    answers.windows_scored = compared.into_iter().map(column).collect();
    answers.windows = pages.iter().map(|page| column(page.reading.rows)).collect();
    drop(pages);
    answers.formats = documents.iter().map(Document::format).collect();
    answers.texts = documents.into_iter().map(Document::into_extracted).collect();
    Ok(answers)
}

/// The vectors of a few short texts; texts that are equal are encoded once.
async fn encode(context: &mut CallContext<'_, '_>, texts: &[&str], role: Role) -> Result<Vec<Vec<f32>>> {
    let began = Instant::now();
    let (mut distinct, mut known) = (Vec::new(), FxHashMap::default());
    let places = texts.iter().copied().map(|text| {
        *known.entry(text).or_insert_with(|| {
            distinct.push(text);
            distinct.len() - 1
        })
    });
    let places: Vec<usize> = places.collect();
    let page = context.engine.tokens.texts(&distinct, role, &|| Ok(()))?;
    let rows = all_rows(&Arc::new(page));
    context.work.tokens += token_count(&rows);
    context.call.allow_tokens(context.work.tokens)?;
    context.spend(Stage::Tokenize, began);
    let dimension = context.engine.spec.dimension;
    let began = Instant::now();
    let vectors = context.scheduler.submit(rows, context.call)?.await?;
    context.spend(Stage::Wait, began);
    let vector = |place: usize| vectors[place * dimension..(place + 1) * dimension].to_vec();
    Ok(places.into_iter().map(vector).collect())
}

/// What the pages' titles say of each query; nothing where there are none to compare.
async fn titles(context: &mut CallContext<'_, '_>, documents: &[Document<'_>], queries: &[Vec<f32>]) -> Result<Titles> {
    let titled: Vec<(usize, &str)> = context.request.titled(documents);
    if titled.len() < 2 || context.request.pairing == Pairing::Each {
        return Ok(Titles::default());
    }
    let texts: Vec<&str> = titled.iter().map(|(_, title)| *title).collect();
    let vectors = encode(context, &texts, Role::Passage).await?.concat();
    let cosines = queries.iter().map(|query| cosines(query, &vectors)).collect();
    Ok(Titles::read(&titled, cosines, context.request.queries, context.question.lexical_weight))
}

/// Reads what each page says of each query in words, and plans what to look at first.
fn all_evidence<'page, 'document>(
    context: &mut CallContext<'_, '_>,
    pages: &'page [Prepared<'document>],
    titles: &Titles,
) -> Result<Vec<QueryEvidence<'page, 'document>>> {
    let began = Instant::now();
    let (request, question) = (context.request, context.question);
    let (stop, deadline) = (context.call.stop().clone(), context.call.deadline());
    let queries = 0..request.queries.len();
    let pairs: Vec<(usize, usize)> =
        queries.flat_map(|query| request.pages_of(query).map(move |page| (page, query))).collect();
    let bytes = pairs.iter().map(|(page, _)| pages[*page].page.text().len()).sum();
    let evidence = context.engine.pool.run(context.call, bytes, || {
        text_pool::map(&pairs, |(page, query)| {
            call::check(&stop, deadline)?;
            let Prepared { page: text, reading, .. } = &pages[*page];
            let title = titles.of(*query, *page);
            Ok(PageEvidence::new(*page, (text, reading), request.queries[*query], question.grows(), title))
        })
    })?;
    let mut evidence = evidence.into_iter();
    let all_evidence = (0..request.queries.len()).map(|query| {
        let of_query = evidence.by_ref().take(request.pages_of(query).len()).collect();
        let mut query_evidence = QueryEvidence::new(query, of_query, question.lexical_weight);
        take_samples(&mut query_evidence);
        let views = first_views(&query_evidence, &question.candidate_limits());
        query_evidence.evidence.iter_mut().zip(views).for_each(|(evidence, view)| evidence.view = view);
        query_evidence
    });
    let all_evidence = all_evidence.collect();
    context.spend(Stage::Choose, began);
    Ok(all_evidence)
}

/// Judges every page by what was looked at.
fn rank(context: &mut CallContext<'_, '_>, comparison: &mut Comparison) {
    let began = Instant::now();
    comparison.all_evidence.iter_mut().for_each(QueryEvidence::rank);
    context.spend(Stage::Choose, began);
}

/// Judges what the first look has shown: whether there is more to be looked at, and what.
fn expand_candidates(context: &mut CallContext<'_, '_>, comparison: &mut Comparison) -> bool {
    rank(context, comparison);
    let began = Instant::now();
    let is_part = |evidence: &PageEvidence| evidence.view != View::Whole;
    let mut is_more = false;
    for query_evidence in comparison.all_evidence.iter_mut().filter(|query| query.evidence.iter().any(is_part)) {
        let best = |evidence: &PageEvidence| -> Vec<f32> {
            let passages = passages_of(evidence, &comparison.pages[evidence.index], context.question);
            passages.into_iter().map(|passage| passage.relevance).collect()
        };
        let best = query_evidence.evidence.iter().map(best).collect();
        let views = second_views(query_evidence, best, &context.question.candidate_limits());
        for (evidence, view) in query_evidence.evidence.iter_mut().zip(views) {
            is_more |= evidence.view != view;
            evidence.view = view;
        }
    }
    context.spend(Stage::Choose, began);
    is_more
}
