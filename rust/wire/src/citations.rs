//! What supports each sentence of a written text: the request and the answer of `cite`.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::options::Format;
use crate::request::Documents;
use crate::result::{Breadcrumb, OffsetUnit};

/// A written text, and the pages that it is held against.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an object with an answer and documents")]
pub struct CiteRequest<'page> {
    /// The text to check, in Markdown.
    #[schemars(regex(pattern = r"\S"), extend("maxLength" = "{max_document_bytes}"))]
    pub answer: Cow<'page, str>,
    pub documents: Documents<'page>,
    /// For the numbers of the answer's markers, from `[1]` on, the index of the page that each means. By default `[1]` is the
    /// first document. The number of a document that is not there is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numbers: Option<Vec<usize>>,
    /// Format of the documents.
    #[serde(default)]
    pub format: Format,
    /// Unit of the offsets of the answer.
    #[serde(default)]
    pub offsets: OffsetUnit,
}

/// A text held against pages, sentence by sentence.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[schemars(rename = "Cited")]
pub struct Cited<'page> {
    /// Whether every claim has full support.
    pub supported: bool,
    /// In the order of the text.
    pub sentences: Vec<CitedSentence<'page>>,
    /// Unit of offsets.
    pub offsets: OffsetUnit,
}

/// A sentence, list item or row of a table.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct CitedSentence<'page> {
    /// The answer's text from `start` to `end`.
    pub text: Cow<'page, str>,
    /// Start in the answer, in the unit of `offsets`.
    pub start: usize,
    /// End in the answer.
    pub end: usize,
    pub support: Support,
    /// Probability that the passages together say it, from 0 to 1.
    pub score: f32,
    /// What supports it, the best first; the nearest passage says less than the sentence if `support` is `partial`.
    pub passages: Vec<CitedPassage<'page>>,
    /// What the sentence has and none of its passages; if there is no support, all numbers, dates, names and quoted words that
    /// the nearest passage lacks.
    pub missing: Vec<MissingFact<'page>>,
    /// Its markers of sources, each label of `[1, 2]` by itself.
    pub markers: Vec<SourceMarker<'page>>,
}

/// Whether passages support a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Support {
    /// They say it, with all of its numbers, dates, names and quoted words.
    Full,
    /// They say a part of it, or lack what `missing` names.
    Partial,
    /// No passage says it.
    None,
    /// It claims nothing: a heading, code, a question, a line that introduces others.
    NoClaim,
}

/// A passage of a page, word for word.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct CitedPassage<'page> {
    /// The page's text from `start` to `end`.
    pub text: Cow<'page, str>,
    /// Start in the page, in the unit of `offsets`.
    pub start: usize,
    /// End in the page.
    pub end: usize,
    /// Index of the page among the documents.
    pub page: usize,
    /// The page's id, if it has one.
    pub id: Option<Cow<'page, str>>,
    /// Probability that the passage alone says the sentence, from 0 to 1.
    pub score: f32,
    /// What names the passage's subject, outermost first.
    pub breadcrumbs: Vec<Breadcrumb<'page>>,
    /// Start in the page's source, which differs for HTML.
    pub source_start: usize,
    /// End in the page's source.
    pub source_end: usize,
}

/// A part of a sentence that its passages do not have.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct MissingFact<'page> {
    pub kind: FactKind,
    /// The answer's text from `start` to `end`.
    pub text: Cow<'page, str>,
    /// Start in the answer, in the unit of `offsets`.
    pub start: usize,
    /// End in the answer.
    pub end: usize,
}

/// What a sentence names; numbers and dates are compared by value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum FactKind {
    Number,
    Date,
    Name,
    /// Words in quotation marks.
    Quote,
    /// The sentence denies what the passage says, or says what the passage denies.
    Negation,
}

/// A marker of a source, such as `[1]`, `[doc-3]` or a link.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct SourceMarker<'page> {
    /// The whole marker: the answer's text from `start` to `end`.
    pub text: Cow<'page, str>,
    /// Start in the answer, in the unit of `offsets`.
    pub start: usize,
    /// End in the answer.
    pub end: usize,
    /// The number, id or address that it names.
    pub label: Cow<'page, str>,
    /// Index of the page that it means, if there is one.
    pub page: Option<usize>,
    pub status: MarkerStatus,
}

/// Whether a marker names what supports its sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum MarkerStatus {
    /// A passage of its page supports the sentence.
    Supported,
    /// A passage of its page supports a part of it, or lacks some of its facts.
    Partial,
    /// Only passages of other pages support it.
    OtherPage,
    /// No passage does.
    Unsupported,
    /// There is no such source.
    Unknown,
    /// Its sentence claims nothing.
    NoClaim,
}
