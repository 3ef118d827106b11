//! Texts of a call that are not pages: queries, titles, and the pairs that measure a model's cosines.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use rustc_hash::FxHashMap;

use super::cache::CacheKey;
use super::context::CallContext;
use super::{Pairing, token_count};
use crate::encoder::cosine::cosines;
use crate::error::Result;
use crate::ranking::parsed_page::PreparedPage;
use crate::ranking::probability::{CosineScale, PAIRS};
use crate::ranking::static_vectors::{StaticVectors, UnitTokens};
use crate::ranking::titles::Titles;
use crate::runtime::profiling::Stage;
use crate::scheduler::batches::RowSource;
use crate::tokens::Role;

/// The scale of the model's cosines: from its configuration, or measured in its first call. Not part of any call's
/// work.
pub(super) async fn cosine_scale(context: &CallContext<'_, '_>) -> Result<CosineScale> {
    if let Some(scale) = context.engine.cosine_scale.get() {
        return Ok(*scale);
    }
    let (mut context, (questions, answers)) = (context.uncounted(), PAIRS.into_iter().unzip::<_, _, Vec<_>, Vec<_>>());
    let questions = encode(&mut context, &questions, Role::Query).await?;
    let answers = encode(&mut context, &answers, Role::Passage).await?;
    Ok(*context.engine.cosine_scale.get_or_init(|| CosineScale::of(&questions, &answers)))
}

/// Encodes a few short texts. Equal texts are encoded once, and cached ones not at all.
pub(super) async fn encode(context: &mut CallContext<'_, '_>, texts: &[&str], role: Role) -> Result<Vec<Vec<f32>>> {
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
pub(super) async fn titles(
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
