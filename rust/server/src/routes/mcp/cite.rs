//! The tool `cite`: what supports each sentence of a text.

use std::borrow::Cow;

use pullquote_core::engine::Work;
use pullquote_wire::citations::{CiteRequest, Cited};
use pullquote_wire::options::Format;
use pullquote_wire::request::{Document, Documents};
use pullquote_wire::result::OffsetUnit;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{parse_arguments, result};
use crate::app::App;
use crate::http::admission::Admitted;
use crate::http::failure::Failure;
use crate::routes::cite;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CiteArguments {
    #[schemars(length(min = 1), description = "the text to check, as it was written, with its markers")]
    answer: String,
    #[schemars(
        length(min = 1),
        description = "the texts, Markdown or HTML, that it is held against; [1] is the first"
    )]
    texts: Vec<String>,
}

/// The output schema of the tool.
pub(super) type Sentences = Cited<'static>;

pub(super) async fn check(admitted: &mut Admitted<App>, arguments: Value) -> Result<(Value, Work), Failure> {
    let CiteArguments { answer, texts } = parse_arguments(arguments)?;
    let documents = texts.into_iter().map(|text| Document::Text(Cow::Owned(text))).collect();
    let request = CiteRequest {
        answer: Cow::Owned(answer),
        documents: Documents::Listed(documents),
        numbers: None,
        format: Format::Auto,
        offsets: OffsetUnit::Codepoint,
    };
    let found = admitted.with_permit(move |app, input| {
        let cited = cite::cite(app, input, request)?;
        Ok((result(input, &cited)?, Work::default()))
    });
    found.await
}
