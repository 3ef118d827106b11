//! Candidates: which windows of a page are encoded for a query.
//!
//! Words cost next to nothing; vectors cost nearly everything. So every window's cosine is predicted from its words
//! ([`super::prediction`]). The *likely* windows are encoded first: those around the units that are best by that, and
//! a small sample of the others, which corrects the prediction for this page and query. Then the *contenders* are: the
//! windows that would be among the best passages if their cosines were [`DEVIATIONS`] above the corrected prediction.
//! All others count as predicted. The scale of cosines comes from the same windows for every effort, but for pages that
//! have a preview only.
//!
//! Where several pages compete, most of them say nothing about the query. So each page begins with a *preview*: a few of
//! its likely windows. If one of the pages seems to answer, those that seem far behind it get no more of them.
//!
//! This is the threshold algorithm (Fagin, Lotem and Naor 2001) with two rounds and a bound that is likely instead of
//! certain. Where words do not help (another language, typos, no shared word), the sample is larger and the bound
//! wider. On a page without any of the query's words the likely windows are evenly spread. No page is searched for
//! passages below `min_score`. One of several pages is not searched for passages whose score would be low, and far
//! below the best of the others. The selection depends on the call only, so neither the cache nor concurrent calls
//! change an answer.
//! `bench/notes/encoding_less.md` has the trials of the constants.

use super::Effort;
use super::parsed_page::PreparedPage;
use super::prediction::Prediction;
use super::probability::logit;
use super::query_match::QueryMatch;
use super::ranked_seeds::{PageRanking, QueryRanking};
use super::relevance::Scale;
use super::scored_windows::ScoredWindows;
use super::selection::{CosineSample, Selection, WindowSelection};

/// The limits that determine the number of candidates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CandidateLimits {
    pub(crate) effort: Effort,
    /// Passages of a page; `None` if only a budget limits them.
    pub(crate) passages: Option<usize>,
    /// Likely windows of a page; `None` if passages and budgets determine them.
    pub(crate) likely: Option<usize>,
    /// About the most passages of all pages together; `None` if they share no limit.
    pub(crate) shared_passages: Option<usize>,
    pub(crate) chars: usize,
    pub(crate) tokens: usize,
    /// The least logit of a passage; negative infinity without a least score.
    pub(crate) min_logit: f32,
}

/// Likely windows for each passage that the page may have.
const LIKELY_PER_PASSAGE: usize = 4;
/// Text of the likely windows, as a multiple of the budget.
const LIKELY_PER_BUDGET: f64 = 1.5;
/// The least number of likely windows.
const MIN_LIKELY: usize = 12;
/// Sampled windows of other text.
const SAMPLE_WINDOWS: usize = 6;
/// Their number on pages where words match poorly.
const POOR_SAMPLE_WINDOWS: usize = 12;
/// Pages of a query from which on each has a preview.
const PREVIEWED_PAGES: usize = 4;
/// A preview's likely windows.
const PREVIEW_LIKELY: usize = 4;
/// A preview's sampled windows.
const PREVIEW_SAMPLE_WINDOWS: usize = 2;
/// From this score of a passage on, pages far behind it keep their previews.
const PREVIEW_ANSWERED: f32 = 0.35;
/// How far above its prediction the cosine of a window that a preview left out may lie, in standard deviations.
const PREVIEW_DEVIATIONS: f64 = 0.5;
/// How far above its prediction the cosine of a contender may lie, in standard deviations.
const DEVIATIONS: f64 = 0.5;
/// The same on pages where words match poorly.
const POOR_DEVIATIONS: f64 = 4.0;
/// The most of these for the logit of a contender that competes with other pages.
const COMPETING_DEVIATIONS: f64 = 1.5;
/// The most of these for the logit of a contender that must reach a least score.
const LEAST_SCORE_DEVIATIONS: f64 = 2.0;
/// Words match poorly on a page where no unit has this share of the query.
const POOR_COVERAGE: f32 = 0.3;
/// Passages to beat if only a budget limits their number.
const DEFAULT_PASSAGES: usize = 3;
/// A contender's order is at most this far below that of the page's best passage.
const MAX_BEHIND_BEST: f32 = 0.4;
/// A contender on one of several pages may have this score, unless its logit comes near the best one's.
const LEAST_COMPETING: f32 = 0.5;
/// Logits at most this far behind the best one's of all pages come near it.
const MAX_BEHIND_BEST_LOGIT: f32 = 2.0;
/// The most contenders of a page with [`Effort::Fast`].
const FAST_CONTENDERS: usize = 64;
/// The most contenders of a page with [`Effort::Auto`], for each window's square root: so all of up to 1,024 windows. Where
/// no word matches, or all windows are alike, as rows of a table are, the bounds rule out next to none.
const CONTENDERS_PER_ROOT: f64 = 32.0;

/// Selects the likely windows of each query's pages. Where several pages compete, only a preview of each;
/// [`select_after_previews`] selects the rest.
pub(crate) fn select_likely(predictions: &[Vec<Prediction>], limits: &CandidateLimits) -> Vec<Vec<Selection>> {
    let select = |pages: &Vec<Prediction>| {
        let is_preview = pages.len() >= PREVIEWED_PAGES && limits.effort != Effort::Full;
        pages.iter().map(|page| likely(page, page.deviation, limits, is_preview)).collect()
    };
    predictions.iter().map(select).collect()
}

/// Selects all likely windows of the previewed pages that may answer. If no page seems to, these are all pages; else
/// those whose logit may come near the best one's. `None` if no selection changes.
pub(crate) fn select_after_previews(
    rankings: &[QueryRanking],
    limits: &CandidateLimits,
) -> Option<Vec<Vec<Selection>>> {
    select_more(rankings, |_, ranking| {
        let best = ranking.best_logit();
        let least = if best < logit(PREVIEW_ANSWERED) { f32::NEG_INFINITY } else { best - MAX_BEHIND_BEST_LOGIT };
        let select = |page: &PageRanking| {
            let ScoredWindows { prediction, selection, correction, .. } = &page.scored;
            if selection.is_preview && highest_logit(page) >= least {
                likely(prediction, correction.deviation, limits, false)
            } else {
                selection.clone()
            }
        };
        ranking.pages.iter().map(select).collect()
    })
}

/// Adds the contenders: the windows that could still be among the best. `provisional` has, for each query and page, the
/// order of the passages that the page would have from the scores so far. `None` if there are no contenders.
pub(crate) fn select_contenders(
    rankings: &[QueryRanking],
    provisional: &[Vec<Vec<f32>>],
    limits: &CandidateLimits,
) -> Option<Vec<Vec<Selection>>> {
    select_more(rankings, |query, ranking| {
        let least_logit = least_logit(ranking, limits);
        let select = |(page, orders): (&PageRanking, &Vec<f32>)| {
            let selection = page.scored.selection.clone();
            let WindowSelection::Only(selected) = &selection.windows else { return selection };
            let least = Thresholds { order: order_to_beat(orders.clone(), limits), logit: least_logit };
            let added = contenders(page, selected, least, limits);
            Selection { windows: union(selected, &added), ..selection }
        };
        ranking.pages.iter().zip(&provisional[query]).map(select).collect()
    })
}

/// Selects again on all pages; `None` if no selection changes.
fn select_more(
    rankings: &[QueryRanking],
    select: impl Fn(usize, &QueryRanking) -> Vec<Selection>,
) -> Option<Vec<Vec<Selection>>> {
    let selections = rankings.iter().enumerate().map(|(query, ranking)| select(query, ranking));
    let selections: Vec<Vec<Selection>> = selections.collect();
    let before = rankings.iter().flat_map(|ranking| &ranking.pages).map(|page| &page.scored.selection);
    before.ne(selections.iter().flatten()).then_some(selections)
}

/// Whether hardly any word of the query is in any unit of a page.
fn matches_poorly(matched: &QueryMatch) -> bool {
    matched.best_coverage() < POOR_COVERAGE || !matched.has_query_terms()
}

/// Both lists' windows, sorted.
fn union(windows: &[usize], more: &[usize]) -> WindowSelection {
    let mut windows = [windows, more].concat();
    windows.sort_unstable();
    windows.dedup();
    WindowSelection::Only(windows)
}

/// The middle indexes of equal parts.
fn middles(all: usize, parts: usize) -> impl Iterator<Item = usize> {
    (0..parts).map(move |part| (2 * part + 1) * all / (2 * parts))
}

/// The likely windows of a page, or a preview of them, if cosines have this deviation from their prediction. All windows
/// if they are few, or if words do not count.
fn likely(page: &Prediction, deviation: f64, limits: &CandidateLimits, is_preview: bool) -> Selection {
    let all = page.cosines.len();
    let sampled = if matches_poorly(&page.matched) { POOR_SAMPLE_WINDOWS } else { SAMPLE_WINDOWS };
    if all <= MIN_LIKELY + sampled || page.matched.lexical_weight == 0.0 {
        return Selection { windows: WindowSelection::All, sample: None, is_preview: false };
    }
    let seeds = seeds_by_prediction(page, deviation);
    let best = windows_of_best(page, seeds.as_deref(), limits.likely.unwrap_or(MIN_LIKELY));
    let others = sample_others(page, &best, sampled);
    if is_preview {
        let best = windows_of_best(page, seeds.as_deref(), PREVIEW_LIKELY);
        let others: Vec<usize> = middles(sampled, PREVIEW_SAMPLE_WINDOWS).map(|index| others[index]).collect();
        let windows = union(&best, &others);
        return Selection { windows, sample: Some(CosineSample { best, others }), is_preview };
    }
    let count = limits.likely.unwrap_or_else(|| likely_count(page, limits));
    let windows = if limits.effort == Effort::Full || count.saturating_add(sampled) >= all {
        WindowSelection::All
    } else {
        union(&[best.as_slice(), &others].concat(), &windows_of_best(page, seeds.as_deref(), count))
    };
    Selection { windows, sample: Some(CosineSample { best, others }), is_preview }
}

/// Seeds that may become passages, by descending relevance if cosines are as predicted; ties go to the earlier one.
/// `None` if nothing predicts.
fn seeds_by_prediction(page: &Prediction, deviation: f64) -> Option<Vec<usize>> {
    let Prediction { matched, cosines, .. } = page;
    if !matched.has_query_terms() {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "a number of windows")]
    let squares = cosines.len() as f64 * deviation.powi(2);
    let scale = Scale::with_squares(cosines, squares, matched.calibration.model.prior());
    let relevance = matched.relevance(&matched.semantic(&scale.all(cosines), &[]));
    let mut seeds: Vec<usize> = matched.seeds().collect();
    seeds.sort_by(|a, b| relevance[*b].total_cmp(&relevance[*a]));
    Some(seeds)
}

/// At most `count` windows around the first seeds, sorted; evenly spread ones if nothing predicts.
fn windows_of_best(page: &Prediction, seeds: Option<&[usize]>, count: usize) -> Vec<usize> {
    let all = page.cosines.len();
    let Some(seeds) = seeds else { return middles(all, count).collect() };
    let mut is_selected = vec![false; all];
    let mut remaining = count;
    for seed in seeds {
        let around = page.matched.windows_around(*seed);
        let new = around.clone().filter(|window| !is_selected[*window]).count();
        if new > remaining {
            break;
        }
        remaining -= new;
        is_selected[around].fill(true);
    }
    (0..all).filter(|window| is_selected[*window]).collect()
}

/// A number of windows that are not among the best. Strata by prediction estimate cosines better than strata by
/// position; these are the middles.
fn sample_others(page: &Prediction, best: &[usize], count: usize) -> Vec<usize> {
    let all = 0..page.cosines.len();
    let mut others: Vec<usize> = all.filter(|window| best.binary_search(window).is_err()).collect();
    others.sort_by(|a, b| page.cosines[*a].total_cmp(&page.cosines[*b]));
    middles(others.len(), count).map(|index| others[index]).collect()
}

/// The number of likely windows: some for each passage, or enough for the budget.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "an estimated number of windows"
)]
fn likely_count(page: &Prediction, limits: &CandidateLimits) -> usize {
    let count = if let Some(passages) = limits.passages {
        passages.saturating_mul(LIKELY_PER_PASSAGE)
    } else {
        let PreparedPage { text, parsed, .. } = page.matched.page;
        let chars = (limits.tokens as f64 * f64::from(parsed.characters_per_token)).min(limits.chars as f64);
        let unit_chars = text.char_count() as f64 / parsed.units.spans.len().max(1) as f64;
        (LIKELY_PER_BUDGET * chars / unit_chars.max(1.0)) as usize
    };
    count.max(MIN_LIKELY)
}

/// What a contender must exceed in order, and reach in logit.
#[derive(Clone, Copy)]
struct Thresholds {
    order: f32,
    logit: f32,
}

/// The order of the last passage that will be returned, but at most [`MAX_BEHIND_BEST`] below the best one's. Negative
/// infinity without passages.
fn order_to_beat(mut orders: Vec<f32>, limits: &CandidateLimits) -> f32 {
    let passages = limits.passages.unwrap_or(DEFAULT_PASSAGES);
    orders.sort_unstable_by(|a, b| b.total_cmp(a));
    let least = orders.first().map_or(f32::NEG_INFINITY, |best| best - MAX_BEHIND_BEST);
    orders.get(passages - 1).copied().unwrap_or(f32::NEG_INFINITY).max(least)
}

/// The logit that a passage must be able to reach.
fn least_logit(ranking: &QueryRanking, limits: &CandidateLimits) -> f32 {
    if limits.min_logit > f32::NEG_INFINITY || ranking.pages.len() < 2 {
        return limits.min_logit;
    }
    logit(LEAST_COMPETING).min(ranking.best_logit() - MAX_BEHIND_BEST_LOGIT)
}

/// The windows beyond `selected` that would pass both thresholds with a high cosine.
fn contenders(page: &PageRanking, selected: &[usize], least: Thresholds, limits: &CandidateLimits) -> Vec<usize> {
    let scored = &page.scored;
    let matched = &scored.prediction.matched;
    let mut is_selected = vec![false; scored.prediction.cosines.len()];
    for window in selected {
        is_selected[*window] = true;
    }
    let deviations = if matches_poorly(matched) { POOR_DEVIATIONS } else { DEVIATIONS };
    let competes = limits.min_logit == f32::NEG_INFINITY;
    let most = if competes { COMPETING_DEVIATIONS } else { LEAST_SCORE_DEVIATIONS };
    let cosines = scored.above_prediction(deviations);
    let cosines_for_logit = scored.above_prediction(deviations.min(most));
    let z = scored.scale.all(&cosines);
    let order_bound = |seed: usize, window: usize| {
        let logit = matched.logit(seed, cosines[window]);
        matched.order(seed, z[window], logit, cosines[window])
    };
    let mut added = Vec::new();
    for seed in matched.seeds() {
        for window in matched.windows_around(seed) {
            let order = order_bound(seed, window);
            let is_possible = order > least.order && matched.logit(seed, cosines_for_logit[window]) >= least.logit;
            if is_possible && !std::mem::replace(&mut is_selected[window], true) {
                added.push((order, window));
            }
        }
    }
    let most = most_contenders(cosines.len(), limits.effort);
    if added.len() > most {
        added.sort_by(|a, b| b.0.total_cmp(&a.0));
        added.truncate(most);
    }
    added.into_iter().map(|(_, window)| window).collect()
}

/// The most contenders of a page with this number of windows.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a number of windows"
)]
fn most_contenders(windows: usize, effort: Effort) -> usize {
    match effort {
        Effort::Fast => FAST_CONTENDERS,
        _ => (CONTENDERS_PER_ROOT * (windows as f64).sqrt()) as usize,
    }
}

/// The highest logit of a seed, scored or with a cosine that lies [`PREVIEW_DEVIATIONS`] above its prediction.
fn highest_logit(page: &PageRanking) -> f32 {
    let matched = &page.scored.prediction.matched;
    let cosines = page.scored.above_prediction(PREVIEW_DEVIATIONS);
    let around = |seed| matched.windows_around(seed).map(move |window| (seed, window));
    let logits = matched.seeds().flat_map(around).map(|(seed, window)| matched.logit(seed, cosines[window]));
    logits.chain(page.best_logit()).fold(f32::NEG_INFINITY, f32::max)
}
