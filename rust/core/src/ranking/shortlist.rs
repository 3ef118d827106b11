//! The shortlist: which pages of a large call are encoded at all, if they compete for one limit.
//!
//! Of a thousand pages, most cannot get a part of the answer. So static vectors and words rank all of them first, as
//! with [`super::Effort::Instant`]. The best are searched as in any call; the others give no passages.

use super::evidence::{PageEvidence, QueryEvidence};

/// Pages on the shortlist: at least this number, one of this number of pages, and this number for each passage that the
/// pages' limit has room for.
const LEAST: usize = 50;
const SHARE: usize = 13;
const PAGES_PER_PASSAGE: usize = 2;

/// The number of pages on the shortlist, if the call has more.
pub(crate) fn shortlist_length(pages: usize, passages: usize) -> Option<usize> {
    let length = LEAST.max(pages.div_ceil(SHARE)).max(passages.saturating_mul(PAGES_PER_PASSAGE));
    (pages > length).then_some(length)
}

/// Keeps the `count` pages whose best passages come first by prediction. Ties go to the earlier page.
pub(crate) fn take_shortlist(query: &mut QueryEvidence, count: usize) {
    query.pages.iter_mut().for_each(PageEvidence::accept_predictions);
    query.rank();
    let best =
        |evidence: &PageEvidence| evidence.logits.iter().copied().fold(f32::NEG_INFINITY, f32::max) + evidence.title;
    let best: Vec<f32> = query.pages.iter().map(best).collect();
    let mut order: Vec<usize> = (0..best.len()).collect();
    order.sort_by(|a, b| best[*b].total_cmp(&best[*a]));
    let mut is_listed = vec![false; best.len()];
    for page in order.into_iter().take(count) {
        is_listed[page] = true;
    }
    query.keep_pages(&is_listed);
}
