//! The response: the highlights of each page, with offsets in the unit of the request.

use std::time::Duration;

use pullquote_core::engine::options::Options;
use pullquote_core::engine::{Answers, Pairing, Work};
use pullquote_core::highlights::MinScore;
use pullquote_core::ranking::probability::ANSWERED;
use pullquote_core::text::formats::Format;
use schemars::JsonSchema;
use serde::Serialize;

use super::blocks::{PageBlock, blocks};
use super::marks::Marks;
use super::request::PreparedRequest;
use super::vectors::{Numbers, Written};
use crate::routes::offsets::{OffsetUnit, Positions};
use crate::store::hashes::HASH_PATTERN;
use crate::uploads::parsed_upload::Rectangle;

/// The highlights of one page, for one query or for all of them.
#[derive(Serialize, JsonSchema)]
pub(crate) struct PageHighlights<'call> {
    /// Index of the page among the request's documents.
    index: usize,
    /// The document's id, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'call str>,
    /// Index of the query, for a list of queries with an answer each.
    #[serde(skip_serializing_if = "Option::is_none")]
    query: Option<usize>,
    /// SHA-256 of the document's UTF-8.
    #[schemars(regex(pattern = HASH_PATTERN))]
    text_hash: &'call str,
    /// Format that the document was read as.
    #[schemars(extend("enum" = ["text", "markdown", "html"]))]
    format: Format,
    /// Number of the page's windows.
    #[schemars(range(min = 0))]
    windows: i64,
    /// Number of windows that were compared with a query.
    #[schemars(range(min = 0))]
    windows_scored: i64,
    /// Whether any of its highlights probably answers the query.
    answered: bool,
    /// With `return_texts`: the text that offsets refer to.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'call str>,
    /// With `return_blocks`: the page's blocks in their order; none of plain text.
    #[serde(skip_serializing_if = "Option::is_none")]
    blocks: Option<Vec<PageBlock>>,
    highlights: Vec<Highlight<'call>>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Highlight<'call> {
    /// The page's text from `start` to `end`.
    text: &'call str,
    /// Start in the page, in the unit of `offsets`.
    start: usize,
    /// End in the page.
    end: usize,
    /// Probability that it answers the query, from 0 to 1; comparable across pages and requests.
    score: f32,
    /// Similarity of meaning, from -1 to 1.
    cosine: f32,
    /// BM25 score of the words.
    bm25: f32,
    /// With `fuse`: index of the query that the highlight answers best.
    #[serde(skip_serializing_if = "Option::is_none")]
    query: Option<usize>,
    /// With `context`: the sentences before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<&'call str>,
    /// With `context`: the sentences after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<&'call str>,
    /// For a passage below the header of a table: the names of the columns, a part of the page.
    #[serde(skip_serializing_if = "Option::is_none")]
    header: Option<&'call str>,
    /// Where the header starts in the page.
    #[serde(skip_serializing_if = "Option::is_none")]
    header_start: Option<usize>,
    /// With `pre_tags` or `post_tags`: the text with its matching words between them.
    #[serde(skip_serializing_if = "Option::is_none")]
    marked: Option<String>,
    /// With `explain`: the words that matched.
    #[serde(skip_serializing_if = "Option::is_none")]
    matches: Option<Vec<Match<'call>>>,
    /// For HTML: the start in the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    source_start: Option<usize>,
    /// For HTML: the end in the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    source_end: Option<usize>,
    /// For a PDF: number of the page on which it begins, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    page_number: Option<usize>,
    /// For a PDF: a rectangle for each of its lines, in points (1/72 inch) from the page's lower left corner.
    #[serde(skip_serializing_if = "Option::is_none")]
    rectangles: Option<Vec<Rectangle>>,
    /// With `return_vectors`: its vector.
    #[serde(skip_serializing_if = "Option::is_none")]
    vector: Option<Numbers<'call>>,
}

#[derive(Serialize, JsonSchema)]
struct Match<'call> {
    /// A word of the query.
    word: &'call str,
    /// Where the word starts in the page.
    start: usize,
    /// Where it ends.
    end: usize,
}

/// The fields of the whole answer.
#[derive(Serialize, JsonSchema)]
pub(super) struct Footer<'call> {
    /// Whether any highlight of any page probably answers its query: its score is at least that of `min_score: "auto"`.
    answered: bool,
    offsets: OffsetUnit,
    usage: HighlightsUsage,
    timings: Timings,
    /// Options that probably do not have the intended effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    warnings: Option<Vec<String>>,
    /// With `return_vectors`: the vector of each query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) query_vectors: Option<Vec<Numbers<'call>>>,
}

#[derive(Serialize, JsonSchema)]
struct HighlightsUsage {
    /// Windows of all pages.
    windows: usize,
    /// Windows that were compared with a query.
    windows_scored: usize,
    /// Texts that were encoded for this request.
    encoded: usize,
    /// Tokens of these texts.
    tokens: usize,
    /// Texts that were longer than the model's limit, and cut.
    truncated: usize,
}

/// Seconds of each stage.
#[derive(Serialize, JsonSchema)]
struct Timings {
    /// Waiting for a turn.
    #[schemars(range(min = 0))]
    queue: f64,
    /// Cutting pages into windows.
    #[schemars(range(min = 0))]
    cutting: f64,
    #[schemars(range(min = 0))]
    tokenizing: f64,
    /// Waiting for vectors.
    #[schemars(range(min = 0))]
    waiting: f64,
    /// Scoring and selecting passages.
    #[schemars(range(min = 0))]
    ranking: f64,
}

/// The highlights of all pages.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Highlights<'call> {
    /// Query by query, and page by page.
    pub(super) results: Vec<PageHighlights<'call>>,
    #[serde(flatten)]
    pub(super) rest: Footer<'call>,
}

/// What the highlights of a response are made of.
pub(super) struct Frame<'call> {
    request: &'call PreparedRequest,
    answers: &'call Answers,
    /// Of each page: positions in the text of its passages, and in its source if that differs.
    places: Vec<(Positions<'call>, Option<Positions<'call>>)>,
    /// The vector of each passage, if vectors are part of the JSON.
    pub(super) vectors: Option<Written>,
}

impl<'call> Frame<'call> {
    pub(super) fn new(request: &'call PreparedRequest, answers: &'call Answers) -> Self {
        Self { request, answers, places: places(&request.texts.pages, answers), vectors: None }
    }

    /// The highlights of each page, in the order of the answers.
    pub(super) fn pages(&self) -> impl Iterator<Item = PageHighlights<'_>> {
        (0..self.answers.ends.len()).map(|answer| self.page(answer))
    }

    pub(super) fn footer(&self, work: &Work, queued: Duration) -> Footer<'_> {
        let warnings = small_budgets(&self.request.options, self.answers).map(|warning| vec![warning]);
        Footer { warnings, ..Footer::of(work, self.answers, self.request.offsets, queued) }
    }

    /// The text of each passage, in the order of the answers' columns.
    pub(super) fn passages(&self) -> Vec<&'call str> {
        let rows = self.answers.pages.iter().enumerate();
        let text = |(row, page): (usize, &i64)| {
            let [start, end] = pair(&self.answers.spans, row);
            self.places[place(*page)].0.between(start, end)
        };
        rows.map(text).collect()
    }

    fn page(&self, answer: usize) -> PageHighlights<'_> {
        let pages = self.request.texts.pages.len();
        let (query, index) = match self.request.texts.pairing {
            Pairing::All => (answer / pages, answer % pages),
            Pairing::Each => (answer, answer),
            Pairing::Fused => (0, answer),
        };
        let first = if answer == 0 { 0 } else { place(self.answers.ends[answer - 1]) };
        let rows = first..place(self.answers.ends[answer]);
        let source = self.request.texts.pages[index].as_ref();
        let text = self.request.return_texts.then(|| self.answers.texts[index].as_deref().unwrap_or(source));
        PageHighlights {
            index,
            id: self.request.ids[index].as_deref(),
            query: (self.request.listed && self.request.texts.pairing != Pairing::Fused).then_some(query),
            text_hash: &self.request.text_hashes[index],
            format: self.answers.formats[index],
            windows: self.answers.windows[index],
            windows_scored: self.answers.windows_scored[index],
            answered: is_answered(&self.answers.scores[rows.clone()]),
            text,
            blocks: self
                .request
                .return_blocks
                .then(|| blocks(source, self.answers.formats[index], self.request.offsets)),
            highlights: rows.map(|row| self.highlight(index, row)).collect(),
        }
    }

    fn highlight(&self, page: usize, row: usize) -> Highlight<'_> {
        let (answers, (places, source)) = (self.answers, &self.places[page]);
        let [start, end] = pair(&answers.spans, row);
        let [first, last] = pair(&answers.contexts, row);
        let around = self.request.options.context > 0;
        let [names, names_end] = pair(&answers.headers, row);
        let has_header = names < names_end;
        let count = |codepoint| places.count(codepoint, self.request.offsets);
        let of_source = |which: usize| {
            let source = source.as_ref()?;
            Some(source.count(pair(&answers.sources, row)[which], self.request.offsets))
        };
        let matched = |found: usize| {
            let [start, end] = pair(&answers.matches.spans, found);
            let word = &answers.matches.query_words[place(answers.matches.words[found])];
            Match { word, start: count(start), end: count(end) }
        };
        let marked = |marks: &Marks| {
            let words = matches_of(answers, row).map(|found| pair(&answers.matches.spans, found));
            marks.around(places, start..end, words)
        };
        let document = self.request.texts.pages[page].upload().filter(|document| !document.page_starts.is_empty());
        Highlight {
            text: places.between(start, end),
            start: count(start),
            end: count(end),
            score: answers.scores[row],
            cosine: answers.cosines[row],
            bm25: answers.bm25_scores[row],
            query: (self.request.texts.pairing == Pairing::Fused).then(|| place(answers.queries[row])),
            before: around.then(|| places.between(first, start)),
            after: around.then(|| places.between(end, last)),
            header: has_header.then(|| places.between(names, names_end)),
            header_start: has_header.then(|| count(names)),
            marked: self.request.marks.as_ref().map(marked),
            matches: self.request.options.explain.then(|| matches_of(answers, row).map(matched).collect()),
            source_start: of_source(0),
            source_end: of_source(1),
            page_number: document.and_then(|document| document.page_number(start)),
            rectangles: document.map(|document| document.rectangles(start, places.between(start, end))),
            vector: self.vectors.as_ref().and_then(|vectors| vectors.row(row)),
        }
    }
}

impl Footer<'_> {
    fn of(work: &Work, answers: &Answers, offsets: OffsetUnit, queued: Duration) -> Self {
        Self {
            answered: is_answered(&answers.scores),
            query_vectors: None,
            warnings: None,
            offsets,
            usage: HighlightsUsage {
                windows: work.windows,
                windows_scored: work.windows_scored,
                encoded: work.encoded,
                tokens: work.tokens,
                truncated: work.truncated,
            },
            timings: Timings {
                queue: queued.as_secs_f64(),
                cutting: work.cutting.as_secs_f64(),
                tokenizing: work.tokenizing.as_secs_f64(),
                waiting: work.waiting.as_secs_f64(),
                ranking: work.ranking.as_secs_f64(),
            },
        }
    }
}

/// Warns about budgets that are smaller than any sentence.
fn small_budgets(options: &Options, answers: &Answers) -> Option<String> {
    let has_least = options.min_score.is_some_and(|least| least != MinScore::Score(0.0));
    if !answers.scores.is_empty() || has_least || answers.windows.iter().all(|windows| *windows == 0) {
        return None;
    }
    let budgets = [
        ("max_chars", options.max_chars),
        ("max_tokens", options.max_tokens),
        ("max_total_chars", options.max_total_chars),
        ("max_total_tokens", options.max_total_tokens),
    ];
    let named = budgets.iter().filter_map(|(name, most)| Some(format!("{name} {}", (*most)?)));
    let named = named.collect::<Vec<_>>().join(", ");
    (!named.is_empty()).then(|| {
        format!("no passage fits {named}: every sentence is longer; allow more, such as 200 characters or 50 tokens")
    })
}

/// Looks up every offset of the answers, once for each page.
pub(in crate::routes) fn places<'call, Text: AsRef<str>>(
    sources: &'call [Text],
    answers: &'call Answers,
) -> Vec<(Positions<'call>, Option<Positions<'call>>)> {
    let mut wanted: Vec<(Vec<usize>, Vec<usize>)> = vec![Default::default(); sources.len()];
    for (row, page) in answers.pages.iter().enumerate() {
        let (of_text, of_source) = &mut wanted[place(*page)];
        for span in [&answers.spans, &answers.contexts, &answers.headers] {
            of_text.extend(pair(span, row));
        }
        of_source.extend(pair(&answers.sources, row));
        for found in matches_of(answers, row) {
            of_text.extend(pair(&answers.matches.spans, found));
        }
    }
    let pages = sources.iter().zip(&answers.texts).zip(wanted);
    pages
        .map(|((source, text), (of_text, of_source))| match text {
            Some(text) => (Positions::of(text, of_text), Some(Positions::of(source.as_ref(), of_source))),
            None => (Positions::of(source.as_ref(), of_text), None),
        })
        .collect()
}

/// The matches of a highlight, as rows of their columns.
fn matches_of(answers: &Answers, row: usize) -> std::ops::Range<usize> {
    let end = |row: usize| answers.matches.ends.get(row).map_or(0, |end| place(*end));
    (if row == 0 { 0 } else { end(row - 1) })..end(row)
}

pub(in crate::routes) fn pair(spans: &[i64], row: usize) -> [usize; 2] {
    [place(spans[2 * row]), place(spans[2 * row + 1])]
}

/// A column's value, which counts something in memory.
pub(in crate::routes) fn place(value: i64) -> usize {
    usize::try_from(value).unwrap_or_default()
}

/// Whether any of these scores is that of an answer.
pub(in crate::routes) fn is_answered(scores: &[f32]) -> bool {
    scores.iter().any(|score| *score >= ANSWERED)
}
