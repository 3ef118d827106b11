//! Where a quote stands in a page: the request and the answer of `locate`.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::result::OffsetUnit;

/// A page and a text that may be quoted from it.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(expecting = "an object with a page and a quote")]
pub struct LocateRequest<'page> {
    /// Plain text, Markdown or HTML.
    #[schemars(extend("maxLength" = "{max_document_bytes}"))]
    pub page: Cow<'page, str>,
    /// The text to find, in any form; at most 20,000 letters and digits.
    #[schemars(length(min = 1), extend("maxLength" = "{max_document_bytes}"))]
    pub quote: Cow<'page, str>,
    /// Unit of the offsets of the answer.
    #[serde(default)]
    pub offsets: OffsetUnit,
}

/// Whether a quote stands in a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum QuoteStatus {
    /// Word for word; only the writing differs, such as white space, case, quotation marks, dashes or markup.
    Exact,
    /// With misspelt words, or with a few words more or less.
    Near,
    /// Not at all, or with another word, number or negation, which `nearest` then shows.
    None,
}

impl QuoteStatus {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Near => "near",
            Self::None => "none",
        }
    }
}

/// The places of a quote in a page.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct Located<'page> {
    pub status: QuoteStatus,
    /// The best first, then in the order of the page; all exact ones, or all near ones if none is exact.
    pub places: Vec<Place<'page>>,
    /// If there is no place: the passage that is most like the quote but says something else, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nearest: Option<Place<'page>>,
    /// Unit of offsets.
    pub offsets: OffsetUnit,
}

/// A passage of a page that a quote was compared with.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct Place<'page> {
    /// The page's text from `start` to `end`.
    pub text: Cow<'page, str>,
    /// Start in the page, in the unit of `offsets`.
    pub start: usize,
    /// End in the page.
    pub end: usize,
    /// Letters and digits to insert, delete or replace in the quote to get those of the place.
    pub distance: usize,
    /// One minus `distance` divided by the letters and digits of the longer of both: from 0 to 1.
    pub similarity: f32,
    /// What differs, in the order of the page; none for an exact place.
    pub differences: Vec<Difference<'page>>,
    /// Of a quote with an ellipsis: where each of its parts stands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PlacePart>,
}

/// Where a part of a quote stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct PlacePart {
    /// Start in the page, in the unit of `offsets`.
    pub start: usize,
    /// End in the page.
    pub end: usize,
}

/// What a quote has in place of a part of the page.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct Difference<'page> {
    pub kind: DifferenceKind,
    /// The words of the quote; empty if it lacks those of the page.
    pub quote: Cow<'page, str>,
    /// The words of the page; empty if the quote has words more.
    pub page: Cow<'page, str>,
    /// Where the words stand in the page, in the unit of `offsets`.
    pub start: usize,
    /// Where they end.
    pub end: usize,
}

/// How a quote differs from a page. The last three say something else, so that a quote with one is not found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum DifferenceKind {
    /// A word is misspelt.
    Spelling,
    /// The quote has words that the page does not have.
    Added,
    /// The quote lacks words of the page.
    Missing,
    /// The quote has another word, or another name.
    Replaced,
    /// The quote has another number, or lacks one.
    Number,
    /// One of both denies what the other one says.
    Negation,
}

impl DifferenceKind {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Spelling => "spelling",
            Self::Added => "added",
            Self::Missing => "missing",
            Self::Replaced => "replaced",
            Self::Number => "number",
            Self::Negation => "negation",
        }
    }

    /// Whether the quote still says what the page says.
    pub const fn is_tolerated(self) -> bool {
        matches!(self, Self::Spelling | Self::Added | Self::Missing)
    }
}
