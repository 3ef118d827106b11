//! The answer of `/highlights`: its highlights, and the columns that the library itself writes.
//!
//! Every count, every offset and every text is checked against the request. The text of a stored page stays with the
//! server, so only the lengths of its passages' texts can be.

use std::collections::BTreeMap;
use std::time::Duration;

use pullquote_core::engine::{Answers, Pairing, Work};
use pullquote_core::error::Result;
use pullquote_core::text::formats::Format;
use pullquote_core::text::positions::Positions;
use pullquote_wire::result::{Highlight, Highlights, HighlightsUsage, PageHighlights, Rectangle, Timings};

use crate::raw::bad;

/// What an answer must match.
pub struct ExpectedAnswer<'call> {
    pub pairing: Pairing,
    pub queries: usize,
    pub returns_texts: bool,
    /// Each page's source; `None` for a stored page and for a file.
    pub sources: Vec<Option<&'call str>>,
}

/// An answer that matches its request.
#[derive(Debug)]
pub struct Columns {
    /// The columns of numbers. Of stored pages and files, texts are `None` unless the answer has them.
    pub answers: Answers,
    /// The highlight of each row.
    pub rows: Vec<Highlight<'static>>,
    /// Why pages could not be read.
    pub errors: BTreeMap<usize, String>,
}

struct ColumnBuilder<'call> {
    expected: &'call ExpectedAnswer<'call>,
    answers: Answers,
    rows: Vec<Highlight<'static>>,
    errors: BTreeMap<usize, String>,
    /// For each page, whether its format and text are known.
    is_known: Vec<bool>,
}

/// The text of a page, as far as it is known.
struct PageText<'call> {
    /// Its characters, and the positions of its highlights.
    text: Option<(usize, Positions<'call>)>,
    /// Characters of its source.
    source: Option<usize>,
}

/// Reads an answer, and checks that it matches its request.
pub fn read_answers(body: &[u8], expected: &ExpectedAnswer) -> Result<Columns> {
    let body: Highlights =
        serde_json::from_slice(body).map_err(|error| bad(format!("its passages cannot be read: {error}")))?;
    let pages = expected.sources.len();
    let lists = if expected.pairing == Pairing::All { expected.queries * pages } else { pages };
    if body.results.len() != lists {
        return Err(bad(format!("it has {} lists of passages instead of {lists}", body.results.len())));
    }
    let HighlightsUsage { windows, windows_scored, encoded, tokens, truncated } = body.rest.usage;
    let Timings { cutting, tokenizing, waiting, ranking, .. } = body.rest.timings;
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
    let mut columns =
        ColumnBuilder { expected, answers, rows: Vec::new(), errors: BTreeMap::new(), is_known: vec![false; pages] };
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
    let ColumnBuilder { mut answers, rows, errors, .. } = columns;
    answers.scores = rows.iter().map(|row| row.score).collect();
    answers.cosines = rows.iter().map(|row| row.cosine).collect();
    answers.bm25_scores = rows.iter().map(|row| row.bm25).collect();
    Ok(Columns { answers, rows, errors })
}

impl ColumnBuilder<'_> {
    fn add(&mut self, mut page: PageHighlights<'static>, query: usize) -> Result<()> {
        let index = page.index;
        if let Some(error) = page.error.take() {
            self.errors.insert(index, error.message.into());
        }
        let highlights = std::mem::take(&mut page.highlights);
        self.describe(page)?;
        let Answers { ends, texts, formats, spans, contexts, headers, sources, pages, queries, .. } = &mut self.answers;
        let known = PageText::new(self.expected.sources[index], texts[index].as_deref(), formats[index], &highlights);
        for mut highlight in highlights {
            let query = highlight.query.unwrap_or(query);
            let (start, end) = (highlight.start, highlight.end);
            let source = (
                *highlight.source_start.get_or_insert(highlight.start),
                *highlight.source_end.get_or_insert(highlight.end),
            );
            let Some([span, context, header]) = spans_of(&highlight)
                .filter(|_| known.has(&highlight) && is_inside(source, known.source) && query < self.expected.queries)
            else {
                return Err(bad(format!("it has an impossible passage at {start} to {end} of page {index}")));
            };
            if ![highlight.score, highlight.cosine, highlight.bm25].iter().all(|value| value.is_finite()) {
                return Err(bad(format!("a passage of page {index} has a score that is not finite")));
            }
            if !highlight.rectangles.iter().flatten().all(is_finite) {
                return Err(bad(format!("a passage of page {index} has a rectangle with impossible sides")));
            }
            if !highlight.twins.iter().flatten().all(|twin| twin.page < self.is_known.len() && twin.start <= twin.end) {
                return Err(bad(format!("a passage of page {index} has an impossible twin")));
            }
            let columns = [&mut *spans, &mut *contexts, &mut *headers, &mut *sources];
            for (column, (start, end)) in columns.into_iter().zip([span, context, header, source]) {
                column.extend([count(start)?, count(end)?]);
            }
            pages.push(count(index)?);
            queries.push(count(query)?);
            self.rows.push(highlight);
        }
        ends.push(count(self.rows.len())?);
        Ok(())
    }

    /// Adds what an answer says about a page.
    fn describe(&mut self, page: PageHighlights<'static>) -> Result<()> {
        let index = page.index;
        let is_here = self.expected.sources[index].is_some();
        let format = [Format::Text, Format::Markdown, Format::Html].into_iter().find(|one| one.name() == page.format);
        let format = format.ok_or_else(|| bad(format!("page {index} has the unknown format {:?}", page.format)))?;
        // The text of a sent page is known, except for HTML; that of a stored page may be in the answer.
        let text = page.text.filter(|_| !is_here || format == Format::Html).map(String::from);
        let answers = &mut self.answers;
        if self.is_known[index] {
            // Only the answer to the first query needs the text.
            if answers.formats[index] != format || (text.is_some() && answers.texts[index] != text) {
                return Err(bad(format!("it describes page {index} in two ways")));
            }
        } else {
            if text.is_none() && ((is_here && format == Format::Html) || (!is_here && self.expected.returns_texts)) {
                return Err(bad(format!("it lacks the text of page {index}")));
            }
            (answers.formats[index], answers.texts[index]) = (format, text);
        }
        (answers.windows[index], answers.windows_scored[index]) = (page.windows, page.windows_scored);
        self.is_known[index] = true;
        Ok(())
    }
}

impl<'call> PageText<'call> {
    fn new(source: Option<&'call str>, text: Option<&'call str>, format: Format, highlights: &[Highlight]) -> Self {
        let places = || {
            let texts = highlights.iter().flat_map(Highlight::parts);
            texts.flat_map(|(start, text)| [start, start.saturating_add(text.chars().count())]).collect()
        };
        let length = |text: &str| text.chars().count();
        Self {
            text: text.or(source).map(|text| (length(text), Positions::of(text, places()))),
            source: source.or(text.filter(|_| format != Format::Html)).map(length),
        }
    }

    /// Whether a highlight's texts and matches can be those of the page.
    fn has(&self, highlight: &Highlight) -> bool {
        let Some((length, positions)) = &self.text else { return true };
        let is_text = |(start, text): (usize, &str)| {
            let span = (start, start.saturating_add(text.chars().count()));
            is_inside(span, Some(*length)) && positions.between(span.0, span.1) == text
        };
        let mut matches = highlight.matches.iter().flatten();
        highlight.parts().into_iter().all(is_text)
            && matches.all(|found| is_inside((found.start, found.end), Some(*length)))
    }
}

/// The spans of a highlight, of it with its context, and of its header; `None` if they cannot be.
fn spans_of(highlight: &Highlight) -> Option<[(usize, usize); 3]> {
    let length = |text: Option<&str>| text.map_or(0, |text| text.chars().count());
    let Highlight { text, start, end, before, after, header, .. } = highlight;
    let names = highlight.header_start.unwrap_or_default();
    let span = (*start, start.checked_add(length(Some(text)))?);
    let context = (start.checked_sub(length(before.as_deref()))?, end.checked_add(length(after.as_deref()))?);
    (span.1 == *end).then_some([span, context, (names, names.checked_add(length(header.as_deref()))?)])
}

fn is_inside((start, end): (usize, usize), length: Option<usize>) -> bool {
    start <= end && end <= length.unwrap_or(usize::MAX - 1)
}

fn is_finite(rectangle: &Rectangle) -> bool {
    [rectangle.left, rectangle.bottom, rectangle.right, rectangle.top].iter().all(|side| side.is_finite())
}

fn count(count: usize) -> Result<i64> {
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
    use pullquote_wire::result::Match;
    use serde_json::json;

    const PAGE: &str = "xéabc56789";

    /// One page, sent or stored.
    fn expected(source: Option<&str>) -> ExpectedAnswer<'_> {
        ExpectedAnswer { pairing: Pairing::All, queries: 1, returns_texts: false, sources: vec![source] }
    }

    fn answer(changes: &[(&str, serde_json::Value)]) -> Vec<u8> {
        let mut highlight = json!({
            "text": "abc", "start": 2, "end": 5, "score": 0.5, "cosine": 0.25, "bm25": 1.5,
            "matches": [{"word": "abc", "start": 2, "end": 5}],
        });
        let mut page = json!({"index": 0, "text_hash": "x", "format": "text", "windows": 4, "windows_scored": 2, "answered": true});
        for (name, value) in changes {
            match name.strip_prefix("page.") {
                Some(name) => page[name] = value.clone(),
                None => highlight[*name] = value.clone(),
            }
        }
        page["highlights"] = json!([highlight]);
        json!({
            "results": [page], "answered": true, "offsets": "codepoint",
            "usage": {"windows": 4, "windows_scored": 2, "encoded": 1, "tokens": 9, "truncated": 0},
            "timings": {"queue": 0.0, "cutting": 0.1, "tokenizing": 0.0, "waiting": 0.0, "ranking": 0.0},
        })
        .to_string()
        .into_bytes()
    }

    #[test]
    fn an_answer_becomes_columns() {
        let around = [("before", json!("xé")), ("header", json!("é")), ("header_start", json!(1))];
        let Columns { answers, rows, .. } = read_answers(&answer(&around), &expected(Some(PAGE))).unwrap();
        let matches = vec![Match { word: "abc".into(), start: 2, end: 5 }];
        assert_eq!((rows.len(), &rows[0].text, rows[0].source_start), (1, &"abc".into(), Some(2)));
        assert_eq!(rows[0].matches, Some(matches));
        assert_eq!((answers.ends, answers.spans, answers.contexts), (vec![1], vec![2, 5], vec![0, 5]));
        assert_eq!(answers.headers, [1, 2]);
        assert_eq!((answers.windows, answers.windows_scored, answers.scores), (vec![4], vec![2], vec![0.5]));
    }

    #[test]
    fn an_answer_that_does_not_match_its_request_is_an_error() {
        let cases = [
            ("text", json!("abd")),
            ("start", json!(6)),
            ("end", json!(11)),
            ("before", json!("xyz")),
            ("before", json!("yé")),
            ("after", json!("567890")),
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
            let error = read_answers(&answer(&[change]), &expected(Some(PAGE))).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BadAnswer, "{name}");
        }
    }

    #[test]
    fn a_passage_of_a_stored_page_brings_its_own_text() {
        let around = [("before", json!("xy")), ("after", json!("é")), ("header", json!("h"))];
        let Columns { answers, rows, .. } = read_answers(&answer(&around), &expected(None)).unwrap();
        assert_eq!((answers.spans, answers.contexts, answers.texts), (vec![2, 5], vec![0, 6], vec![None]));
        assert_eq!(
            (&rows[0].text, &rows[0].before, &rows[0].header),
            (&"abc".into(), &Some("xy".into()), &Some("h".into()))
        );
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
        assert_eq!((columns.rows[0].page_number, &columns.rows[0].rectangles), (Some(3), &Some(rectangles)));
        let nowhere = String::from_utf8(placed(1.5)).unwrap().replace("1.5,\"page\"", "1e300,\"page\"");
        assert!(nowhere.contains("1e300"));
        assert!(read_answers(nowhere.as_bytes(), &expected(None)).is_err());
    }

    #[test]
    fn return_texts_requires_the_text_of_a_stored_page() {
        let with_texts = ExpectedAnswer { returns_texts: true, ..expected(None) };
        let Columns { answers, .. } = read_answers(&answer(&[("page.text", json!("01abc567"))]), &with_texts).unwrap();
        assert_eq!(answers.texts, [Some("01abc567".to_owned())]);
        for text in [json!(null), json!("0123")] {
            assert!(read_answers(&answer(&[("page.text", text)]), &with_texts).is_err());
        }
    }

    #[test]
    fn two_lists_of_a_page_must_read_it_alike() {
        let two = ExpectedAnswer { queries: 2, returns_texts: true, ..expected(None) };
        let body = |texts: [Option<&str>; 2]| {
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
        let text = Some("01abc56");
        // The answer to the first query has the text.
        for texts in [[text, text], [text, None]] {
            let answers = read_answers(&body(texts), &two).unwrap().answers;
            assert_eq!((answers.spans, answers.texts[0].as_deref()), (vec![2, 5, 2, 5], text));
        }
        for texts in [[text, Some("01abc")], [None, text]] {
            assert!(read_answers(&body(texts), &two).is_err());
        }
    }

    proptest! {
        #[test]
        fn random_bodies_are_answers_or_errors(mut body in Just(answer(&[])), at in 0..300usize, byte: u8) {
            let place = at % body.len();
            body[place] = byte;
            if let Ok(Columns { answers, rows, .. }) = read_answers(&body, &expected(None)) {
                prop_assert_eq!(rows.len(), answers.scores.len());
            }
            if let Ok(Columns { answers, .. }) = read_answers(&body, &expected(Some(PAGE))) {
                prop_assert!(answers.spans.iter().all(|place| (0..=10).contains(place)));
            }
        }
    }
}
