//! The shortlist: which pages of a large call are encoded at all, if they compete for one limit.
//!
//! Of a thousand pages, most cannot get a part of the answer. So static vectors and words rank all of them first, as
//! with [`super::Effort::Instant`]. The best are searched as in any call; the others give no passages.

use super::prediction::Prediction;
use super::ranked_seeds::{PageRanking, QueryRanking, rank};
use super::scored_windows::accept_predictions;

/// The least number of pages on the shortlist.
const MIN_PAGES: usize = 50;
/// It has one of this number of pages.
const SHARE: usize = 13;
/// It has this number of pages for each passage that the pages' limit has room for.
const PAGES_PER_PASSAGE: usize = 2;

/// The number of pages on the shortlist, if the call has more.
pub(crate) fn shortlist_length(pages: usize, passages: usize) -> Option<usize> {
    let length = MIN_PAGES.max(pages.div_ceil(SHARE)).max(passages.saturating_mul(PAGES_PER_PASSAGE));
    (pages > length).then_some(length)
}

/// Keeps the `count` pages of each query whose best passages come first by prediction. Ties go to the earlier page.
/// Predicts anew for these, as in a call of their own: by words and not by static vectors.
pub(crate) fn take_shortlist<'page>(
    predictions: Vec<Vec<Prediction<'page>>>,
    count: usize,
) -> Vec<Vec<Prediction<'page>>> {
    let rankings = rank(accept_predictions(&predictions));
    let is_listed: Vec<Vec<bool>> = rankings.iter().map(|ranking| best_pages(ranking, count)).collect();
    let take = |(pages, is_listed): (Vec<Prediction<'page>>, Vec<bool>)| {
        let listed = pages.into_iter().zip(is_listed).filter(|(_, is_listed)| *is_listed);
        listed.map(|(page, _)| Prediction::of_listed(page.matched)).collect()
    };
    predictions.into_iter().zip(is_listed).map(take).collect()
}

/// For each page, whether it is one of the best.
fn best_pages(ranking: &QueryRanking, count: usize) -> Vec<bool> {
    let best = |page: &PageRanking| {
        page.seeds.logits.iter().copied().fold(f32::NEG_INFINITY, f32::max) + page.title_relevance()
    };
    let best: Vec<f32> = ranking.pages.iter().map(best).collect();
    let mut order: Vec<usize> = (0..best.len()).collect();
    order.sort_by(|a, b| best[*b].total_cmp(&best[*a]));
    let mut is_listed = vec![false; best.len()];
    for page in order.into_iter().take(count) {
        is_listed[page] = true;
    }
    is_listed
}
