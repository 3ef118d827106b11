//! The result of `highlights`: over HTTP, and the fields that every other form of it has.
//!
//! Python's `Highlight`, its dictionaries, tables of Arrow, pandas and Polars, jobs and the documentation are made or generated
//! from [`Highlight`] and [`Origin`]; `tests/python/integration/test_result_forms.py` compares them all. Fields are optional
//! where HTTP leaves them out; the other forms then have an empty text or list, or null.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Fields of [`Highlight`] that only HTTP has, because only its requests have their options.
pub const HTTP_ONLY: [&str; 2] = ["marked", "vector"];

/// Fields of [`Highlight`] that are always there in other forms: only HTTP leaves them out where they say nothing new.
pub const IMPLIED: [&str; 3] = ["query", "source_start", "source_end"];

/// The pattern of `text_hash`.
pub const HASH_PATTERN: &str = "^sha256:[0-9a-f]{64}$";

/// Unit of offsets: code points as in Python, UTF-16 units as in JavaScript, or bytes of UTF-8.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum OffsetUnit {
    /// Unicode code points.
    #[default]
    Codepoint,
    /// Units of UTF-16.
    Utf16,
    /// Bytes of UTF-8.
    Byte,
}

/// The highlights of all pages.
// A server makes the lists while it writes them.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(rename = "Highlights")]
pub struct Highlights<'page, Results = Vec<PageHighlights<'page>>> {
    /// Query by query, and page by page.
    pub results: Results,
    #[serde(flatten)]
    pub rest: Footer<'page>,
}

/// The highlights of one page, for one query or for all of them.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(rename = "PageHighlights")]
pub struct PageHighlights<'page, Listed = Vec<Highlight<'page>>> {
    /// Index of the page among the request's documents.
    pub index: usize,
    /// The document's id, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<Cow<'page, str>>,
    /// Index of the query, for a list of queries with an answer each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<usize>,
    /// Why the page could not be read: no document is stored under its id. The other fields are those of an empty page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<PageError<'page>>,
    /// SHA-256 of the document's UTF-8.
    #[schemars(regex(pattern = HASH_PATTERN))]
    pub text_hash: Cow<'page, str>,
    /// Format that the document was read as.
    #[schemars(extend("enum" = ["text", "markdown", "html"]))]
    pub format: Cow<'page, str>,
    /// Number of the page's windows.
    #[schemars(range(min = 0))]
    pub windows: i64,
    /// Number of windows that were compared with a query.
    #[schemars(range(min = 0))]
    pub windows_scored: i64,
    /// Whether any of its highlights probably answers the query.
    pub answered: bool,
    /// With `return_texts`: the text that offsets refer to. Where each query has its own answer for the page, only the
    /// first has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<Cow<'page, str>>,
    /// With `return_blocks`: the page's blocks in their order; none of plain text. In the same answer as `text`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocks: Option<Vec<PageBlock<'page>>>,
    pub highlights: Listed,
}

/// Why a page could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct PageError<'page> {
    /// For programs to compare: `not_found`.
    pub kind: Cow<'page, str>,
    pub message: Cow<'page, str>,
}

/// A passage of a page, word for word.
#[derive(Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct Highlight<'page> {
    /// The page's text from `start` to `end`.
    pub text: Cow<'page, str>,
    /// Start in the page, in the unit of `offsets`.
    pub start: usize,
    /// End in the page.
    pub end: usize,
    /// Probability that it answers the query, from 0 to 1; comparable across pages and requests.
    pub score: f32,
    /// Similarity of meaning, from -1 to 1.
    pub cosine: f32,
    /// BM25 score of the words.
    pub bm25: f32,
    /// With `fuse`: index of the query that the highlight answers best.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<usize>,
    /// With `context`: the sentences before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Cow<'page, str>>,
    /// With `context`: the sentences after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Cow<'page, str>>,
    /// For a passage below the header of a table: the names of the columns, a part of the page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header: Option<Cow<'page, str>>,
    /// Where the header starts in the page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header_start: Option<usize>,
    /// What names the passage's subject, outermost first: headings, the items around a nested one, a term, the question
    /// that it answers, the line that introduces a list or code, a caption, the speaker and time of its turn or subtitle,
    /// the header of its table. None is a part of the passage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub breadcrumbs: Option<Vec<Breadcrumb<'page>>>,
    /// With `pre_tags` or `post_tags`: the text with its matching words between them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub marked: Option<String>,
    /// With `explain`: the words that matched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matches: Option<Vec<Match<'page>>>,
    /// For HTML: the start in the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_start: Option<usize>,
    /// For HTML: the end in the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_end: Option<usize>,
    /// For a PDF: number of the page on which it begins, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_number: Option<usize>,
    /// For a PDF: a rectangle for each of its lines, in points (1/72 inch) from the page's lower left corner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rectangles: Option<Vec<Rectangle>>,
    /// Passages that `dedupe` left out because they nearly repeat this one; at most a hundred.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub twins: Option<Vec<Twin>>,
    /// With `return_vectors`: its vector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vector: Option<Vector<'page>>,
}

impl Highlight<'_> {
    /// Its fields that are parts of the page, and where they start.
    pub fn parts(&self) -> Vec<(usize, &str)> {
        let before = self.before.as_deref().unwrap_or_default();
        vec![
            (self.start, self.text.as_ref()),
            (self.start.saturating_sub(before.chars().count()), before),
            (self.end, self.after.as_deref().unwrap_or_default()),
            (self.header_start.unwrap_or_default(), self.header.as_deref().unwrap_or_default()),
        ]
        .into_iter()
        .chain(self.breadcrumbs.iter().flatten().map(|one| (one.start, one.text.as_ref())))
        .collect()
    }
}

/// What a highlight says of itself outside of its page's list: in Python and in tables.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
pub struct Origin {
    /// Index of the page.
    pub page: usize,
    /// Index of the query that it answers.
    pub query: usize,
    /// The page's id, if it has one.
    pub id: Option<serde_json::Value>,
    /// `start` in bytes of UTF-8, if the page is at hand.
    pub start_byte: Option<usize>,
    /// `end` in bytes of UTF-8, if the page is at hand.
    pub end_byte: Option<usize>,
}

/// A heading or a table's header above a passage: `page[start:end] == text`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct Breadcrumb<'page> {
    /// The page's text from `start` to `end`.
    pub text: Cow<'page, str>,
    /// Start in the page, in the unit of `offsets`.
    pub start: usize,
    /// End in the page.
    pub end: usize,
}

/// A word of a page that matches a word of a query: `page[start:end]` has the same stem as `word`.
#[derive(Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct Match<'page> {
    /// A word of the query.
    pub word: Cow<'page, str>,
    /// Where the word starts in the page.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
}

/// A part of a line on a page of a PDF, in points (1/72 inch) from the page's lower left corner.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct Rectangle {
    /// Number of the page, from 1.
    pub page: usize,
    pub left: f32,
    pub bottom: f32,
    pub right: f32,
    pub top: f32,
}

/// A passage that nearly repeats another one, and its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct Twin {
    /// Index of its page, which may be another one.
    pub page: usize,
    /// Start in that page, in the unit of `offsets`.
    pub start: usize,
    /// End in that page.
    pub end: usize,
}

/// A vector: numbers, or base64 of their bytes.
#[derive(Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub enum Vector<'vectors> {
    Numbers(Cow<'vectors, [f32]>),
    Base64(Cow<'vectors, str>),
}

/// A heading, paragraph, list item, row of a table, line of code, or rule.
#[derive(Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct PageBlock<'page> {
    #[schemars(extend("enum" = ["heading", "prose", "item", "row", "code", "rule"]))]
    pub kind: Cow<'page, str>,
    /// Start in the page, in the unit of `offsets`.
    pub start: usize,
    /// End in the page.
    pub end: usize,
}

/// The fields of the whole answer.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
pub struct Footer<'page> {
    /// Whether any highlight of any page probably answers its query: its score is at least that of `min_score: "auto"`.
    pub answered: bool,
    /// Why nothing answers, such as `no passage reaches min_score=0.5`; not there if something does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    pub offsets: OffsetUnit,
    pub usage: HighlightsUsage,
    pub timings: Timings,
    /// Options that probably do not have the intended effect, and files whose encoding is a guess.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warnings: Option<Vec<String>>,
    /// With `return_vectors`: the vector of each query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query_vectors: Option<Vec<Vector<'page>>>,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
pub struct HighlightsUsage {
    /// Windows of all pages.
    pub windows: usize,
    /// Windows that were compared with a query.
    pub windows_scored: usize,
    /// Texts that were encoded for this request.
    pub encoded: usize,
    /// Tokens of these texts.
    pub tokens: usize,
    /// Texts that were longer than the model's limit, and cut.
    pub truncated: usize,
}

/// Seconds of each stage.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
pub struct Timings {
    /// Waiting for a turn.
    #[schemars(range(min = 0))]
    pub queue: f64,
    /// Cutting pages into windows.
    #[schemars(range(min = 0))]
    pub cutting: f64,
    #[schemars(range(min = 0))]
    pub tokenizing: f64,
    /// Waiting for vectors.
    #[schemars(range(min = 0))]
    pub waiting: f64,
    /// Scoring and selecting passages.
    #[schemars(range(min = 0))]
    pub ranking: f64,
}
