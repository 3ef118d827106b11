//! Streamed highlights: each page is answered once, in order, before the work on later pages begins.

use std::ops::Range;
use std::sync::Arc;

use pullquote_core::engine::options::Options;
use pullquote_core::engine::{Answers, Engine, Pairing, Question, Request, StreamedHighlights};
use pullquote_core::error::ErrorKind;
use pullquote_core::runtime::call::{Call, Stop};
use pullquote_core::text::formats::Format;

use crate::common::{FakeEncoder, Log, Poison, highlights, model, word_piece};

fn engine() -> (Engine, Log) {
    let (_folder, model) = model(&word_piece(), 64, ("", ""));
    let encoder = FakeEncoder::new(2, true, Poison::default());
    let log = Arc::clone(&encoder.log);
    (Engine::new(&model, Box::new(encoder), Some(2), 0).unwrap(), log)
}

fn question(options: Options) -> Question {
    Question::new(&Options { top_k: Some(2), ..options }).unwrap()
}

/// Pages of 0 to 35,000 bytes: in groups of some, and alone.
fn request(queries: &[&str], pairing: Pairing) -> Arc<Request<String>> {
    let page = |n: usize| format!("The cat {n} is in the moon. ").repeat([1, 0, 150, 2, 1300, 5, 40][n % 7]);
    Arc::new(Request {
        queries: queries.iter().map(|query| (*query).to_owned()).collect(),
        pages: (0..30).map(page).collect(),
        formats: (0..30).map(|n| if n % 2 == 0 { Format::Text } else { Format::Markdown }).collect(),
        titles: (0..30).map(|n| (n % 3 == 0).then(|| format!("cat {n}"))).collect(),
        pairing,
    })
}

fn of_pages(request: &Request<String>, pages: Range<usize>) -> Request<String> {
    let queries = if request.pairing == Pairing::Each { pages.clone() } else { 0..request.queries.len() };
    Request {
        queries: request.queries[queries].to_vec(),
        pages: request.pages[pages.clone()].to_vec(),
        formats: request.formats[pages.clone()].to_vec(),
        titles: request.titles[pages].to_vec(),
        pairing: request.pairing,
    }
}

fn columns(answers: &Answers) -> (Vec<i64>, Vec<i64>, Vec<u32>, Vec<i64>) {
    let scores = answers.scores.iter().map(|score| score.to_bits()).collect();
    (answers.ends.clone(), answers.spans.clone(), scores, answers.pages.clone())
}

fn groups(engine: &Engine, request: &Arc<Request<String>>, question: Question) -> Vec<(Range<usize>, Answers)> {
    let (mut streamed, call) = (StreamedHighlights::new(Arc::clone(request), question).unwrap(), Call::default());
    std::iter::from_fn(|| engine.wait(&call, streamed.next(engine, &call)).unwrap()).collect()
}

#[test]
fn groups_cover_all_pages_in_order_with_the_answers_of_a_call_of_their_own() {
    let (engine, _) = engine();
    let queries: Vec<&str> = (0..30).map(|n| ["cat", "Haus moon"][n % 2]).collect();
    for (queries, pairing) in
        [(&queries[..2], Pairing::All), (&queries[..2], Pairing::Fused), (&queries, Pairing::Each)]
    {
        let (request, question) = (request(queries, pairing), question(Options::default()));
        let groups = groups(&engine, &request, question);
        assert!(groups.len() > 2, "{} groups", groups.len());
        assert!(groups.iter().any(|(pages, _)| pages.len() > 2));
        let mut next = 0;
        for (pages, answers) in groups {
            assert_eq!(pages.start, next);
            next = pages.end;
            let alone = highlights(&engine, &of_pages(&request, pages), &question, &Call::default()).unwrap();
            assert_eq!(columns(&answers), columns(&alone));
        }
        assert_eq!(next, 30);
    }
}

#[test]
fn pages_are_answered_before_later_ones_are_encoded() {
    let (engine, log) = engine();
    let rows = |log: &Log| log.lock().unwrap().iter().map(|(_, lengths)| lengths.len()).sum::<usize>();
    let (request, question) = (request(&["cat"], Pairing::All), question(Options::default()));
    let (mut streamed, call) = (StreamedHighlights::new(request, question).unwrap(), Call::default());
    let (pages, _) = engine.wait(&call, streamed.next(&engine, &call)).unwrap().unwrap();
    assert!(pages.end < 30 && !streamed.is_finished());
    let first = rows(&log);
    while engine.wait(&call, streamed.next(&engine, &call)).unwrap().is_some() {}
    assert!(streamed.is_finished());
    assert!(first * 3 < rows(&log), "{first} of {} rows before the first answer", rows(&log));
}

#[test]
fn pages_that_share_a_limit_are_one_group() {
    let (engine, _) = engine();
    let request = request(&["cat"], Pairing::All);
    for options in [
        Options { max_total_chars: Some(500), ..Options::default() },
        Options { max_total_tokens: Some(500), ..Options::default() },
        Options { max_total_highlights: Some(5), ..Options::default() },
        Options { dedupe: pullquote_core::highlights::DedupeOption::Answer, ..Options::default() },
    ] {
        let question = question(options);
        let groups = groups(&engine, &request, question);
        let whole = highlights(&engine, &request, &question, &Call::default()).unwrap();
        let [(pages, answers)] = groups.as_slice() else { panic!("{} groups", groups.len()) };
        assert_eq!((pages.clone(), columns(answers)), (0..30, columns(&whole)));
    }
}

#[test]
fn streamed_call_ends_when_it_is_stopped_and_rejects_wrong_requests_first() {
    let (engine, _) = engine();
    let (request, stop) = (request(&["cat"], Pairing::All), Stop::default());
    let call = Call::default().stopped_by(stop.clone());
    let mut streamed = StreamedHighlights::new(Arc::clone(&request), question(Options::default())).unwrap();
    assert!(engine.wait(&call, streamed.next(&engine, &call)).unwrap().is_some());
    stop.stop();
    let error = engine.wait(&call, streamed.next(&engine, &call)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    let blank = Request { queries: vec![" ".to_owned()], ..(*request).clone() };
    let error = StreamedHighlights::new(Arc::new(blank), question(Options::default())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}
