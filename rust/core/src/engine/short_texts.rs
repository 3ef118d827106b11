//! Texts of a call that are not pages: queries, titles, and the pairs that measure a model's cosines.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use super::cache::CacheKey;
use super::context::CallContext;
use super::token_vectors::without_skipped;
use super::{Effort, Pairing, token_count};
use crate::encoder::cosine::cosines;
use crate::error::Result;
use crate::ranking::cosine_scale::CosineScale;
use crate::ranking::maxsim::mean_maxsim;
use crate::ranking::parsed_page::PreparedPage;
use crate::ranking::query_match::Query;
use crate::ranking::static_vectors::{StaticVectors, UnitTokens};
use crate::ranking::titles::title_relevance;
use crate::runtime::profiling::Stage;
use crate::scheduler::batches::{RowSource, Wanted};
use crate::tokens::{Role, TokenPage};

/// Encodes the queries, and the titles of pages that compete. With [`Effort::Instant`], static vectors stand for those
/// of titles.
pub(super) async fn encode_queries<'call>(
    context: &mut CallContext<'call, '_>,
    pages: &[PreparedPage<'_>],
    scale: CosineScale,
    static_vectors: Option<&StaticVectors>,
) -> Result<Vec<Query<'call>>> {
    let request = context.request;
    let titled = pages.iter().enumerate().filter_map(|(page, prepared)| Some((page, prepared.title?)));
    let mut titled: Vec<(usize, &str)> = titled.collect();
    if titled.len() < 2 || request.pairing == Pairing::Each {
        titled.clear();
    }
    let static_vectors = static_vectors.filter(|_| context.question.effort == Effort::Instant);
    let encoded = if static_vectors.is_some() { &[][..] } else { &titled };
    let texts = request.queries.iter().map(|query| (Role::Query, *query));
    let texts: Vec<(Role, &str)> = texts.chain(encoded.iter().map(|(_, title)| (Role::Passage, *title))).collect();
    let mut vectors = encode(context, &texts).await?;
    let of_titles = vectors.split_off(request.queries.len());
    let width = context.engine.spec.dimension;
    let mut relevance = vec![HashMap::new(); request.queries.len()];
    if !titled.is_empty() {
        let cosines: Vec<Vec<f32>> = match static_vectors {
            Some(static_vectors) => static_cosines(context, &titled, &vectors, static_vectors)?,
            None if context.engine.tokens.is_late_interaction() => vectors
                .iter()
                .map(|query| of_titles.iter().map(|title| mean_maxsim(query, title, width)).collect())
                .collect(),
            None => {
                let of_titles = of_titles.concat();
                vectors.iter().map(|query| cosines(query, &of_titles)).collect()
            }
        };
        let weight = context.question.lexical_weight;
        relevance = title_relevance(&titled, cosines, &request.queries, weight, scale.prior());
    }
    let queries = vectors.into_iter().zip(relevance).enumerate();
    let query = |(query, (vector, titles))| Query {
        text: request.queries[query],
        vector,
        pages: request.pages_of(query),
        titles,
    };
    Ok(queries.map(query).collect())
}

/// Encodes a few short texts together. Equal texts are encoded once, and cached ones not at all. With late interaction,
/// the vectors of a text's tokens are concatenated.
pub(super) async fn encode(context: &mut CallContext<'_, '_>, texts: &[(Role, &str)]) -> Result<Vec<Vec<f32>>> {
    let began = Instant::now();
    let engine = context.engine;
    let rows = texts.iter().map(|(role, text)| engine.tokens.short_row(text, *role)).collect::<Result<Vec<_>>>()?;
    let keys: Vec<CacheKey> = rows.iter().map(|row| CacheKey::of_row(&row.ids)).collect();
    let is_late = engine.tokens.is_late_interaction();
    let dimension = engine.spec.dimension;
    let widths: Vec<usize> =
        rows.iter().map(|row| if is_late { row.vectors() * dimension } else { dimension }).collect();
    let skipped: Vec<Vec<usize>> = rows.iter().map(|row| row.skipped.clone()).collect();
    let page = Arc::new(TokenPage::of_texts(rows));
    context.record(Stage::Tokenize, began);
    let encode = async |missing: &[usize]| {
        let row = |row: &usize| RowSource { page: Arc::clone(&page), window: *row };
        let rows: Vec<RowSource> = missing.iter().map(row).collect();
        context.work.tokens += token_count(&rows);
        context.call.check_tokens(context.work.tokens)?;
        let began = Instant::now();
        let wanted = if is_late { Wanted::TokenVectors } else { Wanted::Vector };
        let lengths: Vec<usize> = rows.iter().map(RowSource::len).collect();
        let mut vectors = context.scheduler.submit_for(wanted, rows, context.call)?.await?;
        if is_late {
            let rows = lengths.into_iter().zip(missing.iter().map(|row| skipped[*row].as_slice()));
            vectors = without_skipped(&vectors, dimension, rows);
        }
        context.record(Stage::Wait, began);
        Ok(vectors)
    };
    let vectors = engine.cache.vectors(&keys, |row| widths[row], encode).await?;
    Ok(vectors.iter().map(|vector| vector.to_vec()).collect())
}

/// The cosines of each query with titles, by static vectors.
fn static_cosines(
    context: &CallContext<'_, '_>,
    titled: &[(usize, &str)],
    queries: &[Vec<f32>],
    static_vectors: &StaticVectors,
) -> Result<Vec<Vec<f32>>> {
    let each: Vec<Range<usize>> = (0..titled.len()).map(|title| title..title + 1).collect();
    let ids = titled.iter().map(|(_, title)| context.engine.tokens.ids(title)).collect::<Result<Vec<_>>>()?;
    let (tokens, check) = (UnitTokens::new(&ids), context.call.checker());
    queries.iter().map(|query| static_vectors.means(query, &tokens, &each, &check)).collect()
}
