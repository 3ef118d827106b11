//! `POST /predictions/semantic_highlighter`: `OpenSearch`'s semantic highlighter, as its connectors call an external
//! model.
//!
//! A connector's template sends all of `question`, `context` and `inputs`, with empty strings or `null` for those that
//! the search does not have, and `inputs` sometimes as a string of JSON. `OpenSearch` refuses highlights that are not
//! in order, overlap, begin at the same place, are empty or lie outside the text, and counts in units of UTF-16, as
//! Java does.

use pullquote_core::engine::options::{Options, seconds};
use pullquote_core::engine::{Answers, Pairing, Question, Request, pair};
use pullquote_core::text::positions::Positions;
use pullquote_wire::result::OffsetUnit;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::app::App;
use crate::http::body::{self, of_value};
use crate::http::failure::{Cause, Failure, refused};
use crate::http::input::Input;
use crate::http::reply::Reply;
use crate::routes::highlights::failure::NATIVE;
use crate::routes::item_limits::{check_count, check_lengths, check_query};
use crate::routes::route::{Api, Route};
use crate::routes::schema_placeholders::{MAX_DOCUMENT_BYTES, MAX_DOCUMENTS};
use crate::routes::schemas::Schemas;

const API: Api = Api { tag: "opensearch", errors: &NATIVE };

pub(super) fn routes(schemas: &mut Schemas) -> Vec<Route> {
    let pair = json!({"question": "How is bread made?", "context": "The moon is white. Bread is baked from flour."});
    let path = "/predictions/semantic_highlighter";
    vec![
        API.compute(path, semantic_highlights, "semanticHighlighter", "Highlight documents for OpenSearch")
            .described(
                "What a connector of OpenSearch's semantic highlighter sends. One document in `question` and `context` has a \
                 list of highlights, `inputs` a list for each. Highlights are in order and do not overlap; offsets are units \
                 of UTF-16. Without options, a document has at most three highlights.",
            )
            .reads(schemas.request::<SemanticHighlighterRequest>(), pair)
            .writes_json("The highlights.", schemas.response::<SemanticHighlights>()),
    ]
}

/// A question and the text of one document, or a list of such.
#[derive(Deserialize, JsonSchema)]
#[serde(expecting = "an object with a question and a context, or inputs")]
#[schemars(deny_unknown_fields)]
pub(crate) struct SemanticHighlighterRequest {
    /// Empty or absent with `inputs`.
    question: Option<String>,
    /// The text of one document. Empty or absent with `inputs`.
    #[schemars(length(max = MAX_DOCUMENT_BYTES))]
    context: Option<String>,
    /// Many documents. An empty list, an empty string and null stand for none.
    inputs: Option<Inputs>,
    /// Options of `/highlights`, for the template of a connector.
    #[serde(flatten)]
    #[schemars(with = "Options")]
    options: Map<String, Value>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a list of objects with a question and a context, or such a list as a string of JSON")]
#[schemars(inline)]
enum Inputs {
    Listed(#[schemars(length(max = MAX_DOCUMENTS))] Vec<QuestionAndContext>),
    Written(String),
}

#[derive(Deserialize, JsonSchema)]
#[schemars(inline)]
struct QuestionAndContext {
    question: String,
    #[schemars(length(max = MAX_DOCUMENT_BYTES))]
    context: String,
}

/// The highlights of one document, or with `inputs` those of each.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SemanticHighlights {
    highlights: OneOrMany,
}

#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
enum OneOrMany {
    One(Vec<Utf16Span>),
    Many(Vec<Vec<Utf16Span>>),
}

/// A part of a context, in units of UTF-16.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct Utf16Span {
    start: usize,
    end: usize,
}

fn semantic_highlights(app: &App, input: &Input) -> Result<Reply, Failure> {
    let fields: SemanticHighlighterRequest = input.parse()?;
    let options: Options = body::read_options(fields.options)?;
    let listed = inputs(fields.inputs)?;
    let is_list = !listed.is_empty();
    let pairs = if is_list {
        listed
    } else {
        vec![QuestionAndContext {
            question: fields.question.unwrap_or_default(),
            context: fields.context.unwrap_or_default(),
        }]
    };
    let field = if is_list { "inputs" } else { "context" };
    check_count(pairs.len(), field, app.settings.max_documents)?;
    check_lengths(pairs.iter().map(|pair| pair.context.as_str()), field, app.settings.max_document_bytes)?;
    if pairs.iter().any(|pair| pair.question.trim().is_empty()) {
        return refused("question", "a question is empty; it needs at least one character that is not white space");
    }
    for pair in &pairs {
        check_query(&pair.question, "question", app.settings.max_query_bytes)?;
    }
    let pages: Vec<&str> = pairs.iter().map(|pair| pair.context.as_str()).collect();
    let (queries, pairing) = queries(&pairs);
    let request = Request { queries, pages, formats: vec![options.format], titles: Vec::new(), pairing };
    let end = input.end().within(options.timeout.map(seconds).transpose().map_err(of_value)?);
    let end = if options.priority == 0 { end } else { end.with_priority(options.priority) };
    let call = end.call();
    let question = Question::new(&options).map_err(of_value)?;
    let answers = app.engine.wait(&call, app.engine.highlights(&request, &question, &call))?;
    let mut spans: Vec<Vec<Utf16Span>> =
        request.pages.iter().enumerate().map(|(page, text)| spans(&answers, page, text)).collect();
    let highlights = if is_list { OneOrMany::Many(spans) } else { OneOrMany::One(spans.pop().unwrap_or_default()) };
    Reply::json(input, &SemanticHighlights { highlights }, answers.work)
}

/// The documents of a list, which a connector may send as a string.
fn inputs(inputs: Option<Inputs>) -> Result<Vec<QuestionAndContext>, Failure> {
    match inputs {
        None => Ok(Vec::new()),
        Some(Inputs::Listed(pairs)) => Ok(pairs),
        Some(Inputs::Written(text)) if text.trim().is_empty() => Ok(Vec::new()),
        Some(Inputs::Written(text)) => serde_json::from_str(&text)
            .map_err(|error| Failure::of_field(Cause::Unprocessable, "inputs", format!("the string of JSON: {error}"))),
    }
}

/// The question of all documents, or the question of each.
fn queries(pairs: &[QuestionAndContext]) -> (Vec<&str>, Pairing) {
    let first = &pairs[0].question;
    if pairs.iter().all(|pair| pair.question == *first) {
        (vec![first], Pairing::All)
    } else {
        (pairs.iter().map(|pair| pair.question.as_str()).collect(), Pairing::Each)
    }
}

/// The highlights of a document as `OpenSearch` accepts them.
fn spans(answers: &Answers, page: usize, text: &str) -> Vec<Utf16Span> {
    let mut found: Vec<[usize; 2]> = answers.rows_of(page).map(|row| pair(&answers.sources, row)).collect();
    found.sort_unstable();
    let places = Positions::of(text, found.iter().flatten().copied().collect());
    let mut last = 0;
    let mut made = Vec::new();
    for [start, end] in found {
        // Sources of HTML may touch or overlap where passages do not.
        let start = start.max(last);
        if start >= end {
            continue;
        }
        last = end;
        made.push(Utf16Span {
            start: places.count(start, OffsetUnit::Utf16),
            end: places.count(end, OffsetUnit::Utf16),
        });
    }
    made
}
