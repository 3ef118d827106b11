//! Candidates: which windows of a page are encoded for a query.
//!
//! Words cost next to nothing; vectors cost nearly everything. So every window's cosine is predicted from its words
//! ([`super::prediction`]). The first round encodes the windows around the units that are best by that, and a small
//! sample of the others, which corrects the prediction for this page and query. The second round encodes the windows
//! that would be among the best passages if their cosines were [`DEVIATIONS`] above the corrected prediction. All
//! others count as predicted. The scale of cosines comes from the same windows for every effort, but for pages that
//! have a preview only.
//!
//! Where several pages compete, most of them say nothing about the query. So the first round begins with a preview of
//! each page, a few of its windows. If one of the pages seems to answer, those that seem far behind it get no more of
//! the round.
//!
//! This is the threshold algorithm (Fagin, Lotem and Naor 2001) with two rounds and a bound that is likely instead of
//! certain. Where words do not help (another language, typos, no shared word), the sample is larger and the bound
//! wider; on a page without any of the query's words the first round is evenly spread. No page is searched for passages
//! below `min_score`, and one of several not for passages whose score would be low and far below the best one's of the
//! others. The selection depends on the call only, so neither the cache nor concurrent calls change an answer.
//! `bench/notes/encoding_less.md` has the trials of the constants.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::evidence::{PageEvidence, QueryEvidence};
use super::probability::logit;
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
/// Pages of a query from which on each has a preview.
const PREVIEWED_PAGES: usize = 4;
/// A preview's windows: selected by prediction, and sampled.
const PREVIEW_CANDIDATES: usize = 4;
const PREVIEW_SAMPLE_WINDOWS: usize = 2;
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
/// One of several pages is searched further only for passages that may have this score, or whose logit may come at most
/// this far behind the best one's of all pages.
const LEAST_COMPETING: f32 = 0.5;
const MAX_BEHIND_BEST_LOGIT: f32 = 2.0;
/// How far above its prediction a cosine may lie for that, in standard deviations, and for a least score, if not
/// [`DEVIATIONS`].
const COMPETING_DEVIATIONS: f64 = 1.5;
const LEAST_SCORE_DEVIATIONS: f64 = 2.0;
/// From this score of a passage on, pages far behind it keep their previews.
const PREVIEW_ANSWERED: f32 = 0.35;
/// The same for what a preview left out.
const PREVIEW_DEVIATIONS: f64 = 0.5;
/// The most windows of a page in the second round with [`Effort::Fast`].
const FAST_EXTRA_WINDOWS: usize = 64;

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

/// At most `count` windows around the units that are best by prediction, sorted; evenly spread ones if nothing
/// predicts.
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

/// Selects the windows of the first round: the best by prediction, and the sample. Where several pages compete, only a
/// preview of each; [`complete_first_round`] selects the rest.
pub(crate) fn first_round(query: &mut QueryEvidence, limits: &CandidateLimits) {
    let listed = query.listed().count();
    for evidence in query.listed_mut() {
        select_first_round(evidence, limits);
        if listed >= PREVIEWED_PAGES && limits.effort != Effort::Full {
            select_preview(evidence);
        }
    }
}

/// Selects the rest of the first round for each page that may answer, from the scores of the previews: for all pages if
/// no page seems to answer, else for those whose logit may come near the best one's. Returns whether there is any.
pub(crate) fn complete_first_round(query: &mut QueryEvidence, limits: &CandidateLimits) -> bool {
    let best = query.best_logit();
    let least = if best < logit(PREVIEW_ANSWERED) { f32::NEG_INFINITY } else { best - MAX_BEHIND_BEST_LOGIT };
    let may_answer =
        |evidence: &&mut PageEvidence| evidence.is_previewed && evidence.highest_logit(PREVIEW_DEVIATIONS) >= least;
    let mut has_more = false;
    for evidence in query.pages.iter_mut().filter(may_answer) {
        select_first_round(evidence, limits);
        has_more = true;
    }
    has_more
}

fn select_first_round(evidence: &mut PageEvidence, limits: &CandidateLimits) {
    let all = evidence.parsed.windows.len();
    let count = candidate_count(evidence, limits);
    evidence.is_previewed = false;
    evidence.sample = sample(evidence);
    evidence.selection = match &evidence.sample {
        _ if limits.effort == Effort::Full => WindowSelection::All,
        Some(sample) if count.saturating_add(sample.others.len()) < all => {
            let sampled = [sample.best.as_slice(), &sample.others].concat();
            WindowSelection::union(&sampled, &predicted_candidates(evidence, count))
        }
        _ => WindowSelection::All,
    };
}

/// Selects a part of the first round, unless that is the whole page.
fn select_preview(evidence: &mut PageEvidence) {
    let Some(CosineSample { others, .. }) = &evidence.sample else { return };
    let others = middles(others.len(), PREVIEW_SAMPLE_WINDOWS).map(|index| others[index]).collect();
    let sample = CosineSample { best: predicted_candidates(evidence, PREVIEW_CANDIDATES), others };
    evidence.selection = WindowSelection::union(&sample.best, &sample.others);
    evidence.sample = Some(sample);
    evidence.is_previewed = true;
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
    if limits.min_logit > f32::NEG_INFINITY || query.listed().count() < 2 {
        return limits.min_logit;
    }
    logit(LEAST_COMPETING).min(query.best_logit() - MAX_BEHIND_BEST_LOGIT)
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
    let competes = limits.min_logit == f32::NEG_INFINITY;
    let most = if competes { COMPETING_DEVIATIONS } else { LEAST_SCORE_DEVIATIONS };
    let logit_bound = evidence.logit_bound(deviations.min(most));
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
