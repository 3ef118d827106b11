//! Candidates: which windows of a page are encoded for a query.
//!
//! Words cost next to nothing; vectors cost nearly everything. So the first round encodes the windows around the units
//! with the best lexical scores, and a sample of the others that estimates the page's cosines. For each window that was
//! not encoded, an upper bound on its relevance is known then: its lexical score, and a cosine [`MAX_Z_ABOVE_MEAN`]
//! deviations above the page's mean. The second round encodes the windows whose bound reaches the best passages; if
//! these are most of the page, it encodes the whole page. The sample is the same for every effort, so a passage that is
//! found has the score that it has when everything is encoded.
//!
//! This is the threshold algorithm (Fagin, Lotem and Naor 2001) with two rounds. It needs no detector for pages where
//! words do not help (another language, typos, no shared word): the best passages are poor then, nearly every bound
//! reaches them, and the page is encoded whole. The selection depends on the pages and the query only, so neither the
//! cache nor concurrent calls change an answer. `bench/notes/encoding_less.md` has the trial behind the constants.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::evidence::{PageEvidence, QueryEvidence};
use super::relevance::{COSINE, Scale, UNIT_SPREAD};
use super::selection::{CosineSample, WindowSelection};

/// How many windows of the pages are encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Effort {
    /// All windows.
    Full,
    /// The windows that words select, and at most 64 others of each page.
    Fast,
    /// The windows that words select, and all others that could be better.
    #[default]
    Auto,
}

/// What the number of candidates depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CandidateLimits {
    pub(crate) effort: Effort,
    /// Whether passages grow from units, or are windows.
    pub(crate) expands: bool,
    /// Passages of a page; `None` if only a budget limits them.
    pub(crate) passages: Option<usize>,
    /// Budget of a page's passages.
    pub(crate) chars: usize,
    pub(crate) tokens: usize,
}

/// The highest cosine assumed for a window that was not encoded, in deviations above its page's mean.
const MAX_Z_ABOVE_MEAN: f64 = 4.0;
/// Sixteen values estimate a standard deviation to about a sixth.
const MIN_SAMPLE_WINDOWS: usize = 16;
/// Windows selected by words: for each passage, and at least.
const LEXICAL_CANDIDATES_PER_PASSAGE: usize = 8;
const MIN_LEXICAL_CANDIDATES: usize = 24;
/// Text selected by words, as a multiple of the budget.
const LEXICAL_CANDIDATES_PER_BUDGET: f64 = 1.5;
/// Passages to beat if only a budget limits their number.
const DEFAULT_PASSAGES: usize = 3;
/// The page is searched further only for passages with at least this share of the best one's relevance.
const MIN_SHARE_OF_BEST: f32 = 0.5;
/// The most windows of a page in the second round with [`Effort::Fast`].
const FAST_EXTRA_WINDOWS: usize = 64;

/// Selects the windows of each page that estimate its cosines.
pub(crate) fn take_samples(query: &mut QueryEvidence) {
    for evidence in &mut query.pages {
        evidence.sample = sample(evidence);
    }
}

/// `None` if all windows are encoded, or if words select none.
fn sample(evidence: &PageEvidence) -> Option<CosineSample> {
    let all = evidence.parsed.windows.len();
    let others = MIN_SAMPLE_WINDOWS.max(4 * all.isqrt() / 3);
    if all <= MIN_LEXICAL_CANDIDATES + others || !evidence.has_query_terms() || evidence.lexical_weight == 0.0 {
        return None;
    }
    let lexical = lexical_candidates(evidence, MIN_LEXICAL_CANDIDATES);
    let mut unselected: Vec<usize> = (0..all).filter(|window| lexical.binary_search(window).is_err()).collect();
    // Cosines correlate with BM25. So strata by BM25 estimate them better than strata by position; take the middle of each.
    unselected.sort_by(|a, b| evidence.bm25[*a].total_cmp(&evidence.bm25[*b]));
    let others = middles(unselected.len(), others).map(|index| unselected[index]).collect();
    Some(CosineSample { lexical, others })
}

/// The middle indexes of equal parts.
fn middles(all: usize, parts: usize) -> impl Iterator<Item = usize> {
    (0..parts).map(move |part| (2 * part + 1) * all / (2 * parts))
}

/// At most `count` windows around the units with the best lexical scores, sorted.
fn lexical_candidates(evidence: &PageEvidence, count: usize) -> Vec<usize> {
    let mut is_candidate = vec![false; evidence.parsed.windows.len()];
    let mut remaining = count;
    for seed in evidence.seeds_by_lexical() {
        let around = evidence.windows_around(seed);
        let new = around.clone().filter(|window| !is_candidate[*window]).count();
        if new > remaining {
            break;
        }
        remaining -= new;
        is_candidate[around].fill(true);
    }
    (0..is_candidate.len()).filter(|window| is_candidate[*window]).collect()
}

/// The first round's selection for each page: what words select, and the sample.
pub(crate) fn first_round(query: &QueryEvidence, limits: &CandidateLimits) -> Vec<WindowSelection> {
    // With `Fast`, a page without the query's words is not encoded whole if another page has some.
    let skips = limits.effort == Effort::Fast && query.pages.iter().any(PageEvidence::has_query_terms);
    let select = |evidence: &PageEvidence| {
        let all = evidence.parsed.windows.len();
        let count = lexical_count(evidence, limits);
        match &evidence.sample {
            _ if limits.effort == Effort::Full => WindowSelection::All,
            Some(sample) if count.saturating_add(sample.others.len()) < all => {
                let sampled = [sample.lexical.as_slice(), &sample.others].concat();
                WindowSelection::union(&sampled, &lexical_candidates(evidence, count))
            }
            None if skips && !evidence.has_query_terms() && count < all => {
                WindowSelection::Only(middles(all, count).collect())
            }
            _ => WindowSelection::All,
        }
    };
    query.pages.iter().map(select).collect()
}

/// The number of windows that words select on a page: some for each passage, or enough for the budget.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "an estimated number of windows"
)]
fn lexical_count(evidence: &PageEvidence, limits: &CandidateLimits) -> usize {
    let count = if let Some(passages) = limits.passages {
        passages.saturating_mul(LEXICAL_CANDIDATES_PER_PASSAGE)
    } else {
        let parsed = evidence.parsed;
        let chars = (limits.tokens as f64 * f64::from(parsed.characters_per_token)).min(limits.chars as f64);
        let unit_chars = evidence.page.char_count() as f64 / parsed.units.spans.len().max(1) as f64;
        (LEXICAL_CANDIDATES_PER_BUDGET * chars / unit_chars.max(1.0)) as usize
    };
    count.max(MIN_LEXICAL_CANDIDATES)
}

/// The second round's selection for each page: the windows that could still be among the best. `best` is the relevance
/// of each page's best passages after the first round.
pub(crate) fn second_round(
    query: &QueryEvidence,
    best: Vec<Vec<f32>>,
    limits: &CandidateLimits,
) -> Vec<WindowSelection> {
    let scale = query.cosine_scale();
    // With `Fast`, a page's windows must also reach the best passages of all pages.
    let over_all = if limits.effort == Effort::Fast {
        let pages = query.pages.iter().zip(&best);
        let with_titles = pages.flat_map(|(evidence, best)| best.iter().map(|relevance| relevance + evidence.title));
        to_beat(with_titles.collect(), limits)
    } else {
        f32::NEG_INFINITY
    };
    let selections = query.pages.iter().zip(best).map(|(evidence, best)| {
        let to_beat = to_beat(best, limits).max(over_all - evidence.title);
        extend_selection(evidence, scale, to_beat * if limits.expands { UNIT_SPREAD } else { 1.0 }, limits)
    });
    selections.collect()
}

/// The relevance of the last passage that will be returned, but at least [`MIN_SHARE_OF_BEST`] of the best one's. Negative
/// infinity without passages.
fn to_beat(mut best: Vec<f32>, limits: &CandidateLimits) -> f32 {
    let passages = limits.passages.unwrap_or(DEFAULT_PASSAGES);
    best.sort_unstable_by(|a, b| b.total_cmp(a));
    let least = best.first().map_or(f32::NEG_INFINITY, |best| MIN_SHARE_OF_BEST * best);
    best.get(passages - 1).copied().unwrap_or(f32::NEG_INFINITY).max(least)
}

/// Adds the windows whose upper bound exceeds `to_beat`, which is on the scale before [`UNIT_SPREAD`].
fn extend_selection(evidence: &PageEvidence, scale: Scale, to_beat: f32, limits: &CandidateLimits) -> WindowSelection {
    let WindowSelection::Only(scored) = &evidence.selection else { return WindowSelection::All };
    let all = evidence.parsed.windows.len();
    let page_scale = Scale::weighted(evidence.weighted_cosines().into_iter(), COSINE);
    let max_cosine = scale.z(page_scale.at(MAX_Z_ABOVE_MEAN));
    let mut is_selected = vec![false; all];
    for window in scored {
        is_selected[*window] = true;
    }
    let mut added = Vec::new();
    for seed in evidence.seeds_by_lexical() {
        let weight = evidence.lexical_weight;
        let bound = (1.0 - weight) * max_cosine + weight * evidence.lexical[seed];
        if bound <= to_beat {
            // The next seeds have lower lexical scores.
            break;
        }
        for window in evidence.windows_around(seed) {
            if !std::mem::replace(&mut is_selected[window], true) {
                added.push(window);
            }
        }
    }
    match limits.effort {
        Effort::Fast => added.truncate(FAST_EXTRA_WINDOWS),
        _ if 2 * (scored.len() + added.len()) > all => return WindowSelection::All,
        _ => {}
    }
    WindowSelection::union(scored, &added)
}
