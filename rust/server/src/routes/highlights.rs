//! `POST /highlights`: queries and pages in, passages out. pullquote's own route.
//!
//! All pages of a request are one call of the engine, because they may share a budget. So with `Accept: application/x-ndjson`
//! the lines, one for each list of passages and a last one for the rest, begin when the call has ended; a client can then read one
//! page's answer after the other. With `return_vectors` and `Accept: multipart/form-data`, the vectors follow the JSON as bytes
//! (`vectors`). A form has PDFs, DOCX, EPUBs and texts as files (`uploads`).

mod blocks;
mod marks;
mod vectors;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::post;
use bytes::Bytes;
use futures_util::future::try_join_all;
use futures_util::stream;
use pullquote_core::encoder::embedding_dtype::EmbeddingDtype;
use pullquote_core::engine::option_values::similar;
use pullquote_core::engine::options::Options;
use pullquote_core::engine::{self, Answers, Pairing, Work};
use pullquote_core::highlights::MinScore;
use pullquote_core::ranking::probability::ANSWERED;
use pullquote_core::text::formats::Format;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use self::blocks::{PageBlock, blocks};
use self::marks::{Encoder, Marks, Tag};
pub(crate) use self::vectors::FORM;
use self::vectors::{Numbers, ReturnedVectors, VectorEncoding, VectorFormat, Written};
use crate::app::App;
use crate::http::admission::{Admitted, Input, Reply, compute};
use crate::http::body;
use crate::http::failure::{Cause, Failure, refused};
use crate::http::host_check::check_origin;
use crate::http::negotiation;
use crate::openapi::limits::MAX_QUERIES;
use crate::routes::offsets::{Offsets, Positions};
use crate::store::documents::{Documents, HASH_PATTERN, RequestPage, check_count, check_lengths};
use crate::uploads::document::Rectangle;
use crate::uploads::form::{self, UploadForm};

pub(crate) const JSON: &str = "application/json";
pub(crate) const LINES: &str = "application/x-ndjson";

/// Bytes of lines in one chunk of the body.
const CHUNK_BYTES: usize = 64 * 1024;

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new().route("/highlights", post(highlights))
}

async fn highlights(State(app): State<Arc<App>>, request: Request) -> Result<Response, Failure> {
    if form::is_form(request.headers()) {
        return uploaded(&app, request).await;
    }
    compute(&app, request, |app, input| {
        let mut asked: HighlightsRequest = input.parse()?;
        let documents = asked.documents.take();
        let Some(documents) = documents else { return Err(missing("documents", &asked.options)) };
        answer(app, input, asked, &documents.read(app)?)
    })
    .await
}

/// Highlights of the files of a form. The work has two turns; no turn is held while processes read the files.
async fn uploaded(app: &Arc<App>, request: Request) -> Result<Response, Failure> {
    check_origin(request.headers(), &app.settings.cors_origin)?;
    let mut admitted = Admitted::new(app, request).await?;
    let deadline = admitted.limits.deadline.into();
    let (asked, names, parsings) = admitted
        .turn(|app, input| {
            let UploadForm { request, files, password } = UploadForm::read(&input.headers, input.body.clone())?;
            let asked: HighlightsRequest = input.parse_part(&request)?;
            if asked.documents.is_some() {
                let message = "the documents of a form are its files; leave documents out of the request";
                return refused("documents", message);
            }
            check_count(files.len(), "file", app.settings.max_documents)?;
            let names: Vec<Option<String>> = files.iter().map(|file| file.name.clone()).collect();
            let prepare = |(index, file)| app.parser.prepare(index, file, password.as_deref());
            let parsings = files.into_iter().enumerate().map(prepare).collect::<Result<Vec<_>, Failure>>()?;
            Ok((request, names, parsings))
        })
        .await?;
    let parsed = try_join_all(parsings.into_iter().map(|parsing| app.parser.run(parsing, deadline))).await?;
    let reply = admitted.turn(move |app, input| {
        let documents = parsed.into_iter().map(|parsed| app.parser.finish(parsed)).collect::<Result<Vec<_>, _>>()?;
        let _memory = app.admission.bodies.reserve(documents.iter().map(|document| document.bytes()).sum())?;
        let pages = names.into_iter().zip(documents).map(|(name, document)| RequestPage::uploaded(name, document));
        let pages: Vec<RequestPage> = pages.collect();
        check_lengths(pages.iter().map(RequestPage::text), "file", &app.settings)?;
        let mut reply = answer(app, input, input.parse_part(&asked)?, &pages)?;
        reply.headers.extend(input.ignored_header());
        Ok(reply)
    });
    let reply = reply.await?;
    Ok(admitted.respond(reply))
}

/// Queries, pages and options.
#[derive(Deserialize, JsonSchema)]
#[serde(expecting = "an object with a query and documents")]
#[schemars(deny_unknown_fields)]
pub(crate) struct HighlightsRequest {
    // An `Option` only so that its absence is explained by the names that are there.
    #[serde(default)]
    #[schemars(with = "Queries", required)]
    query: Option<Queries>,
    /// Absent in a form, whose files are the documents.
    #[serde(default)]
    #[schemars(with = "Documents", required)]
    documents: Option<Documents>,
    #[serde(default)]
    offsets: Offsets,
    /// Return the text that offsets refer to; for HTML it differs from the source.
    #[serde(default)]
    return_texts: bool,
    /// Return the blocks of each page: its headings, paragraphs, list items, rows of tables and lines of code.
    #[serde(default)]
    return_blocks: bool,
    /// Return vectors of length 1: of each highlight that of its text, as `/embed` computes it, and of each query.
    #[serde(default)]
    return_vectors: bool,
    /// Return each highlight as `marked` too, with this before every word that matches the query; `<em>` if only `post_tags`
    /// is set. A list has one tag.
    #[serde(default)]
    pre_tags: Option<Tag>,
    /// Text after every word that matches; `</em>` if only `pre_tags` is set.
    #[serde(default)]
    post_tags: Option<Tag>,
    #[serde(default)]
    encoder: Encoder,
    #[serde(default)]
    encoding_format: VectorEncoding,
    #[serde(default)]
    embedding_dtype: Option<EmbeddingDtype>,
    #[serde(flatten)]
    #[schemars(with = "Options")]
    options: Map<String, Value>,
}

/// One query for all pages, or a list of queries: see `pairing`.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged, expecting = "must be a text or a list of texts")]
#[schemars(inline)]
enum Queries {
    One(#[schemars(regex(pattern = r"\S"))] String),
    Listed(#[schemars(length(min = 1, max = MAX_QUERIES), inner(regex(pattern = r"\S")))] Vec<String>),
}

/// The data that all pages of an answer share.
struct Frame<'call> {
    documents: &'call [RequestPage],
    answers: &'call Answers,
    options: &'call Options,
    pairing: Pairing,
    /// Whether there was a list of queries.
    listed: bool,
    offsets: Offsets,
    return_texts: bool,
    return_blocks: bool,
    marks: Option<Marks>,
    /// Of each page: positions in the text of its passages, and in its source if that differs.
    places: Vec<(Positions<'call>, Option<Positions<'call>>)>,
    /// The vector of each passage, if vectors are part of the JSON.
    vectors: Option<Written>,
}

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
struct Footer<'call> {
    /// Whether any highlight of any page probably answers its query: its score is at least that of `min_score: "auto"`.
    answered: bool,
    offsets: Offsets,
    usage: HighlightsUsage,
    timings: Timings,
    /// Options that probably do not have the intended effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    warnings: Option<Vec<String>>,
    /// With `return_vectors`: the vector of each query.
    #[serde(skip_serializing_if = "Option::is_none")]
    query_vectors: Option<Vec<Numbers<'call>>>,
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
    results: Vec<PageHighlights<'call>>,
    #[serde(flatten)]
    rest: Footer<'call>,
}

/// The fields of a request that are not options.
const FIELDS: [&str; 11] = [
    "query", "documents", "offsets", "return_texts", "return_blocks", "return_vectors", "pre_tags", "post_tags",
    "encoder", "encoding_format", "embedding_dtype",
];

/// Explains an unknown field whose name is similar to another field's, or that belongs elsewhere.
fn check_fields(options: &Map<String, Value>) -> Result<(), Failure> {
    for name in options.keys() {
        let advice = match (name.as_str(), similar(name, &FIELDS)) {
            ("ids" | "titles", _) => "each document has its own: {\"id\", \"title\", \"text\"}".to_owned(),
            (_, Some(field)) => format!("did you mean {field:?}?"),
            _ => continue,
        };
        return refused(name.as_str(), format!("there is no field {name:?}; {advice}"));
    }
    Ok(())
}

/// A field that must be there, unless another is there that was probably meant by it.
fn missing(field: &str, options: &Map<String, Value>) -> Failure {
    let plain = || Failure::of_field(Cause::Unprocessable, field, format!("missing field `{field}`"));
    check_fields(options).err().unwrap_or_else(plain)
}

fn answer(app: &App, input: &Input, asked: HighlightsRequest, documents: &[RequestPage]) -> Result<Reply, Failure> {
    check_fields(&asked.options)?;
    let (queries, listed) = match asked.query {
        Some(Queries::One(query)) => (vec![query], false),
        Some(Queries::Listed(queries)) => (queries, true),
        None => return Err(missing("query", &asked.options)),
    };
    let options: Options = body::read_options(asked.options)?;
    check_count(queries.len(), "query", app.settings.max_queries)?;
    let texts: Vec<&str> = documents.iter().map(RequestPage::text).collect();
    let titles: Vec<Option<&str>> = documents.iter().map(RequestPage::title).collect();
    let titles = if titles.iter().any(Option::is_some) { titles } else { Vec::new() };
    let queries: Vec<&str> = queries.iter().map(String::as_str).collect();
    let pairing = options.pairing(queries.len(), texts.len())?;
    let format = |page: &RequestPage| page.document().and_then(|document| document.format).unwrap_or(options.format);
    let formats: Vec<Format> = documents.iter().map(format).collect();
    let kind = negotiation::preferred(&input.headers, &[JSON, LINES, FORM]);
    let wanted = VectorFormat::read(asked.return_vectors, asked.encoding_format, asked.embedding_dtype, kind == FORM)?;
    let end = input.end().within(options.timeout()?);
    let request = engine::Request { queries: &queries, pages: &texts, formats: &formats, titles: &titles, pairing };
    let end = if options.priority == 0 { end } else { end.with_priority(options.priority) };
    let marks = Marks::read(asked.pre_tags, asked.post_tags, asked.encoder);
    let mut question = options.question()?;
    question.explain |= marks.is_some();
    let answers = app.engine.highlights(&request, &question, &end.call())?;
    let mut frame = Frame {
        documents,
        answers: &answers,
        options: &options,
        pairing,
        listed,
        offsets: asked.offsets,
        return_texts: asked.return_texts,
        return_blocks: asked.return_blocks,
        marks,
        places: places(&texts, &answers),
        vectors: None,
    };
    let mut work = answers.work;
    let vectors = wanted.map(|wanted| wanted.encode(app, &frame.passages(), &queries, &end, &mut work)).transpose()?;
    let (of_queries, bytes) = match vectors {
        Some(ReturnedVectors::Written { passages, queries }) => {
            frame.vectors = Some(passages);
            (Some(queries), None)
        }
        Some(ReturnedVectors::Bytes(bytes)) => (None, Some(bytes)),
        None => (None, None),
    };
    let mut rest = Footer::of(&work, &answers, asked.offsets, input.queued);
    rest.warnings = small_budgets(&options, &answers).map(|warning| vec![warning]);
    rest.query_vectors = of_queries.as_ref().map(|queries| queries.rows().collect());
    let pages = (0..answers.ends.len()).map(|answer| frame.page(answer));
    match bytes {
        Some(bytes) => bytes.form(&Highlights { results: pages.collect(), rest }, work),
        None if kind == LINES => lines(pages, &rest, work),
        None => Reply::json(&Highlights { results: pages.collect(), rest }, work),
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

fn lines<'call>(
    pages: impl Iterator<Item = PageHighlights<'call>>,
    rest: &Footer,
    work: Work,
) -> Result<Reply, Failure> {
    let mut chunks: Vec<Result<Bytes, std::convert::Infallible>> = Vec::new();
    let mut chunk = Vec::new();
    for page in pages {
        body::write_line(&mut chunk, &page)?;
        if chunk.len() >= CHUNK_BYTES {
            chunks.push(Ok(std::mem::take(&mut chunk).into()));
        }
    }
    body::write_line(&mut chunk, rest)?;
    chunks.push(Ok(chunk.into()));
    Ok(Reply::new(LINES, Body::from_stream(stream::iter(chunks)), work))
}

/// Looks up every offset of the answers, once for each page.
pub(super) fn places<'call>(
    sources: &[&'call str],
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
            Some(text) => (Positions::of(text, of_text), Some(Positions::of(source, of_source))),
            None => (Positions::of(source, of_text), None),
        })
        .collect()
}

/// The matches of a highlight, as rows of their columns.
fn matches_of(answers: &Answers, row: usize) -> std::ops::Range<usize> {
    let end = |row: usize| answers.matches.ends.get(row).map_or(0, |end| place(*end));
    (if row == 0 { 0 } else { end(row - 1) })..end(row)
}

pub(super) fn pair(spans: &[i64], row: usize) -> [usize; 2] {
    [place(spans[2 * row]), place(spans[2 * row + 1])]
}

/// A column's value, which counts something in memory.
pub(super) fn place(value: i64) -> usize {
    usize::try_from(value).unwrap_or_default()
}

/// Whether any of these scores is that of an answer.
pub(super) fn is_answered(scores: &[f32]) -> bool {
    scores.iter().any(|score| *score >= ANSWERED)
}

impl<'call> Frame<'call> {
    /// The text of each passage, in the order of the answers' columns.
    fn passages(&self) -> Vec<&'call str> {
        let rows = self.answers.pages.iter().enumerate();
        let text = |(row, page): (usize, &i64)| {
            let [start, end] = pair(&self.answers.spans, row);
            self.places[place(*page)].0.between(start, end)
        };
        rows.map(text).collect()
    }

    fn page(&self, answer: usize) -> PageHighlights<'_> {
        let pages = self.documents.len();
        let (query, index) = match self.pairing {
            Pairing::All => (answer / pages, answer % pages),
            Pairing::Each => (answer, answer),
            Pairing::Fused => (0, answer),
        };
        let first = if answer == 0 { 0 } else { place(self.answers.ends[answer - 1]) };
        let rows = first..place(self.answers.ends[answer]);
        let document = &self.documents[index];
        let text = self.return_texts.then(|| self.answers.texts[index].as_deref().unwrap_or(document.text()));
        PageHighlights {
            index,
            id: document.id.as_deref(),
            query: (self.listed && self.pairing != Pairing::Fused).then_some(query),
            text_hash: document.text_hash(),
            format: self.answers.formats[index],
            windows: self.answers.windows[index],
            windows_scored: self.answers.windows_scored[index],
            answered: is_answered(&self.answers.scores[rows.clone()]),
            text,
            blocks: self.return_blocks.then(|| blocks(document.text(), self.answers.formats[index], self.offsets)),
            highlights: rows.map(|row| self.highlight(index, row)).collect(),
        }
    }

    fn highlight(&self, page: usize, row: usize) -> Highlight<'_> {
        let (answers, (places, source)) = (self.answers, &self.places[page]);
        let [start, end] = pair(&answers.spans, row);
        let [first, last] = pair(&answers.contexts, row);
        let around = self.options.context > 0;
        let [names, names_end] = pair(&answers.headers, row);
        let has_header = names < names_end;
        let count = |codepoint| places.count(codepoint, self.offsets);
        let of_source = |which: usize| {
            let source = source.as_ref()?;
            Some(source.count(pair(&answers.sources, row)[which], self.offsets))
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
        let document = self.documents[page].document().filter(|document| !document.page_starts.is_empty());
        Highlight {
            text: places.between(start, end),
            start: count(start),
            end: count(end),
            score: answers.scores[row],
            cosine: answers.cosines[row],
            bm25: answers.bm25_scores[row],
            query: (self.pairing == Pairing::Fused).then(|| place(answers.queries[row])),
            before: around.then(|| places.between(first, start)),
            after: around.then(|| places.between(end, last)),
            header: has_header.then(|| places.between(names, names_end)),
            header_start: has_header.then(|| count(names)),
            marked: self.marks.as_ref().map(marked),
            matches: self.options.explain.then(|| matches_of(answers, row).map(matched).collect()),
            source_start: of_source(0),
            source_end: of_source(1),
            page_number: document.and_then(|document| document.page_number(start)),
            rectangles: document.map(|document| document.rectangles(start, places.between(start, end))),
            vector: self.vectors.as_ref().and_then(|vectors| vectors.row(row)),
        }
    }
}

impl Footer<'_> {
    fn of(work: &Work, answers: &Answers, offsets: Offsets, queued: Duration) -> Self {
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
