//! Effort: the windows encoded depend on the pages and the query only, and windows that cannot win are skipped.

use pullquote_core::engine::options::Options;
use pullquote_core::engine::{Answers, Effort, Engine, Pairing, Question};
use pullquote_core::highlights::{Bounds, Dedupe, MinScore, Order};
use pullquote_core::ranking::relevance::LexicalWeight;
use pullquote_core::runtime::call::Call;
use pullquote_core::text::pieces::{Unit, Windows};

use crate::common::{FakeEncoder, Poison, highlights, model, request, word_piece};

/// A sentence that `long_page` has once.
const ANSWER: &str = "The bread of Paris is in the moon.";
const QUERY: &str = "Where is the bread of Paris?";

fn engine(cache_bytes: usize) -> Engine {
    let (_folder, model) = model(&word_piece(), 64, ("", ""));
    Engine::new(&model, Box::new(FakeEncoder::new(2, true, Poison::default())), Some(2), cache_bytes).unwrap()
}

fn question(effort: Effort, limits: Options) -> Question {
    Question {
        rerank_top: 0,
        likely_windows: None,
        unit: Unit::Sentence,
        windows: Windows::new(3, 1, false).unwrap(),
        expand: true,
        lexical_weight: LexicalWeight::Auto,
        effort,
        context: 0,
        explain: false,
        bounds: Bounds::new(&limits, Order::Score, Dedupe::Page).unwrap(),
    }
}

fn highlight(engine: &Engine, queries: &[&str], pages: &[&str], pairing: Pairing, effort: Effort) -> Answers {
    let request = request(queries, pages, pairing);
    highlights(engine, &request, &question(effort, Options::default()), &Call::default()).unwrap()
}

/// Distinct sentences, with the answer after a third of them.
fn long_page(sentences: usize, seed: usize) -> String {
    let sentence = |n: usize| match n {
        n if n == sentences / 3 => format!("{ANSWER} "),
        n => format!("In the Haus {seed} der cat {} und {n} is {}. ", n * 7 % 31, n * n % 97),
    };
    (0..sentences).map(sentence).collect()
}

/// Scores as bits, because equal answers are equal to the bit.
fn columns(answers: &Answers) -> (&[i64], Vec<u32>, &[i64]) {
    (&answers.spans, answers.scores.iter().map(|score| score.to_bits()).collect(), &answers.windows_scored)
}

fn best<'page>(page: &'page str, answers: &Answers) -> &'page str {
    let offset = |column: usize| usize::try_from(answers.spans[column]).unwrap();
    &page[offset(0)..offset(1)]
}

#[test]
fn words_find_the_answer_and_most_of_a_long_page_is_skipped() {
    let page = long_page(3000, 0);
    let engine = engine(0);
    let pages = [page.as_str()];
    let request = request(&[QUERY], &pages, Pairing::All);
    let one = Options { top_k: Some(1), ..Options::default() };
    let [full, auto, fast] = [Effort::Full, Effort::Auto, Effort::Fast]
        .map(|effort| highlights(&engine, &request, &question(effort, one), &Call::default()).unwrap());
    assert_eq!((full.work.windows_scored, full.work.encoded), (full.work.windows, full.work.windows));
    for part in [&auto, &fast] {
        assert!(part.work.windows_scored < full.work.windows / 10, "{:?}", part.work);
        assert!(best(&page, part).contains(ANSWER), "{}", best(&page, part));
        assert_eq!(part.work.windows, full.work.windows);
        assert_eq!(part.windows_scored, [i64::try_from(part.work.windows_scored).unwrap()]);
    }
    assert!(best(&page, &full).contains(ANSWER));
}

#[test]
fn a_short_page_is_encoded_whole() {
    let page = long_page(18, 0);
    let engine = engine(0);
    let full = highlight(&engine, &[QUERY], &[&page], Pairing::All, Effort::Full);
    for effort in [Effort::Auto, Effort::Fast] {
        assert_eq!(columns(&highlight(&engine, &[QUERY], &[&page], Pairing::All, effort)), columns(&full));
    }
}

#[test]
fn without_matching_words_a_large_page_is_encoded_in_part() {
    let engine = engine(0);
    let scored = |sentences: usize, effort: Effort| {
        let answers = highlight(&engine, &["Ou est le pain?"], &[&long_page(sentences, 0)], Pairing::All, effort);
        (answers.windows_scored[0], answers.windows[0])
    };
    let (thousand, all) = scored(1000, Effort::Auto);
    assert_eq!(thousand, all);
    let (four_thousand, _) = scored(4000, Effort::Auto);
    assert!((thousand..2100).contains(&four_thousand), "twice those of a thousand: {four_thousand}");
    let (full, all) = scored(4000, Effort::Full);
    assert_eq!(full, all);
}

#[test]
fn without_matching_words_the_page_is_encoded_whole() {
    let page = long_page(400, 0);
    let engine = engine(0);
    let [full, auto, fast] = [Effort::Full, Effort::Auto, Effort::Fast]
        .map(|effort| highlight(&engine, &["Ou est le pain?"], &[&page], Pairing::All, effort));
    assert_eq!(columns(&auto), columns(&full));
    assert!(fast.windows_scored[0] < full.windows[0] / 2, "{:?}", fast.windows_scored);
    // With a lexical weight of 0, words select no windows.
    let request = request(&[QUERY], &[&page], Pairing::All);
    let cosine_only = Question {
        lexical_weight: LexicalWeight::new(Some(0.0)).unwrap(),
        ..question(Effort::Auto, Options::default())
    };
    let answers = highlights(&engine, &request, &cosine_only, &Call::default()).unwrap();
    assert_eq!(answers.work.windows_scored, answers.work.windows);
}

#[test]
fn pages_are_not_searched_for_low_scores() {
    let (page, foreign) = (long_page(400, 0), "Le pain est sur la lune. Il fait beau. ".repeat(150));
    let engine = engine(0);
    let scored = |pages: &[&str], min_score: Option<MinScore>| {
        let request = request(&[QUERY], pages, Pairing::All);
        let question = question(Effort::Auto, Options { min_score, ..Options::default() });
        highlights(&engine, &request, &question, &Call::default()).unwrap().windows_scored
    };
    let alone = scored(&[&foreign], None);
    assert!(alone[0] > 200, "{alone:?}");
    let with_answer = scored(&[&foreign, &page], None);
    assert!((1..alone[0] / 5).contains(&with_answer[0]), "the other page answers: {with_answer:?}");
    assert_eq!(with_answer[1], scored(&[&page], None)[0]);
    assert_eq!(scored(&[&foreign], Some(MinScore::Score(0.9))), with_answer[..1]);
    assert_eq!(scored(&[&foreign], Some(MinScore::Score(0.001))), alone);
}

#[test]
fn if_one_of_several_pages_answers_the_others_have_a_preview_only() {
    let (page, foreign) = (long_page(400, 0), "Le pain est sur la lune. Il fait beau. ".repeat(150));
    let engine = engine(0);
    let scored =
        |pages: &[&str], effort: Effort| highlight(&engine, &[QUERY], pages, Pairing::All, effort).windows_scored;
    let alone = scored(&[&page], Effort::Auto)[0];
    let full = highlight(&engine, &[QUERY], &[&foreign, &page, &foreign, &foreign], Pairing::All, Effort::Full);
    assert_eq!(full.windows_scored, full.windows);
    let windows = full.windows[0];
    let of_four = scored(&[&foreign, &foreign, &page, &foreign], Effort::Auto);
    let of_three = scored(&[&foreign, &page, &foreign], Effort::Auto);
    // Of four pages, each has a shorter preview than of three.
    let (short, long) = (of_four[0], of_three[0]);
    assert!(0 < short && short < long && 10 * long < windows, "{short}, {long} of {windows}");
    assert_eq!(of_four, [short, short, alone, short]);
    assert_eq!(of_three, [long, alone, long]);
    let unanswered = scored(&[foreign.as_str(); 4], Effort::Auto);
    assert!(unanswered.iter().all(|scored| *scored >= long), "{unanswered:?}");
}

#[test]
fn effort_fast_skips_pages_without_the_words_if_another_has_them() {
    let (with, without) = (long_page(600, 0), long_page(600, 1).replace(ANSWER, "Nothing."));
    let engine = engine(0);
    let answers = highlight(&engine, &["bread Paris"], &[&with, &without], Pairing::All, Effort::Fast);
    for (scored, windows) in answers.windows_scored.iter().zip(&answers.windows) {
        assert!(*scored < windows / 4, "{scored} of {windows}");
    }
}

#[test]
fn the_cache_changes_the_cost_and_not_the_answer() {
    let page = long_page(900, 0);
    let (cached, plain) = (engine(1 << 26), engine(0));
    let queries = [QUERY, "What is in Haus 4?", "the cat 12", QUERY];
    let mut encoded = Vec::new();
    for query in queries {
        let [with, without] =
            [&cached, &plain].map(|engine| highlight(engine, &[query], &[&page], Pairing::All, Effort::Auto));
        assert_eq!(columns(&with), columns(&without), "{query}");
        assert_eq!(with.work.truncated, without.work.truncated);
        encoded.push((with.work.encoded, without.work.encoded));
    }
    assert_eq!(encoded[0].0, encoded[0].1);
    assert!(encoded[1].0 < encoded[1].1, "the sample is cached: {encoded:?}");
    assert_eq!(encoded[3].0, 0, "{encoded:?}");
    let full = highlight(&cached, &[QUERY], &[&page], Pairing::All, Effort::Full);
    assert!(full.work.encoded < full.work.windows, "{:?}", full.work);
    assert_eq!(columns(&full), columns(&highlight(&plain, &[QUERY], &[&page], Pairing::All, Effort::Full)));
}

#[test]
fn other_queries_of_a_call_change_no_answer() {
    let pages = [long_page(500, 0), long_page(300, 1), long_page(20, 2), long_page(500, 0)];
    let pages: Vec<&str> = pages.iter().map(String::as_str).collect();
    let queries = [QUERY, "What is in Haus 4?", "der cat 12"];
    let engine = engine(0);
    for effort in [Effort::Auto, Effort::Fast] {
        let together = highlight(&engine, &queries, &pages, Pairing::All, effort);
        let alone = queries.map(|query| highlight(&engine, &[query], &pages, Pairing::All, effort));
        let spans: Vec<i64> = alone.iter().flat_map(|answers| answers.spans.clone()).collect();
        let scores: Vec<f32> = alone.iter().flat_map(|answers| answers.scores.clone()).collect();
        assert_eq!((together.spans, together.scores), (spans, scores));
        for answers in &alone {
            assert_eq!(answers.windows_scored[0], answers.windows_scored[3], "these pages are equal");
        }
    }
}

#[test]
fn pairing_each_scores_each_page_as_a_call_of_its_own() {
    let pages = [long_page(500, 0), long_page(400, 1), long_page(500, 0)];
    let pages: Vec<&str> = pages.iter().map(String::as_str).collect();
    let queries = [QUERY, "What is in Haus 4?", "der cat 12"];
    let engine = engine(0);
    let together = highlight(&engine, &queries, &pages, Pairing::Each, Effort::Auto);
    let alone: Vec<Answers> = queries
        .iter()
        .zip(&pages)
        .map(|(query, page)| highlight(&engine, &[query], &[page], Pairing::All, Effort::Auto))
        .collect();
    let scores: Vec<f32> = alone.iter().flat_map(|answers| answers.scores.clone()).collect();
    assert_eq!(together.scores, scores);
}

#[test]
fn top_k_and_budgets_set_the_number_of_scored_windows() {
    let page = long_page(3000, 0);
    let engine = engine(0);
    let windows_scored = |limits: Options| {
        let pages = [page.as_str()];
        let request = request(&[QUERY], &pages, Pairing::All);
        highlights(&engine, &request, &question(Effort::Fast, limits), &Call::default()).unwrap().work.windows_scored
    };
    let few = windows_scored(Options { top_k: Some(1), ..Options::default() });
    let many = windows_scored(Options { top_k: Some(60), ..Options::default() });
    let large = windows_scored(Options { max_chars: Some(20_000), ..Options::default() });
    let tokens = windows_scored(Options { max_tokens: Some(8_000), ..Options::default() });
    assert!(few < 100 && many > 240 && large > 480 && tokens > 480, "{few} {many} {large} {tokens}");
    let all = windows_scored(Options { top_k: Some(1000), ..Options::default() });
    assert_eq!(all, 2998);
}

#[test]
fn pages_that_share_a_limit_are_searched_from_a_shortlist() {
    let page = |seed| match seed {
        77 => long_page(30, seed),
        _ => long_page(30, seed).replace(ANSWER, "Nothing is out."),
    };
    let pages: Vec<String> = (0..120).map(page).collect();
    let pages: Vec<&str> = pages.iter().map(String::as_str).collect();
    let engine = engine(1 << 26);
    let ask = |queries: &[&str], effort: Effort, limits: Options| {
        let request = request(queries, &pages, Pairing::All);
        highlights(&engine, &request, &question(effort, limits), &Call::default()).unwrap()
    };
    let pages_scored = |answers: &Answers| answers.windows_scored.iter().filter(|scored| **scored > 0).count();
    let three = Options { max_total_highlights: Some(3), ..Options::default() };
    let shared = ask(&[QUERY], Effort::Auto, three);
    assert_eq!((shared.ends.len(), pages_scored(&shared), shared.pages.len()), (120, 50, 3));
    assert!(shared.pages.contains(&77));
    let all = ask(&[QUERY], Effort::Auto, Options::default());
    assert_eq!(pages_scored(&all), 120, "each page has passages of its own");
    let listed: Vec<&str> =
        pages.iter().zip(&shared.windows_scored).filter(|(_, scored)| **scored > 0).map(|(page, _)| *page).collect();
    let request = request(&[QUERY], &listed, Pairing::All);
    let alone = highlights(&engine, &request, &question(Effort::Auto, three), &Call::default()).unwrap();
    assert_eq!((&alone.spans, &alone.scores), (&shared.spans, &shared.scores), "as in a call of their own");
    let again = ask(&[QUERY], Effort::Auto, three);
    assert_eq!((columns(&again), again.work.encoded, again.work.tokens), (columns(&shared), 0, 0));
    // A duplicate, which has no vectors of its own, leaves those of the first page in the cache.
    let twice: Vec<&str> = pages.iter().copied().chain([pages[77]]).collect();
    let twice = crate::common::request(&[QUERY], &twice, Pairing::All);
    let ask_twice = || highlights(&engine, &twice, &question(Effort::Auto, three), &Call::default()).unwrap();
    ask_twice();
    assert_eq!(ask_twice().work.encoded, 0);
    // Sixty passages may come from every page; other efforts search all, and so do several queries.
    for (queries, effort, limits) in [
        (&[QUERY][..], Effort::Auto, Options { max_total_highlights: Some(60), ..Options::default() }),
        (&[QUERY], Effort::Full, three),
        (&[QUERY], Effort::Fast, three),
        (&[QUERY, "der cat 12"], Effort::Auto, three),
    ] {
        assert_eq!(pages_scored(&ask(queries, effort, limits)), 120, "{effort:?}");
    }
}

#[test]
fn effort_instant_encodes_the_query_and_the_vocabulary_once() {
    let page = long_page(600, 0);
    let (_folder, model) = model(&word_piece(), 64, ("", ""));
    let encoder = FakeEncoder::new(1, true, Poison::default());
    let log = encoder.log.clone();
    let engine = Engine::new(&model, Box::new(encoder), Some(2), 1 << 20).unwrap();
    let rows = || log.lock().unwrap().iter().map(|(_, lengths)| lengths.len()).sum::<usize>();
    let first = highlight(&engine, &[QUERY], &[&page], Pairing::All, Effort::Instant);
    assert!(best(&page, &first).contains(ANSWER), "{}", best(&page, &first));
    assert_eq!(rows(), 5000 + 1);
    assert_eq!((first.work.windows_scored, first.work.encoded, first.work.truncated), (0, 0, 0));
    assert_eq!(first.windows_scored, [0]);
    let cached = highlight(&engine, &[QUERY], &[&page], Pairing::All, Effort::Instant);
    assert_eq!(rows(), 5000 + 1, "the query's vector is cached");
    assert_eq!((columns(&cached), engine.cache().hits, engine.cache().queries), (columns(&first), 1, 1));
    // The vocabulary is no part of a call's work.
    let query_tokens = engine.tokens().text(QUERY, pullquote_core::tokens::Role::Query).unwrap().0.len();
    assert_eq!((first.work.tokens, cached.work.tokens), (query_tokens, 0));
    engine.clear_cache();
    let again = highlight(&engine, &[QUERY], &[&page], Pairing::All, Effort::Instant);
    assert_eq!((columns(&again), again.work.tokens, rows()), (columns(&first), query_tokens, 5000 + 2));
    let full = highlight(&engine, &[QUERY], &[&page], Pairing::All, Effort::Full);
    assert_eq!(full.work.encoded, full.work.windows);
}
