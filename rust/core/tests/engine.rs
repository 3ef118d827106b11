//! The engine with a fake encoder: each answer depends on its own request only, whatever else runs or fails.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use pullquote_core::encoder::model::Model;
use pullquote_core::engine::options::Options;
use pullquote_core::engine::{Answers, Effort, Engine, Pairing, Question, Request};
use pullquote_core::error::ErrorKind;
use pullquote_core::highlights::{Bounds, Dedupe, Order};
use pullquote_core::ranking::relevance::LexicalWeight;
use pullquote_core::runtime::call::Call;
use pullquote_core::text::formats::Format;
use pullquote_core::text::pieces::{Unit, Windows};
use pullquote_core::tokens::{Role, Tokens};

use crate::common::{DIMENSION, FakeEncoder, Log, Poison, embed, fake_vector, highlights, model, request, word_piece};

fn engine(encoder: FakeEncoder) -> Engine {
    let (_folder, model) = small_model();
    Engine::new(&model, Box::new(encoder), Some(2), 0).unwrap()
}

fn small_model() -> (crate::common::Folder, Model) {
    model(&word_piece(), 64, ("", ""))
}

fn question() -> Question {
    Question {
        rerank_top: 0,
        likely_windows: None,
        unit: Unit::Sentence,
        windows: Windows::new(2, 1, false).unwrap(),
        expand: true,
        lexical_weight: LexicalWeight::Auto,
        effort: Effort::Auto,
        context: 0,
        explain: false,
        bounds: Bounds::new(&Options { top_k: Some(4), ..Options::default() }, Order::Score, Dedupe::Page).unwrap(),
    }
}

/// Pages of different lengths; some are empty or white space.
fn pages(count: usize) -> Vec<String> {
    let sentence = |page: usize, n: usize| format!("The cat {n} of {page} is in the moon. ").repeat(1 + n % 5);
    (0..count)
        .map(|n| match n % 7 {
            3 => String::new(),
            5 => " \n ".to_owned(),
            _ => (0..n % 11).map(|sentences| sentence(n, sentences)).collect(),
        })
        .collect()
}

fn highlight(engine: &Engine, query: &str, pages: &[String]) -> Answers {
    let pages: Vec<&str> = pages.iter().map(String::as_str).collect();
    highlights(engine, &request(&[query], &pages, Pairing::All), &question(), &Call::default()).unwrap()
}

/// Scores as bits, because equal answers are equal to the bit.
fn columns(answers: &Answers) -> (Vec<i64>, Vec<i64>, Vec<u32>, Vec<i64>) {
    let scores = answers.scores.iter().map(|score| score.to_bits()).collect();
    (answers.ends.clone(), answers.spans.clone(), scores, answers.pages.clone())
}

#[test]
fn any_number_of_devices_gives_the_same_answers() {
    let pages = pages(60);
    let alone = highlight(&engine(FakeEncoder::new(1, true, Poison::default())), "Where is the cat?", &pages);
    assert_eq!(alone.ends.len(), 60);
    assert!(alone.scores.len() > 60);
    for (devices, notifies) in [(1, false), (2, true), (3, false), (5, true)] {
        let encoder = FakeEncoder::new(devices, notifies, Poison::default());
        let log = Arc::clone(&encoder.log);
        let several = highlight(&engine(encoder), "Where is the cat?", &pages);
        assert_eq!(columns(&several), columns(&alone), "{devices} devices");
        let used: std::collections::HashSet<usize> = log.lock().unwrap().iter().map(|(device, _)| *device).collect();
        assert_eq!(used.len(), devices, "a large request uses all devices");
    }
}

#[test]
fn each_vector_is_that_of_its_own_text() {
    let (_folder, model) = small_model();
    let tokens = Tokens::read(&model).unwrap();
    let engine = Engine::new(&model, Box::new(FakeEncoder::new(2, true, Poison::default())), None, 0).unwrap();
    let texts: Vec<String> = (0..500).map(|n| format!("cat {n} ").repeat(n % 30)).collect();
    let borrowed: Vec<&str> = texts.iter().map(String::as_str).collect();
    let embedded = embed(&engine, &borrowed, Role::Passage, &Call::default()).unwrap();
    for (text, vector) in texts.iter().zip(embedded.vectors.chunks_exact(DIMENSION)) {
        assert_eq!(vector, fake_vector(&tokens.text(text, Role::Passage).unwrap().0));
    }
}

#[test]
fn small_requests_of_different_callers_share_batches() {
    let encoder = FakeEncoder::new(1, true, Poison::default());
    let log = Arc::clone(&encoder.log);
    let engine = engine(encoder);
    let rows = 400;
    std::thread::scope(|scope| {
        for _ in 0..rows {
            scope.spawn(|| embed(&engine, &["the cat"], Role::Query, &Call::default()).unwrap());
        }
    });
    let log = log.lock().unwrap();
    assert_eq!(log.iter().map(|(_, lengths)| lengths.len()).sum::<usize>(), rows);
    assert!(log.iter().any(|(_, lengths)| lengths.len() > 1), "no batch held rows of two callers");
}

#[test]
fn batches_keep_the_token_budget_and_hold_rows_of_similar_length() {
    let encoder = FakeEncoder::new(1, true, Poison::default());
    let log = Arc::clone(&encoder.log);
    let texts: Vec<String> = (0..200).map(|n| "cat ".repeat(n % 40)).collect();
    let borrowed: Vec<&str> = texts.iter().map(String::as_str).collect();
    embed(&engine(encoder), &borrowed, Role::Passage, &Call::default()).unwrap();
    for (_, lengths) in log.lock().unwrap().iter() {
        assert!(lengths.len() == 1 || lengths.iter().sum::<u32>() <= 64, "{lengths:?}");
        assert!(lengths.is_sorted(), "{lengths:?}");
        assert!(lengths.iter().all(|length| length * 2 >= lengths[lengths.len() - 1] || *length < 12), "{lengths:?}");
    }
}

#[test]
fn a_poisoned_request_fails_alone() {
    let (_folder, model) = small_model();
    let percent = Tokens::read(&model).unwrap().text("%", Role::Query).unwrap().0[1];
    for poison in [Poison { reject: Some(percent), nan: None }, Poison { reject: None, nan: Some(percent) }] {
        let engine = engine(FakeEncoder::new(2, true, poison));
        let expected = fake_vector(&Tokens::read(&model).unwrap().text("the cat", Role::Query).unwrap().0);
        std::thread::scope(|scope| {
            for n in 0..200 {
                let (engine, expected) = (&engine, &expected);
                scope.spawn(move || {
                    let text = if n % 5 == 0 { "the % moon" } else { "the cat" };
                    let embedded = embed(engine, &[text, "bread"], Role::Query, &Call::default());
                    match embedded {
                        Ok(embedded) => {
                            assert_ne!(n % 5, 0, "a poisoned text has an answer");
                            assert_eq!(&embedded.vectors[..DIMENSION], expected);
                        }
                        Err(error) => {
                            assert_eq!(n % 5, 0, "{error}");
                            assert_eq!(error.kind(), ErrorKind::Encoder);
                        }
                    }
                });
            }
        });
    }
}

#[test]
fn many_mixed_requests_at_once_get_the_answers_they_would_get_alone() {
    let pages = pages(40);
    let engine = engine(FakeEncoder::new(3, true, Poison::default()));
    let queries: Vec<String> = (0..16).map(|n| format!("moon {n}")).collect();
    let alone: Vec<_> = queries.iter().map(|query| columns(&highlight(&engine, query, &pages))).collect();
    std::thread::scope(|scope| {
        for round in 0..4 {
            for (query, expected) in queries.iter().zip(&alone) {
                let (engine, pages) = (&engine, &pages);
                scope.spawn(move || assert_eq!(&columns(&highlight(engine, query, pages)), expected, "round {round}"));
            }
        }
    });
}

#[test]
fn pairing_each_and_all_match_single_calls() {
    let engine = engine(FakeEncoder::new(2, true, Poison::default()));
    let pages = pages(9);
    let pages: Vec<&str> = pages.iter().map(String::as_str).collect();
    let queries = ["cat", "moon", "bread", "in", "the", "Paris", "is", "Haus", "der"];
    let call = Call::default;
    let single = |query: &str, page: &str| {
        highlights(&engine, &request(&[query], &[page], Pairing::All), &question(), &call()).unwrap()
    };

    let each = highlights(&engine, &request(&queries, &pages, Pairing::Each), &question(), &call()).unwrap();
    let many = highlights(&engine, &request(&queries, &pages[8..], Pairing::All), &question(), &call()).unwrap();
    let (mut first, mut first_many) = (0, 0);
    for index in 0..9 {
        let (end, end_many) = (usize::try_from(each.ends[index]).unwrap(), usize::try_from(many.ends[index]).unwrap());
        assert_eq!(each.spans[2 * first..2 * end], single(queries[index], pages[index]).spans, "page {index}");
        assert_eq!(many.spans[2 * first_many..2 * end_many], single(queries[index], pages[8]).spans, "query {index}");
        (first, first_many) = (end, end_many);
    }
    let all = highlights(&engine, &request(&queries, &pages, Pairing::All), &question(), &call()).unwrap();
    assert_eq!(all.ends.len(), 81);
    let (first, end) = (all.ends[2 * 9 + 6], all.ends[2 * 9 + 7]);
    let rows = usize::try_from(2 * first).unwrap()..usize::try_from(2 * end).unwrap();
    assert_eq!(all.spans[rows], single(queries[2], pages[7]).spans, "query 2 on page 7");
    let wrong = highlights(&engine, &request(&queries[..2], &pages, Pairing::Each), &question(), &call()).unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::InvalidArgument);
    assert!(["queries: 2", "pages: 9"].iter().all(|name| wrong.message().contains(name)), "{wrong}");
}

#[test]
fn every_check_after_the_deadline_names_it() {
    let call = Call::new(Some(Duration::from_nanos(1)), None);
    for _ in 0..2 {
        assert_eq!(call.check().unwrap_err().kind(), ErrorKind::DeadlineExceeded);
    }
}

#[test]
fn an_interrupt_and_a_timeout_end_a_call_soon_and_leave_the_engine_usable() {
    let engine = engine(FakeEncoder::new(1, true, Poison::default()));
    let page = "The cat is in the moon. ".repeat(100_000);
    let interrupted = || true;
    let call = Call::new(None, Some(&interrupted));
    let began = Instant::now();
    let error = highlights(&engine, &request(&["cat"], &[&page], Pairing::All), &question(), &call).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    let call = Call::new(Some(Duration::from_millis(1)), None);
    let error = highlights(&engine, &request(&["cat"], &[&page], Pairing::All), &question(), &call).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
    // Generous: cutting the page takes much longer than cancelling the call.
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    assert_eq!(highlight(&engine, "cat", &["The cat.".to_owned()]).scores.len(), 1);
}

#[test]
fn calls_after_close_are_closed_errors() {
    let engine = engine(FakeEncoder::new(2, true, Poison::default()));
    embed(&engine, &["the cat"], Role::Query, &Call::default()).unwrap();
    engine.close();
    engine.close();
    assert_eq!(embed(&engine, &["the cat"], Role::Query, &Call::default()).unwrap_err().kind(), ErrorKind::Closed);
}

/// Close ends calls in every stage: tokenizing this text takes longer than close may.
#[test]
fn close_ends_a_call_while_it_tokenizes() {
    let engine = engine(FakeEncoder::new(1, true, Poison::default()));
    let texts = vec!["cat moon bread"; 1 << 19];
    let closes = || {
        engine.close();
        false
    };
    let error = embed(&engine, &texts, Role::Passage, &Call::new(None, Some(&closes))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
}

#[test]
fn an_empty_query_is_an_error_and_an_empty_page_has_no_highlights() {
    let engine = engine(FakeEncoder::new(1, true, Poison::default()));
    let call =
        |query, page| highlights(&engine, &request(&[query], &[page], Pairing::All), &question(), &Call::default());
    assert_eq!(call(" \n", "The cat.").unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(call("cat", "").unwrap().ends, [0]);
}

#[test]
fn windows_over_the_models_limit_count_as_truncated() {
    let engine = engine(FakeEncoder::new(1, true, Poison::default()));
    let page = format!("{}moon. The bread.", "cat ".repeat(80));
    let answers = highlight(&engine, "cat", &[page]);
    assert_eq!((answers.work.windows, answers.work.truncated), (1, 1));
}

#[test]
fn fuse_gives_each_page_one_answer_with_the_best_query_of_each_passage() {
    let engine = engine(FakeEncoder::new(1, true, Poison::default()));
    let page = "The cat sleeps all day long. It often rains here in spring. The moon is made of bread.";
    let question = Question { lexical_weight: LexicalWeight::new(Some(1.0)).unwrap(), ..question() };
    let queries = ["Where is the cat?", "Is bread in the moon?"];
    let answers =
        highlights(&engine, &request(&queries, &[page], Pairing::Fused), &question, &Call::default()).unwrap();
    assert_eq!(answers.ends.len(), 1);
    let highlights: Vec<(i64, &str)> = (0..answers.scores.len())
        .map(|row| {
            let offset = |column: usize| usize::try_from(answers.spans[2 * row + column]).unwrap();
            (answers.queries[row], &page[offset(0)..offset(1)])
        })
        .collect();
    assert!(highlights.iter().any(|(query, text)| *query == 0 && text.contains("cat")), "{highlights:?}");
    assert!(highlights.iter().any(|(query, text)| *query == 1 && text.contains("moon")), "{highlights:?}");
}

#[test]
fn explain_and_context_report_matched_words_and_neighbouring_units() {
    let engine = engine(FakeEncoder::new(1, true, Poison::default()));
    let page = "It rains. It was so. The cats sleep in bread-boxes. Or so they say. Really.";
    let bounds = Bounds::new(&Options { top_k: Some(1), ..Options::default() }, Order::Score, Dedupe::Page).unwrap();
    let windows = Windows::new(1, 1, false).unwrap();
    let question = Question {
        windows,
        lexical_weight: LexicalWeight::new(Some(1.0)).unwrap(),
        context: 1,
        explain: true,
        bounds,
        ..question()
    };
    let pages = [page];
    let request = request(&["Which cat is in a bread-box?"], &pages, Pairing::All);
    let answers = highlights(&engine, &request, &question, &Call::default()).unwrap();
    let text = |spans: &[i64], row: usize| {
        let offset = |column: usize| usize::try_from(spans[2 * row + column]).unwrap();
        page[offset(0)..offset(1)].to_owned()
    };
    assert_eq!(text(&answers.spans, 0), "The cats sleep in bread-boxes.");
    assert_eq!(text(&answers.contexts, 0), "It was so. The cats sleep in bread-boxes. Or so they say.");
    let matches = &answers.matches;
    let words: Vec<(String, &str)> = (0..matches.words.len())
        .map(|row| {
            let word = usize::try_from(matches.words[row]).unwrap();
            (text(&matches.spans, row), matches.query_words[word].as_str())
        })
        .collect();
    assert_eq!(words[0], ("cats".to_owned(), "cat"));
    assert_eq!(words[1], ("bread-boxes".to_owned(), "bread-box"));
    assert_eq!((words.len(), matches.ends.as_slice()), (2, [2].as_slice()));
}

#[test]
fn titles_raise_the_scores_of_their_page_and_keep_its_passages() {
    let engine = engine(FakeEncoder::new(1, true, Poison::default()));
    let page = "The cat is in the moon. Bread is good. The moon is out.";
    let pages = [page, page];
    let call = |titles: &[Option<&str>]| {
        let request =
            Request { titles: titles.to_vec(), ..request(&["Where in Paris is the cat?"], &pages, Pairing::All) };
        let question = Question { lexical_weight: LexicalWeight::new(Some(1.0)).unwrap(), ..question() };
        highlights(&engine, &request, &question, &Call::default())
    };
    let (plain, titled) = (call(&[]).unwrap(), call(&[Some("Haus"), Some("Paris")]).unwrap());
    let half = plain.scores.len() / 2;
    assert_eq!(plain.scores[..half], plain.scores[half..]);
    assert_eq!(plain.spans, titled.spans);
    assert!(titled.scores[half] > titled.scores[0], "{:?}", titled.scores);
    let wrong = call(&[None]).unwrap_err();
    assert!(["titles: 1", "pages: 2"].iter().all(|name| wrong.message().contains(name)), "{wrong}");
}

#[test]
fn pages_of_different_formats_share_a_call() {
    let engine = engine(FakeEncoder::new(1, true, Poison::default()));
    let call = |formats: &[Format]| {
        let pages = ["<p>The cat is in the moon.</p>"; 2];
        let request = Request { formats: formats.to_vec(), ..request(&["Where is the cat?"], &pages, Pairing::All) };
        highlights(&engine, &request, &question(), &Call::default())
    };
    let answers = call(&[Format::Html, Format::Text]).unwrap();
    assert_eq!(answers.formats, [Format::Html, Format::Text]);
    assert_eq!(answers.texts, [Some("The cat is in the moon.".to_owned()), None]);
    let wrong = call(&[Format::Text; 3]).unwrap_err();
    assert!(["3 formats", "2 pages"].iter().all(|name| wrong.message().contains(name)), "{wrong}");
}

#[test]
fn max_tokens_holds_for_every_tokenizer() {
    for tokenizer in [word_piece(), crate::common::sentence_piece(false), crate::common::byte_level()] {
        let (_folder, model) = model(&tokenizer, 64, ("", ""));
        let tokens = Tokens::read(&model).unwrap();
        let engine = Engine::new(&model, Box::new(FakeEncoder::new(1, true, Poison::default())), Some(2), 0).unwrap();
        let pages = pages(12);
        let pages: Vec<&str> = pages.iter().map(String::as_str).collect();
        for max in [1, 7, 20, 60] {
            let limits = Options { max_tokens: Some(max), max_total_tokens: Some(3 * max), ..Options::default() };
            let bounds = Bounds::new(&limits, Order::Score, Dedupe::None).unwrap();
            let question = Question { bounds, ..question() };
            let request = request(&["Where is the cat?"], &pages, Pairing::All);
            let answers = highlights(&engine, &request, &question, &Call::default()).unwrap();
            let mut used = vec![0; pages.len()];
            for row in 0..answers.scores.len() {
                let offset = |column: usize| usize::try_from(answers.spans[2 * row + column]).unwrap();
                let page = usize::try_from(answers.pages[row]).unwrap();
                used[page] += tokens.budgeted(&pages[page][offset(0)..offset(1)]).unwrap();
            }
            let max = usize::try_from(max).unwrap();
            assert!(used.iter().all(|used| *used <= max), "{used:?} {max}");
            let all = used.iter().sum::<usize>();
            assert!(all <= 3 * max && (max < 60 || 4 * all > 3 * max), "{all} of {}", 3 * max);
        }
    }
}

fn rows_encoded(log: &Log) -> usize {
    log.lock().unwrap().iter().map(|(_, lengths)| lengths.len()).sum()
}

fn with_cache(cache_bytes: usize) -> (Engine, Log) {
    let encoder = FakeEncoder::new(1, true, Poison::default());
    let log = Arc::clone(&encoder.log);
    let (_folder, model) = small_model();
    (Engine::new(&model, Box::new(encoder), Some(2), cache_bytes).unwrap(), log)
}

#[test]
fn cached_pages_are_not_encoded_again_for_other_queries() {
    let pages = pages(20);
    let (plain, _) = with_cache(0);
    let (engine, log) = with_cache(1 << 20);
    let first = highlight(&engine, "Where is the cat?", &pages);
    let encoded = rows_encoded(&log);
    assert_eq!(first.work.encoded + 1, encoded);
    for (query, rows_of_query) in [("Where is the cat?", 0), ("moon", 1), ("bread in Paris", 1)] {
        let before = rows_encoded(&log);
        let again = highlight(&engine, query, &pages);
        assert_eq!(columns(&again), columns(&highlight(&plain, query, &pages)), "{query}");
        // A new query, and a few windows that the first query did not need.
        assert_eq!(rows_encoded(&log) - before, again.work.encoded + rows_of_query);
        assert!(again.work.encoded <= first.work.encoded / 10, "{:?}", again.work);
        assert_eq!(again.work.windows, first.work.windows);
    }
    let state = engine.cache();
    assert!(state.bytes <= 1 << 20 && state.hits > state.misses, "{state:?}");
    // Other windows are another entry, and a cleared cache has none.
    let other = Question { windows: Windows::new(1, 1, false).unwrap(), ..question() };
    let borrowed: Vec<&str> = pages.iter().map(String::as_str).collect();
    let request = request(&["cat"], &borrowed, Pairing::All);
    assert!(highlights(&engine, &request, &other, &Call::default()).unwrap().work.encoded > 0);
    engine.clear_cache();
    assert_eq!(highlight(&engine, "Where is the cat?", &pages).work.encoded, first.work.encoded);
}

#[test]
fn queries_and_titles_are_encoded_once_with_the_same_prompt() {
    let pages = ["The cat is in the Haus.", "The moon is out."];
    let titles = [Some("cat"), Some("moon")];
    let ask = |engine: &Engine, queries: &[&str]| {
        let request = Request { titles: titles.to_vec(), ..request(queries, &pages, Pairing::All) };
        highlights(engine, &request, &question(), &Call::default()).unwrap()
    };
    let encoder = FakeEncoder::new(1, true, Poison::default());
    let log = Arc::clone(&encoder.log);
    let (_folder, model) = model(&word_piece(), 64, ("query ", ""));
    let engine = Engine::new(&model, Box::new(encoder), Some(2), 1 << 20).unwrap();
    let first = ask(&engine, &["cat", "cat"]);
    assert_eq!(rows_encoded(&log), 2 + 1 + 2, "two windows, a query, and two titles");
    let again = ask(&engine, &["cat", "cat"]);
    assert_eq!((columns(&again), again.work.tokens, rows_encoded(&log)), (columns(&first), 0, 5));
    // A title has another prompt than the query "cat", and the query "moon" another than the title.
    let other = ask(&engine, &["moon"]);
    assert_eq!((other.work.encoded, rows_encoded(&log), engine.cache().queries), (0, 6, 4));
}

#[test]
fn equal_windows_are_encoded_once() {
    let footer = "All rights are reserved. Do not copy the moon. Bread is not for sale.";
    let pages: Vec<String> = (0..50).map(|n| format!("The cat {n} is in.\n\n{footer}")).collect();
    let (engine, log) = with_cache(0);
    let answers = highlight(&engine, "Where is the cat?", &pages);
    assert_eq!(answers.work.windows, 50 * 3);
    assert_eq!(answers.work.encoded, 50 + 2, "of three windows, two are the same on every page");
    assert_eq!(rows_encoded(&log), 1 + 52);
    let alone = highlight(&engine, "Where is the cat?", &pages[7..8]);
    let same = |column: &[f32], row: usize| column[row].to_bits();
    let first = usize::try_from(answers.ends[6]).unwrap();
    assert_eq!(same(&answers.cosines, first), same(&alone.cosines, 0));
}

#[test]
fn equal_pages_with_different_queries_are_encoded_once() {
    let pages = pages(30);
    let page = pages[10].as_str();
    for cache_bytes in [0, 1 << 20] {
        let (engine, log) = with_cache(cache_bytes);
        let queries: Vec<String> = (0..600).map(|n| format!("cat moon {}", n % 7)).collect();
        let queries: Vec<&str> = queries.iter().map(String::as_str).collect();
        let same = vec![page; queries.len()];
        let each =
            highlights(&engine, &request(&queries, &same, Pairing::Each), &question(), &Call::default()).unwrap();
        // Seven of the queries differ.
        let encoded = rows_encoded(&log) - 7;
        assert!(encoded <= pages[10].matches('.').count(), "{encoded} rows");
        for number in [0, 6, 7, 599] {
            let alone = highlight(&engine, queries[number], &pages[10..11]);
            let end = usize::try_from(each.ends[number]).unwrap();
            let spans = &each.spans[2 * (end - alone.scores.len())..2 * end];
            assert_eq!(spans, alone.spans, "query {number}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn highlights_are_substrings_of_their_page(
        pages in prop::collection::vec(
            "\\PC{0,80}|([a-zA-Zé漢かไ🌙\u{301}\u{ad}]{1,6}[ .!?\n|#*<>&;`-]{1,2}){0,40}|<p>(<b>[a-zé&;. ]{0,20}</b>[a-z.\n ]{0,20}){0,4}", 1..4,
        ),
        format in prop::sample::select(vec![Format::Text, Format::Markdown, Format::Html, Format::Auto]),
        max_chars in prop::option::of(1_i64..200),
        context in 0_usize..3,
    ) {
        static ENGINE: LazyLock<Engine> = LazyLock::new(|| engine(FakeEncoder::new(1, true, Poison::default())));
        let sources: Vec<&str> = pages.iter().map(String::as_str).collect();
        let limits = Options { max_chars, ..Options::default() };
        let bounds = Bounds::new(&limits, Order::Score, Dedupe::Page).unwrap();
        let question = Question { bounds, context, explain: true, ..question() };
        let formats = vec![format];
        let request = Request { formats, ..request(&["cat moon"], &sources, Pairing::All) };
        let found = highlights(&ENGINE, &request, &question, &Call::default()).unwrap();
        let span = |spans: &[i64], row: usize| {
            let [start, end] = [2 * row, 2 * row + 1].map(|place| usize::try_from(spans[place]).unwrap());
            start..end
        };
        for (row, page) in found.pages.iter().enumerate() {
            let page = usize::try_from(*page).unwrap();
            let text = found.texts[page].as_deref().unwrap_or(sources[page]);
            let characters: Vec<char> = text.chars().collect();
            let of = |span: std::ops::Range<usize>| characters.get(span).map(String::from_iter);
            let passage = text.get(span(&found.byte_spans, row));
            prop_assert!(passage.is_some_and(|passage| !passage.trim().is_empty()));
            let by_characters = of(span(&found.spans, row));
            prop_assert_eq!(by_characters.as_deref(), passage);
            let (own, around) = (span(&found.spans, row), span(&found.contexts, row));
            prop_assert!(around.start <= own.start && own.end <= around.end && of(around).is_some());
            prop_assert!(of(span(&found.headers, row)).is_some());
            prop_assert!(span(&found.sources, row).end <= sources[page].chars().count());
            if let Some(most) = max_chars {
                prop_assert!(own.len() <= usize::try_from(most).unwrap());
            }
        }
    }
}
