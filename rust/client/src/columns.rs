//! The answer of `/highlights` as the columns that the library itself writes.
//!
//! Every count and every offset is checked against the request. The text of a stored page stays with the server, so its
//! passages bring their own texts.

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Duration;

use pullquote_core::engine::{Answers, Matches, Pairing, Work};
use pullquote_core::error::Result;
use pullquote_core::text::formats::Format;
use serde::Deserialize;

use crate::raw::bad;

#[derive(Deserialize)]
struct AnswerBody<'body> {
    #[serde(borrow)]
    results: Vec<PageResult<'body>>,
    usage: Usage,
    timings: Timings,
}

#[derive(Deserialize)]
struct PageResult<'body> {
    index: usize,
    query: Option<usize>,
    format: Format,
    #[serde(default)]
    windows: i64,
    #[serde(default)]
    windows_scored: i64,
    text: Option<String>,
    #[serde(borrow)]
    highlights: Vec<Highlight<'body>>,
}

#[derive(Deserialize)]
struct Highlight<'body> {
    #[serde(borrow, default)]
    text: Cow<'body, str>,
    start: usize,
    end: usize,
    score: f32,
    cosine: f32,
    bm25: f32,
    query: Option<usize>,
    #[serde(borrow, default)]
    before: Cow<'body, str>,
    #[serde(borrow, default)]
    after: Cow<'body, str>,
    #[serde(borrow, default)]
    header: Cow<'body, str>,
    #[serde(default)]
    header_start: usize,
    #[serde(default)]
    matches: Vec<Match>,
    source_start: Option<usize>,
    source_end: Option<usize>,
    page_number: Option<usize>,
    #[serde(default)]
    rectangles: Vec<Rectangle>,
}

#[derive(Deserialize)]
struct Match {
    word: String,
    start: usize,
    end: usize,
}

#[derive(Deserialize)]
struct Usage {
    windows: usize,
    windows_scored: usize,
    encoded: usize,
    tokens: usize,
    truncated: usize,
}

#[derive(Deserialize)]
struct Timings {
    cutting: f64,
    tokenizing: f64,
    waiting: f64,
    ranking: f64,
}

/// What an answer must match.
pub struct ExpectedAnswer {
    pub pairing: Pairing,
    pub queries: usize,
    pub explain: bool,
    pub returns_texts: bool,
    /// Characters of each page's source; `None` for a stored page.
    pub lengths: Vec<Option<usize>>,
}

/// The texts of a passage of a stored page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredPassage {
    pub text: String,
    /// The text before it, as much as was requested.
    pub before: String,
    pub after: String,
    /// The names of the columns above it.
    pub header: String,
}

/// Where a passage of an uploaded PDF stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// Number of the page on which it begins, from 1.
    pub page_number: usize,
    /// One for each of its lines.
    pub rectangles: Vec<Rectangle>,
}

/// A part of a line on a page of a PDF, in points from the page's lower left corner.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct Rectangle {
    pub page: usize,
    pub left: f32,
    pub bottom: f32,
    pub right: f32,
    pub top: f32,
}

impl Rectangle {
    fn is_finite(&self) -> bool {
        [self.left, self.bottom, self.right, self.top].iter().all(|side| side.is_finite())
    }
}

/// An answer that matches its request.
#[derive(Debug)]
pub struct Columns {
    /// The columns; of stored pages and files, offsets without a text.
    pub answers: Answers,
    /// The texts of the passages of pages that are on the server; empty if there are none.
    pub passages: Vec<Option<StoredPassage>>,
    /// The places of the passages of PDFs; empty if there are none.
    pub places: Vec<Option<Place>>,
}

/// Builds the columns, list after list.
struct ColumnBuilder<'call> {
    expected: &'call ExpectedAnswer,
    answers: Answers,
    passages: Vec<Option<StoredPassage>>,
    places: Vec<Option<Place>>,
    words: WordTable,
    /// Which pages had a list already: another list must describe them alike.
    is_known: Vec<bool>,
}

/// Numbers words in the order of their first appearance.
#[derive(Default)]
struct WordTable {
    numbers: HashMap<String, i64>,
    listed: Vec<String>,
}

/// The columns of an answer, and what only the server knows about its passages.
pub fn read_answers(body: &[u8], expected: &ExpectedAnswer) -> Result<Columns> {
    let body: AnswerBody =
        serde_json::from_slice(body).map_err(|error| bad(format!("its passages cannot be read: {error}")))?;
    let pages = expected.lengths.len();
    let lists = if expected.pairing == Pairing::All { expected.queries * pages } else { pages };
    if body.results.len() != lists {
        return Err(bad(format!("it has {} lists of passages instead of {lists}", body.results.len())));
    }
    let Usage { windows, windows_scored, encoded, tokens, truncated } = body.usage;
    let Timings { cutting, tokenizing, waiting, ranking } = body.timings;
    let answers = Answers {
        texts: vec![None; pages],
        formats: vec![Format::Text; pages],
        windows: vec![0; pages],
        windows_scored: vec![0; pages],
        work: Work {
            windows,
            windows_scored,
            encoded,
            tokens,
            truncated,
            cutting: time(cutting),
            tokenizing: time(tokenizing),
            waiting: time(waiting),
            ranking: time(ranking),
        },
        ..Answers::default()
    };
    let (passages, places, words) = (Vec::new(), Vec::new(), WordTable::default());
    let mut columns = ColumnBuilder { expected, answers, passages, places, words, is_known: vec![false; pages] };
    for (place, page) in body.results.into_iter().enumerate() {
        let (query, index) = match expected.pairing {
            Pairing::All => (place / pages, place % pages),
            Pairing::Each => (place, place),
            Pairing::Fused => (0, place),
        };
        if page.index != index || page.query.is_some_and(|stated| stated != query) {
            return Err(bad(format!("its list {place} is of page {} instead of page {index}", page.index)));
        }
        columns.add(page, query)?;
    }
    let ColumnBuilder { mut answers, mut passages, mut places, words, .. } = columns;
    answers.matches.query_words = words.listed;
    if passages.iter().all(Option::is_none) {
        passages.clear();
    }
    if places.iter().all(Option::is_none) {
        places.clear();
    }
    Ok(Columns { answers, passages, places })
}

impl ColumnBuilder<'_> {
    fn add(&mut self, mut page: PageResult, query: usize) -> Result<()> {
        let index = page.index;
        let highlights = std::mem::take(&mut page.highlights);
        let (length, of_source) = self.describe(page)?;
        let answers = &mut self.answers;
        for highlight in highlights {
            let Highlight { text, start, end, score, cosine, bm25, before, after, header, header_start, .. } =
                highlight;
            let (first, last) = (start.checked_sub(before.chars().count()), end.checked_add(after.chars().count()));
            let (first, last) = (first.unwrap_or(usize::MAX), last.unwrap_or(usize::MAX));
            let names = (header_start, header_start.saturating_add(header.chars().count()));
            let source = (highlight.source_start.unwrap_or(start), highlight.source_end.unwrap_or(end));
            let query = highlight.query.unwrap_or(query);
            let is_inside = |(start, end): (usize, usize), length: Option<usize>| {
                start <= end && end <= length.unwrap_or(usize::MAX - 1)
            };
            let fits = is_inside((start, end), length)
                && is_inside((first, last), length)
                && is_inside(names, length)
                && is_inside(source, of_source);
            // Of a stored page, only the length of the passage's own text can be checked.
            if !fits || query >= self.expected.queries || (length.is_none() && text.chars().count() != end - start) {
                return Err(bad(format!("it has an impossible passage at {start} to {end} of page {index}")));
            }
            if ![score, cosine, bm25].iter().all(|value| value.is_finite()) {
                return Err(bad(format!("a passage of page {index} has a score that is not finite")));
            }
            if !highlight.rectangles.iter().all(Rectangle::is_finite) {
                return Err(bad(format!("a passage of page {index} has a rectangle with impossible sides")));
            }
            let place = |page_number| Place { page_number, rectangles: highlight.rectangles };
            self.places.push(highlight.page_number.map(place));
            answers.spans.extend([column(start)?, column(end)?]);
            answers.contexts.extend([column(first)?, column(last)?]);
            answers.headers.extend([column(names.0)?, column(names.1)?]);
            answers.sources.extend([column(source.0)?, column(source.1)?]);
            answers.scores.push(score);
            answers.cosines.push(cosine);
            answers.bm25_scores.push(bm25);
            answers.pages.push(column(index)?);
            answers.queries.push(column(query)?);
            self.passages.push(length.is_none().then(|| StoredPassage {
                text: text.into_owned(),
                before: before.into_owned(),
                after: after.into_owned(),
                header: header.into_owned(),
            }));
            if self.expected.explain {
                add_matches(&mut answers.matches, highlight.matches, length, &mut self.words)?;
            }
        }
        answers.ends.push(column(answers.scores.len())?);
        Ok(())
    }

    /// Adds what an answer says about a page. Returns the characters of its text and of its source, if known.
    fn describe(&mut self, page: PageResult) -> Result<(Option<usize>, Option<usize>)> {
        let index = page.index;
        let format = page.format;
        let of_source = self.expected.lengths[index];
        let is_here = of_source.is_some();
        // The text of a sent page is known, except for HTML; that of a stored page may be in the answer.
        let text = page.text.filter(|_| !is_here || format == Format::Html);
        if text.is_none() && ((is_here && format == Format::Html) || (!is_here && self.expected.returns_texts)) {
            return Err(bad(format!("it lacks the text of page {index}")));
        }
        let described = (format, text, page.windows, page.windows_scored);
        let answers = &mut self.answers;
        if self.is_known[index] && (answers.formats[index] != described.0 || answers.texts[index] != described.1) {
            return Err(bad(format!("it describes page {index} in two ways")));
        }
        let text_length = described.1.as_ref().map(|text| text.chars().count());
        (answers.formats[index], answers.texts[index], answers.windows[index], answers.windows_scored[index]) =
            described;
        self.is_known[index] = true;
        let is_source = !is_here && format != Format::Html;
        Ok((text_length.or(of_source), if is_source { text_length } else { of_source }))
    }
}

impl WordTable {
    fn number(&mut self, word: String) -> Result<i64> {
        if let Some(number) = self.numbers.get(&word) {
            return Ok(*number);
        }
        let number = column(self.listed.len())?;
        self.listed.push(word.clone());
        self.numbers.insert(word, number);
        Ok(number)
    }
}

fn add_matches(matches: &mut Matches, found: Vec<Match>, length: Option<usize>, words: &mut WordTable) -> Result<()> {
    for Match { word, start, end } in found {
        if start > end || length.is_some_and(|length| end > length) {
            return Err(bad(format!("it has a match at {start} to {end}, outside its page")));
        }
        matches.spans.extend([column(start)?, column(end)?]);
        matches.words.push(words.number(word)?);
    }
    matches.ends.push(column(matches.words.len())?);
    Ok(())
}

fn column(count: usize) -> Result<i64> {
    i64::try_from(count).map_err(|_| bad("it has a count out of range"))
}

fn time(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use pullquote_core::error::ErrorKind;
    use serde_json::json;

    /// One page, of ten characters or stored.
    fn expected(length: Option<usize>) -> ExpectedAnswer {
        ExpectedAnswer { pairing: Pairing::All, queries: 1, explain: true, returns_texts: false, lengths: vec![length] }
    }

    fn answer(changes: &[(&str, serde_json::Value)]) -> Vec<u8> {
        let mut highlight = json!({
            "text": "abc", "start": 2, "end": 5, "score": 0.5, "cosine": 0.25, "bm25": 1.5,
            "matches": [{"word": "abc", "start": 2, "end": 5}],
        });
        let mut page = json!({"index": 0, "text_hash": "x", "format": "text", "windows": 4, "windows_scored": 2});
        for (name, value) in changes {
            match name.strip_prefix("page.") {
                Some(name) => page[name] = value.clone(),
                None => highlight[*name] = value.clone(),
            }
        }
        page["highlights"] = json!([highlight]);
        json!({
            "results": [page], "offsets": "codepoint",
            "usage": {"windows": 4, "windows_scored": 2, "encoded": 1, "tokens": 9, "truncated": 0},
            "timings": {"queue": 0.0, "cutting": 0.1, "tokenizing": 0.0, "waiting": 0.0, "ranking": 0.0},
        })
        .to_string()
        .into_bytes()
    }

    #[test]
    fn an_answer_becomes_columns() {
        let Columns { answers, passages, .. } = read_answers(
            &answer(&[("before", json!("xy")), ("header", json!("é")), ("header_start", json!(1))]),
            &expected(Some(10)),
        )
        .unwrap();
        assert!(passages.is_empty());
        assert_eq!((answers.ends, answers.spans, answers.contexts), (vec![1], vec![2, 5], vec![0, 5]));
        assert_eq!(answers.headers, [1, 2]);
        assert_eq!((answers.windows, answers.windows_scored, answers.scores), (vec![4], vec![2], vec![0.5]));
        assert_eq!((answers.matches.ends, answers.matches.query_words), (vec![1], vec!["abc".to_owned()]));
    }

    #[test]
    fn an_answer_that_does_not_match_its_request_is_an_error() {
        let cases = [
            ("start", json!(6)),
            ("end", json!(11)),
            ("before", json!("xyz")),
            ("after", json!("123456")),
            ("header", json!("01234567890")),
            ("header_start", json!(11)),
            ("source_end", json!(11)),
            ("query", json!(1)),
            ("score", json!(1e300)),
            ("matches", json!([{"word": "a", "start": 9, "end": 11}])),
            ("page.index", json!(1)),
            ("page.query", json!(1)),
            ("page.format", json!("pdf")),
            ("page.format", json!("html")),
        ];
        for change in cases {
            let name = change.0;
            let error = read_answers(&answer(&[change]), &expected(Some(10))).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BadAnswer, "{name}");
        }
    }

    #[test]
    fn a_passage_of_a_stored_page_brings_its_own_text() {
        let around = [("before", json!("xy")), ("after", json!("é")), ("header", json!("h"))];
        let Columns { answers, passages, .. } = read_answers(&answer(&around), &expected(None)).unwrap();
        let passage = StoredPassage {
            text: "abc".to_owned(),
            before: "xy".to_owned(),
            after: "é".to_owned(),
            header: "h".to_owned(),
        };
        assert_eq!((answers.spans, answers.contexts, answers.texts), (vec![2, 5], vec![0, 6], vec![None]));
        assert_eq!(passages, [Some(passage)]);
        for change in
            [("text", json!("ab")), ("text", json!("abcd")), ("before", json!("xyz")), ("source_end", json!(1))]
        {
            let name = change.0;
            let error = read_answers(&answer(&[change]), &expected(None)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BadAnswer, "{name}");
        }
    }

    #[test]
    fn a_passage_of_a_pdf_brings_its_place() {
        let rectangle = |left: f32| json!({"page": 3, "left": left, "bottom": 2.0, "right": 3.0, "top": 4.0});
        let placed = |left| answer(&[("page_number", json!(3)), ("rectangles", json!([rectangle(left)]))]);
        let columns = read_answers(&placed(1.5), &expected(None)).unwrap();
        let rectangles = vec![Rectangle { page: 3, left: 1.5, bottom: 2.0, right: 3.0, top: 4.0 }];
        assert_eq!(columns.places, [Some(Place { page_number: 3, rectangles })]);
        assert!(read_answers(&answer(&[]), &expected(None)).unwrap().places.is_empty());
        let nowhere = String::from_utf8(placed(1.5)).unwrap().replace("1.5,\"page\"", "1e300,\"page\"");
        assert!(nowhere.contains("1e300"));
        assert!(read_answers(nowhere.as_bytes(), &expected(None)).is_err());
    }

    #[test]
    fn return_texts_requires_the_text_of_a_stored_page() {
        let with_texts = ExpectedAnswer { returns_texts: true, ..expected(None) };
        let Columns { answers, passages, .. } =
            read_answers(&answer(&[("page.text", json!("01234567"))]), &with_texts).unwrap();
        assert_eq!((answers.texts, passages.len()), (vec![Some("01234567".to_owned())], 0));
        for text in [json!(null), json!("0123")] {
            assert!(read_answers(&answer(&[("page.text", text)]), &with_texts).is_err());
        }
    }

    #[test]
    fn two_lists_of_a_page_must_read_it_alike() {
        let two = ExpectedAnswer { queries: 2, returns_texts: true, ..expected(None) };
        let body = |texts: [&str; 2]| {
            let page = |query: usize| {
                let mut whole: serde_json::Value =
                    serde_json::from_slice(&answer(&[("page.text", json!(texts[query]))])).unwrap();
                whole["results"][0]["query"] = json!(query);
                whole["results"][0].take()
            };
            let mut whole: serde_json::Value = serde_json::from_slice(&answer(&[])).unwrap();
            whole["results"] = json!([page(0), page(1)]);
            whole.to_string().into_bytes()
        };
        assert_eq!(read_answers(&body(["0123456", "0123456"]), &two).unwrap().answers.spans, [2, 5, 2, 5]);
        assert!(read_answers(&body(["0123456", "01234"]), &two).is_err());
    }

    proptest! {
        #[test]
        fn random_bodies_are_answers_or_errors(mut body in Just(answer(&[])), at in 0..300usize, byte: u8) {
            let place = at % body.len();
            body[place] = byte;
            if let Ok(Columns { answers, passages, .. }) = read_answers(&body, &expected(None)) {
                prop_assert_eq!(passages.len(), answers.scores.len());
            }
            if let Ok(Columns { answers, .. }) = read_answers(&body, &expected(Some(10))) {
                prop_assert!(answers.spans.iter().all(|place| (0..=10).contains(place)));
            }
        }
    }
}
