//! The stages of one call of [`Engine::highlights`](super::Engine::highlights): parse pages, score candidate windows in
//! one or two rounds, choose passages.
//!
//! It is a future, so that any thread can resume it after it waited for vectors (see [`crate::scheduler::block_on`]).
//! It yields between its stages, so that a host's step runs one stage at most.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use rustc_hash::FxHashMap;

use super::cache::CacheKey;
use super::comparison::{Comparison, cache_vectors, score};
use super::context::CallContext;
use super::passages::{passages_of_answers, provisional_passages};
use super::prepared::{deduplicate_pages, prepare, read_documents};
use super::{Answers, Effort, Engine, Pairing, Question, Request, column, token_count};
use crate::encoder::cosine::cosines;
use crate::error::Result;
use crate::ranking::candidates::{select_after_previews, select_contenders, select_likely};
use crate::ranking::parsed_page::{ParsedPage, PreparedPage};
use crate::ranking::prediction::Prediction;
use crate::ranking::probability::{CosineScale, PAIRS};
use crate::ranking::query_match::{Matching, PageMatch, WordMatch};
use crate::ranking::ranked_seeds::rank;
use crate::ranking::scored_windows::accept_predictions;
use crate::ranking::shortlist::take_shortlist;
use crate::ranking::static_vectors::{StaticVectors, UnitTokens};
use crate::ranking::titles::Titles;
use crate::runtime::call::Call;
use crate::runtime::profiling::Stage;
use crate::runtime::tasks::yield_now;
use crate::runtime::text_pool;
use crate::scheduler::Scheduler;
use crate::scheduler::batches::RowSource;
use crate::text::formats::Document;
use crate::tokens::Role;

impl Engine {
    /// Chooses the best passages of pages, as a future that a driver runs (see `drivers`).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidText`] for a text over [`MAX_TEXT_BYTES`](super::MAX_TEXT_BYTES);
    /// [`ErrorKind::InvalidArgument`] if the numbers of queries, pages, formats and titles do not match; errors of the
    /// encoder and of [`Call::check`].
    ///
    /// [`ErrorKind::InvalidText`]: crate::error::ErrorKind::InvalidText
    /// [`ErrorKind::InvalidArgument`]: crate::error::ErrorKind::InvalidArgument
    pub async fn highlights<Text: AsRef<str>>(
        &self,
        request: &Request<Text>,
        question: &Question,
        call: &Call<'_>,
    ) -> Result<Answers> {
        self.highlights_with(self.scheduler()?, request, question, call).await
    }

    /// As [`Self::highlights`], with vectors from this scheduler.
    pub(super) async fn highlights_with<Text: AsRef<str>>(
        &self,
        scheduler: Arc<Scheduler>,
        request: &Request<Text>,
        question: &Question,
        call: &Call<'_>,
    ) -> Result<Answers> {
        request.check()?;
        let (request, call) = (&request.borrowed(), &call.with_shutdown(&self.shutdown));
        answer(CallContext::new(self, scheduler, request, question, call)).await
    }
}

async fn answer(mut context: CallContext<'_, '_>) -> Result<Answers> {
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
    let scored = if is_instant {
        context.ranking(|_| Ok(accept_predictions(&predictions)))?
    } else {
        let selections = context.ranking(|_| Ok(select_likely(&predictions, &limits)))?;
        score(&mut context, &mut comparison, &predictions, selections).await?
    };
    let mut rankings = context.ranking(|_| Ok(rank(scored)))?;
    if let Some(selections) = context.ranking(|_| Ok(select_after_previews(&rankings, &limits)))? {
        let scored = score(&mut context, &mut comparison, &predictions, selections).await?;
        rankings = context.ranking(|_| Ok(rank(scored)))?;
    }
    let provisional = context.ranking(|context| provisional_passages(context, &rankings, &pages))?;
    if let Some(selections) = context.ranking(|_| Ok(select_contenders(&rankings, &provisional, &limits)))? {
        let scored = score(&mut context, &mut comparison, &predictions, selections).await?;
        rankings = context.ranking(|_| Ok(rank(scored)))?;
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

/// The scale of the model's cosines: from its configuration, or measured in its first call. Not part of any call's
/// work.
async fn cosine_scale(context: &CallContext<'_, '_>) -> Result<CosineScale> {
    if let Some(scale) = context.engine.cosine_scale.get() {
        return Ok(*scale);
    }
    let (mut context, (questions, answers)) = (context.uncounted(), PAIRS.into_iter().unzip::<_, _, Vec<_>, Vec<_>>());
    let questions = encode(&mut context, &questions, Role::Query).await?;
    let answers = encode(&mut context, &answers, Role::Passage).await?;
    Ok(*context.engine.cosine_scale.get_or_init(|| CosineScale::of(&questions, &answers)))
}

/// Encodes a few short texts. Equal texts are encoded once, and cached ones not at all.
async fn encode(context: &mut CallContext<'_, '_>, texts: &[&str], role: Role) -> Result<Vec<Vec<f32>>> {
    let began = Instant::now();
    let (mut distinct, mut index_of) = (Vec::new(), FxHashMap::default());
    let indexes = texts.iter().copied().map(|text| {
        *index_of.entry(text).or_insert_with(|| {
            distinct.push(text);
            distinct.len() - 1
        })
    });
    let indexes: Vec<usize> = indexes.collect();
    let cache = &context.engine.cache;
    let page = Arc::new(context.engine.tokens.texts(&distinct, role, &|| Ok(()))?);
    let keys: Vec<CacheKey> = (0..page.len()).map(|row| CacheKey::of_row(&page.row(row))).collect();
    let mut vectors: Vec<Option<Arc<[f32]>>> = keys.iter().map(|key| cache.vector(key)).collect();
    let missing: Vec<usize> = (0..page.len()).filter(|row| vectors[*row].is_none()).collect();
    let rows: Vec<RowSource> = missing.iter().map(|row| RowSource { page: Arc::clone(&page), window: *row }).collect();
    context.work.tokens += token_count(&rows);
    context.call.check_tokens(context.work.tokens)?;
    context.record(Stage::Tokenize, began);
    if !rows.is_empty() {
        let began = Instant::now();
        let values = context.scheduler.submit(rows, context.call)?.await?;
        context.record(Stage::Wait, began);
        for (row, values) in missing.into_iter().zip(values.chunks_exact(context.engine.spec.dimension)) {
            let values: Arc<[f32]> = values.into();
            cache.insert_vector(keys[row], Arc::clone(&values));
            vectors[row] = Some(values);
        }
    }
    let vector = |index: usize| vectors[index].as_deref().map(<[f32]>::to_vec).unwrap_or_default();
    Ok(indexes.into_iter().map(vector).collect())
}

/// The relevance of the pages' titles for each query; empty if fewer than two pages with titles compete.
async fn titles(
    context: &mut CallContext<'_, '_>,
    pages: &[PreparedPage<'_>],
    queries: &[Vec<f32>],
    static_vectors: Option<&StaticVectors>,
) -> Result<Titles> {
    let titled = pages.iter().enumerate().filter_map(|(page, prepared)| Some((page, prepared.title?)));
    let titled: Vec<(usize, &str)> = titled.collect();
    if titled.len() < 2 || context.request.pairing == Pairing::Each {
        return Ok(Titles::default());
    }
    let texts: Vec<&str> = titled.iter().map(|(_, title)| *title).collect();
    let cosines = if let Some(vectors) = static_vectors {
        let spans: Vec<Range<usize>> = (0..texts.len()).map(|title| title..title + 1).collect();
        let ids = texts.iter().map(|title| context.engine.tokens.ids(title)).collect::<Result<Vec<_>>>()?;
        let tokens = UnitTokens::new(&ids);
        let check = context.call.checker();
        queries.iter().map(|query| vectors.means(query, &tokens, &spans, &check)).collect::<Result<_>>()?
    } else {
        let vectors = encode(context, &texts, Role::Passage).await?.concat();
        queries.iter().map(|query| cosines(query, &vectors)).collect()
    };
    Ok(Titles::new(&titled, cosines, &context.request.queries, context.question.lexical_weight))
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
