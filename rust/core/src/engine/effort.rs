//! Effort: which windows of a page are encoded for a query, where words can tell.
//!
//! Words cost next to nothing, vectors nearly all. So words go first: of each page the windows around the units that say most
//! in words are encoded, and a few more, spread evenly over the others, that tell how cosines lie there. What was not
//! encoded is known to a bound then: its words in full, and its meaning by the most that is thought possible, [`MOST`]
//! spreads above the page's mean. Where that could still be among the best, it is encoded in a second round; where that is
//! much of the page, all of it is. Scores hang on the same few windows whatever the effort: a passage that is found has the
//! score that it has when everything is encoded.
//!
//! The rule is the threshold algorithm (Fagin, Lotem and Naor 2001) with two rounds. Words that are of no use (another
//! language, typos, a query that shares no word with the page) need no detector of their own: what words found is poor
//! then, nearly everything could beat it, and the page is encoded whole. It depends on the pages and the query alone, so that
//! what is kept of a page, or is in flight beside it, changes no answer. The trial behind the numbers is in
//! `bench/notes/encoding_less.md`.

use super::Question;
use super::answers::passages_of;
use super::spoken::{Inquiry, Spoken};
use crate::error::{Error, ErrorKind, Result};
use crate::scores::relevance::{COSINE, SPREAD, Scale};

/// How much of the pages is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Effort {
    /// All windows.
    Full,
    /// What words point at, and at most a certain number of windows more.
    Fast,
    /// What words point at, and all that could be better.
    #[default]
    Auto,
}

/// Which windows of a page a query is compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum View {
    /// All of them.
    Whole,
    /// These, in order.
    Part(Vec<usize>),
}

/// The windows of a page that tell how cosines lie on it: those that words choose, each for itself, and some of the others,
/// which stand for all of those. The same ones tell it whatever the effort, so that this changes no score.
#[derive(Clone, Debug, Default)]
pub(super) struct Sample {
    pub(super) chosen: Vec<usize>,
    pub(super) others: Vec<usize>,
}

/// The most spreads above its page's mean that a window is thought to lie which nobody looked at.
const MOST: f64 = 4.0;
/// The least windows of a sample: a spread is known to a sixth by as many.
const SAMPLE: usize = 16;
/// Windows that words choose: for each passage, and at least.
const CHOSEN_A_PASSAGE: usize = 8;
const CHOSEN: usize = 24;
/// How much more text than a budget holds words choose.
const CHOSEN_A_BUDGET: f64 = 1.5;
/// Passages that are to be beaten where a budget alone decides how many there are.
const PASSAGES: usize = 3;
/// How relevant a passage must be, as a part of the best one, for the rest of the page to be searched for it.
const WORTH: f32 = 0.5;
/// The most windows of a page's second round where effort is bounded.
const FAST: usize = 64;

impl Effort {
    /// The name of each effort.
    pub const NAMES: [&'static str; 3] = ["full", "fast", "auto"];

    /// The effort of this name.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] naming those there are.
    pub fn parse(name: &str) -> Result<Self> {
        match name {
            "full" => Ok(Self::Full),
            "fast" => Ok(Self::Fast),
            "auto" => Ok(Self::Auto),
            _ => {
                let [full, fast, auto] = Self::NAMES;
                let message = format!("effort must be {full:?}, {fast:?} or {auto:?}, not {name:?}");
                Err(Error::new(ErrorKind::InvalidArgument, message))
            }
        }
    }
}

impl View {
    /// The rows of a page that has so many, in order: windows, and what is encoded beside them where all are.
    pub(super) fn rows(&self, all: usize) -> Vec<usize> {
        match self {
            Self::Whole => (0..all).collect(),
            Self::Part(windows) => windows.clone(),
        }
    }

    /// Some windows and others.
    fn of(windows: &[usize], more: &[usize]) -> Self {
        let mut windows = [windows, more].concat();
        windows.sort_unstable();
        windows.dedup();
        Self::Part(windows)
    }
}

/// The windows that tell how cosines lie on a page; none where all of them do.
pub(super) fn sample(spoken: &Spoken) -> Option<Sample> {
    let all = spoken.prepared.reading.ranges.len();
    let others = SAMPLE.max(4 * all.isqrt() / 3);
    // Words that were not read, are not there, or do not count, point at nothing.
    if all <= CHOSEN + others || !spoken.has_words() || spoken.weight == 0.0 {
        return None;
    }
    let chosen = chosen(spoken, CHOSEN);
    let mut rest: Vec<usize> = (0..all).filter(|window| chosen.binary_search(window).is_err()).collect();
    // Cosines go with words, so equal parts by words tell more than equal parts of the page: of each the one in the middle.
    rest.sort_by(|a, b| spoken.lexical[*a].total_cmp(&spoken.lexical[*b]));
    let others = middles(rest.len(), others).map(|place| rest[place]).collect();
    Some(Sample { chosen, others })
}

/// The middles of so many equal parts.
fn middles(all: usize, parts: usize) -> impl Iterator<Item = usize> {
    (0..parts).map(move |part| (2 * part + 1) * all / (2 * parts))
}

/// The windows around the units that say most in words, at most so many, in order.
fn chosen(spoken: &Spoken, most: usize) -> Vec<usize> {
    let mut is_chosen = vec![false; spoken.prepared.reading.ranges.len()];
    let mut left = most;
    for unit in spoken.by_words() {
        let around = spoken.around(unit);
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
pub(super) fn first_views(inquiry: &Inquiry, question: &Question) -> Vec<View> {
    // Where effort is bounded, a page that has none of the query's words is not read for its own best, if another has some.
    let bounded = question.effort == Effort::Fast && inquiry.spoken.iter().any(Spoken::has_words);
    let view = |spoken: &Spoken| {
        let all = spoken.prepared.reading.ranges.len();
        let wanted = wanted(spoken, question);
        match &spoken.sample {
            _ if question.effort == Effort::Full => View::Whole,
            Some(sample) if wanted.saturating_add(sample.others.len()) < all => {
                View::of(&[sample.chosen.as_slice(), &sample.others].concat(), &chosen(spoken, wanted))
            }
            None if bounded && !spoken.has_words() && wanted < all => View::Part(middles(all, wanted).collect()),
            _ => View::Whole,
        }
    };
    inquiry.spoken.iter().map(view).collect()
}

/// How many windows words choose on a page: some for each passage, or enough for a budget.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a number of windows that is reckoned with"
)]
fn wanted(spoken: &Spoken, question: &Question) -> usize {
    let bounds = &question.bounds;
    let wanted = if let Some(passages) = bounds.passages() {
        passages.saturating_mul(CHOSEN_A_PASSAGE)
    } else {
        let (reading, budget) = (&spoken.prepared.reading, bounds.most());
        let chars = (budget.tokens as f64 * f64::from(reading.characters_per_token)).min(budget.chars as f64);
        let units = spoken.prepared.chars() as f64 / reading.units.spans.len().max(1) as f64;
        (CHOSEN_A_BUDGET * chars / units.max(1.0)) as usize
    };
    wanted.max(CHOSEN)
}

/// The second round: what could still be among the best. The first round's relevance must be known.
pub(super) fn second_views(inquiry: &Inquiry, question: &Question) -> Vec<View> {
    let scale = inquiry.cosine_scale();
    let best: Vec<Vec<f32>> = inquiry.spoken.iter().map(|spoken| best(spoken, question)).collect();
    // Where effort is bounded, a page that has little to say is not read for its own best.
    let of_all = if question.effort == Effort::Fast {
        let each = inquiry.spoken.iter().zip(&best);
        let with_titles = each.flat_map(|(spoken, best)| best.iter().map(|relevance| relevance + spoken.title));
        nth(with_titles.collect(), question)
    } else {
        f32::NEG_INFINITY
    };
    // What a unit must be worth to be among the best of its page, as far as was looked.
    let views = inquiry.spoken.iter().zip(best).map(|(spoken, best)| {
        let to_beat = nth(best, question).max(question.bounds.min_relevance().max(of_all) - spoken.title);
        second_view(spoken, scale, to_beat * if question.grows() { SPREAD } else { 1.0 }, question)
    });
    views.collect()
}

/// The relevance of the best passages of a page among those that were looked at.
fn best(spoken: &Spoken, question: &Question) -> Vec<f32> {
    passages_of(spoken, question).into_iter().map(|passage| passage.relevance).collect()
}

/// The relevance of the last passage that is wanted, or of one that is too poor beside the best to be looked for. There is
/// none to beat where nothing was found.
fn nth(mut best: Vec<f32>, question: &Question) -> f32 {
    let wanted = question.bounds.passages().unwrap_or(PASSAGES);
    best.sort_unstable_by(|a, b| b.total_cmp(a));
    let poor = best.first().map_or(f32::NEG_INFINITY, |best| WORTH * best);
    best.get(wanted - 1).copied().unwrap_or(f32::NEG_INFINITY).max(poor)
}

/// `to_beat` is on the scale of what words and meaning are together, before units are set against windows.
fn second_view(spoken: &Spoken, scale: Scale, to_beat: f32, question: &Question) -> View {
    let View::Part(seen) = &spoken.view else { return View::Whole };
    let all = spoken.prepared.reading.ranges.len();
    let own = Scale::weighted(spoken.weighted_cosines().into_iter(), COSINE);
    let most = scale.z(own.at(MOST));
    let mut is_seen = vec![false; all];
    for window in seen {
        is_seen[*window] = true;
    }
    let mut need = Vec::new();
    for unit in spoken.by_words() {
        let possible = (1.0 - spoken.weight) * most + spoken.weight * spoken.words[unit];
        if possible <= to_beat {
            // Those behind it have fewer words still.
            break;
        }
        for window in spoken.around(unit) {
            if !std::mem::replace(&mut is_seen[window], true) {
                need.push(window);
            }
        }
    }
    match question.effort {
        Effort::Fast => need.truncate(FAST),
        _ if 2 * (seen.len() + need.len()) > all => return View::Whole,
        _ => {}
    }
    View::of(seen, &need)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_has_each_window_once_and_in_order() {
        assert_eq!(View::of(&[3, 4], &[9, 2, 3]), View::Part(vec![2, 3, 4, 9]));
        assert_eq!(View::Part(vec![2, 5]).rows(7), [2, 5]);
        assert_eq!(View::Whole.rows(3), [0, 1, 2]);
    }
}
