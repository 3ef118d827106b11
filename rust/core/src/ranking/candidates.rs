//! Candidates: which windows of a page are encoded for a query.
//!
//! Words cost next to nothing; vectors cost nearly everything. So every window's cosine is predicted from its words
//! ([`super::prediction`]). The first round encodes the windows around the units that are best by that, and a small sample
//! of the others, which corrects the prediction for this page and query. The second round encodes the windows that would
//! be among the best passages if their cosines were [`DEVIATIONS`] above the corrected prediction. All others count as
//! predicted. The scale of cosines comes from the same windows for every effort.
//!
//! This is the threshold algorithm (Fagin, Lotem and Naor 2001) with two rounds and a bound that is likely instead of
//! certain. Where words do not help (another language, typos, no shared word), the sample is larger and the bound wider; on
//! a page without any of the query's words the first round is evenly spread. No page is searched for passages below
//! `min_score`, and one of several not for passages whose score would be low and far below the best one's of the others. The
//! selection depends on the call only, so neither the cache nor concurrent calls change an answer.
//! `bench/notes/encoding_less.md` has the trials of the constants.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::evidence::{PageEvidence, QueryEvidence};
use super::probability::{ANSWERED, logit};
use super::relevance::Scale;
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
    /// The windows that words select, and the others that could be better.
    #[default]
    Auto,
    /// None: cosines are predicted from static vectors of the tokens.
    Instant,
}

/// The limits that determine the number of candidates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CandidateLimits {
    pub(crate) effort: Effort,
    /// Passages of a page; `None` if only a budget limits them.
    pub(crate) passages: Option<usize>,
    pub(crate) chars: usize,
    pub(crate) tokens: usize,
    /// The least logit of a passage; negative infinity without a least score.
    pub(crate) min_logit: f32,
}

/// Windows selected by prediction: for each passage, and at least.
const CANDIDATES_PER_PASSAGE: usize = 4;
const MIN_CANDIDATES: usize = 12;
/// Text selected by prediction, as a multiple of the budget.
const CANDIDATES_PER_BUDGET: f64 = 1.5;
/// Sampled windows of other text, and their number on pages where words match poorly.
const SAMPLE_WINDOWS: usize = 6;
const POOR_SAMPLE_WINDOWS: usize = 12;
/// How far above its prediction the cosine of a window may lie, in standard deviations, and on pages where words match
/// poorly.
const DEVIATIONS: f64 = 0.5;
const POOR_DEVIATIONS: f64 = 4.0;
/// Words match poorly on a page where no unit has this share of the query.
const POOR_COVERAGE: f32 = 0.3;
/// Passages to beat if only a budget limits their number.
const DEFAULT_PASSAGES: usize = 3;
/// The page is searched further only for passages whose order is at most this far below the best one's.
const MAX_BEHIND_BEST: f32 = 0.4;
/// One of several pages is searched further only for passages that may have a score of [`ANSWERED`], or whose logit may
/// come at most this far behind the best one's of all pages.
const MAX_BEHIND_BEST_LOGIT: f32 = 2.0;
/// How far above its prediction a cosine may lie for that, in standard deviations, if not [`DEVIATIONS`].
const LOGIT_DEVIATIONS: f64 = 2.0;
/// The most windows of a page in the second round with [`Effort::Fast`].
const FAST_EXTRA_WINDOWS: usize = 64;

/// Selects the windows of each page that estimate its cosines.
pub(crate) fn take_samples(query: &mut QueryEvidence) {
    for evidence in query.pages.iter_mut().filter(|evidence| evidence.is_listed) {
        evidence.sample = sample(evidence);
    }
}

/// Whether hardly any word of the query is in any unit of a page.
fn matches_poorly(evidence: &PageEvidence) -> bool {
    evidence.best_coverage() < POOR_COVERAGE || !evidence.has_query_terms()
}

/// `None` if all windows are encoded, or if words do not count.
fn sample(evidence: &PageEvidence) -> Option<CosineSample> {
    let all = evidence.parsed.windows.len();
    let others = if matches_poorly(evidence) { POOR_SAMPLE_WINDOWS } else { SAMPLE_WINDOWS };
    if all <= MIN_CANDIDATES + others || evidence.lexical_weight == 0.0 {
        return None;
    }
    let best = predicted_candidates(evidence, MIN_CANDIDATES);
    let mut unselected: Vec<usize> = (0..all).filter(|window| best.binary_search(window).is_err()).collect();
    // Strata by prediction estimate cosines better than strata by position. Take the middle of each.
    unselected.sort_by(|a, b| evidence.predicted[*a].total_cmp(&evidence.predicted[*b]));
    let others = middles(unselected.len(), others).map(|index| unselected[index]).collect();
    Some(CosineSample { best, others })
}

/// The middle indexes of equal parts.
fn middles(all: usize, parts: usize) -> impl Iterator<Item = usize> {
    (0..parts).map(move |part| (2 * part + 1) * all / (2 * parts))
}

/// At most `count` windows around the units that are best by prediction, sorted; evenly spread ones if nothing predicts.
fn predicted_candidates(evidence: &PageEvidence, count: usize) -> Vec<usize> {
    if !evidence.has_query_terms() {
        return middles(evidence.parsed.windows.len(), count).collect();
    }
    let mut is_candidate = vec![false; evidence.parsed.windows.len()];
    let mut remaining = count;
    for seed in evidence.seeds_by_prediction() {
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

/// The first round's selection for each page: the best by prediction, and the sample.
pub(crate) fn first_round(query: &QueryEvidence, limits: &CandidateLimits) -> Vec<WindowSelection> {
    let select = |evidence: &PageEvidence| {
        let all = evidence.parsed.windows.len();
        let count = candidate_count(evidence, limits);
        match &evidence.sample {
            _ if !evidence.is_listed => WindowSelection::Only(Vec::new()),
            _ if limits.effort == Effort::Full => WindowSelection::All,
            Some(sample) if count.saturating_add(sample.others.len()) < all => {
                let sampled = [sample.best.as_slice(), &sample.others].concat();
                WindowSelection::union(&sampled, &predicted_candidates(evidence, count))
            }
            _ => WindowSelection::All,
        }
    };
    query.pages.iter().map(select).collect()
}

/// The number of windows selected by prediction: some for each passage, or enough for the budget.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "an estimated number of windows"
)]
fn candidate_count(evidence: &PageEvidence, limits: &CandidateLimits) -> usize {
    let count = if let Some(passages) = limits.passages {
        passages.saturating_mul(CANDIDATES_PER_PASSAGE)
    } else {
        let parsed = evidence.parsed;
        let chars = (limits.tokens as f64 * f64::from(parsed.characters_per_token)).min(limits.chars as f64);
        let unit_chars = evidence.page.char_count() as f64 / parsed.units.spans.len().max(1) as f64;
        (CANDIDATES_PER_BUDGET * chars / unit_chars.max(1.0)) as usize
    };
    count.max(MIN_CANDIDATES)
}

/// The second round's selection for each page: the windows that could still be among the best. `best` is the order of
/// each page's best passages after the first round.
pub(crate) fn second_round(
    query: &QueryEvidence,
    best: Vec<Vec<f32>>,
    limits: &CandidateLimits,
) -> Vec<WindowSelection> {
    let scale = query.cosine_scale();
    // With `Fast`, a page's windows must also reach the best passages of all pages.
    let over_all = if limits.effort == Effort::Fast {
        let pages = query.pages.iter().zip(&best);
        let with_titles = pages.flat_map(|(evidence, best)| best.iter().map(|order| order + evidence.title));
        to_beat(with_titles.collect(), limits)
    } else {
        f32::NEG_INFINITY
    };
    let least_logit = least_logit(query, limits);
    let selections = query.pages.iter().zip(best).map(|(evidence, best)| {
        let to_beat = to_beat(best, limits).max(over_all - evidence.title);
        extend_selection(evidence, scale, (to_beat, least_logit), limits)
    });
    selections.collect()
}

/// The logit that a passage must be able to reach.
fn least_logit(query: &QueryEvidence, limits: &CandidateLimits) -> f32 {
    let listed = query.pages.iter().filter(|evidence| evidence.is_listed);
    if limits.min_logit > f32::NEG_INFINITY || listed.count() < 2 {
        return limits.min_logit;
    }
    let best = query.pages.iter().filter_map(PageEvidence::best_logit).fold(f32::NEG_INFINITY, f32::max);
    logit(ANSWERED).min(best - MAX_BEHIND_BEST_LOGIT)
}

/// The order of the last passage that will be returned, but at most [`MAX_BEHIND_BEST`] below the best one's. Negative
/// infinity without passages.
fn to_beat(mut best: Vec<f32>, limits: &CandidateLimits) -> f32 {
    let passages = limits.passages.unwrap_or(DEFAULT_PASSAGES);
    best.sort_unstable_by(|a, b| b.total_cmp(a));
    let least = best.first().map_or(f32::NEG_INFINITY, |best| best - MAX_BEHIND_BEST);
    best.get(passages - 1).copied().unwrap_or(f32::NEG_INFINITY).max(least)
}

/// Adds the windows that would exceed `to_beat` in order, and reach the least logit, with a high cosine.
fn extend_selection(
    evidence: &PageEvidence,
    scale: Scale,
    (to_beat, least_logit): (f32, f32),
    limits: &CandidateLimits,
) -> WindowSelection {
    let WindowSelection::Only(scored) = &evidence.selection else { return WindowSelection::All };
    if !evidence.is_listed {
        return evidence.selection.clone();
    }
    let mut is_selected = vec![false; evidence.parsed.windows.len()];
    for window in scored {
        is_selected[*window] = true;
    }
    let deviations = if matches_poorly(evidence) { POOR_DEVIATIONS } else { DEVIATIONS };
    let order_bound = evidence.order_bound(scale, deviations);
    let logit_bound = evidence.logit_bound(deviations.min(LOGIT_DEVIATIONS));
    let mut added = Vec::new();
    for seed in evidence.seeds() {
        for window in evidence.windows_around(seed) {
            let bound = order_bound(seed, window);
            let is_possible = bound > to_beat && logit_bound(seed, window) >= least_logit;
            if is_possible && !std::mem::replace(&mut is_selected[window], true) {
                added.push((bound, window));
            }
        }
    }
    if limits.effort == Effort::Fast {
        added.sort_by(|a, b| b.0.total_cmp(&a.0));
        added.truncate(FAST_EXTRA_WINDOWS);
    }
    WindowSelection::union(scored, &added.into_iter().map(|(_, window)| window).collect::<Vec<usize>>())
}
