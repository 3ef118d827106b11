//! Effort: which windows of a page are encoded for a query, where words can tell.
//!
//! Words cost next to nothing, vectors nearly all. So words go first: of each page the windows around the units that say most
//! in words are encoded, and a few more, spread evenly over the others, that tell how cosines lie there. What was not
//! encoded is known to a bound then: its words in full, and its meaning by the most that is thought possible, [`MAX_Z_ABOVE_MEAN`]
//! spreads above the page's mean. Where that could still be among the best, it is encoded in a second round; where that is
//! much of the page, all of it is. Scores hang on the same few windows whatever the effort: a passage that is found has the
//! score that it has when everything is encoded.
//!
//! The rule is the threshold algorithm (Fagin, Lotem and Naor 2001) with two rounds. Words that are of no use (another
//! language, typos, a query that shares no word with the page) need no detector of their own: what words found is poor
//! then, nearly everything could beat it, and the page is encoded whole. It depends on the pages and the query alone, so that
//! what is kept of a page, or is in flight beside it, changes no answer. The trial behind the numbers is in
//! `bench/notes/encoding_less.md`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::evidence::{PageEvidence, QueryEvidence};
use super::relevance::{COSINE, SPREAD, Scale};
use super::views::{Sample, View};

/// How much of the pages is encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Effort {
    /// All windows.
    Full,
    /// What words point at, and at most a certain number of windows more.
    Fast,
    /// What words point at, and all that could be better.
    #[default]
    Auto,
}

/// What decides how many windows are candidates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CandidateLimits {
    pub(crate) effort: Effort,
    /// Whether passages grow from units, or are windows.
    pub(crate) grows: bool,
    /// Passages of a page, where their number is bounded.
    pub(crate) passages: Option<usize>,
    /// Characters and tokens of a page's passages.
    pub(crate) chars: usize,
    pub(crate) tokens: usize,
    /// The least relevance that a passage may have.
    pub(crate) min_relevance: f32,
}

/// The most spreads above its page's mean that a window is thought to lie which nobody looked at.
const MAX_Z_ABOVE_MEAN: f64 = 4.0;
/// The least windows of a sample: a spread is known to a sixth by as many.
const MIN_SAMPLE_WINDOWS: usize = 16;
/// Windows that words choose: for each passage, and at least.
const LEXICAL_CANDIDATES_PER_PASSAGE: usize = 8;
const MIN_LEXICAL_CANDIDATES: usize = 24;
/// How much more text than a budget holds words choose.
const LEXICAL_CANDIDATES_PER_BUDGET: f64 = 1.5;
/// Passages that are to be beaten where a budget alone decides how many there are.
const DEFAULT_PASSAGES: usize = 3;
/// How relevant a passage must be, as a part of the best one, for the rest of the page to be searched for it.
const MIN_SHARE_OF_BEST: f32 = 0.5;
/// The most windows of a page's second round where effort is bounded.
const FAST_EXTRA_WINDOWS: usize = 64;

/// Chooses on each page the windows that tell how cosines lie there.
pub(crate) fn take_samples(query: &mut QueryEvidence) {
    for evidence in &mut query.evidence {
        evidence.sample = sample(evidence);
    }
}

/// The windows that tell how cosines lie on a page; none where all of them do.
fn sample(evidence: &PageEvidence) -> Option<Sample> {
    let all = evidence.reading.ranges.len();
    let others = MIN_SAMPLE_WINDOWS.max(4 * all.isqrt() / 3);
    // Words that were not read, are not there, or do not count, point at nothing.
    if all <= MIN_LEXICAL_CANDIDATES + others || !evidence.has_words() || evidence.weight == 0.0 {
        return None;
    }
    let chosen = chosen(evidence, MIN_LEXICAL_CANDIDATES);
    let mut rest: Vec<usize> = (0..all).filter(|window| chosen.binary_search(window).is_err()).collect();
    // Cosines go with words, so equal parts by words tell more than equal parts of the page: of each the one in the middle.
    rest.sort_by(|a, b| evidence.bm25[*a].total_cmp(&evidence.bm25[*b]));
    let others = middles(rest.len(), others).map(|place| rest[place]).collect();
    Some(Sample { chosen, others })
}

/// The middles of so many equal parts.
fn middles(all: usize, parts: usize) -> impl Iterator<Item = usize> {
    (0..parts).map(move |part| (2 * part + 1) * all / (2 * parts))
}

/// The windows around the units that say most in words, at most so many, in order.
fn chosen(evidence: &PageEvidence, most: usize) -> Vec<usize> {
    let mut is_chosen = vec![false; evidence.reading.ranges.len()];
    let mut left = most;
    for unit in evidence.by_words() {
        let around = evidence.around(unit);
        let new = around.clone().filter(|window| !is_chosen[*window]).count();
        if new > left {
            break;
        }
        left -= new;
        is_chosen[around].fill(true);
    }
    (0..is_chosen.len()).filter(|window| is_chosen[*window]).collect()
}

/// The first round, for each page: what words point at, and the sample.
pub(crate) fn first_views(query_evidence: &QueryEvidence, limits: &CandidateLimits) -> Vec<View> {
    // Where effort is bounded, a page that has none of the query's words is not read for its own best, if another has some.
    let bounded = limits.effort == Effort::Fast && query_evidence.evidence.iter().any(PageEvidence::has_words);
    let view = |evidence: &PageEvidence| {
        let all = evidence.reading.ranges.len();
        let wanted = wanted(evidence, limits);
        match &evidence.sample {
            _ if limits.effort == Effort::Full => View::Whole,
            Some(sample) if wanted.saturating_add(sample.others.len()) < all => {
                View::of(&[sample.chosen.as_slice(), &sample.others].concat(), &chosen(evidence, wanted))
            }
            None if bounded && !evidence.has_words() && wanted < all => View::Part(middles(all, wanted).collect()),
            _ => View::Whole,
        }
    };
    query_evidence.evidence.iter().map(view).collect()
}

/// How many windows words choose on a page: some for each passage, or enough for a budget.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a number of windows that is reckoned with"
)]
fn wanted(evidence: &PageEvidence, limits: &CandidateLimits) -> usize {
    let wanted = if let Some(passages) = limits.passages {
        passages.saturating_mul(LEXICAL_CANDIDATES_PER_PASSAGE)
    } else {
        let reading = evidence.reading;
        let chars = (limits.tokens as f64 * f64::from(reading.characters_per_token)).min(limits.chars as f64);
        let units = evidence.page.char_count() as f64 / reading.units.spans.len().max(1) as f64;
        (LEXICAL_CANDIDATES_PER_BUDGET * chars / units.max(1.0)) as usize
    };
    wanted.max(MIN_LEXICAL_CANDIDATES)
}

/// The second round: what could still be among the best. `best` is the relevance of each page's best passages among what was
/// compared in the first round.
pub(crate) fn second_views(query_evidence: &QueryEvidence, best: Vec<Vec<f32>>, limits: &CandidateLimits) -> Vec<View> {
    let scale = query_evidence.cosine_scale();
    // Where effort is bounded, a page that has little to say is not read for its own best.
    let of_all = if limits.effort == Effort::Fast {
        let each = query_evidence.evidence.iter().zip(&best);
        let with_titles = each.flat_map(|(evidence, best)| best.iter().map(|relevance| relevance + evidence.title));
        nth(with_titles.collect(), limits)
    } else {
        f32::NEG_INFINITY
    };
    // What a unit must be worth to be among the best of its page, as far as was looked.
    let views = query_evidence.evidence.iter().zip(best).map(|(evidence, best)| {
        let to_beat = nth(best, limits).max(limits.min_relevance.max(of_all) - evidence.title);
        second_view(evidence, scale, to_beat * if limits.grows { SPREAD } else { 1.0 }, limits)
    });
    views.collect()
}

/// The relevance of the last passage that is wanted, or of one that is too poor beside the best to be looked for. There is
/// none to beat where nothing was found.
fn nth(mut best: Vec<f32>, limits: &CandidateLimits) -> f32 {
    let wanted = limits.passages.unwrap_or(DEFAULT_PASSAGES);
    best.sort_unstable_by(|a, b| b.total_cmp(a));
    let poor = best.first().map_or(f32::NEG_INFINITY, |best| MIN_SHARE_OF_BEST * best);
    best.get(wanted - 1).copied().unwrap_or(f32::NEG_INFINITY).max(poor)
}

/// `to_beat` is on the scale of what words and meaning are together, before units are set against windows.
fn second_view(evidence: &PageEvidence, scale: Scale, to_beat: f32, limits: &CandidateLimits) -> View {
    let View::Part(seen) = &evidence.view else { return View::Whole };
    let all = evidence.reading.ranges.len();
    let own = Scale::weighted(evidence.weighted_cosines().into_iter(), COSINE);
    let most = scale.z(own.at(MAX_Z_ABOVE_MEAN));
    let mut is_seen = vec![false; all];
    for window in seen {
        is_seen[*window] = true;
    }
    let mut need = Vec::new();
    for unit in evidence.by_words() {
        let possible = (1.0 - evidence.weight) * most + evidence.weight * evidence.words[unit];
        if possible <= to_beat {
            // Those behind it have fewer words still.
            break;
        }
        for window in evidence.around(unit) {
            if !std::mem::replace(&mut is_seen[window], true) {
                need.push(window);
            }
        }
    }
    match limits.effort {
        Effort::Fast => need.truncate(FAST_EXTRA_WINDOWS),
        _ if 2 * (seen.len() + need.len()) > all => return View::Whole,
        _ => {}
    }
    View::of(seen, &need)
}
