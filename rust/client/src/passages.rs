//! Passages: the call of `/highlights`, and its answer as the columns that the library itself would have written.
//!
//! All pages of a call go in one request, because scores are comparable within a call only. Of the answer every count and
//! every place is checked against what was sent before a column is made of it.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use pullquote_core::engine::{self, Answers, Matches, Pairing, Work};
use pullquote_core::error::Result;
use pullquote_core::formats::Format;
use pullquote_core::options::Options;
use serde::{Deserialize, Serialize};

use crate::attempts::Wish;
use crate::exchange::{Request, Shared, compute};
use crate::raw::bad;
use crate::settings::invalid;
use crate::vectors::Text;

/// Queries and pages of a call, as `Highlighter.highlights` takes them.
pub struct Question<T> {
    /// What is asked.
    pub queries: Vec<T>,
    /// Whether there was a list of queries, or one that stands alone.
    pub listed: bool,
    /// The pages.
    pub texts: Vec<T>,
    /// A title for each page, where there is one; or empty.
    pub titles: Vec<Option<T>>,
    /// The options of the call.
    pub options: Options,
}

#[derive(Serialize)]
struct Sent<'call> {
    query: Queries<'call>,
    documents: Vec<Document<'call>>,
    return_texts: bool,
    #[serde(flatten)]
    options: &'call Options,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Queries<'call> {
    One(&'call str),
    Listed(Vec<&'call str>),
}

#[derive(Serialize)]
struct Document<'call> {
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'call str>,
    text: &'call str,
}

/// What comes back.
#[derive(Deserialize)]
struct Whole {
    results: Vec<Page>,
    usage: Usage,
    timings: Timings,
}

#[derive(Deserialize)]
struct Page {
    index: usize,
    #[serde(default)]
    query: Option<usize>,
    format: String,
    #[serde(default)]
    pieces: i64,
    #[serde(default)]
    compared: i64,
    #[serde(default)]
    text: Option<String>,
    highlights: Vec<Highlight>,
}

#[derive(Deserialize)]
struct Highlight {
    start: usize,
    end: usize,
    score: f32,
    cosine: f32,
    lexical: f32,
    #[serde(default)]
    query: Option<usize>,
    #[serde(default)]
    before: String,
    #[serde(default)]
    after: String,
    #[serde(default)]
    matches: Vec<Match>,
    #[serde(default)]
    source_start: Option<usize>,
    #[serde(default)]
    source_end: Option<usize>,
}

#[derive(Deserialize)]
struct Match {
    word: String,
    start: usize,
    end: usize,
}

#[derive(Deserialize)]
struct Usage {
    pieces: usize,
    compared: usize,
    encoded: usize,
    tokens: usize,
    truncated: usize,
}

#[derive(Deserialize)]
struct Timings {
    cutting: f64,
    tokenizing: f64,
    encoding: f64,
    choosing: f64,
}

/// What an answer must fit.
#[derive(Clone, Copy)]
struct Asked<'call> {
    pairing: Pairing,
    queries: usize,
    explain: bool,
    /// Characters of each page's source.
    lengths: &'call [usize],
}

pub(crate) async fn highlights<T: Text>(shared: &Shared, question: Question<T>, wish: Wish) -> Result<Answers> {
    let Question { queries, listed, texts, titles, options } = &question;
    let pairing = options.pairing(*listed, texts.len())?;
    check(&question, pairing)?;
    let sent = || {
        let each: Vec<&str> = queries.iter().map(AsRef::as_ref).collect();
        let title = |page: usize| titles.get(page).and_then(Option::as_ref).map(AsRef::as_ref);
        let pages = texts.iter().enumerate();
        let sent = Sent {
            query: if *listed { Queries::Listed(each) } else { Queries::One(each[0]) },
            documents: pages.map(|(page, text)| Document { title: title(page), text: text.as_ref() }).collect(),
            // Of HTML the text is not what was sent; of everything else it is.
            return_texts: matches!(options.format()?, Format::Html | Format::Auto),
            options,
        };
        serde_json::to_vec(&sent).map_err(|error| invalid(format!("the call does not fit JSON: {error}")))
    };
    let size = texts.iter().map(|text| text.as_ref().len()).sum();
    let body = Bytes::from(compute(size, sent)?);
    let answer = shared.whole(&Request::post("/highlights", body), wish).await?;
    compute(size + answer.len(), || {
        let lengths: Vec<usize> = texts.iter().map(|text| text.as_ref().chars().count()).collect();
        let asked = Asked { pairing, queries: queries.len(), explain: options.explain, lengths: &lengths };
        read_answers(&answer, asked)
    })
}

/// What the engine would say before it begins, said without asking a server.
fn check<T: Text>(question: &Question<T>, pairing: Pairing) -> Result<()> {
    let Question { queries, texts, titles, options, .. } = question;
    options.question()?;
    let queries: Vec<&str> = queries.iter().map(AsRef::as_ref).collect();
    let pages: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
    let titles: Vec<Option<&str>> = titles.iter().map(|title| title.as_ref().map(AsRef::as_ref)).collect();
    let formats = [options.format()?];
    engine::Request { queries: &queries, pages: &pages, formats: &formats, titles: &titles, pairing }.check()
}

fn read_answers(body: &[u8], asked: Asked) -> Result<Answers> {
    let whole: Whole =
        serde_json::from_slice(body).map_err(|error| bad(format!("its passages cannot be read: {error}")))?;
    let pages = asked.lengths.len();
    let expected = if asked.pairing == Pairing::All { asked.queries * pages } else { pages };
    if whole.results.len() != expected {
        return Err(bad(format!("it has {} lists of passages, where {expected} were asked for", whole.results.len())));
    }
    let Usage { pieces, compared, encoded, tokens, truncated } = whole.usage;
    let Timings { cutting, tokenizing, encoding, choosing } = whole.timings;
    let mut answers = Answers {
        texts: vec![None; pages],
        formats: vec![Format::Text; pages],
        pieces: vec![0; pages],
        compared: vec![0; pages],
        work: Work {
            pieces,
            compared,
            encoded,
            tokens,
            truncated,
            cutting: time(cutting),
            tokenizing: time(tokenizing),
            encoding: time(encoding),
            choosing: time(choosing),
        },
        ..Answers::default()
    };
    let mut words = Words::default();
    for (place, page) in whole.results.into_iter().enumerate() {
        let (query, index) = match asked.pairing {
            Pairing::All => (place / pages, place % pages),
            Pairing::Each => (place, place),
            Pairing::Fused => (0, place),
        };
        if page.index != index || page.query.is_some_and(|said| said != query) {
            return Err(bad(format!("its list {place} is of page {}, where page {index} belongs", page.index)));
        }
        answers.add(page, query, asked, &mut words)?;
    }
    answers.matches.query_words = words.listed;
    Ok(answers)
}

/// Words by the number of their first appearance.
#[derive(Default)]
struct Words {
    numbers: HashMap<String, i64>,
    listed: Vec<String>,
}

impl Words {
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

/// Adds what a list of passages has.
trait Add {
    fn add(&mut self, page: Page, query: usize, asked: Asked, words: &mut Words) -> Result<()>;
}

impl Add for Answers {
    fn add(&mut self, page: Page, query: usize, asked: Asked, words: &mut Words) -> Result<()> {
        let index = page.index;
        let format =
            Format::parse(&page.format).map_err(|_| bad(format!("it read page {index} as {:?}", page.format)))?;
        let of_source = asked.lengths[index];
        let length = match &page.text {
            Some(text) if format == Format::Html => text.chars().count(),
            _ if format == Format::Html => return Err(bad(format!("it has no text of page {index}, which is HTML"))),
            _ => of_source,
        };
        self.formats[index] = format;
        self.texts[index] = page.text.filter(|_| format == Format::Html);
        (self.pieces[index], self.compared[index]) = (page.pieces, page.compared);
        for highlight in page.highlights {
            let Highlight { start, end, score, cosine, lexical, before, after, .. } = highlight;
            let (first, last) = (start.checked_sub(before.chars().count()), end.checked_add(after.chars().count()));
            let (first, last) = (first.unwrap_or(usize::MAX), last.unwrap_or(usize::MAX));
            let source = (highlight.source_start.unwrap_or(start), highlight.source_end.unwrap_or(end));
            let query = highlight.query.unwrap_or(query);
            let is_there = |(start, end): (usize, usize), length: usize| start <= end && end <= length;
            let fits = is_there((start, end), length) && is_there((first, last), length) && is_there(source, of_source);
            if !fits || query >= asked.queries {
                return Err(bad(format!("it has a passage at {start} to {end} of page {index}, where none can be")));
            }
            if ![score, cosine, lexical].iter().all(|value| value.is_finite()) {
                return Err(bad(format!("a passage of page {index} has a score that is no finite number")));
            }
            self.spans.extend([column(start)?, column(end)?]);
            self.contexts.extend([column(first)?, column(last)?]);
            self.sources.extend([column(source.0)?, column(source.1)?]);
            self.scores.push(score);
            self.cosines.push(cosine);
            self.lexicals.push(lexical);
            self.pages.push(column(index)?);
            self.queries.push(column(query)?);
            if asked.explain {
                add_matches(&mut self.matches, highlight.matches, length, words)?;
            }
        }
        self.ends.push(column(self.scores.len())?);
        Ok(())
    }
}

fn add_matches(matches: &mut Matches, found: Vec<Match>, length: usize, words: &mut Words) -> Result<()> {
    for Match { word, start, end } in found {
        if start > end || end > length {
            return Err(bad(format!("it has a match at {start} to {end}, where no page is")));
        }
        matches.spans.extend([column(start)?, column(end)?]);
        matches.words.push(words.number(word)?);
    }
    matches.ends.push(column(matches.words.len())?);
    Ok(())
}

fn column(count: usize) -> Result<i64> {
    i64::try_from(count).map_err(|_| bad("it has a count that fits no column"))
}

fn time(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    const ASKED: Asked = Asked { pairing: Pairing::All, queries: 1, explain: true, lengths: &[10] };

    fn answer(changes: &[(&str, serde_json::Value)]) -> Vec<u8> {
        let mut highlight = json!({
            "text": "abc", "start": 2, "end": 5, "score": 0.5, "cosine": 0.25, "lexical": 1.5,
            "matches": [{"word": "abc", "start": 2, "end": 5}],
        });
        let mut page = json!({"index": 0, "text_hash": "x", "format": "text", "pieces": 4, "compared": 2});
        for (name, value) in changes {
            match name.strip_prefix("page.") {
                Some(name) => page[name] = value.clone(),
                None => highlight[*name] = value.clone(),
            }
        }
        page["highlights"] = json!([highlight]);
        json!({
            "results": [page], "offsets": "codepoint",
            "usage": {"pieces": 4, "compared": 2, "encoded": 1, "tokens": 9, "truncated": 0},
            "timings": {"queue": 0.0, "cutting": 0.1, "tokenizing": 0.0, "encoding": 0.0, "choosing": 0.0},
        })
        .to_string()
        .into_bytes()
    }

    #[test]
    fn an_answer_becomes_columns() {
        let answers = read_answers(&answer(&[("before", json!("xy"))]), ASKED).unwrap();
        assert_eq!((answers.ends, answers.spans, answers.contexts), (vec![1], vec![2, 5], vec![0, 5]));
        assert_eq!((answers.pieces, answers.compared, answers.scores), (vec![4], vec![2], vec![0.5]));
        assert_eq!((answers.matches.ends, answers.matches.query_words), (vec![1], vec!["abc".to_owned()]));
    }

    #[test]
    fn what_cannot_be_is_no_column() {
        let cases = [
            ("start", json!(6)),
            ("end", json!(11)),
            ("before", json!("xyz")),
            ("after", json!("123456")),
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
            let error = read_answers(&answer(&[change]), ASKED).unwrap_err();
            assert_eq!(error.kind(), pullquote_core::error::ErrorKind::BadAnswer, "{name}");
        }
    }

    proptest! {
        #[test]
        fn whatever_comes_is_an_answer_or_an_error(mut body in Just(answer(&[])), at in 0..300usize, byte: u8) {
            let place = at % body.len();
            body[place] = byte;
            if let Ok(answers) = read_answers(&body, ASKED) {
                prop_assert!(answers.spans.iter().all(|place| (0..=10).contains(place)));
            }
        }
    }
}
