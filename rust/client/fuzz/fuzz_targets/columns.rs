//! Columns: whatever stands in an answer of `/highlights`, its columns fit each other and the pages, or there is an error. The
//! first byte selects the request.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pullquote_client::columns::{Columns, ExpectedAnswer, read_answers};
use pullquote_core::engine::Pairing;

fuzz_target!(|data: &[u8]| {
    let [choice, body @ ..] = data else { return };
    let has = |bit: u8| choice & (1 << bit) != 0;
    let pairing = if has(0) { Pairing::All } else { Pairing::Fused };
    let lengths = vec![Some(10), if has(1) { None } else { Some(20) }];
    let expected = ExpectedAnswer { pairing, queries: 2, explain: has(2), returns_texts: has(3), lengths };
    let Ok(Columns { answers, passages, .. }) = read_answers(body, &expected) else { return };
    let rows = answers.scores.len();
    assert!(answers.spans.len() == 2 * rows && answers.contexts.len() == 2 * rows && answers.headers.len() == 2 * rows && answers.sources.len() == 2 * rows);
    assert!(answers.cosines.len() == rows && answers.bm25_scores.len() == rows && answers.queries.len() == rows);
    assert_eq!(answers.ends.len(), if has(0) { 4 } else { 2 });
    assert!(answers.ends.is_sorted() && answers.ends.last() == Some(&i64::try_from(rows).unwrap()));
    assert!(passages.is_empty() || passages.len() == rows);
    for row in 0..rows {
        let page = usize::try_from(answers.pages[row]).unwrap();
        let text = answers.texts[page].as_ref().map(|text| text.chars().count()).or(expected.lengths[page]);
        let [first, last] = [answers.contexts[2 * row], answers.contexts[2 * row + 1]];
        let [start, end] = [answers.spans[2 * row], answers.spans[2 * row + 1]];
        assert!(0 <= first && first <= start && start <= end && end <= last);
        assert!((0..2).contains(&answers.queries[row]) && answers.scores[row].is_finite());
        match text {
            Some(length) => assert!(usize::try_from(last).unwrap() <= length),
            None => {
                let passage = passages[row].as_ref().expect("a page without a text has its passages");
                assert_eq!(i64::try_from(passage.text.chars().count()).unwrap(), end - start);
            }
        }
    }
    assert!(!expected.explain || answers.matches.ends.len() == rows);
    assert!(answers.matches.words.iter().all(|word| usize::try_from(*word).unwrap() < answers.matches.query_words.len()));
});
