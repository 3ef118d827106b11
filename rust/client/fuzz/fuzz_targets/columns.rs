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
    let sources = vec![Some("0123456789"), if has(1) { None } else { Some("0123456789 123456789") }];
    let expected = ExpectedAnswer { pairing, queries: 2, returns_texts: has(3), sources };
    let Ok(Columns { answers, rows: highlights, .. }) = read_answers(body, &expected) else { return };
    let rows = answers.scores.len();
    assert!(answers.spans.len() == 2 * rows && answers.contexts.len() == 2 * rows && answers.headers.len() == 2 * rows && answers.sources.len() == 2 * rows);
    assert!(answers.cosines.len() == rows && answers.bm25_scores.len() == rows && answers.queries.len() == rows);
    assert_eq!(answers.ends.len(), if has(0) { 4 } else { 2 });
    assert!(answers.ends.is_sorted() && answers.ends.last() == Some(&i64::try_from(rows).unwrap()));
    assert_eq!(highlights.len(), rows);
    for row in 0..rows {
        let page = usize::try_from(answers.pages[row]).unwrap();
        let text = answers.texts[page].as_deref().or(expected.sources[page]);
        let [first, last] = [answers.contexts[2 * row], answers.contexts[2 * row + 1]];
        let [start, end] = [answers.spans[2 * row], answers.spans[2 * row + 1]];
        assert!(0 <= first && first <= start && start <= end && end <= last);
        assert!((0..2).contains(&answers.queries[row]) && answers.scores[row].is_finite());
        let passage = &highlights[row].text;
        assert_eq!(i64::try_from(passage.chars().count()).unwrap(), end - start);
        if let Some(text) = text {
            let start = usize::try_from(start).unwrap();
            assert!(text.chars().skip(start).take(passage.chars().count()).eq(passage.chars()));
            assert!(usize::try_from(last).unwrap() <= text.chars().count());
        }
    }
});
