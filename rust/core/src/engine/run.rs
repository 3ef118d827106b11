//! The stages of one call of [`Engine::highlights`](super::Engine::highlights): parse pages, score candidate windows in
//! one or two rounds, choose passages.
//!
//! It is a future, so that any thread can resume it after it waited for vectors (see [`crate::scheduler::block_on`]).
//! It yields between its stages, so that a host's step runs one stage at most.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use rustc_hash::FxHashMap;

use super::answers::{choose_answers, scored_passages};
use super::cache::CacheKey;
use super::comparison::{Comparison, cache_vectors, score_candidates};
use super::context::CallContext;
use super::prepared::{PreparedPage, deduplicate_pages, prepare, read_documents};
use super::{Answers, Effort, Engine, Pairing, Question, Request, column, token_count};
use crate::encoder::cosine::cosines;
use crate::error::Result;
use crate::ranking::candidates::{complete_first_round, first_round, second_round};
use crate::ranking::evidence::{PageEvidence, PageTitle, QueryEvidence};
use crate::ranking::probability::{Calibration, CosineScale, PAIRS};
use crate::ranking::selection::WindowSelection;
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
    let request = context.request;
    let scale = cosine_scale(&mut context).await?;
    let queries = encode(&mut context, &request.queries, Role::Query).await?;
    let is_instant = context.question.effort == Effort::Instant;
    let static_vectors =
        if context.uses_static_vectors() { Some(context.engine.static_vectors(&context).await?) } else { None };
    let static_vectors = static_vectors.as_deref();
    let documents = read_documents(&mut context)?;
    let titles = titles(&mut context, &documents, &queries, static_vectors.filter(|_| is_instant)).await?;
    let duplicates = deduplicate_pages(&mut context, &documents)?;
    yield_now().await;
    let pages = prepare(&mut context, &documents, &duplicates)?;
    yield_now().await;
    let calibrate = (scale, static_vectors);
    let all_evidence = all_evidence(&mut context, &pages, &documents, &titles, &queries, calibrate)?;
    yield_now().await;
    let mut comparison = Comparison::new(&pages, &duplicates, &queries, all_evidence, &context.engine.spec);
    if is_instant {
        comparison
            .all_evidence
            .iter_mut()
            .flat_map(|query| &mut query.pages)
            .for_each(PageEvidence::accept_predictions);
        rank(&mut context, &mut comparison);
    } else {
        score_candidates(&mut context, &mut comparison).await?;
        if extend_previews(&mut context, &mut comparison) {
            score_candidates(&mut context, &mut comparison).await?;
        }
        if expand_candidates(&mut context, &mut comparison) {
            score_candidates(&mut context, &mut comparison).await?;
            rank(&mut context, &mut comparison);
        }
    }
    let began = Instant::now();
    let mut answers =
        choose_answers(&comparison.all_evidence, &pages, context.request, context.question, &context.engine.tokens)?;
    context.record(Stage::Choose, began);
    let rows_scored = comparison.rows_scored();
    context.work.windows_scored = rows_scored.iter().sum();
    context.work.truncated = comparison.truncated();
    cache_vectors(&context, comparison);
    answers.work = context.work;
    answers.windows_scored = rows_scored.into_iter().map(column).collect();
    answers.windows = pages.iter().map(|page| column(page.parsed.rows)).collect();
    drop(pages);
    answers.formats = documents.iter().map(Document::format).collect();
    answers.texts = documents.into_iter().map(Document::into_extracted).collect();
    Ok(answers)
}

/// The scale of the model's cosines: from its configuration, or measured in its first call. Not part of any call's
/// work.
async fn cosine_scale(context: &mut CallContext<'_, '_>) -> Result<CosineScale> {
    if let Some(scale) = context.engine.cosine_scale.get() {
        return Ok(*scale);
    }
    let (work, (questions, answers)) = (context.work, PAIRS.iter().copied().unzip::<_, _, Vec<_>, Vec<_>>());
    let questions = encode(context, &questions, Role::Query).await?;
    let answers = encode(context, &answers, Role::Passage).await?;
    context.work = work;
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
    documents: &[Document<'_>],
    queries: &[Vec<f32>],
    static_vectors: Option<&StaticVectors>,
) -> Result<Titles> {
    let titled: Vec<(usize, &str)> = context.request.titled_pages(documents);
    if titled.len() < 2 || context.request.pairing == Pairing::Each {
        return Ok(Titles::default());
    }
    let texts: Vec<&str> = titled.iter().map(|(_, title)| *title).collect();
    let cosines = if let Some(vectors) = static_vectors {
        let spans: Vec<Range<usize>> = (0..texts.len()).map(|title| title..title + 1).collect();
        let ids = texts.iter().map(|title| context.engine.tokens.ids(title)).collect::<Result<Vec<_>>>()?;
        let tokens = UnitTokens::new(&ids);
        queries.iter().map(|query| vectors.means(query, &tokens, &spans)).collect()
    } else {
        let vectors = encode(context, &texts, Role::Passage).await?.concat();
        queries.iter().map(|query| cosines(query, &vectors)).collect()
    };
    Ok(Titles::new(&titled, cosines, &context.request.queries, context.question.lexical_weight))
}

/// Scores each page's words for each query, and selects the windows of the first round.
fn all_evidence<'page, 'document>(
    context: &mut CallContext<'_, '_>,
    pages: &'page [PreparedPage<'document>],
    documents: &[Document<'_>],
    titles: &Titles,
    queries: &[Vec<f32>],
    (scale, static_vectors): (CosineScale, Option<&StaticVectors>),
) -> Result<Vec<QueryEvidence<'page, 'document>>> {
    let began = Instant::now();
    let (request, question, shortlist) = (context.request, context.question, context.shortlist);
    let check = context.call.checker();
    let pairs: Vec<(usize, usize)> =
        (0..request.queries.len()).flat_map(|query| request.pages_of(query).map(move |page| (page, query))).collect();
    let bytes = pairs.iter().map(|(page, _)| pages[*page].page.text().len()).sum();
    let tokens = &context.engine.tokens;
    let title_of: FxHashMap<usize, &str> = request.titled_pages(documents).into_iter().collect();
    let evidence = context.engine.pool.run(context.call, bytes, || {
        text_pool::map(&pairs, |(page, query)| {
            check()?;
            let PreparedPage { page: text, parsed, .. } = &pages[*page];
            let title = PageTitle { text: title_of.get(page).copied(), relevance: titles.relevance(*query, *page) };
            let calibration = Calibration::new(question.lexical_weight, parsed.characters_per_token, scale);
            let (words, expands) = (request.queries[*query], question.expands());
            let evidence = PageEvidence::new(*page, (text, parsed), words, expands, title, tokens, calibration);
            Ok(match static_vectors {
                Some(vectors) => evidence.with_static_vectors(vectors, &queries[*query]),
                None => evidence,
            })
        })
    })?;
    let mut evidence = evidence.into_iter();
    let all_evidence = (0..request.queries.len()).map(|query| {
        let pages = evidence.by_ref().take(request.pages_of(query).len()).collect();
        let mut query = QueryEvidence::new(query, pages, question.lexical_weight);
        if let Some(count) = shortlist {
            take_shortlist(&mut query, count);
        }
        if question.effort != Effort::Instant {
            first_round(&mut query, &question.candidate_limits());
        }
        query
    });
    let all_evidence = all_evidence.collect();
    context.record(Stage::Choose, began);
    Ok(all_evidence)
}

/// Sets the relevance and the logits of all pages' seeds from the scored windows.
fn rank(context: &mut CallContext<'_, '_>, comparison: &mut Comparison) {
    let began = Instant::now();
    comparison.all_evidence.iter_mut().for_each(QueryEvidence::rank);
    context.record(Stage::Choose, began);
}

/// Selects the rest of the first round, where pages have a preview. Returns whether there is any.
fn extend_previews(context: &mut CallContext<'_, '_>, comparison: &mut Comparison) -> bool {
    let is_previewed = |query: &QueryEvidence| query.pages.iter().any(|evidence| evidence.is_previewed);
    if !comparison.all_evidence.iter().any(is_previewed) {
        return false;
    }
    rank(context, comparison);
    let began = Instant::now();
    let limits = context.question.candidate_limits();
    let mut has_more = false;
    for query in &mut comparison.all_evidence {
        has_more |= complete_first_round(query, &limits);
    }
    context.record(Stage::Choose, began);
    has_more
}

/// Selects the windows of the second round, from the scores of the first. Returns whether there are any.
fn expand_candidates(context: &mut CallContext<'_, '_>, comparison: &mut Comparison) -> bool {
    rank(context, comparison);
    let began = Instant::now();
    let is_partial = |evidence: &PageEvidence| evidence.selection != WindowSelection::All;
    let mut has_more = false;
    for query in comparison.all_evidence.iter_mut().filter(|query| query.pages.iter().any(is_partial)) {
        let best = |evidence: &PageEvidence| -> Vec<f32> {
            scored_passages(evidence, &comparison.pages[evidence.index], context.question)
        };
        let best = query.pages.iter().map(best).collect();
        let selections = second_round(query, best, &context.question.candidate_limits());
        for (evidence, selection) in query.pages.iter_mut().zip(selections) {
            has_more |= evidence.selection != selection;
            evidence.selection = selection;
        }
    }
    context.record(Stage::Choose, began);
    has_more
}
