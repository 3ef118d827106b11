use std::sync::atomic::{self, AtomicUsize};

use proptest::prelude::*;
use pullquote_wire::options::Options;

use super::*;
use crate::error::{Error, ErrorKind};
use crate::ranking::ranked_seeds::RankedSeeds;
use crate::ranking::terms::Language;
use crate::runtime::call::unstopped;
use crate::text::outline::{Breadcrumbs, Name};
use crate::text::page::{ByteSpan, PageText};
use crate::text::pieces::{Units, Windows};

/// Sentences of ten characters, separated by a space; all differ.
fn sentences(count: usize) -> (String, Units) {
    let text = (0..count).map(|n| format!("{n:09}. ")).collect::<Vec<_>>().concat();
    (text, Units::independent((0..count).map(|unit| ByteSpan { start: 11 * unit, end: 11 * unit + 10 }).collect()))
}

fn bounds(top_k: Option<i64>, max_chars: Option<i64>) -> Bounds {
    Bounds::new(&Options { top_k, max_chars, ..Options::default() }, Order::Score, Dedupe::Page).unwrap()
}

/// Seeds of which each has the same relevance, order and logit.
fn scores(relevance: &[f32]) -> RankedSeeds {
    let [relevance, order, logits] = [relevance; 3].map(<[f32]>::to_vec);
    RankedSeeds { relevance, order, logits }
}

fn ranked<'page>(
    page: &'page PageText<'page>,
    units: &'page Units,
    seeds: Seeds<'page>,
    scores: &'page RankedSeeds,
) -> RankedPage<'page> {
    RankedPage { page, units, seeds, scores, title: 0.0, tokens_before: &[], language: Language::None }
}

fn runs(passages: Vec<Passage>) -> Vec<(usize, usize)> {
    passages.into_iter().map(|passage| (passage.units.start, passage.units.end)).collect()
}

fn choose(relevance: &[f32], max_units: usize, top_k: Option<i64>, max_chars: Option<i64>) -> Vec<(usize, usize)> {
    let (text, units) = sentences(relevance.len());
    let (page, scores) = (PageText::new(&text), scores(relevance));
    let ranked = ranked(&page, &units, Seeds::Units(max_units), &scores);
    runs(choose_passages(&[ranked], &bounds(top_k, max_chars), &unstopped).unwrap().remove(0))
}

#[test]
fn a_passage_is_the_run_with_most_relevance_above_the_threshold() {
    assert_eq!(choose(&[0.1, 3.0, 2.3, 2.2, 0.0], 3, Some(1), None), [(1, 4)]);
    assert_eq!(choose(&[0.1, 3.0, 2.3, 2.2, 0.0], 2, Some(1), None), [(1, 3)]);
    assert_eq!(choose(&[1.0, 3.0, 1.0], 3, Some(3), None), [(1, 2), (0, 1), (2, 3)]);
    assert_eq!(choose(&[2.0, 3.0, 2.5, 2.4], 3, Some(2), None), [(1, 4), (0, 1)]);
    // A unit below the threshold is included if the next one makes up for it, but never as the end.
    assert_eq!(choose(&[3.0, 1.9, 2.5, 1.9, 0.0], 5, Some(1), None), [(0, 3)]);
    assert_eq!(choose(&[3.0, 1.0, 2.5], 5, Some(1), None), [(0, 1)]);
    assert_eq!(choose(&[2.5, 3.0, 2.9], 5, Some(1), None), [(0, 3)]);
}

#[test]
fn entries_are_in_one_passage_only_if_they_say_as_much() {
    let relevance = [0.0, 2.4, 3.0, 2.8, 0.0];
    let of = |text: &str| {
        let units = Units::sentences(text, None, &[], &unstopped).unwrap();
        let (page, scores) = (PageText::new(text), scores(&relevance));
        let ranked = ranked(&page, &units, Seeds::Units(3), &scores);
        runs(choose_passages(&[ranked], &bounds(Some(1), None), &unstopped).unwrap().remove(0))
    };
    assert_eq!(of("A first one. A second one. A third one. A fourth one. A fifth one.\n"), [(1, 4)]);
    assert_eq!(of("Name,Age\nAnn,1\nBob,2\nCarl,3\nDora,4\n"), [(2, 4)]);
    let references = ["Lee, A.", "May, B.", "Noe, C.", "Orr, D.", "Poe, E."];
    let references = references.map(|author| format!("{author} (1999). The mill. Mill Press.\n\n")).concat();
    assert_eq!(of(&references), [(2, 4)]);
}

#[test]
fn a_budget_takes_the_best_that_fit_and_joins_neighbours() {
    assert_eq!(choose(&[1.0, 3.0, 2.0, 0.5], 1, None, Some(21)), [(1, 3)]);
    // Ten characters each, and a space between neighbours.
    assert_eq!(choose(&[1.0, 3.0, 2.0, 0.5], 1, None, Some(20)), [(1, 2), (3, 4)]);
    assert_eq!(choose(&[1.0, 3.0], 3, None, Some(9)), []);
    assert_eq!(choose(&[1.0, 3.0, 2.9, 2.8], 3, Some(1), Some(25)), [(1, 3)]);
    assert_eq!(choose(&[1.0, 3.0, 2.0, 2.5], 1, None, Some(1000)), [(0, 4)]);
}

#[test]
fn groups_stay_together_unless_they_exceed_the_budget() {
    let (text, mut units) = sentences(5);
    units.groups = vec![0..1, 1..4, 4..5];
    let page = PageText::new(&text);
    let scores = scores(&[0.0, 1.0, 3.0, 1.0, 2.0]);
    let choose = |top_k, max_chars| {
        let ranked = ranked(&page, &units, Seeds::Units(3), &scores);
        runs(choose_passages(&[ranked], &bounds(top_k, max_chars), &unstopped).unwrap().remove(0))
    };
    assert_eq!(choose(Some(1), None), [(1, 4)]);
    assert_eq!(choose(None, Some(43)), [(1, 5)]);
    assert_eq!(choose(None, Some(42)), [(1, 4)]);
    assert_eq!(choose(None, Some(20)), [(2, 3), (4, 5)]);
    assert_eq!(choose(Some(1), Some(20)), [(2, 3)]);
}

#[test]
fn no_passage_crosses_the_border_of_a_section() {
    let (text, mut units) = sentences(7);
    units.headings = vec![0..1, 3..4];
    let names = vec![Name { units: 0..1, scope: 1..3 }, Name { units: 3..4, scope: 4..7 }];
    units.names = Breadcrumbs::new(names, 7);
    let page = PageText::new(&text);
    let choose = |relevance: &[f32], max_units, top_k, max_chars| {
        let scores = scores(relevance);
        let ranked = ranked(&page, &units, Seeds::Units(max_units), &scores);
        runs(choose_passages(&[ranked], &bounds(top_k, max_chars), &unstopped).unwrap().remove(0))
    };
    assert_eq!(choose(&[2.0, 2.9, 3.0, 2.9, 2.8, 2.7, 0.0], 5, Some(1), None), [(0, 3)], "all of a short one");
    assert_eq!(choose(&[2.0, 2.9, 3.0, 2.9, 2.8, 2.7, 0.0], 5, None, Some(70)), [(0, 3), (3, 6)], "nor do neighbours");
    // The heading is more relevant than the text that answers below it, and no unit of those that may be three.
    assert_eq!(choose(&[0.0, 0.0, 0.0, 4.0, 1.5, 1.6, 1.9], 3, Some(1), None), [(3, 7)]);
    assert_eq!(choose(&[0.0, 0.0, 0.0, 4.0, 0.1, 0.2, 1.9], 1, Some(1), None), [(6, 7)], "too far from the heading");
    units.groups = vec![0..1, 1..2, 2..3, 3..5, 5..6, 6..7];
    let scores = scores(&[0.0, 0.0, 0.0, 4.0, 1.5, 1.6, 1.9]);
    let ranked = ranked(&page, &units, Seeds::Units(3), &scores);
    let chosen = choose_passages(&[ranked], &bounds(Some(1), None), &unstopped).unwrap().remove(0);
    assert_eq!(runs(chosen), [(3, 7)]);
}

#[test]
fn a_passage_that_ends_with_a_question_goes_on_to_its_answer() {
    let text = "It is old. Is it dry? It is so. The end is here.";
    let units = Units::sentences(text, None, &[], &unstopped).unwrap();
    let page = PageText::new(text);
    let choose = |max_units| {
        let scores = scores(&[0.0, 3.0, 0.1, 0.0]);
        let ranked = ranked(&page, &units, Seeds::Units(max_units), &scores);
        runs(choose_passages(&[ranked], &bounds(Some(1), None), &unstopped).unwrap().remove(0))
    };
    assert_eq!((choose(3), choose(1)), (vec![(1, 3)], vec![(1, 2)]));
}

#[test]
fn max_total_chars_goes_to_the_most_relevant_passages() {
    let (text, units) = sentences(3);
    let page = PageText::new(&text);
    let (poor, good) = (scores(&[1.0, 0.5, 0.2]), scores(&[3.0, 2.0, 0.9]));
    let pages = [&poor, &good].map(|scores| ranked(&page, &units, Seeds::Units(1), scores));
    let limits = Options { max_total_chars: Some(31), ..Options::default() };
    let choose = |limits: &Options, dedupe| {
        choose_passages(&pages, &Bounds::new(limits, Order::Score, dedupe).unwrap(), &unstopped)
            .unwrap()
            .into_iter()
            .map(runs)
            .collect::<Vec<_>>()
    };
    assert_eq!(choose(&limits, Dedupe::None), [vec![(0, 1)], vec![(0, 2)]]);
    assert_eq!(choose(&limits, Dedupe::Answer), [vec![(2, 3)], vec![(0, 2)]], "two of the first page are duplicates");
    let both = Options { max_chars: Some(10), ..limits };
    assert_eq!(choose(&both, Dedupe::None), [vec![(0, 1)], vec![(0, 1)]]);
}

#[test]
fn max_total_chars_is_for_pages_that_answer_if_any_does() {
    let (text, units) = sentences(3);
    let page = PageText::new(&text);
    let (junk, answer, other) = (scores(&[-2.0, -1.5, -3.0]), scores(&[-4.0, 1.0, -3.0]), scores(&[-1.6, -5.0, -6.0]));
    let choose = |scores: &[&RankedSeeds], limits: Options| {
        let pages: Vec<RankedPage> =
            scores.iter().map(|scores| ranked(&page, &units, Seeds::Units(1), scores)).collect();
        let bounds = Bounds::new(&limits, Order::Score, Dedupe::None).unwrap();
        choose_passages(&pages, &bounds, &unstopped).unwrap().into_iter().map(runs).collect::<Vec<_>>()
    };
    let none = Options::default();
    let shared = Options { max_total_chars: Some(1000), ..none };
    let (all, both) = (vec![(0, 3)], [&junk, &answer]);
    assert_eq!(choose(&both, shared), [vec![], all.clone()]);
    assert_eq!(choose(&both, Options { max_total_tokens: Some(1000), ..none }), [vec![], all.clone()]);
    assert_eq!(choose(&[&junk, &other], shared), [all.clone(), all.clone()], "no page answers");
    let zero = Options { min_score: Some(MinScore::Score(0.0)), ..shared };
    assert_eq!(choose(&both, zero), [all.clone(), all.clone()]);
    let auto = Options { min_score: Some(MinScore::Auto), ..shared };
    assert_eq!(choose(&both, auto), [vec![], vec![(1, 2)]]);
    assert_eq!(choose(&both, Options { max_chars: Some(1000), ..none }), [all.clone(), all], "each page has its own");
}

#[test]
fn max_tokens_and_max_total_tokens_limit_passages() {
    let (text, units) = sentences(3);
    let page = PageText::new(&text);
    let scores = scores(&[3.0, 2.0, 1.0]);
    let ranked = RankedPage { tokens_before: &[0, 5, 6, 8], ..ranked(&page, &units, Seeds::Units(1), &scores) };
    let choose = |limits: Options| {
        let bounds = Bounds::new(&limits, Order::Score, Dedupe::None).unwrap();
        runs(choose_passages(&[ranked], &bounds, &unstopped).unwrap().remove(0))
    };
    assert_eq!(choose(Options { max_tokens: Some(7), ..Options::default() }), [(0, 2)]);
    assert_eq!(choose(Options { max_tokens: Some(4), ..Options::default() }), [(1, 3)]);
    assert_eq!(choose(Options { max_total_tokens: Some(2), top_k: Some(2), ..Options::default() }), [(1, 2)]);
}

#[test]
fn max_total_highlights_keeps_the_best_of_all_pages() {
    let (text, units) = sentences(3);
    let page = PageText::new(&text);
    let (one, other) = (scores(&[3.0, 0.5, 1.0]), scores(&[0.1, 2.0, 0.2]));
    let pages = [&one, &other].map(|scores| ranked(&page, &units, Seeds::Units(1), scores));
    let choose = |count: i64, top_k: Option<i64>| {
        let limits = Options { max_total_highlights: Some(count), top_k, ..Options::default() };
        let bounds = Bounds::new(&limits, Order::Score, Dedupe::None).unwrap();
        choose_passages(&pages, &bounds, &unstopped).unwrap().into_iter().map(runs).collect::<Vec<_>>()
    };
    assert_eq!(choose(1, None), [vec![(0, 1)], vec![]]);
    assert_eq!(choose(3, None), [vec![(0, 1), (2, 3)], vec![(1, 2)]]);
    assert_eq!(choose(3, Some(1)), [vec![(0, 1)], vec![(1, 2)]]);
}

#[test]
fn a_short_paragraph_comes_along_as_far_as_it_is_less_than_a_window() {
    let text = "One is here. Two is, too. Three is. Four is.\n\nFive is. Six is. Seven is. Eight is. Nine is.";
    let units = Units::sentences(text, None, &[], &unstopped).unwrap();
    let choose = |best: usize, max_units: usize, max_chars: Option<i64>| {
        let page = PageText::new(text);
        let relevance: Vec<f32> = (0..9).map(|unit| if unit == best { 3.0 } else { 0.1 }).collect();
        let scores = scores(&relevance);
        let ranked = ranked(&page, &units, Seeds::Units(max_units), &scores);
        runs(choose_passages(&[ranked], &bounds(Some(1), max_chars), &unstopped).unwrap().remove(0))
    };
    assert_eq!(choose(1, 3, None), [(1, 4)]);
    assert_eq!(choose(1, 2, None), [(0, 2)], "two sentences after it, one before");
    assert_eq!(choose(2, 2, None), [(2, 4)], "two sentences before it, one after");
    assert_eq!(choose(1, 3, Some(20)), [(1, 2)], "they do not fit");
    assert_eq!(choose(6, 3, None), [(6, 9)]);
    assert_eq!(choose(6, 1, None), [(6, 7)], "one sentence was asked for");
    assert_eq!(choose(3, 3, None), [(3, 4)], "nothing is left");
}

#[test]
fn dedupe_page_drops_repeated_passages() {
    let text = "The cat sat on the mat. Dogs bark at the moon. The cat sat on the mat!";
    let units = Units::sentences(text, None, &[], &crate::runtime::call::unstopped).unwrap();
    let (page, scores) = (PageText::new(text), scores(&[3.0, 1.0, 3.0]));
    let choose = |dedupe| {
        let ranked = ranked(&page, &units, Seeds::Units(1), &scores);
        let bounds = Bounds::new(&Options { top_k: Some(2), ..Options::default() }, Order::Score, dedupe).unwrap();
        runs(choose_passages(&[ranked], &bounds, &unstopped).unwrap().remove(0))
    };
    assert_eq!(choose(Dedupe::None), [(0, 1), (2, 3)]);
    assert_eq!(choose(Dedupe::Page), [(0, 1), (1, 2)]);
}

#[test]
fn dedupe_answer_notes_the_twins_of_passages_that_stay() {
    let (text, units) = sentences(3);
    let page = PageText::new(&text);
    let (poor, good) = (scores(&[1.0, 0.5, 0.2]), scores(&[3.0, 2.0, 0.9]));
    let pages = [&poor, &good].map(|scores| ranked(&page, &units, Seeds::Units(1), scores));
    let twins = |limits: Options| -> Vec<Vec<Vec<Run>>> {
        let bounds = Bounds::new(&limits, Order::Score, Dedupe::Answer).unwrap();
        let twins = |passages: Vec<Passage>| passages.into_iter().map(|passage| passage.twins).collect();
        choose_passages(&pages, &bounds, &unstopped).unwrap().into_iter().map(twins).collect()
    };
    let run = |unit: usize| Run { page: 0, units: unit..unit + 1 };
    // With `top_k`, each sentence of the second page has its twin on the first; the third comes after the last place.
    let few = Options { top_k: Some(2), max_total_chars: Some(20), ..Options::default() };
    assert_eq!(twins(few), [vec![], vec![vec![], vec![]]]);
    let all = Options { top_k: Some(3), ..Options::default() };
    assert_eq!(twins(all), [vec![], vec![vec![run(0)], vec![run(1)], vec![run(2)]]]);
    // Neighbours that join have the twins of both.
    let joined = Options { max_total_chars: Some(1000), ..Options::default() };
    assert_eq!(twins(joined), [vec![], vec![vec![run(0), run(1), run(2)]]]);
}

proptest! {
    #[test]
    fn passages_do_not_overlap_and_stay_within_their_limits(
        relevance in proptest::collection::vec(-2.0..4.0_f32, 0..40), max_units in 1..5_usize,
        top_k in proptest::option::of(1..6_i64), max_chars in proptest::option::of(1..200_i64)
    ) {
        let passages = choose(&relevance, max_units, top_k, max_chars);
        let mut sorted = passages.clone();
        sorted.sort_unstable();
        prop_assert!(sorted.windows(2).all(|pair| pair[0].1 <= pair[1].0));
        let chars: usize = passages.iter().map(|(start, end)| 11 * (end - start) - 1).sum();
        prop_assert!(max_chars.is_none_or(|most| chars <= usize::try_from(most).unwrap()));
        if top_k.is_some() || max_chars.is_none() {
            prop_assert!(passages.len() <= usize::try_from(top_k.unwrap_or(3)).unwrap());
            prop_assert!(passages.iter().all(|(start, end)| end - start <= max_units));
        }
    }

    #[test]
    fn windows_are_the_greedy_best_without_overlaps(
        scores_of_units in proptest::collection::vec(-4..4_i8, 1..40), length in 1..5_i64, top_k in 1..6_i64, max_chars in 1..60_i64
    ) {
        let relevance: Vec<f32> = scores_of_units.into_iter().map(|score| f32::from(score) / 4.0).collect();
        let (text, units) = sentences(relevance.len());
        let windows: Vec<_> = Windows::new(length, 1, true).unwrap().ranges(relevance.len()).collect();
        let (page, scores) = (PageText::new(&text), scores(&relevance[..windows.len()]));
        let ranked = ranked(&page, &units, Seeds::Windows(&windows), &scores);
        let passages = runs(choose_passages(&[ranked], &bounds(Some(top_k), Some(max_chars)), &unstopped).unwrap().remove(0));

        // The reference compares every pair.
        let mut order: Vec<usize> = (0..windows.len()).collect();
        order.sort_by(|a, b| relevance[*b].total_cmp(&relevance[*a]).then(a.cmp(b)));
        let mut expected: Vec<(usize, usize)> = Vec::new();
        let chars = |run: &(usize, usize)| 11 * (run.1 - run.0) - 1;
        for window in order {
            let run = (windows[window].start, windows[window].end);
            let is_free = expected.iter().all(|other| other.1 <= run.0 || run.1 <= other.0);
            let used: usize = expected.iter().map(chars).sum();
            let fits = used + chars(&run) <= usize::try_from(max_chars).unwrap();
            if is_free && fits && expected.len() < usize::try_from(top_k).unwrap() {
                expected.push(run);
            }
        }
        prop_assert_eq!(passages, expected);
    }
}

#[test]
fn choosing_ends_at_the_first_failed_check() {
    let (text, units) = sentences(1000);
    let (page, scores) = (PageText::new(&text), scores(&[0.5; 1000]));
    let ranked = ranked(&page, &units, Seeds::Units(5), &scores);
    let count = AtomicUsize::new(0);
    let choose = |last: usize| {
        count.store(0, atomic::Ordering::Relaxed);
        let check = || match count.fetch_add(1, atomic::Ordering::Relaxed) + 1 {
            called if called < last => Ok(()),
            _ => Err(Error::new(ErrorKind::Cancelled, "the last check")),
        };
        let chosen = choose_passages(&[ranked], &bounds(Some(1000), None), &check);
        (chosen.map(drop), count.load(atomic::Ordering::Relaxed))
    };
    let (chosen, all) = choose(usize::MAX);
    chosen.unwrap();
    assert!(all > 50, "{all} checks of 1,000 seeds");
    for last in [1, 2, all] {
        let (chosen, called) = choose(last);
        assert_eq!((chosen.unwrap_err().kind(), called), (ErrorKind::Cancelled, last));
    }
}
