//! Ranked seeds: the relevance, the order and the likelihood of every seed of a query's pages, from the windows scored
//! so far.
//!
//! A scale spans the windows of one page, so that the other pages of a call change neither its passages nor their
//! scores. Between pages only logits are compared.

use rustc_hash::FxHashMap;

use super::relevance::Scale;
use super::scored_windows::ScoredWindows;
use super::selection::WindowSelection;

/// For each seed of a page.
#[derive(Clone, Debug)]
pub(crate) struct RankedSeeds {
    /// By which passages grow.
    pub(crate) relevance: Vec<f32>,
    /// By which the page's passages are ordered.
    pub(crate) order: Vec<f32>,
    /// Of the probability that the seed answers the query: no higher than that of a scored seed before it in order.
    pub(crate) logits: Vec<f32>,
}

/// A page's seeds, ranked for a query.
pub(crate) struct PageRanking<'query> {
    pub(crate) scored: ScoredWindows<'query>,
    pub(crate) seeds: RankedSeeds,
}

/// The rankings of all pages that a query searches.
pub(crate) struct QueryRanking<'query> {
    pub(crate) pages: Vec<PageRanking<'query>>,
}

impl RankedSeeds {
    fn new(scored: &ScoredWindows) -> Self {
        let ScoredWindows { prediction, estimates, scale, is_scored, .. } = scored;
        let (matched, static_means) = (&prediction.matched, &prediction.static_means);
        let prior = matched.calibration.model.prior();
        let unit_scale = Scale::of(scored.unit_cosines.iter().filter(|own| !own.is_nan()), prior);
        let semantic = matched.semantic(&scale.all(estimates), &unit_scale.all(&scored.unit_cosines));
        let relevance = matched.relevance(&semantic);
        #[expect(clippy::cast_possible_truncation, reason = "cosines are single precision")]
        let mean = Scale::with_squares(estimates, 0.0, prior).at(0.0) as f32;
        let mut cosines = matched.best_around(estimates, mean);
        cosines.iter_mut().zip(&scored.unit_cosines).for_each(|(cosine, own)| *cosine = cosine.max(*own));
        let exclude = |mut logits: Vec<f32>| {
            matched.excluded_seeds().iter().for_each(|unit| logits[*unit] = f32::NEG_INFINITY);
            logits
        };
        let logit = |(seed, cosine): (usize, &f32)| matched.logit(seed, *cosine);
        let logits = exclude(cosines.iter().enumerate().map(logit).collect());
        let order = |seed: usize| matched.order(seed, semantic[seed], logits[seed], cosines[seed]);
        let order: Vec<f32> = (0..logits.len()).map(order).collect();
        let mut logits = matched.predicted_logits(static_means).map_or(logits, exclude);
        let mut seeds: Vec<usize> = (0..logits.len()).collect();
        seeds.sort_by(|a, b| order[*b].total_cmp(&order[*a]));
        // No seed is likelier than a better one, if that has a score.
        let mut least = f32::INFINITY;
        for seed in seeds {
            logits[seed] = logits[seed].min(least);
            if is_scored[seed] {
                least = logits[seed];
            }
        }
        Self { relevance, order, logits }
    }

    /// The best values of each seed over the queries that share an answer.
    pub(crate) fn best_of(&self, other: &Self) -> Self {
        let best = |one: &[f32], other: &[f32]| one.iter().zip(other).map(|(one, other)| one.max(*other)).collect();
        Self {
            relevance: best(&self.relevance, &other.relevance),
            order: best(&self.order, &other.order),
            logits: best(&self.logits, &other.logits),
        }
    }
}

/// Seeds that come after those of a reranker keep their own order by this share of their logits' differences.
const KEPT_DIFFERENCE: f32 = 1e-3;

/// Seeds that a reranker has scored, and how the others follow them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rescored {
    /// The least score of the reranker.
    pub(crate) least: f32,
    /// The logit of the likeliest seed that it has not scored.
    pub(crate) best_other: f32,
}

impl RankedSeeds {
    /// The seeds in the order of a reranker's logits, and after them the others in theirs.
    pub(crate) fn rescored(&self, scores: &FxHashMap<usize, f32>, all: Rescored) -> Self {
        let Rescored { least, best_other } = all;
        let rescored = |values: &[f32], other: &dyn Fn(f32) -> f32| -> Vec<f32> {
            let value = |(seed, value): (usize, &f32)| match scores.get(&seed) {
                Some(score) => *score,
                // Excluded seeds stay so.
                None if value.is_finite() => other(*value),
                None => *value,
            };
            values.iter().enumerate().map(value).collect()
        };
        let unscored = self.order.iter().enumerate().filter(|(seed, _)| !scores.contains_key(seed));
        let best_order = unscored.map(|(_, order)| *order).fold(f32::NEG_INFINITY, f32::max);
        let below = |logit: f32| logit.min(least - KEPT_DIFFERENCE * (best_other - logit)).min(least.next_down());
        Self {
            relevance: self.relevance.clone(),
            order: rescored(&self.order, &|order| (least - (best_order - order)).min(least.next_down())),
            logits: rescored(&self.logits, &below),
        }
    }
}

impl RankedSeeds {
    /// The seeds that a pruner keeps, in the order of its logits; no other is a passage.
    pub(crate) fn kept(&self, kept: &FxHashMap<usize, f32>) -> Self {
        // Excluded seeds stay so.
        let logit = |(seed, own): (usize, &f32)| {
            kept.get(&seed).copied().filter(|_| own.is_finite()).unwrap_or(f32::NEG_INFINITY)
        };
        let logits: Vec<f32> = self.logits.iter().enumerate().map(logit).collect();
        Self { relevance: self.relevance.clone(), order: logits.clone(), logits }
    }
}

impl<'query> PageRanking<'query> {
    fn new(scored: ScoredWindows<'query>) -> Self {
        let seeds = RankedSeeds::new(&scored);
        Self { scored, seeds }
    }

    /// The page's index in the call.
    pub(crate) fn page(&self) -> usize {
        self.scored.prediction.page()
    }

    pub(crate) fn title_relevance(&self) -> f32 {
        self.scored.prediction.matched.title_relevance
    }

    /// The seeds without those that no scored window contains.
    pub(crate) fn scored_seeds(&self) -> RankedSeeds {
        let scored = |values: &[f32]| -> Vec<f32> {
            let both = values.iter().zip(&self.scored.is_scored);
            both.map(|(value, is_scored)| if *is_scored { *value } else { f32::NEG_INFINITY }).collect()
        };
        let RankedSeeds { relevance, order, logits } = &self.seeds;
        RankedSeeds { relevance: scored(relevance), order: scored(order), logits: scored(logits) }
    }

    /// The logit of the likeliest scored seed.
    pub(crate) fn best_logit(&self) -> Option<f32> {
        let scored = self.seeds.logits.iter().zip(&self.scored.is_scored).filter(|(_, is_scored)| **is_scored);
        scored.map(|(logit, _)| *logit).reduce(f32::max)
    }
}

/// Ranks the seeds of each query's pages.
pub(crate) fn rank(scored: Vec<Vec<ScoredWindows<'_>>>) -> Vec<QueryRanking<'_>> {
    let ranking = |pages: Vec<_>| QueryRanking { pages: pages.into_iter().map(PageRanking::new).collect() };
    scored.into_iter().map(ranking).collect()
}

impl QueryRanking<'_> {
    /// Whether any page is not encoded whole.
    pub(crate) fn is_partial(&self) -> bool {
        self.pages.iter().any(|page| page.scored.selection.windows != WindowSelection::All)
    }

    /// The logit of the likeliest scored seed; negative infinity without one.
    pub(crate) fn best_logit(&self) -> f32 {
        self.pages.iter().filter_map(PageRanking::best_logit).fold(f32::NEG_INFINITY, f32::max)
    }
}
