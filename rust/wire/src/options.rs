//! The options of a call of `highlights()`.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

crate::settings! {
    /// The options of a call.
    #[derive(Copy, Debug)]
    pub struct Options {
        ["which passages" for "highlight job"]

        /// Maximum number of highlights for each page; 3 if neither it nor another limit is set.
        #[serde(deserialize_with = "optional_count")]
        #[schemars(range(min = 1), extend("x-short" = "-k"))]
        top_k: Option<i64> = None,
        /// Maximum number of highlights for all pages together; the best ones.
        #[serde(deserialize_with = "optional_count")]
        #[schemars(range(min = 1), extend("x-commands" = "highlight"))]
        max_total_highlights: Option<i64> = None,
        /// Maximum number of characters for each page, over all its highlights.
        ///
        /// A budget without `top_k` selects the best sentences that fit, and joins neighbours.
        #[serde(deserialize_with = "optional_count")]
        #[schemars(range(min = 1))]
        max_chars: Option<i64> = None,
        /// Maximum number of the embedding model's tokens for each page, over all its highlights. A language model counts
        /// others: `count_tokens` takes its tokenizer, in Python. Four bytes of text count as one token or more, because
        /// the model may have one token for a very long word.
        #[serde(deserialize_with = "optional_count")]
        #[schemars(range(min = 1))]
        max_tokens: Option<i64> = None,
        /// Maximum number of characters for all pages together; the most relevant passages get them. If a page answers,
        /// those that do not get none; with `min_score=0` all compete.
        #[serde(deserialize_with = "optional_count")]
        #[schemars(range(min = 1), extend("x-commands" = "highlight"))]
        max_total_chars: Option<i64> = None,
        /// Maximum number of the embedding model's tokens for all pages together, counted as for `max_tokens`; they go to
        /// the passages that `max_total_chars` would choose.
        #[serde(deserialize_with = "optional_count")]
        #[schemars(range(min = 1), extend("x-commands" = "highlight"))]
        max_total_tokens: Option<i64> = None,
        /// Minimum score of a highlight, the probability that it answers the query, from 0 to 1; the result may be empty.
        /// `auto` is 0.2, from which `answered` is true: it leaves out what hardly answers, and keeps 95 % of the answers.
        #[schemars(schema_with = "min_score_schema", extend("x-docs" = "quality.md#scores"))]
        min_score: Option<MinScore> = None,
        /// Drop near-duplicate passages: within each `page`, across the whole `answer`, or nowhere (`none`); `auto` is
        /// `answer` when pages share a limit, else `page`. The passage that stays has them as `twins`.
        dedupe: DedupeOption = DedupeOption::Auto,
        /// `score` returns the best highlights first, `position` the order of the page.
        ///
        /// Of equal scores, the earlier passage is first.
        order: Order = Order::Score,
        /// Number of sentences to report before and after each highlight.
        ///
        /// They are in `before` and `after`.
        #[schemars(range(min = 0), extend("x-short" = "-C"))]
        context: i64 = 0,
        /// Report the words that matched, and where.
        ///
        /// They are in `matches`.
        explain: bool = false,

        ["how pages are read" for "highlight job"]

        /// Format of the pages; `auto` detects it for each page.
        ///
        /// `Highlights.formats` has what it took. Offsets in `markdown` are those of the source; those in `html` are of the
        /// text that a browser shows, and `source_start` and `source_end` those of the source.
        /// In Python also a list, with one for each page.
        #[schemars(extend("x-docs" = "how-it-works.md#formats", "x-python" = "Format | Sequence[Format]"))]
        format: Format = Format::Auto,
        /// Unit of windows: `sentence`, `word`, or `token` of the model.
        unit: Unit = Unit::Sentence,
        /// Length of a window, in units.
        ///
        /// A passage spans at most `2 * highlight_length - 1` units, without headings, except blocks that stay whole.
        #[serde(deserialize_with = "count")]
        #[schemars(range(min = 1))]
        highlight_length: i64 = 3,
        /// Distance between the starts of two windows, in units; above `highlight_length` only with `allow_gaps`.
        ///
        /// The windows of a page may repeat its text a thousand times, or have 16 million units together.
        #[serde(deserialize_with = "count")]
        #[schemars(range(min = 1), extend(
            "x-help" = "Distance between the starts of two windows, in units; above --highlight-length only \
                        with --allow-gaps. (default: 1)"
        ))]
        step_size: i64 = 1,
        /// Allow a `step_size` above `highlight_length`, which skips text.
        #[schemars(extend(
            "x-commands" = "highlight", "x-help" = "Allow a --step-size above --highlight-length, which skips text."
        ))]
        allow_gaps: bool = false,
        /// Rank sentences and grow passages from them; otherwise return the best windows as they were cut.
        ///
        /// Units other than sentences always return windows.
        #[schemars(extend("x-commands" = "highlight"))]
        expand: bool = true,

        ["how passages are scored" for "highlight job"]

        /// Return one answer to all queries: each sentence has the relevance of the query that it answers best.
        #[schemars(extend("x-commands" = "highlight"))]
        fuse: bool = false,
        /// `all` compares each query with every page, `each` compares query i with page i; `auto` is `all`, and refuses
        /// several queries with several pages.
        ///
        /// With `all`, `result[q, p]` is query `q` on page `p`. Equal numbers of queries and pages may be a coincidence, so
        /// `auto` does not guess.
        #[schemars(extend("x-commands" = ""))]
        pairing: PairingOption = PairingOption::Auto,
        /// Weight of words (BM25 and coverage) against meaning (cosine), from 0 to 1; `auto` is 0.5, more for scripts that
        /// the model's tokenizer does not know, less if the pages have few of the query's words.
        #[serde(deserialize_with = "weight", serialize_with = "weight_or_auto")]
        #[schemars(schema_with = "weight_schema", extend("x-docs" = "how-it-works.md#scores"))]
        lexical_weight: Option<f64> = None,
        /// Share of the windows to encode: `full`, all; `auto`, those that could be among the best; `fast`, at most 64 for
        /// each page beyond those that the words select; `instant`, none: passages come from words and from vectors of
        /// single tokens.
        ///
        /// `Highlights.windows_scored` counts them. `auto` encodes a small sample too, and nearly all windows of a page of
        /// up to 1,024 that words do not tell apart, for example because it is in another language. `instant` is for text
        /// that comes faster than it can be encoded. The first such call makes the vectors of tokens, and keeps them in the
        /// model's folder. Its scores are estimates.
        effort: Effort = Effort::Auto,
        /// Maximum number of passages that the reranker or the pruner reads for a query, the best of all its pages; 0 for none.
        ///
        /// It is without effect where there is neither. Of each passage a `reranker` reads 512 tokens, the query's included; passages
        /// beyond these follow after them. What a `pruner` has not read is no passage.
        #[schemars(range(min = 0), extend("x-docs" = "models.md#rerankers"))]
        rerank_top: i64 = 32,

        ["how the call runs" for ""]

        /// Seconds after which the call fails; no limit by default.
        ///
        /// Its work stops, and the call raises `DeadlineExceededError`. Over HTTP it is the header `Request-Timeout-Ms`.
        #[schemars(extend(
            "exclusiveMinimum" = 0, "x-commands" = "highlight cite embed",
            "x-help" = "Seconds for each call, or with --server for each request (default: none, or 60 with --server)."
        ))]
        timeout: Option<f64> = None,
        /// Urgency of the call's work on the devices; lower goes first.
        ///
        /// As in vLLM. One batch in eight goes to the call that has waited longest. Over HTTP it is the header
        /// `Request-Priority`.
        priority: i32 = 0,
    }
}

/// The unit of windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Unit {
    /// A sentence, heading, list item, line of code or table row.
    #[default]
    Sentence,
    /// A word with attached punctuation.
    Word,
    /// A token of the model's tokenizer.
    Token,
}

/// The format of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Format {
    /// Text without markup: its layout is guessed.
    Text,
    /// `CommonMark` with tables, strikethrough, footnotes and front matter. Its text is the source itself.
    Markdown,
    /// HTML as browsers read it. Its text is what they show to a reader.
    Html,
    /// One of the others, found out by looking at the start of the source.
    #[default]
    Auto,
}

impl Format {
    /// Its name in options and answers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Markdown => "markdown",
            Self::Html => "html",
            Self::Auto => "auto",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A pairing of queries with pages, as a caller names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum PairingOption {
    #[default]
    Auto,
    Each,
    All,
}

/// The order of a page's highlights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Order {
    /// The best first.
    #[default]
    Score,
    /// As in the page.
    Position,
}

/// Where repetitions are dropped, as a caller names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum DedupeOption {
    #[default]
    Auto,
    Page,
    Answer,
    None,
}

/// How many windows of the pages are encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Effort {
    /// All windows.
    Full,
    /// The windows that words select, and at most 64 others of each page.
    Fast,
    /// The windows that words select, and the others that could be better.
    #[default]
    Auto,
    /// None: cosines are predicted from static vectors of the tokens.
    Instant,
}

/// The least score of a highlight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MinScore {
    /// What the engine counts as an answer.
    Auto,
    Score(f64),
}

fn weight_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"anyOf": [{"const": "auto"}, {"type": "number", "minimum": 0, "maximum": 1}]})
}

fn min_score_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"anyOf": [{"const": "auto"}, {"type": "number"}, {"type": "null"}]})
}

/// `"auto"` as `None`, or a number; what is expected.
struct NumberOrAuto(&'static str);

impl Visitor<'_> for NumberOrAuto {
    type Value = Option<f64>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        if text == "auto" { Ok(None) } else { Err(E::invalid_value(de::Unexpected::Str(text), &self)) }
    }

    fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
        Ok(Some(number))
    }

    #[expect(clippy::cast_precision_loss, reason = "only 0 and 1 are allowed, and checked later")]
    fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
        Ok(Some(number as f64))
    }

    #[expect(clippy::cast_precision_loss, reason = "only 0 and 1 are allowed, and checked later")]
    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Some(number as f64))
    }
}

/// A number that counts something; what uses it checks its range.
struct Count(i64);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_i64(CountVisitor)
    }
}

struct CountVisitor;

impl Visitor<'_> for CountVisitor {
    type Value = Count;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number from 1")
    }

    fn visit_i64<E>(self, number: i64) -> Result<Count, E> {
        Ok(Count(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Count, E> {
        Ok(Count(i64::try_from(number).unwrap_or(i64::MAX)))
    }
}

fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    Count::deserialize(deserializer).map(|Count(number)| number)
}

fn optional_count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    Ok(Option::<Count>::deserialize(deserializer)?.map(|Count(number)| number))
}

fn weight<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    deserializer.deserialize_any(NumberOrAuto("\"auto\" or a number from 0.0 (meaning alone) to 1.0 (words alone)"))
}

impl<'de> Deserialize<'de> for MinScore {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let score = deserializer.deserialize_any(NumberOrAuto("\"auto\" or a number from 0 to 1"))?;
        Ok(score.map_or(Self::Auto, Self::Score))
    }
}

impl Serialize for MinScore {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Auto => serializer.serialize_str("auto"),
            Self::Score(score) => serializer.serialize_f64(*score),
        }
    }
}

#[expect(clippy::ref_option, reason = "what serde calls")]
fn weight_or_auto<S: Serializer>(weight: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    match weight {
        None => serializer.serialize_str("auto"),
        Some(weight) => serializer.serialize_f64(*weight),
    }
}
